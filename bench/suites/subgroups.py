"""Income by sex, race and education on ADULT: rates in groups that no marginal asks about.

64 3-way marginals are measured; the rates are 4-way. Groups of at least 1% of the rows count.
"""

from __future__ import annotations

from bench import sticks
from bench.coded import Coded
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import by_cells, released

# together 4-way, which no measured marginal is
LABEL, GROUPS = "income>50K", ("sex", "race", "education-num")


def by_rates(real: Coded, synthetic: Coded, _: Point) -> Line:
    return sticks.rates(real, synthetic, LABEL, GROUPS)


SUITE = Suite(
    grids=[
        Grid(
            measure=released(by_cells, by_rates),
            data=["adult"],
            workload=["3-way:64@0", "2-way"],
            mechanism=["auto"],
            epsilon=[0.1, 1.0, 4.0],
            relation=["replace-one"],
            seeds=5,
        )
    ],
    views=[
        View(
            title="income > 50K by sex, race and education, delta 1/n^2, mean of the runs",
            by=("data", "workload", "epsilon", "mechanism"),
            shows={
                "groups": ".0f",
                "rate_largest": ".3f",
                "rate_mean": ".4f",
                "rate_kept": ".2f",
                "max": ".4f",
                "tv": ".4f",
            },
        )
    ],
)
