"""DualQuery as its paper measured it, and what better accounting buys; DQRS* beside it.

    python -m bench.dualquery [--only rounds kdd dqrs] [--runs 3]

rounds  ADULT, 500,000 random 3-way conjunctions over column = value, delta 0.001, eta 2, s 1,000: the rounds that the paper's Theorem 4.3
        allows at epsilon 1 and those that correct accounting allows, with the errors of both.
kdd     KDD99 (494,021 rows), 40,000 to 2,000,000 conjunctions, epsilon 1, the public rule: seconds and memory, a process for each.
dqrs    ADULT: equal rounds, samples and step for dualquery and dqrs; the epsilon that each costs at delta 0.001, and the errors.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.accuracy import measuring_stick
from bench.playing import play_at
from bench.unseen import kdd
from understudy.mechanisms.base import Mechanism
from understudy.mechanisms.dqrs import DQRS
from understudy.mechanisms.dualquery import DualQuery, squares
from understudy.privacy.budget import rho_for
from understudy.sources import open_source

DELTA = Fraction(1, 1000)
STEP, SAMPLES, QUERIES = 2, 1000, 500_000
KDD_QUERIES = (40_000, 200_000, 500_000, 1_000_000, 2_000_000)
SMALL_STEPS = ((0.05, 200, 100), (0.1, 200, 100), (0.25, 100, 100), (0.5, 60, 100), (2.0, 30, 100))  # eta, T, s


def theorem_4_3(rounds: int, rows: int) -> float:
    """Epsilon by the paper's theorem: advanced composition of s(T - 1) draws, each as costly as the last."""
    each, draws = 2 * STEP * (rounds - 1) / rows, SAMPLES * (rounds - 1)
    return math.sqrt(2 * draws * math.log(1 / DELTA)) * each + draws * each * math.expm1(each)


def most(fits: Callable[[int], bool]) -> int:
    """The largest number of rounds that fits."""
    rounds = 1
    while fits(rounds + 1):
        rounds += 1
    return rounds


def errors(frame: pd.DataFrame, domain: dict[str, int], work: us.Workload, mechanism: Mechanism, epsilon: Any, seed: int) -> dict[str, Any]:
    """One play against the truth."""
    schema = work.schema
    source = open_source(frame, schema)
    budget = us.Budget.of(epsilon=epsilon, delta=DELTA)
    start = time.process_time()
    played, cost = play_at(source, work, mechanism, budget, len(frame), seed)
    seconds = time.process_time() - start
    gaps = np.concatenate([np.abs(played.model.shares(part) - part.counts(source).dense() / len(frame)) for part in work])
    return {"average": float(gaps.mean()), "largest": float(gaps.max()), "cost": cost, "seconds": seconds, **dict(played.facts)}


def adult(queries: int, seed: int = 0) -> tuple[pd.DataFrame, dict[str, int], us.Workload]:
    frame, domain = measuring_stick().coded("adult")
    return frame, domain, us.random_conjunctions(us.Schema.from_domain(domain), queries, seed=seed)


def rounds(console: Console, runs: int) -> None:
    frame, domain, work = adult(QUERIES)
    n = len(frame)
    printed = most(lambda t: theorem_4_3(t, n) <= 1)
    correct = most(lambda t: Fraction(SAMPLES * STEP**2 * squares(t), 2 * n**2) <= rho_for(Fraction(1), DELTA))
    table = Table(
        "accounting", "T at epsilon 1", "average", "largest", "CPU s", title=f"ADULT, {QUERIES:,} conjunctions, eta 2, s 1,000, {runs} runs"
    )
    for name, count in (("Theorem 4.3", printed), ("ours", correct)):
        # A budget wide enough for the certificate's share as well: what is compared here is the play.
        found = [errors(frame, domain, work, _fixed(count, SAMPLES, STEP), 2, seed) for seed in range(runs)]
        means = [np.mean([f[key] for f in found]) for key in ("average", "largest", "seconds")]
        table.add_row(name, str(count), f"{means[0]:.5f}", f"{means[1]:.4f}", f"{means[2]:.0f}")
    console.print(table, f"{correct / printed:.2f} times as many rounds")
    zero = np.concatenate([part.counts(open_source(frame, work.schema)).dense() / n for part in work])
    console.print(f"answering 0 to everything: average {zero.mean():.5f}, largest {zero.max():.4f}")


def _fixed(count: int, samples: int, step: float) -> DualQuery:
    """DualQuery with all three numbers given, whatever they cost."""

    class Fixed(DualQuery):
        def _plan(self, rho: Fraction, rows: int, brief: Any) -> tuple[int, int, Fraction]:
            return count, samples, samples * Fraction(step) ** 2 / (2 * rows**2)

    return Fixed()


def small_steps(console: Console, runs: int) -> None:
    frame, domain, work = adult(20_000)
    table = Table(
        "eta", "T", "s", "mechanism", "epsilon", "average", "largest", title=f"ADULT, 20,000 conjunctions, delta 0.001, {runs} runs"
    )
    for step, count, samples in SMALL_STEPS:
        ways: dict[str, Mechanism] = {"dualquery": _fixed(count, samples, step), "dqrs": DQRS(rounds=count, samples=samples, step=step)}
        for name, mechanism in ways.items():
            found = [errors(frame, domain, work, mechanism, 4, seed) for seed in range(runs)]
            epsilon = float(found[0]["cost"].epsilon_at(DELTA))
            means = [np.mean([f[key] for f in found]) for key in ("average", "largest")]
            table.add_row(str(step), str(count), str(samples), name, f"{epsilon:.4f}", f"{means[0]:.5f}", f"{means[1]:.4f}")
    console.print(table)


def kdd_child(queries: int) -> dict[str, Any]:
    frame, domain = kdd(everybody=True)
    work = us.random_conjunctions(us.Schema.from_domain(domain), queries, seed=0)
    start = time.perf_counter()
    made = errors(frame, domain, work, DualQuery(), 1, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {key: made[key] for key in ("rounds", "samples", "average", "largest")} | {"wall": time.perf_counter() - start, "peak": peak}


def kdd_table(console: Console) -> None:
    table = Table(
        "queries", "T", "s", "average", "largest", "seconds", "microseconds a query", "peak GB", title="KDD99, epsilon 1, delta 0.001"
    )
    for queries in KDD_QUERIES:
        command = [sys.executable, "-m", "bench.dualquery", "--child", str(queries)]
        made = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        shown = f"{made['average']:.5f}", f"{made['largest']:.4f}", f"{made['wall']:.0f}", f"{1e6 * made['wall'] / queries:.0f}"
        table.add_row(f"{queries:,}", str(made["rounds"]), str(made["samples"]), *shown, f"{made['peak']:.2f}")
        console.print(queries, *shown, style="dim")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("rounds", "kdd", "dqrs"), default=["rounds", "kdd", "dqrs"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        print(json.dumps(kdd_child(asked.child)))
        return
    console = Console(width=140)
    if "rounds" in asked.only:
        rounds(console, asked.runs)
    if "dqrs" in asked.only:
        small_steps(console, asked.runs)
    if "kdd" in asked.only:
        kdd_table(console)


if __name__ == "__main__":
    main()
