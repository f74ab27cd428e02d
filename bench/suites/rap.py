"""RAP on ADULT: the public rule beside a grid of (K, T) as in the paper, and projection.

The grid is for looking at, never for choosing: picking its best row by the true error, as the
papers do, is a disclosure. The constants of the public rule and of the fit were set while looking
at this very workload, so its figures flatter them a little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import understudy as us
from bench import sticks
from bench.coded import Coded
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import BY_CELLS, answered, facts, release, warm_up
from bench.tables import load
from understudy.queries.literals import Literal, Query, any_of
from understudy.queries.symmetric import Symmetric

THRESHOLDS = 100  # random 1-of-3 thresholds for each marginal
EPSILON = [0.1, 0.5, 1.0]  # as in bench/suites/querygan.py, to lay side by side
# (K, T) as in the paper
GRID = [
    f"rap queries_per_round={k} rounds={t}"
    for k, t in ((5, 5), (10, 10), (5, 25), (25, 10), (50, 5))
]


def thresholds(table: Coded, columns: list[sticks.Names]) -> us.Workload:
    """At least one of three given values, the values by a public seed."""
    rng, schema, queries = np.random.default_rng(0), table.schema, list[Query]()
    for names in columns:
        places = [schema.position(name) for name in names]
        queries.extend(
            any_of(*(Literal(p, int(rng.integers(schema.shape[p]))) for p in places))
            for _ in range(THRESHOLDS)
        )
    return us.Workload(schema, (Symmetric(tuple(dict.fromkeys(queries))),), "1-of-3")


def by_thresholds(point: Point) -> list[Line]:
    warm_up(point.mechanism)
    table = load(point.data)
    work = thresholds(table, sticks.marginals(table, point.workload))
    result, spent = release(point, table, work)
    return [{**spent.line, **facts(result), **answered(table.codes, result.codes, work)}]


# where constants were set; see above
ADULT: dict[str, Any] = {"data": ["adult"], "workload": ["3-way:64@0"]}
SUITE = Suite(
    grids=[
        Grid(
            measure=BY_CELLS,
            part="cells",
            mechanism=["rap", *GRID, "projection"],
            epsilon=EPSILON,
            **ADULT,
        ),
        Grid(
            measure=by_thresholds,
            part="1-of-3",
            mechanism=["rap", "projection"],
            epsilon=EPSILON,
            **ADULT,
        ),
    ],
    views=[
        View(
            title="ADULT, 64 3-way, delta 1/n^2",
            by=("part", "mechanism", "epsilon"),
            shows={"queries": ",.0f", "max": ".4f", "mean": ".2e"},
            ratio="mechanism",
        )
    ],
)
