"""The accountant of Gaussian noise: never below the exact law, and near it."""

from __future__ import annotations

import itertools
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.privacy.accounting import gaussian
from understudy.privacy.accounting.budget import (
    epsilon_for,
    gaussian_epsilon_for,
    gaussian_rho_for,
    rho_for,
)
from understudy.privacy.accounting.gaussian import log_delta_gaussian

N = 48842
DELTA = Fraction(1, N * N)
VAST = Fraction(10**16)  # a variance at which nothing is left of the integers


def bound(b: Fraction, least: Fraction, epsilon: Fraction) -> float:
    return float(log_delta_gaussian(b / 2, least, epsilon).exp())


# ---------------------------------------------------------------------- exact laws


def noise(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    reach = math.ceil(15 * sigma) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * sigma**2))
    return values, weights / weights.sum()


def sum_of(sigma: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The law of the sum of so many draws: sums of positive products, so the tails are exact."""
    law, one = np.ones(1), noise(sigma)[1]
    for bit in bin(count)[2:]:
        law = np.convolve(law, law)
        law = np.convolve(law, one) if bit == "1" else law
        law = law[np.flatnonzero(law > 1e-60)]
    return np.arange(len(law)) - len(law) // 2, law


def least_delta(losses: np.ndarray, chances: np.ndarray, epsilon: float) -> float:
    return float((chances * np.maximum(0, -np.expm1(epsilon - losses))).sum())


CASES = [  # sigma, numbers, epsilon, and how far above the exact law the bound may be
    (300, 4, "0.04", 1.0003),
    (86, 182, "1", 1.003),
    (22, 182, "4", 1.04),
    (7, 40, "6", 1.26),
    (20, 1, "0.5", 1.04),
    (3, 10, "3", 1.3),
    (2, 3, "3", 1.6),
]


@pytest.mark.parametrize(("sigma", "numbers", "epsilon", "most"), CASES)
def test_the_bound_is_above_the_exact_law_and_near_it(
    sigma: int, numbers: int, epsilon: str, most: float
) -> None:
    total, chances = sum_of(sigma, numbers)
    exact = least_delta((numbers / 2 + total) / sigma**2, chances, float(epsilon))
    b = Fraction(numbers, sigma**2)
    ours = bound(b, Fraction(sigma**2), Fraction(epsilon))
    assert exact * (1 - 1e-9) < ours < exact * most
    # less is known of the variances: no less is promised
    assert ours < bound(b, 1 / b, Fraction(epsilon)) or numbers == 1


@pytest.mark.parametrize(("sigma", "numbers", "epsilon"), [(86, 182, 1.0), (22, 182, 4.0)])
def test_the_bound_agrees_with_the_distribution_of_dp_accounting(
    sigma: int, numbers: int, epsilon: float
) -> None:
    below, above = (
        pld.from_discrete_gaussian_mechanism(
            sigma, 1, pessimistic_estimate=up, value_discretization_interval=2e-6
        )
        .self_compose(numbers)
        .get_delta_for_epsilon(epsilon)
        for up in (False, True)
    )
    ours = bound(Fraction(numbers, sigma**2), Fraction(sigma**2), Fraction(str(epsilon)))
    assert 0 < below < ours < above * 1.04


def test_the_bound_holds_where_sigmas_and_moves_follow_what_was_released() -> None:
    """All paths of three numbers; how much is spent on the next depends on the last."""
    b, least = Fraction(1, 4), Fraction(9)
    steps = {True: (1, 3.0), False: (2, 9.0)}  # (move, sigma) of the second and third
    losses, chances = [], []
    for x, p in zip(*noise(4.0), strict=True):
        move, sigma = steps[bool(x > 0)]
        loss = 1 / 32 + x / 16
        values, law = noise(sigma)
        left = float(b) - 1 / 16 - (move / sigma) ** 2
        # the third takes what is left, with a sigma that depends on the second's sign
        for sign in (True, False):
            inside = (values > 0) == sign
            third = 3.0 if sign else 6.0
            move3 = math.floor(third * math.sqrt(left))
            values3, law3 = noise(third)
            grid = (
                loss
                + (move**2 / 2 + move * values[inside, None]) / sigma**2
                + (move3**2 / 2 + move3 * values3) / third**2
            )
            losses.append(grid.ravel())
            chances.append((p * law[inside, None] * law3).ravel())
    exact = least_delta(np.concatenate(losses), np.concatenate(chances), 2.0)
    assert sum(map(np.sum, chances)) == pytest.approx(1)
    assert 0 < exact < bound(b, least, Fraction(2))


@pytest.mark.parametrize("moves", [(1, 1, 1), (3, -2, 1), (0, 4, -1)])
def test_the_bound_holds_for_several_sigmas_at_once(moves: tuple[int, ...]) -> None:
    sigmas = (5, 8, 6)
    b = sum((Fraction(v, s) ** 2 for v, s in zip(moves, sigmas, strict=True)), Fraction(0))
    grid, chances = np.zeros(1), np.ones(1)
    for move, sigma in zip(moves, sigmas, strict=True):
        values, law = noise(float(sigma))
        step = (move**2 / 2 + move * values) / sigma**2
        grid, chances = (grid[:, None] + step).ravel(), (chances[:, None] * law).ravel()
    for epsilon in ("0.5", "2", "4"):
        exact = least_delta(grid, chances, float(epsilon))
        assert exact < bound(b, Fraction(25), Fraction(epsilon))


@settings(max_examples=60, deadline=None)
@given(st.floats(1.0, 30.0), st.integers(1, 30), st.floats(0.05, 8.0))
def test_the_bound_is_never_below_the_law_of_one_number(
    sigma: float, move: int, epsilon: float
) -> None:
    values, chances = noise(sigma)
    s, e = Fraction(repr(sigma)), Fraction(repr(epsilon))
    exact = least_delta((move**2 / 2 + move * values) / sigma**2, chances, epsilon)
    log = float(log_delta_gaussian((move / s) ** 2 / 2, s**2, e))
    assert exact == 0 or math.log(exact) < log + 1e-9


# ---------------------------------------------------------------------- evaluation


def normal_delta(b: Fraction, epsilon: Fraction) -> mpmath.mpf:
    m, e = mpmath.sqrt(mpmath.mpf(b.numerator) / b.denominator), mpmath.mpf(float(epsilon))
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(
    ("b", "epsilon"),
    [*itertools.product(("0.0001", "0.03", "0.5", "4"), (0.125, 1.0, 4.0, 16.0))],
)
def test_with_vast_noise_it_is_the_analytic_gaussian(b: str, epsilon: float) -> None:
    move, e = Fraction(b), Fraction(epsilon)
    with mpmath.workdps(80):
        exact = mpmath.log(normal_delta(move, e))
    ours = log_delta_gaussian(move / 2, VAST, e)
    if float(e) / float(move) ** 0.5 - float(move) ** 0.5 / 2 < 0.5:
        assert ours == gaussian.UNBOUNDED
    else:
        assert 0 <= float(ours) - float(exact) < 1e-8 * max(1.0, abs(float(exact)))


@pytest.mark.parametrize("x", ["0.5", "1", "3", "12", "1000"])
def test_tails_are_enclosed(x: str) -> None:
    with localcontext(Context(prec=60)), mpmath.workdps(70):
        low, high = (gaussian._tail(Decimal(x), up=up) for up in (False, True))
        z = mpmath.mpf(x)
        exact = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(z * z / 2) * mpmath.erfc(z / mpmath.sqrt(2))
        assert mpmath.mpf(str(low)) < exact < mpmath.mpf(str(high))
        assert (high - low) / high < Decimal(10) ** -29


@pytest.mark.parametrize("exponent", [12, 20, 60])
def test_no_bound_is_given_where_digits_are_too_few(exponent: int) -> None:
    """x = epsilon/m - m/2 of huge numbers: at rho 10^60 the bound came out below the exact law."""
    rho, x = Fraction(10) ** exponent, Fraction(22, 7)
    m = Fraction(math.isqrt(2 * 10 ** (exponent + 200)), 10**100)
    with mpmath.workdps(250):
        y = mpmath.mpf(x.numerator) / x.denominator
        # of the other tail, beyond m, no more than its largest is taken off
        gap = mpmath.ncdf(-y) - mpmath.npdf(y) / mpmath.mpf(float(m))
        ours, exact = log_delta_gaussian(rho, VAST * rho**2, m * (x + m / 2)), mpmath.log(gap)
        if rho > gaussian.MOST_RHO:
            assert ours == gaussian.UNBOUNDED
        else:
            assert 0 < mpmath.mpf(str(ours)) - exact < 1e-4
    assert gaussian_epsilon_for(rho, Fraction(1), DELTA) <= epsilon_for(rho, DELTA)


GAINS = {"0.1": (0.9472, 0.9471), "1": (0.9566, 0.9531), "4": (0.9862, 0.9623)}


@pytest.mark.parametrize("epsilon", GAINS)
def test_how_much_less_noise_the_same_promise_needs(epsilon: str) -> None:
    for spread, gain in zip((1, 16), GAINS[epsilon], strict=True):
        rho = gaussian_rho_for(Fraction(epsilon), DELTA, spread)
        found = math.sqrt(rho_for(Fraction(epsilon), DELTA) / rho)
        assert found == pytest.approx(gain, abs=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.01, 20), st.floats(1e-14, 1e-2), st.sampled_from([1, 16]))
def test_conversion_never_gains_and_never_loses_to_zcdp(
    epsilon: float, delta: float, spread: int
) -> None:
    e, d = Fraction(repr(epsilon)), Fraction(repr(delta))
    rho = gaussian_rho_for(e, d, spread)
    assert rho >= rho_for(e, d)
    back = gaussian_epsilon_for(rho, spread / (2 * rho), d)
    assert back <= epsilon_for(rho, d)
    assert abs(back / e - 1) < Fraction(1, 10**9)
    if rho > rho_for(e, d):
        assert log_delta_gaussian(rho, spread / (2 * rho), e) <= math.log(delta) + 1e-12


def test_nothing_spent_is_nothing() -> None:
    assert gaussian_epsilon_for(Fraction(0), Fraction(1), DELTA) == 0


def test_a_tiny_sigma_is_left_to_zcdp() -> None:
    assert gaussian_rho_for(Fraction(100), DELTA, 1) == rho_for(Fraction(100), DELTA)
    assert log_delta_gaussian(Fraction(2), Fraction(1, 100), Fraction(9)) == gaussian.UNBOUNDED
