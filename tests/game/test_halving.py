"""Halvings of ordered columns: tables come back exactly without noise, and error bars are true."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.counting.tally import Counts
from understudy.game.fitting.halving import (
    HalvingPlan,
    all_depths,
    from_halvings,
    plan_halvings,
    table_of,
)
from understudy.privacy import Measurement
from understudy.privacy.verbs.measure import charges
from understudy.queries.base import Boxes, Neighbours
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal

RHO = Fraction(1, 20)
TOTAL = {Neighbours.REPLACE_ONE: Fraction(0), Neighbours.ADD_REMOVE_ONE: Fraction(3)}
RUNS = 800


def prefixes(sizes: tuple[int, ...]) -> Boxes:
    high = np.array(list(itertools.product(*(range(1, size + 1) for size in sizes)))[:-1])
    return Boxes(tuple(range(len(sizes))), np.zeros_like(high), high)


def planned(
    sizes: tuple[int, ...], relation: Neighbours, objective: Any = "largest"
) -> HalvingPlan:
    return plan_halvings(
        [prefixes(sizes)],
        dict(enumerate(sizes)),
        rho=RHO,
        neighbours=relation,
        objective=objective,
        total_sigma=TOTAL[relation],
    )


def measured(
    plan: HalvingPlan, table: np.ndarray, relation: Neighbours, rng: np.random.Generator | None
) -> list[Measurement]:
    found = []
    events = charges(plan.batches, RHO, relation, plan.weights)
    for batch, event in zip(plan.batches, events, strict=True):
        gone = tuple(i for i in range(table.ndim) if i not in batch.positions)
        counts = table.sum(axis=gone).reshape(-1)
        if isinstance(batch, BinnedMarginal):
            counts = batch.added_up(Counts(counts.size, counts)).dense()
        sigma = float(event.sigma_squared) ** 0.5
        noise = rng.normal(0, sigma, counts.size) if rng else 0
        found.append(Measurement(batch, counts + noise, Fraction(sigma)))
    return found


def finest(tables: list[Measurement], sizes: tuple[int, ...]) -> np.ndarray:
    whole = Marginal(tuple(range(len(sizes))), sizes)
    return next(one.counts for one in tables if one.batch == whole).reshape(sizes)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("sizes", [(8,), (11,), (8, 4), (7, 5), (3, 2, 6)])
def test_without_noise_every_table_comes_back(sizes: tuple[int, ...], relation: Neighbours) -> None:
    plan = planned(sizes, relation)
    table = np.random.default_rng(0).integers(0, 50, sizes)
    clean = measured(plan, table, relation, None)
    back = from_halvings(plan, clean, total=float(table.sum()), total_sigma=float(TOTAL[relation]))
    assert finest(back, sizes) == pytest.approx(table)
    by_batch = {one.batch: one.counts for one in back}
    for one in clean:
        assert by_batch[one.batch] == pytest.approx(one.counts)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("sizes", [(16,), (11,), (8, 4)])
def test_error_bars_of_ranges_are_true(sizes: tuple[int, ...], relation: Neighbours) -> None:
    """Exact where columns have 2^k codes, a bound otherwise."""
    plan, sigma = planned(sizes, relation), float(TOTAL[relation])
    table, rng, off = np.zeros(sizes, np.int64), np.random.default_rng(1), []
    for _ in range(RUNS):
        tables = from_halvings(
            plan,
            measured(plan, table, relation, rng),
            total=sigma * rng.normal(),
            total_sigma=sigma,
        )
        sums = finest(tables, sizes)
        for axis in range(len(sizes)):
            sums = np.cumsum(sums, axis=axis)
        off.append(sums.ravel()[:-1])
    largest = np.std(off, axis=0).max()
    assert largest < 1.1 * plan.errors[0]
    if sizes != (11,):
        assert largest > 0.93 * plan.errors[0]


def test_prefixes_of_a_hundred_values_have_far_less_noise_than_sums_of_cells() -> None:
    plan = planned((100,), Neighbours.REPLACE_ONE)
    cells = (1 / float(RHO)) ** 0.5  # sigma of a marginal under replace-one
    # a sum of 50 of 100 cells whose total is known
    assert plan.errors[0] < 0.55 * cells * 25**0.5


@pytest.mark.parametrize("relation", list(Neighbours))
def test_each_objective_is_best_at_its_own(relation: Neighbours) -> None:
    largest, total = (planned((20, 6), relation, o) for o in ("largest", "total"))
    assert largest.errors[0] <= total.errors[0] * 1.01
    assert total.total <= largest.total * 1.01


@pytest.mark.parametrize("relation", list(Neighbours))
def test_a_plan_spends_its_rho_and_no_more(relation: Neighbours) -> None:
    plan = planned((30, 5), relation)
    events = charges(plan.batches, RHO, relation, plan.weights)
    spent = sum(event.l2_squared / event.sigma_squared / 2 for event in events)
    assert RHO * Fraction(999, 1000) < spent <= RHO


def test_bins_are_nested_and_the_last_are_codes() -> None:
    sizes = {0: 13}
    tables = [table_of(depths, sizes) for depths in all_depths([(0,)], sizes)]
    assert [table.size for table in tables] == [2, 4, 8, 13]
    assert tables[-1] == Marginal((0,), (13,))
    finer, coarser = (np.array(tables[i].as_grid().bins[0]) for i in (2, 1))
    assert (finer // 2 == coarser).all()


def test_ranges_of_too_many_columns_are_refused_in_a_sentence() -> None:
    sizes = dict.fromkeys(range(9), 4)
    with pytest.raises(us.NotSupported, match="fewer columns at a time"):
        all_depths([tuple(range(9))], sizes)
