"""Query players that measure pairs in bins first, and the strongest of them again, finer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from understudy.game.fitting.resolution import Resolution
from understudy.game.loop import Finding, Model, QueryPlayer
from understudy.game.players.measuring import EMPTY_CELLS, WorstMarginal
from understudy.game.players.rows import RowModel
from understudy.privacy import Measure, Measurement, Meter
from understudy.privacy.requests import as_shares
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal
from understudy.schema import Schema

# What is left after the single columns goes to all pairs in bins, to the strongest in finer ones, and
# the rest to repair: where noise is as large a share of the rows as NOISY, and as small as CALM
# (docs/arp-constants.md, "Several resolutions"). Between the two, in between by its logarithm.
NOISY, CALM = 0.0018, 0.0005
COARSE = (Fraction(30, 100), Fraction(45, 100))
FINER = (Fraction(47, 100), Fraction(25, 100))
# rows of an average cell, in noises; more where finer bins come in two steps
SIGMAS_A_BIN, SIGMAS_OF_FEW_PAIRS = 18.0, 50.0
SIGMAS_A_FINER_BIN = (Fraction(10), Fraction(5))
# pairs chosen for their worst cell, which bins may have cut through, are measured whole: so often,
# so many each time; of many pairs one in PAIRS_A_REPAIR, of few at most one in FEWEST_A_REPAIR
REPAIRS, REPAIRED = 2, (Fraction(3), Fraction(14))
PAIRS_A_REPAIR, FEWEST_A_REPAIR = 120, 4
AGAIN, FEWEST_AGAIN = 0.5, 3  # of all pairs, measured again; at least so many
# up to so many pairs, these are measured in two steps: the second has bins from what the first found
FEW_PAIRS = 20
# shares of a pair with two ordered columns, and of others: trends and correlations are of the former
BOTH_ORDERED, NOT_BOTH = 2, 1
OF_LABEL = 5  # times as much for a pair with the label
# of a table measured again, by its rank: the r-th strongest gets 1 / sqrt(r) of what the first gets
SCALE = 1_000
# what is repaired is whole but for values of long columns with less than a noise
SIGMAS_OF_REPAIR = 8.0
ToBins = Callable[[Resolution, Marginal, float], Marginal | BinnedMarginal]


def resolving(
    meter: Meter,
    schema: Schema,
    tables: Sequence[Marginal],
    *,
    rho: Fraction,
    noise: float,
    selecting: Fraction,
    label: int | None = None,
) -> list[QueryPlayer]:
    """MEASURE in bins, then the strongest in finer ones, then whole what is most wrong.

    Args:
        tables: pairs, which bins are made of.
        rho: for all steps.
        noise: of a cell, as a share of the rows, if all were measured whole at once.
        selecting: the share of each repair that goes into choosing.
        label: a column whose pairs get more.
    """
    calm = calmness(noise)
    coarse, finer = between(COARSE, calm), between(FINER, calm)
    few = len(tables) <= FEW_PAIRS
    passes, sigmas = (2, SIGMAS_OF_FEW_PAIRS) if few else (1, SIGMAS_A_BIN)
    repair = rho * (1 - coarse - finer) / REPAIRS
    draws = max(round(between(REPAIRED, calm)), len(tables) // PAIRS_A_REPAIR)
    first = InBins(meter, schema, tables, rho=rho * coarse, sigmas=sigmas, label=label)
    strongest = Strongest(
        meter,
        schema,
        first,
        count=min(len(tables), max(FEWEST_AGAIN, math.ceil(AGAIN * len(tables)))),
        rho=rho * finer / passes,
        sigmas=float(between(SIGMAS_A_FINER_BIN, calm)),
        calm=calm,
        label=label,
    )
    worst = WorstInBins(
        meter,
        schema,
        tables,
        select=repair * selecting,
        measure=repair * (1 - selecting),
        sigmas=SIGMAS_OF_REPAIR,
        draws=min(draws, max(len(tables) // FEWEST_A_REPAIR, 1)),
        bins=Resolution.tied,
    )
    return [first, *[strongest] * passes, worst]


def calmness(noise: float) -> Fraction:
    """From 0, where noise is a large share of the rows, to 1, where it is a small one."""
    share = math.log(NOISY / noise) / math.log(NOISY / CALM) if noise > 0 else 1.0
    return Fraction(min(max(share, 0.0), 1.0)).limit_denominator(100)


def between(ends: tuple[Fraction, Fraction], calm: Fraction) -> Fraction:
    """What lies between two values, by how calm it is."""
    noisy, quiet = ends
    return noisy + (quiet - noisy) * calm


class InBins:
    """MEASURE every table once, in bins of about so many sigmas each.

    Args:
        tables: whole ones, which bins are made of.
        rho: for all of them together.
        sigmas: rows of a cell on average, in noises.
        label: a column whose pairs get more.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        tables: Sequence[Marginal],
        *,
        rho: Fraction,
        sigmas: float,
        label: int | None = None,
    ) -> None:
        self._meter, self._schema, self._rho, self._sigmas = meter, schema, rho, sigmas
        self.tables, self._label = list(tables), label
        self.measured: list[Measurement] = []

    def point(self, model: Model) -> Sequence[Finding]:
        resolution = resolution_of(model, self._schema, self._meter)
        weights = [self._weight(table) for table in self.tables]
        rhos = [self._rho * weight / sum(weights) for weight in weights]
        cells = [
            cells_at(resolution.n, self._sigmas, table.l2_squared(self._meter.neighbours), rho)
            for table, rho in zip(self.tables, rhos, strict=True)
        ]
        batches = [*map(resolution.table, self.tables, cells)]
        self.measured = self._meter.ask(Measure(batches=batches, rho=self._rho, weights=weights))
        return self.measured

    def _weight(self, table: Marginal) -> int:
        """A public share."""
        both = all(self._schema.columns[p].ordered for p in table.positions)
        usual = BOTH_ORDERED if both else NOT_BOTH
        return usual * (OF_LABEL if self._label in table.positions else 1)


