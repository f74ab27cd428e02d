"""Answers to a workload, computed from a release's own rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.counting.tally import CodedRows, Counts
from understudy.errors import SchemaError, WorkloadError, shown
from understudy.queries.workload import Workload


class Answers(Mapping[Any, np.ndarray]):
    """The share of released rows that satisfies each query, batch by batch.

    ``answers["age", "sex"]`` is a marginal as an array with one axis per column, in the order in
    which they are named; ``answers[i]`` the i-th batch; ``numpy.asarray(answers)`` all queries in
    the workload's order; ``to_arrow()`` a table of the answers that are not zero, in words.
    """

    def __init__(self, workload: Workload, codes: np.ndarray) -> None:
        self.workload, self.rows = workload, len(codes)
        table = CodedRows(codes, workload.schema.shape)
        self.counts: list[Counts] = [batch.counts(table) for batch in workload]

    @cached_property
    def _by_name(self) -> dict[tuple[str, ...], int]:
        return {
            table.names(self.workload.schema): i
            for i, batch in enumerate(self.workload)
            if (table := batch.as_table()) is not None
        }

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, (int, np.integer)):
            at = int(key)
            if not 0 <= at < len(self.counts):
                raise KeyError(key)
        else:
            names = (
                (key,)
                if isinstance(key, str)
                else tuple(key)
                if isinstance(key, (tuple, list))
                else (key,)
            )
            if not all(isinstance(name, str) for name in names):
                raise WorkloadError(
                    "The workload has no marginal of that name: no column has a name that is no"
                    " text."
                )
            if names not in self._by_name:
                return self._turned(names)
            at = self._by_name[names]
        table = self.workload.batches[at].as_table()
        shares: np.ndarray = self.counts[at].dense() / self.rows
        return shares if table is None else shares.reshape(table.shape)

    def _turned(self, names: tuple[str, ...]) -> np.ndarray:
        """A marginal that the workload holds with its columns in another order."""
        for key in self._by_name:
            if len(key) == len(names) and all(name in names for name in key):
                return self[key].transpose([key.index(name) for name in names])
        lacks = f"The workload has no marginal of {', '.join(map(shown, names))}"
        try:
            for name in names:
                self.workload.schema.position(name)
        except SchemaError as unknown:
            raise WorkloadError(f"{lacks}. {unknown}") from None
        if len(set(names)) < len(names):
            raise WorkloadError(f"{lacks}: a column is named twice.")
        raise WorkloadError(
            f"{lacks}; ask for a workload that has it, as in"
            f" rel.answers('{max(1, len(names))}-way')."
        )

    def __repr__(self) -> str:
        return (
            f"<Answers to {self.workload.size:,} queries in {len(self)} batches, from {self.rows:,}"
            " rows>"
        )

    def __iter__(self) -> Iterator[Any]:
        for i, batch in enumerate(self.workload):
            table = batch.as_table()
            yield i if table is None else table.names(self.workload.schema)

    def __len__(self) -> int:
        return len(self.counts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        flat = np.concatenate([counts.dense() for counts in self.counts]) / self.rows
        return flat if dtype is None else flat.astype(dtype)

    def occupied(self) -> pa.Table:
        """(batch, query, count) of every answer that is not zero: what a bundle stores."""
        batches, queries, values = [], [], []
        for i, counts in enumerate(self.counts):
            at = np.flatnonzero(counts.values)
            batches.append(np.full(len(at), i, np.int32))
            queries.append(at if counts.keys is None else counts.keys[at])
            values.append(counts.values[at])
        arrays = [np.concatenate(x) for x in (batches, queries, values)]
        shares = arrays[2] / self.rows
        return pa.table(
            {"batch": arrays[0], "query": arrays[1], "count": arrays[2], "share": shares}
        )

    def to_arrow(self) -> pa.Table:
        """Every answer that is not zero, with the query in words."""
        entries = self.occupied()
        batches, schema = self.workload.batches, self.workload.schema
        pairs = zip(entries["batch"].to_pylist(), entries["query"].to_pylist(), strict=True)
        words = [batches[batch].describe(schema, query) for batch, query in pairs]
        return pa.table({"query": words, "share": entries["share"]})

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()
