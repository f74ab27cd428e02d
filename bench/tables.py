"""The tables that are measured on: comparison data in a folder that the user names; invented ones.

The comparison data is never committed. It is looked for in the folder of ``--data``, then of the
environment variable UNDERSTUDY_BENCH_DATA, then in ``../shared/data`` beside the checkout.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import understudy as us
from bench import people, shapes
from bench.coded import Coded

VARIABLE = "UNDERSTUDY_BENCH_DATA"  # an environment variable: where the data sets are
# the folder if nobody sets it; data sets are never inside the project
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
# What each data set needs in that folder.
FILES = {
    "adult": ("adult-coded/adult-pgm.csv.gz", "adult-coded/adult-pgm-domain.json"),
    "adult-raw": ("adult/adult-raw.csv.gz", "adult/adult-schema.json"),
    "loans": ("loans/loans.csv.gz", "loans/loans-domain.json"),
    "kdd99": ("kdd99/kdd99.parquet",),
    "diabetes": ("diabetes/diabetic-data.csv.gz", "diabetes/diabetes-schema.yaml"),
}
# Columns of ADULT whose codes have an order; those of LOANS whose codes have none, dates in
# alphabetical order among them.
RANKED_ADULT = (
    "age",
    "fnlwgt",
    "education-num",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
)
UNRANKED_LOANS = (
    "emp_length",
    "home_ownership",
    "verification_status",
    "issue_d",
    "loan_status",
    "purpose",
    "zip_code",
    "addr_state",
    "earliest_cr_line",
    "last_pymnt_d",
    "next_pymnt_d",
    "last_credit_pull_d",
    "debt_settlement_flag",
    "debt_settlement_flag_date",
    "settlement_status",
    "settlement_date",
)
FOUR_FIFTHS = 39_073  # rows of ADULT where some are kept aside
# few columns: all their 3-way marginals are few, too
SIX = ["marital-status", "relationship", "race", "sex", "education-num", "income>50K"]
SAMPLE = 50_000  # rows of KDD99 where all of them would take too long
LEVELS = 20  # of a number: 0, then powers of two
NAMES = 12  # of a column of words: hashed into so many, because no list of them is public


def folder() -> Path:
    return Path(os.environ.get(VARIABLE) or BESIDE)


def paths(name: str) -> tuple[Path, ...]:
    return tuple(folder() / file for file in FILES[name])


def lacks(data: str) -> str | None:
    """Why a data set cannot be had, or None. What is invented can always be had."""
    name = next(
        (prefix for prefix in sorted(FILES, key=len, reverse=True) if data.startswith(prefix)), None
    )
    if name is None or all(path.exists() for path in paths(name)):
        return None
    where = f"name a folder that has it with --data or {VARIABLE}"
    return f"{data}: {FILES[name][0]} is not in the folder of comparison data; {where}"


def coded(name: str) -> Coded:
    """ADULT or LOANS as they were published, in codes."""
    file, described = paths(name)
    domain = {column: int(size) for column, size in json.loads(described.read_text()).items()}
    read = pyarrow.csv.read_csv(file)
    codes = np.column_stack([read[column].to_numpy() for column in domain]).astype(np.int32)
    loans = tuple(column for column in domain if column not in UNRANKED_LOANS)
    return Coded(codes, domain, RANKED_ADULT if name == "adult" else loans)


def four_fifths(table: Coded) -> Coded:
    """Of ADULT, by a public seed; what is left can judge a model of them."""
    return table.rows(np.random.default_rng(0).permutation(len(table))[:FOUR_FIFTHS])


def diabetes() -> Coded:
    """As published, read through the schema that lies beside it; its numbers are ordered."""
    file, described = paths("diabetes")
    schema = us.Schema.load(described)
    wanted = pyarrow.csv.ConvertOptions(include_columns=list(schema.names))
    read = pyarrow.csv.read_csv(file, convert_options=wanted)
    ordered = tuple(column.name for column in schema if column.kind in ("integer", "number"))
    domain = dict(zip(schema.names, schema.shape, strict=True))
    return Coded(schema.encode(read), domain, ordered, (read, schema))


def twice(table: Coded) -> Coded:
    """Every column, and a copy of it under another name."""
    copies = {f"{name} again": size for name, size in table.domain.items()}
    ordered = (*table.ordered, *(f"{name} again" for name in table.ordered))
    return Coded(np.hstack([table.codes, table.codes]), table.domain | copies, ordered)


def kdd99_frame(everybody: bool) -> Any:
    """As published, or a sample by a public seed."""
    import pandas as pd  # its sample and its hash decide which table this is

    frame = pd.read_parquet(paths("kdd99")[0])
    return frame if everybody else frame.sample(SAMPLE, random_state=0)


def kdd99(everybody: bool) -> Coded:
    """Numbers by powers of two, shares by twentieths, words by a fixed hash."""
    import pandas as pd

    frame = kdd99_frame(everybody)
    columns, domain, words = [], {}, []
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            columns.append(pd.util.hash_array(column.astype(str).to_numpy(object)) % NAMES)
            domain[name] = NAMES
            words.append(name)
        elif name.endswith("_rate"):
            columns.append(np.clip(np.floor(column.to_numpy(float) * LEVELS), 0, LEVELS))
            domain[name] = LEVELS + 1
        else:
            above = np.maximum(column.to_numpy(float), 0)
            columns.append(np.clip(np.floor(np.log2(above + 1)), 0, LEVELS - 1))
            domain[name] = LEVELS
    ordered = tuple(name for name in domain if name not in words)
    return Coded(np.column_stack(columns).astype(np.int32), domain, ordered)


def invented(rows: int, sizes: Sequence[int], seed: int) -> Coded:
    """Columns of codes that depend on each other through hidden classes."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, shapes.CLASSES, rows)
    codes = np.zeros((rows, len(sizes)), np.int32, order="F")
    for number, size in enumerate(sizes):
        steps = np.cumsum(rng.dirichlet(np.full(size, 0.5), shapes.CLASSES), axis=1)
        uniform = rng.random(rows)
        for k in range(shapes.CLASSES):
            mine = hidden == k
            codes[mine, number] = np.searchsorted(steps[k], uniform[mine]).clip(0, size - 1)
    return Coded(codes, {f"c{number}": size for number, size in enumerate(sizes)})


