from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import numpy as np
import pytest

from understudy.audit.distributions import renyi
from understudy.errors import ParameterError
from understudy.privacy.noise.exponential import MOST_NATS, ScoreTable, _groups, draw
from understudy.privacy.noise.samplers import Noise

ORDERS = (1.01, 2, 8, 64)


def law(table: ScoreTable, scores: np.ndarray) -> np.ndarray:
    clipped = np.clip(scores, 0, table.top)
    weights = dict(zip(np.unique(clipped).tolist(), table.weights(np.unique(clipped)), strict=True))
    total = sum(weights[int(u)] for u in clipped)
    return np.asarray([float(Fraction(weights[int(u)], total)) for u in clipped])


@pytest.mark.parametrize(
    ("rho", "top"),
    [
        (Fraction(1, 5), 40),
        (Fraction(1, 10**6), 48842),
        (Fraction(2, 10**4), 10**6),
        (Fraction(8), 3000),
    ],
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


@pytest.mark.parametrize(
    ("rho", "sensitivity", "top"),
    [(Fraction(1, 200), 2 * 10**6, 2 * 10**12), (Fraction(5), 2**20, 2**41)],
)
def test_large_weights_of_candidates_do_not_make_large_tables(
    rho: Fraction, sensitivity: int, top: int
) -> None:
    """A million rows and a weight of a million: right to 64 bits from tables of megabytes, not
    gigabytes.
    """
    table = ScoreTable.within(rho, sensitivity, top)
    scores = np.unique(np.r_[0, 1, table.top - 1, np.linspace(0, table.top, 7).astype(np.int64)])
    tracemalloc.start()
    weights = table.weights(scores)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20 and min(weights) >= 2**64
    with localcontext(prec=1300):
        kappa = Decimal(table.kappa.numerator) / Decimal(table.kappa.denominator)
        for u, w in zip(scores, weights, strict=True):
            exact = (kappa * (int(u) - table.top)).exp()
            assert abs(Decimal(w) / Decimal(weights[-1]) / exact - 1) < Decimal(2) ** -62


def test_scores_beyond_the_cap_tie_and_nothing_sharper_is_drawn() -> None:
    table = ScoreTable.within(Fraction(1, 200), 1, 10**6)
    assert 27_900 < table.top < 28_100 and table.kappa * table.top <= MOST_NATS
    near, far, further = law(table, np.array([table.top - 10, table.top, table.top + 5000]))
    assert near < far == further
    sharpest = ScoreTable.within(Fraction(10**30), 1, 10**6)
    assert (sharpest.kappa, sharpest.top) == (MOST_NATS, 1)
    assert max(w.bit_length() for w in sharpest.weights(np.array([0, 1]))) < 4110


def test_the_charge_covers_the_law_and_is_tight() -> None:
    """Renyi divergence <= a*rho for all score pairs that differ by the sensitivity; a +-1 pair
    attains it.
    """
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


def test_draws_follow_the_law_and_no_other(battery: Callable[[str, int, str], None]) -> None:
    table = ScoreTable.within(Fraction(1, 10), 1, 30)
    scores = np.array([30, 30, 28, 25, 25, 25, 3, 99, -4])
    expected = law(table, scores)
    counts = np.bincount(draw(Noise(), scores, table, 400_000), minlength=len(scores))
    want = np.maximum(400_000 * expected, 1e-9)
    big = want > 20
    statistic = ((counts[big] - want[big]) ** 2 / want[big]).sum()
    assert statistic < big.sum() + 8 * math.sqrt(2 * big.sum())
    for off in (Fraction(9, 10), Fraction(11, 10)):
        other = law(ScoreTable.at(off * table.kappa, 30), scores) * 400_000
        assert ((counts[big] - other[big]) ** 2 / other[big]).sum() > big.sum() + 8 * math.sqrt(
            2 * big.sum()
        )
    battery("sampler fit", 1, "exponential mechanism: the law passes, 10% off fails")


def test_a_multiplied_score_gets_a_gentler_table() -> None:
    one, five = (ScoreTable.within(Fraction(1, 10), m, 1000) for m in (1, 5))
    assert five.kappa * 5 == pytest.approx(float(one.kappa), rel=1e-9)
    assert five.log_weight_shift(5) ** 2 / 2 <= Fraction(1, 10)


def test_the_table_depends_on_public_numbers_only() -> None:
    """The law in counts is the same for any n: scores are rows, not shares."""
    near = ScoreTable.within(Fraction(1, 10), 1, 500)
    far = ScoreTable.within(Fraction(1, 10), 1, 2000)
    scores = np.array([10, 12, 400])
    assert np.allclose(law(near, scores), law(far, scores), rtol=1e-12)


def test_too_little_budget_is_a_sentence() -> None:
    with pytest.raises(ParameterError, match="too small"):
        ScoreTable.within(Fraction(1, 10**40), 1, 100)


def peeled_law(
    table: ScoreTable, scores: np.ndarray, draws: int
) -> dict[tuple[int, ...], Fraction]:
    """The law of distinct draws by its definition, in rationals: each draw from what the last ones
    left.
    """
    weights = [table.weights(np.array([u]))[0] for u in scores]
    found = {}
    for order in itertools.permutations(range(len(scores)), draws):
        chance, left = Fraction(1), sum(weights)
        for i in order:
            chance *= Fraction(weights[i], left)
            left -= weights[i]
        found[order] = chance
    return found


@pytest.mark.parametrize("draws", [2, 4])
def test_distinct_draws_are_peeled(draws: int) -> None:
    table = ScoreTable.within(Fraction(1, 2), 1, 9)
    scores = np.array([7, 9, 7, 6])
    expected = peeled_law(table, scores, draws)
    assert sum(expected.values()) == 1
    noise, runs = Noise(), 12_000
    seen = dict.fromkeys(expected, 0)
    for _ in range(runs):
        seen[tuple(draw(noise, scores, table, draws, distinct=True).tolist())] += 1

    def statistic(law: dict[tuple[int, ...], Fraction]) -> float:
        return sum(
            (seen[o] - runs * float(p)) ** 2 / (runs * float(p))
            for o, p in law.items()
            if runs * p > 5
        )

    limit = len(expected) + 8 * math.sqrt(2 * len(expected))
    assert statistic(expected) < limit
    assert statistic(peeled_law(ScoreTable.within(Fraction(1), 1, 9), scores, draws)) > limit


def test_distinct_draws_are_gumbel_top_k() -> None:
    """Peeling is one-shot noise: the order of the largest of kappa*u + Gumbel."""
    table = ScoreTable.within(Fraction(1, 2), 1, 9)
    scores = np.array([7, 9, 7, 6])
    noisy = float(table.kappa) * scores + np.random.default_rng(0).gumbel(size=(200_000, 4))
    orders = np.argsort(-noisy, axis=1)[:, :2]
    for (i, j), chance in peeled_law(table, scores, 2).items():
        share = np.mean((orders[:, 0] == i) & (orders[:, 1] == j))
        assert abs(share - float(chance)) < 6 * math.sqrt(float(chance) / 200_000)


def test_the_charge_covers_distinct_draws() -> None:
    """Exact law of ordered pairs, all neighbouring scores: divergence at most two draws' worth."""
    table = ScoreTable.within(Fraction(1, 20), 1, 9)
    charged, worst = float(table.log_weight_shift(1)) ** 2, 0.0
    base = np.array([float(p) for p in peeled_law(table, np.array([5, 6, 6, 5]), 2).values()])
    for move in itertools.product((-1, 0, 1), repeat=4):
        other = np.array(
            [float(p) for p in peeled_law(table, np.array([5, 6, 6, 5]) + move, 2).values()]
        )
        for a in ORDERS:
            assert renyi(base, other, a) <= a * charged * (1 + 1e-9)
            worst = max(worst, renyi(base, other, a) / (a * charged))
    assert worst > 0.5


def test_distinct_draws_exhaust_large_groups() -> None:
    table = ScoreTable.within(Fraction(1, 2), 1, 9)
    scores = np.repeat([9, 3, 9], [40, 5, 60])
    assert sorted(draw(Noise(), scores, table, 105, distinct=True).tolist()) == list(range(105))


def test_groups_are_the_same_by_either_way_of_finding_them() -> None:
    scores = np.random.default_rng(0).integers(0, 300, 5000)
    want = np.unique(scores, return_counts=True)
    for top in (300, 1 << 16, (1 << 16) + 1, 1 << 30):
        values, sizes = _groups(scores, top)
        assert np.array_equal(values, want[0]) and sizes == want[1].tolist()
