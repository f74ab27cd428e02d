"""How time and memory of one release grow with rows released, cells measured and columns, on invented tables.

    python -m bench.scaling [MECHANISM] [--axes rows cells columns] [--limit SECONDS] [--plot docs/scaling.svg]

Every point is a process of its own, which invents its table from a public seed, makes one small release so that compiled code
is loaded, and then clocks one release: wall and CPU seconds of ``us.release`` with all its threads, and the peak memory of the
process. A mechanism that fits rows may have a parameter for how many; ``--fitted NAME`` sets it to the rows released. Results
go to a JSON file beside the plot; ``--redraw`` prints and draws that file again.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.rivals import ROOT, WALL, clocked, interpreter

PLOT = ROOT / "bench" / "scaling_plot.py"
SIZES = [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 42, 60, 85, 100]  # categories of the columns of the standing table
POINTS: dict[str, list[dict[str, Any]]] = {
    "rows": [{"released": n} for n in (2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)],
    "cells": [{"workload": f"3-way:{m}@0"} for m in (1, 4, 16, 64, 256)],
    "columns": [{"columns": d, "workload": "2-way"} for d in (5, 10, 20, 50, 100)],
}
STANDING = {"released": 20_000, "workload": "3-way:64@0", "columns": len(SIZES), "people": 50_000}


def invented(people: int, columns: int, seed: int = 0) -> tuple[pa.Table, us.Schema]:
    """A table of categories that depend on each other through five hidden classes."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 5, people)
    made, domain = {}, {}
    for number in range(columns):
        size = SIZES[number] if columns == len(SIZES) else 2 + number % 9
        steps = np.cumsum(rng.dirichlet(np.full(size, 0.5), 5), axis=1)
        code = (rng.random(people)[:, None] > steps[hidden]).sum(axis=1).clip(0, size - 1)
        made[f"c{number}"], domain[f"c{number}"] = code.astype(np.int32), size
    return pa.table(made), us.Schema.from_domain(domain)


def child(path: Path) -> None:
    """One point: invent, warm up, clock."""
    job = json.loads(path.read_text())
    resource.setrlimit(resource.RLIMIT_CPU, (job["limit"], job["limit"] + 5))
    how: dict[str, Any] = {"epsilon": 1, "mechanism": job["mechanism"], "seed": 0}
    table, schema = invented(job["people"], job["columns"])
    us.release(table.slice(0, 1_000), schema=schema, workload="1-way", rows=1_000, **how)
    work = us.Workload.parse(job["workload"], schema)
    if job["fitted"]:
        how["parameters"] = {job["fitted"]: job["released"]}
    wall, cpu = time.monotonic(), time.process_time()
    made = us.release(table, schema=schema, workload=work, rows=job["released"], **how)
    found = {
        "wall": time.monotonic() - wall,
        "cpu": time.process_time() - cpu,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
        "cells": work.cells,
        "chosen": made.manifest["mechanism"]["name"],
    }
    path.with_suffix(".found").write_text(json.dumps(found))


def run(point: dict[str, Any], folder: Path) -> dict[str, Any]:
    job = folder / "job.json"
    job.with_suffix(".found").unlink(missing_ok=True)
    job.write_text(json.dumps(point))
    code, usage = clocked([sys.executable, "-m", "bench.scaling", "--child", str(job)], job.with_suffix(".log"), WALL * point["limit"])
    if code == 0:
        return point | json.loads(job.with_suffix(".found").read_text())
    if code is None or code in (-signal.SIGXCPU, -signal.SIGKILL):
        return point | {"failure": f"no result within {usage.ru_utime + usage.ru_stime:.0f} CPU s"}
    said = job.with_suffix(".log").read_text(errors="replace").strip().splitlines() or ["nothing"]
    return point | {"failure": f"stopped with status {code}: {said[-1][:200]}"}


def show(kept: dict[str, Any]) -> None:
    table = Table(title=f"one release by {kept['mechanism']}, epsilon 1, invented tables of {STANDING['people']:,} rows")
    for name in ("varied", "mechanism", "columns", "workload", "cells", "rows released", "wall s", "CPU s", "peak GB"):
        table.add_column(name, justify="left" if name in ("varied", "mechanism", "workload") else "right")
    for line in kept["results"]:
        if "failure" in line:
            shown = ["", f"{line['released']:,}", line["failure"], "", ""]
        else:
            measured = [f"{line['wall']:.2f}", f"{line['cpu']:.2f}", f"{line['gigabytes']:.2f}"]
            shown = [f"{line['cells']:,}", f"{line['released']:,}", *measured]
        table.add_row(line["axis"], line.get("chosen", line["mechanism"]), str(line["columns"]), line["workload"], *shown)
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("mechanism", nargs="?", default="auto")
    parser.add_argument("--axes", nargs="+", choices=list(POINTS), default=list(POINTS))
    parser.add_argument("--fitted", metavar="NAME", help="the mechanism's parameter for how many rows it fits")
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds allowed to each point")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "scaling.svg", help="the results go beside it, as .json")
    parser.add_argument("--redraw", action="store_true", help="run nothing: print and draw the results file")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    results = asked.plot.with_suffix(".json")
    results.parent.mkdir(parents=True, exist_ok=True)
    if not asked.redraw:
        kept: dict[str, Any] = {"mechanism": asked.mechanism, "results": []}
        given = STANDING | {"mechanism": asked.mechanism, "fitted": asked.fitted, "limit": asked.limit}
        with tempfile.TemporaryDirectory() as folder:
            for axis in asked.axes:
                for varied in POINTS[axis]:
                    kept["results"].append(run({"axis": axis, **given, **varied}, Path(folder)))
                    results.write_text(json.dumps(kept, indent=1) + "\n")
    show(json.loads(results.read_text()))
    subprocess.run([interpreter("plots"), "-I", str(PLOT), str(results), str(asked.plot)], check=True)
    print(f"drawn: {asked.plot}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
    else:
        main()
