"""Private rules: how many more mistakes than the best rule of the same class, by counting and by a certified solver.

    python -m bench.learning [--plot docs/learning.svg] [--parts check headline counting small large reach] [--work 60] [--redraw]

Tables: ADULT with 20 yes/no questions and three labels (skipped, with a reason, when the comparison data is not beside the
checkout), and for each class a planted rule over 20 correlated bits, one label in ten wrong. The first n rows of a public
random order are learnt from; mistakes are counted on the same rows, beside those of the best rule of the same class.

    exponential   over every rule, by counting. Its law is known once all rules are counted, so the mean is exact, not simulated
    features      RSPM with noise on features of a rule, by CP-SAT; for classes with a width
    separators    RSPM with noise on a separator set, as published, by CP-SAT; for whole classes

CPU seconds are those of this process and of its children. A solve without a proof releases nothing: it is counted as not
certified. Other classes than conjunctions and disjunctions take CP-SAT long with 20 attributes, or are not proved, at 1,000 rows
already (the part "reach": one solve each, and the noise decides as well); for them RSPM gets 8. Results go to a JSON file
beside the plot, which ``--redraw`` prints and draws again; a run of some ``--parts`` replaces those parts only.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.accuracy import SHARED
from bench.oracles import cpu_seconds
from bench.rivals import ROOT, interpreter
from understudy.errors import NotSupported
from understudy.learning.base import Rule, RuleClass
from understudy.learning.certifiers import Cpsat, Tilted, certified
from understudy.learning.counting import counting_of
from understudy.learning.learn import Learned, learn, rule_class
from understudy.privacy.argmin import Labelled, NoiseOn, Perturbation, solve
from understudy.privacy.noise import Noise
from understudy.privacy.softmin import draw_least

PLOT = ROOT / "bench" / "learning_plot.py"
ADULT = SHARED / "data" / "adult" / "adult-raw.csv.gz"
MOST = 48_842
SIZES = (1_000, 3_000, 10_000, 30_000, MOST)
SOLVED_SIZES = (1_000, 10_000, MOST)
EPSILONS = ("0.5", "1", "4")
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
    "government": lambda row: row["workclass"].endswith("-gov"),  # these two only where a label takes others away
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
    "decision-lists": lambda x: np.select([x[0] == 1, x[2] == 0, x[5] == 1, x[7] == 1], [1, 0, 1, 0], 1),
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
    with gzip.open(ADULT, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted, given_away = LABELS[label]
    names = [name for name in QUESTIONS if name not in given_away][:20]
    order = np.random.default_rng(0).permutation(len(rows))
    bits = np.array([[QUESTIONS[name](row) for name in names] for row in rows], np.uint8)
    return Table(f"ADULT, {label}", names, bits[order], np.array([wanted(row) for row in rows], bool)[order])


@cache
def planted(rules: str) -> Table:
    """Kinds of people are random points, the k-th one as frequent as 1/k; the label is that of the planted rule, or with chance 0.1 not."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, KINDS + 1)
    bits = rng.integers(0, 2, (KINDS, 20), np.uint8)[rng.choice(KINDS, MOST, p=share / share.sum())]
    label = np.asarray(PLANTED[rules](bits.T), bool) ^ (rng.random(MOST) < 0.1)
    return Table("planted", [f"x{j}" for j in range(20)], bits, label)


def tables(rules: str, labels: int = len(LABELS)) -> list[Table]:
    return [*(adult(label) for label in list(LABELS)[:labels] if ADULT.exists()), planted(rules)]


# ---------------------------------------------------------------------- classes


@dataclass(frozen=True)
class Case:
    """A class of rules; ``noise`` is where RSPM puts it, None for the exponential mechanism."""

    rules: str
    d: int
    width: int | None = 3
    signed: bool = True
    noise: NoiseOn | None = None

    @property
    def of(self) -> RuleClass:
        more = {"bias": 2} if self.rules == "halfspaces" else {}
        return rule_class(self.rules, attributes=self.d, width=self.width, signed=self.signed, **more)

    @property
    def shown(self) -> str:
        return f"{self.rules} of {self.d}, {f'width {self.width}' if self.width else 'whole'}{'' if self.signed else ', unsigned'}"

    @property
    def method(self) -> str:
        return "exponential" if self.noise is None else str(self.noise)


