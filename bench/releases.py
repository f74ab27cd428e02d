"""The plain measurement: one release of one table, clocked, and measured by the sticks."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import understudy as us
from bench import sticks
from bench.clock import Spent, clock
from bench.coded import Coded
from bench.grid import Line, Point
from bench.tables import invented, load


def mechanism_of(text: str) -> tuple[str, dict[str, Any]]:
    """``rap rounds=5 queries_per_round=10`` as a name and its parameters."""
    name, *parameters = text.split()
    pairs = (one.split("=", 1) for one in parameters)
    return name, {key: json.loads(value) for key, value in pairs}


def exact(epsilon: float | None) -> Fraction:
    """The number that was written, 0.1 being a tenth."""
    return Fraction(str(epsilon))


def warm_up(mechanism: str = "auto") -> None:
    """A small release, so that compiled code is loaded before a clock starts; by arp for what
    chooses.
    """
    small, (name, _) = invented(1_000, [2, 3, 5, 8], 0), mechanism_of(mechanism)
    chosen = "arp" if name == "auto" else name
    us.release(
        small.table, schema=small.schema, epsilon=1, mechanism=chosen, workload="2-way", rows=500
    )


def release(point: Point, table: Coded, work: us.Workload, **more: Any) -> tuple[us.Release, Spent]:
    """As the point says; the seed is for public randomness, noise has none."""
    name, parameters = mechanism_of(point.mechanism)
    parameters |= more.pop("parameters", {})
    relation, delta = point.relation or "replace-one", Fraction(1, len(table) ** 2)
    with clock() as spent:
        result = us.release(
            table.table,
            schema=table.schema,
            workload=work,
            epsilon=exact(point.epsilon),
            delta=delta,
            mechanism=name,
            parameters=parameters or None,
            neighbours=relation,
            seed=point.seed,
            **more,
        )
    return result, spent


def facts(result: us.Release) -> Line:
    """What a release says of itself."""
    return {
        "chosen": result.manifest["mechanism"]["name"],
        "alpha": float(result.certificate.alpha),
    }


Stick = Callable[[Coded, Coded, Point], Line]


def by_cells(real: Coded, synthetic: Coded, point: Point) -> Line:
    return sticks.cells(real, synthetic, sticks.marginals(real, point.workload))


def by_structure(real: Coded, synthetic: Coded, point: Point) -> Line:
    return sticks.structure(real, synthetic, real.ordered)


def released(*rods: Stick) -> Callable[[Point], list[Line]]:
    """The measure of a grid of releases, by these sticks."""

    def measure(point: Point) -> list[Line]:
        warm_up(point.mechanism)
        table = load(point.data)
        work = us.explicit(table.schema, columns=sticks.marginals(table, point.workload))
        result, spent = release(point, table, work)
        rows = table.like(result.synthetic)
        line: Line = {**spent.line, **facts(result)}
        for rod in rods:
            line |= rod(table, rows, point)
        return [line]

    return measure


BY_CELLS = released(by_cells)  # the usual stick
BY_ALL_STICKS = released(by_cells, by_structure)  # slower: all pairs of columns


def answered(real: np.ndarray, synthetic: np.ndarray, work: us.Workload) -> Line:
    """Largest and mean error of any queries, by counting them in the rows of both."""
    from understudy.counting.tally import CodedRows

    tables = [CodedRows(rows.astype(np.int32), work.schema.shape) for rows in (real, synthetic)]
    gaps = []
    for part in work:
        true, estimate = (
            part.counts(table).dense() / len(rows)
            for table, rows in zip(tables, (real, synthetic), strict=True)
        )
        gaps.append(np.abs(true - estimate))
    total = sum(float(one.sum()) for one in gaps)
    return {
        "max": max(float(one.max()) for one in gaps),
        "mean": total / work.size,
        "queries": work.size,
    }
