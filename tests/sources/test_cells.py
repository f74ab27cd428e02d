"""Cells to codes and back: every cell has a code, and it depends on that cell alone."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import ANY_CELL, ANY_TEXT, COLUMNS, KINDS, ODD_CELLS, column
from understudy.errors import SchemaError
from understudy.schema import Boolean, Categorical, Column, Moment, Number
from understudy.schema import cells as c

EVERY_COLUMN = pytest.mark.parametrize(
    "col", [col for _, col in COLUMNS], ids=[name for name, _ in COLUMNS]
)
FULL = {name: column(missing=True, other=True, **how) for name, how in KINDS.items()}
EVERY_KIND = pytest.mark.parametrize("col", list(FULL.values()), ids=list(FULL))


def codes(col: Column, cells: list[Any]) -> list[int]:
    return col.encode(c.read_objects(cells)).tolist()


# ---------------------------------------------------------------------- any cell


@EVERY_COLUMN
def test_every_odd_cell_has_a_code_in_range(col: Column) -> None:
    found = col.encode(c.read_objects(ODD_CELLS))
    assert found.dtype == np.int32 and len(found) == len(ODD_CELLS)
    assert found.min() >= 0 and found.max() < col.size


@EVERY_KIND
@given(cells=st.lists(ANY_CELL, max_size=12))
@settings(deadline=None, max_examples=12)
def test_code_of_a_cell_depends_on_that_cell_alone(col: Column, cells: list[Any]) -> None:
    together = codes(col, cells)
    assert together == [codes(col, [cell])[0] for cell in cells]
    assert all(0 <= code < col.size for code in together)


@EVERY_KIND
@given(
    texts=st.lists(
        st.none() | ANY_TEXT.map(lambda s: s.encode("utf-8", "replace").decode()), max_size=12
    )
)
@settings(deadline=None, max_examples=6)
def test_text_reads_the_same_as_objects_arrow_and_polars(
    col: Column, texts: list[str | None]
) -> None:
    expected = codes(col, texts)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert col.encode(c.read_cells(pa.array(texts, kind))).tolist() == expected
    assert (
        col.encode(c.read_cells(pa.array(texts, pa.string()).dictionary_encode())).tolist()
        == expected
    )
    frame = pl.DataFrame({"x": pl.Series(texts, dtype=pl.Categorical)})
    assert col.encode(c.read_cells(pa.table(frame)["x"])).tolist() == expected


@EVERY_KIND
@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (
            [-3, 0, 1, 7, 99, 2**40, 2**53, None],
            [pa.int64(), pa.float64(), pa.decimal128(38, 0), pa.decimal256(60, 3)],
        ),
        ([0, 1, 2**53 + 1, 2**63 - 1, None], [pa.int64(), pa.uint64(), pa.decimal128(38, 0)]),
        (
            [-1.5, 0.0, 1.0, 2.5, float("inf"), float("-inf"), float("nan"), None],
            [pa.float64(), pa.float32(), pa.float16()],
        ),
        ([True, False, None], [pa.bool_()]),
        (
            [dt.date(1, 1, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31), None],
            [pa.date32(), pa.date64()],
        ),
        (
            [
                dt.datetime(1, 1, 1),
                dt.datetime(2020, 1, 1, 0, 59, 59),
                dt.datetime(9999, 12, 31),
                None,
            ],
            [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "UTC")],
        ),
        (
            [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2020, 1, 1, 1), None],
            [pa.timestamp("ns"), pa.timestamp("us")],
        ),
        ([b"1", b"\xff", None], [pa.binary()]),
        ([[1], None], [pa.list_(pa.int8())]),
        ([dt.timedelta(1), None], [pa.duration("us")]),
        ([None, None], [pa.null()]),
    ],
    ids=[
        "integers",
        "huge",
        "reals",
        "flags",
        "dates",
        "datetimes",
        "before 1970",
        "bytes",
        "lists",
        "durations",
        "nulls",
    ],
)
def test_typed_columns_read_like_objects(
    col: Column, values: list[Any], kinds: list[pa.DataType]
) -> None:
    """A column's storage type flips when one bad cell joins it; its other cells must not notice."""
    for kind in kinds:
        assert col.encode(c.read_cells(pa.array(values, kind))).tolist() == codes(col, values), str(
            kind
        )


