"""Conditions on rows, as people write them: ``age < 30 and (sex = 'F' or not married)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from understudy.errors import ParameterError
from understudy.queries.attribute import Attribute
from understudy.schema import Categorical, Schema

# for some columns, the codes that they may take; every other column is free
Box = Mapping[int, frozenset[int]]
MOST_BOXES = 500  # large enough for people: each is a copy of the model's chances
MOST_TEXT = 10_000  # characters: longer than anybody writes, short enough to be read at once
DEEPEST = 50  # brackets: far from where Python's own recursion ends
# quoted texts double their quotes inside; two-letter signs come before their first letters
TOKEN = re.compile(
    r"""\s*(?: (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` )
           | (?P<sign> >= | <= | != | <> | == | = | > | < ) | (?P<mark> [(),] ) | (?P<word> [^\s'"`()<>=!,]+ ) )""",
    re.VERBOSE,
)
SIGNS = {"==": "=", "<>": "!="}  # as SQL and Python write them
# said with every condition that cannot be read
USAGE = (
    "Write it like \"age < 30 and sex = 'F'\", with and, or, not, in (...) and brackets; quote"
    " values that hold spaces or signs."
)


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
        if not isinstance(text, str) or not text.strip() or len(text) > MOST_TEXT:
            raise ParameterError(
                f"A condition is a text of at most {MOST_TEXT:,} characters. {USAGE}"
            )
        return cls(schema, tuple(_Reader(text, schema).read()))

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


class _Reader:
    """Reads from left to right: or binds least, then and, then not."""

    def __init__(self, text: str, schema: Schema) -> None:
        self._schema, self._depth, self._at = schema, 0, 0
        self._tokens = list(_tokens(text))

    def read(self) -> list[Box]:
        boxes = self._either()
        if self._at < len(self._tokens):
            self._refuse()
        return boxes

    def _either(self) -> list[Box]:
        boxes = self._both()
        while self._take("or"):
            boxes = _checked([*boxes, *self._without(self._both(), boxes)])
        return boxes

    def _both(self) -> list[Box]:
        boxes = self._single()
        while self._take("and"):
            other = self._single()
            boxes = _checked(
                [both for a in boxes for b in other if (both := self._overlap(a, b)) is not None]
            )
        return boxes

    def _single(self) -> list[Box]:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ParameterError(
                f"The condition is nested more than {DEEPEST} deep; write it with fewer brackets."
            )
        try:
            if self._take("not"):
                return self._without([{}], self._single())
            if self._take("("):
                boxes = self._either()
                self._expect(")")
                return boxes
            return self._question()
        finally:
            self._depth -= 1

    def _question(self) -> list[Box]:
        name = self._text(stops=("in", "not"))
        sign = self._sign()
        if sign is not None:
            return self._box(self._compared(name, sign, self._text()))
        without = self._next("not", "in")
        if without:
            self._at += 1
        if not self._take("in"):
            return self._box(self._yes(name))
        self._expect("(")
        listed = [Attribute.compared(self._schema, name, "=", self._text())]
        while self._take(","):
            listed.append(Attribute.compared(self._schema, name, "=", self._text()))
        self._expect(")")
        boxes: list[Box] = [{listed[0].column: frozenset().union(*(one.codes for one in listed))}]
        return self._without([{}], boxes) if without else boxes

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

    def _text(self, stops: Sequence[str] = ()) -> str:
        """Words and quoted texts up to something else, with single spaces between them."""
        start = self._at
        while self._at < len(self._tokens) and self._tokens[self._at][0] in ("word", "quoted"):
            kind, token = self._tokens[self._at]
            if kind == "word" and token.lower() in ("and", "or", *stops):
                break
            self._at += 1
        if self._at == start:
            self._refuse()
        return " ".join(token for _, token in self._tokens[start : self._at])

    def _sign(self) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "sign":
            self._at += 1
            sign = self._tokens[self._at - 1][1]
            return SIGNS.get(sign, sign)
        return None

    def _next(self, *words: str) -> bool:
        following = self._tokens[self._at : self._at + len(words)]
        return [token.lower() for kind, token in following if kind != "quoted"] == list(words)

    def _take(self, word: str) -> bool:
        taken = self._next(word)
        self._at += taken
        return taken

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._refuse()

    def _refuse(self) -> NoReturn:
        where = (
            f"before {self._tokens[self._at][1]!r}"
            if self._at < len(self._tokens)
            else "at its end"
        )
        raise ParameterError(f"The condition cannot be read {where}. {USAGE}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ParameterError(f"The condition cannot be read at {text[at : at + 20]!r}. {USAGE}")
        kind, token, at = str(match.lastgroup), str(match.group(str(match.lastgroup))), match.end()
        yield kind, token[1:-1].replace(token[0] * 2, token[0]) if kind == "quoted" else token


def _checked(boxes: list[Box]) -> list[Box]:
    if len(boxes) > MOST_BOXES:
        raise ParameterError(
            f"The condition has more than {MOST_BOXES} alternatives; write a simpler one."
        )
    return boxes
