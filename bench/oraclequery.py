"""OracleQuery on all 2^d conjunctions of d columns, which are few enough here to enumerate.

    python -m bench.oraclequery [--columns 10 14 18] [--rows 50000 1000000] [--runs 1]

Invented rows of 0 and 1 by a public seed: a mixture of a few product distributions, and some columns that imply others. Epsilon 1, delta
1/n^2. What is reported is the largest error of the released rows, as a share, over ALL conjunctions and over those of at most three
literals. oraclequery chooses among all conjunctions, by the exponential mechanism or by optima under noise (rspm); fem among the cells of
all 3-way marginals; independent and fair coins know of no dependence at all.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.playing import play_at
from understudy.mechanisms.base import Mechanism
from understudy.mechanisms.fem import Fem
from understudy.mechanisms.independent import Independent
from understudy.mechanisms.oraclequery import OracleQuery
from understudy.queries.lattice import AllConjunctions
from understudy.sources import open_source
from understudy.tally import CodedRows

PUBLIC_SEED = 7
GROUPS = 5
SHORT = 3
WAYS: dict[str, tuple[Mechanism, str]] = {
    "oraclequery": (OracleQuery(), "all-conjunctions"),
    "oraclequery, rspm": (OracleQuery(learner="rspm"), "all-conjunctions"),
    "fem, 3-way": (Fem(), "3-way"),
    "independent": (Independent(), "1-way"),
}


def invented(columns: int, rows: int) -> np.ndarray:
    """A few groups of people, each with a frequency of its own for every column; then every fourth time, one column implies another."""
    rng = np.random.default_rng(PUBLIC_SEED)
    sizes, frequencies = rng.dirichlet(np.full(GROUPS, 2.0)), rng.beta(0.7, 0.9, (GROUPS, columns))
    implications = [rng.choice(columns, 2, replace=False) for _ in range(columns // 4)]
    group = rng.choice(GROUPS, rows, p=sizes)
    table: np.ndarray = (rng.random((rows, columns)) < frequencies[group]).astype(np.int32)
    for cause, effect in implications:
        table[:, effect] |= table[:, cause]
    return table


def released(name: str, table: np.ndarray, schema: us.Schema, seed: int) -> np.ndarray:
    """As many rows as the table has, by a mechanism or by fair coins."""
    rows, rng = len(table), np.random.default_rng(seed)
    if name not in WAYS:
        return rng.integers(0, 2, table.shape).astype(np.int32)
    mechanism, work = WAYS[name]
    budget = us.Budget.of(epsilon=1, delta=Fraction(1, rows**2))
    played, _ = play_at(open_source(table, schema), us.Workload.parse(work, schema), mechanism, budget, rows, seed)
    return played.model.rows(rows, rng)


def errors(table: np.ndarray, made: np.ndarray, every: AllConjunctions, shape: tuple[int, ...]) -> tuple[float, float]:
    """The largest over all conjunctions, and over the short ones."""
    exact, answered = (every.counts(CodedRows(rows, shape)).dense() / len(rows) for rows in (table, made))
    gaps = np.abs(exact - answered)
    return float(gaps.max()), float(gaps[np.bitwise_count(np.arange(every.size)) <= SHORT].max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="+", default=[10, 14, 18])
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=1)
    asked = parser.parse_args()
    console = Console(width=140)
    shown = Table("d", "n", "mechanism", "all conjunctions", f"at most {SHORT} literals", "CPU s")
    shown.title = f"largest error of the released rows, epsilon 1, delta 1/n^2, mean of {asked.runs}"
    for columns in asked.columns:
        for rows in asked.rows:
            table, schema = invented(columns, rows), us.Schema.from_domain({f"c{i}": 2 for i in range(columns)})
            every = AllConjunctions.of(schema, schema.names)
            for name in (*WAYS, "fair coins"):
                start = time.process_time()
                made = [released(name, table, schema, seed) for seed in range(asked.runs)]
                seconds = (time.process_time() - start) / asked.runs
                found = np.mean([errors(table, rows_made, every, schema.shape) for rows_made in made], axis=0)
                line = str(columns), f"{rows:,}", name, f"{found[0]:.4f}", f"{found[1]:.4f}", f"{seconds:.1f}"
                shown.add_row(*line)
                console.print(*line, style="dim")
    console.print(shown)


if __name__ == "__main__":
    main()
