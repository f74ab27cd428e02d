"""The command learn: what it prints, its exit codes, and that a refusal charges nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.cli.main import main

SECRET = "s3cr3t-cell"
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["female", "male"]}},
    {"name": "married", "type": "boolean"},
    {"name": "income", "type": "string", "constraints": {"enum": ["<=50K", ">50K"]}},
]
LABEL = ("--label", "income = >50K")
ASKED = ("--attribute", "age >= 40", "--attribute", "married", "--attribute", "sex = male")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 100, 3000),
            "sex": rng.choice(["female", "male"], 3000),
            "married": rng.integers(0, 2, 3000) == 1,
        }
    )
    frame["income"] = np.where((frame.age >= 40) & ~frame.married, ">50K", "<=50K")
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.json").write_text(json.dumps({"fields": FIELDS}))
    return tmp_path


def learn(data: Path, *words: str) -> Result:
    return CliRunner().invoke(
        main,
        ["learn", str(data / "t.csv"), "--schema", str(data / "s.json"), *words],
        env={"COLUMNS": "300"},
    )


def charges(data: Path) -> int:
    ledger = data / "t.csv.ledger.jsonl"
    return len(us.FileLedger(ledger).read().charges) if ledger.exists() else 0


def test_a_rule_in_words_with_its_mistakes_its_guarantee_and_its_price(data: Path) -> None:
    result = learn(data, *LABEL, *ASKED, "--epsilon", "1", "--out", str(data / "rule.json"))
    assert result.exit_code == 0, result.output
    for piece in (
        "income = >50K",
        "age >= 40 and not married",
        "interval",
        "epsilon 1 ",
        "unconditional",
        "rho",
        "t.csv.ledger.jsonl",
    ):
        assert piece in result.stdout
    read = us.Learned.load(data / "rule.json")
    frame = pd.read_csv(data / "t.csv")
    assert np.array_equal(read.predict(frame), frame.income == ">50K") and charges(data) == 1


def test_the_same_as_json_and_without_telling_mistakes(data: Path) -> None:
    result = learn(
        data,
        *LABEL,
        *ASKED,
        "--epsilon",
        "1",
        "--report",
        "0",
        "--rules",
        "decision-lists",
        "--width",
        "2",
        "--json",
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (
        told["manifest"]["mistakes"] is None
        and told["file"] is None
        and told["words"].startswith("if ")
    )
    assert "not told" in learn(data, *LABEL, *ASKED, "--epsilon", "1", "--report", "0").stdout


def test_a_solver_s_rule_says_what_it_rests_on(data: Path) -> None:
    asked = (
        *LABEL,
        *ASKED,
        "--epsilon",
        "20",
        "--method",
        "rspm",
        "--certifier",
        "cpsat",
        "--width",
        "2",
    )
    assert "conditional on solver certificate" in learn(data, *asked).stdout
    own = learn(data, *asked, "--certifier", "listing")
    assert "unconditional" in own.stdout and "age >= 40 and not married" in own.stdout
    plain = learn(data, *LABEL, *ASKED, "--epsilon", "1", "--unsigned")
    assert plain.exit_code == 0 and "not married" not in plain.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--epsilon", "0"],
        ["--epsilon", "1", "--rules", "forests"],
        ["--epsilon", "1", "--width", "0"],
        ["--epsilon", "1", "--method", "sgd"],
        ["--epsilon", "1", "--delta", "1e-6"],
        ["--epsilon", "1", "--method", "rspm", "--certifier", "oracle"],
        ["--epsilon", "1", "--report", "1"],
        ["--epsilon", "1", "--attribute", "height >= 2"],
        ["--epsilon", "1", "--attribute", "income = <=50K"],
        ["--epsilon", "1", "--attribute", "sex = x"],
        ["--epsilon", "1", "--width", "9"],  # every age is an attribute: too many conjunctions
        ["--epsilon", "1", "--attribute", "age"],  # no yes/no question
        ["--epsilon", "1", "--method", "prsma"],
        ["--epsilon", "1", "--width", "1", "--out", "/no/such/place/rule.json"],
    ],
    ids=" ".join,
)
def test_bad_arguments_exit_2_with_one_sentence_and_no_charge(data: Path, words: list[str]) -> None:
    result = learn(data, *LABEL, *words)
    assert result.exit_code == 2 and charges(data) == 0
    # which are the stages
    said = [line for line in result.stderr.splitlines() if not line.endswith("…")]
    assert len(said) == 1 and said[0].endswith(".")


def test_prsma_refuses_in_its_own_words(data: Path) -> None:
    for epsilon, sentence in (("1", "solves"), ("0.1", "too few to learn from")):
        result = learn(
            data, *LABEL, *ASKED, "--epsilon", epsilon, "--method", "prsma", "--delta", "1e-6"
        )
        assert result.exit_code == 2 and sentence in result.stderr and charges(data) == 0


def test_a_file_in_use_is_refused_and_a_limit_is_kept(data: Path) -> None:
    (data / "rule.json").write_text("mine")
    result = learn(data, *LABEL, *ASKED, "--epsilon", "1", "--out", str(data / "rule.json"))
    assert (
        result.exit_code == 2
        and "exists" in result.stderr
        and charges(data) == 0
        and (data / "rule.json").read_text() == "mine"
    )
    us.FileLedger.beside(data / "t.csv").set_limit(us.Budget.of(epsilon="0.5", delta="1e-6"))
    assert learn(data, *LABEL, *ASKED, "--epsilon", "5").exit_code == 3


def test_a_rule_that_cannot_be_saved_or_proved_exits_5(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise us.BundleError("No space left.")

    with monkeypatch.context() as patched:
        patched.setattr("understudy.learning.learned.Learned.save", full)
        result = learn(data, *LABEL, *ASKED, "--epsilon", "1", "--out", str(data / "rule.json"))
        assert result.exit_code == 5 and "spent" in result.stderr
    monkeypatch.setattr("understudy.rules.certifiers.Cpsat.solve", lambda self, problem: None)
    result = learn(
        data,
        *LABEL,
        *ASKED,
        "--epsilon",
        "1",
        "--method",
        "rspm",
        "--certifier",
        "cpsat",
        "--width",
        "2",
    )
    assert result.exit_code == 5 and "no proof" in result.stderr


def test_one_bad_cell_changes_nothing_that_can_be_seen(data: Path) -> None:
    lines = (data / "t.csv").read_text().splitlines()
    lines[7] = f"{SECRET},{SECRET},{SECRET},{SECRET}"
    (data / "t.csv").write_text("\n".join(lines) + "\n")
    result = learn(data, *LABEL, *ASKED, "--epsilon", "1")
    assert (
        result.exit_code == 0
        and SECRET not in result.output
        and "age >= 40 and not married" in result.stdout
    )
