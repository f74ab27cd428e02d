"""``make audit``: the whole battery, and docs/audit.md from what it came to.

Runs the tests (quick and slow), the audit of the installed build, the planted mutants, the attacks
and the fuzz. A part writes JSON: ``{"cases": n, "misses": m, "said": "a few words", "rows": [{...},
...]}``, rows all with the same keys.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.results import commit

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "audit.md"  # the only file that it writes
# What we hold ourselves to: test, bar.
BATTERY = {
    "replay audit": (
        "every mechanism x 200 neighbouring pairs: run on D with outputs recorded, replay on D';"
        " control flow identical and every meter verb's measured sensitivity <= the declared one"
    ),
    "exact small-domain law": (
        "for each meter verb, the full output law on a tiny domain by enumeration: Renyi divergence"
        " <= claim at orders 1.01, 2, 8, 64, and > 0.9 of it where the bound is tight"
    ),
    "statistical audit": (
        ">= 200 (verb or mechanism) x pair x epsilon in {0.5, 1, 2}: 20,000 draws, Clopper-Pearson"
        " lower bound <= claim at 99.9%"
    ),
    "planted mutants": ">= 20 deliberately broken variants: 100% caught by the lines above",
    "sampler fit": (
        "discrete Gaussian, discrete Laplace, exponential mechanism: correct law passes, 10% less"
        " and more noise fail"
    ),
    "kill -9": (
        "200 random instants during releases: the ledger never under-counts; a reserved charge is"
        " spent for ever"
    ),
    "power loss": "fsync ordering under a fault-injecting file layer: same",
    "concurrency": "8 processes, one ledger, budget for exactly 400 charges: exactly 400 granted",
    "fuzz": (
        "2,000 CSVs, 500 Parquet files, 500 parameter sets: no traceback, no cell value in any"
        " message, nothing charged for a refused call"
    ),
    "neighbour silence": (
        "200 pairs differing in one bad cell: identical logs, exit code, messages, output schema"
    ),
    "solver faults": (
        "100 injected time-outs, infeasibles, wrong optima, killed processes: release still correct"
        " (oracle as post-processing) or refused (oracle inside the room)"
    ),
    "web page": (
        "foreign Host/Origin, no token, traversal, oversize upload, decompression bomb, `<script>`"
        " column name, formula cell: all refused or escaped"
    ),
}
# the kinds of rows of ``understudy audit``, and their rows here
KINDS = {
    "replay": "replay audit",
    "law": "exact small-domain law",
    "statistical": "statistical audit",
}
# the battery has a row for it, and a row without words would be a gap
WEB = (
    "There is no web page: a report is a static file and a CSV is exported on request. What applies"
    " to them is tested; the rest has no place to happen."
)
# commands of their own, too slow for a test
PARTS = {
    "tools.mutants": "planted mutants",
    "tools.attacks": "attacks",
    "tools.fuzz": "fuzz guided by coverage",
}
# beyond those that every part has
OPTIONS = {
    "tools.attacks": ["--plot", str(PAGE.with_name("attacks.svg"))],
    "tools.fuzz": ["--seconds", "5"],
}


@dataclass
class Line:
    """One row of the battery: cases, those that went wrong, and words."""

    cases: int = 0
    misses: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return (
            "not run" if not self.cases and not self.misses else "NOT met" if self.misses else "met"
        )


@dataclass(frozen=True)
class Tests:
    """What pytest's own record says."""

    ran: int
    failed: tuple[str, ...]
    lines: Mapping[str, Line]


def read_tests(records: Sequence[Path]) -> Tests:
    """Notes of the battery from junit files. A row is met only if every test that notes it passed."""
    lines: dict[str, Line] = {}
    ran, failed = 0, []
    for case in (case for record in records for case in ET.parse(record).iter("testcase")):  # noqa: S314
        ran += 1
        broken = case.find("failure") is not None or case.find("error") is not None
        if broken:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        for noted in case.iter("property"):
            if noted.get("name") == "battery":
                row, cases, note = (noted.get("value") or "").split("|", 2)
                line = lines.setdefault(row, Line())
                line.cases += int(cases)
                line.misses += broken
                line.notes.append(note)
    return Tests(ran, tuple(failed), lines)


def read_audit(report: Mapping[str, Any]) -> dict[str, Line]:
    """The rows of ``understudy audit --json``, by kind."""
    lines = {row: Line() for row in KINDS.values()}
    counted = {
        "replay": "pairs",
        "law": "neighbours",
        "statistical": "draws or releases on either side",
    }
    for kind, row in KINDS.items():
        these = [r for r in report["rows"] if r["kind"] == kind]
        line = lines[row]
        line.cases = sum(r["runs"] for r in these) if kind == "replay" else len(these)
        line.misses = sum(not r["held"] for r in these)
        closest = max((r["found"] / r["claimed"] for r in these if r["claimed"]), default=0.0)
        runs = sum(r["runs"] for r in these)
        line.notes = [
            f"`understudy audit`: {len(these)} checks, {runs:,} {counted[kind]}, at most"
            f" {closest:.3f} of what is claimed"
        ]
        line.notes += [
            f"BREACH: {r['subject']}, {r['relation']}, {r['pair']}: {r['said']}"
            for r in these
            if not r["held"]
        ]
    return lines


