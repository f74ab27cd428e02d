"""Fitting whole rows to targets: coordinate descent over integer rows, one cell of the table at a
time.

The loss is half the sum of ``weight * (scale * count - target)^2`` over all cells and queries,
``count`` among the fitted rows and ``scale`` the people a row stands for. Changing one value of one
row moves two cells of each table that has the column, so the change in loss for *every* value of
the column is a sum of short contiguous slices, one per table. Each table is therefore kept once per
member column, that column innermost, already multiplied by its weight and with half a step added:
an entry is the cost of putting one more row there.

A table may see some of its columns in bins. Then a value's cost is that of its bin, and a change
inside a bin changes nothing in that table.

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
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from understudy.counting.tally import cell_numbers, cells_in_bins, count_cells
from understudy.queries.symmetric import Symmetric
from understudy.runtime.compiled import kernel

CHAINS = 2  # parts of the rows that are fitted side by side
SLICES = 8  # of a sweep, between which those who watch are told how far it is
# log-prior of a value that is never drawn: no cost, in units of heat, comes near
NEVER = -1e6
FEWEST_ROWS_A_CHAIN = 500  # below this a part has too few rows to meet targets on its own


@dataclass(frozen=True)
class TableTarget:
    """How many people each cell of a marginal should have, and how much that is to be believed.

    ``bins`` has, of each column, None or an array with the bin of every code; it is empty if no
    column is in bins. Listed cells have none. ``wall`` is a cost of every cell beside what its
    count costs, for cells that no row may be in.
    """

    positions: tuple[int, ...]
    shape: tuple[int, ...]  # numbers of codes, or of bins
    counts: np.ndarray = field(repr=False)  # one per cell, or per key
    weights: np.ndarray = field(repr=False)
    # sorted cell numbers; other cells are free
    keys: np.ndarray | None = field(default=None, repr=False)
    bins: tuple[np.ndarray | None, ...] = field(default=(), repr=False)
    wall: np.ndarray | None = field(default=None, repr=False)

    @property
    def is_binned(self) -> bool:
        return any(one is not None for one in self.bins)

    def counted(self, rows: np.ndarray) -> np.ndarray:
        """How many of some rows are in each cell."""
        return count_binned(rows, self.positions, self.shape, self.bins)

    @property
    def strides(self) -> list[int]:
        return [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]

    def times(self, factor: float) -> TableTarget:
        """The same target, believed ``factor`` times as much."""
        return replace(self, weights=self.weights * np.float32(factor))


@dataclass(frozen=True)
class QueryTarget:
    """How many people each query of a batch should have."""

    batch: Symmetric
    counts: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)

    def times(self, factor: float) -> QueryTarget:
        """The same target, believed ``factor`` times as much."""
        return replace(self, weights=self.weights * np.float32(factor))


Target = TableTarget | QueryTarget


# What the kernel works on, in bundles. Of a column c, the entries from starts[c] up to starts[c + 1]
# are those that see it.


class Settings(NamedTuple):
    scale: np.float32  # people a row stands for
    heat: np.float32
    log_priors: np.ndarray  # of every value, column after column
    prior_starts: np.ndarray  # of each column


class Whole(NamedTuple):
    """Whole tables: a copy per member column, that column innermost."""

    costs: np.ndarray  # of one more row, cell by cell, in every copy
    starts: np.ndarray
    tables: np.ndarray  # of each entry: its table
    slots: np.ndarray  # and which member the column is
    width: np.ndarray  # of each table: how many members
    positions: np.ndarray  # their columns
    strides: np.ndarray  # of each copy, for each member
    first: np.ndarray  # of each copy: its first cell in costs
    weights: np.ndarray  # as the first copy is laid out
    weight_first: np.ndarray  # of each table: its first cell in weights


class Coarse(NamedTuple):
    """Tables that see some column in bins: whole ones of bins, and the bin of every code."""

    of_bins: Whole
    bins: np.ndarray  # of every code, member after member, table after table
    first: np.ndarray  # of each table and member: its first code in bins
    plain: np.ndarray  # of each table and member: whether every code is its own bin


class Listed(NamedTuple):
    """Listed cells of wide tables: per member column, groups of cells that differ only in it."""

    costs: np.ndarray  # of one more row, for each cell
    group_of: np.ndarray  # of each entry: the group that the row at hand is in, or -1
    starts: np.ndarray
    tables: np.ndarray
    slots: np.ndarray
    width: np.ndarray
    positions: np.ndarray
    strides: np.ndarray
    group_first: np.ndarray  # of each table and member: its groups
    group_end: np.ndarray
    numbers: np.ndarray  # of each group: the cell number with this member's code taken out, rising
    items: np.ndarray  # of each group: its first item
    codes: np.ndarray  # of each item: the member's code
    cells: np.ndarray  # of each item: the cell's place in costs and weights
    weights: np.ndarray


class Asked(NamedTuple):
    """Single queries: per column that a query touches, what each value adds to its hits."""

    gaps: np.ndarray  # of each query: weighted difference between the rows' answer and the target
    starts: np.ndarray
    queries: np.ndarray  # of each entry: its query
    touches: np.ndarray  # and its touch: this query and this column
    touch_starts: np.ndarray  # of each touch: the values that literals name
    values: np.ndarray
    lifts: np.ndarray  # literals that a value satisfies beyond those of no named value
    resting: np.ndarray  # of each touch: literals that no named value satisfies
    literal_starts: np.ndarray  # of each query: its literals
    literal_columns: np.ndarray
    literal_values: np.ndarray
    literal_holds: np.ndarray
    table_starts: np.ndarray  # of each query: its answer by the number of hits
    table: np.ndarray
    weights: np.ndarray


def count_binned(
    rows: np.ndarray,
    positions: Sequence[int],
    shape: Sequence[int],
    bins: Sequence[Sequence[int] | np.ndarray | None],
) -> np.ndarray:
    """The dense table of some columns of coded rows, each in its bins if it has any."""
    if all(one is None for one in bins):
        return count_cells(rows, positions, shape)
    return np.bincount(cells_in_bins(rows, positions, shape, bins), minlength=math.prod(shape))


def chains_of(rows: int) -> int:
    """How many parts so many rows are fitted in."""
    return max(1, min(CHAINS, rows // FEWEST_ROWS_A_CHAIN))


def fit_rows(
    rows: np.ndarray,
    shape: Sequence[int],
    n: float,
    targets: Sequence[Target],
    *,
    sweeps: int,
    seed: int,
    heat: float = 0.0,
    first_heat: float = 0.0,
    priors: Sequence[np.ndarray] | None = None,
    columns: Sequence[int] | None = None,
    closed: Collection[int] = (),
    together: Sequence[Sequence[int]] = (),
    tell: Callable[[float], None] = lambda share: None,
) -> int:
    """Move ``rows`` (int32 codes, rows x columns, changed in place) toward the targets; returns the
    number of moves.

    ``n`` is how many people the rows stand for together. ``heat`` is in people; the first of
    several sweeps has ``first_heat``, if that is more. ``priors`` are the columns' own
    distributions and matter only when there is heat; in ``closed`` columns, values of no prior are
    never drawn then. Only ``columns`` are moved, all if not given; and ``together`` those that a
    row takes over from another as well, all at once. ``tell`` is told what share of the work is
    done.
    """
    chains = chains_of(len(rows))
    batches = np.array_split(rows, chains)
    tables = [t for t in targets if isinstance(t, TableTarget)]
    dense = _Dense([t for t in tables if t.keys is None and not t.is_binned], len(shape))
    binned = _Binned([t for t in tables if t.is_binned], shape)
    sparse = _Sparse([t for t in tables if t.keys is not None], len(shape))
    single = _Single([t for t in targets if isinstance(t, QueryTarget)], len(shape))
    sizes = np.asarray(shape, np.int64)
    log_priors = np.concatenate(
        [_log_prior(p, j in closed) for j, p in enumerate(priors)]
        if priors
        else [np.zeros(int(sizes.sum()))]
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    moved = np.arange(len(shape)) if columns is None else np.asarray(sorted(columns), np.int64)
    # what copies of single queries and listed cells cost is not worked out
    few = () if sparse.targets or single.targets else together
    copied = [np.asarray(some, np.int64) for some in few if set(some) <= set(moved.tolist())]

    def run(chain: int) -> int:
        batch = batches[chain]
        scale = n / len(batch)
        state = np.array(
            [np.random.SeedSequence([seed, chain]).generate_state(1, np.uint64)[0] | 1], np.uint64
        )
        whole = dense.bundle(batch, scale)
        coarse = binned.bundle(batch, scale) if binned.targets else None
        listed = sparse.bundle(batch, scale) if sparse.targets else None
        asked = single.bundle(batch, scale) if single.targets else None
        calm = Settings(np.float32(scale), np.float32(heat), log_priors.astype(np.float32), offsets)
        warm = calm._replace(heat=np.float32(max(heat, first_heat)))
        cost, moves = np.zeros(int(sizes.max()), np.float32), 0
        cuts = [len(batch) * i // SLICES for i in range(SLICES + 1)]
        other = np.zeros(len(shape), batch.dtype)
        stamps = (np.zeros(len(dense.targets), np.int64), np.zeros(len(binned.targets), np.int64))
        for sweep in range(sweeps):
            order, turn = np.arange(len(batch)), moved.copy()
            settings = warm if sweep == 0 < sweeps - 1 else calm
            for i in range(SLICES):
                moves += _sweep(
                    batch,
                    order,
                    cuts[i],
                    cuts[i + 1],
                    turn,
                    sizes,
                    state,
                    cost,
                    settings,
                    whole,
                    coarse,
                    listed,
                    asked,
                )
                for some in copied:
                    places = order[cuts[i] : cuts[i + 1]]
                    moves += _take_over(
                        batch, places, some, state, settings, whole, coarse, other, stamps
                    )
                if chain == 0:  # all chains have as much to do
                    tell((sweep + (i + 1) / SLICES) / sweeps)
        return moves

    if chains == 1:
        return run(0)
    with ThreadPoolExecutor(chains) as pool:
        return sum(pool.map(run, range(chains)))


def _log_prior(shares: np.ndarray, closed: bool) -> np.ndarray:
    logs = np.log(np.maximum(shares, 1e-7))
    return np.where(shares > 0, logs, NEVER) if closed else logs


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
            k, cells = len(target.positions), target.counts.size
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
        self.members = _by_column(members)

    def bundle(self, rows: np.ndarray, scale: float) -> Whole:
        starts, tables, slots = self.members
        return Whole(
            costs=self.costs(rows, scale),
            starts=starts,
            tables=tables,
            slots=slots,
            width=self.width,
            positions=self.positions,
            strides=self.strides,
            first=self.starts,
            weights=self.weights,
            weight_first=self.weight_starts,
        )

    @staticmethod
    def axes(k: int, j: int) -> list[int]:
        return [i for i in range(k) if i != j] + [j]

    def costs(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """The cost of one more row, cell by cell, in every copy."""
        costs = np.empty(self.cells, np.float32)
        for t, target in enumerate(self.targets):
            table = target.counted(rows).astype(np.float32)
            table += np.float32(0.5)
            table *= np.float32(scale)
            table -= target.counts
            table *= target.weights
            if target.wall is not None:
                table += target.wall
            table = table.reshape(target.shape)
            for j in range(len(target.positions)):
                start = self.starts[t, j]
                costs[start : start + table.size] = np.transpose(
                    table, self.axes(len(target.positions), j)
                ).ravel()
        return costs


class _Binned:
    """Tables in bins: laid out as whole tables of bins, with the way from codes to bins."""

    def __init__(self, targets: list[TableTarget], shape: Sequence[int]) -> None:
        self.targets = targets
        self._tables = _Dense(targets, len(shape))
        self._first = np.zeros(self._tables.positions.shape, np.int64)
        self._plain = np.zeros(self._tables.positions.shape, np.bool_)
        bins, at = [np.zeros(0, np.int32)], 0
        for t, target in enumerate(targets):
            for j, (position, mapping) in enumerate(
                zip(target.positions, target.bins, strict=True)
            ):
                self._first[t, j], self._plain[t, j] = at, mapping is None
                bins.append(
                    (np.arange(shape[position]) if mapping is None else mapping).astype(np.int32)
                )
                at += shape[position]
        self._bins = np.concatenate(bins)

    def bundle(self, rows: np.ndarray, scale: float) -> Coarse:
        tables = self._tables.bundle(rows, scale)
        return Coarse(of_bins=tables, bins=self._bins, first=self._first, plain=self._plain)


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

        def joined(batches: list[np.ndarray], last: int | None = None) -> np.ndarray:
            return np.concatenate([*batches, np.asarray([] if last is None else [last])]).astype(
                np.int64
            )

        weights = (
            np.concatenate([t.weights for t in targets]).astype(np.float32)
            if targets
            else np.zeros(1, np.float32)
        )
        starts, tables, slots = _by_column(members)
        self._layout = Listed(
            costs=np.zeros(0, np.float32),  # of rows, which are not known yet
            group_of=np.zeros(0, np.int64),
            starts=starts,
            tables=tables,
            slots=slots,
            width=width,
            positions=positions,
            strides=strides,
            group_first=group_starts,
            group_end=group_ends,
            numbers=joined(numbers),
            items=joined(firsts, item_at),
            codes=joined(codes),
            cells=joined(entries),
            weights=weights,
        )

    def bundle(self, rows: np.ndarray, scale: float) -> Listed:
        groups = np.zeros(len(self._layout.tables), np.int64)
        return self._layout._replace(costs=self.costs(rows, scale), group_of=groups)

    def costs(self, rows: np.ndarray, scale: float) -> np.ndarray:
        batches = [np.zeros(0, np.float32)]
        for target in self.targets:
            assert target.keys is not None
            cells, counts = np.unique(
                cell_numbers(rows, target.positions, target.shape), return_counts=True
            )
            match = np.isin(cells, target.keys, assume_unique=True)
            there = np.zeros(len(target.keys))
            there[np.searchsorted(target.keys, cells[match])] = counts[match]
            batches.append(
                (target.weights * (scale * (there + 0.5) - target.counts)).astype(np.float32)
            )
        return np.concatenate(batches)


class _Single:
    """Symmetric queries: per column, what each value adds to the number of satisfied literals."""

    def __init__(self, targets: list[QueryTarget], columns: int) -> None:
        self.targets = targets
        queries = [query for target in targets for query in target.batch.queries]
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
        starts, asked, touches = _by_column(members)
        self._layout = Asked(
            gaps=np.zeros(0, np.float32),  # of rows, which are not known yet
            starts=starts,
            queries=asked,
            touches=touches,
            touch_starts=np.asarray(touch_starts, np.int64),
            values=np.asarray(values, np.int64),
            lifts=np.asarray(lifts, np.int64),
            resting=np.asarray(resting, np.int64),
            literal_starts=literal_starts,
            literal_columns=np.asarray([x.column for x in literals], np.int64),
            literal_values=np.asarray([x.value for x in literals], np.int64),
            literal_holds=np.asarray([x.holds for x in literals], np.bool_),
            table_starts=table_starts,
            table=np.asarray([bit for query in queries for bit in query.table], np.float32),
            weights=(
                np.concatenate([t.weights for t in targets]).astype(np.float32)
                if targets
                else np.zeros(1, np.float32)
            ),
        )

    def bundle(self, rows: np.ndarray, scale: float) -> Asked:
        return self._layout._replace(gaps=self.gaps(rows, scale))

    def gaps(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """Weighted difference between the rows' answer and the target, per query."""
        batches = [np.zeros(0, np.float32)]
        for target in self.targets:
            answers = target.batch.tally(
                np.ascontiguousarray(rows[:, list(target.batch.columns)], np.int32)
            )
            batches.append((target.weights * (scale * answers - target.counts)).astype(np.float32))
        return np.concatenate(batches)


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
def _satisfied(row, column, q, asked):  # type: ignore[no-untyped-def]
    """How many literals of a query a row satisfies, those of one column left out."""
    hits = 0
    for x in range(asked.literal_starts[q], asked.literal_starts[q + 1]):
        other = asked.literal_columns[x]
        if other != column and (row[other] == asked.literal_values[x]) == asked.literal_holds[x]:
            hits += 1
    return hits


