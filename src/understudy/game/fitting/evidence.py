"""Everything measured about a table, pooled, and what of it to believe.

A noisy marginal also says something about its own sub-marginals: summed over a column of m values,
its noise grows by the square root of m only, while what it measures grows by m. Cells that are each
below their noise are not to be chased one by one, so without the sums what they say together would
be lost.

Evidence is kept by columns and bins. The same columns in other bins are other evidence, and rows
are fitted to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from understudy.counting.tally import cell_numbers
from understudy.errors import NotSupported, ParameterError
from understudy.game.fitting.rowfit import QueryTarget, TableTarget
from understudy.privacy import Measurement
from understudy.queries.base import Grid, QueryClass
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import apart

SUMS_UP_TO = 2  # sub-marginals of at most so many columns are pooled
GUESS = 1.0  # a cell is guessed to be off by about this share of itself ...
GUESS_WORTH = 20.0  # ... a guess worth as much as so many cells
LARGE = 5.0  # a cell of more sigmas than this is believed more than by half in any case


@dataclass
class Pooled:
    """Estimates of one table, weighted by how exact they are."""

    weighted: np.ndarray
    precision: float

    @property
    def counts(self) -> np.ndarray:
        return self.weighted / self.precision

    @property
    def sigma(self) -> float:
        return math.sqrt(1 / self.precision)


@dataclass
class Evidence:
    """Noisy tables by their columns and bins, wide ones and single queries as they came.

    Attributes:
        sums_up_to: each table is also summed to its sub-marginals of at most so many columns, as
            evidence independent of other tables'. 0 for tables that already agree with each other:
            their sums would be the same evidence again.
        sooner: sigmas by which a surprising cell is believed sooner, for tables that were picked
            because they surprise.
    """

    sums_up_to: int = SUMS_UP_TO
    sooner: float = 0.0
    tables: dict[Grid, Pooled] = field(default_factory=dict)
    wide: list[Measurement] = field(default_factory=list)
    single: list[QueryTarget] = field(default_factory=list)
    finest: float = math.inf  # the smallest sigma of anything measured
    fresh: set[Grid] = field(default_factory=set)

    def add(self, measurement: Measurement) -> None:
        """Take in one measurement; the tables that it says something new about become fresh."""
        sigma, grid = float(measurement.sigma), measurement.batch.as_grid()
        if grid is not None and not grid.positions:
            return  # the number of rows, which the model takes as given
        self.finest = min(self.finest, sigma)
        if grid is None:
            self._add_single(measurement)
        elif measurement.keys is not None:
            self.wide.append(measurement)
        else:
            self._add_table(grid, np.asarray(measurement.counts, np.float64), sigma)

    def _add_single(self, measurement: Measurement) -> None:
        batch = apart(measurement.batch)
        if batch is None:
            raise ParameterError(
                f"Rows cannot be fitted to {measurement.batch.kind} queries yet; marginals and"
                " symmetric queries work."
            )
        weights = np.full(batch.size, 1 / float(measurement.sigma) ** 2)
        self.single.append(QueryTarget(batch, measurement.counts.astype(np.float64), weights))

    def _add_table(self, grid: Grid, counts: np.ndarray, sigma: float) -> None:
        order = np.argsort(grid.positions).tolist()
        table, grid = np.transpose(counts.reshape(grid.shape), order), grid.along(order)
        self._pool(grid, table.ravel(), sigma**2)
        # many columns in bins are measured for what they do together: their sums would be a table for
        # each pair and each fit, and say little of it
        summed = self.sums_up_to if grid.is_whole or table.ndim <= self.sums_up_to else 0
        for axes in _smaller(table.ndim, summed):
            gone = tuple(i for i in range(table.ndim) if i not in axes)
            cells = math.prod(table.shape[i] for i in gone)
            self._pool(grid.along(axes), table.sum(axis=gone).ravel(), sigma**2 * cells)

    def _pool(self, grid: Grid, counts: np.ndarray, variance: float) -> None:
        pooled = self.tables.setdefault(grid, Pooled(np.zeros(counts.size), 0.0))
        pooled.weighted = pooled.weighted + counts / variance
        pooled.precision += 1 / variance
        self.fresh.add(grid)

    def with_runs(self, whole: Grid) -> np.ndarray:
        """The counts of a single column, with what is known of it in bins: a sum of k noisy cells
        has the noise of k cells, and a bin that was counted has less. Least squares, bin by bin.
        """
        pooled = self.tables[whole]
        counts = pooled.counts
        for grid, other in self.tables.items():
            if grid.positions == whole.positions and not grid.is_whole:
                bins = np.asarray(grid.bins[0])
                cells = np.bincount(bins)
                own = cells / pooled.precision
                share = own / (own + 1 / other.precision)
                off = (other.counts - np.bincount(bins, counts)) * share / cells
                counts = counts + off[bins]
        return counts

    def targets(self, grid: Grid, model: np.ndarray) -> TableTarget:
        """What rows should be fitted to for one table, given how many people the model has in its
        cells.
        """
        pooled = self.tables[grid]
        counts, trust = believed(pooled.counts, model, pooled.sigma, self.sooner)
        return TableTarget(
            grid.positions,
            grid.shape,
            counts.astype(np.float32),
            (trust / pooled.sigma**2).astype(np.float32),
            bins=tuple(None if bins is None else np.asarray(bins) for bins in grid.bins),
        )

    def other_targets(self, rows: np.ndarray, scale: float) -> Iterator[TableTarget | QueryTarget]:
        """Targets of wide marginals and of single queries, given where the rows are now."""
        for measurement in self.wide:
            yield _wide_target(measurement, rows, scale)
        yield from self.single


def with_sums(tables: Iterable[Marginal]) -> list[Marginal]:
    """The tables that rows are fitted to when these are measured: they, and what each is summed to."""
    by_columns: dict[tuple[int, ...], Marginal] = {}
    for table in tables:
        by_columns[table.positions] = table
        for axes in _smaller(len(table.positions), SUMS_UP_TO):
            positions = tuple(table.positions[i] for i in axes)
            by_columns.setdefault(
                positions, Marginal(positions, tuple(table.shape[i] for i in axes))
            )
    return list(by_columns.values())


def check_fitted(mechanism: str, batches: Iterable[QueryClass]) -> None:
    """Refuse, in a sentence and before anything is measured, what rows cannot be fitted to."""
    for batch in batches:
        if not batch.can_be_fitted:
            raise NotSupported(
                f"{mechanism} fits rows to marginals and single queries, not to {batch.kind}; use"
                " the mechanism 'arp'."
            )


def believed(
    noisy: np.ndarray, model: np.ndarray, sigma: float, sooner: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(what to aim for, how much of the noisy value is in it): noisy cells pulled toward the model.

    How far cells of one size are off is itself estimated, from how much more than sigma they
    scatter around the model (empirical Bayes, cells grouped by the model's count in powers of two).
    Large cells are believed in any case, because the largest error is theirs. A cell far beyond its
    noise is believed in full: pulling it even a little would cost more than the noise of the few
    that get there by chance. ``sooner`` lowers that bar by so many sigmas.
    """
    gap = noisy - model
    largest = math.sqrt(2 * math.log(max(len(noisy), 2)))  # of so many noises, in sigmas, about
    certain = np.abs(gap) > max(largest - sooner, 1.0) * sigma
    group = np.where(model < 1, 0, np.frexp(np.maximum(model, 1))[1])
    groups = int(group.max()) + 1
    scatter = np.bincount(group, np.where(certain, 0.0, gap**2 - sigma**2), groups)
    cells = np.bincount(group[~certain], minlength=groups)
    # people in a cell of the group
    typical = np.where(np.arange(groups) == 0, 0.5, 0.75 * 2.0 ** np.arange(groups))
    off = np.maximum((scatter + GUESS_WORTH * (GUESS * typical) ** 2) / (cells + GUESS_WORTH), 0.0)
    trust = np.maximum(
        (off / (off + sigma**2))[group], model**2 / (model**2 + (LARGE * sigma) ** 2)
    )
    trust = np.where(certain, 1.0, trust)
    return model + trust * gap, trust


