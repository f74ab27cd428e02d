"""A plan laid out for local search: what a change of one column touches, and nothing else.

Two ways of knowing what each value of a column is worth, the rest of the record being fixed:

*Views.* For a marginal with many weighted cells, a view is "the cells that differ only in this
column": a contiguous slice of a dense table (kept once per member column, that column innermost),
or a short list found by hashing. A view has a key that moves with the other columns; a column is
judged by looking into its views.

*Scores.* For queries that share their columns with few others (and all that are no cells), a
running score of every value is kept up to date. A move then costs as much as the queries that name
the old or the new value.

Which is cheaper depends on how many cells share a marginal: see ``MOVES``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.oracles.plan import Cells, Plan, coordinates
from understudy.runtime.compiled import kernel

MOVES = 64  # about as many moves as pairs of sweeps in one kick; weighs scores against views
SPIKES = 1024  # cells of a dense table that a kick may aim at: those with the largest weights


class Layout(NamedTuple):
    """Flat arrays for the kernel. Items of column c are ``..._starts[c]:..._starts[c + 1]``."""

    sizes: np.ndarray
    offsets: np.ndarray
    # views
    dense_starts: np.ndarray  # column -> dense views
    dense_views: np.ndarray
    dense: np.ndarray  # all copies of all dense tables
    dense_once: np.ndarray  # one view of each dense table, to add it up
    list_starts: np.ndarray  # column -> listed views
    list_views: np.ndarray
    keys: np.ndarray  # of each view, when all codes are 0
    view_column: np.ndarray
    shift_starts: np.ndarray  # column -> views that move with it
    shift_views: np.ndarray
    shift_strides: np.ndarray
    near_starts: np.ndarray  # column -> columns with a view that moves with it
    near: np.ndarray
    # of a hash table: key, first item, end of items; side by side, for the sake of the cache
    slots: np.ndarray
    item_codes: np.ndarray
    item_terms: np.ndarray
    list_once: np.ndarray  # one view of each listed marginal
    # scores
    terms: np.ndarray  # of each scored query
    touch_starts: np.ndarray
    touch_column: np.ndarray
    touch_query: np.ndarray
    value_starts: np.ndarray
    values: np.ndarray
    lifts: np.ndarray
    idle: np.ndarray  # of each scored query: nothing changes while the count stays below this
    resting: np.ndarray  # its count when every column rests
    tables: np.ndarray
    table: np.ndarray
    at_starts: np.ndarray  # one-hot coordinate -> touches that list it
    at_touches: np.ndarray
    at_lifts: np.ndarray
    # what a kick aims at: cells, then spikes of dense tables
    aim_starts: np.ndarray
    aim_columns: np.ndarray
    aim_codes: np.ndarray
    spike_weights: np.ndarray


def layout_of(plan: Plan) -> Layout:
    """Lay out a plan."""
    cells = plan.cells
    sizes_of = np.diff(cells.first)  # cells of each marginal
    widths = np.diff(cells.starts)
    viewed = sizes_of * MOVES * np.maximum(widths - 1, 1) > int(plan.offsets[-1])
    dense, spikes = _dense_views(plan)
    listed = _listed_views(plan, np.flatnonzero(viewed), first_view=len(dense["keys"]))
    scored = _scores(
        plan,
        np.flatnonzero(~viewed[cells.marginal]) if len(cells.number) else np.zeros(0, np.int64),
    )
    shifts = [np.concatenate([dense["shifts"][i], listed["shifts"][i]]) for i in range(3)]
    view_column = np.concatenate([dense["columns"], listed["columns"]])
    count = len(plan.sizes)
    shift_starts, shift_views, shift_strides = _by(shifts[0], count, shifts[1], shifts[2])
    pairs = np.unique(shifts[0] * max(count, 1) + view_column[shifts[1]])
    near_starts, near = _by(pairs // max(count, 1), count, pairs % max(count, 1))
    dense_starts, dense_views = _by(dense["columns"], count, np.arange(len(dense["keys"])))
    list_starts, list_views = _by(
        listed["columns"], count, len(dense["keys"]) + np.arange(len(listed["keys"]))
    )
    aims = [
        np.concatenate([x, y])
        for x, y in zip((_aim_columns(cells), cells.codes), spikes[1:3], strict=True)
    ]
    aim_starts = np.concatenate([cells.code_starts, cells.code_starts[-1] + spikes[0]])
    arrays = (
        plan.sizes,
        plan.offsets,
        dense_starts,
        dense_views,
        dense["flat"],
        dense["once"],
        list_starts,
        list_views,
        np.concatenate([dense["keys"], listed["keys"]]),
        view_column,
        shift_starts,
        shift_views,
        shift_strides,
        near_starts,
        near,
        *listed["hash"],
        listed["once"],
        *scored,
        *(aim_starts, *aims, spikes[3]),
    )
    return Layout._make(arrays)


def _by(owner: np.ndarray, count: int, *items: np.ndarray) -> tuple[np.ndarray, ...]:
    """Items sorted by owner, with where each owner's begin."""
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64)
    return starts, *(item[order].astype(np.int64) for item in items)


