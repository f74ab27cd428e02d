"""The best rule of a class on private rows, under noise: Report Separator-Perturbed Min, and its
robust form over blocks of rows.

Neel, Roth and Wu (2019), with the scale, the ties, the gap and the blocks of PROOFS.md, M10 and
M12. Called by the meter, after it charged.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np

from understudy.counting.tally import Counts
from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.noise.samplers import Noise
from understudy.rules.base import Points, Rule, RuleClass
from understudy.rules.certifiers import LARGEST_SUM, Certifier, Tilted, certified
from understudy.rules.task import Task

FINE_SCALE = 1000
FAR = 64  # scales: noise beyond them has probability exp(-64)
WEIGHT = 1000  # parts of a mistake: a tie costs one of them


REFUSED = (
    "The solver gave no proof that its rule is the best, so nothing is released; what was charged"
    " stays charged. Allow it more work, or use a smaller class."
)


class NoiseOn(StrEnum):
    """Which public description of a rule carries the noise."""

    SEPARATORS = "separators"  # the paper's: a weight on each point of a separator set
    FEATURES = "features"  # with a width: a bonus on each feature, of which a rule has few


@dataclass(frozen=True, eq=False)
class Labelled:
    """Private rows: the different points and how many rows of either label each has."""

    bits: np.ndarray = field(repr=False)
    no: np.ndarray = field(repr=False)
    yes: np.ndarray = field(repr=False)

    def points(self, costs: tuple[int, int], weight: int = 1) -> Points:
        """What saying yes costs at each point, up to what all rules pay alike."""
        return Points(self.bits, weight * (costs[0] * self.no - costs[1] * self.yes))


def together(private: Points, public: Points) -> Points:
    """Both, one after the other; points may occur twice."""
    return Points(
        np.concatenate([private.bits, public.bits]), np.concatenate([private.cost, public.cost])
    )


def labelled(task: Task, counts: Counts, shape: tuple[int, ...]) -> Labelled:
    """Counted cells of the task's columns as points."""
    cells = np.flatnonzero(counts.values) if counts.keys is None else counts.keys
    numbers = (counts.values[cells] if counts.keys is None else counts.values).astype(np.int64)
    codes = (
        np.stack(np.unravel_index(cells, shape), axis=1)
        if len(cells)
        else np.zeros((0, len(shape)), np.int64)
    )
    bits = task.bits(codes, task.columns)
    yes = task.labels(codes, task.columns)
    packed = np.packbits(bits, axis=1)
    _, first, where = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    by_label = np.zeros((2, len(first)), np.int64)
    np.add.at(by_label, (yes.astype(int), where.reshape(-1)), numbers)
    return Labelled(bits[first], by_label[0], by_label[1])


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """How much noise, and on what: all of it public.

    ``shift`` is by how much two rules' costs can move against each other between neighbours, twice
    the gap, and one for ties.
    """

    of: RuleClass
    on: NoiseOn
    weight: int
    gap: int
    top: int
    epsilon: Fraction

    @property
    def shift(self) -> int:
        return 2 * self.weight * self.top + 2 * self.gap + 1

    @property
    def slots(self) -> int:
        return len(self.of.separators()) if self.on is NoiseOn.SEPARATORS else self.of.slots

    @property
    def scale(self) -> Fraction:
        """Rounded up to a whole number where that is next to nothing: the fast samplers take those."""
        least = self.shift * self.slots / self.epsilon
        return least if least < FINE_SCALE else Fraction(math.ceil(least))

    def event(self, what: str) -> ev.PerturbedArgmin:
        return ev.PerturbedArgmin(what=what, shift=self.shift, slots=self.slots, scale=self.scale)

    @property
    def draws(self) -> int:
        """How many numbers of noise."""
        return self.slots if self.on is NoiseOn.SEPARATORS else self.of.features

    def noise(self, noise: Noise) -> np.ndarray:
        return (
            noise.laplace(self.draws, self.scale)
            if self.on is NoiseOn.SEPARATORS
            else noise.geometric(self.draws, self.scale)
        )

    def tilted(self, points: Points, drawn: np.ndarray) -> Tilted:
        """Points whose costs are whole multiples of ``weight``, under noise."""
        lifted, cost = self.of.lift(points.bits), points.cost
        if self.on is NoiseOn.FEATURES:
            return _compact(Tilted(self.of, lifted, cost, drawn))
        return _compact(
            Tilted(
                self.of,
                np.concatenate([lifted, self.of.separators()]),
                np.concatenate([cost, drawn]),
            )
        )

    def canonical(self, rule: Rule) -> Rule:
        """The rule as a function of its description alone: how a solver wrote it down among equals
        must not show.
        """
        plain = tuple(int(e) for e in rule)
        return (
            self.of.rule_of(self.of.values(plain, self.of.separators()))
            if self.on is NoiseOn.SEPARATORS
            else plain
        )


