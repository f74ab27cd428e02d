"""Ranges of ordered columns from halvings: the plan, the way back and its error bars, public
arithmetic only.

A sum of k noisy cells has the noise of k cells. So an ordered column is also counted in bins: in 2
halves, in 4 quarters, and so on down to single codes; several columns, in every combination. All of
that goes back to one consistent table by least squares, and any range is then a few bins.

Depth l cuts a column of m codes into 2^l bins, code c into bin floor(c 2^l / m); the last depth, L,
is the first with m <= 2^l, where every code has a bin of its own and the others stay empty. The
contrast of depth h is, of each bin of depth h - 1, its left half minus its right half; depth 0 is
the sum of all. Contrasts of different depths, or of different bins, are orthogonal. So in the basis
of all products of contrasts least squares is one weighted mean a contrast: a table T in bins of
depths l, with variance 1/v_T a cell, has each contrast A of depths h <= l with variance

    prod over its columns of 2^(l - h + 1) / v_T          (2^l in place of it where h = 0),

the precision P_A is the sum of the inverses, and a query has variance sum over A of (its share of
A)^2 / P_A. The empty bins of depth L are known to hold nobody and have no noise, so with them all
variances here are bounds; with 2^L codes they are exact. The price of a table in bins is that of a
marginal (privacy/proofs/measure, M1), and all tables' prices add up to rho.

Hay, Rastogi, Miklau and Suciu, VLDB 2010; bases of columns in the matrix mechanism for marginals:
He, Xiao, Zhang and Kifer, ResidualPlanner+.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from understudy.errors import NotSupported
from understudy.game.fitting.reconstruction import Objective
from understudy.privacy import Measurement
from understudy.privacy.verbs.measure import charges
from understudy.queries.base import Boxes, Neighbours
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal

Depths = tuple[tuple[int, int], ...]  # (column, depth), rising, of columns that are not summed over
MOST_TABLES = 4_096  # of all depths together; three columns of 1,000 codes have 1,331
PLANNED = 2_000  # boxes of a batch that the split is made for; error bars are of all of them
MOST_SWEEPS = 3_000  # so that the split ends in any case; a few hundred do
CLOSE = 0.01  # the split stops so near its lower bound
# a table of a smaller share of the budget is left out: its noise would be ten times that of others
LEAST_SHARE = 1e-3
PARTS = 1 << 30  # shares of rho are whole multiples of one part in so many
BLOCK = 1 << 22  # numbers held at once where all boxes are gone through


@dataclass(frozen=True)
class HalvingPlan:
    """What to measure, and how good each batch of ranges will be.

    Attributes:
        tables: in bins of which depths, each measured for its ``weights`` of rho.
        precision: of every contrast that they say something about, in 1 / rows^2.
        errors: the largest standard deviation of a range of each batch, in rows.
        total: the sum of the variances of all ranges.
    """

    sizes: Mapping[int, int]
    tables: tuple[Depths, ...]
    weights: tuple[int, ...]
    precision: Mapping[Depths, float] = field(repr=False)
    errors: tuple[float, ...]
    total: float

    @property
    def batches(self) -> list[Marginal | BinnedMarginal]:
        return [table_of(depths, self.sizes) for depths in self.tables]

    @property
    def reached(self) -> list[Depths]:
        """The tables that the contrasts measured add up to."""
        return [t for t in self.precision if t and all(a in self.precision for a in _below(t))]


def depth_of(size: int) -> int:
    """The first depth at which each of so many codes has a bin of its own."""
    return (size - 1).bit_length()


def all_depths(asked: Iterable[Sequence[int]], sizes: Mapping[int, int]) -> list[Depths]:
    """Every table in bins over some of the columns of a set."""
    tables: dict[Depths, None] = {}
    for columns in asked:
        ranges = [range(depth_of(sizes[c]) + 1) for c in columns]
        if math.prod(map(len, ranges)) + len(tables) > MOST_TABLES:
            raise NotSupported(
                f"These ranges would be measured in more than {MOST_TABLES:,} tables in bins; ask"
                " for ranges of fewer columns at a time."
            )
        for depths in itertools.product(*ranges):
            tables[_key(columns, depths)] = None
    tables.pop((), None)  # the number of rows, which is known
    return list(tables)


def table_of(depths: Depths, sizes: Mapping[int, int]) -> Marginal | BinnedMarginal:
    positions = tuple(column for column, _ in depths)
    shape = tuple(sizes[column] for column in positions)
    bins = tuple(
        None if depth == depth_of(size) else tuple((np.arange(size) * 2**depth // size).tolist())
        for (_, depth), size in zip(depths, shape, strict=True)
    )
    whole = all(one is None for one in bins)
    return Marginal(positions, shape) if whole else BinnedMarginal(positions, shape, bins)


# ---------------------------------------------------------------------- the plan


def plan_halvings(
    asked: Sequence[Boxes],
    sizes: Mapping[int, int],
    *,
    rho: Fraction,
    neighbours: Neighbours,
    objective: Objective,
    total_sigma: Fraction,
) -> HalvingPlan:
    """Split rho over tables in bins of all depths, for the ranges asked for and every value of
    their columns.
    """
    tables = all_depths([boxes.positions for boxes in asked], sizes)
    design = _Design.of(tables, total_sigma)
    cells = [_Rows.of_cells(table, design) for table in tables if len(table) == 1]
    planned = [_Rows.of_boxes(_some(boxes), sizes, design) for boxes in asked]
    shares = _split(design, [*cells, *planned], objective)
    chosen = [i for i, share in enumerate(shares) if share >= LEAST_SHARE]
    tables = [tables[i] for i in chosen]
    weights = tuple(max(1, round(PARTS * float(shares[i]))) for i in chosen)
    batches = [table_of(depths, sizes) for depths in tables]
    events = charges(batches, rho, neighbours, weights)
    design = _Design.of(tables, total_sigma)
    precision = design.precision(np.array([1 / float(event.sigma_squared) for event in events]))
    variances = [_variances(boxes, sizes, design, precision) for boxes in asked]
    return HalvingPlan(
        sizes=sizes,
        tables=tuple(tables),
        weights=weights,
        precision=dict(zip(design.contrasts, precision.tolist(), strict=True)),
        errors=tuple(math.sqrt(one.max()) for one in variances),
        total=sum(float(one.sum()) for one in variances),
    )


@dataclass(frozen=True)
class _Design:
    """``says[A, T]``: the precision of contrast A for each unit of precision of a cell of table T,
    as a sparse matrix; ``prior`` is what is known of the contrasts beforehand.
    """

    tables: Sequence[Depths]
    contrasts: Sequence[Depths]
    at: Mapping[Depths, int]
    rows: np.ndarray
    columns: np.ndarray
    says: np.ndarray
    prior: np.ndarray

    @classmethod
    def of(cls, tables: Sequence[Depths], total_sigma: Fraction) -> _Design:
        entries = [
            (a, t, _scale(a, table)) for t, table in enumerate(tables) for a in _below(table)
        ]
        contrasts = sorted({a for a, _, _ in entries}, key=lambda a: (len(a), a))
        at = {a: i for i, a in enumerate(contrasts)}
        prior = np.zeros(len(contrasts))
        prior[at[()]] = np.inf if total_sigma == 0 else 1 / float(total_sigma) ** 2
        return cls(
            tables,
            contrasts,
            at,
            np.array([at[a] for a, _, _ in entries]),
            np.array([t for _, t, _ in entries]),
            np.array([1 / scale for _, _, scale in entries]),
            prior,
        )

    def precision(self, weights: np.ndarray) -> np.ndarray:
        return self.prior + np.bincount(
            self.rows, self.says * weights[self.columns], len(self.contrasts)
        )

    def gains(self, slopes: np.ndarray) -> np.ndarray:
        """What each table adds, if each contrast's precision is worth so much."""
        return np.bincount(self.columns, self.says * slopes[self.rows], len(self.tables))


