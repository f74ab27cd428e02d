"""What Hypothesis draws for fuzz tests: workloads as text, items, and arguments of public functions
of which few are wrong.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st

import understudy as us
from support.tables import ANY_CELL, ANY_TEXT, ODD_VALUES, PEOPLE

ODD = (
    st.sampled_from(ODD_VALUES)
    | st.deferred(lambda: st.lists(ODD, max_size=2) | st.tuples(ODD, ODD))
    | ANY_TEXT
)
BASKET = us.Schema.items(["bread", "milk", "tea", "no", "1"], density=0.2)
# Columns that a YAML file or the language of queries could take for something else.
UNLUCKY = us.Schema(
    (
        us.Boolean(name="not", missing=True),
        us.Categorical(name="t", categories=("yes", "null", "1e3", "~", "2020-01-01"), other=True),
        us.Number(name="1", integer=True, edges=(0, 1, 2, 3)),
        us.Categorical(name="true", categories=("it's", "a: b", "- x", "#")),
        us.Number(name="a b, é", integer=False, edges=(-1.5, 0.0, 2.5), missing=True),
    )
)
ASKED = st.sampled_from([PEOPLE, BASKET, UNLUCKY])


@st.composite
def arguments(draw: st.DrawFn, **good: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Arguments by name, at most two of them odd."""
    wrong = draw(st.lists(st.sampled_from(sorted(good)), max_size=2))
    return {name: draw(ODD if name in wrong else strategy) for name, strategy in good.items()}


# ---------------------------------------------------------------------- plain data that is nearly right

JSON_VALUES = [
    None,
    True,
    0,
    -1,
    10**4000,
    1e308,
    math.nan,
    "",
    "x",
    "1e999999999",
    "1/0",
    [],
    {},
    [[]],
    "9" * 500,
]


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


def altered(data: Any, rng: random.Random) -> Any:
    """A piece of plain data taken away or replaced."""
    changed = json.loads(json.dumps(data))
    *parents, last = rng.choice(_places(changed)[1:])
    inner = changed
    for key in parents:
        inner = inner[key]
    if rng.random() < 0.2:
        del inner[last]
    else:
        inner[last] = rng.choice(JSON_VALUES)
    return changed


