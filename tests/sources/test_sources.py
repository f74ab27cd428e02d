"""Where rows live: every source gives the same counts, and one row never changes how another is
read.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import itertools
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import understudy as us
from support.fuzzing import chain_of
from support.tables import ANY_CELL, PEOPLE, kept_in_duckdb, people, rows_of
from understudy.counting import tally
from understudy.counting.tally import CodedRows, Counts
from understudy.errors import NotSupported, SourceError
from understudy.queries.base import QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.queries.conjunctions import Conjunctions
from understudy.queries.lattice import AllConjunctions
from understudy.queries.marginal import Marginal
from understudy.queries.parities import Parities
from understudy.queries.ranges import Ranges
from understudy.queries.symmetric import Symmetric
from understudy.queries.workload import query_classes
from understudy.schema import Categorical, Number, Schema
from understudy.schema.cells import read_objects
from understudy.sources import open_source
from understudy.sources.delimited import cut
from understudy.sources.duckdb import DuckDBSource
from understudy.sources.files import FileSource
from understudy.sources.memory import MemorySource

Rows = list[list[Any]]
NAMES = list(PEOPLE.names)
ARROW_TYPES = [
    pa.int64(),
    pa.string(),
    pa.int64(),
    pa.int64(),
    pa.bool_(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("us"),
]
FEW = settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# ---------------------------------------------------------------------- one table, many homes


def as_columns(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row[j] for row in rows] for j, name in enumerate(NAMES)}


def as_arrow(rows: Rows) -> pa.Table:
    arrays = []
    for cells, kind in zip(as_columns(rows).values(), ARROW_TYPES, strict=True):
        unit, raw = {pa.date32(): ("D", pa.int32()), pa.timestamp("us"): ("us", pa.int64())}.get(
            kind, (None, kind)
        )
        if unit:  # by number, because Python's dates do not reach as far as Arrow's
            cells = [
                None if cell is None else int(np.datetime64(cell, unit).astype(np.int64))
                for cell in cells
            ]
        arrays.append(pa.array(cells, raw).cast(kind))
    return pa.table(arrays, names=NAMES)


def as_text(cell: Any) -> str:
    """How an exporter writes a cell; bytes that are no text pass through as they are."""
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return str(cell).encode("utf-8", "replace").decode()


def as_csv(rows: Rows, header: list[str] = NAMES, **dialect: Any) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, **dialect)
    writer.writerow(header)
    writer.writerows([[as_text(cell) for cell in row] for row in rows])
    return text.getvalue().encode("utf-8", "surrogateescape")


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def structured(rows: Rows) -> np.ndarray:
    return np.array([tuple(row) for row in rows], dtype=[(name, object) for name in NAMES])


def parquet(rows: Rows, folder: Path) -> str:
    pq.write_table(as_arrow(rows), folder / "t.parquet", row_group_size=7)
    return str(folder / "t.parquet")


def glob_of(rows: Rows, folder: Path, ending: str) -> str:
    """Three files with their columns in different orders."""
    for i, part in enumerate((rows[:5], rows[5:6], rows[6:])):
        order = np.roll(range(len(NAMES)), i)
        header, shuffled = [NAMES[j] for j in order], [[row[j] for j in order] for row in part]
        if ending == "csv":
            write(folder / f"part{i}.csv", as_csv(shuffled, header))
        else:
            pq.write_table(as_arrow(part).select(header), folder / f"part{i}.parquet")
    return str(folder / f"part*.{ending}")


class Subclass(pd.DataFrame):
    """As GeoDataFrame is one, and many another."""


HOMES: dict[str, Callable[[Rows, Path], Any]] = {
    "pandas object": lambda rows, _: pd.DataFrame(rows, columns=NAMES, dtype=object),
    "pandas inferred": lambda rows, _: pd.DataFrame(as_columns(rows)),
    "pandas nullable": lambda rows, _: pd.DataFrame(as_columns(rows)).convert_dtypes(),
    "pandas arrow": lambda rows, _: as_arrow(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas category": (
        lambda rows, _: pd.DataFrame(rows, columns=NAMES, dtype=object).astype(
            {"city": "category", "age": "category"}
        )
    ),
    "polars": lambda rows, _: pl.from_arrow(as_arrow(rows)),
    "polars categorical": (
        lambda rows, _: pl.from_arrow(as_arrow(rows)).with_columns(
            pl.col("city").cast(pl.Categorical)
        )
    ),
    "pandas subclass": lambda rows, _: Subclass(rows, columns=NAMES, dtype=object),
    "polars lazy": lambda rows, _: pl.from_arrow(as_arrow(rows)).lazy(),
    "duckdb relation": lambda rows, _: kept_in_duckdb(as_arrow(rows)),
    "narwhals": lambda rows, _: nw.from_native(pd.DataFrame(rows, columns=NAMES, dtype=object)),
    "arrow": lambda rows, _: as_arrow(rows),
    "arrow chunks": lambda rows, _: pa.concat_tables([as_arrow(rows[:3]), as_arrow(rows[3:])]),
    "arrow batch": lambda rows, _: pa.record_batch(
        [column.combine_chunks() for column in as_arrow(rows).columns], names=NAMES
    ),
    "numpy objects": lambda rows, _: np.array(rows, dtype=object).reshape(-1, len(NAMES)),
    "numpy structured": lambda rows, _: structured(rows),
    "csv": lambda rows, folder: write(folder / "t.csv", as_csv(rows)),
    "csv quoted, unix": lambda rows, folder: write(
        folder / "t.csv", as_csv(rows, quoting=csv.QUOTE_ALL, lineterminator="\n").rstrip()
    ),
    "csv with a byte order mark": lambda rows, folder: write(
        folder / "t.CSV", b"\xef\xbb\xbf" + as_csv(rows)
    ),
    "csv.gz": lambda rows, folder: write(folder / "t.csv.gz", gzip.compress(as_csv(rows))),
    "csv glob": lambda rows, folder: glob_of(rows, folder, "csv"),
    "parquet": parquet,
    "parquet glob": lambda rows, folder: glob_of(rows, folder, "parquet"),
}
EVERY_HOME = pytest.mark.parametrize("home", list(HOMES.values()), ids=list(HOMES))


@functools.cache
def people_and_codes(
    count: int, seed: int = 0, bad: float = 0.2
) -> tuple[Rows, list[tuple[int, ...]]]:
    """Invented rows, and their codes by the definition: one cell at a time."""
    rows = people(count, seed, bad=bad)
    return rows, [
        tuple(
            int(col.encode(read_objects([cell]))[0]) for col, cell in zip(PEOPLE, row, strict=True)
        )
        for row in rows
    ]


def naive(part: QueryClass, codes: list[tuple[int, ...]]) -> list[int]:
    """Counts in plain Python, straight from the definitions."""
    if isinstance(part, Marginal):
        tallies = Counter(tuple(row[p] for p in part.positions) for row in codes)
        return [tallies[cell] for cell in itertools.product(*map(range, part.shape))]
    if isinstance(part, Symmetric):
        return [
            sum(
                q.table[sum((row[x.column] == x.value) == x.holds for x in q.literals)]
                for row in codes
            )
            for q in part.queries
        ]
    if isinstance(part, Conjunctions):
        asked = [
            list(zip(*query, strict=True))
            for query in zip(*vars(part.literals).values(), strict=True)
        ]
        return [
            sum(all((row[c] == v) == holds for c, v, holds in query) for row in codes)
            for query in asked
        ]
    if isinstance(part, AllConjunctions):
        held = [
            sum((row[x.column] == x.value) << j for j, x in enumerate(part.literals))
            for row in codes
        ]
        return [sum(number & wanted == wanted for number in held) for wanted in range(part.size)]
    if isinstance(part, Ranges):
        return [
            sum(
                all(
                    low <= row[p] < high for p, (low, high) in zip(part.positions, box, strict=True)
                )
                for row in codes
            )
            for box in part.boxes
        ]
    if isinstance(part, BinnedMarginal):
        axes = list(zip(part.positions, part.bins, strict=True))
        cells = Counter(
            tuple(row[p] if of is None else of[row[p]] for p, of in axes) for row in codes
        )
        return [cells[cell] for cell in itertools.product(*map(range, part.shape))]
    if isinstance(part, Parities):
        return [
            sum(
                sum(part.bits[i][row[part.positions[i]]] for i in part.places(index)) % 2
                for row in codes
            )
            for index in range(part.size)
        ]
    raise AssertionError(f"write down what {part.kind} counts")


@EVERY_HOME
@pytest.mark.parametrize("kind", list(query_classes().values()), ids=list(query_classes()))
def test_every_source_gives_the_same_counts(
    home: Callable[[Rows, Path], Any], kind: type[QueryClass], tmp_path: Path
) -> None:
    rows, codes = people_and_codes(60)
    assert len(set(codes)) == 60
    source = open_source(home(rows, tmp_path), PEOPLE)
    for part in kind.examples(PEOPLE, np.random.default_rng(5)):
        counts = part.counts(source).dense()
        assert counts.dtype == np.int64
        assert counts.tolist() == naive(part, codes)


@EVERY_HOME
def test_sources_answer_a_second_time_and_count_rows_without_columns(
    home: Callable[[Rows, Path], Any], tmp_path: Path
) -> None:
    source = open_source(home(people(30), tmp_path), PEOPLE)
    first, again = (source.count([(), (2, 1), (1, 2)]) for _ in range(2))
    assert first[0].dense().tolist() == [30] == again[0].dense().tolist()
    square = first[1].dense().reshape(PEOPLE.shape[2], PEOPLE.shape[1])
    assert np.array_equal(square.T.ravel(), first[2].dense()), (
        "a marginal's cells follow the order of its columns"
    )
    assert source.shape == PEOPLE.shape


@EVERY_HOME
def test_an_empty_table_counts_nothing(home: Callable[[Rows, Path], Any], tmp_path: Path) -> None:
    nothing, cities = open_source(home([], tmp_path), PEOPLE).count([(), (1,)])
    assert nothing.dense().tolist() == [0] and cities.dense().tolist() == [0] * PEOPLE.shape[1]


def test_a_source_is_opened_once_and_keeps_its_schema() -> None:
    source = open_source(np.zeros((2, 1), int), Schema.from_domain({"a": 2}))
    assert open_source(source, Schema.from_domain({"a": 2})) is source
    with pytest.raises(SourceError, match="another schema"):
        open_source(source, Schema.from_domain({"a": 3}))


# ---------------------------------------------------------------------- one row is one row


def check_neighbours(before: list[tuple[int, ...]], after: np.ndarray, replaced: int) -> None:
    """Every row but the replaced one is still there, read as before."""
    others = Counter(row for i, row in enumerate(before) if i != replaced)
    now = Counter(map(tuple, after.tolist()))
    assert not others - now, "a row that nobody touched is read differently"
    assert sum((now - others).values()) == 1, "the replaced row is not exactly one row"


ANY_ROW = st.lists(ANY_CELL, min_size=len(NAMES), max_size=len(NAMES))
MIXED = [
    name
    for name in HOMES
    if name.startswith(("pandas object", "pandas subclass", "narwhals", "numpy", "csv"))
]


@pytest.mark.parametrize("home", [HOMES[name] for name in MIXED], ids=MIXED)
@given(row=ANY_ROW, at=st.integers(0, 7))
@FEW
def test_replacing_a_row_by_anything_moves_no_other_row(
    home: Callable[[Rows, Path], Any], row: list[Any], at: int, tmp_path: Path
) -> None:
    rows, before = people_and_codes(8, seed=1)
    changed = [*rows[:at], row, *rows[at + 1 :]]
    check_neighbours(before, rows_of(open_source(home(changed, tmp_path), PEOPLE)), at)


@given(cell=ANY_CELL, column=st.integers(0, 7), at=st.integers(0, 7))
@settings(deadline=None, max_examples=100)
def test_a_bad_cell_that_flips_a_pandas_type_moves_no_other_row(
    cell: Any, column: int, at: int
) -> None:
    """pandas stores integers as floats once one is NaN, and as objects once one is text."""
    rows, before = people_and_codes(8, seed=2, bad=0)
    columns = as_columns(rows)
    columns[NAMES[column]][at] = cell
    try:
        frame = pd.DataFrame({name: pd.Series(cells) for name, cells in columns.items()})
    # pandas itself refuses to hold the cell
    except (UnicodeEncodeError, OverflowError, ValueError, TypeError):
        frame = pd.DataFrame(
            {name: pd.Series(cells, dtype=object) for name, cells in columns.items()}
        )
    check_neighbours(before, rows_of(MemorySource(frame, PEOPLE)), at)


EXTREMES: list[list[Any]] = [
    [0, 99, -1, 2**63 - 1, -(2**63), None],
    ["no", "", "n/a", "OTHER", "\x00", "x" * 100_000, "\u2028", "—", None],
    [0, 99, -1, 2**53 + 1, 2**63 - 1, -(2**63), None],
    [1, 3, 2**63 - 1, None],
    [True, False, None],
    [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, None],
    [*(np.datetime64(d, "D") for d in (0, 2**31 - 1, -(2**31) + 1)), None],
    [*(np.datetime64(u, "us") for u in (0, 2**63 - 1, -(2**63) + 1, 2**62)), None],
]
TYPED = [
    "pandas arrow",
    "polars",
    "polars lazy",
    "duckdb relation",
    "polars categorical",
    "arrow",
    "arrow chunks",
    "parquet",
    "parquet glob",
]


@pytest.mark.parametrize("name", TYPED)
def test_replacing_a_row_in_typed_columns_moves_no_other_row(name: str, tmp_path: Path) -> None:
    rows, before = people_and_codes(8, seed=3)
    for i in range(max(map(len, EXTREMES))):  # every extreme cell once, together with others
        at = i * 3 % 8
        changed = [*rows[:at], [cells[i % len(cells)] for cells in EXTREMES], *rows[at + 1 :]]
        check_neighbours(before, rows_of(open_source(HOMES[name](changed, tmp_path), PEOPLE)), at)


@pytest.mark.parametrize("home", ["arrow", "polars", "pandas arrow", "parquet"])
def test_a_column_stored_as_text_reads_like_the_typed_one(home: str, tmp_path: Path) -> None:
    """Whoever stores a column as text because of one bad cell must not move the others."""
    table = as_arrow(people(40, seed=4))
    texts = pa.table(
        {
            name: pa.array(
                [None if v is None else str(v) for v in table[name].to_pylist()], pa.string()
            )
            for name in NAMES
        }
    )
    if home == "parquet":
        pq.write_table(texts, tmp_path / "t.parquet")
    homes = {
        "arrow": texts,
        "polars": pl.from_arrow(texts),
        "pandas arrow": texts.to_pandas(types_mapper=pd.ArrowDtype),
    }
    assert np.array_equal(
        rows_of(MemorySource(table, PEOPLE)),
        rows_of(open_source(homes.get(home, tmp_path / "t.parquet"), PEOPLE)),
    )


def test_the_type_of_one_file_does_not_change_how_another_is_read(tmp_path: Path) -> None:
    """Joined under one type, NaN would become the text 'nan' because some other file holds text."""
    schema = Schema(
        (Number(name="x", integer=False, edges=(0.0, 1.0, 2.0), missing=True, other=True),)
    )
    pq.write_table(
        pa.table({"x": [float("nan"), float("inf"), 1e200, 0.5]}), tmp_path / "1.parquet"
    )
    alone = rows_of(open_source(tmp_path / "*.parquet", schema))
    pq.write_table(pa.table({"x": ["word"]}), tmp_path / "2.parquet")
    assert np.array_equal(
        rows_of(open_source(tmp_path / "*.parquet", schema)), np.vstack([alone, [[2]]])
    )
    assert alone.ravel().tolist() == [3, 1, 1, 0]


def test_text_in_parquet_that_is_not_utf8_is_read_as_other(tmp_path: Path) -> None:
    raw = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(np.array([0, 3, 5], np.int32)), pa.py_buffer(b"\xff\xfe!no")],
    )
    pq.write_table(pa.table({"city": raw}), tmp_path / "t.parquet")
    schema = Schema((PEOPLE["city"],))
    assert rows_of(open_source(tmp_path / "t.parquet", schema)).ravel().tolist() == [
        PEOPLE["city"].other_code,
        4,
    ]


def places_of(cells: list[bytes], file: Path, how: str) -> Path:
    """Places on a map in Parquet: as the older standard marks them, in a key of the file, or as the
    newer one, in a type of Parquet's own.
    """
    if how == "marked":
        meant = {"version": "1.0.0", "primary_column": "city", "columns": {"city": {"encoding": "WKB", "geometry_types": []}}}  # fmt: skip
        table = pa.table({"city": pa.array(cells, pa.binary())})
        pq.write_table(table.replace_schema_metadata({"geo": json.dumps(meant)}), file)
        return file
    with duckdb.connect() as connection:
        connection.sql("CREATE TABLE t AS SELECT 'POINT (1 2)'::GEOMETRY AS city FROM range(2)")
        connection.sql(
            f"COPY t TO '{file}' (FORMAT parquet, COMPRESSION uncompressed, GEOPARQUET_VERSION 'V2')"
        )
    written = file.read_bytes()
    assert written.count(POINT) and "Geometry" in str(pq.ParquetFile(file).schema)
    file.write_bytes(written.replace(POINT, cells[-1], 1))
    return file


POINT = struct.pack("<BIdd", 1, 1, 1.0, 2.0)


@pytest.mark.parametrize("how", ["marked", "typed"])
def test_a_place_in_parquet_that_makes_no_sense_stops_nobody(how: str, tmp_path: Path) -> None:
    """DuckDB turned them into shapes, and stopped at one that has none."""
    schema = Schema((PEOPLE["city"],))
    wrong = b"\x1e" + POINT[1:]
    whole, broken = (
        rows_of(open_source(places_of([POINT, cell], tmp_path / "t.parquet", how), schema)).tolist()
        for cell in (POINT, wrong)
    )
    assert len(whole) == 2 and whole == broken


def test_a_far_moment_in_parquet_is_clamped_in_milliseconds_too(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"seen": pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("ms"))}),
        tmp_path / "t.parquet",
    )
    schema = Schema((PEOPLE["seen"],))
    assert rows_of(open_source(tmp_path / "t.parquet", schema)).ravel().tolist() == [
        0,
        schema["seen"].values - 1,
    ]


# ---------------------------------------------------------------------- tables in memory


@pytest.mark.parametrize(
    "dtype", ["int8", ">i4", "uint64", "float16", "float32", ">f8", "longdouble", "bool"]
)
def test_numeric_arrays_of_every_type_and_byte_order(dtype: str) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    schema = Schema.from_domain({"a": 2, "b": 2})
    assert rows_of(MemorySource(values, schema)).tolist() == [[0, 1], [1, 0], [1, 1]]
    assert rows_of(MemorySource(pd.DataFrame(values, columns=["a", "b"]), schema)).tolist() == [
        [0, 1],
        [1, 0],
        [1, 1],
    ]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1j, 2 + 3j]), pd.Series(pd.period_range("2020", periods=2)), pd.Series(pd.to_timedelta([1, 2], "D")),
        pd.Series(pd.interval_range(0, 2)), pd.Series(["\ud800", "x"], dtype=pd.StringDtype("python")),
    ],
    ids=["complex", "period", "timedelta", "interval", "unencodable text"],
)  # fmt: skip
def test_pandas_columns_without_a_reading_are_other(series: pd.Series) -> None:
    schema = Schema((Number(name="x", integer=True, edges=(0.0, 1.0, 2.0), other=True),))
    assert rows_of(MemorySource(pd.DataFrame({"x": series}), schema)).ravel().tolist() == [2, 2]


def test_sparse_pandas_columns_are_read() -> None:
    frame = pd.DataFrame({"x": pd.arrays.SparseArray([1, 0, 1])})
    assert rows_of(MemorySource(frame, Schema.from_domain({"x": 2}))).ravel().tolist() == [1, 0, 1]


def test_numbers_too_large_for_a_double_raise_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    values = np.array([[np.longdouble("1e4000")], [np.longdouble(1)]])
    assert rows_of(MemorySource(values, Schema.from_domain({"a": 3}))).ravel().tolist() == [2, 1]
    assert not recwarn.list


def test_blocks_join_up(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(0).integers(0, 3, (1000, 2))
    schema = Schema.from_domain({"a": 3, "b": 3})
    monkeypatch.setattr("understudy.sources.memory.BLOCK_ROWS", 7)
    assert np.array_equal(rows_of(MemorySource(codes, schema)), codes)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"a": [1]}, "type 'dict' cannot be read"),
        ([[1, 2]], "type 'list' cannot be read"),
        (np.zeros(3), "two dimensions"),
        (np.zeros((3, 5)), "schema's 2 columns"),
        (pd.DataFrame({"a": [1]}), "no column 'b', which the schema names"),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]), "two columns named 'b'"),
        (pa.table([[1], [2], [3]], names=["a", "b", "a"]), "two columns named 'a'"),
        (pl.LazyFrame({"a": [1]}), "no column 'b', which the schema names"),
        (np.zeros((), [("a", int), ("b", int)]), "structured and have one dimension"),
    ],
    ids=["dict", "list", "1-D", "5 wide", "absent", "pandas twice", "arrow twice", "lazy", "0-D"],
)
def test_tables_that_do_not_fit_are_refused_in_a_sentence(table: Any, words: str) -> None:
    with pytest.raises(SourceError) as problem:
        open_source(table, Schema.from_domain({"a": 2, "b": 2}))
    assert words in str(problem.value) and str(problem.value).endswith(".")


# ---------------------------------------------------------------------- CSV, byte by byte


def cut_all(data: bytes, wanted: list[int], chunk: int) -> list[list[bytes | None]]:
    columns: list[list[bytes | None]] = [[] for _ in wanted]
    for arrays in cut(io.BytesIO(data), wanted, chunk):
        for column, array in zip(columns, arrays, strict=True):
            column.extend(array.cast(pa.large_binary()).to_pylist())
    return [list(row) for row in zip(*columns, strict=True)]


TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.text(max_size=5), min_size=width, max_size=width), max_size=6
    )
)


@given(
    rows=TABLES,
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    ending=st.sampled_from(["\n", "\r\n"]),
    chunk=st.integers(1, 40),
)
@settings(deadline=None, max_examples=150)
def test_well_formed_csv_is_cut_as_it_was_written(
    rows: list[list[str]], quoting: Any, ending: str, chunk: int
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting, lineterminator=ending).writerows(rows)
    # Python's writer leaves a carriage return unquoted where it is not part of the line's end;
    # alone on its line it is a blank line.
    assume(
        quoting == csv.QUOTE_ALL
        or ending != "\n"
        or not any(set("".join(row)) == {"\r"} and len(row) == 1 for row in rows)
    )
    width = len(rows[0]) if rows else 1
    found = cut_all(text.getvalue().encode(), list(range(width)), chunk)
    expected = [[cell.strip("\r\n").encode() or None for cell in row] for row in rows]
    assert [[cell and (cell.strip(b"\r\n") or None) for cell in row] for row in found] == expected


@given(
    data=st.lists(st.sampled_from(b'a,"\n\r\x00\xff\xc3 '), max_size=40).map(bytes),
    chunk=st.integers(1, 12),
)
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_cut_the_same_in_chunks_of_any_length(data: bytes, chunk: int) -> None:
    assert cut_all(data, [0, 2], chunk) == cut_all(data, [0, 2], 1 << 20)


@given(
    lines=st.lists(
        st.lists(st.sampled_from(b"ab, \r\x00\xff\xc3"), max_size=8).map(bytes), max_size=6
    )
)
@settings(deadline=None, max_examples=100)
def test_without_quotes_a_line_is_a_row_whatever_its_bytes(lines: list[bytes]) -> None:
    found = cut_all(b"\n".join(lines), [0, 1], 16)
    kept = [[*line.split(b","), b"", b""] for line in lines if line.strip(b"\r") or len(line) > 1]
    assert found == [[cell or None for cell in cells[:2]] for cells in kept]


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"a,b,c", [b"a", b"b"]), (b"a", [b"a", None]), (b",", [None, None]), (b'"a', [b"a", None]), (b'a"b,c', [b'a"b', b"c"]),
        (b'"a"b,c', [b"ab", b"c"]), (b'"a""b",c', [b'a"b', b"c"]), (b'"a,b",c', [b"a,b", b"c"]), (b'"a\nb",c', [b"a\nb", b"c"]),
        (b'"",c', [None, b"c"]), (b'""",c",d', [b'",c', b"d"]), (b'"a" ,c', [b"a ", b"c"]), (b"\x00,\xff", [b"\x00", b"\xff"]),
    ],
)  # fmt: skip
def test_how_odd_lines_are_cut(line: bytes, cells: list[bytes | None]) -> None:
    assert cut_all(line, [0, 1], 1 << 20) == [cells]


