"""A data player that believes columns are independent, and its model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from understudy.counting.tally import CodedRows
from understudy.game.fitting.categories import distribution_of, standing_out, supported_part
from understudy.game.fitting.rounding import systematic_counts
from understudy.game.loop import Finding
from understudy.privacy import Measurement
from understudy.queries.base import QueryClass
from understudy.schema import Schema
from understudy.schema.domain import Values

ROWS_FOR_ANSWERS = 20_000  # other query classes than marginals are answered from so many rows


def ordered_values(column: Values) -> int:
    """How many of the first values of a column are in order."""
    return column.values if column.ordered else 0


class ProductModel:
    """Independent columns with the given probabilities."""

    def __init__(self, schema: Schema, columns: Sequence[np.ndarray]) -> None:
        self._schema, self.columns = schema, columns

    def shares(self, batch: QueryClass) -> np.ndarray:
        grid = batch.as_grid()
        if grid is not None:
            pairs = zip(grid.positions, grid.bins, strict=True)
            columns = [in_bins(self.columns[p], bins) for p, bins in pairs]
            return reduce(np.multiply.outer, columns, np.ones(())).ravel()
        rows = self.rows(ROWS_FOR_ANSWERS, np.random.default_rng(0))
        return batch.counts(CodedRows(rows, self._schema.shape)).dense() / len(rows)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Each column's counts are rounded without sampling error, then shuffled on its own."""
        codes = np.empty((count, len(self.columns)), np.int32)
        for j, probabilities in enumerate(self.columns):
            codes[:, j] = rng.permutation(
                np.repeat(
                    np.arange(len(probabilities)), systematic_counts(probabilities, count, rng)
                )
            )
        return codes


def in_bins(column: np.ndarray, bins: Sequence[int] | None) -> np.ndarray:
    """A distribution of codes as one of their bins; as it is, if there are none."""
    return column if bins is None else np.bincount(bins, column)


class Product:
    """Learns 1-way marginals of so many people; proposes their product. Columns never measured are
    uniform. ``supported`` leaves columns without order only values whose count stands out.
    """

    def __init__(self, schema: Schema, n: int, *, supported: bool = False) -> None:
        self._schema, self._n, self._supported = schema, n, supported
        self._columns = [np.full(size, 1 / size) for size in schema.shape]

    def propose(self) -> ProductModel:
        return ProductModel(self._schema, list(self._columns))

    def learn(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            table = finding.batch.as_table() if isinstance(finding, Measurement) else None
            if isinstance(finding, Measurement) and table is not None and len(table.shape) == 1:
                self._columns[table.positions[0]] = self._distribution(finding)

    def result(self) -> ProductModel:
        return self.propose()

    def _distribution(self, measurement: Measurement) -> np.ndarray:
        if measurement.keys is None:
            (position,) = measurement.batch.columns
            column, sigma = self._schema.columns[position], float(measurement.sigma)
            counts = np.asarray(measurement.counts, np.float64)
            shares = distribution_of(counts, self._n, sigma, ordered_values(column))
            if column.ordered or not self._supported:
                return shares
            return supported_part(shares, standing_out(counts, sigma))
        # what stayed below a threshold counts as none, as the projection would have it
        whole = np.zeros(measurement.batch.size)
        whole[measurement.keys] = measurement.counts
        return distribution_of(whole, self._n, 0.0)
