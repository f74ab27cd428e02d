"""Which record is best: every oracle on the same instances in one run, CPU milliseconds a solve.

    python -m bench.oracles [--perturbations 32] [--outside 2] [--wall 30] [--only NAME ...]

ADULT instances: cells of random rows in 64 random marginals, half of them negated, and a linear term of -Exp(1) on every
one-hot coordinate. Binary ones: random 3-way conjunctions, as sampled queries are. CPU is that of this process and its
children. Other people's solvers get the first few perturbations only, or an afternoon would not do. The share is of
solves whose record is the best that any oracle found; a star says that all were proved.
Uses the comparison data beside the checkout; says so and stops when it is not there.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.accuracy import measuring_stick
from understudy.errors import NotSupported
from understudy.oracles.base import Ended, FlatQueries, Found, Instance, Oracle, Variants
from understudy.oracles.cpsat import Cpsat
from understudy.oracles.exact import Exact
from understudy.oracles.gurobi import Gurobi
from understudy.oracles.milp import Milp
from understudy.oracles.search import Search

OUTSIDE = {"milp": Milp, "cpsat": Cpsat, "gurobi": Gurobi}
BINARY = [(1000, 5000), (5000, 17_770), (50_000, 100_000), (5000, 235), (50_000, 1_000_000)]  # clauses, attributes


def adult(count: int) -> Iterator[tuple[str, Instance, Variants]]:
    stick = measuring_stick()
    frame, domain = stick.coded("adult")
    rows, names = frame.to_numpy(), list(domain)
    for k in (3, 5):
        marginals = np.array([[names.index(c) for c in some] for some in stick.workload(domain, k, 64, 0)])
        for queries in (1000, 4000):
            rng = np.random.default_rng(0)
            columns = marginals[rng.integers(0, 64, queries)]
            cells = FlatQueries.conjunctions(columns, rows[rng.integers(0, len(rows), queries)[:, None], columns])
            instance = Instance.of([domain[c] for c in names], cells, rng.choice([-1.0, 1.0], queries))
            yield f"adult {k}-way {queries:,}", instance, Variants(linear=-rng.exponential(size=(count, int(instance.shape.sum()))))


def binary() -> Iterator[tuple[str, Instance, Variants]]:
    for clauses, attributes in BINARY:
        rng = np.random.default_rng(0)
        columns = np.sort(rng.integers(0, attributes, (2 * clauses, 3)), axis=1)
        columns = columns[np.all(np.diff(columns, axis=1) > 0, axis=1)][:clauses]
        cells = FlatQueries.conjunctions(columns, rng.integers(0, 2, columns.shape))
        yield f"binary {clauses:,} over {attributes:,}", Instance.of(np.full(attributes, 2), cells), Variants()


def cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(oracle: Oracle, instance: Instance, variants: Variants) -> tuple[float, list[Found]]:
    start = cpu_seconds()
    found = oracle.solve_many(instance, variants, 1)
    return (cpu_seconds() - start) * 1000 / len(variants), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--perturbations", type=int, default=32)
    parser.add_argument("--outside", type=int, default=2)
    parser.add_argument("--wall", type=float, default=30.0)
    parser.add_argument("--only", nargs="+", choices=["search", "search 20x20", "exact", *OUTSIDE])
    asked = parser.parse_args()
    oracles: dict[str, Oracle] = {"search": Search(), "search 20x20": Search(restarts=20, kicks=20), "exact": Exact()}
    console = Console(width=150)
    for name, kind in OUTSIDE.items():
        try:
            oracles[name] = kind(wall=asked.wall)
        except NotSupported as missing:
            console.print(missing, style="dim")
    oracles = {name: oracle for name, oracle in oracles.items() if not asked.only or name in asked.only}
    warm = Instance.of([2, 2], FlatQueries.conjunctions(np.array([[0, 1]]), np.array([[1, 1]])))
    for name in ("search", "exact"):  # compiles
        if name in oracles:
            oracles[name].solve(warm, 0)
    table = Table("instance", "oracle", "CPU ms", "x faster than slowest", "best found", "proved", "failed", title="best record")
    for name, instance, variants in [*adult(asked.perturbations), *binary()]:
        # Branch and bound is for few columns; on wide tables it would only reach its limit.
        usable = {key: one for key, one in oracles.items() if key != "exact" or len(instance.shape) < 100}
        few = Variants(linear=None if variants.linear is None else variants.linear[: asked.outside])
        results = {key: measure(one, instance, few if key in OUTSIDE else variants) for key, one in usable.items()}
        best = np.full(len(variants), -np.inf)
        for _, found in results.values():
            best[: len(found)] = np.maximum(best[: len(found)], [one.value for one in found])
        slowest = max(ms for ms, _ in results.values())
        for key, (ms, found) in results.items():
            right = np.mean([one.value > top - 1e-6 * (1 + abs(top)) for one, top in zip(found, best, strict=False)])
            proved, failed = np.mean([one.proved for one in found]), sum(one.ended is Ended.FAILED for one in found)
            row = f"{ms:,.1f}{'*' if proved == 1 else ''}", f"{slowest / ms:,.0f}x", f"{right:.0%}", f"{proved:.0%}", str(failed)
            table.add_row(name, key, *row)
            console.print(name, key, *row, style="dim")  # long runs are watched
    console.print(table)


if __name__ == "__main__":
    main()
