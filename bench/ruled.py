"""Tables with rules that everybody knows, for the suite rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from bench.coded import Coded
from bench.tables import diabetes
from bench.tables import load as load_plain

ADMISSIONS = 100_000
DAY = np.datetime64("2022-01-01")
WARDS, DEPARTMENTS, CITIES, REGIONS = 40, 8, 60, 6
DRUGS = ("insulin", "metformin", "statin", "aspirin")
FIELDS: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    {
        "name": "work",
        "type": "string",
        "constraints": {"enum": ["child", "student", "employed", "none", "retired"]},
    },
    {"name": "married", "type": "boolean"},
    {
        "name": "admitted",
        "type": "date",
        "constraints": {"minimum": "2022-01-01", "maximum": "2023-12-31"},
    },
    {
        "name": "left",
        "type": "date",
        "constraints": {"minimum": "2022-01-01", "maximum": "2024-03-31"},
    },
    {"name": "ward", "type": "integer", "constraints": {"minimum": 1, "maximum": WARDS}},
    {
        "name": "department",
        "type": "string",
        "constraints": {"enum": [f"department {i}" for i in range(DEPARTMENTS)]},
    },
    {"name": "city", "type": "integer", "constraints": {"minimum": 1, "maximum": CITIES}},
    {
        "name": "region",
        "type": "string",
        "constraints": {"enum": [f"region {i}" for i in range(REGIONS)]},
    },
    {"name": "tests", "type": "integer", "constraints": {"minimum": 0, "maximum": 12}},
    {"name": "scans", "type": "integer", "constraints": {"minimum": 0, "maximum": 6}},
    {"name": "procedures", "type": "integer", "constraints": {"minimum": 0, "maximum": 18}},
    {"name": "treated", "type": "boolean"},
    *({"name": drug, "type": "boolean"} for drug in DRUGS),
    {"name": "weight", "type": "number", "constraints": {"minimum": 0, "maximum": 200}},
]
COLUMNS = {"age": {"bins": 20}, "weight": {"bins": 20, "missing": True}}
TWENTY = (
    "work = child implies age < 16",
    "work = student implies age >= 12",
    "work = employed implies age >= 15",
    "work = retired implies age >= 50",
    "married implies age >= 18",
    "age < 15 implies work = child",
    "admitted <= left",
    "left <= admitted + 90",
    "procedures = tests + scans",
    "ward determines department",
    "city determines region",
    *(f"not treated implies not {drug}" for drug in DRUGS),
    "treated implies insulin or metformin or statin or aspirin",
    "age < 10 implies not statin",
    "age < 10 implies weight < 80 or weight is missing",
    "work = child implies not married",
    "age < 5 implies scans <= 4",
)


def admissions() -> Coded:
    """An invented hospital that keeps twenty rules."""
    rng, n = np.random.default_rng(11), ADMISSIONS
    age = np.clip(rng.normal(48, 24, n), 0, 99).astype(int)
    work = np.where(age < 15, 0, np.where(age < 24, 1 + (rng.random(n) < 0.4), 2))
    work = np.where((age >= 24) & (age < 65) & (rng.random(n) < 0.2), 3, work)
    work = np.where(age >= 65, 4, np.where((age >= 55) & (rng.random(n) < 0.3), 4, work))
    admitted = rng.integers(0, 730, n)
    ward = rng.choice(WARDS, n, p=_falling(WARDS))
    ward = np.where((age < 16) & (rng.random(n) < 0.8), 3, ward)
    city = rng.choice(CITIES, n, p=_falling(CITIES))
    tests = rng.binomial(12, 0.1 + 0.4 * age / 100)
    scans = rng.binomial(np.where(age < 5, 4, 6), 0.2)
    drugs = rng.random((n, len(DRUGS))) < [0.1, 0.2, 0.3, 0.25] * (age[:, None] / 60)
    drugs[:, 2] &= age >= 10
    weight = np.clip(3.5 + 4.0 * np.minimum(age, 18) + rng.normal(0, 0.2, n) * (age + 2), 1, 199)
    weight = np.where(age < 10, np.minimum(weight, 79), weight)
    words = {
        field["name"]: field["constraints"].get("enum")
        for field in FIELDS
        if "constraints" in field
    }
    # a department has five wards, a region ten cities
    table = pa.table(
        {
            "age": age,
            "work": np.asarray(words["work"])[work],
            "married": (age >= 18) & (rng.random(n) < 0.5),
            "admitted": DAY + admitted,
            "left": DAY + admitted + np.minimum(rng.geometric(0.15, n) - 1, 90),
            "ward": ward + 1,
            "department": np.asarray(words["department"])[ward // 5],
            "city": city + 1,
            "region": np.asarray(words["region"])[city // 10],
            "tests": tests,
            "scans": scans,
            "procedures": tests + scans,
            "treated": drugs.any(axis=1),
            **{drug: drugs[:, i] for i, drug in enumerate(DRUGS)},
            "weight": pa.array(weight, mask=rng.random(n) < 0.05),
        }
    )
    schema = us.Schema.from_dict(
        {"fields": FIELDS, "understudy": {"columns": COLUMNS, "rules": list(TWENTY)}}
    )
    return _read(table, schema)


SURVEY = 100_000
# small enough for mechanisms that keep a weight for every possible record, or all conjunctions
SIZES = {
    "child": 2,
    "works": 2,
    "hours": 4,
    "pension": 2,
    "married": 2,
    "spouse works": 2,
    "cars": 2,
    "trucks": 2,
    "vehicles": 3,
    "town": 4,
    "county": 2,
    "smoker": 2,
    "packs": 3,
    "age": 4,
}
TWENTY_OF_SURVEY = (
    "child = 1 implies age = 0",
    "age = 0 implies child = 1",
    "child = 1 implies works = 0",
    "child = 1 implies married = 0",
    "child = 1 implies smoker = 0",
    "child = 1 implies vehicles = 0",
    "works = 1 implies hours > 0",
    "works = 0 implies hours = 0",
    "pension = 1 implies age = 3",
    "pension = 1 implies hours <= 1",
    "pension = 1 and works = 1 implies hours = 1",
    "spouse works = 1 implies married = 1",
    "married = 1 implies age >= 1",
    "vehicles = cars + trucks",
    "town determines county",
    "smoker = 1 implies packs >= 1",
    "smoker = 0 implies packs = 0",
    "hours <= age + 2",
    "packs <= age + 1",
    "trucks = 1 implies works = 1 or pension = 1",
)


def survey() -> Coded:
    """A small invented survey that keeps twenty rules."""
    rng, n = np.random.default_rng(12), SURVEY
    age = rng.choice(4, n, p=[0.15, 0.3, 0.35, 0.2])
    child = age == 0
    pension = (age == 3) & (rng.random(n) < 0.6)
    works = ~child & (rng.random(n) < np.where(pension, 0.15, 0.75))
    hours = np.where(works, np.where(pension, 1, 1 + rng.binomial(2, 0.6, n)), 0)
    married = ~child & (rng.random(n) < 0.1 + 0.2 * age)
    cars, trucks = ~child & (rng.random(n) < 0.6), (works | pension) & (rng.random(n) < 0.15)
    town = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    smoker = ~child & (rng.random(n) < 0.25)
    spouse = married & (rng.random(n) < 0.6)
    packs = np.where(smoker, 1 + (rng.random(n) < 0.3), 0)
    columns = [child, works, hours, pension, married, spouse, cars, trucks, cars + 0 + trucks]
    codes = np.column_stack([*columns, town, town // 2, smoker, packs, age]).astype(np.int32)
    plain = us.Schema.from_domain(SIZES, ordered=["hours", "vehicles", "packs", "age"])
    table = pa.table(dict(zip(SIZES, codes.T, strict=True)))
    return _read(table, replace(plain, rules=TWENTY_OF_SURVEY))


def _falling(size: int) -> np.ndarray:
    shares: np.ndarray = 1 / (4.0 + np.arange(size))
    return shares / shares.sum()


def _read(table: pa.Table, schema: us.Schema) -> Coded:
    ordered = tuple(column.name for column in schema if column.ordered)
    domain = dict(zip(schema.names, schema.shape, strict=True))
    return Coded(schema.encode(table), domain, ordered, (table, schema))


def drugs() -> Coded:
    """Diabetes, where who takes no drug takes none of the 23."""
    table = diabetes()
    assert table.read is not None
    rows, schema = table.read
    listed = [c.name for c in schema if c.labels[:4] == ["No", "Steady", "Up", "Down"]]
    rules = [f"diabetesMed = 'No' implies `{name}` = 'No'" for name in listed]
    return replace(table, read=(rows, replace(schema, rules=rules)))


def wards() -> Coded:
    """The columns of the hospital that determine each other, and two more, with those two rules."""
    table = admissions()
    assert table.read is not None
    rows, schema = table.read
    kept = ["ward", "department", "city", "region", "age", "work"]
    rules = ["ward determines department", "city determines region"]
    columns = [schema[name] for name in kept]
    return _read(rows.select(kept), us.Schema(columns, rules=rules))


KNOWN = {"admissions": admissions, "diabetes-drugs": drugs, "wards": wards, "survey": survey}


def load(data: str, *, ruled: bool) -> Coded:
    """A table with its rules, or the same without."""
    table = KNOWN[data]() if data in KNOWN else load_plain(data)
    if ruled or table.read is None:
        return table
    rows, schema = table.read
    return replace(table, read=(rows, replace(schema, rules=())))
