"""What met noise: an exact value of the table, and the noise that it got. Two of them, of
neighbouring tables, can be compared.

``same`` asks whether the noise was of the same kind and size: that is public, so it must be.
``rho`` is what a movement as large as the one that was measured would cost at the noise that was
asked for, by the proofs of the room; ``renyi`` is how far apart the two laws are.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from understudy.audit.distributions import gaussian_renyi, laplace_renyi, renyi
from understudy.privacy.learners import Points
from understudy.privacy.noise.exponential import TABLE_ERROR, ScoreTable
from understudy.privacy.perturbation import Perturbation


class NoisyStep(ABC):
    """The root."""

    @property
    @abstractmethod
    def public(self) -> tuple[Any, ...]:
        """Everything about it that does not depend on the table."""

    def same(self, other: NoisyStep) -> bool:
        return type(self) is type(other) and self.public == other.public

    @abstractmethod
    def rho(self, other: Any) -> Fraction:
        """What so much movement would cost in zCDP."""


@dataclass(frozen=True)
class Gaussian(NoisyStep):
    """Whole numbers with discrete Gaussian noise."""

    exact: np.ndarray = field(repr=False)
    sigma: Fraction

    @property
    def public(self) -> tuple[Any, ...]:
        return self.sigma, self.exact.shape

    def l2_squared(self, other: Gaussian) -> int:
        gap = [int(a) - int(b) for a, b in zip(self.exact, other.exact, strict=True)]
        return sum(g * g for g in gap)

    def rho(self, other: Gaussian) -> Fraction:
        return self.l2_squared(other) / (2 * self.sigma**2)

    def renyi(self, other: Gaussian, order: float) -> float:
        return sum(
            gaussian_renyi(float(self.sigma), int(b) - int(a), order)
            for a, b in zip(self.exact, other.exact, strict=True)
        )


@dataclass(frozen=True)
class Above(Gaussian):
    """The same, of which only what exceeds a threshold is shown."""

    threshold: int

    @property
    def public(self) -> tuple[Any, ...]:
        return *super().public, self.threshold


@dataclass(frozen=True)
class Laplace(NoisyStep):
    """Whole numbers with discrete Laplace noise."""

    exact: np.ndarray = field(repr=False)
    scale: Fraction

    @property
    def public(self) -> tuple[Any, ...]:
        return self.scale, self.exact.shape

    def rho(self, other: Laplace) -> Fraction:
        return (
            sum(abs(int(a) - int(b)) for a, b in zip(self.exact, other.exact, strict=True))
            / self.scale
        ) ** 2 / 2

    def renyi(self, other: Laplace, order: float) -> float:
        return sum(
            laplace_renyi(float(self.scale), int(b) - int(a), order)
            for a, b in zip(self.exact, other.exact, strict=True)
        )


@dataclass(frozen=True)
class Drawn(NoisyStep):
    """Candidates drawn by the weight of their scores."""

    scores: np.ndarray = field(repr=False)
    table: ScoreTable
    draws: int
    distinct: bool

    @property
    def public(self) -> tuple[Any, ...]:
        return self.table, self.draws, self.distinct, self.scores.shape

    def moved(self, other: Drawn) -> int:
        """The most that a score moved, after the public cap."""
        return int(np.abs(self._clipped - other._clipped).max())

    def shift(self, other: Drawn) -> Fraction:
        """How far the log of a weight moved (privacy/proofs/noise, N4); worked out here, since what the table
        says of itself is what is audited.
        """
        return self.table.kappa * self.moved(other) + TABLE_ERROR

    def rho(self, other: Drawn) -> Fraction:
        return self.draws * self.shift(other) ** 2 / 2

    def renyi(self, other: Drawn, order: float) -> float:
        if self.distinct and self.draws > 1:
            return renyi(self._peeled(), other._peeled(), order)
        return self.draws * renyi(self._law(), other._law(), order)

    @property
    def _clipped(self) -> np.ndarray:
        return np.clip(self.scores, 0, self.table.top)

    def _law(self) -> np.ndarray:
        weights = self.table.weights(self._clipped)
        total = sum(weights)
        return np.asarray([float(Fraction(w, total)) for w in weights])

    def _peeled(self) -> np.ndarray:
        """Each draw from what those before it left, by its definition."""
        weights, found = self.table.weights(self._clipped), []
        for order in itertools.permutations(range(len(weights)), self.draws):
            chance, left = Fraction(1), sum(weights)
            for i in order:
                chance, left = chance * Fraction(weights[i], left), left - weights[i]
            found.append(float(chance))
        return np.asarray(found)


@dataclass(frozen=True)
class Least(NoisyStep):
    """A candidate drawn by exp(-kappa * cost): what all costs move by together changes nothing."""

    costs: np.ndarray = field(repr=False)
    kappa: Fraction

    @property
    def public(self) -> tuple[Any, ...]:
        return self.kappa, self.costs.shape

    def rho(self, other: Least) -> Fraction:
        gap = self.costs - other.costs
        return (self.kappa * int(gap.max() - gap.min()) / 2) ** 2 / 2

    def renyi(self, other: Least, order: float) -> float:
        return renyi(self._law(), other._law(), order)

    def _law(self) -> np.ndarray:
        weights = np.exp(-float(self.kappa) * (self.costs - self.costs.min()))
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class Coins(NoisyStep):
    """Slots that are each kept with probability exp(-exponent), and what replaces those that are
    not.
    """

    exponents: tuple[Fraction, ...] = field(repr=False)
    fresh: Drawn

    @property
    def public(self) -> tuple[Any, ...]:
        return len(self.exponents), self.fresh.table, self.fresh.scores.shape

    def rho(self, other: Coins) -> Fraction:
        raise NotImplementedError("slots are charged as a curve")

    def renyi(self, other: Coins, order: float) -> float:
        """Of all slots, each with its coin shown, which only tells more."""
        fresh = (order - 1) * renyi(self.fresh._law(), other.fresh._law(), order)
        total = 0.0
        for x, y in zip(map(float, self.exponents), map(float, other.exponents), strict=True):
            keep = -order * x - (1 - order) * y
            drop = (
                order * math.log(-math.expm1(-x)) + (1 - order) * math.log(-math.expm1(-y)) + fresh
            )
            total += float(np.logaddexp(keep, drop)) / (order - 1)
        return total


@dataclass(frozen=True)
class Solved(NoisyStep):
    """The best rule of a class under noise on its description."""

    points: Points = field(repr=False)
    how: Perturbation
    scale: Fraction  # of the noise that was really asked for
    numbers: int  # of them

    @property
    def public(self) -> tuple[Any, ...]:
        return self.how, self.scale, self.numbers

    def rho(self, other: Solved) -> Fraction:
        gap = [a - b for a, b in zip(self._values(), other._values(), strict=True)]
        shift = max(gap) - min(gap) + 2 * self.how.gap + 1
        return (shift * self.how.slots / self.scale) ** 2 / 2

    def _values(self) -> list[int]:
        return [
            int(self.points.cost[self.how.rules.predict(rule, self.points.bits)].sum())
            for rule in self.how.rules.rules()
        ]
