"""Results: one row a measurement, in Parquet, with what it took and on what it was taken."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.grid import Line, Point

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out"  # outside of what is committed
PACKAGES = ("understudy", "numpy", "numba", "pyarrow", "duckdb")  # whose versions move times
Row = dict[str, Any]


def _output(place: Path, *command: str) -> str | None:
    """What a command says there, None where it cannot be run."""
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def commit(place: Path = ROOT) -> str | None:
    """The commit of a checkout, with a plus if files in it were changed; None outside git."""
    head = _output(place, "git", "rev-parse", "--short=12", "HEAD")
    changes = ("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "bench")
    changed = _output(place, *changes)
    return f"{head}{'+' if changed else ''}" if head else None


def _first(place: str, start: str) -> str:
    """The rest of the first line of a file of the system that begins so."""
    try:
        lines = Path(place).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(start)), "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@functools.cache
def facts() -> Mapping[str, Any]:
    """Of this machine and of what is installed on it; nothing that names its owner."""
    model = _first("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    memory = _first("/proc/meminfo", "MemTotal").removesuffix(" kB")
    return {
        "processor": model,
        "cores": os.cpu_count() or 1,
        "memory_gb": round(int(memory) / 1024**2, 1) if memory else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": json.dumps({name: _version(name) for name in PACKAGES}),
        "commit": commit(),
    }


def this_run() -> str:
    """The name of a run unless one is given: one commit on one kind of machine."""
    machine_facts = facts()
    machine = [
        machine_facts[name] for name in ("processor", "cores", "memory_gb", "python", "versions")
    ]
    told_apart = hashlib.sha256(json.dumps(machine).encode()).hexdigest()[:4]
    return f"{machine_facts['commit'] or _version('understudy')}-{told_apart}"


def _scalar(value: Any) -> Any:
    return (
        value if isinstance(value, (str, int, float, bool)) or value is None else json.dumps(value)
    )


def row_of(suite: str, run: str, point: Point, line: Line) -> Row:
    """A row of the file; what was measured goes last, for it may be more exact than the point."""
    asked = point.plain
    settings = {name: _scalar(value) for name, value in asked.pop("settings").items()}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    origin = {"suite": suite, "run": run, "key": point.key, "when": when, **facts()}
    return {**origin, "load": round(os.getloadavg()[0], 2), **settings, **asked, **line}


def table_of(rows: Iterable[Row]) -> pa.Table:
    """Rows with different columns as one table; whole numbers beside others are floats."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or len(kinds) <= 1:
        return pa.array(
            [float(v) if kinds == {int, float} and v is not None else v for v in values]
        )
    return pa.array([None if value is None else str(value) for value in values])


def read(out: Path, suite: str) -> list[Row]:
    """Every row of a suite, oldest first."""
    rows: list[Row] = []
    for file in sorted((out / suite).glob("*.parquet")):
        rows += [{**row, "file": file.name} for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: row["when"])


@dataclass
class Session:
    """What one call of ``run`` adds: a file of its own, complete after every measurement."""

    out: Path
    suite: str
    run: str
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        self.file = (
            self.out / self.suite / f"{stamp}-{os.getpid()}-{time.monotonic_ns() % 10**6}.parquet"
        )

    def done(self, failed_too: bool = True) -> set[str]:
        """Keys of the points that this run has, from this call or an earlier one."""
        own = [row for row in read(self.out, self.suite) if row["run"] == self.run]
        return {row["key"] for row in own if failed_too or not row.get("failure")}

    def add(self, point: Point, lines: Iterable[Line]) -> None:
        self.rows += [row_of(self.suite, self.run, point, line) for line in lines]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        half = self.file.with_suffix(".part")
        pq.write_table(table_of(self.rows), half)
        half.replace(self.file)  # at no moment is there half a file


def go_on(
    session: Session,
    points: Iterable[Point],
    measure: Callable[[Point], list[Line]],
    *,
    again: bool = False,
    retry: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Measure those points that the run does not have yet; how many that were.

    A failure is a result, and is kept: ``retry`` measures those again, ``again`` everything.
    """
    done = set() if again else session.done(failed_too=not retry)
    left = [point for point in points if point.key not in done]
    for number, point in enumerate(left, 1):
        lines = measure(point)
        session.add(point, lines)
        why = lines[0].get("failure") if lines else "nothing measured"
        spent = f"{lines[0].get('cpu', 0.0):.1f} CPU s" if lines else ""
        say(f"{number} of {len(left)}: {point.words}: {why or spent}")
    return len(left)
