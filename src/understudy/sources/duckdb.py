"""Parquet files, or globs of them, streamed through DuckDB."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.sources.files import UNREADABLE, FileSource
from understudy.tally import BLOCK_ROWS

MEMORY = "1GB"


class DuckDBSource(FileSource):
    """Parquet through DuckDB, which reads only the columns and row groups it needs, on all cores."""

    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> DuckDBSource:
        file = folder / "table.parquet"
        pq.write_table(table, file)
        return cls(file, schema)

    def _header(self, file: str) -> list[str]:
        return list(_schema_of(file).names)

    def _batches(self, file: str, places: list[int]) -> Iterator[list[pa.Array]]:
        types = [_schema_of(file).field(place).type for place in places]
        try:
            # Decided by the file's types, which are public, never by what a cell made an engine do.
            yield from _through_duckdb(file, places) if all(map(_always_converts, types)) else _through_arrow(file, places)
        except (duckdb.Error, pa.ArrowException, OSError):
            # An engine's own message may quote the value it was reading.
            raise SourceError(UNREADABLE) from None


def _always_converts(kind: pa.DataType) -> bool:
    """Types that DuckDB reads whatever the value. It stops at a timestamp that its microseconds cannot hold."""
    plain = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_date32,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(is_kind(kind) for is_kind in plain)


def _through_duckdb(file: str, places: list[int]) -> Iterator[list[pa.Array]]:
    # Columns go by place, because DuckDB's names ignore case. Hive partitioning would let a folder's name replace a column.
    names = ", ".join(f"c{i}" for i in range(len(_schema_of(file).names)))
    wanted = ", ".join(f"c{i}" for i in places) or "1"
    relation = f"read_parquet([{_literal(file)}], hive_partitioning = false, utf8_validation = 'replace') AS t({names})"
    # Row order carries no meaning here; giving it up lets DuckDB stream.
    connection = duckdb.connect(config={"memory_limit": MEMORY, "preserve_insertion_order": "false", "arrow_large_buffer_size": "true"})
    try:
        connection.sql("SET enable_progress_bar = false")  # it would write to standard output whenever a file takes long
        query = f"SELECT {wanted} FROM {relation}"  # noqa: S608 (numbers and an escaped path)
        for batch in connection.sql(query).to_arrow_reader(BLOCK_ROWS):
            yield batch.columns
    finally:
        connection.close()


def _through_arrow(file: str, places: list[int]) -> Iterator[list[pa.Array]]:
    with pq.ParquetFile(file) as opened:
        names = [opened.schema_arrow.names[place] for place in places]
        for batch in opened.iter_batches(BLOCK_ROWS, columns=names):
            yield [batch.column(name) for name in names]


def _schema_of(file: str) -> pa.Schema:
    try:
        schema = pq.read_schema(file)
        _ = schema.names  # in a damaged file they may be no text
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        raise SourceError(f"{file!r} is not a readable Parquet file.") from None
    return schema


def _literal(file: str) -> str:
    """A file's path in SQL; the names of files may hold what would otherwise be a pattern."""
    return "'" + glob.escape(file).replace("'", "''") + "'"
