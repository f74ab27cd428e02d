"""Tables with more cells than can be held: the law is that of noising every cell and dropping the
small ones.
"""

from __future__ import annotations

import itertools
import math
import os
import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from understudy.audit.distributions import gaussian_pmf
from understudy.counting.tally import DENSE_CELLS, CodedRows, Counts
from understudy.privacy import Measure, Meter
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.noise import binomial as binomial_module
from understudy.privacy.noise import samplers as noise_module
from understudy.privacy.noise import wide
from understudy.privacy.noise.binomial import binomial
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.noise.wide import noisy_above, sampled_above, tail, threshold_for
from understudy.privacy.verbs.measure import MOST_KEPT
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.schema import Schema
from understudy.sources.memory import MemorySource


def fits(observed: np.ndarray, expected: np.ndarray) -> bool:
    """A chi-square test at about 8 standard deviations."""
    used = expected > 5
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    return bool(statistic < used.sum() + 8 * math.sqrt(2 * used.sum()))


# ---------------------------------------------------------------------- the binomial


def scripted(*numbers: int) -> Noise:
    """A generator whose uniform numbers are given."""
    left = list(numbers)
    return Noise(lambda size: left.pop(0).to_bytes(size, "little"))


@pytest.mark.parametrize(
    ("trials", "p"),
    [(6, Fraction(2, 7)), (1, Fraction(1, 3)), (40, Fraction(9, 10)), (3, Fraction(1, 10**9))],
)
def test_the_binomial_inverts_its_distribution_to_the_last_bit(trials: int, p: Fraction) -> None:
    """Just below P(K <= k) the draw is k, just above it k + 1, also when only the 256th bit tells."""

    def odds(bits: int) -> tuple[Fraction, Fraction]:
        return p / (1 - p) * (1 - Fraction(1, 2**bits)), p / (1 - p) * (1 + Fraction(1, 2**bits))

    pmf = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    tried = 0
    for k in range(trials):
        first, rest = divmod(int(sum(pmf[: k + 1]) * 2**256), 2**128)
        if min(pmf[k : k + 2]) < Fraction(1, 2**100) or not 2**120 < rest < 2**128 - 2**120:
            continue  # narrower than the steps below
        tried += 1
        assert binomial(scripted(first - 1), trials, odds) == k
        assert binomial(scripted(first + 1), trials, odds) == k + 1
        for nudge, want in ((-(2**30), k), (2**30, k + 1)):
            assert binomial(scripted(first, rest + nudge), trials, odds) == want
    assert tried


def test_a_walk_along_the_weights_bounds_each_and_all_that_follow() -> None:
    """Against exact rationals, for odds anywhere inside their bounds: each weight in its interval,
    the rest at most its bound.
    """
    cut = 0
    for trials, p, bits in itertools.product(
        (3, 50, 400), (Fraction(1, 3), Fraction(7, 10**3), Fraction(10**6, 10**6 + 1)), (33, 64)
    ):
        ratio, slack = p / (1 - p), Fraction(1, 2**bits)
        start = min(trials, int((trials + 1) * p))
        for low, high in ((1, 1), (1 - slack, 1), (1, 1 + slack)):
            found, beyond = binomial_module._side(trials, start, (ratio * low, ratio * high), bits)
            weight, rest = Fraction(1 << (2 * bits)), Fraction(0)
            for k in range(start, trials):
                weight *= ratio * (trials - k) / (k + 1)
                if k - start < len(found):
                    below, above = found[k - start]
                    assert (
                        below <= weight <= above <= weight * (1 + 2 * trials * slack) + 2 * trials
                    )
                else:
                    rest += weight
            assert rest <= beyond <= 2 * rest + 1
            cut += rest > 0
    assert cut > 20


def test_a_draw_within_the_far_lower_tail_of_a_boundary_is_left_open() -> None:
    """P(K < k) is crafted to lie inside the cell of U's first bits, above its lower end by less
    than the tail that no walk visits.
    """
    trials, k, bits, fine = 400, 180, 128, 220

    def beyond(odds: int, drawn: int) -> tuple[int, int]:
        """P(K < k) * 2^bits - drawn as a quotient of integers, for odds in units of 2^-fine."""
        total = 0
        for i in reversed(range(k)):
            total = total * odds + (math.comb(trials, i) << fine * (k - 1 - i))
        whole = (odds + (1 << fine)) ** trials
        return (total << bits + fine * (trials - k + 1)) - drawn * whole, whole

    drawn = math.ceil(Fraction(*beyond(1 << fine, 0)))
    # the larger the odds, the smaller P(K < k)
    low, high = (1 << fine) - (1 << fine - 40), 1 << fine
    assert beyond(low, drawn)[0] > 0 >= beyond(high, drawn)[0]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if beyond(middle, drawn)[0] > 0 else (low, middle)
    odds = Fraction(low, 1 << fine)
    assert 0 < Fraction(*beyond(low, drawn)) < Fraction(1, 2**60)
    for nudge, want in ((-2, k - 1), (0, None), (1, k)):
        assert binomial_module._settled(trials, (odds, odds), drawn + nudge, bits) == want


