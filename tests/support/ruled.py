"""Tables with rules, and a slow reading of rules on decoded values, by Python's own comparisons."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from understudy.schema import Schema

FIELDS: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    {"name": "weight", "type": "number", "constraints": {"minimum": 0, "maximum": 8}},
    {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}},
    {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}},
    {"name": "all of it", "type": "integer", "constraints": {"minimum": 0, "maximum": 20}},
    {
        "name": "start",
        "type": "date",
        "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
    },
    {
        "name": "end",
        "type": "date",
        "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
    },
    {"name": "work", "type": "string", "constraints": {"enum": ["yes", "retired", "it's", "no"]}},
    {"name": "drug", "type": "boolean"},
    {"name": "zip", "type": "string", "constraints": {"enum": ["01", "02", "03", "04", "05"]}},
    {"name": "region", "type": "string", "constraints": {"enum": ["N", "S", "E"]}},
]
COLUMNS = {
    "age": {"bins": 10, "missing": True, "other": True},
    "weight": {"bins": 4, "missing": True},
    "all of it": {"cuts": [3, 4, 11]},
    "start": {"resolution": "month"},
    "end": {"resolution": "month", "missing": True},
    "work": {"missing": True, "other": True},
    "region": {"missing": True},
}


def ruled(*rules: Any) -> Schema:
    """A table of all kinds of columns, and these rules."""
    block = {"columns": COLUMNS, **({"rules": list(rules)} if rules else {})}
    return Schema.from_dict({"fields": FIELDS, "understudy": block})


TWENTY = (
    "work = 'retired' implies age >= 55",
    'work = "it\'s" implies age < 45',
    "start <= end",
    "end <= start + 200",
    "`all of it` = a + b",
    "zip determines region",
    "not drug implies a = 0",
    "drug implies weight is not missing",
    "drug implies weight >= 1.5",
    "age >= b",
    "work = no implies b <= 7",
    "age < 18 implies work != retired",
    'age < 16 implies work in (no, "it\'s")',
    "a != 9 or b != 9",
    "a <= 8",
    "zip = '01' implies region != E",
    "region = S implies b >= 1",
    "weight is missing implies age is not missing",
    "b + 1 >= a - 5",
    "start >= 2020-01-03",
)

Row = dict[str, Any]
Slow = Callable[[Row], bool | None]  # None where it stays open
LESS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def _compared(left: Callable[[Row], Any], sign: str, right: Callable[[Row], Any]) -> Slow:
    def slow(row: Row) -> bool | None:
        x, y = left(row), right(row)
        return None if x is None or y is None else LESS[sign](x, y)

    return slow


def _sum(*names: str, plus: int = 0) -> Callable[[Row], Any]:
    def total(row: Row) -> Any:
        cells = [row[name] for name in names]
        return None if None in cells else sum(cells) + plus

    return total


def _days(name: str, plus: int = 0) -> Callable[[Row], Any]:
    return lambda row: None if row[name] is None else row[name] + dt.timedelta(days=plus)


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, Slow]:
    """(a comparison as people write it, the same in Python)."""
    sign = draw(st.sampled_from(sorted(LESS)))
    whole = draw(st.integers(0, 9))
    return draw(
        st.sampled_from(
            [
                (f"age {sign} {whole * 11}", _compared(_sum("age"), sign, lambda r: whole * 11)),
                (
                    f"weight {sign} {whole / 2}",
                    _compared(_sum("weight"), sign, lambda r: whole / 2),
                ),
                (f"a {sign} b", _compared(_sum("a"), sign, _sum("b"))),
                (
                    f"`all of it` {sign} a + b",
                    _compared(_sum("all of it"), sign, _sum("a", "b")),
                ),
                (
                    f"a + {whole} {sign} age - b",
                    _compared(_sum("a", "b", plus=whole), sign, _sum("age")),
                ),
                (
                    f"end {sign} start + {whole * 9}",
                    _compared(_days("end"), sign, _days("start", whole * 9)),
                ),
                ("drug", lambda r: r["drug"]),
                ("work = 'it''s'", lambda r: None if r["work"] is None else r["work"] == "it's"),
                (
                    'work not in (yes, "it\'s")',
                    lambda r: None if r["work"] is None else r["work"] not in ("yes", "it's"),
                ),
                ("work = OTHER", lambda r: None if r["work"] is None else r["work"] == "OTHER"),
                ("age is missing", lambda r: r["age"] is None),
                ("weight is not missing", lambda r: r["weight"] is not None),
                ("work != MISSING", lambda r: r["work"] is not None),
            ]
        )
    )


def _not(slow: Slow) -> Slow:
    return lambda row: None if slow(row) is None else not slow(row)


def _and(one: Slow, other: Slow) -> Slow:
    def slow(row: Row) -> bool | None:
        found = (one(row), other(row))
        return False if False in found else None if None in found else True

    return slow


def _extended(
    inner: st.SearchStrategy[tuple[str, Slow]],
) -> st.SearchStrategy[tuple[str, Slow]]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda p: (f"not ({p[0]})", _not(p[1]))),
        pairs.map(lambda p: (f"({p[0][0]}) and ({p[1][0]})", _and(p[0][1], p[1][1]))),
        pairs.map(
            lambda p: (f"({p[0][0]}) or ({p[1][0]})", _not(_and(_not(p[0][1]), _not(p[1][1]))))
        ),
        pairs.map(
            lambda p: (f"({p[0][0]}) implies ({p[1][0]})", _not(_and(p[0][1], _not(p[1][1]))))
        ),
    )


rules = st.recursive(questions(), _extended, max_leaves=5)
