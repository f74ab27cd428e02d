"""Rules as people write them: read as meant, and judged as a slow reading of decoded values does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.ruled import Slow, ruled, rules
from understudy.constraints.rows import values_of
from understudy.constraints.rules import Rules
from understudy.errors import ParameterError, SchemaError
from understudy.queries.condition import Condition
from understudy.queries.grammar import Beside, Compared, Implies, Missing, Not, in_words, parse
from understudy.queries.outcomes import FALSE, OPEN, TRUE
from understudy.schema import Schema

BARE = ruled()
ROWS = 60


@settings(deadline=None, max_examples=150)
@given(rule=rules, seed=st.integers(0, 2**32))
def test_a_rule_means_for_values_what_a_slow_reading_says(
    rule: tuple[str, Slow], seed: int
) -> None:
    text, slow = rule
    read = Rules.of(ruled(text))
    (judge,) = (one.judge for one in read.alone)
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, ROWS) for size in BARE.shape]).astype(np.int32)
    table = BARE.decode(codes, rng)
    found = judge.outcomes(read.spans(codes, values_of(BARE, read, table)))
    bit = {True: TRUE, False: FALSE, None: OPEN}
    assert found.tolist() == [bit[slow(row)] for row in table.to_pylist()], text
    # what is known in bins leaves at least what there is
    assert ((judge.outcomes(read.spans(codes)) & found) == found).all(), text


@settings(deadline=None, max_examples=40)
@given(rule=rules, seed=st.integers(0, 2**32))
def test_ranges_of_codes_leave_what_each_of_their_codes_leaves(
    rule: tuple[str, Slow], seed: int
) -> None:
    """What the search for contradictions rests on."""
    read = Rules.of(ruled(rule[0]))
    (judge,) = (one.judge for one in read.alone)
    rng = np.random.default_rng(seed)
    ends = [np.sort(rng.integers(0, size, (2, ROWS)), axis=0) for size in BARE.shape]
    inside = np.column_stack([rng.integers(low, high + 1) for low, high in ends])
    spans = {c: read.axes[c].of_ranges(ends[c][0], ends[c][1]) for c in read.axes}
    found = judge.outcomes(read.spans(inside))
    assert ((judge.outcomes(spans) & found) == found).all(), rule[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("work = retired implies age >= 55", "if work is retired, then age is at least 55"),
        ("all of it = a + b", "all of it is a + b"),
        ("all of it >= a + b - 3", "all of it + 3 is at least a + b"),
        ("a - b != 2", "a is not b + 2"),
        ("end <= start + 30", "end is at most start + 30"),
        ("weight is not missing", "weight is not missing"),
        ("NOT drug OR age > 3 AND a = b", "not (drug is true) or (age is above 3 and a is b)"),
        ("zip determines region", "rows with the same zip have the same region"),
        ("zip, work determines region", "rows with the same zip and work have the same region"),
        ("`work` = `zip`", "work is zip"),
        ("age in (1, 30 to 39)", "age is 1 or 30 to 39"),
    ],
)
def test_rules_are_said_in_words(text: str, words: str) -> None:
    assert in_words(parse(text, BARE), BARE) == words


def test_implies_binds_least_and_to_the_right() -> None:
    one = parse("drug or a = 1 implies b = 2 implies a = 3", BARE)
    assert isinstance(one, Implies) and isinstance(one.conclusion, Implies)


def test_a_value_comes_before_a_column_of_its_name_and_backquotes_hold_names() -> None:
    schema = Schema.from_dict(
        {
            "fields": [
                {"name": "x", "type": "string", "constraints": {"enum": ["no", "y"]}},
                {"name": "y", "type": "string", "constraints": {"enum": ["no", "yes"]}},
                {"name": "p - q", "type": "boolean"},
            ]
        }
    )
    assert parse("x = y", schema) == Compared(0, "=", "y")
    assert parse("x = `y`", schema) == Beside(((1, 0), (-1, 1)), 0.0, "=")
    assert parse("p - q is missing", schema) == Missing(2)
    assert parse("`p - q` is not missing", schema) == Not(Missing(2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("work < b", "cannot be added or compared with numbers"),
        ("start <= a", "cannot be compared; compare numbers with numbers"),
        ("work < yes", "have no order"),
        ("work <= zip", "no order in common"),
        ("age = OTHER", "write 'age is missing'"),
        ("age < MISSING", "has no place in the order"),
        ("a = a", "twice in one comparison"),
        ("a = 77", "has no value '77'"),
        ("work", "is no yes/no column"),
        ("zip determines zip", "names a column twice"),
        ("zip determines region and a = 1", "cannot be read before 'and'"),
        ("not zip determines region", "cannot be read before"),
        ("a + = b", "cannot be read"),
        ("a is", "cannot be read at its end"),
        ("a is lost", "cannot be read before 'lost'"),
        ("towns = 3", "There is no column 'towns'"),
        ("a = b + towns", "There is no column 'towns'"),
        ("all of it = a+b", "a plus or minus stands between spaces"),
        ("(" * 60 + "drug" + ")" * 60, "nested more than 50 deep"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_rule_named(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Rules.of(ruled("drug or not drug", text))
    assert "Rule 2 of the schema" in str(caught.value)


# ---------------------------------------------------------------------- conditions on rows


@pytest.mark.parametrize(
    ("text", "those"),
    [
        ("a < b", lambda a, b, c: a < b),
        ("a + 1 >= b", lambda a, b, c: a + 1 >= b),
        ("a = b implies c = 1", lambda a, b, c: a != b or c == 1),
        ("c = a + b", lambda a, b, c: c == a + b),
        ("not a != b", lambda a, b, c: a == b),
        ("c > 1 + 1", lambda a, b, c: c > 2),
        ("a is missing", lambda a, b, c: False),
    ],
)
def test_conditions_have_the_same_grammar(text: str, those: object) -> None:
    schema = Schema.from_domain({"a": 3, "b": 4, "c": 6})
    rows = np.asarray([[a, b, c] for a in range(3) for b in range(4) for c in range(6)])
    found = Condition.parse(text, schema)
    assert found.holds(rows).tolist() == [bool(those(*row)) for row in rows.tolist()]  # type: ignore[operator]
    counted = sum(
        np.prod([len(box.get(c, range(schema.shape[c]))) for c in range(3)]) for box in found.boxes
    )
    assert counted == found.holds(rows).sum(), "no two boxes share a row"


def test_conditions_split_no_bins_and_choose_no_rows_together() -> None:
    with pytest.raises(ParameterError, match="no bin can be split"):
        Condition.parse("start <= end", BARE)
    with pytest.raises(ParameterError, match="as a rule of the schema"):
        Condition.parse("zip determines region", BARE)
    assert Condition.parse("age is missing", BARE).boxes == ({0: frozenset({10, 11})},)
