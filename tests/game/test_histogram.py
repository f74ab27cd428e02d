"""One noisy column: smoothing takes out noise where neighbours are alike, and does no harm where
they are not.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.game.fitting.histogram import between_tails, smoothed, to_distribution

PEOPLE = 50_000


def _hill(values: int = 80) -> np.ndarray:
    places = np.arange(values)
    hill = np.exp(-0.5 * ((places - 0.4 * values) / (0.2 * values)) ** 2)
    return hill / hill.sum() * PEOPLE


def _tv(share: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(share - truth / truth.sum()).sum() / 2)


def _mean_tv(truth: np.ndarray, sigma: float, *, smooth: bool, runs: int = 20) -> float:
    rng = np.random.default_rng(1)
    noisy = [truth + rng.normal(0, sigma, len(truth)) for _ in range(runs)]
    return float(
        np.mean([_tv(to_distribution(y, PEOPLE, sigma if smooth else 0.0), truth) for y in noisy])
    )


@pytest.mark.parametrize(("sigma", "left"), [(100, 0.6), (300, 0.5), (600, 0.5)])
def test_a_smooth_column_loses_about_half_of_its_error(sigma: float, left: float) -> None:
    assert _mean_tv(_hill(), sigma, smooth=True) < left * _mean_tv(_hill(), sigma, smooth=False)


@pytest.mark.parametrize("sigma", [100, 300, 600])
def test_a_list_in_no_order_is_no_worse_for_it(sigma: float) -> None:
    shuffled = np.random.default_rng(2).permutation(np.geomspace(1, 10_000, 40))
    truth = shuffled / shuffled.sum() * PEOPLE
    assert _mean_tv(truth, sigma, smooth=True) < 1.1 * _mean_tv(truth, sigma, smooth=False)


def test_spikes_on_a_smooth_column_stay() -> None:
    truth = _hill()
    truth[[20, 40]] += 5_000
    noisy = truth + np.random.default_rng(3).normal(0, 200, len(truth))
    kept = smoothed(noisy, 200)
    assert np.abs(kept - truth)[[20, 40]].max() < 800
    assert np.abs(kept - truth)[[19, 21, 39, 41]].max() < 800  # and do not spill over


def test_a_step_stays_a_step() -> None:
    truth = np.repeat([2_000.0, 200.0], 20)
    noisy = truth + np.random.default_rng(4).normal(0, 100, 40)
    assert np.abs(smoothed(noisy, 100) - truth).max() < 250


def test_without_noise_or_with_few_values_nothing_is_smoothed() -> None:
    noisy = np.random.default_rng(5).normal(100, 50, 30)
    assert (smoothed(noisy, 0.0) == noisy).all()
    assert (smoothed(noisy[:4], 50.0) == noisy[:4]).all()


def test_first_and_last_value_are_no_neighbours() -> None:
    truth = np.linspace(0, 5_000, 64)
    noisy = truth + np.random.default_rng(6).normal(0, 100, 64)
    assert abs(smoothed(noisy, 100)[0]) < 500
    assert abs(smoothed(noisy, 100)[-1] - 5_000) < 500


def test_the_number_of_people_is_believed_over_the_noisy_sum() -> None:
    """The sum of a hundred noisy cells is ten times as noisy as one of them."""
    truth = np.zeros(100)
    truth[0] = PEOPLE
    noisy = truth + 300.0
    share = to_distribution(noisy, PEOPLE, 0.0)
    assert share[0] == 1.0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70),
    st.integers(0, 10**9),
    st.floats(0, 1e8),
)
def test_any_noisy_column_becomes_a_distribution(
    noisy: list[float], people: int, sigma: float
) -> None:
    share = to_distribution(np.asarray(noisy), people, sigma)
    assert share.min() >= 0
    assert share.sum() == pytest.approx(1)


def _tailed() -> np.ndarray:
    """Half of the values are a tail that nobody has."""
    return np.concatenate([_hill(60), np.zeros(60)])


def test_an_empty_tail_adds_less_to_the_standard_deviation() -> None:
    rng, truth = np.random.default_rng(7), _tailed()
    places, spreads = np.arange(len(truth)), {}
    for ordered in (0, len(truth)):
        shares = [
            to_distribution(truth + rng.normal(0, 80, len(truth)), PEOPLE, 80, ordered)
            for _ in range(20)
        ]
        spreads[ordered] = np.mean([np.sqrt(s @ places**2 - (s @ places) ** 2) for s in shares])
    p = truth / truth.sum()
    spread = np.sqrt(p @ places**2 - (p @ places) ** 2)
    excess = {ordered: some / spread - 1 for ordered, some in spreads.items()}
    assert -0.02 < excess[len(truth)] < 0.9 * excess[0]


def test_a_tail_that_stands_out_only_together_is_kept() -> None:
    truth = _tailed()
    truth[80:112] = 60.0  # each below its noise of 80, all of them far above
    rng = np.random.default_rng(8)
    last = [
        np.flatnonzero(between_tails(truth + rng.normal(0, 80, 120), 80))[-1] for _ in range(20)
    ]
    assert min(last) >= 100


def test_values_without_an_order_have_no_tails() -> None:
    noisy = np.concatenate([_hill(20), np.full(40, 30.0)])  # each below its noise of 80
    assert (to_distribution(noisy, noisy.sum(), 80)[-10:] > 0).all()
    # OTHER and MISSING come after the values in order, and have no neighbours
    cut = to_distribution(np.append(noisy[:40] - 60, 30.0), noisy.sum(), 80, ordered=40)
    assert cut[-1] > 0 and (cut[30:40] == 0).all()


def test_where_nothing_stands_out_nothing_is_cut() -> None:
    assert between_tails(np.full(10, -50.0), 80).all()
    assert between_tails(np.zeros(10), 0.0).all()  # no noise, nothing to tell apart
