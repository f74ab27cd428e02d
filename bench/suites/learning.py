"""Private rules: mistakes beyond those of the best rule, by counting and by a certified solver.

Tables: ADULT with 20 yes/no questions and three labels, and for each class a planted rule over 20
correlated bits, one label in ten wrong. The first n rows of a public random order are learnt
from; mistakes are counted on the same rows, beside those of the best rule of the same class.

    exponential   over every rule, by counting. Its law is known once all rules are counted: the
                  mean is exact, not simulated
    features      RSPM with noise on features of a rule, by CP-SAT; for classes with a width
    separators    RSPM with noise on a separator set, as published, by CP-SAT; for whole classes

A solve without a proof releases nothing: it is counted as not certified. Other classes than
conjunctions and disjunctions take CP-SAT long with 20 attributes, or are not proved, at 1,000
rows already (the part reach: one solve each, and the noise decides as well); for them RSPM gets
8.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from bench.clock import clock
from bench.grid import Grid, Line, Measure, Panel, Point, Suite, View

MOST = 48_842  # all of ADULT
SIZES = (1_000, 3_000, 10_000, 30_000, MOST)  # about three times as many each
SOLVED_SIZES = (1_000, 10_000, MOST)  # fewer: a solve takes long
EPSILONS = ("0.5", "1", "4")  # strict, usual and loose
WORK = 60.0  # CP-SAT's deterministic limit for a solve; --set work=... for another
LABELS = ("income > 50K", "male", "hours >= 50")  # with different shares of yes
# at 20 attributes CP-SAT proves the first two only
LITERALS, OTHERS = ("conjunctions", "disjunctions"), ("parities", "halfspaces", "decision-lists")

# ---------------------------------------------------------------------- measures


def problem(point: Point) -> tuple[Any, Any, Any]:
    """The class of rules, the table, and its first rows; listing suites needs no learner."""
    from bench import rules

    case = rules.Case(point["rules"], point["d"], point["width"], point["signed"], point["noise"])
    table = rules.table(point.data, case.rules)
    return case, table, table.rows(point["n"], case.d)


def line(case: Any, rows: Any, n: int, fewest: int | None) -> Line:
    share = None if fewest is None else fewest / n
    return {"class": case.shown, "mechanism": case.method, "points": len(rows.bits), "best": share}


def counted(point: Point) -> list[Line]:
    """Every rule once, and the law of the exponential mechanism at each epsilon."""
    from bench import rules

    (case, _, rows), n, lines = problem(point), point["n"], []
    with clock() as spent:
        costs = rules.all_mistakes(case.of, rows)
    values, members = np.unique(costs, return_counts=True)
    for epsilon in EPSILONS:
        weights = members * np.exp(-float(epsilon) / 2 * (values - values[0]))
        share = weights / weights.sum()
        high = values[np.searchsorted(np.cumsum(share), 0.95)]
        excess: Line = {
            "excess": float(share @ (values - values[0])) / n,
            "high": int(high - values[0]) / n,
        }
        setting: Line = {"epsilon": float(epsilon), "members": len(costs)}
        lines.append({**line(case, rows, n, int(values[0])), **setting, **excess, **spent.line})
    return lines


def solved(point: Point) -> list[Line]:
    """Some RSPM at each epsilon."""
    from bench import rules

    (case, _, rows), n, work, lines = problem(point), point["n"], point["work"], []
    fewest = rules.best(case.of, rows, work)
    for epsilon in EPSILONS:
        solves = [rules.perturbed(case, rows, epsilon, work) for _ in range(point["solves"])]
        wrong = [rules.mistakes(case.of, rule, rows) for rule, _ in solves if rule is not None]
        setting: Line = {
            "epsilon": float(epsilon),
            "certified": len(wrong),
            "cpu": float(np.mean([cpu for _, cpu in solves])),
        }
        one = {**line(case, rows, n, fewest), **setting}
        if wrong and fewest is not None:
            one |= {"excess": float(np.mean(wrong) - fewest) / n, "high": (max(wrong) - fewest) / n}
        lines.append(one)
        if not wrong:  # it will not be easier at another epsilon
            break
    return lines


def reach(point: Point) -> list[Line]:
    """What CP-SAT proves at 20 attributes in other classes; a no may be bad luck."""
    from bench import rules

    case, _, rows = problem(point)
    rule, cpu = rules.perturbed(case, rows, "1", point["work"])
    return [
        {
            **line(case, rows, point["n"], None),
            "epsilon": 1.0,
            "certified": int(rule is not None),
            "cpu": cpu,
        }
    ]


def law(point: Point) -> list[Line]:
    """That the law is the mechanism's: draws, and calls of ``learn``, against it."""
    from bench import rules
    from understudy.privacy.noise.samplers import Noise
    from understudy.privacy.noise.softmin import draw_least

    (case, table, rows), n = problem(point), point["n"]
    costs = rules.all_mistakes(case.of, rows)
    expected = counted(point)[1]["excess"]
    draws = [int(costs[draw_least(Noise(), costs, Fraction(1, 2))]) for _ in range(200)]
    asked = [
        rules.mistakes(case.of, rules.by_learn(case, table, n, "1").rule, rows) for _ in range(20)
    ]
    lines = []
    for how, got in (("200 draws", draws), ("20 calls of learn", asked)):
        error = float(np.std(got)) / np.sqrt(len(got)) / n
        measured: Line = {
            "check": how,
            "mean_excess": (float(np.mean(got)) - int(costs.min())) / n,
            "error": error,
        }
        lines.append({**line(case, rows, n, int(costs.min())), **measured, "law": expected})
    return lines


