"""Largest, mean and total-variation error of released rows on ADULT, by the shared measuring stick.

    python -m bench.accuracy [RUNS]

Uses the comparison data beside the checkout (never committed); says so and stops when it is not there.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us

SHARED = Path(__file__).resolve().parents[2] / "shared"
SIX = ["marital-status", "relationship", "race", "sex", "education-num", "income>50K"]


def measuring_stick() -> ModuleType:
    """The module that every comparison uses to pick workloads and measure errors."""
    if not (SHARED / "workload.py").exists():
        sys.exit("The comparison data is not beside this checkout; nothing to measure.")
    spec = importlib.util.spec_from_file_location("workload", SHARED / "workload.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    stick = measuring_stick()
    frame, domain = stick.coded("adult")
    table = Table(
        "table", "workload", "mechanism", "epsilon", "max", "mean", "tv", "alpha", "CPU s", title=f"ADULT, delta 1/n^2, mean of {runs} runs"
    )
    cases = [
        ("14 columns", list(domain), 3, 64, "independent"),
        ("6 columns", SIX, 3, 10**6, "independent"),
        ("6 columns", SIX, 3, 10**6, "mwem"),
    ]
    for name, columns, k, size, mechanism in cases:
        chosen = {c: domain[c] for c in columns}
        schema = us.Schema.from_domain(chosen)
        work = stick.workload(chosen, k, size, 0)
        for epsilon in (0.1, 1):
            found = []
            for _ in range(runs):
                start = time.process_time()
                made = us.release(
                    frame[columns], schema=schema, workload=us.explicit(schema, columns=work), epsilon=epsilon, mechanism=mechanism
                )
                cpu = time.process_time() - start
                errors = stick.errors(frame[columns], made.synthetic.to_pandas(), chosen, work)
                found.append([errors["max"], errors["mean"], errors["tv"], made.certificate.alpha, cpu])
            top, mean, tv, alpha, cpu = np.mean(found, axis=0)
            table.add_row(
                name,
                f"{len(work)} {k}-way",
                mechanism,
                str(epsilon),
                f"{top:.4f}",
                f"{mean:.2e}",
                f"{tv:.4f}",
                f"{alpha:.4f}",
                f"{cpu:.2f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
