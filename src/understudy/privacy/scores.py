"""How wrong a model is on whole marginals, in whole rows: the scores that a marginal is selected by
(proofs/select_marginal, M4).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

import numpy as np

from understudy.counting.tally import Counts
from understudy.queries.base import Neighbours
from understudy.runtime.compiled import kernel

# An answer below LOOKUP is turned into rows by a small table: 64-bit division is the slowest thing
# a kernel could do per cell.
LOOKUP = 1 << 16
# One cell's share of a total, and a total, are cut here: nothing wraps in 64 bits, whatever the
# counts and answers.
MOST_GAP = np.int64(1 << 41)
MOST_TOTAL = np.int64(1 << 62)  # one more block on top still fits 63 bits
BLOCK_CELLS = 1 << 12  # 2^12 gaps of at most 2^41 add up to 2^53, far below MOST_TOTAL
WORTH_THREADS = 1 << 20  # cells
MOST_THREADS = 8  # large enough; more has not been measured


class MarginalScore(StrEnum):
    """What makes a marginal bad."""

    LARGEST = "largest"  # the largest error of one cell
    TOTAL = "total"  # the errors of all cells together, each above a public floor

    def sensitivity(self, neighbours: Neighbours) -> int:
        """How far one row can move it: it moves one or two cells by one each (M4)."""
        return 2 if self is MarginalScore.TOTAL and neighbours is Neighbours.REPLACE_ONE else 1


def gaps(
    exact: Sequence[Counts],
    answers: Sequence[Counts],
    *,
    rows: int,
    answer_rows: int,
    score: MarginalScore,
    floors: Sequence[int] | None = None,
) -> np.ndarray:
    """The score of each pair of tables; answers among ``answer_rows`` rows are first rounded to
    ``rows`` rows.
    """
    scale = np.asarray([rows, answer_rows], np.int64)
    whole = (2 * rows * np.arange(min(answer_rows + 1, LOOKUP), dtype=np.int64) + answer_rows) // (
        2 * answer_rows
    )
    scores = np.empty(len(exact), np.int64)
    busy = sum(len(c.values) for c in exact) >= WORTH_THREADS
    workers = min(MOST_THREADS, os.cpu_count() or 1, len(exact)) if busy else 1

    def work(first: int) -> None:
        for i in range(first, len(exact), workers):
            floor = 0 if floors is None else min(floors[i], int(MOST_TOTAL))
            largest, total = _compare(exact[i], answers[i], whole, scale, floor)
            scores[i] = largest if score is MarginalScore.LARGEST else total

    if workers == 1:
        work(0)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
    return scores


def compact(counts: Counts) -> Counts:
    """The same counts in half the memory where they fit; kernels widen them again, cell by cell."""
    if counts.values.dtype == np.int64 and counts.values.max(initial=0) < 2**31:
        return Counts(counts.cells, counts.values.astype(np.int32), counts.keys)
    return counts


def _compare(
    exact: Counts, answer: Counts, whole: np.ndarray, scale: np.ndarray, floor: int
) -> tuple[int, int]:
    if exact.keys is None and answer.keys is None:
        return _dense_gaps(exact.values, answer.values, whole, scale, floor)
    # Cells occupied in neither table have no error, and a floor only lowers it.
    return _sparse_gaps(*_occupied(exact), *_occupied(answer), whole, scale, floor)


def _occupied(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    if counts.keys is not None:
        return counts.keys, counts.values
    keys = np.flatnonzero(counts.values)
    return keys, counts.values[keys]


@kernel(borrows=True, inner=True, inline="always")
def _in_rows(count: int, whole: np.ndarray, scale: np.ndarray) -> int:
    """round(rows * count / answer_rows), halves up; a count outside 0..answer_rows is taken for the
    nearer end.
    """
    # a negative count is far beyond the end; an unsigned index costs no test for counting from the
    # back
    place = np.uint64(count)
    if place < np.uint64(len(whole)):
        return whole[place]
    return (2 * scale[0] * min(max(count, 0), scale[1]) + scale[1]) // (2 * scale[1])


@kernel(borrows=True)
def _dense_gaps(
    exact: np.ndarray, answer: np.ndarray, whole: np.ndarray, scale: np.ndarray, floor: int
) -> tuple[int, int]:
    """(largest, total) over the cells of two tables of any integer type."""
    largest, total = np.int64(0), np.int64(0)
    for start in range(0, len(exact), BLOCK_CELLS):
        block = np.int64(0)
        for i in range(start, min(start + BLOCK_CELLS, len(exact))):
            gap = abs(np.int64(exact[i]) - _in_rows(np.int64(answer[i]), whole, scale))
            largest = max(largest, gap)
            block += min(max(gap - floor, np.int64(0)), MOST_GAP)
        total = min(total + block, MOST_TOTAL)
    return largest, total  # type: ignore[return-value]


@kernel(borrows=True)
def _sparse_gaps(
    keys: np.ndarray,
    exact: np.ndarray,
    answer_keys: np.ndarray,
    answer: np.ndarray,
    whole: np.ndarray,
    scale: np.ndarray,
    floor: int,
) -> tuple[int, int]:
    """The same for two lists of occupied cells, both rising: one walk along them."""
    largest, total = np.int64(0), np.int64(0)
    i, j = 0, 0
    while i < len(keys) or j < len(answer_keys):
        here = j == len(answer_keys) or (i < len(keys) and keys[i] <= answer_keys[j])
        there = i == len(keys) or (j < len(answer_keys) and answer_keys[j] <= keys[i])
        count = np.int64(exact[i]) if here else np.int64(0)
        gap = abs(count - _in_rows(np.int64(answer[j]), whole, scale)) if there else count
        i, j = i + here, j + there
        largest = max(largest, gap)
        above = max(gap - floor, np.int64(0))
        total = min(total + min(above, MOST_GAP), MOST_TOTAL)
    return largest, total  # type: ignore[return-value]
