"""An instance, sorted out once for every solver: cells of marginals, other queries, and dense
tables.

Many queries are conjunctions in disguise: a disjunction is the negation of the conjunction of its
negated literals, and "not a" is "b" in a column of two values. What can be written as ``constant +
sign * (cell of a marginal)`` is, because cells of one marginal exclude each other, which solvers
can use, and because equal cells can be added up. The rest keeps its literals and its table. Columns
are renumbered to the mentioned ones, so that nothing scales with those nobody asks about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from understudy.oracles.base import Instance, TableTerm
from understudy.runtime.compiled import kernel

DENSE_SHARE = 0.1  # a table with a smaller share of non-zero weights is kept as a list of cells
MOST_CELLS = 2**40  # marginals with more cells are not numbered; their queries stay queries
CONSTANT, CELL, OTHER = 0, 1, 2  # what a query is in a plan


class Cells(NamedTuple):
    """Weighted cells, sorted by marginal and then by cell number. Marginal t has members
    ``starts[t]:starts[t + 1]``.
    """

    starts: np.ndarray
    columns: np.ndarray  # of each member, rising within a marginal
    strides: np.ndarray
    first: np.ndarray  # first cell of each marginal, and the end
    marginal: np.ndarray  # of each cell
    number: np.ndarray  # of each cell within its marginal
    code_starts: np.ndarray  # of each cell, and the end
    codes: np.ndarray  # in the order of the marginal's members


class Others(NamedTuple):
    """Queries that are no cells. Query q has touches ``starts[q]:starts[q + 1]``, one for each of
    its columns.

    A touch adds ``rest`` to the number of satisfied literals, and a listed value adds its lift to
    that. The table of q begins at ``tables[q]`` in ``table``.
    """

    starts: np.ndarray
    columns: np.ndarray
    rests: np.ndarray
    value_starts: np.ndarray
    values: np.ndarray
    lifts: np.ndarray
    tables: np.ndarray
    table: np.ndarray


@dataclass(frozen=True, eq=False)
class Plan:
    """What of an instance does not depend on its weights, over the mentioned columns numbered 0, 1,
    ...
    """

    columns: np.ndarray  # their positions in the record
    sizes: np.ndarray
    offsets: np.ndarray
    cells: Cells = field(repr=False)
    others: Others = field(repr=False)
    tables: tuple[TableTerm, ...]  # with new column numbers
    constant: np.ndarray = field(repr=False)  # of each query: what it is worth whatever the record
    sign: np.ndarray = field(repr=False)
    # of each query: its cell, or len(cells) + its place among the others, or -1
    term: np.ndarray = field(repr=False)
    base: np.ndarray = field(repr=False)  # what tables kept as cells add to the weight of each term

    @property
    def cell_count(self) -> int:
        return len(self.cells.number)

    def weigh(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """(the constant, the weight of each term) when the queries have these weights."""
        used = self.term >= 0
        total = np.bincount(self.term[used], (self.sign * weights)[used], minlength=len(self.base))
        return float(self.constant @ weights), self.base + total

    def linear(self, linear: np.ndarray | None, offsets: np.ndarray) -> np.ndarray:
        """The linear term of the mentioned columns."""
        if linear is None:
            return np.zeros(int(self.offsets[-1]))
        return np.asarray(linear, np.float64)[coordinates(self.columns, self.sizes, offsets)]

    def worth(self, codes: np.ndarray, weights: np.ndarray, linear: np.ndarray) -> float:
        """What some codes are worth without constants and dense tables."""
        return float(
            worth_of(self.offsets, self.cells, self.others, weights, linear, codes.astype(np.int64))
        )


@kernel()
def worth_of(offsets, cells, others, weights, linear, codes):  # type: ignore[no-untyped-def]
    """What codes of the mentioned columns are worth, term by term."""
    total = 0.0
    for c in range(len(codes)):
        total += linear[offsets[c] + codes[c]]
    for e in range(len(cells.number)):
        first = cells.starts[cells.marginal[e]]
        hit = True
        for j in range(cells.code_starts[e], cells.code_starts[e + 1]):
            hit &= codes[cells.columns[first + j - cells.code_starts[e]]] == cells.codes[j]
        if hit:
            total += weights[e]
    for q in range(len(others.tables)):
        count = 0
        for u in range(others.starts[q], others.starts[q + 1]):
            count += others.rests[u]
            for i in range(others.value_starts[u], others.value_starts[u + 1]):
                if codes[others.columns[u]] == others.values[i]:
                    count += others.lifts[i]
        total += weights[len(cells.number) + q] * others.table[others.tables[q] + count]
    return total


def coordinates(columns: np.ndarray, sizes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The one-hot coordinates of some columns, one column after the other."""
    ends = np.cumsum(sizes)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return np.repeat(offsets[columns], sizes) + within