def noiseless(point: Point) -> list[Line]:
    """That RSPM with next to no noise finds the best rule."""
    from bench import rules

    case, _, rows = problem(point)
    fewest = rules.best(case.of, rows, point["work"])
    rule, cpu = rules.perturbed(case, rows, "10000", point["work"])
    got = None if rule is None else rules.mistakes(case.of, rule, rows)
    return [
        {
            **line(case, rows, point["n"], fewest),
            "epsilon": 10_000.0,
            "same": int(got == fewest),
            "cpu": cpu,
        }
    ]


def headline(point: Point) -> list[Line]:
    """Through ``learn``, on all of ADULT: CPU seconds, the child's included."""
    from bench import rules

    case, table, rows = problem(point)
    # compiles
    rules.by_learn(rules.Case("conjunctions", 8, case.width, noise=case.noise), table, 1_000, "1")
    with clock() as spent:
        learnt = rules.by_learn(case, table, point["n"], "1", point["work"])
    return [
        {
            **line(case, rows, point["n"], None),
            **spent.line,
            "rule": case.of.words(learnt.rule, table.names),
        }
    ]


# ---------------------------------------------------------------------- grids


def case(
    rules: str, d: int, width: int | None = 3, signed: bool = True, noise: str | None = None
) -> dict[str, Any]:
    return {"rules": rules, "d": d, "width": width, "signed": signed, "noise": noise}


# what can be listed: 20 attributes, and 8 for comparison with solves
COUNTED = [
    *(case(rules, 20) for rules in (*LITERALS, *OTHERS)),
    *(case(rules, 20, None, signed=False) for rules in LITERALS),
    case("parities", 20, None),
    *(case(rules, 8) for rules in OTHERS),
    case("parities", 8, None),
    case("halfspaces", 8, None),
]
# 8 attributes: what CP-SAT proves of these classes
SMALL = [
    *(case(rules, 8, noise="features") for rules in OTHERS),
    *(case(rules, 8, None, noise="separators") for rules in OTHERS[:2]),
]
# 20 attributes, with the noise on either side
LARGE = [
    one
    for rules in LITERALS
    for one in (case(rules, 20, noise="features"), case(rules, 20, None, noise="separators"))
]
# one solve each: whether it is proved at all
REACH = [
    *(
        case(rules, 20, None if on == "separators" else 3, noise=on)
        for rules in OTHERS
        for on in ("features", "separators")
    ),
    case("decision-lists", 8, None, noise="separators"),
]


def grid(
    part: str,
    measure: Measure,
    cases: Iterable[dict[str, Any]],
    sizes: Iterable[int],
    labels: int,
    **more: Any,
) -> Grid:
    data = [f"adult-raw, {label}" for label in LABELS[:labels]]
    settings = [{**one, "n": n, **more} for one in cases for n in sizes]
    return Grid(
        measure=measure,
        part=part,
        data=data if part in ("headline", "law") else [*data, "planted"],
        settings=settings,
    )


# attributes of each class in the plots
KIND = {"conjunctions": 20, "disjunctions": 20, "parities": 8, "halfspaces": 8, "decision-lists": 8}
CLASS = ("class", "data", "mechanism", "n", "epsilon")  # a line of a table for each
SUITE = Suite(
    grids=[
        grid("law", law, [case("conjunctions", 20)], SIZES[:1], 1),
        grid("noiseless", noiseless, [*SMALL, *LARGE], SIZES[:1], 1, work=WORK),
        grid("headline", headline, LARGE[:2], [MOST], 1, work=WORK),
        grid("counting", counted, COUNTED, SIZES, len(LABELS)),
        grid("small", solved, SMALL, SOLVED_SIZES, 1, work=WORK, solves=3),
        grid("large", solved, LARGE, SOLVED_SIZES, 1, work=WORK, solves=3),
        grid("reach", reach, REACH, SIZES[:1], 1, work=WORK),
    ],
    views=[
        View(
            title="solved and certified through learn, on all of ADULT",
            part="headline",
            by=("class", "mechanism", "n"),
            shows={"rule": ""},
        ),
        *(
            View(
                title=f"{part}: mistakes beyond the best rule's, as a share of rows",
                part=part,
                by=CLASS,
                shows={"best": ".2%", "excess": ".2%", "high": ".2%", "certified": ".0f"},
            )
            for part in ("counting", "small", "large")
        ),
        View(
            title="one solve each, epsilon 1",
            part="reach",
            by=(*CLASS, "points", "work"),
            shows={"certified": ".0f"},
        ),
        View(
            title="the law against draws",
            part="law",
            by=("class", "check"),
            shows={"mean_excess": ".4f", "error": ".4f", "law": ".4f"},
        ),
        View(
            title="RSPM at epsilon 10,000 found the best rule",
            part="noiseless",
            by=("class", "data", "mechanism"),
            shows={"same": ".0f"},
        ),
    ],
    panels=[
        Panel(
            x="n",
            y=("excess",),
            title=f"{kind}, d = {d}, {data}",
            where={"data": data, "rules": kind, "d": d},
            dash="epsilon",
            yscale="symlog",
        )
        for data in ("adult-raw, income > 50K", "planted")
        for kind, d in KIND.items()
    ],
    across=len(KIND),
)
