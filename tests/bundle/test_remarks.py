"""What released values suggest about how a table was read, and a certificate that counts people."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import understudy as us
from understudy.api import demo
from understudy.bundle.measured import Single, noisy_tables, single_columns
from understudy.bundle.remarks import _about
from understudy.checks import SMALL, small_table
from understudy.cli.main import main

PEOPLE = 20_000
NAMES = ["red", "blue", "green", "grey"]


def column(kind: str, settings: dict[str, Any] | None = None, **constraints: Any) -> us.Schema:
    """A schema of the column ``x`` alone."""
    field = {"name": "x", "type": kind, "constraints": constraints}
    return us.Schema.from_dict(
        {"fields": [field], "understudy": {"columns": {"x": settings or {}}}}
    )


def mixed(*batches: tuple[float, list[Any]]) -> list[Any]:
    """Cells of which each part holds a share, its values in equal numbers."""
    return [cells[i % len(cells)] for share, cells in batches for i in range(round(share * PEOPLE))]


NUMBERS = [str(i) for i in range(100)]
YEAR = {"minimum": "2024-01-01", "maximum": "2024-12-31"}
DAYS = [f"2024-{month:02d}-15" for month in range(1, 13)]
MISSING = {"missing": True}

# name: (schema, cells, what the remark is about, its share, what the advice says)
TRAPS: dict[str, tuple[us.Schema, list[Any], str, float, str]] = {
    "dates that are not ISO": (column("date", MISSING, **YEAR), mixed((0.67, ["31/03/2024"]), (0.33, DAYS)), "missing", 0.67, "ISO"),
    "moments that are not ISO": (
        column("datetime", MISSING, **YEAR), mixed((0.5, ["31.03.2024 14:05"]), (0.5, DAYS)), "missing", 0.5, "T14:05 is read",
    ),
    "numbers with a decimal comma": (
        column("number", {**MISSING, "bins": 10}, minimum=0, maximum=99), mixed((0.18, ["12,5"]), (0.82, NUMBERS)), "missing", 0.18,
        "decimal comma",
    ),
    "other words for yes and no": (
        column("boolean", MISSING), mixed((0.5, ["ja", "nein"]), (0.5, ["yes", "no"])), "missing", 0.5, "true, t, yes, y, 1 and false",
    ),
    "empty cells where others are OTHER": (
        column("string", {**MISSING, "other": True}, enum=NAMES), mixed((0.3, [""]), (0.7, NAMES)), "missing", 0.3, "missingValues",
    ),
    "categories that are not listed": (
        column("string", {"other": True}, enum=NAMES), mixed((0.4, ["pink"]), (0.6, NAMES)), "other", 0.4, "listed",
    ),
    "a maximum that is too low": (
        column("integer", {"bins": 10}, minimum=0, maximum=79), mixed((1.0, NUMBERS)), "last bin", 0.28, "maximum",
    ),
    "a minimum that is too high": (
        column("integer", {"bins": 10}, minimum=30, maximum=99), mixed((1.0, NUMBERS)), "first bin", 0.37, "minimum",
    ),
    "unreadable numbers without a place of their own": (
        column("number", {"bins": 10}, minimum=0, maximum=99), mixed((0.5, ["$12"]), (0.5, NUMBERS)), "first bin", 0.55, "missing: true",
    ),
    "nearly one value": (column("string", MISSING, enum=["m", "f"]), mixed((0.998, ["m"]), (0.002, ["f"])), "one value", 0.998, "Case"),
    "misspelt and without a place of its own": (
        column("string", None, enum=["m", "f"]), mixed((0.5, ["m"]), (0.5, ["F"])), "one value", 1.0, "count as it",
    ),
    "a misspelt category": (
        column("string", MISSING, enum=["red", "blue", "green", "gray"]), mixed((1.0, NAMES)), "never seen", 0.0, "Misspelt?",
    ),
}  # fmt: skip


def released(schema: us.Schema, cells: list[Any], **how: Any) -> us.Release:
    asked: dict[str, Any] = {
        "epsilon": 1,
        "workload": "1-way",
        "mechanism": "independent",
        "delta": 1e-9,
        **how,
    }
    return us.release(pd.DataFrame({"x": pd.Series(cells, dtype=object)}), schema=schema, **asked)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_is_remarked_on(trap: str, neighbours: str) -> None:
    schema, cells, about, share, advice = TRAPS[trap]
    # at epsilon 1 noise hides the small group of one trap in one release of thirteen
    found = released(schema, cells, neighbours=neighbours, epsilon=4).remarks
    (remark,) = [remark for remark in found if remark.about == about]
    assert remark.column == "x" and remark.sentence.startswith("x: ") and advice in remark.advice
    assert remark.share == pytest.approx(share, abs=0.02)
    assert {other.about for other in found} <= {about, "missing"}  # misspelt cells are MISSING too


@pytest.mark.parametrize("trap", TRAPS)
def test_the_same_columns_read_well_are_not(trap: str) -> None:
    schema = TRAPS[trap][0]
    every = range(schema.columns[0].values)
    cells = schema.decode(np.array([[code] for code in every]), np.random.default_rng(0))[
        "x"
    ].to_pylist()
    assert released(schema, mixed((1.0, cells))).remarks == ()


def test_the_demo_is_read_well() -> None:
    assert (
        us.release(demo.population(), schema=demo.schema(), epsilon=1, workload="1-way").remarks
        == ()
    )


def test_noise_alone_is_no_reason_for_a_remark() -> None:
    """Forty columns with a little less than what is remarkable: noise lifts many of them above it."""
    fields = [{"name": f"c{i}", "type": "boolean"} for i in range(40)]
    schema = us.Schema.from_dict(
        {"fields": fields, "understudy": {"columns": {f["name"]: MISSING for f in fields}}}
    )
    cells = [*[""] * 109, *["yes", "no"] * 495, "yes"]  # 9.9% of them are missing
    made = us.release(
        pd.DataFrame({f["name"]: cells for f in fields}),
        schema=schema,
        epsilon=1,
        mechanism="independent",
        workload="1-way",
    )
    singles = single_columns(made, noisy_tables(made))
    assert len(singles) == 40 and sum(single.shares[2] > 0.1 for single in singles) > 2
    assert made.remarks == ()


@pytest.mark.parametrize(("people", "epsilon"), [(PEOPLE, 0.0001), (100, 0.01)])
def test_few_people_and_much_noise_say_nothing(people: int, epsilon: float) -> None:
    cells = (["31/03/2024"] * 2 + ["2024-03-31"]) * people
    schema = TRAPS["dates that are not ISO"][0]
    assert released(schema, cells[:people], epsilon=epsilon).remarks == ()
    assert [remark.about for remark in released(schema, cells[:PEOPLE]).remarks] == ["missing"]


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("arp", {}),
        ("matrix", {}),
        ("projection", {"steps": 50}),
        ("dualquery", {}),
        ("fem", {"rounds": 20, "samples": 20}),
    ],
)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_every_kind_of_mechanism_has_them(
    mechanism: str, parameters: dict[str, Any], neighbours: str
) -> None:
    """Measured alone, as residuals, in wider tables only, or not at all: then the rows speak, as
    far as the certificate does.
    """
    schema = us.Schema((*column("boolean", MISSING), us.Boolean(name="y"), us.Boolean(name="z")))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.choice(["ja", "nein", "nein", "yes"], 4000),
            "y": rng.random(4000) < 0.5,
            "z": rng.random(4000) < 0.5,
        }
    )
    made = us.release(
        frame,
        schema=schema,
        epsilon=2,
        delta=1e-9,
        mechanism=mechanism,
        parameters=parameters,
        neighbours=neighbours,
        workload="2-way",
    )
    assert [(remark.column, remark.about) for remark in made.remarks] == [("x", "missing")]
    assert made.remarks[0].share == pytest.approx(0.75, abs=0.2)


def test_a_column_that_no_marginal_holds_is_left_alone() -> None:
    rows = np.zeros((500, 3), int)
    asked = us.explicit(SMALL, columns=[["a", "c"]])
    made = us.release(rows, schema=SMALL, epsilon=4, workload=asked, mechanism="dualquery")
    assert {single.position for single in single_columns(made, noisy_tables(made))} == {0, 2}


def test_items_that_nobody_has_are_remarked_on() -> None:
    pairs = pd.DataFrame({"row": np.arange(5000), "item": ["Bread", "Milk"] * 2500})
    schema = us.Schema.items(["bread", "milk", "tea"])
    made = us.release(pairs, schema=schema, epsilon=1, workload="1-way", mechanism="independent")
    assert [remark.about for remark in made.remarks] == ["no items"] and "spelt" in made.remarks[
        0
    ].advice
    well = us.release(
        pairs.assign(item=pairs["item"].str.lower()),
        schema=schema,
        epsilon=1,
        workload="1-way",
        mechanism="independent",
    )
    assert well.remarks == ()


def test_remarks_are_in_the_summary_the_report_and_the_json(tmp_path: Path) -> None:
    schema, cells, *_ = TRAPS["dates that are not ISO"]
    pd.DataFrame({"x": cells}).to_csv(tmp_path / "t.csv", index=False)
    schema.save(tmp_path / "schema.json")
    words = [
        "release",
        str(tmp_path / "t.csv"),
        "--schema",
        str(tmp_path / "schema.json"),
        "--epsilon",
        "1",
        "--workload",
        "1-way",
    ]
    told = json.loads(
        CliRunner().invoke(main, [*words, "--out", str(tmp_path / "a"), "--json"]).stdout
    )
    (remark,) = us.Release.load(tmp_path / "a").remarks  # from the folder alone
    assert told["remarks"] == [vars(remark)]
    said = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "b")]).stdout
    made = us.Release.load(tmp_path / "b")
    for place in (said, made.summary, text_of(tmp_path / "b")):
        assert str(made.remarks[0]) in place and str(made.certificate) in place
    assert re.search(r"x: 6[67]% MISSING\. Are its dates ISO\?", said)
    assert all(check.holds for check in us.verify(tmp_path / "b"))


def test_a_first_value_that_unread_cells_join_is_asked_about_in_spite_of_much_noise(
    tmp_path: Path,
) -> None:
    """Eleven columns share the budget, so that no certainty is left; a question needs less."""
    rng, people = np.random.default_rng(0), 3500
    flags = [f"c{i}" for i in range(9)]
    fields = [{"name": name, "type": "boolean"} for name in ("smoker", *flags)]
    fields.append({"name": "sex", "type": "string", "constraints": {"enum": ["female", "male"]}})
    schema = us.Schema.from_dict(
        {"fields": fields, "understudy": {"columns": dict.fromkeys(flags, MISSING)}}
    )
    table = pd.DataFrame({name: rng.choice(["yes", "no"], people) for name in flags})
    table["smoker"], table["sex"] = (
        rng.choice(["ja", "nein"], people),
        rng.choice(["female", "Female", "male"], people),
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    schema.save(tmp_path / "schema.json")
    words = [
        "release",
        str(tmp_path / "t.csv"),
        "--schema",
        str(tmp_path / "schema.json"),
        "--epsilon",
        "1",
    ]
    said = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "r")]).stdout
    (remark,) = us.Release.load(tmp_path / "r").remarks
    assert (remark.column, remark.about) == (
        "smoker",
        "one value",
    ) and "count as it" in remark.advice
    assert str(remark) in said
    joining = (
        "smoker, sex: cells that are missing or not listed count as the first value (false,"
        " female)."
    )
    assert said.count(joining) == 1 and text_of(tmp_path / "r").count(joining) == 1
    told = json.loads(
        CliRunner().invoke(main, [*words, "--out", str(tmp_path / "s"), "--json"]).stdout
    )
    assert told["joins_first"] == {"smoker": "false", "sex": "female"}


@pytest.mark.parametrize(("share", "noise", "sentence"), [
    (1.0, 0.001, "x: one value (false) holds 100%."), (1.0, 0.0125, "x: is nearly everybody false (100%)?"),
    (0.96, 0.001, "x: is nearly everybody false (96%)?"), (0.94, 0.001, ""), (1.0, 0.05, ""),
])  # fmt: skip
def test_what_is_less_sure_is_a_question(share: float, noise: float, sentence: str) -> None:
    for kind, said in (
        (us.Boolean(name="x"), sentence),
        (us.Boolean(name="x", other=True), sentence if "one value" in sentence else ""),
    ):
        shares = np.array([share, *[0.0] * (kind.size - 1)])
        assert [told.sentence for told in _about(kind, Single(0, shares, noise, 0.0), True)] == (
            [said] if said else []
        )
    assert not _about(us.Boolean(name="x"), Single(0, np.array([0.96, 0.04]), 0.001, 0.0), False)


def test_codes_are_not_said_to_join_the_first(tmp_path: Path) -> None:
    rows = np.zeros((5000, 3), int)
    rows[:150, 0] = 1  # 97% are the first code
    made = us.release(rows, schema=SMALL, epsilon=1, workload="1-way", mechanism="independent")
    assert "a" not in {remark.column for remark in made.remarks}
    assert "not listed count" not in text_of(made.save(tmp_path / "r"))


def text_of(folder: Path) -> str:
    page = re.sub(
        r"<(style|svg).*?</\1>",
        "",
        (folder / "report.html").read_text(encoding="utf-8"),
        flags=re.S,
    )
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())


# ---------------------------------------------------------------------- people


def test_a_certificate_counts_people_and_shares() -> None:
    public = us.Certificate(0.008876, 0.95, 800, 20.0, 101_766, 0.0, 5_000)
    assert public.people == 904
    assert (
        str(public)
        == "With 95% confidence, each of the 5,000 answers is off by at most 904 of 101,766 people"
        " (0.888% of all rows)."
    )
    private = us.Certificate(0.008876, 0.95, 800, 20.0, 101_766, 3.0, 5_000)
    assert "at most about 904 of about 101,766 people" in str(private)
    assert "Nothing can be said" in str(us.Certificate(1.0, 0.95, 800, 20.0, 500, 0.0, 5_000))


@pytest.fixture(scope="module")
def made() -> us.Release:
    return us.release(
        small_table(4000), schema=SMALL, epsilon=1, workload="2-way", mechanism="gaussian"
    )


def of(made: us.Release, rows: np.ndarray, alpha: float) -> us.Release:
    """A release with other rows and another bound."""
    certificate = us.Certificate(alpha, 0.95, 10, 1.0, len(rows), 0.0, made.workload.size)
    facts = replace(made.facts, certificate=certificate)
    return replace(made, codes=rows.astype(np.int32), facts=facts)


def test_groups_smaller_than_the_bound_are_named(made: us.Release, tmp_path: Path) -> None:
    rows = np.column_stack([np.arange(4000) % 2, np.arange(4000) % 4, np.arange(4000) % 2])
    rows[:120, 0], rows[:3, 1] = 2, 3
    rare = of(made, rows, alpha=0.05)
    assert [(group.words, group.people) for group in rare.small_groups] == [("a = 2", 120)]
    said = "Smaller than that bound, so that answers may be mostly noise: a = 2 (about 120 people)."
    assert said in rare.summary and said in text_of(rare.save(tmp_path / "r"))
    cells = of(made, rows, alpha=0.001).small_groups  # no value is so rare, but a cell is
    assert [(group.words, group.people) for group in cells] == [("b = 3 and c = 0", 2)]
    assert of(made, rows, alpha=1.0).small_groups == ()
    assert "about" not in of(made, rows[120:], alpha=0.0001).summary


def test_the_report_says_in_people_how_far_off_answers_are(tmp_path: Path) -> None:
    for neighbours, about in (("replace-one", ""), ("add-remove-one", "about ")):
        made = us.release(
            small_table(3000),
            schema=SMALL,
            epsilon=1,
            delta=1e-8,
            neighbours=neighbours,
            mechanism="gaussian",
        )
        page = text_of(made.save(tmp_path / neighbours))
        people, rows = made.certificate.people, made.certificate.rows
        assert f"Every answer is off by at most{about}{people:,} people" in page
        assert (
            f"of {about}{rows:,}, which is " in page
            and "% of all rows, with 95% confidence" in page
        )
        assert "within" not in page


def test_the_report_says_what_became_of_cells_that_do_not_fit(tmp_path: Path) -> None:
    named = {
        "none": {},
        "missing": MISSING,
        "other": {"other": True},
        "both": {**MISSING, "other": True},
    }
    fields = [
        {"name": name, "type": "string", "constraints": {"enum": ["m", "f"]}} for name in named
    ]
    fields.append({"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}})
    schema = us.Schema.from_dict(
        {"fields": fields, "understudy": {"columns": {**named, "age": {"bins": 2}}}}
    )
    table = pd.DataFrame({**dict.fromkeys(named, ["m", "f"] * 50), "age": range(100)})
    made = us.release(table, schema=schema, epsilon=1, mechanism="independent", workload="1-way")
    page = (made.save(tmp_path / "r") / "report.html").read_text(encoding="utf-8")
    rows = [
        tuple(re.findall(r"<td>(.*?)</td>", row)) for row in re.findall(r"<tr>(.*?)</tr>", page)
    ]
    told = {row[0]: row[1:] for row in rows if len(row) == 4}
    assert told == {
        "none": ("m, its first value", "m, its first value", "–"),
        "missing": ("MISSING", "MISSING", "–"),
        "other": ("OTHER", "OTHER", "–"),
        "both": ("MISSING", "OTHER", "–"),
        "age": ("0 to 49, its first value", "0 to 49, its first value", "the first or last bin"),
    }
    # and that is what the schema does
    for name, (missing, unlisted, _) in list(told.items())[:4]:
        read = us.Schema((schema[name],)).encode(pa.table({name: ["", "x"]}))
        assert [schema[name].label(int(code)) for code in read[:, 0]] == [
            missing.split(",")[0],
            unlisted.split(",")[0],
        ]


def test_numbers_for_people_have_few_digits(tmp_path: Path) -> None:
    pd.DataFrame(small_table(777), columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.json").write_text(json.dumps({"a": 3, "b": 4, "c": 2}))
    words = [
        "release",
        str(tmp_path / "t.csv"),
        "--schema",
        str(tmp_path / "schema.json"),
        "--epsilon",
        "1/3",
        "--mechanism",
        "dualquery",
    ]
    said = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "r")])
    assert said.exit_code == 0, said.output
    pages = [
        said.output,
        *(
            CliRunner().invoke(main, w).stdout
            for w in (["verify", str(tmp_path / "r")], ["budget", str(tmp_path / "t.csv")])
        ),
    ]
    for page in [*pages, us.Release.load(tmp_path / "r").summary, text_of(tmp_path / "r")]:
        numbers = re.findall(r"\d+\.\d+", page.replace(str(tmp_path), ""))
        assert (
            numbers and max(len(number.replace(".", "").lstrip("0")) for number in numbers) <= 6
        ), page
    exact = json.loads(
        CliRunner().invoke(main, [*words, "--out", str(tmp_path / "s"), "--json"]).stdout
    )
    assert (
        exact["delta"] == 1 / 777**2
        and exact["alpha_people"] == us.Release.load(tmp_path / "s").certificate.people
    )
