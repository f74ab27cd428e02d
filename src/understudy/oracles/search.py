"""The default oracle: iterated local search over records.

From a random record, every column in turn takes its best value until none can be improved. Coordinate ascent
alone is inadequate (2-15% optimal on ADULT): conjunctions of k literals pay nothing until all k hold. So a kick makes
one worthwhile query true whatever it costs, ascends again, and is taken back if the record got worse. A record is
restarted ``restarts`` times and kicked ``kicks`` times per ``KICKED`` columns that are mentioned at all.

Work follows what a change touches (see :mod:`understudy.oracles.layout`), never the number of queries.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numba
import numpy as np

from understudy.errors import ParameterError
from understudy.oracles.base import Ended, Found, Instance, Oracle, Variants, sub_seed
from understudy.oracles.layout import Layout, layout_of, slot_of
from understudy.oracles.plan import Plan, plan_of

KICKED = 16  # columns that one kick is thought to look after
TINY = 1e-9  # an improvement is worth making from this share of the largest weight
ENTRANTS = 12  # random queries of which a kick takes the most promising
# The kernels own nothing: every array is held by the caller, and counting references to them would take most of the time.
BORROWED = {"cache": True, "nogil": True, "_nrt": False}
CHUNK = 16  # variants solved in one call; their weights are in memory together


@dataclass(frozen=True, kw_only=True)
class Search(Oracle):
    """Restarts and kicks; never proves anything, so it always ends at its limit.

    Attributes:
        restarts: random records to begin from.
        kicks: kicks after each restart, for every 16 columns mentioned.
        threads: variants solved side by side; the answers do not depend on it.
    """

    restarts: int = 4
    kicks: int = 10
    threads: int = 1

    name: ClassVar[str] = "search"

    def __post_init__(self) -> None:
        if self.restarts < 1 or self.kicks < 0 or self.threads < 1:
            raise ParameterError("search needs at least one restart, no negative number of kicks, and at least one thread.")

    def solve(self, instance: Instance, seed: int) -> Found:
        return self._solve(instance, Variants(), [seed])[0]

    def solve_many(self, instance: Instance, variants: Variants, seed: int) -> list[Found]:
        variants.check(instance)
        return self._solve(instance, variants, [sub_seed(seed, i) for i in range(len(variants))])

    def _solve(self, instance: Instance, variants: Variants, seeds: list[int]) -> list[Found]:
        plan = plan_of(instance)
        layout = layout_of(plan)
        ladders = _ladders(instance, plan)
        shared = None if variants.weights is not None else plan.weigh(instance.weights)[1][None, :]

        def run(first: int) -> list[Found]:
            some = range(first, min(first + CHUNK, len(seeds)))
            each = [variants.of(instance, i) for i in some]
            weights = shared if shared is not None else np.stack([plan.weigh(one.weights)[1] for one in each])
            if variants.linear is None:
                linear = plan.linear(instance.linear, instance.offsets)[None, :]
            else:
                linear = np.stack([plan.linear(one.linear, instance.offsets) for one in each])
            state = np.asarray([np.random.SeedSequence([seeds[i], 0]).generate_state(1, np.uint64)[0] | np.uint64(1) for i in some])
            kicks = self.kicks * max(1, len(plan.columns) // KICKED)
            codes = np.zeros((len(some), len(plan.columns)), np.int32)
            targets = np.zeros(len(plan.base) + len(layout.spike_weights), np.int64)
            if len(plan.columns):
                _search(layout, _fresh(layout), weights, linear, ladders, targets, plan.cell_count, self.restarts, kicks, state, codes)
            records = [one.fill(codes[i], seeds[first + i]) for i, one in enumerate(each)]
            return [Found(record, one.value(record), np.inf, False, Ended.LIMIT) for record, one in zip(records, each, strict=True)]

        starts = range(0, len(seeds), CHUNK)
        if self.threads == 1 or len(starts) == 1:
            return [found for first in starts for found in run(first)]
        with ThreadPoolExecutor(self.threads) as pool:
            return [found for some in pool.map(run, starts) for found in some]


def _ladders(instance: Instance, plan: Plan) -> np.ndarray:
    """Running totals of the distributions that random records are drawn from, a column's last being 1."""
    if instance.one_way is None:
        within = np.arange(int(plan.offsets[-1])) - np.repeat(plan.offsets[:-1], plan.sizes)
        return (within + 1.0) / np.repeat(plan.sizes, plan.sizes)
    ladders = [np.cumsum(instance.one_way[c]) / max(float(np.sum(instance.one_way[c])), 1e-300) for c in plan.columns]
    return np.concatenate([np.zeros(0), *ladders])


