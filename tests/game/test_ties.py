"""Ties of rare values: what stands out is by itself, the rest in runs of like mass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.game.fitting.resolution import Resolution
from understudy.game.fitting.ties import ALONE, MANY_VALUES, ties_of
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal

SKEWED = 1 / np.arange(1, 5_001)
SKEWED = np.random.default_rng(1).permutation(SKEWED / SKEWED.sum())


@settings(max_examples=100, deadline=None)
@given(
    values=st.integers(1, 600),
    cells=st.floats(1, 10**5),
    power=st.floats(0, 3),
    seed=st.integers(0, 2**16),
)
def test_frequent_values_are_by_themselves_and_all_others_are_tied(
    values: int, cells: float, power: float, seed: int
) -> None:
    shares = np.random.default_rng(seed).permutation(1.0 / np.arange(1, values + 1) ** power)
    shares /= shares.sum()
    bins = ties_of(shares, cells)
    rare = shares * cells < ALONE
    if bins is None:
        assert rare.sum() < 2
        return
    numbers = np.asarray(bins)
    sizes = np.bincount(numbers)
    assert (sizes >= 1).all()  # numbered from 0 without a gap
    assert (sizes[numbers[~rare]] == 1).all()
    assert max(bins) + 1 <= (~rare).sum() + max(1, round(shares[rare].sum() * math.sqrt(cells)))


def test_runs_of_rare_values_have_like_mass_and_lie_in_the_order_of_the_list() -> None:
    bins = ties_of(SKEWED, 400.0)
    assert bins is not None
    numbers, rare = np.asarray(bins), SKEWED * 400 < ALONE
    tied = numbers[rare]
    assert (np.diff(tied) >= 0).all()
    mass = np.bincount(tied, SKEWED[rare])
    assert len(mass) == round(SKEWED[rare].sum() * 20)
    assert mass.max() < 1.1 * mass.min()


def test_tables_tie_long_columns_without_order_only() -> None:
    schema = us.Schema.from_domain(
        {"codes": 5_000, "few": MANY_VALUES, "age": 300}, ordered=["age"]
    )
    flat = [np.full(size, 1 / size) for size in schema.shape[1:]]
    resolution = Resolution(schema, [SKEWED, *flat], 50_000)
    pair = Marginal((0, 1), schema.shape[:2])
    tied = resolution.tied(pair, 100.0)
    assert isinstance(tied, BinnedMarginal)
    assert tied.bins[1] is None
    assert tied.shape[0] < 100
    # with less noise, more values are by themselves
    assert resolution.tied(pair, 10_000.0).size > 5 * tied.size
    whole = Marginal((1, 2), schema.shape[1:])
    assert resolution.tied(whole, 100.0) == whole
    in_bins = resolution.table(Marginal((0, 2), (5_000, 300)), 100.0)
    assert isinstance(in_bins, BinnedMarginal)
    assert None not in in_bins.bins


def test_tables_too_wide_in_bins_are_left_whole() -> None:
    schema = us.Schema.from_domain({"codes": 5_000, "x": 2_000, "y": 2_000}, ordered=["x", "y"])
    flat = [np.full(size, 1 / size) for size in schema.shape[1:]]
    wide = Marginal((0, 1, 2), schema.shape)
    assert Resolution(schema, [SKEWED, *flat], 50_000).tied(wide, 100.0) == wide


@pytest.mark.parametrize("shares", [np.ones(1), np.full(3, 1 / 3)])
def test_nothing_is_tied_where_all_values_are_frequent(shares: np.ndarray) -> None:
    assert ties_of(shares, 100.0) is None