def test_a_line_longer_than_any_buffer_is_one_row(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"city,id\n" + b"x" * 9_000_000 + b",1\nno,2\n")
    schema = Schema((PEOPLE["city"], PEOPLE["id"]))
    assert rows_of(open_source(path, schema)).tolist() == [[PEOPLE["city"].other_code, 1], [4, 2]]


@given(
    body=st.binary(max_size=60)
    | st.lists(st.sampled_from(b'no,1"\n\x00\xff'), max_size=60).map(bytes)
)
@FEW
def test_no_bytes_after_the_header_make_a_csv_file_unreadable(body: bytes, tmp_path: Path) -> None:
    schema = Schema((PEOPLE["city"], PEOPLE["id"]))
    source = open_source(write(tmp_path / "t.csv", b"city,id\n" + body), schema)
    codes = rows_of(source)
    assert (codes >= 0).all() and (codes < schema.shape).all()
    assert source.count([()])[0].dense()[0] == len(codes)


def test_non_ascii_categories_and_missing_values_match_in_csv(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv", 'city\nZürich\nÀ–B\n 東京 \n"say ""hi"", ok"\nno\n—\nZurich\n'.encode()
    )
    assert rows_of(open_source(path, Schema((PEOPLE["city"],)))).ravel().tolist() == [
        0,
        1,
        2,
        3,
        4,
        6,
        5,
    ]


