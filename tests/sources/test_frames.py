"""Tables in memory: a closed list of kinds, in each of which one cell says nothing of how another
is read.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import narwhals.stable.v1 as nw1
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import understudy as us
from support.fuzzing import chain_of
from support.tables import kept_in_duckdb, rows_of
from understudy.privacy.accounting import accountant, budget
from understudy.schema import Categorical, Column, Number, Schema
from understudy.schema.cells import read_cells, read_objects
from understudy.sources import open_source

# dearer than a small release
RHO_FOR, EPSILON_FOR = functools.cache(budget.rho_for), functools.cache(budget.epsilon_for)
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
TEXTS, AGES = ["m", "f", " m", "m", "x", "f"], [3, 70, 18, 64, 5, 99]
DAYS = [
    dt.date(2020, 1, 5),
    dt.date(2021, 2, 3),
    dt.date(2020, 7, 1),
    dt.date(2021, 12, 31),
    dt.date(2020, 3, 3),
    dt.date(2020, 4, 4),
]
# Cells that have made some library read a column as another type, or stop.
ZOO: list[Any] = [
    None, float("nan"), "", "5", "m", 3, 1.5, True, b"f", 2**63, 2**64, -(2**70), 10**400, "\ud800m", "m" * 5000, "nan", "2020-02-30",
    decimal.Decimal("1.5"), decimal.Decimal("sNaN"), dt.date(2020, 5, 5), dt.date.max, dt.datetime(2020, 5, 5, tzinfo=dt.UTC), dt.time(1),
    dt.timedelta(1), np.datetime64("NaT"), np.datetime64(10**18, "Y"), np.float16(2), np.longdouble("1e4000"), np.str_("f"), pd.NA, pd.NaT,
    pd.Timestamp("2020-06-01", tz="Asia/Tokyo"), pd.Period("2020", "Y"), pd.Interval(0, 1), 1j, [["m"]], {"m": 1}, {1}, object(), int,
    np.array(["m", "f"]), pd.Series(["m"]),
]  # fmt: skip


class Subclass(pd.DataFrame):
    pass


class Hostile(pd.DataFrame):
    """What a subclass may say of itself is never asked."""

    def _lie(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    iloc = columns = dtypes = property(_lie)
    __len__ = __getitem__ = astype = to_numpy = __arrow_c_stream__ = __array__ = items = (
        itertuples
    ) = _lie


def objects(cells: list[Any]) -> np.ndarray:
    array = np.empty(len(cells), object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def framed(cells: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(objects(cells), dtype=object)})


def structured(cells: list[Any]) -> np.ndarray:
    array = np.empty(len(cells), [("x", object)])
    array["x"] = objects(cells)
    return array


def polars_objects(cells: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"x": pl.Series(cells, dtype=pl.Object)})


# Kinds of table whose columns hold anything.
MIXED: dict[str, Callable[[list[Any]], Any]] = {
    "pandas": framed,
    "pandas subclass": lambda cells: Subclass(framed(cells)),
    "pandas subclass that lies": lambda cells: Hostile(framed(cells)),
    "narwhals over pandas": lambda cells: nw.from_native(framed(cells)),
    "narwhals over a pandas subclass": lambda cells: nw.from_native(Subclass(framed(cells))),
    "narwhals lazy over pandas": lambda cells: nw.from_native(framed(cells)).lazy(),
    "narwhals v1 over pandas": lambda cells: nw1.from_native(framed(cells)),
    "polars objects": polars_objects,
    "narwhals over polars objects": lambda cells: nw.from_native(polars_objects(cells)),
    "numpy": lambda cells: objects(cells).reshape(-1, 1),
    "numpy matrix": lambda cells: objects(cells).reshape(-1, 1).view(np.matrix),
    "numpy structured": structured,
    "numpy record array": lambda cells: structured(cells).view(np.recarray),
    "numpy masked": lambda cells: np.ma.MaskedArray(objects(cells).reshape(-1, 1), mask=False),
}
BASES: dict[str, tuple[Column, list[Any]]] = {
    "text": (SEX, TEXTS),
    "numbers": (AGE, AGES),
    "days": (SEEN, DAYS),
}


def codes(table: Any, column: Column) -> list[int]:
    return rows_of(open_source(table, Schema((column,)))).ravel().tolist()


def expected(column: Column, cells: list[Any]) -> list[int]:
    return [int(column.encode(read_objects([cell]))[0]) for cell in cells]


ENOUGH = [
    *((kind, "text") for kind in MIXED),
    *(
        (kind, base)
        for kind in ("pandas subclass", "polars objects")
        for base in ("numbers", "days")
    ),
]


@pytest.mark.parametrize(("kind", "base"), ENOUGH)
def test_any_last_cell_leaves_every_other_row_as_it_was(kind: str, base: str) -> None:
    column, cells = BASES[base]
    before = expected(column, cells)
    assert codes(MIXED[kind](cells), column) == before and len(set(before)) > 1
    for odd in ZOO:
        found = codes(MIXED[kind]([*cells[:-1], odd]), column)
        assert found == [*before[:-1], *expected(column, [odd])], repr(odd)[:80]


def series(dtype: Any) -> Callable[[list[Any]], Any]:
    return lambda cells: pd.DataFrame({"x": pd.Series(cells, dtype=dtype)})


def arrow(kind: pa.DataType) -> Callable[[list[Any]], pa.Table]:
    return lambda cells: pa.table({"x": pa.array(cells, kind)})


def polars(dtype: Any) -> Callable[[list[Any]], pl.DataFrame]:
    return lambda cells: pl.DataFrame({"x": pl.Series(cells, dtype=dtype)})


def declared(kind: str) -> Callable[[list[Any]], duckdb.DuckDBPyRelation]:
    def make(cells: list[Any]) -> duckdb.DuckDBPyRelation:
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t (x {kind})")
        connection.executemany("INSERT INTO t VALUES (?)", [[cell] for cell in cells])
        return connection.sql("SELECT * FROM t")

    return make


def dictionary(index: pa.DataType, kind: pa.DataType) -> Callable[[list[Any]], pa.Table]:
    def make(cells: list[Any]) -> pa.Table:
        # each chunk has its own, with a null in it
        words = [pa.array([cell, None, cell], kind) for cell in cells]
        chunks = [
            pa.DictionaryArray.from_arrays(pa.array([i % 2 * 2], index), word)
            for i, word in enumerate(words)
        ]
        return pa.table({"x": pa.chunked_array(chunks)})

    return make


def mixed_categories(cells: list[Any]) -> pd.DataFrame:
    words = pd.Index(
        pd.Series([*dict.fromkeys(cell for cell in cells if cell is not None)], dtype=object)
    )
    return pd.DataFrame({"x": pd.Categorical(cells, categories=words)})


# Kinds of table whose columns hold what their type holds; a cell that they cannot hold never comes
# to us.
TYPED: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "pandas text of Python": ("text", series(pd.StringDtype("python"))),
    "pandas text of Arrow": ("text", series(pd.StringDtype("pyarrow"))),
    "pandas str": ("text", series("str")),
    "pandas mixed categories": ("text", mixed_categories),
    "pandas categories of numbers": ("numbers", series("category")),
    "pandas int64": ("numbers", series("int64")),
    "pandas float32": ("numbers", series("float32")),
    "pandas Int64": ("numbers", series("Int64")),
    "pandas UInt8": ("numbers", series("UInt8")),
    "pandas Float64": ("numbers", series("Float64")),
    "pandas complex": ("numbers", series("complex128")),
    "pandas sparse": ("numbers", series(pd.SparseDtype("float64"))),
    "pandas Arrow decimal": ("numbers", series(pd.ArrowDtype(pa.decimal128(38, 1)))),
    "pandas Arrow text": ("text", series(pd.ArrowDtype(pa.string()))),
    "pandas moments": ("days", series("datetime64[us]")),
    "pandas moments with a zone": ("days", series("datetime64[ns, UTC]")),
    "numpy structured numbers": (
        "numbers",
        lambda cells: np.array([(cell,) for cell in cells], [("x", "f4")]),
    ),
    "numpy masked numbers": (
        "numbers",
        lambda cells: np.ma.MaskedArray(
            [[0 if cell is None else cell] for cell in cells],
            [[cell is None] for cell in cells],
            "i8",
        ),
    ),
    "numpy masked days": (
        "days",
        lambda cells: np.ma.MaskedArray(
            np.array(cells, "M8[ns]").reshape(-1, 1), [[cell is None] for cell in cells]
        ),
    ),
    "arrow text": ("text", arrow(pa.string())),
    "arrow large text": ("text", arrow(pa.large_string())),
    "arrow text view": ("text", arrow(pa.string_view())),
    "arrow int64": ("numbers", arrow(pa.int64())),
    "arrow uint64": ("numbers", arrow(pa.uint64())),
    "arrow half floats": ("numbers", arrow(pa.float16())),
    "arrow decimal": ("numbers", arrow(pa.decimal256(60, 2))),
    "arrow days": ("days", arrow(pa.date32())),
    "arrow moments with a zone": (
        "days",
        lambda cells: pa.table(
            {
                "x": (
                    pa.array(cells, pa.date32())
                    .cast(pa.timestamp("ms"))
                    .cast(pa.timestamp("ms", "Asia/Tokyo"))
                )
            }
        ),
    ),
    "arrow dictionaries of text": ("text", dictionary(pa.int8(), pa.string())),
    "arrow dictionaries of numbers": ("numbers", dictionary(pa.uint64(), pa.int64())),
    "arrow batch": ("text", lambda cells: pa.record_batch({"x": pa.array(cells, pa.string())})),
    "polars text": ("text", polars(pl.String)),
    "polars categorical": ("text", polars(pl.Categorical)),
    "polars enum": ("text", polars(pl.Enum(["m", "f", " m", "x", "5", "?", "nan"]))),
    "polars int64": ("numbers", polars(pl.Int64)),
    "polars int128": ("numbers", polars(pl.Int128)),
    "polars decimal": ("numbers", polars(pl.Decimal(38, 3))),
    "polars float": ("numbers", polars(pl.Float32)),
    "polars moments": ("days", polars(pl.Datetime("ns"))),
    "polars lazy": ("text", lambda cells: polars(pl.String)(cells).lazy()),
    "polars lazy categorical": ("text", lambda cells: polars(pl.Categorical)(cells).lazy()),
    "narwhals over polars": ("numbers", lambda cells: nw.from_native(polars(pl.Int128)(cells))),
    "narwhals over lazy polars": (
        "days",
        lambda cells: nw.from_native(polars(pl.Date)(cells).lazy()),
    ),
    "narwhals over arrow": ("text", lambda cells: nw.from_native(arrow(pa.string())(cells))),
    "relation of text": ("text", declared("VARCHAR")),
    "relation of an enum": ("text", declared("ENUM('m', 'f', ' m', 'x', '5', 'nan')")),
    "relation of bigint": ("numbers", declared("BIGINT")),
    "relation of hugeint": ("numbers", declared("HUGEINT")),
    "relation of uhugeint": ("numbers", declared("UHUGEINT")),
    "relation of days": ("days", declared("DATE")),
    "relation made from arrow": ("text", lambda cells: kept_in_duckdb(arrow(pa.string())(cells))),
    "narwhals over a relation": ("text", lambda cells: nw.from_native(declared("VARCHAR")(cells))),
}


@pytest.mark.parametrize("kind", TYPED)
def test_any_last_cell_that_a_type_holds_leaves_every_other_row_as_it_was(kind: str) -> None:
    base, make = TYPED[kind]
    column, cells = BASES[base]
    before, held = expected(column, cells), 0
    assert sorted(codes(make(cells), column)) == sorted(before) and len(set(before)) > 1
    zoo = ZOO[::4] if "relation" in kind else [*ZOO, 2**62, 10**30, dt.datetime(9999, 12, 31)]
    for odd in [None, cells[0], *zoo]:
        try:
            with warnings.catch_warnings(action="ignore"):
                table = make([*cells[:-1], odd])
        except (Exception, pl.exceptions.PanicException):
            continue
        found = codes(table, column)
        held += 1
        assert len(found) == len(cells) and not Counter(before[:-1]) - Counter(found), repr(odd)[
            :80
        ]
        # the rows of a query come in any order
        assert "relation" in kind or found[:-1] == before[:-1]
    assert held >= 2, "not even its own cells"


# ---------------------------------------------------------------------- the release itself


@pytest.fixture(autouse=True)
def budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "rho_for", RHO_FOR)
    monkeypatch.setattr(budget, "epsilon_for", EPSILON_FOR)
    monkeypatch.setattr(accountant, "epsilon_for", EPSILON_FOR)


def release(table: Any, schema: Any, **more: Any) -> us.Release:
    return us.release(
        table,
        schema=schema,
        epsilon=8,
        delta="1e-6",
        workload="1-way",
        mechanism="independent",
        **more,
    )


@pytest.mark.parametrize(
    "wrap", [Subclass, nw.from_native, lambda frame: nw.from_native(Subclass(frame)).lazy()]
)
@pytest.mark.parametrize("odd", [b"f", "5", 2**70, ["m"]], ids=repr)
def test_one_cell_does_not_decide_what_is_said_of_everybody_else(
    wrap: Callable[[pd.DataFrame], Any], odd: Any
) -> None:
    made = release(wrap(framed(["m"] * 1999 + [odd])), Schema((SEX,)))
    assert made.answers()[0][0] > 0.95


# ---------------------------------------------------------------------- what is refused


class Streams:
    """Anything may speak Arrow's C interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class LooksLikePandas(Streams):
    columns: tuple[str, ...] = ("x",)


