"""Counting coded rows: the two verbs that sensitive sources and released rows share.

``count(column_sets)`` gives contingency tables and ``scan(row_function)`` gives one count per
query; both are sums over rows of a function of that row alone, and both return integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from understudy.errors import NotSupported
from understudy.runtime.compiled import kernel

DENSE_CELLS = 2**24  # a table up to this size is one array; a larger one keeps occupied cells only
LARGEST_TABLE = 2**62  # cell numbers are 64-bit
BLOCK_ROWS = 1 << 16  # 256 kB a column of codes, which stay in a cache
BLOCK_CODES = 1 << 24  # of wide tables fewer rows make a block


@dataclass(frozen=True, slots=True)
class Counts:
    """Integer counts of ``cells`` cells: all of them in order, or (``keys``) the occupied ones."""

    cells: int
    values: np.ndarray
    keys: np.ndarray | None = None

    def dense(self) -> np.ndarray:
        """All cells as one array; refuses tables that should never be one."""
        if self.keys is None:
            return self.values
        if self.cells > DENSE_CELLS:
            raise NotSupported(
                f"A marginal of {self.cells:,} cells is too large to hold whole; ask for fewer"
                " columns or wider bins."
            )
        full = np.zeros(self.cells, np.int64)
        full[self.keys] = self.values
        return full

    def at(self, cells: np.ndarray) -> np.ndarray:
        """The counts of some cells, given by number."""
        if self.keys is None:
            return self.values[cells]
        if not len(self.keys):
            return np.zeros(len(cells), np.int64)
        place = np.minimum(np.searchsorted(self.keys, cells), len(self.keys) - 1)
        return np.where(self.keys[place] == cells, self.values[place], 0)


class RowFunction(Protocol):
    """A batch of queries, each a 0/1 function of one row."""

    @property
    def columns(self) -> tuple[int, ...]: ...

    @property
    def size(self) -> int: ...

    def tally(self, block: np.ndarray) -> np.ndarray:
        """How many rows of ``block`` (rows x columns, int32 codes) satisfy each query."""
        ...


@dataclass(frozen=True, eq=False)
class Literals:
    """Conjunctions of k literals each, as arrays of queries x k: "a column takes (or, unless it
    holds, does not take) a value".
    """

    columns: np.ndarray  # int32, positions in the schema
    values: np.ndarray  # int32
    holds: np.ndarray  # bool


class Conjunctive:
    """Nothing but conjunctions: a table that has a faster way than blocks may take it."""

    literals: Literals


class Verbs(Protocol):
    """All that anybody may ask of a table."""

    def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]: ...

    def scan(self, row_function: RowFunction) -> np.ndarray: ...


class Blocks(ABC):
    """The two verbs over anything that can hand out blocks of codes."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Number of codes of each column."""

    @abstractmethod
    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        """Blocks of the named columns: int32 arrays, rows x len(columns), covering each row once."""

    def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
        """One contingency table per set of columns, all in one pass; the empty set counts the rows."""
        columns = tuple(sorted({c for columns in column_sets for c in columns}))
        at = {c: i for i, c in enumerate(columns)}
        tables = [
            _Table(tuple(at[c] for c in wanted), tuple(self.shape[c] for c in wanted))
            for wanted in column_sets
        ]
        for block in self._blocks(columns):
            for table in tables:
                table.add(block)
        return [table.counts() for table in tables]

    def scan(self, row_function: RowFunction) -> np.ndarray:
        """How many rows satisfy each query of a batch."""
        total = np.zeros(row_function.size, np.int64)
        for block in self._blocks(row_function.columns):
            total += row_function.tally(block)
        return total


class CodedRows(Blocks):
    """Rows of codes in memory: a release's own rows, or a model's."""

    def __init__(self, codes: np.ndarray, shape: tuple[int, ...]) -> None:
        self._codes, self._shape = codes, shape

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        wanted, step = np.asarray(columns, np.int64), rows_of_a_block(len(columns))
        for start in range(0, len(self._codes), step):
            yield np.ascontiguousarray(
                np.take(self._codes[start : start + step], wanted, axis=1), np.int32
            )