def test_columns_of_files_go_by_place_not_by_the_engines_idea_of_names(tmp_path: Path) -> None:
    """DuckDB's names ignore case, cannot be empty, and give way to folders called like a column."""
    schema = Schema((PEOPLE["city"], PEOPLE["id"]))
    row = {"": "0", "CITY": "Zürich", "city": "東京", 'a "b"': "x", "id": "7"}
    for folder, names in (
        (tmp_path / "it's [1]*", list(row)),
        (tmp_path / "city=no", ["id", "city"]),
    ):
        folder.mkdir()
        write(folder / "t.csv", as_csv([[row[name] for name in names]], names))
        pq.write_table(pa.table([[row[name]] for name in names], names=names), folder / "t.parquet")
        for file in ("t.csv", "t.parquet"):
            assert rows_of(open_source(folder / file, schema)).tolist() == [[2, 7]]


def test_a_file_named_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    for name in ("x*", "x[y]", "xy"):
        write(tmp_path / f"{name}.csv", b"city\nno\n")
        pq.write_table(pa.table({"city": ["no"]}), tmp_path / f"{name}.parquet")
    for name, ending in itertools.product(("x*", "x[y]"), ("csv", "parquet")):
        assert (
            len(rows_of(open_source(tmp_path / f"{name}.{ending}", Schema((PEOPLE["city"],))))) == 1
        )