class Strongest:
    """MEASURE again, in finer bins, the tables that stand out in what was released of them.

    How much each gets follows from its rank alone, so that all sigmas are public beforehand. How
    fine its bins are follows from what rows say of it.

    Args:
        first: measured the same tables before.
        count: how many are measured again.
        calm: how far bins of rare values may go (:meth:`Resolution.table`).
        label: a column whose pairs come first.
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
        calm: Fraction,
        label: int | None = None,
    ) -> None:
        self._meter, self._schema, self._first, self._label = meter, schema, first, label
        self._count, self._rho, self._sigmas, self._calm = count, rho, sigmas, float(calm)

    def point(self, model: Model) -> Sequence[Finding]:
        resolution = resolution_of(model, self._schema, self._meter)
        strengths = [resolution.strength(one) for one in self._first.measured]
        strongest = sorted(range(len(strengths)), key=lambda i: -strengths[i])
        ranked = sorted(strongest, key=self._is_not_of_label)[: self._count]
        weights = rank_weights(len(ranked))
        batches = []
        for i, weight in zip(ranked, weights, strict=True):
            table = self._first.tables[i]
            rho, l2 = self._rho * weight / sum(weights), table.l2_squared(self._meter.neighbours)
            cells = cells_at(resolution.n, self._sigmas, l2, rho)
            batches.append(resolution.dependent_table(table, cells, model.shares, self._calm))
        return self._meter.ask(Measure(batches=batches, rho=self._rho, weights=weights))

    def _is_not_of_label(self, i: int) -> bool:
        """Whether a table comes after those of the label."""
        return self._label is not None and self._label not in self._first.tables[i].positions


class AllTied:
    """MEASURE every table once, values of long columns without order that have less than a noise
    tied together.

    Args:
        tables: whole ones.
        rho: for all of them together.
        weights: public shares, equal if there are none.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        tables: Sequence[Marginal],
        *,
        rho: Fraction,
        weights: Sequence[int] | None = None,
    ) -> None:
        self._meter, self._schema, self._tables = meter, schema, list(tables)
        self._rho, self._weights = rho, weights

    def point(self, model: Model) -> Sequence[Finding]:
        if not self._tables:
            return []
        resolution = resolution_of(model, self._schema, self._meter)
        shares = as_shares(self._weights, len(self._tables))
        batches = [
            resolution.tied(table, self._most_cells(resolution.n, table, self._rho * share))
            for table, share in zip(self._tables, shares, strict=True)
        ]
        measure = Measure(batches=batches, rho=self._rho, weights=self._weights, kept=EMPTY_CELLS)
        return self._meter.ask(measure)

    def _most_cells(self, n: int, table: Marginal, rho: Fraction) -> float:
        return cells_at(n, SIGMAS_OF_REPAIR, table.l2_squared(self._meter.neighbours), rho)


class WorstInBins:
    """SELECT the tables that rows get most wrong in bins, then MEASURE them in them; bins are
    chosen once, from the columns as they were released first. After so many rounds, whole tables:
    bins may have cut through spikes.

    Args:
        tables: whole ones, which bins are made of.
        select: for choosing them.
        measure: for measuring them.
        sigmas: rows of a cell on average, in noises.
        draws: how many at a time.
        bins: makes them, of a table in about so many cells.
        rounds: in bins; all of them if not given.
        whole: what is chosen from after these.
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
        draws: int = 1,
        bins: ToBins = Resolution.table,
        rounds: int | None = None,
        whole: Sequence[Marginal] = (),
    ) -> None:
        self._meter, self._schema, self._tables = meter, schema, list(tables)
        self._select, self._measure, self._sigmas = select, measure, sigmas
        self._draws, self._bins = draws, bins
        self._left, self._whole = rounds, whole
        self._worst: WorstMarginal | None = None

    def point(self, model: Model) -> Sequence[Finding]:
        if self._worst is None:
            self._worst = self._worst_of(self._in_bins(model))
        if self._left == 0 and self._whole:
            self._worst = self._worst_of(self._whole)
        if self._left is not None:
            self._left -= 1
        return self._worst.point(model)

    def _worst_of(self, tables: Sequence[Marginal | BinnedMarginal]) -> WorstMarginal:
        return WorstMarginal(
            self._meter, tables, select=self._select, measure=self._measure, draws=self._draws
        )

    def _in_bins(self, model: Model) -> list[Marginal | BinnedMarginal]:
        resolution = resolution_of(model, self._schema, self._meter)
        l2 = self._tables[0].l2_squared(self._meter.neighbours)
        cells = cells_at(resolution.n, self._sigmas, l2, self._measure / self._draws)
        return [self._bins(resolution, table, cells) for table in self._tables]


def cells_at(n: int, sigmas: float, l2_squared: int, rho: Fraction) -> float:
    """How many cells of so many noises on average so many rows fill, at this price."""
    return n / (sigmas * math.sqrt(l2_squared / (2 * float(rho))))


def rank_weights(count: int) -> list[int]:
    """Public shares of tables that are measured again, strongest first."""
    return [round(SCALE / math.sqrt(rank)) for rank in range(1, count + 1)]


def resolution_of(model: Model, schema: Schema, meter: Meter) -> Resolution:
    """What rows fitted so far say of single columns."""
    assert isinstance(model, RowModel)
    return Resolution(schema, model.columns, meter.rows)
