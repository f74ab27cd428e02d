"""What a schema says beside its columns: keys that nobody reads, slips, titles and descriptions."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frictionless
import numpy as np
import pytest
from click.testing import CliRunner

import understudy as us
from understudy.bundle.report import render_report
from understudy.cli.main import main
from understudy.errors import Unread
from understudy.schema.keys import nearest

AGE = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}}
SEX = {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}}


def schema_of(*fields: dict[str, Any], **top: Any) -> us.Schema:
    return us.Schema.from_dict({"fields": list(fields), **top})


# ---------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"fields": [{**AGE, "constraints": {"minimum": 0, "maximun": 9}}]},
            ["'maximun' of column 'age'", "did you mean 'maximum'?"],
        ),
        (
            {"fields": [{**AGE, "constraints": {"Minimum": 0, "maximum": 9}}]},
            ["'Minimum'", "did you mean 'minimum'?"],
        ),
        (
            {"fields": [{**AGE, "constraints": {"minimum": 0, "maximum": 9, "colour": 1}}]},
            ["'colour'", "known are minimum, maximum, enum"],
        ),
        (
            {"fields": [{"name": "sex", "constraint": {"enum": ["f"]}}]},
            ["'constraint'", "did you mean 'constraints'?"],
        ),
        ({"fields": [{"name": "sex", "Type": "boolean"}]}, ["'Type'", "did you mean 'type'?"]),
        ({"fields": [{**SEX, "categoriesordered": True}]}, ["did you mean 'categoriesOrdered'?"]),
        (
            {"fields": [AGE], "missing_values": ["NA"]},
            ["'missing_values' of the schema", "did you mean 'missingValues'?"],
        ),
        ({"fields": [AGE], "understudi": {}}, ["did you mean 'understudy'?"]),
        (
            {"fields": [AGE], "understudy": {"column": {}}},
            ["the understudy block", "did you mean 'columns'?"],
        ),
        (
            {"fields": [AGE], "understudy": {"author": "x"}},
            ["'author'", "known are privacyUnit, columns"],
        ),
        (
            {"fields": [AGE], "understudy": {"columns": {"age": {"bin": 3}}}},
            ["'bin'", "did you mean 'bins'?"],
        ),
        (
            {"fields": [AGE], "understudy": {"columns": {"Age": {"bins": 3}}}},
            ["'Age'", "did you mean 'age'?", "not among"],
        ),
        ({"Fields": [AGE]}, ["'Fields'", "did you mean 'fields'?"]),
    ],
)
def test_slips_are_refused_with_what_was_meant(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(us.SchemaError) as caught:
        us.Schema.from_dict(data)
    message = str(caught.value)
    assert message.endswith(".") and all(word in message for word in words), message


def test_keys_that_nobody_reads_are_said_in_one_sentence() -> None:
    fields = [{**AGE, "name": f"c{i}", "unit": "years", "format": "%d"} for i in range(41)]
    with pytest.warns(Unread) as heard:
        made = schema_of(
            *fields,
            {"name": "d", "type": "boolean", "constraints": {"enum": ["yes"]}},
            licence="CC0",
        )
    assert len(heard) == 1 and len(made) == 42
    said = str(heard[0].message)
    for words in (
        "'licence' of the schema",
        "'unit' of column 'c0' and 40 more",
        "'format' of column 'c0' and 40 more",
        "'enum' of column 'd'",
    ):
        assert words in said
    assert len(said) < 500
    with pytest.warns(Unread) as heard:
        schema_of({**AGE, **{f"{i}{'x' * 500}": i for i in range(100)}})
    assert "; and 95 more." in str(heard[0].message) and len(str(heard[0].message)) < 1000


def test_keys_of_table_schema_that_say_nothing_of_cells_are_quiet() -> None:
    field = {
        **SEX,
        "title": "t",
        "description": "d",
        "example": "f",
        "rdfType": "x",
        "format": "default",
    }
    field["constraints"] = {
        "enum": ["f", "m"],
        "required": True,
        "unique": False,
        "pattern": ".",
        "minLength": 1,
        "maxLength": 1,
    }
    descriptor = {
        "$schema": "s",
        "name": "n",
        "title": "t",
        "description": "d",
        "fields": [field],
        "primaryKey": ["sex"],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        us.Schema.from_dict(descriptor)
    with pytest.warns(Unread):
        us.Schema.from_dict({**descriptor, "mine": 3})  # Table Schema allows keys of one's own
    assert frictionless.Schema.from_descriptor({"fields": [{**SEX, "mine": 3}], "mine": 3}).fields


@pytest.mark.parametrize(
    ("field", "top", "words"),
    [
        (
            {"name": "d", "type": "boolean", "constraints": {"enum": ["ja", "nein"]}},
            {},
            "a boolean column reads true/false, t/f, yes/no",
        ),
        (
            {"name": "d", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
            {},
            "make it a string column with an enum",
        ),
        ({**AGE, "decimalChar": ","}, {}, "decimal point only"),
        ({**AGE, "bareNumber": False}, {}, "decimal point only"),
        (
            {
                "name": "d",
                "type": "date",
                "format": "%d.%m.%Y",
                "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
            },
            {},
            "ISO 8601 only",
        ),
        ({**AGE, "missingValues": ["-"]}, {}, "at the top of the schema only"),
        (
            {**SEX, "enum": ["f"]},
            {},
            "enum belongs under constraints of a field; look at the indentation",
        ),
        ({**AGE, "bins": 3}, {}, "bins belongs under understudy, columns"),
        (AGE, {"type": "integer"}, "type belongs to a field; look at the indentation"),
        (
            AGE,
            {"constraints": {"minimum": 0}},
            "constraints belongs to a field; look at the indentation",
        ),
        (
            AGE,
            {"maximum": 9},
            "maximum belongs under constraints of a field; look at the indentation",
        ),
    ],
)
def test_what_follows_from_a_key_that_is_not_read_is_said(
    field: dict[str, Any], top: dict[str, Any], words: str
) -> None:
    with pytest.warns(Unread) as heard:
        schema_of(field, **top)
    said = str(heard[0].message)
    assert len(heard) == 1 and words in said and "change nothing" not in said


def test_a_near_key_beside_the_one_it_is_near_to_is_no_slip() -> None:
    with pytest.warns(Unread, match="'names' of column 'sex'"):
        schema_of({**SEX, "names": ["Sex"]})


def test_an_unknown_column_is_refused_with_the_one_that_may_be_meant() -> None:
    schema = us.Schema.from_domain({"age": 3, "income": 4})
    for asked, meant in (("Age", "age"), ("incme", "income")):
        with pytest.raises(
            us.SchemaError, match=rf"no column '{asked}' in the schema \(did you mean '{meant}'\?\)"
        ):
            schema.position(asked)
    with pytest.raises(us.SchemaError) as caught:
        schema.position("zebra")
    assert "mean" not in str(caught.value)


def test_what_is_near() -> None:
    known = ["age", "Sex at birth", "zip_code"]
    assert [nearest(word, known) for word in ("AGE", "sex_at_birth", "zipcode", "zipp code", "agee", "b", "", 3, "_")] == [
        "age", "Sex at birth", "zip_code", "zip_code", "age", None, None, None, None,
    ]  # fmt: skip


# ---------------------------------------------------------------------- columns of the table

HEADER = "age,sex,Name,sécrèt note"
PERSON = "7,f,Mary,likes tea"
SMALL = schema_of(AGE, SEX)
SECRETS = re.compile("Mary|tea|34000")


def table(folder: Path, first: str) -> str:
    file = folder / "t.csv"
    file.write_text(first + "\n" + (PERSON + "\n") * 50, encoding="utf-8")
    return str(file)


def said_of(path: str, schema: us.Schema) -> Iterator[str]:
    """Whatever is said when a table is opened: warnings, and the refusal."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            us.release(path, schema=schema, epsilon=1, workload="1-way", mechanism="independent")
        except us.SourceError as problem:
            yield str(problem)
    yield from (str(one.message) for one in heard if issubclass(one.category, Unread))


