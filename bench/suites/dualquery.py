"""DualQuery as its paper measured it, and what better accounting buys; DQRS* beside it.

rounds  ADULT, 500,000 random 3-way conjunctions over column = value, delta 0.001, eta 2, s 1,000:
        the rounds that the paper's Theorem 4.3 allows at epsilon 1 and those that correct
        accounting allows, with the errors of both.
kdd     KDD99 (494,021 rows), 40,000 to 2,000,000 conjunctions, epsilon 1, the public rule:
        seconds and memory.
dqrs    ADULT: equal rounds, samples and step for dualquery and dqrs; the epsilon that each costs
        at delta 0.001, and the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import understudy as us
from bench.clock import clock
from bench.coded import Coded
from bench.grid import Grid, Line, Point, Suite, View
from bench.playing import play_at
from bench.releases import exact, warm_up
from bench.tables import load
from understudy.mechanisms.base import Mechanism
from understudy.mechanisms.papers.dqrs import DQRS
from understudy.mechanisms.papers.dualquery import DualQuery, squares
from understudy.privacy.accounting.budget import rho_for
from understudy.sources import open_source

DELTA = Fraction(1, 1000)  # the paper's, here and below
STEP, SAMPLES, QUERIES = 2, 1000, 500_000  # eta, s and queries on ADULT
KDD_QUERIES = (40_000, 200_000, 500_000, 1_000_000, 2_000_000)
# eta, T, s
SMALL_STEPS = ((0.05, 200, 100), (0.1, 200, 100), (0.25, 100, 100), (0.5, 60, 100), (2.0, 30, 100))


def theorem_4_3(rounds: int, rows: int) -> bool:
    """Epsilon at most 1 by the paper: advanced composition of s(T - 1) draws, each as costly."""
    each, draws = 2 * STEP * (rounds - 1) / rows, SAMPLES * (rounds - 1)
    return math.sqrt(2 * draws * math.log(1 / DELTA)) * each + draws * each * math.expm1(each) <= 1


def ours(rounds: int, rows: int) -> bool:
    return Fraction(SAMPLES * STEP**2 * squares(rounds), 2 * rows**2) <= rho_for(Fraction(1), DELTA)


# what counts as within epsilon 1
ACCOUNTING: dict[str, Callable[[int, int], bool]] = {"Theorem 4.3": theorem_4_3, "ours": ours}


def most(fits: Callable[[int, int], bool], rows: int) -> int:
    """The largest number of rounds that fits."""
    rounds = 1
    while fits(rounds + 1, rows):
        rounds += 1
    return rounds


def fixed(count: int, samples: int, step: float) -> DualQuery:
    """DualQuery with all three numbers given, whatever they cost."""

    class Fixed(DualQuery):
        def _plan(self, rho: Fraction, rows: int, brief: Any) -> tuple[int, int, Fraction]:
            return count, samples, samples * Fraction(step) ** 2 / (2 * rows**2)

    return Fixed()


def played(
    table: Coded, work: us.Workload, mechanism: Mechanism, epsilon: Fraction, seed: int
) -> Line:
    """One play against the truth."""
    source = open_source(table.table, work.schema)
    budget = us.Budget.of(epsilon=epsilon, delta=DELTA)
    warm_up("dualquery")
    with clock() as spent:
        play, cost = play_at(source, work, mechanism, budget, len(table), seed)
    gaps = [
        np.abs(play.model.shares(part) - part.counts(source).dense() / len(table)) for part in work
    ]
    errors = np.concatenate(gaps)
    numbers: Line = {
        name: value
        for name, value in dict(play.facts).items()
        if isinstance(value, (int, float, str))
    }
    accuracy: Line = {
        "average": float(errors.mean()),
        "max": float(errors.max()),
        "costs_epsilon": float(cost.epsilon_at(DELTA) or 0),
    }
    return {**spent.line, **numbers, **accuracy}


def asked(point: Point) -> tuple[Coded, us.Workload]:
    table = load(point.data)
    return table, us.random_conjunctions(table.schema, point["queries"], seed=0)


def rounds(point: Point) -> list[Line]:
    table, work = asked(point)
    count = most(ACCOUNTING[point["accounting"]], len(table))
    source = open_source(table.table, work.schema)
    zero = np.concatenate([part.counts(source).dense() / len(table) for part in work])
    # A budget wide enough for the certificate's share as well: what is compared here is the play.
    result = played(table, work, fixed(count, SAMPLES, STEP), Fraction(2), point.seed)
    return [
        {
            **result,
            "rounds": count,
            "average_of_zero": float(zero.mean()),
            "max_of_zero": float(zero.max()),
        }
    ]


def small_steps(point: Point) -> list[Line]:
    table, work = asked(point)
    step, count, samples = point["eta"], point["T"], point["s"]
    ways = {
        "dualquery": fixed(count, samples, step),
        "dqrs": DQRS(rounds=count, samples=samples, step=step),
    }
    return [played(table, work, ways[point.mechanism], Fraction(4), point.seed)]


def kdd(point: Point) -> list[Line]:
    table, work = asked(point)
    result = played(table, work, DualQuery(), exact(point.epsilon), point.seed)
    return [{**result, "microseconds_a_query": 1e6 * float(result["wall"] or 0) / work.size}]


SUITE = Suite(
    grids=[
        Grid(
            measure=rounds,
            part="rounds",
            data=["adult"],
            seeds=3,
            settings=[{"queries": QUERIES, "accounting": name} for name in ACCOUNTING],
        ),
        Grid(
            measure=small_steps,
            part="dqrs",
            data=["adult"],
            mechanism=["dualquery", "dqrs"],
            seeds=3,
            settings=[{"queries": 20_000, "eta": eta, "T": t, "s": s} for eta, t, s in SMALL_STEPS],
        ),
        Grid(
            measure=kdd,
            part="kdd",
            data=["kdd99"],
            mechanism=["dualquery"],
            epsilon=[1.0],
            settings=[{"queries": queries} for queries in KDD_QUERIES],
        ),
    ],
    views=[
        View(
            title=(
                f"ADULT, {QUERIES:,} conjunctions, eta 2, s 1,000: rounds at epsilon 1, delta 0.001"
            ),
            part="rounds",
            by=("accounting", "rounds"),
            shows={
                "average": ".5f",
                "max": ".4f",
                "average_of_zero": ".5f",
                "max_of_zero": ".4f",
                "cpu": ".0f",
            },
        ),
        View(
            title="ADULT, 20,000 conjunctions, delta 0.001",
            part="dqrs",
            by=("eta", "T", "s", "mechanism"),
            shows={"costs_epsilon": ".4f", "average": ".5f", "max": ".4f"},
        ),
        View(
            title="KDD99, epsilon 1, delta 0.001",
            part="kdd",
            by=("queries", "rounds", "samples"),
            shows={"average": ".5f", "max": ".4f", "wall": ".0f", "microseconds_a_query": ".0f"},
        ),
    ],
)
