"""The measuring sticks: the marginals of a workload, and how far released rows are from true ones.

``cells`` looks at every cell of a workload. ``structure`` looks at what a statistician looks at
first: intervals, rectangles, any predicate on a pair, correlations and means by group.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from bench.coded import Coded
from bench.grid import Line

# as ``--workload`` writes it, and whether only marginals with few cells
SPEC = re.compile(r"(\d+)-way(?::(\d+))?(?:@(\d+))?( that fit)?")
GROUP = 0.01  # a group smaller than this share of the rows has no mean worth comparing
DENSE = 1 << 22  # cells of a marginal up to which all of them are counted, empty ones too
Names = tuple[str, ...]


def marginals(table: Coded, workload: str) -> list[Names]:
    """The columns of each marginal of ``3-way:64@0``: 64 random triples of columns by seed 0, or
    all.

    ``3-way:64@0 that fit`` chooses only among those with at most n cells, and draws as the
    experiments of the FEM and RAP papers do.
    """
    match = SPEC.fullmatch(workload)
    if not match:
        raise ValueError(f"{workload!r} is not a workload such as 3-way:64@0 or 2-way.")
    k, size, seed = int(match[1]), int(match[2] or 10**6), int(match[3] or 0)
    every, draw = list(itertools.combinations(table.domain, k)), np.random.RandomState(seed)
    if not match[4]:
        return [every[i] for i in draw.permutation(len(every))[:size]]
    fits = [some for some in every if cells_of(table, some) <= len(table)]
    return (
        fits
        if len(fits) <= size
        else [fits[i] for i in draw.choice(len(fits), size, replace=False)]
    )


def cells_of(table: Coded, columns: Names) -> int:
    return math.prod(table.domain[name] for name in columns)


def _numbered(table: Coded, columns: Names) -> np.ndarray:
    """The cell of each row; whole marginals of up to 2^63 cells."""
    cell = table.columns[columns[0]].astype(np.int64)
    for name in columns[1:]:
        cell *= table.domain[name]
        cell += table.columns[name]
    return cell


def _shares(table: Coded, columns: Names) -> np.ndarray:
    """Of the rows, in every cell."""
    counts = np.bincount(_numbered(table, columns), minlength=cells_of(table, columns))
    return counts / len(table)


def gap(real: Coded, synthetic: Coded, columns: Names) -> np.ndarray:
    """Shares of true rows less those of released ones, in every cell that has any of either."""
    if cells_of(real, columns) <= DENSE:
        return _shares(real, columns) - _shares(synthetic, columns)
    both = np.concatenate([_numbered(real, columns), _numbered(synthetic, columns)])
    occupied, where = np.unique(both, return_inverse=True)
    sides = where.reshape(-1)[: len(real)], where.reshape(-1)[len(real) :]
    true, estimate = (np.bincount(side, minlength=len(occupied)) / len(side) for side in sides)
    return true - estimate


def cells(real: Coded, synthetic: Coded, work: Sequence[Names]) -> Line:
    """Largest and mean error over all cells of a workload; mean tv of its marginals."""
    gaps = [np.abs(gap(real, synthetic, columns)) for columns in work]
    total = sum(float(one.sum()) for one in gaps)
    queries = sum(cells_of(real, columns) for columns in work)
    largest = max(float(one.max()) for one in gaps)
    return {
        "max": largest,
        "mean": total / queries,
        "tv": total / len(work) / 2,
        "queries": queries,
    }


# ---------------------------------------------------------------------- structure


def interval(gaps: np.ndarray) -> float:
    """The largest |sum| over runs of neighbours: how far apart prefix sums get."""
    return float(np.ptp(np.append(0.0, np.cumsum(gaps))))


def rectangle(gaps: np.ndarray) -> float:
    """The largest |sum| over rectangles of neighbours: intervals of the sums of every run of rows."""
    # the fewer rows, the fewer runs of them
    gaps = gaps if gaps.shape[0] <= gaps.shape[1] else gaps.T
    above = np.vstack([np.zeros(gaps.shape[1]), np.cumsum(gaps, axis=0)])
    best = 0.0
    for top in range(len(above) - 1):
        sums = np.cumsum(above[top + 1 :] - above[top], axis=1)
        best = max(best, float((sums.max(1).clip(min=0) - sums.min(1).clip(max=0)).max()))
    return best


def pair(table: Coded, a: str, b: str) -> np.ndarray:
    """Shares of the rows in the cells of two columns."""
    return _shares(table, (a, b)).reshape(table.domain[a], table.domain[b])


def correlation(shares: np.ndarray) -> float:
    """Pearson's, of the codes of a pair; 0 where a column is constant."""
    x, y = np.arange(shares.shape[0]), np.arange(shares.shape[1])
    px, py = shares.sum(1), shares.sum(0)
    x, y = x - px @ x, y - py @ y
    spread = math.sqrt(float(px @ x**2) * float(py @ y**2))
    occupied = (px > 0).sum() > 1 and (py > 0).sum() > 1
    return float(x @ shares @ y) / spread if occupied else 0.0