def _wide_target(measurement: Measurement, rows: np.ndarray, scale: float) -> TableTarget:
    """The cells that were kept, and those the rows fill beyond the threshold although they were not
    kept.

    A cell that is not listed is only known to lie below the threshold with its noise: no reason to
    move a row unless the rows have more there than that.
    """
    batch, sigma = measurement.batch.as_table(), float(measurement.sigma)
    assert batch is not None and measurement.keys is not None
    assert measurement.threshold is not None
    cells, counts = np.unique(cell_numbers(rows, batch.positions, batch.shape), return_counts=True)
    full = cells[counts * scale > measurement.threshold]
    extra = full[~np.isin(full, measurement.keys)]
    keys = np.concatenate([measurement.keys, extra])
    targets = np.concatenate(
        [measurement.counts, np.full(len(extra), measurement.threshold)]
    ).astype(np.float64)
    order = np.argsort(keys)
    return TableTarget(
        batch.positions, batch.shape, targets[order], np.full(len(keys), 1 / sigma**2), keys[order]
    )


def plant(rows: np.ndarray, target: TableTarget, scale: float, rng: np.random.Generator) -> None:
    """Put rows into the listed cells of a wide table that lack people.

    One column at a time never gets there: until all but one of its columns agree, a row does not
    see the cell.
    """
    assert target.keys is not None
    numbers = cell_numbers(rows, target.positions, target.shape)
    free = rng.permutation(np.flatnonzero(~np.isin(numbers, target.keys)))
    there = np.bincount(
        np.searchsorted(target.keys, numbers[np.isin(numbers, target.keys)]),
        minlength=len(target.keys),
    )
    lacking = np.maximum(np.rint(target.counts / scale - there), 0).astype(np.int64)
    cells = np.repeat(target.keys, lacking)[: len(free)]
    codes = np.column_stack(
        [cells // stride % size for stride, size in zip(target.strides, target.shape, strict=True)]
    )
    rows[free[: len(cells), None], list(target.positions)] = codes


def _smaller(width: int, up_to: int) -> Iterator[Sequence[int]]:
    for k in range(1, min(width - 1, up_to) + 1):
        yield from combinations(range(width), k)
