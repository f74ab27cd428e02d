"""Fuzz every place that reads what somebody else may have written, guided by coverage.

    python -m tools.fuzz [--target NAME ...] [--seconds 30] [--json FILE]

Each target runs in a process of its own, two at a time. A finding is an exception that is not the
package's own, a refusal that is no sentence, an input that takes more than 10 seconds, or a process
of more than 1 GB; it is shown with the input, ready for a test. Numba's functions run as Python
here, so that their branches count and an index out of bounds is an error. The exit code is 1 if
anything was found, and 2 if atheris is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.fuzz_targets import FINDINGS, TARGETS, prepare

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 2  # processes, for the two cores that everything here is run on
LONGEST, MOST_MEMORY = 10, 1024  # seconds for one input, MB for a process
MOST_BYTES = 20_000  # of an input
ARTEFACTS = "ended-"  # what libFuzzer puts before the names of inputs that ended it
# no failure: it is there for one system only
MISSING = (
    "atheris is not installed, so nothing was fuzzed: pip install --group fuzz (pip 25.1; Linux on"
    " x86-64)."
)
RUNS, COVERED = (
    re.compile(r"number_of_executed_units:\s*(\d+)"),
    re.compile(r"#(\d+)\t.*?cov: (\d+)"),
)


@dataclass(frozen=True)
class Found:
    """What became of one target."""

    target: str
    inputs: int
    covered: int
    findings: tuple[tuple[str, str], ...]  # what, and the input as Python writes it


def in_memory() -> str | None:
    """Where files cost no disk, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def fuzz(name: str, seconds: int, prepared: Path, child: str = "tools.fuzz_child") -> Found:
    """Run one target for so long."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory()) as place:
        folder, corpus = Path(place), Path(place) / "corpus"
        shutil.copytree(prepared, folder, dirs_exist_ok=True)
        corpus.mkdir()
        for number, seed in enumerate(TARGETS[name].seeds(folder)):
            (corpus / f"seed-{number}").write_bytes(seed)
        words = folder / "words"
        words.write_text(
            "".join(f'"{_escaped(word)}"\n' for word in TARGETS[name].words or ["{"]),
            encoding="ascii",
        )
        limits = [
            f"-max_total_time={seconds}",
            f"-timeout={LONGEST}",
            f"-rss_limit_mb={MOST_MEMORY}",
            f"-max_len={MOST_BYTES}",
        ]
        options = [
            *limits,
            f"-artifact_prefix={folder / ARTEFACTS}",
            f"-dict={words}",
            "-print_final_stats=1",
            str(corpus),
        ]
        done = subprocess.run(
            [sys.executable, "-m", child, name, str(folder), *options],
            cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, errors="replace",
        )  # fmt: skip
        return read(name, done.returncode, done.stderr, folder)


def _escaped(word: str) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\x{byte:02x}"
        for byte in word.encode()
    )


def read(name: str, code: int, output: str, folder: Path) -> Found:
    """What a child came to, from what it printed and left behind."""
    file = folder / FINDINGS
    lines = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if file.exists()
        else []
    )
    findings = [(line["what"], line["input"]) for line in lines]
    ends = [
        (f"ended by {left.name.removeprefix(ARTEFACTS).partition('-')[0]}", left)
        for left in sorted(folder.glob(f"{ARTEFACTS}*"))
    ]
    findings += [
        (what, repr(left.read_bytes()))
        for what, left in ends
        if not left.name.startswith(f"{ARTEFACTS}slow")
    ]
    if code and not findings:
        findings.append((f"the process ended with exit code {code}", output[-600:]))
    seen, runs = COVERED.findall(output), RUNS.search(output)
    last = int(seen[-1][0]) if seen else 0
    return Found(
        name,
        int(runs[1]) if runs else last,
        max((int(covered) for _, covered in seen), default=0),
        tuple(findings),
    )


def part(results: Sequence[Found]) -> dict[str, Any]:
    """For the page of the audit."""
    inputs, misses = sum(one.inputs for one in results), sum(len(one.findings) for one in results)
    summary = (
        f"{len(results)} readers of files and texts, {inputs:,} inputs guided by coverage:"
        f" {misses or 'no'} findings."
    )
    rows = [
        {
            "target": one.target,
            "inputs": one.inputs,
            "covered": one.covered,
            "findings": len(one.findings),
        }
        for one in results
    ]
    return {"cases": inputs, "misses": misses, "said": summary, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target",
        nargs="+",
        default=list(TARGETS),
        choices=list(TARGETS),
        metavar="NAME",
        help=", ".join(TARGETS),
    )
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--json", dest="file", help="write the results here as well")
    asked = parser.parse_args()
    console = Console(width=140)
    if importlib.util.find_spec("atheris") is None:
        console.print(MISSING, markup=False)
        _keep(asked.file, {"cases": 0, "misses": 0, "said": MISSING, "rows": []})
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as place,
        ThreadPoolExecutor(AT_ONCE) as workers,
    ):
        prepare(Path(place))
        results = list(
            workers.map(partial(fuzz, seconds=asked.seconds, prepared=Path(place)), asked.target)
        )
    table = Table("target", "inputs", "covered", "findings")
    for one in results:
        table.add_row(one.target, f"{one.inputs:,}", f"{one.covered:,}", str(len(one.findings)))
        for what, sample in one.findings:
            console.print(
                f"{one.target}: {what}\n  {sample}", markup=False, highlight=False, soft_wrap=True
            )
    console.print(table)
    _keep(asked.file, part(results))
    return 1 if any(one.findings for one in results) else 0


def _keep(file: str | None, record: dict[str, Any]) -> None:
    if file:
        Path(file).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
