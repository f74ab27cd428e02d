"""Rows of mechanisms that cannot keep a rule while fitting: repaired, then moved back toward the
answers that they had.

A repair alone looks at single rows, so that it shifts the shares of the columns it changes. The
answers of the rows before it are released values; they are what the columns that rules speak of are
fitted to, with the rules as walls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from understudy.constraints.rules import Rules
from understudy.game.fitting.barriers import Keeper
from understudy.game.fitting.rowfit import TableTarget, count_binned, fit_rows
from understudy.queries.base import Grid, QueryClass
from understudy.queries.marginal import Marginal

FEW_BROKEN = 0.01  # of the rows: their repair shifts answers by less than most noise
MOST_ROWS = 200_000  # more take minutes, and are repaired only
MOST_TABLES = 400  # of the workload, the smallest first
MOST_CELLS = 100_000  # of one of them
SWEEPS = 3


def refit(
    rules: Rules, codes: np.ndarray, workload: Iterable[QueryClass], rng: np.random.Generator
) -> np.ndarray:
    """Rows of codes that keep the rules and answer nearly as these do; the same, if they keep them."""
    if not rules:
        return codes
    keeper = Keeper(rules.schema)
    rows = keeper.settled(codes, rng)
    broken = (rows != codes).any(axis=1).mean()
    if broken <= FEW_BROKEN or len(rows) > MOST_ROWS:
        return rows
    shape, columns = rules.schema.shape, sorted(rules.axes)
    fit_rows(
        rows,
        shape,
        len(rows),
        [*(_target(grid, codes) for grid in _tables(rules, workload)), *keeper.targets],
        sweeps=SWEEPS,
        seed=int(rng.integers(2**31)),
        columns=columns,
        together=keeper.together,
    )
    return rows


def _tables(rules: Rules, workload: Iterable[QueryClass]) -> Iterator[Grid]:
    """Every column that rules speak of, and the tables of the workload that have one."""
    for c in rules.axes:
        yield from _grid((c,), rules)
    asked = {columns for batch in workload for columns in batch.column_sets()}
    wide = [tuple(sorted(one)) for one in asked if len(one) > 1 and set(one) & set(rules.axes)]
    sizes = {one: float(np.prod([rules.schema.shape[c] for c in one])) for one in set(wide)}
    few = sorted((size, one) for one, size in sizes.items() if size <= MOST_CELLS)
    for _, one in few[:MOST_TABLES]:
        yield from _grid(one, rules)


def _grid(columns: tuple[int, ...], rules: Rules) -> Iterator[Grid]:
    grid = Marginal(columns, tuple(rules.schema.shape[c] for c in columns)).as_grid()
    if grid is not None:
        yield grid


def _target(grid: Grid, codes: np.ndarray) -> TableTarget:
    counts = count_binned(codes, grid.positions, grid.shape, grid.bins).astype(np.float32)
    return TableTarget(grid.positions, grid.shape, counts, np.ones(counts.size, np.float32))
