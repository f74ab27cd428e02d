"""One record in motion: what a change of one column changes, how the record climbs, and how it is
forced.

Kernels of :mod:`understudy.oracles.search`, over the arrays of :mod:`understudy.oracles.layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.oracles.layout import Layout, slot_of
from understudy.runtime.compiled import kernel


class State(NamedTuple):
    """Where a search stands. ``marks`` holds the head and length of the queue, and the length of
    the log.
    """

    record: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    now: np.ndarray  # the lift of each touch
    scores: np.ndarray
    queue: np.ndarray
    queued: np.ndarray
    pinned: np.ndarray
    log: np.ndarray  # columns changed since the last kick
    logged: np.ndarray
    before: np.ndarray  # their codes
    marks: np.ndarray
    worth: np.ndarray  # of each value of the column looked at
    items: np.ndarray  # weights of the cells in the order in which views list them
    random: np.ndarray


def fresh(layout: Layout) -> State:
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


@kernel(borrows=True, inner=True, forceinline=True)
def draw(state, count):  # type: ignore[no-untyped-def]
    """A whole number below ``count`` by xorshift: public randomness, the same on every machine."""
    x = state.random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state.random[0] = x
    return np.int64((x >> np.uint64(11)) % np.uint64(count))


@kernel(borrows=True, inner=True, forceinline=True)
def _enqueue(state: State, column: int) -> None:
    if not state.queued[column]:
        state.queued[column] = True
        at = state.marks[0] + state.marks[1]
        state.queue[at if at < len(state.queue) else at - len(state.queue)] = column
        state.marks[1] += 1


@kernel(borrows=True, inner=True, forceinline=True)
def _slot(layout: Layout, key: int) -> int:
    """The slot of a view's key, or -1 when it sees no weighted cell."""
    size = len(layout.slots)
    at = slot_of(key, size)
    while layout.slots[at, 0] != key:
        if layout.slots[at, 0] < 0:
            return -1
        at = (at + 1) & (size - 1)
    return at


@kernel(borrows=True, inner=True, forceinline=True)
def judge(c: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> None:
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


@kernel(borrows=True, inner=True, forceinline=True)
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
            change = (
                layout.table[here + layout.lifts[i]] - layout.table[was + layout.lifts[i]] - resting
            )
            if change != 0.0:
                state.scores[layout.offsets[c] + layout.values[i]] += weight * change
                _enqueue(state, c)


@kernel(borrows=True, inner=True, forceinline=True)
def move(c: int, value: int, layout: Layout, state: State, weights: np.ndarray) -> None:
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


@kernel(borrows=True, inner=True)
def ascend(
    layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray, tiny: float
) -> float:
    """Let every queued column take its best value until the queue is empty; returns what was
    gained.
    """
    gained = 0.0
    while state.marks[1] > 0:
        c = state.queue[state.marks[0]]
        state.marks[0] = state.marks[0] + 1 if state.marks[0] + 1 < len(state.queue) else 0
        state.marks[1] -= 1
        state.queued[c] = False
        if state.pinned[c]:  # a kick has just set it: the others adapt first
            state.pinned[c] = False
            _enqueue(state, c)
            continue
        judge(c, layout, state, weights, linear)
        now = state.record[c]
        best = now
        for v in range(layout.sizes[c]):
            if state.worth[v] > state.worth[best]:
                best = v
        gain = state.worth[best] - state.worth[now]
        if gain > tiny:
            gained += gain
            move(c, best, layout, state, weights)
    return gained


@kernel(borrows=True, inner=True, forceinline=True)
def force(
    c: int, value: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray
) -> float:
    """A column takes a value whatever it costs, and keeps it while the others adapt."""
    gain = 0.0
    if state.record[c] != value:
        judge(c, layout, state, weights, linear)
        gain = state.worth[value] - state.worth[state.record[c]]
        move(c, value, layout, state, weights)
    state.pinned[c] = True
    _enqueue(state, c)
    return gain


@kernel(borrows=True, inner=True, forceinline=True)
def rest(state: State) -> None:
    """Forget the queue and the log."""
    while state.marks[1] > 0:
        c = state.queue[state.marks[0]]
        state.queued[c] = False
        state.pinned[c] = False
        state.marks[0] = (state.marks[0] + 1) % len(state.queue)
        state.marks[1] -= 1
    for i in range(state.marks[2]):
        state.logged[state.log[i]] = False
    state.marks[2] = 0


@kernel(borrows=True, inner=True)
def begin_at_random(layout: Layout, state: State, weights: np.ndarray, ladders: np.ndarray) -> None:
    """A random record, and everything that depends on it."""
    for view in range(len(layout.keys)):
        state.keys[view] = layout.keys[view]
    for q in range(len(layout.resting)):
        state.counts[q] = layout.resting[q]
    state.now[:] = 0
    state.scores[:] = 0.0
    for c in range(len(layout.sizes)):
        mark = draw(state, 1 << 53) / (1 << 53)
        value = 0
        while value < layout.sizes[c] - 1 and ladders[layout.offsets[c] + value] <= mark:
            value += 1
        state.record[c] = value
        for p in range(layout.shift_starts[c], layout.shift_starts[c + 1]):
            state.keys[layout.shift_views[p]] += value * layout.shift_strides[p]
        for p in range(
            layout.at_starts[layout.offsets[c] + value],
            layout.at_starts[layout.offsets[c] + value + 1],
        ):
            state.now[layout.at_touches[p]] = layout.at_lifts[p]
            state.counts[layout.touch_query[layout.at_touches[p]]] += layout.at_lifts[p]
    for q in range(len(layout.terms)):
        weight = weights[layout.terms[q]]
        for u in range(layout.touch_starts[q], layout.touch_starts[q + 1]):
            rest = layout.tables[q] + state.counts[q] - state.now[u]
            for i in range(layout.value_starts[u], layout.value_starts[u + 1]):
                change = layout.table[rest + layout.lifts[i]] - layout.table[rest]
                state.scores[layout.offsets[layout.touch_column[u]] + layout.values[i]] += (
                    weight * change
                )
    begin = draw(state, len(layout.sizes))
    for i in range(len(layout.sizes)):
        _enqueue(state, (begin + i) % len(layout.sizes))


@kernel(borrows=True, inner=True)
def total_of(layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> float:
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
