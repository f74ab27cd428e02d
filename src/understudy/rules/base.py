"""What a private learner may learn: a class of rules, each a yes/no function of yes/no attributes.

A rule is kept as a tuple of whole numbers that only its class can read. Classes work on *lifted*
points: negated literals and constants are coordinates of their own, as if they were attributes, so
every class is a simple one over its lifted coordinates. Points that are no person's, such as "this
literal is false and all others, negations included, are true", exist there too; a separator set
needs them.

Two public descriptions of a rule carry the noise of ``Argmin`` (privacy/proofs/argmin, M10):

    separators   points on which any two rules of the class differ somewhere
    features     yes/no facts about a rule, exactly ``slots`` of them true: of any two rules each has one that the other lacks
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.privacy.learners import Rule

MOST_ATTRIBUTES = 200


@dataclass(frozen=True, kw_only=True)
class RuleClass(ABC):
    """A class of rules over ``attributes`` yes/no attributes.

    Attributes:
        attributes: d.
        signed: whether literals may be negated.
        width: at most so many literals (lists: so many questions) in a rule; ``None`` for no limit.
    """

    attributes: int
    signed: bool = True
    width: int | None = None

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for what, number, least in (
            ("attributes", self.attributes, 1),
            ("width", 1 if self.width is None else self.width, 1),
        ):
            if (
                isinstance(number, bool)
                or not isinstance(number, (int, np.integer))
                or not least <= number <= MOST_ATTRIBUTES
            ):
                raise ParameterError(
                    f"{self.name} need {what} to be a whole number from {least} to"
                    f" {MOST_ATTRIBUTES}."
                )
        if not isinstance(self.signed, (bool, np.bool_)):
            raise ParameterError(f"{self.name} need signed to be true or false.")
        for name, value in list(vars(self).items()):
            if isinstance(value, np.generic):  # NumPy's own numbers cannot be written to a file
                object.__setattr__(self, name, value.item())

    # ------------------------------------------------------------------ what a rule says

    @property
    @abstractmethod
    def lifted(self) -> int:
        """How many lifted coordinates there are."""

    @abstractmethod
    def lift(self, bits: np.ndarray) -> np.ndarray:
        """Points as lifted points (int8)."""

    @abstractmethod
    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        """What a rule says at lifted points (bool)."""

    def predict(self, rule: Rule, bits: np.ndarray) -> np.ndarray:
        """What a rule says at points."""
        return self.values(rule, self.lift(bits))

    @abstractmethod
    def words(self, rule: Rule, names: Sequence[str]) -> str:
        """A rule in words."""

    @abstractmethod
    def rules(self) -> Iterator[Rule]:
        """Every rule; only for classes small enough to list."""

    @abstractmethod
    def asks(self, rule: Rule) -> set[int]:
        """The attributes that a rule asks about."""

    @abstractmethod
    def contains(self, rule: Rule) -> bool:
        """Whether this is a rule of the class, in its only form."""

    @abstractmethod
    def nearby(self, rule: Rule) -> Iterator[Rule]:
        """Rules one step away."""

    @abstractmethod
    def renamed(self, rule: Rule, attributes: Sequence[int], source: RuleClass) -> Rule:
        """A rule of the class ``source`` over len(attributes) attributes as one of this class, over
        these of its attributes.
        """

    # ------------------------------------------------------------------ where noise goes

    @abstractmethod
    def separators(self) -> np.ndarray:
        """Lifted points (int8) on which any two different rules of the class differ somewhere."""

    @abstractmethod
    def rule_of(self, values: np.ndarray) -> Rule:
        """The one rule, in its only form, that says this at the separators."""

    @property
    @abstractmethod
    def features(self) -> int:
        """How many features there are; only with a width."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many features are true of a rule: the same number for all rules."""

    @abstractmethod
    def features_of(self, rule: Rule) -> list[int]:
        """Which features are true of a rule."""

    @abstractmethod
    def dual_separators(self) -> list[Rule]:
        """Rules such that any two different points of {0,1}^d are told apart by one of them.

        That is a separator set of the dual class, in which a point x is the function of a rule
        "what the rule says at x".
        """

    # ------------------------------------------------------------------ for an integer solver

    @abstractmethod
    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        """The integer program whose best solution is the rule with the least cost, less its
        features' bonus.
        """

    @abstractmethod
    def rule_from(self, solution: np.ndarray) -> Rule:
        """The rule that a solution of :meth:`program` stands for."""


