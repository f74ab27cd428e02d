"""Ours beside MST and AIM as published on PyPI: the same table, workload, privacy and clock, in one run.

    python -m bench.rivals [--epsilon 0.1 1] [--workload 3-way:64] [--limit SECONDS] [--plot docs/rivals.svg]

ADULT, integer-coded, its domain public, delta = 1/n^2, add-remove-one for everybody (the relation that the rivals' noise is
made for), one release each. Every system runs in a process of its own, under an interpreter of its own (the rivals' are
installed from the pinned requirement files on first use), is killed at the limit, and is clocked by the operating system:
CPU seconds of the whole process with its threads and children, start-up included, and its peak memory. Results go to a JSON
file beside the plot after every release; ``--redraw`` prints and draws that file again, ``--keep`` runs only the systems
named and keeps the other lines of the file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from bench import accuracy
from understudy.privacy import Budget

ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "bench" / "rivals_child.py"
PLOT = ROOT / "bench" / "rivals_plot.py"
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}  # idle BLAS threads spin and would be charged as CPU
WALL = 10  # a system gets this many seconds of wall time for each CPU second allowed: the machine may be shared


@dataclass(frozen=True, kw_only=True)
class System:
    """A line of the table: whose code, with which settings, in which environment."""

    label: str
    code: str  # its name in rivals_child.py
    home: str | None = None  # the environment it lives in; None is this interpreter
    settings: dict[str, Any] = field(default_factory=dict)


SYSTEMS = [
    System(label="understudy", code="understudy"),
    System(label="MST (dpmm)", code="dpmm-mst", home="dpmm"),
    System(label="MST (OpenDP)", code="opendp-mst", home="opendp"),
    # Restricted as the authors of AIM suggest for a quick run: a model of at most 1 MB (80 is the default that they ask comparisons
    # to use); beyond that, 2 rounds a column instead of 16, and 100 steps of each fit instead of 1,000 where that can be set.
    System(label="AIM (dpmm), restricted", code="dpmm-aim", home="dpmm", settings={"max_model_size": 1, "rounds": 28, "n_iters": 100}),
    System(label="AIM (OpenDP), restricted", code="opendp-aim", home="opendp", settings={"max_size": 1.0, "rounds": 28}),
    System(label="AIM (dpmm), as published", code="dpmm-aim", home="dpmm"),
    System(label="AIM (OpenDP), as published", code="opendp-aim", home="opendp"),
]


def interpreter(home: str | None) -> str:
    """The Python of an environment, made from its pinned requirements if it is not there or they have changed."""
    if home is None:
        return sys.executable
    wanted = ROOT / "bench" / f"rivals-requirements-{home}.txt"
    place = ROOT / ".venv-rivals" / home
    stamp, python = place / "installed.txt", place / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"Installing {wanted.name} into {place.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)], check=True)
        stamp.write_text(wanted.read_text())
    return str(python)


def clocked(command: list[str], log: Path, wall: float) -> tuple[int | None, Any]:
    """Run a command in a process group of its own; (exit status, or None if it had to be killed, and its resource usage)."""
    with log.open("wb") as out:
        started = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **ONE_THREAD}, start_new_session=True)
    deadline, killed = time.monotonic() + wall, False
    while True:
        pid, status, usage = os.wait4(started.pid, os.WNOHANG)
        if pid:
            break
        if not killed and time.monotonic() > deadline:
            os.killpg(started.pid, signal.SIGKILL)
            killed = True
        time.sleep(0.05)
    started.returncode = os.waitstatus_to_exitcode(status)
    return (None if killed else started.returncode), usage


def run(system: System, epsilon: float, given: dict[str, Any], limit: int, folder: Path) -> dict[str, Any]:
    """One release by one system, as a line of results."""
    job = folder / "job.json"
    for old in (job.with_suffix(".npy"), job.with_suffix(".facts")):
        old.unlink(missing_ok=True)
    # For a system that asks for rho itself. OpenDP's MST stops at some last digits ("insufficient budget", by 4e-19); fewer may help.
    rho = Budget.of(epsilon=Fraction(str(epsilon)), delta=Fraction(given["delta"])).rho
    job.write_text(
        json.dumps(
            {
                **given,
                "rho": math.floor(rho * 10**8) / 10**8,
                "system": system.code,
                "settings": system.settings,
                "epsilon": epsilon,
                "limit": limit,
            }
        )
    )
    isolated = "-I" if system.home else "-P"
    command = [interpreter(system.home), isolated, str(CHILD), str(job)]
    start = time.monotonic()
    code, usage = clocked(command, job.with_suffix(".log"), WALL * limit)
    line = {
        "system": system.label,
        "settings": system.settings,
        "epsilon": epsilon,
        "delta": given["delta"],
        "relation": "add-remove-one",
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - start,
        "gigabytes": usage.ru_maxrss / 1024**2,
        "limit": limit,
    }
    if code == 0:
        return line | {"rows": np.load(job.with_suffix(".npy"), allow_pickle=False), **json.loads(job.with_suffix(".facts").read_text())}
    if code is None:
        return line | {"failure": f"no result within {WALL * limit} s on the wall"}
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and line["cpu"] >= 0.95 * limit):  # the kernel's two clocks differ a little
        return line | {"failure": f"no result within {limit} CPU s"}
    said = job.with_suffix(".log").read_text(errors="replace").strip().splitlines() or ["nothing"]
    return line | {"failure": f"stopped with status {code}: {' '.join(said[-3:])[:200]}"}


def parse_workload(text: str) -> tuple[int, int, int]:
    """'3-way:64@0' as (3, 64, 0); all of them, and seed 0, when not said."""
    found = re.fullmatch(r"(\d+)-way(?::(\d+))?(?:@(\d+))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a workload such as 3-way:64 or 2-way")
    k, size, seed = found.groups()
    return int(k), int(size or 10**6), int(seed or 0)


def show(kept: dict[str, Any]) -> None:
    """The table, one line for each system and epsilon, the mean over its runs."""
    table = Table(title=f"{kept['table']}, {kept['workload']}, delta = 1/n^2")
    for name in ("system", "epsilon", "relation", "runs", "rho", "largest error", "mean error", "tv", "CPU s", "peak GB"):
        table.add_column(name, justify="left" if name in ("system", "relation") else "right")
    for label, epsilon in dict.fromkeys((r["system"], r["epsilon"]) for r in kept["results"]):
        mine = [r for r in kept["results"] if (r["system"], r["epsilon"]) == (label, epsilon)]
        good = [r for r in mine if "failure" not in r]

        def mean(name: str, of: list[dict[str, Any]]) -> float:
            return float(np.mean([r[name] for r in of]))

        shown = (
            [f"{mean('rho', good):.6f}", f"{mean('max', good):.4f}", f"{mean('mean', good):.2e}", f"{mean('tv', good):.4f}"]
            if good
            else ["", mine[0]["failure"], "", ""]
        )
        name = label + (f" [{good[0]['note']}]" if good and good[0].get("note") else "")
        table.add_row(
            name.replace("[", r"\["),
            f"{epsilon:g}",
            mine[0]["relation"],
            str(len(mine)),  # lines kept from earlier may have another number of runs
            *shown,
            f"{mean('cpu', mine):.0f}",
            f"{mean('gigabytes', mine):.2f}",
        )
    Console(width=None if sys.stdout.isatty() else 180).print(table)
    print("rho: the zCDP budget that each takes for (epsilon, delta); ours pays its certificate (5%) and the private n (2%) out of it.")


def draw(results: Path, plot: Path) -> None:
    plot.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([interpreter("plots"), "-I", str(PLOT), str(results), str(plot)], check=True)
    print(f"drawn: {plot}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rivals", description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--workload", type=parse_workload, default=(3, 64, 0), help="such as 3-way:64, or 3-way:64@7 with a seed")
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds allowed to each release")
    parser.add_argument("--runs", type=int, default=1, help="releases by each system at each epsilon")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="only those whose name contains one of these texts")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "rivals.svg", help="the results go beside it, as .json")
    parser.add_argument("--keep", action="store_true", help="keep the lines of the results file that are not run again")
    parser.add_argument("--redraw", action="store_true", help="run nothing: print and draw the results file")
    parser.add_argument("--shared", type=Path, default=accuracy.SHARED, help="the folder of the comparison data")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    results = asked.plot.with_suffix(".json")
    if not asked.redraw:
        measure(asked, results)
    show(json.loads(results.read_text()))
    draw(results, asked.plot)


def measure(asked: argparse.Namespace, results: Path) -> None:
    """Every system at every epsilon; the file is complete after each."""
    accuracy.SHARED = asked.shared
    stick = accuracy.measuring_stick()
    frame, domain = stick.coded("adult")
    k, size, seed = asked.workload
    work = stick.workload(domain, k, size, seed)
    systems = [s for s in SYSTEMS if not asked.systems or any(text.lower() in s.label.lower() for text in asked.systems)]
    order = {s.label: number for number, s in enumerate(SYSTEMS)}
    kept: dict[str, Any] = {
        "table": f"ADULT ({len(frame):,} x {len(domain)})",
        "workload": f"{len(work)} {k}-way marginals, seed {seed}",
        "results": [],
    }
    if asked.keep and results.exists():
        old = json.loads(results.read_text())
        if old["workload"] != kept["workload"]:
            sys.exit(f"{results} is of another workload ({old['workload']}); give another --plot.")
        again = {(s.label, e) for s in systems for e in asked.epsilon}
        kept["results"] = [r for r in old["results"] if (r["system"], r["epsilon"]) not in again]
    results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "codes.npy", frame.to_numpy(np.int32))
        delta = str(Fraction(1, len(frame) ** 2))
        given = {"codes": str(folder / "codes.npy"), "domain": domain, "workload": work, "delta": delta}
        if any(s.home is None for s in systems):
            run(SYSTEMS[0], 1.0, given, asked.limit, folder)  # compiled code is cached on disk; compiling is not what is compared
        for epsilon in asked.epsilon:
            for system in systems * asked.runs:
                line = run(system, epsilon, given, asked.limit, folder)
                rows = line.pop("rows", None)
                if rows is not None:
                    line |= stick.errors(frame, pd.DataFrame(rows, columns=list(domain)), domain, work)
                if system.home is None:
                    line["version"] = version("understudy")
                kept["results"].append(line)
                kept["results"].sort(key=lambda r: (order.get(r["system"], len(order)), r["epsilon"]))
                results.write_text(json.dumps(kept, indent=1) + "\n")
                said = line.get("failure") or f"largest error {line['max']:.4f}"
                print(f"{system.label}, epsilon {epsilon:g}: {said} ({line['cpu']:.0f} CPU s)", flush=True)


if __name__ == "__main__":
    main()
