"""Attacks on releases, as strong as theory allows the attacker to be, beside what was promised.

    python -m tools.attacks [--mechanism NAME ...] [--releases 80] [--json FILE] [--plot FILE.svg]

A small table, known to the attacker to the last cell but for one person, who stands out in every
column: nobody else has their values.

membership   the person is in the table, or a common record in their place
attribute    the person is in the table, and one yes/no cell of theirs is yes or no

Of each mechanism and epsilon many shadow releases are made of both tables. The attacker sees the
whole release: noisy counts, through the exact log-likelihood ratio of the two tables; the
certificate; and in how many rows the person's values occur, alone and together. A logistic
regression on half of the releases, or the ratio alone if that does better there, makes a score of
it, and the other half is judged by that. Its accuracy must not exceed (1 + TV) / 2 with TV <=
(e^epsilon - 1 + 2 delta) / (e^epsilon + 1), nor TV <= sqrt(d / 2) with the divergence d that was
charged.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats
from sklearn.linear_model import LogisticRegression

import understudy as us
from understudy.counting.tally import CodedRows
from understudy.privacy import Measurement, Residual
from understudy.privacy.accounting.accountant import ORDERS, Cost, total_cost
from understudy.privacy.accounting.events import from_dict
from understudy.privacy.verbs.residuals import contrast

# 18 cells, so that an attacker may know them all
SCHEMA = us.Schema.from_domain({"a": 3, "b": 3, "c": 2})
# the one attacked, in a cell of their own; who might stand there instead
PERSON, COMMON, OTHER_CELL = (2, 2, 1), (0, 0, 0), (2, 2, 0)
# whether they are there, and what one cell of theirs is
ATTACKS = {"membership": COMMON, "attribute": OTHER_CELL}
EPSILONS = ("0.5", "1", "4")  # strict, usual and loose
PEOPLE = 60  # few, so that one of them is seen easily
DELTA = Fraction(1, PEOPLE**2)  # as release() would choose it
# Short plays: fewer rounds, records or steps of training, which changes what is learnt and not what
# is charged in all.
SETTINGS: dict[str, dict[str, Any]] = {
    "dqrs": {"rounds": 10, "samples": 2},
    "fem": {"samples": 10, "rounds": 8},
    "gan-logistic-experimental": {"steps": 3, "rounds": 2},
    "generator": {"steps": 20},
    "oraclequery": {"samples": 10, "rounds": 8},
    "querygan": {"steps": 5, "rounds": 10},
    "sepfem": {"samples": 10, "rounds": 8},
}
# slow all the same
FEWER = dict.fromkeys(("dqrs", "gan-logistic-experimental", "generator", "querygan"), 2)
SURE = 0.999  # of a breach; 0.95 would cry wolf among so many attacks
NEEDS_BINARY = {"oraclequery"}  # plays the class of all conjunctions


@dataclass(frozen=True)
class Result:
    """What one attack came to."""

    attack: str
    mechanism: str
    epsilon: str
    apart: float  # divergence of the two tables' releases, at most
    releases: int
    accuracy: float
    at_least: float  # of the accuracy, at SURE
    promised: float  # the most that epsilon and delta allow
    charged: float  # the most that the charges allow: Pinsker's inequality
    roc: tuple[tuple[float, float], ...]

    @property
    def holds(self) -> bool:
        return self.at_least <= min(self.promised, self.charged)


def tables(attack: str) -> tuple[np.ndarray, np.ndarray]:
    """The two tables between which the attacker has to choose; the second has the person as they
    are.
    """
    rng = np.random.default_rng(1)
    others = np.column_stack(
        [
            rng.integers(0, 2, PEOPLE - 1),
            rng.integers(0, 2, PEOPLE - 1),
            rng.integers(0, 2, PEOPLE - 1),
        ]
    )
    return np.vstack([others, ATTACKS[attack]]), np.vstack([others, PERSON])


def ratio(noisy: Measurement | Residual, pair: Sequence[CodedRows]) -> float:
    """The log-likelihood ratio of the two tables for one noisy vector: Gaussian, as the noise
    nearly is.
    """
    first, second = (noisy.batch.counts(table).dense().astype(float) for table in pair)
    if isinstance(noisy, Residual):
        shape = noisy.batch.shape
        first, second = (
            contrast(table.astype(np.int64), shape).astype(float) for table in (first, second)
        )
    seen = np.zeros(len(first))
    if isinstance(noisy, Measurement) and noisy.keys is not None:
        seen[noisy.keys] = noisy.counts
    else:
        seen = noisy.counts.astype(float)
    return float(((seen - first) ** 2 - (seen - second) ** 2).sum() / (2 * float(noisy.sigma) ** 2))


def seen(release: us.Release, pair: Sequence[CodedRows]) -> list[float]:
    """All that the attacker makes of one release."""
    features = [
        sum(ratio(measurement, pair) for measurement in release.measurements),
        float(release.certificate.noisy_largest_error),
    ]
    person = np.asarray(PERSON)
    for size in (1, 2, 3):
        for columns in itertools.combinations(range(3), size):
            features.append(
                float((release.codes[:, columns] == person[list(columns)]).all(axis=1).sum())
            )
    return features


def shadows(job: tuple[str, str, str, int]) -> tuple[np.ndarray, np.ndarray, float]:
    """(what the attacker saw, which table it was, the largest divergence that was charged) of many
    releases by one mechanism.
    """
    attack, mechanism, epsilon, releases = job
    both = tables(attack)
    pair = [CodedRows(table.astype(np.int32), SCHEMA.shape) for table in both]
    work = (
        us.Workload.parse("all-conjunctions", SCHEMA)
        if mechanism in NEEDS_BINARY
        else us.marginals(SCHEMA, k=2)
    )
    rows, apart = [], 0.0
    for which in range(2 * releases):
        release = us.release(
            both[which % 2], schema=SCHEMA, workload=work, epsilon=Fraction(epsilon), delta=DELTA,
            mechanism=mechanism, parameters=SETTINGS.get(mechanism),
        )  # fmt: skip
        rows.append(seen(release, pair))
        apart = max(
            apart, float(divergence(total_cost(tuple(map(from_dict, release.manifest["events"])))))
        )
    return np.asarray(rows), np.arange(2 * releases) % 2, apart


def divergence(cost: Cost) -> Fraction:
    """How far apart the two tables' releases are at most, in Kullback and Leibler's way: no more
    than at any order above 1.
    """
    if cost.delta:
        raise ValueError("a charge with a delta has no divergence")
    bounds = [] if cost.curve_rho is None else [cost.rho + cost.curve_rho]
    if cost.curve is not None:
        bounds += [
            renyi + order * cost.rho for order, renyi in zip(ORDERS, cost.curve, strict=True)
        ]
    return min(bounds)


def judged(job: tuple[str, str, str, int]) -> Result:
    attack, mechanism, epsilon, _ = job
    features, which, apart = shadows(job)
    counted = features[:, 0].copy()
    half = len(which) // 2
    spread = features[:half].std(axis=0)
    features = (features - features[:half].mean(axis=0)) / np.where(spread > 0, spread, 1)
    fitted = LogisticRegression(C=0.1, max_iter=1000).fit(features[:half], which[:half])
    # The ratio alone is the best there is when everything was measured, and says nothing when
    # nothing was.
    ways = [counted, fitted.decision_function(features)]
    scores = max(ways, key=lambda score: int(((score[:half] > 0) == which[:half]).sum()))[half:]
    truth = which[half:]
    right = int(((scores > 0) == truth).sum())
    eps, delta = float(epsilon), float(DELTA)
    cuts = np.unique(scores)[::-1]
    roc = [
        (float((scores[truth == 0] >= cut).mean()), float((scores[truth == 1] >= cut).mean()))
        for cut in cuts
    ]
    return Result(
        attack=attack, mechanism=mechanism, epsilon=epsilon, apart=apart, releases=len(which),
        accuracy=right / half, at_least=float(stats.beta.ppf(1 - SURE, right, half - right + 1)) if right else 0.0,
        promised=0.5 + (math.exp(eps) - 1 + 2 * delta) / (math.exp(eps) + 1) / 2, charged=min(1.0, 0.5 + math.sqrt(apart / 2) / 2),
        roc=tuple(roc[:: max(1, len(roc) // 100)]),
    )  # fmt: skip


def plot(results: Sequence[Result], file: Path) -> None:
    """Hits against false alarms for each mechanism, with the most that each epsilon allows."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "understudy"  # the same results draw the same file
    import matplotlib.pyplot as plt

    names = sorted({one.mechanism for one in results})
    across = 5
    figure, panels = plt.subplots(
        -(-len(names) // across),
        across,
        figsize=(13, 2.7 * -(-len(names) // across)),
        sharex=True,
        sharey=True,
    )
    alarms, colours = (
        np.linspace(0, 1, 201),
        dict(zip(EPSILONS, ("#0072b2", "#009e73", "#d55e00"), strict=True)),
    )
    for panel in panels.flat[len(names) :]:
        panel.axis("off")
    for name, panel in zip(names, panels.flat, strict=False):
        panel.plot([0, 1], [0, 1], color="#999999", lw=0.6)
        for epsilon, colour in colours.items():
            e = math.exp(float(epsilon))
            most = np.minimum(
                np.minimum(e * alarms + float(DELTA), 1 - (1 - float(DELTA) - alarms) / e), 1
            )
            panel.plot(alarms, most, color=colour, lw=0.8, ls=":")
            for one in results:
                if (one.mechanism, one.epsilon, one.attack) == (name, epsilon, "membership"):
                    panel.plot(
                        *zip((0, 0), *one.roc, (1, 1), strict=True),
                        color=colour,
                        lw=1,
                        label=f"epsilon {epsilon}",
                    )
        panel.set_title(name, fontsize=9)
    panels.flat[0].legend(fontsize=7, loc="lower right")
    figure.supxlabel("false alarms", fontsize=9)
    figure.supylabel("hits", fontsize=9)
    figure.suptitle(
        "Who was in the table? Solid: the attack. Dotted: the most that the promise allows.",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def part(results: Sequence[Result]) -> dict[str, Any]:
    """For the page of the audit."""
    worst = max(results, key=lambda one: one.accuracy)
    summary = (
        "An attacker who knows every cell but one person's tells two tables apart by a whole"
        f" release ([plot](attacks.svg)). Most often right: {worst.attack} on {worst.mechanism} at"
        f" epsilon {worst.epsilon}, {worst.accuracy:.1%}, where {worst.charged:.1%} is allowed."
    )
    rows = [
        {
            "attack": one.attack, "mechanism": one.mechanism, "epsilon": one.epsilon, "releases": one.releases,
            "right": f"{one.accuracy:.1%}",
            f"at least ({SURE:.1%})": f"{one.at_least:.1%}", "most by charges": f"{one.charged:.1%}",
            "most by epsilon": f"{one.promised:.1%}",
            "verdict": "held" if one.holds else "BREACH",
        }
        for one in results
    ]  # fmt: skip
    return {
        "cases": len(results),
        "misses": sum(not one.holds for one in results),
        "said": summary,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mechanism", nargs="+", default=list(us.available_mechanisms()))
    parser.add_argument(
        "--releases", type=int, default=80, help="of each table; half as many by slow mechanisms"
    )
    parser.add_argument("--json", dest="file", help="write the results here as well")
    parser.add_argument("--plot", help="draw them here (.svg)")
    asked = parser.parse_args()
    console = Console(width=140)
    jobs = [
        (attack, name, epsilon, max(20, asked.releases // FEWER.get(name, 1)))
        for name in asked.mechanism for attack in ATTACKS for epsilon in EPSILONS
    ]  # fmt: skip
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = []
        for one in pool.map(judged, jobs):
            results.append(one)
            console.print(
                f"{one.attack}, {one.mechanism}, epsilon {one.epsilon}: right {one.accuracy:.1%}",
                style="dim",
            )
    table = Table(
        "attack",
        "mechanism",
        "epsilon",
        "releases",
        "right",
        f"at least ({SURE:.1%})",
        "most by charges",
        "most by epsilon",
        "",
    )
    for one in results:
        shown = [
            f"{share:.1%}" for share in (one.accuracy, one.at_least, one.charged, one.promised)
        ]
        table.add_row(
            one.attack,
            one.mechanism,
            one.epsilon,
            str(one.releases),
            *shown,
            "held" if one.holds else "BREACH",
        )
    console.print(table)
    if asked.file:
        Path(asked.file).write_text(json.dumps(part(results), indent=1) + "\n", encoding="utf-8")
    if asked.plot:
        plot(results, Path(asked.plot))
    sys.exit(0 if all(one.holds for one in results) else 1)


if __name__ == "__main__":
    main()
