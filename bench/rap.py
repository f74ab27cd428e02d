"""RAP on ADULT, 64 3-way marginals: the public rule beside a grid of (K, T) as in the paper; projection; 1-of-3 thresholds.

    OPENBLAS_NUM_THREADS=1 python -m bench.rap [RUNS]

One BLAS thread, because idle ones count as CPU seconds on a busy machine. The grid is for looking at, never for choosing:
picking its best row by the true error, as the papers do, is a disclosure. The constants of the public rule and of the fit were
set while looking at this very workload, so its figures flatter them a little.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.accuracy import measuring_stick
from understudy.mechanisms.base import make
from understudy.queries.symmetric import Literal, Symmetric, any_of
from understudy.tally import CodedRows

EPSILONS = (0.1, 0.5, 1)
GRID = ((5, 5), (10, 10), (5, 25), (25, 10), (50, 5))  # (K, T)
THRESHOLDS = 100  # random 1-of-3 thresholds for each marginal


def thresholds(schema: us.Schema, columns: list[tuple[str, ...]]) -> us.Workload:
    """At least one of three given values, the values by a public seed."""
    rng = np.random.default_rng(0)
    queries = []
    for names in columns:
        places = [schema.position(name) for name in names]
        queries.extend(any_of(*(Literal(p, int(rng.integers(schema.shape[p]))) for p in places)) for _ in range(THRESHOLDS))
    return us.Workload(schema, (Symmetric(tuple(dict.fromkeys(queries))),), "1-of-3")


def released(frame: Any, work: us.Workload, epsilon: float, mechanism: us.Mechanism) -> list[float]:
    """Largest and mean error of the rows, and CPU seconds."""
    schema, start = work.schema, time.process_time()
    made = us.release(frame, schema=schema, workload=work, epsilon=epsilon, mechanism=mechanism)
    cpu = time.process_time() - start
    tables = [CodedRows(rows.to_numpy(np.int32), schema.shape) for rows in (frame, made.synthetic.to_pandas())]
    gaps = []
    for part in work:
        exact, found = (part.counts(table).dense() / len(rows) for table, rows in zip(tables, (frame, made.codes), strict=True))
        gaps.append(np.abs(exact - found))
    return [float(max(gap.max() for gap in gaps)), sum(float(gap.sum()) for gap in gaps) / work.size, cpu]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    stick = measuring_stick()
    frame, domain = stick.coded("adult")
    schema = us.Schema.from_domain(domain)
    columns = stick.workload(domain, 3, 64, 0)
    cells = us.explicit(schema, columns=columns)
    table = Table("queries", "mechanism", "epsilon", "max", "mean", "CPU s", title=f"ADULT, 64 3-way, delta 1/n^2, mean of {runs} runs")
    makers: list[tuple[str, us.Workload, us.Mechanism]] = [("rap, public rule", cells, make("rap"))]
    makers += [(f"rap, K {k}, T {t}", cells, make("rap", {"queries_per_round": k, "rounds": t})) for k, t in GRID]
    ones = thresholds(schema, columns)
    makers += [("projection", cells, make("projection")), ("rap, public rule", ones, make("rap")), ("projection", ones, make("projection"))]
    for name, work, mechanism in makers:
        for epsilon in EPSILONS:
            top, mean, cpu = np.mean([released(frame, work, epsilon, mechanism) for _ in range(runs)], axis=0)
            table.add_row(f"{work.size:,}", name, str(epsilon), f"{top:.4f}", f"{mean:.2e}", f"{cpu:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
