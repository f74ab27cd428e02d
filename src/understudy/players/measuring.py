"""Query players that report counts with noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from understudy.game import Finding, Model, QueryPlayer
from understudy.privacy import Meter
from understudy.queries.base import QueryClass
from understudy.queries.marginal import Marginal
from understudy.schema import Schema


def one_way(schema: Schema) -> list[Marginal]:
    """The 1-way marginal of every column."""
    return [Marginal.of(schema, [name]) for name in schema.names]


class MeasureAll:
    """Measures a fixed list once, equal shares each; does not look at the model."""

    def __init__(self, meter: Meter, parts: Sequence[QueryClass], *, rho: Fraction) -> None:
        self._meter, self._parts, self._rho = meter, list(parts), rho

    def point(self, model: Model) -> Sequence[Finding]:
        parts, self._parts = self._parts, []
        return self._meter.measure_all(parts, rho=self._rho) if parts else []


class WorstFirst:
    """SELECT the query on which the model is most wrong, then MEASURE what lies around it."""

    def __init__(self, meter: Meter, parts: Sequence[QueryClass], *, select: Fraction, measure: Fraction) -> None:
        self._meter, self._parts = meter, list(parts)
        self._select, self._measure = select, measure

    def point(self, model: Model) -> Sequence[Finding]:
        shares = [model.shares(part) for part in self._parts]
        (choice,) = self._meter.select(self._parts, shares, rho=self._select)
        return [self._meter.measure(choice.part.around(choice.index), rho=self._measure)]


class InTurn:
    """One query player for the first round, another for the rest."""

    def __init__(self, first: QueryPlayer, then: QueryPlayer) -> None:
        self._players = [first, then]

    def point(self, model: Model) -> Sequence[Finding]:
        player = self._players.pop(0) if len(self._players) > 1 else self._players[0]
        return player.point(model)
