"""Query players that report choices only: nothing is measured, the choice itself is what is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from understudy.game import Finding, Model
from understudy.players.oracle import any_query
from understudy.privacy import Meter
from understudy.queries.base import QueryClass


class WorstSigned:
    """SELECT queries or negations that the model answers too low: the exponential mechanism on q(D) - q(model)."""

    def __init__(self, meter: Meter, parts: Sequence[QueryClass], *, rho: Fraction, draws: int = 1) -> None:
        self._meter, self._parts, self._rho, self._draws = meter, list(parts), rho, draws

    def point(self, model: Model) -> Sequence[Finding]:
        shares = [model.shares(part) for part in self._parts]
        return self._meter.select(self._parts, shares, rho=self._rho, draws=self._draws, signed=True)


class WeightedQueries:
    """Multiplicative weights over queries and negations, seen through independent draws.

    After m records x the weight of a query is exp(eta * sum of (q(D) - q(x))). With the records' average as the model and
    multiplier m, that sum times n is the score of the exponential mechanism, a whole number; so a round is one selection, at
    draws * eta^2 * m^2 / (2 n^2): m^2 times ``unit``. Before the first record all weights are equal: the draws are public and free.
    """

    def __init__(self, meter: Meter, parts: Sequence[QueryClass], *, unit: Fraction, draws: int, rng: np.random.Generator) -> None:
        self._meter, self._parts, self._draws, self._rng = meter, list(parts), draws, rng
        self._unit, self._records = unit, 0

    def point(self, model: Model) -> Sequence[Finding]:
        m, self._records = self._records, self._records + 1
        if m == 0:
            return [any_query(self._parts, self._rng) for _ in range(self._draws)]
        shares = [model.shares(part) for part in self._parts]
        return self._meter.select(self._parts, shares, rho=self._unit * m * m, draws=self._draws, multiplier=m, signed=True)
