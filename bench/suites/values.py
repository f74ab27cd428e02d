"""Single columns by their own values: the demo, ADULT and the hospital's visits.

A prefix is the share of rows up to a value. Bins of equal mass are those of the source. A spike is
a value that 200 people have, and is lost if not half as many are within a thousandth of the range.
"""

from __future__ import annotations

from bench.grid import Grid, Suite, View
from bench.valued import by_values

BY = ("data", "epsilon", "column")
SUITE = Suite(
    grids=[
        Grid(
            measure=by_values,
            data=["demo", "adult-raw", "diabetes"],
            mechanism=["auto"],
            epsilon=[0.1, 1.0],
            seeds=5,
        )
    ],
    views=[
        View(
            title="single columns, all pairs released, delta 1/n^2, mean of the runs",
            by=BY,
            shows={
                "prefix": ".4f",
                "interval": ".4f",
                "tv_own": ".4f",
                "tv_50": ".4f",
                "mean_off": ".4f",
                "sd_off": ".4f",
                "spikes": ".0f",
                "spikes_lost": ".1f",
            },
        ),
        View(
            title="what it costs the cells of pairs",
            by=BY,
            shows={"max": ".4f", "mean": ".2e", "tv": ".4f", "alpha": ".4f", "cpu": ".1f"},
        ),
    ],
)