def _aim_columns(cells: Cells) -> np.ndarray:
    widths = np.diff(cells.starts)
    return cells.columns[coordinates(cells.marginal, widths[cells.marginal], cells.starts[:-1])]


def _dense_views(plan: Plan):  # type: ignore[no-untyped-def]
    """Dense tables, a copy per member column; and the cells that stand out in them."""
    copies = [np.zeros(1, np.float32)]
    keys: list[int] = []
    columns: list[int] = []
    once: list[int] = []
    shifts: list[tuple[int, int, int]] = []
    spike_starts: list[int] = []
    spike_columns, spike_codes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    spike_weights = [np.zeros(0)]
    at = spike_at = 0
    for table in plan.tables:
        once.append(len(keys))
        for j in range(len(table.positions)):
            axes = [i for i in range(len(table.positions)) if i != j] + [j]
            copies.append(np.transpose(table.weights, axes).ravel().astype(np.float32))
            stride = 1
            for i in reversed(axes):
                if i != j:
                    shifts.append((table.positions[i], len(keys), stride))
                stride *= table.shape[i]
            keys.append(at + 1)
            columns.append(table.positions[j])
            at += table.weights.size
        flat = table.weights.ravel()
        top = np.argpartition(flat, max(0, flat.size - SPIKES))[max(0, flat.size - SPIKES) :]
        codes = np.column_stack(np.unravel_index(np.sort(top), table.shape))
        spike_starts.extend(spike_at + len(table.positions) * np.arange(1, len(codes) + 1))
        spike_columns.append(np.tile(table.positions, len(codes)))
        spike_codes.append(codes.ravel())
        spike_weights.append(flat[np.sort(top)].astype(np.float64))
        spike_at += codes.size
    moved = np.asarray(shifts, np.int64).reshape(-1, 3)
    views = {
        "flat": np.concatenate(copies),
        "keys": np.asarray(keys, np.int64),
        "columns": np.asarray(columns, np.int64),
        "once": np.asarray(once, np.int64),
        "shifts": (moved[:, 0], moved[:, 1], moved[:, 2]),
    }
    spikes = (
        np.concatenate(spike_columns),
        np.concatenate(spike_codes),
        np.concatenate(spike_weights),
    )
    return views, (np.asarray(spike_starts, np.int64), *spikes)


def _listed_views(plan: Plan, chosen: np.ndarray, first_view: int):  # type: ignore[no-untyped-def]
    """Marginals as lists of cells: for each member the cells that differ only in it, found by a
    hash of the others' codes.
    """
    cells = plan.cells
    widths = np.diff(cells.starts)[chosen]
    counts = np.diff(cells.first)[chosen]
    member = coordinates(chosen, widths, cells.starts[:-1])  # of each view
    columns, strides = cells.columns[member], cells.strides[member]
    view_starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    reach = np.repeat(
        cells.strides[cells.starts[chosen]] * plan.sizes[cells.columns[cells.starts[chosen]]],
        widths,
    )
    keys = np.concatenate([[0], np.cumsum(reach)]).astype(np.int64)[:-1]  # ranges that do not meet
    # every pair of members of one marginal: the view of one moves with the other
    one = np.repeat(np.arange(len(member)), np.repeat(widths, widths))
    other = coordinates(
        np.repeat(np.arange(len(chosen)), widths), np.repeat(widths, widths), view_starts[:-1]
    )
    apart = one != other
    shifts = (columns[other[apart]], first_view + one[apart], strides[other[apart]])
    # every (cell, member): the key under which that member's view finds it
    cell = coordinates(chosen, counts, cells.first[:-1])
    place = np.repeat(np.arange(len(chosen)), counts)
    views = coordinates(place, widths[place], view_starts[:-1])
    codes = cells.codes[coordinates(cell, widths[place], cells.code_starts[:-1])]
    owner = np.repeat(cell, widths[place])
    key = keys[views] + cells.number[owner] - codes * strides[views]
    order = np.argsort(key, kind="stable")
    unique, group_starts = np.unique(key[order], return_index=True)
    slots = _hashed(unique.astype(np.int64), np.append(group_starts, len(order)).astype(np.int64))
    return {
        "keys": keys,
        "columns": columns,
        "shifts": shifts,
        "hash": (slots, codes[order].astype(np.int64), owner[order].astype(np.int64)),
        "once": first_view + view_starts[:-1],
    }


