"""Queries on relaxed rows: expected answers when every column of every row is a distribution, and
their gradients.

A relaxed row draws each of its columns independently. The expected answer of a query is then a
multilinear polynomial of the probabilities that equals the query on ordinary rows (the paper's
"equivalent extended differentiable query"), and it is what randomised rounding preserves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from understudy.errors import NotSupported
from understudy.queries.base import QueryClass, Relaxed
from understudy.queries.literals import Query
from understudy.queries.symmetric import Symmetric, apart
from understudy.runtime.compiled import kernel

LANES = 256  # relaxed rows handled together: the inner loops run over them, side by side in memory
BLOCK_FLOATS = 1 << 20  # of one merged group of columns; four such blocks are alive at most, 16 MB
# sums may be reordered; infinities and NaNs keep their meaning
QUICK = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True)
class Chances:
    """Relaxed rows: ``values[starts[c] + v, r]`` is the chance of value v in column c of row r."""

    values: np.ndarray
    starts: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.values.shape[1])

    def column(self, c: int) -> np.ndarray:
        """The chances of one column, values x rows: a view."""
        return self.values[self.starts[c] : self.starts[c + 1]]


def relaxed(batch: QueryClass) -> Relaxed:
    """The relaxed form of a batch, or a refusal."""
    form = relaxed_form(batch)
    if form is None:
        raise NotSupported(
            f"Queries of the kind {batch.kind} have no relaxed form, which relaxed rows need."
        )
    return form


def relaxed_form(batch: QueryClass) -> Relaxed | None:
    """Its own, that of its table, or that of its queries one by one; None when there is neither."""
    own = batch.relaxed()
    if own is not None:
        return own
    table = batch.as_table()
    if table is not None:
        return RelaxedTable(table.positions, table.shape)
    queries = apart(batch)
    return None if queries is None else relaxed_queries(queries)


def relaxed_queries(batch: Symmetric) -> RelaxedQueries:
    """The form of symmetric queries, made once for a batch: models ask for it again and again."""
    if batch not in _forms:
        _forms[batch] = RelaxedQueries([_on_factors(query) for query in batch.queries])
    return _forms[batch]


# ---------------------------------------------------------------------- whole marginals


class RelaxedTable:
    """A whole marginal as a product of two matrices, whose rows are the combined values of two
    groups of its columns.
    """

    def __init__(self, positions: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self._positions, self._shape = positions, shape
        costs = [math.prod(shape[:cut]) + math.prod(shape[cut:]) for cut in range(len(shape) + 1)]
        self._cut = costs.index(min(costs))
        self._height = math.prod(shape[: self._cut])

    def answers(self, at: Chances) -> np.ndarray:
        total = np.zeros((self._height, math.prod(self._shape) // self._height), np.float32)
        for left, right, _ in self._pieces(at):
            total += left[-1] @ right[-1].T
        total /= at.rows
        return total.ravel()

    def pull(self, at: Chances, slopes: np.ndarray, gradient: np.ndarray) -> None:
        slopes = (slopes.reshape(self._height, -1) / at.rows).astype(np.float32)
        for left, right, block in self._pieces(at):
            self._unmerge(
                slopes @ right[-1], left, self._positions[: self._cut], at, gradient, block
            )
            self._unmerge(
                slopes.T @ left[-1], right, self._positions[self._cut :], at, gradient, block
            )

    def _pieces(self, at: Chances) -> Iterator[tuple[list[np.ndarray], list[np.ndarray], slice]]:
        widest = max(self._height, math.prod(self._shape) // self._height)
        step = max(1, min(at.rows, BLOCK_FLOATS // widest))
        for first in range(0, at.rows, step):
            block = slice(first, min(first + step, at.rows))
            left = _merged([at.column(p)[:, block] for p in self._positions[: self._cut]], block)
            right = _merged([at.column(p)[:, block] for p in self._positions[self._cut :]], block)
            yield left, right, block

    @staticmethod
    def _unmerge(
        slopes: np.ndarray,
        merged: list[np.ndarray],
        positions: tuple[int, ...],
        at: Chances,
        gradient: np.ndarray,
        block: slice,
    ) -> None:
        """Pass slopes of the combined values on to the columns, the last column first."""
        for depth in range(len(positions) - 1, -1, -1):
            column = slice(at.starts[positions[depth]], at.starts[positions[depth] + 1])
            slopes = _split(slopes, merged[depth], at.values[column], gradient[column], block.start)


def _merged(columns: Sequence[np.ndarray], block: slice) -> list[np.ndarray]:
    """The combined values of no column, the first, the first two, ...: each combinations x rows."""
    merged = [np.ones((1, block.stop - block.start), np.float32)]
    for column in columns:
        merged.append((merged[-1][:, None, :] * column).reshape(-1, column.shape[1]))
    return merged


@kernel(fastmath=QUICK)
def _split(
    slopes: np.ndarray, before: np.ndarray, column: np.ndarray, to_column: np.ndarray, start: int
) -> np.ndarray:
    """Slopes of (before x column) to each of the two; rows of ``column`` are taken from ``start``."""
    to_before = np.zeros_like(before)
    for i in range(before.shape[0]):
        for v in range(column.shape[0]):
            line = slopes[i * column.shape[0] + v]
            # whole arrays and an offset, not views: the compiler must see neighbours side by side
            for r in range(before.shape[1]):
                to_before[i, r] += line[r] * column[v, start + r]
                to_column[v, start + r] += line[r] * before[i, r]
    return to_before


# ---------------------------------------------------------------------- symmetric functions of literals


@dataclass(frozen=True)
class Factor:
    """What one column adds to a query's count of satisfied literals: ``base``, but ``count`` if it
    has a value that is named.
    """

    column: int
    base: int
    named: tuple[tuple[int, int], ...]  # (value, count)

    @property
    def most(self) -> int:
        return max([self.base, *(count for _, count in self.named)])


def _on_factors(query: Query) -> tuple[tuple[Factor, ...], tuple[int, ...]]:
    """(what each column adds to the count of satisfied literals, the table by that count); literals
    of one column are not independent.
    """
    base: Counter[int] = Counter()  # satisfied when a column takes none of its named values
    lifts: dict[int, Counter[int]] = {}  # how many more are, when it takes one of them
    for x in query.literals:
        base[x.column] += not x.holds
        lifts.setdefault(x.column, Counter())[x.value] += 1 if x.holds else -1
    factors = tuple(
        Factor(
            column,
            base[column],
            tuple((value, base[column] + lift) for value, lift in values.items()),
        )
        for column, values in lifts.items()
    )
    # no more literals than these hold at once, however many exclude each other
    return factors, query.table[: sum(factor.most for factor in factors) + 1]


class RelaxedQueries:
    """Symmetric queries: ``table[count]``, the count a sum of independent factors, one for each
    column of the query.

    With V_j(c) the expected table entry when the factors before j have added c, and D_j(c) the
    chance of that,

        V_j(c) = sum over what factor j adds of chance * V_{j+1}(c + added),    answer = V_0(0),
        d answer / d chance(value) = sum over c of D_j(c) * (V_{j+1}(c + count) - V_{j+1}(c + base)):

    exact, without a division, and quadratic in the number of literals.
    """

    def __init__(self, queries: Sequence[tuple[Sequence[Factor], Sequence[int]]]) -> None:
        self._queries = queries

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        factors = [factor for query, _ in self._queries for factor in query]
        named = [(factor.column, *pair) for factor in factors for pair in factor.named]
        before = [
            count
            for query, _ in self._queries
            for count in np.cumsum([0, *(factor.most for factor in query)])[:-1]
        ]
        return (
            _edges([len(query) for query, _ in self._queries]),
            _edges([len(factor.named) for factor in factors]),
            np.asarray([factor.base for factor in factors], np.int64),
            np.asarray(before, np.int64),
            np.asarray([count for _, _, count in named], np.int64),
            _edges([len(table) for _, table in self._queries]),
            np.asarray([bit for _, table in self._queries for bit in table], np.float32),
        )

    @cached_property
    def _named(self) -> tuple[np.ndarray, np.ndarray]:
        named = [
            (factor.column, value)
            for query, _ in self._queries
            for factor in query
            for value, _ in factor.named
        ]
        columns, values = np.asarray(named, np.int64).reshape(-1, 2).T
        return columns, values

    def answers(self, at: Chances) -> np.ndarray:
        columns, values = self._named
        totals: np.ndarray = _expected(at.values, at.starts[columns] + values, *self._arrays)
        return totals / at.rows

    def pull(self, at: Chances, slopes: np.ndarray, gradient: np.ndarray) -> None:
        columns, values = self._named
        slopes = (slopes / at.rows).astype(np.float32)
        _pull_back(at.values, at.starts[columns] + values, *self._arrays, slopes, gradient)


_forms: WeakKeyDictionary[Symmetric, RelaxedQueries] = WeakKeyDictionary()


def _edges(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@kernel(inner=True, fastmath=QUICK)
def _fill_values(
    ahead: np.ndarray,
    table: np.ndarray,
    q: int,
    lanes: slice,
    chances: np.ndarray,
    where: np.ndarray,
    factors: np.ndarray,
    named: np.ndarray,
    base: np.ndarray,
    before: np.ndarray,
    counts: np.ndarray,
) -> None:
    """``ahead[j, c]``: V_j(c) of one query for some relaxed rows."""
    first, last = factors[q], factors[q + 1]
    width = lanes.stop - lanes.start
    for c in range(len(table)):
        ahead[last - first, c, :width] = table[c]
    for f in range(last - 1, first - 1, -1):
        for c in range(before[f] + 1):
            new, rest = ahead[f - first, c], ahead[f - first + 1, c + base[f]]
            for r in range(width):
                new[r] = rest[r]
            for e in range(named[f], named[f + 1]):
                chance, there = chances[where[e], lanes], ahead[f - first + 1, c + counts[e]]
                for r in range(width):
                    new[r] += chance[r] * (there[r] - rest[r])


@kernel(fastmath=QUICK)
def _expected(
    chances: np.ndarray,
    where: np.ndarray,
    factors: np.ndarray,
    named: np.ndarray,
    base: np.ndarray,
    before: np.ndarray,
    counts: np.ndarray,
    tables: np.ndarray,
    table: np.ndarray,
) -> np.ndarray:
    deepest, widest = np.max(np.diff(factors)), np.max(np.diff(tables))
    ahead = np.empty((deepest + 1, widest, LANES), np.float32)
    total = np.zeros(len(factors) - 1, np.float64)
    for start in range(0, chances.shape[1], LANES):
        lanes = slice(start, min(start + LANES, chances.shape[1]))
        for q in range(len(total)):
            _fill_values(
                ahead,
                table[tables[q] : tables[q + 1]],
                q,
                lanes,
                chances,
                where,
                factors,
                named,
                base,
                before,
                counts,
            )
            mass = np.float32(0)
            for r in range(lanes.stop - lanes.start):
                mass += ahead[0, 0, r]
            total[q] += mass
    return total


@kernel(fastmath=QUICK)
def _pull_back(
    chances: np.ndarray,
    where: np.ndarray,
    factors: np.ndarray,
    named: np.ndarray,
    base: np.ndarray,
    before: np.ndarray,
    counts: np.ndarray,
    tables: np.ndarray,
    table: np.ndarray,
    slopes: np.ndarray,
    gradient: np.ndarray,
) -> None:
    deepest, widest = np.max(np.diff(factors)), np.max(np.diff(tables))
    ahead = np.empty((deepest + 1, widest, LANES), np.float32)
    behind, moved = np.empty((widest, LANES), np.float32), np.empty((widest, LANES), np.float32)
    for start in range(0, chances.shape[1], LANES):
        lanes = slice(start, min(start + LANES, chances.shape[1]))
        width = lanes.stop - lanes.start
        for q in range(len(slopes)):
            _fill_values(
                ahead,
                table[tables[q] : tables[q + 1]],
                q,
                lanes,
                chances,
                where,
                factors,
                named,
                base,
                before,
                counts,
            )
            behind[0, :width] = slopes[q]  # D_0, with the slope carried along
            for f in range(factors[q], factors[q + 1]):
                following = ahead[f - factors[q] + 1]
                # nobody asks for what lies behind the last factor
                reach = before[f + 1] if f + 1 < factors[q + 1] else -1
                moved[: reach + 1, :width] = 0
                for c in range(before[f] + 1):
                    here, rest = behind[c], following[c + base[f]]
                    for e in range(named[f], named[f + 1]):
                        there, into = following[c + counts[e]], gradient[where[e], lanes]
                        for r in range(width):
                            into[r] += here[r] * (there[r] - rest[r])
                    if reach >= 0:
                        stays = moved[c + base[f]]
                        for r in range(width):
                            stays[r] += here[r]
                        for e in range(named[f], named[f + 1]):
                            chance, goes = chances[where[e], lanes], moved[c + counts[e]]
                            for r in range(width):
                                goes[r] += here[r] * chance[r]
                                stays[r] -= here[r] * chance[r]
                behind, moved = moved, behind
