"""Branch and bound for categorical records, with a proof at the end and a limit on its work.

Cells of one marginal exclude each other, so a marginal adds at most its best cell that is still
possible. That much, divided by the number of the marginal's open columns, is credited to each of
them, value by value:

    credit(c, v) = linear[c, v] + sum over marginals with c of (best possible cell with c = v) /
    (open columns)

and no record is worth more than the settled part plus the sum over open columns of their largest
credit. The same sum says which single values cannot be part of anything better than the best record
known: they are struck out, which makes cells impossible, which lowers the credits, until nothing
changes. Then the column where the best value is furthest ahead takes that value; afterwards the
value is struck out there. Other symmetric queries are credited by the best table entry among the
counts that can still occur, which is weak for parities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from understudy.errors import ParameterError
from understudy.oracles.base import Ended, Found, Instance, Oracle, Variants
from understudy.oracles.plan import Plan, plan_of, worth_of
from understudy.oracles.search import Search
from understudy.runtime.compiled import kernel

CLOSE = 1e-9  # a difference below this share of the value is rounding


@dataclass(frozen=True, kw_only=True)
class Exact(Oracle):
    """Begins with the record of a local search and looks for a better one until there is none.

    Attributes:
        work: how many cells and literals may be looked at, which stands for time (about 5e8 a
            second) but is the same everywhere.
        start: the local search whose record is to be beaten.
    """

    work: int = 2_000_000_000
    start: Search = field(default_factory=Search)

    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        if self.work < 1:
            raise ParameterError("exact needs at least one unit of work.")

    def solve(self, instance: Instance, seed: int) -> Found:
        return self._prove(
            instance, plan_of(instance, dense=False), self.start.solve(instance, seed)
        )

    def solve_many(self, instance: Instance, variants: Variants, seed: int) -> list[Found]:
        plan = plan_of(instance, dense=False)  # weights play no part in it
        starts = self.start.solve_many(instance, variants, seed)
        return [self._prove(variants.of(instance, i), plan, one) for i, one in enumerate(starts)]

    def _prove(self, instance: Instance, plan: Plan, start: Found) -> Found:
        if not len(plan.columns):
            return Found(start.record, start.value, start.value, True, Ended.OPTIMAL)
        _, weights = plan.weigh(instance.weights)
        linear = plan.linear(instance.linear, instance.offsets)
        codes = start.record[plan.columns].astype(np.int64)
        # constants and columns that no term names
        rest = start.value - plan.worth(codes, weights, linear)
        codes, bound, left = _branch(
            plan.sizes, plan.offsets, plan.cells, plan.others, weights, linear, codes, self.work
        )
        record = start.record.copy()
        record[plan.columns] = codes
        value = instance.value(record)
        if left <= 0:
            return Found(record, value, max(bound + rest, value), False, Ended.LIMIT)
        return Found(record, value, value + CLOSE * (1 + abs(value)), True, Ended.OPTIMAL)


class Node(NamedTuple):
    """Which values are possible, and what each is credited with."""

    possible: np.ndarray  # of each one-hot coordinate
    open: np.ndarray  # possible values of each column
    credit: np.ndarray
    best: np.ndarray  # of each column: its value with the largest credit
    peak: np.ndarray  # scratch: the best cell with each value
    trail: np.ndarray  # struck-out coordinates, and how many in the last entry


@kernel(borrows=True, inner=True, forceinline=True)
def _strike(node: Node, c: int, at: int) -> None:
    node.possible[at] = False
    node.open[c] -= 1
    node.trail[node.trail[-1]] = at
    node.trail[-1] += 1


@kernel(borrows=True, inner=True)
def _credit_cells(listed, first, end, tail, sizes, offsets, cells, weights, node):  # type: ignore[no-untyped-def]
    """Credit the cells ``listed[first:end]`` that are possible, moved to ``tail`` and on; returns
    (their end, what is settled).
    """
    settled = 0.0
    at = first
    while at < end:
        t = cells.marginal[listed[at]]
        head, k = cells.starts[t], cells.starts[t + 1] - cells.starts[t]
        begin = tail
        while at < end and cells.marginal[listed[at]] == t:
            e = listed[at]
            at += 1
            alive = True
            for j in range(k):
                if not node.possible[
                    offsets[cells.columns[head + j]] + cells.codes[cells.code_starts[e] + j]
                ]:
                    alive = False
                    break
            if alive:
                listed[tail] = e
                tail += 1
        if tail == begin:
            continue
        open_columns, combinations = 0, 1.0
        for j in range(k):
            combinations *= node.open[cells.columns[head + j]]
            open_columns += node.open[cells.columns[head + j]] > 1
        if open_columns == 0:
            settled += weights[listed[begin]]
            continue
        # a cell that is not listed is worth nothing
        floor = -np.inf if tail - begin == combinations else 0.0
        share = 1.0 / open_columns
        for j in range(k):
            c = cells.columns[head + j]
            if node.open[c] == 1:
                continue
            for p in range(begin, tail):
                v = offsets[c] + cells.codes[cells.code_starts[listed[p]] + j]
                node.peak[v] = max(node.peak[v], weights[listed[p]])
            for p in range(begin, tail):
                v = offsets[c] + cells.codes[cells.code_starts[listed[p]] + j]
                if node.peak[v] != -np.inf:
                    node.credit[v] += share * max(node.peak[v], floor)
                    node.peak[v] = -np.inf
    return tail, settled


@kernel(borrows=True, inner=True, forceinline=True)
def _top(table, start, low, high, weight):  # type: ignore[no-untyped-def]
    """The best weighted table entry for counts from low to high."""
    top = weight * table[start + low]
    for count in range(low + 1, high + 1):
        top = max(top, weight * table[start + count])
    return top


@kernel(borrows=True, inner=True, forceinline=True)
def _range(u, others, offsets, node):  # type: ignore[no-untyped-def]
    """(least, most) that a touch can add to the count, and whether a value it does not list is
    possible.
    """
    c, rest = others.columns[u], others.rests[u]
    low, high, listed = 1 << 30, -(1 << 30), 0
    for i in range(others.value_starts[u], others.value_starts[u + 1]):
        if node.possible[offsets[c] + others.values[i]]:
            listed += 1
            low, high = min(low, rest + others.lifts[i]), max(high, rest + others.lifts[i])
    unlisted = node.open[c] > listed
    if unlisted:
        low, high = min(low, rest), max(high, rest)
    return low, high, unlisted


@kernel(borrows=True, inner=True)
def _credit_others(sizes, offsets, others, weights, node):  # type: ignore[no-untyped-def]
    """Credit the queries that are no cells; returns what is settled."""
    settled = 0.0
    for q in range(len(others.tables)):
        weight, start = weights[q], others.tables[q]
        if weight == 0.0:
            continue
        least, most, open_columns = 0, 0, 0
        for u in range(others.starts[q], others.starts[q + 1]):
            low, high, _ = _range(u, others, offsets, node)
            least, most = least + low, most + high
            open_columns += node.open[others.columns[u]] > 1
        whole = _top(others.table, start, least, most, weight)
        if open_columns == 0 or whole == -_top(others.table, start, least, most, -weight):
            settled += whole  # the same for every count that can occur
            continue
        share = 1.0 / open_columns
        for u in range(others.starts[q], others.starts[q + 1]):
            c, rest = others.columns[u], others.rests[u]
            if node.open[c] == 1:
                continue
            low, high, unlisted = _range(u, others, offsets, node)
            resting = 0.0
            if unlisted:
                resting = share * _top(
                    others.table, start, least - low + rest, most - high + rest, weight
                )
                for v in range(offsets[c], offsets[c] + sizes[c]):
                    node.credit[v] += resting
            for i in range(others.value_starts[u], others.value_starts[u + 1]):
                if node.possible[offsets[c] + others.values[i]]:
                    count = rest + others.lifts[i]
                    top = share * _top(
                        others.table, start, least - low + count, most - high + count, weight
                    )
                    node.credit[offsets[c] + others.values[i]] += top - resting
    return settled


@kernel(borrows=True, inner=True)
def _narrow(  # type: ignore[no-untyped-def]
    listed,
    first,
    end,
    tail,
    best,
    close,
    sizes,
    offsets,
    cells,
    others,
    weights,
    linear,
    node,
    work,
):
    """Credit and strike out until nothing changes; returns (end of the cells kept from ``tail`` on,
    bound, work left).
    """
    begin = tail
    while True:
        work -= (end - first) + len(others.values) + len(node.credit)
        for v in range(len(linear)):
            node.credit[v] = linear[v]
        tail, settled = _credit_cells(
            listed, first, end, begin, sizes, offsets, cells, weights, node
        )
        settled += _credit_others(sizes, offsets, others, weights[len(cells.number) :], node)
        bound = settled
        for c in range(len(sizes)):
            top = -1
            for v in range(offsets[c], offsets[c + 1]):
                if node.possible[v] and (top < 0 or node.credit[v] > node.credit[top]):
                    top = v
            node.best[c] = top - offsets[c]
            bound += node.credit[top]
        if bound <= best + close or work <= 0:
            return tail, bound, work
        struck = False
        slack = bound - best - close
        for c in range(len(sizes)):
            top = node.credit[offsets[c] + node.best[c]]
            if node.open[c] > 1:
                for v in range(offsets[c], offsets[c + 1]):
                    if node.possible[v] and top - node.credit[v] >= slack:
                        _strike(node, c, v)
                        struck = True
        if not struck:
            return tail, bound, work
        first, end = begin, tail


@kernel()
def _branch(sizes, offsets, cells, others, weights, linear, codes, work):  # type: ignore[no-untyped-def]
    """(best codes, no record is worth more than this, work left: none if the limit was hit)."""
    n, coordinates = len(sizes), len(linear)
    best_codes = codes.copy()
    best = worth_of(offsets, cells, others, weights, linear, codes)
    node = Node(
        np.ones(coordinates, np.bool_),
        sizes.copy(),
        np.zeros(coordinates),
        np.zeros(n, np.int64),
        np.full(coordinates, -np.inf),
        np.zeros(coordinates + 1, np.int64),
    )
    column_of = np.repeat(np.arange(n), sizes)
    listed = np.arange(max(1, 2 * len(cells.number)))
    firsts = np.zeros(n + 2, np.int64)
    ends = np.zeros(n + 2, np.int64)
    marks = np.zeros(n + 2, np.int64)
    taken = np.zeros(n + 2, np.int64)  # the coordinate whose value the node below has
    pending = np.full(n + 2, -np.inf)  # bound of what remains of a node when the node below is done
    depth = 0
    first, end = 0, len(cells.number)  # where the cells to look at are
    ends[0] = end
    while depth >= 0:
        close = CLOSE * (1.0 + abs(best))
        if firsts[depth] + (end - first) > len(listed):
            longer = np.empty(2 * (firsts[depth] + end - first), listed.dtype)
            longer[: len(listed)] = listed
            listed = longer
        tail, bound, work = _narrow(
            listed,
            first,
            end,
            firsts[depth],
            best,
            close,
            sizes,
            offsets,
            cells,
            others,
            weights,
            linear,
            node,
            work,
        )
        if work <= 0:
            return best_codes, max(bound, pending[:depth].max() if depth > 0 else bound), 0
        ends[depth] = tail
        if bound > best + close:
            ahead, c = -1.0, -1
            for other in range(n):
                if node.open[other] > 1:
                    second = -np.inf
                    for v in range(offsets[other], offsets[other + 1]):
                        if node.possible[v] and v != offsets[other] + node.best[other]:
                            second = max(second, node.credit[v])
                    lead = node.credit[offsets[other] + node.best[other]] - second
                    if lead > ahead:
                        ahead, c = lead, other
            if c < 0:  # one record is left, and it is better
                best_codes[:] = node.best
                best = worth_of(offsets, cells, others, weights, linear, best_codes)
            else:
                taken[depth], pending[depth] = offsets[c] + node.best[c], bound - ahead
                first, end = firsts[depth], ends[depth]
                depth += 1
                firsts[depth], marks[depth] = end, node.trail[-1]
                for v in range(offsets[c], offsets[c + 1]):
                    if node.possible[v] and v != taken[depth - 1]:
                        _strike(node, c, v)
                continue
        # back to the node above, without the value that was tried
        while node.trail[-1] > marks[depth]:
            node.trail[-1] -= 1
            at = node.trail[node.trail[-1]]
            node.possible[at] = True
            node.open[column_of[at]] += 1
        depth -= 1
        if depth >= 0:
            _strike(node, column_of[taken[depth]], taken[depth])
            first, end = firsts[depth], ends[depth]
    return best_codes, best, work
