"""Generator networks beside fem and rap; a table of 96 columns; how often the certificate holds.

adult     64 random 3-way marginals, seed 0. The constants of networks were set on the workload of
seed 1. wide      LOANS twice over: every column and a copy of it under another name, 64 3-way
marginals. mwem refuses it. coverage  a small invented table, 200 releases by each of the
networks: how often the largest error is at most alpha.
"""

from __future__ import annotations

import json
from typing import Any

import understudy as us
from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import BY_CELLS, answered
from understudy.checks import SMALL, small_table

EPSILON = [0.1, 0.5, 1.0]  # as in bench/suites/rap.py, to lay side by side
NETWORKS = ["querygan", "generator", "gan-logistic-experimental"]  # all mechanisms that train one
QUICK: dict[str, dict[str, Any]] = {  # coverage does not depend on how well they are fitted
    "querygan": {"rounds": 20, "steps": 5},
    "generator": {"steps": 20},
    "gan-logistic-experimental": {"steps": 5},
}


def coverage(point: Point) -> list[Line]:
    name, parameters = point.mechanism, QUICK[point.mechanism]
    frame, work, covered = small_table(), us.marginals(SMALL, k=2), 0
    with clock() as spent:
        for _ in range(point["releases"]):
            result = us.release(
                frame,
                schema=SMALL,
                workload=work,
                epsilon=point.epsilon,
                mechanism=name,
                parameters=parameters,
            )
            covered += (
                float(answered(frame, result.codes, work)["max"] or 0) <= result.certificate.alpha
            )
    return [
        {
            **spent.line,
            "held": covered,
            "share_held": covered / point["releases"],
            "parameters": json.dumps(parameters),
        }
    ]


# besides CPU seconds and memory
SHOWS = {"max": ".4f", "mean": ".2e", "alpha": ".4f", "wall": ".1f"}
SUITE = Suite(
    grids=[
        Grid(
            measure=BY_CELLS,
            part="adult",
            data=["adult"],
            workload=["3-way:64@0"],
            mechanism=[*NETWORKS, "fem", "rap"],
            epsilon=EPSILON,
        ),
        Grid(
            measure=BY_CELLS,
            part="wide",
            data=["loans-twice"],
            workload=["3-way:64@0"],
            mechanism=["generator", "mwem"],
            epsilon=EPSILON,
        ),
        Grid(
            measure=coverage,
            part="coverage",
            mechanism=NETWORKS,
            epsilon=[1.0],
            settings=[{"releases": 200}],
        ),
    ],
    views=[
        View(
            title="ADULT, 64 3-way, delta 1/n^2",
            part="adult",
            by=("mechanism", "epsilon"),
            shows=SHOWS,
            ratio="mechanism",
        ),
        View(
            title="LOANS twice over, 64 3-way",
            part="wide",
            by=("mechanism", "epsilon"),
            shows=SHOWS,
        ),
        View(
            title="how often the certificate held",
            part="coverage",
            by=("mechanism", "epsilon", "releases"),
            shows={"held": ".0f", "share_held": ".3f"},
        ),
    ],
)
