"""What earlier versions saved still loads, verifies and is written again to the same letter.

``fixtures/0.1`` holds releases of 300 fictional people, and a rule, as version 0.1 wrote them
before the manifest had a type.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

import understudy as us

EARLIER = Path(__file__).parent / "fixtures"
BUNDLES = sorted(place.parent for place in EARLIER.glob("*/*/manifest.json"))
RULES = sorted(EARLIER.glob("*/rule.json"))
REPORT = "the report is the one that these files give"  # compared by the version that made it
MECHANISMS = {"arp", "generator", "matrix"}


def named(place: Path) -> str:
    return place.relative_to(EARLIER).as_posix()


def test_there_is_a_bundle_of_each_kind() -> None:
    assert {place.name for place in BUNDLES} == MECHANISMS and RULES


@pytest.mark.parametrize("place", BUNDLES, ids=named)
def test_an_earlier_bundle_verifies(place: Path) -> None:
    made_by = json.loads((place / "manifest.json").read_text())["made_by"]
    ours = made_by == f"understudy {version('understudy')}"
    checks = us.verify(place)
    failed = [check for check in checks if not check.holds]
    assert len(checks) == 12
    assert [check.claim for check in failed] == ([] if ours else [REPORT]), failed


@pytest.mark.parametrize("place", BUNDLES, ids=named)
def test_an_earlier_bundle_loads_with_all_it_holds(place: Path) -> None:
    said = json.loads((place / "manifest.json").read_text())
    made = us.Release.load(place)
    assert made.manifest == said and list(made.manifest) == list(said)
    assert made.manifest["mechanism"]["name"] == place.name
    assert len(made.codes) == said["synthetic_rows"] == made.synthetic.num_rows
    assert (made.model is not None) == (place.name == "generator")
    if made.model is not None:
        assert made.sample(10, seed=0).table.num_rows == 10


@pytest.mark.parametrize("place", BUNDLES, ids=named)
def test_an_earlier_manifest_is_written_again_to_the_letter(place: Path, tmp_path: Path) -> None:
    """Other files are other bytes with another Arrow or safetensors; what the manifest says of
    them is all that may change.
    """
    again = us.Release.load(place).save(tmp_path / "again")
    before, after = (
        json.loads((folder / "manifest.json").read_text()) for folder in (place, again)
    )
    before.pop("files")
    after.pop("files")
    assert json.dumps(after) == json.dumps(before)


@pytest.mark.parametrize("place", RULES, ids=named)
def test_an_earlier_rule_loads_and_predicts(place: Path) -> None:
    rule, said = us.Learned.load(place), json.loads(place.read_text())
    assert json.loads(json.dumps(rule.to_dict())) == said and rule.words == said["words"]
    cells = {name: [rule.schema[name].label(0)] for name in rule.schema.names}
    assert rule.predict(cells).shape == (1,)
    assert json.dumps(rule.manifest) == json.dumps(said["manifest"])
