"""CSV and Parquet files, or globs of them, streamed through DuckDB: never the whole table at once."""

from __future__ import annotations

import csv
import glob
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np

from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.schema.cells import read_cells
from understudy.sources.base import Source
from understudy.tally import BLOCK_ROWS

CSV_ENDINGS = (".csv", ".csv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")


class DuckDBSource(Source):
    """Files read column by column and batch by batch; memory does not grow with the rows."""

    def __init__(self, path: str | Path, schema: Schema, *, memory: str = "1GB") -> None:
        self._files = expand(path)
        self._memory = memory
        self._csv = self._files[0].lower().endswith(CSV_ENDINGS)
        super().__init__(schema, self._header())

    def _header(self) -> list[str]:
        headers = [csv_header(file) if self._csv else parquet_header(file) for file in self._files]
        if any(set(header) != set(headers[0]) for header in headers) or (self._csv and any(header != headers[0] for header in headers)):
            raise SourceError("The files do not all have the same columns; give files of one table.")
        self._names = headers[0]
        return headers[0]

    def _relation(self) -> str:
        """The FROM clause. A CSV's types and dialect are fixed, never sniffed: sniffing reads rows."""
        files = "[" + ", ".join(map(_literal, self._files)) + "]"
        if not self._csv:
            return f"read_parquet({files}, union_by_name = true)"
        columns = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in self._names)
        # Lenient and single-byte: no row can make the reader raise. Latin-1 maps bytes one to one,
        # and the schema's categories are respelt the same way when cells are matched.
        return (
            f"read_csv({files}, columns = {{{columns}}}, auto_detect = false, header = true, delim = ',', quote = '\"', "
            "escape = '\"', nullstr = '', null_padding = true, strict_mode = false, encoding = 'latin-1', "
            "max_line_size = 8000000, buffer_size = 32000000, parallel = false)"
        )

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        chosen = [self._schema.columns[c] for c in columns]
        wanted = ", ".join(_identifier(column.name) for column in chosen) or "1"
        spelling = "latin-1" if self._csv else "utf-8"
        connection = duckdb.connect(config={"memory_limit": self._memory, "threads": "2", "preserve_insertion_order": "false"})
        try:
            # Row order carries no meaning here; giving it up lets DuckDB stream.
            reader = connection.sql(f"SELECT {wanted} FROM {self._relation()}").to_arrow_reader(BLOCK_ROWS)
            for batch in reader:
                block = np.empty((batch.num_rows, len(chosen)), np.int32)
                for j, column in enumerate(chosen):
                    block[:, j] = column.encode(read_cells(batch.column(j)), spelling)
                yield block
        except duckdb.Error:
            # The engine's own message may quote the line it was reading.
            raise SourceError("The files could not be read to the end; check that they are complete and of the format their names say.") from None
        finally:
            connection.close()


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
        opened = gzip.open(file, "rb") if file.lower().endswith(".gz") else open(file, "rb")  # noqa: SIM115
        with opened as stream:
            line = stream.readline(1 << 20).decode("utf-8-sig", "replace")
        names = next(csv.reader(io.StringIO(line)), [])
    except (OSError, EOFError, csv.Error):
        raise SourceError(f"The first line of {file!r} cannot be read as the header of a CSV file.") from None
    return names


def parquet_header(file: str) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        raise SourceError(f"{file!r} is not a readable Parquet file.") from None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