@pytest.mark.parametrize(("trials", "mean"), [(2**62, 50.0), (2**40, 3.0), (200, 60.0), (5, 4.9)])
def test_the_binomial_has_its_law(trials: int, mean: float) -> None:
    noise, runs = Noise(), 3000
    p = Fraction(mean) / trials
    drawn = [binomial(noise, trials, lambda bits: (p / (1 - p), p / (1 - p))) for _ in range(runs)]
    reach = min(trials, 200)
    seen = np.bincount(drawn, minlength=reach + 1)
    law = stats.binom if trials < 10**6 else None
    pmf = (
        law.pmf(np.arange(reach + 1), trials, float(p))
        if law
        else stats.poisson.pmf(np.arange(reach + 1), mean)
    )
    assert fits(seen, runs * pmf)
    off = (
        law.pmf(np.arange(reach + 1), trials, 0.9 * float(p))
        if law
        else stats.poisson.pmf(np.arange(reach + 1), 0.9 * mean)
    )
    assert mean < 10 or not fits(seen, runs * off)


def test_the_bounds_on_a_proposal_hold() -> None:
    """Against the plain sum in 150 digits, on both routes to Z."""
    for sigma in (
        Fraction(1, 4),
        Fraction(1023, 1024),
        Fraction(1),
        Fraction(9, 8),
        Fraction(1349, 16),
        Fraction(700),
    ):
        first = max(1, math.ceil(4 * sigma))
        with localcontext(prec=150):
            variance = Decimal(sigma.numerator**2) / Decimal(sigma.denominator**2)
            terms = (
                (-Decimal(k * k) / (2 * variance)).exp()
                for k in range(1, math.ceil(30 * sigma) + 2)
            )
            z = 1 + 2 * sum(terms)
            b = Fraction(
                (-Decimal(first**2) / (2 * variance)).exp()
                / (z * (1 - (-Decimal(first) / variance).exp()))
            )
        for bits in (64, 256):
            low, high = wide._odds(sigma, first, bits)
            assert low < b / (1 - b) < high and (high - low) / low < Fraction(1, 2 ** (bits - 2))


def test_a_proposal_is_never_certain() -> None:
    for sigma in (
        Fraction(1, 4),
        Fraction(1, 2),
        Fraction(1),
        Fraction(17, 16),
        Fraction(10),
        Fraction(10**5),
    ):
        low, high = wide._odds(sigma, math.ceil(sigma), 64)
        assert 0 < low < high < 30


