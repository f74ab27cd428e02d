"""What a model learns from released rows: trained on them, judged on real rows held back.

Four fifths of each table are released, all pairs of columns, and the rest judges. Tables: ADULT in
codes and with its values, diabetes (whether a patient comes back), KDD99 (whether a connection
attacks), and invented ones: the parity of some of twelve bits, with one label in twenty flipped.
``auto label`` is told which column will be predicted.
"""

from __future__ import annotations

from bench import sticks
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import exact, facts, warm_up

LEARNERS = {"trees": ".4f", "logistic": ".4f", "accuracy": ".4f"}
MANY = 160_000  # rows, four times as many as ADULT has here


def real(point: Point) -> list[Line]:
    """The same learners on the real rows."""
    from bench import models

    task = models.task(point.data, point.seed)
    return [dict(models.scores(task.train.table, task))]


def released(point: Point) -> list[Line]:
    """A release of the rows to train on, and the error of its tables."""
    import understudy as us
    from bench import models
    from bench.clock import clock

    warm_up()
    task = models.task(point.data, point.seed)
    pairs, n = sticks.marginals(task.train, "2-way"), len(task.train)
    name, *words = point.mechanism.split()
    with clock() as spent:
        result = us.release(
            task.train.table,
            schema=task.train.schema,
            workload=us.explicit(task.train.schema, columns=pairs),
            epsilon=exact(point.epsilon),
            delta=exact(1) / n**2,
            mechanism=name,
            label=task.label if "label" in words else None,
            parameters={"high_order": 0} if "pairs-only" in words else None,
            rows=point["rows"] or None,
            seed=point.seed,
        )
    errors = sticks.cells(task.train, task.train.like(result.synthetic), pairs)
    learnt = models.scores(result.synthetic, task)
    return [{**spent.line, **facts(result), **errors, **learnt}]


TABLES = ["adult", "adult-values", "diabetes", "kdd99-attack"]
PARITIES = [f"parity-{k}" for k in range(2, 8)] + ["parity-4-correlated"]
SUITE = Suite(
    grids=[
        Grid(measure=real, part="real", data=[*TABLES, *PARITIES]),
        Grid(
            measure=released,
            part="released",
            data=TABLES,
            mechanism=["arp pairs-only", "auto", "auto label", "independent"],
            epsilon=[1.0],
            settings=[{"rows": 0}, {"rows": MANY}],
            seeds=3,
        ),
        Grid(
            measure=released,
            part="parities",
            data=PARITIES,
            mechanism=["arp pairs-only", "auto", "auto label"],
            epsilon=[1.0],
            settings=[{"rows": 0}],
            seeds=3,
        ),
    ],
    views=[
        View(title="Real rows", part="real", by=("data",), shows=LEARNERS),
        View(
            title="Released rows at epsilon 1; AUC on real rows that nobody released",
            part="released",
            by=("data", "rows", "mechanism"),
            shows={**LEARNERS, "max": ".4f", "tv": ".4f"},
            ratio="mechanism",
        ),
        View(
            title="The parity of some of twelve bits; the best accuracy is 0.95",
            part="parities",
            by=("data", "mechanism"),
            shows={**LEARNERS, "max": ".5f", "tv": ".5f"},
            ratio="mechanism",
        ),
    ],
)