def group_means(real: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """Errors of the second column's mean in each large group of the first, in units of its range."""
    value = np.arange(real.shape[1]) / max(real.shape[1] - 1, 1)
    groups = real.sum(1)
    synthetic_groups = np.maximum(synthetic.sum(1), 1e-12)  # a group that was lost has mean 0
    large = groups >= GROUP
    return np.abs(
        (real @ value)[large] / groups[large] - (synthetic @ value)[large] / synthetic_groups[large]
    )


def rates(real: Coded, synthetic: Coded, label: str, groups: Names) -> Line:
    """Errors of the share with a label's code 1, in every large group of rows.

    ``rate_kept`` is the slope of released shares on true ones, large groups counting more: below
    1, groups were made more alike than they are.
    """
    true, estimate = (
        _shares(table, (*groups, label)).reshape(-1, table.domain[label])
        for table in (real, synthetic)
    )
    large = true.sum(1) >= GROUP
    size = true.sum(1)[large]
    ours = true[large, 1] / size
    theirs = estimate[large, 1] / np.maximum(estimate.sum(1)[large], 1e-12)
    apart = ours - size @ ours / size.sum()
    off = np.abs(ours - theirs)
    return {
        "groups": int(large.sum()),
        "rate_largest": float(off.max()),
        "rate_mean": float(off.mean()),
        "rate_kept": float((size * apart) @ theirs / ((size * apart) @ ours)),
    }


def structure(real: Coded, synthetic: Coded, ordered: Sequence[str]) -> Line:
    """Errors over all columns and pairs, or over those ordered ones that have three codes or more."""
    ranked = {name for name in ordered if real.domain[name] > 2}
    tv, rectangles, off, means = [], [0.0], [], [np.zeros(0)]
    for a, b in itertools.combinations(real.domain, 2):
        t, s = pair(real, a, b), pair(synthetic, a, b)
        tv.append(float(np.abs(t - s).sum()) / 2)
        if {a, b} <= ranked:
            rectangles.append(rectangle(t - s))
            off.append(abs(correlation(t) - correlation(s)))
        means += [group_means(t.T, s.T)] if a in ranked else []
        means += [group_means(t, s)] if b in ranked else []
    every = np.concatenate(means)
    singles = [_shares(real, (name,)) - _shares(synthetic, (name,)) for name in real.domain]
    return {
        "interval": max(interval(one) for one in singles),
        "rectangle": max(rectangles),
        "tv_median": float(np.median(tv)),
        "tv_mean": float(np.mean(tv)),
        "tv_largest": max(tv),
        "correlation_largest": max(off, default=0.0),
        "correlation_mean": float(np.mean(off)) if off else 0.0,
        "group_mean_largest": float(every.max(initial=0.0)),
        "group_mean_mean": float(every.mean()) if len(every) else 0.0,
    }
