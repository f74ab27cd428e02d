"""Tables, classes of rules and learners that the suite learning measures."""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from bench.clock import cpu_seconds
from bench.tables import paths
from understudy.errors import NotSupported
from understudy.learning.learn import learn
from understudy.learning.learned import Learned
from understudy.privacy.labelled import Labelled
from understudy.privacy.learners import Rule, Tilted, certified
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.perturbation import NoiseOn, Perturbation, solve
from understudy.rules.base import RuleClass
from understudy.rules.certifiers import Cpsat
from understudy.rules.classes import rule_class
from understudy.rules.counting import counting_of

MOST = 48_842  # rows of ADULT
WEIGHT = 1000  # what a meter's argmin takes unless told otherwise
KINDS = 2_000  # of people in the planted tables

# ---------------------------------------------------------------------- tables

Row = dict[str, str]
Question = Callable[[Row], bool]


def least(column: str, number: int) -> Question:
    return lambda row: float(row[column] or 0) >= number


def one_of(column: str, *values: str) -> Question:
    return lambda row: row[column] in values


QUESTIONS: dict[str, Question] = {
    "age >= 30": least("age", 30),
    "married": lambda row: row["marital-status"].startswith("Married"),
    "male": one_of("sex", "Male"),
    "schooling >= 10": least("education-num", 10),
    "schooling >= 13": least("education-num", 13),
    "gain >= 5000": least("capital-gain", 5000),
    "any loss": least("capital-loss", 1),
    "hours >= 50": least("hours-per-week", 50),
    "age >= 40": least("age", 40),
    "age >= 50": least("age", 50),
    "never married": one_of("marital-status", "Never-married"),
    "white": one_of("race", "White"),
    "black": one_of("race", "Black"),
    "schooling >= 9": least("education-num", 9),
    "schooling >= 14": least("education-num", 14),
    "any gain": least("capital-gain", 1),
    "hours >= 40": least("hours-per-week", 40),
    "born in the US": one_of("native-country", "United-States"),
    "private firm": one_of("workclass", "Private"),
    "self-employed": lambda row: row["workclass"].startswith("Self-emp"),
    # these two only where a label takes others away
    "government": lambda row: row["workclass"].endswith("-gov"),
    "age >= 60": least("age", 60),
}
LABELS: dict[str, tuple[Question, tuple[str, ...]]] = {  # and the questions that it would give away
    "income > 50K": (one_of("income", ">50K"), ()),
    "male": (QUESTIONS["male"], ("male",)),
    "hours >= 50": (QUESTIONS["hours >= 50"], ("hours >= 40", "hours >= 50")),
}
PLANTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "conjunctions": lambda x: x[0] & x[2] & x[5],
    "disjunctions": lambda x: x[0] | x[2] | x[5],
    "parities": lambda x: x[0] ^ x[2] ^ x[5],
    "halfspaces": lambda x: x[[0, 2, 4, 5, 7]].sum(axis=0) >= 3,
    "decision-lists": lambda x: np.select(
        [x[0] == 1, x[2] == 0, x[5] == 1, x[7] == 1], [1, 0, 1, 0], 1
    ),
}


@dataclass(frozen=True, eq=False)
class Table:
    """Attributes and labels of all rows, in a public random order."""

    name: str
    names: list[str]
    bits: np.ndarray
    label: np.ndarray

    @lru_cache(maxsize=8)  # noqa: B019
    def rows(self, n: int, d: int) -> Labelled:
        return grouped(self.bits[:n, :d], self.label[:n])


def grouped(bits: np.ndarray, label: np.ndarray) -> Labelled:
    """Different points, and how many rows of either label each has."""
    points, where = np.unique(bits, axis=0, return_inverse=True)
    yes = np.bincount(where.reshape(-1), label, len(points)).astype(np.int64)
    return Labelled(points, np.bincount(where.reshape(-1), minlength=len(points)) - yes, yes)


