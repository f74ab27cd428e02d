"""Parquet files, or globs of them, streamed through DuckDB."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.counting.tally import BLOCK_ROWS
from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.sources.files import UNREADABLE, FileSource

MEMORY = "1GB"  # large enough to count, small enough for a laptop


class DuckDBSource(FileSource):
    """Parquet through DuckDB, which reads only the columns and row groups it needs, on all cores."""

    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    reads: ClassVar[str] = ".parquet files"

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> DuckDBSource:
        file = folder / "table.parquet"
        pq.write_table(table, file)
        return cls(file, schema)

    def _header(self, file: str) -> list[str]:
        return list(_schema_of(file).names)

    def _batches(self, file: str, places: list[int]) -> Iterator[list[pa.Array]]:
        types = [_schema_of(file).field(place).type for place in places]
        problem: Exception = SourceError(UNREADABLE)
        try:
            # Decided by the file's types, which are public, never by what a cell made an engine do.
            yield from _through_either(file, places, types)
            return
        except (duckdb.OutOfMemoryException, pa.ArrowMemoryError):
            problem = MemoryError()  # nothing is wrong with the file
        except (duckdb.Error, pa.ArrowException, OSError):
            pass
        # An engine's own message may quote the value it was reading: raised out here, ours has none
        # behind it.
        raise problem


def _through_either(
    file: str, places: list[int], types: list[pa.DataType]
) -> Iterator[list[pa.Array]]:
    sure = [at for at, kind in enumerate(types) if _always_converts(kind)]
    rest = [at for at in range(len(places)) if at not in sure]
    if not rest:
        yield from _through_duckdb(file, places)
    elif not any(map(pa.types.is_dictionary, types)):
        yield from _through_arrow(file, places)
    else:  # where one of the two might stop, the other reads; both in the file's order
        by_duckdb = _through_duckdb(file, [places[at] for at in sure], ordered=True)
        for columns in _side_by_side(by_duckdb, _through_arrow(file, [places[at] for at in rest])):
            yield [columns[(sure + rest).index(at)] for at in range(len(places))]


def _side_by_side(
    left: Iterator[list[pa.Array]], right: Iterator[list[pa.Array]]
) -> Iterator[list[pa.Array]]:
    """The columns of both, cut wherever a batch of either ends."""
    here: list[pa.Array] = []
    there: list[pa.Array] = []
    while True:
        here, there = here or next(left, []), there or next(right, [])
        if not here and not there:
            return
        if not here or not there:
            raise SourceError(UNREADABLE)  # two readers of one file that disagree about its length
        length = min(len(here[0]), len(there[0]))
        yield [column[:length] for column in (*here, *there)]
        here, there = (
            [column[length:] for column in part] if len(part[0]) > length else []
            for part in (here, there)
        )


def _always_converts(kind: pa.DataType) -> bool:
    """Types that DuckDB reads whatever the value. It stops at a timestamp that its microseconds
    cannot hold, and at bytes that Parquet calls a geometry and that are none.
    """
    if pa.types.is_dictionary(kind):
        # Arrow keeps the index type that the file declares, and stops at a value too many for it.
        return pa.types.is_binary(kind.value_type) or _always_converts(kind.value_type)
    plain = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_date32,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(is_kind(kind) for is_kind in plain)


def _through_duckdb(
    file: str, places: list[int], ordered: bool = False
) -> Iterator[list[pa.Array]]:
    # Columns go by place, because DuckDB's names ignore case. Hive partitioning would let a
    # folder's name replace a column.
    names = ", ".join(f"c{i}" for i in range(len(_schema_of(file).names)))
    wanted = ", ".join(f"c{i}" for i in places) or "1"
    relation = (
        f"read_parquet([{_literal(file)}], hive_partitioning = false, utf8_validation = 'replace')"
        f" AS t({names})"
    )
    # Row order carries no meaning unless another reader goes along; giving it up lets DuckDB
    # stream.
    order = "true" if ordered else "false"
    connection = duckdb.connect(
        config={
            "memory_limit": MEMORY,
            "preserve_insertion_order": order,
            "arrow_large_buffer_size": "true",
        }
    )
    try:
        # it would write to standard output whenever a file takes long
        connection.sql("SET enable_progress_bar = false")
        # it would turn what a key of the file calls places into shapes, and stop at one that is none
        connection.sql("SET enable_geoparquet_conversion = false")
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
    with contextlib.suppress(OSError, pa.ArrowException, UnicodeDecodeError):
        schema = pq.read_schema(file)
        _ = schema.names  # in a damaged file they may be no text
        return schema
    raise SourceError(f"{file!r} is not a readable Parquet file.")


def _literal(file: str) -> str:
    """A file's path in SQL; the names of files may hold what would otherwise be a pattern."""
    return "'" + glob.escape(file).replace("'", "''") + "'"
