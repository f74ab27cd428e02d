"""Rows that are made to keep rules, by codes and by values; checked by a slow reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy as us
from support.ruled import TWENTY, Slow, ruled, rules
from understudy.constraints import rows as rows_module
from understudy.constraints.repair import repaired, tied_as
from understudy.constraints.rows import counts, rows_that_keep
from understudy.constraints.rules import Rules
from understudy.constraints.search import check_rules
from understudy.errors import SchemaError
from understudy.game.fitting.values import Values

BARE = ruled()


def some_rows(schema: us.Schema, number: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, number) for size in schema.shape]).astype(
        np.int32
    )


def kept(schema: us.Schema, codes: np.ndarray, seed: int = 1) -> Any:
    found = rows_that_keep(Rules.of(schema), codes, np.random.default_rng(seed))
    assert schema.shows(found.table, found.codes), "what is decoded has these codes"
    assert found.table.schema == schema.decode(codes, np.random.default_rng(0)).schema
    return found


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(some=st.lists(rules, min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_every_row_keeps_every_rule_by_a_slow_reading(
    some: list[tuple[str, Slow]], seed: int
) -> None:
    schema = ruled(*(text for text, _ in some))
    try:
        check_rules(Rules.of(schema))
    except SchemaError:
        return  # they contradict each other
    found = kept(schema, some_rows(schema, 200, seed), seed)
    broken = [text for text, slow in some for row in found.table.to_pylist() if slow(row) is False]
    assert not broken


def test_twenty_rules_and_who_counts_them() -> None:
    schema = ruled(*TWENTY)
    found = kept(schema, some_rows(schema, 3_000))
    told = list(counts(Rules.of(schema), found.codes, found.table))
    assert len(told) == 20 and not any(one.broken for one in told)
    rows = found.table.to_pylist()
    retired = [row for row in rows if row["work"] == "retired" and row["age"] is not None]
    assert told[0].touched == len(retired) > 50 and all(row["age"] >= 55 for row in retired)
    assert all(row["all of it"] == row["a"] + row["b"] for row in rows)
    regions = {(r["zip"], r["region"]) for r in rows if r["region"] is not None}
    assert len(regions) == len({place for place, _ in regions})


def test_rows_that_keep_the_rules_stay_as_they_are() -> None:
    schema = ruled(*TWENTY)
    codes = kept(schema, some_rows(schema, 500)).codes
    again = kept(schema, codes, seed=2)
    assert again.changed == 0 and np.array_equal(again.codes, codes)
    found = rows_that_keep(Rules.of(BARE), codes, np.random.default_rng(3))
    assert found.codes is codes, "without rules nothing is copied"
    assert found.table.equals(BARE.decode(codes, np.random.default_rng(3)))


def test_one_column_is_changed_where_one_will_do() -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [{"name": n, "type": "boolean"} for n in "abcdef"],
            "understudy": {"rules": ["a implies b", "a implies c", "d implies e"]},
        }
    )
    codes = some_rows(schema, 400)
    found = repaired(Rules.of(schema), codes, np.random.default_rng(0)).codes
    differ = (found != codes).sum(axis=1)
    broken = codes[:, 0] & (1 - codes[:, 1] & codes[:, 2])
    a, b, c, d, e = (codes[:, i] for i in range(5))
    wanted = ((a == 1) & ((b == 0) | (c == 0))).astype(int) + ((d == 1) & (e == 0))
    assert broken.any() and np.array_equal(differ, wanted)


def test_repairs_take_values_that_other_rows_have() -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": "x", "type": "integer", "constraints": {"minimum": 0, "maximum": 49}},
                {"name": "y", "type": "boolean"},
            ],
            "understudy": {"rules": ["y implies x >= 20"]},
        }
    )
    codes = np.asarray([[3, 1], [40, 1], [41, 1], [3, 0]] * 50, np.int32)
    found = repaired(Rules.of(schema), codes, np.random.default_rng(0)).codes
    assert set(found[:, 0]) <= {3, 40, 41}


def test_rows_of_which_none_keeps_the_rules_become_the_one_that_was_searched_for() -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": n, "type": "integer", "constraints": {"minimum": 0, "maximum": 30}}
                for n in "abc"
            ],
            "understudy": {"rules": ["a + b = c", "a > 11", "b > 11", "a != b"]},
        }
    )
    found = kept(schema, np.zeros((20, 3), np.int32))
    assert not any(one.broken for one in counts(Rules.of(schema), found.codes, found.table))


def test_bins_that_hold_no_value_together_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule can be kept in these bins, both cannot: what codes alone do not tell."""
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": n, "type": "integer", "constraints": {"minimum": 0, "maximum": 39}}
                for n in "xy"
            ],
            "understudy": {
                "columns": {"x": {"bins": 4}, "y": {"bins": 4}},
                "rules": ["x < y", "x > y - 2", "x in (9, 25)"],
            },
        }
    )
    codes = some_rows(schema, 300)
    codes[0] = [0, 0]
    monkeypatch.setattr(rows_module, "DRAWS", 2)  # so that a search is needed
    found = kept(schema, codes)
    cells = {(row["x"], row["y"]) for row in found.table.to_pylist()}
    assert cells == {(9, 10), (25, 26)}


