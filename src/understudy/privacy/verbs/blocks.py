"""The best rule over random blocks of rows: private even if solves fail as an adversary would like
(proofs/blocks, M12).

PRSMA of Neel, Roth and Wu (2019), with another number of blocks and other constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import Counts
from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.labelled import Labelled, learning, together
from understudy.privacy.learners import Certifier, LearningTask, Points, Rule, Rules
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.perturbation import (
    WEIGHT,
    NoiseOn,
    Perturbation,
    perturbation,
    solve,
)
from understudy.privacy.requests import (
    LEAST_EPSILON,
    check_sums,
    checked_certifier,
    checked_points,
    exact_number,
)
from understudy.privacy.verbs.base import Priced, Public, Verb

LEAST_DELTA = Fraction(1, 10**60)  # far below any promise: logarithms of it are still plain floats
E_SQUARED = Fraction(7389057, 10**6)  # above e^2


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """PRSMA's numbers, all public: what the inner epsilon and delta come to, and what they take."""

    rows: int
    epsilon: Fraction  # in all
    delta: Fraction
    inner: Fraction  # of the count of blocks that passed
    inner_delta: Fraction
    blocks: int  # K
    runs: int  # in each block
    block_rows: int
    run_epsilon: Fraction  # of each run

    @property
    def solves(self) -> int:
        return self.blocks * self.runs

    @property
    def threshold(self) -> Fraction:
        """Blocks that have to pass, under noise."""
        return (1 + log_up(1 / self.inner_delta)) / self.inner


def log_up(x: Fraction) -> Fraction:
    """A rational at or just above ln x, x >= 1."""
    return Fraction(math.log(x)) * (1 + Fraction(1, 10**12)) + Fraction(1, 10**12)


def plan_blocks(rows: int, epsilon: Fraction, delta: Fraction) -> BlockPlan:
    """The plan whose total is at most (epsilon, delta): the largest inner epsilon, found by
    bisection and checked, rounded against us.
    """
    if not epsilon >= LEAST_EPSILON or not LEAST_DELTA <= delta < 1:
        raise ParameterError(
            f"Blocks are planned for epsilon of at least {float(LEAST_EPSILON):g} and delta from"
            f" {float(LEAST_DELTA):g} to 1."
        )
    low, high = Fraction(0), Fraction(1, 2)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if total_epsilon(middle, delta / 4) <= epsilon else (low, middle)
    inner = low.limit_denominator(10**9)
    while total_epsilon(inner, delta / 4) > epsilon:
        inner *= 1 - Fraction(1, 10**6)
    inner_delta = delta / 3
    while total_delta(inner, inner_delta) > delta or total_epsilon(inner, inner_delta) > epsilon:
        inner_delta *= Fraction(99, 100)
    blocks = math.ceil((1 + 2 * log_up(1 / inner_delta)) / inner)
    runs = math.ceil(log_up(blocks / inner_delta) / inner_delta)
    block_rows = rows // blocks
    run_epsilon = Fraction(0)
    if block_rows:
        most = math.sqrt(2 / (block_rows * log_up(2 * blocks / inner_delta)))
        run_epsilon = Fraction(math.floor(most * (1 - 1e-9) * 2**60), 2**60)
    return BlockPlan(
        rows=rows, epsilon=epsilon, delta=delta, inner=inner, inner_delta=inner_delta, blocks=blocks, runs=runs,
        block_rows=block_rows, run_epsilon=run_epsilon,
    )  # fmt: skip


def total_epsilon(inner: Fraction, inner_delta: Fraction) -> Fraction:
    """What the whole costs (proofs/blocks, M12), rounded up."""
    return inner + log_up(1 + inner * E_SQUARED / ((1 - inner_delta) * (1 - inner)))


def total_delta(inner: Fraction, inner_delta: Fraction) -> Fraction:
    return 3 * inner_delta + inner * E_SQUARED * inner_delta / (1 - inner_delta)


