"""What was done to learn a rule, as a value: what is written reads back, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import understudy as us
from understudy.checks import SMALL, small_table
from understudy.learning.manifest import Mistakes, RuleManifest


@pytest.fixture(scope="module")
def made() -> us.Learned:
    return us.learn(small_table(), schema=SMALL, label="c = 1", epsilon=1, width=1)


@pytest.mark.parametrize("report", ["0.1", "0"])
def test_what_was_made_is_read_back_equal(report: str) -> None:
    made = us.learn(small_table(), schema=SMALL, label="c = 1", epsilon=1, width=1, report=report)
    said = json.loads(json.dumps(made.manifest))
    assert RuleManifest.from_dict(said) == made.facts and made.to_dict()["manifest"] == said
    assert (made.facts.mistakes is None) == (report == "0") == (said["mistakes"] is None)
    assert made.facts.guarantee.reads == "unconditional" and made.facts.label == "c = 1"


def test_noise_that_is_far_below_reads_back() -> None:
    made = us.learn(small_table(), schema=SMALL, label="c = 1", epsilon=1, width=1)
    below = replace(made.facts, mistakes=Mistakes.of((-10_000, Fraction(3)), 400, 1))
    assert below.mistakes is not None and below.mistakes.high < 0
    assert RuleManifest.from_dict(json.loads(json.dumps(below.to_dict()))) == below


def test_the_plain_form_is_a_copy(made: us.Learned) -> None:
    made.manifest["guarantee"].clear()
    made.manifest["events"].clear()
    assert made.manifest["guarantee"]["reads"] == "unconditional" and made.manifest["events"]


MALFORMED: dict[str, Callable[[dict[str, Any]], object]] = {
    "an entry that is missing": lambda m: m.pop("ledger"),
    "an entry in no manifest": lambda m: m.update(more=1),
    "three costs": lambda m: m.update(costs=[1, 1, 1]),
    "costs that are no numbers": lambda m: m.update(costs=[1, True]),
    "an event of no kind": lambda m: m["events"][0].update(event="Magic"),
    "a relation that there is not": lambda m: m["guarantee"].update(neighbours="all"),
    "a share that is no number": lambda m: m["mistakes"].update(share=float("nan")),
    "mistakes in words": lambda m: m.update(mistakes="few"),
    "an exponent": lambda m: m["spent"].update(rho="1e999999999"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_manifest_is_refused(made: us.Learned, what: str) -> None:
    data = json.loads(json.dumps(made.to_dict()))
    assert us.Learned.from_dict(data) == made
    MALFORMED[what](data["manifest"])
    with pytest.raises(ValueError, match=r"its entry '?manifest"):
        RuleManifest.from_dict(data["manifest"])
    with pytest.raises(us.BundleError, match="This rule cannot be read"):
        us.Learned.from_dict(data)
