"""Run every planted mutant, and say which test caught it.

    python -m tools.mutants [--only WORDS] [--json FILE]

Each is made in a copy of the package, and the tests named for it run there until one fails. A
mutant that no test notices is listed as missed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.table import Table

from tests.battery.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
COPIES = 2  # at work at once
COPIED = ("src", "tests", "tools", "pyproject.toml")  # all that a test needs
# the first test that pytest names
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
LONGEST = 900  # seconds for the tests of one mutant; one that hangs is caught by that


@dataclass(frozen=True)
class Verdict:
    what: str
    file: str
    caught_by: str | None
    seconds: float


def changed(mutant: Mutant, text: str) -> str:
    """The mutant's text; ValueError unless each change fits exactly once, however its lines are broken."""
    for before, after in mutant.changes:
        places = list(_however_broken(before).finditer(text))
        if len(places) != 1:
            raise ValueError(
                f"{mutant.what}: {before!r} occurs {len(places)} times in {mutant.file}"
            )
        text = text[: places[0].start()] + after + text[places[0].end() :]
    return text


def _however_broken(code: str) -> re.Pattern[str]:
    """What matches some code in any layout: spaces between its words, and commas that a formatter adds."""
    words = [re.escape(word) for word in re.findall(r"\w+|[^\w\s]", code)]
    spread = [rf",?\s*{word}" if word in (r"\)", r"\]", r"\}") else word for word in words]
    # What stands before the first word and after the last one is layout that the change itself brings.
    before, after = code[: -len(code.lstrip())], code[len(code.rstrip()) :]
    return re.compile(re.escape(before) + r"\s*".join(spread) + re.escape(after))


@contextlib.contextmanager
def copy_of_the_package() -> Iterator[Path]:
    """A copy to break, with the compiled kernels of the original so that only what changes is
    compiled again.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, place / name, ignore=shutil.ignore_patterns(".hypothesis"))
            else:
                shutil.copy2(source, place / name)
        yield place


def run(mutant: Mutant, place: Path) -> Verdict:
    """Break the copy, run the tests, mend the copy."""
    file, started = place / "src" / "understudy" / mutant.file, time.monotonic()
    text, stamps = file.read_text(encoding="utf-8"), os.stat(file)
    file.write_text(changed(mutant, text), encoding="utf-8")
    try:
        caught = failing(place, mutant.tests)
    except subprocess.TimeoutExpired:
        return Verdict(
            mutant.what, mutant.file, "the time limit of its tests", time.monotonic() - started
        )
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    if caught is not None and not passes(place, caught):
        caught = None  # it fails without the mutant, too, and so says nothing about it
    return Verdict(mutant.what, mutant.file, caught, time.monotonic() - started)


def failing(place: Path, tests: Sequence[str]) -> str | None:
    """The first of some tests that fails; None when none does, or when nothing was tested: a wrong
    name of a test is no catch.
    """
    done = tested(place, tests)
    match = FAILED.search(done.stdout)
    return match.group(1) if match and done.returncode == 1 else None


def passes(place: Path, test: str) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return tested(place, (test,)).returncode == 0
    return False


def tested(place: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(place / "src")}
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=LONGEST
    )


def run_all(mutants: list[Mutant], console: Console) -> list[Verdict]:
    """One after the other in each of two copies."""
    with contextlib.ExitStack() as copies, ThreadPoolExecutor(COPIES) as workers:
        free: SimpleQueue[Path] = SimpleQueue()
        for _ in range(COPIES):
            free.put(copies.enter_context(copy_of_the_package()))

        def tried(mutant: Mutant) -> Verdict:
            place = free.get()
            try:
                verdict = run(mutant, place)
            finally:
                free.put(place)
            console.print(
                f"{'caught' if verdict.caught_by else 'MISSED'}  {mutant.what}",
                style="dim",
                markup=False,
            )
            return verdict

        return list(workers.map(tried, mutants))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="mutants whose words hold this")
    parser.add_argument("--json", dest="file", help="write the verdicts here as well")
    asked = parser.parse_args()
    console = Console(width=160)
    verdicts = run_all([mutant for mutant in MUTANTS if asked.only in mutant.what], console)
    table = Table("mutant", "in", "caught by")
    for one in verdicts:
        table.add_row(one.what, one.file, one.caught_by or "NOTHING")
    console.print(table)
    missed = sum(one.caught_by is None for one in verdicts)
    console.print(f"{len(verdicts) - missed} of {len(verdicts)} caught.")
    if asked.file:
        rows = [
            {"mutant": one.what, "in": one.file, "caught by": one.caught_by or "NOTHING"}
            for one in verdicts
        ]
        batch = {
            "cases": len(verdicts),
            "misses": missed,
            "said": f"{len(verdicts) - missed} of {len(verdicts)} broken variants were caught.",
            "rows": rows,
        }
        Path(asked.file).write_text(json.dumps(batch, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if missed or not verdicts else 0)


if __name__ == "__main__":
    main()
