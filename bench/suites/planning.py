"""How far ``understudy plan`` is from what the release then takes: CPU seconds and peak memory.

Every release is the command in a process of its own, from file to bundle, with compiled code in
its cache. The constants of ``plan`` were set on the tables called tuned; the unseen ones judge
them. A ratio of 1 is right.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.csv

import understudy as us
from bench import tables
from bench.clock import GIGABYTE, WALL, clocked, failure, peak_gigabytes
from bench.grid import Grid, Line, Point, Suite, View
from bench.releases import warm_up
from bench.shapes import MIXED

# The peak of the release alone: what the system says of a child begins with what its parent had
# when it was made.
COMMAND = """
import atexit, pathlib, sys
peak = pathlib.Path(sys.argv.pop())
atexit.register(lambda: peak.write_text(pathlib.Path("/proc/self/status").read_text()))
from understudy.cli.main import main
main()
"""


def written(point: Point, folder: Path) -> tuple[Path, us.Schema]:
    """The table as a file, and its schema."""
    if point.data in ("adult", "loans", "diabetes"):
        file, schema = tables.paths(point.data)
        return file, us.Schema.load(schema)
    sizes = point["sizes"]
    table = tables.invented(point["rows"], sizes, seed=len(sizes))
    if point.data == "invented words":
        worded, schema_of_words = tables.words(table)
        pyarrow.csv.write_csv(worded, folder / "table.csv")
        return folder / "table.csv", schema_of_words
    return tables.write(table, folder / "table.parquet"), table.schema


def measure(point: Point) -> list[Line]:
    warm_up()  # whatever is not compiled yet
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, schema = written(point, folder)
        schema.save(folder / "schema.json")
        command = [
            sys.executable, "-c", COMMAND, "release", str(file), "--schema", str(folder / "schema.json"),
            "--epsilon", f"{point.epsilon:g}", "--workload", point.workload, "--mechanism", point.mechanism,
            "--ledger", str(folder / "ledger.jsonl"), "--out", str(folder / "out"), str(folder / "peak"),
        ]  # fmt: skip
        code, usage = clocked(command, folder / "log", WALL * point.limit)
        cpu = usage.ru_utime + usage.ru_stime
        if code != 0 or not (folder / "out" / "report.html").exists():
            return [{"failure": failure(code, cpu, point.limit, folder / "log"), "cpu": cpu}]
        peak = peak_gigabytes((folder / "peak").read_text())
    expected = us.plan(
        schema,
        rows=point["rows"],
        epsilon=point.epsilon,
        workload=point.workload,
        mechanism=point.mechanism,
    )
    line: Line = {"cpu": cpu, "peak": peak, "chosen": expected.mechanism}
    if expected.seconds is not None and expected.memory is not None:
        planned = expected.memory / GIGABYTE / 1024
        line |= {"planned_cpu": expected.seconds, "cpu_ratio": expected.seconds / cpu}
        line |= {"planned_peak": planned, "peak_ratio": planned / peak}
    return [line]


def job(
    name: str,
    data: str,
    rows: int,
    part: str = "tuned",
    sizes: list[int] | None = None,
    workload: str = "2-way",
    epsilon: float = 1.0,
    mechanism: str = "auto",
) -> Grid:
    """One release to plan and to make."""
    settings: dict[str, Any] = {"name": name, "rows": rows, **({"sizes": sizes} if sizes else {})}
    axes: dict[str, Any] = {
        "data": [data],
        "workload": [workload],
        "mechanism": [mechanism],
        "epsilon": [epsilon],
    }
    return Grid(measure=measure, part=part, settings=[settings], **axes)


# rows; categories of eight columns
ADULT, LOANS, EIGHT = 48_842, 42_535, [2, 3, 5, 8, 12, 20, 40, 6]
SUITE = Suite(
    grids=[
        job("small", "invented", 2_000, sizes=[2, 3, 5, 8, 4]),
        job("adult pairs", "adult", ADULT),
        job("adult, in rounds", "adult", ADULT, epsilon=0.1),
        job("adult triples", "adult", ADULT, workload="3-way:64@0"),
        job("binary", "invented", 50_000, sizes=[2] * 60),
        job("long columns", "invented", 200_000, sizes=[2, 5, 1_000, 300, 12]),
        job("a million", "invented", 1_000_000, sizes=EIGHT),
        job("hospital", "diabetes", 101_766),
        job("loans triples", "loans", LOANS, workload="3-way:64@0"),
        job("ten million", "invented", 10_000_000, sizes=EIGHT),
        job("mixed triples", "invented", 300_000, sizes=MIXED, workload="3-way:64@1"),
        job(
            "hundred columns",
            "invented",
            20_000,
            sizes=[2 + i % 9 for i in range(100)],
            epsilon=0.3,
        ),
        job("mixed, matrix", "invented", 100_000, sizes=MIXED, mechanism="matrix"),
        job(
            "few rows, gaussian",
            "invented",
            5_000,
            sizes=[4] * 12,
            workload="3-way:20@2",
            mechanism="gaussian",
        ),
        job("survey", "invented", 4_000, "unseen", [2] * 16, "3-way:64@3", 0.5),
        job("three million", "invented", 3_000_000, "unseen", [50, 7, 12, 3], "3-way"),
        job("forty columns", "invented", 150_000, "unseen", [2 + i % 11 for i in range(40)]),
        job("triples in rounds", "invented", 80_000, "unseen", MIXED, "3-way:200@4", 0.2),
        job("words", "invented words", 500_000, "unseen", [4, 9, 25, 2, 60]),
    ],
    views=[
        View(
            title="plan beside release",
            by=("part", "name", "chosen"),
            shows={
                "cpu": ".1f",
                "planned_cpu": ".1f",
                "cpu_ratio": ".2f",
                "peak": ".2f",
                "planned_peak": ".2f",
                "peak_ratio": ".2f",
            },
        )
    ],
)
