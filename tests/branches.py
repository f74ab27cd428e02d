"""Every path of a run of the real code, with its exact probability: for laws that can be enumerated."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from understudy.privacy import meter as room
from understudy.privacy.exponential import ScoreTable
from understudy.privacy.noise import Noise


class Branches(Noise):
    """Noise that follows a script of decisions, takes the first branch after its end, and keeps book of what it did."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__()
        self._script, self.taken = list(script), list[tuple[int, list[float]]]()

    def branch(self, chances: Sequence[float]) -> int:
        at = len(self.taken)
        choice = self._script[at] if at < len(self._script) else 0
        self.taken.append((choice, list(chances)))
        return choice

    def bernoulli_exp(self, gamma: Fraction) -> bool:
        chance = math.exp(-gamma)
        return self.branch([chance, 1 - chance]) == 0

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


def drawn_by_branch(noise: Branches, scores: np.ndarray, table: ScoreTable, draws: int, *, distinct: bool = False) -> np.ndarray:
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


def law(run: Callable[[Branches], Hashable], monkeypatch: pytest.MonkeyPatch) -> dict[Any, float]:
    """The exact law of what a run returns."""
    monkeypatch.setattr(room, "draw", drawn_by_branch)
    total: dict[Any, float] = {}
    for outcome, chance in paths(run):
        total[outcome] = total.get(outcome, 0.0) + chance
    return total
