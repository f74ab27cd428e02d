"""docs/audit.md is made of what ran: a row is met only if everything that notes it went well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.results import commit
from tools.audit import BATTERY, page, read_tests

RECORD = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.a" name="one"><properties><property name="battery" value="fuzz|40|no traceback"/></properties></testcase>
<testcase classname="tests.a" name="two"><properties><property name="battery" value="fuzz|2|a | b"/>
<property name="battery" value="kill -9|7|never under-counted"/></properties>{broken}</testcase>
<testcase classname="tests.b" name="three"/></testsuite></testsuites>"""


def record(place: Path, broken: str = "") -> Path:
    file = place / "tests.xml"
    file.write_text(RECORD.format(broken=broken))
    return file


def audited(held: bool = True) -> dict[str, Any]:
    row = {
        "kind": "law",
        "subject": "measure",
        "relation": "replace-one",
        "pair": "all",
        "unit": "of the charge",
        "runs": 12,
        "said": "s",
    }
    return {"rows": [{**row, "claimed": 1.0, "found": 0.9 if held else 2.0, "held": held}]}


def line(text: str, row: str) -> str:
    (found,) = [batch for batch in text.splitlines() if batch.startswith(f"| {row} |")]
    return found


def test_notes_of_the_same_row_add_up(tmp_path: Path) -> None:
    tests = read_tests([record(tmp_path)])
    assert (
        tests.ran == 3
        and tests.failed == ()
        and tests.lines["fuzz"].cases == 42
        and tests.lines["fuzz"].notes == ["no traceback", "a | b"]
    )
    text = page(tests, audited(), {}, 1.0)
    assert line(text, "fuzz").endswith("| no traceback; a \\| b | 42 | 0 | met |") and line(
        text, "kill -9"
    ).endswith("| 7 | 0 | met |")
    assert line(text, "exact small-domain law").endswith("| 1 | 0 | met |")
    assert all(f"| {row} |" in text for row in BATTERY) and line(text, "power loss").endswith(
        "| 0 | 0 | not run |"
    )
    assert f"at commit {commit() or 'unknown'}, Python" in text
    assert "Not every row is met." in text and "There is no web page" in line(text, "web page")


def test_a_row_is_not_met_if_a_test_that_notes_it_failed(tmp_path: Path) -> None:
    tests = read_tests([record(tmp_path, '<failure message="x"/>')])
    assert tests.failed == ("tests.a::two",)
    text = page(tests, audited(), {}, 1.0)
    assert line(text, "fuzz").endswith("| 42 | 1 | NOT met |") and line(text, "kill -9").endswith(
        "| 7 | 1 | NOT met |"
    )
    assert "- `tests.a::two`" in text


def test_a_breach_and_a_mutant_that_got_away_are_misses(tmp_path: Path) -> None:
    mutants = {
        "cases": 20,
        "misses": 1,
        "said": "19 of 20 were caught.",
        "rows": [{"mutant": "half noise", "caught": "yes"}],
    }
    text = page(
        read_tests([record(tmp_path)]), audited(held=False), {"planted mutants": mutants}, 1.0
    )
    assert "NOT met" in line(text, "exact small-domain law") and "BREACH: measure" in line(
        text, "exact small-domain law"
    )
    assert (
        line(text, "planted mutants").endswith("| 20 | 1 | NOT met |")
        and "| half noise | yes |" in text
    )
