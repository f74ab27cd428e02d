"""Errors of released rows: over all cells of a workload, and in what a statistician looks at first.

How far the constants of the mechanisms have seen what is measured here is said in
docs/arp-constants.md.
The part unseen has tables that no constant was ever set on; the rule's own choice stands there
beside both of the ways it chooses between, and beside gaussian. Run it, but do not set constants
by it.
"""

from __future__ import annotations

from typing import Any

from bench.grid import Grid, Suite, View
from bench.releases import BY_ALL_STICKS

EPSILON = [0.1, 0.25, 0.5, 1.0]  # where errors are large enough to compare
# Where no constant was set: KDD99 (50,000 of its rows by a public seed), and an invented table.
UNSEEN = ["kdd99-50k", "invented:50000x15@7"]
# our own choice, and what it chooses among
WAYS = ["arp", "arp adaptive=false", "arp adaptive=true", "gaussian"]


def grid(data: str, workload: str, relation: str = "replace-one") -> Grid:
    axes: dict[str, Any] = {"data": [data], "workload": [workload], "relation": [relation]}
    return Grid(
        measure=BY_ALL_STICKS, part="seen", mechanism=["auto"], epsilon=EPSILON, seeds=5, **axes
    )


BY = ("data", "workload", "relation", "mechanism", "epsilon")  # a line of a table for each
SUITE = Suite(
    grids=[
        grid("adult", "3-way:64@0 that fit"),
        grid("adult", "3-way:64@0"),
        grid("adult", "3-way"),
        grid("adult", "5-way:64@0"),
        grid("adult", "2-way"),
        grid("loans", "3-way:64@0 that fit"),
        grid("loans", "5-way:64@0 that fit"),
        grid("adult", "3-way:64@0", "add-remove-one"),
        grid("adult", "2-way", "add-remove-one"),
        grid("adult-six", "3-way"),
        Grid(
            measure=BY_ALL_STICKS,
            part="unseen",
            data=UNSEEN,
            workload=["3-way:64@0"],
            mechanism=WAYS,
            epsilon=[0.1, 1.0],
            relation=["replace-one"],
            seeds=3,
        ),
    ],
    views=[
        View(
            title="errors of cells, delta 1/n^2, mean of the runs",
            by=BY,
            shows={"max": ".4f", "mean": ".2e", "tv": ".4f", "alpha": ".4f"},
            ratio="mechanism",
        ),
        View(
            title="structure: errors over all columns and pairs",
            by=BY,
            shows={
                "interval": ".4f",
                "rectangle": ".4f",
                "tv_median": ".4f",
                "tv_largest": ".4f",
                "correlation_largest": ".3f",
                "group_mean_largest": ".3f",
            },
        ),
    ],
)
