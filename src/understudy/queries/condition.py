"""Conditions on rows, as people write them: ``age < 30 and (sex = 'F' or not married)``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.errors import ParameterError
from understudy.queries import grammar as g
from understudy.queries.attribute import Attribute
from understudy.queries.outcomes import FALSE, TRUE, Axis, are_empty, judge_of
from understudy.schema import Categorical, Schema

# for some columns, the codes that they may take; every other column is free
Box = Mapping[int, frozenset[int]]
MOST_BOXES = 500  # large enough for people: each is a copy of the model's chances
MOST_TRIED = 100_000  # values of all but one column that are compared: a few seconds


@dataclass(frozen=True)
class Condition:
    """Which rows are meant: those in one of these boxes, no two of which share a row."""

    schema: Schema
    boxes: tuple[Box, ...]

    @classmethod
    def parse(cls, text: str, schema: Schema) -> Condition:
        """Read a condition; values go by the schema, comparisons by its order, and no bin is split
        (see :class:`Attribute`).

        Examples:
            >>> schema = Schema.from_domain({"a": 3, "b": 4})
            >>> Condition.parse("a = 1 or b >= 2", schema).words
            'a is 1; or a is 0 or 2, b is 2 or 3'
        """
        return cls(schema, tuple(_Boxes(schema).of(g.parse(text, schema))))

    @property
    def words(self) -> str:
        """What it came to: the schema's own values, box by box."""
        return "; or ".join(self._box(box) for box in self.boxes) if self.boxes else "no row at all"

    def holds(self, codes: np.ndarray) -> np.ndarray:
        """For which coded rows (rows x columns) it holds (bool)."""
        mask = np.zeros(len(codes), np.bool_)
        for box in self.boxes:
            mask |= np.logical_and.reduce(
                [allowed(self.schema, box, c)[codes[:, c]] for c in box]
                or [np.ones(len(codes), np.bool_)]
            )
        return mask

    def _box(self, box: Box) -> str:
        columns = self.schema.columns
        texts = (
            f"{columns[c].name} is {' or '.join(columns[c].label(v) for v in sorted(box[c]))}"
            for c in sorted(box)
        )
        return ", ".join(texts) or "any row"


def allowed(schema: Schema, box: Box, column: int) -> np.ndarray:
    """The codes of a column that a box lets through, as a mask."""
    mask = np.zeros(schema.shape[column], np.bool_)
    mask[sorted(box[column])] = True
    return mask