def test_columns_that_the_schema_does_not_have_are_named(tmp_path: Path) -> None:
    said = list(said_of(table(tmp_path, HEADER), SMALL))
    assert said == [
        "The table has 2 columns that the schema does not have; ignored: 'Name', 'sécrèt note'."
    ]
    assert not list(said_of(table(tmp_path, "age,sex"), SMALL))


def test_so_are_those_of_tables_in_memory() -> None:
    import pandas as pd

    frame = pd.DataFrame({"age": [1] * 50, "sex": ["f"] * 50, "note": ["x"] * 50})
    with pytest.warns(
        Unread, match="has one column that the schema does not have; ignored: 'note'"
    ):
        us.release(frame, schema=SMALL, epsilon=1, workload="1-way", mechanism="independent")


@pytest.mark.parametrize(
    ("header", "meant"),
    [
        ("Age,sex", "Age"),
        ("AGE , Sex", "AGE"),
        ("agee,sex", "agee"),
        ("sex,Name,ag e", "ag e"),
        ("_age_,SEX", "_age_"),
    ],
)
def test_a_column_that_may_be_meant_is_named(header: str, meant: str, tmp_path: Path) -> None:
    (said,) = said_of(table(tmp_path, header), SMALL)
    assert (
        f"no column 'age', which the schema names; did you mean '{meant}', which the table has?"
        in said
        and said.endswith(".")
    )


