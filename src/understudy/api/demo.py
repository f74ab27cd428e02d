"""A fictional population, drawn from a public seed, so that the demo needs nobody's data.

20,000 invented people with the dependences that real surveys show: income follows education, age
and work; smoking, weight and diabetes go together; visits cluster by age; and answers are missing
more often where they are unwelcome. Nothing in it was taken from any real table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from understudy.schema import Schema

PEOPLE = 20_000  # large enough for good answers at epsilon 1, small enough for seconds
SEED = 20_240_229  # any would do; a fixed one makes the same people every time
TODAY = np.datetime64("2025-06-30")  # a fixed day: the clock must not change the table

# in the order of the codes that are drawn for them
REGIONS = ("north", "east", "south", "west", "capital")
EDUCATION = ("none", "school", "vocational", "university")
EMPLOYMENT = ("employed", "unemployed", "student", "retired")

# what an office would publish about such a table
SCHEMA: dict[str, Any] = {
    "fields": [
        {
            "name": "birth_date",
            "type": "date",
            "constraints": {"minimum": "1935-01-01", "maximum": "2006-12-31"},
        },
        {"name": "sex", "type": "string", "constraints": {"enum": ["female", "male"]}},
        {"name": "region", "type": "string", "constraints": {"enum": list(REGIONS)}},
        {
            "name": "education",
            "type": "string",
            "constraints": {"enum": list(EDUCATION)},
            "categories": list(EDUCATION),
            "categoriesOrdered": True,
        },
        {"name": "employment", "type": "string", "constraints": {"enum": list(EMPLOYMENT)}},
        {"name": "household_size", "type": "integer", "constraints": {"minimum": 1, "maximum": 9}},
        {"name": "income", "type": "number", "constraints": {"minimum": 0, "maximum": 150000}},
        {"name": "smoker", "type": "boolean"},
        {"name": "bmi", "type": "number", "constraints": {"minimum": 14, "maximum": 55}},
        {"name": "diabetes", "type": "boolean"},
        {
            "name": "last_visit",
            "type": "datetime",
            "constraints": {"minimum": "2023-07-01T00:00:00", "maximum": "2025-06-30T23:59:59"},
        },
    ],
    "missingValues": [""],
    "understudy": {
        "privacyUnit": "row",
        "columns": {
            "birth_date": {"bins": 6},
            "household_size": {"cuts": [2, 3]},
            "income": {"cuts": [12000, 24000, 40000, 70000], "step": 10, "missing": True},
            "smoker": {"missing": True},
            "bmi": {"cuts": [18.5, 25, 30], "decimals": 1, "missing": True},
            "last_visit": {"resolution": "quarter"},
        },
    },
}


def schema() -> Schema:
    """The public description of the fictional population."""
    return Schema.from_dict(SCHEMA)


def population(n: int = PEOPLE, seed: int = SEED) -> pa.Table:
    """The fictional people: always the same for the same seed."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6.0, 8.2, n), 18.6, 89.9)
    female = rng.random(n) < 0.5 + 0.04 * (age > 75)
    region = rng.choice(5, n, p=[0.17, 0.2, 0.24, 0.16, 0.23])
    education = _education(rng, age, region)
    employment = _employment(rng, age, education)
    household = np.clip(
        1 + rng.poisson(np.where(age < 30, 0.9, np.where(age < 60, 1.7, 0.6))), 1, 9
    )
    income = _income(rng, age, female, education, employment, region)
    smoker = rng.random(n) < _logistic(
        -1.1 - 0.35 * education + 0.3 * ~female - 0.015 * np.maximum(age - 45, 0)
    )
    bmi = np.clip(
        rng.normal(24.2 + 0.055 * np.minimum(age - 18, 45) - 0.4 * education - 0.6 * smoker, 4.1),
        14,
        55,
    )
    diabetes = rng.random(n) < _logistic(-5.6 + 0.045 * age + 0.13 * (bmi - 25))
    days_ago = rng.exponential(np.where(diabetes, 90, np.where(age > 65, 160, 330)), n) % 730
    minute = rng.integers(8 * 60, 18 * 60, n)
    visit = (TODAY - days_ago.astype(np.int64)).astype("M8[s]") + minute.astype("m8[m]")
    # Unwelcome questions are answered less: high and low incomes, smokers, heavy people.
    no_income = rng.random(n) < 0.06 + 0.08 * (income > 60000) + 0.05 * (income < 8000)
    no_smoker = rng.random(n) < 0.03 + 0.05 * smoker
    no_bmi = rng.random(n) < 0.05 + 0.06 * (bmi > 32)
    birth = TODAY - (age * 365.25).astype(np.int64)
    return pa.table(
        {
            "birth_date": pa.array(birth.astype("M8[D]")),
            "sex": np.where(female, "female", "male"),
            "region": np.asarray(REGIONS)[region],
            "education": np.asarray(EDUCATION)[education],
            "employment": np.asarray(EMPLOYMENT)[employment],
            "household_size": household,
            "income": pa.array(np.round(income, -1), mask=no_income),
            "smoker": pa.array(smoker, mask=no_smoker),
            "bmi": pa.array(np.round(bmi, 1), mask=no_bmi),
            "diabetes": diabetes,
            "last_visit": pa.array(visit),
        }
    )


def write(folder: Path) -> tuple[Path, Path]:
    """Write the population and its schema into a folder; returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table, described = folder / "people.csv", folder / "people-schema.yaml"
    pyarrow.csv.write_csv(population(), table)
    schema().save(described)
    return table, described


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _education(rng: np.random.Generator, age: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Younger people and the capital studied longer."""
    drive = rng.logistic(size=len(age)) + 0.9 * (region == 4) - 0.035 * (age - 45)
    return np.where(
        age < 21,
        np.minimum(np.digitize(drive, [-2.2, 0.2, 1.3]), 2),
        np.digitize(drive, [-2.2, 0.2, 1.3]),
    )


def _employment(rng: np.random.Generator, age: np.ndarray, education: np.ndarray) -> np.ndarray:
    chance = rng.random(len(age))
    student = (age < 27) & (chance < np.clip((27 - age) / 9, 0, 0.85))
    retired = (age > 55) & (chance < _logistic((age - 64.5) / 1.8))
    unemployed = rng.random(len(age)) < 0.13 - 0.03 * education
    return np.where(student, 2, np.where(retired, 3, np.where(unemployed, 1, 0)))


def _income(
    rng: np.random.Generator,
    age: np.ndarray,
    female: np.ndarray,
    education: np.ndarray,
    employment: np.ndarray,
    region: np.ndarray,
) -> np.ndarray:
    level = (
        np.choose(employment, [10.15, 8.9, 8.6, 9.65])
        + 0.24 * education * (employment != 2)
        + 0.18 * (region == 4)
    )
    experience = 0.012 * np.minimum(np.maximum(age - 22, 0), 30) * (employment == 0)
    return np.clip(
        np.exp(rng.normal(level + experience - 0.12 * female * (employment == 0), 0.42)), 0, 150000
    )
