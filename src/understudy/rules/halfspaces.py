"""Discrete halfspaces: yes where the chosen attributes, each counted as +1 or -1, sum up to at
least 1.

Thresholds are constants that are added or subtracted: up to ``bias`` of them, so that at least 2 of
3 is "a + b + c - 1 >= 1". Separators: the points with a 1, or a -1, in one coordinate and 0 in all
others; they say which coordinates count as +1 and which as -1. (-1 is no attribute's value, but a
weight times it is a number like any other.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.privacy.learners import Rule
from understudy.rules.base import MOST_ATTRIBUTES, Program, RuleClass, SubsetClass


@dataclass(frozen=True, kw_only=True)
class Halfspaces(SubsetClass):
    """Weights in {-1, 0, 1} on attributes and constants: element j < c is "+1 on coordinate j", c +
    j is "-1 on coordinate j".

    Without ``signed``, attributes have weights 0 and 1 only; constants may always be subtracted.

    Attributes:
        bias: how many constants there are.

    Examples:
        >>> three = Halfspaces(attributes=3, bias=1)
        >>> three.words((0, 1, 2, 7), ["a", "b", "c"])
        'a + b + c >= 2'
    """

    bias: int = 3

    name: ClassVar[str] = "halfspaces"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            isinstance(self.bias, bool)
            or not isinstance(self.bias, (int, np.integer))
            or not 0 <= self.bias <= MOST_ATTRIBUTES
        ):
            raise ParameterError(
                f"halfspaces need bias to be a whole number from 0 to {MOST_ATTRIBUTES}."
            )

    @property
    def lifted(self) -> int:
        return self.attributes + self.bias

    @property
    def elements(self) -> int:
        return 2 * self.lifted

    def asks(self, rule: Rule) -> set[int]:
        return {e % self.lifted for e in rule if e % self.lifted < self.attributes}

    def lift(self, bits: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [np.asarray(bits, np.int8), np.ones((len(bits), self.bias), np.int8)], axis=1
        )

    def weights(self, rule: Rule) -> np.ndarray:
        """The weight of each coordinate."""
        weights = np.zeros(self.lifted, np.int64)
        for e in rule:
            weights[e % self.lifted] += 1 if e < self.lifted else -1
        return weights

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        labels: np.ndarray = lifted.astype(np.int64) @ self.weights(rule) >= 1
        return labels

    def words(self, rule: Rule, names: Sequence[str]) -> str:
        weights = self.weights(rule)
        terms = [
            (weight, name)
            for weight, name in zip(weights[: self.attributes].tolist(), names, strict=True)
            if weight
        ]
        text = (
            "".join(f" {'+' if weight > 0 else '-'} {name}" for weight, name in terms)
            .removeprefix(" + ")
            .strip()
        )
        return f"{text or '0'} >= {1 - int(weights[self.attributes :].sum())}"

    @property
    def choices(self) -> list[int]:
        minus = range(self.lifted, self.lifted + self.attributes) if self.signed else range(0)
        return [*range(self.attributes), *minus]

    @property
    def tails(self) -> int:
        return 2 * self.bias + 1

    def _tail(self, rule: Rule) -> int:
        return self.bias + int(self.weights(rule)[self.attributes :].sum())

    def _tail_gains(self, program: Program, bonus: np.ndarray) -> None:
        """The i-th constant with a sign is there only if those before it are, so it gains what one
        step more is worth.
        """
        program.constant += int(bonus[self.bias])
        for i in range(self.bias):
            program.gain[self.attributes + i] = bonus[self.bias + i + 1] - bonus[self.bias + i]
            program.gain[self.lifted + self.attributes + i] = (
                bonus[self.bias - i - 1] - bonus[self.bias - i]
            )

    def rules(self) -> Iterator[Rule]:
        most = self.attributes if self.width is None else min(self.width, self.attributes)
        for size in range(most + 1):  # never by way of all weights: few of 3^d have a small width
            for attributes in itertools.combinations(range(self.attributes), size):
                for signs in itertools.product((1, 0) if self.signed else (0,), repeat=size):
                    chosen = [
                        j + self.lifted * minus for j, minus in zip(attributes, signs, strict=True)
                    ]
                    for total in range(-self.bias, self.bias + 1):
                        constants = range(self.attributes, self.attributes + abs(total))
                        yield tuple(
                            sorted([*chosen, *(j + self.lifted * (total < 0) for j in constants)])
                        )

    def contains(self, rule: Rule) -> bool:
        weights = self.weights(rule)
        constants, total = weights[self.attributes :], int(weights[self.attributes :].sum())
        in_order = [int(total > 0) - int(total < 0)] * abs(total) + [0] * (self.bias - abs(total))
        once = len({e % self.lifted for e in rule}) == len(rule)
        return (
            super().contains(rule)
            and once
            and constants.tolist() == in_order
            and (self.signed or bool(np.all(weights[: self.attributes] >= 0)))
        )

    def renamed(self, rule: Rule, attributes: Sequence[int], source: RuleClass) -> Rule:
        small, own = source.lifted, self.lifted
        moved = [
            (
                attributes[e % small]
                if e % small < source.attributes
                else self.attributes + e % small - source.attributes
            )
            for e in rule
        ]
        return tuple(sorted(j + own * (e >= small) for j, e in zip(moved, rule, strict=True)))

    def separators(self) -> np.ndarray:
        return np.concatenate(
            [np.eye(self.lifted, dtype=np.int8), -np.eye(self.lifted, dtype=np.int8)]
        )

    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        program, first = self._start(cost, bonus)
        for j in range(self.lifted):
            program.row([j, self.lifted + j], [1, 1], high=1)
        # constants: the first ones, so that a rule has one form
        for j in range(self.attributes, self.lifted - 1):
            for e in (j, self.lifted + j):
                program.row([e, e + 1], [1, -1], low=0)
        for e in range(self.lifted, self.lifted + (0 if self.signed else self.attributes)):
            program.row([e], [1], high=0)
        for i, (point, wanted) in enumerate(zip(lifted, cost < 0, strict=True)):
            at = np.flatnonzero(point)
            signs = point[at].astype(int)
            sums = (
                [*at.tolist(), *(at + self.lifted).tolist()],
                [*signs.tolist(), *(-signs).tolist()],
            )
            reach = len(at)
            if wanted:  # the sum is at least 1 unless the answer is no
                program.row([*sums[0], first + i], [*sums[1], -(reach + 1)], low=-reach)
            else:
                program.row([*sums[0], first + i], [*sums[1], -reach], high=0)
        return program