@kernel(borrows=True, inner=True)
def _lift(touch, value, asked):  # type: ignore[no-untyped-def]
    for x in range(asked.touch_starts[touch], asked.touch_starts[touch + 1]):
        if asked.values[x] == value:
            return asked.lifts[x]
    return 0


@kernel(borrows=True, inner=True, fastmath=True, error_model="numpy")
def _weigh_bins(row, c, now, m, scale, cost, coarse):  # type: ignore[no-untyped-def]
    """Add the cost of one more row with each value of a column, in tables that see bins."""
    tables = coarse.of_bins
    for p in range(tables.starts[c], tables.starts[c + 1]):
        t, j = tables.tables[p], tables.slots[p]
        base, cell = tables.first[t, j], tables.weight_first[t]
        for i in range(tables.width[t]):
            at = coarse.bins[coarse.first[t, i] + row[tables.positions[t, i]]]
            cell += at * tables.strides[t, 0, i]
            if i != j:
                base += at * tables.strides[t, j, i]
        bins = coarse.first[t, j]
        # The row is gone from where it is, for every value of its bin; then it is put back.
        here = base + coarse.bins[bins + now]
        with_itself = tables.costs[here]
        tables.costs[here] = with_itself - scale * tables.weights[cell]
        if coarse.plain[t, j]:
            for v in range(m):
                cost[v] += tables.costs[base + v]
        else:
            for v in range(m):
                cost[v] += tables.costs[base + coarse.bins[bins + v]]
        tables.costs[here] = with_itself


