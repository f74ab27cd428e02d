"""Which record is best: every oracle on the same instances, CPU milliseconds a solve.

ADULT instances: cells of random rows in 64 random marginals, half of them negated, and a linear
term of -Exp(1) on every one-hot coordinate. Binary ones: random 3-way conjunctions, as sampled
queries are. CPU is that of the process and its children. Other people's solvers get the first few
perturbations only, or an afternoon would not do. ``best`` is the share of solves whose record is
the best that any oracle found, ``proved`` of those that were proved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench import sticks
from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from bench.tables import load
from understudy.errors import NotSupported
from understudy.oracles.base import Ended, FlatQueries, Found, Instance, Oracle, Variants
from understudy.oracles.cpsat import Cpsat
from understudy.oracles.exact import Exact
from understudy.oracles.gurobi import Gurobi
from understudy.oracles.milp import Milp
from understudy.oracles.search import Search

# solvers of others, in processes of their own
OUTSIDE: dict[str, Callable[..., Oracle]] = {"milp": Milp, "cpsat": Cpsat, "gurobi": Gurobi}
# clauses, attributes
BINARY = [(1000, 5000), (5000, 17_770), (50_000, 100_000), (5000, 235), (50_000, 1_000_000)]
WIDE = 100  # columns from which on branch and bound would only reach its limit
# --set NAME=... for others
HOW = {"perturbations": 32, "outside": 2, "wall_limit": 30.0, "oracle": ""}


def adult(point: Point) -> tuple[Instance, Variants]:
    table, rng, queries = load(point.data), np.random.default_rng(0), point["queries"]
    names = list(table.domain)
    work = sticks.marginals(table, point.workload)
    marginals = np.array([[names.index(column) for column in some] for some in work])
    columns = marginals[rng.integers(0, 64, queries)]
    cells = FlatQueries.conjunctions(
        columns, table.codes[rng.integers(0, len(table), queries)[:, None], columns]
    )
    instance = Instance.of(list(table.domain.values()), cells, rng.choice([-1.0, 1.0], queries))
    linear = -rng.exponential(size=(point["perturbations"], int(instance.shape.sum())))
    return instance, Variants(linear=linear)


def binary(point: Point) -> tuple[Instance, Variants]:
    rng, clauses, attributes = np.random.default_rng(0), point["queries"], point["attributes"]
    columns = np.sort(rng.integers(0, attributes, (2 * clauses, 3)), axis=1)
    columns = columns[np.all(np.diff(columns, axis=1) > 0, axis=1)][:clauses]
    cells = FlatQueries.conjunctions(columns, rng.integers(0, 2, columns.shape))
    return Instance.of(np.full(attributes, 2), cells), Variants()


def usable(point: Point, instance: Instance) -> dict[str, Oracle]:
    """Those that are installed, and whose name holds what was asked for."""
    oracles: dict[str, Oracle] = {"search": Search(), "search 20x20": Search(restarts=20, kicks=20)}
    if len(instance.shape) < WIDE:
        oracles["exact"] = Exact()
    for name, kind in OUTSIDE.items():
        try:
            oracles[name] = kind(wall=point["wall_limit"])
        except NotSupported as missing:
            print(missing)
    warm = Instance.of([2, 2], FlatQueries.conjunctions(np.array([[0, 1]]), np.array([[1, 1]])))
    for name in {"search", "exact"} & oracles.keys():  # compiles
        oracles[name].solve(warm, 0)
    return {name: oracle for name, oracle in oracles.items() if point["oracle"] in name}


def compared(results: dict[str, tuple[float, list[Found]]], count: int) -> list[Line]:
    best = np.full(count, -np.inf)
    for _, solutions in results.values():
        best[: len(solutions)] = np.maximum(
            best[: len(solutions)], [one.value for one in solutions]
        )
    slowest, lines = max(ms for ms, _ in results.values()), list[Line]()
    for name, (ms, solutions) in results.items():
        right = [
            one.value > top - 1e-6 * (1 + abs(top))
            for one, top in zip(solutions, best, strict=False)
        ]
        shares: Line = {
            "best": float(np.mean(right)),
            "proved": float(np.mean([one.proved for one in solutions])),
        }
        failed = sum(one.ended is Ended.FAILED for one in solutions)
        cost: Line = {"mechanism": name, "cpu_ms": ms, "times_faster_than_slowest": slowest / ms}
        lines.append({**cost, **shares, "failed": failed, "cpu": ms * len(solutions) / 1000})
    return lines


def measure(point: Point) -> list[Line]:
    instance, variants = adult(point) if point.part == "adult" else binary(point)
    few = Variants(linear=None if variants.linear is None else variants.linear[: point["outside"]])
    results = {}
    for name, oracle in usable(point, instance).items():
        chosen = few if name in OUTSIDE else variants
        with clock() as spent:
            solutions = oracle.solve_many(instance, chosen, 1)
        results[name] = spent.cpu * 1000 / len(chosen), solutions
    return compared(results, len(variants))


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            part="adult",
            data=["adult"],
            workload=["3-way:64@0", "5-way:64@0"],
            settings=[{"queries": queries, **HOW} for queries in (1000, 4000)],
        ),
        Grid(
            measure=measure,
            part="binary",
            settings=[
                {"queries": clauses, "attributes": attributes, **HOW}
                for clauses, attributes in BINARY
            ],
        ),
    ],
    views=[
        View(
            title="best record",
            by=("part", "workload", "queries", "attributes", "mechanism"),
            shows={
                "cpu_ms": ",.1f",
                "times_faster_than_slowest": ",.0f",
                "best": ".0%",
                "proved": ".0%",
                "failed": ".0f",
            },
        )
    ],
)
