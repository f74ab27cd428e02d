"""fem, sepfem, oraclequery, dualquery and dqrs: the laws they draw from, what they charge whatever
the oracle does, and what they learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import pytest

import understudy as us
from support.meters import decided, meter_on, play_on
from understudy.checks import SMALL, small_table
from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import Played
from understudy.game.players.choosing import WeightedQueries
from understudy.game.players.oracle import (
    BestResponse,
    Growing,
    PerturbedLeader,
    Records,
    Solver,
    add_up,
    any_query,
    exponential,
    laplace,
    oracle_of,
    weighted,
)
from understudy.mechanisms.base import Brief, Mechanism, available_mechanisms
from understudy.mechanisms.papers.dqrs import DQRS
from understudy.mechanisms.papers.dualquery import DualQuery, rounds_within, squares
from understudy.mechanisms.papers.fem import Fem
from understudy.mechanisms.papers.leading import Leading, rounds_for
from understudy.mechanisms.papers.oraclequery import OracleQuery
from understudy.mechanisms.papers.sepfem import SepFem
from understudy.oracles.base import Ended, Found, Instance, Oracle, Variants
from understudy.privacy import Choice, Measurement, Meter, ProcessLedger
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.accounting.events import ExponentialDraws
from understudy.queries.base import Neighbours
from understudy.queries.literals import Literal, Query, all_of, parity
from understudy.queries.marginal import Marginal
from understudy.queries.separator import separator
from understudy.queries.symmetric import Symmetric
from understudy.sources.memory import MemorySource

KINDS: list[type[Mechanism]] = [Fem, SepFem, OracleQuery, DualQuery, DQRS]
PAIRS = us.marginals(SMALL, k=2)


@dataclass(frozen=True, kw_only=True)
class Adversary(Oracle):
    """Answers with whatever it was given: worst records, nonsense, or a crash."""

    answer: Callable[[Instance, int], Found]

    name: ClassVar[str] = "adversary"

    def solve(self, instance: Instance, seed: int) -> Found:
        return self.answer(instance, seed)


def _of(instance: Instance, record: np.ndarray, ended: Ended = Ended.LIMIT) -> Found:
    return Found(record, 0.0, np.inf, False, ended)


def _worst(instance: Instance, seed: int) -> Found:
    records = (
        np.random.default_rng(seed)
        .integers(0, instance.shape, (20, len(instance.shape)))
        .astype(np.int32)
    )
    return _of(instance, records[int(np.argmin(instance.values(records)))])


def _crash(instance: Instance, seed: int) -> Found:
    if instance.linear is None and seed == 0:
        # passes the probe, so that the crash comes while it plays
        return _of(instance, np.zeros(3, np.int32))
    raise RuntimeError("solver died")


ORACLES: dict[str, Callable[[Instance, int], Found]] = {
    "worst records": _worst,
    "always the same": lambda instance, seed: _of(instance, np.zeros(3, np.int32)),
    "failed": lambda instance, seed: _of(instance, np.ones(3, np.int32), Ended.FAILED),
    "outside the domain": lambda instance, seed: _of(instance, np.full(3, 99, np.int32)),
    "not a record": lambda instance, seed: _of(instance, np.zeros((2, 2))),
    "crashes": _crash,
}


def play(
    mechanism: Mechanism,
    *,
    rho: Fraction = Fraction(1, 2),
    seed: int = 0,
    table: np.ndarray | None = None,
    work: us.Workload = PAIRS,
) -> tuple[Played, Meter]:
    brief = Brief(schema=SMALL, workload=work, neighbours=Neighbours.REPLACE_ONE)
    rows = small_table() if table is None else table
    source = MemorySource(rows, SMALL)
    played, meter, decision = play_on(source, mechanism, brief, rho, len(rows), seed=seed)
    return replace(played, facts={**decision.numbers, **played.facts}), meter


# ---------------------------------------------------------------------- privacy does not depend on the oracle


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ORACLES)
def test_no_oracle_moves_a_charge_or_ends_a_release(kind: Any, name: str) -> None:
    settings = {"rounds": 6, "samples": 4}
    _, honest = play(kind(**settings))
    played, meter = play(kind(**settings, oracle=Adversary(answer=ORACLES[name])))
    spent = total_cost(meter.events).in_rho(us.Budget.zcdp(1))
    assert meter.events == honest.events and spent is not None and spent > Fraction(49, 100)
    rows = played.model.rows(50, np.random.default_rng(0))
    assert rows.shape == (50, 3) and np.all((rows >= 0) & (rows < SMALL.shape))
    faulty = name not in ("worst records", "always the same")
    assert played.facts["solves"] == (24 if issubclass(kind, Leading) else 6)
    assert played.facts["failed_solves"] == (played.facts["solves"] if faulty else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_other_solves_and_other_tables_cost_the_same(kind: Any) -> None:
    """What is charged is a function of the budget, n and the parameters: not of rows, solves or
    scale.
    """
    _, meter = play(kind(rounds=5, samples=3))
    _, other = play(
        kind(rounds=5, samples=3, oracle="brute"), seed=9, table=np.zeros((600, 3), int)
    )
    assert meter.events == other.events
    if issubclass(kind, Leading):
        _, more = play(kind(rounds=5, samples=8, scale=7.5, last=1.0))
        assert more.events == meter.events


def test_a_failed_solve_falls_back_on_the_best_record_known() -> None:
    answers = [np.array([2, 3, 1], np.int32), np.array([0, 1, 0], np.int32)]

    def answer(instance: Instance, seed: int) -> Found:
        return _of(
            instance,
            answers.pop() if answers else np.array([1, 1, 1], np.int32),
            Ended.LIMIT if answers else Ended.FAILED,
        )

    solver = Solver(Adversary(answer=answer), np.random.default_rng(0))
    instance = Instance.of(SMALL.shape, [all_of(Literal(0, 0), Literal(1, 1))])
    solver.records(instance, Variants())  # (0, 1, 0), the best one there is
    assert solver.failed == 0
    assert solver.records(instance, Variants()).tolist() == [[0, 1, 0]]  # and not its own (2, 3, 1)
    assert (solver.solves, solver.failed) == (2, 1)


# ---------------------------------------------------------------------- laws and charges


def test_fem_selects_one_time_less_than_it_has_rounds() -> None:
    for kind in (Fem, SepFem, OracleQuery):
        played, meter = play(kind(rounds=7, samples=2))
        draws = [event.draws for event in meter.events if isinstance(event, ExponentialDraws)]
        assert draws == [1] * 6 and len(played.findings) == 6
        kappas = [
            float(event.log_weight_shift)
            for event in meter.events
            if isinstance(event, ExponentialDraws)
        ]
        # per row: kappa = sqrt(2 rho_0), n times that per share
        assert kappas == pytest.approx([(2 * 0.5 / 6) ** 0.5] * 6)


def test_fem_releases_the_records_of_the_last_rounds() -> None:
    for last, kept in ((0.5, 4), (1.0, 7), (0.01, 1)):
        played, _ = play(Fem(rounds=7, samples=3, last=last))
        assert isinstance(played.model, Records) and len(played.model.codes) == 3 * kept


def test_the_query_player_of_fem_is_shown_the_records_of_a_few_rounds() -> None:
    solver = Solver(oracle_of("search"), np.random.default_rng(0))
    first = Choice(Marginal.of(SMALL, ["a", "b"]), 3)
    data = PerturbedLeader(
        SMALL,
        solver,
        exponential(SMALL, 1.0),
        first=first,
        samples=4,
        window=3,
        last=0.5,
        rng=np.random.default_rng(0),
    )
    assert [len(data.propose().codes) for _ in range(5)] == [4, 8, 12, 12, 12]


def test_a_negation_chosen_after_its_query_takes_it_back() -> None:
    weights: dict[Query, int] = {}
    batch = Marginal.of(SMALL, ["a", "b"])
    add_up(
        weights, [Choice(batch, 3), Choice(batch, 3), Choice(batch, 5, -1), Choice(batch, 3, -1)]
    )
    instance = weighted(SMALL, weights)
    assert sorted(instance.weights.tolist()) == [-1.0, 1.0]
    add_up(weights, [Choice(batch, 3, -1)])
    assert weighted(SMALL, weights).weights.tolist() == [-1.0]


def test_dualquery_charges_grow_with_the_square_of_the_round() -> None:
    played, meter = play(DualQuery(rounds=5, samples=3))
    assert played.facts["step"] == pytest.approx(600 * (12 * 0.5 / (3 * 4 * 5 * 9)) ** 0.5)
    events = [event for event in meter.events if isinstance(event, ExponentialDraws)]
    assert [event.draws for event in events] == [3] * 4 and len(played.findings) == 15
    eta = float(played.facts["step"])
    assert [float(event.log_weight_shift) for event in events] == pytest.approx(
        [eta * m / 600 for m in (1, 2, 3, 4)]
    )
    assert Fraction(49, 100) < total_cost(meter.events).rho <= Fraction(1, 2)


def test_dualquery_with_a_step_plays_as_long_as_the_budget_lasts() -> None:
    """rho = s eta^2 (T - 1) T (2T - 1) / (12 n^2), the largest T within 1/2."""
    played, meter = play(DualQuery(step=2.0, samples=10))
    rounds = int(played.facts["rounds"])

    def cost(t: int) -> float:
        return 10 * 2.0**2 * (t - 1) * t * (2 * t - 1) / (12 * 600**2)

    assert cost(rounds) <= 0.5 < cost(rounds + 1)
    assert float(total_cost(meter.events).rho) == pytest.approx(cost(rounds), rel=1e-4)
    assert [rounds_within(Fraction(x)) for x in (0, 1, 4, 5, 13, 14)] == [1, 2, 2, 3, 3, 4]
    assert all(squares(t) == sum(m * m for m in range(t)) for t in range(1, 30))


def test_columns_that_no_drawn_query_names_follow_what_was_measured_of_them() -> None:
    """The workload asks about b and c only; a is 0 in 70% of the table and free in every record."""
    work = us.explicit(SMALL, columns=[["b", "c"]])
    settings: dict[str, Any] = {"rounds": 300, "samples": 1}
    free, _ = play(DualQuery(**settings), work=work)
    known, meter = play(DualQuery(columns=Fraction(1, 5), **settings), work=work)
    shares = [
        np.mean(played.model.rows(600, np.random.default_rng(0))[:, 0] == 0)
        for played in (free, known)
    ]
    assert abs(shares[0] - 1 / 3) < 0.12 and abs(shares[1] - 0.7) < 0.12
    # released, so they are part of the bundle
    assert sum(isinstance(finding, Measurement) for finding in known.findings) == 3
    spent = total_cost(meter.events)
    assert Fraction(45, 100) < spent.rho <= Fraction(1, 2)


def test_rounds_that_no_selection_could_score_are_refused_before_anything_is_spent() -> None:
    brief = Brief(schema=SMALL, workload=PAIRS, neighbours=Neighbours.REPLACE_ONE)
    with pytest.raises(ParameterError, match="use fewer"):
        decided(DualQuery(rounds=100_000), brief, Fraction(1), 2**24)


def test_the_weights_of_dualquery_are_those_of_the_paper() -> None:
    """Exact law of round 3 against the law of many draws: weights exp(eta * sum over records of
    (q(D) - q(x))).
    """
    schema = us.Schema.from_domain({"a": 2, "b": 2})
    rows = np.array([[0, 0]] * 5 + [[0, 1]] * 2 + [[1, 1]] * 3)
    batch = Marginal.of(schema, ["a", "b"])
    records = np.array([[0, 0], [1, 0]], np.int32)
    eta, draws = 1.5, 20_000
    unit = draws * Fraction(eta) ** 2 / (2 * len(rows) ** 2)
    meter = meter_on(rows, schema, play=Cost(5 * unit), certify=unit)
    player = WeightedQueries(meter, [batch], unit=unit, draws=draws, rng=np.random.default_rng(0))
    model = Growing(schema)
    free = player.point(model)
    assert len(free) == draws and not meter.events  # round 1 is uniform and public
    model.add(records[:1])
    player.point(model)
    model.add(records[1:])
    found = player.point(model)
    truth, sums = np.array([0.5, 0.2, 0.0, 0.3]), np.array([1.0, 0.0, 1.0, 0.0])
    gain = eta * (2 * truth - sums)
    law = np.exp(np.concatenate([gain, -gain]))
    law /= law.sum()
    seen = np.bincount(
        [c.index + (4 if c.sign < 0 else 0) for c in found if isinstance(c, Choice)], minlength=8
    )
    chi = float(((seen - draws * law) ** 2 / (draws * law)).sum())
    assert chi < 40  # 7 degrees of freedom: beyond 40 once in a million
    wrong = np.exp(np.concatenate([gain, -gain]) / 1.3)
    wrong /= wrong.sum()
    assert ((seen - draws * wrong) ** 2 / (draws * wrong)).sum() > 40
    assert float(total_cost(meter.events).rho) == pytest.approx(float(5 * unit), rel=1e-6)


# ---------------------------------------------------------------------- perturbations


def test_separators_tell_any_two_records_apart() -> None:
    parities = Symmetric(
        (parity(Literal(0, 1), Literal(1, 0)), parity(Literal(1, 2), Literal(2, 1)))
    )
    for batch in (Marginal.of(SMALL, ["a", "b", "c"]), parities):
        batch = Symmetric(separator([batch], SMALL))
        assert batch.size == sum(SMALL.shape) - len(SMALL.shape)
        truth = batch.truth(np.array(list(product(*map(range, SMALL.shape)))))
        assert all(np.any(one != other) for one, other in combinations(truth, 2))
    assert separator([parities], SMALL)[0].table == (1, 0)  # of parities, parities


def test_the_noise_of_fem_pushes_down_and_that_of_sepfem_both_ways() -> None:
    rng = np.random.default_rng(0)
    down = exponential(SMALL, 2.0)(4000, rng)
    assert (
        down.shape == (4000, 9)
        and down.max() <= 0
        and np.allclose(down.mean(axis=0), -2, atol=0.25)
    )
    fake = separator([Marginal.of(SMALL, ["a", "b", "c"])], SMALL)
    both = laplace(SMALL, fake, 2.0)(4000, rng)
    assert np.all(both[:, [0, 3, 7]] == 0)  # the first value of each column stays as it is
    rest = np.delete(both, [0, 3, 7], axis=1)
    assert np.allclose(rest.mean(axis=0), 0, atol=0.25) and np.allclose(
        np.abs(rest).mean(axis=0), 2, atol=0.25
    )


def test_any_query_is_any_query() -> None:
    rng = np.random.default_rng(0)
    drawn = [any_query(list(PAIRS), rng) for _ in range(4000)]
    seen = {(choice.batch, choice.index, choice.sign) for choice in drawn}
    assert len(seen) == 2 * PAIRS.size
    assert all(0 <= choice.index < choice.batch.size for choice in drawn)


# ---------------------------------------------------------------------- behaviour


@pytest.mark.parametrize("kind", KINDS)
def test_public_randomness_has_a_seed(kind: Any) -> None:
    """What is public and comes before the first look is the same for a seed; noise has none, so
    findings differ.
    """
    oracle = Adversary(
        answer=lambda instance, seed: _of(
            instance, np.random.default_rng(seed).integers(0, instance.shape).astype(np.int32)
        )
    )
    first, again, other = (
        play(kind(rounds=9, samples=3, oracle=oracle), seed=s)[0].model for s in (5, 5, 6)
    )
    assert all(isinstance(model, (Records, Growing)) for model in (first, again, other))
    assert np.array_equal(first.codes, again.codes) and not np.array_equal(first.codes, other.codes)


def test_best_responses_satisfy_the_queries_of_their_round() -> None:
    data = BestResponse(SMALL, Solver(oracle_of("search"), np.random.default_rng(0)))
    batch = Marginal.of(SMALL, ["a", "b"])
    # a=1, b=2 twice; not a=0, b=1
    data.learn([Choice(batch, 6), Choice(batch, 6), Choice(batch, 1, -1)])
    assert data.propose().codes[0, :2].tolist() == [1, 2]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("dualquery", {"columns": 1.5}, "dualquery needs columns strictly between"),
    ("dqrs", {"step": 0}, "dqrs needs step to be a number above 0"),
    ("dqrs", {"samples": 0}, "dqrs needs samples"),
    ("fem", {"rounds": 1}, "fem needs rounds to be a whole number from 2"),
    ("fem", {"rounds": True}, "rounds"),
    ("fem", {"samples": 0}, "fem needs samples"),
    ("sepfem", {"scale": 0}, "sepfem needs scale to be a number above 0"),
    ("fem", {"scale": float("nan")}, "scale"),
    ("fem", {"last": 1.5}, "last to be above 0 and at most 1"),
    ("fem", {"oracle": "delphi"}, "There is no oracle 'delphi'; there are brute"),
    ("fem", {"oracle": 7}, "fem needs oracle to be"),
    ("dualquery", {"rounds": 2.5}, "dualquery needs rounds"),
    ("dualquery", {"samples": -1}, "dualquery needs samples"),
    ("dualquery", {"step": -1.0}, "step to be a number above 0"),
    ("dualquery", {"step": 1.0, "rounds": 9}, "rounds or step, not both"),
]


@pytest.mark.parametrize(("name", "parameters", "sentence"), WRONG)
def test_parameters_are_refused_in_a_sentence_and_cost_nothing(
    name: str, parameters: dict[str, Any], sentence: str
) -> None:
    ledger = ProcessLedger()
    with pytest.raises(ParameterError, match=sentence):
        us.release(
            small_table(),
            schema=SMALL,
            epsilon=1,
            mechanism=name,
            parameters=parameters,
            ledger=ledger,
        )
    assert not ledger.state.charges


def test_an_oracle_that_cannot_serve_the_workload_is_refused_before_anything_is_charged() -> None:
    wide = us.Schema.from_domain(dict.fromkeys("abcdefgh", 20))
    for oracle in ("brute", "parity"):
        with pytest.raises(NotSupported, match=oracle):
            us.release(
                np.zeros((40, 8), int),
                schema=wide,
                epsilon=1,
                mechanism="fem",
                parameters={"oracle": oracle},
            )


@pytest.mark.parametrize("name", ["fem", "sepfem", "dualquery"])
def test_the_manifest_says_what_the_rule_came_to(name: str) -> None:
    made = us.release(small_table(), schema=SMALL, epsilon=1, mechanism=name, seed=3)
    played = made.manifest["mechanism"]["played"]
    assert (
        played["rounds"] >= 2
        and played["samples"] >= 1
        and played["solves"] > 0
        and played["failed_solves"] == 0
    )
    parameters = made.manifest["mechanism"]["parameters"]
    assert all(parameters[word] == played[word] for word in ("rounds", "samples"))


def test_the_rule_is_public_and_grows_with_the_budget() -> None:
    wide = us.marginals(us.Schema.from_domain({f"c{i}": 5 for i in range(56)}), k=3, sample=500)
    rounds = [
        rounds_for(Fraction(rho), 48_842, PAIRS) for rho in ("0.00016", "0.001", "0.0036", "0.0136")
    ]
    assert rounds == sorted(rounds) and rounds_for(Fraction(1, 10**9), 50, PAIRS) >= 2
    few = us.explicit(
        wide.schema, columns=[[f"c{i}" for i in some] for some in combinations(range(14), 3)]
    )
    more = [
        rounds_for(Fraction("0.0036"), 48_842, work)
        for work in (few, us.Workload(wide.schema, wide.batches[: len(few)]))
    ]
    # four times as many columns, as many queries
    assert more[1] == pytest.approx(2 * more[0], rel=0.05)
    assert {"fem", "sepfem", "dualquery"} <= set(available_mechanisms())


@pytest.mark.parametrize("name", ["fem", "sepfem", "dualquery"])
def test_they_beat_independent_columns_where_columns_depend(name: str) -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 3, (5_000, 4))
    table[:, 1], table[:, 3] = table[:, 0], (table[:, 2] + 1) % 3
    schema = us.Schema.from_domain(dict.fromkeys("abcd", 3))

    def error(mechanism: str) -> float:
        fewer = {"samples": 30} if mechanism in ("fem", "sepfem") else {}
        made = us.release(
            table,
            schema=schema,
            epsilon=5,
            mechanism=mechanism,
            parameters=fewer,
            workload="2-way",
            seed=0,
        )
        return max(
            float(
                np.abs(
                    Records(schema, table.astype(np.int32)).shares(batch)
                    - Records(schema, made.codes).shares(batch)
                ).max()
            )
            for batch in made.workload
        )

    assert error(name) < 0.5 * error("independent")
