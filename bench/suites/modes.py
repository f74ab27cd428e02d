"""Whether arp's rule picks the better of its two ways, on tables whose columns depend densely.

At epsilon 0.1 and 64 3-way marginals the two are close: measuring everything at once, and the
worst marginal in rounds.
"""

from __future__ import annotations

from bench.grid import Behind, Grid, Suite, View
from bench.releases import BY_CELLS

TABLES = [
    "kdd99-50k",
    "shape:classes:50000x15:mixed@8",
    "shape:factor:50000x15:mixed@9",
    "shape:classes:20000x16:binary@10",  # a survey of yes and no
]
ERRORS = {"max": ".4f", "tv": ".4f"}
SUITE = Suite(
    grids=[
        Grid(
            measure=BY_CELLS,
            data=TABLES,
            workload=["3-way:64@0"],
            mechanism=["auto", "arp adaptive=false", "arp adaptive=true"],
            epsilon=[0.1],
            relation=["replace-one"],
            seeds=5,
        )
    ],
    views=[
        View(
            title="64 3-way marginals, delta 1/n^2, mean of the runs",
            by=("data", "epsilon", "mechanism"),
            shows={"max": ".4f", "mean": ".2e", "tv": ".4f"},
            ratio="mechanism",
        ),
        Behind(
            title="where auto is behind by more than scatter",
            by=("data", "epsilon"),
            errors=ERRORS,
        ),
    ],
)
