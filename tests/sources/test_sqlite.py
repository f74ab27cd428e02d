"""SQLite files, whose cells may hold anything: one cell says nothing of how another is read, and
nothing in the file is run.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import understudy as us
from support.bundles import unsound
from support.fuzzing import chain_of
from support.tables import rows_of
from understudy.cli.main import main
from understudy.privacy import FileLedger
from understudy.schema import Categorical, Column, Number, Schema
from understudy.schema.cells import read_objects
from understudy.sources import open_source, sqlite
from understudy.sources.sqlite import SQLiteSource

SECRET = "Rumpelstiltskin"
SEX = Categorical(name="x", categories=("m", "f"), missing=True, other=True)
AGE = Number(name="x", integer=True, edges=(0.0, 18.0, 65.0, 100.0), missing=True, other=True)
SEEN = Schema.from_dict(
    {
        "fields": [
            {
                "name": "x",
                "type": "date",
                "constraints": {"minimum": "2020-01-01", "maximum": "2021-12-31"},
            }
        ],
        "understudy": {"columns": {"x": {"missing": True, "other": True}}},
    }
)["x"]
BASES: dict[str, tuple[Column, list[Any]]] = {
    "text": (SEX, ["m", "f", " m", "m", "x", "f"]),
    "numbers": (AGE, [3, 70, 18, 64, 5, 99]),
    "days": (SEEN, ["2020-01-05", "2021-02-03", "2020-07-01", "2021-12-31", "?", "2020-04-04"]),
}
# (how SQL writes a cell, what Python calls it; a mark for what is no cell of Python's)
ODD: dict[str, Any] = {
    "NULL": None, "''": "", "'5'": "5", "'m'": "m", "3": 3, "1.5": 1.5, "x'66'": b"f", "x''": b"", "'nan'": "nan",
    "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "9e999": float("inf"), "-9e999": float("-inf"),
    "9e999 - 9e999": None, "'2020-02-30'": "2020-02-30", "'0x10'": "0x10", "1e400": float("inf"),
    "zeroblob(5000000)": b"", "'m' || char(0)": "m\0", "char(0)": "\0", "printf('%.*c', 70000, 'm')": "m" * 70000,
    "CAST(x'ff6d' AS TEXT)": "\ufffdm", "CAST(x'6dc3' AS TEXT)": "m\ufffd", "CAST(x'eda080' AS TEXT)": "\ufffd\ufffd\ufffd",
    "CAST(x'00' AS TEXT)": "\0", "char(55296)": "\ufffd\ufffd\ufffd", "'日本'": "日本", "current_timestamp": "2026-01-01 00:00:00",
}  # fmt: skip


@contextlib.contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        yield connection


def literal(cell: Any) -> str:
    return str(cell) if isinstance(cell, int) else f"'{cell}'"


def made(file: Path, cells: list[str], declared: str = "", encoding: str = "UTF-8") -> str:
    """A table of one column, its cells written in SQL."""
    file.unlink(missing_ok=True)
    with database(file) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute(f"CREATE TABLE t (x {declared})")
        for cell in cells:
            connection.execute(f"INSERT INTO t VALUES ({cell})")
    return f"{file}::t"


def codes(table: str, column: Column) -> list[int]:
    return rows_of(open_source(table, Schema((column,)))).ravel().tolist()


def code(column: Column, cell: Any) -> int:
    return int(column.encode(read_objects([cell]))[0])


# ---------------------------------------------------------------------- one cell at a time


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le"])
@pytest.mark.parametrize("base", BASES)
def test_any_last_cell_leaves_every_other_row_as_it_was(
    base: str, encoding: str, tmp_path: Path
) -> None:
    column, cells = BASES[base]
    written = list(map(literal, cells))
    before = [code(column, cell) for cell in cells]
    assert codes(made(tmp_path / "a.db", written, encoding=encoding), column) == before
    assert len(set(before)) > 1
    for text, cell in ODD.items():
        found = codes(made(tmp_path / "a.db", [*written[:-1], text], encoding=encoding), column)
        assert found[:-1] == before[:-1], text
        if encoding == "UTF-8":  # bytes that are no text become other ones in UTF-16
            assert found[-1] == code(column, cell), text


@pytest.mark.parametrize("declared", ["INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "DATE", "ANY"])
@pytest.mark.parametrize("base", BASES)
def test_so_it_is_whatever_type_the_column_declares(
    base: str, declared: str, tmp_path: Path
) -> None:
    column, cells = BASES[base]
    written = list(map(literal, cells))
    before = codes(made(tmp_path / "a.db", written, declared), column)
    assert before == [code(column, cell) for cell in cells]
    for text in ODD:
        found = codes(made(tmp_path / "a.db", [*written[:-1], text], declared), column)
        assert len(found) == len(before) and found[:-1] == before[:-1], text


def test_batches_and_columns_do_not_change_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (other, y, x)")
        rows = [(SECRET, i % 3, i % 2) for i in range(50)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    schema = Schema.from_domain({"x": 2, "y": 3})
    monkeypatch.setattr(sqlite, "ROWS_AT_ONCE", 7)
    source = open_source(tmp_path / "a.db::t", schema)
    assert rows_of(source).tolist() == [[i % 2, i % 3] for i in range(50)]
    assert source.count([()])[0].values.tolist() == [50]
    assert "has one column that the schema does not have" in source.unread


def test_a_blob_is_never_loaded(tmp_path: Path) -> None:
    """Of many large ones nothing is held: what is read is as long as its type's name."""
    table = made(tmp_path / "a.db", ["zeroblob(50000000)"] * 3)
    assert SQLiteSource(table, Schema((SEX,)))._select(sqlite._cell("x")).count("x''") == 1
    batches = list(SQLiteSource(table, Schema((SEX,)))._batches(str(tmp_path / "a.db"), [0]))
    assert batches == [[(b"", b"", b"")]]


