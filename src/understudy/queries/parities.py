"""Parities of many columns at once: of each a public bit, and every set of some columns a query.

A column of two values is its own bit; of any other, a public map says which of its codes are 1. A
query asks whether an odd number of the bits of its columns are 1. Rows are packed, 64 to a word, so
that a parity costs one step for 64 rows, and sets that share columns share steps.

A parity sees what no marginal of fewer columns sees: the exclusive or of five columns looks
like chance to every four of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import WorkloadError
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.runtime.compiled import kernel
from understudy.schema.domain import Domain

MOST_PARITIES = 1 << 22  # of one batch: 32 MB of counts
WORD = 64  # rows in a word


@dataclass(frozen=True)
class Parities(QueryClass):
    """Every parity of ``least`` to ``most`` of some columns' bits, narrow ones first.

    Attributes:
        positions: the columns, rising.
        bits: of each, the bit of every code.
        least, most: how many columns a parity has.
        anchor: a column that every parity has; None for any.

    Examples:
        >>> from understudy.counting.tally import CodedRows
        >>> batch = Parities((0, 1, 2), ((0, 1), (0, 1), (0, 1)), 2, 3)
        >>> rows = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]], np.int32)
        >>> batch.counts(CodedRows(rows, (2, 2, 2))).dense()
        array([2, 1, 1, 1])
    """

    positions: tuple[int, ...]
    bits: tuple[tuple[int, ...], ...]
    least: int
    most: int
    anchor: int | None = None

    kind: ClassVar[str] = "parities"

    def __post_init__(self) -> None:
        positions, bits = tuple(self.positions), tuple(map(tuple, self.bits))
        plain = [*positions, *(bit for one in bits for bit in one), self.least, self.most]
        if not all(type(one) is int for one in plain) or len(positions) != len(bits):
            raise WorkloadError("Parities have columns, and of each the bit of every code.")
        if list(positions) != sorted(set(positions)) or min(positions, default=0) < 0:
            raise WorkloadError("The columns of parities rise, each once.")
        if any(not one or not set(one) <= {0, 1} for one in bits):
            raise WorkloadError("Every code of a column has a bit, 0 or 1.")
        if not 1 <= self.least <= self.most <= len(positions):
            raise WorkloadError("Parities are of at least one column, and of no more than all.")
        if self.anchor is not None and self.anchor not in positions:
            raise WorkloadError("The column that every parity has is one of theirs.")
        if self.size > MOST_PARITIES:
            raise WorkloadError(
                f"There are {self.size:,} parities, and at most {MOST_PARITIES:,} are counted"
                " together; use fewer columns at a time."
            )
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "bits", bits)

    @property
    def _free(self) -> tuple[int, ...]:
        """Places of the columns that a parity may or may not have."""
        return tuple(i for i, p in enumerate(self.positions) if p != self.anchor)

    @property
    def _fixed(self) -> tuple[int, ...]:
        return () if self.anchor is None else (self.positions.index(self.anchor),)

    @property
    def _widths(self) -> range:
        """How many free columns parities have."""
        return range(self.least - len(self._fixed), self.most - len(self._fixed) + 1)

    @property
    def size(self) -> int:
        return sum(math.comb(len(self._free), k) for k in self._widths)

    @property
    def columns(self) -> tuple[int, ...]:
        return self.positions

    def places(self, index: int) -> tuple[int, ...]:
        """Which of the columns one parity has."""
        for k in self._widths:
            sets = math.comb(len(self._free), k)
            if index < sets:
                chosen = next(islice(combinations(self._free, k), index, None))
                return tuple(sorted((*self._fixed, *chosen)))
            index -= sets
        raise IndexError(index)

    def of_columns(self, index: int) -> tuple[int, ...]:
        """The columns of one parity."""
        return tuple(self.positions[i] for i in self.places(index))

    def cells(self, index: int) -> BinnedMarginal:
        """The table of the bits of one parity: 2^k cells, of which it is every other."""
        at = self.places(index)
        bits = [self.bits[i] for i in at]
        return BinnedMarginal(
            self.of_columns(index), tuple(map(len, bits)), tuple(map(_from_zero, bits))
        )

    # ------------------------------------------------------------------ counting

    def counts(self, table: Verbs) -> Counts:
        return Counts(self.size, table.scan(self))

    def tally(self, block: np.ndarray) -> np.ndarray:
        words = self._packed(block)
        start = np.zeros(words.shape[1], np.uint64)
        for place in self._fixed:
            start ^= words[place]
        total, first = np.zeros(self.size, np.int64), 0
        free = np.ascontiguousarray(words[list(self._free)])
        for k in self._widths:
            sets = math.comb(len(self._free), k)
            _count_odd(free, start, k, total[first : first + sets])
            first += sets
        return total

    def _packed(self, block: np.ndarray) -> np.ndarray:
        """Columns x words: the bits of the rows of a block, and zeros beyond them."""
        rows = np.zeros((len(self.positions), -(-max(len(block), 1) // WORD) * WORD), np.uint8)
        for i, bits in enumerate(self.bits):
            rows[i, : len(block)] = _bits_of(bits, block[:, i])
        return np.packbits(rows, axis=1).view(np.uint64)

    @cached_property
    def _members(self) -> np.ndarray:
        """Queries x columns: 1 where a parity has the column."""
        members, row = np.zeros((self.size, len(self.positions)), np.int8), 0
        for k in self._widths:
            for chosen in combinations(self._free, k):
                members[row, [*self._fixed, *chosen]] = 1
                row += 1
        return members

    def truth(self, block: np.ndarray) -> np.ndarray:
        bits = [_bits_of(one, block[:, i]) for i, one in enumerate(self.bits)]
        odd: np.ndarray = np.column_stack(bits).astype(np.int64) @ self._members.T % 2 == 1
        return odd

    # ------------------------------------------------------------------ single queries

    def around(self, index: int) -> Parities:
        at = self.places(index)
        return Parities(self.of_columns(index), tuple(self.bits[i] for i in at), len(at), len(at))

    def fits(self, schema: Domain) -> bool:
        inside = all(p < len(schema.shape) for p in self.positions)
        return inside and all(
            len(bits) == schema.shape[p] for p, bits in zip(self.positions, self.bits, strict=True)
        )

    def l2_squared(self, neighbours: Neighbours) -> int:
        return self.size  # every parity may change by one, under either relation

    def describe(self, schema: Domain, index: int) -> str:
        names = [schema.names[p] for p in self.of_columns(index)]
        return f"an odd number of the bits of {', '.join(names)}"

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        anchor = None if self.anchor is None else schema.names[self.anchor]
        return {
            "kind": self.kind,
            "columns": [schema.names[p] for p in self.positions],
            "bits": [list(one) for one in self.bits],
            "least": self.least,
            "most": self.most,
            "anchor": anchor,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> Parities:
        anchor = None if data["anchor"] is None else schema.position(data["anchor"])
        batch = cls(
            tuple(map(schema.position, data["columns"])),
            tuple(map(tuple, data["bits"])),
            data["least"],
            data["most"],
            anchor,
        )
        if not batch.fits(schema):
            raise WorkloadError("Parities name bits of codes that the schema does not have.")
        return batch

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[Parities]:
        positions = tuple(sorted(rng.permutation(len(schema))[: min(len(schema), 4)].tolist()))
        bits = tuple(tuple(rng.integers(0, 2, schema.shape[p]).tolist()) for p in positions)
        yield cls(positions, bits, 1, len(positions))
        yield cls(positions, bits, 1, len(positions), positions[-1])


def even_less_odd(table: np.ndarray, bits: int) -> np.ndarray:
    """For each set of bits, what a table of 2^bits cells has where an even number of them is 1, less
    what it has elsewhere (the Walsh-Hadamard transform); sets and cells with the first bit slowest.
    """
    cube = table.reshape((2,) * bits)
    for axis in range(bits):
        no, yes = np.take(cube, 0, axis), np.take(cube, 1, axis)
        cube = np.stack([no + yes, no - yes], axis)
    return cube.reshape(-1)


def _bits_of(bits: tuple[int, ...], codes: np.ndarray) -> np.ndarray:
    """The bit of each code, the last one beyond their end: whether a row has such a code must not
    be told by an error.
    """
    ones: np.ndarray = np.asarray(bits, np.uint8)[np.minimum(codes, len(bits) - 1)]
    return ones


def _from_zero(bits: tuple[int, ...]) -> tuple[int, ...]:
    """The same two bins, numbered without a gap."""
    return bits if 0 in bits else (0,) * len(bits)


@kernel()
def _count_odd(free: np.ndarray, start: np.ndarray, k: int, total: np.ndarray) -> None:
    """How many rows have an odd number of ones, for every set of k of some columns, in order.

    Level by level, ``sums`` holds the words of the columns chosen so far, added without carry: the
    next set needs only the levels below the first column that changes.
    """
    columns, words = free.shape
    chosen, sums = np.arange(k), np.zeros((k + 1, words), np.uint64)
    sums[0] = start
    level = 0
    for number in range(len(total)):
        for j in range(level, k):
            sums[j + 1] = sums[j] ^ free[chosen[j]]
        ones = np.uint64(0)
        for word in sums[k]:
            ones += _ones(word)
        total[number] = np.int64(ones)
        level = k - 1
        while level >= 0 and chosen[level] == columns - k + level:
            level -= 1
        if level >= 0:
            chosen[level] += 1
            for j in range(level + 1, k):
                chosen[j] = chosen[j - 1] + 1
        level = max(level, 0)


@kernel(inner=True, inline="always")
def _ones(word: np.uint64) -> np.uint64:
    """How many bits of a word are 1: pairs, fours and eights are added up side by side."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