@kernel(borrows=True, inner=True, fastmath=True, error_model="numpy")
def _move_bins(row, c, now, best, scale, coarse):  # type: ignore[no-untyped-def]
    """Move a row from one value of a column to another, in tables that see bins."""
    tables = coarse.of_bins
    for p in range(tables.starts[c], tables.starts[c + 1]):
        t, member = tables.tables[p], tables.slots[p]
        bins = coarse.first[t, member]
        step = np.int64(coarse.bins[bins + best]) - np.int64(coarse.bins[bins + now])
        if step == 0:
            continue
        cell = tables.weight_first[t]
        for i in range(tables.width[t]):
            at = coarse.bins[coarse.first[t, i] + row[tables.positions[t, i]]]
            cell += at * tables.strides[t, 0, i]
        less = scale * tables.weights[cell]
        more = scale * tables.weights[cell + step * tables.strides[t, 0, member]]
        for j in range(tables.width[t]):
            cell = tables.first[t, j]
            for i in range(tables.width[t]):
                at = coarse.bins[coarse.first[t, i] + row[tables.positions[t, i]]]
                cell += at * tables.strides[t, j, i]
            tables.costs[cell] -= less
            tables.costs[cell + step * tables.strides[t, j, member]] += more


@kernel(borrows=True, fastmath=True, error_model="numpy")
def _sweep(  # type: ignore[no-untyped-def]
    rows, order, begin, end, columns, sizes, state, cost, settings, whole, coarse, listed, asked
):
    """Visit every cell of some rows once, rows and columns in random order, and move what is better
    elsewhere.

    The rows are those at ``begin`` up to ``end`` of an order that is drawn at its beginning: all
    rows, in slices. Without tables in bins, listed cells of wide tables, or single queries, what
    concerns them is None and is not even compiled.
    """
    scale, heat = settings.scale, settings.heat
    if begin == 0:
        _shuffle(order, state)
    cool = np.float32(1.0) / heat if heat > 0 else np.float32(0.0)
    moves = 0
    for place in range(begin, end):
        row = rows[order[place]]
        _shuffle(columns, state)
        for c in columns:
            m = sizes[c]
            seen = whole.starts[c + 1] - whole.starts[c]
            if coarse is not None:
                seen += coarse.of_bins.starts[c + 1] - coarse.of_bins.starts[c]
            if listed is not None:
                seen += listed.starts[c + 1] - listed.starts[c]
            if asked is not None:
                seen += asked.starts[c + 1] - asked.starts[c]
            if m == 1 or seen == 0:
                continue
            now = np.int64(row[c])  # so that helpers are compiled for one type of value
            for v in range(m):
                cost[v] = 0.0
            # ADD UP the cost of one more row with each value ...
            own = np.float32(0.0)
            for p in range(whole.starts[c], whole.starts[c + 1]):
                t, j = whole.tables[p], whole.slots[p]
                base, cell = whole.first[t, j], whole.weight_first[t]
                for i in range(whole.width[t]):
                    code = row[whole.positions[t, i]]
                    cell += code * whole.strides[t, 0, i]
                    if i != j:
                        base += code * whole.strides[t, j, i]
                for v in range(m):
                    cost[v] += whole.costs[base + v]
                own += whole.weights[cell]
            if coarse is not None:
                _weigh_bins(row, c, now, m, scale, cost, coarse)
            if listed is not None:
                for p in range(listed.starts[c], listed.starts[c + 1]):
                    t, j = listed.tables[p], listed.slots[p]
                    number = np.int64(0)
                    for i in range(listed.width[t]):
                        if i != j:
                            number += row[listed.positions[t, i]] * listed.strides[t, i]
                    group = _group(
                        listed.numbers, listed.group_first[t, j], listed.group_end[t, j], number
                    )
                    if group >= listed.group_end[t, j]:
                        group = -1
                    listed.group_of[p] = group
                    if group >= 0:
                        for x in range(listed.items[group], listed.items[group + 1]):
                            cost[listed.codes[x]] += listed.costs[listed.cells[x]]
                            if listed.codes[x] == now:
                                own += listed.weights[listed.cells[x]]
            # ... this row itself being gone from where it is.
            cost[now] -= scale * own
            if asked is not None:
                for p in range(asked.starts[c], asked.starts[c + 1]):
                    q, touch = asked.queries[p], asked.touches[p]
                    hits = _satisfied(row, c, q, asked) + asked.resting[touch]
                    table = asked.table_starts[q]
                    here = asked.table[table + hits + _lift(touch, now, asked)]
                    price = asked.gaps[q] + scale * asked.weights[q] * (np.float32(0.5) - here)
                    for x in range(asked.touch_starts[touch], asked.touch_starts[touch + 1]):
                        cost[asked.values[x]] += price * (
                            asked.table[table + hits + asked.lifts[x]] - asked.table[table + hits]
                        )
            # CHOOSE the cheapest value, or draw one.
            best = now
            if heat > 0:
                low = np.float32(np.inf)
                for v in range(m):
                    cost[v] = cost[v] * cool - settings.log_priors[settings.prior_starts[c] + v]
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
            for p in range(whole.starts[c], whole.starts[c + 1]):
                t, member = whole.tables[p], whole.slots[p]
                cell = whole.weight_first[t]
                for i in range(whole.width[t]):
                    cell += row[whole.positions[t, i]] * whole.strides[t, 0, i]
                less = scale * whole.weights[cell]
                more = scale * whole.weights[cell + (best - now) * whole.strides[t, 0, member]]
                for j in range(whole.width[t]):
                    cell = whole.first[t, j]
                    for i in range(whole.width[t]):
                        cell += row[whole.positions[t, i]] * whole.strides[t, j, i]
                    whole.costs[cell] -= less
                    whole.costs[cell + (best - now) * whole.strides[t, j, member]] += more
            if coarse is not None:
                _move_bins(row, c, now, best, scale, coarse)
            if listed is not None:
                for p in range(listed.starts[c], listed.starts[c + 1]):
                    if listed.group_of[p] >= 0:
                        for x in range(
                            listed.items[listed.group_of[p]], listed.items[listed.group_of[p] + 1]
                        ):
                            if listed.codes[x] == now:
                                listed.costs[listed.cells[x]] -= (
                                    scale * listed.weights[listed.cells[x]]
                                )
                            elif listed.codes[x] == best:
                                listed.costs[listed.cells[x]] += (
                                    scale * listed.weights[listed.cells[x]]
                                )
            if asked is not None:
                for p in range(asked.starts[c], asked.starts[c + 1]):
                    q, touch = asked.queries[p], asked.touches[p]
                    hits = _satisfied(row, c, q, asked) + asked.resting[touch]
                    table = asked.table_starts[q] + hits
                    before = asked.table[table + _lift(touch, now, asked)]
                    after = asked.table[table + _lift(touch, best, asked)]
                    asked.gaps[q] += scale * asked.weights[q] * (after - before)
            row[c] = best
    return moves


