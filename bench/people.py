"""Invented tables of people, each made by hand, with the dependences that real ones have.

``four`` and ``near_functional`` are hard on mechanisms that merge neighbouring values. No constant
of any mechanism was set on ``payroll`` and ``clinic``, and none should be.
"""

from __future__ import annotations

import numpy as np

from bench.coded import Coded

Values = dict[str, tuple[np.ndarray, int]]  # of each column: numbers, and how many codes there are


def table(values: Values, unordered: tuple[str, ...] = ()) -> Coded:
    """Numbers to the nearest code."""
    codes = [np.rint(numbers).clip(0, size - 1) for numbers, size in values.values()]
    domain = {name: size for name, (_, size) in values.items()}
    ordered = tuple(name for name in domain if name not in unordered)
    return Coded(np.column_stack(codes).astype(np.int32), domain, ordered)


def tenth(numbers: np.ndarray) -> np.ndarray:
    """The decile of each, by public edges that are about right."""
    return np.searchsorted(np.quantile(numbers, np.arange(1, 10) / 10), numbers, side="right")


def often(rng: np.random.Generator, rows: int, size: int, power: float = 1.0) -> np.ndarray:
    """Categories: the k-th one as frequent as 1/k^power."""
    shares = 1 / np.arange(1, size + 1) ** power
    return rng.choice(size, rows, p=shares / shares.sum())


def strayed(rng: np.random.Generator, codes: np.ndarray, size: int, share: float) -> np.ndarray:
    """The same, but by chance in a share of the rows."""
    return np.where(rng.random(len(codes)) < share, rng.integers(0, size, len(codes)), codes)


def four() -> Coded:
    """A long-tailed count, its decile, about a quarter of it, and chance."""
    rng, rows = np.random.default_rng(4), 40_000
    count = np.floor(rng.lognormal(3.0, 0.9, rows)).clip(0, 199)
    return table(
        {
            "count": (count, 200),
            "decile": (tenth(count), 10),
            "quarter": (count / 4 + rng.normal(0, 1.5, rows), 60),
            "chance": (rng.integers(0, 12, rows), 12),
        },
        unordered=("chance",),
    )


def near_functional() -> Coded:
    """A region and its density, income with its decile and its bracket, age and years of work."""
    rng, rows = np.random.default_rng(5), 50_000
    region = often(rng, rows, 50, 0.8)
    density = rng.integers(0, 40, 50)[region]
    school = rng.binomial(15, 0.3 + 0.4 * density / 40)
    age = 18 + np.floor(rng.beta(2, 3, rows) * 72)
    income = rng.lognormal(3.2 + 0.08 * school + 0.01 * (age - 40), 0.6).clip(0, 299)
    return table(
        {
            "region": (region, 50),
            "density": (strayed(rng, density, 40, 0.02), 40),
            "age": (age, 91),
            "worked": (age - 18 - school / 2 + rng.normal(0, 2, rows), 75),
            "school": (school, 16),
            "school, in four": (school // 4, 4),
            "income": (income, 300),
            "income, decile": (tenth(np.floor(income)), 10),
            "income, bracket": (np.searchsorted([12, 40, 85, 160], income), 5),
            "hours": (np.where(rng.random(rows) < 0.5, 40, rng.normal(38, 12, rows)), 99),
            "party": (strayed(rng, density // 8, 6, 0.6), 6),
        },
        unordered=("region", "party"),
    )


def payroll() -> Coded:
    """Pay by grade and step, managers by office, a bonus that most do not get."""
    rng, rows = np.random.default_rng(6), 30_000
    grade, step = rng.binomial(11, 0.35, rows), rng.integers(0, 20, rows)
    office = often(rng, rows, 60)
    tenure = step * 1.5 + rng.exponential(4, rows)
    pay = 40 + 22 * grade + 3 * step + rng.normal(0, 4, rows)
    bonus = np.where(rng.random(rows) < 0.1 + 0.05 * grade, rng.gamma(2, 8 + 4 * grade), 0)
    return table(
        {
            "office": (office, 60),
            "manager": (strayed(rng, office * 7 % 25, 25, 0.1), 25),
            "grade": (grade, 12),
            "step": (step, 20),
            "pay": (pay, 400),
            "tenure": (tenure, 45),
            "age": (tenure + 4 + rng.gamma(3, 4, rows), 60),
            "bonus": (bonus, 250),
            "leave": (20 + tenure / 5 + rng.normal(0, 4, rows), 40),
            "part time": (rng.random(rows) < 0.15 + 0.02 * (office % 5), 2),
        },
        unordered=("office", "manager", "part time"),
    )


def clinic() -> Coded:
    """Bodies, pressures, diagnoses with their wards, days and what they cost."""
    rng, rows = np.random.default_rng(7), 80_000
    age = rng.beta(2, 1.5, rows) * 99
    sex = rng.integers(0, 2, rows)
    height = rng.normal(40 + 12 * sex - 0.05 * age, 7)
    weight = rng.gamma(12, (50 + height + 0.2 * age) / 12)
    diagnosis = (often(rng, rows, 40) + np.floor(age / 20) * 3).astype(int) % 40
    systolic = 60 + 0.5 * age + 0.2 * weight + rng.normal(0, 14, rows)
    days = rng.gamma(1.2, 1 + diagnosis % 9 + age / 40)
    return table(
        {
            "age": (age, 100),
            "sex": (sex, 2),
            "height": (height, 90),
            "weight": (weight, 220),
            "bmi": (weight / (1 + height / 100) ** 2 / 2, 60),
            "systolic": (systolic, 180),
            "diastolic": (systolic * 0.55 + rng.normal(0, 6, rows), 110),
            "pulse": (70 - age / 5 + rng.normal(0, 11, rows), 120),
            "smoker": (often(rng, rows, 3, 1.5), 3),
            "diagnosis": (diagnosis, 40),
            "ward": (strayed(rng, diagnosis * 5 % 12, 12, 0.05), 12),
            "days": (days, 60),
            "cost": (days * (3 + diagnosis % 4) + rng.exponential(10, rows), 500),
            "outcome": (np.searchsorted([0.6, 0.85, 0.97], rng.random(rows) + age / 1_000), 4),
        },
        unordered=("sex", "smoker", "diagnosis", "ward", "outcome"),
    )
