"""Which outcomes a phrase can have for rows of which we know bins, or values.

A comparison comes out true or false; beside an empty cell it stays open, as in SQL. And, or, not
and implies go on from there (Kleene), and a rule is broken only by what is false. Of a row that is
known in bins a comparison may have several outcomes; they are kept as bits. For one comparison they
are exact. Of several that share a column they may be more than there are, never fewer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from understudy.errors import ParameterError, shown
from understudy.queries import grammar as g
from understudy.queries.attribute import Attribute
from understudy.schema import Boolean, Categorical, Column, Moment, Number, Schema
from understudy.schema.columns import Binned

TRUE, FALSE, OPEN = np.uint8(1), np.uint8(2), np.uint8(4)
# of the largest value in a sum: real numbers are equal if they differ by no more
ROUNDING = 1e-9


@dataclass(frozen=True)
class Span:
    """One column of some rows: from which code to which, and from which number to which."""

    first: np.ndarray
    last: np.ndarray
    low: np.ndarray
    high: np.ndarray


Spans = Mapping[int, Span]


@dataclass(frozen=True)
class Axis:
    """The numbers that the codes of a column stand for: those of a bin, of a category, of no and
    yes; 0 in the place of a cell without a value.
    """

    low: np.ndarray
    high: np.ndarray
    values: int  # how many codes have a number
    whole: bool

    @classmethod
    def of(cls, column: Column) -> Axis:
        whole = True
        if isinstance(column, Binned):
            edges, whole = np.asarray(column.edges, np.float64), column.whole
            low = edges[:-1]
            high = edges[1:] - 1 if whole else np.nextafter(edges[1:], -np.inf)
            high[-1] = high[-1] if whole else edges[-1]  # the largest value is in the last bin
        elif isinstance(column, Categorical) and column.numeric:
            low = high = np.asarray([float(text) for text in column.categories])
        else:
            low = high = np.arange(column.values, dtype=np.float64)
        none = np.zeros(column.size - column.values)
        return cls(np.concatenate([low, none]), np.concatenate([high, none]), column.values, whole)

    @property
    def has_spans(self) -> bool:
        """Whether some code stands for several numbers."""
        return bool((self.low < self.high).any())

    def of_codes(self, codes: np.ndarray) -> Span:
        return Span(codes, codes, self.low[codes], self.high[codes])

    def of_values(self, codes: np.ndarray, numbers: np.ndarray) -> Span:
        return Span(codes, codes, numbers, numbers)

    def of_ranges(self, first: np.ndarray, last: np.ndarray) -> Span:
        """From code to code; numbers are those of the codes that have one."""
        end = np.minimum(last, self.values - 1)
        if (np.diff(self.low[: self.values]) >= 0).all():
            return Span(first, last, self.low[first], self.high[end])
        ends = [(int(a), int(b) + 1) for a, b in zip(first, end, strict=True)]
        low = np.asarray([self.low[a:b].min() if a < b else 0.0 for a, b in ends])
        high = np.asarray([self.high[a:b].max() if a < b else 0.0 for a, b in ends])
        return Span(first, last, low, high)


class Judge(ABC):
    """A phrase that is ready to be asked about rows."""

    @abstractmethod
    def outcomes(self, spans: Spans) -> np.ndarray:
        """For each row, the bits of the outcomes that it may have (uint8)."""


@dataclass(frozen=True)
class OfCodes(Judge):
    """What depends on one column's code alone."""

    column: int
    outcome: np.ndarray  # of every code, one bit
    _sums: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bits = (self.outcome[None, :] == np.asarray([[TRUE], [FALSE], [OPEN]])).cumsum(axis=1)
        sums = np.concatenate([np.zeros((3, 1), np.int64), bits], axis=1)
        object.__setattr__(self, "_sums", sums)

    def outcomes(self, spans: Spans) -> np.ndarray:
        span = spans[self.column]
        if span.first is span.last:
            outcomes: np.ndarray = self.outcome[span.first]
            return outcomes
        there = self._sums[:, span.last + 1] > self._sums[:, span.first]
        return _bits(*there)


