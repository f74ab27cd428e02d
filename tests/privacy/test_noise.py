"""The samplers: the stated law passes, 10% more or less noise fails, and buffers leave no trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from support.laws import p_value
from understudy.audit.distributions import gaussian_pmf, laplace_pmf
from understudy.errors import ParameterError
from understudy.privacy.noise import samplers as noise_module
from understudy.privacy.noise.samplers import Noise, round_sigma_up, sqrt_up

DRAWS = 200_000
Note = Callable[[str, int, str], None]
PASS, FAIL = 1e-7, 1e-12


@pytest.mark.parametrize(
    "sigma",
    [
        Fraction(1, 4),
        Fraction(1025, 4096),
        Fraction(1, 2),
        Fraction(9, 8),
        Fraction(3),
        Fraction(1349, 16),
        Fraction(2047, 2),
    ],
)
def test_gaussian_has_its_law_and_no_other(sigma: Fraction, battery: Note) -> None:
    draws = Noise().gaussian(DRAWS, sigma)
    reach = max(4, int(7 * sigma) + 1)
    assert p_value(draws, gaussian_pmf(float(sigma), reach), reach) > PASS
    for off in (0.9, 1.1):
        assert p_value(draws, gaussian_pmf(off * float(sigma), reach), reach) < FAIL
    battery("sampler fit", 1, "discrete Gaussian: the law passes, 10% off fails")


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(35, 2), Fraction(400)])
def test_laplace_has_its_law_and_no_other(scale: Fraction, battery: Note) -> None:
    draws = Noise().laplace(DRAWS, scale)
    reach = max(8, int(18 * scale))
    assert p_value(draws, laplace_pmf(float(scale), reach), reach) > PASS
    for off in (0.9, 1.1):
        assert p_value(draws, laplace_pmf(off * float(scale), reach), reach) < FAIL
    battery("sampler fit", 1, "discrete Laplace: the law passes, 10% off fails")


@pytest.mark.parametrize("sigma", [Fraction(1 << 23), Fraction(123457)])
def test_wide_gaussians_do_not_overflow(sigma: Fraction) -> None:
    draws = Noise().gaussian(DRAWS, sigma) / float(sigma)
    edges = np.quantile(
        np.random.default_rng(0).standard_normal(10**6), np.linspace(0.01, 0.99, 50)
    )
    counts = np.histogram(draws, bins=np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    from scipy.stats import norm

    expected = DRAWS * np.diff(np.concatenate([[0.0], norm.cdf(edges), [1.0]]))
    assert ((counts - expected) ** 2 / expected).sum() < 51 + 8 * np.sqrt(2 * 51)
    assert np.abs(draws).max() < 7


@pytest.mark.parametrize("t", [1, 3, 40])
def test_the_kernel_for_wide_gaussians_has_the_law_at_small_sigma(t: int, battery: Note) -> None:
    """Nothing in it depends on t being large, and small t can be compared with the exact law."""
    draws = Noise()._run(noise_module._wide_gaussian_kernel, DRAWS, 48, np.asarray([t], np.int64))
    reach = 7 * t + 1
    assert p_value(draws, gaussian_pmf(t, reach), reach) > PASS
    for off in (0.9, 1.1):
        assert p_value(draws, gaussian_pmf(off * t, reach), reach) < FAIL
    battery("sampler fit", 1, "wide discrete Gaussian: the law passes, 10% off fails")


@pytest.mark.parametrize("sigma", [2**23 + 1, 10**9, 2**46])
def test_the_widest_gaussians_are_fast_and_normal(sigma: int) -> None:
    draws = Noise().gaussian(DRAWS, Fraction(sigma))
    assert kstest(draws / sigma, "norm").pvalue > PASS and np.abs(draws / sigma).max() < 7
    for off in (0.9, 1.1):
        assert kstest(draws / (off * sigma), "norm").pvalue < FAIL
    assert p_value(draws % 5 - 2, np.full(5, 0.2), 2) > PASS  # the last digits are noise too


def test_gaussian_agrees_with_opendp() -> None:
    """Two samplers by different people, one law."""
    dp.enable_features("contrib")
    sigma, size = 12.5, 30_000
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    theirs = np.asarray(dp.m.make_gaussian(*space, scale=sigma)([0] * size))
    ours = Noise().gaussian(size, Fraction(25, 2))
    edges = np.arange(-30, 31, 3)
    a, b = (np.histogram(x, bins=[-(10**9), *edges, 10**9])[0] for x in (ours, theirs))
    statistic = ((a - b) ** 2 / (a + b)).sum()
    assert statistic < len(a) + 8 * np.sqrt(2 * len(a))
    wrong = np.histogram(Noise().gaussian(size, Fraction(55, 4)), bins=[-(10**9), *edges, 10**9])[0]
    assert ((wrong - b) ** 2 / (wrong + b)).sum() > len(a) + 8 * np.sqrt(2 * len(a))


def test_the_slow_exact_path_has_the_same_law() -> None:
    """Variances off the fast grid go through plain Python integers."""
    sigma = Fraction(7, 3)
    assert sigma != round_sigma_up(sigma)
    draws = Noise().gaussian(4000, sigma)
    assert p_value(draws, gaussian_pmf(float(sigma), 20), 20) > PASS
    assert p_value(draws, gaussian_pmf(1.3 * float(sigma), 20), 20) < 1e-6


def stream(seed: int) -> noise_module.Entropy:
    """A fixed endless stream of bytes, handed out in whatever amounts are asked for."""
    data = np.random.default_rng(seed).bytes(1 << 22)
    position = 0

    def take(n: int) -> bytes:
        nonlocal position
        position += n
        assert position <= len(data)
        return data[position - n : position]

    return take


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [("gaussian", Fraction(9, 4)), ("laplace", Fraction(9, 4)), ("gaussian", Fraction(2**40))],
)
def test_buffer_boundaries_leave_no_trace(
    kernel: str, scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same byte stream gives the same values however it is cut: a restart never discards words."""

    def drawn(first_buffer: int) -> list[int]:
        noise = Noise(stream(7))
        original = noise._entropy
        sizes: Iterator[int] = iter([2 * first_buffer] * 3000)
        noise._entropy = lambda n: original(next(sizes))
        return getattr(noise, kernel)(500, scale).tolist()

    whole = drawn(60_000)
    for words in (101, 256, 1000):
        assert drawn(words) == whole


