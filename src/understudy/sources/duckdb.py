"""CSV and Parquet files, or globs of them, streamed: never the whole table at once.

Parquet goes through DuckDB. CSV does not: its reader stops at bytes and lines that it dislikes,
which would let one row decide whether the table can be read (see :mod:`.delimited`).
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.schema.cells import read_cells
from understudy.sources.base import Source
from understudy.sources.delimited import cut
from understudy.tally import BLOCK_ROWS

CSV_ENDINGS = (".csv", ".csv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
UNREADABLE = "The files could not be read to the end; check that they are complete and of the format their names say."
# Text that is not UTF-8 is read with question marks. Engines before 2.0 have no such option and refuse the file.
_LENIENT_TEXT = ", utf8_validation = 'replace'" if int(duckdb.__version__.split(".")[0]) >= 2 else ""


class DuckDBSource(Source):
    """Files read column by column and batch by batch; memory does not grow with the rows."""

    def __init__(self, path: str | Path, schema: Schema, *, memory: str = "1GB") -> None:
        self._files = expand(path)
        self._memory = memory
        self._csv = self._files[0].lower().endswith(CSV_ENDINGS)
        super().__init__(schema, self._header())

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> DuckDBSource:
        file = folder / "table.parquet"
        pq.write_table(table, file)
        return cls(file, schema)

    def _header(self) -> list[str]:
        self._headers = [csv_header(file) if self._csv else parquet_header(file) for file in self._files]
        if any(sorted(header) != sorted(self._headers[0]) for header in self._headers):
            raise SourceError("The files do not all have the same columns; give files of one table.")
        return self._headers[0]

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        chosen = [self._schema.columns[c] for c in columns]
        # One file at a time: joined, they would be given one type, and a file's type would depend on the others' cells.
        for file, header in zip(self._files, self._headers, strict=True):
            places = [header.index(column.name) for column in chosen]
            for arrays in _csv_batches(file, places) if self._csv else self._parquet_batches(file, places, len(header)):
                block = np.empty((len(arrays[0]), len(chosen)), np.int32)
                for j, (column, array) in enumerate(zip(chosen, arrays, strict=False)):
                    block[:, j] = column.encode(read_cells(array))
                yield block

    def _parquet_batches(self, file: str, places: list[int], width: int) -> Iterator[list[pa.Array]]:
        # Columns go by place, because DuckDB's names ignore case. Hive partitioning would let a folder's name replace a column.
        names = ", ".join(f"c{i}" for i in range(width))
        wanted = ", ".join(f"c{i}" for i in places) or "1"
        connection = duckdb.connect(config={"memory_limit": self._memory, "threads": "2", "preserve_insertion_order": "false"})
        try:
            # Row order carries no meaning here; giving it up lets DuckDB stream.
            relation = f"read_parquet([{_literal(file)}], hive_partitioning = false{_LENIENT_TEXT}) AS t({names})"
            reader = connection.sql(f"SELECT {wanted} FROM {relation}").to_arrow_reader(BLOCK_ROWS)  # noqa: S608 (numbers and an escaped path)
            for batch in reader:
                yield batch.columns
        except (duckdb.Error, pa.ArrowException, OSError):
            # The engine's own message may quote the value it was reading.
            raise SourceError(UNREADABLE) from None
        finally:
            connection.close()


def _csv_batches(file: str, places: list[int]) -> Iterator[list[pa.Array]]:
    try:
        with _open_csv(file) as stream:
            header = 1
            for arrays in cut(stream, places):
                yield [array[header:] for array in arrays]
                header = 0
    except (OSError, EOFError, zlib.error):
        raise SourceError(UNREADABLE) from None


def _open_csv(file: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file, "rb") if file.lower().endswith(".gz") else open(file, "rb"))


def expand(path: str | Path) -> list[str]:
    """The files that a path or glob names, all of one format."""
    text = str(path)
    files = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) and not Path(text).exists() else [text]
    files = [file for file in files if not Path(file).is_dir()] if len(files) != 1 else files
    if not files or not all(Path(file).exists() for file in files):
        raise SourceError(f"There is no file {text!r}; check the path.")
    if any(Path(file).is_dir() for file in files):
        raise SourceError(f"{text!r} is a folder; give a file or a glob such as {text.rstrip('/')}/*.parquet.")
    for endings in (CSV_ENDINGS, PARQUET_ENDINGS):
        if all(file.lower().endswith(endings) for file in files):
            return files
    raise SourceError(f"{text!r} is not a table that can be read; give .csv, .csv.gz or .parquet files, all of one kind.")


def csv_header(file: str) -> list[str]:
    """The first line of a CSV file, which is public: the names of the columns."""
    try:
        with _open_csv(file) as stream:
            line = stream.readline(1 << 20).decode("utf-8-sig", "replace")
        names = next(csv.reader(io.StringIO(line)), [])
    except (OSError, EOFError, zlib.error, csv.Error):
        raise SourceError(f"The first line of {file!r} cannot be read as the header of a CSV file.") from None
    return names


def parquet_header(file: str) -> list[str]:
    try:
        return list(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        raise SourceError(f"{file!r} is not a readable Parquet file.") from None


def _literal(file: str) -> str:
    """A file's path in SQL; the names of files may hold what would otherwise be a pattern."""
    return "'" + glob.escape(file).replace("'", "''") + "'"
