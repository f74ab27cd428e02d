"""Query players that report choices only: nothing is measured, the choice itself is what is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from understudy.game import Finding, Model
from understudy.players.measuring import single
from understudy.players.oracle import Growing, any_query
from understudy.privacy import Choice, Meter
from understudy.privacy.resampling import milestone
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
        self._unit = unit

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, Growing)
        m = len(model)
        if m == 0:
            return [any_query(self._parts, self._rng) for _ in range(self._draws)]
        shares = [model.shares(part) for part in self._parts]
        return self._meter.select(self._parts, shares, rho=self._unit * m * m, draws=self._draws, multiplier=m, signed=True)


class KeptQueries:
    """The same weights, seen through slots that are kept where possible: each holds a query, and only what is rejected is drawn anew.

    After the m-th record x a slot's query q stays with probability exp(-gamma - eta (1 + q(x) - q(D))), gamma about 1/m, and is otherwise
    replaced by a draw from the new weights. For records fixed in advance all slots then follow the new weights.
    """

    def __init__(self, meter: Meter, parts: Sequence[QueryClass], *, kappa: Fraction, slots: int, rng: np.random.Generator) -> None:
        self._meter, self._parts, self._kappa = meter, list(parts), kappa
        self._slots = [any_query(self._parts, rng) for _ in range(slots)]

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, Growing)
        records = len(model)
        if records:
            shares = [model.shares(part) for part in self._parts]
            satisfied = [_satisfies(model.last, choice) for choice in self._slots]
            settings = {"kappa": self._kappa, "gamma": gamma_after(records)}
            self._slots = self._meter.resample(self._parts, shares, self._slots, satisfied, records=records, **settings)
        return list(self._slots)


def gamma_after(records: int) -> Fraction:
    """How often a slot is replaced in any case: near the cheapest, coins and draws together."""
    return Fraction(1, milestone(records))


def _satisfies(record: np.ndarray, choice: Choice) -> bool:
    query = single(choice)
    hits = sum(bool(record[x.column] == x.value) == x.holds for x in query.literals)
    return bool(query.table[hits]) == (choice.sign > 0)