@kernel(borrows=True, inner=True, fastmath=True, error_model="numpy")
def _cell(row, t, j, tables, coarse):  # type: ignore[no-untyped-def]
    """Where a row stands in a copy of a table."""
    cell = np.int64(0)
    for i in range(tables.width[t]):
        code = np.int64(row[tables.positions[t, i]])
        if coarse is not None:
            code = np.int64(coarse.bins[coarse.first[t, i] + code])
        cell += code * tables.strides[t, j, i]
    return cell


@kernel(borrows=True, inner=True, fastmath=True, error_model="numpy")
def _gain(row, other, columns, stamp, mark, scale, tables, coarse):  # type: ignore[no-untyped-def]
    """What it costs to move a row to where another stands, in the tables that see some columns;
    these are marked.
    """
    cost = np.float32(0.0)
    for c in columns:
        for p in range(tables.starts[c], tables.starts[c + 1]):
            t = tables.tables[p]
            if stamp[t] == mark:
                continue
            stamp[t] = mark
            here, there = _cell(row, t, 0, tables, coarse), _cell(other, t, 0, tables, coarse)
            if here != there:
                first = tables.first[t, 0]
                cost += tables.costs[first + there] - tables.costs[first + here]
                cost += scale * tables.weights[tables.weight_first[t] + here]
    return cost