@given(value=st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None, max_examples=60)
def test_moments_beyond_any_calendar_are_clamped_in_every_unit(value: int) -> None:
    """An overflow would wrap the far future into the far past, and a cast that raises would tell of
    the cell.
    """
    col = FULL["datetime month"]
    for unit in ("s", "ms", "us", "ns"):
        raw = pa.array([value], pa.int64())
        typed = col.encode(c.read_cells(raw.cast(pa.timestamp(unit))))[0]
        year = 1970 + value / (365.2425 * 86400 * {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit])
        if year < 2019:
            assert typed == 0
        elif year > 2022:
            assert typed == col.values - 1
        if value != -(2**63):  # NumPy's NaT
            assert typed == codes(col, [np.datetime64(value, unit)])[0]
    unchecked = pa.Array.from_buffers(pa.date64(), 1, [None, pa.py_buffer(np.array([value]))])
    assert (
        col.encode(c.read_cells(unchecked)).tolist()
        == col.encode(c.read_cells(pa.array([value]).cast(pa.timestamp("ms")))).tolist()
    )


def test_text_that_is_not_utf8_matches_nothing_and_raises_nothing() -> None:
    raw = b"\xff\xfe2020-01-01\xc3a1"
    array = pa.Array.from_buffers(
        pa.string(),
        4,
        [None, pa.py_buffer(np.array([0, 2, 12, 14, 15], np.int32)), pa.py_buffer(raw)],
    )
    for col in FULL.values():
        found = col.encode(c.read_cells(array)).tolist()
        assert found[0] == col.other_code and min(found) >= 0 and max(found) < col.size
        assert found[3] == codes(col, ["1"])[0]


def test_an_object_that_breaks_when_looked_at_is_unreadable() -> None:
    class Zone(dt.tzinfo):
        def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
            raise RuntimeError("secret")

    class Liar(int):
        def __float__(self) -> float:
            raise RuntimeError("secret")

    col = FULL["integer"]
    assert codes(col, [1, dt.datetime(2020, 1, 1, tzinfo=Zone()), Liar(3), 1]) == [
        3,
        col.other_code,
        col.other_code,
        3,
    ]


# ---------------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("missing", "other", "expected"),
    [(False, False, (0, 0)), (True, False, (2, 2)), (False, True, (2, 2)), (True, True, (3, 2))],
)
def test_missing_and_other_fall_back_on_each_other(
    missing: bool, other: bool, expected: tuple[int, int]
) -> None:
    col = Categorical(
        name="x", categories=("a", "b"), missing=missing, other=other, missing_values=("", "?")
    )
    assert tuple(codes(col, [None, "zebra"])) == expected
    assert len({*codes(col, [None, float("nan"), "", " ", "?"])}) == 1
    assert codes(col, [object(), b"a", [1]]) == [expected[1]] * 3


def test_categories_match_text_exactly_and_numbers_by_value() -> None:
    col = Categorical(name="x", categories=("a", "1", "1.0", "007", "True"), other=True)
    assert codes(col, ["a", " a\n", "A", "1", 1, 1.0, "1.0", "01", "007", 7, "7", True, "True", False]) == [
        0, 0, 5, 1, 1, 1, 2, 1, 3, 3, 3, 4, 4, 5,
    ]  # fmt: skip


def test_booleans_take_the_usual_spellings() -> None:
    col = Boolean(name="x", other=True, missing=True)
    assert codes(col, ["true", "T", "Yes", "y", "1", "1.0", 1, True, 1.0]) == [1] * 9
    assert codes(col, ["false", "F", "No", "n", "0", "-0.0", 0, False, 0.0]) == [0] * 9
    assert codes(col, ["maybe", 2, "", None]) == [2, 2, 3, 3]


