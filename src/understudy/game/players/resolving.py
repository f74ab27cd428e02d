"""Query players that measure pairs in bins first, and the strongest of them again, finer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from understudy.game.fitting.resolution import Resolution
from understudy.game.loop import Finding, Model
from understudy.game.players.measuring import WorstMarginal
from understudy.game.players.rows import RowModel
from understudy.privacy import Measure, Measurement, Meter
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal
from understudy.schema import Schema

# of a table measured again, by its rank: the r-th strongest gets 1 / sqrt(r) of what the first gets
SCALE = 1_000


class InBins:
    """MEASURE every table once, in bins of about so many sigmas each.

    Args:
        tables: whole ones, which bins are made of.
        rho: for all of them together.
        sigmas: rows of a cell on average, in noises.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        tables: Sequence[Marginal],
        *,
        rho: Fraction,
        sigmas: float,
    ) -> None:
        self._meter, self._schema, self._rho, self._sigmas = meter, schema, rho, sigmas
        self.tables = list(tables)
        self.measured: list[Measurement] = []

    def point(self, model: Model) -> Sequence[Finding]:
        resolution = resolution_of(model, self._schema, self._meter)
        l2 = sum(table.l2_squared(self._meter.neighbours) for table in self.tables)
        cells = resolution.n / (self._sigmas * math.sqrt(l2 / (2 * float(self._rho))))
        batches = [resolution.table(table, cells) for table in self.tables]
        self.measured = self._meter.ask(Measure(batches=batches, rho=self._rho))
        return self.measured


class Strongest:
    """MEASURE again, in finer bins, the tables that stand out in what was released of them.

    How much each gets follows from its rank alone, so that all sigmas are public beforehand. How
    fine its bins are follows from what rows say of it.

    Args:
        first: measured the same tables before.
        count: how many are measured again.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        first: InBins,
        *,
        count: int,
        rho: Fraction,
        sigmas: float,
    ) -> None:
        self._meter, self._schema, self._first = meter, schema, first
        self._count, self._rho, self._sigmas = count, rho, sigmas

    def point(self, model: Model) -> Sequence[Finding]:
        resolution = resolution_of(model, self._schema, self._meter)
        strengths = [resolution.strength(one) for one in self._first.measured]
        ranked = sorted(range(len(strengths)), key=lambda i: -strengths[i])[: self._count]
        weights = rank_weights(len(ranked))
        batches = []
        for i, weight in zip(ranked, weights, strict=True):
            table = self._first.tables[i]
            rho = float(self._rho) * weight / sum(weights)
            sigma = math.sqrt(table.l2_squared(self._meter.neighbours) / (2 * rho))
            cells = resolution.n / (self._sigmas * sigma)
            batches.append(resolution.dependent_table(table, cells, model.shares))
        return self._meter.ask(Measure(batches=batches, rho=self._rho, weights=weights))


class WorstInBins:
    """SELECT the table that rows get most wrong in bins, then MEASURE it in them; bins are chosen
    once, from the columns as they were released first.

    Args:
        tables: whole ones, which bins are made of.
        select: for choosing one.
        measure: for measuring it.
        sigmas: rows of a cell on average, in noises.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        tables: Sequence[Marginal],
        *,
        select: Fraction,
        measure: Fraction,
        sigmas: float,
    ) -> None:
        self._meter, self._schema, self._tables = meter, schema, list(tables)
        self._select, self._measure, self._sigmas = select, measure, sigmas
        self._worst: WorstMarginal | None = None

    def point(self, model: Model) -> Sequence[Finding]:
        if self._worst is None:
            self._worst = WorstMarginal(
                self._meter, self._in_bins(model), select=self._select, measure=self._measure
            )
        return self._worst.point(model)

    def _in_bins(self, model: Model) -> list[Marginal | BinnedMarginal]:
        resolution = resolution_of(model, self._schema, self._meter)
        l2 = self._tables[0].l2_squared(self._meter.neighbours)
        cells = resolution.n / (self._sigmas * math.sqrt(l2 / (2 * float(self._measure))))
        return [resolution.table(table, cells) for table in self._tables]


def rank_weights(count: int) -> list[int]:
    """Public shares of tables that are measured again, strongest first."""
    return [round(SCALE / math.sqrt(rank)) for rank in range(1, count + 1)]


def resolution_of(model: Model, schema: Schema, meter: Meter) -> Resolution:
    """What rows fitted so far say of single columns."""
    assert isinstance(model, RowModel)
    return Resolution(schema, model.columns, meter.rows)
