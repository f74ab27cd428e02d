"""Who has which item: a rising list of rows for a rare item, a bitmap of all rows for a common one.

A conjunction is counted from its rarest item, looking each of its rows up in the others; or, when
all are common, as the AND of bitmaps. Memory is never more than four bytes for each pair, or an
eighth of a byte for each row and common item.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.counting.tally import Literals, ones
from understudy.runtime.compiled import kernel

WORD_BITS = 64  # of a word of a bitmap
LISTED = 32  # a list of n / 32 rows is as large as a bitmap of n rows


@dataclass(frozen=True, eq=False)
class Postings:
    """The items of a table of ``rows`` rows.

    Attributes:
        starts: where the list of each item begins in ``listed``; it is empty for an item with a
            bitmap.
        places: which row of ``bits`` is the bitmap of an item, -1 for one with a list.
        bits: bitmaps, row r being bit r % 64 of word r // 64.
    """

    rows: int
    starts: np.ndarray = field(repr=False)
    listed: np.ndarray = field(repr=False)
    places: np.ndarray = field(repr=False)
    bits: np.ndarray = field(repr=False)

    @classmethod
    def of_pairs(cls, rows: np.ndarray, items: np.ndarray, shape: tuple[int, int]) -> Postings:
        """From pairs in any order, of which those that occur twice count once."""
        n, width = shape
        keys = np.unique(items.astype(np.int64) * n + rows)
        having = np.bincount(keys // max(n, 1), minlength=width)
        who = (keys % max(n, 1)).astype(np.int32)
        common = having * LISTED > n
        places = np.where(common, np.cumsum(common) - 1, -1).astype(np.int32)
        bits = np.zeros((int(common.sum()), -(-n // WORD_BITS)), np.uint64)
        edges = np.concatenate([[0], np.cumsum(having)])
        _fill(bits, places, edges, who)
        rare = np.repeat(~common, having)
        return cls(
            n,
            np.concatenate([[0], np.cumsum(np.where(common, 0, having))]),
            who[rare],
            places,
            bits,
        )

    @classmethod
    def of_bits(cls, bits: np.ndarray, rows: int) -> Postings:
        """From a bitmap for each item; it is used as it is, not copied."""
        width = len(bits)
        return cls(
            rows,
            np.zeros(width + 1, np.int64),
            np.zeros(0, np.int32),
            np.arange(width, dtype=np.int32),
            bits,
        )

    def having(self, item: int) -> int:
        """How many rows have an item."""
        column = np.asarray([[item]], np.int32)
        return int(
            self.conjunctions(Literals(column, np.ones_like(column), np.ones((1, 1), np.bool_)))[0]
        )

    def conjunctions(self, literals: Literals) -> np.ndarray:
        """How many rows satisfy each conjunction."""
        wanted = (literals.values == 1) == literals.holds
        return np.asarray(
            _conjunctions(
                literals.columns,
                wanted,
                self.rows,
                self.starts,
                self.listed,
                self.places,
                self.bits,
            )
        )

    def codes(self, columns: np.ndarray, first: int, last: int) -> np.ndarray:
        """Rows ``first`` (a multiple of 64) to ``last`` of some items, as codes."""
        block = np.zeros((last - first, len(columns)), np.int32)
        _unpack(block, columns, first, self.starts, self.listed, self.places, self.bits)
        return block


@kernel()
def _fill(bits: np.ndarray, places: np.ndarray, edges: np.ndarray, who: np.ndarray) -> None:
    for item in range(len(places)):
        if places[item] >= 0:
            for i in range(edges[item], edges[item + 1]):
                bits[places[item], who[i] >> 6] |= np.uint64(1) << np.uint64(who[i] & 63)


@kernel()
def _unpack(
    block: np.ndarray,
    columns: np.ndarray,
    first: int,
    starts: np.ndarray,
    listed: np.ndarray,
    places: np.ndarray,
    bits: np.ndarray,
) -> None:
    for j in range(len(columns)):
        item = columns[j]
        if places[item] >= 0:
            for r in range(len(block)):
                word = bits[places[item], (first + r) >> 6]
                block[r, j] = np.int32((word >> np.uint64((first + r) & 63)) & np.uint64(1))
        else:
            rows = listed[starts[item] : starts[item + 1]]
            for i in range(np.searchsorted(rows, first), np.searchsorted(rows, first + len(block))):
                block[rows[i] - first, j] = 1


@kernel(inner=True)
def _has(
    row: int,
    item: int,
    starts: np.ndarray,
    listed: np.ndarray,
    places: np.ndarray,
    bits: np.ndarray,
) -> bool:
    """Whether a row has an item: a bit, or a search in a list."""
    if places[item] >= 0:
        return bool((bits[places[item], row >> 6] >> np.uint64(row & 63)) & np.uint64(1))
    low, high = starts[item], starts[item + 1]
    while low < high:
        middle = (low + high) // 2
        if listed[middle] < row:
            low = middle + 1
        else:
            high = middle
    return bool(low < starts[item + 1] and listed[low] == row)


@kernel()
def _conjunctions(
    columns: np.ndarray,
    wanted: np.ndarray,
    rows: int,
    starts: np.ndarray,
    listed: np.ndarray,
    places: np.ndarray,
    bits: np.ndarray,
) -> np.ndarray:
    total = np.zeros(len(columns), np.int64)
    words = (rows + 63) // 64
    both = np.empty(words, np.uint64)
    for q in range(len(columns)):
        rarest = -1
        for j in range(columns.shape[1]):
            item = columns[q, j]
            if wanted[q, j] and places[item] < 0:
                here = starts[item + 1] - starts[item]
                if rarest < 0 or here < starts[columns[q, rarest] + 1] - starts[columns[q, rarest]]:
                    rarest = j
        if rarest >= 0:
            for i in range(starts[columns[q, rarest]], starts[columns[q, rarest] + 1]):
                satisfied = True
                for j in range(columns.shape[1]):
                    if satisfied and j != rarest:
                        satisfied = (
                            _has(listed[i], columns[q, j], starts, listed, places, bits)
                            == wanted[q, j]
                        )
                total[q] += satisfied
        elif words > 0:
            _intersect(both, columns[q], wanted[q], rows, starts, listed, places, bits)
            for w in range(words):
                total[q] += ones(both[w])
    return total


@kernel(inner=True)
def _intersect(
    both: np.ndarray, columns: np.ndarray, wanted: np.ndarray, rows: int,
    starts: np.ndarray, listed: np.ndarray, places: np.ndarray, bits: np.ndarray,
) -> None:  # fmt: skip
    """The rows that satisfy literals of which every one that wants an item has a bitmap."""
    both[:] = ~np.uint64(0)
    # bits behind the last row are nobody
    both[-1] = ~np.uint64(0) >> np.uint64(63 - ((rows - 1) & 63))
    for j in range(len(columns)):
        place = places[columns[j]]
        if place >= 0 and wanted[j]:
            for w in range(len(both)):
                both[w] &= bits[place, w]
        elif place >= 0:
            for w in range(len(both)):
                both[w] &= ~bits[place, w]
        else:
            for i in range(starts[columns[j]], starts[columns[j] + 1]):
                both[listed[i] >> 6] &= ~(np.uint64(1) << np.uint64(listed[i] & 63))
