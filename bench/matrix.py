"""Noise of the matrix mechanism against plain noise on every marginal, on ADULT's columns: exact, no rows are read.

    python -m bench.matrix

``plain`` measures each marginal of the workload with an equal share of rho, ``plain, best split`` with the shares that are best
for the sum of variances. ``above bound`` is how far the variances can be from the best possible ones. Only the workload is planned
for here; the mechanism adds every single column.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.accuracy import measuring_stick
from understudy.privacy.budget import Budget
from understudy.privacy.residuals import joint_l2, sensitivity
from understudy.queries.base import Neighbours
from understudy.synthesis.residuals import plan

EPSILON, DELTA = 1, Fraction(1, 48842**2)
TOTAL_SHARE = Fraction(1, 50)  # of rho for the number of rows when it is private, as in the front door


def plain(cells: np.ndarray, rho: float, neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Variances of a cell of each marginal: equal shares, and shares in proportion to the root of its cells."""
    price = 1.0 if neighbours is Neighbours.REPLACE_ONE else 0.5
    shares = np.sqrt(cells) / np.sqrt(cells).sum()
    return np.full(len(cells), price * len(cells) / rho), price / (rho * shares)


def main() -> None:
    stick = measuring_stick()
    domain = stick.coded("adult")[1]
    schema = us.Schema.from_domain(domain)
    rho = Budget.of(epsilon=EPSILON, delta=DELTA).rho
    heads = ("workload", "neighbours", "objective", "residuals", "mean sd", "largest sd", "plain: mean, largest")
    gains = ("gain in total", "vs best split", "gain in largest", "above bound", "CPU s")
    table = Table(*heads, *gains, title=f"ADULT, epsilon {EPSILON}: standard deviation of a cell in rows; gains are ratios of variances")
    for k, size in ((1, 14), (2, 91), (3, 64), (3, 364)):
        wanted = us.explicit(schema, columns=stick.workload(domain, k, size, 0)).marginals
        cells = np.array([float(part.size) for part in wanted])
        for neighbours in Neighbours:
            private = neighbours is Neighbours.ADD_REMOVE_ONE
            spend = rho * (1 - TOTAL_SHARE) if private else rho
            total_sigma = Fraction(float(1 / (2 * rho * TOTAL_SHARE)) ** 0.5) if private else Fraction(0)
            equal, split = plain(cells, float(rho), neighbours)
            for objective in ("total", "largest"):
                start = time.process_time()
                made = plan(wanted, rho=spend, neighbours=neighbours, objective=objective, total_sigma=total_sigma)
                cpu = time.process_time() - start
                ours = made.errors**2
                weights = sum(float(sensitivity(p) / s**2) for p, s in zip(made.parts, made.sigmas, strict=True))
                worst = float(joint_l2(made.parts, made.sigmas, neighbours)) / (weights if private else 2 * weights)
                table.add_row(
                    f"{len(wanted)} {k}-way",
                    str(neighbours),
                    objective,
                    f"{len(made.parts)}",
                    f"{np.sqrt(cells @ ours / cells.sum()):.1f}",
                    f"{made.errors.max():.1f}",
                    f"{np.sqrt(cells @ equal / cells.sum()):.1f}, {np.sqrt(equal.max()):.1f}",
                    f"{cells @ equal / (cells @ ours):.2f}x",
                    f"{cells @ split / (cells @ ours):.2f}x",
                    f"{equal.max() / ours.max():.2f}x",
                    f"{worst - 1:.1%}",
                    f"{cpu:.2f}",
                )
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