# ---------------------------------------------------------------------- files that are refused

SECRET = "Rumpelstiltskin"


def refusal(path: Any, schema: Schema = PEOPLE) -> str:
    """The sentence with which a path is refused, after making sure that neither it nor what stands
    behind it tells a cell.
    """
    with pytest.raises(SourceError) as problem:
        rows_of(open_source(path, schema))
    assert SECRET not in chain_of(problem.value)
    assert problem.value.__context__ is None, "whatever an engine said may quote what it read"
    assert str(problem.value).endswith(".") and "\n" not in str(problem.value)
    return str(problem.value)


def test_paths_that_are_no_table_are_refused_in_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", b"x\n")
    write(tmp_path / "b.txt", b"x\n")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "c.parquet")
    assert "no file" in refusal(tmp_path / "absent.csv")
    assert "no file" in refusal(tmp_path / "*.pq")
    assert "is a folder" in refusal(tmp_path)
    assert "not a table" in refusal(tmp_path / "b.txt")
    assert "all of one kind" in refusal(tmp_path / "[ac].*")


def test_files_whose_columns_do_not_fit_are_refused_in_a_sentence(tmp_path: Path) -> None:
    schema = Schema.from_domain({"a": 2, "b": 2})
    for i, header in enumerate(["a,b", "a,c"]):
        write(tmp_path / f"{i}.csv", f"{header}\n{SECRET},1\n".encode())
    assert "do not all have the same columns" in refusal(tmp_path / "*.csv", schema)
    assert "no column 'b', which the schema names" in refusal(tmp_path / "1.csv", schema)
    assert "two columns named 'b'" in refusal(
        write(tmp_path / "twice.csv", f"a,b,b\n{SECRET},1,1\n".encode()), schema
    )
    assert "two columns of one name" in refusal(
        write(tmp_path / "other.csv", f"a,b,{SECRET},{SECRET}\n0,1,1,1\n".encode()), schema
    )
    assert "line of column names" in refusal(write(tmp_path / "empty.csv", b""), schema)


