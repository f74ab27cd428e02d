"""A table of an SQLite file: ``people.sqlite::patients``, the file and the table's name.

SQLite types cells, not columns, so that any cell may hold anything. Each is read by itself:

    NULL                    missing
    INTEGER, REAL           the number
    TEXT                    the text; bytes that are not UTF-8 become marks that match no category
    BLOB                    unreadable, and never loaded

Only ordinary tables are read. A view, a virtual table or a generated column is computed when it is
read, and what computes it may stop at one person's cell. Rows are read from the table itself, never
from an index. All tables of a file share its ledger.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from understudy.errors import SourceError, shown
from understudy.schema import Schema
from understudy.schema.cells import Cells, read_cells, read_objects
from understudy.sources.files import UNREADABLE, FileSource

BETWEEN = "::"  # the file and the table
ROWS_AT_ONCE = 1 << 14  # a few MB of Python objects
WAITS = 30.0  # seconds for a writer that has locked the file
GENERATED = 2  # in PRAGMA table_xinfo: computed when it is read
# What a damaged, locked or foreign file raises; dropped before we raise, since a message may quote
# what was read.
BROKEN = (sqlite3.Error, sqlite3.Warning, OSError, OverflowError, ValueError)


class SQLiteSource(FileSource):
    """One ordinary table of an SQLite file, read-only, some rows at a time."""

    endings: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db")
    reads: ClassVar[str] = "a table of an SQLite file as in people.sqlite::patients"

    def __init__(self, path: str | Path, schema: Schema) -> None:
        file, self._table = _split(str(path))
        self._wanted = frozenset(schema.names)
        super().__init__(file, schema)

    @classmethod
    def opened(cls, table: Any, schema: Schema) -> SQLiteSource | None:
        if not isinstance(table, (str, Path)):
            return None
        file, _ = _split(str(table))
        ours = file.lower().endswith(cls.endings) and os.path.isfile(file)
        return cls(table, schema) if ours else None

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> SQLiteSource:
        file, names = folder / "table.sqlite", table.column_names
        file.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"CREATE TABLE t ({', '.join(map(_quoted, names))})")
            marks = ", ".join("?" for _ in names)
            rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
            connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)  # noqa: S608 (marks)
        return cls(f"{file}{BETWEEN}t", schema)

    def _header(self, file: str) -> list[str]:
        if not self._table:
            raise SourceError(
                f"{file!r} is an SQLite file; say which of its tables is meant, as in"
                f" {file + BETWEEN + 'patients'!r}."
            )
        columns = None
        with contextlib.suppress(*BROKEN), _opened(file) as connection:
            columns = _columns(connection, self._table)
        if columns is None:
            raise SourceError(f"{file!r} is not a readable SQLite file.")
        if not columns:
            raise SourceError(
                f"{file!r} has no ordinary table {shown(self._table)}; names match letter by"
                " letter, and neither views nor virtual tables are read."
            )
        for name, hidden in columns:
            if hidden == GENERATED and name in self._wanted:
                raise SourceError(
                    f"The column {name!r} is computed when it is read, and what computes it may"
                    " stop at a cell; store it (GENERATED ALWAYS AS ... STORED) or leave it out."
                )
        return [name for name, _ in columns]

    def _batches(self, file: str, places: list[int]) -> Iterator[list[Any]]:
        names = [self._headers[0][place] for place in places]
        with contextlib.suppress(*BROKEN), _opened(file) as connection:
            if not names:
                yield [pa.nulls(connection.execute(self._select("count(*)")).fetchone()[0])]
                return
            cursor = connection.execute(self._select(", ".join(map(_cell, names))))
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                yield list(zip(*rows, strict=True))
            return
        raise SourceError(UNREADABLE)

    def _select(self, what: str) -> str:
        # NOT INDEXED: the rows of the table, whatever an index holds
        return f"SELECT {what} FROM main.{_quoted(self._table)} AS t NOT INDEXED"  # noqa: S608 (quoted)

    def _read(self, column: Any) -> Cells:
        return read_cells(column) if isinstance(column, pa.Array) else read_objects(column)


def _split(text: str) -> tuple[str, str]:
    """(file, table): the text is cut behind the first file that exists; a file with the whole name
    has no table.
    """
    at = -1 if os.path.exists(text) else text.find(BETWEEN)
    while at >= 0:
        if os.path.isfile(text[:at]):
            return text[:at], text[at + len(BETWEEN) :]
        at = text.find(BETWEEN, at + 1)
    return text, ""


@contextlib.contextmanager
def _opened(file: str) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write, and whose text is decoded a cell at a time without fail."""
    place = f"{Path(file).absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(place, uri=True, timeout=WAITS, isolation_level=None)
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # nothing in the file is run
        yield connection
    finally:
        connection.close()


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, int]]:
    """(name, how it is kept) of each column of an ordinary table; none if it is no such table."""
    ordinary = (
        "SELECT count(*) FROM sqlite_master"
        " WHERE type = 'table' AND name = ? AND rootpage > 0 AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
    )
    if connection.execute(ordinary, [table]).fetchone()[0] != 1:
        return []
    rows = connection.execute(f"PRAGMA main.table_xinfo({_quoted(table)})").fetchall()
    return [(str(row[1]), int(row[6])) for row in rows]


def _cell(name: str) -> str:
    """A column in SQL; a qualified name is never taken for a text. Of a blob nothing is loaded."""
    column = f"t.{_quoted(name)}"
    return f"CASE typeof({column}) WHEN 'blob' THEN x'' ELSE {column} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
