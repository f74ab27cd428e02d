"""Every path of a run of the real code, with its exact probability: for laws that can be
enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from understudy.audit.distributions import laplace_pmf
from understudy.audit.hooks import standing_in
from understudy.privacy.noise.exponential import ScoreTable
from understudy.privacy.noise.samplers import Noise


class Branches(Noise):
    """Noise that follows a script of decisions, takes the first branch after its end, and keeps
    book of what it did.

    Laplace and geometric noise is on a window that leaves out next to nothing, every value a branch
    of its own.
    """

    REACH = 14.0  # scales

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__()
        self._script, self.taken = list(script), list[tuple[int, list[float]]]()

    def branch(self, chances: Sequence[float]) -> int:
        at = len(self.taken)
        choice = self._script[at] if at < len(self._script) else 0
        self.taken.append((choice, list(chances)))
        return choice

    def below(self, bound: int) -> int:
        return self.branch([1 / bound] * bound)

    def bernoulli_exp(self, gamma: Fraction) -> bool:
        chance = math.exp(-gamma)
        return self.branch([chance, 1 - chance]) == 0

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        reach = math.ceil(self.REACH * scale)
        return self._values(
            size, range(-reach, reach + 1), laplace_pmf(float(scale), reach).tolist()
        )

    def geometric(self, size: int, scale: Fraction) -> np.ndarray:
        ratio = math.exp(-1 / scale)
        reach = math.ceil(self.REACH * scale)
        return self._values(
            size, range(reach + 1), [(1 - ratio) * ratio**k for k in range(reach + 1)]
        )

    def _values(self, size: int, window: range, chances: list[float]) -> np.ndarray:
        return np.asarray([window[self.branch(chances)] for _ in range(size)], np.int64)

    @property
    def chance(self) -> float:
        return math.prod(chances[choice] for choice, chances in self.taken)

    @property
    def next_script(self) -> list[int] | None:
        """The next path in order, or None after the last."""
        for i in reversed(range(len(self.taken))):
            choice, chances = self.taken[i]
            if choice + 1 < len(chances):
                return [*(c for c, _ in self.taken[:i]), choice + 1]
        return None


def drawn_by_branch(
    noise: Branches, scores: np.ndarray, table: ScoreTable, draws: int, *, distinct: bool = False
) -> np.ndarray:
    """``exponential.draw`` with one branch a candidate."""
    assert not distinct
    weights = table.weights(np.clip(scores, 0, table.top))
    chances = [weight / sum(weights) for weight in weights]
    return np.asarray([noise.branch(chances) for _ in range(draws)], np.int64)


def paths(run: Callable[[Branches], Hashable]) -> Iterator[tuple[Hashable, float]]:
    """(outcome, probability) of every path."""
    script: list[int] | None = []
    while script is not None:
        noise = Branches(script)
        outcome = run(noise)
        yield outcome, noise.chance
        script = noise.next_script


def law(run: Callable[[Branches], Hashable]) -> dict[Any, float]:
    """The exact law of what a run returns."""
    total: dict[Any, float] = {}
    with standing_in(draw=drawn_by_branch):
        for outcome, chance in paths(run):
            total[outcome] = total.get(outcome, 0.0) + chance
    return total
