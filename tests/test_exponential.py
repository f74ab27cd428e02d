from __future__ import annotations

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from laws import renyi
from understudy.errors import ParameterError
from understudy.privacy.exponential import ScoreTable, draw
from understudy.privacy.noise import Noise

ORDERS = (1.01, 2, 8, 64)


def law(table: ScoreTable, scores: np.ndarray) -> np.ndarray:
    clipped = np.clip(scores, 0, table.top)
    weights = dict(zip(np.unique(clipped).tolist(), table.weights(np.unique(clipped)), strict=True))
    total = sum(weights[int(u)] for u in clipped)
    return np.asarray([float(Fraction(weights[int(u)], total)) for u in clipped])


@pytest.mark.parametrize(
    ("rho", "top"), [(Fraction(1, 5), 40), (Fraction(1, 10**6), 48842), (Fraction(2, 10**4), 10**6), (Fraction(8), 3000)]
)
def test_weights_are_right_to_64_bits(rho: Fraction, top: int) -> None:
    getcontext().prec = 2500
    table = ScoreTable.within(rho, 1, top)
    scores = np.unique(np.linspace(0, table.top, 9).astype(np.int64))
    weights = table.weights(scores)
    assert min(weights) >= 2**64
    kappa = Decimal(table.kappa.numerator) / Decimal(table.kappa.denominator)
    for u, w in zip(scores, weights, strict=True):
        exact = (kappa * (int(u) - table.top)).exp()
        assert abs(Decimal(w) / Decimal(weights[-1]) / exact - 1) < Decimal(2) ** -62


def test_the_charge_covers_the_law_and_is_tight() -> None:
    """Renyi divergence <= a*rho for all score pairs that differ by the sensitivity; a +-1 pair attains it."""
    rng = np.random.default_rng(0)
    for rho in (Fraction(1, 1000), Fraction(1, 50), Fraction(1, 2)):
        table = ScoreTable.within(rho, 1, 200)
        charged = float(table.log_weight_shift(1)) ** 2 / 2
        assert charged <= float(rho)
        for _ in range(100):
            scores = rng.integers(0, 201, 6)
            moved = np.clip(scores + rng.integers(-1, 2, 6), 0, 200)
            for a in ORDERS:
                assert renyi(law(table, scores), law(table, moved), a) <= a * charged * (1 + 1e-9)
    table = ScoreTable.within(Fraction(1, 1000), 1, 200)
    up, down = np.array([101, 100]), np.array([100, 101])
    for a in (1.01, 2):
        assert renyi(law(table, up), law(table, down), a) > 0.98 * a * float(table.kappa) ** 2 / 2


def test_draws_follow_the_law() -> None:
    table = ScoreTable.within(Fraction(1, 10), 1, 30)
    scores = np.array([30, 30, 28, 25, 25, 25, 3, 99, -4])
    expected = law(table, scores)
    counts = np.bincount(draw(Noise(), scores, table, 40_000), minlength=len(scores))
    want = np.maximum(40_000 * expected, 1e-9)
    big = want > 20
    statistic = ((counts[big] - want[big]) ** 2 / want[big]).sum()
    assert statistic < big.sum() + 8 * math.sqrt(2 * big.sum())
    sharper = law(ScoreTable.within(Fraction(1, 10) * Fraction(4, 3), 1, 30), scores) * 40_000
    assert ((counts[big] - sharper[big]) ** 2 / sharper[big]).sum() > big.sum() + 8 * math.sqrt(2 * big.sum())


def test_a_multiplied_score_gets_a_gentler_table() -> None:
    one, five = (ScoreTable.within(Fraction(1, 10), m, 1000) for m in (1, 5))
    assert five.kappa * 5 == pytest.approx(float(one.kappa), rel=1e-9)
    assert five.log_weight_shift(5) ** 2 / 2 <= Fraction(1, 10)


def test_the_table_depends_on_public_numbers_only() -> None:
    """The law in counts is the same for any n: scores are rows, not shares."""
    near, far = ScoreTable.within(Fraction(1, 10), 1, 500), ScoreTable.within(Fraction(1, 10), 1, 2000)
    scores = np.array([10, 12, 400])
    assert np.allclose(law(near, scores), law(far, scores), rtol=1e-12)


def test_too_little_budget_is_a_sentence() -> None:
    with pytest.raises(ParameterError, match="too small"):
        ScoreTable.within(Fraction(1, 10**40), 1, 100)
