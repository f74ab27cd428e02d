"""Exact laws: for every verb of the meter, how far apart its whole output laws are on a tiny table
and on each of its neighbours.

The laws are put together from what met noise in the real verb (:mod:`understudy.audit.watching`),
or by running the real code along every path of its noise. A law may not diverge by more than was
charged at any order; where the bound of the proof is tight, a pair of tables is among those tried
on which it must come close, so that twice the noise would be noticed as well as half of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from understudy.audit import branches
from understudy.audit.distributions import renyi
from understudy.audit.hooks import standing_in
from understudy.audit.noisy_steps import NoisyStep
from understudy.audit.rows import Row
from understudy.audit.watching import Ear
from understudy.counting.tally import Counts
from understudy.privacy import (
    Argmin,
    ArgminInBlocks,
    Certificate,
    Certify,
    Choice,
    MarginalScore,
    Measure,
    Measurement,
    Meter,
    Mistakes,
    ReleaseTotal,
    Resample,
    Residuals,
    Select,
    SelectMarginal,
    SoftArgmin,
    perturbation,
)
from understudy.privacy.accounting.accountant import ORDERS, Cost, total_cost
from understudy.privacy.learners import Certifier, Rule, Rules, Tilted
from understudy.privacy.learners import Solved as Certified
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.verbs.blocks import BlockPlan
from understudy.queries.attribute import Attribute
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.literals import Literal, all_of, any_of, parity
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric
from understudy.rules.base import RuleClass
from understudy.rules.conjunctions import Conjunctions
from understudy.rules.counting import counting_of
from understudy.rules.task import Task
from understudy.schema import Schema
from understudy.sources.memory import MemorySource

TINY = Schema.from_domain({"x": 2, "y": 2})  # four records, so that all outcomes can be listed
RECORDS = [
    np.array(record) for record in itertools.product(range(2), range(2))
]  # each that there is
BASE = np.array([[0, 0], [0, 1], [1, 1]])  # no two alike
EVEN = np.array([[0, 0]] * 10 + [[1, 1]] * 10)  # no row stands out
RENYI_ORDERS = (1.01, 2, 8, 64)  # the battery's bar (tools/audit.py), from near 1 to far out
REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE_ONE  # short, for the lists below
# the last with its columns turned, which a table must not mind
X, Y, BOTH = Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["y"]), Marginal.of(TINY, ["y", "x"])
# one query of each kind of function
LOGIC = Symmetric(
    (
        all_of(Literal(0, 1)),
        parity(Literal(0, 1), Literal(1, 1)),
        any_of(Literal(0, 0), Literal(1, 0)),
    )
)
BATCHES: list[QueryClass] = [X, BOTH, LOGIC]  # narrow, wide, and no table
# x is the only question and y the label, so that all rules can be listed
LABELLED = Task((Attribute(0, frozenset([1]), "x"),), Attribute(1, frozenset([1]), "y"))
# a missed yes costs four times a false one
DEAR = Task(LABELLED.attributes, LABELLED.label, (1, 4))
# The rows but one speak for "no" so clearly that noise has to speak for "yes" in all of them: there
# the bound of an argmin is met.
CLEAR = [np.array([[0, 0], [0, 0], [0, 0], record]) for record in RECORDS]
# large enough that nothing is refused
RICH = Cost(
    Fraction(10**9), tuple(Fraction(10**9) for _ in ORDERS), Fraction(9, 10), Fraction(10**9)
)
ALONE = np.array([[0, 0]] * 3)  # one more cell or less is occupied on a neighbour
ROUNDING = 1 + 1e-6  # pmfs are cut off far out, in floating point


def meter_on(
    rows: np.ndarray,
    relation: Neighbours = REPLACE,
    *,
    noise: Noise | None = None,
    play: Cost = RICH,
    certify: Fraction = Fraction(1, 8),
    source: MemorySource | None = None,
    trusts: Sequence[type] = (),
) -> Meter:
    source = source or MemorySource(rows, TINY)
    return Meter(
        source,
        neighbours=relation,
        play=play,
        certify=certify,
        noise=noise,
        trusts=trusts,
    )


def neighbours_of(rows: np.ndarray, relation: Neighbours) -> Iterator[np.ndarray]:
    """Every one of them."""
    if relation is REPLACE:
        for i, record in itertools.product(range(len(rows)), RECORDS):
            changed = rows.copy()
            changed[i] = record
            yield changed
    else:
        for i in range(len(rows)):
            yield np.delete(rows, i, axis=0)
        for record in RECORDS:
            yield np.vstack([rows, record])


# ---------------------------------------------------------------------- laws from what met noise


@dataclass(frozen=True)
class Law:
    """A verb, asked for something on a tiny table.

    ``tight`` is how much of the charge some neighbour must use at the orders ``tight_at``, so that
    the check is seen to see.
    """

    subject: str
    ask: Callable[[Meter], Any]
    rows: np.ndarray
    relations: tuple[Neighbours, ...] = (REPLACE, ADD)
    tight: float = 0.9
    tight_at: tuple[float, ...] = RENYI_ORDERS
    needs_total: bool = False  # whether the verb needs a released number of rows when n is private


def steps_of(
    law: Law, rows: np.ndarray, relation: Neighbours, total: int
) -> tuple[tuple[NoisyStep, ...], Cost]:
    """(what met noise, what was charged); a private n is released as ``total``, whatever the table."""
    ear = Ear()
    meter = meter_on(rows, relation, noise=ear)
    if law.needs_total and relation is ADD:
        ear.start(total=(len(rows), total))
        meter.ask(ReleaseTotal(rho=1))
    before = len(meter.events)
    ear.start()
    with standing_in(**ear.seams()):
        answer = law.ask(meter)
    return ear.heard(answer), total_cost(meter.events[before:])


def divergence(one: Sequence[Any], other: Sequence[Any], order: float) -> float:
    """Of everything that met noise, both ways round."""
    both = list(zip(one, other, strict=True))
    return max(sum(a.renyi(b, order) for a, b in both), sum(b.renyi(a, order) for a, b in both))


def allowed(cost: Cost, order: float) -> float:
    """What a charge allows at an order; of a curve, at the next order of its grid: no divergence
    falls with the order.
    """
    curve = (
        0.0
        if cost.curve is None
        else float(next(r for a, r in zip(ORDERS, cost.curve, strict=True) if a >= order))
    )
    return order * float(cost.rho) + curve


def check_law(law: Law, relation: Neighbours) -> Row:
    """One row for a verb and a relation."""
    base, charged = steps_of(law, law.rows, relation, len(law.rows))
    worst, runs, alike = dict.fromkeys(RENYI_ORDERS, 0.0), 0, True
    for other in neighbours_of(law.rows, relation):
        moved, also = steps_of(law, other, relation, len(law.rows))
        alike = (
            alike
            and charged == also
            and len(base) == len(moved)
            and all(a.same(b) for a, b in zip(base, moved, strict=True))
        )
        runs += 1
        if alike:
            for order in RENYI_ORDERS:
                worst[order] = max(
                    worst[order], divergence(base, moved, order) / allowed(charged, order)
                )
    return _row(law.subject, relation, worst, runs, law.tight, law.tight_at, alike)


def _row(
    subject: str,
    relation: Neighbours,
    worst: dict[float, float],
    runs: int,
    tight: float,
    tight_at: Sequence[float],
    alike: bool = True,
) -> Row:
    most, least = max(worst.values()), min(worst[order] for order in tight_at)
    detail = (
        f"divergence of {most:.4f} of the charge over orders"
        f" {', '.join(f'{order:g}' for order in worst)}"
    )
    if not alike:
        detail = "noise or charge depend on the table"
    elif most > ROUNDING:
        detail = f"the law diverges by {most:.3f} times what is charged"
    elif least <= tight:
        detail = (
            f"no neighbour uses more than {least:.3f} of the charge, where {tight} must be used:"
            " other noise than the proof's"
        )
    holds = alike and most <= ROUNDING and least > tight
    return Row(
        kind="law", subject=subject, relation=str(relation), pair="every neighbour of a tiny table", unit="of the charge",
        claimed=1.0, observed=most, runs=runs, holds=holds, detail=detail,
    )  # fmt: skip


def _answers(batches: Sequence[QueryClass], rows: int) -> list[Counts]:
    return [Counts(batch.size, np.full(batch.size, rows // batch.size)) for batch in batches]


def _measure(batch: QueryClass, m: Meter) -> Measurement:
    return m.ask(Measure(batches=[batch], rho=Fraction(1, 40)))[0]


def _select(rho: Fraction, **how: Any) -> Callable[[Meter], Any]:
    return lambda m: m.ask(Select(batches=[X], shares=[np.array([0.5, 0.5])], rho=rho, **how))


def _select_apart(m: Meter) -> list[Choice]:
    """One row makes the answers to one batch worse and those to the other better: without signs,
    both cells of a batch move alike.
    """
    return m.ask(
        Select(batches=[X, Y], shares=[np.array([0.4, 0.6]), np.array([0.6, 0.4])], rho=FINE)
    )


def _twice(ask: Callable[[Meter], Any]) -> Callable[[Meter], Any]:
    return lambda m: [ask(m), ask(m)]


def _select_marginal(score: MarginalScore, rho: Fraction, **how: Any) -> Callable[[Meter], Any]:
    answers = [Counts(2, np.array([10, 10])), Counts(2, np.array([12, 8]))]
    return lambda m: m.ask(
        SelectMarginal(batches=[X, Y], answers=answers, answer_rows=20, rho=rho, score=score, **how)
    )


def _select_over_classes(m: Meter) -> list[Choice]:
    shares = [np.full(batch.size, 0.4) for batch in BATCHES]
    return m.ask(Select(batches=BATCHES, shares=shares, rho=Fraction(1, 10), signed=True))


def _certify(m: Meter) -> Certificate:
    batches = [X, BOTH]
    return m.ask(Certify(batches=batches, answers=_answers(batches, 20), released_rows=20))


def _soft_argmin(task: Task) -> Callable[[Meter], Any]:
    counting = counting_of(Conjunctions(attributes=1))
    return lambda m: m.ask(SoftArgmin(task=task, counting=counting, epsilon=Fraction(1, 20)))


def _mistakes(task: Task) -> Callable[[Meter], Any]:
    of = Conjunctions(attributes=1)
    return lambda m: m.ask(Mistakes(task=task, rules=of, rule=(0,), epsilon=Fraction(1, 20)))


FINE = Fraction(1, 2000)  # where an exponential mechanism is close to what its charge allows
NEAR = (1.01, 2)  # and at which orders
LAWS: tuple[Law, ...] = (
    *(Law(f"measure {batch.kind} of {batch.size}", partial(_measure, batch), BASE,
          tight=0.3 if batch.as_table() is None else 0.9) for batch in BATCHES),
    Law("measure, three times", lambda m: [_measure(X, m), _measure(BOTH, m), _measure(X, m)], BASE),
    Law("measure_all", lambda m: m.ask(Measure(batches=[X, Y], rho=Fraction(1, 20), weights=[1, 3])), BASE),
    Law("measure_all, equal weights", lambda m: m.ask(Measure(batches=[X, Y, BOTH], rho=Fraction(1, 20))), BASE),
    Law("measure_all, one batch twice", lambda m: m.ask(Measure(batches=[X, BOTH, X], rho=Fraction(1, 20), weights=[2, 1, 2])), BASE),
    Law("measure, sparse", lambda m: m.ask(Measure(batches=[BOTH], rho=Fraction(1, 40), sparse=True, kept=1))[0], ALONE),
    Law("release_total", lambda m: m.ask(ReleaseTotal(rho=Fraction(1, 30))), BASE, relations=(ADD,)),
    Law("measure_residuals", lambda m: m.ask(Residuals(batches=[X, Y, BOTH], sigmas=[Fraction(6), Fraction(9), Fraction(15, 2)])), BASE),
    Law("measure_residuals, one of them twice", lambda m: m.ask(Residuals(batches=[X, Y, X], sigmas=[Fraction(6)] * 3)), BASE),
    Law("select", _select_apart, EVEN, relations=(REPLACE,), tight_at=NEAR),
    Law("select, signed", _select(FINE, signed=True), EVEN, relations=(REPLACE,), tight_at=NEAR),
    Law("select, private n", _select(FINE, signed=True), EVEN, relations=(ADD,), tight=0.2, tight_at=NEAR, needs_total=True),
    Law("select, several", _select(FINE, signed=True, multiplier=3, draws=2), EVEN, relations=(REPLACE,), tight_at=NEAR),
    Law("select, twice", _twice(_select(FINE, signed=True)), EVEN, relations=(REPLACE,), tight_at=NEAR),
    Law("select, distinct", _select(FINE, signed=True, draws=2, distinct=True), EVEN, relations=(REPLACE,), tight=0.4, tight_at=NEAR),
    Law("select over classes", _select_over_classes, BASE,
        tight=0.1, tight_at=NEAR, needs_total=True),
    *(Law(f"select_marginal, {score}", _select_marginal(score, FINE), EVEN, relations=(REPLACE,), tight_at=NEAR)
      for score in MarginalScore),
    *(Law(f"select_marginal, {score}, weighted", _select_marginal(score, Fraction(1, 10), weights=[3, 1], penalties=[0, 1], draws=2), EVEN,
          tight=0.05, tight_at=NEAR, needs_total=True) for score in MarginalScore),
    Law("select_marginal, equal weights, twice", _twice(_select_marginal(MarginalScore.LARGEST, FINE, weights=[2, 2])), EVEN,
        relations=(REPLACE,), tight_at=NEAR),
    Law("select_marginal, floors", _select_marginal(MarginalScore.TOTAL, FINE, floors=[1, 0]), EVEN, relations=(REPLACE,),
        tight=0.2, tight_at=NEAR),
    Law("certify", _certify, np.array([[0, 0]] * 15 + [[1, 1]] * 5), needs_total=True),
    Law("soft_argmin", _soft_argmin(LABELLED), CLEAR[0],
        relations=(REPLACE,), tight=0.7, tight_at=NEAR),
    Law("soft_argmin, costs apart", _soft_argmin(DEAR), CLEAR[0],
        relations=(REPLACE,), tight=0.2, tight_at=NEAR),
    Law("mistakes, twice", _twice(_mistakes(DEAR)), CLEAR[0],
        relations=(REPLACE,), tight_at=NEAR),
    Law("mistakes", _mistakes(LABELLED), CLEAR[0],
        relations=(REPLACE,), tight_at=NEAR),
)  # fmt: skip


# ---------------------------------------------------------------------- laws by every path


@dataclass(frozen=True)
class Slots:
    """Slots of ``resample``, asked for something on a tiny table."""

    subject: str
    rows: np.ndarray
    batches: tuple[QueryClass, ...]
    shares: tuple[np.ndarray, ...]
    choices: tuple[Choice, ...]
    settings: dict[str, Any]
    calls: int = 1
    tight: float = 0.1


def resample_law(slots: Slots) -> Row:
    """Every coin and every draw."""
    charged: list[Cost] = []

    def run(table: np.ndarray, noise: Noise) -> Any:
        meter, choices, outcomes = meter_on(table, noise=noise), list(slots.choices), []
        for _ in range(slots.calls):
            hits = [i % 2 == 0 for i in range(len(choices))]
            choices = meter.ask(
                Resample(
                    batches=slots.batches,
                    shares=slots.shares,
                    choices=choices,
                    satisfied=hits,
                    **slots.settings,
                )
            )
            outcomes.append(
                tuple(
                    (slots.batches.index(choice.batch), choice.index, choice.sign)
                    for choice in choices
                )
            )
        charged.append(total_cost(meter.events))
        return tuple(outcomes)

    base = branches.law(partial(run, slots.rows))
    worst, runs = dict.fromkeys(RENYI_ORDERS, 0.0), 0
    for other in neighbours_of(slots.rows, REPLACE):
        moved = branches.law(partial(run, other))
        p, q = (np.array([law[o] for o in base]) for law in (base, moved))
        runs += 1
        for order in RENYI_ORDERS:
            gap = max(renyi(p, q, order), renyi(q, p, order))
            worst[order] = max(worst[order], gap / allowed(charged[0], order))
    return _row(
        slots.subject,
        REPLACE,
        worst,
        runs,
        slots.tight,
        NEAR,
        alike=all(cost == charged[0] for cost in charged),
    )


# one of the two implies the other
TWO = Symmetric((all_of(Literal(0, 1)), all_of(Literal(0, 1), Literal(1, 1))))
# one record twice, and shares off by a little
FOUR_ROWS, SHARES = np.array([[0, 0], [0, 1], [1, 1], [1, 1]]), (np.array([0.6, 0.3]),)
# settings whose charge is rarely met
RARELY = {"kappa": Fraction(1, 8), "gamma": Fraction(1), "records": 1}
SLOTS = (
    # Two slots, two queries and their negations. The charge is a curve, and rarely met.
    Slots("resample", FOUR_ROWS, (TWO,), SHARES, (Choice(TWO, 0), Choice(TWO, 1, -1)), RARELY),
    Slots("resample, twice", FOUR_ROWS, (TWO,), SHARES, (Choice(TWO, 0),), RARELY, calls=2),
    Slots("resample, several batches", FOUR_ROWS, (X, TWO), (np.array([0.5, 0.5]), *SHARES), (Choice(TWO, 0, -1),), RARELY),
    # A slot that is never kept is a plain draw at sharpness kappa times the records: there the
    # charge for so many records is met.
    *(Slots(f"resample, never kept, {t} records", EVEN, (X,), (np.array([0.5, 0.5]),), (Choice(X, 0),),
            {"kappa": Fraction(1, 60 * t), "gamma": Fraction(64), "records": t}, tight=tight)
      for t, tight in ((1, 0.7), (2, 0.85), (4, 0.9))),
    # One that is mostly kept, as far from its query as can be: how often it is replaced is what the
    # charge rests on.
    Slots("resample, mostly kept, 40 records", np.array([[0, 0]] * 19 + [[1, 1]]), (X,), (np.array([0.95, 0.05]),), (Choice(X, 1),),
          {"kappa": Fraction(1, 200), "gamma": Fraction(1, 20), "records": 40}, tight=0.6),
)  # fmt: skip


@dataclass(frozen=True)
class Adversary(Certifier):
    """Looks at every rule and returns, of those within the gap, the first or the last: the worst
    that ties can do.
    """

    last: bool
    gap: int = 0

    name: ClassVar[str] = "adversary"
    condition: ClassVar[str | None] = None

    def check(self, rules: Rules) -> None:
        """Any class."""

    def solve(self, problem: Tilted) -> Certified:
        worth = {rule: problem.value(rule) for rule in problem.rules.rules()}
        least = min(worth.values())
        allowed = sorted(rule for rule, value in worth.items() if value <= least + self.gap)
        rule = allowed[-1 if self.last else 0]
        return Certified(rule, worth[rule] - self.gap)


def argmin_law(
    meter: Meter, task: Task, rules: RuleClass, certifier: Certifier, **settings: Any
) -> dict[Rule, float]:
    """The law of what ``Argmin`` returns: the meter prepares everything once, and the rest is
    run for every value of the noise.
    """
    prepared: list[Any] = []

    def keep(how: Any, points: Any, by: Certifier, noise: Noise) -> Rule:
        prepared.append((how, points))
        return next(iter(rules.rules()))

    with standing_in(solve=keep):
        meter.ask(Argmin(task=task, rules=rules, certifier=certifier, **settings))
    total: dict[Any, float] = {}
    how, points = prepared[0]
    for outcome, chance in branches.paths(
        lambda noise: perturbation.solve(how, points, certifier, noise)
    ):
        assert outcome is not None
        total[outcome] = total.get(outcome, 0.0) + chance
    assert 1 - sum(total.values()) < 1e-4
    return total


def worst_ratio(laws: Sequence[dict[Any, float]]) -> float:
    """The largest log-ratio between two laws."""
    outcomes = {outcome for law in laws for outcome in law}
    return max(
        math.log(max(one.get(o, 0.0), 1e-300) / max(other.get(o, 0.0), 1e-300))
        for one, other in itertools.permutations(laws, 2)
        for o in outcomes
        if one.get(o, 0.0) > 1e-3  # rarer than that, the window's end shows
    )


def argmin_row(noise_on: str, weight: int, gap: int, epsilon: Fraction = Fraction(2)) -> Row:
    """Pure epsilon, the order infinity, under adversarial ties: they may fall one way on a table
    and the other way on its neighbour.
    """
    width = 1 if noise_on == "features" else None
    rules = Conjunctions(attributes=1, signed=False, width=width)
    settings = {"epsilon": epsilon, "weight": weight, "gap": gap, "noise_on": noise_on}
    laws = [
        argmin_law(
            meter_on(rows, trusts=[Adversary]), LABELLED, rules, Adversary(last, gap), **settings
        )
        for rows in CLEAR
        for last in (False, True)
    ]
    used = worst_ratio(laws) / float(epsilon)
    tight = 0.9
    holds = tight < used <= 1 + 1e-3
    detail = (
        f"log-ratio of {used:.4f} of epsilon, under adversarial ties"
        if holds
        else f"the log-ratio is {used:.3f} times the epsilon charged"
    )
    return Row(
        kind="law", subject=f"argmin, noise on {noise_on}, gap {gap}", relation=str(REPLACE), pair="every neighbour of a tiny table",
        unit="of the charge", claimed=1.0, observed=used, runs=len(laws), holds=holds, detail=detail,
    )  # fmt: skip


class OnlyBlocks(Noise):
    """Branches for the order of the rows, the count of blocks and the choice among them; solvers
    get no noise at all.
    """

    def __init__(self, noise: Noise, scale: Fraction) -> None:
        super().__init__()
        self._plain, self._scale = noise, scale

    def below(self, bound: int) -> int:
        return self._plain.below(bound)

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        return (
            self._plain.laplace(size, scale) if scale == self._scale else np.zeros(size, np.int64)
        )


def toy_plan(
    rows: int, blocks: int, inner: Fraction = Fraction(1, 2), inner_delta: Fraction = Fraction(1, 4)
) -> BlockPlan:
    """So few blocks, one run in each, that every path can be followed; too few for a promise, which
    is not what is looked at.
    """
    return BlockPlan(
        rows=rows, epsilon=Fraction(2), delta=Fraction(1, 2), inner=inner, inner_delta=inner_delta,
        blocks=blocks, runs=1, block_rows=rows // blocks, run_epsilon=Fraction(1),
    )  # fmt: skip


def blocks_law(
    source: MemorySource, task: Task, rules: RuleClass, plan: BlockPlan, certifier: Certifier
) -> dict[Rule | None, float]:
    """The law of what ``ArgminInBlocks`` returns: over the order of the rows and the noise
    on the count, none for solvers.
    """

    def run(noise: Noise) -> Rule | None:
        meter = meter_on(
            np.zeros(0),
            noise=OnlyBlocks(noise, 1 / plan.inner),
            source=source,
            trusts=[type(certifier)],
        )
        return meter.ask(
            ArgminInBlocks(task=task, rules=rules, plan=plan, certifier=certifier, weight=1)
        )

    total: dict[Any, float] = {}
    with standing_in(plan_blocks=lambda *_: plan):
        for outcome, chance in branches.paths(run):
            total[outcome] = total.get(outcome, 0.0) + chance
    return total


@dataclass(frozen=True)
class Failing(Certifier):
    """Fails on every block that holds a row which ought to get a yes, as an adversary would have
    it.
    """

    name: ClassVar[str] = "failing"
    condition: ClassVar[str | None] = None

    def check(self, rules: Rules) -> None:
        """Any class."""

    def solve(self, problem: Tilted) -> Certified | None:
        return None if (problem.cost < 0).any() else Adversary(False).solve(problem)


def blocks_row() -> Row:
    """None, or a rule: one row decides whether its block passes, and the count of blocks that
    passed pays for that with ``inner``.
    """
    plan, rules = toy_plan(3, 3), Conjunctions(attributes=1, signed=False)
    tables = [np.array([[0, 0], [0, 0], record]) for record in RECORDS]
    every = [
        blocks_law(MemorySource(table, TINY), LABELLED, rules, plan, Failing()) for table in tables
    ]
    laws = [{"none": law.get(None, 0.0), "a rule": 1 - law.get(None, 0.0)} for law in every]
    used = worst_ratio(laws) / float(plan.inner)
    holds = 0.99 < used <= 1 + 1e-3
    detail = (
        f"log-ratio of {used:.4f} of what the count of blocks costs"
        if holds
        else f"the count of blocks tells {used:.3f} times its epsilon"
    )
    return Row(
        kind="law", subject="argmin_in_blocks, none or a rule", relation=str(REPLACE), pair="every neighbour of a tiny table",
        unit="of the charge", claimed=1.0, observed=used, runs=len(laws), holds=holds, detail=detail,
    )  # fmt: skip


def checks() -> list[tuple[str, Callable[[], Row]]]:
    """Every law, by name; each gives its row when it is called."""
    listed: list[tuple[str, Callable[[], Row]]] = []
    for law in LAWS:
        listed.extend(
            (f"{law.subject}, {relation}", partial(check_law, law, relation))
            for relation in law.relations
        )
    listed.extend((slots.subject, partial(resample_law, slots)) for slots in SLOTS)
    for noise_on, weight, gap in (("separators", 1, 0), ("features", 1, 0), ("separators", 1, 1)):
        listed.append(
            (f"argmin on {noise_on}, gap {gap}", partial(argmin_row, noise_on, weight, gap))
        )
    listed.append(("argmin_in_blocks, none or a rule", blocks_row))
    return listed
