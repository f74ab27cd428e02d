"""Relaxed rows: exact expectations and gradients, rounding that keeps them, and the two mechanisms
on top.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from support.bundles import unsound
from support.meters import decided, meter_on
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows
from understudy.game.fitting.mixture import Mixture
from understudy.game.players import relaxed as player
from understudy.game.players.measuring import WorstSeveral, single
from understudy.game.players.relaxed import Fit, RelaxedRows
from understudy.game.players.simplex import PARAMETERISATIONS, softmax, sparsemax
from understudy.mechanisms.base import Brief
from understudy.mechanisms.papers.projection import Projection
from understudy.mechanisms.papers.rap import Rap
from understudy.privacy import Choice, Measurement, Meter, ProcessLedger
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.accounting.events import DiscreteGaussian, ExponentialDraws
from understudy.queries import relaxed as room
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.literals import Literal, all_of, any_of, at_least, parity
from understudy.queries.marginal import Marginal
from understudy.queries.relaxed import Chances, relaxed
from understudy.queries.symmetric import Symmetric
from understudy.queries.workload import explicit, marginals
from understudy.runtime.watching import NoWatcher
from understudy.schema import Schema

FOUR = Schema.from_domain({"a": 3, "b": 4, "c": 2, "d": 5})
RECORDS = np.indices(FOUR.shape, np.int32).reshape(4, -1).T
FIT = Fit(relaxed_rows=60, parameterisation="softmax", rate=None, steps=300)


def chances(schema: Schema, rows: int, seed: int = 0) -> Chances:
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(schema.shape)]).astype(np.int64)
    made = Chances(np.empty((int(starts[-1]), rows), np.float32), starts)
    for c, size in enumerate(schema.shape):
        softmax(rng.normal(0, 1.5, (size, rows)).astype(np.float32), made.column(c))
    return made


def batches() -> list[QueryClass]:
    """Marginals of 0 to 4 columns, and every symmetric shape, literals of one column included."""
    rng = np.random.default_rng(1)
    batches: list[QueryClass] = [
        Marginal.of(FOUR, names)
        for names in ([], ["d"], ["c", "a"], ["d", "a", "b"], ["b", "d", "a", "c"])
    ]
    for _ in range(3):
        batches.extend(Symmetric.examples(FOUR, rng))
    same = [
        Literal(1, 0),
        Literal(1, 2),
        Literal(1, 2, holds=False),
        Literal(3, 4),
        Literal(0, 1, holds=False),
    ]
    batches.append(
        Symmetric(
            (
                any_of(*same[:2]),
                all_of(*same[:2]),
                parity(*same),
                at_least(3, *same),
                ~at_least(2, *same[1:]),
            )
        )
    )
    return batches


# ---------------------------------------------------------------------- expectations and gradients


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: batch.kind)
def test_answers_are_expectations_over_all_records(batch: QueryClass) -> None:
    at = chances(FOUR, 300)  # more than one group of lanes
    weights = np.prod(
        [at.column(c)[RECORDS[:, c]].astype(np.float64) for c in range(4)], axis=0
    ).mean(axis=1)
    expected = weights @ batch.truth(RECORDS[:, list(batch.columns)])
    assert np.allclose(relaxed(batch).answers(at), expected, atol=2e-6)


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: batch.kind)
def test_gradients_are_differences(batch: QueryClass) -> None:
    """Answers are linear in each single chance, so a difference over a step of 1 is the derivative,
    not near it.
    """
    at, queries = chances(FOUR, 3), relaxed(batch)
    assert queries is not None
    slopes = np.random.default_rng(2).normal(size=batch.size)
    gradient = np.zeros_like(at.values)
    queries.pull(at, slopes, gradient)
    here = queries.answers(at)
    for place in np.ndindex(at.values.shape):
        moved = at.values.copy()
        moved[place] += 1
        assert gradient[place] == pytest.approx(
            slopes @ (queries.answers(Chances(moved, at.starts)) - here), abs=2e-5
        )


def test_answers_do_not_depend_on_how_rows_are_cut_into_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, batch = chances(FOUR, 50), Marginal.of(FOUR, ["b", "d", "a"])
    slopes, whole, cut = np.arange(60.0), np.zeros_like(at.values), np.zeros_like(at.values)
    before = relaxed(batch).answers(at)
    relaxed(batch).pull(at, slopes, whole)
    monkeypatch.setattr(room, "BLOCK_FLOATS", 100)
    assert np.allclose(relaxed(batch).answers(at), before, atol=1e-6)
    relaxed(batch).pull(at, slopes, cut)
    assert np.allclose(whole, cut, atol=1e-4)


# ---------------------------------------------------------------------- distributions


def by_sorting(free: np.ndarray) -> np.ndarray:
    """Sparsemax of one vector, by the definition's support."""
    falling = np.sort(free)[::-1]
    sums = np.cumsum(falling)
    k = np.flatnonzero(1 + np.arange(1, len(free) + 1) * falling > sums)[-1] + 1
    return np.maximum(free - (sums[k - 1] - 1) / k, 0)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 50.0])