def test_sums_of_real_numbers_come_out() -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": n, "type": "number", "constraints": {"minimum": 0, "maximum": 3e6}}
                for n in ("part", "rest", "whole")
            ],
            "understudy": {"rules": ["whole = part + rest"]},
        }
    )
    found = kept(schema, some_rows(schema, 2_000))
    part, rest, whole = (found.table[name].to_numpy() for name in ("part", "rest", "whole"))
    assert np.abs(part + rest - whole).max() <= 3e6 * 1e-9
    assert len(np.unique(whole)) > 1_900, "drawn, not all the same"


@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_moments_keep_their_type_and_order(kind: str) -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [
                {
                    "name": n,
                    "type": kind,
                    "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-30"},
                }
                for n in ("start", "end")
            ],
            "understudy": {
                "columns": {"end": {"missing": True}},
                "rules": ["start <= end", "end < start + 20"],
            },
        }
    )
    found = kept(schema, some_rows(schema, 1_000))
    gaps = [row["end"] - row["start"] for row in found.table.to_pylist() if row["end"] is not None]
    most = 20 * 86400 if kind == "date" else 20  # days, or seconds
    assert len(gaps) > 100 and all(0 <= gap.total_seconds() < most for gap in gaps)


def test_a_tie_gives_one_value_even_inside_a_bin() -> None:
    schema = ruled("zip, drug determines weight")
    found = kept(schema, some_rows(schema, 800))
    (told,) = counts(Rules.of(schema), found.codes, found.table)
    assert told.broken == 0 and told.touched > 500
    rows = found.table.to_pylist()
    pairs = {(r["zip"], r["drug"], r["weight"]) for r in rows if r["weight"] is not None}
    assert len(pairs) == 10


def test_ties_take_the_commonest_value_and_new_rows_the_mapping_of_the_old() -> None:
    schema = ruled("zip determines region")
    codes = some_rows(schema, 400)
    codes[:, 10] = np.where(np.arange(400) % 3 > 0, codes[:, 9] % 3, codes[:, 10])
    found = kept(schema, codes)
    has = found.codes[:, 10] < 3
    assert np.array_equal(found.codes[has, 10], found.codes[has, 9] % 3)
    as_before = tied_as(Rules.of(schema), found.codes)
    new = rows_that_keep(as_before, some_rows(schema, 200, 9), np.random.default_rng(0)).codes
    has = new[:, 10] < 3
    assert np.array_equal(new[has, 10], new[has, 9] % 3)


def test_counts_see_a_broken_value() -> None:
    schema = ruled(*TWENTY)
    found = kept(schema, some_rows(schema, 300))
    columns = {name: found.table[name].to_pylist() for name in schema.names}
    columns["all of it"][7] += 1
    table = pa.table(columns, schema=found.table.schema)
    told = {one.rule.text: one.broken for one in counts(Rules.of(schema), found.codes, table)}
    assert told.pop("`all of it` = a + b") == 1 and not any(told.values())


def test_sums_keep_their_decimals() -> None:
    """What adding doubles leaves behind is no digit that anybody wrote."""
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": n, "type": "number", "constraints": {"minimum": 0, "maximum": 300}}
                for n in ("part", "rest", "whole")
            ],
            "understudy": {
                "columns": {n: {"decimals": 2} for n in ("part", "rest", "whole")},
                "rules": ["whole = part + rest"],
            },
        }
    )
    codes, values = some_rows(schema, 1_000), Values.unknown(schema)
    found = rows_that_keep(Rules.of(schema), codes, np.random.default_rng(1), values)
    assert not any(one.broken for one in counts(Rules.of(schema), found.codes, found.table))
    cells = np.concatenate([found.table[name].to_numpy() for name in schema.names])
    short = np.asarray([len(f"{cell!r}".partition(".")[2]) <= 2 for cell in cells.tolist()])
    assert short.mean() > 0.99, "values that had to be searched for may have more"