LITERALS, OTHERS = ("conjunctions", "disjunctions"), ("parities", "halfspaces", "decision-lists")
FEATURES, SEPARATORS = NoiseOn.FEATURES, NoiseOn.SEPARATORS
COUNTED = [
    *(Case(rules, 20) for rules in (*LITERALS, *OTHERS)),
    *(Case(rules, 20, None, signed=False) for rules in LITERALS),
    Case("parities", 20, None),
    *(Case(rules, 8) for rules in OTHERS),
    Case("parities", 8, None),
    Case("halfspaces", 8, None),
]
SMALL = [*(Case(rules, 8, noise=FEATURES) for rules in OTHERS), *(Case(rules, 8, None, noise=SEPARATORS) for rules in OTHERS[:2])]
LARGE = [case for rules in LITERALS for case in (Case(rules, 20, noise=FEATURES), Case(rules, 20, None, noise=SEPARATORS))]
REACH = [
    *(Case(rules, 20, None if on is SEPARATORS else 3, noise=on) for rules in OTHERS for on in (FEATURES, SEPARATORS)),
    Case("decision-lists", 8, None, noise=SEPARATORS),
]


def mistakes(of: RuleClass, rule: Rule, rows: Labelled) -> int:
    said = of.predict(rule, rows.bits)
    return int(rows.no[said].sum() + rows.yes[~said].sum())


def all_mistakes(of: RuleClass, rows: Labelled) -> np.ndarray:
    """Of every rule of a class."""
    costs: np.ndarray = counting_of(of).costs(rows.points((1, 1))) + rows.yes.sum()
    return costs


def best(of: RuleClass, rows: Labelled, work: float) -> int | None:
    """The fewest mistakes of any rule: by counting or, for a class too large for that, by a solve without noise; None without a proof."""
    try:
        return int(all_mistakes(of, rows).min())
    except NotSupported:
        points = rows.points((1, 1))
        problem = Tilted(of, of.lift(points.bits), points.cost)
        found = Cpsat(work=work).solve(problem)
        return mistakes(of, found.rule, rows) if found is not None and certified(problem, found, 0) else None


# ---------------------------------------------------------------------- parts


def counted(case: Case, table: Table, n: int) -> list[dict[str, Any]]:
    of, rows = case.of, table.rows(n, case.d)
    start = cpu_seconds()
    costs = all_mistakes(of, rows)
    cpu = cpu_seconds() - start
    values, members = np.unique(costs, return_counts=True)
    found = []
    for epsilon in EPSILONS:
        weights = members * np.exp(-float(epsilon) / 2 * (values - values[0]))
        share = weights / weights.sum()
        high = values[np.searchsorted(np.cumsum(share), 0.95)]
        found.append(line(case, table, n, epsilon, int(values[0])) | {
            "excess": float(share @ (values - values[0])) / n, "high": int(high - values[0]) / n, "cpu": cpu, "rules": len(costs),
        })  # fmt: skip
    return found


def perturbed(case: Case, rows: Labelled, epsilon: str, work: float) -> tuple[Rule | None, float]:
    """One RSPM as the meter's argmin makes it, and its CPU seconds."""
    assert case.noise is not None
    start = cpu_seconds()
    noisy = Perturbation(of=case.of, on=case.noise, weight=WEIGHT, gap=0, top=1, epsilon=Fraction(epsilon))
    rule = solve(noisy, rows.points((1, 1), WEIGHT), Cpsat(work=work), Noise())
    return rule, cpu_seconds() - start


def solved(case: Case, table: Table, n: int, runs: int, work: float) -> list[dict[str, Any]]:
    rows, found = table.rows(n, case.d), []
    fewest = best(case.of, rows, work)
    for epsilon in EPSILONS:
        made = [perturbed(case, rows, epsilon, work) for _ in range(runs)]
        wrong = [mistakes(case.of, rule, rows) for rule, _ in made if rule is not None]
        one = line(case, table, n, epsilon, fewest) | {"runs": runs, "certified": len(wrong), "cpu": float(np.mean([c for _, c in made]))}
        if wrong and fewest is not None:
            one |= {"excess": float(np.mean(wrong) - fewest) / n, "high": (max(wrong) - fewest) / n}
        found.append(one)
        if not wrong:  # it will not be easier at another epsilon
            break
    return found


def line(case: Case, table: Table, n: int, epsilon: str, fewest: int | None) -> dict[str, Any]:
    named = {"class": case.shown, "kind": case.rules, "d": case.d, "width": case.width, "method": case.method, "table": table.name}
    return named | {"points": len(table.rows(n, case.d).bits), "n": n, "epsilon": epsilon, "best": None if fewest is None else fewest / n}