@pytest.mark.parametrize(
    "line", [f"{SECRET},0", f"{SECRET},{SECRET}", f'"{SECRET}', f"{SECRET}\r1,2"]
)
def test_a_csv_file_without_a_header_shows_nothing_of_its_first_person(
    line: str, tmp_path: Path
) -> None:
    refusal(
        write(tmp_path / "t.csv", f"{line}\n1,0\n".encode()), Schema.from_domain({"a": 2, "b": 2})
    )


def test_damaged_files_are_refused_without_a_cell(tmp_path: Path) -> None:
    schema = Schema((PEOPLE["city"],))
    zipped = gzip.compress(
        b"city\n" + f"{SECRET}\n".encode() * 1000 + np.random.default_rng(0).bytes(50_000)
    )
    assert "read to the end" in refusal(write(tmp_path / "cut.csv.gz", zipped[:20_000]), schema)
    assert "header" in refusal(
        write(tmp_path / "plain.csv.gz", f"city\n{SECRET}\n".encode()), schema
    )
    assert "not a readable Parquet file" in refusal(
        write(tmp_path / "t.parquet", f"PAR1{SECRET}".encode()), schema
    )
    pq.write_table(
        pa.table({"city": [SECRET] * 1000}),
        tmp_path / "u.parquet",
        compression=None,
        use_dictionary=False,
    )
    data = (tmp_path / "u.parquet").read_bytes()
    middle = data.index(SECRET.encode()) - 4
    assert "read to the end" in refusal(
        write(tmp_path / "v.parquet", data[:middle] + b"\xff" * 400 + data[middle + 400 :]), schema
    )