# ---------------------------------------------------------------------- beyond the threshold


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("sigma", "threshold"), [(Fraction(9, 8), 2), (Fraction(40), 150), (Fraction(1349, 16), 100)]
)
def test_values_beyond_a_threshold_have_the_tail_law(
    sigma: Fraction, threshold: int, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if slow:
        monkeypatch.setattr(noise_module, "LARGEST_FAST_SCALE", 1)
    size = 3000 if slow else 200_000
    drawn = Noise().above(size, sigma, threshold)
    assert drawn.min() == threshold + 1
    reach = threshold + int(8 * sigma) + 8
    law = gaussian_pmf(float(sigma), reach)[reach + threshold + 1 :]
    seen = np.bincount(drawn - threshold - 1, minlength=len(law))[: len(law)]
    assert fits(seen, len(drawn) * law / law.sum())
    proposed = float(wide._odds(sigma, threshold + 1, 64)[0])
    accepted = tail(sigma, threshold) / (proposed / (1 + proposed))
    assert (
        abs(len(drawn) / size - accepted) < 6 * math.sqrt(accepted * (1 - accepted) / size) + 1e-9
    )
    if not slow:
        off = gaussian_pmf(0.9 * float(sigma), reach)[reach + threshold + 1 :]
        assert not fits(seen, len(drawn) * off / off.sum())


CELLS, KEYS, VALUES = 6, np.array([1, 4]), np.array([3, 1])
SIGMA, THRESHOLD = Fraction(9, 8), 1


def drop_law() -> tuple[np.ndarray, np.ndarray]:
    """By definition: P(kept set), for all sets of cells, and P(noisy count of cell = v, kept) for
    each cell.
    """
    pmf, reach = gaussian_pmf(float(SIGMA), 40), 40
    counts = np.zeros(CELLS, int)
    counts[KEYS] = VALUES
    values = np.zeros((CELLS, 30))
    for cell, count in enumerate(counts):
        values[cell, THRESHOLD + 1 :] = [pmf[reach + v - count] for v in range(THRESHOLD + 1, 30)]
    kept = values.sum(axis=1)
    sets = [
        math.prod(k if bit else 1 - k for k, bit in zip(kept, bits, strict=True))
        for bits in itertools.product((0, 1), repeat=CELLS)
    ]
    return np.asarray(sets), values


@pytest.mark.parametrize("how", ["sampled", "every cell"])
def test_exact_law_on_a_tiny_table(how: str) -> None:
    """Which cells are kept, jointly, and their values: both routes have the law of the definition."""
    noise, runs = Noise(), 8000
    sets, values = np.zeros(2**CELLS), np.zeros((CELLS, 30))
    for _ in range(runs):
        if how == "sampled":
            keys, counts = sampled_above(noise, CELLS, KEYS, VALUES, SIGMA, THRESHOLD)
        else:
            keys, counts = noisy_above(noise, Counts(CELLS, VALUES, KEYS), SIGMA, THRESHOLD)
        assert np.all(np.diff(keys) > 0)
        sets[sum(1 << (CELLS - 1 - int(k)) for k in keys)] += 1
        values[keys, counts] += 1
    want_sets, want_values = drop_law()
    assert fits(sets, runs * want_sets) and fits(values.ravel(), runs * want_values.ravel())
    wrong = np.roll(want_values, 1, axis=0)
    assert not fits(values.ravel(), runs * wrong.ravel())


def test_no_cells_left_to_fill_and_none_occupied() -> None:
    noise = Noise()
    keys, counts = sampled_above(noise, 3, np.arange(3), np.array([500, 500, 0]), Fraction(2), 20)
    assert keys.tolist() == [0, 1] and np.all(counts > 400)
    keys, counts = sampled_above(
        noise,
        2**62,
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        Fraction(2),
        threshold_for(2**62, Fraction(2), 500),
    )
    assert 0 < len(keys) < 900 and keys.max() < 2**62 and np.all(np.diff(keys) > 0)


def test_empty_cells_are_uniform_among_sets_of_them() -> None:
    """Every set of two of the five empty cells as often as any other, whatever lies between them."""
    noise, keys = Noise(), np.array([0, 3, 4, 8])
    seen: dict[tuple[int, ...], int] = dict.fromkeys(itertools.combinations((1, 2, 5, 6, 7), 2), 0)
    for _ in range(5000):
        seen[tuple(sorted(wide._empty_cells(noise, 9, keys, 2).tolist()))] += 1
    assert fits(np.array(list(seen.values())), np.full(10, 500.0))
    assert sorted(wide._empty_cells(noise, 9, keys, 5).tolist()) == [1, 2, 5, 6, 7]
    assert sorted(wide._empty_cells(noise, 3, np.zeros(0, np.int64), 3).tolist()) == [0, 1, 2]
    assert len(wide._empty_cells(noise, 4, np.arange(4), 0)) == 0


def test_a_nearly_full_table_is_not_searched_for_its_empty_cells() -> None:
    """Randomness is asked for by the number of cells to find, not by how rare they are."""
    asked: list[int] = []

    def counted(size: int) -> bytes:
        asked.append(size)
        return os.urandom(size)

    cells, empty = 300_000, [7, 150_000, 150_001, 299_999]
    keys = np.delete(np.arange(cells), empty)
    found = wide._empty_cells(Noise(counted), cells, keys, 3)
    assert len(set(found.tolist())) == 3 and set(found.tolist()) <= set(empty)
    assert sum(asked) < 100_000  # bytes; rejection would take tens of millions


def test_uniform_cells_are_uniform() -> None:
    counts = np.bincount(Noise().uniform(70_000, 7), minlength=7)
    assert len(counts) == 7 and fits(counts, np.full(7, 10_000.0))
    assert not np.any(Noise().uniform(100, 1))
    assert Noise().uniform(1000, 2**62).max() > 2**61


def test_the_threshold_is_the_smallest_and_far_enough_out() -> None:
    for sigma in (
        Fraction(1, 4),
        Fraction(1),
        Fraction(9, 8),
        Fraction(1349, 16),
        Fraction(1025),
        Fraction(10**6),
    ):
        for cells, kept in ((10**10, 20_000), (2**62, 1), (DENSE_CELLS + 1, MOST_KEPT)):
            t = threshold_for(cells, sigma, kept)
            assert cells * tail(sigma, t) <= kept and (t == 0 or cells * tail(sigma, t - 1) > kept)
            assert t + 1 >= sigma
    assert threshold_for(10, Fraction(5), 10) == 0
    for t in (0, 3000, 6000):  # the sum and the integral meet
        assert tail(Fraction(1024), t) == pytest.approx(
            tail(Fraction(1025), round(t * 1025 / 1024)), rel=5e-3
        )


# ---------------------------------------------------------------------- through the meter


def meter_on(rows: np.ndarray, schema: Schema) -> Meter:
    return Meter(
        MemorySource(rows, schema),
        neighbours=Neighbours.REPLACE_ONE, play=Cost(Fraction(10)), certify=Fraction(1),
    )  # fmt: skip


def test_a_marginal_of_ten_billion_cells() -> None:
    schema = Schema.from_domain(dict.fromkeys("abcde", 100))
    rows = np.random.default_rng(0).integers(0, 100, (20_000, 5))
    rows[:3000] = [1, 2, 3, 4, 5]
    batch = Marginal.of(schema, list("abcde"))
    meter = meter_on(rows, schema)
    tracemalloc.start()
    found = meter.ask(Measure(batches=[batch], rho=Fraction(1, 1000)))[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    (event,) = meter.events
    assert (
        isinstance(event, ev.DiscreteGaussian)
        and event.sigma_squared == found.sigma**2
        and event.l2_squared == 2
    )
    assert found.keys is not None and found.threshold == threshold_for(10**10, found.sigma, 20_000)
    assert (
        np.all(np.diff(found.keys) > 0)
        and np.all(found.counts > found.threshold)
        and found.keys[-1] < 10**10
    )
    expected = 10**10 * tail(found.sigma, found.threshold)
    assert abs(len(found.keys) - expected) < 8 * math.sqrt(expected) + 50
    heavy = int(np.searchsorted(found.keys, 102030405))
    assert found.keys[heavy] == 102030405 and abs(found.counts[heavy] - 3000) < 8 * found.sigma
    fewer = meter.ask(Measure(batches=[batch], rho=Fraction(1, 1000), kept=100))[0]
    assert len(fewer.counts) < 300


def test_the_threshold_is_the_same_however_many_cells_are_occupied() -> None:
    """Of a table that holds few cells and of one that holds many: a public rule, wide or not."""
    schema = Schema.from_domain({"a": 5000, "b": 5000, "c": 40, "d": 50})
    rng = np.random.default_rng(0)
    crowded = np.zeros((300_000, 4), np.int64)
    spread = rng.integers(0, schema.shape, crowded.shape)
    for columns, sparse, rho in (
        (["a", "b"], False, Fraction(1, 10**6)),
        (["c", "d"], True, Fraction(1, 100)),
    ):
        batch, kept = Marginal.of(schema, columns), 20_000 if not sparse else 10
        assert (batch.size > DENSE_CELLS) != sparse
        found = [
            meter_on(rows, schema).ask(Measure(batches=[batch], rho=rho, sparse=sparse, kept=kept))[
                0
            ]
            for rows in (crowded, spread)
        ]
        assert {m.threshold for m in found} == {threshold_for(batch.size, found[0].sigma, kept)}
        occupied = len(np.unique(spread[:, [schema.names.index(name) for name in columns]], axis=0))
        assert (
            threshold_for(batch.size - occupied + 1, found[0].sigma, kept) != found[0].threshold
        ), "it would differ if it looked"


def test_sparse_on_request_is_the_dense_table_cut() -> None:
    schema = Schema.from_domain({"a": 40, "b": 50})
    rows = np.random.default_rng(0).integers(0, [40, 50], (500, 2))
    batch = Marginal.of(schema, ["a", "b"])
    found = meter_on(rows, schema).ask(
        Measure(batches=[batch], rho=Fraction(1, 4), sparse=True, kept=10)
    )[0]
    dense = meter_on(rows, schema).ask(Measure(batches=[batch], rho=Fraction(1, 4)))[0]
    assert found.sigma == dense.sigma and dense.keys is None and dense.threshold is None
    assert found.keys is not None and found.threshold is not None
    truth = batch.counts(CodedRows(rows, schema.shape)).at(found.keys)
    assert (
        np.all(found.counts > found.threshold)
        and np.abs(found.counts - truth).max() < 7 * found.sigma
    )
