"""A rule in a file, and refusals that come before the budget is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import BundleError, NotSupported, ParameterError
from understudy.queries.attribute import Attribute
from understudy.rules.classes import rule_class, rule_classes
from understudy.rules.counting import USUAL_RULES, counting_of, size_of, widest

SCHEMA = {"a": 2, "b": 3, "c": 2, "y": 2}


def table(rows: int = 2000) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = np.column_stack(
        [rng.integers(0, 2, rows), rng.integers(0, 3, rows), rng.integers(0, 2, rows)]
    )
    return np.column_stack([x, (x[:, 0] == 1) & (x[:, 1] != 2)]).astype(int)


def learnt(**options: Any) -> us.Learned:
    return us.learn(table(), **{"schema": SCHEMA, "label": "y", "epsilon": 1, **options})


@pytest.mark.parametrize("rules", rule_classes())
def test_a_rule_is_read_back_as_it_was(rules: str, tmp_path: Path) -> None:
    made = learnt(rules=rules, width=np.int64(2), costs=(1, 3))
    made.save(tmp_path / "rule.json")
    again = us.Learned.load(tmp_path / "rule.json")
    assert again == made and again.words == made.words and again.manifest == made.manifest
    frame = pd.DataFrame(table(), columns=list(SCHEMA))
    said = made.predict(frame)
    assert np.array_equal(said, again.predict(frame)) and np.array_equal(
        said, again.predict(pa.Table.from_pandas(frame))
    )
    assert said.any() and not said.all()


DAMAGE: dict[str, Any] = {
    "another format": lambda d: d.update(format="understudy rule 2"),
    "no schema": lambda d: d.pop("schema"),
    "no manifest": lambda d: d.update(manifest=None),
    "no costs": lambda d: d["manifest"].pop("costs"),
    "another class": lambda d: d["class"].update(name="forests"),
    "a parameter too many": lambda d: d["class"].update(depth=3),
    "an element too many": lambda d: d["rule"].append(999),
    "a text in the rule": lambda d: d.update(rule=["0"]),
    "other words": lambda d: d.update(words="never"),
    "an unknown column": lambda d: d["attributes"][0].update(column="z"),
    "a code too high": lambda d: d["attributes"][0].update(codes=[7]),
    "the label among the attributes": lambda d: d["attributes"][0].update(column="y"),
    "no attributes": lambda d: d.update(attributes=[]),
    "attributes of another kind": lambda d: d.update(attributes=3),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_rule_is_refused_in_a_sentence(how: str, tmp_path: Path) -> None:
    data = learnt().to_dict()
    assert us.Learned.from_dict(json.loads(json.dumps(data))).words == data["words"]
    DAMAGE[how](data)
    (tmp_path / "rule.json").write_text(json.dumps(data))
    with pytest.raises(BundleError, match=r"\.$"):
        us.Learned.load(tmp_path / "rule.json")


def test_what_is_no_rule_at_all_is_refused(tmp_path: Path) -> None:
    for text in ("", "nonsense", "[]", "3", "null", "[" * 100_000):
        (tmp_path / "rule.json").write_text(text)
        with pytest.raises(BundleError, match=r"\.$"):
            us.Learned.load(tmp_path / "rule.json")
    (tmp_path / "rule.json").write_bytes(b"\xff\xfe")
    with pytest.raises(BundleError, match="not valid JSON"):
        us.Learned.load(tmp_path / "rule.json")
    with pytest.raises(BundleError, match="cannot be read"):
        us.Learned.load(tmp_path / "nowhere.json")
    with pytest.raises(BundleError, match="could not be written"):
        learnt().save(tmp_path / "no" / "folder.json")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"noise_on": "paper"}, "noise_on"),
        ({"method": "rspm", "certifier": "listing", "noise_on": "features"}, "need a width"),
        ({"method": "prsma"}, "delta"),
        ({"method": "prsma", "delta": 1e-6}, "too few to learn from"),
        ({"report": 1}, "report"),
        ({"costs": (1, 0)}, "whole numbers"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_charged(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(us.InputError, match=sentence):
        learnt(ledger=tmp_path / "l.jsonl", **options)
    assert not (tmp_path / "l.jsonl").exists()


def test_too_many_columns_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    wide = np.zeros((10, 63), int)
    with pytest.raises(NotSupported, match="fewer attributes"):
        us.learn(
            wide,
            schema={f"x{i}": 2 for i in range(63)},
            label="x62",
            epsilon=1,
            width=1,
            ledger=tmp_path / "l.jsonl",
        )
    assert not (tmp_path / "l.jsonl").exists()


@pytest.mark.parametrize("rules", ["conjunctions", "disjunctions"])
def test_a_rule_of_one_literal_is_in_its_class_even_if_a_constant_is_best(rules: str) -> None:
    rows = table(500)
    # all labels alike: "never", or "always", would take two literals
    rows[:, 3] = rules == "disjunctions"
    made = us.learn(rows, schema=SCHEMA, label="y", epsilon=1, rules=rules, width=1)
    assert made.of.contains(made.rule) and made.manifest["mistakes"] is not None
    assert counting_of(rule_class(rules, attributes=4, width=1)).size == 1 + 8


def test_predicting_needs_the_columns_that_the_rule_asks_about_and_no_others() -> None:
    found = learnt(epsilon=20)
    assert found.words == "a and not b = 2"
    assert found.predict({"a": [1, 0], "b": [0, 0]}).tolist() == [True, False]
    for bad in ({}, "people.csv", [[1, 2]], {"nothing": [1]}):
        with pytest.raises(us.InputError, match="asks about the column"):
            found.predict(bad)
    assert repr(found) == "<Learned: a and not b = 2>"


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "a"},
        {"attributes": [5]},
        {"label": None},
        {"label": 5},
        {"costs": 5},
        {"costs": "12"},
        {"ledger": 5},
        {"label": "b"},
    ],
    ids=str,
)
def test_mistakes_of_type_get_a_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(us.InputError):
        us.learn(table(), **{"schema": SCHEMA, "label": "y", "epsilon": 1, **options})


def test_a_constant_rule_is_called_by_its_name() -> None:
    both = rule_class("conjunctions", attributes=2), rule_class("disjunctions", attributes=2)
    assert [of.words((0, 2), ["a", "b"]) for of in both] == ["never", "always"]
    assert [of.words((), ["a", "b"]) for of in both] == ["always", "never"]


def test_words_name_whole_bins_and_a_label_that_splits_one_costs_nothing(tmp_path: Path) -> None:
    field = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}}
    settings = {"columns": {"age": {"cuts": [30, 50, 70]}}}
    schema = us.Schema.from_dict(
        {"fields": [field, {"name": "y", "type": "boolean"}], "understudy": settings}
    )
    for text in ("age >= 50", f"age >= {schema['age'].label(2)}"):
        asked = Attribute.parse(text, schema)
        assert asked.codes == {2, 3} and asked.name == text
    rows, book = np.tile([[40, 0], [60, 1]], (30, 1)), tmp_path / "l.jsonl"
    for label, words in (
        ("age >= 55", "near 55 are 50 and 70"),
        ("age = 55", "whole bin"),
        ("age >= 0", "nothing to learn"),
    ):
        with pytest.raises(us.InputError, match=words):
            us.learn(rows, schema=schema, label=label, epsilon=1, ledger=book)
    with pytest.raises(us.InputError, match="near 55 are 50 and 70"):
        us.learn(rows, schema=schema, label="y", attributes=["age < 55"], epsilon=1, ledger=book)
    assert not book.exists()


def test_a_name_with_blanks_around_it_is_a_name() -> None:
    made = us.learn(
        table(),
        schema={" a ": 2, "b": 3, "c": 2, "y ": 2},
        label="y ",
        attributes=[" a ", "b = 2"],
        epsilon=1,
    )
    assert made.words == "a and not b = 2"


def test_the_widest_class_is_a_function_of_the_class() -> None:
    assert widest(rule_class("conjunctions", attributes=13)) is None
    assert widest(rule_class("parities", attributes=20)) is None
    assert widest(rule_class("decision-lists", attributes=3)) == 3
    for rules, attributes in (("conjunctions", 40), ("halfspaces", 30), ("decision-lists", 61)):
        width = widest(rule_class(rules, attributes=attributes))
        assert (
            width is not None
            and counting_of(rule_class(rules, attributes=attributes, width=width)).size
            <= USUAL_RULES
        )
        assert size_of(rule_class(rules, attributes=attributes, width=width + 1)) > USUAL_RULES


def test_rules_about_many_attributes_are_refused_before_memory_runs_out() -> None:
    with pytest.raises((NotSupported, ParameterError), match="smaller width"):
        counting_of(rule_class("halfspaces", attributes=15, signed=False))
