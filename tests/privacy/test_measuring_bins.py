"""Marginals in bins before the meter: their law, one pass for all of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from privacy.test_meter import BASE, Silence, meter_on, tripwired
from understudy.audit import laws
from understudy.audit.laws import ADD, EVEN, FINE, NEAR, REPLACE, Law, X, Y
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows, Counts
from understudy.errors import UnderstudyError
from understudy.privacy import (
    Certify,
    Discriminate,
    MarginalScore,
    Measure,
    Meter,
    Residuals,
    Select,
    SelectMarginal,
)
from understudy.privacy.requests import name_of
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal
from understudy.schema import Schema
from understudy.sources.memory import MemorySource

TURNED = BinnedMarginal((0,), (2,), ((1, 0),))
MERGED = BinnedMarginal((1, 0), (2, 2), ((0, 0), (1, 0)))
COARSE = BinnedMarginal((1, 0), (4, 3), ((0, 0, 1, 1), None))
ODD = BinnedMarginal((1, 0), (4, 3), ((1, 0, 1, 0), (0, 1, 0)))
SOME = Fraction(1, 40)


def _selection(score: MarginalScore, rho: Fraction, **how: Any) -> Callable[[Meter], Any]:
    answers = [Counts(2, np.array([10, 10])), Counts(2, np.array([12, 8]))]
    return lambda m: m.ask(
        SelectMarginal(
            batches=[TURNED, Y], answers=answers, answer_rows=20, rho=rho, score=score, **how
        )
    )


LAWS = [
    Law("turned", lambda m: m.ask(Measure(batches=[TURNED], rho=SOME)), BASE),
    Law("merged", lambda m: m.ask(Measure(batches=[MERGED], rho=SOME)), BASE),
    Law("beside its marginal", lambda m: m.ask(Measure(batches=[TURNED, X, MERGED], rho=SOME)), BASE),
    *(Law(f"select, {score}", _selection(score, FINE), EVEN, relations=(REPLACE,), tight_at=NEAR)
      for score in MarginalScore),
    *(Law(f"select, {score}, weighted",
          _selection(score, Fraction(1, 10), weights=[3, 1], penalties=[0, 1], draws=2), EVEN,
          tight=0.05, tight_at=NEAR, needs_total=True) for score in MarginalScore),
]  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.subject)
def test_exact_law(law: Law) -> None:
    for relation in law.relations:
        row = laws.check_law(law, relation)
        assert row.holds, row


@pytest.mark.parametrize("batch", [COARSE, ODD], ids=["coarse", "odd"])
@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_one_row_moves_as_far_as_is_paid_for_and_no_farther(
    batch: BinnedMarginal, relation: Neighbours
) -> None:
    """Every row of a small table, replaced by every other record or taken out."""
    rows = small_table(12, 1)
    records = np.array(np.unravel_index(range(24), SMALL.shape)).T

    def counted(table: np.ndarray) -> np.ndarray:
        meter = meter_on(table, schema=SMALL, neighbours=relation, noise=Silence())
        return meter.ask(Measure(batches=[batch], rho=1))[0].counts

    tables = [np.delete(rows, i, axis=0) for i in range(12)]
    if relation is REPLACE:
        tables = [np.vstack([one, record]) for one in tables for record in records]
    moves = [counted(one) - counted(rows) for one in tables]
    assert max(int(move @ move) for move in moves) == batch.l2_squared(relation)


@dataclass(frozen=True)
class Everybody(QueryClass):
    """A class of somebody else's, which counts by scanning."""

    columns: tuple[int, ...] = (0,)

    kind: ClassVar[str] = "everybody"
    size: ClassVar[int] = 1  # type: ignore[misc]

    def counts(self, table: Any) -> Counts:
        return Counts(1, table.scan(self))

    def tally(self, block: np.ndarray) -> np.ndarray:
        return np.array([len(block)])

    truth = around = fits = describe = to_dict = None  # type: ignore[assignment]
    from_dict = examples = None  # type: ignore[assignment]

    def l2_squared(self, neighbours: Neighbours) -> int:
        return 1


def watched(rows: np.ndarray, schema: Schema) -> tuple[Meter, list[list[tuple[int, ...]]]]:
    asked: list[list[tuple[int, ...]]] = []

    class Watched(MemorySource):
        def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
            asked.append(list(column_sets))
            return super().count(column_sets)

    meter = Meter(
        Watched(rows, schema), neighbours=REPLACE, play=laws.RICH, certify=Fraction(1),
        noise=Silence(), trusts=[Everybody],
    )  # fmt: skip
    return meter, asked


def test_all_tables_of_a_verb_are_counted_in_one_pass_and_each_set_of_columns_once() -> None:
    rows = small_table(500)
    meter, asked = watched(rows, SMALL)
    other = BinnedMarginal((0, 1), (3, 4), (None, (0, 0, 0, 1)))
    batches = [COARSE, Marginal((2,), (2,)), ODD, Everybody(), Marginal((1, 0), (4, 3)), other]
    found = meter.ask(Measure(batches=batches, rho=1))
    assert asked == [[(1, 0), (2,), (0, 1)]]
    table = CodedRows(rows, SMALL.shape)
    for batch, measured in zip(batches, found, strict=True):
        expected = [500] if batch == Everybody() else batch.counts(table).dense().tolist()
        assert measured.counts.tolist() == expected and measured.batch == batch


def test_full_resolution_is_not_kept_unless_it_was_asked_for() -> None:
    meter, asked = watched(small_table(), SMALL)
    meter.ask(Measure(batches=[COARSE], rho=1))
    meter.ask(Measure(batches=[COARSE, ODD], rho=1))
    assert list(meter._exact) == [COARSE, ODD] and asked == [[(1, 0)], [(1, 0)]]
    assert [counts.cells for counts in meter._exact.values()] == [6, 4]


