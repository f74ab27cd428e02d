"""The check of power finds tests that assert nothing, and tests of the battery fail without what
they are about.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.power import EXCUSED, HOLLOW, excuse, idle_without

PLACES = [place for place, _ in HOLLOW]
FUZZ = "tests/battery/test_fuzz.py"
# Of each function, tests that are about it. All of them must fail when it does nothing.
NAMED: dict[str, tuple[str, ...]] = {
    "understudy.bundle.verify:verify": (
        f"{FUZZ}::test_an_altered_bundle_fails_verification_or_is_refused_in_a_sentence",
        f"{FUZZ}::test_other_among_numeric_categories_is_shown_as_missing_and_the_bundle_is_sound",
        "tests/battery/test_no_pickle.py::test_a_crafted_bundle_runs_nothing[manifest.json-yaml]",
    ),
    "understudy.bundle.release:Release.load": (
        "tests/battery/test_no_pickle.py::test_a_crafted_bundle_runs_nothing[codes.parquet-parquet]",
    ),
    "understudy.learning.learned:Learned.load": (
        f"{FUZZ}::test_an_altered_rule_is_refused_in_a_sentence_or_is_the_same_rule",
    ),
    "understudy.audit.fence:side_doors": (
        "tests/battery/test_conformance.py::test_the_fence_notices_a_side_door",
    ),
    "understudy.checks:check_query_class": (
        "tests/battery/test_conformance.py::test_a_query_class_that_understates_its_sensitivity_fails",
    ),
    "understudy.privacy.meter:Account.charge": (
        "tests/privacy/test_meter.py::test_every_verb_charges_before_it_looks",
        "tests/privacy/test_meter.py::test_no_verb_looks_at_what_it_cannot_pay_for",
        "tests/privacy/test_meter.py::test_a_verb_costs_what_was_asked_and_no_more",
    ),
}
QUICK = ("understudy.bundle.verify:verify",)


@pytest.mark.parametrize(
    "place",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMED],
)
def test_the_battery_fails_without_what_it_is_about(place: str) -> None:
    calls, idle = idle_without(PLACES.index(place), NAMED[place])
    assert {call.partition("[")[0] for call in calls} == {
        test.partition("[")[0] for test in NAMED[place]
    } and idle == []


IDLE = """
import pytest
import understudy as us

def test_that_asks_and_forgets():
    us.verify("nowhere")

@pytest.mark.parametrize("case", range(2))
def test_that_asserts_of_nothing(case):
    for check in us.verify("nowhere"):
        assert check.holds

def test_that_asserts():
    assert len(us.verify("nowhere")) > 5

def test_of_something_else():
    assert us.__version__
"""


def test_a_test_that_asserts_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_idle.py").write_text(IDLE)
    calls, idle = idle_without(PLACES.index(QUICK[0]), [str(tmp_path / "test_idle.py")])
    forgets, case = "test_that_asks_and_forgets", "test_that_asserts_of_nothing"
    assert [test.rpartition("::")[2] for test in idle] == [forgets, f"{case}[0]", f"{case}[1]"]
    assert [test.rpartition("::")[2] for test in calls] == [
        forgets,
        "test_that_asserts",
        f"{case}[0]",
        f"{case}[1]",
    ]


def test_excuses_are_for_tests_that_exist_and_say_why() -> None:
    texts = "".join(
        file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py")
    )
    for (place, test), reason in EXCUSED.items():
        assert place in PLACES and f"def {test}(" in texts and len(reason) > 10
        assert excuse(place, f"tests/x.py::{test}[case]") == reason
    assert excuse(PLACES[0], "tests/x.py::test_of_nothing") == ""
