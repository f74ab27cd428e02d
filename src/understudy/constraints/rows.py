"""Rows of codes as rows of values that keep every rule.

Codes that cannot keep a rule are repaired first. Then a value is drawn in the bin of every cell, as
without rules; rows whose values break a rule draw again, and rows that never hit it are searched
for. So this always ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.constraints.repair import repaired
from understudy.constraints.rules import Rule, Rules, Tie
from understudy.constraints.search import NONE, find_row, find_values
from understudy.errors import NotSupported
from understudy.queries.outcomes import Line, lines_in
from understudy.schema import Column, Schema
from understudy.schema.columns import Binned, Moment

MOST_SEARCHED = 200  # combinations of codes: what is left after so many is copied from other rows
DRAWS = 40  # of the values of a row, before they are searched for
MICROSECONDS = 1_000_000  # in a second


@dataclass(frozen=True)
class Kept:
    """Rows that keep the rules.

    Attributes:
        codes: the rows, coded.
        table: the same in the user's types.
        changed: how many rows have other codes than they came with.
    """

    codes: np.ndarray
    table: pa.Table
    changed: int


class Draws(Protocol):
    """How codes become values."""

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Table: ...

    def draw(self, place: int, codes: np.ndarray, rng: np.random.Generator) -> pa.Array: ...


@dataclass(frozen=True)
class Alike:
    """Every value of a bin alike."""

    schema: Schema

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Table:
        return self.schema.decode(codes, rng)

    def draw(self, place: int, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        return self.schema.columns[place].decode(codes, rng)


def rows_that_keep(
    rules: Rules, codes: np.ndarray, rng: np.random.Generator, draws: Draws | None = None
) -> Kept:
    """The rows in the user's types, every rule kept; without rules, just as they are drawn."""
    draws = draws or Alike(rules.schema)
    if not rules:
        return Kept(codes, draws.decode(codes, rng), 0)
    mended = repaired(rules, codes, rng)
    table = draws.decode(mended.codes, rng)
    values = _Values(mended.rules, mended.codes.copy(), table, draws, rng)
    for columns, some in mended.rules.groups:
        values.keep(columns, some)
    for tie in rules.ties:  # last: a value that a tie chooses inside a bin stands in no other rule
        values.tie(tie)
    changed = int((values.codes != codes).any(axis=1).sum())
    return Kept(values.codes, values.table(table), changed)


def numbers_of(column: Column, cells: pa.ChunkedArray) -> np.ndarray:
    """Where decoded cells of a column stand on its axis; 0 where they are empty."""
    if isinstance(column, Moment):
        unit = pa.int32() if column.date else pa.int64()
        cells = pc.cast(cells if column.date else pc.cast(cells, pa.timestamp("us")), unit)
    filled = pc.fill_null(cells, 0).to_numpy().astype(np.float64)
    seconds = isinstance(column, Moment) and not column.date
    return np.floor(filled / MICROSECONDS) if seconds else filled


