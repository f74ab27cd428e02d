"""Decision lists: "if a then yes, else if not b then no, ..., else yes".

A rule is (literal, answer, literal, answer, ..., last answer). Separators: the points at which at
most two literals are true. They tell any two lists apart that differ anywhere: at a point where
they differ, each stops at a literal (or at its end), and making those two literals alone true stops
both lists at the same places, since nothing that was false there has become true.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.privacy.learners import Rule
from understudy.rules.base import Program, RuleClass, literal_words, literals_of


@dataclass(frozen=True, kw_only=True)
class DecisionLists(RuleClass):
    """Lists of at most ``width`` questions, each about another attribute.

    Examples:
        >>> lists = DecisionLists(attributes=2)
        >>> lists.words((0, 1, 3, 0, 1), ["a", "b"])
        'if a then yes, else if not b then no, else yes'
    """

    name: ClassVar[str] = "decision-lists"

    @property
    def lifted(self) -> int:
        return self.attributes * (1 + self.signed)

    @property
    def length(self) -> int:
        """The most questions in a list."""
        return self.attributes if self.width is None else min(self.width, self.attributes)

    def asks(self, rule: Rule) -> set[int]:
        return {e % self.attributes for e in rule[:-1:2]}

    def lift(self, bits: np.ndarray) -> np.ndarray:
        return literals_of(bits, self.signed)

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        labels = np.full(len(lifted), bool(rule[-1]))
        for literal, answer in reversed(list(zip(rule[:-1:2], rule[1::2], strict=True))):
            labels[lifted[:, literal] == 1] = bool(answer)
        return labels

    def words(self, rule: Rule, names: Sequence[str]) -> str:
        answers = ("no", "yes")
        asked = [
            f"if {literal_words(literal, names)} then {answers[answer]}"
            for literal, answer in zip(rule[:-1:2], rule[1::2], strict=True)
        ]
        return (
            ", else ".join([*asked, answers[rule[-1]]])
            if asked
            else ("always" if rule[-1] else "never")
        )

    def rules(self) -> Iterator[Rule]:
        for size in range(self.length + 1):
            for asked in itertools.permutations(range(self.attributes), size):
                for signs in itertools.product(range(1 + self.signed), repeat=size):
                    for answers in itertools.product((0, 1), repeat=size + 1):
                        literals = (
                            a + self.attributes * s for a, s in zip(asked, signs, strict=True)
                        )
                        yield (
                            *itertools.chain.from_iterable(zip(literals, answers, strict=False)),
                            answers[-1],
                        )

    def contains(self, rule: Rule) -> bool:
        asked, answers = rule[:-1:2], rule[1::2]
        sound = (
            len(rule) % 2 == 1
            and all(0 <= e < self.lifted for e in asked)
            and all(a in (0, 1) for a in (*answers, rule[-1]))
        )
        return (
            sound
            and len(asked) <= self.length
            and len({e % self.attributes for e in asked}) == len(asked)
        )

    def nearby(self, rule: Rule) -> Iterator[Rule]:
        """One question less, another question in a place, or one more at the end; or another last
        answer.
        """
        pairs = list(zip(rule[:-1:2], rule[1::2], strict=True))
        yield (*rule[:-1], 1 - rule[-1])
        for i in range(len(pairs) + 1):
            for changed in [(), *itertools.product(range(self.lifted), (0, 1))]:
                neighbour = (
                    *itertools.chain.from_iterable(
                        [*pairs[:i], *([changed] if changed else []), *pairs[i + 1 :]]
                    ),
                    rule[-1],
                )
                yield neighbour

    def renamed(self, rule: Rule, attributes: Sequence[int], source: RuleClass) -> Rule:
        small = source.attributes
        asked = [
            attributes[e] if e < small else self.attributes + attributes[e - small]
            for e in rule[:-1:2]
        ]
        return (*itertools.chain.from_iterable(zip(asked, rule[1::2], strict=True)), rule[-1])

    # ------------------------------------------------------------------ where noise goes

    def separators(self) -> np.ndarray:
        pairs = [
            (),
            *((e,) for e in range(self.lifted)),
            *itertools.combinations(range(self.lifted), 2),
        ]
        points = np.zeros((len(pairs), self.lifted), np.int8)
        for i, pair in enumerate(pairs):
            points[i, list(pair)] = 1
        return points

    def rule_of(self, values: np.ndarray) -> Rule:
        """By Rivest's greedy way: ask whatever settles some of the points that are left, the first
        such literal first.
        """
        points, values = self.separators(), np.asarray(values, bool)
        left, rule = np.ones(len(points), bool), list[int]()
        while left.any() and len(set(values[left].tolist())) > 1:
            for literal in range(self.lifted):
                settled = left & (points[:, literal] == 1)
                if settled.any() and len(set(values[settled].tolist())) == 1:
                    rule += [literal, int(values[settled][0])]
                    left &= ~settled
                    break
            else:
                raise ParameterError("No decision list says this.")
        return (*rule, int(values[left][0]))

    @property
    def features(self) -> int:
        return self._questions * (self.slots - 1) + (self.slots - 1) + 2

    @property
    def slots(self) -> int:
        if self.width is None:
            raise ParameterError(
                "Features need a width; without one, noise goes on the separator set."
            )
        return self.length + 1

    @property
    def _questions(self) -> int:
        """Literals times answers."""
        return 2 * self.lifted

    def features_of(self, rule: Rule) -> list[int]:
        """A question and answer for each place, a blank for each place that is left, and the last
        answer.
        """
        asked = list(zip(rule[:-1:2], rule[1::2], strict=True))
        blanks = self._questions * self.length
        places = [
            self._questions * i + 2 * literal + answer for i, (literal, answer) in enumerate(asked)
        ]
        return [
            *places,
            *(blanks + i for i in range(len(asked), self.length)),
            blanks + self.length + rule[-1],
        ]

    def dual_separators(self) -> list[Rule]:
        return [(j, 1, 0) for j in range(self.attributes)]

    # ------------------------------------------------------------------ for an integer solver

    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        q, places = self._questions, self.length
        blanks, ends = q * places, q * places + places
        first = ends + 2
        wanted = np.flatnonzero(cost < 0)
        # for each point that wants a yes and each place: the list says yes there
        stops = first + len(cost)
        program = Program(stops + len(wanted) * (places + 1))
        program.gain[first:stops] = -cost
        if bonus is not None:
            program.gain[:first] = bonus
        for i in range(places):  # a question or a blank, blanks last
            program.row([*range(q * i, q * (i + 1)), blanks + i], [1] * (q + 1), 1, 1)
            if i:
                program.row([blanks + i - 1, blanks + i], [1, -1], high=0)
        program.row([ends, ends + 1], [1, 1], 1, 1)
        for a in range(self.attributes):
            literals = [a, *([a + self.attributes] if self.signed else [])]
            asked = [
                q * i + 2 * literal + answer
                for i in range(places)
                for literal in literals
                for answer in (0, 1)
            ]
            program.row(asked, [1] * len(asked), high=1)
        at = {int(i): n for n, i in enumerate(wanted)}
        for i, point in enumerate(lifted):
            true = np.flatnonzero(point == 1)
            says = [
                [[*(q * p + 2 * true + answer).tolist()] for p in range(places)] + [[ends + answer]]
                for answer in (0, 1)
            ]
            if i in at:
                own = [stops + at[i] * (places + 1) + p for p in range(places + 1)]
                program.row([first + i, *own], [1, *(-1,) * len(own)], high=0)
                for p in range(places + 1):
                    program.row([own[p], *says[1][p]], [1, *(-1,) * len(says[1][p])], high=0)
                    for earlier in range(p):
                        program.row(
                            [own[p], *says[0][earlier]], [1] * (1 + len(says[0][earlier])), high=1
                        )
            else:
                before = list[int]()
                for p in range(places + 1):
                    yes = says[1][p]
                    program.row(
                        [first + i, *before, *yes],
                        [1, *(1,) * len(before), *(-1,) * len(yes)],
                        low=0,
                    )
                    before += says[0][p]
        return program

    def rule_from(self, solution: np.ndarray) -> Rule:
        q, rule = self._questions, list[int]()
        for i in range(self.length):
            asked = np.flatnonzero(np.asarray(solution[q * i : q * (i + 1)]) > 0.5)
            if len(asked):
                rule += [int(asked[0]) // 2, int(asked[0]) % 2]
        return (*rule, int(solution[q * self.length + self.length + 1] > 0.5))