def by_learn(case: Case, table: Table, n: int, epsilon: str, work: float = 60) -> Learned:
    """The same through the front door."""
    columns = [f"a{j}" for j in range(case.d)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn(
            np.column_stack([table.bits[:n, : case.d], table.label[:n]]), schema=dict.fromkeys([*columns, "label"], 2), label="label",
            epsilon=epsilon, rules=case.rules, width=case.width, signed=case.signed, report=0, certifier=Cpsat(work=work),
            method="exponential" if case.noise is None else "rspm", noise_on=case.noise,
            parameters={"bias": 2} if case.rules == "halfspaces" else None,
        )  # fmt: skip


def check(work: float) -> list[dict[str, Any]]:
    """That the law is the mechanism's, and that RSPM with next to no noise finds the best rule."""
    found = []
    case, n = Case("conjunctions", 20), 1_000
    table = tables(case.rules, 1)[0]
    rows = table.rows(n, case.d)
    costs = all_mistakes(case.of, rows)
    drawn = [int(costs[draw_least(Noise(), costs, Fraction(1, 2))]) for _ in range(200)]
    asked = [mistakes(case.of, by_learn(case, table, n, "1").rule, rows) for _ in range(20)]
    law = counted(case, table, n)[1]["excess"]
    for how, got in (("200 draws", drawn), ("20 calls of learn", asked)):
        error = float(np.std(got)) / np.sqrt(len(got)) / n
        found.append({"check": f"exponential, {how}", "excess": (float(np.mean(got)) - costs.min()) / n, "law": law, "error": error})
    for case in [*SMALL, *LARGE]:
        for table in tables(case.rules, 1):
            rows = table.rows(n, case.d)
            fewest = best(case.of, rows, work)
            rule, _ = perturbed(case, rows, "10000", work)
            got = None if rule is None else mistakes(case.of, rule, rows)
            found.append({"check": f"{case.shown}, {case.method}, epsilon 10,000, {table.name}", "got": got, "best": fewest})
    return found


def headline(runs: int = 5) -> list[dict[str, Any]]:
    """Conjunctions of 20 attributes on all of ADULT, through ``learn``: CPU seconds, the child's included."""
    if not ADULT.exists():
        return []
    table = adult("income > 50K")
    by_learn(Case("conjunctions", 8, noise=FEATURES), table, 1_000, "1")  # compiles
    by_learn(Case("conjunctions", 8, None, noise=SEPARATORS), table, 1_000, "1")
    found = []
    for case in LARGE[:2]:
        clocked = []
        for _ in range(runs):
            start = cpu_seconds()
            learnt = by_learn(case, table, MOST, "1")
            clocked.append(cpu_seconds() - start)
        found.append(
            {"class": case.shown, "method": case.method, "n": MOST, "cpu": clocked, "last": case.of.words(learnt.rule, table.names)}
        )
    return found


def reach(work: float) -> list[dict[str, Any]]:
    """What CP-SAT proves at 20 attributes beyond conjunctions and disjunctions: one solve each, so a no may be bad luck."""
    found = []
    for case in REACH:
        table, n = tables(case.rules, 1)[0], SIZES[0]
        rule, cpu = perturbed(case, table.rows(n, case.d), "1", work)
        found.append(line(case, table, n, "1", None) | {"certified": int(rule is not None), "runs": 1, "work": work, "cpu": cpu})
        print(found[-1], file=sys.stderr)
    return found


# ---------------------------------------------------------------------- what is shown


def show(kept: dict[str, Any]) -> None:
    """Markdown. A cell holds the excess, in percent, at each epsilon."""
    for one in kept.get("headline", []):
        clocked = one["cpu"]
        print(
            f"**{one['class']}, {one['method']}, ADULT, n = {one['n']:,}, solved and certified:** {np.mean(clocked):.1f} CPU s "
            f"(of {len(clocked)} runs {min(clocked):.1f} to {max(clocked):.1f}); last rule: {one['last']}\n"
        )
    lines = [one for part in ("counting", "small", "large") for one in kept.get(part, [])]
    sizes = sorted({one["n"] for one in lines} & set(SOLVED_SIZES))
    print(
        f"Mistakes beyond the best rule of the class, in percent of rows, at epsilon {' / '.join(EPSILONS)}; mean of the law, or of runs.\n"
    )
    print(f"| class | table | method | best at n = {MOST:,} | {' | '.join(f'n = {n:,}' for n in sizes)} | CPU s | certified |")
    print("|---|---|---|--:|" + "--:|" * len(sizes) + "--:|--:|")
    for key in dict.fromkeys((one["class"], one["table"], one["method"]) for one in lines):
        own = [one for one in lines if (one["class"], one["table"], one["method"]) == key]
        cells = []
        for n in sizes:
            here = [one for one in own if one["n"] == n]
            said = [f"{100 * one['excess']:.2f}" if "excess" in one else "not certified" for one in here]
            cells.append(" / ".join(said))
        largest = [one for one in own if one["n"] == MOST] or own[-1:]
        top = largest[0]["best"]
        proofs = f"{sum(one['certified'] for one in own)} of {sum(one['runs'] for one in own)}" if "runs" in own[0] else ""
        cpu = f"{np.mean([one['cpu'] for one in largest]):.1f}"
        print(f"| {' | '.join(key)} | {'' if top is None else f'{100 * top:.2f}'} | {' | '.join(cells)} | {cpu} | {proofs} |")
    if kept.get("reach"):
        print("\n| one solve each, n = 1,000, epsilon 1 | noise on | points | limit of work | proved | CPU s |\n|---|---|--:|--:|---|--:|")
        for one in kept["reach"]:
            proved = "yes" if one["certified"] else "not certified"
            print(f"| {one['class']} | {one['method']} | {one['points']:,} | {one['work']:g} | {proved} | {one['cpu']:.1f} |")
    if kept.get("check"):
        print()
    for one in kept.get("check", []):
        if "law" in one:
            print(f"- {one['check']}: excess {one['excess']:.4f} +- {one['error']:.4f}, by its law {one['law']:.4f}")
        elif one["got"] is None or one["got"] != one["best"]:
            print(f"- {one['check']}: {one['got']} mistakes, at best {one['best']}")
    same = [one for one in kept.get("check", []) if "got" in one]
    if same:
        print(f"- RSPM at epsilon 10,000 found the best rule in {sum(one['got'] == one['best'] for one in same)} of {len(same)} cases")
    if not ADULT.exists():
        print("\nThe comparison data is not beside this checkout: ADULT was left out.")


PARTS = ("check", "headline", "counting", "small", "large", "reach")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int, default=3, help="of each RSPM")
    parser.add_argument("--work", type=float, default=60.0, help="CP-SAT's deterministic limit for a solve")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "learning.svg", help="the results go beside it, as .json")
    parser.add_argument("--redraw", action="store_true", help="run nothing: print and draw the results file")
    return parser.parse_args()


