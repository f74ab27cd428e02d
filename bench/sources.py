"""10 million rows x 15 columns of Parquet through DuckDB: time and peak memory, in a process of its own.

python -m bench.sources [ROWS]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

import understudy as us
from understudy.sources import open_source

SIZES = [2, 3, 5, 7, 10, 16, 24, 40, 60, 85, 100, 2, 9, 15, 42]
SCHEMA = {
    "fields": [
        *({"name": f"n{i}", "type": "integer", "constraints": {"minimum": 0, "maximum": size - 1}} for i, size in enumerate(SIZES[:10])),
        {"name": "r", "type": "number", "constraints": {"minimum": 0, "maximum": 100}},
        {"name": "flag", "type": "boolean"},
        *(
            {"name": f"s{i}", "type": "string", "constraints": {"enum": [f"value {v}" for v in range(size)]}}
            for i, size in enumerate(SIZES[12:])
        ),
    ],
    "understudy": {"columns": {"r": {"bins": 100}, **{f"s{i}": {"missing": True} for i in range(3)}}},
}


def write(path: Path, rows: int) -> None:
    """An invented table, written by DuckDB itself so that this process stays small."""
    integers = [f"(hash(i * 31 + {k}) % {size})::INTEGER AS n{k}" for k, size in enumerate(SIZES[:10])]
    texts = [
        f"CASE WHEN hash(i + {k}) % 20 = 0 THEN NULL ELSE 'value ' || (hash(i * 17 + {k}) % {size}) END AS s{k}"
        for k, size in enumerate(SIZES[12:])
    ]
    others = ["(hash(i * 7) % 100000) / 1000.0 AS r", "hash(i * 3) % 2 = 0 AS flag"]
    columns = ", ".join(integers + others + texts)
    duckdb.sql(f"COPY (SELECT {columns} FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)")


def measure(path: str, workload: str) -> None:
    """What the child process does: count, then tell its time and peak memory."""
    schema = us.Schema.from_dict(SCHEMA)
    work = us.Workload.parse(workload, schema)
    source = open_source(path, schema)
    start, cpu = time.time(), time.process_time()
    tables = source.count([part.positions for part in work.marginals])
    rows = int(tables[0].values.sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        json.dumps({"rows": rows, "seconds": time.time() - start, "cpu": time.process_time() - cpu, "gigabytes": peak, "cells": work.cells})
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    table = Table("workload", "rows", "cells", "seconds", "CPU s", "peak GB", title="counting through DuckDB, one pass")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.parquet"
        write(path, rows)
        for workload in ("1-way", "2-way", "3-way:64@0"):
            done = subprocess.run(
                [sys.executable, "-m", "bench.sources", "--child", str(path), workload], capture_output=True, text=True, check=True
            )
            found = json.loads(done.stdout)
            assert found["rows"] == rows
            table.add_row(
                workload, f"{rows:,}", f"{found['cells']:,}", f"{found['seconds']:.1f}", f"{found['cpu']:.1f}", f"{found['gigabytes']:.2f}"
            )
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        measure(sys.argv[2], sys.argv[3])
    else:
        main()