def test_numbers_out_of_bounds_take_the_nearest_bin() -> None:
    col = FULL["integer cuts"]
    assert codes(col, [-5, 0, 17, 17.9, 18, 29, 30, 64, 65, 99, 100, 1e300, "-inf", "1e99", "-1"]) == [
        0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 0, 3, 0,
    ]  # fmt: skip
    assert codes(FULL["real"], [-1.5, 10, 10.0001, -99]) == [0, 31, 31, 0]


@pytest.mark.parametrize("sign", ["", "-", "+"])
@given(
    text=st.from_regex(
        r"\A(\d{1,300}(\.\d{0,300})?|\.\d{1,300})([eE][+-]?\d{1,2})?\Z", alphabet="0123456789.eE+-"
    )
)
@settings(deadline=None, max_examples=40)
def test_numeric_text_converts_as_python_does(sign: str, text: str) -> None:
    value, looks = c.numbers_in_text(pa.array([sign + text, None], pa.large_string()))
    assert looks.tolist() == [True, False] and value[0] == float(sign + text)


@pytest.mark.parametrize("text", ["9" * 300 + "e99", "." + "0" * 299 + "1e-99", "5.", "-.5"])
def test_extreme_numeric_text_converts_without_raising(text: str) -> None:
    assert c.numbers_in_text(pa.array([text], pa.large_string()))[0][0] == float(text)


@given(
    when=st.datetimes(
        timezones=st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=-30))])
    ),
    space=st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_moments_in_text_agree_with_the_datetime_module(when: dt.datetime, space: bool) -> None:
    utc = (
        when.replace(tzinfo=None) - (when.utcoffset() or dt.timedelta())
        if dt.datetime.min.year < when.year < 9999
        else None
    )
    text = when.isoformat(" " if space else "T")
    value, good = c.moments_in_text(pa.array([text], pa.large_string()))
    assert good.tolist() == [True]
    if utc is not None:
        assert value[0] == (utc - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "2021-02-29",
        "2020-00-10",
        "2020-01-00",
        "2020-1-1",
        "2020-01-01T24:00",
        "2020-01-01T10:60",
        "20200101",
        "2020-01-01T10",
    ],
)
def test_dates_that_do_not_exist_are_unreadable(text: str) -> None:
    assert codes(FULL["date day"], [text]) == [FULL["date day"].other_code]


# ---------------------------------------------------------------------- back to cells


@EVERY_COLUMN
def test_decoded_cells_encode_to_the_same_codes(col: Column) -> None:
    wanted = (
        np.repeat(np.arange(col.size), 3)
        if col.size < 5000
        else np.random.default_rng(0).integers(0, col.size, 5000)
    )
    array = col.decode(wanted, np.random.default_rng(1))
    # OTHER cannot be told apart from MISSING in a column of numbers
    if not pa.types.is_string(array.type):
        wanted = np.where((wanted == col.values) & col.other, col.missing_code, wanted)
    assert col.encode(c.read_cells(array)).tolist() == wanted.tolist()
    assert codes(col, array.to_pylist()) == wanted.tolist()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("categorical", pa.string()), ("ordered", pa.string()), ("numeric categories", pa.int64()), ("boolean", pa.bool_()),
        ("integer", pa.int64()), ("integer bins", pa.int64()), ("integer cuts", pa.int64()), ("year", pa.int64()), ("real", pa.float64()),
        ("date month", pa.date32()), ("date bins", pa.date32()), ("datetime hour", pa.timestamp("us")),
    ],
)  # fmt: skip
def test_cells_come_back_in_the_users_own_type(name: str, kind: pa.DataType) -> None:
    assert FULL[name].decode(np.arange(FULL[name].size), np.random.default_rng(0)).type == kind


def test_values_inside_a_bin_are_drawn_from_all_of_it() -> None:
    col = FULL["integer cuts"]
    drawn = col.decode(np.ones(2000, int), np.random.default_rng(0)).to_pylist()
    assert set(drawn) == set(range(18, 30))


