"""Noise of the matrix mechanism against plain noise on every marginal: exact, no row is read.

``plain`` measures each marginal of the workload with an equal share of rho, the best split with
the shares that are best for the sum of variances. ``above_bound`` is how far the variances can be
from the best possible ones. Only the workload is planned for here; the mechanism adds every
single column.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import understudy as us
from bench import sticks
from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import exact
from bench.tables import load
from understudy.game.fitting.reconstruction import plan
from understudy.privacy.verbs.residuals import joint_l2, sensitivity
from understudy.queries.base import Neighbours

TOTAL_SHARE = Fraction(1, 50)  # of rho for the number of rows when it is private, as in a release


def plain(cells: np.ndarray, rho: float, neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Variances of a cell of each marginal: equal shares, and shares as the root of its cells."""
    price = 1.0 if neighbours is Neighbours.REPLACE_ONE else 0.5
    shares = np.sqrt(cells) / np.sqrt(cells).sum()
    return np.full(len(cells), price * len(cells) / rho), price / (rho * shares)


def measure(point: Point) -> list[Line]:
    table, neighbours = load(point.data), Neighbours(point.relation)
    rho = us.Budget.of(epsilon=exact(point.epsilon), delta=Fraction(1, len(table) ** 2)).rho
    wanted = us.explicit(table.schema, columns=sticks.marginals(table, point.workload)).marginals
    cells = np.array([float(part.size) for part in wanted])
    private = neighbours is Neighbours.ADD_REMOVE_ONE
    spend = rho * (1 - TOTAL_SHARE) if private else rho
    total_sigma = Fraction(float(1 / (2 * rho * TOTAL_SHARE)) ** 0.5) if private else Fraction(0)
    with clock() as spent:
        strategy = plan(
            wanted,
            rho=spend,
            neighbours=neighbours,
            objective=point["objective"],
            total_sigma=total_sigma,
        )
    equal, split = plain(cells, float(rho), neighbours)
    ours = strategy.errors**2
    weights = sum(
        float(sensitivity(p) / s**2) for p, s in zip(strategy.batches, strategy.sigmas, strict=True)
    )
    worst = float(joint_l2(strategy.batches, strategy.sigmas, neighbours)) / (
        weights if private else 2 * weights
    )
    deviations: Line = {
        "mean_sd": float(np.sqrt(cells @ ours / cells.sum())),
        "largest_sd": float(strategy.errors.max()),
        "plain_mean_sd": float(np.sqrt(cells @ equal / cells.sum())),
        "plain_largest_sd": float(np.sqrt(equal.max())),
    }
    gains: Line = {
        "gain_in_total": float(cells @ equal / (cells @ ours)),
        "gain_on_best_split": float(cells @ split / (cells @ ours)),
        "gain_in_largest": float(equal.max() / ours.max()),
        "above_bound": worst - 1,
    }
    return [{**spent.line, "residuals": len(strategy.batches), **deviations, **gains}]


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            data=["adult"],
            workload=["1-way", "2-way", "3-way:64@0", "3-way"],
            epsilon=[1.0],
            relation=[str(one) for one in Neighbours],
            settings=[{"objective": "total"}, {"objective": "largest"}],
        )
    ],
    views=[
        View(
            title="ADULT: standard deviation of a cell in rows; gains are ratios of variances",
            by=("workload", "relation", "objective"),
            shows={
                "residuals": ".0f",
                "mean_sd": ".1f",
                "largest_sd": ".1f",
                "plain_mean_sd": ".1f",
                "plain_largest_sd": ".1f",
                "gain_in_total": ".2f",
                "gain_on_best_split": ".2f",
                "gain_in_largest": ".2f",
                "above_bound": ".1%",
                "cpu": ".2f",
            },
        )
    ],
)
