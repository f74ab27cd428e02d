"""Columns on their grids: a cell's place depends on that cell alone, and its bin on its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import ANY_CELL, COLUMNS, ODD_CELLS, column
from understudy.errors import SchemaError
from understudy.schema import Column, Schema
from understudy.schema.cells import read_objects
from understudy.schema.detail import MOST_ASKED, Detail, detail_of

DETAILS = [(name, detail) for name, one in COLUMNS if (detail := detail_of(one)) is not None]
EVERY_DETAIL = pytest.mark.parametrize(
    "detail", [one for _, one in DETAILS], ids=[name for name, _ in DETAILS]
)
AGE = {"kind": "integer", "constraints": {"minimum": 0, "maximum": 99}}
INCOME = {"kind": "number", "constraints": {"minimum": 0, "maximum": 150_000}}
BORN = {"kind": "date", "constraints": {"minimum": "1935-01-01", "maximum": "2006-12-31"}}
SEEN = {"kind": "datetime", "constraints": {"minimum": "2023-07-01", "maximum": "2025-06-30"}}


def of(**how: Any) -> Detail:
    detail = detail_of(column(**how))
    assert detail is not None
    return detail


def coarse_of(detail: Detail, codes: np.ndarray) -> np.ndarray:
    """The codes in bins that codes on the grid have: OTHER and MISSING keep their places."""
    others = np.arange(detail.fine.size - detail.fine.values) + detail.coarse.values
    return np.concatenate([detail.bins, others])[codes]


def test_many_kinds_of_columns_have_a_grid() -> None:
    assert len(DETAILS) > 30 and {one.fine.kind for _, one in DETAILS} >= {
        "integer",
        "real",
        "date",
    }


@EVERY_DETAIL
def test_the_bin_of_every_odd_cell_is_that_of_its_place(detail: Detail) -> None:
    cells = read_objects(ODD_CELLS)
    fine = detail.fine.encode(cells)
    assert (fine >= 0).all() and (fine < detail.fine.size).all()
    assert coarse_of(detail, fine).tolist() == detail.coarse.encode(cells).tolist()


@settings(deadline=None)
@given(st.sampled_from([one for _, one in DETAILS]), st.lists(ANY_CELL, max_size=6))
def test_the_bin_of_any_cell_is_that_of_its_place(detail: Detail, listed: list[Any]) -> None:
    fine = detail.fine.encode(read_objects(listed))
    alone = [int(detail.fine.encode(read_objects([cell]))[0]) for cell in listed]
    assert fine.tolist() == alone, "a place depends on its own cell"
    coarse = detail.coarse.encode(read_objects(listed))
    assert coarse_of(detail, fine).tolist() == coarse.tolist()


@EVERY_DETAIL
def test_what_is_drawn_in_a_cell_lies_in_it_on_the_step(detail: Detail) -> None:
    rng = np.random.default_rng(0)
    cells = np.concatenate([np.arange(min(detail.fine.values, 3_000))] * 2)
    inside = rng.random(len(cells)) * (1 - 2.0**-53)
    at = detail.positions(cells, inside)
    low, high = (np.asarray(detail.fine.edges)[cells + i] for i in (0, 1))
    assert (at >= low).all()
    assert ((at < high) | (cells == detail.fine.values - 1)).all()
    assert (at <= detail.fine.edges[-1] - detail.fine.whole).all()
    if detail.grid.step:
        _, count = (one[cells] for one in detail.points)
        steps = at / detail.grid.step
        assert np.abs(steps - np.round(steps))[count > 0].max(initial=0) < 1e-6


@pytest.mark.parametrize(
    ("how", "cells", "step", "tables"),
    [
        ({**AGE, "bins": 5}, 100, 1, ["values"]),
        ({**INCOME, "cuts": [12_000, 40_000]}, 3_000, 10, ["values", "runs", "rhythm"]),
        ({**INCOME, "cuts": [12_000], "step": 10, "detail": 1_000}, 300, 10, None),
        ({**INCOME, "cuts": [12_000], "decimals": 0, "detail": 500}, 600, 1, None),
        ({**BORN, "bins": 6}, 864, 1, ["values", "runs"]),
        ({**SEEN, "resolution": "quarter"}, 731 * 24 - 23, 60, ["values", "runs", "rhythm"]),
        ({**SEEN, "resolution": "quarter", "detail": "day"}, 731, 60, None),
    ],
)
def test_the_public_rule(
    how: dict[str, Any], cells: int, step: float, tables: list[str] | None
) -> None:
    detail = of(**how)
    assert (detail.fine.values, detail.grid.step) == (cells, step)
    assert tables is None or list(detail.tables) == tables
    for table in detail.tables.values():
        assert len(table) == detail.fine.size and set(table) == set(range(table.max() + 1))


def test_round_left_ends_have_cells_of_their_own() -> None:
    detail = of(**INCOME, bins=10)
    cells = read_objects([25_000, 25_010, 25_099, 25_100])
    assert np.diff(detail.fine.encode(cells)).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "one",
    [
        column(**AGE),
        column(**AGE, bins=5, detail=False),
        column(kind="boolean"),
        column(kind="string", constraints={"enum": ["a"]}),
    ],
    ids=["single values", "not wanted", "boolean", "categories"],
)
def test_some_columns_have_no_grid(one: Column) -> None:
    assert detail_of(one) is None


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({**AGE, "detail": 0}, "number above 0, true or false"),
        ({**AGE, "detail": "fine"}, "number above 0, true or false"),
        ({**AGE, "detail": 2.5}, "whole number"),
        ({**AGE, "decimals": 1}, "no use for the setting 'decimals'"),
        ({**INCOME, "step": -1}, "a number above 0"),
        ({**INCOME, "decimals": 13}, "from 0 to 12"),
        ({**INCOME, "decimals": 1, "step": 10}, "both step and decimals"),
        ({**INCOME, "step": 10, "detail": 5}, "below its step"),
        ({**INCOME, "detail": 1e-3}, f"more than {MOST_ASKED:,} cells"),
        ({**BORN, "detail": "hour"}, "true, false or one of"),
        ({**BORN, "step": "month"}, "one of day"),
        ({**SEEN, "detail": "second"}, f"more than {MOST_ASKED:,} cells"),
        ({**SEEN, "detail": 7}, "true, false or one of"),
        ({"kind": "boolean", "detail": True}, "no use for the setting 'detail'"),
    ],
)
def test_what_makes_no_sense_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError) as problem:
        column(**how)
    assert words in str(problem.value) and str(problem.value).endswith(".")


def test_settings_are_written_and_read_back_and_others_leave_no_trace() -> None:
    fields = [
        {"name": "income", "type": "number", "constraints": {"minimum": 0, "maximum": 10}},
        {"name": "seen", "type": "datetime", "constraints": SEEN["constraints"]},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}},
    ]
    block = {"income": {"bins": 4, "decimals": 2, "detail": 0.5}, "seen": {"step": "hour"}}
    schema = Schema.from_dict({"fields": fields, "understudy": {"columns": block}})
    assert Schema.from_dict(schema.to_dict()) == schema
    written = schema.to_dict()["understudy"]["columns"]
    assert written["income"] == {"detail": 0.5, "step": 0.01, "bins": 4}
    assert written["age"] == {"bins": 10}


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from([0.0, 1e-9, 7.0, 118.831, -6105.68, 1.35586e9, 1e12, 4.79895e12]),
    st.floats(1e-3, 1e6),
    st.integers(-17, 6),
    st.sampled_from([1.0, 2.5, 3.0, 3.3333333333]),
    st.booleans(),
)
def test_no_step_however_fine_takes_a_value_out_of_its_bin(
    low: float, span: float, digits: int, times: float, asked: bool
) -> None:
    bounds = {"minimum": low, "maximum": low + span}
    step = {"step": float(f"{times * 10.0**digits:.11g}")} if asked else {}
    try:
        detail = detail_of(column(kind="number", constraints=bounds, bins=7, **step))
    except SchemaError:
        return
    if detail is None:
        return
    cells = np.arange(detail.fine.values)
    for inside in (0.0, 0.5, 1 - 2.0**-53):
        at = detail.positions(cells, np.full(len(cells), inside))
        bins = np.searchsorted(detail.coarse.edges, at, side="right") - 1
        assert (np.minimum(bins, detail.coarse.values - 1) == detail.bins).all()


@pytest.mark.parametrize("how", [{"step": 1e-15}, {"decimals": 12}])
def test_a_step_that_doubles_cannot_tell_apart_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="wider step"):
        column(kind="number", constraints={"minimum": 0, "maximum": 10**12}, **how)