def cells_of(column: Column, numbers: np.ndarray, empty: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The inverse of :func:`numbers_of`, in the type that the column decodes to."""
    if isinstance(column, Moment):
        unit = "M8[D]" if column.date else "M8[s]"
        values = numbers.astype(np.int64).astype(unit).astype(unit if column.date else "M8[us]")
        return pc.cast(pa.array(values, mask=empty), kind)
    whole = isinstance(column, Binned) and column.whole
    return pc.cast(pa.array(numbers.astype(np.int64) if whole else numbers, mask=empty), kind)


def values_of(schema: Schema, rules: Rules, table: pa.Table) -> dict[int, np.ndarray]:
    """The values of the columns that rules compare as numbers."""
    return {
        c: numbers_of(schema.columns[c], table[schema.names[c]])
        for c in rules.axes
        if isinstance(schema.columns[c], Binned)
    }


@dataclass(frozen=True)
class Count:
    """How a rule fares among rows.

    Attributes:
        rule: which one.
        touched: rows that it says something about.
        broken: rows that break it; of a tie, rows unlike the first that is equal in what is given.
    """

    rule: Rule | Tie
    touched: int
    broken: int


def counts(rules: Rules, codes: np.ndarray, table: pa.Table) -> Iterator[Count]:
    """Every rule asked about released rows, by their decoded values."""
    numbers = values_of(rules.schema, rules, table)
    spans = rules.spans(codes, numbers)
    for rule in rules.alone:
        touched = int(rule.speaks_of(spans).sum())
        yield Count(rule, touched, int((~rule.allows(spans)).sum()))
    for tie in rules.ties:
        yield _count_tie(rules.schema, tie, codes, numbers)


def _count_tie(
    schema: Schema, tie: Tie, codes: np.ndarray, numbers: Mapping[int, np.ndarray]
) -> Count:
    has = np.all([codes[:, c] < schema.columns[c].values for c in tie.columns], axis=0)
    # a code and, inside it, a value
    keys = {
        c: np.column_stack([codes[has, c], numbers.get(c, codes[:, c])[has]]) for c in tie.columns
    }
    _, group = np.unique(np.hstack([keys[c] for c in tie.keys]), axis=0, return_inverse=True)
    _, first = np.unique(group, return_index=True)
    other = (keys[tie.column] != keys[tie.column][first][group]).any(axis=1)
    return Count(tie, int(has.sum()), int(other.sum()))


class _Values:
    """Values of rows while they are made to keep rules."""

    def __init__(
        self,
        rules: Rules,
        codes: np.ndarray,
        table: pa.Table,
        draws: Draws,
        rng: np.random.Generator,
    ) -> None:
        self._rules, self.codes, self._draws, self._rng = rules, codes, draws, rng
        self._schema = rules.schema
        self._numbers = values_of(rules.schema, rules, table)
        self._axes = rules.axes
        self._changed: set[int] = set()

    def table(self, table: pa.Table) -> pa.Table:
        """The table with the columns that were changed."""
        for c in sorted(self._changed):
            column, name = self._schema.columns[c], self._schema.names[c]
            kind = table[name].type
            if c in self._numbers:
                empty = self.codes[:, c] >= column.values
                cells = cells_of(column, self._numbers[c], empty, kind)
            else:
                cells = self._draws.draw(c, self.codes[:, c], self._rng)
            table = table.set_column(c, name, cells)
        return table

    def tie(self, tie: Tie) -> None:
        """One value inside its bin for all rows that are equal in what is given."""
        if tie.column not in self._numbers:
            return
        has = np.flatnonzero(
            np.all([self.codes[:, c] < self._schema.columns[c].values for c in tie.columns], axis=0)
        )
        rows = self.codes[has][:, list(tie.keys)]
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        numbers = self._numbers[tie.column]
        if len(has):
            numbers[has] = numbers[has[first]][group.ravel()]
            self._changed.add(tie.column)

    def keep(self, columns: tuple[int, ...], some: Sequence[Rule]) -> None:
        """Draw again, and then search, where values break a rule of a group."""
        own = {c: self._axes[c] for c in columns}
        free = [c for c in columns if c in self._numbers and own[c].has_spans]
        rows = self._breaking(np.arange(len(self.codes)), some)
        lines = [one for rule in some for one in lines_in(rule.judge) if _adds_up(one)]
        for draw in range(DRAWS):
            if not len(rows) or not free:
                break
            self._draw(rows, free if draw % 2 == 0 else self._some_of(free))
            self._solve(rows, free, lines)
            rows = self._breaking(rows, some)
        if len(rows):
            self._search(rows, columns, some)

    def _breaking(self, rows: np.ndarray, some: Sequence[Rule]) -> np.ndarray:
        """Which of some rows break a rule by their values."""
        spans = {
            c: axis.of_values(self.codes[rows, c], self._numbers[c][rows])
            if c in self._numbers
            else axis.of_codes(self.codes[rows, c])
            for c, axis in self._axes.items()
            if any(c in rule.columns for rule in some)
        }
        return rows[~np.all([rule.allows(spans) for rule in some], axis=0)]

    def _some_of(self, columns: Sequence[int]) -> list[int]:
        """About a third of some columns: a row that is nearly right is not thrown away."""
        size = max(1, len(columns) // 3)
        return [columns[i] for i in self._rng.permutation(len(columns))[:size]]

    def _draw(self, rows: np.ndarray, columns: Sequence[int]) -> None:
        for c in columns:
            column = self._schema.columns[c]
            drawn = self._draws.draw(c, self.codes[rows, c], self._rng)
            cells = drawn if isinstance(drawn, pa.ChunkedArray) else pa.chunked_array([drawn])
            self._numbers[c][rows] = numbers_of(column, cells)
            self._changed.add(c)

    def _solve(self, rows: np.ndarray, free: Sequence[int], lines: Sequence[Line]) -> None:
        """Where a sum must come out, one of its columns gets what the others leave, if that lies in
        its bin: hardly any draw would.
        """
        for i in self._rng.permutation(len(lines)).tolist():
            line = lines[i]
            open_ = [(k, c) for k, c in line.terms if c in free]
            if not open_:
                continue
            factor, column = open_[int(self._rng.integers(len(open_)))]
            total = np.full(len(rows), float(line.constant))
            for k, c in line.terms:
                if c != column:
                    total += k * self._at(c, rows)
            wanted = _written(self._schema.columns[column], -factor * total, line.slack)
            axis, codes = self._axes[column], self.codes[rows, column]
            fits = (wanted >= axis.low[codes]) & (wanted <= axis.high[codes])
            fits &= (codes < axis.values) & (~np.bool_(axis.whole) | (wanted == np.floor(wanted)))
            self._numbers[column][rows[fits]] = wanted[fits]

    def _at(self, column: int, rows: np.ndarray) -> np.ndarray:
        if column in self._numbers:
            return self._numbers[column][rows]
        numbers: np.ndarray = self._axes[column].low[self.codes[rows, column]]
        return numbers

    def _search(self, rows: np.ndarray, columns: tuple[int, ...], some: Sequence[Rule]) -> None:
        """Values that a search finds, the same for the same codes; a row whose codes have none gets
        the codes and values of one that keeps the rules.
        """
        unique, group = np.unique(self.codes[rows][:, list(columns)], axis=0, return_inverse=True)
        lost = []
        for i, codes in enumerate(unique):
            these = rows[group.ravel() == i]
            own = {c: int(code) for c, code in zip(columns, codes, strict=True)}
            found = find_values(some, self._axes, own) if i < MOST_SEARCHED else NONE
            if found.codes is None:
                lost.append(these)
            else:
                self._write(these, found.codes, found.numbers)
        if lost:
            self._copy(np.concatenate(lost), columns, some)

    def _write(
        self, rows: np.ndarray, codes: Mapping[int, int], numbers: Mapping[int, float]
    ) -> None:
        for c, code in codes.items():
            self.codes[rows, c] = code
            if c in self._numbers:
                self._numbers[c][rows] = numbers.get(c, 0.0)
            self._changed.add(c)

    def _copy(self, rows: np.ndarray, columns: tuple[int, ...], some: Sequence[Rule]) -> None:
        good = np.setdiff1d(np.arange(len(self.codes)), rows)
        if not len(good):
            found = find_row(self._rules, some)
            if found.codes is None:
                raise NotSupported(
                    "No row was found that keeps the rules of the schema beside what was asked for."
                )
            self._write(rows, found.codes, found.numbers)
            return
        taken = self._rng.choice(good, len(rows))
        for c in columns:
            self.codes[rows, c] = self.codes[taken, c]
            if c in self._numbers:
                self._numbers[c][rows] = self._numbers[c][taken]
            self._changed.add(c)


def _written(column: Column, numbers: np.ndarray, slack: float) -> np.ndarray:
    """A sum as the values of the column are written: on its step, without the digits that adding
    doubles leaves.
    """
    step = getattr(column, "step", None)
    if isinstance(step, (int, float)):
        digits = max(0, -Decimal(str(step)).normalize().as_tuple().exponent)  # type: ignore[operator]
        return np.round(np.round(numbers / step) * step, digits)
    return np.round(numbers, math.floor(-math.log10(slack))) if slack else numbers


def _adds_up(line: Line) -> bool:
    return line.sign == "=" and len(line.terms) > 1
