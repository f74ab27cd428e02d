"""The manifest as a value: what is written reads back, and whatever is no manifest is a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from support.bundles import unsound
from support.strategies import lies, retold
from understudy.bundle.manifest import Manifest, MechanismFacts
from understudy.checks import SMALL, small_table
from understudy.mechanisms.base import Brief, Means, make
from understudy.privacy import Budget
from understudy.queries.base import Neighbours
from understudy.queries.workload import marginals

EARLIER = Path(__file__).parent / "fixtures"
WRITTEN = sorted(EARLIER.glob("*/*/manifest.json"))


@pytest.fixture
def said() -> dict[str, Any]:
    return json.loads(WRITTEN[0].read_text())


@pytest.mark.parametrize("place", WRITTEN, ids=lambda place: place.parent.name)
def test_what_is_read_is_written_the_same(place: Path) -> None:
    text = place.read_text()
    again = Manifest.from_dict(json.loads(text)).to_dict()
    assert json.dumps(again, indent=1, ensure_ascii=False) + "\n" == text


@pytest.mark.parametrize("mechanism", ["mwem", "matrix", "independent"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_what_was_made_is_read_back_equal(mechanism: str, neighbours: str) -> None:
    made = us.release(
        small_table(), schema=SMALL, epsilon=1, delta="1e-6", mechanism=mechanism,
        neighbours=neighbours, seed=3,
    )  # fmt: skip
    assert Manifest.from_dict(json.loads(json.dumps(made.manifest))) == made.facts
    assert made.facts.rows.public == (neighbours == "replace-one")
    assert made.facts.mechanism.why == "you asked for it" and made.facts.seed == 3


def test_the_plain_form_is_a_copy(said: dict[str, Any]) -> None:
    facts = Manifest.from_dict(said)
    plain = facts.to_dict()
    plain["mechanism"]["parameters"]["more"] = 1
    plain["measurements"][0]["part"].clear()
    plain["events"].clear()
    assert facts.to_dict() == json.loads(WRITTEN[0].read_text())
    with pytest.raises(FrozenInstanceError):
        facts.seed = 2  # type: ignore[misc]


def test_values_of_other_types_are_told_in_words() -> None:
    mwem, budget, workload = make("mwem", {}), Budget.zcdp(1), marginals(SMALL, k=1)
    brief = Brief(schema=SMALL, workload=workload, neighbours=Neighbours.REPLACE_ONE)
    decision = mwem.decide(brief, Means(budget=budget, rho=budget.rho, rows=100))
    facts = MechanismFacts.of(mwem, decision, {"share": Fraction(1, 3), "rounds": 4}, "why not")
    assert facts.played == {**decision.numbers, "share": "1/3", "rounds": 4}
    assert facts.parameters == decision.parameters


# Each with what its sentence must name.
MALFORMED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an entry that is missing": (lambda m: m.pop("ledger"), "entry ledger is missing"),
    "one inside that is missing": (lambda m: m["rows"].pop("sigma"), "rows.sigma is missing"),
    "no relation": (lambda m: m.pop("neighbours"), "neighbours is missing"),
    "no events": (lambda m: m.pop("events"), "events is missing"),
    "a relation that there is not": (lambda m: m.update(neighbours="all"), "neighbours"),
    "text for an object": (lambda m: m.update(spent="nothing"), "spent is not an object"),
    "a list for an object": (lambda m: m.update(schema=[]), "schema is not an object"),
    "an object for a list": (lambda m: m.update(events={}), "events is not a list"),
    "a number for text": (lambda m: m.update(made_by=1), "made_by is not text"),
    "text for a number": (lambda m: m.update(synthetic_rows="9"), "synthetic_rows is not a whole"),
    "true for a number": (lambda m: m["rows"].update(count=True), "rows.count is not a whole"),
    "a number for true": (lambda m: m["rows"].update(public=1), "rows.public is not true or"),
    "a fraction for a number": (lambda m: m.update(selections=1.5), "selections is not a whole"),
    "a float for a rational": (lambda m: m["budget"].update(rho=0.5), "budget.rho is not text"),
    "a decimal for a rational": (lambda m: m["spent"].update(rho="0.5"), "spent.rho is not a rat"),
    "an exponent": (lambda m: m["budget"].update(delta="1e999999999"), "budget.delta is not a rat"),
    "a rational over nothing": (lambda m: m["rows"].update(sigma="1/0"), "rows.sigma is not a rat"),
    "digits without end": (lambda m: m["rows"].update(sigma="1" * 9999), "rows.sigma is not a rat"),
    "an event of no kind": (lambda m: m["events"][0].update(event="Magic"), "no event that there is"),
    "an event without a label": (lambda m: m["events"][0].update(what=1), "no event that there is"),
    "an event that is text": (lambda m: m["events"].append("x"), "no event that there is"),
    "an event over nothing": (
        lambda m: m["events"][-1].update(sigma_squared="1/0"), "no event that there is",
    ),
    "an entry in no event": (lambda m: m["events"][0].update(more=1), "no event that there is"),
    "an entry in no manifest": (lambda m: m.update(more=1), "'more' is in no manifest"),
    "one inside": (lambda m: m["rows"].update(more=1), "'rows.more' is in no manifest"),
    "one of two lines": (lambda m: m.update({"a\nb": 1}), r"'a\nb' is in no manifest"),
    "a measurement of text": (lambda m: m["measurements"].append("x"), "measurements is not an obj"),
    "a residual that is none": (
        lambda m: m["measurements"][0].update(residual=False), "measurements.residual is not true",
    ),
    "a threshold in words": (
        lambda m: m["measurements"][0].update(threshold="5"), "threshold is not a whole number",
    ),
    "kept cells without a threshold": (
        lambda m: m["measurements"][0].update(kept=5), "'measurements.kept' is in no manifest",
    ),
    "a parameter of many": (
        lambda m: m["mechanism"]["parameters"].update(a=[[[]]]), "parameters holds what is not a",
    ),
    "a version that is no text": (lambda m: m["versions"].update(numpy=2), "versions holds what"),
    "a hash that is no text": (lambda m: m["files"].update(x=None), "files holds what is not text"),
    "a seed in words": (lambda m: m.update(seed="1"), "seed is not a whole number or null"),
    "an alpha above one": (lambda m: m["certificate"].update(alpha=1.5), "alpha is no number"),
    "an alpha that is no number": (
        lambda m: m["certificate"].update(alpha=float("nan")), "alpha is no number",
    ),
    "noise without end": (
        lambda m: m["certificate"].update(sigma=10**400), "certificate.sigma is no number",
    ),
    "noise that is infinite": (
        lambda m: m["certificate"].update(rows_sigma=float("inf")), "rows_sigma is no number",
    ),
    "another format": (lambda m: m.update(format=2), "not of a format that this version reads"),
    "a format of true": (lambda m: m.update(format=True), "format is not a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_manifest_is_refused_in_a_sentence_that_names_it(
    said: dict[str, Any], what: str
) -> None:
    change, named = MALFORMED[what]
    change(said)
    with pytest.raises(us.BundleError) as caught:
        Manifest.from_dict(said, called="The manifest in 'x'")
    sentence = str(caught.value)
    assert named in sentence and sentence.startswith("The manifest in 'x' "), sentence
    assert sentence.endswith(".") and "\n" not in sentence


UNBORNE = ("versions", "seed")  # words that nothing else in a bundle bears out


@pytest.mark.parametrize("mechanism", ["gaussian", "matrix"])
def test_every_single_claim_of_a_manifest_is_borne_out(mechanism: str, tmp_path: Path) -> None:
    """Each value in turn becomes another of its kind; reading or a check must notice."""
    folder = us.release(
        small_table(), schema=SMALL, epsilon=1, workload="1-way", mechanism=mechanism, seed=1
    ).save(tmp_path / "b")
    said = json.loads((folder / "manifest.json").read_text())
    told = [(path, value) for path, value in lies(said) if path[0] not in UNBORNE]
    assert len(told) > 60
    for path, value in told:
        (folder / "manifest.json").write_text(json.dumps(retold(said, path, value)))
        try:
            assert unsound(folder), (path, value)
        except us.BundleError as refusal:
            assert str(refusal).endswith("."), path
    (folder / "manifest.json").write_text(json.dumps(said))
    assert unsound(folder) == []


@pytest.mark.parametrize("data", [None, [], "x", 1, {}, {"format": 1}])
def test_what_is_nothing_like_a_manifest_is_refused(data: Any) -> None:
    with pytest.raises(us.BundleError, match=r"^This manifest .*\.$"):
        Manifest.from_dict(data)
