"""CPU seconds and peak memory, of this process or of one that is started for it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.grid import Line, Point

ROOT = Path(__file__).resolve().parents[1]
GIGABYTE = 1024**2  # in kilobytes, which is how the system counts
# Idle threads of BLAS spin, and would be charged as CPU seconds on a busy machine.
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
GRACE = 5.0  # seconds in which a child that is told to stop can stop its own
MOST_SAID = 300  # letters of what a child said last
WALL = 10  # seconds of wall for each CPU second allowed: the machine may be shared


def cpu_seconds() -> float:
    """Of this process and of those children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_gigabytes(status: str | None = None) -> float:
    """The highest resident memory of a process so far, from its own line VmHWM.

    What the system says of a finished child (``ru_maxrss``) begins with what its parent had when it
    was made, so a small child of a large parent looks large. VmHWM begins anew with the program.
    """
    place = Path("/proc/self/status")
    if status is None and not place.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (GIGABYTE if sys.platform != "darwin" else GIGABYTE * 1024)
    text = place.read_text() if status is None else status
    (peak,) = (line.split()[1] for line in text.splitlines() if line.startswith("VmHWM"))
    return int(peak) / GIGABYTE


@dataclass
class Spent:
    """What a piece of work took; ``peak`` is that of the process until its end, in gigabytes."""

    cpu: float = 0.0
    wall: float = 0.0
    peak: float = 0.0

    @property
    def line(self) -> Line:
        return {"cpu": self.cpu, "wall": self.wall, "peak": self.peak}


@contextmanager
def clock() -> Iterator[Spent]:
    """Fills in what the body took."""
    spent = Spent()
    cpu, wall = cpu_seconds(), time.monotonic()
    yield spent
    spent.cpu, spent.wall = cpu_seconds() - cpu, time.monotonic() - wall
    spent.peak = peak_gigabytes()


def clocked(
    command: list[str], log: Path, wall: float, more: Mapping[str, str] | None = None
) -> tuple[int | None, Any]:
    """Run a command in a process group of its own, with some variables more.

    Returns its exit status, None if it had to be killed, and its resource usage.
    """
    with log.open("wb") as out:
        started = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            env={**os.environ, **ONE_THREAD, **(more or {})},
            start_new_session=True,
        )
    deadline, killed = time.monotonic() + wall, False
    try:
        while True:
            pid, status, usage = os.wait4(started.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                os.killpg(started.pid, signal.SIGKILL if killed else signal.SIGTERM)
                killed, deadline = True, time.monotonic() + GRACE
            time.sleep(0.05)
    except BaseException:  # whoever stops the run means its children as well
        os.killpg(started.pid, signal.SIGTERM)
        time.sleep(GRACE / 10)
        os.killpg(started.pid, signal.SIGKILL)
        raise
    started.returncode = os.waitstatus_to_exitcode(status)
    return (None if killed else started.returncode), usage


def failure(code: int | None, cpu: float, limit: int, log: Path) -> str:
    """Why a child has no result, in a sentence."""
    if code is None:
        return f"no result within {WALL * limit} s on the wall"
    # The kernel's two clocks differ a little.
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= 0.95 * limit):
        return f"no result within {limit} CPU s"
    output = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
    return f"stopped with status {code}: {output[-1][:MOST_SAID]}"


def in_a_child(suite: str, point: Point, folder: Path, sources: Path | None = None) -> list[Line]:
    """Measure one point in a process of its own; a failure is a line too.

    With ``sources``, the package is imported from there; the bench stays this one.
    """
    asked, answer, log = (folder / name for name in ("job.json", "found.json", "log"))
    answer.unlink(missing_ok=True)
    job = {"suite": suite, "point": {**point.plain, "limit": point.limit}, "found": str(answer)}
    asked.write_text(json.dumps(job | {"sources": str(sources) if sources else None}))
    # the bench itself, too: it may have been started from another folder
    paths = filter(None, [str(sources or ""), str(ROOT), os.environ.get("PYTHONPATH")])
    start = time.monotonic()
    code, usage = clocked(
        [sys.executable, "-m", "bench.child", str(asked)],
        log,
        WALL * point.limit,
        {"PYTHONPATH": os.pathsep.join(paths)},
    )
    if code == 0:
        lines: list[Line] = json.loads(answer.read_text())
        return lines
    cpu = usage.ru_utime + usage.ru_stime
    why = failure(code, cpu, point.limit, log)
    return [
        {
            "failure": why,
            "cpu": cpu,
            "wall": time.monotonic() - start,
            "peak": usage.ru_maxrss / GIGABYTE,
        }
    ]