@EVERY_COLUMN
def test_each_code_has_its_own_label(col: Column) -> None:
    labels = col.labels
    assert len(labels) == col.size == len(set(labels))
    assert (labels[-1] == "MISSING") == col.missing and ("OTHER" in labels) == col.other


@pytest.mark.parametrize(
    ("name", "code", "label"),
    [
        ("categorical", 3, "日本"), ("numeric categories", 0, "-3"), ("boolean", 1, "true"), ("integer", 0, "-2"),
        ("integer cuts", 1, "18 to 29"), ("real", 0, "-1.5 to -1.14062"), ("date year", 1, "2020"), ("date month", 2, "2020-01"),
        ("date day", 0, "2019-11-20"), ("date week", 1, "2019-11-25 to 2019-12-01"), ("date quarter", 1, "2020-01-01 to 2020-03-31"),
        ("datetime minute", 1, "2019-12-31T22:16"),
    ],
)  # fmt: skip
def test_labels_are_what_a_reader_expects(name: str, code: int, label: str) -> None:
    assert FULL[name].label(code) == label


def test_weeks_begin_on_monday_and_quarters_with_the_calendar() -> None:
    for name, starts in (
        ("date week", lambda d: d.weekday() == 0),
        ("date quarter", lambda d: d.day == 1 and d.month in (1, 4, 7, 10)),
    ):
        col = FULL[name]
        assert isinstance(col, Moment)
        inner = [dt.date(1970, 1, 1) + dt.timedelta(edge) for edge in col.edges[1:-1]]
        assert inner and all(starts(day) for day in inner)


def test_code_of_a_written_value() -> None:
    col = FULL["categorical"]
    assert [col.code_of(v) for v in ("no", 1, 2.5, True, "OTHER", "MISSING")] == [2, 5, 6, 7, 8, 9]
    plain = Number(name="x", integer=True, edges=(0.0, 1.0, 2.0))
    assert plain.code_of(1) == plain.code_of("1") == 1
    for value in ("OTHER", "MISSING", None, float("nan"), [1], "x"):
        with pytest.raises(SchemaError, match="has no value"):
            plain.code_of(value)


@pytest.mark.parametrize(
    ("column", "typed"),
    [
        ("integer cuts", [5, 999, 17, -3]),
        ("integer cuts", [5.0, 999.0, 1e300, -1e-200]),
        ("integer cuts", [True, False]),
        ("real", [1.5, float("inf"), float("-inf"), 1e300]),
        ("boolean", [True, False]),
    ],
)
def test_a_number_is_the_same_as_a_number_and_as_text(column: str, typed: list[Any]) -> None:
    """One bad cell makes pandas read a whole column as text; nobody else's code may move because of
    it.
    """
    col = dataclasses.replace(FULL[column], missing_values=("", "999"))
    assert (
        codes(col, typed)
        == codes(col, [str(value) for value in typed])
        == col.encode(c.read_cells(pa.array(typed))).tolist()
    )


def test_missing_values_match_by_value_typed_or_not() -> None:
    col = Categorical(
        name="x", categories=("1", "True", "nan"), missing=True, missing_values=("", "0", "99")
    )
    assert codes(col, [99, "99", 99.0, "99.0", "0", 0, "00"]) == [col.missing_code] * 7
    assert codes(col, ["1", 1, True, "true", "TRUE", "nan"]) == [0, 0, 1, 1, 1, 2]
    seen = dataclasses.replace(FULL["date month"], missing_values=("", "1900-01-01"))
    assert (
        codes(seen, ["1900-01-01", dt.date(1900, 1, 1), dt.datetime(1900, 1, 1)])
        == [seen.missing_code] * 3
    )
    number = dataclasses.replace(FULL["integer cuts"], missing_values=("", "True"))
    assert codes(number, [True, "True", "NaN", float("nan")]) == [number.missing_code] * 4
    with pytest.raises(SchemaError, match="missing value"):
        Categorical(name="x", categories=("9", "8"), missing_values=("09",))