def test_so_are_those_of_pairs_and_a_note_that_stops_the_program_costs_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text(
        "user,film,stars\n" + "".join(f"{i},Alien,5\n" for i in range(50))
    )
    book, schema = tmp_path / "l.jsonl", us.Schema.items(["Alien", "Diva"], row="user", item="film")
    with pytest.warns(Unread, match="ignored: 'stars'") as heard, warnings.catch_warnings():
        us.release(
            str(tmp_path / "t.csv"),
            schema=schema,
            epsilon=1,
            workload="1-way",
            mechanism="independent",
            ledger=book,
        )
    assert len(heard) == 1 and book.exists()
    with warnings.catch_warnings(), pytest.raises(Unread):
        warnings.simplefilter("error")
        us.release(
            str(tmp_path / "t.csv"),
            schema=schema,
            epsilon=1,
            workload="1-way",
            mechanism="independent",
            ledger=tmp_path / "no",
        )
    assert not (tmp_path / "no").exists()


CODED = us.Schema.from_domain({"0": 3, "7": 9})
NUMBERED = us.Schema.from_domain({"12": 3, "34": 5})
WORDS_AS_CELLS = schema_of(
    {**SEX, "name": "f", "constraints": {"enum": ["f", "Mary"]}}, {**SEX, "name": "Mary"}
)


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        (SMALL, PERSON),  # a file without a header
        (SMALL, "7,sex,Mary,34000"),  # somebody whose cell is a name of the schema's
        (schema_of(SEX), "7,sex,Mary,34000"),  # or the only one
        (schema_of(SEX, AGE, {**AGE, "name": "income"}), "sex,income of Mary,34000"),
        (CODED, "0,7,Mary,34000"),  # names that cells may well be
        (NUMBERED, "1.2,3-4,Mary,34000"),  # or may be spelt like
        (NUMBERED, "12,3.4,Mary,34000"),
        (us.Schema.from_domain({"2020-01-01": 2, "true": 3}), "2020-01-01,true,Mary,34000"),
        (WORDS_AS_CELLS, "f,Mary,likes tea,34000"),
        (
            schema_of({**SEX, "name": "NA"}, {**SEX, "name": "-"}, missingValues=["NA", "-"]),
            "NA,-,Mary,34000",
        ),
    ],
)
def test_the_first_line_of_a_file_without_a_header_is_never_shown(
    schema: us.Schema, first: str, tmp_path: Path
) -> None:
    said = list(said_of(table(tmp_path, first), schema))
    assert said, "something is refused or said to be ignored"
    for sentence in said:
        for name in schema.names:
            sentence = sentence.replace(repr(name), "")
        assert not SECRETS.search(sentence) and "1.2" not in sentence and "3.4" not in sentence, (
            sentence
        )