@kernel(borrows=True, inner=True, fastmath=True, error_model="numpy")
def _go(row, other, stamp, mark, scale, tables, coarse):  # type: ignore[no-untyped-def]
    """Move it, in the tables that are marked."""
    for t in range(len(stamp)):
        if stamp[t] != mark:
            continue
        here, there = _cell(row, t, 0, tables, coarse), _cell(other, t, 0, tables, coarse)
        if here == there:
            continue
        less = scale * tables.weights[tables.weight_first[t] + here]
        more = scale * tables.weights[tables.weight_first[t] + there]
        for j in range(tables.width[t]):
            first = tables.first[t, j]
            tables.costs[first + _cell(row, t, j, tables, coarse)] -= less
            tables.costs[first + _cell(other, t, j, tables, coarse)] += more


@kernel(borrows=True, fastmath=True, error_model="numpy")
def _take_over(  # type: ignore[no-untyped-def]
    rows, places, columns, state, settings, whole, coarse, other, stamps
):
    """Each of some rows takes over what another has in some columns, if that is better, or with the
    chance that heat gives it (Metropolis).

    ``other`` holds a row, and ``stamps`` a number for each table: which row saw it last.
    """
    scale, heat = settings.scale, settings.heat
    moves = 0
    for stamp in stamps:
        for t in range(len(stamp)):
            stamp[t] = -1
    for mark in range(len(places)):
        row = rows[places[mark]]
        donor = rows[np.int64(_next(state) % np.uint64(len(rows)))]
        for c in range(len(row)):  # an assignment of the whole would make an array
            other[c] = row[c]
        same = True
        for c in columns:
            same = same and donor[c] == row[c]
            other[c] = donor[c]
        if same:
            continue
        cost = _gain(row, other, columns, stamps[0], mark, scale, whole, None)
        if coarse is not None:
            cost += _gain(row, other, columns, stamps[1], mark, scale, coarse.of_bins, coarse)
        if cost > 0:
            chance = (_next(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
            if heat <= 0 or chance >= math.exp(-cost / heat):
                continue
        moves += 1
        _go(row, other, stamps[0], mark, scale, whole, None)
        if coarse is not None:
            _go(row, other, stamps[1], mark, scale, coarse.of_bins, coarse)
        for c in columns:
            row[c] = other[c]
    return moves
