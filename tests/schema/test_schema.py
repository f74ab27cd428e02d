"""The public description of a table: what files it is read from, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import frictionless
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import COLUMNS, FLAGS, KINDS, PEOPLE, column
from understudy.errors import SchemaError
from understudy.schema import Boolean, Categorical, Moment, Number, Schema

ALL_KINDS = Schema.from_dict(
    {
        "fields": [
            {"name": name, "type": how["kind"], **{k: v for k, v in how.items() if k in ("constraints", "categories", "categoriesOrdered")}}
            for name, how in KINDS.items()
        ],
        "missingValues": ["", "NA"],
        "understudy": {
            "columns": {
                name: {
                    "missing": FLAGS[i % 4][0], "other": FLAGS[i % 4][1],
                    **{k: v for k, v in how.items() if k in ("bins", "cuts", "resolution")},
                }
                for i, (name, how) in enumerate(KINDS.items())
            }
        },
    }
)  # fmt: skip


def refused(data: Any, *words: str) -> None:
    with pytest.raises(SchemaError) as problem:
        Schema.from_dict(data)
    message = str(problem.value)
    assert message.endswith(".") and "\n" not in message, message
    for word in words:
        assert word in message, message


def one_field(field: dict[str, Any], settings: Any = None, **top: Any) -> dict[str, Any]:
    return {
        "fields": [{"name": "x", **field}],
        "understudy": {"columns": {"x": settings or {}}},
        **top,
    }


# ---------------------------------------------------------------------- what it says


def test_a_schema_knows_its_names_shape_and_domain() -> None:
    schema = Schema.from_domain({"a": 2, "b": 10**6, "c": 10**6, "d": 10**6, "e": 10**6})
    assert schema.names == ("a", "b", "c", "d", "e") and len(schema) == 5
    assert schema.domain_size == 2 * 10**24, "the size of the domain is exact, beyond 64 bits"
    assert [c.name for c in schema] == list(schema.names) and schema["b"].size == 10**6


def test_an_unknown_column_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(SchemaError, match=r"no column 'z'.*a, b"):
        Schema.from_domain({"a": 2, "b": 3})["z"]


def test_the_digest_changes_with_the_schema_and_not_with_the_file_form(tmp_path: Path) -> None:
    PEOPLE.save(tmp_path / "s.yaml")
    PEOPLE.save(tmp_path / "s.json")
    assert (
        Schema.load(tmp_path / "s.yaml").digest
        == Schema.load(tmp_path / "s.json").digest
        == PEOPLE.digest
    )
    data = PEOPLE.to_dict()
    data["understudy"]["columns"]["age"]["bins"] = 11
    assert Schema.from_dict(data).digest != PEOPLE.digest


def test_whole_tables_decode_and_encode_to_the_same_codes() -> None:
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, column.values, 400) for column in ALL_KINDS])
    table = ALL_KINDS.decode(codes, rng)
    assert table.column_names == list(ALL_KINDS.names)
    assert np.array_equal(ALL_KINDS.encode(table), codes)


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("ending", ["yaml", "yml", "json"])
@pytest.mark.parametrize(
    "schema",
    [ALL_KINDS, PEOPLE, Schema.from_domain({"a": 1, "b": 300})],
    ids=["all kinds", "people", "domain"],
)
def test_saved_schemas_load_to_equal_ones(schema: Schema, ending: str, tmp_path: Path) -> None:
    assert Schema.from_dict(schema.to_dict()) == schema
    schema.save(tmp_path / f"s.{ending}")
    assert Schema.load(tmp_path / f"s.{ending}") == schema


@pytest.mark.parametrize("col", [col for _, col in COLUMNS], ids=[name for name, _ in COLUMNS])
def test_every_column_survives_its_file_form(col: Any) -> None:
    assert Schema.from_dict(Schema((col,)).to_dict()).columns == (col,)


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), bins=st.integers(1, 200))
@settings(deadline=None, max_examples=60)
def test_real_bins_survive_their_file_form_to_the_last_digit(
    low: float, width: float, bins: int
) -> None:
    col = column("number", constraints={"minimum": low, "maximum": low + width}, bins=bins)
    assert Schema.from_dict(json.loads(json.dumps(Schema((col,)).to_dict()))).columns == (col,)


@pytest.mark.parametrize("schema", [ALL_KINDS, PEOPLE], ids=["all kinds", "people"])
def test_the_file_form_is_a_valid_frictionless_table_schema(schema: Schema) -> None:
    theirs = frictionless.Schema.from_descriptor(json.loads(json.dumps(schema.to_dict())))
    assert theirs.field_names == list(schema.names)
    types = {
        "categorical": {"string", "integer"},
        "boolean": {"boolean"},
        "integer": {"integer"},
        "real": {"number"},
    }
    for field, ours in zip(theirs.fields, schema, strict=True):
        assert field.type in types.get(ours.kind, {ours.kind})


def test_frictionless_accepts_the_rows_that_the_schema_decodes(tmp_path: Path) -> None:
    """Both readings of the descriptor agree: released cells are valid cells."""
    codes = np.column_stack([np.arange(50) % column.values for column in PEOPLE])
    table = PEOPLE.decode(codes, np.random.default_rng(0))
    header, rows = table.column_names, [list(row.values()) for row in table.to_pylist()]
    report = frictionless.validate(
        [header, *rows], schema=frictionless.Schema.from_descriptor(PEOPLE.to_dict())
    )
    assert report.valid, report.flatten(["message"])[:3]


def test_a_domain_file_of_mbi_gives_integer_codes(tmp_path: Path) -> None:
    (tmp_path / "domain.json").write_text('{"age": 85, "sex": 2}')
    schema = Schema.load(tmp_path / "domain.json")
    assert schema.shape == (85, 2) and all(isinstance(c, Number) and c.integer for c in schema)
    codes = np.array([[84, 1], [0, 0]])
    assert np.array_equal(schema.encode(pa.table({"age": codes[:, 0], "sex": codes[:, 1]})), codes)
    assert schema.decode(codes, np.random.default_rng(0)).to_pydict() == {
        "age": [84, 0],
        "sex": [1, 0],
    }


def test_yaml_words_of_category_lists_stay_the_text_they_are(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "fields:\n- {name: x, type: string, constraints: {enum: [no, yes, on, Off, y, true, 1, 2.0,"
        " 2020-01-01]}}\n"
    )
    col = Schema.load(tmp_path / "s.yaml")["x"]
    assert isinstance(col, Categorical)
    assert col.categories == ("no", "yes", "on", "Off", "y", "true", "1", "2.0", "2020-01-01")
    Schema((col,)).save(tmp_path / "t.yaml")
    assert Schema.load(tmp_path / "t.yaml")["x"] == col


def test_a_byte_order_mark_and_table_schema_categories_are_understood(tmp_path: Path) -> None:
    field = {
        "name": "x",
        "type": "integer",
        "categories": [{"value": 1, "label": "one"}, {"value": 2, "label": "two"}],
        "categoriesOrdered": True,
    }
    (tmp_path / "s.json").write_text("\ufeff" + json.dumps({"fields": [field]}), encoding="utf-8")
    col = Schema.load(tmp_path / "s.json")["x"]
    assert (
        isinstance(col, Categorical)
        and col.categories == ("1", "2")
        and col.ordered
        and col.numeric
    )


def test_kinds_are_read_from_types_and_constraints() -> None:
    kinds = {Categorical: "city", Number: "age", Boolean: "smoker", Moment: "born"}
    assert all(isinstance(PEOPLE[name], kind) for kind, name in kinds.items())
    small, wide = (
        column("integer", constraints={"minimum": 0, "maximum": top}) for top in (127, 128)
    )
    assert (small.values, wide.values) == (128, 32), "one bin a value up to 128 values"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.yaml", "fields:\n- {name: a, name: b}\n", ["'name'", "twice"]),
        ("s.json", '{"a": 2, "a": 3}', ["'a'", "twice"]),
        ("s.json", '{"a": ', ["not valid JSON"]),
        ("s.yaml", "a: [1", ["not valid YAML"]),
        ("s.yaml", "- a\n", ["mapping at its top"]),
        ("s.yaml", "", ["mapping at its top"]),
        ("people.csv", "age,sex\n33,f\n", ["is no schema", "begin with fields:"]),
        ("s.yaml", "{[1]: 2}", ["not valid YAML"]),
        ("s.yaml", "a: !!python/object/apply:os.getcwd []", ["not valid YAML"]),
    ],
)
def test_malformed_files_are_refused_in_one_sentence(
    name: str, text: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError) as problem:
        Schema.load(tmp_path / name)
    assert str(problem.value).endswith(".") and "\n" not in str(problem.value)
    assert all(word in str(problem.value) for word in words)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for path, word in (
        (tmp_path / "absent.yaml", "no schema file"),
        (tmp_path, "cannot be read"),
        (tmp_path / "binary.json", "UTF-8"),
    ):
        with pytest.raises(SchemaError, match=word):
            Schema.load(path)


# ---------------------------------------------------------------------- what is refused

INT = {"type": "integer", "constraints": {"minimum": 0, "maximum": 9}}
TEXT = {"type": "string", "constraints": {"enum": ["a", "b"]}}
DATE = {"type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"}}


def bounds(kind: str, low: Any, high: Any) -> dict[str, Any]:
    return one_field({"type": kind, "constraints": {"minimum": low, "maximum": high}})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, ["neither a Table Schema"]),
        ({"a": 2.5}, ["neither a Table Schema"]),
        ({"a": True}, ["neither a Table Schema"]),
        ({"a": 0}, ["'a'", "whole number"]),
        ({"a": 10**6 + 1}, ["'a'", "1,000,000"]),
        ({"fields": []}, ["no columns"]),
        ({"fields": {"a": 1}}, ["list of mappings"]),
        ({"fields": [{"type": "integer"}]}, ["with a name"]),
        ({"fields": [{"name": "x", **INT}, {"name": "x", **INT}]}, ["'x'", "twice"]),
        (one_field({"type": "geopoint"}), ["'geopoint'", "supported are"]),
        (one_field({"type": ["string"]}), ["supported are"]),
        (one_field({"type": "string"}), ["closed list of categories"]),
        (one_field({**TEXT, "constraints": {"enum": []}}), ["no categories"]),
        (one_field({**TEXT, "constraints": {"enum": ["a", " a "]}}), ["twice"]),
        (one_field({**TEXT, "constraints": {"enum": "ab"}}), ["list of texts"]),
        (one_field({**TEXT, "constraints": {"enum": ["a", None]}}), ["list of texts"]),
        (one_field({**TEXT, "constraints": ["enum"]}), ["constraints as a mapping"]),
        (
            one_field({**TEXT, "constraints": {"enum": ["OTHER", "a"]}}, {"other": True}),
            ["OTHER", "drop one"],
        ),
        (
            one_field({**TEXT, "constraints": {"enum": ["MISSING", "a"]}}, {"missing": True}),
            ["MISSING", "drop one"],
        ),
        (
            one_field({**TEXT, "constraints": {"enum": ["a", "?"]}}, missingValues=["", "?"]),
            ["missing value"],
        ),
        (one_field({"type": "integer", "constraints": {"enum": [1, "x"]}}), ["not a whole number"]),
        (one_field({"type": "integer", "constraints": {"enum": [7, "007"]}}), ["twice"]),
        (one_field({"type": "integer", "constraints": {"enum": [2**60]}}), ["2^53"]),
        (one_field({"type": "integer"}), ["public bounds"]),
        (bounds("integer", "0", 9), ["public bounds"]),
        (bounds("integer", 9, 0), ["minimum below"]),
        (bounds("integer", 0.5, 9), ["whole numbers"]),
        (bounds("integer", 0, 2**60), ["2^53"]),
        (bounds("integer", 0, 10**400), ["public bounds"]),
        (bounds("number", 1, 1), ["minimum below"]),
        (bounds("number", 0, float("inf")), ["public bounds"]),
        (bounds("number", float("nan"), 1), ["public bounds"]),
        (bounds("number", False, True), ["public bounds"]),
        (one_field({"type": "date"}), ["public bounds"]),
        (bounds("date", "soon", "2020-12-31"), ["ISO 8601"]),
        (bounds("date", "2020-02-30", "2020-12-31"), ["ISO 8601"]),
        (bounds("date", "2021-01-01", "2020-12-31"), ["not after"]),
        (
            one_field(
                bounds("datetime", "1900-01-01", "2020-12-31")["fields"][0],
                {"resolution": "second"},
            ),
            ["million bins"],
        ),
        (one_field(DATE, {"resolution": "hour"}), ["'hour'", "year, quarter"]),
        (one_field(DATE, {"resolution": ["day"]}), ["resolution"]),
        (one_field(DATE, {"cuts": [3]}), ["no use", "'cuts'"]),
        (one_field(TEXT, {"bins": 3}), ["no use", "'bins'"]),
        (one_field({"type": "boolean"}, {"resolution": "day"}), ["no use"]),
        (one_field(INT, {"bins": 0}), ["whole number of bins"]),
        (one_field(INT, {"bins": 2.0}), ["whole number of bins"]),
        (one_field(INT, {"bins": True}), ["whole number of bins"]),
        (one_field(INT, {"bins": 11}), ["10 values", "11 bins"]),
        (one_field(INT, {"bins": 2, "cuts": [3]}), ["both bins and cuts"]),
        (one_field(INT, {"cuts": [3, 3]}), ["rise strictly"]),
        (one_field(INT, {"cuts": [3, 20]}), ["rise strictly"]),
        (one_field(INT, {"cuts": [2.5]}), ["whole numbers"]),
        (one_field(INT, {"cuts": "3"}), ["list of numbers"]),
        (one_field(INT, {"cuts": [10**400]}), ["list of numbers"]),
        (one_field(INT, {"binz": 3}), ["'binz'", "known are"]),
        (one_field(INT, {3: 4, "binz": 1}), ["unknown setting"]),
        (one_field(INT, {"missing": "yes"}), ["neither true nor false"]),
        (
            {"fields": [{"name": "x", **INT}], "understudy": {"privacyUnit": "household"}},
            ["'household'", "'row'"],
        ),
        ({"fields": [{"name": "x", **INT}], "understudy": ["row"]}, ["must be a mapping"]),
        ({"fields": [{"name": "x", **INT}], "understudy": {"columns": ["x"]}}, ["mapping"]),
        ({"fields": [{"name": "x", **INT}], "understudy": {"columns": {"x": 3}}}, ["mapping"]),
        (
            {"fields": [{"name": "x", **INT}], "understudy": {"columns": {"y": {}}}},
            ["'y'", "not among"],
        ),
        ({"fields": [{"name": "x", **INT}], "missingValues": "NA"}, ["missingValues"]),
    ],
)
def test_bad_schemas_are_refused_in_a_sentence(data: Any, words: list[str]) -> None:
    refused(data, *words)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["row", "month", "integer", "2020-01-01", 10**400]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(p for key, value in inner for p in _paths(value, (*path, key)))]


@given(data=st.data(), value=PLAIN)
@settings(deadline=None, max_examples=150)
def test_one_wrong_piece_anywhere_gives_a_schema_or_a_schema_error(
    data: st.DataObject, value: Any
) -> None:
    """Nothing else may escape: a traceback from inside would be our fault, not the user's."""
    broken = copy.deepcopy(PEOPLE.to_dict())
    *parents, last = data.draw(st.sampled_from(_paths(broken)[1:]))
    place: Any = broken
    for key in parents:
        place = place[key]
    place[last] = value
    try:
        schema = Schema.from_dict(broken)
    except SchemaError as problem:
        assert str(problem).endswith(".")
    else:
        assert Schema.from_dict(schema.to_dict()) == schema


