"""What the room knows of learners: a rule, a class of rules, a task, who counts and who solves.

The code behind these types is above the room and is handed exact values. Which types of it may be
is a closed list (:mod:`understudy.privacy.trusted`).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

Rule = tuple[int, ...]
MOST_LISTED = 4096  # rules of a class that are all looked at
# of all costs, bonuses and noise: far below it a float still knows which whole number it means
LARGEST_SUM = 2**48


@dataclass(frozen=True, eq=False)
class Points:
    """Different points with a cost each: what saying yes there costs, or saves if it is negative."""

    bits: np.ndarray = field(repr=False)  # uint8, points x attributes
    cost: np.ndarray = field(repr=False)  # int64


class Rules(Protocol):
    """A class of rules over ``attributes`` yes/no attributes, as the room needs it.

    :class:`understudy.rules.base.RuleClass` says what each of these is.
    """

    name: ClassVar[str]

    @property
    def attributes(self) -> int: ...

    @property
    def width(self) -> int | None: ...

    @property
    def features(self) -> int: ...

    @property
    def slots(self) -> int: ...

    def lift(self, bits: np.ndarray) -> np.ndarray: ...

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray: ...

    def predict(self, rule: Rule, bits: np.ndarray) -> np.ndarray: ...

    def rules(self) -> Iterator[Rule]: ...

    def contains(self, rule: Rule) -> bool: ...

    def nearby(self, rule: Rule) -> Iterator[Rule]: ...

    def separators(self) -> np.ndarray: ...

    def rule_of(self, values: np.ndarray) -> Rule: ...

    def features_of(self, rule: Rule) -> list[int]: ...

    def __hash__(self) -> int: ...


class LearningTask(Protocol):
    """Attributes, label and costs of mistakes, as the room needs them."""

    @property
    def attributes(self) -> Sequence[object]: ...

    @property
    def costs(self) -> tuple[int, int]: ...

    @property
    def columns(self) -> tuple[int, ...]: ...

    def bits(self, codes: np.ndarray, columns: Sequence[int]) -> np.ndarray: ...

    def labels(self, codes: np.ndarray, columns: Sequence[int]) -> np.ndarray: ...


class Counting(Protocol):
    """The rules of a class in a fixed public order."""

    @property
    def rules(self) -> Rules:
        """The class."""
        ...

    @property
    def size(self) -> int:
        """How many rules there are."""
        ...

    def costs(self, points: Points) -> np.ndarray:
        """What each rule costs (int64)."""
        ...

    def rule(self, index: int) -> Rule:
        """One rule."""
        ...


@dataclass(frozen=True, eq=False)
class Tilted:
    """Private points and noise: the rule of least cost, less the bonus of its features, is wanted."""

    rules: Rules
    lifted: np.ndarray = field(repr=False)  # int8, points x coordinates
    cost: np.ndarray = field(repr=False)  # int64
    bonus: np.ndarray | None = field(default=None, repr=False)  # int64, a feature each

    def value(self, rule: Rule) -> int:
        """What a rule costs, exactly."""
        paid = sum(self.cost[self.rules.values(rule, self.lifted)].tolist())
        return paid - (
            0 if self.bonus is None else sum(self.bonus[self.rules.features_of(rule)].tolist())
        )


@dataclass(frozen=True)
class Solved:
    """A rule, and a whole number that no rule's cost is below."""

    rule: Rule
    bound: int


class Certifier(ABC):
    """Finds the best rule and proves it."""

    name: ClassVar[str]
    # what the proof has to be believed for; None when it is our own
    condition: ClassVar[str | None]

    @abstractmethod
    def solve(self, problem: Tilted) -> Solved | None:
        """The best rule with its proof; None without one."""

    @property
    def reads(self) -> str:
        """The guarantee in two words."""
        return "unconditional" if self.condition is None else f"conditional on {self.condition}"

    @abstractmethod
    def check(self, rules: Rules) -> None:
        """Raise, in a sentence, if such a class cannot be served."""


def certified(problem: Tilted, solved: Solved | None, gap: int) -> bool:
    """Whether a proof holds as far as can be checked: nothing better than ``gap`` is known, or
    claimed to be possible.
    """
    if solved is None or not problem.rules.contains(solved.rule):
        return False
    worth = problem.value(solved.rule)
    if not 0 <= worth - solved.bound <= gap:
        return False
    rivals = problem.rules.rules() if is_small(problem.rules) else problem.rules.nearby(solved.rule)
    return all(
        problem.value(rival) >= worth - gap for rival in rivals if problem.rules.contains(rival)
    )


@lru_cache(maxsize=256)
def is_small(rules: Rules) -> bool:
    """Whether every rule can be looked at."""
    return sum(1 for _ in itertools.islice(rules.rules(), MOST_LISTED + 1)) <= MOST_LISTED
