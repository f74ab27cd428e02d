"""How time and memory of a release grow with rows, cells and columns, on invented tables.

A mechanism that fits rows may have a parameter for how many; ``--set fitted=NAME`` sets it to the
rows released.
"""

from __future__ import annotations

from typing import Any

import understudy as us
from bench.grid import Grid, Line, Panel, Point, Suite, View
from bench.releases import facts, release, warm_up
from bench.tables import load

PEOPLE = 50_000  # about as many as ADULT has


def measure(point: Point) -> list[Line]:
    warm_up(point.mechanism)
    table = load(point.data)
    work = us.Workload.parse(point.workload, table.schema)
    how: dict[str, Any] = {"rows": point["released"]}
    if point["fitted"]:
        how["parameters"] = {point["fitted"]: point["released"]}
    result, spent = release(point, table, work, **how)
    return [{**spent.line, **facts(result), "cells": work.cells, "columns": len(table.domain)}]


def grid(part: str, released: list[int], workload: list[str], columns: list[int]) -> Grid:
    return Grid(
        measure=measure,
        part=part,
        data=[f"invented:{PEOPLE}x{number}@0" for number in columns],
        workload=workload,
        mechanism=["auto"],
        epsilon=[1.0],
        settings=[{"released": rows, "fitted": None} for rows in released],
        limit=300,
    )


X = {"rows": "released", "cells": "cells", "columns": "columns"}  # the axis that grows
# time grows by factors, memory starts far above zero
COST: dict[tuple[str, ...], str] = {("cpu", "wall"): "log", ("peak",): "linear"}
SUITE = Suite(
    grids=[
        grid(
            "rows", [2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000], ["3-way:64@0"], [15]
        ),
        grid("cells", [20_000], [f"3-way:{m}@0" for m in (1, 4, 16, 64, 256)], [15]),
        grid("columns", [20_000], ["2-way"], [5, 10, 20, 50, 100]),
    ],
    views=[
        View(
            title=f"one release, epsilon 1, invented tables of {PEOPLE:,} rows",
            by=("part", "chosen", "columns", "workload", "cells", "released"),
            shows={"wall": ".2f", "cpu": ".2f"},
        )
    ],
    panels=[
        Panel(x=x, y=y, title=f"{part} varied", where={"part": part}, yscale=scale)
        for y, scale in COST.items()
        for part, x in X.items()
    ],
    across=3,
)
