"""What the pages say runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from click.testing import CliRunner

import understudy as us
from support.bundles import unsound
from understudy.cli.main import main
from understudy.queries.base import QueryClass
from understudy.queries.workload import query_classes
from understudy.sources import Source

ROOT = Path(__file__).resolve().parents[2]


# pages with a test of their own below, and generated ones
APART = {
    *("add-a-mechanism.md", "add-a-query-class.md", "add-a-source.md", "queries.md"),
    *("audit.md", "licences.md"),
}
PAGES = [
    "README.md",
    *(
        f"docs/{page.name}"
        for page in sorted((ROOT / "docs").glob("*.md"))
        if page.name not in APART and "```" in page.read_text(encoding="utf-8")
    ),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
# they run elsewhere: the tests, the bench and the audit, for minutes each
LONG = ("make ", "python -m bench ", "python -m tools.", "understudy audit")
# the lines that hold nothing but what noise decides: numbers, values of rows, True and False
NOISY = re.compile(r"(?:(?<![\w)])-)?\d[\d.,:e-]*|'[^']*'|\bTrue\b|\bFalse\b|\bNone\b")


def blocks(page: str, language: str) -> list[str]:
    return [code for kind, code in in_order(page) if kind == language]


def in_order(page: str) -> list[tuple[str, str]]:
    """The code of a page, each block with its language."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def lines_of(code: str) -> list[str]:
    """The commands of a block, without comments; a line that ends in a backslash goes on."""
    joined = re.sub(r"\\\n\s*", "", code)
    return [line for text in joined.splitlines() if (line := re.sub(r"(^|\s+)#.*", "", text))]


def people(folder: Path) -> None:
    """The tables that the pages speak of."""
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
    pairs = {"user": rng.integers(0, 300, 3000), "item": rng.integers(0, 9724, 3000)}
    pyarrow.parquet.write_table(pa.table(pairs), folder / "pairs.parquet")


def command(line: str) -> str:
    """What a command of a page prints; it must end well."""
    words = shlex.split(line)
    if words[0] == "echo":
        assert words[2] == ">"
        Path(words[3]).write_text(words[1])
        return ""
    assert words[0] == "understudy", line
    result = CliRunner().invoke(main, words[1:])
    assert result.exit_code == 0, (line, result.output)
    return result.output


def masked(line: str) -> str:
    """A line that was printed, whatever the noise: blanks for numbers and values of rows."""
    return re.sub(r"\s+", " ", re.sub(r"\s+(?=\])", "", NOISY.sub("_", line))).strip()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_and_prints_what_it_shows(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    run(page, tmp_path, capsys)
    for folder in tmp_path.glob("*/manifest.json"):
        assert unsound(folder.parent) == []


def run(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a page's blocks leave behind. They run in order, as a reader would; a block of text is
    what the one before it printed.
    """
    namespace: dict[str, Any] = {"__name__": "page"}
    said = ""
    for kind, code in in_order(page):
        if kind == "python":
            capsys.readouterr()
            exec(compile(code, page, "exec", dont_inherit=True), namespace)
            said = capsys.readouterr().out
            told = re.findall(r"print\(.*\)  # (.*)", code)  # a comment that says what is printed
            assert all(line in said for line in told if re.match(r"[\d(\[]|True$|False$", line)), (
                told,
                said,
            )
        elif kind == "sh":
            lines = lines_of(code)
            if "make demo" in lines:
                command("understudy demo --out demo-release")
            said = "".join(command(line) for line in lines if not line.startswith(LONG))
        elif kind == "text":
            printed = {masked(line) for line in said.splitlines()}
            shown = {masked(line) for line in code.splitlines()} - {"..."}
            assert shown <= printed, (shown - printed, said)
        elif kind == "yaml" and {"fields", "items"} & set(yaml.safe_load(code)):
            (folder / "page.yaml").write_text(code)
            assert us.Schema.load(folder / "page.yaml").shape
    return namespace


@pytest.mark.parametrize(
    ("page", "kind", "base"),
    [
        ("docs/add-a-mechanism.md", "MeasureEverything", us.Mechanism),
        ("docs/add-a-query-class.md", "EvenSums", QueryClass),
        ("docs/add-a-source.md", "ArrowFileSource", Source),
    ],
)
def test_the_skeletons_of_the_pages_for_authors_run(
    page: str,
    kind: str,
    base: type,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = run(page, tmp_path, capsys)
    assert issubclass(namespace[kind], base)
    if base is QueryClass:  # as if it were announced: named in a text and in a file, and released
        for reader in ("queries.workload", "privacy.trusted"):
            monkeypatch.setattr(
                f"understudy.{reader}.entry_points", lambda group: [Announced(namespace[kind])]
            )
        query_classes.cache_clear()
        schema = us.Schema.from_domain({"age": 10, "sex": 2})
        (tmp_path / "w.yaml").write_text(blocks(page, "yaml")[0])
        for text in ("even-sum:age,sex", str(tmp_path / "w.yaml")):
            made = us.release(
                np.random.default_rng(0).integers(0, (10, 2), (500, 2)),
                schema=schema,
                epsilon=1,
                workload=text,
                ledger=tmp_path / "ledger.jsonl",
            )
            made.save(tmp_path / f"out-{len(text)}")
            assert unsound(tmp_path / f"out-{len(text)}") == []
            assert made.workload.batches[0].describe(schema, 0) == "age + sex is even"
        monkeypatch.undo()
        query_classes.cache_clear()


class Announced:
    """An entry point."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def load(self) -> type:
        return self._kind


def test_the_file_on_the_page_on_workloads_is_read(tmp_path: Path) -> None:
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
    assert len(work.batches) == 1 + 4 + 1 + 2 and work.batches[5].size == 5
    # 99 edges with people on both sides, and two ranges
    assert [batch.size for batch in work.batches[6:]] == [99, 2]


def test_the_page_on_query_classes_runs_and_its_answers_are_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = run("docs/queries.md", tmp_path, capsys)
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
