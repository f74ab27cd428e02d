"""Conjunctions and disjunctions of literals.

Separators: the points at which one literal is false and all others are true (for disjunctions, one
true and all others false). Over {0,1}^d itself, conjunctions with negations would need all 2^d
points but one: "exactly this point" is a conjunction, and nothing but the point itself tells it
from "never".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.privacy.learners import Rule
from understudy.rules.base import Program, RuleClass, SubsetClass, literal_words, literals_of


@dataclass(frozen=True, kw_only=True)
class LiteralSets(SubsetClass):
    """Sets of literals: number j is attribute j, and d + j its negation."""

    @property
    def lifted(self) -> int:
        return self.attributes * (1 + self.signed)

    @property
    def elements(self) -> int:
        return self.lifted

    def asks(self, rule: Rule) -> set[int]:
        return {e % self.attributes for e in rule}

    def lift(self, bits: np.ndarray) -> np.ndarray:
        return literals_of(bits, self.signed)

    def rules(self) -> Iterator[Rule]:
        most = self.elements if self.width is None else min(self.width, self.elements)
        for size in range(most + 1):
            yield from itertools.combinations(range(self.elements), size)

    def renamed(self, rule: Rule, attributes: Sequence[int], source: RuleClass) -> Rule:
        small = source.attributes
        return tuple(
            sorted(
                attributes[e] if e < small else self.attributes + attributes[e - small]
                for e in rule
            )
        )


@dataclass(frozen=True, kw_only=True)
class Conjunctions(LiteralSets):
    """Yes where all literals of a set are true; the empty set says yes everywhere.

    Examples:
        >>> two = Conjunctions(attributes=2)
        >>> two.words((0, 3), ["old", "rich"]), two.predict((0, 3), np.array([[1, 0], [1, 1]])).tolist()
        ('old and not rich', [True, False])
    """

    name: ClassVar[str] = "conjunctions"

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        labels: np.ndarray = np.all(lifted[:, list(rule)] == 1, axis=1)
        return labels

    def words(self, rule: Rule, names: Sequence[str]) -> str:
        if len(self.asks(rule)) < len(rule):  # an attribute and its negation
            return "never"
        return " and ".join(literal_words(e, names) for e in rule) or "always"

    def separators(self) -> np.ndarray:
        return (1 - np.eye(self.lifted)).astype(np.int8)

    def rule_of(self, values: np.ndarray) -> Rule:
        return tuple(np.flatnonzero(~np.asarray(values, bool)).tolist())

    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        program, first = self._start(cost, bonus)
        for i, (point, wanted) in enumerate(zip(lifted, cost < 0, strict=True)):
            false = np.flatnonzero(point == 0).tolist()
            if wanted:  # yes only if no literal that is false here was chosen
                for e in false:
                    program.row([first + i, e], [1, 1], high=1)
            else:  # no only if one was
                program.row([first + i, *false], [1] * (1 + len(false)), low=1)
        return program


@dataclass(frozen=True, kw_only=True)
class Disjunctions(LiteralSets):
    """Yes where some literal of a set is true; the empty set says no everywhere."""

    name: ClassVar[str] = "disjunctions"

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        labels: np.ndarray = np.any(lifted[:, list(rule)] == 1, axis=1)
        return labels

    def words(self, rule: Rule, names: Sequence[str]) -> str:
        if len(self.asks(rule)) < len(rule):
            return "always"
        return " or ".join(literal_words(e, names) for e in rule) or "never"

    def separators(self) -> np.ndarray:
        return np.eye(self.lifted, dtype=np.int8)

    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        program, first = self._start(cost, bonus)
        for i, (point, wanted) in enumerate(zip(lifted, cost < 0, strict=True)):
            true = np.flatnonzero(point == 1).tolist()
            if wanted:
                program.row([first + i, *true], [1, *(-1,) * len(true)], high=0)
            else:
                for e in true:
                    program.row([first + i, e], [1, -1], low=0)
        return program