class _Boxes:
    """From a phrase to boxes of whole bins."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def of(self, phrase: g.Phrase) -> list[Box]:
        match phrase:
            case g.Not(inner):
                return self._without([{}], self.of(inner))
            case g.Some(inner):
                return self._either(inner)
            case g.Every(inner):
                return self._both(inner)
            case g.Implies(premise, conclusion):
                return self._either((g.Not(premise), conclusion))
            case g.Flag(column):
                return self._box(self._yes(self._schema.names[column]))
            case g.Compared(column, sign, value):
                return self._box(self._compared(self._schema.names[column], sign, value))
            case g.Among(column, values):
                name = self._schema.names[column]
                listed = [Attribute.compared(self._schema, name, "=", value) for value in values]
                return [{column: frozenset().union(*(one.codes for one in listed))}]
            case g.Missing(column):
                codes = np.flatnonzero(are_empty(self._schema.columns[column]))
                return [{column: frozenset(codes.tolist())}] if len(codes) else []
            case g.Beside():
                return self._beside(phrase)
        raise ParameterError(
            "A condition chooses rows one by one, and 'determines' speaks of several; write it as"
            " a rule of the schema."
        )

    def _either(self, phrases: Sequence[g.Phrase]) -> list[Box]:
        boxes: list[Box] = []
        for phrase in phrases:
            boxes = _checked([*boxes, *self._without(self.of(phrase), boxes)])
        return boxes

    def _both(self, phrases: Sequence[g.Phrase]) -> list[Box]:
        boxes: list[Box] = [{}]
        for phrase in phrases:
            other = self.of(phrase)
            boxes = _checked(
                [both for a in boxes for b in other if (both := self._overlap(a, b)) is not None]
            )
        return boxes

    def _beside(self, phrase: g.Beside) -> list[Box]:
        """Columns beside columns: for each value of all but one, those of the last that go with
        it; values that go with the same ones share a box.
        """
        *before, last = (column for _, column in phrase.terms)
        judge = judge_of(phrase, self._schema)
        boxes: dict[tuple[tuple[int, ...], frozenset[int]], set[int]] = {}
        axes = {c: Axis.of(self._schema.columns[c]) for _, c in phrase.terms}
        every = np.arange(self._schema.shape[last])
        if math.prod(self._schema.shape[c] for c in before) > MOST_TRIED:
            raise ParameterError(
                f"'{g.in_words(phrase, self._schema)}' has more alternatives than can be tried;"
                " compare columns of fewer values."
            )
        for codes in itertools.product(*(range(self._schema.shape[c]) for c in before)):
            spans = {
                c: axes[c].of_codes(np.full(len(every), code))
                for c, code in zip(before, codes, strict=True)
            }
            bits = judge.outcomes({**spans, last: axes[last].of_codes(every)})
            if ((bits & TRUE != 0) & (bits & FALSE != 0)).any():
                raise ParameterError(
                    f"'{g.in_words(phrase, self._schema)}' would split bins, and no bin can be"
                    " split; compare columns with a bin for each value."
                )
            fitting = frozenset(np.flatnonzero(bits == TRUE).tolist())
            if fitting:
                boxes.setdefault((codes[:-1], fitting), set()).update(codes[-1:])
            _check_number(len(boxes))
        return [
            {
                **{c: frozenset([code]) for c, code in zip(before[:-1], codes, strict=True)},
                **{c: frozenset(some) for c in before[-1:]},
                last: fitting,
            }
            for (codes, fitting), some in boxes.items()
        ]

    def _compared(self, name: str, sign: str, value: str) -> Attribute:
        """A comparison that means something: greater and less need an order, in which MISSING and
        OTHER have no place.
        """
        asked = Attribute.compared(self._schema, name, sign, value)
        column = self._schema.columns[asked.column]
        if sign not in ("=", "!="):
            if isinstance(column, Categorical) and not column.ordered:
                raise ParameterError(
                    f"The values of {name!r} have no order; ask with = or in (...), or declare the"
                    " order in the schema."
                )
            if value in ("MISSING", "OTHER") and value in column.labels[column.values :]:
                raise ParameterError(
                    f"{value} has no place in the order of {name!r}; ask with = or !=."
                )
        return asked

    def _yes(self, name: str) -> Attribute:
        """A column by itself: one whose two values are no and yes."""
        asked = Attribute.parse(name, self._schema)
        column = self._schema.columns[asked.column]
        if column.label(1).lower() not in ("1", "true", "yes"):
            raise ParameterError(
                f'{name!r} is no yes/no column; ask for a value, as in "{name} ='
                f" '{column.label(1)}'\"."
            )
        return asked

    def _box(self, asked: Attribute) -> list[Box]:
        return [{asked.column: asked.codes}] if asked.codes else []

    def _overlap(self, one: Box, other: Box) -> Box | None:
        """Where two boxes overlap, if they do."""
        overlap = {c: self._codes(one, c) & self._codes(other, c) for c in {**one, **other}}
        return overlap if all(overlap.values()) else None

    def _without(self, boxes: Sequence[Box], taken: Sequence[Box]) -> list[Box]:
        """What of some boxes is in none of others."""
        left = list(boxes)
        for hole in taken:
            left = _checked([piece for box in left for piece in self._cut(box, hole)])
        return left

    def _cut(self, box: Box, hole: Box) -> Iterator[Box]:
        """The parts of a box outside another one: no two share a row."""
        if self._overlap(box, hole) is None:
            yield box
            return
        inside = dict(box)
        for c in hole:
            here = self._codes(inside, c)
            if here - hole[c]:
                yield {**inside, c: here - hole[c]}
            inside[c] = here & hole[c]

    def _codes(self, box: Box, column: int) -> frozenset[int]:
        return box.get(column, frozenset(range(self._schema.shape[column])))


def _checked(boxes: list[Box]) -> list[Box]:
    _check_number(len(boxes))
    return boxes


def _check_number(boxes: int) -> None:
    if boxes > MOST_BOXES:
        raise ParameterError(
            f"The condition has more than {MOST_BOXES} alternatives; write a simpler one."
        )
