"""Query players that report choices only: nothing is measured, the choice itself is what is learnt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from understudy.game.loop import Finding, Model
from understudy.game.players.measuring import single
from understudy.game.players.oracle import Growing, Records, any_query
from understudy.privacy import Argmin, Choice, Meter, Resample, Select
from understudy.privacy.learners import Certifier, Points, Rule
from understudy.privacy.perturbation import WEIGHT
from understudy.privacy.resampling import milestone
from understudy.queries.attribute import Attribute
from understudy.queries.base import QueryClass
from understudy.rules.certifiers import certifier_of
from understudy.rules.conjunctions import Conjunctions
from understudy.rules.task import Task

CHOICE_SHARE = Fraction(1, 10)  # of a round, for choosing between two optima


class WorstSigned:
    """SELECT queries or negations that the model answers too low: the exponential mechanism on q(D)
    - q(model).
    """

    def __init__(
        self, meter: Meter, batches: Sequence[QueryClass], *, rho: Fraction, draws: int = 1
    ) -> None:
        self._meter, self._batches, self._rho, self._draws = meter, list(batches), rho, draws

    def point(self, model: Model) -> Sequence[Finding]:
        shares = [model.shares(batch) for batch in self._batches]
        return self._meter.ask(
            Select(
                batches=self._batches, shares=shares, rho=self._rho, draws=self._draws, signed=True
            )
        )


class WeightedQueries:
    """Multiplicative weights over queries and negations, seen through independent draws.

    After m records x the weight of a query is exp(eta * sum of (q(D) - q(x))). With the records'
    average as the model and multiplier m, that sum times n is the score of the exponential
    mechanism, a whole number; so a round is one selection, at draws * eta^2 * m^2 / (2 n^2): m^2
    times ``unit``. Before the first record all weights are equal: the draws are public and free.
    """

    def __init__(
        self,
        meter: Meter,
        batches: Sequence[QueryClass],
        *,
        unit: Fraction,
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        self._meter, self._batches, self._draws, self._rng = meter, list(batches), draws, rng
        self._unit = unit

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, Growing)
        m = len(model)
        if m == 0:
            return [any_query(self._batches, self._rng) for _ in range(self._draws)]
        shares = [model.shares(batch) for batch in self._batches]
        return self._meter.ask(
            Select(
                batches=self._batches,
                shares=shares,
                rho=self._unit * m * m,
                draws=self._draws,
                multiplier=m,
                signed=True,
            )
        )


class KeptQueries:
    """The same weights, seen through slots that are kept where possible: each holds a query, and
    only what is rejected is drawn anew.

    After the m-th record x a slot's query q stays with probability exp(-gamma - eta (1 + q(x) -
    q(D))), gamma about 1/m, and is otherwise replaced by a draw from the new weights. For records
    fixed in advance all slots then follow the new weights.
    """

    def __init__(
        self,
        meter: Meter,
        batches: Sequence[QueryClass],
        *,
        kappa: Fraction,
        slots: int,
        rng: np.random.Generator,
    ) -> None:
        self._meter, self._batches, self._kappa = meter, list(batches), kappa
        self._slots = [any_query(self._batches, rng) for _ in range(slots)]

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, Growing)
        records = len(model)
        if records:
            shares = [model.shares(batch) for batch in self._batches]
            satisfied = [_satisfies(model.last, choice) for choice in self._slots]
            settings = {"kappa": self._kappa, "gamma": gamma_after(records)}
            self._slots = self._meter.ask(
                Resample(
                    batches=self._batches,
                    shares=shares,
                    choices=self._slots,
                    satisfied=satisfied,
                    records=records,
                    **settings,
                )
            )
        return list(self._slots)


class PrivateBestResponse:
    """The conjunctions that the model answers most too low and most too high, each a private
    optimum, and one selection between them.

    With n rows and a model of shares, the first minimises -W q(D) + W n q(model), the second the
    opposite; W q(D) is what the private rows pay, the rest are public points. The price of a round
    is that of two optima of epsilon each, epsilon^2, and of the selection.
    """

    def __init__(
        self,
        meter: Meter,
        batches: Sequence[QueryClass],
        *,
        rho: Fraction,
        width: int | None = None,
        certifier: str | Certifier = "auto",
    ) -> None:
        (batch,) = batches
        every = batch.query(batch.size - 1)  # the last of all conjunctions asks for every literal
        assert every is not None
        self._meter, self._batch, self._certifier = meter, batch, certifier
        self._attributes = tuple(
            Attribute(x.column, frozenset([x.value]), f"{x.column}={x.value}")
            for x in every.literals
        )
        self._rules = Conjunctions(attributes=len(self._attributes), signed=False, width=width)
        self._for_choice = rho * CHOICE_SHARE
        # rounded down
        self._epsilon = Fraction(math.isqrt(math.floor((rho - self._for_choice) * 2**80)), 2**40)

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, Records)
        rules = [self._best(model, under=under) for under in (True, False)]
        batches = list(
            dict.fromkeys(self._batch.around(sum(1 << e for e in rule)) for rule in rules)
        )
        return self._meter.ask(
            Select(
                batches=batches,
                shares=[model.shares(batch) for batch in batches],
                rho=self._for_choice,
                signed=True,
            )
        )

    def _best(self, model: Records, *, under: bool) -> Rule:
        task = Task(self._attributes, under)  # rows that should be counted, or should not
        columns = tuple(range(model.codes.shape[1]))
        bits, counts = np.unique(task.bits(model.codes, columns), axis=0, return_counts=True)
        whole = np.rint(WEIGHT * self._meter.rows * counts / len(model.codes)).astype(np.int64)
        public = Points(bits, whole if under else -whole)
        return self._meter.ask(
            Argmin(
                task=task,
                rules=self._rules,
                epsilon=self._epsilon,
                certifier=certifier_of(self._certifier, self._rules),
                public=public,
            )
        )


def gamma_after(records: int) -> Fraction:
    """How often a slot is replaced in any case: near the cheapest, coins and draws together."""
    return Fraction(1, milestone(records))


def _satisfies(record: np.ndarray, choice: Choice) -> bool:
    query = single(choice)
    hits = sum(bool(record[x.column] == x.value) == x.holds for x in query.literals)
    return bool(query.table[hits]) == (choice.sign > 0)
