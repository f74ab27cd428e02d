"""Sums over rows of a whole weight times the row's cells, where the weight is a public function of the row's score.

What a linear discriminator of one-hot cells needs to know of the rows it should call real: with h(x) the cells of M marginals that a
row is in, and w(x) one minus its confidence, the sum of w(x) h(x) is the slope of its likelihood. Scores, weights and sums are whole
numbers, so what a row adds is a function of that row alone, whatever is summed before or after it. Proof in PROOFS.md, M13.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numba
import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.tally import DENSE_CELLS

LARGEST_LEVEL = 2**20  # with fewer than 2^42 rows, no sum wraps in 64 bits
LARGEST_WEIGHT = 2**40  # of a cell: the scores of 2^20 marginals stay below 2^61
MOST_MARGINALS, MOST_LEVELS = 2**20, 2**20


@dataclass(frozen=True, eq=False)
class Tilt:
    """A row function: ``levels[score]`` at each of the row's cells, 0 elsewhere.

    A row's score is the sum of ``weights`` over its cells; it is counted from the middle of ``levels`` and cut at their ends.

    >>> tilt = Tilt((Marginal((0,), (2,)), Marginal((1,), (3,))), np.array([1, -1, 0, 0, 1]), np.array([0, 1, 5]))
    >>> tilt.tally(np.array([[0, 0], [0, 2], [1, 1]], np.int32)).tolist()  # scores 1, 2 (cut at 1) and -1
    [10, 0, 5, 0, 5]
    """

    parts: tuple[Marginal, ...]
    weights: np.ndarray = field(repr=False)  # int64, over all cells of all parts in order
    levels: np.ndarray = field(repr=False)  # int64, an odd number of them, none below 0

    @property
    def size(self) -> int:
        return sum(math.prod(part.shape) for part in self.parts)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({position for part in self.parts for position in part.positions}))

    def tally(self, block: np.ndarray) -> np.ndarray:
        """What the rows of a block add up to."""
        found: np.ndarray = _tilted(block, *self._places, self.weights, self.levels)
        return found

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Bound on the squared L2 distance between the sums of two neighbouring tables."""
        rows = 1 if neighbours is Neighbours.ADD_REMOVE_ONE else 2
        return rows * len(self.parts) * int(self.levels.max()) ** 2

    @cached_property
    def _places(self) -> tuple[np.ndarray, ...]:
        return places(self.parts, self.columns)


@dataclass(frozen=True)
class Tilted:
    """The sums of a tilt with noise of ``sigma`` on every cell: released values, safe to show."""

    tilt: Tilt = field(repr=False)
    counts: np.ndarray = field(repr=False)
    sigma: Fraction


def places(parts: Sequence[Marginal], columns: Sequence[int]) -> tuple[np.ndarray, ...]:
    """(first cell of each part; first entry of each part in the next two; columns in a block of ``columns``; strides), flat."""
    at = {c: i for i, c in enumerate(columns)}
    sizes, widths = [math.prod(part.shape) for part in parts], [len(part.positions) for part in parts]
    strides = [math.prod(part.shape[i + 1 :]) for part in parts for i in range(len(part.shape))]
    return (
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.cumsum([0, *widths]).astype(np.int64),
        np.asarray([at[position] for part in parts for position in part.positions], np.int64),
        np.asarray(strides, np.int64),
    )


def checked_parts(parts: Sequence[Marginal], shape: Sequence[int]) -> tuple[Marginal, ...]:
    """The marginals whose cells are looked at, copied, or a refusal in a sentence."""
    parts = tuple(parts)
    if not 0 < len(parts) <= MOST_MARGINALS or not all(isinstance(part, Marginal) for part in parts):
        raise ParameterError(f"Sums over cells need from 1 to {MOST_MARGINALS:,} marginals.")
    try:
        # Plain whole numbers, read once: NumPy's would wrap in a product, and a subclass may not say the same thing twice.
        named = [(tuple(map(operator.index, part.positions)), tuple(map(operator.index, part.shape))) for part in parts]
    except TypeError:
        raise ParameterError("The columns and sizes of a marginal are whole numbers.") from None
    if not all(0 <= p < len(shape) for positions, _ in named for p in positions) or any(
        sizes != tuple(shape[p] for p in positions) for positions, sizes in named
    ):
        raise ParameterError("These marginals are written for another schema than the table's.")
    parts = tuple(Marginal(positions, sizes) for positions, sizes in named)
    cells = sum(part.size for part in parts)
    if cells > DENSE_CELLS:
        raise NotSupported(f"{cells:,} cells in all marginals together; at most {DENSE_CELLS:,} can be handled. Use fewer, or wider bins.")
    return parts


def checked_tilt(
    parts: Sequence[Marginal], weights: Sequence[np.ndarray], levels: Sequence[int] | np.ndarray, shape: Sequence[int]
) -> Tilt:
    """A tilt made of copies of what was asked for, or a refusal in a sentence; all of it is public."""
    parts, weights = checked_parts(parts, shape), [np.array(weight) for weight in weights]
    if [weight.shape for weight in weights] != [(part.size,) for part in parts] or not all(_whole(weight) for weight in weights):
        raise ParameterError("Each marginal needs one whole number as the weight of each of its cells.")
    flat = np.concatenate(weights)
    if flat.min() < -LARGEST_WEIGHT or flat.max() > LARGEST_WEIGHT:
        raise ParameterError(f"The weight of a cell is at most {LARGEST_WEIGHT:,}, with either sign.")
    try:
        table = np.array(levels)
    except ValueError:
        raise ParameterError("Levels are a plain list of whole numbers.") from None
    if not _whole(table) or table.ndim != 1 or len(table) % 2 == 0 or len(table) > MOST_LEVELS:
        raise ParameterError(f"Levels are whole numbers, an odd number of them, below {MOST_LEVELS:,}.")
    if table.min() < 0 or not 0 < table.max() <= LARGEST_LEVEL:
        raise ParameterError(f"Levels are from 0 to {LARGEST_LEVEL:,}, and not all 0.")
    return Tilt(parts, flat.astype(np.int64), table.astype(np.int64))


def _whole(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu"


@numba.njit(cache=True, nogil=True)
def _tilted(
    block: np.ndarray,
    cells: np.ndarray,
    entries: np.ndarray,
    columns: np.ndarray,
    strides: np.ndarray,
    weights: np.ndarray,
    levels: np.ndarray,
) -> np.ndarray:
    total, mine, middle = np.zeros(len(weights), np.int64), np.empty(len(cells), np.int64), len(levels) // 2
    for row in range(block.shape[0]):
        score = 0
        for m in range(len(cells)):
            cell = cells[m]
            for j in range(entries[m], entries[m + 1]):
                cell += block[row, columns[j]] * strides[j]
            mine[m] = cell
            score += weights[cell]
        level = levels[min(max(score, -middle), middle) + middle]
        for m in range(len(cells)):
            total[mine[m]] += level
    return total