LooksLikePandas.__module__ = "pandas.core.frame"
TABLE = pa.table({"x": TEXTS})


@pytest.mark.parametrize(
    "table",
    [
        Streams(TABLE), LooksLikePandas(TABLE), TABLE.to_reader(), pa.dataset.dataset(TABLE), TABLE["x"], pd.Series(TEXTS, name="x"),
        pl.Series("x", TEXTS), nw.from_native(pl.Series("x", TEXTS), series_only=True), {"x": TEXTS},
    ],
    ids=lambda table: type(table).__name__,
)  # fmt: skip
def test_what_is_not_on_the_list_is_refused_before_anything_is_charged(
    table: Any, tmp_path: Path
) -> None:
    with pytest.raises(
        us.SourceError, match=r"cannot be read; give a path, a pandas or polars DataFrame.*Convert"
    ):
        release(table, Schema((SEX,)), ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


class Foreign(pd.api.extensions.ExtensionDtype):
    name, type = "foreign", object

    @classmethod
    def construct_array_type(cls) -> Any:
        return ForeignArray


class ForeignArray(pd.api.extensions.ExtensionArray):
    dtype, nbytes = Foreign(), 0

    def __init__(self, values: Any) -> None:
        self._values = objects(list(values))

    @classmethod
    def _from_sequence(cls, scalars: Any, **_: Any) -> Any:
        return cls(scalars)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, item: Any) -> Any:
        return self._values[item] if isinstance(item, int) else ForeignArray(self._values[item])

    def isna(self) -> np.ndarray:
        return np.zeros(len(self), bool)

    def copy(self) -> Any:
        return ForeignArray(self._values)