@cache
def adult(label: str) -> Table:
    with gzip.open(paths("adult-raw")[0], "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted, given_away = LABELS[label]
    names = [name for name in QUESTIONS if name not in given_away][:20]
    order = np.random.default_rng(0).permutation(len(rows))
    bits = np.array([[QUESTIONS[name](row) for name in names] for row in rows], np.uint8)
    return Table(
        f"ADULT, {label}", names, bits[order], np.array([wanted(row) for row in rows], bool)[order]
    )


@cache
def planted(rules: str) -> Table:
    """Random points, the k-th one as frequent as 1/k; one label in ten is not the rule's."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, KINDS + 1)
    bits = rng.integers(0, 2, (KINDS, 20), np.uint8)[rng.choice(KINDS, MOST, p=share / share.sum())]
    label = np.asarray(PLANTED[rules](bits.T), bool) ^ (rng.random(MOST) < 0.1)
    return Table("planted", [f"x{j}" for j in range(20)], bits, label)


def table(data: str, rules: str) -> Table:
    """By the name that a point has for it: ``adult-raw, LABEL`` or ``planted``."""
    name, _, label = data.partition(", ")
    return adult(label) if name == "adult-raw" else planted(rules)


# ---------------------------------------------------------------------- classes


@dataclass(frozen=True)
class Case:
    """A class of rules; ``noise`` is where RSPM puts it, None for the exponential mechanism."""

    rules: str
    d: int
    width: int | None = 3
    signed: bool = True
    noise: str | None = None

    @property
    def of(self) -> RuleClass:
        more = {"bias": 2} if self.rules == "halfspaces" else {}
        return rule_class(
            self.rules, attributes=self.d, width=self.width, signed=self.signed, **more
        )

    @property
    def shown(self) -> str:
        return (
            f"{self.rules} of {self.d},"
            f" {f'width {self.width}' if self.width else 'whole'}{'' if self.signed else ', unsigned'}"
        )

    @property
    def method(self) -> str:
        which = f"width {self.width}" if self.width else "whole"
        return f"{'exponential' if self.noise is None else self.noise}, {which}"


def mistakes(rules: RuleClass, rule: Rule, rows: Labelled) -> int:
    labels = rules.predict(rule, rows.bits)
    return int(rows.no[labels].sum() + rows.yes[~labels].sum())


def all_mistakes(rules: RuleClass, rows: Labelled) -> np.ndarray:
    """Of every rule of a class."""
    costs: np.ndarray = counting_of(rules).costs(rows.points((1, 1))) + rows.yes.sum()
    return costs


def best(rules: RuleClass, rows: Labelled, work: float) -> int | None:
    """The fewest mistakes of any rule, by counting or by a solve; None without a proof."""
    try:
        return int(all_mistakes(rules, rows).min())
    except NotSupported:
        points = rows.points((1, 1))
        problem = Tilted(rules, rules.lift(points.bits), points.cost)
        solved = Cpsat(work=work).solve(problem)
        return (
            mistakes(rules, solved.rule, rows)
            if solved is not None and certified(problem, solved, 0)
            else None
        )


# ---------------------------------------------------------------------- learners


def perturbed(case: Case, rows: Labelled, epsilon: str, work: float) -> tuple[Rule | None, float]:
    """One RSPM as the meter's argmin makes it, and its CPU seconds."""
    assert case.noise is not None
    start = cpu_seconds()
    noisy = Perturbation(
        rules=case.of,
        on=NoiseOn(case.noise),
        weight=WEIGHT,
        gap=0,
        top=1,
        epsilon=Fraction(epsilon),
    )
    rule = solve(noisy, rows.points((1, 1), WEIGHT), Cpsat(work=work), Noise())
    return rule, cpu_seconds() - start


def by_learn(case: Case, table: Table, n: int, epsilon: str, work: float = 60) -> Learned:
    """The same through the front door."""
    columns = [f"a{j}" for j in range(case.d)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn(
            np.column_stack([table.bits[:n, : case.d], table.label[:n]]), schema=dict.fromkeys([*columns, "label"], 2), label="label",
            epsilon=epsilon, rules=case.rules, width=case.width, signed=case.signed, report=0, certifier=Cpsat(work=work),
            method="exponential" if case.noise is None else "rspm", noise_on=None if case.noise is None else NoiseOn(case.noise),
            parameters={"bias": 2} if case.rules == "halfspaces" else None,
        )  # fmt: skip
