"""Ranges, correlations and means by group beside cells, over all pairs of columns.

``--against before=FOLDER`` measures another checkout in turn with this one; the report then has
ratios. Constants may be set on the part seen. The part unseen has tables that no constant was set
on: run it, but set nothing by it. The largest cell of a run scatters by a sixth, so there are ten
runs; the other figures are steady with five (``--seeds 5``).
"""

from __future__ import annotations

from bench.grid import Grid, Suite, View
from bench.releases import BY_ALL_STICKS


def grid(
    data: list[str], epsilon: list[float], relation: str = "replace-one", part: str = "seen"
) -> Grid:
    return Grid(
        measure=BY_ALL_STICKS,
        part=part,
        data=data,
        workload=["2-way"],
        mechanism=["auto"],
        epsilon=epsilon,
        relation=[relation],
        seeds=10,
    )


BY = ("part", "data", "relation", "epsilon", "mechanism")  # a line of a table for each
SUITE = Suite(
    grids=[
        grid(["adult", "diabetes"], [0.1, 1.0, 4.0]),
        grid(["adult-4/5"], [1.0], "add-remove-one"),
        grid(["invented-four", "near-functional"], [0.1, 1.0, 4.0]),
        grid(["unseen-payroll", "unseen-clinic"], [0.1, 1.0, 4.0], part="unseen"),
    ],
    views=[
        View(
            title="errors of cells, all pairs, delta 1/n^2, mean of the runs",
            by=BY,
            shows={
                "max": ".4f",
                "mean": ".2e",
                "tv_median": ".4f",
                "tv_mean": ".4f",
                "tv_largest": ".4f",
                "alpha": ".4f",
            },
        ),
        View(
            title="structure: errors over all columns and pairs",
            by=BY,
            shows={
                "interval": ".4f",
                "rectangle": ".4f",
                "correlation_largest": ".3f",
                "correlation_mean": ".4f",
                "group_mean_largest": ".3f",
                "group_mean_mean": ".4f",
            },
        ),
    ],
)