def test_a_column_says_whether_its_neighbouring_values_are_alike() -> None:
    listed = {"constraints": {"enum": ["low", "mid", "high"]}}
    bounds = {"constraints": {"minimum": 0, "maximum": 9}}
    days = {"constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"}}
    schema = Schema.from_dict(
        {
            "fields": [
                {"name": "city", "type": "string", **listed},
                {"name": "grade", "type": "string", **listed, "categoriesOrdered": True},
                {"name": "rank", "type": "string", **listed},
                {"name": "flat", "type": "string", **listed, "categoriesOrdered": True},
                {"name": "smoker", "type": "boolean"},
                {"name": "age", "type": "integer", **bounds},
                {"name": "zone", "type": "integer", **bounds},
                {"name": "income", "type": "number", **bounds},
                {"name": "day", "type": "date", **days},
            ],
            "understudy": {
                "columns": {
                    "rank": {"ordered": True},
                    "flat": {"ordered": False},
                    "age": {"ordered": True, "missing": True},
                    "zone": {"ordered": False},
                }
            },
        }
    )
    assert [c.name for c in schema if c.ordered] == ["grade", "rank", "age", "income", "day"]
    again = Schema.from_dict(schema.to_dict())
    assert again == schema and again.digest == schema.digest
    assert schema.to_dict()["understudy"]["columns"]["zone"]["ordered"] is False
    # what is so by nature is not written: the digests of earlier schemas stay as they were
    assert "ordered" not in schema.to_dict()["understudy"]["columns"]["age"]
    assert not Schema.items(3).columns[0].ordered