def some_sizes(columns: int) -> list[int]:
    """Categories of the columns of an invented table that only their number is said of."""
    return (
        shapes.MIXED
        if columns == len(shapes.MIXED)
        else [2 + number % 9 for number in range(columns)]
    )


def words(source: Coded) -> tuple[pa.Table, us.Schema]:
    """The same table with words for codes."""
    listed = {
        name: [f"{name} number {i}" for i in range(size)] for name, size in source.domain.items()
    }
    table = pa.table({name: pa.array(listed[name]).take(source.table[name]) for name in listed})
    fields = [
        {"name": name, "type": "string", "constraints": {"enum": enum}}
        for name, enum in listed.items()
    ]
    return table, us.Schema.from_dict({"fields": fields})


# by the names that a grid may say
KNOWN: dict[str, Callable[[], Coded]] = {
    "adult": lambda: coded("adult"),
    "adult-4/5": lambda: four_fifths(coded("adult")),
    "adult-six": lambda: coded("adult").of(SIX),
    "diabetes": diabetes,
    "loans": lambda: coded("loans"),
    "loans-twice": lambda: twice(coded("loans")),
    "kdd99": lambda: kdd99(True),
    "kdd99-50k": lambda: kdd99(False),
    "invented-four": people.four,
    "near-functional": people.near_functional,
    # No constant was set on these two: run them, but set nothing by them.
    "unseen-payroll": people.payroll,
    "unseen-clinic": people.clinic,
}
INVENTED = re.compile(r"invented:(\d+)x(\d+)@(\d+)")  # rows, columns and a public seed


def load(data: str) -> Coded:
    """A table by its name: ``adult``, or ``invented:50000x15@7`` (rows, columns, public seed).

    ``shape:chain:50000x15:mixed@7`` also says how columns depend on each other and how many
    values they have; bench/shapes.py lists the words.
    """
    if data.startswith("shape:"):
        return shapes.load(data)
    if match := INVENTED.fullmatch(data):
        rows, columns, seed = map(int, match.groups())
        return invented(rows, some_sizes(columns), seed)
    return KNOWN[data]()


def write(table: Coded, place: Path) -> Path:
    """As Parquet, for what reads files."""
    pq.write_table(table.table, place)
    return place