@dataclass(frozen=True)
class Line(Judge):
    """A sum of columns, less others, and a constant, beside 0."""

    terms: tuple[tuple[int, int], ...]
    constant: float
    sign: str
    values: tuple[int, ...]  # of each term: how many codes have a number
    slack: float  # by how much real numbers may differ that count as equal

    def outcomes(self, spans: Spans) -> np.ndarray:
        low = high = np.asarray(float(self.constant))
        empty = full = np.asarray(False)
        for (factor, column), values in zip(self.terms, self.values, strict=True):
            span = spans[column]
            low = low + (span.low if factor > 0 else -span.high)
            high = high + (span.high if factor > 0 else -span.low)
            empty = empty | (span.last >= values)
            full = full | (span.first >= values)
        can, cannot = _beside(self.sign, low, high, self.slack)
        return _bits(can & ~full, cannot & ~full, empty)


@dataclass(frozen=True)
class Opposite(Judge):
    inner: Judge

    def outcomes(self, spans: Spans) -> np.ndarray:
        bits = self.inner.outcomes(spans)
        return ((bits & TRUE) << 1 | (bits & FALSE) >> 1 | bits & OPEN).astype(np.uint8)


@dataclass(frozen=True)
class All(Judge):
    inner: tuple[Judge, ...]

    def outcomes(self, spans: Spans) -> np.ndarray:
        return reduce(_both, (judge.outcomes(spans) for judge in self.inner))


@dataclass(frozen=True)
class Image(Judge):
    """A mapping from the codes of some columns to those of another."""

    keys: tuple[int, ...]
    shape: tuple[int, ...]  # how many codes each of these has
    column: int
    image: np.ndarray  # of every cell of these columns: a code, or -1 where all are free
    values: int  # of the other column: how many codes are values

    def outcomes(self, spans: Spans) -> np.ndarray:
        span, single = spans[self.column], np.True_
        for c in self.keys:
            single = single & (spans[c].first == spans[c].last)
        cells = np.ravel_multi_index([spans[c].first for c in self.keys], self.shape)
        wanted = self.image[cells]
        ordinary = np.minimum(span.last, self.values - 1) - span.first + 1
        inside = (span.first <= wanted) & (wanted <= span.last)
        can = ~single | inside
        cannot = ~single | ((ordinary - inside) > 0)
        free = (wanted < 0) & single
        return _bits(can & ~free, cannot & ~free, free | ~single | (span.last >= self.values))


