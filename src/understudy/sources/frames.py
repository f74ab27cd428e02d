"""Which tables in memory are read, and how: a closed list, each kind with a reading that looks at
one cell at a time.

Anything else could be streamed as Arrow, too, but whoever streams it may guess one type for a
column from all its cells, and then one person's cell decides how everybody else's is read. A table
is known by its class, and read through its library's own class: what a subclass overrides is never
called.

    pandas DataFrame                by the dtype of each column, object columns cell by cell
    polars DataFrame                by the dtype of each column, object columns cell by cell
    polars LazyFrame                collected when it is read, the schema's columns only
    DuckDB relation                 run when it is read, the schema's columns only
    narwhals DataFrame, LazyFrame   as what it holds
    Arrow Table, RecordBatch        by the type of each column
    NumPy array                     by the dtype, object arrays cell by cell
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.counting.tally import BLOCK_ROWS
from understudy.errors import SourceError
from understudy.runtime.imported import imported
from understudy.schema import Schema
from understudy.schema import cells as c
from understudy.schema.cells import Cells, read_cells, read_objects, read_slices

Column = Callable[[], Iterable[Cells]]  # the cells of a column, one slice of rows after another
FRAMES = (  # what a refusal lists
    "a pandas or polars DataFrame, a polars LazyFrame, a DuckDB relation, an Arrow Table or"
    " RecordBatch, a narwhals frame that holds one of these, or a 2-D NumPy array"
)
# Where a relation's rows may come from: DuckDB's own tables and Parquet, whose types were declared,
# and what a plan keeps for itself. For other scans (pandas, CSV, JSON) DuckDB guesses types from
# cells, or somebody did who streams Arrow, or a result hides what was read.
DECLARED = {
    "SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN", "PARQUET_SCAN", "READ_PARQUET", "CTE_SCAN", "REC_CTE_SCAN", "DELIM_SCAN",
    "DUMMY_SCAN", "EMPTY_RESULT", "UNNEST", "RANGE", "GENERATE_SERIES",
}  # fmt: skip
# Scans of polars (as it writes its plan) for which types are guessed from the first cells; what a
# Python source does is nobody's rule.
POLARS_GUESSES = re.compile(r"^\s*(csv|ndjson|json|python) scan \[", re.IGNORECASE | re.MULTILINE)
# DuckDB's types whose every value has a place in Arrow; of the others it may have none, and they go
# as text.
FITTING = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "float", "double",
    "decimal", "varchar", "enum", "blob", "date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone",
}  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """A table that was opened and of which no cell was touched.

    Attributes:
        names: its columns, which are public.
        rows: counts its rows; a lazy table runs a query for it.
        pull: (how many rows, the columns at some places); a lazy table runs its query here, once
            for all of them, because two runs need not give the rows in one order.
    """

    names: list[str]
    rows: Callable[[], int]
    pull: Callable[[list[int]], tuple[int, list[Column]]]


def is_frame(table: Any) -> bool:
    """Whether a table is on the list."""
    return _opener(_native(table)) is not None


def open_frame(table: Any, schema: Schema) -> Frame:
    """A table in memory as a Frame; refuses what is not on the list."""
    native = _native(table)
    opener = _opener(native)
    if opener is None:
        raise cannot_be_read(native, FRAMES)
    return opener(native, schema)


def _native(table: Any) -> Any:
    """What a frame of narwhals holds; any other table itself."""
    for holder in imported("narwhals", "DataFrame", "LazyFrame"):
        if isinstance(table, holder):
            return _native(holder.to_native(table))
    return table


def _opener(table: Any) -> Callable[[Any, Schema], Frame] | None:
    if isinstance(table, np.ndarray):
        return _of_array
    if isinstance(table, (pa.Table, pa.RecordBatch)):
        return _of_arrow
    for (module, name), opener in OPENERS.items():
        if isinstance(table, imported(module, name)):
            return opener
    return None


def cannot_be_read(table: Any, readable: str) -> SourceError:
    """A refusal that names the type of a table, and what can be read."""
    kind = type(table)
    shown = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return SourceError(
        f"A table of type {shown!r} cannot be read; give {readable}. Convert other tables to one of"
        " these first."
    )


# ---------------------------------------------------------------------- Arrow and NumPy


def _of_arrow(table: pa.Table | pa.RecordBatch, schema: Schema) -> Frame:
    return _eager(
        list(table.schema.names), table.num_rows, lambda place: read_slices(table.column(place))
    )


def _eager(names: list[str], rows: int, cells: Callable[[int], Iterable[Cells]]) -> Frame:
    def pull(places: list[int]) -> tuple[int, list[Column]]:
        return rows, [partial(cells, place) for place in places]

    return Frame(names, lambda: rows, pull)


def _of_array(array: np.ndarray, schema: Schema) -> Frame:
    plain = own_array(array)
    if plain.dtype.names and plain.ndim == 1:
        names = list(plain.dtype.names)
        return _eager(names, len(plain), lambda place: [array_cells(plain[names[place]])])
    if plain.ndim != 2 or plain.shape[1] != len(schema):
        raise SourceError(
            "A NumPy table must have two dimensions and one column for each of the schema's"
            f" {len(schema)} columns, or be structured and have one dimension."
        )
    return _eager(list(schema.names), len(plain), lambda place: [array_cells(plain[:, place])])


def own_array(array: np.ndarray) -> np.ndarray:
    """An array of NumPy's own class, masked or not: what a subclass overrides is never called."""
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.MaskedArray(np.asarray(np.ma.getdata(array)), mask=np.ma.getmaskarray(array))
    return np.asarray(array)