class State(NamedTuple):
    """Where a search stands. ``marks`` holds the head and length of the queue, and the length of the log."""

    record: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    now: np.ndarray  # the lift of each touch
    scores: np.ndarray
    queue: np.ndarray
    queued: np.ndarray
    held: np.ndarray
    log: np.ndarray  # columns changed since the last kick
    logged: np.ndarray
    before: np.ndarray  # their codes
    marks: np.ndarray
    worth: np.ndarray  # of each value of the column looked at
    items: np.ndarray  # weights of the cells in the order in which views list them
    random: np.ndarray


def _fresh(layout: Layout) -> State:
    n = len(layout.sizes)
    return State(
        np.zeros(n, np.int64),
        np.zeros(len(layout.keys), np.int64),
        np.zeros(len(layout.terms), np.int64),
        np.zeros(len(layout.touch_column), np.int64),
        np.zeros(int(layout.offsets[-1])),
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros(3, np.int64),
        np.zeros(int(layout.sizes.max())),
        np.zeros(len(layout.item_terms)),
        np.zeros(1, np.uint64),
    )


@numba.njit(**BORROWED, forceinline=True)
def _draw(state: State, count: int) -> int:
    """A whole number below ``count`` by xorshift: public randomness, the same on every machine."""
    x = state.random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state.random[0] = x
    return np.int64((x >> np.uint64(11)) % np.uint64(count))


@numba.njit(**BORROWED, forceinline=True)
def _enqueue(state: State, column: int) -> None:
    if not state.queued[column]:
        state.queued[column] = True
        at = state.marks[0] + state.marks[1]
        state.queue[at if at < len(state.queue) else at - len(state.queue)] = column
        state.marks[1] += 1


@numba.njit(**BORROWED, forceinline=True)
def _slot(layout: Layout, key: int) -> int:
    """The slot of a view's key, or -1 when it sees no weighted cell."""
    size = len(layout.slots)
    at = slot_of(key, size)
    while layout.slots[at, 0] != key:
        if layout.slots[at, 0] < 0:
            return -1
        at = (at + 1) & (size - 1)
    return at


