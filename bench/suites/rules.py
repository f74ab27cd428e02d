"""Rules of a schema: how many rows break them, and what keeping them does to errors and CPU time.

Each release is made twice, with the rules and without; the errors are those of the same queries.
``admissions`` is an invented hospital of 100,000 rows with twenty rules, and ``survey`` a table as
long with twenty others that is small enough for every mechanism. ``wards`` are six columns of the
hospital, two of which determine others; ``diabetes-drugs`` says of 23 drugs that who takes no drug
takes none of them.
"""

from __future__ import annotations

from bench import sticks
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import facts, release, warm_up
from bench.ruled import load
from understudy.mechanisms.base import available_mechanisms

ERRORS = {"max": ".4f", "mean": ".2e", "tv": ".4f"}
KEPT = {"rules": ".0f", "breaking": ".0f", "repaired": ".0f", "cpu": ".1f"}
# published ways that take minutes at their own settings
QUICK = {
    "dqrs": "dqrs rounds=20",
    "dualquery": "dualquery rounds=20",
    "fem": "fem rounds=5",
    "gan-logistic-experimental": "gan-logistic-experimental rounds=3",
    "generator": "generator steps=100",
    "oraclequery": "oraclequery rounds=5",
    "projection": "projection steps=100",
    "querygan": "querygan rounds=5 steps=30",
    "rap": "rap rounds=3 steps=100",
    "sepfem": "sepfem rounds=5",
}


def measure(point: Point) -> list[Line]:
    """One release; its rows are asked about the rules, whether it was given them or not."""
    from understudy.constraints.rows import counts
    from understudy.constraints.rules import Rules
    from understudy.queries.workload import explicit

    warm_up(point.mechanism)
    table, asked = load(point.data, ruled=bool(point["ruled"])), load(point.data, ruled=True)
    rules = Rules.of(asked.schema)
    marginals = sticks.marginals(table, point.workload)
    work = explicit(table.schema, columns=marginals)
    result, spent = release(point, table, work)
    told = list(counts(rules, result.codes, result.synthetic))
    rows = table.like(result.synthetic)
    return [
        {
            **spent.line,
            **facts(result),
            **sticks.cells(table, rows, marginals),
            "rules": len(rules),
            "breaking": max(one.broken for one in told),
            "repaired": result.manifest["mechanism"]["played"].get("repaired_rows"),
        }
    ]


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            part="error and CPU",
            data=["admissions", "wards", "diabetes-drugs"],
            workload=["2-way"],
            mechanism=["arp", "gaussian"],
            epsilon=[0.1, 1.0],
            settings=[{"ruled": False}, {"ruled": True}],
            seeds=3,
        ),
        Grid(
            measure=measure,
            part="every mechanism",
            data=["survey"],
            workload=["2-way"],
            mechanism=[QUICK.get(name, name) for name in available_mechanisms()],
            epsilon=[1.0],
            settings=[{"ruled": False}, {"ruled": True}],
        ),
    ],
    views=[
        View(
            title="the same release with and without its rules, delta 1/n^2, mean of the runs",
            part="error and CPU",
            by=("data", "epsilon", "mechanism", "ruled"),
            shows={**ERRORS, **KEPT},
            ratio="ruled",
        ),
        View(
            title="100,000 rows and twenty rules; breaking: rows that break the rule most broken",
            part="every mechanism",
            by=("mechanism", "ruled"),
            shows={**ERRORS, **KEPT},
        ),
    ],
    note="Rows that no repair changed have `repaired` 0; without rules nothing is repaired.",
)