@dataclass(frozen=True)
class _Rows:
    """Some queries: their squared shares of some contrasts, which are numbered in a design; each
    query stands for ``worth``.
    """

    at: np.ndarray
    shares: np.ndarray
    worth: float

    @classmethod
    def of_boxes(
        cls, boxes: tuple[Boxes, float], sizes: Mapping[int, int], design: _Design
    ) -> _Rows:
        one, worth = boxes
        keys, shares = _shares(one, sizes)
        return cls(np.array([design.at[key] for key in keys]), shares, worth)

    @classmethod
    def of_cells(cls, table: Depths, design: _Design) -> _Rows:
        keys = list(_below(table))
        shares = [[_scale(key, table) ** -2 for key in keys]]
        return cls(
            np.array([design.at[key] for key in keys]), np.array(shares), float(2 ** table[0][1])
        )


def _split(design: _Design, asked: Sequence[_Rows], objective: Objective) -> np.ndarray:
    """Shares of the budget: those of the least sum of variances, or of the least largest one.

    For one weighted sum f of variances, each share is multiplied by the root of what it gains: f
    falls every time (Silvey, Titterington and Torsney 1978; Yu 2010). By the inequality of Cauchy
    and Schwarz no split has less than f^2 / (its largest gain + what the prior gains). For the
    largest variance the weights move to the queries that come out worst, and the bound is one on
    the largest variance too, as no weighted mean is above it.
    """
    worth = np.concatenate([np.full(len(one.shares), one.worth) for one in asked])
    importance = worth / worth.sum()
    ends = np.cumsum([len(one.shares) for one in asked])[:-1]
    shares = np.full(len(design.tables), 1 / len(design.tables))
    prior = np.where(np.isinf(design.prior), 0.0, design.prior)
    best, best_shares = np.inf, shares
    for _ in range(MOST_SWEEPS):
        needs = np.zeros(len(design.contrasts))
        for one, weights in zip(asked, np.split(importance, ends), strict=True):
            needs[one.at] += weights @ one.shares
        precision = np.maximum(design.precision(shares), 1e-300)
        slopes = needs / precision**2
        gains, value = design.gains(slopes), float((needs / precision).sum())
        reached, variances = value, np.empty(0)
        if objective == "largest":
            variances = np.concatenate([one.shares @ (1 / precision[one.at]) for one in asked])
            reached = float(variances.max())
        if reached < best:
            best, best_shares = reached, shares
        if best <= (1 + CLOSE) * value**2 / float(gains.max() + prior @ slopes):
            break
        shares = shares * np.sqrt(gains)
        shares /= shares.sum()
        if objective == "largest":
            importance = importance * variances / value
            importance /= importance.sum()
    return best_shares