@numba.njit(**BORROWED, forceinline=True)
def _judge(c: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> None:
    """What each value of a column is worth, up to a constant."""
    size, offset, worth = layout.sizes[c], layout.offsets[c], state.worth
    for v in range(size):
        worth[v] = linear[offset + v] + state.scores[offset + v]
    for p in range(layout.dense_starts[c], layout.dense_starts[c + 1]):
        key = state.keys[layout.dense_views[p]]
        for v in range(size):
            worth[v] += layout.dense[key + v]
    for p in range(layout.list_starts[c], layout.list_starts[c + 1]):
        at = _slot(layout, state.keys[layout.list_views[p]])
        if at >= 0:
            for i in range(layout.slots[at, 1], layout.slots[at, 2]):
                worth[layout.item_codes[i]] += state.items[i]


@numba.njit(**BORROWED, forceinline=True)
def _lift(touch: int, by: int, layout: Layout, state: State, weights: np.ndarray) -> None:
    """One column of a query adds ``by`` more to its count: the scores of its other columns follow."""
    q = layout.touch_query[touch]
    old = state.counts[q]
    new = old + by
    state.counts[q] = new
    state.now[touch] += by
    if max(old, new) < layout.idle[q]:
        return
    weight, table = weights[layout.terms[q]], layout.tables[q]
    for u in range(layout.touch_starts[q], layout.touch_starts[q + 1]):
        if u == touch:
            continue
        c = layout.touch_column[u]
        was, here = table + old - state.now[u], table + new - state.now[u]
        resting = layout.table[here] - layout.table[was]
        for i in range(layout.value_starts[u], layout.value_starts[u + 1]):
            change = layout.table[here + layout.lifts[i]] - layout.table[was + layout.lifts[i]] - resting
            if change != 0.0:
                state.scores[layout.offsets[c] + layout.values[i]] += weight * change
                _enqueue(state, c)


@numba.njit(**BORROWED, forceinline=True)
def _move(c: int, value: int, layout: Layout, state: State, weights: np.ndarray) -> None:
    """A column takes a value; everything that depends on it follows."""
    was = state.record[c]
    if not state.logged[c]:
        state.logged[c] = True
        state.before[c] = was
        state.log[state.marks[2]] = c
        state.marks[2] += 1
    state.record[c] = value
    for p in range(layout.shift_starts[c], layout.shift_starts[c + 1]):
        state.keys[layout.shift_views[p]] += (value - was) * layout.shift_strides[p]
    for p in range(layout.near_starts[c], layout.near_starts[c + 1]):
        _enqueue(state, layout.near[p])
    old, new = layout.offsets[c] + was, layout.offsets[c] + value
    for p in range(layout.at_starts[old], layout.at_starts[old + 1]):
        _lift(layout.at_touches[p], -layout.at_lifts[p], layout, state, weights)
    for p in range(layout.at_starts[new], layout.at_starts[new + 1]):
        _lift(layout.at_touches[p], layout.at_lifts[p], layout, state, weights)


@numba.njit(**BORROWED)
def _ascend(layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray, tiny: float) -> float:
    """Let every queued column take its best value until the queue is empty; returns what was gained."""
    gained = 0.0
    while state.marks[1] > 0:
        c = state.queue[state.marks[0]]
        state.marks[0] = state.marks[0] + 1 if state.marks[0] + 1 < len(state.queue) else 0
        state.marks[1] -= 1
        state.queued[c] = False
        if state.held[c]:  # a kick has just set it: the others adapt first
            state.held[c] = False
            _enqueue(state, c)
            continue
        _judge(c, layout, state, weights, linear)
        now = state.record[c]
        best = now
        for v in range(layout.sizes[c]):
            if state.worth[v] > state.worth[best]:
                best = v
        gain = state.worth[best] - state.worth[now]
        if gain > tiny:
            gained += gain
            _move(c, best, layout, state, weights)
    return gained


@numba.njit(**BORROWED, forceinline=True)
def _force(c: int, value: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> float:
    """A column takes a value whatever it costs, and keeps it while the others adapt."""
    gain = 0.0
    if state.record[c] != value:
        _judge(c, layout, state, weights, linear)
        gain = state.worth[value] - state.worth[state.record[c]]
        _move(c, value, layout, state, weights)
    state.held[c] = True
    _enqueue(state, c)
    return gain


@numba.njit(**BORROWED)
def _bend(q: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> float:
    """Bring a scored query into a state that its weight prefers, changing as few columns as may be."""
    table, first, end = layout.tables[q], layout.touch_starts[q], layout.touch_starts[q + 1]
    last = (layout.tables[q + 1] if q + 1 < len(layout.tables) else len(layout.table)) - table - 1
    wanted = 1.0 if weights[layout.terms[q]] > 0 else 0.0
    gain = 0.0
    up = _draw(state, 2) == 1
    begin = _draw(state, end - first)
    for step in range(end - first):
        count = state.counts[q]
        if layout.table[table + count] == wanted:
            break
        above, below = count, count
        while above <= last and layout.table[table + above] != wanted:
            above += 1
        while below >= 0 and layout.table[table + below] != wanted:
            below -= 1
        if above > last or (below >= 0 and (count - below < above - count or (count - below == above - count and not up))):
            side = -1
        else:
            side = 1
        u = first + (begin + step) % (end - first)
        c = layout.touch_column[u]
        best, lift = -1, state.now[u]
        value = _draw(state, layout.sizes[c])  # perhaps one that is not listed
        other = 0
        for i in range(layout.value_starts[u], layout.value_starts[u + 1]):
            if layout.values[i] == value:
                other = layout.lifts[i]
            if (layout.lifts[i] - lift) * side > 0:
                best, lift = layout.values[i], layout.lifts[i]
        if (other - lift) * side > 0:
            best = value
        if best >= 0:
            gain += _force(c, best, layout, state, weights, linear)
    return gain


@numba.njit(**BORROWED, forceinline=True)
def _promise(target: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray, cells: int) -> float:
    """What a target would add if only it and the linear term counted; nothing for one that is met already."""
    if target < 0:
        weight, q = weights[layout.terms[-1 - target]], -1 - target
        met = layout.table[layout.tables[q] + state.counts[q]] == (1.0 if weight > 0 else 0.0)
        return -np.inf if met else abs(weight)
    gain = weights[target] if target < cells else layout.spike_weights[target - cells]
    met = True
    for i in range(layout.aim_starts[target], layout.aim_starts[target + 1]):
        offset, now = layout.offsets[layout.aim_columns[i]], state.record[layout.aim_columns[i]]
        gain += linear[offset + layout.aim_codes[i]] - linear[offset + now]
        met &= layout.aim_codes[i] == now
    return -np.inf if met else gain


@numba.njit(**BORROWED)
def _kick(layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray, targets: np.ndarray, cells: int, entrants: int) -> float:
    """Make the most promising of a few random queries true; returns what that gained (mostly less than nothing)."""
    target, top = 0, -np.inf
    for _ in range(entrants):
        other = targets[_draw(state, len(targets))]
        promise = _promise(other, layout, state, weights, linear, cells)
        if promise > top:
            target, top = other, promise
    gain = 0.0
    if top == -np.inf:
        return gain
    if target < 0:
        return _bend(-1 - target, layout, state, weights, linear)
    for i in range(layout.aim_starts[target], layout.aim_starts[target + 1]):
        gain += _force(layout.aim_columns[i], layout.aim_codes[i], layout, state, weights, linear)
    return gain


@numba.njit(**BORROWED, forceinline=True)
def _rest(state: State) -> None:
    """Forget the queue and the log."""
    while state.marks[1] > 0:
        c = state.queue[state.marks[0]]
        state.queued[c] = False
        state.held[c] = False
        state.marks[0] = (state.marks[0] + 1) % len(state.queue)
        state.marks[1] -= 1
    for i in range(state.marks[2]):
        state.logged[state.log[i]] = False
    state.marks[2] = 0


@numba.njit(**BORROWED)
def _begin(layout: Layout, state: State, weights: np.ndarray, ladders: np.ndarray) -> None:
    """A random record, and everything that depends on it."""
    for view in range(len(layout.keys)):
        state.keys[view] = layout.keys[view]
    for q in range(len(layout.resting)):
        state.counts[q] = layout.resting[q]
    state.now[:] = 0
    state.scores[:] = 0.0
    for c in range(len(layout.sizes)):
        mark = _draw(state, 1 << 53) / (1 << 53)
        value = 0
        while value < layout.sizes[c] - 1 and ladders[layout.offsets[c] + value] <= mark:
            value += 1
        state.record[c] = value
        for p in range(layout.shift_starts[c], layout.shift_starts[c + 1]):
            state.keys[layout.shift_views[p]] += value * layout.shift_strides[p]
        for p in range(layout.at_starts[layout.offsets[c] + value], layout.at_starts[layout.offsets[c] + value + 1]):
            state.now[layout.at_touches[p]] = layout.at_lifts[p]
            state.counts[layout.touch_query[layout.at_touches[p]]] += layout.at_lifts[p]
    for q in range(len(layout.terms)):
        weight = weights[layout.terms[q]]
        for u in range(layout.touch_starts[q], layout.touch_starts[q + 1]):
            rest = layout.tables[q] + state.counts[q] - state.now[u]
            for i in range(layout.value_starts[u], layout.value_starts[u + 1]):
                change = layout.table[rest + layout.lifts[i]] - layout.table[rest]
                state.scores[layout.offsets[layout.touch_column[u]] + layout.values[i]] += weight * change
    begin = _draw(state, len(layout.sizes))
    for i in range(len(layout.sizes)):
        _enqueue(state, (begin + i) % len(layout.sizes))


@numba.njit(**BORROWED)
def _total(layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> float:
    """What the record is worth, added up afresh."""
    total = 0.0
    for c in range(len(layout.sizes)):
        total += linear[layout.offsets[c] + state.record[c]]
    for view in layout.dense_once:
        total += layout.dense[state.keys[view] + state.record[layout.view_column[view]]]
    for view in layout.list_once:
        at = _slot(layout, state.keys[view])
        if at >= 0:
            for i in range(layout.slots[at, 1], layout.slots[at, 2]):
                if layout.item_codes[i] == state.record[layout.view_column[view]]:
                    total += state.items[i]
    for q in range(len(layout.terms)):
        total += weights[layout.terms[q]] * layout.table[layout.tables[q] + state.counts[q]]
    return total


@numba.njit(**BORROWED)
def _targets(layout: Layout, weights: np.ndarray, cells: int, targets: np.ndarray) -> int:
    """What a kick may aim at: cells of positive weight and spikes (their number), other queries (-1 - their number)."""
    spikes = len(layout.aim_starts) - 1 - cells
    count = 0
    for e in range(cells):
        if weights[e] > 0:
            targets[count] = e
            count += 1
    for q in range(len(layout.terms)):
        if layout.terms[q] >= cells and weights[layout.terms[q]] != 0.0:
            targets[count] = -1 - q
            count += 1
    for e in range(spikes):
        targets[count] = cells + e
        count += 1
    return count


@numba.njit(**BORROWED)
def _search(layout, state, weights_of, linear_of, ladders, targets, cells, restarts, kicks, seeds, found):  # type: ignore[no-untyped-def]
    """Write the best codes of the mentioned columns for every variant into ``found``."""
    count = 0
    for s in range(len(seeds)):
        weights, linear = weights_of[min(s, len(weights_of) - 1)], linear_of[min(s, len(linear_of) - 1)]
        state.random[0] = seeds[s]
        if s == 0 or len(weights_of) > 1:
            count = _targets(layout, weights, cells, targets)
            for i in range(len(state.items)):
                state.items[i] = weights[layout.item_terms[i]]
        largest = 0.0
        for e in range(len(weights)):
            largest = max(largest, abs(weights[e]))
        tiny = TINY * largest
        best = -np.inf
        for _ in range(restarts):
            _begin(layout, state, weights, ladders)
            _ascend(layout, state, weights, linear, tiny)
            _rest(state)
            for kick in range(kicks if count > 0 else 0):
                gain = _kick(layout, state, weights, linear, targets[:count], cells, 1 if kick % 2 == 0 else ENTRANTS)
                gain += _ascend(layout, state, weights, linear, tiny)
                if gain < -tiny:  # take it back
                    for i in range(state.marks[2]):
                        c = state.log[i]
                        if state.record[c] != state.before[c]:
                            _move(c, state.before[c], layout, state, weights)
                _rest(state)
            total = _total(layout, state, weights, linear)
            if total > best:
                best = total
                for c in range(len(state.record)):
                    found[s, c] = state.record[c]