def array_cells(values: np.ndarray) -> Cells:
    """The cells of a NumPy array of one dimension; what is masked is missing."""
    if isinstance(values, np.ma.MaskedArray) and values.ndim == 1 and not values.dtype.names:
        cells = array_cells(np.asarray(np.ma.getdata(values)))
        cells.kind[np.ma.getmaskarray(values)] = c.MISSING
        return cells
    kind = values.dtype.kind
    if values.ndim == 1 and kind in "biu":  # Arrow knows no foreign byte orders
        return read_cells(pa.array(np.ascontiguousarray(values, values.dtype.newbyteorder("="))))
    if values.ndim == 1 and kind == "f":
        with np.errstate(over="ignore"):  # what a double cannot hold is infinite, without a warning
            return read_cells(pa.array(np.ascontiguousarray(values, np.float64)))
    if values.ndim != 1 or kind == "V":
        return _without_a_reading(np.zeros(len(values), bool))
    return read_objects(
        list(values) if kind in "mM" else (_letters(values) if kind == "U" else values).tolist()
    )


def _letters(values: np.ndarray) -> np.ndarray:
    """NumPy's text, with a mark for what is no letter of Unicode: at one such letter Python would
    stop, for all cells.
    """
    if not values.dtype.itemsize:
        return values
    text = np.ascontiguousarray(values)
    letters = text.view(text.dtype.str[0] + "u4")
    return (
        np.where(letters > sys.maxunicode, ord("\ufffd"), letters)
        .astype(letters.dtype)
        .view(text.dtype)
    )


# ---------------------------------------------------------------------- pandas


def _of_pandas(table: Any, schema: Schema) -> Frame:
    (whole,) = imported("pandas", "DataFrame")
    frame = whole(table)  # the columns as pandas keeps them, without what a subclass makes of them
    names = [str(name) for name in frame.columns]
    for name, dtype in zip(names, frame.dtypes, strict=True):
        if name in schema.names and not _is_pandas_own(dtype):
            raise SourceError(
                f"The column {name!r} has a type that is not one of pandas' own, and how its cells"
                " are read is nobody's rule; convert it first, such as with astype(object) or"
                " astype(str)."
            )
    return _eager(names, len(frame), lambda place: _series_cells(frame.iloc[:, place]))


OWN = (
    "ArrowDtype", "BooleanDtype", "DatetimeTZDtype", "IntervalDtype", "PeriodDtype", "SparseDtype", "StringDtype",
    *(f"{kind}{bits}Dtype" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)), "Float32Dtype", "Float64Dtype",
)  # fmt: skip


def _is_pandas_own(dtype: Any) -> bool:
    if isinstance(dtype, imported("pandas", "CategoricalDtype")):
        return dtype.categories is None or _is_pandas_own(dtype.categories.dtype)
    return isinstance(dtype, np.dtype) or type(dtype) in imported("pandas", *OWN)


def _series_cells(series: Any) -> Iterator[Cells]:
    """The cells of a pandas column, by its dtype alone."""
    dtype = series.dtype
    if isinstance(dtype, imported("pandas", "CategoricalDtype")):
        words = Cells.joined(list(_series_cells(dtype.categories.to_series())))
        yield words.take(series.cat.codes.to_numpy())
    elif isinstance(dtype, imported("pandas", "DatetimeTZDtype")):
        yield from _series_cells(series.dt.tz_convert("UTC").dt.tz_localize(None))
    elif isinstance(dtype, imported("pandas", "SparseDtype")):
        yield array_cells(np.asarray(series.array.to_dense()))
    elif isinstance(dtype, imported("pandas", "PeriodDtype", "IntervalDtype")) or dtype.kind == "m":
        yield _without_a_reading(series.isna().to_numpy())
    elif isinstance(dtype, np.dtype) and dtype.kind == "M":
        yield from read_slices(pa.array(series.to_numpy()))
    elif isinstance(dtype, np.dtype) or (
        isinstance(dtype, imported("pandas", "StringDtype")) and dtype.storage == "python"
    ):
        # Python's text may be no UTF-8, at which Arrow stops
        yield array_cells(np.asarray(series.to_numpy()))
    else:  # Arrow's own arrays, and numbers with a mask: nothing is guessed
        yield from read_slices(pa.array(series.array))