def test_where_nothing_may_be_named_the_number_is_said(tmp_path: Path) -> None:
    assert list(said_of(table(tmp_path, "0,7,a,b"), CODED)) == [
        "The table has 2 columns that the schema does not have; ignored."
    ]


def test_many_ignored_columns_are_one_short_sentence(tmp_path: Path) -> None:
    (said,) = said_of(
        table(tmp_path, "age,sex," + ",".join(f"column{i}" for i in range(500))), SMALL
    )
    assert "500 columns" in said and "and others" in said and len(said) < 500


# ---------------------------------------------------------------------- on the command line


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words), env={"COLUMNS": "100"})


def test_notes_about_41_columns_are_one_table(tmp_path: Path) -> None:
    fields = [{**SEX, "name": f"c{i:02}"} for i in range(41)]
    (tmp_path / "s.json").write_text(
        json.dumps(
            {"fields": fields, "understudy": {"columns": {"c00": {"missing": True, "other": True}}}}
        )
    )
    shown = run("schema", "check", str(tmp_path / "s.json"))
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert sum("c07" in line for line in lines) == 1 and len(lines) <= 41 + 6
    first, second = (
        next(line.split() for line in lines if name in line) for name in ("c00", "c01")
    )
    assert first[-2:] == ["MISSING", "OTHER"] and second[-2:] == ["f", "f"]


