"""One noisy column of many values without order: rare values share what noise leaves, and nobody
gets a value that no count supports where that is asked for.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.game.fitting.categories import (
    MANY,
    by_frequency,
    distribution_of,
    sizes_of,
    standing_out,
    supported_part,
)
from understudy.game.fitting.histogram import to_distribution

PEOPLE = 50_000


def _skewed(values: int, seed: int = 1) -> np.ndarray:
    """A few frequent values and many rare ones, in no order."""
    shares = 1 / np.arange(1, values + 1)
    truth: np.ndarray = np.random.default_rng(seed).permutation(shares / shares.sum()) * PEOPLE
    return truth


def _listed(blocks: int = 40, seed: int = 2) -> np.ndarray:
    """A list of codes of which half of the blocks of 25 are unused: neighbours are alike."""
    rng = np.random.default_rng(seed)
    used = np.repeat(rng.permutation(np.arange(blocks) % 2 == 0), 25)
    truth: np.ndarray = np.where(used, rng.pareto(1.0, len(used)), 0.0)
    return truth / truth.sum() * PEOPLE


def _tv(shares: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(shares - truth / truth.sum()).sum() / 2)


def _noisy(truth: np.ndarray, sigma: float, runs: int = 12) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [truth + rng.normal(0, sigma, len(truth)) for _ in range(runs)]


@pytest.mark.parametrize(("sigma", "left"), [(60, 0.9), (200, 0.75), (600, 0.75)])
def test_rare_values_of_a_long_list_lose_much_of_their_error(sigma: float, left: float) -> None:
    truth = _skewed(5_000)
    noisy = _noisy(truth, sigma)
    usual = np.mean([_tv(to_distribution(y, PEOPLE, sigma), truth) for y in noisy])
    assert np.mean([_tv(distribution_of(y, PEOPLE, sigma), truth) for y in noisy]) < left * usual


@pytest.mark.parametrize("sigma", [30, 60])
def test_where_neighbours_are_alike_values_that_nobody_has_get_less(sigma: float) -> None:
    truth = _listed()
    noisy = _noisy(truth, sigma)
    usual = [to_distribution(y, PEOPLE, sigma) for y in noisy]
    shared = [by_frequency(y, PEOPLE, sigma) for y in noisy]
    invented, before = (
        np.mean([one[truth == 0].sum() for one in some]) for some in (shared, usual)
    )
    assert invented < 0.8 * before
    assert np.mean([_tv(one, truth) for one in shared]) < np.mean(
        [_tv(one, truth) for one in usual]
    )


@pytest.mark.parametrize("sigma", [20, 60, 200])
def test_smooth_codes_that_nobody_called_ordered_stay_smoothed(sigma: float) -> None:
    places = np.arange(200)
    hill = np.exp(-0.5 * ((places - 80) / 40) ** 2)
    truth = hill / hill.sum() * PEOPLE
    noisy = _noisy(truth, sigma)
    usual = np.mean([_tv(to_distribution(y, PEOPLE, sigma), truth) for y in noisy])
    assert np.mean([_tv(distribution_of(y, PEOPLE, sigma), truth) for y in noisy]) < 1.1 * usual


@pytest.mark.parametrize(("values", "ordered"), [(MANY, 0), (5_000, 5_000)])
def test_short_and_ordered_columns_are_as_they_were(values: int, ordered: int) -> None:
    noisy = _noisy(_skewed(values), 100, runs=1)[0]
    expected = to_distribution(noisy, PEOPLE, 100, ordered)
    assert (distribution_of(noisy, PEOPLE, 100, ordered) == expected).all()


@settings(max_examples=40, deadline=None)
@given(
    values=st.integers(1, 400),
    people=st.integers(1, 10**6),
    sigma=st.floats(0.0, 1e5),
    seed=st.integers(0, 2**16),
)
def test_it_is_always_a_distribution_and_the_same_again(
    values: int, people: int, sigma: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    noisy = np.rint(rng.exponential(people / values, values) + rng.normal(0, sigma, values))
    shares = distribution_of(noisy, people, sigma)
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1)
    assert (shares == distribution_of(noisy, people, sigma)).all()
    there = standing_out(noisy, sigma)
    kept = supported_part(shares, there)
    assert there.any()
    assert kept.sum() == pytest.approx(1)
    assert (kept[~there] == 0).all()


def test_sizes_of_rare_values_are_found_again() -> None:
    """Nine in ten have nobody, the tenth three noises: their mean size is 0.3 noises."""
    rng = np.random.default_rng(4)
    counts = rng.normal(np.where(np.arange(20_000) % 10 == 0, 300.0, 0.0), 100.0)
    prior = sizes_of(counts, 100.0)
    sizes = np.concatenate([[0.0], np.geomspace(0.02, 8.0, len(prior) - 1)])
    assert prior.sum() == pytest.approx(1)
    assert prior @ sizes == pytest.approx(0.3, abs=0.06)
    assert prior[sizes < 1].sum() == pytest.approx(0.9, abs=0.03)


def test_hardly_a_value_that_nobody_has_stands_out() -> None:
    """0.05 in a column are expected: of 400 columns 20 values, and hardly ever 2 or 60."""
    rng, stray = np.random.default_rng(5), 0
    for _ in range(400):
        noisy = rng.normal(0, 7.0, 1_001)
        noisy[0] = 1e6  # the largest count always stays
        stray += int(standing_out(noisy, 7.0).sum()) - 1
    assert 2 < stray < 60
    assert standing_out(np.array([1_000.0, 500.0, 0.0]), 50.0).tolist() == [True, True, False]
