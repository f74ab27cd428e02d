"""YAML and JSON files: no code is changed on the way in, and what can be read in two ways is
refused with its line.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import frictionless
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.schema import Categorical, Moment, Number
from understudy.schema.scalars import read_plain

# Scalars that some reader of YAML takes for something else than the characters written.
ODD = (
    "01234", "02139", "12:30", "12:30:45", "190:20:30.15", "010", "08", "007", "0o10", "0x1F", "-0x1F", "0b11", "1_000", "1e3", "1.0e3",
    "1.0e+3", "1.0", "0.10", ".5", "+.5", "5.", "+12", "-0", "yes", "no", "on", "Off", "y", "N", "true", "False", "null", "~", "Null",
    "2020-01-31", "2020-01-31T10:00:00Z", "2001-12-14 21:59:43.10 -5", ".inf", "+.inf", ".nan", "=", "<<", "1.2.3", "9" * 5000,
)  # fmt: skip
SCHEMA = us.Schema.from_dict(
    {
        "fields": [
            {"name": "zip", "type": "string", "constraints": {"enum": list(ODD[:10])}},
            {"name": "on", "type": "boolean"},
        ]
    }
)


def load(text: str, name: str = "s.yaml") -> us.Schema:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8")
        return us.Schema.load(file)


def refusal(text: str, name: str = "s.yaml") -> str:
    with pytest.raises(us.SchemaError) as caught:
        load(text, name)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message, message
    return message


def categories(text: str, name: str = "s.yaml") -> tuple[str, ...]:
    column = load(text, name).columns[0]
    assert isinstance(column, Categorical)
    return column.categories


def listing(scalars: Any, kind: str = "string", key: str = "enum") -> str:
    """A schema of one column that lists these scalars, one a line, as they are written."""
    lines = "".join(f"\n      - {scalar}" for scalar in scalars)
    where = f"constraints:\n     enum:{lines}" if key == "enum" else f"categories:{lines}"
    return f'fields:\n  - name: x\n    type: {kind}\n    {where}\nmissingValues: ["# nothing"]\n'


# ---------------------------------------------------------------------- codes


@pytest.mark.parametrize("key", ["enum", "categories"])
@pytest.mark.parametrize("kind", ["string", "any", "number"])
def test_a_category_is_the_characters_written(kind: str, key: str) -> None:
    assert categories(listing(ODD, kind, key)) == ODD
    assert categories(listing([f"'{text}'" for text in ODD], kind, key)) == ODD


def test_zip_codes_in_one_line() -> None:
    assert categories("fields: [{name: zip, constraints: {enum: [01234, 02139, 12:30, 010, 1_000, 0x1F]}}]") == (
        "01234", "02139", "12:30", "010", "1_000", "0x1F",
    )  # fmt: skip


# What may stand in a block list without quotes and is one line: any characters but those that YAML
# takes for its own.
PLAIN = st.from_regex(
    r"[A-Za-z0-9+.~=<_][A-Za-z0-9+._:/,=<>~-]{0,12}(?<!:)", fullmatch=True
) | st.sampled_from(ODD)
QUOTED = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1
).filter(lambda text: text.strip() == text)


def single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@given(
    st.lists(
        st.tuples(PLAIN, st.sampled_from([str, single, json.dumps]))
        | st.tuples(QUOTED, st.sampled_from([single])),
        min_size=1,
    )
)
@example([("01234", str), ("1234", str)])
@settings(deadline=None, max_examples=150)
def test_any_list_of_scalars_comes_back_as_written(scalars: list[tuple[str, Any]]) -> None:
    texts = tuple(dict.fromkeys(text for text, _ in scalars))
    written = [next(write for other, write in scalars if other == text)(text) for text in texts]
    assert categories(listing(written)) == texts


@given(st.lists(PLAIN, min_size=1))
@settings(deadline=None, max_examples=60)
def test_missing_values_are_the_characters_written(texts: list[str]) -> None:
    schema = load(
        "fields: [{name: x, type:"
        f" boolean}}]\nmissingValues:{''.join(f'{chr(10)}- {text}' for text in texts)}\n"
    )
    assert schema.columns[0].missing_values == tuple(texts)


TEXTS = st.lists(
    st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=8
)


@pytest.mark.parametrize("ending", ["yaml", "json"])
@given(names=TEXTS, words=TEXTS)
@settings(deadline=None, max_examples=60)
def test_whatever_is_saved_is_loaded_again(ending: str, names: list[str], words: list[str]) -> None:
    """Names, categories, missing values and words of every kind; for any reader of YAML, too."""
    listed = list(dict.fromkeys(word.strip(" \t\n\r\v\f") for word in words))
    fields = [
        {
            "name": name,
            "type": "string",
            "constraints": {"enum": listed},
            "title": words[0],
            "description": words[-1],
        }
        for name in dict.fromkeys(names)
    ]
    schema = us.Schema.from_dict(
        {
            "title": words[-1], "fields": fields, "missingValues": ["\x00 nothing"],
            "understudy": {"columns": {name: {"missing": "MISSING" not in listed} for name in names}},
        }
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"s.{ending}"
        schema.save(file)
        again = us.Schema.load(file)
        assert again == schema and again.digest == schema.digest
        if ending == "yaml":
            text = file.read_text(encoding="utf-8")
            assert yaml.safe_load(text) == schema.to_dict(), (
                "as PyYAML, which reads YAML 1.1, reads it"
            )


def test_codes_survive_a_release_and_its_bundle(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "fields: [{name: zip, constraints: {enum: [01234, 02139]}}, {name: at, constraints: {enum:"
        " [12:30, 750]}}]"
    )
    (tmp_path / "t.csv").write_text("zip,at\n" + "01234,12:30\n02139,750\n" * 100)
    made = us.release(
        str(tmp_path / "t.csv"),
        schema=str(tmp_path / "s.yaml"),
        workload="1-way",
        epsilon=100,
        mechanism="independent",
    )
    folder = made.save(tmp_path / "out")
    assert set(us.Release.load(folder).synthetic["zip"].to_pylist()) == {"01234", "02139"}
    assert set(us.Release.load(folder).synthetic["at"].to_pylist()) == {"12:30", "750"}
    assert all(check.holds for check in us.verify(folder))


def test_numbers_of_json_are_the_characters_written_where_a_code_belongs() -> None:
    fields = (
        '{"fields": [{"name": "x", "type": "%s", "constraints": {"enum": [%s]}}], "missingValues":'
        " [-9.0]}"
    )
    assert categories(fields % ("string", '0.10, 1e3, 1.0, 7, "007", true'), "s.json") == (
        "0.10",
        "1e3",
        "1.0",
        "7",
        "007",
        "true",
    )
    assert load(fields % ("string", "1"), "s.json").columns[0].missing_values == ("-9.0",)
    assert "list of texts" in refusal(fields % ("string", "null"), "s.json")


def test_numbers_of_python_are_numbers() -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [{"name": "x", "constraints": {"enum": [0.10, 1e3, 7, True]}}],
            "missingValues": [-9.0],
        }
    )
    assert schema.columns == (
        Categorical(name="x", categories=("0.1", "1000", "7", "true"), missing_values=("-9",)),
    )


@pytest.mark.parametrize(
    ("written", "listed", "numeric"),
    [
        ("1, 2, -3", ("1", "2", "-3"), True),
        ("01, 02", ("01", "02"), False),
        ("'1', 10", ("1", "10"), True),
        ("-0, 1", ("-0", "1"), False),
    ],
)
@pytest.mark.parametrize("kind", ["integer", "year"])
def test_integer_codes_are_integers_if_that_keeps_them_as_written(
    kind: str, written: str, listed: tuple[str, ...], numeric: bool
) -> None:
    schema = load(f"fields: [{{name: x, type: {kind}, constraints: {{enum: [{written}]}}}}]")
    column = schema.columns[0]
    assert isinstance(column, Categorical) and (column.categories, column.numeric) == (
        listed,
        numeric,
    )
    assert us.Schema.from_dict(schema.to_dict()) == schema
    assert [column.code_of(int(text)) for text in listed] == [0, 1, 2][: len(listed)], (
        "a cell that is a number matches by value"
    )


@pytest.mark.parametrize("written", ["7, 007", "1, 1.0", "0x1F", "1_000", "12:30", "1e3"])
def test_integer_codes_that_are_none_or_alike_are_refused(written: str) -> None:
    assert re.search(
        r"twice|not a whole number",
        refusal(f"fields: [{{name: x, type: integer, constraints: {{enum: [{written}]}}}}]"),
    )


@pytest.mark.parametrize(
    ("written", "items", "numeric"),
    [
        ("01234, 12345", ("01234", "12345"), False),
        ("1, 2", ("1", "2"), True),
        ("'1', '2'", ("1", "2"), False),
        ("yes, 12:30", ("yes", "12:30"), False),
    ],
)
def test_items_are_as_written_too(written: str, items: tuple[str, ...], numeric: bool) -> None:
    schema = load(f"items: [{written}]\nrow: y\n")
    assert schema.pairs is not None and (schema.names, schema.pairs.numeric, schema.pairs.row) == (
        items,
        numeric,
        "y",
    )
    as_json = written.replace("'", '"')
    if not re.search(r"[a-z]|\b0", as_json):
        assert load(f'{{"items": [{as_json}], "row": "y"}}', "s.json") == schema


def test_names_and_words_are_characters(tmp_path: Path) -> None:
    schema = load(
        "title: 2020\ndescription: no\nfields:\n- {name: y, type: boolean, title: 010, description:"
        " 12:30}\n- {name: 2020, type: boolean}\nunderstudy: {columns: {y: {missing: true}, 2020:"
        " {other: true}}}\n"
    )
    assert schema.names == ("y", "2020") and (schema.title, schema.description) == ("2020", "no")
    assert (
        (schema["y"].title, schema["y"].description) == ("010", "12:30")
        and schema["y"].missing
        and schema["2020"].other
    )
    assert load("y: 2\nno: 3\n010: 4\n").names == ("y", "no", "010")


# ---------------------------------------------------------------------- workloads


def test_values_in_a_workload_are_the_characters_written(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "marginals: [[on, zip]]\nqueries:\n"
        + "".join(f"- {{all_of: {{zip: {text}, on: yes}}}}\n" for text in ODD[:10])
    )
    work = us.Workload.load(file, SCHEMA)
    asked = work.batches[1]
    assert [asked.query(i).literals for i in range(10)] == [
        (us.Literal(0, i), us.Literal(1, 1)) for i in range(10)
    ]  # type: ignore[attr-defined]


def test_the_t_of_a_workload_is_a_number_and_a_column_called_t_is_not(tmp_path: Path) -> None:
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": name, "constraints": {"enum": ["010", "8", "10"]}} for name in ("t", "u")
            ]
        }
    )
    file = tmp_path / "w.yaml"
    file.write_text(
        "queries:\n- {at_least: {t: 010, u: 8}, t: 1}\n- {not: {at_least: {t: 10, u: 8}, t: 2}}\n"
    )
    queries = us.Workload.load(file, schema).batches[0].queries  # type: ignore[attr-defined]
    assert [[x.value for x in query.literals] for query in queries] == [[0, 1], [2, 1]]
    file.write_text(
        "queries:\n- {not:\n    {at_least: {t: 010}, t: 01}}\n- {at_least: {t: 010, u: 8}, t:"
        " 010}\n"
    )
    with pytest.raises(
        us.WorkloadError,
        match=(
            r"two ways at line 4, column 33: '010' is the number 8 .* the number 10 .* write 8"
            r" or 10"
        ),
    ):
        us.Workload.load(file, schema)


# ---------------------------------------------------------------------- numbers elsewhere

# As YAML 1.1 reads it, as YAML 1.2 does; None is a text.
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "010": (8, 10), "-010": (-8, -10), "08": (None, 8), "0o10": (None, 8), "1_000": (1000, None), "0x1_F": (31, None), "-0x1F": (-31, None),
    "0b11": (3, None), "12:30": (750, None), "1:30:00": (5400, None), "190:20:30.15": (685230.15, None), "1e3": (None, 1000.0),
    "1.0e3": (None, 1000.0), "1E5": (None, 100000.0), "1_0.5": (10.5, None), "yes": (True, None), "Yes": (True, None), "no": (False, None),
    "on": (True, None), "OFF": (False, None), "y": (True, None), "n": (False, None), "1e400": (None, float("inf")), "0_": (0, None),
}  # fmt: skip
NOT_A_VALUE = ("=", "<<", "2020-01-31", "2001-12-14 21:59:43.10 -5", "2020-1-1t1:00:00Z")
ALIKE: dict[str, Any] = {
    "0": 0, "12": 12, "-12": -12, "+12": 12, "007": 7, "0x1F": 31, "0.5": 0.5, ".5": 0.5, "-.5": -0.5, "5.": 5.0, "1.0e+3": 1000.0,
    "1.5e-7": 1.5e-7, "true": True, "False": False, "null": None, "~": None, "": None, ".inf": float("inf"), "-.INF": float("-inf"),
    "month": "month", "1.2.3": "1.2.3", "12:90": "12:90", "0:30": "0:30", "0o8": "0o8", "_1": "_1", "é": "é",
}  # fmt: skip


@pytest.mark.parametrize("text", ALIKE)
def test_what_both_versions_read_alike_is_read(text: str) -> None:
    value = read_plain(text)
    assert (type(value), value) == (type(ALIKE[text]), ALIKE[text])


@pytest.mark.parametrize("text", [*DIFFERENT, *NOT_A_VALUE])
def test_what_they_read_differently_is_refused_with_its_line_and_how_to_write_it(text: str) -> None:
    field = (
        "fields:\n- name: x\n  type: number\n  constraints: {minimum: 0, maximum: 9}\nunderstudy:\n"
        "  columns:\n    x:\n      bins: "
    )
    message = refusal(field + text + "\n")
    assert (
        "can be read in two ways at line 8, column 13" in message
        and repr(text) in message
        and "quotes" in message
    )
    for value in DIFFERENT.get(text, ()):
        if value not in (None, float("inf")):
            written = re.search(r"write (.*), or put", message)
            assert written and value in [read_plain(one) for one in written[1].split(" or ")], (
                "what it says to write is what was meant"
            )


@pytest.mark.parametrize("text", [text for text in DIFFERENT if text not in ("y", "n")])
def test_the_old_reading_is_that_of_a_reader_of_yaml_1_1(text: str) -> None:
    """A second route: PyYAML, which follows YAML 1.1 but for the words y and n."""
    old = yaml.safe_load(f"- {text}")[0]
    assert old == (text if DIFFERENT[text][0] is None else DIFFERENT[text][0])


# Not what PyYAML cannot read itself, nor a sign before a point: a number in the text of YAML 1.1,
# and not in PyYAML.
DIGITS = st.from_regex(
    r"(?![-+]\.|.?0[bx]_*\Z)[-+]?[0-9._][0-9._:eExobn]{0,8}(?<!:)", fullmatch=True
)


@given(DIGITS)
@settings(deadline=None, max_examples=300)
def test_what_is_said_of_yaml_1_1_is_what_pyyaml_reads(text: str) -> None:
    try:
        value = read_plain(text)
    except ValueError as problem:
        told = re.search(r" is (?:the number )?(.*) in YAML 1\.1", str(problem))
        assert told
        value = text if told[1] == "a text" else read_plain(told[1])
    old = yaml.safe_load(f"- {text}\n")[0]
    assert (type(old), repr(old)) == (type(value), repr(value))


@pytest.mark.parametrize(
    ("place", "column"),
    [
        ("fields: [{name: x, type: integer, constraints: {minimum: 010, maximum: 99}}]", 58),
        ("fields: [{name: x, type: integer, constraints: {minimum: 0, maximum: 010}}]", 70),
        ("fields: [{name: x, constraints: {enum: [a]}, categoriesOrdered: 010}]", 65),
        ("{fields: [], understudy: {columns: {x: {missing: 010}}}}", 50),
        ("{fields: [], understudy: {columns: {x: {cuts: [1, 010]}}}}", 51),
        ("{x: 010}", 5),
        ("{items: 010}", 9),
        ("{items: [a, b], density: 010}", 26),
    ],
)
def test_every_place_of_a_number_refuses_what_is_not_clear(place: str, column: int) -> None:
    assert f"at line 1, column {column}: '010'" in refusal(place)


def test_dates_that_are_bounds_need_no_quotes() -> None:
    """As a date or as its characters, a bound is the same moment."""
    field = "fields: [{name: x, type: %s, constraints: {minimum: %s, maximum: %s}}]"
    for kind, low, high in (
        ("date", "2024-01-01", "2025-12-31"),
        ("datetime", "2024-01-01T10:00:00Z", "2024-01-02T10:00:00+02:00"),
    ):
        plain = load(field % (kind, low, high))
        quoted = load(field % (kind, f"'{low}'", f'"{high}"'))
        assert plain == quoted and isinstance(plain["x"], Moment)
    assert "ISO 8601" in refusal(field % ("date", "2024-1-1 1:00:00", "2025-12-31"))
    assert isinstance(
        load("fields: [{name: x, type: number, constraints: {minimum: -.5, maximum: 1.0e+3}}]")[
            "x"
        ],
        Number,
    )


# ---------------------------------------------------------------------- what is no YAML


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("a: 2\nb: 3\na: 4\n", "line 3, column 1", "the key 'a' is given twice, first in line 1"),
        (
            "fields:\n- name: x\n  constraints:\n    enum: [a]\n    enum: [b]\n",
            "line 5, column 5",
            "'enum' is given twice",
        ),
        ("a: 2\n'a': 4\n", "line 2, column 1", "twice"),
        ("a: 1\n\tb: 2\n", "line 2, column 1", "tab"),
        ("a: [1,\n  2\nb: 3\n", "line 3, column 2", "bracket"),
        ("a: {b: 1\n", "line 2, column 1", "bracket"),
        (
            "fields:\n- {name: age, title: Age: in years}\n",
            "line 2, column 25",
            "put a text that holds ': ' in quotes",
        ),
        ("x: y: z\n", "line 1, column 5", "colon"),
        ("x: 2\n y: 3\n", "line 2, column 3", "colon"),
        ("- x\ny: 3\n", "line 2, column 1", "indentation"),
        ("x: 2\ny\n", "line 3, column 1", "no colon"),
        ("x: 'a\n", "line 2, column 1", "quote"),
        ('x: "a\\q"\n', "line 1, column 7", "backslash"),
        ("x: @a\n", "line 1, column 4", "begin with @"),
        ("x: a\x07b\n", "line 1, column 5", "control character"),
        ("x: 1\n---\ny: 2\n", "line 2, column 1", "second document"),
        ("x: *a\n", "line 1, column 4", "alias"),
        ("x: &a 1\ny: &a 2\n", "line 2, column 4", "anchor is given twice"),
        ("x:\n  &a [*a]\n", "line 2, column 3", "inside what it repeats"),
        ("x: !!int '3'\n", "line 1, column 4", "tags"),
        ("x: ! 3\n", "line 1, column 4", "tags"),
        ("? [a]\n: 3\n", "line 1, column 3", "not a plain word"),
        ("x: 1\ny: " + "[" * 60 + "]" * 60, "line 2, column 53", "nested"),
        ("x: " + "9" * 5000, "line 1, column 4", "digits"),
        ("x: %\n", "line 1, column 4", "begin with %"),
        ("x: [1, , 2]\n", "line 1, column 8", "value is missing"),
        ("x: - 1\n", "line 1, column 4", "dash"),
        ("x: |z\n  a\n", "line 1, column 5", "no YAML"),
    ],
)
def test_what_is_no_yaml_is_said_with_its_place(text: str, where: str, words: str) -> None:
    message = refusal(text)
    assert f"is not valid YAML at {where}: " in message and words in message


def test_a_bomb_of_aliases_is_refused_where_it_goes_off() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]"
        for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "at line 7, column 4: its aliases repeat more than 1,000,000 pieces" in refusal(
        "\n".join(lines)
    )


@pytest.mark.parametrize("text", ["<<: {a: 2}\nb: 3\n", "x: &x {a: 2}\nfields:\n- <<: *x\n"])
def test_merged_mappings_are_refused(text: str) -> None:
    assert re.search(r"two ways at line [13], column [13]: << merges", refusal(text))
    assert load("'<<': 2\nb: 3\n").names == ("<<", "b")


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_line_ends_of_yaml_1_1_alone_are_refused(character: str) -> None:
    assert "two ways at line 2, column 20" in refusal(
        f"fields:\n- {{name: x, title: {character}}}\n"
    )
    escaped = json.dumps(f"a{character}b")
    assert (
        load(f"fields: [{{name: x, type: boolean, title: {escaped}}}]")["x"].title
        == f"a{character}b"
    )


def test_json_that_is_none_is_said_with_its_place() -> None:
    assert "is not valid JSON at line 2, column 6: " in refusal('{"a": 2,\n"b": }', "s.json")
    assert "the key 'a' is given twice" in refusal('{"a": 2, "a": 3}', "s.json")


def test_a_schema_in_yaml_is_one_that_frictionless_reads(tmp_path: Path) -> None:
    text = (
        "title: People\nfields:\n- {name: zip, type: string, title: Zip code, unit: none,"
        " constraints: {enum: ['01234', '02139']}}\n"
    )
    (tmp_path / "s.yaml").write_text(text)
    with pytest.warns(UserWarning, match="'unit' of column 'zip'"):
        ours = us.Schema.load(tmp_path / "s.yaml")
    for theirs in (
        frictionless.Schema(str(tmp_path / "s.yaml")),
        frictionless.Schema.from_descriptor(ours.to_dict()),
    ):
        assert theirs.title == "People" and theirs.fields[0].title == "Zip code"
        assert theirs.fields[0].constraints["enum"] == ["01234", "02139"]