def test_a_pandas_column_of_a_foreign_type_is_refused_if_the_schema_names_it(
    tmp_path: Path,
) -> None:
    frame = pd.DataFrame({"x": TEXTS, "shape": pd.Series(ForeignArray(TEXTS))})
    assert isinstance(frame["shape"].dtype, Foreign)
    assert codes(frame, SEX) == expected(SEX, TEXTS)
    of_foreign = pd.Categorical.from_codes(
        [0, 1], dtype=pd.CategoricalDtype(pd.Index(ForeignArray(["m", "f"])))
    )
    for foreign in (frame["shape"], of_foreign):
        with pytest.raises(us.SourceError, match="not one of pandas' own"):
            release(pd.DataFrame({"x": foreign}), Schema((SEX,)), ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


class Streamed:
    """Something that is no table of anybody's, and guesses the types of its columns when it is
    streamed.
    """

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return pa.table({"x": ["m", "f"]}).__arrow_c_stream__(requested)


def guessed(folder: Path) -> Iterator[duckdb.DuckDBPyRelation]:
    frame = framed(["m", "f", b"f"])
    wrapped, streamed, once = nw.from_native(frame), Streamed(), pa.table({"x": TEXTS}).to_reader()
    connection = duckdb.connect()
    connection.execute("CREATE TABLE typed (x VARCHAR); INSERT INTO typed VALUES ('m'), ('f')")
    (folder / "t.csv").write_text("x\nm\nf\n")
    (folder / "t.json").write_text('[{"x": "m"}]')
    yield connection.sql("SELECT * FROM frame")
    yield connection.from_df(frame)
    yield connection.sql("WITH a AS (SELECT * FROM frame) SELECT typed.x FROM a JOIN typed ON true")
    yield connection.register("named", frame).sql("SELECT x FROM named WHERE x IS NOT NULL")
    yield connection.sql(f"SELECT * FROM '{folder}/t.csv'")
    yield connection.read_csv(str(folder / "t.csv"))
    yield connection.sql(f"SELECT * FROM '{folder}/t.json'")
    (folder / "t.ndjson").write_text('{"x": "m"}\n')
    connection.execute(
        f"CREATE MACRO hidden() AS TABLE FROM read_ndjson('{folder}/t.ndjson'); CREATE VIEW seen AS"
        " FROM hidden()"
    )
    connection.execute(f"PREPARE prepared AS FROM read_csv('{folder}/t.csv')")
    yield connection.sql("FROM seen")
    yield connection.sql("FROM typed WHERE x IN (SELECT x FROM hidden())")
    yield connection.sql("EXECUTE prepared")
    yield connection.sql("FROM wrapped")
    yield connection.sql("FROM streamed")
    yield connection.sql("FROM once")
    assert wrapped is not None and streamed is not None and once is not None


def test_a_relation_whose_types_were_guessed_from_cells_is_refused(tmp_path: Path) -> None:
    refused = 0
    for relation in guessed(tmp_path):
        with pytest.raises(us.SourceError, match="guesses the types"):
            release(relation, Schema((SEX,)), ledger=tmp_path / "ledger")
        refused += 1
    assert refused == 13 and not (tmp_path / "ledger").exists()


def test_a_relation_over_declared_tables_may_compute_anything() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (3), (70), (18); CREATE INDEX i ON t (x)"
    )
    queries = [
        "WITH a AS MATERIALIZED (FROM t) FROM a UNION ALL FROM a",
        (
            "WITH RECURSIVE r AS (SELECT x FROM t WHERE x = 3 UNION ALL SELECT x + 1 FROM r WHERE x"
            " < 5) FROM r"
        ),
        "SELECT x, (SELECT max(u.x) FROM t u WHERE u.x < t.x) FROM t",
        "SELECT x FROM t, unnest([1, 2])",
        "SELECT x + range AS x FROM t, range(3)",
        "SELECT x FROM t WHERE x = 70",
        "SELECT x FROM t QUALIFY row_number() OVER (ORDER BY x) < 3",
    ]
    for query in queries:
        wanted = [row[0] for row in connection.sql(query).fetchall()]
        assert wanted and sorted(codes(connection.sql(query), AGE)) == sorted(expected(AGE, wanted))


