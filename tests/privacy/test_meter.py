"""The meter's verbs: exact laws on tiny domains, charge before look, refusals that cost nothing."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import understudy.privacy.meter as meter_module
import understudy.privacy.scores as scores_module
import understudy.privacy.verbs as verbs_room
from support.fuzzing import chain_of
from understudy.audit import laws
from understudy.audit.distributions import gaussian_pmf
from understudy.audit.laws import ADD, BASE, BATCHES, REPLACE, TINY, neighbours_of
from understudy.audit.rows import Row
from understudy.checks import SMALL, check_refuses_overspending, small_table
from understudy.counting.tally import CodedRows, Counts, RowFunction
from understudy.errors import BudgetRefused, NotSupported, ParameterError, SourceError
from understudy.privacy import (
    Argmin,
    ArgminInBlocks,
    Certify,
    Choice,
    Discriminate,
    Discriminator,
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
)
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, cost_of, total_cost
from understudy.privacy.certificate import certificate
from understudy.privacy.looking import public_rows
from understudy.privacy.noise.exponential import ScoreTable
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.scores import MarginalScore, gaps
from understudy.privacy.verbs.blocks import plan_blocks
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.workload import marginals
from understudy.rules.certifiers import certifier_of
from understudy.rules.conjunctions import Conjunctions
from understudy.rules.counting import counting_of
from understudy.schema import Schema
from understudy.sources.memory import MemorySource


class Silence(Noise):
    """No noise at all: shows the centre of a law, in tests only."""

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        return np.zeros(size, np.int64)


def meter_on(
    rows: np.ndarray,
    *,
    schema: Schema = TINY,
    neighbours: Neighbours = REPLACE,
    noise: Noise | None = None,
    rho: int = 10,
    certify: Fraction = Fraction(1, 8),
) -> Meter:
    source = MemorySource(rows, schema)
    return Meter(
        source,
        neighbours=neighbours,
        play=Cost(Fraction(rho)),
        certify=certify,
        noise=noise,
    )


def captured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, ScoreTable]]:
    seen: list[tuple[np.ndarray, ScoreTable]] = []

    def spy(
        noise: Noise, scores: np.ndarray, table: ScoreTable, draws: int, *, distinct: bool = False
    ) -> np.ndarray:
        seen.append((scores, table))
        return np.zeros(draws, np.int64)

    monkeypatch.setattr(Select, "draw", staticmethod(spy))
    return seen


@pytest.mark.parametrize(
    ("name", "check"), laws.checks(), ids=[name.replace(" ", "_") for name, _ in laws.checks()]
)
def test_exact_law(
    name: str, check: Callable[[], Row], battery: Callable[[str, int, str], None]
) -> None:
    """The full output law of a verb, on a tiny table and all its neighbours: at most what was
    charged, and close to it where it can be.
    """
    row = check()
    assert row.held, row
    battery("exact small-domain law", row.runs, f"{name}: {row.said}")


def test_select_points_at_the_worst_answer() -> None:
    table = small_table(2000)
    batch = Marginal.of(SMALL, ["a"])
    exact = batch.counts(CodedRows(table, SMALL.shape)).dense() / 2000
    wrong = exact.copy()
    wrong[2] += 0.3
    (choice,) = meter_on(table, schema=SMALL).ask(
        Select(batches=[batch], shares=[wrong], rho=Fraction(1))
    )
    assert (choice.batch, choice.index, choice.sign) == (batch, 2, 1)
    (choice,) = meter_on(table, schema=SMALL).ask(
        Select(batches=[batch], shares=[wrong], rho=Fraction(1), signed=True)
    )
    assert (choice.index, choice.sign) == (2, -1)


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_certify_moves_by_at_most_one(
    relation: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    if relation is ADD:
        monkeypatch.setattr(Meter, "rows", property(lambda self: 3))
    answers = [Counts(batch.size, np.full(batch.size, 2)) for batch in BATCHES]

    def largest(rows: np.ndarray) -> int:
        return (
            meter_on(rows, neighbours=relation, noise=Silence())
            .ask(Certify(batches=BATCHES, answers=answers, released_rows=5))
            .noisy_largest_error
        )

    base = largest(BASE)
    moves = {largest(other) - base for other in neighbours_of(BASE, relation)}
    assert moves <= {-1, 0, 1} and len(moves) > 1


def test_certify_charges_what_was_set_aside_once() -> None:
    meter = meter_on(BASE)
    answers = [Counts(batch.size, np.full(batch.size, 2)) for batch in BATCHES]
    meter.ask(Certify(batches=BATCHES, answers=answers, released_rows=5))
    assert float(cost_of(meter.events[-1]).rho) == pytest.approx(1 / 8, rel=3e-3)
    assert cost_of(meter.events[-1]).rho <= Fraction(1, 8)
    with pytest.raises(BudgetRefused):
        meter.ask(Certify(batches=BATCHES, answers=answers, released_rows=5))
    rich = meter_on(BASE, certify=Fraction(40))
    rich.ask(Certify(batches=BATCHES, answers=answers, released_rows=5))
    with pytest.raises(BudgetRefused, match="once"):
        rich.ask(Certify(batches=BATCHES, answers=answers, released_rows=5))


@pytest.mark.parametrize("worst", range(4))
def test_a_certificate_covers_every_batch_wherever_the_worst_is(worst: int) -> None:
    """Answers that are right in all batches but one, and there off by three rows in one cell."""
    batches = [*BATCHES, Marginal.of(TINY, ["y"])]
    exact = [
        batch.counts(CodedRows(np.tile(BASE, (3, 1)), TINY.shape)).dense() for batch in batches
    ]
    exact[worst][-1] += 3
    answers = [Counts(batch.size, counts) for batch, counts in zip(batches, exact, strict=True)]
    made = meter_on(np.tile(BASE, (3, 1)), noise=Silence()).ask(
        Certify(batches=batches, answers=answers, released_rows=9)
    )
    assert made.noisy_largest_error == 3 and made.queries == sum(batch.size for batch in batches)


def quantile(sigma: Fraction, tail: float) -> int:
    """The least m with P(noise < -m) at most so much."""
    reach = math.ceil(12 * sigma) + 12
    below = np.cumsum(gaussian_pmf(float(sigma), reach))
    return reach - int(np.searchsorted(below, tail, side="right"))


@pytest.mark.parametrize("sigma", [Fraction(1, 4), Fraction(3), Fraction(81, 4), Fraction(500)])
@pytest.mark.parametrize("rows_sigma", [Fraction(0), Fraction(2), Fraction(25)])
def test_a_bound_holds_for_all_noise_but_its_two_percents(
    sigma: Fraction, rows_sigma: Fraction
) -> None:
    """A cell of c rows of n, whose released share is s: at every noise on n and on the error that
    96 in 100 draws stay within.
    """
    n = 2000
    least, most = -quantile(sigma, 0.02), quantile(rows_sigma, 0.01) if rows_sigma else 0
    # of 4000 rows: 9 is 4.5 of 2000
    for count, released in itertools.product((0, 1, 1000, 1800, n), (0, 9, 1801, 2000, 4000)):
        truth = abs(count / n - released / 4000)
        for told in {n - most, n, n + most}:
            gap = abs(count - (2 * told * released + 4000) // 8000)
            made = certificate(gap + least, sigma, told, rows_sigma, 1)
            assert made.alpha >= min(1.0, truth) - 1e-12, (count, released, told)
            assert made.alpha <= truth + (4 + 5 * most) / told, (
                "and not much more: a bound of 1 would hold as well"
            )


def test_sparse_and_dense_certificates_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = small_table(300)
    batch = Marginal.of(SMALL, ["a", "b", "c"])
    released = batch.counts(CodedRows(small_table(90, seed=3), SMALL.shape))
    keys = np.flatnonzero(released.values)
    sparse = Counts(batch.size, released.values[keys], keys)
    found = [
        meter_on(rows, schema=SMALL, noise=Silence())
        .ask(Certify(batches=[batch], answers=[answer], released_rows=90))
        .noisy_largest_error
        for answer in (released, sparse)
    ]
    assert found[0] == found[1]
    truth = batch.counts(CodedRows(rows, SMALL.shape)).dense()
    assert found[0] == np.abs(truth - np.floor(300 * released.values / 90 + 0.5)).max()


# ---------------------------------------------------------------------- whole marginals

LARGEST, TOTAL = MarginalScore.LARGEST, MarginalScore.TOTAL
TABLES = [Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["y", "x"]), Marginal.of(TINY, ["y"])]


def choose(meter: Meter, answer: Counts | None = None, **how: Any) -> list[int]:
    given = {"rho": Fraction(1, 2), "score": TOTAL, **how}
    return meter.ask(
        SelectMarginal(
            batches=[TABLES[0]],
            answers=[answer or Counts(2, np.array([1, 1]))],
            answer_rows=2,
            **given,
        )
    )


def discriminate(meter: Meter, **how: Any) -> Discriminator:
    return meter.ask(
        Discriminate(batches=[TABLES[0]], fake=BASE, **{"weight": 1, "ridge": 4, "sigma": 2, **how})
    )


def slow_gaps(
    exact: np.ndarray, answer: np.ndarray, rows: int, answer_rows: int, floor: int
) -> tuple[int, int]:
    errors = [
        abs(int(c) - (2 * rows * int(a) + answer_rows) // (2 * answer_rows))
        for c, a in zip(exact, answer, strict=True)
    ]
    return max(errors), sum(max(0, e - floor) for e in errors)


def test_scores_agree_with_their_definition_dense_and_sparse() -> None:
    rng = np.random.default_rng(0)
    for rows, answer_rows in ((1000, 1000), (999, 70_000), (5 * 10**9, 10**6), (7, 10**5)):
        exact, answer = (
            rng.multinomial(n, rng.dirichlet(np.full(300, 0.05))) for n in (rows, answer_rows)
        )
        want = slow_gaps(exact, answer, rows, answer_rows, 3)
        for e in tables_of(exact):
            for a in tables_of(answer):
                found = [
                    int(gaps([e], [a], rows=rows, answer_rows=answer_rows, score=s, floors=[3])[0])
                    for s in (LARGEST, TOTAL)
                ]
                assert tuple(found) == want


def tables_of(counts: np.ndarray) -> list[Counts]:
    keys = np.flatnonzero(counts)
    narrow = [counts.astype(np.int32)] if counts.max() < 2**31 else []
    return [
        Counts(len(counts), counts),
        Counts(len(counts), counts[keys], keys),
        *(Counts(len(counts), c) for c in narrow),
    ]


def test_scores_of_absurd_answers_do_not_wrap() -> None:
    cells = 1 << 23
    huge = Counts(cells, np.full(cells, 2**62))
    none = Counts(cells, np.zeros(cells, np.int32))
    assert int(gaps([none], [huge], rows=2**40, answer_rows=2, score=TOTAL)[0]) == 2**62
    assert (
        int(
            gaps(
                [none], [Counts(cells, np.full(cells, -5))], rows=2**40, answer_rows=2, score=TOTAL
            )[0]
        )
        == 0
    )


def test_one_cell_adds_no_more_to_a_total_than_the_proof_says() -> None:
    """The cut of a cell's term is what keeps sums inside 64 bits; it binds from 2^41 on, whichever
    way the tables are kept.
    """
    most = 2**41
    for counts, want in (
        ([most + 5, 3], most + 3),
        ([most - 1, 0], most - 1),
        ([2**60, 2**61], 2 * most),
        ([2**62, most + 1], 2 * most),
    ):
        for exact in tables_of(np.array(counts)):
            for answer in tables_of(np.array([0, 0])):
                assert int(gaps([exact], [answer], rows=1, answer_rows=1, score=TOTAL)[0]) == want
                assert int(gaps([exact], [answer], rows=1, answer_rows=1, score=LARGEST)[0]) == max(
                    counts
                )


def test_select_marginal_points_at_the_worst_table() -> None:
    rows = small_table(2000)
    batches = [Marginal.of(SMALL, [name]) for name in "abc"]
    answers = [batch.counts(CodedRows(rows, SMALL.shape)) for batch in batches]
    answers[1] = Counts(4, np.roll(answers[1].values, 1))
    meter = meter_on(rows, schema=SMALL)
    for score in MarginalScore:
        assert meter.ask(
            SelectMarginal(
                batches=batches, answers=answers, answer_rows=2000, rho=Fraction(1), score=score
            )
        ) == [1]
    both = [*answers[:2], Counts(2, answers[2].values[::-1].copy())]
    assert meter.ask(
        SelectMarginal(
            batches=batches,
            answers=both,
            answer_rows=2000,
            rho=Fraction(1),
            score=TOTAL,
            penalties=[0, 4000, 0],
        )
    ) == [2]
    assert meter.ask(
        SelectMarginal(
            batches=batches,
            answers=both,
            answer_rows=2000,
            rho=Fraction(1),
            score=TOTAL,
            weights=[1, 1, 100],
        )
    ) == [2]
    found = meter.ask(
        SelectMarginal(
            batches=batches,
            answers=answers,
            answer_rows=2000,
            rho=Fraction(3),
            score=TOTAL,
            draws=3,
            distinct=True,
        )
    )
    assert found[0] == 1 and sorted(found) == [0, 1, 2]


def test_select_marginal_takes_tables_too_wide_to_hold() -> None:
    wide = Schema.from_domain({"a": 5000, "b": 5000, "c": 3})
    rows = np.random.default_rng(0).integers(0, [5000, 5000, 3], (800, 3))
    batches = [Marginal.of(wide, ["a", "b"]), Marginal.of(wide, ["c"])]
    right = [batch.counts(CodedRows(rows, wide.shape)) for batch in batches]
    wrong = Counts(25_000_000, np.ones(800, np.int64), np.arange(800))
    meter = meter_on(rows, schema=wide)
    assert meter.ask(
        SelectMarginal(
            batches=batches,
            answers=[wrong, right[1]],
            answer_rows=800,
            rho=Fraction(1),
            score=TOTAL,
        )
    ) == [0]
    assert meter.ask(
        SelectMarginal(
            batches=batches,
            answers=[right[0], Counts(3, np.array([800, 0, 0]))],
            answer_rows=800,
            rho=Fraction(1),
            score=TOTAL,
        )
    ) == [1]


def test_exact_counts_are_kept_narrow_and_never_wrap() -> None:
    meter = meter_on(small_table(), schema=SMALL)
    batch = Marginal.of(SMALL, ["a", "b"])
    assert meter.ask(Measure(batches=[batch], rho=Fraction(1)))[0].counts.dtype == np.int64
    assert meter._exact[batch].values.dtype == np.int32
    (choice,) = meter.ask(
        Select(batches=[batch], shares=[np.ones(batch.size)], rho=Fraction(1), multiplier=2**30)
    )
    assert 0 <= choice.index < batch.size
    big = scores_module.compact(Counts(2, np.array([2**31, 0])))
    assert big.values.dtype == np.int64


def test_weights_share_out_rho() -> None:
    batches = [Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["y"]), Marginal.of(TINY, ["x", "y"])]
    weights = [1, Fraction(1, 2), Fraction(7, 2)]
    meter = meter_on(BASE)
    found = meter.ask(Measure(batches=batches, rho=Fraction(1, 2), weights=weights))
    costs = [float(cost_of(e).rho) for e in meter.events]
    assert costs == pytest.approx([0.1, 0.05, 0.35], rel=4e-3) and sum(costs) <= 0.5
    assert [e.sigma_squared for e in meter.events if isinstance(e, ev.DiscreteGaussian)] == [
        m.sigma**2 for m in found
    ]
    equal = meter_on(BASE).ask(Measure(batches=batches, rho=Fraction(1, 2)))
    assert len({m.sigma for m in equal}) == 1


def test_distinct_selection_never_repeats_and_costs_the_same() -> None:
    meter = meter_on(BASE)
    shares = [np.full(batch.size, 0.4) for batch in BATCHES]
    candidates = 2 * sum(batch.size for batch in BATCHES)
    found = meter.ask(
        Select(
            batches=BATCHES,
            shares=shares,
            rho=Fraction(1, 2),
            draws=candidates,
            signed=True,
            distinct=True,
        )
    )
    assert len({(c.batch, c.index, c.sign) for c in found}) == candidates
    event = meter.events[-1]
    assert isinstance(event, ev.ExponentialDraws) and event.draws == candidates
    assert cost_of(event).rho == candidates * event.log_weight_shift**2 / 2 <= Fraction(1, 2)


# ---------------------------------------------------------------------- order: check, charge, look


class Tripwire(MemorySource):
    """A source that records how much had been charged whenever somebody looks; a public number of
    rows may be counted at any time.
    """

    meter: Meter | None = None
    looked: list[int]

    def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
        assert self.meter is not None
        if any(column_sets) or self.meter.neighbours is ADD:
            self.looked.append(len(self.meter.events))
        return super().count(column_sets)

    def scan(self, row_function: RowFunction) -> np.ndarray:
        assert self.meter is not None
        self.looked.append(len(self.meter.events))
        return super().scan(row_function)


def tripwired(
    rows: np.ndarray = BASE, neighbours: Neighbours = REPLACE, play: Cost | None = None
) -> tuple[Meter, Tripwire]:
    source = Tripwire(rows, TINY)
    source.looked = []
    settings: dict[str, Any] = {
        "play": play or Cost(Fraction(1)),
        "certify": Fraction(1),
    }
    source.meter = meter = Meter(source, neighbours=neighbours, **settings)
    return meter, source


MANY = np.tile(BASE, (20, 1))  # enough for blocks
OF, HALF = Conjunctions(attributes=1), Fraction(1, 2)
BLOCKS = plan_blocks(len(MANY), Fraction(4), HALF)
SLOT: dict[str, Any] = {"kappa": Fraction(1, 100), "gamma": Fraction(1), "records": 2}
# Every verb, in the ways that lead to a look. What is not here is excused below, by name.
VERBS: dict[str, list[Callable[[Meter], Any]]] = {
    "release_total": [lambda m: m.ask(ReleaseTotal(rho=HALF))],
    "measure": [
        lambda m: m.ask(Measure(batches=[TABLES[0]], rho=HALF)),
        lambda m: m.ask(Measure(batches=[TABLES[0]], rho=HALF, sparse=True)),
        lambda m: m.ask(Measure(batches=TABLES, rho=HALF)),
        lambda m: m.ask(Measure(batches=BATCHES, rho=HALF, weights=[1, 2, 3])),
    ],
    "measure_residuals": [
        lambda m: m.ask(Residuals(batches=TABLES[:2], sigmas=[Fraction(9), Fraction(9)]))
    ],
    "discriminate": [lambda m: discriminate(m)],
    "select": [
        lambda m: m.ask(Select(batches=[TABLES[0]], shares=[np.zeros(2)], rho=HALF)),
        lambda m: m.ask(
            Select(batches=[TABLES[0]], shares=[np.zeros(2)], rho=HALF, draws=2, distinct=True)
        ),
        lambda m: m.ask(
            Select(
                batches=BATCHES,
                shares=[np.zeros(batch.size) for batch in BATCHES],
                rho=HALF,
                signed=True,
            )
        ),
    ],
    "resample": [
        lambda m: m.ask(
            Resample(
                batches=[TABLES[0]],
                shares=[np.zeros(2)],
                choices=[Choice(TABLES[0], 1, -1)],
                satisfied=[True],
                **SLOT,
            )
        )
    ],
    "select_marginal": [
        lambda m: choose(m),
        lambda m: choose(m, draws=2, score=LARGEST, weights=[3]),
    ],
    "soft_argmin": [
        lambda m: m.ask(SoftArgmin(task=laws.LABELLED, epsilon=HALF, counting=counting_of(OF)))
    ],
    "mistakes": [lambda m: m.ask(Mistakes(task=laws.LABELLED, rules=OF, rule=(0,), epsilon=HALF))],
    "argmin": [
        lambda m: m.ask(
            Argmin(
                task=laws.LABELLED, rules=OF, epsilon=HALF, certifier=certifier_of("listing", OF)
            )
        )
    ],
    "argmin_in_blocks": [
        lambda m: m.ask(
            ArgminInBlocks(
                task=laws.LABELLED, rules=OF, plan=BLOCKS, certifier=certifier_of("listing", OF)
            )
        )
    ],
    "certify": [
        lambda m: m.ask(
            Certify(batches=[TABLES[0]], answers=[Counts(2, np.array([1, 1]))], released_rows=2)
        )
    ],
}
LOOKS_AT_NOTHING = {"close": "it forgets the table"}
ASKED = [(name, i) for name, ways in VERBS.items() for i in range(len(ways))]


def relation_of(verb: str) -> Neighbours:
    return ADD if verb == "release_total" else REPLACE


def test_every_verb_is_in_the_list_and_nothing_else_can_be_asked() -> None:
    assert set(VERBS) == {verb.name for verb in verbs_room.VERBS}
    public = {
        name for name, thing in vars(Meter).items() if callable(thing) and not name.startswith("_")
    }
    assert public == {"ask"} | set(LOOKS_AT_NOTHING)


@pytest.mark.parametrize(("name", "way"), ASKED)
def test_every_verb_charges_before_it_looks(name: str, way: int) -> None:
    meter, source = tripwired(MANY, relation_of(name), laws.RICH)
    VERBS[name][way](meter)
    assert source.looked and meter.events, "a look, and a charge"
    assert min(source.looked) == len(meter.events), "at the first look all of it was charged"


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, way in ASKED if name != "certify"])
def test_no_verb_looks_at_what_it_cannot_pay_for(name: str, way: int) -> None:
    meter, source = tripwired(MANY, relation_of(name), Cost(Fraction(1, 10**9)))
    with pytest.raises(BudgetRefused, match="nothing was looked at"):
        VERBS[name][way](meter)
    assert source.looked == [] and meter.events == ()


@pytest.mark.parametrize("draws", [1, 3])
def test_a_verb_costs_what_was_asked_and_no_more(draws: int) -> None:
    """However many draws or batches share it, and each time that it is asked."""
    rho, answers = Fraction(1, 7), [Counts(batch.size, np.full(batch.size, 9)) for batch in TABLES]
    for relation, ask in (
        (ADD, lambda m: m.ask(ReleaseTotal(rho=rho))),
        (REPLACE, lambda m: m.ask(Measure(batches=[TABLES[1]], rho=rho))[0]),
        (REPLACE, lambda m: m.ask(Measure(batches=[TABLES[1]], rho=rho, sparse=True))[0]),
        (REPLACE, lambda m: m.ask(Measure(batches=BATCHES * draws, rho=rho))),
        (REPLACE, lambda m: m.ask(Measure(batches=TABLES, rho=rho, weights=[5, 5, 5]))),
        (
            REPLACE,
            lambda m: m.ask(
                Select(
                    batches=BATCHES,
                    shares=[np.zeros(batch.size) for batch in BATCHES],
                    rho=rho,
                    draws=draws,
                    multiplier=2,
                )
            ),
        ),
        (
            REPLACE,
            lambda m: m.ask(
                Select(
                    batches=BATCHES,
                    shares=[np.zeros(batch.size) for batch in BATCHES],
                    rho=rho,
                    draws=draws,
                    signed=True,
                    distinct=True,
                )
            ),
        ),
        (
            REPLACE,
            lambda m: m.ask(
                SelectMarginal(
                    batches=TABLES,
                    answers=answers,
                    answer_rows=36,
                    rho=rho,
                    score=TOTAL,
                    draws=draws,
                    weights=[2, 2, 2],
                )
            ),
        ),
        (
            REPLACE,
            lambda m: m.ask(
                SelectMarginal(
                    batches=TABLES,
                    answers=answers,
                    answer_rows=36,
                    rho=rho,
                    score=LARGEST,
                    draws=draws,
                    distinct=True,
                )
            ),
        ),
    ):
        meter = meter_on(MANY, neighbours=relation)
        for times in (1, 2):
            ask(meter)
            assert 0.98 * times * rho < total_cost(meter.events).rho <= times * rho
            assert meter.left == 10 - total_cost(meter.events).rho


def test_no_two_numbers_share_their_noise() -> None:
    """Of one call or several, one batch or another: what is measured twice has been noised twice."""
    batch, meter, sigma = Marginal.of(TINY, ["y", "x"]), meter_on(MANY), 1000
    rho = Fraction(2, 2 * sigma**2)
    measured = [
        *(meter.ask(Measure(batches=[batch], rho=rho))[0] for _ in range(3)),
        *meter.ask(Measure(batches=[batch] * 3, rho=3 * rho)),
    ]
    residuals = [
        r
        for _ in range(2)
        for r in meter.ask(Residuals(batches=[batch, batch], sigmas=[Fraction(sigma)] * 2))
    ]
    for found in (measured, residuals):
        values = np.concatenate([one.counts for one in found])
        assert len(set(values.tolist())) > 0.9 * len(values)
    tried = [
        meter.ask(Mistakes(task=laws.LABELLED, rules=OF, rule=(0,), epsilon=Fraction(1, 10**5)))[0]
        for _ in range(8)
    ]
    assert len(set(tried)) > 4
    chosen = [
        meter.ask(Select(batches=[batch], shares=[np.full(4, 0.25)], rho=Fraction(1, 10**6)))[
            0
        ].index
        for _ in range(40)
    ]
    assert len(set(chosen)) == 4, "each draw is one of its own"


def test_a_refused_verb_never_looks_and_costs_nothing() -> None:
    batch, wide = Marginal.of(TINY, ["x"]), Marginal((0, 1), (5000, 5000))
    refusals = [
        (BudgetRefused, lambda m: m.ask(Measure(batches=[batch], rho=Fraction(2)))[0]),
        (
            BudgetRefused,
            lambda m: m.ask(Select(batches=[batch], shares=[np.zeros(2)], rho=Fraction(2))),
        ),
        (ParameterError, lambda m: m.ask(Measure(batches=[batch], rho=Fraction(0)))[0]),
        (
            ParameterError,
            lambda m: m.ask(Select(batches=[batch], shares=[np.zeros(3)], rho=Fraction(1, 2))),
        ),
        (
            ParameterError,
            lambda m: m.ask(
                Select(batches=[batch], shares=[np.zeros(2)], rho=Fraction(1, 2), draws=0)
            ),
        ),
        (
            ParameterError,
            lambda m: m.ask(
                Certify(
                    batches=[batch], answers=[Counts(3, np.zeros(3, np.int64))], released_rows=2
                )
            ),
        ),
        (
            ParameterError,
            lambda m: m.ask(Select(batches=[batch], shares=[np.zeros((2, 1))], rho=Fraction(1, 2))),
        ),
        (ParameterError, lambda m: m.ask(Select(batches=[], shares=[], rho=Fraction(1, 2)))),
        (ParameterError, lambda m: m.ask(Certify(batches=[], answers=[], released_rows=2))),
        (ParameterError, lambda m: m.ask(Measure(batches=[], rho=Fraction(1, 2)))),
        (
            ParameterError,
            lambda m: m.ask(Measure(batches=[batch], rho=Fraction(1, 2), weights=[0])),
        ),
        (
            ParameterError,
            lambda m: m.ask(Measure(batches=[batch], rho=Fraction(1, 2), weights=[0.5])),
        ),
        (
            ParameterError,
            lambda m: m.ask(Measure(batches=[batch], rho=Fraction(1, 2), weights=[1, 1])),
        ),
        (
            ParameterError,
            lambda m: m.ask(
                Select(
                    batches=[batch],
                    shares=[np.zeros(2)],
                    rho=Fraction(1, 2),
                    draws=3,
                    distinct=True,
                )
            ),
        ),
        (BudgetRefused, lambda m: choose(m, rho=Fraction(2))),
        (BudgetRefused, discriminate),  # a curve, of which nothing is set aside here
        (ParameterError, lambda m: discriminate(m, sigma=0.5)),
        (ParameterError, lambda m: choose(m, rho=Fraction(0))),
        (ParameterError, lambda m: choose(m, draws=0)),
        (ParameterError, lambda m: choose(m, draws=2, distinct=True)),
        (ParameterError, lambda m: choose(m, score="worst")),
        (ParameterError, lambda m: choose(m, floors=[-1])),
        (ParameterError, lambda m: choose(m, floors=[1], score=MarginalScore.LARGEST)),
        (ParameterError, lambda m: choose(m, penalties=[1, 2])),
        (ParameterError, lambda m: choose(m, weights=[0])),
        (ParameterError, lambda m: choose(m, weights=[2**50])),
        (ParameterError, lambda m: choose(m, answer=Counts(2, np.zeros(2)))),
        (ParameterError, lambda m: choose(m, answer=Counts(2, np.zeros(1, np.int64)))),
        (
            ParameterError,
            lambda m: choose(m, answer=Counts(2, np.ones(2, np.int64), np.array([1, 0]))),
        ),
        (
            ParameterError,
            lambda m: choose(m, answer=Counts(2, np.ones(1, np.int64), np.array([2]))),
        ),
        (
            ParameterError,
            lambda m: m.ask(
                SelectMarginal(
                    batches=[BATCHES[2]],
                    answers=[Counts(3, np.zeros(3, np.int64))],
                    answer_rows=2,
                    rho=Fraction(1, 2),
                    score=TOTAL,
                )
            ),
        ),
        (
            ParameterError,
            lambda m: m.ask(
                SelectMarginal(
                    batches=[], answers=[], answer_rows=2, rho=Fraction(1, 2), score=TOTAL
                )
            ),
        ),
        (
            NotSupported,
            lambda m: m.ask(Select(batches=[wide], shares=[np.zeros(2)], rho=Fraction(1, 2))),
        ),
        (
            NotSupported,
            lambda m: m.ask(
                Measure(batches=[Marginal((0, 1), (2**31, 2**32))], rho=Fraction(1, 2))
            )[0],
        ),
        (ParameterError, lambda m: m.ask(Measure(batches=[batch], rho=Fraction(1, 2), kept=0))[0]),
        (
            ParameterError,
            lambda m: m.ask(Measure(batches=[batch], rho=Fraction(1, 2), kept=2**30))[0],
        ),
        (
            ParameterError,
            lambda m: m.ask(Measure(batches=[BATCHES[2]], rho=Fraction(1, 2), sparse=True))[0],
        ),
    ]
    for error, verb in refusals:
        meter, source = tripwired()
        with pytest.raises(error):
            verb(meter)
        assert source.looked == [] and meter.events == ()
    check_refuses_overspending(meter_on(small_table(), schema=SMALL))


@pytest.mark.parametrize(
    "rho",
    [0.5, float("nan"), float("inf"), -1, Fraction(0), True, "1/2", None, np.float64(0.1), 1j],
    ids=repr,
)
def test_rho_is_exact_or_refused_before_anything_is_charged(rho: Any) -> None:
    batch = Marginal.of(TINY, ["x"])
    for verb in (
        lambda m: m.ask(Measure(batches=[batch], rho=rho))[0],
        lambda m: m.ask(Measure(batches=[batch], rho=rho)),
        lambda m: m.ask(ReleaseTotal(rho=rho)),
        lambda m: m.ask(Select(batches=[batch], shares=[np.zeros(2)], rho=rho)),
        lambda m: choose(m, rho=rho),
    ):
        meter, source = tripwired()
        with pytest.raises(
            ParameterError, match="rho must be a whole number or a Fraction above 0"
        ):
            verb(meter)
        assert source.looked == [] and meter.events == ()


def test_whole_numbers_of_any_kind_are_taken_as_what_they_are() -> None:
    batch = Marginal.of(TINY, ["x"])
    meter = meter_on(BASE)
    two: Any = np.int64(2)
    assert (
        meter.ask(Measure(batches=[batch], rho=1, kept=two, sparse=True))[0].sigma
        == meter.ask(Measure(batches=[batch], rho=Fraction(1)))[0].sigma
    )
    assert (
        len(
            meter.ask(
                Select(batches=[batch], shares=[np.zeros(2)], rho=1, draws=two, multiplier=two)
            )
        )
        == 2
    )
    assert len(choose(meter, rho=1, draws=two)) == 2
    assert [type(e.draws) for e in meter.events if isinstance(e, ev.ExponentialDraws)] == [int, int]
    with pytest.raises(ParameterError, match="scores beyond"):
        meter.ask(Select(batches=[batch], shares=[np.zeros(2)], rho=1, multiplier=two**62))
    for verb in (
        lambda m: m.ask(Select(batches=[batch], shares=[np.zeros(2)], rho=1, draws=True)),
        lambda m: choose(m, draws=np.float64(2)),
    ):
        with pytest.raises(ParameterError, match="one draw"):
            verb(meter_on(BASE))


def test_several_measurements_are_charged_together_and_looked_at_once() -> None:
    batches = [Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["y"])]
    meter, source = tripwired()
    found = meter.ask(Measure(batches=batches, rho=Fraction(1, 2)))
    assert source.looked == [2] and [m.batch for m in found] == batches
    assert [e.sigma_squared for e in meter.events if isinstance(e, ev.DiscreteGaussian)] == [
        m.sigma**2 for m in found
    ]
    assert 0.49 < sum(float(cost_of(e).rho) for e in meter.events) <= 0.5
    with pytest.raises(BudgetRefused):
        meter.ask(Measure(batches=batches, rho=Fraction(6, 10)))
    assert len(meter.events) == 2


def test_a_mechanism_cannot_spend_the_certificate() -> None:
    meter = meter_on(BASE, certify=Fraction(5))
    with pytest.raises(BudgetRefused, match="left"):
        meter.ask(Measure(batches=[Marginal.of(TINY, ["x"])], rho=Fraction(11)))[0]


def test_threads_cannot_spend_one_allowance_twice() -> None:
    # costs exactly the allowance of 10
    event = ev.DiscreteGaussian(what="m", sigma_squared=Fraction(1, 10), l2_squared=2)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            account, refused = meter_module.Account(Cost(Fraction(10))), []

            def spend(
                account: meter_module.Account = account, refused: list[bool] = refused
            ) -> None:
                try:
                    account.charge(event)
                except BudgetRefused:
                    refused.append(True)

            threads = [threading.Thread(target=spend) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(account.events) == 1 and len(refused) == 3
    finally:
        sys.setswitchinterval(old)


def test_exactly_the_allowance_can_be_spent() -> None:
    meter = meter_on(BASE)
    sigma_one = ev.DiscreteGaussian(what="m", sigma_squared=Fraction(1, 10), l2_squared=2)
    meter._play.charge(sigma_one)
    assert meter.left == 0
    with pytest.raises(BudgetRefused):
        meter._play.charge(
            ev.DiscreteGaussian(what="m", sigma_squared=Fraction(10**30), l2_squared=1)
        )


def test_queries_of_another_schema_are_refused_not_broadcast() -> None:
    """One noise value added to five exact counts would give them all away."""
    narrow = Marginal((0,), (1,))
    with pytest.raises(ParameterError, match="another schema"):
        meter_on(small_table(), schema=SMALL).ask(Measure(batches=[narrow], rho=Fraction(1)))[0]


def test_a_relation_written_as_text_is_the_relation() -> None:
    written: Any = "replace-one"
    meter = Meter(
        MemorySource(BASE, TINY),
        neighbours=written,
        play=Cost(Fraction(1)),
        certify=Fraction(1),
    )
    assert meter.neighbours is REPLACE


def test_whatever_breaks_while_looking_becomes_one_fixed_sentence() -> None:
    class Breaks(MemorySource):
        def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
            if any(column_sets):
                raise ValueError("the cell was 13579")
            return super().count(column_sets)

        def scan(self, row_function: RowFunction) -> np.ndarray:
            raise ValueError("the cell was 13579")

    for verb in (
        lambda m: m.ask(Measure(batches=[BATCHES[0]], rho=Fraction(1, 2)))[0],
        lambda m: m.ask(Measure(batches=[BATCHES[2]], rho=Fraction(1, 2)))[0],
        discriminate,
    ):
        source = Breaks(BASE, TINY)
        meter = Meter(
            source,
            neighbours=REPLACE,
            play=laws.RICH,
            certify=Fraction(1),
        )
        with pytest.raises(SourceError) as caught:
            verb(meter)
        assert (
            "13579" not in str(caught.value)
            and caught.value.__context__ is None
            and caught.value.__cause__ is None
        )


def test_whatever_breaks_while_counting_rows_becomes_the_same_sentence() -> None:
    class Breaks(MemorySource):
        def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
            raise ValueError("the cell was 13579")

    batch = Marginal.of(TINY, ["x"])
    for verb in (
        lambda m: m.rows,
        lambda m: m.ask(Select(batches=[batch], shares=[np.zeros(2)], rho=1)),
        choose,
        lambda m: m.ask(Measure(batches=[batch], rho=1))[0],
    ):
        meter = Meter(
            Breaks(BASE, TINY),
            neighbours=REPLACE,
            play=Cost(Fraction(1)),
            certify=Fraction(1),
        )
        with pytest.raises(SourceError, match="could not be read to the end") as caught:
            verb(meter)
        assert (
            "13579" not in str(caught.value)
            and caught.value.__context__ is None
            and caught.value.__cause__ is None
        )


class Panic(BaseException):
    """As of a library in Rust, whose panics are no Exception."""


@pytest.mark.parametrize(
    ("raised", "heard"),
    [(Panic, SourceError), (KeyboardInterrupt, KeyboardInterrupt), (SystemExit, SystemExit)],
)
def test_a_panic_is_a_sentence_and_an_interruption_goes_on_alone(
    raised: type[BaseException], heard: type[BaseException]
) -> None:
    class Breaks(MemorySource):
        def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
            try:
                raise ValueError("the cell was 13579")
            except ValueError as problem:
                raise raised from problem

    with pytest.raises(heard) as caught:
        public_rows(Breaks(BASE, TINY))
    assert (
        "13579" not in chain_of(caught.value)
        and caught.value.__context__ is None
        and caught.value.__cause__ is None
    )


@pytest.mark.filterwarnings("error")
def test_absurd_shares_are_taken_for_the_nearer_end_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = captured(monkeypatch)
    batch, multiplier = Marginal.of(TINY, ["y", "x"]), 2**38
    for share in (
        np.array([np.inf, -np.inf, np.nan, 1e308]),
        np.array([np.inf, -9, np.nan, 6e4], np.float16),
    ):
        meter_on(BASE).ask(
            Select(batches=[batch], shares=[share], rho=Fraction(1, 100), multiplier=multiplier)
        )
        counts = batch.counts(CodedRows(BASE, TINY.shape)).dense()
        assert (
            seen[-1][0].tolist() == (multiplier * np.abs(counts - np.array([3, 0, 0, 3]))).tolist()
        )


def test_a_multiplier_must_be_a_sensible_whole_number() -> None:
    for multiplier in (1.5, 2**45, 0):
        with pytest.raises(ParameterError):
            meter_on(BASE).ask(
                Select(
                    batches=[BATCHES[0]],
                    shares=[np.zeros(2)],
                    rho=Fraction(1, 2),
                    multiplier=multiplier,
                )
            )  # type: ignore[arg-type]


# ---------------------------------------------------------------------- n, and what leaks


def test_n_is_private_under_add_remove() -> None:
    meter = meter_on(BASE, neighbours=ADD)
    with pytest.raises(ParameterError, match="private"):
        _ = meter.rows
    with pytest.raises(ParameterError, match="private"):
        meter.ask(Select(batches=[BATCHES[0]], shares=[np.zeros(2)], rho=Fraction(1, 2)))
    found = meter.ask(ReleaseTotal(rho=Fraction(1, 100)))
    assert isinstance(found, Measurement) and found.sigma**2 >= 50
    assert meter.rows == max(1, int(found.counts[0])) and meter.rows_sigma == found.sigma
    made = meter.ask(
        Certify(batches=[BATCHES[0]], answers=[Counts(2, np.array([1, 1]))], released_rows=2)
    )
    assert (made.rows, made.rows_sigma) == (
        meter.rows,
        float(found.sigma),
    ), "a certificate knows that n is noisy"


def test_n_is_free_under_replace_one_and_costs_under_add_remove() -> None:
    free = meter_on(BASE)
    assert free.rows == 3 and free.events == ()
    private = meter_on(BASE, neighbours=ADD)
    private.ask(ReleaseTotal(rho=Fraction(1, 2)))
    assert cost_of(private.events[0]).rho == pytest.approx(0.5, rel=3e-3)


def test_a_meter_tells_nothing_by_itself() -> None:
    meter = meter_on(small_table(), schema=SMALL)
    meter.ask(Measure(batches=[Marginal.of(SMALL, ["a"])], rho=Fraction(1)))[0]
    left = float(meter.left)
    assert repr(meter) == f"<Meter: 1 events, rho {left:.6g} left>", (
        "what was charged, and nothing that was counted"
    )
    for copy_it in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never pickled"):
            copy_it(meter)
    source, kept = weakref.ref(meter._open_source()), meter._exact
    assert kept and source() is not None
    meter.close()
    assert not kept and source() is None, "neither the table nor a count of it"
    with pytest.raises(ParameterError, match="closed"):
        meter.ask(Measure(batches=[Marginal.of(SMALL, ["b"])], rho=Fraction(1)))[0]


def test_measurements_are_unbiased_and_have_their_sigma() -> None:
    batch = marginals(SMALL, k=1).batches[0]
    draws = np.array(
        [
            meter_on(small_table(), schema=SMALL)
            .ask(Measure(batches=[batch], rho=Fraction(1, 100)))[0]
            .counts
            for _ in range(400)
        ]
    )
    truth = batch.counts(CodedRows(small_table(), SMALL.shape)).dense()
    assert np.all(np.abs(draws.mean(axis=0) - truth) < 6 * 10 / 20)
    assert np.all(np.abs(draws.std(axis=0) / 10 - 1) < 0.25)