def test_codes_are_names_unless_they_are_said_to_be_ordered() -> None:
    schema = Schema.from_domain({"age": 85, "sex": 2}, ordered=["age"])
    assert [column.ordered for column in schema] == [True, False]
    assert Schema.from_dict(schema.to_dict()) == schema != Schema.from_domain({"age": 85, "sex": 2})
    assert not any(column.ordered for column in Schema.from_dict({"age": 85, "sex": 2}))


@pytest.mark.parametrize("ordered", ["age", 5, None, ["agee"], [7], [["age"]], {"ag": 1}])
def test_ordered_columns_of_a_domain_are_names_that_it_has(ordered: Any) -> None:
    with pytest.raises(SchemaError, match="ordered"):
        Schema.from_domain({"age": 85, "sex": 2}, ordered=ordered)


@pytest.mark.parametrize(
    ("kind", "value"), [("boolean", True), ("string", 1), ("integer", "yes"), ("date", None)]
)
def test_ordered_is_true_or_false_and_of_columns_with_an_order(kind: str, value: Any) -> None:
    field = {
        "boolean": {},
        "string": {"constraints": {"enum": ["a", "b"]}},
        "integer": {"constraints": {"minimum": 0, "maximum": 9}},
        "date": {"constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"}},
    }[kind]
    with pytest.raises(SchemaError, match=r"'x'.*ordered"):
        Schema.from_dict(
            {
                "fields": [{"name": "x", "type": kind, **field}],
                "understudy": {"columns": {"x": {"ordered": value}}},
            }
        )