def rows_of_a_block(columns: int) -> int:
    """How many rows of so many columns go together: whole words of 64, in bounded memory."""
    return max(64, min(BLOCK_ROWS, BLOCK_CODES // max(columns, 1)) // 64 * 64)


def count_cells(rows: np.ndarray, positions: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """The dense contingency table of some columns of coded rows, flat, int32."""
    table = np.zeros(math.prod(shape), np.int64)  # as sources count: one kernel for both
    _add_to_table(rows, np.asarray(positions, np.int64), _strides(shape), table)
    return table.astype(np.int32)


def cell_numbers(rows: np.ndarray, positions: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """Each row's cell in the marginal of some columns."""
    cells: np.ndarray = _cell_numbers(rows, np.asarray(positions, np.int64), _strides(shape))
    return cells


def cells_in_bins(
    rows: np.ndarray, positions: Sequence[int], shape: Sequence[int], bins: Sequence[Any]
) -> np.ndarray:
    """The same of columns in bins: of each column the bin of every code, or None for no bins."""
    cells = np.zeros(len(rows), np.int64)
    for p, stride, bin_of in zip(positions, _strides(shape), bins, strict=True):
        cells += stride * (rows[:, p] if bin_of is None else np.asarray(bin_of)[rows[:, p]]).astype(
            np.int64
        )
    return cells


def records_over(
    columns: Sequence[int], shape: Sequence[int], first: int = 0, last: int | None = None
) -> np.ndarray:
    """Every combination of the codes of some columns, one a row, in the order of a flat marginal;
    or those of some cells of it.
    """
    sizes = [shape[c] for c in columns]
    cells = np.arange(first, math.prod(sizes) if last is None else last)
    records = np.empty((len(cells), len(sizes)), np.int32)
    for j, (stride, size) in enumerate(zip(_strides(sizes), sizes, strict=True)):
        records[:, j] = cells // stride % size
    return records


def _strides(shape: Sequence[int]) -> np.ndarray:
    return np.asarray([math.prod(shape[i + 1 :]) for i in range(len(shape))], np.int64)


class _Table:
    """A contingency table being filled."""

    def __init__(self, positions: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self.cells = math.prod(sizes)
        if self.cells > LARGEST_TABLE:
            raise NotSupported(
                f"A marginal of {len(sizes)} columns has {self.cells:,} cells, too many to number;"
                " ask for fewer columns."
            )
        self.positions = np.asarray(positions, np.int64)
        self.strides = _strides(sizes)
        self.dense = np.zeros(self.cells, np.int64) if self.cells <= DENSE_CELLS else None
        self.pending: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, block: np.ndarray) -> None:
        if self.dense is not None:
            _add_to_table(block, self.positions, self.strides, self.dense)
            return
        keys, values = np.unique(
            _cell_numbers(block, self.positions, self.strides), return_counts=True
        )
        self.pending.append((keys, values))
        if len(self.pending) >= 32:
            self.pending = [self._merged()]

    def _merged(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.pending:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys, inverse = np.unique(np.concatenate([k for k, _ in self.pending]), return_inverse=True)
        values = np.zeros(len(keys), np.int64)
        np.add.at(values, inverse, np.concatenate([v for _, v in self.pending]))
        return keys, values

    def counts(self) -> Counts:
        if self.dense is not None:
            return Counts(self.cells, self.dense)
        keys, values = self._merged()
        return Counts(self.cells, values, keys)


@kernel()
def _cell_numbers(block: np.ndarray, positions: np.ndarray, strides: np.ndarray) -> np.ndarray:
    cell = np.zeros(block.shape[0], np.int64)
    for row in range(block.shape[0]):
        for j in range(len(positions)):
            cell[row] += block[row, positions[j]] * strides[j]
    return cell


@kernel(borrows=True)
def _add_to_table(
    block: np.ndarray, positions: np.ndarray, strides: np.ndarray, table: np.ndarray
) -> None:
    for row in range(block.shape[0]):
        cell = 0
        for j in range(len(positions)):
            cell += block[row, positions[j]] * strides[j]
        table[cell] += 1


@kernel(borrows=True, inner=True, forceinline=True)
def ones(word: np.uint64) -> int:
    """How many bits of a 64-bit word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]
