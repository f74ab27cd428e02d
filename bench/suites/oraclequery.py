"""OracleQuery on all 2^d conjunctions of d columns, which are few enough here to enumerate.

Invented rows of 0 and 1 by a public seed: a mixture of a few product distributions, and some
columns that imply others. What is reported is the largest error of the released rows, as a share,
over ALL conjunctions and over those of at most three literals. oraclequery chooses among all
conjunctions, by the exponential mechanism or by optima under noise (rspm); fem among the cells of
all 3-way marginals; independent and fair coins know of no dependence at all.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import understudy as us
from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from bench.playing import play_at
from bench.releases import exact, mechanism_of
from understudy.counting.tally import CodedRows
from understudy.mechanisms.base import make
from understudy.queries.lattice import AllConjunctions
from understudy.sources import open_source

PUBLIC_SEED, GROUPS, SHORT = 7, 5, 3  # groups of rows; literals of a short conjunction
# the queries that each chooses among
WORKLOADS = {"oraclequery": "all-conjunctions", "fem": "3-way", "independent": "1-way"}


def invented(columns: int, rows: int) -> np.ndarray:
    """A few groups of people with frequencies of their own; then some columns imply others."""
    rng = np.random.default_rng(PUBLIC_SEED)
    sizes, frequencies = rng.dirichlet(np.full(GROUPS, 2.0)), rng.beta(0.7, 0.9, (GROUPS, columns))
    implications = [rng.choice(columns, 2, replace=False) for _ in range(columns // 4)]
    group = rng.choice(GROUPS, rows, p=sizes)
    table: np.ndarray = (rng.random((rows, columns)) < frequencies[group]).astype(np.int32)
    for cause, effect in implications:
        table[:, effect] |= table[:, cause]
    return table


def released(point: Point, table: np.ndarray, schema: us.Schema) -> np.ndarray:
    """As many rows as the table has, by a mechanism or by fair coins."""
    rows, rng = len(table), np.random.default_rng(point.seed)
    if point.mechanism == "fair coins":
        return rng.integers(0, 2, table.shape).astype(np.int32)
    name, parameters = mechanism_of(point.mechanism)
    budget = us.Budget.of(epsilon=exact(point.epsilon), delta=Fraction(1, rows**2))
    work = us.Workload.parse(WORKLOADS[name], schema)
    played, _ = play_at(
        open_source(table, schema), work, make(name, parameters), budget, rows, point.seed
    )
    return played.model.rows(rows, rng)


def measure(point: Point) -> list[Line]:
    table = invented(point["columns"], point["rows"])
    schema = us.Schema.from_domain({f"c{i}": 2 for i in range(point["columns"])})
    every = AllConjunctions.of(schema, schema.names)
    released(point, table[:100], schema)  # compiles
    with clock() as spent:
        synthetic = released(point, table, schema)
    true, estimate = (
        every.counts(CodedRows(rows, schema.shape)).dense() / len(rows)
        for rows in (table, synthetic)
    )
    gaps = np.abs(true - estimate)
    short = gaps[np.bitwise_count(np.arange(every.size)) <= SHORT]
    return [{**spent.line, "max": float(gaps.max()), "max_of_short": float(short.max())}]


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            mechanism=[
                "oraclequery",
                'oraclequery learner="rspm"',
                "fem",
                "independent",
                "fair coins",
            ],
            epsilon=[1.0],
            settings=[{"columns": d, "rows": n} for d in (10, 14, 18) for n in (50_000, 1_000_000)],
        )
    ],
    views=[
        View(
            title=(
                f"largest error over all conjunctions, and over those of at most {SHORT} literals"
            ),
            by=("columns", "rows", "epsilon", "mechanism"),
            shows={"max": ".4f", "max_of_short": ".4f"},
            ratio="mechanism",
        )
    ],
)