def _without_a_reading(missing: np.ndarray) -> Cells:
    return read_objects(np.where(missing, None, ...))  # type: ignore[call-overload]


# ---------------------------------------------------------------------- polars


def _of_polars(table: Any, schema: Schema) -> Frame:
    (whole,) = imported("polars", "DataFrame")
    frame = whole(table)
    return _eager(
        list(frame.columns), frame.height, lambda place: _polars_cells(frame.to_series(place))
    )


def _polars_cells(series: Any) -> Iterable[Cells]:
    return (
        read_slices(pa.chunked_array(series))
        if _speaks_arrow(series)
        else [read_objects(series.to_list())]
    )


def _speaks_arrow(series: Any) -> bool:
    """Whether Arrow knows a column's type, which an empty column of it tells. Of Python objects
    polars exports the addresses.
    """
    if series.dtype in imported("polars", "Object"):
        return False
    try:
        pa.chunked_array(series.clear())
    except pa.ArrowException:
        return False
    return True


def _of_lazy_polars(lazy: Any, schema: Schema) -> Frame:
    import polars as pl
    from polars import selectors

    verbs = pl.LazyFrame

    def pull(places: list[int]) -> tuple[int, list[Column]]:
        frame = verbs.collect(
            verbs.select(lazy, selectors.by_name(*(names[place] for place in places)))
        )
        order = [frame.columns.index(names[place]) for place in places]
        return _of_polars(frame, schema).pull(order)

    if POLARS_GUESSES.search(_metadata(lambda: verbs.explain(lazy, optimized=False))):
        raise SourceError(
            "The LazyFrame reads a file of text, or takes its rows from Python, and the types of"
            " its columns are guessed from the cells; give the CSV file itself, or a table whose"
            " columns were declared with their types."
        )
    names = list(_metadata(lambda: verbs.collect_schema(lazy).names()))
    return Frame(names, lambda: int(verbs.collect(verbs.select(lazy, pl.len())).item()), pull)


# ---------------------------------------------------------------------- DuckDB


def _of_relation(relation: Any, schema: Schema) -> Frame:
    names, types, scans = _metadata(
        lambda: (
            list(relation.columns),
            [kind.id for kind in relation.types],
            set(_scans(json.loads(relation.explain(format="json")))),
        )
    )
    if not scans <= DECLARED:
        raise SourceError(
            "The relation reads something else than tables of DuckDB and Parquet files. Of"
            " DataFrames, files of text and streams of Arrow, DuckDB or whoever streams them"
            " guesses the types of columns from the cells. Give the DataFrame or the CSV file"
            " itself, or a table whose columns were declared with their types."
        )
    if len({name.lower() for name in names}) < len(names):
        raise SourceError(
            "The relation has two columns whose names differ in upper and lower case at most;"
            " rename one."
        )

    def pull(places: list[int]) -> tuple[int, list[Column]]:
        table = relation.project(
            ", ".join(_selected(names[place], types[place]) for place in places)
        ).to_arrow_table(BLOCK_ROWS)
        return _of_arrow(table, schema).pull(list(range(len(places))))

    return Frame(names, lambda: int(relation.aggregate("count(*)").fetchall()[0][0]), pull)


def _scans(plan: list[dict[str, Any]]) -> Iterator[str]:
    """What a plan reads: its leaves, and whatever else is called a scan."""
    for node in plan:
        if not node["children"] or node["name"].strip().endswith("_SCAN"):
            yield node["name"].strip()
        yield from _scans(node["children"])


def _selected(name: str, kind: str) -> str:
    """A column in SQL, in a type that Arrow has."""
    quoted = '"' + name.replace('"', '""') + '"'
    return quoted if kind in FITTING else f"CAST({quoted} AS VARCHAR)"


def _metadata(ask: Callable[[], Any]) -> Any:
    """What a lazy table says of its columns without being run; whatever goes wrong becomes one
    fixed sentence.
    """
    try:
        return ask()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110 (a panic of polars is no Exception; raised below, so that no foreign message travels along)
        pass
    raise SourceError(
        "The columns of the query cannot be told without running it; check that its tables are"
        " there, or run it first."
    )


OPENERS: dict[tuple[str, str], Callable[[Any, Schema], Frame]] = {  # the closed list
    ("pandas", "DataFrame"): _of_pandas,
    ("polars", "DataFrame"): _of_polars,
    ("polars", "LazyFrame"): _of_lazy_polars,
    ("duckdb", "DuckDBPyRelation"): _of_relation,
}
