"""Parities: whether an odd number of chosen attributes is true. With ``signed``, a constant
coordinate turns odd into even.

Separators: the points at which one coordinate is true. Where there are more than about fifteen
attributes, learning a parity from noisy rows is hard for every known solver; the whole class of up
to 2^24 is compared at once by a Walsh transform instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.privacy.learners import Rule
from understudy.rules.base import Program, RuleClass, SubsetClass


@dataclass(frozen=True, kw_only=True)
class Parities(SubsetClass):
    """Yes where an odd number of the coordinates of a set is true; the last one, if signed, is true
    everywhere.

    Examples:
        >>> Parities(attributes=2).words((0, 2), ["a", "b"])
        'an even number of: a'
    """

    name: ClassVar[str] = "parities"

    @property
    def lifted(self) -> int:
        return self.attributes + self.signed

    @property
    def elements(self) -> int:
        return self.lifted

    def asks(self, rule: Rule) -> set[int]:
        return {e for e in rule if e < self.attributes}

    def lift(self, bits: np.ndarray) -> np.ndarray:
        bits = np.asarray(bits, np.int8)
        return (
            np.concatenate([bits, np.ones((len(bits), 1), np.int8)], axis=1)
            if self.signed
            else bits
        )

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        labels: np.ndarray = lifted[:, list(rule)].sum(axis=1, dtype=np.int64) % 2 == 1
        return labels

    def words(self, rule: Rule, names: Sequence[str]) -> str:
        even = self.attributes in rule
        return (
            f"an {'even' if even else 'odd'} number of:"
            f" {', '.join(names[e] for e in rule if e < self.attributes) or 'nothing'}"
        )

    @property
    def choices(self) -> list[int]:
        return list(range(self.attributes))

    @property
    def tails(self) -> int:
        return 2 if self.signed else 0

    def _tail(self, rule: Rule) -> int:
        return int(self.attributes in rule)

    def _tail_gains(self, program: Program, bonus: np.ndarray) -> None:
        if self.signed:
            program.constant += int(bonus[0])
            program.gain[self.attributes] = bonus[1] - bonus[0]

    def rules(self) -> Iterator[Rule]:
        most = self.attributes if self.width is None else min(self.width, self.attributes)
        for size in range(most + 1):
            for chosen in itertools.combinations(range(self.attributes), size):
                yield chosen
                if self.signed:
                    yield (*chosen, self.attributes)

    def renamed(self, rule: Rule, attributes: Sequence[int], source: RuleClass) -> Rule:
        return tuple(
            sorted(attributes[e] if e < source.attributes else self.attributes for e in rule)
        )

    def separators(self) -> np.ndarray:
        return np.eye(self.lifted, dtype=np.int8)

    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        program, first = self._start(cost, bonus)
        digits = (self.lifted // 2).bit_length()  # of half the sum at a point
        halves = len(program.gain)
        program.gain = np.concatenate([program.gain, np.zeros(digits * len(cost))])
        for i, point in enumerate(lifted):
            true = np.flatnonzero(point == 1).tolist()
            own = range(halves + digits * i, halves + digits * (i + 1))
            program.row(
                [*true, first + i, *own],
                [*(1,) * len(true), -1, *(-(2 << t) for t in range(digits))],
                low=0,
                high=0,
            )
        return program
