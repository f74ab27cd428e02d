"""What the pages say runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import understudy as us
from support.bundles import unsound
from understudy.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


def people(folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 100, 3000),
            "sex": rng.choice(["female", "male", "?"], 3000),
            "income": rng.integers(0, 150000, 3000),
            "visited": (
                pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 730, 3000), unit="D")
            ),
        }
    )
    frame.to_csv(folder / "patients.csv", index=False)
    (folder / "patients-schema.yaml").write_text(blocks("README.md", "yaml")[0])


def test_the_skeleton_of_a_mechanism_runs() -> None:
    namespace: dict[str, Any] = {"__name__": "skeleton"}
    for block in blocks("docs/add-a-mechanism.md", "python"):
        exec(compile(block, "docs/add-a-mechanism.md", "exec", dont_inherit=True), namespace)
    assert issubclass(namespace["MeasureEverything"], us.Mechanism)


def test_the_page_on_workloads_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("docs/workloads.md", "python"):
        exec(compile(block, "docs/workloads.md", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out == "22\n"
    fields: list[dict[str, Any]] = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "smoker", "type": "boolean"},
    ]
    fields += [
        {"name": n, "type": "string", "constraints": {"enum": e}}
        for n, e in (("sex", ["female", "male"]), ("region", ["north", "south"]))
    ]
    (tmp_path / "w.yaml").write_text(blocks("docs/workloads.md", "yaml")[0])
    work = us.Workload.load(tmp_path / "w.yaml", us.Schema.from_dict({"fields": fields}))
    # ten random triples of four columns are four
    assert len(work.parts) == 1 + 4 + 1 and work.parts[-1].size == 5


def test_the_page_on_query_classes_runs_and_its_answers_are_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for block in blocks("docs/queries.md", "python"):
        exec(compile(block, "docs/queries.md", "exec", dont_inherit=True), namespace)
    people, single = namespace["people"], namespace["single"]
    literals = np.column_stack([people[:, 0] == 9, people[:, 1] == 0, people[:, 2] == 1])
    held = literals.sum(axis=1)
    truth = [
        held == 3,
        held > 0,
        held > 1,
        held % 2 == 0,
        ~(literals[:, 0] & literals[:, 1]),
        literals[:, 1] & ~literals[:, 2],
    ]
    # the last mechanism's, at epsilon 2
    assert np.abs(single - np.mean(truth, axis=1)).max() < 0.15


def test_the_page_on_wide_tables_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("docs/wide.md", "python"):
        exec(compile(block, "docs/wide.md", "exec", dont_inherit=True), {})
    assert unsound(tmp_path / "films") == []


def test_the_page_on_learning_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    namespace: dict[str, Any] = {}
    for block in blocks("docs/learning.md", "python"):
        exec(compile(block, "docs/learning.md", "exec", dont_inherit=True), namespace)
    said = capsys.readouterr().out
    assert (
        said.startswith("a and not c\n")
        and "x0 and not x2 unconditional" in said
        and "206 242" in said
    )
    (tmp_path / "rule.json").unlink()
    (line,) = blocks("docs/learning.md", "sh")
    result = CliRunner().invoke(main, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    for block in blocks("README.md", "python"):
        exec(compile(block, "README.md", "exec", dont_inherit=True), {})
    assert (tmp_path / "release/report.html").exists()


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    lines = [line.split("#")[0].split() for line in blocks("README.md", "sh")[1].splitlines()]
    assert len(lines) == 6
    for words in lines:
        assert words[0] == "understudy"
        result = CliRunner().invoke(main, words[1:])
        assert result.exit_code == 0, (words, result.output)


def test_the_pages_that_the_readme_names_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def test_the_page_on_security_names_what_counts_and_the_version_that_is_supported() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    classes = (
        "undercharged event",
        "look before the charge",
        "a message, a log or a file",
        "ledger that undercounts",
        "accepting a forged",
    )
    assert all(re.search(rf"^\| \*\*.*{words}", page, re.M) for words in classes)
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", page):
        assert (ROOT / target).exists(), target
    series = us.__version__.rsplit(".", 1)[0]
    assert f"| {series}.x | yes |" in page
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`make ([a-z-]+)`", page)) <= targets


def test_pins_are_names_and_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line), line


def test_every_numbered_claim_has_its_proof() -> None:
    """The meter's docstrings point at sections of PROOFS.md that exist."""
    room = ROOT / "src/understudy/privacy"
    proofs = (room / "PROOFS.md").read_text()
    cited = set(
        re.findall(
            r"\((?:PROOFS\.md, )?([AMNL]\d+)\)|PROOFS\.md, ([AMNL]\d+)",
            "".join(f.read_text() for f in room.rglob("*.py")),
        )
    )
    sections = {a or b for a, b in cited}
    assert {"M1", "M2", "M3", "N3", "N4"} <= sections
    for section in sections:
        assert f"**{section}." in proofs, section