def test_sparsemax_is_the_nearest_distribution(scale: float) -> None:
    free = (scale * np.random.default_rng(0).normal(size=(7, 40))).astype(np.float32)
    out = np.empty_like(free)
    sparsemax(free, out)
    assert np.allclose(
        out, np.apply_along_axis(by_sorting, 0, free.astype(np.float64)), atol=1e-5 * max(scale, 1)
    )
    assert np.allclose(out.sum(axis=0), 1, atol=1e-4)


@pytest.mark.parametrize("name", PARAMETERISATIONS)
def test_slopes_of_free_numbers_are_differences(name: str) -> None:
    form, rng = PARAMETERISATIONS[name], np.random.default_rng(3)
    free = rng.normal(0, 0.3, (5, 4)).astype(np.float32)
    slopes = rng.normal(size=(5, 4)).astype(np.float32)

    def value(of: np.ndarray) -> np.ndarray:
        out = np.empty_like(of)
        form.chances(of, out)
        return out

    pulled = slopes.copy()
    form.pull(value(free), pulled)
    for v in range(5):
        step = np.zeros_like(free)
        step[v] = 1e-2
        difference = ((value(free + step) - value(free - step)) * slopes).sum(axis=0) / 2e-2
        assert np.allclose(pulled[v], difference, atol=2e-3)


# ---------------------------------------------------------------------- rounding


def test_rounding_keeps_every_expected_answer_and_evens_out_single_columns() -> None:
    model, rng = Mixture(SMALL, chances(SMALL, 7)), np.random.default_rng(0)
    batch, column = Marginal.of(SMALL, ["a", "b", "c"]), Marginal.of(SMALL, ["b"])
    runs, count = 2000, 20  # not a multiple of the relaxed rows
    tables = [CodedRows(model.rows(count, rng), SMALL.shape) for _ in range(runs)]
    joint = np.array([batch.counts(table).dense() for table in tables]) / count
    error = joint.std(axis=0) / np.sqrt(runs)
    assert np.all(np.abs(joint.mean(axis=0) - model.shares(batch)) < 4.5 * error + 1e-6)
    single_column = np.array([column.counts(table).dense() for table in tables]) / count
    share = model.shares(column)
    # independent draws have all of it
    assert np.all(single_column.var(axis=0) < 0.75 * share * (1 - share) / count)


def test_rows_of_any_number() -> None:
    model = Mixture(SMALL, chances(SMALL, 7))
    for count in (1, 6, 7, 100):
        rows = model.rows(count, np.random.default_rng(0))
        assert (
            rows.shape == (count, 3)
            and rows.dtype == np.int32
            and np.all((rows >= 0) & (rows < SMALL.shape))
        )


# ---------------------------------------------------------------------- the player


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_without_noise_the_answers_are_recovered(parameterisation: str) -> None:
    table = CodedRows(small_table().astype(np.int32), SMALL.shape)
    batches = [
        *marginals(SMALL, k=2),
        Symmetric(
            (
                any_of(Literal(0, 1), Literal(0, 2)),
                ~parity(Literal(1, 1), Literal(2, 0), Literal(0, 0)),
            )
        ),
    ]
    fit = Fit(relaxed_rows=60, parameterisation=parameterisation, rate=None, steps=1000)
    data = RelaxedRows(SMALL, fit, rows=600, rng=np.random.default_rng(0))
    data.learn([Measurement(batch, batch.counts(table).dense(), Fraction(1)) for batch in batches])
    for batch in batches:
        assert np.abs(data.result().shares(batch) - batch.counts(table).dense() / 600).max() < 0.006


def test_large_batches_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "STEP_CELLS", 10)
    table = CodedRows(small_table().astype(np.int32), SMALL.shape)
    batches = list(marginals(SMALL, k=2))
    data = RelaxedRows(SMALL, FIT, rows=600, rng=np.random.default_rng(0))
    data.learn([Measurement(batch, batch.counts(table).dense(), Fraction(1)) for batch in batches])
    for batch in batches:
        assert np.abs(data.result().shares(batch) - batch.counts(table).dense() / 600).max() < 0.02


# ---------------------------------------------------------------------- the mechanisms


