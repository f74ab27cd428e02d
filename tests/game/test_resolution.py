"""Bins that released columns suggest, and how strong a measured table is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy.counting.tally import CodedRows
from understudy.game.fitting.resolution import (
    Resolution,
    bins_of,
    effective,
    information,
    on_ladder,
    shared,
)
from understudy.game.players.resolving import COARSE, between, calmness, rank_weights
from understudy.privacy import Measurement
from understudy.queries.base import Neighbours
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal

SCHEMA = us.Schema.from_domain({"x": 60, "y": 40, "z": 5}, ordered=["x", "y"])


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=60).filter(lambda shares: sum(shares) > 0),
    st.integers(2, 30),
    st.integers(0, 2),
)
def test_bins_are_runs_of_neighbours_and_what_is_no_value_stands_by_itself(
    shares: list[float], count: int, specials: int
) -> None:
    column = np.asarray(shares + [0.1] * specials)
    column = column / column.sum()
    bins = bins_of(column, len(shares), count)
    if bins is None:
        assert len(shares) <= count
        return
    values, rest = bins[: len(shares)], bins[len(shares) :]
    assert len(bins) == len(column)
    assert values[0] == 0 and set(np.diff(values)) <= {0, 1}  # runs, numbered without a gap
    assert list(rest) == list(range(values[-1] + 1, values[-1] + 1 + specials))
    # each value that stands alone adds at most itself and a cut in a run
    alone = (column[: len(shares)] > 0.5 / count).sum()
    assert values[-1] + 1 <= count + 2 * alone + 1


def test_a_heap_and_a_large_value_stand_by_themselves() -> None:
    shares = np.full(50, 1.0)
    shares[[20, 40]] = 12.0, 3.0  # four tenths of a bin is no heap worth a bin of its own
    bins = bins_of(shares / shares.sum(), 50, 8)
    assert bins is not None
    assert bins.count(bins[20]) == 1 and bins.count(bins[40]) > 1


def test_tails_get_bins_of_their_own() -> None:
    """In bins of equal mass the long tail would be a single bin."""
    shares = np.exp(-np.arange(200) / 12)
    bins = bins_of(shares / shares.sum(), 200, 12)
    assert bins is not None
    tail = [code for code in range(200) if shares[code:].sum() < shares.sum() / 12]
    assert len({bins[code] for code in tail}) >= 4


def test_cells_are_shared_by_what_columns_need() -> None:
    assert shared(64, [100, 100]) == [8, 8]
    assert shared(64, [2, 100]) == [2, 32]
    assert shared(64, [100, 2]) == [32, 2]
    assert shared(0.5, [10, 10]) == [1, 1]
    assert math.isclose(effective(np.full(7, 1 / 7)), 7)
    assert effective(np.array([1.0, 0, 0])) == 1


def test_numbers_of_bins_stand_on_a_ladder() -> None:
    assert sorted({on_ladder(count) for count in np.linspace(1, 24, 200)}) == [
        2,
        3,
        4,
        6,
        8,
        11,
        16,
        23,
    ]


def columns(codes: np.ndarray) -> list[np.ndarray]:
    return [
        np.bincount(codes[:, i], minlength=size) / len(codes) for i, size in enumerate(SCHEMA.shape)
    ]


def test_only_ordered_columns_are_merged_and_cells_have_so_many_rows() -> None:
    codes = np.random.default_rng(0).integers(0, SCHEMA.shape, (5_000, 3))
    resolution = Resolution(SCHEMA, columns(codes), 5_000)
    table = resolution.table(Marginal((0, 1), (60, 40)), 100)
    assert isinstance(table, BinnedMarginal) and 80 <= table.size <= 130
    mixed = resolution.table(Marginal((1, 2), (40, 5)), 50)
    assert isinstance(mixed, BinnedMarginal) and mixed.bins[1] is None and mixed.shape[1] == 5
    whole = Marginal((0, 2), (60, 5))
    assert resolution.table(whole, 10_000) is whole


@pytest.mark.parametrize("together", [True, False])
def test_strength_is_what_stands_out_of_the_noise(together: bool) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, SCHEMA.shape, (50_000, 3))
    if together:
        codes[:, 1] = codes[:, 0] * 2 // 3
    resolution = Resolution(SCHEMA, columns(codes), 50_000)
    table = resolution.table(Marginal((0, 1), (60, 40)), 64)
    exact = table.counts(rows(codes)).dense()
    noisy = exact + np.rint(rng.normal(0, 60, len(exact))).astype(np.int64)
    strength = resolution.strength(Measurement(table, noisy, Fraction(60)))
    assert (strength > 0.2) if together else (strength < 0.01)


def rows(codes: np.ndarray) -> CodedRows:
    return CodedRows(codes.astype(np.int32), SCHEMA.shape)


def test_what_a_table_gets_again_follows_from_its_rank_alone() -> None:
    weights = rank_weights(9)
    assert weights == sorted(weights, reverse=True) and (weights[0], weights[3], weights[8]) == (
        1_000,
        500,
        333,
    )


def test_dependent_columns_get_finer_bins_and_independent_ones_do_not() -> None:
    """Rows near a line are in few cells, so each cell still has rows enough."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 60, 20_000)
    near = np.column_stack([x, np.clip(x * 40 // 60 + rng.integers(-1, 2, len(x)), 0, 39)])
    apart = np.column_stack([x, rng.permutation(near[:, 1])])
    pair = Marginal((0, 1), (60, 40))
    columns = [np.bincount(near[:, i], minlength=size) / len(x) for i, size in enumerate((60, 40))]
    resolution = Resolution(SCHEMA, [*columns, np.full(5, 0.2)], len(x))

    def finer(codes: np.ndarray) -> Marginal | BinnedMarginal:
        rows = CodedRows(codes.astype(np.int32), (60, 40))
        return resolution.dependent_table(
            pair, 64, lambda batch: batch.counts(rows).dense() / len(codes)
        )

    assert finer(apart) == resolution.table(pair, 64)
    dense = finer(near)
    assert 4 * 64 <= dense.size < pair.size
    assert (dense.counts(CodedRows(near.astype(np.int32), (60, 40))).dense() > 0).sum() < 3 * 64


def test_information_is_none_of_independent_columns_and_all_of_equal_ones() -> None:
    assert information(np.outer([0.2, 0.8], [0.5, 0.3, 0.2])) == pytest.approx(0, abs=1e-12)
    assert information(np.eye(4) / 4) == pytest.approx(math.log(4))


def test_small_noise_moves_the_budget_from_noisy_to_calm() -> None:
    assert calmness(0.01) == calmness(0.0018) == 0 and calmness(0.0001) == calmness(0.0) == 1
    assert 0 < calmness(0.001) < calmness(0.0006) < 1
    assert (between(COARSE, Fraction(0)), between(COARSE, Fraction(1))) == COARSE
    assert COARSE[0] < between(COARSE, calmness(0.001)) < COARSE[1]


def test_rare_values_get_bins_where_noise_is_small() -> None:
    """Nine rows of ten have one value; without noise, the others are worth telling apart."""
    shares = np.array([0.9] + [0.1 / 59] * 59)
    resolution = Resolution(SCHEMA, [shares, np.full(40, 1 / 40), np.full(5, 0.2)], 50_000)
    sizes = [resolution.table(Marginal((0, 2), (60, 5)), 200, calm).size for calm in (0.0, 1.0)]
    assert sizes[0] < 100 <= sizes[1] <= 300


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_pairs_of_two_ordered_columns_get_twice_as_much(neighbours: Neighbours) -> None:
    schema = us.Schema.from_domain({"a": 50, "b": 40, "c": 30}, ordered=["a", "b"])
    codes = np.random.default_rng(3).integers(0, (50, 40, 30), (20_000, 3))
    release = us.release(
        codes,
        schema=schema,
        epsilon=1,
        delta="1e-9",
        workload="2-way",
        mechanism="arp",
        neighbours=str(neighbours),
    )
    pairs = [m for m in release.measurements if len(m.batch.positions) == 2][:3]
    sigmas = {m.batch.positions: float(m.sigma) for m in pairs}
    assert sigmas[0, 2] == sigmas[1, 2]
    assert sigmas[0, 2] ** 2 / sigmas[0, 1] ** 2 == pytest.approx(2, rel=0.02)