@kernel()
def _hashed(keys, starts):  # type: ignore[no-untyped-def]
    size = 4
    while size < 2 * len(keys):
        size *= 2
    slots = np.full((size, 3), -1, np.int64)
    for g in range(len(keys)):
        at = slot_of(keys[g], size)
        while slots[at, 0] >= 0:
            at = (at + 1) & (size - 1)
        slots[at, 0], slots[at, 1], slots[at, 2] = keys[g], starts[g], starts[g + 1]
    return slots


@kernel(inner=True, forceinline=True)
def slot_of(key, size):  # type: ignore[no-untyped-def]
    """Where to begin looking for a key; ``size`` is a power of two."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))


def _scores(plan: Plan, cell: np.ndarray) -> tuple[np.ndarray, ...]:
    """The other queries, and cells of thinly filled marginals as conjunctions."""
    others, cells = plan.others, plan.cells
    widths = np.diff(cells.code_starts)[cell]
    at = coordinates(cell, widths, cells.code_starts[:-1])
    columns = np.concatenate([others.columns, _aim_columns(cells)[at]])
    values = np.concatenate([others.values, cells.codes[at]])
    lifts = np.concatenate([others.lifts, np.ones(len(at), np.int64)])
    touches = np.concatenate([np.diff(others.starts), widths])
    touch_starts = np.concatenate([[0], np.cumsum(touches)]).astype(np.int64)
    listed = np.concatenate([np.diff(others.value_starts), np.ones(len(at), np.int64)])
    value_starts = np.concatenate([[0], np.cumsum(listed)]).astype(np.int64)
    query = np.repeat(np.arange(len(touches)), touches)
    rests = np.concatenate([others.rests, np.zeros(len(at), np.int64)])
    lengths = np.concatenate([np.diff(np.append(others.tables, len(others.table))), widths + 1])
    tables = (np.cumsum(lengths) - lengths).astype(np.int64)
    ones = np.zeros(int((widths + 1).sum()))
    ones[np.cumsum(widths + 1) - 1] = 1.0
    table = np.concatenate([others.table, ones])
    value_touch = np.repeat(np.arange(len(columns)), listed)
    coordinate = plan.offsets[columns[value_touch]] + values
    at_starts, at_touches, at_lifts = _by(coordinate, int(plan.offsets[-1]), value_touch, lifts)
    terms = np.concatenate([plan.cell_count + np.arange(len(others.tables)), cell])
    return (
        terms.astype(np.int64),
        touch_starts,
        columns.astype(np.int64),
        query.astype(np.int64),
        value_starts,
        values.astype(np.int64),
        lifts.astype(np.int64),
        _idle(tables, lengths.astype(np.int64), table, touches.astype(np.int64)),
        np.bincount(query, rests, minlength=len(touches)).astype(np.int64),
        tables,
        table,
        at_starts,
        at_touches,
        at_lifts,
    )


@kernel()
def _idle(tables, lengths, table, touches):  # type: ignore[no-untyped-def]
    """The last count of the first run of equal entries; -1 where one column may add more than one."""
    idle = np.full(len(tables), -1, np.int64)
    for q in range(len(tables)):
        if touches[q] == lengths[q] - 1:
            run = 0
            while run + 1 < lengths[q] and table[tables[q] + run + 1] == table[tables[q]]:
                run += 1
            idle[q] = run
    return idle
