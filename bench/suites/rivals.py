"""Ours beside MST and AIM as published on PyPI: the same table, workload, privacy and clock.

The domain is public, delta = 1/n^2, add-remove-one for everybody (the relation that the rivals'
noise is made for). Every system runs in a process and under an interpreter of its own (the
rivals' are installed from the pinned requirement files on first use), is stopped at the limit,
and is clocked by the operating system: CPU seconds of the whole process with its threads and
children, start-up included.
"""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us
from bench import sticks
from bench.clock import GIGABYTE, WALL, clocked, failure, peak_gigabytes
from bench.coded import Coded
from bench.grid import Grid, Line, Panel, Point, Suite, View
from bench.homes import interpreter
from bench.releases import exact, warm_up
from bench.results import ROOT
from bench.tables import load

CHILD = ROOT / "bench" / "rivals_child.py"  # run by the other system's own Python


@dataclass(frozen=True)
class System:
    """Whose code, in which environment (None is ours), with which settings."""

    code: str  # its name in rivals_child.py
    home: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


SYSTEMS = {
    "understudy": System("understudy"),
    "MST (dpmm)": System("dpmm-mst", "dpmm"),
    "MST (OpenDP)": System("opendp-mst", "opendp"),
    # Restricted as the authors of AIM suggest for a quick run: a model of at most 1 MB (80 is the
    # default that they ask comparisons to use); beyond that, 2 rounds a column instead of 16, and
    # 100 steps of each fit instead of 1,000 where that can be set.
    "AIM (dpmm), restricted": System(
        "dpmm-aim", "dpmm", {"max_model_size": 1, "rounds": 28, "n_iters": 100}
    ),
    "AIM (OpenDP), restricted": System("opendp-aim", "opendp", {"max_size": 1.0, "rounds": 28}),
    "AIM (dpmm), as published": System("dpmm-aim", "dpmm"),
    "AIM (OpenDP), as published": System("opendp-aim", "opendp"),
}


def job_of(point: Point, table: Coded, work: list[sticks.Names], codes: Path) -> dict[str, Any]:
    system, delta = SYSTEMS[point.mechanism], Fraction(1, len(table) ** 2)
    # For a system that asks for rho itself. OpenDP's MST stops at some last digits ("insufficient
    # budget", by 4e-19); fewer may help.
    rho = us.Budget.of(epsilon=exact(point.epsilon), delta=delta).rho
    return {
        "codes": str(codes),
        "domain": table.domain,
        "workload": work,
        "delta": str(delta),
        "rho": math.floor(rho * 10**8) / 10**8,
        "system": system.code,
        "settings": system.settings,
        "epsilon": point.epsilon,
        "limit": point.limit,
    }


def measure(point: Point) -> list[Line]:
    system, table = SYSTEMS[point.mechanism], load(point.data)
    work = sticks.marginals(table, point.workload)
    if system.home is None:
        warm_up()  # compiled code is cached on disk; compiling is not what is compared
    with tempfile.TemporaryDirectory() as place:
        job, codes = Path(place) / "job.json", Path(place) / "codes.npy"
        np.save(codes, table.codes)
        job.write_text(json.dumps(job_of(point, table, work, codes)))
        command = [interpreter(system.home), "-I" if system.home else "-P", str(CHILD), str(job)]
        code, usage = clocked(command, job.with_suffix(".log"), WALL * point.limit)
        cpu = usage.ru_utime + usage.ru_stime
        if code != 0:
            why = failure(code, cpu, point.limit, job.with_suffix(".log"))
            return [{"failure": why, "cpu": cpu, "peak": usage.ru_maxrss / GIGABYTE}]
        rows = Coded(np.load(job.with_suffix(".npy"), allow_pickle=False), table.domain)
        facts = json.loads(job.with_suffix(".facts").read_text())
        peak = peak_gigabytes(job.with_suffix(".status").read_text())
    return [{**facts, "cpu": cpu, "peak": peak, **sticks.cells(table, rows, work)}]


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            data=["adult"],
            workload=["3-way:64@0"],
            mechanism=list(SYSTEMS),
            epsilon=[0.1, 1.0],
            relation=["add-remove-one"],
            limit=600,
        )
    ],
    views=[
        View(
            title="ours beside MST and AIM, delta 1/n^2",
            by=("data", "workload", "relation", "epsilon", "mechanism"),
            shows={"note": "", "rho": ".6f", "max": ".4f", "mean": ".2e", "tv": ".4f"},
            ratio="mechanism",
        )
    ],
    panels=[
        Panel(x="cpu", y=("max",), title="largest error of a cell", mark="epsilon"),
        Panel(x="cpu", y=("mean",), title="mean error of a cell", mark="epsilon"),
    ],
    note=(
        "rho: the zCDP budget that each takes for (epsilon, delta). Ours pays its certificate (5%)"
        " and the private n (2%) out of it."
    ),
)