def test_a_lazy_frame_whose_types_are_guessed_from_cells_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sex\nf\nm\n")
    (tmp_path / "a.ndjson").write_text('{"sex": "f"}\n')
    dataset = pl.scan_pyarrow_dataset(pyarrow.dataset.dataset(tmp_path / "a.csv", format="csv"))
    scans = [pl.scan_csv(tmp_path / "a.csv"), pl.scan_ndjson(tmp_path / "a.ndjson"), dataset]
    typed = pl.LazyFrame({"sex": ["f"]})
    whole = [
        scans[0].filter(pl.col("sex") == "f"),
        pl.concat([typed, scans[0]]),
        typed.join(scans[0], on="sex"),
        scans[0].cache(),
    ]
    for lazy in (*scans, *whole, nw.from_native(scans[0])):
        with pytest.raises(us.SourceError, match="are guessed from the cells"):
            release(lazy, Schema((SEX,)), ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


def test_odd_names_of_columns_in_queries_are_names() -> None:
    names = ["a.b", 'c"d', "select", "X y", "*", "^z$", "; DROP TABLE t", "é", "Csv SCAN ["]
    table = pa.table({name: pa.array([i % 2, 1]) for i, name in enumerate(names)})
    schema = Schema.from_domain(dict.fromkeys(reversed(names), 2))
    homes = [
        table,
        pl.from_arrow(table),
        pl.from_arrow(table).lazy(),
        kept_in_duckdb(table),
        table.to_pandas(),
    ]
    for home in homes:
        assert sorted(rows_of(open_source(home, schema)).tolist()) == [
            [0, 1, 0, 1, 0, 1, 0, 1, 0],
            [1] * 9,
        ]
    with pytest.raises(us.SourceError, match="upper and lower case"):
        open_source(duckdb.sql("SELECT 1 AS a, 2 AS A"), Schema.from_domain({"a": 2}))


# ---------------------------------------------------------------------- queries that compute while they are read


def failing_polars(cell: str) -> pl.LazyFrame:
    return pl.LazyFrame({"x": ["1"] * 50 + [cell]}).with_columns(pl.col("x").cast(pl.Int32))


def failing_udf(cell: str) -> pl.LazyFrame:
    def parse(column: pl.Series) -> pl.Series:
        try:
            return pl.Series([int(text) for text in column])
        except ValueError:
            raise RuntimeError(f"While reading {cell}") from None

    return pl.LazyFrame({"x": ["1"] * 50 + [cell]}).with_columns(
        pl.col("x").map_batches(parse, return_dtype=pl.Int64)
    )


def failing_relation(cell: str) -> duckdb.DuckDBPyRelation:
    table = pa.table({"x": ["1"] * 50 + [cell]})
    return kept_in_duckdb(table).project("CAST(x AS INT) AS x")


def panicking(cell: str) -> pl.LazyFrame:
    def parse(column: pl.Series) -> pl.Series:
        if cell == SECRET:
            raise pl.exceptions.PanicException(f"called unwrap() on {cell}")
        return column.cast(pl.Int64)

    return pl.LazyFrame({"x": ["1"] * 50 + [cell]}).with_columns(
        pl.col("x").map_batches(parse, return_dtype=pl.Int64)
    )


FAILING = [
    failing_polars, failing_udf, panicking, failing_relation,
    lambda cell: nw.from_native(failing_relation(cell)), lambda cell: nw.from_native(failing_polars(cell)),
]  # fmt: skip


@pytest.mark.parametrize(
    "query",
    FAILING,
    ids=["polars", "polars udf", "panic", "relation", "narwhals relation", "narwhals polars"],
)
def test_a_query_that_stops_at_a_cell_tells_nothing_of_it(
    query: Callable[[str], Any], tmp_path: Path
) -> None:
    """Run after the charge, so it fails as a spent release, in our words and with nothing behind
    them.
    """
    with pytest.raises(us.ReleaseFailed, match="could not be read to the end") as caught:
        release(query(SECRET), Schema((AGE,)), ledger=tmp_path / "ledger")
    said = chain_of(caught.value)
    assert SECRET not in said and "INT32" not in said and "i32" not in said
    assert (tmp_path / "ledger").exists()
    assert release(query("2"), Schema((AGE,))).answers()[0][0] > 0.8


def test_a_filter_that_stops_at_a_cell_while_rows_are_counted_tells_nothing_of_it(
    tmp_path: Path,
) -> None:
    for query in (
        failing_polars(SECRET).filter(pl.col("x") > 0),
        failing_relation(SECRET).filter("x > 0"),
    ):
        with pytest.raises(us.SourceError, match="could not be read to the end") as caught:
            release(query, Schema((AGE,)), ledger=tmp_path / "ledger")
        assert SECRET not in chain_of(caught.value)
    assert not (tmp_path / "ledger").exists()


def test_opening_runs_no_query_and_reading_computes_the_schemas_columns_only() -> None:
    ran: list[str] = []

    def told(name: str) -> Callable[[pl.Series], pl.Series]:
        def compute(column: pl.Series) -> pl.Series:
            ran.append(name)
            return column

        return compute

    lazy = pl.LazyFrame({"x": AGES, "y": AGES}).with_columns(
        *(pl.col(name).map_batches(told(name), return_dtype=pl.Int64) for name in ("x", "y"))
    )
    connection = duckdb.connect()
    connection.create_function(
        "spy", lambda value: ran.append("spy") or value, ["BIGINT"], "BIGINT", side_effects=True
    )
    connection.from_arrow(pa.table({"x": AGES, "y": AGES})).create("ages")
    relation = connection.table("ages").project("spy(x) AS x, error('read') AS y")
    for query, name in ((lazy, "x"), (relation, "spy")):
        source = open_source(query, Schema((AGE,)))
        assert ran == [], "it ran when it was opened"
        assert source.count([()])[0].values[0] == len(AGES)
        assert sorted(rows_of(source).ravel().tolist()) == sorted(expected(AGE, AGES))
        assert set(ran) == {name}
        ran.clear()


def test_a_query_whose_columns_cannot_be_told_is_refused_in_a_sentence() -> None:
    missing = duckdb.connect()
    missing.execute("CREATE TABLE t (x INT)")
    relation = missing.sql("SELECT * FROM t")
    missing.execute("DROP TABLE t")
    for query in (pl.LazyFrame({"x": [1]}).select(pl.col(SECRET)), relation):
        with pytest.raises(us.SourceError, match="columns of the query cannot be told") as caught:
            open_source(query, Schema((AGE,)))
        assert SECRET not in chain_of(caught.value)


def test_a_query_with_another_number_of_rows_each_time_is_not_released() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range AS x FROM range(200000)")
    # One draw says how many rows a look finds, so that two looks agree once in 200,000 times, not
    # once in eighty.
    relation = connection.sql("SELECT x FROM t WHERE x < 200000 * (SELECT random())")
    with pytest.raises(us.ReleaseFailed):
        release(relation, Schema((AGE,)))


# ---------------------------------------------------------------------- dictionaries and long text


def categoricals(*sizes: int) -> pa.Table:
    """Chunks with dictionaries of their own, as pandas gives them: eight bits for each."""
    frames = [
        pd.DataFrame({"x": pd.Categorical([f"{i} {j}" for j in range(size)])})
        for i, size in enumerate(sizes)
    ]
    chunks = [pa.Table.from_pandas(frame, preserve_index=False)["x"].chunk(0) for frame in frames]
    assert all(chunk.type.index_type == pa.int8() for chunk in chunks)
    return pa.table({"x": pa.chunked_array(chunks)})


@pytest.mark.parametrize("sizes", [(100, 27), (100, 28), (100, 100, 100)])
def test_dictionaries_of_several_chunks_need_not_fit_one_index(
    sizes: tuple[int, ...], tmp_path: Path
) -> None:
    table = categoricals(*sizes)
    words = tuple(f"{i} {j}" for i, size in enumerate(sizes) for j in range(size))
    column = Categorical(name="x", categories=words[:-1], other=True)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=127)
    homes = [
        table,
        tmp_path / "t.parquet",
        table.to_pandas(types_mapper=pd.ArrowDtype),
        pl.from_arrow(table),
    ]
    for home in homes:
        assert sorted(codes(home, column)) == list(range(len(words)))
        assert release(home, Schema((column,))).codes.shape == (len(words), 1)