def test_the_commands_say_what_nobody_reads_in_a_note(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"fields": [{**AGE, "unit": "years"}, SEX]}))
    data, schema = table(tmp_path, HEADER), str(tmp_path / "s.json")
    for words in (
        ("schema", "check", schema, data),
        (
            "release",
            data,
            "--schema",
            schema,
            "--epsilon",
            "1",
            "--mechanism",
            "independent",
            "--out",
            str(tmp_path / "out"),
        ),
        ("learn", data, "--schema", schema, "--label", "sex = f", "--epsilon", "1"),
    ):
        done = run(*words)
        assert done.exit_code == 0, done.output
        notes = [line for line in done.stderr.splitlines() if line.startswith("Note: ")]
        assert (
            len(notes) == 2
            and "'unit' of column 'age'" in notes[0]
            and "ignored: 'Name', 'sécrèt note'" in notes[1]
        )
    done = run("plan", "--schema", schema, "--rows", "5000", "--epsilon", "1", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["mechanism"] and "Note: " in done.stderr


# ---------------------------------------------------------------------- titles and descriptions

WORDS = {"title": "People of <Springfield>", "description": "Everybody who was\nasked & answered."}
TITLED = schema_of(
    {**AGE, "title": "Age [years]", "description": "On the first of May."},
    {**SEX, "description": "As <told>."},
    **WORDS,
)


def rows(schema: us.Schema) -> np.ndarray:
    return np.random.default_rng(0).integers(0, schema.shape, (200, len(schema)))


def test_titles_survive_into_the_bundle_and_are_shown(tmp_path: Path) -> None:
    codes = rows(TITLED)
    table = TITLED.decode(codes, np.random.default_rng(0))
    made = us.release(table, schema=TITLED, workload="1-way", epsilon=1, mechanism="independent")
    folder = made.save(tmp_path / "out")
    again = us.Release.load(folder).schema
    assert (again.title, again.description) == (WORDS["title"], WORDS["description"])
    assert [(c.title, c.description) for c in again] == [
        ("Age [years]", "On the first of May."),
        ("", "As <told>."),
    ]
    assert all(check.holds for check in us.verify(folder))
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in (
        "People of &lt;Springfield&gt;",
        "Everybody who was asked &amp; answered.",
        "Age [years]",
        "On the first of May.",
        "As &lt;told&gt;.",
    ):
        assert words in page
    assert "<told>" not in page and "<Springfield>" not in page


def test_a_title_that_was_altered_is_noticed(tmp_path: Path) -> None:
    import hashlib

    table = TITLED.decode(rows(TITLED), np.random.default_rng(0))
    folder = us.release(
        table, schema=TITLED, workload="1-way", epsilon=1, mechanism="independent"
    ).save(tmp_path / "out")
    text = (
        (folder / "schema.json").read_text(encoding="utf-8").replace("Springfield", "Shelbyville")
    )
    (folder / "schema.json").write_text(text, encoding="utf-8")
    with pytest.raises(us.BundleError):
        us.Release.load(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["schema.json"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert not all(check.holds for check in us.verify(folder))


def test_titles_are_words_of_table_schema(tmp_path: Path) -> None:
    theirs = frictionless.Schema.from_descriptor(TITLED.to_dict())
    assert (
        theirs.title == WORDS["title"]
        and theirs.fields[0].title == "Age [years]"
        and theirs.fields[1].description == "As <told>."
    )
    for ending in ("yaml", "json"):
        TITLED.save(tmp_path / f"s.{ending}")
        assert us.Schema.load(tmp_path / f"s.{ending}") == TITLED


def test_without_titles_digest_and_report_are_as_before(tmp_path: Path) -> None:
    """Bundles of the build before are still theirs: nothing is added where nothing is said."""
    bare = schema_of(AGE, SEX)
    assert bare.digest == "88d0eb2c72dceddef42812082f05f4832d586b8d54c581750f9d93c4c1318cc8"
    assert bare.digest != TITLED.digest and "title" not in json.dumps(bare.to_dict())
    made = us.release(
        bare.decode(rows(bare), np.random.default_rng(0)),
        schema=bare,
        workload="1-way",
        epsilon=1,
        mechanism="independent",
    )
    page = render_report(made)
    assert '<h1>Release report</h1>\n<p class="soft">' in page and "<h3>age</h3>\n  " in page


@pytest.mark.parametrize("words", [{"title": 3}, {"description": None}, {"title": ["x"]}])
def test_titles_that_are_no_texts_are_refused(words: dict[str, Any]) -> None:
    for data in ({"fields": [{**AGE, **words}]}, {"fields": [AGE], **words}):
        with pytest.raises(us.SchemaError, match="texts"):
            us.Schema.from_dict(data)


def test_a_list_of_items_has_a_title_too(tmp_path: Path) -> None:
    schema = us.Schema.items(["bread", "milk"], title="Baskets", description="One day.")
    schema.save(tmp_path / "s.yaml")
    assert us.Schema.load(tmp_path / "s.yaml") == schema and schema.title == "Baskets"
    assert us.Schema.items(["bread", "milk"]).to_dict() == {"items": ["bread", "milk"]}
    assert us.Schema.from_dict({"items": 5, "title": 3}).names == (
        "items",
        "title",
    ), "a domain may have columns of these names"
    made = us.release(
        np.eye(2, dtype=int).repeat(50, axis=0),
        schema=schema,
        workload="1-way",
        epsilon=1,
        mechanism="independent",
    )
    assert "Baskets" in render_report(made)
    shown = run("schema", "check", str(tmp_path / "s.yaml"))
    assert "Baskets" in shown.stdout and "One day." in shown.stdout


def test_schema_check_shows_titles(tmp_path: Path) -> None:
    TITLED.save(tmp_path / "s.yaml")
    shown = run("schema", "check", str(tmp_path / "s.yaml"))
    assert (
        WORDS["title"] in shown.stdout
        and "Everybody who was asked & answered." in shown.stdout
        and "Age [years]" in shown.stdout
    )
    facts = json.loads(run("schema", "check", str(tmp_path / "s.yaml"), "--json").stdout)
    assert (
        facts["title"] == WORDS["title"]
        and facts["columns"][0]["title"] == "Age [years]"
        and "title" not in facts["columns"][1]
    )