class Program:
    """An integer program over yes/no variables, made row by row: the most gain under low <= row <=
    high.
    """

    FREE = 1e30

    def __init__(self, variables: int) -> None:
        self.gain = np.zeros(variables)
        self.constant = 0  # gained in any case
        self._starts, self._indices, self._numbers = [0], list[int](), list[int]()
        self._low, self._high = list[float](), list[float]()

    def row(
        self, indices: Sequence[int], numbers: Sequence[int], low: float = -FREE, high: float = FREE
    ) -> None:
        """One constraint."""
        self._indices.extend(indices)
        self._numbers.extend(numbers)
        self._starts.append(len(self._indices))
        self._low.append(low)
        self._high.append(high)

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole, as the child process of :mod:`understudy.oracles` takes it."""
        return {
            "gain": self.gain,
            "starts": np.asarray(self._starts, np.int64),
            "indices": np.asarray(self._indices, np.int64),
            "numbers": np.asarray(self._numbers, np.float64),
            "low": np.asarray(self._low, np.float64),
            "high": np.asarray(self._high, np.float64),
        }


@dataclass(frozen=True, kw_only=True)
class SubsetClass(RuleClass):
    """A class whose rules are sets of elements, kept sorted: choices about attributes, at most
    ``width`` of them, and perhaps constants.

    Features, with a width k: the choices, k blanks, and what the constants come to (one of
    ``tails``, if there are any). A rule with a choices has the first k - a blanks. Of two different
    rules each has a feature that the other lacks: if the constants come to the same and one's
    choices are all among the other's, it has fewer of them, so it has a blank that the other has
    not.
    """

    @property
    @abstractmethod
    def elements(self) -> int:
        """How many elements there are."""

    @property
    def choices(self) -> list[int]:
        """The elements that are about attributes."""
        return list(range(self.elements))

    @property
    def tails(self) -> int:
        """How many things the constants can come to; 0 for a class without constants."""
        return 0

    def _tail(self, rule: Rule) -> int:
        """What the constants of a rule come to."""
        return 0

    def _tail_gains(self, program: Program, bonus: np.ndarray) -> None:
        """Put the bonus of what the constants come to on the constants themselves."""

    @property
    def features(self) -> int:
        return len(self.choices) + self._blanks + self.tails

    @property
    def slots(self) -> int:
        return self._blanks + (self.tails > 0)

    @property
    def _blanks(self) -> int:
        if self.width is None:
            raise ParameterError(
                "Features need a width; without one, noise goes on the separator set."
            )
        return self.width

    def features_of(self, rule: Rule) -> list[int]:
        place = {element: i for i, element in enumerate(self.choices)}
        chosen = [place[e] for e in rule if e in place]
        first = len(place)
        blanks = range(first, first + self._blanks - len(chosen))
        return [
            *chosen,
            *blanks,
            *([first + self._blanks + self._tail(rule)] if self.tails else []),
        ]

    def contains(self, rule: Rule) -> bool:
        choices = set(self.choices)
        sound = list(rule) == sorted(set(rule)) and all(0 <= e < self.elements for e in rule)
        return sound and (self.width is None or sum(e in choices for e in rule) <= self.width)

    def nearby(self, rule: Rule) -> Iterator[Rule]:
        """One element less, one more, or another in its place."""
        fewer = [tuple(e for e in rule if e != gone) for gone in rule]
        for start in [rule, *fewer]:
            for e in range(self.elements):
                if e not in rule:
                    yield tuple(sorted((*start, e)))
        yield from fewer

    def rule_of(self, values: np.ndarray) -> Rule:
        """Where separator j says yes exactly to the rules with element j."""
        return tuple(np.flatnonzero(np.asarray(values, bool)).tolist())

    def dual_separators(self) -> list[Rule]:
        return [(j,) for j in range(self.attributes)]

    def rule_from(self, solution: np.ndarray) -> Rule:
        return tuple(np.flatnonzero(np.asarray(solution[: self.elements]) > 0.5).tolist())

    def _start(self, cost: np.ndarray, bonus: np.ndarray | None) -> tuple[Program, int]:
        """A program and its first point: elements, blanks if there is a bonus, and one variable a
        point, what the rule says there.
        """
        blanks = list(range(self.elements, self.elements + (0 if bonus is None else self._blanks)))
        first = self.elements + len(blanks)
        program = Program(first + len(cost))
        program.gain[first:] = -cost
        if bonus is not None:
            program.gain[self.choices + blanks] = bonus[: len(self.choices) + len(blanks)]
            self._tail_gains(program, bonus[len(self.choices) + len(blanks) :])
            program.row(
                self.choices + blanks,
                [1] * (len(self.choices) + len(blanks)),
                self._blanks,
                self._blanks,
            )
            for blank in blanks[:-1]:  # the first ones, so that a rule has one form
                program.row([blank, blank + 1], [1, -1], low=0)
        elif self.width is not None:
            program.row(self.choices, [1] * len(self.choices), high=self.width)
        return program, first


def literals_of(bits: np.ndarray, signed: bool) -> np.ndarray:
    """Attributes and, if signed, their negations after them."""
    bits = np.asarray(bits, np.int8)
    return np.concatenate([bits, 1 - bits], axis=1) if signed else bits


def literal_words(literal: int, names: Sequence[str]) -> str:
    d = len(names)
    return names[literal] if literal < d else f"not {names[literal - d]}"
