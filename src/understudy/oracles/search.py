"""The default oracle: iterated local search over records.

From a random record, every column in turn takes its best value until none can be improved.
Coordinate ascent alone is inadequate (2-15% optimal on ADULT): conjunctions of k literals pay
nothing until all k hold. So a kick makes one worthwhile query true whatever it costs, ascends
again, and is taken back if the record got worse. A record is restarted ``restarts`` times and
kicked ``kicks`` times per ``KICKED`` columns that are mentioned at all.

Work follows what a change touches (see :mod:`understudy.oracles.layout`), never the number of
queries.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.oracles.base import Ended, Found, Instance, Oracle, Variants, sub_seed
from understudy.oracles.layout import Layout, layout_of
from understudy.oracles.moves import (
    State,
    ascend,
    begin_at_random,
    draw,
    force,
    fresh,
    move,
    rest,
    total_of,
)
from understudy.oracles.plan import Plan, plan_of
from understudy.runtime.compiled import kernel

KICKED = 16  # columns that one kick is thought to look after
TINY = 1e-9  # an improvement is worth making from this share of the largest weight
ENTRANTS = 12  # random queries of which a kick takes the most promising
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
    kicks: int = 30
    threads: int = 1

    name: ClassVar[str] = "search"

    def __post_init__(self) -> None:
        if self.restarts < 1 or self.kicks < 0 or self.threads < 1:
            raise ParameterError(
                "search needs at least one restart, no negative number of kicks, and at least one"
                " thread."
            )

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
            weights = (
                shared
                if shared is not None
                else np.stack([plan.weigh(one.weights)[1] for one in each])
            )
            if variants.linear is None:
                linear = plan.linear(instance.linear, instance.offsets)[None, :]
            else:
                linear = np.stack([plan.linear(one.linear, instance.offsets) for one in each])
            state = np.asarray(
                [
                    np.random.SeedSequence([seeds[i], 0]).generate_state(1, np.uint64)[0]
                    | np.uint64(1)
                    for i in some
                ]
            )
            kicks = self.kicks * max(1, len(plan.columns) // KICKED)
            codes = np.zeros((len(some), len(plan.columns)), np.int32)
            targets = np.zeros(len(plan.base) + len(layout.spike_weights), np.int64)
            if len(plan.columns):
                _search(
                    layout,
                    fresh(layout),
                    weights,
                    linear,
                    ladders,
                    targets,
                    plan.cell_count,
                    self.restarts,
                    kicks,
                    state,
                    codes,
                )
            records = [one.fill(codes[i], seeds[first + i]) for i, one in enumerate(each)]
            return [
                Found(record, one.value(record), np.inf, False, Ended.LIMIT)
                for record, one in zip(records, each, strict=True)
            ]

        starts = range(0, len(seeds), CHUNK)
        if self.threads == 1 or len(starts) == 1:
            return [result for first in starts for result in run(first)]
        with ThreadPoolExecutor(self.threads) as pool:
            return [result for some in pool.map(run, starts) for result in some]


def _ladders(instance: Instance, plan: Plan) -> np.ndarray:
    """Running totals of the distributions that random records are drawn from, a column's last being
    1.
    """
    if instance.one_way is None:
        within = np.arange(int(plan.offsets[-1])) - np.repeat(plan.offsets[:-1], plan.sizes)
        return (within + 1.0) / np.repeat(plan.sizes, plan.sizes)
    if isinstance(instance.one_way, np.ndarray):
        totals = np.cumsum(instance.one_way[plan.columns], axis=1)
        return (totals / np.maximum(totals[:, -1:], 1e-300)).ravel()
    ladders = [
        np.cumsum(instance.one_way[c]) / max(float(np.sum(instance.one_way[c])), 1e-300)
        for c in plan.columns
    ]
    return np.concatenate([np.zeros(0), *ladders])


@kernel(borrows=True, inner=True)
def _bend(q: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray) -> float:
    """Bring a scored query into a state that its weight prefers, changing as few columns as may be."""
    table, first, end = layout.tables[q], layout.touch_starts[q], layout.touch_starts[q + 1]
    last = (layout.tables[q + 1] if q + 1 < len(layout.tables) else len(layout.table)) - table - 1
    wanted = 1.0 if weights[layout.terms[q]] > 0 else 0.0
    gain = 0.0
    up = draw(state, 2) == 1
    begin = draw(state, end - first)
    for step in range(end - first):
        count = state.counts[q]
        if layout.table[table + count] == wanted:
            break
        above, below = count, count
        while above <= last and layout.table[table + above] != wanted:
            above += 1
        while below >= 0 and layout.table[table + below] != wanted:
            below -= 1
        steps_up = above - count if above <= last else last + 1
        steps_down = count - below if below >= 0 else last + 1
        side = 1 if steps_up < steps_down or (steps_up == steps_down and up) else -1
        u = first + (begin + step) % (end - first)
        c = layout.touch_column[u]
        best, lift = -1, state.now[u]
        value = draw(state, layout.sizes[c])  # perhaps one that is not listed
        other = 0
        for i in range(layout.value_starts[u], layout.value_starts[u + 1]):
            if layout.values[i] == value:
                other = layout.lifts[i]
            if (layout.lifts[i] - lift) * side > 0:
                best, lift = layout.values[i], layout.lifts[i]
        if (other - lift) * side > 0:
            best = value
        if best >= 0:
            gain += force(c, best, layout, state, weights, linear)
    return gain


@kernel(borrows=True, inner=True, forceinline=True)
def _promise(
    target: int, layout: Layout, state: State, weights: np.ndarray, linear: np.ndarray, cells: int
) -> float:
    """What a target would add if only it and the linear term counted; nothing for one that is met
    already.
    """
    if target < 0:
        weight, q = weights[layout.terms[-1 - target]], -1 - target
        satisfied = layout.table[layout.tables[q] + state.counts[q]] == (1.0 if weight > 0 else 0.0)
        return -np.inf if satisfied else abs(weight)
    gain = weights[target] if target < cells else layout.spike_weights[target - cells]
    satisfied = True
    for i in range(layout.aim_starts[target], layout.aim_starts[target + 1]):
        offset, now = layout.offsets[layout.aim_columns[i]], state.record[layout.aim_columns[i]]
        gain += linear[offset + layout.aim_codes[i]] - linear[offset + now]
        satisfied &= layout.aim_codes[i] == now
    return -np.inf if satisfied else gain


@kernel(borrows=True, inner=True)
def _kick(
    layout: Layout,
    state: State,
    weights: np.ndarray,
    linear: np.ndarray,
    targets: np.ndarray,
    cells: int,
    entrants: int,
) -> float:
    """Make the most promising of a few random queries true; returns what that gained (mostly less
    than nothing).
    """
    target, top = 0, -np.inf
    for _ in range(entrants):
        other = targets[draw(state, len(targets))]
        promise = _promise(other, layout, state, weights, linear, cells)
        if promise > top:
            target, top = other, promise
    gain = 0.0
    if top == -np.inf:
        return gain
    if target < 0:
        return _bend(-1 - target, layout, state, weights, linear)
    for i in range(layout.aim_starts[target], layout.aim_starts[target + 1]):
        gain += force(layout.aim_columns[i], layout.aim_codes[i], layout, state, weights, linear)
    return gain


@kernel(borrows=True, inner=True)
def _targets(layout: Layout, weights: np.ndarray, cells: int, targets: np.ndarray) -> int:
    """What a kick may aim at: cells of positive weight and spikes (their number), other queries (-1
    - their number).
    """
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


@kernel(borrows=True)
def _search(  # type: ignore[no-untyped-def]
    layout,
    state,
    weights_of,
    linear_of,
    ladders,
    targets,
    cells,
    restarts,
    kicks,
    seeds,
    best_codes,
):
    """Write the best codes of the mentioned columns for every variant into ``best_codes``."""
    count = 0
    for s in range(len(seeds)):
        weights = weights_of[min(s, len(weights_of) - 1)]
        linear = linear_of[min(s, len(linear_of) - 1)]
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
            begin_at_random(layout, state, weights, ladders)
            ascend(layout, state, weights, linear, tiny)
            rest(state)
            for kick in range(kicks if count > 0 else 0):
                gain = _kick(
                    layout,
                    state,
                    weights,
                    linear,
                    targets[:count],
                    cells,
                    1 if kick % 2 == 0 else ENTRANTS,
                )
                gain += ascend(layout, state, weights, linear, tiny)
                if gain < -tiny:  # take it back
                    for i in range(state.marks[2]):
                        c = state.log[i]
                        if state.record[c] != state.before[c]:
                            move(c, state.before[c], layout, state, weights)
                rest(state)
            total = total_of(layout, state, weights, linear)
            if total > best:
                best = total
                for c in range(len(state.record)):
                    best_codes[s, c] = state.record[c]
