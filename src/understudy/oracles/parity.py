"""Parities over two-valued columns by elimination over GF(2): a system that has a solution needs no
search.

Each parity asks for an even (or, with a negative weight, an odd) number of satisfied literals: one
equation over bits. Taken in the order of their weights, an equation that contradicts those before
it is left out. If none is, the record is the best one; if some are, what was kept is a start that
the local search may improve upon, and nothing is proved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported
from understudy.oracles.base import Ended, Found, Instance, Oracle
from understudy.oracles.search import Search
from understudy.runtime.compiled import kernel


@dataclass(frozen=True, kw_only=True)
class Parity(Oracle):
    """For instances whose queries are all parities (or their negations) over columns of two values."""

    start: Search = field(default_factory=Search)

    name: ClassVar[str] = "parity"

    def solve(self, instance: Instance, seed: int) -> Found:
        flat, columns = instance.queries, instance.mentioned
        lengths = np.diff(flat.starts) + 1
        first = np.repeat(flat.tables[flat.starts[:-1] + np.arange(len(flat))], lengths)
        within = np.arange(len(flat.tables)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if not np.array_equal(flat.tables, np.where(within % 2 == 0, first, 1 - first)) or np.any(
            instance.shape[columns] != 2
        ):
            raise NotSupported(
                "The oracle parity needs parities over columns of two values; use exact, milp or"
                " search."
            )
        if instance.tables:
            raise NotSupported("The oracle parity takes no tables of weights; use exact or search.")
        start = self.start.solve(instance, seed)
        bits, consistent = self._eliminate(instance)
        record = start.record.copy()
        record[columns] = _solution(bits, record[columns].astype(np.uint8))
        value = instance.value(record)
        top = float(np.sum(np.maximum(instance.weights, 0)))
        settled = instance.linear is None or bool(
            np.all(
                np.ptp(instance.linear[instance.offsets[columns][:, None] + [0, 1]], axis=1) == 0
            )
        )
        if instance.linear is not None:
            top += float(np.maximum.reduceat(instance.linear, instance.offsets[:-1]).sum())
        if consistent and settled:
            return Found(record, value, value, True, Ended.OPTIMAL)
        if start.value > value:
            record, value = start.record, start.value
        return Found(record, value, max(top, value), False, Ended.LIMIT)

    def _eliminate(self, instance: Instance) -> tuple[np.ndarray, bool]:
        """(independent equations over the mentioned columns, the right-hand side last; whether all
        could be kept).
        """
        flat, columns = instance.queries, instance.mentioned
        local = np.zeros(len(instance.shape), np.int64)
        local[columns] = np.arange(len(columns))
        order = np.argsort(-np.abs(instance.weights), kind="stable")
        order = order[instance.weights[order] != 0]
        even_pays = flat.tables[flat.starts[:-1] + np.arange(len(flat))] == 1
        wanted_odd = even_pays != (instance.weights > 0)
        equations = np.zeros((len(order), len(columns) + 1), np.uint8)
        query = np.repeat(np.arange(len(flat)), np.diff(flat.starts))
        row = np.full(len(flat), -1)
        row[order] = np.arange(len(order))
        used = row[query] >= 0
        np.bitwise_xor.at(equations, (row[query][used], local[flat.columns][used]), 1)
        # a literal is its bit, plus one if it asks for 0, plus one if negated
        constant = (flat.values == 0) ^ ~flat.holds
        np.bitwise_xor.at(equations[:, -1], row[query][used], constant[used].astype(np.uint8))
        equations[:, -1] ^= wanted_odd[order].astype(np.uint8)
        packed = np.packbits(equations[:, :-1], axis=1, bitorder="little")
        width = -(-packed.shape[1] // 8) * 8
        words = np.zeros((len(order), width + 8), np.uint8)
        words[:, : packed.shape[1]] = packed
        words[:, width] = equations[:, -1]
        return _reduce(words.view(np.uint64), len(columns))


@kernel()
def _reduce(rows, columns):  # type: ignore[no-untyped-def]
    """Rows brought into a form where each has a leading bit that no other row has; contradictions
    are dropped.
    """
    words = rows.shape[1] - 1
    lead_row = np.full(columns, -1, np.int64)
    pivots = np.zeros(rows.shape[0], np.bool_)
    consistent = True
    for r in range(rows.shape[0]):
        for bit in range(columns):
            other = lead_row[bit]
            if other >= 0 and (rows[r, bit // 64] >> np.uint64(bit % 64)) & np.uint64(1):
                for w in range(words + 1):
                    rows[r, w] ^= rows[other, w]
        lead = -1
        for bit in range(columns):
            if (rows[r, bit // 64] >> np.uint64(bit % 64)) & np.uint64(1):
                lead = bit
                break
        if lead < 0:
            consistent &= rows[r, words] == np.uint64(0)
            continue
        pivots[r] = True
        for other in range(r):
            if pivots[other] and (rows[other, lead // 64] >> np.uint64(lead % 64)) & np.uint64(1):
                for w in range(words + 1):
                    rows[other, w] ^= rows[r, w]
        lead_row[lead] = r
    return rows[pivots], consistent


@kernel()
def _solution(rows, bits):  # type: ignore[no-untyped-def]
    """The given bits, changed at each row's own leading bit so that every row holds."""
    words = rows.shape[1] - 1
    count = len(bits)
    seen = np.zeros(count, np.int64)
    for r in range(rows.shape[0]):
        for b in range(count):
            seen[b] += np.int64((rows[r, b // 64] >> np.uint64(b % 64)) & np.uint64(1))
    for r in range(rows.shape[0]):
        total, own = rows[r, words], -1
        for b in range(count):
            if (rows[r, b // 64] >> np.uint64(b % 64)) & np.uint64(1):
                total ^= np.uint64(bits[b])
                if seen[b] == 1 and own < 0:
                    own = b
        if total & np.uint64(1):
            bits[own] ^= 1
    return bits
