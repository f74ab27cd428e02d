"""A data player that keeps whole rows and moves them toward everything measured: row projection."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.counting.tally import DENSE_CELLS, CodedRows, Counts
from understudy.errors import NotSupported
from understudy.game.fitting.barriers import Keeper
from understudy.game.fitting.categories import distribution_of, standing_out, supported_part
from understudy.game.fitting.evidence import SUMS_UP_TO, Evidence, plant
from understudy.game.fitting.rowfit import (
    TableTarget,
    Target,
    chains_of,
    count_binned,
    fit_rows,
)
from understudy.game.loop import Finding, learning
from understudy.game.players.product import ProductModel, in_bins, ordered_values
from understudy.privacy import Measurement
from understudy.queries.base import Grid, QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal
from understudy.runtime.watching import NoWatcher, Watcher
from understudy.schema import Schema

ROWS = 20_000  # fitted during play
# of the finest sigma measured; more leaves less of the noise in the rows, and less of the strongest
# dependences
HEAT = 0.5
# of released rows, which begin as copies of fitted ones: as many as at once
LAST_SWEEPS = 3
# of what one row's move costs when everything is met: the first sweep over released rows is as hot,
# at least. With small noise heat is below that; then rows stay where the descent left them, and what
# no table tells drifts off (docs/arp-constants.md)
LOOSE = 0.5
MOST_COLUMNS = 2_000  # every cell of every row is visited again and again
MOST_FITTED = 200_000  # at a time: more come in batches, each moved on from the one before
SWEEPS_ON = 2  # from one batch to the next: a hotter one first
# CPU seconds of one cell of a row and one table that has its column: for each column to look up,
# for each value to weigh, and for each time that the table is twice as large as fits beside the
# others in a core's own memory. Measured on 19 invented tables of 2 to 50 columns with 2 to 2,000
# values; the suite planning shows how far they carry.
LOOK_UP, WEIGH, FETCH, NEAR_CELLS = 4.5e-9, 1.2e-9, 1.8e-8, 512


@dataclass(frozen=True)
class Fitted:
    """What a row model needs to fit another number of rows: targets, temperature, the columns' own
    distributions.
    """

    n: float
    targets: tuple[Target, ...] = field(repr=False)
    heat: float
    priors: tuple[np.ndarray, ...] = field(repr=False)
    sweeps: int  # of rows that are asked for
    closed: frozenset[int] = frozenset()  # columns that have no values but those of their prior
    together: tuple[tuple[int, ...], ...] = ()  # columns that rules hold fast one by one

    def move(self, rows: int) -> float:
        """What moving one of so many rows costs, in people, where all targets are met: one too few
        in a cell of each table that has the column, one too many in another.
        """
        tables = [t for t in self.targets if isinstance(t, TableTarget)]
        weights = sum(len(t.positions) * float(t.weights.mean()) for t in tables)
        return weights / len(self.priors) * self.n * chains_of(rows) / rows


class RowModel:
    """Rows that were fitted; asked for another number of them, it fits those."""

    def __init__(self, schema: Schema, codes: np.ndarray, fitted: Fitted, watcher: Watcher) -> None:
        self._schema, self.codes, self._fitted, self._watcher = schema, codes, fitted, watcher

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """What is believed of each column by itself: a distribution."""
        return self._fitted.priors

    def counts(self, batches: Sequence[QueryClass]) -> list[Counts]:
        """Each batch's counts among the fitted rows."""
        return [self._counts(batch) for batch in batches]

    def _counts(self, batch: QueryClass) -> Counts:
        grid = batch.as_grid()
        if grid is not None and batch.size <= DENSE_CELLS:
            counts = count_binned(self.codes, grid.positions, grid.shape, grid.bins)
            return Counts(batch.size, counts)
        return batch.counts(CodedRows(self.codes, self._schema.shape))

    def shares(self, batch: QueryClass) -> np.ndarray:
        return self.counts([batch])[0].dense() / len(self.codes)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """``count`` rows, themselves fitted, so that nothing is lost by sampling."""
        batches = max(1, -(-count // MOST_FITTED))
        codes = repeated(self.codes, -(-count // batches), rng)
        rows = np.empty((count, codes.shape[1]), codes.dtype) if batches > 1 else codes
        fit = self._fitted
        for batch in range(batches):

            def tell(share: float, before: int = batch) -> None:
                self._watcher.part((before + share) / batches)

            fit_rows(
                codes,
                self._schema.shape,
                fit.n,
                fit.targets,
                sweeps=SWEEPS_ON if batch else fit.sweeps,
                seed=int(rng.integers(2**31)),
                heat=fit.heat,
                first_heat=LOOSE * fit.move(len(codes)),
                priors=fit.priors,
                closed=fit.closed,
                together=fit.together,
                tell=tell,
            )
            self._keep_closed(codes, rng)
            if batches > 1:
                part = rows[batch * len(codes) : (batch + 1) * len(codes)]
                part[:] = codes[: len(part)]
        return rows

    def _keep_closed(self, codes: np.ndarray, rng: np.random.Generator) -> None:
        """What a fit without heat would leave: nobody has a value that may not be."""
        for column in sorted(self._fitted.closed):
            prior = self._fitted.priors[column]
            stray = np.flatnonzero(prior[codes[:, column]] <= 0)
            codes[stray, column] = rng.choice(len(prior), len(stray), p=prior)


class RowPlayer:
    """Starts from independent columns; refits after every finding, from where it is.

    Args:
        schema: the columns.
        n: how many rows the table has, as far as is public.
        rng: public randomness.
        rows: how many rows to keep while playing.
        sweeps: visits of every cell after each finding.
        last_sweeps: visits of every cell of the rows that are released.
        heat: temperature, as a share of the finest sigma measured; 0 takes the best value always.
        sums_up_to: columns of the sub-marginals that each table is summed to; 0 for tables that
            already agree.
        sooner: sigmas by which surprising cells are believed sooner, for tables picked because they
            surprise.
        supported: whether columns without order have only values whose count by itself stands out
            of its noise, as it was first measured.
        watcher: told how much of a refit is done.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        n: int,
        rng: np.random.Generator,
        rows: int = ROWS,
        sweeps: int = 2,
        last_sweeps: int = LAST_SWEEPS,
        heat: float = HEAT,
        sums_up_to: int = SUMS_UP_TO,
        sooner: float = 0.0,
        supported: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self._schema, self._n, self._rng = schema, n, rng
        self._supported, self._there = supported, dict[int, np.ndarray]()
        self._sweeps, self._last_sweeps, self._heat = sweeps, last_sweeps, heat
        self._watcher = watcher or NoWatcher()
        self._evidence = Evidence(sums_up_to, sooner)
        self._targets: dict[Grid, Target] = {}
        self._priors = [np.full(size, 1 / size) for size in schema.shape]
        self._count = rows
        self._codes: np.ndarray | None = None
        self._keeper = Keeper(schema)
        self._fits, self._fitted_so_far = 1, 0  # of the findings being learnt

    def propose(self) -> RowModel:
        return RowModel(self._schema, self._rows(), self._fitted(), self._watcher)

    def learn(self, findings: Sequence[Finding]) -> None:
        wide = len(self._evidence.wide)
        for finding in findings:
            if isinstance(finding, Measurement):
                self._evidence.add(finding)
        self._fits, self._fitted_so_far = self._fits_ahead(wide), 0
        self._refit()
        if len(self._evidence.wide) > wide:
            self._plant(wide)

    def result(self) -> RowModel:
        self._codes = self._keeper.settled(self._rows(), self._rng)
        return self.propose()

    def _rows(self) -> np.ndarray:
        if self._codes is None:
            rows = ProductModel(self._schema, self._priors).rows(self._count, self._rng)
            # rows of before anything is known are thrown away
            self._codes = self._keeper.mended(rows, self._rng) if self._targets else rows
        return self._codes

    def _refit(self) -> None:
        """Take the fresh evidence narrowest first, so that wider tables are judged against a model
        that has the rest.
        """
        fresh = self._evidence.fresh
        # the others have nothing new to fit
        columns = sorted({c for grid in fresh for c in grid.positions})
        for grid in sorted(fresh, key=_order):
            if grid.is_whole and len(grid.positions) == 1:
                self._priors[grid.positions[0]] = self._prior(grid)
        self._keeper.learn(self._evidence.tables)
        # a model was proposed before anything was known: start again from the columns as they are
        # now
        if not self._targets:
            self._codes = None
        elif self._codes is not None:
            self._codes = self._keeper.mended(self._codes, self._rng)
        widths = sorted({len(grid.positions) for grid in fresh})
        coarse = not all(grid.is_whole for grid in fresh)
        # beside bins, sums say little of single columns beyond what is known: no fit to them alone
        binned = coarse or not all(grid.is_whole for grid in self._targets)
        for width in widths:
            # what is known in bins is judged anew, too: beside finer tables more of it is believed
            again = {g for g in self._targets if coarse and width > 1 and not g.is_whole}
            grids = (g for g in fresh | again if len(g.positions) == width)
            for grid in sorted(grids, key=_order):
                self._targets[grid] = self._evidence.targets(grid, self._model(grid))
            alone = bool(self._targets.keys() - fresh) and not (binned and widths[-1] > 1)
            if width > 1 or alone:
                self._fit(columns)
        if self._evidence.wide or self._evidence.single:
            self._fit()
        fresh.clear()

    def _prior(self, grid: Grid) -> np.ndarray:
        """Of a single column: a distribution."""
        (position,), pooled = grid.positions, self._evidence.tables[grid]
        column, counts = self._schema.columns[position], self._evidence.with_runs(grid)
        prior = distribution_of(counts, self._n, pooled.sigma, ordered_values(column))
        if not self._supported or column.ordered:
            return prior
        # decided once, so that rows never have to leave a value again
        there = self._there.setdefault(position, standing_out(pooled.counts, pooled.sigma))
        return supported_part(prior, there)

    def _fits_ahead(self, wide: int) -> int:
        """How many times the rows will be fitted to the fresh evidence, at least; only those who
        watch want to know.
        """
        widths = {len(grid.positions) for grid in self._evidence.fresh}
        return (
            max(1, len(widths - {1}))
            + bool(self._evidence.wide or self._evidence.single)
            + (len(self._evidence.wide) > wide)
        )

    def _model(self, grid: Grid) -> np.ndarray:
        """How many people the model has in each cell of a table; of one column, that is its
        smoothed self.
        """
        if len(grid.positions) == 1:
            return in_bins(self._priors[grid.positions[0]], grid.bins[0]) * self._n
        counts = count_binned(self._rows(), grid.positions, grid.shape, grid.bins)
        return counts * (self._n / self._count)

    def _plant(self, first: int) -> None:
        """Fill the cells of new wide tables, then let everything settle around them."""
        scale = self._n / self._count
        for target in list(self._evidence.other_targets(self._rows(), scale))[
            first : len(self._evidence.wide)
        ]:
            assert isinstance(target, TableTarget)
            plant(self._rows(), target, scale, self._rng)
        self._codes = self._keeper.mended(self._rows(), self._rng)
        self._fit()

    def _fit(self, columns: Sequence[int] | None = None) -> None:
        fit, tell, before = self._fitted(), learning(self._watcher), self._fitted_so_far
        fit_rows(
            self._rows(),
            self._schema.shape,
            fit.n,
            fit.targets,
            sweeps=self._sweeps,
            seed=int(self._rng.integers(2**31)),
            heat=fit.heat,
            priors=fit.priors,
            columns=columns,
            closed=fit.closed,
            together=fit.together,
            tell=lambda share: tell(min((before + share) / self._fits, 1.0)),
        )
        self._fitted_so_far += 1

    def _fitted(self) -> Fitted:
        """Weights relative to the finest measurement, so that a gap and the heat are both in
        people.
        """
        finest = self._evidence.finest if math.isfinite(self._evidence.finest) else 1.0
        others = self._evidence.other_targets(self._rows(), self._n / self._count)
        targets = tuple(target.times(finest**2) for target in (*self._targets.values(), *others))
        heat, priors, keeper = self._heat * finest, tuple(self._priors), self._keeper
        targets, closed = (*targets, *keeper.targets), frozenset(self._there)
        return Fitted(
            self._n, targets, heat, priors, self._last_sweeps, closed, together=keeper.together
        )


def _order(grid: Grid) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The same in every run, which the order of a set is not."""
    return grid.positions, [bins or () for bins in grid.bins]


def seconds_a_row(tables: Iterable[Marginal | BinnedMarginal]) -> float:
    """CPU time of a sweep over one row, if rows are fitted to these tables."""
    return sum(
        len(t.shape) * (LOOK_UP * len(t.shape) + _fetch(t)) + WEIGH * sum(t.shape) for t in tables
    )


def _fetch(table: Marginal | BinnedMarginal) -> float:
    return FETCH * max(0.0, math.log2(table.size / NEAR_CELLS))


def refits(tables: Sequence[QueryClass], sweeps: int) -> int:
    """Sweeps over all rows when so many tables become known at once: they are taken in narrowest
    first.
    """
    widest = max((len(table.columns) for table in tables), default=1)
    return sweeps * max(widest - 1, 1)


def check_width(mechanism: str, schema: Schema) -> None:
    """Refuse, in a sentence, tables too wide to keep whole rows of."""
    if len(schema) > MOST_COLUMNS:
        raise NotSupported(
            f"{mechanism} moves whole rows of every column, at most {MOST_COLUMNS:,}, and this"
            f" table has {len(schema):,}; use the mechanism 'dualquery' or 'independent'."
        )


def repeated(codes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` rows out of some, each as often as any other up to one."""
    whole, rest = divmod(count, len(codes))
    picked = rng.choice(len(codes), rest, replace=False)
    return np.concatenate([*([codes] * whole), codes[picked]])