# ---------------------------------------------------------------------- what is opened


def test_opening_reads_the_names_of_columns_and_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = sqlite3.connect

    def connect(*args: Any, **rest: Any) -> sqlite3.Connection:
        connection = real(*args, **rest)
        connection.set_trace_callback(asked.append)
        return connection

    table = made(tmp_path / "a.db", ["'m'"])
    monkeypatch.setattr(sqlite3, "connect", connect)
    source = open_source(table, Schema((SEX,)))
    assert asked and not any('"t" AS t' in text for text in asked)
    rows_of(source)
    assert any('"t" AS t' in text for text in asked)


def awkward(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE plain (x)")
    connection.execute("CREATE VIEW seen AS SELECT x FROM plain")
    connection.execute("CREATE TABLE made (y, x GENERATED ALWAYS AS (abs(y)) VIRTUAL)")
    connection.execute("CREATE TABLE kept (y, x GENERATED ALWAYS AS (upper(y)) STORED)")
    connection.execute("CREATE TABLE aside (x)")
    connection.execute("CREATE TABLE strict (x TEXT) STRICT")
    connection.execute("CREATE TABLE keyed (x TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.execute('CREATE TABLE "we""ird; DROP TABLE plain --" (x, "a""b" , "rowid")')
    connection.execute("CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, x)")
    connection.execute("CREATE VIRTUAL TABLE search USING fts5(x)")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("seen", "has no ordinary table 'seen'"),
        ("search", "has no ordinary table 'search'"),
        ("made", "The column 'x' is computed when it is read"),
        ("Plain", "has no ordinary table 'Plain'; names match letter by letter"),
        ("sqlite_master", "has no ordinary table"),
        ("sqlite_sequence", "has no ordinary table"),
        ("pragma_table_info", "has no ordinary table"),
        ("nobody", "has no ordinary table"),
        ("main.plain", "has no ordinary table"),
        ('plain" --', "has no ordinary table"),
        ("", "say which of its tables is meant"),
    ],
)
def test_what_is_no_ordinary_table_is_refused_before_anything_is_charged(
    name: str, sentence: str, tmp_path: Path
) -> None:
    with database(tmp_path / "a.db") as connection:
        awkward(connection)
        connection.execute("INSERT INTO counted (x) VALUES (?)", [SECRET])
    table = f"{tmp_path / 'a.db'}::{name}" if name else tmp_path / "a.db"
    with pytest.raises(us.SourceError) as refused:
        us.release(table, schema=Schema((SEX,)), epsilon=1)
    assert sentence in str(refused.value) and SECRET not in chain_of(refused.value)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.db"]


