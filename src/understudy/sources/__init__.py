"""Room 1: where the sensitive rows live. Only ``privacy/`` and the front door may open this door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import SourceError
from understudy.runtime.imported import imported
from understudy.schema import Schema
from understudy.sources.base import CellSource, Source


def open_source(table: Any, schema: Schema) -> Source:
    """A source for a path, a glob, or a table in memory."""
    if isinstance(table, Source):
        if table.schema != schema:
            raise SourceError("The source was opened with another schema than the release's.")
        return table
    if schema.pairs is not None:
        return _open_items(table, schema)
    if _is_sparse(table):
        raise SourceError(
            "A sparse matrix holds items, and needs a schema that lists them: Schema.items(...)."
        )
    if isinstance(table, (str, Path)):
        from understudy.sources.delimited import DelimitedSource
        from understudy.sources.duckdb import DuckDBSource
        from understudy.sources.paths import expand

        files = expand(table)
        for kind in (DelimitedSource, DuckDBSource):
            if all(file.lower().endswith(kind.endings) for file in files):
                return kind(table, schema)
        raise SourceError(
            f"{str(table)!r} is not a table that can be read; give .csv, .csv.gz or .parquet files,"
            " all of one kind."
        )
    from understudy.sources.memory import MemorySource

    return MemorySource(table, schema)


def _open_items(table: Any, schema: Schema) -> Source:
    from understudy.sources.items import ItemSource, pair_schema

    if _is_sparse(table) or (isinstance(table, np.ndarray) and not table.dtype.names):
        return ItemSource.from_matrix(table, schema)
    pairs = open_source(table, pair_schema(schema))
    assert isinstance(pairs, CellSource)
    return ItemSource.from_pairs(pairs, schema)


def _is_sparse(table: Any) -> bool:
    """A matrix or array of SciPy's, which need not be installed."""
    return isinstance(table, imported("scipy.sparse", "spmatrix", "sparray"))


__all__ = ["Source", "open_source"]