def test_dictionaries_in_parquet_need_not_fit_one_index_next_to_a_moment_either(
    tmp_path: Path,
) -> None:
    words = categoricals(100, 100)["x"]
    days = [dt.datetime(2020, 1 + i % 12, 1) for i in range(200)]
    size, bytes_ = 150_000, words.cast(pa.string()).cast(pa.binary()).dictionary_encode()
    table = pa.table(
        {
            "seen": pa.array(days, pa.timestamp("ns")),
            "x": words,
            "amount": list(range(200)),
            "blob": bytes_,
        }
    )
    long = pa.concat_tables([table] * (size // 200)).set_column(2, "amount", pa.array(range(size)))
    pq.write_table(long, tmp_path / "t.parquet", row_group_size=70_001)
    fields = [
        {
            "name": "x",
            "type": "string",
            "constraints": {"enum": [f"{i} {j}" for i in range(2) for j in range(100)]},
        },
        {
            "name": "seen",
            "type": "date",
            "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
        },
        {"name": "blob", "type": "string", "constraints": {"enum": ["a"]}},
        {"name": "amount", "type": "integer", "constraints": {"minimum": 0, "maximum": size - 1}},
    ]
    columns = {"blob": {"other": True}, "amount": {"bins": size}}
    found = rows_of(
        open_source(
            tmp_path / "t.parquet",
            Schema.from_dict({"fields": fields, "understudy": {"columns": columns}}),
        )
    )
    at = np.arange(size) % 200
    assert (found == np.column_stack([at, at % 12, np.ones(size, int), np.arange(size)])).all(), (
        "a row is put together from two"
    )


def test_a_dictionary_may_hold_a_null_and_an_index_that_it_has_not() -> None:
    words = pa.array(["m", None, "f"])
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), words),
        pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["m", "f"])),
        pa.DictionaryArray.from_arrays(pa.array([9, -1, 0], pa.int8()), words, safe=False),
    ]
    found = SEX.encode(read_cells(pa.chunked_array(chunks))).tolist()
    assert found == [0, 3, 1, 3, 1, 0, 3, 3, 0]


