"""Fitting whole rows to targets: coordinate descent over integer rows, one cell of the table at a
time.

The loss is half the sum of ``weight * (scale * count - target)^2`` over all cells and queries,
``count`` among the fitted rows and ``scale`` the people a row stands for. Changing one value of one
row moves two cells of each table that has the column, so the change in loss for *every* value of
the column is a sum of short contiguous slices, one per table. Each table is therefore kept once per
member column, that column innermost, already multiplied by its weight and with half a step added:
an entry is the cost of putting one more row there.

With heat a value is drawn, with probability proportional to ``prior * exp(-cost / heat)``, instead
of the best one taken: what the targets leave open is then spread as the prior has it, not frozen
where the descent met it.

Everything here is arithmetic on released values. The rows are fitted in ``CHAINS`` independent
parts, each to the same targets, so the result depends on the seed alone and not on how many threads
there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from understudy.counting.tally import cell_numbers, count_cells
from understudy.queries.symmetric import Symmetric
from understudy.runtime.compiled import kernel

CHAINS = 2  # parts of the rows that are fitted side by side
SLICES = 8  # of a sweep, between which those who watch are told how far it is
FEWEST_ROWS_A_CHAIN = 500  # below this a part has too few rows to meet targets on its own


@dataclass(frozen=True)
class TableTarget:
    """How many people each cell of a marginal should have, and how much that is to be believed."""

    positions: tuple[int, ...]
    shape: tuple[int, ...]
    people: np.ndarray = field(repr=False)  # one per cell, or per key
    weights: np.ndarray = field(repr=False)
    # sorted cell numbers; other cells are free
    keys: np.ndarray | None = field(default=None, repr=False)

    @property
    def strides(self) -> list[int]:
        return [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]

    def times(self, factor: float) -> TableTarget:
        """The same target, believed ``factor`` times as much."""
        return replace(self, weights=self.weights * np.float32(factor))


@dataclass(frozen=True)
class QueryTarget:
    """How many people each query of a batch should have."""

    part: Symmetric
    people: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)

    def times(self, factor: float) -> QueryTarget:
        """The same target, believed ``factor`` times as much."""
        return replace(self, weights=self.weights * np.float32(factor))


Target = TableTarget | QueryTarget


def fit_rows(
    rows: np.ndarray,
    shape: Sequence[int],
    people: float,
    targets: Sequence[Target],
    *,
    sweeps: int,
    seed: int,
    heat: float = 0.0,
    priors: Sequence[np.ndarray] | None = None,
    columns: Sequence[int] | None = None,
    tell: Callable[[float], None] = lambda share: None,
) -> int:
    """Move ``rows`` (int32 codes, rows x columns, changed in place) toward the targets; returns the
    number of moves.

    ``people`` is how many the rows stand for together. ``heat`` is in people; ``priors`` are the
    columns' own distributions and matter only when there is heat. Only ``columns`` are moved, all
    if not given. ``tell`` is told what share of the work is done.
    """
    chains = max(1, min(CHAINS, len(rows) // FEWEST_ROWS_A_CHAIN))
    parts = np.array_split(rows, chains)
    tables = [t for t in targets if isinstance(t, TableTarget)]
    dense = _Dense([t for t in tables if t.keys is None], len(shape))
    sparse = _Sparse([t for t in tables if t.keys is not None], len(shape))
    single = _Single([t for t in targets if isinstance(t, QueryTarget)], len(shape))
    sizes = np.asarray(shape, np.int64)
    log_priors = np.concatenate(
        [np.log(np.maximum(p, 1e-7)) for p in priors] if priors else [np.zeros(int(sizes.sum()))]
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    moved = np.arange(len(shape)) if columns is None else np.asarray(sorted(columns), np.int64)

    def run(chain: int) -> int:
        part = parts[chain]
        scale = people / len(part)
        state = np.array(
            [np.random.SeedSequence([seed, chain]).generate_state(1, np.uint64)[0] | 1], np.uint64
        )
        whole = (dense.costs(part, scale), *dense.arrays)
        listed = (
            (sparse.costs(part, scale), np.zeros(len(sparse.arrays[1]), np.int64), *sparse.arrays)
            if sparse.targets
            else None
        )
        queries = (single.gaps(part, scale), *single.arrays) if single.targets else None
        settings = (np.float32(scale), np.float32(heat), log_priors.astype(np.float32), offsets)
        cost, moves = np.zeros(int(sizes.max()), np.float32), 0
        cuts = [len(part) * i // SLICES for i in range(SLICES + 1)]
        for sweep in range(sweeps):
            order, turn = np.arange(len(part)), moved.copy()
            for i in range(SLICES):
                moves += _sweep(
                    part,
                    order,
                    cuts[i],
                    cuts[i + 1],
                    turn,
                    sizes,
                    state,
                    cost,
                    settings,
                    whole,
                    listed,
                    queries,
                )
                if chain == 0:  # all chains have as much to do
                    tell((sweep + (i + 1) / SLICES) / sweeps)
        return moves

    if chains == 1:
        return run(0)
    with ThreadPoolExecutor(chains) as pool:
        return sum(pool.map(run, range(chains)))


def _by_column(members: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists of pairs, one list a column, as (first of each column, first items, second items)."""
    flat = [pair for column in members for pair in column]
    starts = np.concatenate([[0], np.cumsum([len(column) for column in members])]).astype(np.int64)
    return (
        starts,
        np.asarray([a for a, _ in flat], np.int64),
        np.asarray([b for _, b in flat], np.int64),
    )


