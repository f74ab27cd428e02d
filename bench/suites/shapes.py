"""Tables of many shapes: auto beside independent, gaussian and matrix, and where it is behind.

bench/shapes.py says what the words of a name mean. Every table is measured on all its pairs of
columns. The last part has tables that no constant was set on.
"""

from __future__ import annotations

from bench.grid import Behind, Grid, Suite, View
from bench.releases import BY_ALL_STICKS
from bench.shapes import KINDS

# what is varied, the rest alike; a part takes minutes
PARTS = {
    "kinds": [f"shape:{kind}:20000x12:mixed@1" for kind in KINDS],
    "rows": [
        f"shape:{kind}:{rows}x8:mixed@2"
        for kind in ("classes", "chain", "functional")
        for rows in (500, 3_000, 200_000, 1_000_000)
    ],
    "columns": [
        f"shape:{kind}:20000x{columns}:few@3"
        for kind in ("factor", "blocks", "tree")
        for columns in (5, 30, 100)
    ],
    "binary": [
        f"shape:{kind}:{rows}x{columns}:binary@4"
        for kind in ("classes", "factor", "tree")
        for rows, columns in ((4_000, 16), (100_000, 60))
    ],
    "long": [f"shape:{kind}:50000x8:long@5" for kind in ("alone", "chain", "tree", "functional")],
    "unseen": ["unseen-payroll", "unseen-clinic"],
}
BY = ("part", "data", "epsilon", "mechanism")  # a line of a table for each
SUITE = Suite(
    grids=[
        Grid(
            measure=BY_ALL_STICKS,
            part=part,
            data=data,
            workload=["2-way"],
            mechanism=["auto", "independent", "gaussian", "matrix"],
            epsilon=[0.1, 1.0],
            relation=["replace-one"],
            seeds=3,
            limit=600,
        )
        for part, data in PARTS.items()
    ],
    views=[
        View(
            title="all pairs, delta 1/n^2, mean of the runs",
            by=BY,
            shows={
                "max": ".4f",
                "mean": ".2e",
                "tv": ".4f",
                "tv_largest": ".4f",
                "rectangle": ".4f",
                "correlation_mean": ".4f",
                "group_mean_mean": ".4f",
            },
            ratio="mechanism",
        ),
        Behind(
            title="where auto is behind by more than scatter",
            by=("part", "data", "epsilon"),
            errors={
                "max": ".4f",
                "tv": ".4f",
                "tv_largest": ".4f",
                "rectangle": ".4f",
                "correlation_mean": ".4f",
                "group_mean_mean": ".4f",
            },
        ),
    ],
    note=(
        "Behind: by more than two standard errors. What a run scatters by is pooled over all"
        " tables and mechanisms, or a sixth where nothing was measured twice."
    ),
)
