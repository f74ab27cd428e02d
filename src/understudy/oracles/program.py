"""An instance as an integer program, the same one for every solver.

Variables, all between 0 and 1: one for each value of a column that some term names, one for "any
other value", one for each weighted cell, and one for each run of equal entries in the table of
another query. Rows:

    column             its values sum to 1
    cells of weight>0  for each marginal, member column and value: the cells with that value sum to at most the value's variable
    a cell of weight<0 its values sum to at most k - 1 plus the cell
    another query      its runs sum to 1; the number of satisfied literals lies within the run that is chosen

The second kind is what makes these programs solvable: cells of a marginal exclude each other, so
they share one row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.oracles.plan import Others, Plan, coordinates

FREE = 1e30  # no bound on this side of a row


@dataclass(frozen=True, eq=False)
class Program:
    """Maximise ``gain @ x`` over 0 <= x <= 1 with ``low <= rows x <= high``; the rows are in
    compressed form.
    """

    gain: np.ndarray = field(repr=False)
    whole: np.ndarray = field(repr=False)  # which variables must be 0 or 1
    starts: np.ndarray = field(repr=False)
    indices: np.ndarray = field(repr=False)
    numbers: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    # of the variables that stand for values, which come first: their column
    column_of: np.ndarray = field(repr=False)
    code_of: np.ndarray = field(repr=False)  # and the value, for "any other" the best such one

    def codes(self, x: np.ndarray, columns: int) -> np.ndarray:
        """The record that a solution means."""
        top, codes = np.full(columns, -np.inf), np.zeros(columns, np.int64)
        for value, c, code in zip(x, self.column_of, self.code_of, strict=False):
            if value > top[c]:
                top[c], codes[c] = value, code
        return codes


class _Rows:
    """Rows of a program, gathered as triplets."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.low: list[np.ndarray] = []
        self.high: list[np.ndarray] = []
        self.count = 0

    def add(
        self,
        row: np.ndarray,
        variable: np.ndarray,
        number: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> None:
        self.parts.append((self.count + row, variable, number))
        self.low.append(low)
        self.high.append(high)
        self.count += len(low)

    def compressed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        row, variable, number = (np.concatenate(x) for x in zip(*self.parts, strict=True))
        order = np.argsort(row, kind="stable")
        starts = np.searchsorted(row[order], np.arange(self.count + 1))
        return (
            starts,
            variable[order].astype(np.int64),
            number[order].astype(np.float64),
            np.concatenate(self.low),
            np.concatenate(self.high),
        )


def program_of(plan: Plan, weights: np.ndarray, linear: np.ndarray, keep: np.ndarray) -> Program:
    """The program of a plan without dense tables. ``keep`` is a record whose values are kept where
    nothing tells values apart.
    """
    cells, others = plan.cells, plan.others
    count, coordinate_count = len(plan.sizes), int(plan.offsets[-1])
    cell_columns = cells.columns[
        coordinates(cells.marginal, np.diff(cells.starts)[cells.marginal], cells.starts[:-1])
    ]
    cell_at = plan.offsets[cell_columns] + cells.codes
    other_touch = np.repeat(np.arange(len(others.columns)), np.diff(others.value_starts))
    other_at = plan.offsets[others.columns[other_touch]] + others.values
    variable_of, column_of, code_of, value_gain = _values(
        plan, np.concatenate([cell_at, other_at]), linear, keep
    )
    rows = _Rows()
    rows.add(
        column_of,
        np.arange(len(column_of)),
        np.ones(len(column_of)),
        np.ones(count),
        np.ones(count),
    )

    worth = weights[: plan.cell_count]
    used = np.flatnonzero(worth)
    cell_variable = np.full(plan.cell_count, -1, np.int64)
    cell_variable[used] = len(column_of) + np.arange(len(used))
    owner = np.repeat(np.arange(plan.cell_count), np.diff(cells.code_starts))
    slot = np.arange(len(owner)) - cells.code_starts[owner]
    plus = worth[owner] > 0
    view = cells.starts[cells.marginal[owner[plus]]] + slot[plus]
    heads, row = np.unique(view * coordinate_count + cell_at[plus], return_inverse=True)
    zeros = np.zeros(len(heads))
    rows.add(
        np.concatenate([row, np.arange(len(heads))]),
        np.concatenate([cell_variable[owner[plus]], variable_of[heads % coordinate_count]]),
        np.concatenate([np.ones(len(row)), -np.ones(len(heads))]),
        zeros - FREE,
        zeros,
    )
    minus = np.flatnonzero(worth < 0)
    place = np.cumsum(worth < 0) - 1
    some = worth[owner] < 0
    rows.add(
        np.concatenate([place[owner[some]], np.arange(len(minus))]),
        np.concatenate([variable_of[cell_at[some]], cell_variable[minus]]),
        np.concatenate([np.ones(int(some.sum())), -np.ones(len(minus))]),
        np.full(len(minus), -FREE),
        np.diff(cells.code_starts)[minus] - 1.0,
    )
    run_gain = _add_others(
        plan, weights[plan.cell_count :], variable_of[other_at], rows, len(column_of) + len(used)
    )
    gain = np.concatenate([value_gain, worth[used], run_gain])
    whole = np.ones(len(gain), np.bool_)
    whole[len(column_of) : len(column_of) + len(used)] = False  # cells follow from values
    return Program(gain, whole, *rows.compressed(), column_of, code_of)


def _values(
    plan: Plan, named: np.ndarray, linear: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(variable of each coordinate, column, code and gain of each variable): the named values, then
    "any other" of each column.
    """
    coordinate_count = int(plan.offsets[-1])
    column = np.repeat(np.arange(len(plan.sizes)), plan.sizes)
    listed = np.zeros(coordinate_count, np.bool_)
    listed[named] = True
    current = np.zeros(coordinate_count, np.bool_)
    current[plan.offsets[:-1] + keep] = True
    promise = np.where(listed, -np.inf, linear)
    # the best unlisted coordinate of each column
    best = np.lexsort((~current, -promise, column))[plan.offsets[:-1]]
    best = best[~listed[best]]
    at = np.concatenate([np.flatnonzero(listed), best])
    variable_of = np.full(coordinate_count, -1, np.int64)
    variable_of[listed] = np.arange(int(listed.sum()))
    return variable_of, column[at], at - plan.offsets[column[at]], linear[at]


def _add_others(
    plan: Plan, weights: np.ndarray, variable: np.ndarray, rows: _Rows, first: int
) -> np.ndarray:
    """Rows and gains of the queries that are no cells; ``variable`` is that of each listed value."""
    others = plan.others
    gains: list[float] = []
    ends = np.append(others.tables[1:], len(others.table))
    for q in np.flatnonzero(weights):
        table = others.table[others.tables[q] : ends[q]]
        begins = np.concatenate([[0], np.flatnonzero(np.diff(table)) + 1])
        lasts = np.append(begins[1:] - 1, len(table) - 1)
        touches = np.arange(others.starts[q], others.starts[q + 1])
        listed = np.arange(others.value_starts[touches[0]], others.value_starts[touches[-1] + 1])
        rest = float(others.rests[touches].sum())
        runs = first + len(gains) + np.arange(len(begins))
        gains.extend(weights[q] * table[begins])
        one, two, three = (
            np.full(size, i)
            for i, size in (
                (0, len(runs)),
                (1, len(listed) + len(runs)),
                (2, len(listed) + len(runs)),
            )
        )
        rows.add(
            np.concatenate([one, two, three]),
            np.concatenate([runs, variable[listed], runs, variable[listed], runs]),
            np.concatenate(
                [np.ones(len(runs)), others.lifts[listed], -lasts, others.lifts[listed], -begins]
            ),
            np.array([1.0, -FREE, -rest]),
            np.array([1.0, -rest, FREE]),
        )
        # each column adds at most one: the outermost runs need every column
        if len(touches) == len(table) - 1:
            _add_extremes(
                others, touches, variable, rows, runs, lasts[0] == 0, begins[-1] == len(table) - 1
            )
    return np.asarray(gains, np.float64)


def _add_extremes(
    others: Others,
    touches: np.ndarray,
    variable: np.ndarray,
    rows: _Rows,
    runs: np.ndarray,
    bottom: bool,
    top: bool,
) -> None:
    """ "No literal holds" is at most the negation of each literal, "all hold" at most each literal."""
    for u in touches:
        listed = np.arange(others.value_starts[u], others.value_starts[u + 1])
        lifts, rest = others.lifts[listed], float(others.rests[u])
        for wanted, run, sign in ((bottom, runs[0], 1.0), (top, runs[-1], -1.0)):
            if wanted:  # bottom: run + (rest + lifts) <= 1; top: run - (rest + lifts) <= 0
                rows.add(
                    np.zeros(len(listed) + 1, np.int64),
                    np.append(variable[listed], run),
                    np.append(sign * lifts, 1.0),
                    np.array([-FREE]),
                    np.array([1.0 - rest if sign > 0 else rest]),
                )
