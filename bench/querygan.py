"""Generator networks beside fem and rap on ADULT, a table of 96 columns, and how often the certificate holds.

    OPENBLAS_NUM_THREADS=1 python -m bench.querygan [--only adult wide coverage] [--runs 1] [--epsilon 0.1 0.5 1]
        [--mechanism querygan generator gan-gradients-experimental gan-logistic-experimental fem rap]

adult     64 random 3-way marginals, seed 0, delta 1/n^2: largest and mean error of the released rows, CPU seconds. The constants of
          networks were set on the workload of seed 1.
wide      LOANS twice over: every column and a copy of it under another name, 64 3-way marginals. mwem refuses it; time, memory, errors.
coverage  a small invented table, 200 releases by each of the networks: how often the largest error is at most the certificate's alpha.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.accuracy import measuring_stick
from understudy.checks import SMALL, small_table
from understudy.tally import CodedRows

EPSILONS = (0.1, 0.5, 1)
MECHANISMS = ("querygan", "generator", "gan-gradients-experimental", "gan-logistic-experimental", "fem", "rap")
QUICK: dict[str, dict[str, Any]] = {
    "querygan": {"rounds": 20, "steps": 5},
    "generator": {"steps": 20},
    "gan-gradients-experimental": {"steps": 5},
    "gan-logistic-experimental": {"steps": 5},
}  # coverage does not depend on how well they are fitted
RELEASES = 200


def released(frame: Any, work: us.Workload, epsilon: float, mechanism: str, **more: Any) -> list[float]:
    """Largest and mean error of its rows, the certificate, CPU seconds, seconds."""
    cpu, clock = time.process_time(), time.monotonic()
    made = us.release(frame, schema=work.schema, workload=work, epsilon=epsilon, mechanism=mechanism, **more)
    cpu, clock = time.process_time() - cpu, time.monotonic() - clock
    truth = CodedRows(np.asarray(frame, np.int32), work.schema.shape)
    rows = CodedRows(made.codes, work.schema.shape)
    gaps = [np.abs(part.counts(truth).dense() / len(frame) - part.counts(rows).dense() / len(made.codes)) for part in work]
    mean = sum(float(gap.sum()) for gap in gaps) / work.size
    return [max(float(gap.max()) for gap in gaps), mean, made.certificate.alpha, cpu, clock]


def twice(frame: pd.DataFrame, domain: dict[str, int]) -> tuple[pd.DataFrame, dict[str, int]]:
    """Every column, and a copy of it under another name."""
    copy = frame.rename(columns=lambda name: f"{name} again")
    return pd.concat([frame, copy], axis=1), domain | {f"{name} again": size for name, size in domain.items()}


def compare(console: Console, title: str, frame: pd.DataFrame, work: us.Workload, mechanisms: list[str], asked: argparse.Namespace) -> None:
    table = Table(
        "mechanism", "epsilon", "max", "mean", "alpha", "CPU s", "s", "peak GB", title=f"{title}, delta 1/n^2, mean of {asked.runs} runs"
    )
    for mechanism in mechanisms:
        for epsilon in asked.epsilon:
            found = np.mean([released(frame, work, epsilon, mechanism) for _ in range(asked.runs)], axis=0)
            top, mean, alpha, cpu, clock = found
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # of the process so far
            row = f"{top:.4f}", f"{mean:.2e}", f"{alpha:.4f}", f"{cpu:.1f}", f"{clock:.1f}", f"{peak:.2f}"
            console.print(mechanism, epsilon, *row, style="dim")  # long runs are watched
            table.add_row(mechanism, str(epsilon), *row)
    console.print(table)


def coverage(console: Console, mechanism: str) -> None:
    frame, work = small_table(), us.marginals(SMALL, k=2)
    found = [released(frame, work, 1, mechanism, parameters=QUICK[mechanism]) for _ in range(RELEASES)]
    held = sum(top <= alpha for top, _, alpha, *_ in found)
    console.print(f"{mechanism}: the certificate held in {held} of {RELEASES} releases, {sum(one[3] for one in found):.0f} CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("adult", "wide", "coverage"), default=["adult", "wide", "coverage"])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--mechanism", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    asked = parser.parse_args()
    stick, console = measuring_stick(), Console(width=140)
    if "wide" in asked.only:  # first, because memory is that of the whole process
        frame, domain = twice(*stick.coded("loans"))
        schema = us.Schema.from_domain(domain)
        work = us.explicit(schema, columns=stick.workload(domain, 3, 64, 0))
        try:
            released(frame, work, 1, "mwem")
        except us.NotSupported as refusal:
            console.print(f"mwem: {refusal}")
        compare(console, f"LOANS twice over, {len(domain)} columns, {work.size:,} cells", frame, work, ["generator"], asked)
    if "adult" in asked.only:
        frame, domain = stick.coded("adult")
        work = us.explicit(us.Schema.from_domain(domain), columns=stick.workload(domain, 3, 64, 0))
        compare(console, f"ADULT, 64 3-way, {work.size:,} cells", frame, work, asked.mechanism, asked)
    if "coverage" in asked.only:
        for mechanism in QUICK:
            coverage(console, mechanism)


if __name__ == "__main__":
    main()