def page(
    tests: Tests,
    audit: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]],
    minutes: float,
    earlier: int = 0,
) -> str:
    """docs/audit.md. ``earlier`` steps were run before this call."""
    lines = {row: tests.lines.get(row, Line()) for row in BATTERY}
    for row, line in read_audit(audit).items():
        line.misses += lines[row].misses
        lines[row] = line
    if "planted mutants" in parts:
        part = parts["planted mutants"]
        lines["planted mutants"] = Line(part["cases"], part["misses"], [part["said"]])
    lines["web page"].notes.insert(0, WEB)
    complete = all(line.verdict == "met" for line in lines.values()) and not tests.failed
    text = [
        "# The audit",
        "",
        f"Written by `make audit` on {datetime.now(UTC):%Y-%m-%d}: understudy"
        f" {version('understudy')} at commit {commit() or 'unknown'}, Python"
        f" {sys.version.split()[0]}, {os.cpu_count()} cores, {minutes:.0f} minutes in all."
        f" {tests.ran:,} tests ran, {len(tests.failed)} of them failed. "
        + ("Every row is met." if complete else "Not every row is met.")
        + (
            f" {earlier} of its steps were run by themselves and kept (`--keep`)."
            if earlier
            else ""
        ),
        "",
        "| test | bar | found | cases | misses | verdict |",
        "|---|---|---|---|---|---|",
        *(_line(row, bar, lines[row]) for row, bar in BATTERY.items()),
        "",
        (
            "Misses are cases that did not come out as they must. Anybody can run the audit of the"
            " installed build alone, with `understudy audit`, and attach it to a release"
            " ([trust.md](trust.md))."
        ),
    ]
    if tests.failed:
        text += ["", "## Tests that failed", "", *(f"- `{name}`" for name in tests.failed)]
    text += ["", "## Audit of the build", "", *table([_shown(row) for row in audit["rows"]])]
    for name, part in parts.items():
        text += [
            "",
            f"## {name.capitalize()}",
            "",
            f"{part['said']} {part['cases']:,} cases, {part['misses']} misses.",
            "",
        ]
        text += table(part.get("rows", []))
    return "\n".join(text) + "\n"


def _line(row: str, bar: str, line: Line) -> str:
    notes = cell("; ".join(shortened(line.notes)))
    return f"| {row} | {cell(bar)} | {notes} | {line.cases:,} | {line.misses} | {line.verdict} |"


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    figures = {
        "claimed": f"{row['claimed']:.4g}",
        "found": f"{row['found']:.4g}",
        "verdict": "held" if row["held"] else "BREACH",
    }
    return {
        **{name: row[name] for name in ("kind", "subject", "relation", "pair", "unit")},
        "runs": f"{row['runs']:,}",
        **figures,
    }


def shortened(notes: Sequence[str], most: int = 4) -> list[str]:
    """The first few words of many, each once."""
    different = list(dict.fromkeys(notes))
    return (
        different
        if len(different) <= most
        else [*different[:most], f"and {len(different) - most} more"]
    )


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    names = list(rows[0])
    lines = [
        names,
        ["---"] * len(names),
        *([str(row.get(name, "")) for name in names] for row in rows),
    ]
    return ["| " + " | ".join(map(cell, line)) + " |" for line in lines]


def cell(text: str) -> str:
    return " ".join(str(text).replace("|", "\\|").split())


def run_tests(record: Path, chosen: str) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "2",
            "-m",
            chosen,
            "-o",
            "junit_family=xunit1",
            f"--junitxml={record}",
        ],
        cwd=ROOT,
    )


def run_audit(file: Path, *options: str) -> None:
    command = [sys.executable, "-m", "understudy", "audit", "--json", *options]
    file.write_text(
        subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout,
        encoding="utf-8",
    )


def run_part(module: str, file: Path) -> None:
    code = subprocess.run(
        [sys.executable, "-m", module, "--json", str(file), *OPTIONS.get(module, [])], cwd=ROOT
    ).returncode
    if not file.exists():
        nothing = {
            "cases": 0,
            "misses": 1,
            "said": f"It ended with exit code {code} and said nothing.",
            "rows": [],
        }
        file.write_text(json.dumps(nothing), encoding="utf-8")


def steps(quick: bool) -> dict[str, Callable[[Path], None]]:
    """What to run, by the file that it writes."""
    options = ["--quick"] if quick else []
    halves = {"quick.xml": "not slow"} if quick else {"quick.xml": "not slow", "slow.xml": "slow"}
    return {
        **{name: partial(run_tests, chosen=chosen) for name, chosen in halves.items()},
        "audit.json": lambda file: run_audit(file, *options),
        **{f"{module}.json": partial(run_part, module) for module in PARTS},
    }


def main() -> int:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument(
        "--quick",
        action="store_true",
        help="the quick half only, to try the machinery; the page is not written",
    )
    asked.add_argument(
        "--keep",
        metavar="FOLDER",
        help="keep what each step comes to, and do not repeat a step that is kept there",
    )
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(options.keep or folder)
        place.mkdir(parents=True, exist_ok=True)
        earlier = sum((place / name).exists() for name in steps(options.quick))
        for name, run in steps(options.quick).items():
            if not (place / name).exists():
                started = time.monotonic()
                run(place / name)
                (place / f"{name}.minutes").write_text(
                    f"{(time.monotonic() - started) / 60:.2f}", encoding="utf-8"
                )
        tests = read_tests([place / name for name in steps(options.quick) if name.endswith(".xml")])
        audit = json.loads((place / "audit.json").read_text(encoding="utf-8"))
        parts = {
            name: json.loads((place / f"{module}.json").read_text(encoding="utf-8"))
            for module, name in PARTS.items()
        }
        minutes = sum(float(file.read_text(encoding="utf-8")) for file in place.glob("*.minutes"))
    text = page(tests, audit, parts, minutes, earlier)
    if options.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"Wrote {PAGE.relative_to(ROOT)}.")
    return (
        1
        if tests.failed or not audit["held"] or any(part["misses"] for part in parts.values())
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