@pytest.mark.parametrize(
    "name", ["plain", "kept", "aside", "strict", "keyed", 'we"ird; DROP TABLE plain --', "counted"]
)
def test_ordinary_tables_are_read_whatever_they_are_called(name: str, tmp_path: Path) -> None:
    with database(tmp_path / "a.db") as connection:
        awkward(connection)
        quoted = '"' + name.replace('"', '""') + '"'
        column = "y" if name == "kept" else "x"
        for cell in ("m", "f", "x"):
            connection.execute(f"INSERT INTO {quoted} ({column}) VALUES (?)", [cell])
        if name == "aside":  # what computes z would stop at this cell
            connection.execute("INSERT INTO aside (x) VALUES (-9223372036854775808)")
            connection.execute("ALTER TABLE aside ADD COLUMN z GENERATED ALWAYS AS (abs(x))")
    found = codes(f"{tmp_path / 'a.db'}::{name}", SEX)
    assert sorted(found) == ([2, 2, 2] if name == "kept" else [0, 1, 2, *([2] * (name == "aside"))])


def test_a_computed_column_that_stops_would_have_ended_the_release(tmp_path: Path) -> None:
    """Why they are refused: one person's cell decides whether anybody is counted."""
    with database(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE late (y)")
        connection.execute("INSERT INTO late (y) VALUES (1), (-9223372036854775808)")
        connection.execute("ALTER TABLE late ADD COLUMN x GENERATED ALWAYS AS (abs(y))")
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection,
        pytest.raises(sqlite3.Error, match="overflow"),
    ):
        connection.execute("SELECT x FROM late").fetchall()
    with pytest.raises(us.SourceError, match="is computed when it is read"):
        open_source(tmp_path / "a.db::late", Schema((SEX,)))


def test_an_index_or_a_dropped_column_decides_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "a.db", ["'m'", "'f'"])
    with database(tmp_path / "a.db") as connection:
        connection.execute("CREATE INDEX i ON t (x)")
        connection.execute("ALTER TABLE t ADD COLUMN y DEFAULT 'f'")
    source = open_source(table, Schema((SEX,)))
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {source._select('x')}").fetchall()  # type: ignore[attr-defined]
        assert "INDEX" not in str(plan)
        # "x" alone would now be the text x; a qualified name is refused
        connection.executescript("DROP INDEX i; ALTER TABLE t DROP COLUMN x")
    with pytest.raises(us.SourceError, match="could not be read to the end") as broken:
        rows_of(source)
    assert broken.value.__context__ is None


def test_names_of_files_that_look_like_tables_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "a.sqlite", ["'m'"])
    Path("a.sqlite::t.csv").write_text("x\nf\nf\n")
    assert codes("a.sqlite::t.csv", SEX) == [1, 1]
    made(tmp_path / "b::c.sqlite3", ["'f'"])
    assert codes("b::c.sqlite3::t", SEX) == [1]
    assert codes("a.sqlite::t", SEX) == [0]
    with pytest.raises(us.SourceError, match=r"There is no file 'gone.sqlite::t'"):
        open_source("gone.sqlite::t", Schema((SEX,)))
    with pytest.raises(
        us.SourceError, match=r"is not a table that can be read; give .*people.sqlite::patients"
    ):
        Path("a.txt").write_text("x")
        open_source("a.txt", Schema((SEX,)))
    with pytest.raises(us.SourceError, match="is a folder"):
        Path("d.db").mkdir()
        open_source("d.db", Schema((SEX,)))