def _some(boxes: Boxes) -> tuple[Boxes, float]:
    """At most PLANNED boxes, spread by a fixed rule, and for how many each of them stands."""
    count = len(boxes.low)
    if count <= PLANNED:
        return boxes, 1.0
    chosen = np.sort(np.random.default_rng(0).permutation(count)[:PLANNED])
    return Boxes(boxes.positions, boxes.low[chosen], boxes.high[chosen]), count / PLANNED


def _variances(
    boxes: Boxes, sizes: Mapping[int, int], design: _Design, precision: np.ndarray
) -> np.ndarray:
    contrasts = math.prod(depth_of(sizes[c]) + 1 for c in boxes.positions)
    step, blocks = max(1, BLOCK // contrasts), []
    for start in range(0, len(boxes.low), step):
        block = slice(start, start + step)
        keys, shares = _shares(Boxes(boxes.positions, boxes.low[block], boxes.high[block]), sizes)
        each = np.array([precision[design.at[key]] if key in design.at else 0.0 for key in keys])
        used = shares.any(axis=0)
        blocks.append(shares[:, used] @ (1 / each[used]))
    return np.concatenate(blocks)


def _shares(boxes: Boxes, sizes: Mapping[int, int]) -> tuple[list[Depths], np.ndarray]:
    """(contrasts, the squared share of each in each box)."""
    shares = np.ones((len(boxes.low), 1))
    depths: list[tuple[int, ...]] = [()]
    for j, column in enumerate(boxes.positions):
        own = _of_column(boxes.low[:, j], boxes.high[:, j], sizes[column])
        shares = (shares[:, :, None] * own[:, None, :]).reshape(len(own), -1)
        depths = [(*before, h) for before in depths for h in range(own.shape[1])]
    return [_key(boxes.positions, one) for one in depths], shares


def _of_column(low: np.ndarray, high: np.ndarray, size: int) -> np.ndarray:
    """Squared shares of ranges of one column in its contrasts, depth 0 first.

    Below an edge, a bin that is full or empty has as much on its left as on its right; only the one
    that the edge lies in counts. A range is one edge minus another.
    """
    last, starts = depth_of(size), _starts(size)
    begin, end = starts[low], starts[high]
    squares = [((end - begin) / 2**last) ** 2]
    for depth in range(1, last + 1):
        width = 2 ** (last - depth + 1)
        first, second = (np.minimum(e % width, width - e % width) / width for e in (begin, end))
        same = begin // width == end // width
        squares.append(first**2 + second**2 - 2 * same * first * second)
    return np.column_stack(squares)


# ---------------------------------------------------------------------- the way back


def from_halvings(
    plan: HalvingPlan, measured: Sequence[Measurement], *, total: float, total_sigma: float
) -> list[Measurement]:
    """Tables in bins of every depth, consistent and unbiased, each with the noise of a cell.

    Args:
        plan: what was measured; measured: its tables, in its order.
        total: the number of rows; total_sigma: its noise, 0 where it is public.
    """
    sums: dict[Depths, np.ndarray] = {}
    for depths, measurement in zip(plan.tables, measured, strict=True):
        precision = 1 / float(measurement.sigma) ** 2
        for contrast, values in _contrasts(depths, measurement.counts, plan.sizes).items():
            weighted = values * (precision / _scale(contrast, depths))
            sums[contrast] = sums.get(contrast, 0.0) + weighted
    if total_sigma > 0:
        sums[()] = sums[()] + total / total_sigma**2
        means = {a: values / plan.precision[a] for a, values in sums.items()}
    else:
        means = {a: v / plan.precision[a] for a, v in sums.items() if a} | {(): np.array(total)}
    return [
        Measurement(
            table_of(depths, plan.sizes), _table(depths, means, plan.sizes), _sigma(depths, plan)
        )
        for depths in plan.reached
    ]


def _contrasts(
    depths: Depths, counts: np.ndarray, sizes: Mapping[int, int]
) -> dict[Depths, np.ndarray]:
    """Every contrast that a table has, an axis for each of its columns."""
    table = np.asarray(counts, np.float64).reshape(
        [min(2**depth, sizes[column]) for column, depth in depths]
    )
    contrasts: dict[tuple[int, ...], np.ndarray] = {(): table}
    for axis, (column, depth) in enumerate(depths):
        size, finer = sizes[column], {}
        for before, values in contrasts.items():
            along = np.moveaxis(values, axis, -1)
            if depth == depth_of(size):
                wide = np.zeros((*along.shape[:-1], 2**depth))
                wide[..., np.arange(size) * 2**depth // size] = along
                along = wide
            for h in range(depth, 0, -1):
                left, right = along[..., 0::2], along[..., 1::2]
                finer[(*before, h)] = np.moveaxis(left - right, -1, axis)
                along = left + right
            finer[(*before, 0)] = np.moveaxis(along, -1, axis)
        contrasts = finer
    columns = [column for column, _ in depths]
    return {
        _key(columns, one): values.squeeze(tuple(i for i, h in enumerate(one) if h == 0))
        for one, values in contrasts.items()
    }


def _table(
    depths: Depths, means: Mapping[Depths, np.ndarray], sizes: Mapping[int, int]
) -> np.ndarray:
    """The cells of a table in bins: along each column, a bin is half of the one above plus or minus
    half of its contrast.
    """
    columns = [column for column, _ in depths]
    left = {
        one: np.expand_dims(
            means[_key(columns, one)], tuple(i for i, h in enumerate(one) if h == 0)
        )
        for one in itertools.product(*(range(depth + 1) for _, depth in depths))
    }
    for axis in reversed(range(len(depths))):
        column, depth = depths[axis]
        merged = {}
        for before in {one[:axis] for one in left}:
            along = np.moveaxis(left[(*before, 0)], axis, -1)
            for h in range(1, depth + 1):
                contrast = np.moveaxis(left[(*before, h)], axis, -1)
                both = np.stack([along + contrast, along - contrast], axis=-1) / 2
                along = both.reshape(*both.shape[:-2], -1)
            if depth == depth_of(sizes[column]):
                along = np.add.reduceat(along, _starts(sizes[column])[:-1], axis=-1)
            merged[before] = np.moveaxis(along, -1, axis)
        left = merged
    return left[()].reshape(-1)


def _sigma(depths: Depths, plan: HalvingPlan) -> Fraction:
    variance = sum(_scale(a, depths) ** -2 / plan.precision[a] for a in _below(depths))
    return Fraction(math.sqrt(variance))


# ---------------------------------------------------------------------- bins and contrasts


def _key(columns: Sequence[int], depths: Sequence[int]) -> Depths:
    return tuple((c, depth) for c, depth in zip(columns, depths, strict=True) if depth)


def _below(table: Depths) -> Iterable[Depths]:
    """The contrasts that a table has."""
    columns = [column for column, _ in table]
    for one in itertools.product(*(range(depth + 1) for _, depth in table)):
        yield _key(columns, one)


def _scale(contrast: Depths, table: Depths) -> float:
    """Cells of the table that a contrast adds up, with one sign or the other."""
    depths = dict(contrast)
    return float(
        math.prod(2 ** (depth - max(depths.get(column, 0) - 1, 0)) for column, depth in table)
    )


def _starts(size: int) -> np.ndarray:
    """Where each code begins among the 2^L bins of the last depth, and where the last one ends. A
    code that is alone in a bin of the depth before has both halves of it.
    """
    last = depth_of(size)
    bins = np.arange(size) * 2**last // size
    before = bins // 2
    alone = np.bincount(before, minlength=1)[before] == 1
    return np.append(np.where(alone, 2 * before, bins), 2**last)