def test_exhaustion_really_happens_in_that_test() -> None:
    calls = 0
    source = stream(7)

    def count(n: int) -> bytes:
        nonlocal calls
        calls += 1
        return source(202)

    Noise(count).gaussian(500, Fraction(9, 4))
    assert calls > 20


def test_no_two_calls_share_randomness() -> None:
    noise = Noise()
    a, b = noise.gaussian(5000, Fraction(100)), noise.gaussian(5000, Fraction(100))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1
    assert not np.array_equal(a, Noise().gaussian(5000, Fraction(100)))


def test_production_noise_comes_from_the_system_and_has_no_seed() -> None:
    assert Noise()._entropy is os.urandom
    np.random.seed(0)
    a = Noise().gaussian(100, Fraction(50))
    np.random.seed(0)
    assert not np.array_equal(a, Noise().gaussian(100, Fraction(50)))


@settings(max_examples=200, deadline=None)
@given(st.fractions(Fraction(1, 1000), Fraction(10**7)))
def test_rounding_is_toward_more_noise_and_fine_enough(sigma: Fraction) -> None:
    rounded = round_sigma_up(sigma)
    assert sigma <= rounded <= sigma * (1 + Fraction(1, 1000))
    assert round_sigma_up(rounded) == rounded


@settings(max_examples=200, deadline=None)
@given(st.fractions(Fraction(1, 10**12), Fraction(10**12)))
def test_roots_are_rounded_up(x: Fraction) -> None:
    assert x <= sqrt_up(x) ** 2 <= x * (1 + Fraction(1, 10**15))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2**200))
def test_whole_numbers_stay_below_their_bound(bound: int) -> None:
    assert 0 <= Noise().below(bound) < bound


def test_whole_numbers_are_uniform() -> None:
    noise = Noise()
    counts = np.bincount([noise.below(7) for _ in range(14_000)], minlength=7)
    assert ((counts - 2000) ** 2 / 2000).sum() < 6 + 8 * np.sqrt(12)


def test_bad_parameters_are_refused() -> None:
    for call in (
        lambda: Noise().gaussian(1, Fraction(0)),
        lambda: Noise().laplace(1, Fraction(-1)),
    ):
        with pytest.raises(ParameterError):
            call()
