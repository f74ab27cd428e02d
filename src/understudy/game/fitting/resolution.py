"""At which resolution to measure: coarse bins of ordered columns, chosen from released columns.

A pair of a hundred values each has ten thousand cells, most of them below their noise, and a sum of
many cells carries the noise of all of them. In bins the same budget buys cells that stand out, and
with them the trend. Everything here is arithmetic on released values, so it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.counting.tally import DENSE_CELLS
from understudy.game.fitting.ties import MANY_VALUES, ties_of
from understudy.privacy import Measurement
from understudy.queries.base import QueryClass
from understudy.queries.binned import BinnedMarginal, Bins
from understudy.queries.marginal import Marginal
from understudy.schema.domain import Domain

# Bins are as dense as this power of a distribution. Of equal mass (1) they would be as wide as the
# whole tail, where trends and correlations are; the least variance inside them is at 1/3 (Panter and
# Dite). Between the two on trial tables.
DENSITY = 0.5
HEAP = 2.0  # a value of so many times both neighbours stands by itself
FEWEST = 2  # bins of a column
# A whole table says something of single columns, too, by its sums. Rare values are tied from so
# many cells on, in average cells of 8 noises: noise is 250 times the rows of a whole one
DROWNED = 2_000


@dataclass(frozen=True)
class Resolution:
    """Which tables to measure for so many rows, given the columns as they were released.

    Attributes:
        schema: says which columns are ordered.
        columns: a distribution for each.
        n: how many rows.
    """

    schema: Domain
    columns: Sequence[np.ndarray]
    n: int

    def table(self, whole: Marginal, cells: float, calm: float = 0.0) -> Marginal | BinnedMarginal:
        """The table of some columns in about so many cells: ordered columns are merged, and one of
        few values leaves its share to the others. Of other columns, only values far below noise are.

        Where noise is small (``calm`` up to 1), what all of them leave goes to rare values.
        """
        ordered = [self.schema.columns[p].ordered for p in whole.positions]
        ties = self._ties(whole, cells)
        sizes = _in_bins(whole, ties).shape
        needs = [
            effective(self.columns[p]) if is_ordered else float(size)
            for p, size, is_ordered in zip(whole.positions, sizes, ordered, strict=True)
        ]
        counts = shared(cells, needs)
        left = max(cells / math.prod(counts), 1.0) ** calm
        rare = [size / count for size, count in zip(sizes, counts, strict=True)]
        more = shared(left, rare)
        counts = [count * times for count, times in zip(counts, more, strict=True)]
        bins = [
            bins_of(self.columns[p], self.schema.columns[p].values, on_ladder(count))
            if is_ordered
            else tied
            for p, count, is_ordered, tied in zip(
                whole.positions, counts, ordered, ties, strict=True
            )
        ]
        return _in_bins(whole, bins)

    def tied(self, whole: Marginal, cells: float) -> Marginal | BinnedMarginal:
        """The table with nothing merged but values far below noise, of long columns without
        order.
        """
        return _in_bins(whole, self._ties(whole, cells))

    def _ties(self, whole: Marginal, cells: float) -> list[Bins]:
        """Of each column its ties; None where it is ordered or short."""
        return [
            None
            if self.schema.columns[p].ordered or size <= MANY_VALUES or whole.size < DROWNED * cells
            else ties_of(self.columns[p], on_ladder(cells))
            for p, size in zip(whole.positions, whole.shape, strict=True)
        ]

    def dependent_table(
        self,
        whole: Marginal,
        cells: float,
        shares: Callable[[QueryClass], np.ndarray],
        calm: float = 0.0,
    ) -> Marginal | BinnedMarginal:
        """The table of two columns in about so many cells that rows are in, by a model's shares.

        Rows of dependent columns crowd into few cells of a table: exp(mutual information) times
        fewer than if the columns were independent. So it may have as many times more.
        """
        table, finer = self.table(whole, cells, calm), 2.0
        while cells * finer <= whole.size:
            candidate = self.table(whole, cells * finer, calm)
            if information(shares(candidate).reshape(candidate.shape)) < math.log(finer):
                break
            table, finer = candidate, 2 * finer
        return table

    def strength(self, table: Measurement) -> float:
        """How far a measured table is from independent columns, beyond its noise: the root of the
        sum of squares, as a share of the rows.
        """
        grid = table.batch.as_grid()
        assert grid is not None
        expected = np.ones(1)
        for position, size, bins in zip(grid.positions, grid.shape, grid.bins, strict=True):
            shares = self.columns[position]
            shares = shares if bins is None else np.bincount(bins, shares, size)
            expected = np.outer(expected, shares).reshape(-1)
        gap = np.asarray(table.counts, np.float64) - self.n * expected
        noise = len(gap) * float(table.sigma) ** 2
        return math.sqrt(max(0.0, float(gap @ gap) - noise)) / self.n


def _in_bins(whole: Marginal, bins: Sequence[Bins]) -> Marginal | BinnedMarginal:
    """A table that is too wide in bins, too, is left whole: only occupied cells are kept of it."""
    pairs = zip(whole.shape, bins, strict=True)
    cells = math.prod(size if one is None else max(one) + 1 for size, one in pairs)
    if all(one is None for one in bins) or cells > DENSE_CELLS:
        return whole
    return BinnedMarginal(whole.positions, whole.shape, tuple(bins))


def shared(cells: float, needs: Sequence[float]) -> list[float]:
    """How many bins each column gets of so many cells: the same, unless a column needs fewer and
    leaves the rest to the others.
    """
    counts = [0.0] * len(needs)
    left, order = max(cells, 1.0), sorted(range(len(needs)), key=lambda i: needs[i])
    for place, i in enumerate(order):
        counts[i] = min(needs[i], left ** (1 / (len(order) - place)))
        left = max(left / counts[i], 1.0)
    return counts


def information(joint: np.ndarray) -> float:
    """The mutual information of two columns, in nats, from their table of shares."""
    alone = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    some = joint > 0
    return float(joint[some] @ np.log(joint[some] / alone[some]))


def on_ladder(count: float) -> int:
    """The nearest of 2, 3, 4, 6, 8, 11, 16, ...: tables that share a column then mostly share its
    bins, so that what they say of it is pooled, and fitted to once.
    """
    return max(FEWEST, round(2 ** (round(2 * math.log2(count)) / 2)))


def effective(shares: np.ndarray) -> float:
    """How many values a column has, as far as bins of it tell them apart."""
    weights = np.maximum(shares, 0.0) ** DENSITY
    return float(weights.sum() ** 2 / (weights @ weights))


def bins_of(shares: np.ndarray, values: int, count: int) -> tuple[int, ...] | None:
    """About ``count`` bins of neighbouring values; None where each value is one.

    A value above the share of a bin, or a heap, stands by itself. Codes beyond ``values`` (missing,
    other) have no neighbours and stand by themselves, too.
    """
    if values <= count:
        return None
    ordinary = shares[:values]
    alone = _stands_alone(ordinary, count)
    weights = np.where(alone, 0.0, np.maximum(ordinary, 1e-9) ** DENSITY)
    room = float(weights.sum()) / max(count - int(alone.sum()), 1)
    bins, current, filled = [], 0, 0.0
    for i in range(values):
        if alone[i] and filled > 0:
            current, filled = current + 1, 0.0
        bins.append(current)
        filled += float(weights[i])
        # a hair less than full: the last bin must not be left over by rounding
        if alone[i] or filled >= 0.999 * room:
            current, filled = current + 1, 0.0
    last = bins[-1] + 1
    return (*bins, *range(last, last + len(shares) - values))


def _stands_alone(shares: np.ndarray, count: int) -> np.ndarray:
    around = np.maximum(np.concatenate([[0.0], shares[:-1]]), np.concatenate([shares[1:], [0.0]]))
    heaps = (shares > HEAP * around) & (shares > 0.5 / count)
    return heaps | (shares > 1 / count)
