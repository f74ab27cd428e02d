"""Rules of a schema: what is read, refused and found to be a contradiction."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from support.ruled import TWENTY, ruled
from understudy.constraints import search
from understudy.constraints.rules import Rules
from understudy.constraints.search import check_rules, find_row
from understudy.errors import SchemaError

PLAIN = us.Schema.from_domain({"a": 6, "b": 6, "c": 9, "d": 4})
EVERY = np.asarray(list(itertools.product(*(range(size) for size in PLAIN.shape))), np.int32)


def read(*rules: Any, schema: us.Schema = PLAIN) -> Rules:
    return Rules.of(replace(schema, rules=rules))


def test_rules_belong_to_the_schema_and_its_file(tmp_path: Path) -> None:
    schema = ruled("a <= b", {"name": "sum", "rule": "`all of it` = a + b"})
    for name in ("s.yaml", "s.json"):
        schema.save(tmp_path / name)
        assert us.Schema.load(tmp_path / name) == schema
    assert schema.digest != ruled().digest and "rules" not in ruled().to_dict()["understudy"]
    assert [rule.name for rule in Rules.of(schema)] == ["a <= b", "sum"]
    assert not Rules.of(ruled())


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("a <= b", "are a list"),
        ([3], "neither a text nor a mapping"),
        ([{"rule": "a <= b", "nam": "x"}], "did you mean 'name'"),
        ([{"rule": "a <= b", "mapping": {"0": "1"}}], "A mapping belongs to"),
        ([{"rule": "a determines b", "mapping": {"9": "1"}}], "has no value '9'"),
        ([{"rule": "a, b determines c", "mapping": {"0": "1"}}], "name one"),
        ([""], "Rule 1 of the schema"),
    ],
)
def test_what_is_no_rule_is_refused(rules: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read(*rules) if isinstance(rules, list) else replace(PLAIN, rules=rules)


def test_items_have_no_rules() -> None:
    with pytest.raises(SchemaError, match="a list of items has none"):
        replace(us.Schema.items(["x", "y"]), rules=["x implies y"])


def test_a_mapping_names_values_not_parts_of_bins() -> None:
    with pytest.raises(SchemaError, match="a part of the bin 30 to 39"):
        Rules.of(ruled({"rule": "age determines zip", "mapping": {"33": "01"}}))
    rules = Rules.of(ruled({"rule": "zip determines region", "mapping": {"01": "N", "02": "S"}}))
    codes = np.zeros((5, 11), np.int32)
    codes[:, 9], codes[:, 10] = [0, 0, 1, 2, 0], [0, 1, 1, 2, 3]  # the last is missing
    assert rules.allows(codes).tolist() == [True, False, True, True, True]


def test_a_column_that_a_tie_chooses_in_bins_stands_in_no_other_rule() -> None:
    with pytest.raises(SchemaError, match="give it a bin for each value"):
        Rules.of(ruled("zip determines weight", "weight >= 2"))


# ---------------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (("a < b", "d = 1", "b < c", "c < a"), ("a < b", "b < c", "c < a")),
        (("a <= 2", "c = 8", "c = a + b"), ("a <= 2", "c = 8", "c = a + b")),
        (("a > 3", "b = 1", "a < 2"), ("a > 3", "a < 2")),
        (("a + b > 12",), ("a + b > 12",)),
        (("a = 1 or a = 2", "not a = 1", "a != 2"), ("a = 1 or a = 2", "not a = 1", "a != 2")),
    ],
)
def test_contradictions_are_named_by_their_smallest_set(
    rules: tuple[str, ...], named: tuple[str, ...]
) -> None:
    with pytest.raises(SchemaError) as caught:
        check_rules(read(*rules))
    assert {one for one in rules if f"'{one}'" in str(caught.value)} == set(named)


PIECES = ("a < b", "c = a + b", "d = 1 implies c > 6", "d != 1", "b = 2", "a >= d", "c <= 1")


@settings(deadline=None, max_examples=100)
@given(some=st.lists(st.sampled_from((*PIECES, *(f"not ({one})" for one in PIECES))), min_size=1))
def test_a_row_is_found_exactly_where_there_is_one(some: list[str]) -> None:
    rules = read(*dict.fromkeys(some))
    there = rules.allows(EVERY).any()
    if there:
        check_rules(rules)
        for _, group in rules.groups:
            found = find_row(rules, group)
            assert found.codes is not None
            row = np.asarray([[found.codes.get(c, 0) for c in range(4)]])
            assert rules.only(group).allows(row).all()
    else:
        with pytest.raises(SchemaError, match="No row can keep"):
            check_rules(rules)


def test_empty_cells_are_no_way_out_of_a_contradiction_unless_a_rule_speaks_of_them() -> None:
    with pytest.raises(SchemaError, match="'weight < 1' and 'weight > 2'"):
        check_rules(Rules.of(ruled("weight < 1", "weight > 2")))
    check_rules(Rules.of(ruled("weight < 1", "weight > 2", "drug implies weight is missing")))


def test_values_inside_bins_decide() -> None:
    """Codes alone would do: both bins reach over the bounds."""
    check_rules(Rules.of(ruled("age >= 33", "age <= 33")))
    with pytest.raises(SchemaError, match="No row can keep these rules together"):
        check_rules(Rules.of(ruled("age > 33", "age < 34")))
    with pytest.raises(SchemaError, match="No row can keep these rules together"):
        check_rules(Rules.of(ruled("end <= start - 3", "end > start - 3")))


def test_what_is_not_found_in_time_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_BOXES", 1)
    monkeypatch.setattr(search, "find_row", lambda *rest: search.NONE)
    with pytest.raises(SchemaError, match="No row was found that keeps the rules"):
        check_rules(read("c = a + b", "d > 1"))


def test_twenty_rules_go_together() -> None:
    check_rules(Rules.of(ruled(*TWENTY)))
    assert len(Rules.of(ruled(*TWENTY))) == 20