def written(kept: dict[str, Any]) -> str:
    """JSON with a line for each result."""
    lines = {
        part: [{k: round(v, 6) if isinstance(v, float) else v for k, v in one.items()} for one in found] for part, found in kept.items()
    }
    parts = [f'"{part}": [\n' + ",\n".join(json.dumps(one) for one in found) + "\n]" for part, found in lines.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    asked = arguments()
    if not asked.redraw and asked.parts != ["counting"]:
        Cpsat().check(Case("conjunctions", 20).of)  # says how to install it
    results = asked.plot.with_suffix(".json")
    kept: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}

    def keep(part: str, found: list[dict[str, Any]]) -> None:
        kept[part] = found
        results.write_text(written(kept))
        print(f"{part}: {len(found)} lines, {time.process_time():.0f} + {cpu_seconds() - time.process_time():.0f} CPU s", file=sys.stderr)

    for part in () if asked.redraw else asked.parts:
        if part == "check":
            keep(part, check(asked.work))
        elif part == "headline":
            keep(part, headline())
        elif part == "reach":
            keep(part, reach(asked.work))
        elif part == "counting":
            keep(part, [one for case in COUNTED for table in tables(case.rules) for n in SIZES for one in counted(case, table, n)])
        else:
            done = list[dict[str, Any]]()
            for case in SMALL if part == "small" else LARGE:
                for table in tables(case.rules, 1):
                    for n in SOLVED_SIZES:
                        done += solved(case, table, n, asked.runs, asked.work)
                        keep(part, done)
    show(kept)
    subprocess.run([interpreter("plots"), "-I", str(PLOT), str(results), str(asked.plot)], check=True)
    print(f"\ndrawn: {asked.plot}")


if __name__ == "__main__":
    main()