def _bits(can: np.ndarray, cannot: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    return np.asarray(can * TRUE | cannot * FALSE | unknown * OPEN).astype(np.uint8)


def _both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kleene's and, outcome by outcome."""
    unknown = ((a & OPEN) != 0) & ((b & (TRUE | OPEN)) != 0)
    unknown |= ((b & OPEN) != 0) & ((a & TRUE) != 0)
    return (a & b & TRUE) | ((a | b) & FALSE) | unknown * OPEN


def _beside(
    sign: str, low: np.ndarray, high: np.ndarray, slack: float
) -> tuple[np.ndarray, np.ndarray]:
    """Whether something between ``low`` and ``high`` can compare so with 0, and whether not."""
    match sign:
        case "=":
            # bins that meet in a corner alone hold no pair that would ever be drawn
            least = np.where(high - low > 4 * slack, -slack, slack)
            return (low <= least) & (high >= -least), (low < -slack) | (high > slack)
        case "<=":
            return low <= slack, high > slack
        case "<":
            return low < -slack, high >= -slack
        case ">=":
            return high >= -slack, low < -slack
        case ">":
            return high > slack, low <= slack
    can, cannot = _beside("=", low, high, slack)
    return cannot, can


# ---------------------------------------------------------------------- from phrases


def judge_of(phrase: g.Phrase, schema: Schema) -> Judge:
    """A phrase, ready to be asked; refuses in a sentence what makes no sense for its columns."""
    match phrase:
        case g.Not(inner):
            return Opposite(judge_of(inner, schema))
        case g.Every(inner):
            return All(tuple(judge_of(one, schema) for one in inner))
        case g.Some(inner):
            return either([judge_of(one, schema) for one in inner])
        case g.Implies(premise, conclusion):
            return either([Opposite(judge_of(premise, schema)), judge_of(conclusion, schema)])
        case g.Missing(column):
            return OfCodes(column, np.where(are_empty(schema.columns[column]), TRUE, FALSE))
        case g.Flag(column):
            return _flag(column, schema)
        case g.Among(column, values):
            return either([_compared(column, "=", value, schema) for value in values])
        case g.Compared(column, sign, value):
            return _compared(column, sign, value, schema)
        case g.Beside():
            return _line(phrase, schema)
    raise ParameterError("A dependence ('determines') is a rule by itself, no part of another.")


def are_empty(column: Column) -> np.ndarray:
    """For each code, whether its cell is empty in the released rows: a missing one, and OTHER
    where it is no text.
    """
    codes = np.arange(column.size)
    empty = (codes == column.missing_code) & column.missing
    return empty | ((codes == column.values) & column.other & (not shows_other(column)))


def shows_other(column: Column) -> bool:
    """Whether OTHER is written into the cells of a column."""
    return isinstance(column, Categorical) and not column.numeric


def either(judges: Sequence[Judge]) -> Judge:
    """One phrase or another."""
    return Opposite(All(tuple(Opposite(judge) for judge in judges)))


def _flag(column: int, schema: Schema) -> Judge:
    described = schema.columns[column]
    if described.values != 2 or described.label(1).lower() not in ("1", "true", "yes"):
        name = described.name
        raise ParameterError(
            f'{name!r} is no yes/no column; ask for a value, as in "{name} ='
            f" '{described.label(1)}'\"."
        )
    return _compared(column, "=", described.label(1), schema)


def _compared(position: int, sign: str, value: str, schema: Schema) -> Judge:
    """A column beside a value: of numbers and moments, the value itself and no bin."""
    column = schema.columns[position]
    if value in ("MISSING", "OTHER") and value in column.labels[column.values :]:
        return _named(position, sign, value, column)
    if isinstance(column, Binned):
        return _on_axis(position, sign, value, column)
    asked = Attribute.compared(schema, column.name, sign, value)
    if sign not in ("=", "!=") and isinstance(column, Categorical) and not column.ordered:
        raise ParameterError(
            f"The values of {column.name!r} have no order; ask with = or in (...), or declare the"
            " order in the schema."
        )
    outcome = np.where(np.isin(np.arange(column.size), sorted(asked.codes)), TRUE, FALSE)
    outcome[are_empty(column)] = OPEN
    if sign not in ("=", "!="):
        outcome[column.values :] = OPEN
    return OfCodes(position, outcome)


def _named(position: int, sign: str, value: str, column: Column) -> Judge:
    """MISSING and OTHER by their names."""
    if sign not in ("=", "!="):
        raise ParameterError(
            f"{value} has no place in the order of {column.name!r}; ask with = or !=."
        )
    empty = are_empty(column)
    if value == "OTHER" and not shows_other(column):
        raise ParameterError(
            f"Rows show an OTHER of {column.name!r} as an empty cell; write '{column.name} is"
            " missing'."
        )
    which = np.arange(column.size) == column.other_code if value == "OTHER" else empty
    outcome = np.where(which == (sign == "="), TRUE, FALSE)
    if value == "OTHER":
        outcome[empty] = OPEN
    return OfCodes(position, outcome)


def _on_axis(position: int, sign: str, value: str, column: Binned) -> Judge:
    labels = column.labels[: column.values]
    if value in labels:
        axis, code = Axis.of(column), labels.index(value)
        low, high = float(axis.low[code]), float(axis.high[code])
    else:
        low = high = column.position_of(value)
        at = column.edge_at(low)
        if at is not None:
            low = high = column.edges[at]  # an edge written with fewer digits is that edge
    one = ((1, position),)

    def line(of_sign: str, than: float) -> Judge:
        return Line(one, -than, of_sign, (column.values,), 0.0)

    if sign in ("=", "!="):
        same = line("=", low) if low == high else All((line(">=", low), line("<=", high)))
        return same if sign == "=" else Opposite(same)
    return line(sign, low if sign in ("<", ">=") else high)


def _line(phrase: g.Beside, schema: Schema) -> Judge:
    columns = [schema.columns[c] for _, c in phrase.terms]
    if any(isinstance(c, Categorical) and not c.numeric for c in columns):
        return _words_beside(phrase, schema)
    kinds = {_kind(column) for column in columns}
    if len(kinds) > 1:
        first, second = columns[0], next(c for c in columns if _kind(c) != _kind(columns[0]))
        raise ParameterError(
            f"{first.name!r} ({first.kind}) and {second.name!r} ({second.kind}) cannot be compared;"
            " compare numbers with numbers, dates with dates."
        )
    axes = [Axis.of(column) for column in columns]
    exact = all(axis.whole for axis in axes) or len(axes) + (phrase.constant != 0) <= 2
    largest = max(abs(phrase.constant), *(float(np.abs(a.low).max()) for a in axes))
    largest = max(largest, *(float(np.abs(a.high).max()) for a in axes))
    slack = 0.0 if exact else ROUNDING * max(largest, 1.0)
    values = tuple(axis.values for axis in axes)
    return Line(phrase.terms, phrase.constant, phrase.sign, values, slack)


def _kind(column: Column) -> str:
    """Columns of one kind can be added and compared."""
    if isinstance(column, Moment):
        return column.kind
    return "number" if isinstance(column, (Number, Boolean, Categorical)) else column.kind


def _words_beside(phrase: g.Beside, schema: Schema) -> Judge:
    """Two columns of words: equal texts, or places in one order."""
    columns = [schema.columns[c] for _, c in phrase.terms]
    plain = len(columns) == 2 and not phrase.constant and phrase.terms[0][0] != phrase.terms[1][0]
    if not plain or not all(isinstance(c, Categorical) for c in columns):
        raise ParameterError(
            f"The words of {', '.join(repr(c.name) for c in columns)} cannot be added or compared"
            " with numbers; compare two columns of words, as in 'home = work'."
        )
    (of_one, one), (_, other) = phrase.terms
    listed = [column.labels[: column.values] for column in columns]
    if phrase.sign not in ("=", "!="):
        if listed[0] != listed[1] or not all(column.ordered for column in columns):
            raise ParameterError(
                f"{columns[0].name!r} and {columns[1].name!r} have no order in common; list the"
                " same categories for both and declare their order, or compare with = or !=."
            )
        values = (columns[0].values, columns[1].values)
        return Line(((of_one, one), (-of_one, other)), 0.0, phrase.sign, values, 0.0)
    image = np.asarray(
        [listed[1].index(text) if text in listed[1] else columns[1].size for text in listed[0]]
        + [-1] * (columns[0].size - columns[0].values)
    )
    same = Image((one,), (columns[0].size,), other, image, columns[1].values)
    return same if phrase.sign == "=" else Opposite(same)


def bound_by(phrase: g.Phrase, schema: Schema) -> frozenset[int]:
    """Columns whose empty cells or OTHER a phrase speaks of."""
    match phrase:
        case g.Missing(column):
            return frozenset((column,))
        case g.Compared(column, _, value):
            return frozenset((column,) if value in ("MISSING", "OTHER") else ())
        case g.Among(column, values):
            return frozenset((column,) if {"MISSING", "OTHER"} & set(values) else ())
        case g.Not(inner):
            return bound_by(inner, schema)
        case g.Every(inner) | g.Some(inner):
            return frozenset().union(*(bound_by(one, schema) for one in inner))
        case g.Implies(premise, conclusion):
            return bound_by(premise, schema) | bound_by(conclusion, schema)
    return frozenset()


def mapped(key: int, column: int, pairs: Mapping[str, str], schema: Schema) -> Judge:
    """``given determines column`` by a public mapping of values."""
    one, other = schema.columns[key], schema.columns[column]
    image = np.full(one.size, -1)
    for text, value in pairs.items():
        image[_code(one, text)] = _code(other, value)
    return Image((key,), (one.size,), column, image, other.values)


def _code(column: Column, value: str) -> int:
    """The code of a value that has a code of its own."""
    label = value in column.labels[: column.values]
    code = column.labels.index(value) if label else column.code_of(value)
    axis = Axis.of(column)
    if code >= column.values or not (label or axis.low[code] == axis.high[code]):
        raise ParameterError(
            f"The mapping names {shown(value)} of {column.name!r}, which is a part of the bin"
            f" {column.label(code)}; map whole bins, or give the column a bin for each value."
        )
    return code


def leaves(judge: Judge) -> Iterator[tuple[Judge, frozenset[int]]]:
    """The comparisons that a phrase is made of, each with its columns."""
    match judge:
        case Opposite(inner):
            yield from leaves(inner)
        case All(inner):
            for one in inner:
                yield from leaves(one)
        case OfCodes(column):
            yield judge, frozenset((column,))
        case Line(terms):
            yield judge, frozenset(column for _, column in terms)
        case Image(keys, _, column):
            yield judge, frozenset((*keys, column))


def lines_in(judge: Judge) -> Iterator[Line]:
    """The sums and comparisons of columns among them."""
    yield from (leaf for leaf, _ in leaves(judge) if isinstance(leaf, Line))