def test_bins_of_a_table_too_large_to_hold() -> None:
    schema = Schema.from_domain({"a": 5000, "b": 5000})
    rows = np.random.default_rng(0).integers(0, 5000, (300, 2))
    halves = tuple(code // 2500 for code in range(5000))
    meter, _ = watched(rows, schema)
    (found,) = meter.ask(
        Measure(batches=[BinnedMarginal((0, 1), schema.shape, (halves, halves))], rho=1)
    )
    expected = np.bincount((rows // 2500) @ [2, 1], minlength=4)
    assert found.keys is None and found.counts.tolist() == expected.tolist()


def test_a_selection_sees_the_cells_of_the_bins() -> None:
    rows = small_table(2000)
    table = CodedRows(rows, SMALL.shape)
    batches = [COARSE, ODD, Marginal((2,), (2,))]
    answers = [batch.counts(table) for batch in batches]
    wrong = answers[1].values.copy()
    wrong[[0, 3]] += [300, -300]
    for score in MarginalScore:
        (index,) = meter_on(rows, schema=SMALL).ask(
            SelectMarginal(
                batches=batches,
                answers=[answers[0], Counts(4, wrong), answers[2]],
                answer_rows=2000,
                rho=1,
                score=score,
            )
        )
        assert index == 1


def test_other_verbs_count_the_cells_as_queries() -> None:
    meter = meter_on(small_table(2000), schema=SMALL, noise=Silence())
    exact = COARSE.counts(CodedRows(small_table(2000), SMALL.shape))
    shares = exact.values / 2000
    shares[4] += 0.3
    (choice,) = meter.ask(Select(batches=[COARSE], shares=[shares], rho=1))
    assert (choice.batch, choice.index) == (COARSE, 4)
    made = meter.ask(Certify(batches=[COARSE], answers=[exact], released_rows=2000))
    assert made.noisy_largest_error == 0


# ---------------------------------------------------------------------- refused, at no cost


def refused(ask: Callable[[Meter], Any], words: str) -> None:
    meter, source = tripwired(np.tile(BASE, (20, 1)), play=laws.RICH)
    with pytest.raises(UnderstudyError, match=words):
        ask(meter)
    assert source.looked == [] and meter.events == ()


def test_verbs_whose_proof_is_about_whole_marginals_refuse_bins() -> None:
    one: Any = MERGED
    refused(lambda m: m.ask(Residuals(batches=[one], sigmas=[Fraction(9)])), "whole marginals")
    synthetic = np.zeros((4, 2), np.int32)
    verb = Discriminate(batches=[one], fake=synthetic, weight=1, ridge=1, sigma=Fraction(9))
    refused(lambda m: m.ask(verb), "marginals")
    refused(lambda m: m.ask(Measure(batches=[one], rho=1, sparse=True)), "Only marginals")


class Sneaky(int):
    """A number that is no plain one."""


@pytest.mark.parametrize(
    "bins",
    [
        ((0, 2),),
        ((-1, 0),),
        ((0,),),
        ((0, 0, 0),),
        ((np.int64(0), np.int64(1)),),
        (np.array([0, 0]),),
        ([0, 0],),
        ((Sneaky(0), Sneaky(0)),),
        ((0.0, 0.0),),
        (((0, 1), (0, 1)),),
        (),
        None,
    ],
)
def test_bins_that_were_put_in_afterwards_are_checked_again(bins: Any) -> None:
    batch = BinnedMarginal((0,), (2,), ((0, 0),))
    object.__setattr__(batch, "bins", bins)
    meter, source = tripwired(np.tile(BASE, (20, 1)), play=laws.RICH)
    try:
        (found,) = meter.ask(Measure(batches=[batch], rho=1))
    except UnderstudyError:
        assert source.looked == [] and meter.events == ()
    else:  # an array of plain numbers makes sound bins
        assert isinstance(bins[0], np.ndarray) and len(found.counts) == 1


def test_bins_that_are_changed_after_pricing_change_nothing() -> None:
    batch, meter = BinnedMarginal((0,), (2,), ((1, 0),)), meter_on(BASE, noise=Silence())
    (first,) = meter.ask(Measure(batches=[batch], rho=1))
    object.__setattr__(batch, "bins", ((0, 0),))
    object.__setattr__(batch, "shape", (1,))
    for name in ("counts", "added_up", "l2_squared", "is_over"):
        object.__setattr__(batch, name, lambda *given: 1 / 0)
    (again,) = meter.ask(Measure(batches=[batch], rho=1))
    assert first.counts.tolist() == again.counts.tolist() == [1, 2]
    assert first.sigma == again.sigma


@pytest.mark.parametrize(
    "batch",
    [
        BinnedMarginal((0,), (3,), ((0, 0, 1),)),
        BinnedMarginal((5,), (2,), ((0, 0),)),
        BinnedMarginal((1, 0), (4, 1), ((0, 0, 1, 1), None)),
    ],
)
def test_bins_of_another_schema_are_refused(batch: BinnedMarginal) -> None:
    refused(lambda m: m.ask(Measure(batches=[batch], rho=1)), "another schema")


def test_a_charge_says_what_was_measured() -> None:
    meter = meter_on(small_table(), schema=SMALL)
    meter.ask(Measure(batches=[COARSE], rho=1))
    assert meter.events[0].what == f"measure {name_of(COARSE)}"
    assert name_of(COARSE) == "marginal of columns [1, 0] in [2, 3] bins"