def meter(rho: Fraction, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> Meter:
    return meter_on(small_table(), SMALL, neighbours=neighbours, play=Cost(rho), certify=rho)


def test_rap_charges_half_for_selecting_and_half_for_measuring_each_query() -> None:
    rounds, queries, rho = 3, 4, Fraction(1, 10)
    watched = meter(rho)
    brief = Brief(schema=SMALL, workload=marginals(SMALL, k=2), neighbours=Neighbours.REPLACE_ONE)
    rap = Rap(rounds=rounds, queries_per_round=queries)
    rap.play(decided(rap, brief, rho, 600), watched, np.random.default_rng(0), NoWatcher())
    each = rho / (2 * rounds * queries)
    draws = [event for event in watched.events if isinstance(event, ExponentialDraws)]
    measured = [event for event in watched.events if isinstance(event, DiscreteGaussian)]
    assert len(draws) == len(measured) == rounds and {event.draws for event in draws} == {queries}
    assert 0.99 * each < total_cost(draws).rho / (rounds * queries) <= each
    assert 0.99 * rho / 2 < total_cost(measured).rho <= rho / 2
    # single queries pay for themselves, however they overlap
    assert all(1 <= event.l2_squared <= queries for event in measured)


def test_the_error_falls_over_the_rounds() -> None:
    work, exact = marginals(SMALL, k=2), CodedRows(small_table().astype(np.int32), SMALL.shape)
    watched, rounds = meter(Fraction(50)), 6
    query = WorstSeveral(
        watched, list(work), queries=3, select=watched.left / 12, measure=watched.left / 12
    )
    data = RelaxedRows(SMALL, FIT, rows=600, rng=np.random.default_rng(0))

    def error() -> float:
        return max(
            float(np.abs(data.propose().shares(batch) - batch.counts(exact).dense() / 600).max())
            for batch in work
        )

    errors = [error()]
    for _ in range(rounds):
        data.learn(query.point(data.propose()))
        errors.append(error())
    assert errors[-1] < 0.35 * errors[0] and errors[-1] < errors[2] < errors[0]


def test_a_cell_by_itself_is_counted_like_the_cell() -> None:
    table = CodedRows(small_table().astype(np.int32), SMALL.shape)
    for batch in (Marginal.of(SMALL, ["c", "a"]), Marginal.of(SMALL, [])):
        alone = Symmetric(tuple(single(Choice(batch, i)) for i in range(batch.size)))
        assert np.array_equal(alone.counts(table).dense(), batch.counts(table).dense())
        # the paper's charge: every query for itself
        assert alone.l2_squared(Neighbours.REPLACE_ONE) == batch.size


def test_projection_pays_one_sensitivity_for_a_whole_marginal() -> None:
    rho, work = Fraction(1, 10), marginals(SMALL, k=2)
    watched = meter(rho)
    brief = Brief(schema=SMALL, workload=work, neighbours=Neighbours.REPLACE_ONE)
    decision = decided(Projection(), brief, rho, 600)
    played = Projection().play(decision, watched, np.random.default_rng(0), NoWatcher())
    (sigma,) = {found.sigma for found in played.findings if isinstance(found, Measurement)}
    assert 1 <= float(sigma**2 * rho / len(work)) < 1.01


REFUSED = [
    (Rap(rounds=0), us.ParameterError, "rounds"),
    (Rap(queries_per_round=27), us.ParameterError, "has 26"),
    (Rap(parameterisation="logit"), us.ParameterError, "softmax"),
    (Rap(rate=-1.0), us.ParameterError, "learning rate"),
    (Rap(steps=0), us.ParameterError, "steps"),
    (Rap(relaxed_rows=1_000_001), us.ParameterError, "relaxed rows"),
    (Rap(most_queries=25), us.NotSupported, "26 queries"),
    (Projection(most_queries=25), us.NotSupported, "at most 25"),
    (Projection(relaxed_rows=True), us.ParameterError, "relaxed_rows to be a whole number"),
]


@pytest.mark.parametrize(("mechanism", "kind", "words"), REFUSED)
def test_refusals_come_before_any_charge(
    mechanism: us.Mechanism, kind: type[Exception], words: str
) -> None:
    ledger = ProcessLedger()
    with pytest.raises(kind, match=words):
        us.release(
            small_table(),
            schema=SMALL,
            workload=marginals(SMALL, k=2),
            epsilon=1,
            mechanism=mechanism,
            ledger=ledger,
        )
    assert not ledger.state.charges


def test_too_wide_a_table_and_too_large_a_marginal_are_refused() -> None:
    wide = Schema.from_domain({"a": 200_000, "b": 200})
    for work, words in (
        (explicit(wide, columns=[["b"]]), "relaxed rows"),
        (explicit(wide, columns=[["a", "b"]]), "cells"),
    ):
        fit = Fit(
            relaxed_rows=200 if words != "cells" else 10,
            parameterisation="softmax",
            rate=None,
            steps=1,
        )
        with pytest.raises(us.NotSupported, match=words):
            fit.check("rap", work)


@pytest.mark.parametrize("mechanism", ["rap", "projection"])
def test_released_with_queries_saved_and_verified(mechanism: str, tmp_path: Path) -> None:
    work = explicit(
        SMALL,
        columns=[["a", "b"]],
        queries=[any_of(Literal(0, 0), Literal(2, 1)), parity(Literal(0, 0), Literal(1, 1))],
    )
    made = us.release(
        small_table(), schema=SMALL, workload=work, epsilon=5, mechanism=mechanism, seed=1
    )
    made.save(tmp_path / "bundle")
    assert unsound(tmp_path / "bundle") == []
    assert made.certificate.alpha < 0.5
