"""DQRS*: DualQuery by rejection sampling.

Vietri, Tian, Bun, Steinke and Wu (2020), Algorithm 4, slot by slot. The weights over queries move
little from round to round, so a drawn query can mostly stay: after each record it is kept with a
probability that depends on how its weight moved, and only what is rejected is drawn anew. A round
of s slots costs s times a Renyi curve (privacy/proofs/resample, M9) instead of s fresh draws. With G =
eta T that is about s (G^3 + 3 G^2) / (6 n^2) in rho for all rounds together, however many there
are, where DualQuery pays s G^2 T / (6 n^2):
many rounds of small steps are nearly free. Beyond eta = 0.5 there is nothing to gain.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.game.loop import Played, play
from understudy.game.players.choosing import KeptQueries, gamma_after
from understudy.game.players.oracle import BestResponse, Solver, check_oracle, oracle_of
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, check_whole
from understudy.mechanisms.papers.leading import reach
from understudy.oracles.base import Oracle
from understudy.privacy import Budget, Meter
from understudy.privacy.accounting.accountant import ORDERS, Cost, order_of, total_cost
from understudy.privacy.accounting.budget import exact
from understudy.privacy.noise.exponential import TABLE_ERROR
from understudy.privacy.resampling import milestone, resampling, slot_cost, slot_rho
from understudy.queries.base import Neighbours
from understudy.runtime.watching import Watcher

MOST_ROUNDS = 5000  # large enough: each is a solve, and a curve to be priced
FEWEST_BY_RULE = 8  # fewer records than this are hardly a table; the step shrinks instead
LARGE_STEP = 0.5  # at more, keeping costs as much as drawing anew


@dataclass(frozen=True, kw_only=True)
class DQRS(Mechanism):
    """Data player: the best record against this round's queries. Query player: multiplicative
    weights, by slots that are kept.

    Attributes:
        rounds: T, also the number of different records; ``None`` for as many as the budget allows.
        samples: s, the number of slots for drawn queries; ``None`` for dualquery's rule: more with
            rows and budget.
        step: eta, how sharply queries that are wrong gain weight; ``None`` for 0.5,
            the largest at which keeping pays, or what the budget allows if rounds are given.
        oracle: who finds the records, by name: search, exact, cpsat, milp, gurobi, parity or brute
            (docs/oracles.md).
    """

    rounds: int | None = None
    samples: int | None = None
    step: float | None = None
    oracle: str | Oracle = "search"

    name: ClassVar[str] = "dqrs"
    summary: ClassVar[str] = (
        "dualquery that keeps drawn queries where it can: many small steps for the price of a few;"
        " any table, large workloads"
    )
    in_short: ClassVar[str] = "dualquery in many small steps; large workloads"
    reference: ClassVar[str] = "Vietri et al., ICML 2020, Algorithm 4, with slots"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)

    def check(self, brief: Brief) -> None:
        check_whole(self.name, rounds=(2 if self.rounds is None else self.rounds, 2, MOST_ROUNDS))
        check_whole(self.name, samples=(1 if self.samples is None else self.samples, 1, 100_000))
        step = 1.0 if self.step is None else self.step
        if (
            isinstance(step, bool)
            or not isinstance(step, (int, float, Fraction))
            or not 0 < step <= 100
        ):
            raise ParameterError("dqrs needs step to be a number above 0, at most 100.")
        check_oracle(self.name, self.oracle, brief.schema, brief.workload)

    def decide(self, brief: Brief, means: Means) -> Decision:
        rho, rows, budget = means.rho, means.rows, means.budget
        samples = self.samples or max(1, round(math.sqrt(reach(rho, rows, brief.workload.size))))
        plan = _Prices(samples, rows, budget)
        step, rounds = self.step, self.rounds
        if rounds is None:
            usual = LARGE_STEP if step is None else step
            rounds = _largest_rounds(lambda tried: plan.price(usual, tried) <= rho)
            step = usual if step is not None or rounds >= FEWEST_BY_RULE else None
            rounds = max(rounds, FEWEST_BY_RULE) if step is None else rounds
        if step is None:
            step = _largest_step(lambda tried: plan.price(tried, rounds) <= rho)
        cost = plan.cost(step, rounds)
        counted = cost.in_rho(budget)
        if counted is None or counted > rho:
            raise ParameterError(
                f"dqrs: {rounds} rounds of {samples} slots at a step of {step:g} cost more than"
                " there is; lower one of them."
            )
        return Decision.of(
            self,
            brief,
            means,
            how=f"{rounds} rounds, {samples} queries kept or drawn anew, at a step of {step:.3g}",
            numbers={"rounds": rounds, "samples": samples, "step": step},
            cost=cost,
            plan=(rounds, samples, step),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief = decision.brief
        rounds, samples, step = decision.plan
        solver = Solver(oracle_of(self.oracle), rng)
        kappa = exact(step, "step") / decision.means.rows
        query = KeptQueries(meter, list(brief.workload), kappa=kappa, slots=samples, rng=rng)
        played = play(
            BestResponse(brief.schema, solver),
            query,
            rounds=rounds,
            watcher=watcher,
            schema=brief.schema,
        )
        warning = {"warning": f"at a step above {LARGE_STEP}, dualquery costs no more"}
        return replace(played, facts={**solver.facts, **(warning if step > LARGE_STEP else {})})


@dataclass(frozen=True)
class _Prices:
    """What rounds of slots cost, in public numbers."""

    samples: int
    rows: int
    budget: Budget

    def cost(self, step: float, rounds: int) -> Cost:
        """The whole of it."""
        kappa = exact(step, "step") / self.rows
        return total_cost(
            resampling(
                slots=self.samples,
                kappa=kappa,
                gamma=gamma_after(t),
                rows=self.rows,
                records=t,
                candidates=1,
            )
            for t in range(1, rounds)
        )

    def price(self, step: float, rounds: int) -> Fraction:
        """What it counts for, in rho: the same at the one order that matters, for looking around."""
        kappa, order = exact(step, "step") / self.rows, order_of(self.budget)
        on_grid = None if order is None else next((a for a in ORDERS if a >= order), None)
        in_rho, at_order = Fraction(0), Fraction(0)
        for t, times in Counter(map(milestone, range(1, rounds))).items():
            gamma, shift = gamma_after(t), kappa * t + TABLE_ERROR
            in_rho += times * slot_rho(kappa, gamma, shift)
            if on_grid is not None:
                at_order += times * slot_cost(
                    on_grid, kappa, gamma, gamma + 2 * kappa * self.rows, shift
                )
        return self.samples * (
            in_rho if order is None or on_grid is None else min(in_rho, at_order / order)
        )


def _largest_step(fits: Callable[[float], bool]) -> float:
    """Rounded down to five digits."""
    low, high = -6.0, 2.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(10**middle) else (low, middle)
    return float(Context(prec=5, rounding=ROUND_FLOOR).create_decimal_from_float(10**low))


def _largest_rounds(fits: Callable[[int], bool]) -> int:
    low, high = 1, MOST_ROUNDS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
