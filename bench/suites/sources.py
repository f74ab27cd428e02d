"""Ten million rows x 15 columns of Parquet, counted through DuckDB: time and peak memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import understudy as us
from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from understudy.sources import open_source

# categories of 15 columns, small and large as in real tables
SIZES = [2, 3, 5, 7, 10, 16, 24, 40, 60, 85, 100, 2, 9, 15, 42]
INTEGERS = list(enumerate(SIZES[:10]))  # ten of them
TEXTS = list(enumerate(SIZES[12:]))  # three, which cost most to read
# every type that Parquet files usually have
SCHEMA = {
    "fields": [
        *(
            {"name": f"n{i}", "type": "integer", "constraints": {"minimum": 0, "maximum": size - 1}}
            for i, size in INTEGERS
        ),
        {"name": "r", "type": "number", "constraints": {"minimum": 0, "maximum": 100}},
        {"name": "flag", "type": "boolean"},
        *(
            {
                "name": f"s{i}",
                "type": "string",
                "constraints": {"enum": [f"value {v}" for v in range(size)]},
            }
            for i, size in TEXTS
        ),
    ],
    "understudy": {
        "columns": {"r": {"bins": 100}, **{f"s{i}": {"missing": True} for i in range(3)}}
    },
}


def query(rows: int) -> str:
    """An invented table, in DuckDB's words."""
    integers = [f"(hash(i * 31 + {k}) % {size})::INTEGER AS n{k}" for k, size in INTEGERS]
    texts = [
        f"CASE WHEN hash(i + {k}) % 20 = 0 THEN NULL ELSE 'value ' || (hash(i * 17 + {k}) % {size})"
        f" END AS s{k}"
        for k, size in TEXTS
    ]
    others = ["(hash(i * 7) % 100000) / 1000.0 AS r", "hash(i * 3) % 2 = 0 AS flag"]
    return f"SELECT {', '.join(integers + others + texts)} FROM range({rows}) t(i)"


def measure(point: Point) -> list[Line]:
    schema = us.Schema.from_dict(SCHEMA)
    work = us.Workload.parse(point.workload, schema)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.parquet"
        copy = f"COPY ({query(point['rows'])}) TO '{path}' (FORMAT parquet)"
        # By another process, so that the peak of this one is that of counting.
        subprocess.run(
            [sys.executable, "-c", "import duckdb, sys; duckdb.sql(sys.argv[1])", copy], check=True
        )
        source = open_source(str(path), schema)
        with clock() as spent:
            tables = source.count([part.positions for part in work.marginals])
    counted = int(tables[0].values.sum())
    if counted != point["rows"]:
        raise AssertionError(f"{counted} rows were counted, not {point['rows']}")
    return [{**spent.line, "cells": work.cells}]


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            workload=["1-way", "2-way", "3-way:64@0"],
            settings=[{"rows": 10_000_000}],
        )
    ],
    views=[
        View(
            title="counting through DuckDB, one pass",
            by=("workload", "rows"),
            shows={"cells": ",.0f", "wall": ".1f", "cpu": ".1f"},
        )
    ],
)