def test_text_beyond_two_gigabytes_is_read_chunk_by_chunk() -> None:
    """Many chunks that share one buffer: as long as a table that 32-bit offsets cannot hold, in
    little memory.
    """
    long = pa.array(["x" * 2**26, "m"], pa.string())
    column = pa.chunked_array([long] * 33)
    assert pc.sum(pc.cast(pc.binary_length(column), pa.int64())).as_py() > 2**31
    assert codes(pa.table({"x": column}), SEX) == [2, 0] * 33


def test_slices_of_a_column_join_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.schema.cells.SLICE_ROWS", 4)
    table = pa.table({"x": pa.chunked_array([pa.array(TEXTS), pa.array(TEXTS + TEXTS)])})
    for home in (table, pa.table({"x": table["x"].dictionary_encode()}), pl.from_arrow(table)):
        assert codes(home, SEX) == expected(SEX, TEXTS * 3)


def test_text_that_lies_about_its_letters_is_one_unreadable_cell() -> None:
    class Liar(str):
        def encode(self, *_: Any) -> Any:
            class Bytes:
                def decode(self, *_: Any) -> int:
                    return 5

            return Bytes()

    assert codes(framed(["m", Liar("m"), "f"]), SEX) == [0, 0, 1]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_letter_that_unicode_has_not_is_one_unreadable_cell(order: str) -> None:
    beyond = np.array([[ord("m")], [ord("f")], [0x110000], [2**32 - 1]], order + "u4").view(
        order + "U1"
    )
    fields = np.dtype(
        [("x", order + "U1"), ("y", [("z", order + "U1")]), ("w", order + "U1", (2,))]
    )
    nested = np.zeros(4, fields)
    nested.view(order + "u4").reshape(4, -1)[:] = beyond.view(order + "u4")
    for table in (beyond, np.ma.MaskedArray(beyond, mask=False), nested[["x"]], nested):
        assert codes(table, SEX) == [0, 1, SEX.other_code, SEX.other_code]
    for name in ("y", "w"):
        unread = dataclasses.replace(SEX, name=name)
        assert codes(nested, unread) == [SEX.other_code] * 4


class HostileArray(np.ndarray):
    """What a subclass of an array says of its cells is never asked, either."""

    def _lie(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    __getitem__ = tolist = nonzero = astype = __array_function__ = __array_ufunc__ = _lie


def test_an_array_is_read_through_numpys_own_class() -> None:
    two, one = np.array([["m"], ["f"]]), structured(["m", "f"])
    masked = np.ma.MaskedArray(two.view(HostileArray), mask=[[False], [True]])
    assert [codes(table.view(HostileArray), SEX) for table in (two, one)] == [[0, 1], [0, 1]]
    assert codes(masked, SEX) == [0, SEX.missing_code]
    matrix = np.array([[1, 0], [0, 1]]).view(HostileArray)
    assert rows_of(open_source(matrix, Schema.items(2))).tolist() == [[1, 0], [0, 1]]