@pytest.mark.parametrize("kind", [duckdb.InvalidInputException, pa.ArrowInvalid, OSError])
def test_what_the_engine_says_of_a_value_is_never_passed_on(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Engine:
        def sql(self, _: str) -> None:
            raise kind(f'value "{SECRET}" is not valid')

        def close(self) -> None:
            pass

    pq.write_table(pa.table({"city": ["no"]}), tmp_path / "t.parquet")
    monkeypatch.setattr(duckdb, "connect", lambda **_: Engine())
    assert "read to the end" in refusal(tmp_path / "t.parquet", Schema((PEOPLE["city"],)))


# ---------------------------------------------------------------------- wide tables


def wide(rows: int) -> tuple[np.ndarray, Schema]:
    codes = np.random.default_rng(0).integers(0, 60, (rows, 5)) // 20 * 20
    return codes, Schema.from_domain(dict.fromkeys("abcde", 60))


def test_marginals_too_wide_for_an_array_keep_their_occupied_cells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes, schema = wide(2000)
    # a hundred blocks, so that partial tallies are merged more than once
    monkeypatch.setattr(tally, "BLOCK_ROWS", 20)
    pq.write_table(pa.table(dict(zip("abcde", codes.T, strict=True))), tmp_path / "t.parquet")
    order = (3, 0, 4, 2, 1)
    expected = Counter(
        int(np.ravel_multi_index(row, (60,) * 5)) for row in codes[:, order].tolist()
    )
    for source in (
        CodedRows(codes, schema.shape),
        MemorySource(codes, schema),
        DuckDBSource(tmp_path / "t.parquet", schema),
    ):
        [counts] = source.count([order])
        assert counts.cells == 60**5 and counts.keys is not None
        assert dict(zip(counts.keys.tolist(), counts.values.tolist(), strict=True)) == expected
        with pytest.raises(NotSupported, match="too large to hold whole"):
            counts.dense()


def test_sparse_and_dense_counts_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, schema = wide(500)
    rows = CodedRows(codes, schema.shape)
    dense = rows.count([(1, 3)])[0]
    monkeypatch.setattr(tally, "DENSE_CELLS", 100)
    sparse = rows.count([(1, 3)])[0]
    assert dense.keys is None and sparse.keys is not None
    monkeypatch.setattr(tally, "DENSE_CELLS", 2**24)
    assert np.array_equal(sparse.dense(), dense.dense())
    assert Counts(3, np.array([5]), np.array([2])).dense().tolist() == [0, 0, 5]


def test_marginals_with_more_cells_than_numbers_are_refused() -> None:
    schema = Schema.from_domain(dict.fromkeys("abcdefghijkl", 60))
    with pytest.raises(NotSupported, match="too many to number"):
        MemorySource(np.zeros((1, 12)), schema).count([tuple(range(12))])


def test_columns_with_many_codes_keep_them_apart() -> None:
    """Codes are kept in as few bytes as they fit in; 256 and 65,536 are where that could go wrong."""
    for size in (2, 255, 256, 257, 65_536, 65_537):
        codes = np.array([[0], [size - 1], [size // 2]])
        assert np.array_equal(rows_of(MemorySource(codes, Schema.from_domain({"a": size}))), codes)
    col = Categorical(name="x", categories=tuple(map(str, range(300))), missing=True)
    assert rows_of(
        MemorySource(pd.DataFrame({"x": [None, "299"]}), Schema((col,)))
    ).ravel().tolist() == [300, 299]


def test_header_and_rows_agree_on_where_the_header_ends(tmp_path: Path) -> None:
    schema = Schema.from_domain({"a": 10, "b": 10})
    for content, rows in (
        (b'\xef\xbb\xbf"x\ny",a,b\n0,1,2\n0,3,4\n', 2),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", 1),
        (b'"a","b"\n1,2', 1),
    ):
        (tmp_path / "t.csv").write_bytes(content)
        assert int(open_source(tmp_path / "t.csv", schema).count([()])[0].values[0]) == rows
    (tmp_path / "t.csv").write_bytes(b"a,b\r1,2\n3,4\n")
    with pytest.raises(SourceError):
        open_source(tmp_path / "t.csv", schema)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_csv_file_in_another_encoding_is_called_that(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("age,zip\n30,1234\n".encode(encoding))
    with pytest.raises(SourceError, match="is not UTF-8") as caught:
        open_source(tmp_path / "t.csv", Schema.from_domain({"age": 99, "zip": 10}))
    assert "x00" not in str(caught.value)


class JsonLines(FileSource):
    """A source that somebody adds, whose files end as ledgers do."""

    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    reads: ClassVar[str] = ".jsonl files"

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> JsonLines:
        lines = map(json.dumps, table.to_pylist())
        (folder / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return cls(folder / "t.jsonl", schema)

    def _header(self, file: str) -> list[str]:
        return list(json.loads(Path(file).read_text().splitlines()[0]))

    def _batches(self, file: str, places: list[int]) -> Iterator[list[pa.Array]]:
        rows = [list(json.loads(line).values()) for line in Path(file).read_text().splitlines()]
        yield [pa.array([row[at] for row in rows]) for at in places] or [pa.nulls(len(rows))]


def test_a_ledger_is_no_table_though_a_source_reads_files_that_end_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema.from_domain({"a": 3, "b": 2})
    rows = np.random.default_rng(0).integers(0, (3, 2), (200, 2))
    JsonLines.holding(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), schema, tmp_path)
    monkeypatch.setattr("understudy.sources.source_kinds", lambda: (JsonLines,))
    every = str(tmp_path / "*.jsonl")
    for _ in range(2):  # from the second release on, there is a ledger in the folder
        us.release(every, schema=schema, epsilon=1, workload="1-way")
    ledger = tmp_path / "understudy.ledger.jsonl"
    assert ledger.exists()
    assert open_source(every, schema).files == (str(tmp_path / "t.jsonl"),)  # type: ignore[attr-defined]
    for named in (ledger, str(tmp_path / "under*.jsonl")):
        with pytest.raises(SourceError) as refused:
            open_source(named, schema)
        words = "is a ledger" if named is ledger else "There is no file"
        assert words in str(refused.value)