def lies(data: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(where, what instead) for every single value of plain data: another one of its own kind, so
    that nothing but what it says is wrong.
    """
    for path in _places(data)[1:]:
        value = data
        for key in path:
            value = value[key]
        if not isinstance(value, (dict, list)):
            yield path, _otherwise(value)


def retold(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The same data with one value in the place of another."""
    changed = json.loads(json.dumps(data))
    *parents, last = path
    inner = changed
    for key in parents:
        inner = inner[key]
    inner[last] = value
    return changed


def _otherwise(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 if isinstance(value, int) else value * 0.75 + 0.01
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+(/[0-9]+)?", value):
        return str(Fraction(value) + Fraction(1, 3))
    return "another" if value is None else f"no-{value}"


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """A text with a few characters gone, doubled or put in; those of YAML among them."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        put = draw(
            st.sampled_from(
                [
                    "",
                    "[",
                    "]",
                    "{",
                    "}",
                    ":",
                    "\n",
                    "  ",
                    "- ",
                    "&a ",
                    "*a",
                    "!!python/name:os ",
                    "'",
                    '"',
                    "\t",
                    "\x00",
                    "#",
                ]
            )
        )
        text = text[:at] + put + text[at + draw(st.integers(0, 2)) :]
    return text


# ---------------------------------------------------------------------- workloads


@st.composite
def literals(draw: st.DrawFn, schema: us.Schema) -> dict[str, Any] | list[dict[str, Any]]:
    """Literals as a file has them: a column beside a value that it has, or beside one that it must
    not take.
    """

    def literal(name: str) -> Any:
        column = schema[name]
        # A label of a bin is not a value of the column, so values are read off a row that has the
        # code.
        code = draw(st.integers(0, column.size - 1))
        shown = column.decode(np.array([code]), np.random.default_rng(0)).to_pylist()[0]
        value = (
            column.label(code)
            if code >= column.values
            else str(shown)
            if hasattr(shown, "year")
            else shown
        )
        return draw(st.sampled_from([value, {"not": value}]))

    names = draw(st.lists(st.sampled_from(schema.names), min_size=1, max_size=4))
    return (
        {name: literal(name) for name in names}
        if draw(st.booleans())
        else [{name: literal(name)} for name in names]
    )


@st.composite
def query_specs(draw: st.DrawFn, schema: us.Schema) -> dict[str, Any]:
    """A query as a file has it, of every kind that there is."""
    kind = draw(st.sampled_from(["all_of", "any_of", "at_least", "parity", "not"]))
    if kind == "not":
        return {"not": draw(query_specs(schema))}
    body = draw(literals(schema))
    return (
        {kind: body, "t": draw(st.integers(1, len(body)))} if kind == "at_least" else {kind: body}
    )


@st.composite
def workload_data(draw: st.DrawFn, schema: us.Schema) -> dict[str, Any]:
    """What a sound workload file says."""
    width = st.integers(1, 2)
    spec = st.one_of(
        st.just("all-conjunctions"),
        width.map("{}-way".format),
        st.builds("{}-way:{}@{}".format, width, st.integers(1, 9), st.integers(0, 2**32 - 1)),
        st.builds("{}-conjunctions:{}".format, st.integers(1, 3), st.integers(1, 20)),
    )
    columns = st.lists(st.sampled_from(schema.names), min_size=1, max_size=3, unique=True)
    lists = {
        "marginals": st.lists(spec | columns, min_size=1, max_size=3),
        "queries": st.lists(query_specs(schema), min_size=1, max_size=4),
    }
    kept = draw(st.sampled_from([["marginals"], ["queries"], ["marginals", "queries"]]))
    return {name: draw(lists[name]) for name in kept}


@st.composite
def odd_workload_texts(draw: st.DrawFn, schema: us.Schema) -> str:
    """YAML that was a sound workload until somebody edited it."""
    data, rng = draw(workload_data(schema)), draw(st.randoms(use_true_random=False))
    for _ in range(draw(st.integers(0, 2))):
        data = altered(data, rng) if isinstance(data, (dict, list)) and data else data
    text = yaml.safe_dump(data, allow_unicode=True)
    return draw(damaged(text)) if draw(st.booleans()) else text


# Some of these are literals and queries of SMALL, some are of another table, some are nothing of
# the kind.
NUMBERS = st.sampled_from([0, 1, 2, np.int64(1), np.uint8(0)]) | st.integers(-1, 4) | ODD
LITERALS = st.builds(us.Literal, st.integers(0, 2), st.integers(0, 1), st.booleans())
QUERIES = st.builds(
    lambda make, chosen: make(*chosen),
    st.sampled_from([us.all_of, us.any_of, us.parity]),
    st.lists(LITERALS, min_size=1, max_size=3),
)
BATCHES = st.builds(
    lambda positions: us.Marginal(tuple(positions), tuple((3, 4, 2)[p] for p in positions)),
    st.lists(st.integers(0, 2), max_size=3, unique=True),
) | st.sampled_from(
    [
        us.Marginal((0,), (2,)),
        us.Marginal((1,), (9,)),
        us.Marginal((7,), (2,)),
        us.Marginal((0, 0), (3, 3)),
        us.Marginal((-1,), (2,)),
    ]
)


# ---------------------------------------------------------------------- items

ITEMS = (
    st.integers(1, 6)
    | st.lists(st.integers(-3, 9), min_size=1, max_size=5, unique=True)
    | st.lists(ANY_TEXT, min_size=1, max_size=5)
)
ITEM_SCHEMAS = arguments(
    items=ITEMS,
    row=st.sampled_from(["row", "customer", "é"]),
    item=st.sampled_from(["item", "thing"]),
    density=st.sampled_from([0, 0.1, 1]),
)
PAIRS = st.lists(st.tuples(ANY_CELL, st.integers(-2, 7) | ANY_CELL), min_size=1, max_size=30)


# ---------------------------------------------------------------------- conditions

_WORDS = [
    "a",
    "b",
    "c",
    "and",
    "or",
    "not",
    "in",
    "(",
    ")",
    ",",
    "=",
    "!=",
    ">=",
    "<",
    "0",
    "1",
    "2",
    "9",
    "'0'",
    "MISSING",
    '"',
    "é",
]
_QUESTIONS = st.sampled_from(
    ["a = 0", "b in (1, 2)", "not c", "c", "(a < 2)", "b >= 1", "a != 1", "b not in (3)"]
)
CONDITIONS = st.lists(_QUESTIONS, min_size=1, max_size=4).flatmap(
    lambda asked: st.sampled_from([" and ", " or ", " and not ", " "]).map(
        lambda word: word.join(asked)
    )
) | st.lists(st.sampled_from(_WORDS), max_size=9).map(" ".join)