def perturbation(
    task: Task,
    of: RuleClass,
    epsilon: Fraction,
    noise_on: NoiseOn | str | None = None,
    weight: int = WEIGHT,
    gap: int = 0,
) -> Perturbation:
    """Noise for a task, by default on features where a class has a width; raises, in a sentence,
    what makes no sense. Reads nothing.
    """
    for name, number, least in (("weight", weight, 1), ("gap", gap, 0)):
        if (
            isinstance(number, bool)
            or not isinstance(number, (int, np.integer))
            or not least <= number <= LARGEST_SUM
        ):
            raise ParameterError(
                f"An argmin needs {name} to be a whole number of at least {least}, and not a huge"
                " one."
            )
    if noise_on is not None and noise_on not in list(NoiseOn):
        raise ParameterError(f"noise_on is {' or '.join(NoiseOn)}.")
    usual = NoiseOn.SEPARATORS if of.width is None else NoiseOn.FEATURES
    on = usual if noise_on is None else NoiseOn(noise_on)
    noisy = Perturbation(
        of=of, on=on, weight=int(weight), gap=int(gap), top=max(task.costs), epsilon=epsilon
    )
    if noisy.draws * noisy.scale * FAR > LARGEST_SUM // 2:  # features need a width, and say so
        raise ParameterError(
            "So much noise is needed for this epsilon that no solver could carry it; raise epsilon"
            " or lower weight."
        )
    return noisy


def _compact(problem: Tilted) -> Tilted:
    """Without the points that cost nothing."""
    kept = problem.cost != 0
    return Tilted(problem.of, problem.lifted[kept], problem.cost[kept], problem.bonus)


def solve(noisy: Perturbation, points: Points, certifier: Certifier, noise: Noise) -> Rule | None:
    """One perturbed optimum; None without a proof that holds."""
    drawn = noisy.noise(noise)
    # next to impossible, and just as likely on every table
    if sum(np.abs(drawn).tolist()) > LARGEST_SUM // 2:
        return None
    # a solver is somebody else's code, and what it says may quote the points
    with contextlib.suppress(Exception):
        problem = noisy.tilted(points, drawn)
        solved = certifier.solve(problem)
        return (
            noisy.canonical(solved.rule)
            if solved is not None and certified(problem, solved, noisy.gap)
            else None
        )
    return None


# ---------------------------------------------------------------------- over blocks of rows


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


LEAST_EPSILON, LEAST_DELTA = Fraction(1, 10**6), Fraction(1, 10**60)
E_SQUARED = Fraction(7389057, 10**6)  # above e^2


def total_epsilon(inner: Fraction, inner_delta: Fraction) -> Fraction:
    """What the whole costs (PROOFS.md, M12), rounded up."""
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
    found = list[Rule]()
    for block in _blocks(rows, plan, noise):
        points = together(block.points(costs, noisy.weight), public)
        # all of them, failed or not
        made = [solve(noisy, points, certifier, noise) for _ in range(plan.runs)]
        passed = [rule for rule in made if rule is not None]
        if len(passed) == len(made):
            found.append(passed[noise.below(len(passed))])
    noisy_count = len(found) + int(noise.laplace(1, 1 / plan.inner)[0])
    if noisy_count <= plan.threshold or not found:
        return None
    return found[noise.below(len(found))]


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
    made = []
    for k in range(plan.blocks):
        tally = np.bincount(
            places[order[k * plan.block_rows : (k + 1) * plan.block_rows]],
            minlength=2 * len(rows.bits),
        )
        made.append(Labelled(rows.bits, tally[: len(rows.bits)], tally[len(rows.bits) :]))
    return made
