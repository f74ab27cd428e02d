"""Room 1: where the sensitive rows live. Only ``privacy/`` and the front door may open this door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.sources.base import Source


def open_source(table: Any, schema: Schema) -> Source:
    """A source for a path, a glob, or a table in memory."""
    if isinstance(table, Source):
        if table.schema != schema:
            raise SourceError("The source was opened with another schema than the release's.")
        return table
    if isinstance(table, (str, Path)):
        from understudy.sources.delimited import DelimitedSource
        from understudy.sources.duckdb import DuckDBSource
        from understudy.sources.files import expand

        files = expand(table)
        for kind in (DelimitedSource, DuckDBSource):
            if all(file.lower().endswith(kind.endings) for file in files):
                return kind(table, schema)
        raise SourceError(f"{str(table)!r} is not a table that can be read; give .csv, .csv.gz or .parquet files, all of one kind.")
    from understudy.sources.memory import MemorySource

    return MemorySource(table, schema)


__all__ = ["Source", "open_source"]