def plan_of(instance: Instance, *, dense: bool = True) -> Plan:
    """Sort out an instance. Without ``dense`` every table becomes a list of cells."""
    columns = instance.mentioned
    local = np.zeros(len(instance.shape), np.int64)
    local[columns] = np.arange(len(columns))
    sizes = instance.shape[columns]
    flat = instance.queries
    literal_columns, values, holds = local[flat.columns], flat.values.copy(), flat.holds.copy()
    kind, constant, sign = _sort_out(
        flat.starts, literal_columns, values, holds, flat.tables, sizes
    )

    dense_tables: list[TableTerm] = []
    listed: list[TableTerm] = []
    for table in instance.tables:
        moved = TableTerm(
            tuple(int(local[p]) for p in table.positions),
            table.shape,
            np.asarray(table.weights).reshape(table.shape),
        )
        (
            dense_tables
            if dense and np.count_nonzero(table.weights) > DENSE_SHARE * table.weights.size
            else listed
        ).append(moved)

    builder = _CellBuilder(sizes)
    chosen = np.flatnonzero(kind == CELL)
    widths = np.diff(flat.starts)[chosen]
    for k in np.unique(widths):
        some = chosen[widths == k]
        at = flat.starts[some][:, None] + np.arange(k)
        order = np.argsort(literal_columns[at], axis=1, kind="stable")
        at = np.take_along_axis(at, order, axis=1)
        builder.add(literal_columns[at], values[at], some, np.zeros(len(some)))
    for table in listed:
        axes = np.argsort(table.positions)
        weights = np.transpose(table.weights, axes)
        nonzero = np.nonzero(weights)
        positions = np.broadcast_to(np.asarray(table.positions)[axes], (len(nonzero[0]), len(axes)))
        builder.add(
            positions, np.column_stack(nonzero), np.full(len(nonzero[0]), -1), weights[nonzero]
        )
    cells, owners, places, base, refused = builder.build()

    others_of = np.sort(np.concatenate([np.flatnonzero(kind == OTHER), refused]))
    term = np.full(len(flat), -1, np.int64)
    term[owners[owners >= 0]] = places[owners >= 0]
    term[others_of] = len(cells.number) + np.arange(len(others_of))
    sign[others_of], constant[others_of] = 1.0, 0.0
    others = _others(
        flat.starts, local[flat.columns], flat.values, flat.holds, flat.tables, others_of
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    base = np.concatenate([base, np.zeros(len(others_of))])
    return Plan(
        columns, sizes, offsets, cells, others, tuple(dense_tables), constant, sign, term, base
    )


@kernel()
def _sort_out(starts, columns, values, holds, tables, sizes):  # type: ignore[no-untyped-def]
    """What each query is, ``constant + sign * cell`` where it is a cell; literals of cells are
    rewritten in place.
    """
    count = len(starts) - 1
    kind, constant, sign = np.full(count, OTHER, np.int8), np.zeros(count), np.ones(count)
    for q in range(count):
        first, end = starts[q], starts[q + 1]
        table = tables[first + q : end + q + 1]
        k = end - first
        if np.all(table == table[0]):
            kind[q], constant[q] = CONSTANT, table[0]
            continue
        top = np.all(table[:k] == table[0])  # only "all literals hold" is special
        # only "no literal holds" is: a conjunction of the opposite literals
        bottom = np.all(table[1:] == table[k])
        if not (top or bottom):
            continue
        fits = True
        for i in range(first, end):
            wanted = holds[i] == top
            fits &= wanted or sizes[columns[i]] == 2
            for j in range(first, i):
                fits &= columns[i] != columns[j]
        if not fits:
            continue
        for i in range(first, end):
            if holds[i] != top:
                values[i] = 1 - values[i]
            holds[i] = True
        constant[q] = table[0] if top else table[k]
        sign[q] = 1.0 - 2.0 * constant[q]
        kind[q] = CELL
    return kind, constant, sign


class _CellBuilder:
    """Collects cells of marginals of several widths, adds up equal ones, and numbers them."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

    def add(
        self, columns: np.ndarray, codes: np.ndarray, owners: np.ndarray, weights: np.ndarray
    ) -> None:
        """Cells x width; columns rise along each row. ``owners`` are the queries they come from, -1
        for tables.
        """
        self.parts.append((columns, codes, owners, weights))

    def build(self) -> tuple[Cells, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(cells, owners, the cell of each owner, base weights, queries whose marginal is too large
        to number).
        """
        starts, columns, strides, firsts = [np.zeros(1, np.int64)], [], [], []
        marginals, numbers, widths, codes = [], [], [], []
        owners, places, base, refused = [], [], [], [np.zeros(0, np.int64)]
        groups_so_far = cells_so_far = members_so_far = 0
        by_width: dict[int, list[tuple[np.ndarray, ...]]] = {}
        for part in self.parts:
            by_width.setdefault(part[0].shape[1], []).append(part)
        for k, parts in sorted(by_width.items()):
            cols, vals, own, worth = (np.concatenate(x) for x in zip(*parts, strict=True))
            fits = np.prod(self.sizes[cols].astype(np.float64), axis=1) < MOST_CELLS
            refused.append(own[~fits])
            cols, vals, own, worth = cols[fits], vals[fits], own[fits], worth[fits]
            if not len(cols):
                continue
            order = np.lexsort(cols.T[::-1])
            cols, vals, own, worth = cols[order], vals[order], own[order], worth[order]
            new = np.concatenate([[True], np.any(cols[1:] != cols[:-1], axis=1)])
            group, heads = np.cumsum(new) - 1, cols[new]
            steps = np.ones_like(heads)
            for j in range(k - 2, -1, -1):
                steps[:, j] = steps[:, j + 1] * self.sizes[heads[:, j + 1]]
            number = np.sum(vals * steps[group], axis=1)
            order = np.lexsort((number, group))
            group = group[order]
            number = number[order]
            vals = vals[order]
            own = own[order]
            worth = worth[order]
            new = np.concatenate([[True], (group[1:] != group[:-1]) | (number[1:] != number[:-1])])
            place = np.cumsum(new) - 1
            starts.append(members_so_far + k * np.arange(1, len(heads) + 1))
            columns.append(heads.ravel())
            strides.append(steps.ravel())
            firsts.append(cells_so_far + np.searchsorted(group[new], np.arange(len(heads))))
            marginals.append(groups_so_far + group[new])
            numbers.append(number[new])
            widths.append(np.full(int(new.sum()), k))
            codes.append(vals[new].ravel())
            owners.append(own)
            places.append(cells_so_far + place)
            base.append(np.bincount(place, worth))
            groups_so_far, cells_so_far = groups_so_far + len(heads), cells_so_far + int(new.sum())
            members_so_far += heads.size

        def joined(pieces: list[np.ndarray], last: int | None = None) -> np.ndarray:
            return np.concatenate(
                [np.zeros(0, np.int64), *pieces, np.asarray([] if last is None else [last])]
            ).astype(np.int64)

        code_starts = np.concatenate([[0], np.cumsum(joined(widths))]).astype(np.int64)
        cells = Cells(
            joined(starts),
            joined(columns),
            joined(strides),
            joined(firsts, cells_so_far),
            joined(marginals),
            joined(numbers),
            code_starts,
            joined(codes),
        )
        refused_queries = np.concatenate(refused)
        return (
            cells,
            joined(owners),
            joined(places),
            np.concatenate([np.zeros(0), *base]),
            refused_queries[refused_queries >= 0],
        )


def _others(
    starts: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    holds: np.ndarray,
    tables: np.ndarray,
    some: np.ndarray,
) -> Others:
    """Some of the queries by what each value of each of their columns adds to the number of
    satisfied literals.
    """
    widths = np.diff(starts)[some]
    at = coordinates(some, widths, starts[:-1])
    query = np.repeat(np.arange(len(some)), widths)
    column, value, lift = columns[at], values[at], np.where(holds[at], 1, -1)
    order = np.lexsort((value, column, query))
    query, column, value, lift = query[order], column[order], value[order], lift[order]
    touch_new = np.ones(len(query), np.bool_)
    touch_new[1:] = (query[1:] != query[:-1]) | (column[1:] != column[:-1])
    value_new = touch_new.copy()
    value_new[1:] |= value[1:] != value[:-1]
    touch = np.cumsum(touch_new) - 1
    lifts = np.bincount(np.cumsum(value_new) - 1, lift, minlength=0).astype(np.int64)
    rests = np.bincount(touch, lift < 0, minlength=0).astype(np.int64)
    table_at = coordinates(some, widths + 1, (starts[:-1] + np.arange(len(starts) - 1)))
    return Others(
        np.searchsorted(query[touch_new], np.arange(len(some) + 1)).astype(np.int64),
        column[touch_new].astype(np.int64),
        rests,
        np.searchsorted(touch[value_new], np.arange(int(touch_new.sum()) + 1)).astype(np.int64),
        value[value_new].astype(np.int64),
        lifts,
        np.concatenate([[0], np.cumsum(widths + 1)]).astype(np.int64)[:-1],
        tables[table_at].astype(np.float64),
    )
