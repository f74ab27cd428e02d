"""Conditions as people write them: what they mean, how they are refused, and that their boxes never
overlap.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import UnderstudyError
from understudy.queries.condition import MOST_BOXES, Condition
from understudy.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M", "not said"]}},
            {
                "name": "home town",
                "type": "string",
                "constraints": {"enum": ["Bergen", "it's", "and"]},
            },
            {"name": "married", "type": "boolean"},
            {"name": "flag", "type": "string", "constraints": {"enum": ["male", "female"]}},
        ],
        "understudy": {"columns": {"age": {"cuts": [20, 30, 65], "missing": True}}},
    }
)
AGES, SEXES, TOWNS = SCHEMA.columns[0].labels, SCHEMA.columns[1].labels, SCHEMA.columns[2].labels
EVERY = np.asarray(list(itertools.product(*(range(size) for size in SCHEMA.shape))), np.int32)


def meant(condition: str) -> set[tuple[int, ...]]:
    return {tuple(row) for row in EVERY[Condition.parse(condition, SCHEMA).holds(EVERY)].tolist()}


def those(test: Any) -> set[tuple[int, ...]]:
    return {tuple(row) for row in EVERY.tolist() if test(*row)}


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("age < 30 and sex = 'F'", lambda a, s, t, m, f: a < 2 and s == 0),
        ("age < 30 AND NOT sex = F", lambda a, s, t, m, f: a < 2 and s != 0),
        ("age >= 30 or married", lambda a, s, t, m, f: a in (2, 3) or m == 1),
        ("not (age >= 30 or married)", lambda a, s, t, m, f: a not in (2, 3) and m == 0),
        (
            "married or sex = M and age = MISSING",
            lambda a, s, t, m, f: m == 1 or (s == 1 and a == 4),
        ),
        ("sex in (F, 'not said')", lambda a, s, t, m, f: s != 1),
        ("sex = not said", lambda a, s, t, m, f: s == 2),
        (
            "sex not in ('F', 'M') and home town == \"it's\"",
            lambda a, s, t, m, f: s == 2 and t == 1,
        ),
        ("`home town` <> 'and'", lambda a, s, t, m, f: t != 2),
        ("home town = 'it''s'", lambda a, s, t, m, f: t == 1),
        ("not not married", lambda a, s, t, m, f: m == 1),
        ("age < 20 and age > 64", lambda a, s, t, m, f: False),
        ("((sex = F))or(sex=M)", lambda a, s, t, m, f: s < 2),
        ("age < 30 or age >= 20 or not married or married", lambda a, s, t, m, f: True),
    ],
)
def test_what_conditions_mean(text: str, test: Any) -> None:
    assert meant(text) == those(test)


def test_a_condition_says_what_it_came_to() -> None:
    found = Condition.parse("age < 20 and sex = F", SCHEMA)
    assert found.words == f"age is {AGES[0]}, sex is F"
    assert Condition.parse("age < 0 and sex = F", SCHEMA).words == "no row at all"
    assert Condition.parse("married or not married", SCHEMA).words.startswith("married is")


BINNED = Schema.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "crp", "type": "number", "constraints": {"minimum": 0, "maximum": 100}},
            {
                "name": "seen",
                "type": "datetime",
                "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31T23:59:59"},
            },
        ],
        "understudy": {
            "columns": {
                "age": {"bins": 10, "missing": True},
                "crp": {"bins": 3},
                "seen": {"resolution": "month"},
            }
        },
    }
)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("age >= 43", "its edges near 43 are 40 and 50: ask for 'age >= 40' or 'age >= 50'"),
        ("age > 40", "ask for 'age >= 40' or 'age >= 50'"),
        ("age < 33", "ask for 'age < 30' or 'age < 40'"),
        ("age < 5", "its edges near 5 are 0 and 10: ask for 'age < 10'."),
        ("age <= 40", "ask for 'age < 40' or 'age < 50'"),
        ("age = 33", "ask for 'age = 30 to 39'"),
        ("age != 33", "ask for 'age != 30 to 39'"),
        ("age in (1, 33)", "ask for 'age = 0 to 9'"),
        ("age = 100", "ask for 'age = 90 to 99'"),
        ("crp >= 3", "its edges near 3 are 0 and 33.3333: ask for 'crp >= 33.3333'."),
        ("crp <= 33.3333", "ask for 'crp < 33.3333' or 'crp < 66.6667'"),
        ("crp = 33.3333", "ask for 'crp = 33.3333 to 66.6667'"),
        (
            "seen < 2024-03-05",
            "ask for 'seen < 2024-03-01T00:00:00' or 'seen < 2024-04-01T00:00:00'",
        ),
    ],
)
def test_no_bin_is_split_and_the_edges_near_are_named(text: str, advice: str) -> None:
    with pytest.raises(UnderstudyError, match="no bin can be split") as caught:
        Condition.parse(text, BINNED)
    assert advice in str(caught.value)
    for asked in str(caught.value).split("'")[1::2][2:]:  # what is proposed can be asked
        assert Condition.parse(asked, BINNED).boxes


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("age >= 40", range(4, 10)),
        ("age > 39", range(4, 10)),
        ("age > 39.5", range(4, 10)),
        ("age <= 39", range(4)),
        ("age < 40.0", range(4)),
        ("age < 100", range(10)),
        ("age <= 99", range(10)),
        ("age = 30 to 39", [3]),
        ("age >= 30 to 39", range(3, 10)),
        ("crp >= 33.3333", [1, 2]),
        ("crp < 33.333333333333336", [0]),
        ("crp <= 100", [0, 1, 2]),
        ("seen < 2024-03-01", [0, 1]),
        ("seen <= 2024-02-29T23:59:59", [0, 1]),
        ("seen <= 2024-03", [0, 1, 2]),
    ],
)
def test_a_value_at_an_edge_means_whole_bins(text: str, codes: Any) -> None:
    (box,) = Condition.parse(text, BINNED).boxes
    assert list(box.values()) == [frozenset(codes)]


@pytest.mark.parametrize(
    "text",
    ["", "  ", "age <", "< 30", "age < 30 and", "age < 30 sex = F", "(age < 30", "age < 30)", "sex in F", "sex in ()", "sex in (F",
     "and", "not", "sex = 'F", "age ! 3", "shoe = 3", "AGE < 3", "sex = X", "age", "sex in (F,)", "age < < 3",
     "sex < M", "home town >= and", "age < MISSING", "flag", "10 <= age < 30",
     "(" * 100 + "married" + ")" * 100, "m" * 20_000, None, 7],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_a_sentence(text: Any) -> None:
    with pytest.raises(UnderstudyError) as caught:
        Condition.parse(text, SCHEMA)
    assert str(caught.value).strip().endswith(".")


def test_too_many_alternatives_are_refused() -> None:
    wide = Schema.from_domain({f"c{i}": 3 for i in range(40)})
    tangled = " and ".join(f"(c{2 * i} = 0 or c{2 * i + 1} = 1)" for i in range(20))
    with pytest.raises(UnderstudyError, match=str(MOST_BOXES)):
        Condition.parse(tangled, wide)


ATOMS = st.sampled_from(
    [
        "a = 0",
        "a != 1",
        "a in (0, 2)",
        "b < 2",
        "b >= 3",
        "b not in (1, 3)",
        "c",
        "c = 0",
        "a <= 1",
    ],
)
TEXTS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda t: f"({t[0]}) {t[1]} ({t[2]})"
        ),
        inner.map(lambda t: f"not ({t})"),
    ),
    max_leaves=6,
)
SMALL = Schema.from_domain({"a": 3, "b": 4, "c": 2})
CELLS = np.asarray(list(itertools.product(range(3), range(4), range(2))), np.int32)


def judged(text: str, row: tuple[int, ...]) -> bool:
    """The condition as Python reads it: an independent reading of the same grammar."""
    a, b, c = row
    return bool(eval(text.replace(" = ", " == "), {"__builtins__": {}}, {"a": a, "b": b, "c": c}))


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_any_condition_means_what_python_says_and_its_boxes_share_no_row(text: str) -> None:
    found = Condition.parse(text, SMALL)
    expected = [judged(text, tuple(row)) for row in CELLS.tolist()]
    assert found.holds(CELLS).tolist() == expected
    covered = sum(Condition(SMALL, (box,)).holds(CELLS).astype(int) for box in found.boxes)
    assert np.max(covered) <= 1
