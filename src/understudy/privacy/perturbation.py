"""The best rule of a class on private rows, under noise: Report Separator-Perturbed Min.

Neel, Roth and Wu (2019), with the scale, the ties and the gap of proofs/argmin, M10. Called by
verbs, after they were charged.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.learners import (
    LARGEST_SUM,
    Certifier,
    LearningTask,
    Points,
    Rule,
    Rules,
    Tilted,
    certified,
)
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.requests import whole

FINE_SCALE = 1000  # rounding up by less than 1 costs less than a thousandth from here on
FAR = 64  # scales: noise beyond them has probability exp(-64)
WEIGHT = 1000  # parts of a mistake: a tie costs one of them


class NoiseOn(StrEnum):
    """Which public description of a rule carries the noise."""

    SEPARATORS = "separators"  # the paper's: a weight on each point of a separator set
    FEATURES = "features"  # with a width: a bonus on each feature, of which a rule has few


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """How much noise, and on what: all of it public.

    ``shift`` is by how much two rules' costs can move against each other between neighbours, twice
    the gap, and one for ties.
    """

    rules: Rules
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
        return len(self.rules.separators()) if self.on is NoiseOn.SEPARATORS else self.rules.slots

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
        return self.slots if self.on is NoiseOn.SEPARATORS else self.rules.features

    def noise(self, noise: Noise) -> np.ndarray:
        return (
            noise.laplace(self.draws, self.scale)
            if self.on is NoiseOn.SEPARATORS
            else noise.geometric(self.draws, self.scale)
        )

    def tilted(self, points: Points, noise: np.ndarray) -> Tilted:
        """Points whose costs are whole multiples of ``weight``, under noise."""
        lifted, cost = self.rules.lift(points.bits), points.cost
        if self.on is NoiseOn.FEATURES:
            return _compact(Tilted(self.rules, lifted, cost, noise))
        return _compact(
            Tilted(
                self.rules,
                np.concatenate([lifted, self.rules.separators()]),
                np.concatenate([cost, noise]),
            )
        )

    def canonical(self, rule: Rule) -> Rule:
        """The rule by its description alone: how a solver wrote it among equals must not show."""
        plain = tuple(int(e) for e in rule)
        return (
            self.rules.rule_of(self.rules.values(plain, self.rules.separators()))
            if self.on is NoiseOn.SEPARATORS
            else plain
        )


def perturbation(
    task: LearningTask,
    rules: Rules,
    epsilon: Fraction,
    noise_on: NoiseOn | str | None = None,
    weight: int = WEIGHT,
    gap: int = 0,
) -> Perturbation:
    """Noise for a task, by default on features where a class has a width; raises, in a sentence,
    what makes no sense. Reads nothing.
    """
    fine, near, top = _checked("weight", weight, 1), _checked("gap", gap, 0), max(task.costs)
    if noise_on is not None and noise_on not in list(NoiseOn):
        raise ParameterError(f"noise_on is {' or '.join(NoiseOn)}.")
    usual = NoiseOn.SEPARATORS if rules.width is None else NoiseOn.FEATURES
    on = usual if noise_on is None else NoiseOn(noise_on)
    noisy = Perturbation(rules=rules, on=on, weight=fine, gap=near, top=top, epsilon=epsilon)
    if noisy.draws * noisy.scale * FAR > LARGEST_SUM // 2:  # features need a width, and say so
        raise ParameterError(
            "So much noise is needed for this epsilon that no solver could carry it; raise epsilon"
            " or lower weight."
        )
    return noisy


def _checked(name: str, number: object, least: int) -> int:
    exact = whole(number, least)
    if exact is None or exact > LARGEST_SUM:
        raise ParameterError(
            f"An argmin needs {name} to be a whole number of at least {least}, and not a huge one."
        )
    return exact


def _compact(problem: Tilted) -> Tilted:
    """Without the points that cost nothing."""
    nonzero = problem.cost != 0
    return Tilted(problem.rules, problem.lifted[nonzero], problem.cost[nonzero], problem.bonus)


def solve(noisy: Perturbation, points: Points, certifier: Certifier, noise: Noise) -> Rule | None:
    """One perturbed optimum; None without a proof that holds."""
    draws = noisy.noise(noise)
    # next to impossible, and just as likely on every table
    if sum(np.abs(draws).tolist()) > LARGEST_SUM // 2:
        return None
    # a solver is somebody else's code, and what it says may quote the points
    with contextlib.suppress(Exception):
        problem = noisy.tilted(points, draws)
        solved = certifier.solve(problem)
        return (
            noisy.canonical(solved.rule)
            if solved is not None and certified(problem, solved, noisy.gap)
            else None
        )
    return None
