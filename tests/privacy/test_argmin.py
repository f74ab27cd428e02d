"""Private learning in the room: exact laws of ``argmin``, what the published scales do, faults of
solvers, blocks, soft minima.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import understudy as us
from support.faulty_solvers import CERTIFIER_FAULTS, certifier_with
from support.laws import p_value
from understudy.audit.hooks import standing_in
from understudy.audit.laws import (
    CLEAR,
    LABELLED,
    Adversary,
    argmin_law,
    argmin_row,
    blocks_law,
    toy_plan,
    worst_ratio,
)
from understudy.errors import (
    BudgetRefused,
    NotCertified,
    NotSupported,
    ParameterError,
    ReleaseFailed,
)
from understudy.learning.learn import learn
from understudy.privacy import (
    Argmin,
    ArgminInBlocks,
    FileLedger,
    Meter,
    Mistakes,
    SoftArgmin,
)
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.accounting.events import ApproximateDP, ExponentialDraws, PerturbedArgmin
from understudy.privacy.labelled import Labelled
from understudy.privacy.learners import Certifier, Points, Rule, Rules, Solved, Tilted, certified
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.noise.softmin import draw_least, settled
from understudy.privacy.perturbation import NoiseOn, Perturbation, perturbation, solve
from understudy.privacy.verbs import blocks
from understudy.privacy.verbs.blocks import (
    BlockPlan,
    plan_blocks,
    solve_in_blocks,
    total_delta,
    total_epsilon,
)
from understudy.queries.attribute import Attribute
from understudy.queries.base import Neighbours
from understudy.rules import certifiers, prsma
from understudy.rules.base import Program, RuleClass
from understudy.rules.certifiers import Counted, Cpsat, Listing, certifier_of
from understudy.rules.conjunctions import Conjunctions
from understudy.rules.counting import counting_of
from understudy.rules.lists import DecisionLists
from understudy.rules.parities import Parities
from understudy.rules.task import Task
from understudy.sources.memory import MemorySource

ONE = us.Schema.from_domain({"x": 2, "y": 2})
LARGE = Cost(Fraction(10**9), delta=Fraction(9, 10))


def meter_on(
    rows: Any, noise: Noise | None = None, schema: us.Schema = ONE, **settings: Any
) -> Meter:
    given = {
        "neighbours": Neighbours.REPLACE_ONE,
        "play": LARGE,
        "certify": Fraction(0),
        "trusts": (Adversary, Recorder, TwoQueries),
        **settings,
    }
    return Meter(MemorySource(np.asarray(rows), schema), noise=noise, **given)


def law_of(
    rows: Any, of: RuleClass, task: Task, certifier: Certifier, **settings: Any
) -> dict[Rule, float]:
    return argmin_law(meter_on(rows), task, of, certifier, **settings)


# ---------------------------------------------------------------------- exact laws

NEIGHBOURS = [rows.tolist() for rows in CLEAR]


@pytest.mark.parametrize("noise_on", ["separators", "features"])
def test_the_exact_law_of_argmin_keeps_epsilon_with_mistakes_divided(noise_on: str) -> None:
    assert argmin_row(noise_on, weight=2, gap=0).held and argmin_row(noise_on, weight=1, gap=1).held


def test_the_exact_law_with_two_separators() -> None:
    of, task = Parities(attributes=1), LABELLED
    laws = [
        law_of(rows, of, task, Adversary(last), epsilon=Fraction(6), weight=1)
        for rows in NEIGHBOURS
        for last in (False, True)
    ]
    assert 0.8 * 6 < worst_ratio(laws) <= 6 + 1e-2


def test_the_exact_law_of_lists_shows_what_a_rule_says_and_not_how_it_was_written() -> None:
    # the list (0, 1, 1) says yes everywhere, as (1,) does
    of = DecisionLists(attributes=1, signed=False)
    laws = [
        law_of(rows, of, LABELLED, Adversary(last), epsilon=Fraction(8), weight=1)
        for rows in NEIGHBOURS
        for last in (False, True)
    ]
    assert worst_ratio(laws) <= 8 + 1e-2
    assert all(rule in ((0,), (1,), (0, 0, 1), (0, 1, 0)) for law in laws for rule in law)


def test_half_the_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Perturbation.scale.fget
    assert exact is not None
    monkeypatch.setattr(Perturbation, "scale", property(lambda self: exact(self) / 2))
    of = Conjunctions(attributes=1, signed=False)
    laws = [
        law_of(rows, of, LABELLED, Adversary(last), epsilon=Fraction(2), weight=1)
        for rows in NEIGHBOURS
        for last in (False, True)
    ]
    assert worst_ratio(laws) > 2.5


# ---------------------------------------------------------------------- what was published


@dataclass(frozen=True, kw_only=True)
class TwoQueries(RuleClass):
    """q_1 = "is a" and q_2 = "is b" over {a, b}; the point a alone tells them apart."""

    name: ClassVar[str] = "two queries"
    lifted: ClassVar[int] = 1  # type: ignore[misc]
    features: ClassVar[int] = 2  # type: ignore[misc]
    slots: ClassVar[int] = 1  # type: ignore[misc]

    def lift(self, bits: np.ndarray) -> np.ndarray:
        return np.asarray(bits, np.int8)

    def values(self, rule: Rule, lifted: np.ndarray) -> np.ndarray:
        said: np.ndarray = (lifted[:, 0] == 1) == (rule[0] == 1)
        return said

    def words(self, rule: Rule, names: Sequence[str]) -> str:
        return f"q_{rule[0]}"

    def rules(self) -> Iterator[Rule]:
        yield from ((1,), (2,))

    def asks(self, rule: Rule) -> set[int]:
        return {0}

    def contains(self, rule: Rule) -> bool:
        return rule in ((1,), (2,))

    def nearby(self, rule: Rule) -> Iterator[Rule]:
        return self.rules()

    def renamed(self, rule: Rule, attributes: Sequence[int], of: RuleClass) -> Rule:
        return rule

    def separators(self) -> np.ndarray:
        return np.ones((1, 1), np.int8)

    def rule_of(self, said: np.ndarray) -> Rule:
        return (1,) if said[0] else (2,)

    def features_of(self, rule: Rule) -> list[int]:
        return [rule[0] - 1]

    def dual_separators(self) -> list[Rule]:
        return [(1,)]

    def program(self, lifted: np.ndarray, cost: np.ndarray, bonus: np.ndarray | None) -> Program:
        raise NotImplementedError

    def rule_from(self, solution: np.ndarray) -> Rule:
        raise NotImplementedError


# a query pays one for each row that it counts
COUNTED = Task((Attribute(0, frozenset([1]), "is a"),), False)
TWO_TABLES = ([[1, 0], [1, 0]], [[1, 0], [0, 0]])  # (a, a) and (a, b)


def two_queries_ratio(weight: int) -> float:
    return worst_ratio(
        [
            law_of(
                t,
                TwoQueries(attributes=1),
                COUNTED,
                Adversary(False),
                epsilon=Fraction(1),
                weight=weight,
            )
            for t in TWO_TABLES
        ]
    )


def test_the_published_laplace_scale_gives_twice_epsilon_and_ours_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two_queries_ratio(10) <= 1 + 1e-4
    # Lap(m / epsilon)
    monkeypatch.setattr(
        Perturbation, "scale", property(lambda self: self.weight * self.slots / self.epsilon)
    )
    assert two_queries_ratio(10) > 1.85


def parity_chances(d: int, survive: float) -> tuple[float, float]:
    """P(odd) under n copies of 0^d, and under a table with one 1^d: an odd set of coordinates then
    costs one more.
    """
    return 0.5, 0.5 * survive**d


def test_the_published_gaussian_scale_fails_on_parities_and_ours_does_not() -> None:
    epsilon, delta = 1.0, 1e-6
    for d, excess in ((1000, 0.3), (300, 0.01)):
        sigma = 3.5 * math.sqrt(d * math.log(1 / delta)) / epsilon
        here, there = parity_chances(d, 2 * stats.norm.cdf(-1 / sigma))
        assert here - math.exp(epsilon) * there > excess > delta
        scale = float(
            Perturbation(
                rules=Parities(attributes=199, signed=False),
                on=NoiseOn.SEPARATORS,
                weight=1,
                gap=0,
                top=1,
                epsilon=Fraction(1),
            ).scale
        )
        scale *= d / 199  # one separator a coordinate
        here, there = parity_chances(d, math.exp(-1 / scale))
        assert here <= math.exp(epsilon) * there


def test_the_parity_formula_is_what_the_code_does() -> None:
    """Flipping the smallest noise escapes the cost of an odd set: P(odd) = P(no |eta_j| is small) /
    2.
    """
    of = Parities(attributes=3, signed=False)
    rows = np.array([[0, 0, 0]] * 3 + [[1, 1, 1]])
    scale = 6.0
    rng, odd = np.random.default_rng(0), 0
    counts = Points(rows[[0, 3]].astype(np.uint8), np.array([30, 10]))
    for _ in range(2000):
        eta = rng.laplace(0, 10 * scale, 3).round().astype(np.int64)
        problem = Tilted(
            of,
            np.concatenate([of.lift(counts.bits), of.separators()]),
            np.concatenate([counts.cost, eta]),
        )
        best = Listing().solve(problem)
        odd += len(best.rule) % 2 if best else 0
    _, expected = parity_chances(3, math.exp(-1 / scale))
    assert abs(odd / 2000 - expected) < 4 * math.sqrt(expected / 2000)


# ---------------------------------------------------------------------- replaying


@dataclass(frozen=True)
class Recorder(Certifier):
    """Keeps the problem that it was given, and answers as if nothing depended on it."""

    seen: list[Tilted]

    name: ClassVar[str] = "recorder"
    condition: ClassVar[str | None] = None

    def check(self, of: Rules) -> None:
        """Any class."""

    def solve(self, problem: Tilted) -> Solved | None:
        self.seen.append(problem)
        return Listing().solve(problem)


class Still(Noise):
    """The same number for all noise, so that it is found again and moves no rule against another
    between two tables.
    """

    EACH = 7

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        return np.full(size, self.EACH, np.int64)

    def geometric(self, size: int, scale: Fraction) -> np.ndarray:
        return np.full(size, self.EACH, np.int64)


@pytest.mark.parametrize("seed", range(40))
def test_replaying_on_a_neighbour_moves_rules_against_each_other_by_no_more_than_charged(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    schema = us.Schema.from_domain({"a": 2, "b": 3, "c": 2, "y": 2})
    rows = rng.integers(0, (2, 3, 2, 2), (12, 4))
    other = rows.copy()
    other[rng.integers(12)] = rng.integers(0, (2, 3, 2, 2))
    task = Task.of(
        schema, "y", ["a", "b = 1", "c"], costs=(int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    )
    of, weight, gap = Conjunctions(attributes=3), int(rng.integers(1, 9)), int(rng.integers(0, 3))
    seen: list[Tilted] = []
    events = []
    for table in (rows, other):
        meter = meter_on(table, Still(), schema)
        meter.ask(
            Argmin(
                task=task,
                rules=of,
                epsilon=Fraction(1),
                certifier=Recorder(seen),
                weight=weight,
                gap=gap,
            )
        )
        events.append(meter.events)
    assert events[0] == events[1]
    (event,) = events[0]
    assert isinstance(event, PerturbedArgmin)
    moved = [seen[1].value(rule) - seen[0].value(rule) for rule in of.rules()]
    assert max(moved) - min(moved) <= event.shift - 2 * gap - 1 == 2 * weight * max(task.costs)
    assert event.slots == len(of.separators()) and event.scale * 1 >= event.shift * event.slots
    for problem in seen:  # the same noise on the same public points, after the private ones
        assert (problem.lifted[-event.slots :] == of.separators()).all() and (
            problem.cost[-event.slots :] == Still.EACH
        ).all()


def test_what_a_solver_does_changes_no_charge() -> None:
    rows = NEIGHBOURS[0]
    charged = []
    for certifier in (Listing(), Adversary(True), Cpsat(work=1.0), Cpsat(work=99.0)):
        meter = meter_on(rows)
        meter.ask(
            Argmin(
                task=LABELLED,
                rules=Conjunctions(attributes=1),
                epsilon=Fraction(1),
                certifier=certifier,
            )
        )
        charged.append(total_cost(meter.events))
    assert len(set(charged)) == 1


# ---------------------------------------------------------------------- faults of solvers


@pytest.mark.parametrize("fault", CERTIFIER_FAULTS)
def test_a_faulty_solver_is_refused_and_its_charge_stays(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = certifier_with(CERTIFIER_FAULTS[fault], tmp_path)
    monkeypatch.setattr(certifiers, "COMMAND", command)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (200, 4))
    table = np.column_stack([x, x[:, 0] & x[:, 1]])
    schema = {**{f"x{i}": 2 for i in range(4)}, "y": 2}
    ledger = FileLedger(tmp_path / "ledger.jsonl")
    with pytest.raises(NotCertified, match="no proof") as refusal:
        learn(
            table,
            schema=schema,
            label="y",
            epsilon=5,
            method="rspm",
            certifier="cpsat",
            ledger=ledger,
        )
    assert "Alice" not in str(refusal.value) and refusal.value.__cause__ is None
    (charge,) = ledger.read().charges
    assert total_cost(charge.events).rho > Fraction(10)


def test_a_certificate_that_is_wrong_by_more_than_the_gap_is_refused() -> None:
    of = Conjunctions(attributes=8)  # too many rules to list: what is nearby speaks
    bits = np.random.default_rng(0).integers(0, 2, (60, 8), np.uint8)
    problem = Tilted(of, of.lift(bits), np.where(bits[:, 0] == 1, -5, 5).astype(np.int64))
    best = (0,)
    assert certified(problem, Solved(best, problem.value(best)), 0)
    assert not certified(problem, Solved((0, 1), problem.value((0, 1))), 0)
    # a bound further away than the gap
    assert not certified(problem, Solved(best, problem.value(best) - 3), 2)
    assert certified(problem, Solved(best, problem.value(best) - 3), 3)
    # a bound above a rule that exists
    assert not certified(problem, Solved(best, problem.value(best) + 1), 3)
    assert not certified(problem, Solved((0, 99), 0), 3) and not certified(problem, None, 3)


def test_a_true_proof_is_never_refused_for_rounding() -> None:
    """The solver's own bound may be an ulp off a whole number: once refused for that, and more
    often on some tables than on others.
    """
    pytest.importorskip("ortools")
    from understudy.oracles import child

    of = Conjunctions(attributes=1, signed=False)
    settings = {
        "work": np.float64(60),
        "wall": np.float64(600),
        "seed": np.int64(0),
        "hint": np.zeros(0, np.int64),
    }
    for eta in (
        9149,
        -5600,
        -6797,
        6104,
        5978,
        *np.random.default_rng(0).integers(-15_000, 15_000, 300).tolist(),
    ):
        problem = Tilted(of, np.array([[0], [1], [0]], np.int8), np.array([-7000, -1000, eta]))
        program = of.program(problem.lifted, problem.cost, None)
        answer = {
            name: np.asarray(value)
            for name, value in child.solve_cpsat({**program.arrays(), **settings}).items()
        }
        assert certified(
            problem, certifiers._read(of, program.constant, len(program.gain), answer), 0
        )


@pytest.mark.parametrize(
    "rubbish",
    [Solved(None, 0), Solved((0.5,), 0), Solved(("a",), 0), "nonsense", Solved((0,), math.nan)],
)  # type: ignore[arg-type]
def test_whatever_a_certifier_returns_is_a_failure_and_nothing_is_raised(rubbish: Any) -> None:
    class Rubbish(Listing):
        def solve(self, problem: Tilted) -> Any:
            return rubbish

    of = Conjunctions(attributes=1)
    points = Points(np.array([[0], [1]], np.uint8), np.array([5, -7]))
    noisy = perturbation(LABELLED, of, Fraction(1))
    assert solve(noisy, points, Rubbish(), Noise()) is None


def test_sums_that_could_wrap_are_refused_before_anything_is_charged() -> None:
    of = Conjunctions(attributes=1)
    meter = meter_on(NEIGHBOURS[0] * 250)
    plan = plan_blocks(1000, Fraction(4), Fraction(1, 2))
    for weight in (2**50, 2**63, 2**200, 0, True, 1.5):
        with pytest.raises(ParameterError, match="weight"):
            meter.ask(
                Argmin(
                    task=LABELLED,
                    rules=of,
                    epsilon=1,
                    certifier=certifier_of("listing", of),
                    weight=weight,
                )
            )  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="weight"):
            meter.ask(
                ArgminInBlocks(
                    task=LABELLED,
                    rules=of,
                    plan=plan,
                    weight=weight,
                    certifier=certifier_of("auto", of),
                )
            )  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="epsilon"):
        meter.ask(
            Argmin(
                task=LABELLED,
                rules=of,
                epsilon=Fraction(1, 10**30),
                certifier=certifier_of("listing", of),
            )
        )
    assert not meter.events


def test_huge_noise_is_a_failure_whatever_the_rows_are() -> None:
    class Huge(Noise):
        def laplace(self, size: int, scale: Fraction) -> np.ndarray:
            return np.full(size, 2**60)

    for rows in NEIGHBOURS:
        with pytest.raises(NotCertified):
            meter_on(rows, Huge()).ask(
                Argmin(
                    task=LABELLED,
                    rules=Conjunctions(attributes=1),
                    epsilon=1,
                    certifier=certifier_of("listing", Conjunctions(attributes=1)),
                )
            )


def test_the_limit_of_work_is_deterministic() -> None:
    """The same problem under a limit that is too small: refused every time."""
    rng = np.random.default_rng(5)
    of = Parities(attributes=14)
    bits = np.unique(rng.integers(0, 2, (300, 14), np.uint8), axis=0)
    problem = Tilted(of, of.lift(bits), rng.integers(-9, 10, len(bits)).astype(np.int64))
    assert [Cpsat(work=0.01).solve(problem) for _ in range(2)] == [None, None]


# ---------------------------------------------------------------------- soft minima


def test_a_soft_minimum_has_the_stated_law() -> None:
    costs, kappa = np.array([3, 5, 3, 9, 4000]), Fraction(1, 2)
    weights = np.exp(-0.5 * (costs - 3.0))
    noise = Noise()
    drawn = np.asarray([draw_least(noise, costs, kappa) for _ in range(4000)])
    expected = weights / weights.sum()
    counts = np.bincount(drawn, minlength=5)
    assert counts[4] == 0
    assert stats.chisquare(counts[:4], expected[:4] * 4000 / expected[:4].sum()).pvalue > 1e-4


def test_what_is_settled_is_settled_rightly_at_every_number_of_bits() -> None:
    drops, members, kappa = [0, 1, 3, 40, 10**9], [2, 1, 5, 1000, 7], Fraction(7, 10)
    weights = [m * math.exp(-0.7 * d) for d, m in zip(drops, members, strict=True)]
    ends = np.cumsum(weights) / sum(weights)
    rng, open_ones = np.random.default_rng(0), 0
    for bits in (1, 4, 8, 16, 40):
        for _ in range(300):
            u = int(rng.integers(0, 2**bits))
            group = settled(u, bits, drops, members, kappa)
            if group is None:
                open_ones += 1
                continue
            low, high = u / 2**bits, (u + 1) / 2**bits
            assert high <= ends[group] * (1 + 1e-9) and (
                group == 0 or low >= ends[group - 1] * (1 - 1e-9)
            )
    assert open_ones  # with few bits some are left open
    # next to the end, where the far ones are
    assert settled(2**40 - 1, 40, drops, members, kappa) is None


def test_scaling_or_shifting_costs_and_far_rivals_leave_the_law() -> None:
    drops, members = [0, 2, 5], [1, 1, 1]
    for u in range(0, 2**12, 37):
        near = settled(u << 40, 52, drops, members, Fraction(1, 3))
        far = settled(u << 40, 52, [*drops, 10**6], [*members, 1], Fraction(1, 3))
        assert near == far or far is None


def test_soft_argmin_charges_half_of_what_a_solver_costs_and_finds_a_planted_rule() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 2, (3000, 6))
    schema = us.Schema.from_domain({**{f"x{i}": 2 for i in range(6)}, "y": 2})
    table = np.column_stack([x, (x[:, 1] & (1 - x[:, 4])) ^ (rng.random(3000) < 0.05)])
    task = Task.of(schema, "y")
    meter = meter_on(table, schema=schema)
    assert meter.ask(
        SoftArgmin(task=task, epsilon=Fraction(1), counting=counting_of(Conjunctions(attributes=6)))
    ) == (1, 10)
    (event,) = meter.events
    assert isinstance(event, ExponentialDraws) and total_cost(meter.events).rho == Fraction(1, 8)
    noisy, scale = meter.ask(
        Mistakes(task=task, rules=Conjunctions(attributes=6), rule=(1, 10), epsilon=Fraction(1))
    )
    assert scale == 1 and abs(noisy - 150) < 120
    with pytest.raises(ParameterError, match="not a rule"):
        meter.ask(
            Mistakes(task=task, rules=Conjunctions(attributes=6), rule=(99,), epsilon=Fraction(1))
        )


def test_the_exact_law_of_soft_argmin() -> None:
    """By counting: P(rule) in proportion to exp(-epsilon/2 * mistakes), for all neighbours."""
    of, epsilon = Conjunctions(attributes=1), 2.0
    laws = []
    for rows in NEIGHBOURS:
        table = np.asarray(rows)
        wrong = {
            rule: int((of.predict(rule, table[:, :1]) != (table[:, 1] == 1)).sum())
            for rule in of.rules()
        }
        weights = {
            of.predict(rule, np.array([[0], [1]])).tobytes(): math.exp(-epsilon / 2 * cost)
            for rule, cost in wrong.items()
        }
        laws.append({rule: weight / sum(weights.values()) for rule, weight in weights.items()})
        meter = meter_on(rows)
        seen = [
            of.predict(
                meter.ask(SoftArgmin(task=LABELLED, epsilon=Fraction(2), counting=counting_of(of))),
                np.array([[0], [1]]),
            ).tobytes()
            for _ in range(300)
        ]
        expected = [laws[-1][rule] * 300 for rule in laws[-1]]
        assert stats.chisquare([seen.count(rule) for rule in laws[-1]], expected).pvalue > 1e-5
    assert worst_ratio(laws) <= epsilon


# ---------------------------------------------------------------------- blocks


def tiny_plan(rows: int, blocks: int, runs: int) -> BlockPlan:
    made = plan_blocks(rows, Fraction(4), Fraction(1, 2))
    return BlockPlan(**{**vars(made), "blocks": blocks, "runs": runs, "block_rows": rows // blocks})


def blocks_of(
    rows: int, fail: Callable[[Tilted], bool], plan: BlockPlan, public: Points | None = None
) -> tuple[Rule | None, list[Tilted]]:
    """PRSMA on a table of ones with label one, with a certifier that fails when told to."""
    seen: list[Tilted] = []

    @dataclass(frozen=True)
    class Failing(Listing):
        def solve(self, problem: Tilted) -> Solved | None:
            seen.append(problem)
            return None if fail(problem) else super().solve(problem)

    of = Conjunctions(attributes=1, signed=False)
    table = Labelled(
        np.array([[0], [1]], np.uint8), np.array([rows // 2, 0]), np.array([0, rows - rows // 2])
    )
    noisy = Perturbation(
        rules=of, on=NoiseOn.SEPARATORS, weight=10, gap=0, top=1, epsilon=plan.run_epsilon
    )
    empty = Points(np.zeros((0, 1), np.uint8), np.zeros(0, np.int64))
    return (
        solve_in_blocks(noisy, table, (1, 1), public or empty, plan, Failing(), Noise()),
        seen,
    )


def test_with_a_perfect_oracle_blocks_give_a_rule_but_with_probability_delta() -> None:
    plan = plan_blocks(600, Fraction(4), Fraction(1, 2))
    quick = tiny_plan(600, plan.blocks, 1)
    none = sum(blocks_of(600, lambda _: False, quick)[0] is None for _ in range(400))
    assert none <= stats.binom.ppf(0.9999, 400, float(plan.inner_delta))


def test_the_published_number_of_blocks_fails_one_time_in_four() -> None:
    epsilon, delta = 0.1, 1e-3
    blocks = math.ceil((1 + math.log(2 / delta)) / epsilon)
    rng = np.random.default_rng(0)
    passed = blocks + rng.laplace(0, 1 / epsilon, 100_000) > (1 + math.log(1 / delta)) / epsilon
    assert 0.2 < 1 - passed.mean() < 0.3


def test_every_run_of_every_block_is_made_and_too_many_failures_give_none() -> None:
    plan = tiny_plan(600, 15, 4)
    rule, seen = blocks_of(600, lambda _: True, plan)
    assert rule is None and len(seen) == 60
    sizes = [int(problem.cost[np.abs(problem.cost) > 0].size) for problem in seen]
    assert max(sizes) <= 3


def test_public_points_go_to_every_block_and_are_not_cut() -> None:
    public = Points(np.array([[1]], np.uint8), np.array([12345]))
    _, seen = blocks_of(600, lambda _: False, tiny_plan(600, 15, 2), public)
    assert len(seen) == 30 and all(12345 in problem.cost for problem in seen)


def test_blocks_are_equal_and_random() -> None:
    plan = tiny_plan(100, 7, 1)
    rows = Labelled(np.array([[0], [1]], np.uint8), np.array([30, 20]), np.array([40, 10]))
    first = []
    for _ in range(300):
        made = blocks._blocks(rows, plan, Noise())
        assert len(made) == 7 and all(int(b.no.sum() + b.yes.sum()) == 14 for b in made)
        first.append(int(made[0].no[0]))
    assert stats.ttest_1samp(first, 14 * 30 / 100).pvalue > 1e-4


@dataclass(frozen=True)
class Apart(Listing):
    """Fails on blocks that hold two rows which are not side by side in the table; which rows a
    block holds shows in its costs.
    """

    def solve(self, problem: Tilted) -> Solved | None:
        places = [SIGNS.index(tuple(row)) for row in problem.lifted.tolist()]
        return None if abs(places[0] - places[-1]) in (2, 3) else super().solve(problem)


# a different one for each row, so that a block is known by them
POINTS = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1)]
SIGNS = [
    tuple(row)
    for row in Conjunctions(attributes=3, signed=False).lift(np.array(POINTS, np.uint8)).tolist()
]


def law_of_blocks(
    rows: np.ndarray, of: RuleClass, task: Task, plan: BlockPlan
) -> dict[Rule | None, float]:
    """By definition: every order of the rows alike, a block's rule if it has one, and P(count +
    noise > threshold) in closed form.
    """
    noisy = perturbation(task, of, plan.run_epsilon, weight=1)
    p = math.exp(-float(plan.inner))
    total = Counter[Rule | None]()
    orders = list(itertools.permutations(range(len(rows))))
    solved: dict[frozenset[int], Rule | None] = {}
    for order in orders:
        blocks = [
            frozenset(order[k * plan.block_rows : (k + 1) * plan.block_rows])
            for k in range(plan.blocks)
        ]
        for block in blocks:
            if block not in solved:
                held = rows[sorted(block)]
                points = Points(held[:, :-1].astype(np.uint8), np.where(held[:, -1] == 1, -1, 1))
                solved[block] = solve(noisy, points, Apart(), Nothing())
        found = [rule for rule in map(solved.__getitem__, blocks) if rule is not None]
        needed = math.floor(plan.threshold) + 1 - len(found)  # of noise, to be above
        passes = (
            (p**needed if needed > 0 else 1 + p - p ** (1 - needed)) / (1 + p) if found else 0.0
        )
        total[None] += (1 - passes) / len(orders)
        for rule in found:
            total[rule] += passes / len(found) / len(orders)
    return dict(total)


class Nothing(Noise):
    """No noise for a solver."""

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        return np.zeros(size, np.int64)


# thresholds of 0.6 and 2.8 blocks
@pytest.mark.parametrize("inner_delta", [Fraction(4, 5), Fraction(1, 100)])
def test_the_exact_law_of_blocks_is_that_of_its_definition(inner_delta: Fraction) -> None:
    """None, or the rule of a uniform block that passed, of rows in uniform order, with noise of
    scale 1/inner on the count.
    """
    schema = us.Schema.from_domain({"a": 2, "b": 2, "c": 2, "y": 2})
    of = Conjunctions(attributes=3, signed=False)
    rows = np.array([(*point, label) for point, label in zip(POINTS, (1, 0, 1, 0, 1), strict=True)])
    task, plan = Task.of(schema, "y", ["a", "b", "c"]), toy_plan(5, 2, Fraction(2), inner_delta)
    found = blocks_law(MemorySource(rows, schema), task, of, plan, Apart())
    wanted = law_of_blocks(rows, of, task, plan)
    assert len(wanted) > 3 and min(wanted.values()) > 1e-3, "several rules, and none, do occur"
    assert found == pytest.approx(wanted, abs=1e-5)


def test_blocks_are_charged_for_the_plan_and_run_at_what_it_says() -> None:
    rows, of = np.array(NEIGHBOURS[0] * 20), Conjunctions(attributes=1)
    plan = plan_blocks(len(rows), Fraction(4), Fraction(1, 2))
    given: list[Any] = []
    meter = meter_on(rows)
    with standing_in(solve_in_blocks=lambda *all_of_it: given.extend(all_of_it)):
        meter.ask(
            ArgminInBlocks(
                task=LABELLED, rules=of, plan=plan, certifier=certifier_of("listing", of)
            )
        )
    noisy, table, costs, _, used, _, _ = given
    assert meter.events == (
        ApproximateDP(what=meter.events[0].what, epsilon=plan.epsilon, delta=plan.delta),
    )
    assert (
        used == plan
        and costs == LABELLED.costs
        and int(table.no.sum() + table.yes.sum()) == plan.rows
    )
    assert (
        noisy.epsilon == plan.run_epsilon
        and noisy.event("run").scale >= noisy.shift * noisy.slots / plan.run_epsilon
    )


def test_totals_of_a_plan_stay_inside_the_promise() -> None:
    for epsilon, delta in itertools.product(
        (Fraction(1, 10), Fraction(1), Fraction(4)),
        (Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 3)),
    ):
        plan = plan_blocks(10_000, epsilon, delta)
        inner, inner_delta = float(plan.inner), float(plan.inner_delta)
        assert inner + math.log(1 + inner * math.e**2 / ((1 - inner_delta) * (1 - inner))) <= float(
            epsilon
        )
        assert 3 * inner_delta + inner * math.e**2 * inner_delta / (1 - inner_delta) <= float(delta)
        assert (
            total_epsilon(plan.inner, plan.inner_delta) <= epsilon
            and total_delta(plan.inner, plan.inner_delta) <= delta
        )
        assert plan.threshold >= (1 + math.log(1 / inner_delta)) / inner
        assert (
            plan.blocks >= (1 + 2 * math.log(1 / inner_delta)) / inner
            and plan.runs >= math.log(plan.blocks / inner_delta) / inner_delta
        )
        if plan.block_rows:
            assert (
                2 * plan.blocks * math.exp(-2 / (plan.block_rows * float(plan.run_epsilon) ** 2))
                <= inner_delta
            )
    assert float(plan_blocks(10_000, Fraction(1), Fraction(1, 10**6)).inner) > 0.15


def test_prsma_says_what_it_needs_and_refuses_what_cannot_work(tmp_path: Path) -> None:
    assert prsma.plan(50_000, 1, 1e-6).solves > 10**10
    table = np.random.default_rng(0).integers(0, 2, (400, 3))
    schema = {"a": 2, "b": 2, "y": 2}
    ledger = FileLedger(tmp_path / "ledger.jsonl")
    with pytest.raises(NotSupported, match="solves"):
        learn(
            np.tile(table, (20, 1)),
            schema=schema,
            label="y",
            epsilon=1,
            delta=1e-4,
            method="prsma",
            certifier="listing",
            ledger=ledger,
        )
    with pytest.raises(NotSupported, match="too few to learn from"):
        learn(
            table,
            schema=schema,
            label="y",
            epsilon=1,
            delta=1e-2,
            method="prsma",
            certifier="listing",
            ledger=ledger,
        )
    with pytest.raises(ParameterError, match="delta"):
        learn(
            table,
            schema=schema,
            label="y",
            epsilon=1,
            method="prsma",
            certifier="listing",
            ledger=ledger,
        )
    for bad in ((0, 1, 0.1), (10, 1, 0), (10, 1, 2), (10, -1, 0.1)):
        with pytest.raises(ParameterError):
            prsma.plan(*bad)
    assert not (tmp_path / "ledger.jsonl").exists() or not ledger.read().charges


def test_prsma_from_end_to_end_at_a_toy_size() -> None:
    x = np.random.default_rng(1).integers(0, 2, (20_000, 2))
    table = np.column_stack([x, x[:, 0]])
    settings = {
        "schema": {"a": 2, "b": 2, "y": 2},
        "label": "y",
        "signed": False,
        "certifier": "listing",
        "report": 0,
    }
    made = None
    for _ in range(6):  # "none" is an outcome, of probability 0.03 here
        with contextlib.suppress(ReleaseFailed):
            made = learn(table, epsilon=8, delta=Fraction(1, 2), method="prsma", **settings)
            break
    assert made is not None
    assert (
        made.manifest["guarantee"]["reads"] == "unconditional"
        and made.manifest["guarantee"]["delta"] == "1/2"
    )
    (event,) = made.manifest["events"]
    assert event["event"] == "ApproximateDP" and made.of.contains(made.rule)


# ---------------------------------------------------------------------- learn()


def planted(n: int = 4000, d: int = 5) -> tuple[np.ndarray, dict[str, int]]:
    x = np.random.default_rng(7).integers(0, 2, (n, d))
    return np.column_stack([x, x[:, 0] & (1 - x[:, 2])]), {**{f"x{i}": 2 for i in range(d)}, "y": 2}


def test_a_certified_solve_finds_the_planted_rule_and_says_what_it_rests_on() -> None:
    table, schema = planted()
    for width, slots in ((None, 10), (2, 2)):
        found = learn(
            table,
            schema=schema,
            label="y",
            epsilon=4,
            method="rspm",
            width=width,
            certifier="cpsat",
        )
        assert found.words == "x0 and not x2"
        assert found.manifest["guarantee"]["reads"] == "conditional on solver certificate (CP-SAT)"
        event = found.manifest["events"][0]
        assert event["slots"] == slots and "conditional on solver certificate" in event["what"]
        assert found.manifest["mistakes"]["low"] <= 0.01


def test_our_own_certifiers_are_taken_where_a_class_allows_it() -> None:
    table, schema = planted(300)
    made = learn(table, schema=schema, label="y", epsilon=4, method="rspm")
    assert made.manifest["guarantee"]["reads"] == "unconditional"
    ours = [Conjunctions(attributes=5), Conjunctions(attributes=11), Parities(attributes=21)]
    assert [type(certifier_of("auto", of)) for of in ours] == [Listing, Counted, Counted]
    assert isinstance(certifier_of("auto", Conjunctions(attributes=12)), Cpsat)
    assert isinstance(certifier_of("auto", Conjunctions(attributes=20, width=4)), Cpsat)


def test_wrong_requests_cost_nothing(tmp_path: Path) -> None:
    table, schema = planted(100)
    ledger = tmp_path / "ledger.jsonl"
    wrong: list[dict[str, Any]] = [
        {"epsilon": 0}, {"epsilon": math.nan}, {"rules": "trees"}, {"method": "magic"}, {"width": 0}, {"costs": (0, 1)},
        {"costs": (1, 2, 3)},
        {"label": "nothing"}, {"label": "y = 7"}, {"attributes": []}, {"attributes": ["y"]}, {"report": 1}, {"report": -1}, {"delta": 0.1},
        {"method": "rspm", "certifier": "oracle"}, {"method": "rspm", "noise_on": "everything"},
        {"method": "rspm", "certifier": "listing", "rules": "decision-lists"},
        {"rules": "halfspaces", "parameters": {"bias": -1}}, {"parameters": {"bias": 1}}, {"method": "rspm", "noise_on": "features"},
    ]  # fmt: skip
    for request in wrong:
        with pytest.raises((ParameterError, us.InputError)):
            learn(
                table, **{"schema": schema, "label": "y", "epsilon": 1, "ledger": ledger, **request}
            )
    assert not ledger.exists() or not FileLedger(ledger).read().charges


def test_learning_is_for_replace_one_and_within_the_allowance() -> None:
    meter = meter_on(NEIGHBOURS[0], neighbours=Neighbours.ADD_REMOVE_ONE)
    of = Conjunctions(attributes=1)
    for ask in (
        lambda m: m.ask(SoftArgmin(task=LABELLED, epsilon=1, counting=counting_of(of))),
        lambda m: m.ask(
            Argmin(task=LABELLED, rules=of, epsilon=1, certifier=certifier_of("listing", of))
        ),
    ):
        with pytest.raises(NotSupported, match="replace-one"):
            ask(meter)
        poor = meter_on(NEIGHBOURS[0], play=Cost(Fraction(1, 100)))
        with pytest.raises(BudgetRefused):
            ask(poor)
        assert not poor.events
    with pytest.raises(ParameterError, match="plan"):
        meter_on(NEIGHBOURS[0]).ask(
            ArgminInBlocks(
                task=LABELLED,
                rules=of,
                plan=plan_blocks(99, Fraction(1), Fraction(1, 9)),
                certifier=certifier_of("auto", of),
            )
        )
    with pytest.raises(ParameterError, match="Public points"):
        meter_on(NEIGHBOURS[0]).ask(
            Argmin(
                task=LABELLED,
                rules=of,
                epsilon=1,
                certifier=certifier_of("listing", of),
                public=Points(np.array([[2]], np.uint8), np.array([1])),
            )
        )


def test_a_table_that_cannot_be_read_is_charged_and_says_nothing(tmp_path: Path) -> None:
    class Broken(MemorySource):
        def count(self, column_sets: Any) -> Any:
            if column_sets != [()]:
                raise ValueError("cell of Alice")
            return super().count(column_sets)

    table, schema = planted(100)
    book = FileLedger(tmp_path / "ledger.jsonl")
    with pytest.raises(ReleaseFailed) as failure:
        learn(
            Broken(table, us.Schema.from_domain(schema)),
            schema=schema,
            label="y",
            epsilon=1,
            ledger=book,
        )
    assert "Alice" not in str(failure.value) and len(book.read().charges) == 1


def test_costs_tilt_the_rule() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, 4000)
    y = rng.random(4000) < np.where(x == 1, 0.4, 0.1)
    table = np.column_stack([x, y])
    settings = {"schema": {"x": 2, "y": 2}, "label": "y", "epsilon": 4}
    plain = learn(table, **settings)
    assert not plain.predict({"x": [1]})[0]
    careful = learn(table, costs=(1, 5), **settings)
    assert careful.predict({"x": [1]})[0] and not careful.predict({"x": [0]})[0]


def test_questions_about_columns() -> None:
    schema = us.Schema.from_dict({
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}},
            {"name": "job", "type": "string", "constraints": {"enum": ["a", "b", "c"]}},
            {"name": "rich", "type": "boolean"},
        ]
    })  # fmt: skip
    codes = {
        text: Attribute.parse(text, schema).codes
        for text in ("age >= 40", "age > 40", "age < 3", "sex = F", "job != b", "rich", "sex")
    }
    assert (
        codes["age >= 40"] == frozenset(range(40, 100))
        and codes["age > 40"] == frozenset(range(41, 100))
        and codes["age < 3"] == {0, 1, 2}
    )
    assert len(codes["sex = F"]) == 1 and len(codes["job != b"]) == 2
    assert codes["rich"] == {1} and codes["sex"] == {1}
    task = Task.of(schema, "rich")
    assert len(task.attributes) == 100 + 1 + 3 and "job = c" in task.names
    for text in ("hair = red", "sex = X", "age >= old"):
        with pytest.raises(us.InputError):
            Attribute.parse(text, schema)


def test_geometric_noise_has_its_law() -> None:
    for scale in (Fraction(1, 2), Fraction(7, 3), Fraction(2**33, 2**32)):
        draws = Noise().geometric(3000, scale)
        reach = math.ceil(20 * scale)
        ratio = math.exp(-1 / scale)
        pmf = np.concatenate([np.zeros(reach), (1 - ratio) * ratio ** np.arange(reach + 1)])
        assert draws.min() == 0 and p_value(draws, np.maximum(pmf, 1e-30), reach) > 1e-4
    with pytest.raises(ParameterError):
        Noise().geometric(1, Fraction(0))


def test_charges_of_learning_are_priced() -> None:
    assert total_cost(
        [PerturbedArgmin(what="x", shift=3, slots=2, scale=Fraction(6))]
    ).rho == Fraction(1, 2)
    assert total_cost(
        [ApproximateDP(what="x", epsilon=Fraction(1), delta=Fraction(1, 4))]
    ).delta == Fraction(1, 4)
    with pytest.raises(ParameterError, match="malformed"):
        total_cost([PerturbedArgmin(what="x", shift=3, slots=2, scale=Fraction(0))])


@pytest.mark.parametrize("costs", [(1, 1), (5, 1), (2, 7)])
def test_mistakes_are_noised_for_the_dearest_of_them(costs: tuple[int, int]) -> None:
    """One row in place of another may turn a free answer into the dearest mistake."""
    task = Task(LABELLED.attributes, LABELLED.label, costs)
    meter = meter_on(np.array([[1, 0], [0, 1], [0, 0]]))
    _, scale = meter.ask(
        Mistakes(task=task, rules=Conjunctions(attributes=1), rule=(0,), epsilon=Fraction(1, 2))
    )
    (event,) = meter.events
    assert scale == 2 * max(costs) and event.l1 == max(costs) and event.scale == scale