class _Dense:
    """Whole tables, laid out for the kernel: a copy per member column, that column innermost."""

    def __init__(self, targets: list[TableTarget], columns: int) -> None:
        self.targets = targets
        widest = max((len(t.positions) for t in targets), default=1)
        count = len(targets)
        self.width = np.asarray([len(t.positions) for t in targets], np.int64)
        self.positions = np.zeros((count, widest), np.int64)
        self.strides = np.zeros((count, widest, widest), np.int64)  # of each copy, for each member
        self.starts = np.zeros((count, widest), np.int64)
        self.weight_starts = np.zeros(count, np.int64)
        weights: list[np.ndarray] = []
        members: list[list[tuple[int, int]]] = [[] for _ in range(columns)]
        at = weight_at = 0
        for t, target in enumerate(targets):
            k, cells = len(target.positions), target.people.size
            self.positions[t, :k] = target.positions
            for j in range(k):
                stride = 1
                for i in reversed(self.axes(k, j)):
                    self.strides[t, j, i] = stride
                    stride *= target.shape[i]
                self.starts[t, j] = at
                at += cells
                members[target.positions[j]].append((t, j))
            self.weight_starts[t] = weight_at
            weight_at += cells
            weights.append(
                np.transpose(target.weights.reshape(target.shape), self.axes(k, 0))
                .ravel()
                .astype(np.float32)
            )
        self.cells = at
        self.weights = np.concatenate(weights) if weights else np.zeros(1, np.float32)
        self.arrays = (
            *_by_column(members),
            self.width,
            self.positions,
            self.strides,
            self.starts,
            self.weights,
            self.weight_starts,
        )

    @staticmethod
    def axes(k: int, j: int) -> list[int]:
        return [i for i in range(k) if i != j] + [j]

    def costs(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """The cost of one more row, cell by cell, in every copy."""
        costs = np.empty(self.cells, np.float32)
        for t, target in enumerate(self.targets):
            table = count_cells(rows, target.positions, target.shape).astype(np.float32)
            table += np.float32(0.5)
            table *= np.float32(scale)
            table -= target.people
            table *= target.weights
            table = table.reshape(target.shape)
            for j in range(len(target.positions)):
                start = self.starts[t, j]
                costs[start : start + table.size] = np.transpose(
                    table, self.axes(len(target.positions), j)
                ).ravel()
        return costs


class _Sparse:
    """Listed cells of wide tables: per member column, the cells that differ only in it, found by
    their common number.
    """

    def __init__(self, targets: list[TableTarget], columns: int) -> None:
        self.targets = targets
        widest = max((len(t.positions) for t in targets), default=1)
        count = len(targets)
        width = np.asarray([len(t.positions) for t in targets], np.int64)
        positions = np.zeros((count, widest), np.int64)
        strides = np.zeros((count, widest), np.int64)
        group_starts = np.zeros((count, widest), np.int64)
        group_ends = np.zeros((count, widest), np.int64)
        # of each group: the cell number with this member's code taken out, rising
        numbers: list[np.ndarray] = []
        firsts: list[np.ndarray] = []  # of each group: its first item
        codes: list[np.ndarray] = []  # of each item: the member's code
        entries: list[np.ndarray] = []  # of each item: the cell's place in costs and weights
        members: list[list[tuple[int, int]]] = [[] for _ in range(columns)]
        group_at = item_at = entry_at = 0
        for t, target in enumerate(targets):
            assert target.keys is not None
            positions[t, : width[t]], strides[t, : width[t]] = target.positions, target.strides
            for j in range(len(target.positions)):
                code = target.keys // target.strides[j] % target.shape[j]
                common = target.keys - code * target.strides[j]
                order = np.lexsort((code, common))
                unique, first = np.unique(common[order], return_index=True)
                group_starts[t, j], group_ends[t, j] = group_at, group_at + len(unique)
                numbers.append(unique)
                firsts.append(first + item_at)
                codes.append(code[order])
                entries.append(order + entry_at)
                group_at, item_at = group_at + len(unique), item_at + len(order)
                members[target.positions[j]].append((t, j))
            entry_at += len(target.keys)

        def joined(parts: list[np.ndarray], last: int | None = None) -> np.ndarray:
            return np.concatenate([*parts, np.asarray([] if last is None else [last])]).astype(
                np.int64
            )

        weights = (
            np.concatenate([t.weights for t in targets]).astype(np.float32)
            if targets
            else np.zeros(1, np.float32)
        )
        groups = (
            group_starts,
            group_ends,
            joined(numbers),
            joined(firsts, item_at),
            joined(codes),
            joined(entries),
        )
        self.arrays = (*_by_column(members), width, positions, strides, *groups, weights)

    def costs(self, rows: np.ndarray, scale: float) -> np.ndarray:
        parts = [np.zeros(0, np.float32)]
        for target in self.targets:
            assert target.keys is not None
            cells, counts = np.unique(
                cell_numbers(rows, target.positions, target.shape), return_counts=True
            )
            found = np.isin(cells, target.keys, assume_unique=True)
            there = np.zeros(len(target.keys))
            there[np.searchsorted(target.keys, cells[found])] = counts[found]
            parts.append(
                (target.weights * (scale * (there + 0.5) - target.people)).astype(np.float32)
            )
        return np.concatenate(parts)


class _Single:
    """Symmetric queries: per column, what each value adds to the number of satisfied literals."""

    def __init__(self, targets: list[QueryTarget], columns: int) -> None:
        self.targets = targets
        queries = [query for target in targets for query in target.part.queries]
        literal_starts = np.concatenate(
            [[0], np.cumsum([len(q.literals) for q in queries])]
        ).astype(np.int64)
        literals = [literal for query in queries for literal in query.literals]
        table_starts = (literal_starts[:-1] + np.arange(len(queries))).astype(np.int64)
        members: list[list[tuple[int, int]]] = [[] for _ in range(columns)]  # (query, touch)
        touch_starts, values, lifts = [0], [], []
        resting: list[int] = []
        for q, query in enumerate(queries):
            for column in sorted({x.column for x in query.literals}):
                own = [x for x in query.literals if x.column == column]
                members[column].append((q, len(resting)))
                # satisfied when the column takes none of the named values
                resting.append(sum(not x.holds for x in own))
                lift: Counter[int] = Counter()
                for x in own:
                    lift[x.value] += 1 if x.holds else -1
                for value in sorted(lift):
                    values.append(value)
                    lifts.append(lift[value])
                touch_starts.append(len(values))
        whole = [np.asarray(x, np.int64) for x in (touch_starts, values, lifts, resting)]
        self.arrays = (
            *_by_column(members),
            *whole,
            literal_starts,
            np.asarray([x.column for x in literals], np.int64),
            np.asarray([x.value for x in literals], np.int64),
            np.asarray([x.holds for x in literals], np.bool_),
            table_starts,
            np.asarray([bit for query in queries for bit in query.table], np.float32),
            (
                np.concatenate([t.weights for t in targets]).astype(np.float32)
                if targets
                else np.zeros(1, np.float32)
            ),
        )

    def gaps(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """Weighted difference between the rows' answer and the target, per query."""
        parts = [np.zeros(0, np.float32)]
        for target in self.targets:
            answers = target.part.tally(
                np.ascontiguousarray(rows[:, list(target.part.columns)], np.int32)
            )
            parts.append((target.weights * (scale * answers - target.people)).astype(np.float32))
        return np.concatenate(parts)


@kernel(borrows=True, inner=True)
def _next(state: np.ndarray) -> int:
    """xorshift: public randomness, the same on every machine."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return x


@kernel(borrows=True, inner=True)
def _shuffle(items: np.ndarray, state: np.ndarray) -> None:
    for i in range(len(items) - 1, 0, -1):
        j = np.int64(_next(state) % np.uint64(i + 1))
        items[i], items[j] = items[j], items[i]


@kernel(borrows=True, inner=True)
def _group(numbers: np.ndarray, low: int, high: int, number: int) -> int:
    """Where a number stands among rising ones, or -1."""
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < len(numbers) and numbers[low] == number else -1


@kernel(borrows=True, inner=True)
def _satisfied(row, column, q, literal_starts, literal_columns, literal_values, literal_holds):  # type: ignore[no-untyped-def]
    """How many literals of a query a row satisfies, those of one column left out."""
    hits = 0
    for x in range(literal_starts[q], literal_starts[q + 1]):
        if (
            literal_columns[x] != column
            and (row[literal_columns[x]] == literal_values[x]) == literal_holds[x]
        ):
            hits += 1
    return hits


@kernel(borrows=True, inner=True)
def _lift(touch, value, touch_starts, values, lifts):  # type: ignore[no-untyped-def]
    for x in range(touch_starts[touch], touch_starts[touch + 1]):
        if values[x] == value:
            return lifts[x]
    return 0


@kernel(borrows=True, fastmath=True, error_model="numpy")
def _sweep(rows, order, begin, end, columns, sizes, state, cost, settings, whole, listed, queries):  # type: ignore[no-untyped-def]
    """Visit every cell of some rows once, rows and columns in random order, and move what is better
    elsewhere.

    The rows are those at ``begin`` up to ``end`` of an order that is drawn at its beginning: all
    rows, in slices. Without listed cells of wide tables, or without single queries, what concerns
    them is None and is not even compiled.
    """
    scale, heat, log_priors, prior_starts = settings
    (
        costs,
        d_starts,
        d_tables,
        d_slots,
        d_width,
        d_positions,
        d_strides,
        d_first,
        d_weights,
        d_weight_first,
    ) = whole
    if listed is not None:
        s_costs, group_of, s_starts, s_tables, s_slots, s_width, s_positions, s_strides = listed[:8]
        s_group_first, s_group_end, s_numbers, s_items, s_codes, s_entries, s_weights = listed[8:]
    if queries is not None:
        gaps, q_starts, q_queries, q_touches, q_touch_starts, q_values, q_lifts, q_resting = (
            queries[:8]
        )
        (
            q_literal_starts,
            q_literal_columns,
            q_literal_values,
            q_literal_holds,
            q_table_starts,
            q_table,
            q_weights,
        ) = queries[8:]
    if begin == 0:
        _shuffle(order, state)
    cool = np.float32(1.0) / heat if heat > 0 else np.float32(0.0)
    moves = 0
    for place in range(begin, end):
        row = rows[order[place]]
        _shuffle(columns, state)
        for c in columns:
            m = sizes[c]
            seen = d_starts[c + 1] - d_starts[c]
            if listed is not None:
                seen += s_starts[c + 1] - s_starts[c]
            if queries is not None:
                seen += q_starts[c + 1] - q_starts[c]
            if m == 1 or seen == 0:
                continue
            now = np.int64(row[c])  # so that helpers are compiled for one type of value
            for v in range(m):
                cost[v] = 0.0
            # ADD UP the cost of one more row with each value ...
            own = np.float32(0.0)
            for p in range(d_starts[c], d_starts[c + 1]):
                t, j = d_tables[p], d_slots[p]
                base, cell = d_first[t, j], d_weight_first[t]
                for i in range(d_width[t]):
                    code = row[d_positions[t, i]]
                    cell += code * d_strides[t, 0, i]
                    if i != j:
                        base += code * d_strides[t, j, i]
                for v in range(m):
                    cost[v] += costs[base + v]
                own += d_weights[cell]
            if listed is not None:
                for p in range(s_starts[c], s_starts[c + 1]):
                    t, j = s_tables[p], s_slots[p]
                    number = np.int64(0)
                    for i in range(s_width[t]):
                        if i != j:
                            number += row[s_positions[t, i]] * s_strides[t, i]
                    group = _group(s_numbers, s_group_first[t, j], s_group_end[t, j], number)
                    if group >= s_group_end[t, j]:
                        group = -1
                    group_of[p] = group
                    if group >= 0:
                        for x in range(s_items[group], s_items[group + 1]):
                            cost[s_codes[x]] += s_costs[s_entries[x]]
                            if s_codes[x] == now:
                                own += s_weights[s_entries[x]]
            # ... this row itself being gone from where it is.
            cost[now] -= scale * own
            if queries is not None:
                for p in range(q_starts[c], q_starts[c + 1]):
                    q, touch = q_queries[p], q_touches[p]
                    hits = (
                        _satisfied(
                            row,
                            c,
                            q,
                            q_literal_starts,
                            q_literal_columns,
                            q_literal_values,
                            q_literal_holds,
                        )
                        + q_resting[touch]
                    )
                    table = q_table_starts[q]
                    here = q_table[
                        table + hits + _lift(touch, now, q_touch_starts, q_values, q_lifts)
                    ]
                    price = gaps[q] + scale * q_weights[q] * (np.float32(0.5) - here)
                    for x in range(q_touch_starts[touch], q_touch_starts[touch + 1]):
                        cost[q_values[x]] += price * (
                            q_table[table + hits + q_lifts[x]] - q_table[table + hits]
                        )
            # CHOOSE the cheapest value, or draw one.
            best = now
            if heat > 0:
                low = np.float32(np.inf)
                for v in range(m):
                    cost[v] = cost[v] * cool - log_priors[prior_starts[c] + v]
                    low = min(low, cost[v])
                for v in range(m):
                    # exp as (1 + x/256)^256: a loop without calls or branches, which the compiler
                    # makes eight wide
                    x = max(
                        np.float32(1.0) + (low - cost[v]) * np.float32(1 / 256), np.float32(0.0)
                    )
                    x *= x
                    x *= x
                    x *= x
                    x *= x
                    x *= x
                    x *= x
                    x *= x
                    cost[v] = x * x
                total = np.float32(0.0)
                for v in range(m):
                    total += cost[v]
                    cost[v] = total
                mark = (
                    np.float32((_next(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)) * total
                )
                best = np.int64(0)
                while best < m - 1 and cost[best] <= mark:
                    best += 1
            else:
                for v in range(m):
                    if cost[v] < cost[best]:
                        best = np.int64(v)
            if best == now:
                continue
            # MOVE: every copy of every table, every listed cell, every query that sees it.
            moves += 1
            for p in range(d_starts[c], d_starts[c + 1]):
                t, member = d_tables[p], d_slots[p]
                cell = d_weight_first[t]
                for i in range(d_width[t]):
                    cell += row[d_positions[t, i]] * d_strides[t, 0, i]
                less = scale * d_weights[cell]
                more = scale * d_weights[cell + (best - now) * d_strides[t, 0, member]]
                for j in range(d_width[t]):
                    cell = d_first[t, j]
                    for i in range(d_width[t]):
                        cell += row[d_positions[t, i]] * d_strides[t, j, i]
                    costs[cell] -= less
                    costs[cell + (best - now) * d_strides[t, j, member]] += more
            if listed is not None:
                for p in range(s_starts[c], s_starts[c + 1]):
                    if group_of[p] >= 0:
                        for x in range(s_items[group_of[p]], s_items[group_of[p] + 1]):
                            if s_codes[x] == now:
                                s_costs[s_entries[x]] -= scale * s_weights[s_entries[x]]
                            elif s_codes[x] == best:
                                s_costs[s_entries[x]] += scale * s_weights[s_entries[x]]
            if queries is not None:
                for p in range(q_starts[c], q_starts[c + 1]):
                    q, touch = q_queries[p], q_touches[p]
                    hits = (
                        _satisfied(
                            row,
                            c,
                            q,
                            q_literal_starts,
                            q_literal_columns,
                            q_literal_values,
                            q_literal_holds,
                        )
                        + q_resting[touch]
                    )
                    table = q_table_starts[q] + hits
                    before = q_table[table + _lift(touch, now, q_touch_starts, q_values, q_lifts)]
                    after = q_table[table + _lift(touch, best, q_touch_starts, q_values, q_lifts)]
                    gaps[q] += scale * q_weights[q] * (after - before)
            row[c] = best
    return moves
