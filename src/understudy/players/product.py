"""A data player that believes columns are independent, and its model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from understudy.game import Finding
from understudy.privacy import Measurement
from understudy.queries.base import QueryClass
from understudy.queries.marginal import Marginal
from understudy.schema import Schema
from understudy.synthesis.rounding import systematic_counts
from understudy.tally import CodedRows

ROWS_FOR_ANSWERS = 20_000  # other query classes than marginals are answered from so many rows


class ProductModel:
    """Independent columns with the given probabilities."""

    def __init__(self, schema: Schema, columns: Sequence[np.ndarray]) -> None:
        self._schema, self._columns = schema, columns

    def shares(self, part: QueryClass) -> np.ndarray:
        if isinstance(part, Marginal):
            tables = [self._columns[p] for p in part.positions]
            return reduce(np.multiply.outer, tables, np.ones(())).ravel()
        rows = self.rows(ROWS_FOR_ANSWERS, np.random.default_rng(0))
        return part.counts(CodedRows(rows, self._schema.shape)).dense() / len(rows)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Each column's counts are rounded without sampling error, then shuffled on its own."""
        codes = np.empty((count, len(self._columns)), np.int32)
        for j, probabilities in enumerate(self._columns):
            codes[:, j] = rng.permutation(np.repeat(np.arange(len(probabilities)), systematic_counts(probabilities, count, rng)))
        return codes


class Product:
    """Learns 1-way marginals; proposes their product. Columns never measured are uniform."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._columns = [np.full(size, 1 / size) for size in schema.shape]

    def propose(self) -> ProductModel:
        return ProductModel(self._schema, list(self._columns))

    def learn(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if isinstance(finding, Measurement) and isinstance(finding.part, Marginal) and len(finding.part.positions) == 1:
                self._columns[finding.part.positions[0]] = to_distribution(_all_cells(finding))

    def result(self) -> ProductModel:
        return self.propose()


def _all_cells(found: Measurement) -> np.ndarray:
    """Every cell's count; what stayed below a threshold counts as none, which is what the projection would make of it."""
    if found.keys is None:
        return found.counts
    whole = np.zeros(found.part.size, np.int64)
    whole[found.keys] = found.counts
    return whole


def to_distribution(noisy: np.ndarray) -> np.ndarray:
    """The nearest distribution to noisy counts: Euclidean projection onto the simplex of their total.

    The total is kept when it is positive, so one constant is subtracted from every cell and what
    falls below zero is cut: small cells, which are mostly noise, vanish instead of being kept by half.
    """
    values = noisy.astype(np.float64)
    total = max(values.sum(), 1.0)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected = np.maximum(values - excess[last], 0.0)
    share: np.ndarray = projected / projected.sum()
    return share
