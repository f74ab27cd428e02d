"""Invented columns and tables of every kind, and cells of every kind of badness."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import fractions
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

from understudy.schema import Column, Schema
from understudy.sources import Source


def column(
    kind: str,
    *,
    missing: bool = False,
    other: bool = False,
    constraints: dict[str, Any] | None = None,
    **rest: Any,
) -> Column:
    """One column, by the way users write it."""
    extra = {key: rest.pop(key) for key in ("categories", "categoriesOrdered") if key in rest}
    field = {"name": "x", "type": kind, "constraints": constraints or {}, **extra}
    settings = {"missing": missing, "other": other, **rest}
    return Schema.from_dict(
        {
            "fields": [field],
            "missingValues": ["", "?", "—"],
            "understudy": {"columns": {"x": settings}},
        }
    )["x"]


def _bounds(low: Any, high: Any) -> dict[str, Any]:
    return {"constraints": {"minimum": low, "maximum": high}}


DAYS = _bounds("2019-11-20", "2021-02-03")
TIMES = _bounds("2019-12-31T22:15:30", "2020-01-01T02:00:01")
KINDS: dict[str, dict[str, Any]] = {
    "categorical": {
        "kind": "string",
        "constraints": {"enum": ["a", "b", "no", "日本", "it's", "1", "2.5", "true"]},
    },
    "ordered": {
        "kind": "string",
        "constraints": {"enum": ["low", "high"]},
        "categories": ["low", "high"],
        "categoriesOrdered": True,
    },
    "numeric categories": {"kind": "integer", "constraints": {"enum": [-3, 0, 7, 2**40]}},
    "boolean": {"kind": "boolean"},
    "integer": {"kind": "integer", **_bounds(-2, 9)},
    "integer bins": {"kind": "integer", **_bounds(0, 99), "bins": 7},
    "integer cuts": {"kind": "integer", **_bounds(0, 99), "cuts": [18, 30, 65]},
    "wide integer": {"kind": "integer", **_bounds(-(2**53), 2**53 - 1)},
    "year": {"kind": "year", **_bounds(1950, 2020)},
    "real": {"kind": "number", **_bounds(-1.5, 10)},
    "real cuts": {"kind": "number", **_bounds(0, 1), "cuts": [1e-9, 0.3]},
    "date bins": {"kind": "date", **DAYS, "bins": 5},
    "datetime bins": {"kind": "datetime", **TIMES, "bins": 5},
    **{
        f"date {r}": {"kind": "date", **DAYS, "resolution": r}
        for r in ("year", "quarter", "month", "week", "day")
    },
    **{
        f"datetime {r}": {"kind": "datetime", **DAYS, "resolution": r}
        for r in ("year", "quarter", "month", "week", "day", "hour")
    },
    **{
        f"datetime {r}": {"kind": "datetime", **TIMES, "resolution": r}
        for r in ("minute", "second")
    },
}
FLAGS = [(False, False), (True, False), (False, True), (True, True)]
COLUMNS = [
    (
        f"{name}{' +missing' * missing}{' +other' * other}",
        column(missing=missing, other=other, **how),
    )
    for name, how in KINDS.items()
    for missing, other in FLAGS
]

ODD_CELLS: list[Any] = [
    None, float("nan"), float("inf"), -float("inf"), -0.0, 10**400, -(10**400), 2**63, 2**64, 1e308, True, False, b"", b"\xff",
    "", " ", "?", "—", "OTHER", "MISSING", "nan", "inf", "None", "a", " a\t", "A", "no", "日本", "\ud800", "\x00", "\x85", "\ufeff1",
    "1", "+1", "1.0", "01", "1e0", "1e999", "9" * 301, "." + "9" * 400, "1_0", "٣", "0x10", "1,0", "true", "TRUE", "yes",
    "2020-01-01", "2020-02-30", "2020-13-01", "0000-01-01", "9999-12-31T23:59:59.999999999+14:00", "2020-01-01T24:00",
    "2020-01-01T10:00Z", "2020-01-01 10:00:00-0500", "2020-01-01\n", "-1-01-01",
    dt.date.min, dt.date.max, dt.datetime.min, dt.datetime.max, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.time(1), dt.timedelta(1),
    dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))), np.datetime64("NaT"), np.datetime64(10**18, "Y"),
    np.datetime64(2**62, "s"), np.datetime64(-(2**62), "ns"), np.timedelta64(3, "D"), np.timedelta64("NaT"),
    np.float16(2), np.longdouble("1e4000"), np.int8(-3), np.bool_(True), np.str_("b"),
    decimal.Decimal("7"), decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("1e999999"),
    pd.NA, pd.NaT, pd.Timestamp("2020-06-01", tz="Asia/Tokyo"), pd.Period("2020", "Y"),
    1j, [], {}, (1,), {1}, object(), np.zeros(3), int, ...,
]  # fmt: skip
ANY_TEXT = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    [c for c in ODD_CELLS if isinstance(c, str)]
)
ANY_CELL = (
    st.sampled_from(ODD_CELLS)
    | ANY_TEXT
    | st.integers()
    | st.floats()
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.decimals()
)


# Values for any argument of any function.
ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**63, 10**30, 10**5000, -(10**5000), 1.5, float("nan"), float("inf"), 1e-320, 1e308, "", "x", "1", "nan",
    "1e999999999", "1e-999999999", "1/0", "1/3", "٣", "\x00", "\ud800", "y" * 500, [], [1], {}, {"a": 1}, (1,), b"x", 1j, object(), ...,
    np.array([1, 2]), np.float64(2), decimal.Decimal("1e999999"), decimal.Decimal("NaN"), fractions.Fraction(1, 10**3000), int,
]  # fmt: skip
SCHEMAS = st.lists(
    st.sampled_from([col for _, col in COLUMNS if col.size <= 100]), min_size=1, max_size=4
).map(
    lambda columns: Schema(
        tuple(dataclasses.replace(col, name=f"c{i}") for i, col in enumerate(columns))
    )
)
WORKLOADS = st.sampled_from(
    [
        "1-way",
        "2-way",
        "2-way:2@7",
        "2-conjunctions:9@1",
        "all-conjunctions",
        "1-way+all-conjunctions",
    ]
) | st.text(st.sampled_from("123-wayconjuts:@+"), max_size=12)

# Cells that nobody could say by accident: outside every bound, in no list of categories.
CANARY_TEXT, CANARY_NUMBER, CANARY_DATE = "Rumpelstiltskin", 86420975, dt.date(1944, 4, 4)
CANARIES = (CANARY_TEXT, str(CANARY_NUMBER), f"{CANARY_NUMBER:,}", str(CANARY_DATE))


def rows_of(source: Source) -> np.ndarray:
    """The codes that a source reads; only tests may look at them."""
    columns = tuple(range(len(source.shape)))
    return np.concatenate([np.zeros((0, len(columns)), np.int32), *source._blocks(columns)])


# A table with a column of each kind, and a unique number in each row so that rows can be told
# apart.
PEOPLE = Schema.from_dict(
    {
        "fields": [
            {"name": "id", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {
                "name": "city",
                "type": "string",
                "constraints": {"enum": ["Zürich", "À–B", "東京", 'say "hi", ok', "no"]},
            },
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "grade", "type": "integer", "constraints": {"enum": [1, 2, 5]}},
            {"name": "smoker", "type": "boolean"},
            {"name": "income", "type": "number", "constraints": {"minimum": 0, "maximum": 1000}},
            {
                "name": "born",
                "type": "date",
                "constraints": {"minimum": "1960-01-01", "maximum": "2009-12-31"},
            },
            {
                "name": "seen",
                "type": "datetime",
                "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
            },
        ],
        "missingValues": ["", "n/a", "—"],
        "understudy": {
            "columns": {
                "city": {"missing": True, "other": True},
                "age": {"bins": 10, "missing": True, "other": True},
                "grade": {"other": True},
                "smoker": {"missing": True},
                "income": {"bins": 8, "missing": True, "other": True},
                "born": {"resolution": "year", "missing": True},
                "seen": {"resolution": "month", "missing": True, "other": True},
            }
        },
    }
)


def people(rows: int, seed: int = 0, *, bad: float = 0.2) -> list[list[Any]]:
    """Rows for PEOPLE as Python objects, a share of the cells missing or out of bounds but of their
    column's own type.
    """
    rng = np.random.default_rng(seed)
    table: list[list[Any]] = []
    for i in range(rows):
        row: list[Any] = [
            i % 100,
            str(rng.choice(["Zürich", "À–B", "東京", 'say "hi", ok', "no"])),
            int(rng.integers(0, 100)),
            int(rng.choice([1, 2, 5])),
            bool(rng.integers(2)),
            float(np.round(rng.uniform(0, 1000), 3)),
            dt.date(1960, 1, 1) + dt.timedelta(int(rng.integers(0, 18000))),
            dt.datetime(2020, 1, 1) + dt.timedelta(seconds=int(rng.integers(0, 31_000_000))),
        ]
        worse: list[Any] = [
            row[0],
            "elsewhere",
            -5,
            9,
            None,
            5000.5,
            dt.date(1800, 1, 1),
            dt.datetime(2200, 1, 1),
        ]
        for j in range(1, len(row)):
            if rng.random() < bad:
                row[j] = worse[j] if rng.random() < 0.5 else None
        table.append(row)
    return table


def kept_in_duckdb(table: pa.Table) -> duckdb.DuckDBPyRelation:
    """The same rows as a table of DuckDB's own, whose types were declared by Arrow's."""
    connection = duckdb.connect()
    connection.from_arrow(table).create("kept")
    return connection.table("kept")