def solve_in_blocks(
    noisy: Perturbation,
    rows: Labelled,
    costs: tuple[int, int],
    public: Points,
    plan: BlockPlan,
    certifier: Certifier,
    noise: Noise,
) -> Rule | None:
    """PRSMA: a rule of a random block that never failed, if enough blocks did not; None otherwise.
    Public points go to every block.
    """
    rules = list[Rule]()
    for block in _blocks(rows, plan, noise):
        points = together(block.points(costs, noisy.weight), public)
        # all of them, failed or not
        solutions = [solve(noisy, points, certifier, noise) for _ in range(plan.runs)]
        passed = [rule for rule in solutions if rule is not None]
        if len(passed) == len(solutions):
            rules.append(passed[noise.below(len(passed))])
    noisy_count = len(rules) + int(noise.laplace(1, 1 / plan.inner)[0])
    if noisy_count <= plan.threshold or not rules:
        return None
    return rules[noise.below(len(rules))]


def _blocks(rows: Labelled, plan: BlockPlan, noise: Noise) -> list[Labelled]:
    """Rows in random order, cut into equal blocks; the few that are left over are dropped."""
    places = np.concatenate(
        [
            np.repeat(np.arange(len(rows.bits)), rows.no),
            np.repeat(np.arange(len(rows.bits)) + len(rows.bits), rows.yes),
        ]
    )
    order = np.arange(len(places))
    for i in range(len(order) - 1, 0, -1):  # Fisher and Yates
        j = noise.below(i + 1)
        order[i], order[j] = order[j], order[i]
    blocks = []
    for k in range(plan.blocks):
        tally = np.bincount(
            places[order[k * plan.block_rows : (k + 1) * plan.block_rows]],
            minlength=2 * len(rows.bits),
        )
        blocks.append(Labelled(rows.bits, tally[: len(rows.bits)], tally[len(rows.bits) :]))
    return blocks


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ArgminInBlocks(Verb[Rule | None]):
    """What ``Argmin`` does over random blocks of rows; None is an outcome.

    Attributes:
        task: attributes, label and costs.
        rules: the class.
        plan: how many blocks, and what they cost.
        certifier: who solves.
        noise_on: as in ``Argmin``; so are ``weight`` and ``public``.
    """

    task: LearningTask
    rules: Rules
    plan: BlockPlan
    certifier: Certifier
    noise_on: NoiseOn | str | None = None
    weight: int = WEIGHT
    public: Points | None = None

    name: ClassVar[str] = "argmin_in_blocks"
    plan_blocks: ClassVar = staticmethod(plan_blocks)
    solve_in_blocks: ClassVar = staticmethod(solve_in_blocks)

    def priced(self, public: Public) -> Priced[Rule | None]:
        asked = learning(self.task, self.rules, public)
        by = checked_certifier(self.certifier, asked.rules, public.trusts)
        plan = _planned(self.plan, public.rows)
        if not plan.block_rows:
            raise ParameterError(
                f"{plan.blocks:,} blocks need at least as many rows; the table has {plan.rows:,}."
            )
        task, rules = asked.task, asked.rules
        noisy = perturbation(task, rules, plan.run_epsilon, self.noise_on, self.weight, 0)
        check_sums(public.rows, task, noisy.weight)
        extra = checked_points(self.public, rules)
        what = f"argmin over {rules.name} in {plan.blocks:,} blocks, {by.reads}"

        def answer(exact: Sequence[Counts], noise: Noise) -> Rule | None:
            rows = asked.labelled(exact)
            return ArgminInBlocks.solve_in_blocks(noisy, rows, task.costs, extra, plan, by, noise)

        return Priced(
            events=(ev.ApproximateDP(what=what, epsilon=plan.epsilon, delta=plan.delta),),
            reads=asked.reads,
            answer=answer,
        )


def _planned(request: BlockPlan, rows: int) -> BlockPlan:
    """The plan that was asked for, made again: what is carried out is the room's own."""
    if type(request) is BlockPlan:
        epsilon, delta = exact_number(request.epsilon), exact_number(request.delta)
        if epsilon is not None and delta is not None:
            plan: BlockPlan = ArgminInBlocks.plan_blocks(rows, epsilon, delta)
            if request == plan:
                return plan
    raise ParameterError(
        "Blocks need a plan for as many rows as the table has; make one with prsma.plan."
    )