@pytest.mark.parametrize("damage", ["text", "empty", "cut", "pages"])
def test_a_damaged_file_gives_one_sentence_that_quotes_no_cell(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    table = made(file, [f"'{SECRET} {i}'" for i in range(3000)])
    whole = file.read_bytes()
    if damage == "text":
        file.write_text(f"x\n{SECRET}\n")
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    else:
        file.write_bytes(whole[:8192] + SECRET.encode() * 400 + whole[8192 + 15 * 400 :])
    with pytest.raises(us.SourceError) as broken:
        rows_of(open_source(table, Schema((SEX,))))
    assert SECRET not in str(broken.value) and broken.value.__context__ is None
    assert any(
        words in str(broken.value) for words in ("not a readable", "to the end", "no ordinary")
    )


def test_a_header_that_does_not_fit_is_said_without_a_word_of_csv(tmp_path: Path) -> None:
    table = made(tmp_path / "a.db", [f"'{SECRET}'"])
    with pytest.raises(us.SourceError, match=r"has no column 'z'.*letter by letter") as refused:
        open_source(table, Schema.from_domain({"z": 2}))
    assert "CSV" not in str(refused.value) and SECRET not in str(refused.value)


# ---------------------------------------------------------------------- release, ledger, command line


def people(file: Path, rows: int = 400) -> Path:
    with database(file) as connection:
        connection.execute("CREATE TABLE patients (age INTEGER, sex TEXT, seen TEXT)")
        connection.executemany(
            "INSERT INTO patients VALUES (?, ?, ?)",
            [(i % 100, "fm"[i % 2], str(dt.date(2020, 1 + i % 12, 1))) for i in range(rows)],
        )
        connection.execute("INSERT INTO patients VALUES (?, ?, ?)", [b"x", 3.5, None])
    return file


SCHEMA = Schema.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
            {
                "name": "seen",
                "type": "date",
                "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
            },
        ],
        "understudy": {"columns": {"age": {"bins": 10}, "seen": {"resolution": "month"}}},
    }
)


def test_from_the_command_to_a_bundle_that_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people(tmp_path / "people.sqlite")
    SCHEMA.save("schema.json")
    before = Path("people.sqlite").read_bytes()
    run = CliRunner().invoke
    table = "people.sqlite::patients"
    said = run(main, ["schema", "check", "schema.json", table])
    assert said.exit_code == 0, said.output
    said = run(
        main,
        ["release", table, "--schema", "schema.json", "--epsilon", "1", "--delta", "1e-6",
         "--workload", "2-way+prefixes:age", "--out", "out"],
    )  # fmt: skip
    assert said.exit_code == 0, said.output
    assert unsound(tmp_path / "out") == []
    assert run(main, ["verify", "out"]).exit_code == 0
    assert Path("people.sqlite").read_bytes() == before, "it is only read"
    assert run(main, ["budget", "people.sqlite"]).exit_code == 0
    assert len(FileLedger.beside("people.sqlite").read().charges) == 1
    # a table's name is no part of the ledger's
    assert run(main, ["budget", table]).exit_code == 2
    assert not list(tmp_path.glob("*::*"))


def test_all_tables_and_names_of_a_file_share_its_ledger(tmp_path: Path) -> None:
    file = people(tmp_path / "people.sqlite")
    with database(file) as connection:
        connection.execute("CREATE TABLE again AS SELECT * FROM patients")
    os.link(file, tmp_path / "other.db")
    for table in (f"{file}::patients", f"{file}::again", f"{tmp_path / 'other.db'}::again"):
        us.release(table, schema=SCHEMA, epsilon=1, delta=1e-6, mechanism="independent")
    assert len(FileLedger.beside(file).read().charges) == 3
    FileLedger.beside(file).set_limit(us.Budget.of(epsilon=2, delta=1e-6))
    with pytest.raises(us.BudgetRefused):
        us.release(f"{tmp_path / 'other.db'}::patients", schema=SCHEMA, epsilon=1, delta=1e-6)


def test_rows_that_are_still_in_the_log_are_rows(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES ('m'), ('f')")
        connection.commit()
        assert codes(f"{tmp_path / 'a.db'}::t", SEX) == [0, 1]


def test_a_table_of_items_may_be_in_such_a_file(tmp_path: Path) -> None:
    with database(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE bought (row, item)")
        pairs = [("anna", "tea"), ("anna", "milk"), (b"x", "tea"), (7, "tea"), (None, "tea")]
        connection.executemany("INSERT INTO bought VALUES (?, ?)", pairs)
    source = open_source(f"{tmp_path / 'a.db'}::bought", Schema.items(["milk", "tea"]))
    assert source.count([()])[0].values.tolist() == [2], "a blob and nothing are nobody"
    assert source.count([(1,)])[0].dense().tolist() == [0, 2]
