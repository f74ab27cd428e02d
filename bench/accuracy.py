"""Largest, mean and total-variation error of released rows, by the shared measuring stick.

    python -m bench.accuracy [--runs 5] [--only NAME ...] [--epsilon 0.1 1] [--mechanism auto]

Uses the comparison data beside the checkout (never committed); says so and stops when it is not there. How far
the constants of the mechanisms have seen what is measured here is said in docs/arp.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us

SHARED = Path(__file__).resolve().parents[2] / "shared"
SIX = ["marital-status", "relationship", "race", "sex", "education-num", "income>50K"]
# name: (data, k, marginals, only those with at most n cells, neighbours)
CASES: dict[str, tuple[str, int, int, bool, str]] = {
    "paper": ("adult", 3, 64, True, "replace-one"),
    "3-way": ("adult", 3, 64, False, "replace-one"),
    "all-3-way": ("adult", 3, 364, False, "replace-one"),
    "5-way": ("adult", 5, 64, False, "replace-one"),
    "2-way": ("adult", 2, 91, False, "replace-one"),
    "loans-3-way": ("loans", 3, 64, True, "replace-one"),
    "loans-5-way": ("loans", 5, 64, True, "replace-one"),
    "3-way-add-remove": ("adult", 3, 64, False, "add-remove-one"),
    "2-way-add-remove": ("adult", 2, 91, False, "add-remove-one"),
    "six": ("adult", 3, 10**6, False, "replace-one"),
}


def measuring_stick() -> ModuleType:
    """The module that every comparison uses to pick workloads and measure errors."""
    if not (SHARED / "workload.py").exists():
        sys.exit("The comparison data is not beside this checkout; nothing to measure.")
    spec = importlib.util.spec_from_file_location("workload", SHARED / "workload.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(stick: ModuleType, case: str, epsilon: float, mechanism: str, runs: int) -> np.ndarray:
    """Mean over runs of (largest, mean, tv, alpha, CPU seconds)."""
    name, k, size, paper, neighbours = CASES[case]
    frame, domain = stick.coded(name)
    if case == "six":
        frame, domain = frame[SIX], {c: domain[c] for c in SIX}
    schema = us.Schema.from_domain(domain)
    work = stick.paper_workload(frame, domain, k, size, 0) if paper else stick.workload(domain, k, size, 0)
    settings: dict[str, Any] = {"workload": us.explicit(schema, columns=work), "neighbours": neighbours, "delta": f"1/{len(frame) ** 2}"}
    found = []
    for _ in range(runs):
        start = time.process_time()
        made = us.release(frame, schema=schema, epsilon=epsilon, mechanism=mechanism, **settings)
        cpu = time.process_time() - start
        errors = stick.errors(frame, made.synthetic.to_pandas(), domain, work)
        found.append([errors["max"], errors["mean"], errors["tv"], made.certificate.alpha, cpu])
    return np.mean(found, axis=0)


def peak() -> float:
    """Memory of this process at its highest so far, measuring included: only the first line of a run speaks for one release."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--mechanism", nargs="+", default=["auto"])
    asked = parser.parse_args()
    stick, console = measuring_stick(), Console(width=140)
    title = f"delta 1/n^2, mean of {asked.runs} runs"
    table = Table("workload", "mechanism", "epsilon", "max", "mean", "tv", "alpha", "CPU s", "peak GB", title=title)
    measure(stick, "six", 1.0, "arp", 1)  # compiles
    for case in asked.only:
        for mechanism in asked.mechanism:
            for epsilon in asked.epsilon:
                top, mean, tv, alpha, cpu = measure(stick, case, epsilon, mechanism, asked.runs)
                row = f"{top:.4f}", f"{mean:.2e}", f"{tv:.4f}", f"{alpha:.4f}", f"{cpu:.1f}", f"{peak():.2f}"
                table.add_row(case, mechanism, str(epsilon), *row)
                console.print(case, mechanism, epsilon, *row, style="dim")  # long runs are watched
    console.print(table)


if __name__ == "__main__":
    main()
