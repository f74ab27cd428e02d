"""A noisy table with far more cells than rows: noise on every cell, and only what exceeds a public
threshold is kept.

Dropping small noisy counts is post-processing, so the kept ones may be drawn directly: noise on
each occupied cell; of the empty ones, how many exceed the threshold, which, and by how much. The
law is that of noising all cells (proofs/noise, N6 and N7); memory is that of what is kept.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from understudy.counting.tally import DENSE_CELLS, Counts
from understudy.privacy.noise.binomial import binomial
from understudy.privacy.noise.samplers import Noise

# up to this sigma tails are summed; beyond, the integral is right to a millionth
SUMMED_SIGMA = 1024


def tail(sigma: Fraction, threshold: int) -> float:
    """P(N_Z(0, sigma^2) > threshold) in floating point: for public rules, never for drawing."""
    s = float(sigma)
    if sigma > SUMMED_SIGMA:
        return math.erfc((threshold + 0.5) / (s * math.sqrt(2))) / 2
    reach = math.ceil(12 * s) + 12
    beyond = np.exp(
        -(np.arange(threshold + 1, threshold + reach, dtype=np.float64) ** 2) / (2 * s * s)
    ).sum()
    return float(beyond / (1 + 2 * np.exp(-(np.arange(1, reach) ** 2) / (2 * s * s)).sum()))


def threshold_for(cells: int, sigma: Fraction, most: int) -> int:
    """The smallest threshold, at least 0, that at most ``most`` of so many empty cells exceed on
    average: a public rule.
    """
    low, high = 0, 40 * math.ceil(sigma)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cells * tail(sigma, middle) <= most else (middle + 1, high)
    return low


def noisy_above(
    noise: Noise, counts: Counts, sigma: Fraction, threshold: int
) -> tuple[np.ndarray, np.ndarray]:
    """(cells, noisy counts) of the cells whose noisy count exceeds ``threshold``, by cell number."""
    if counts.cells <= DENSE_CELLS:
        noisy = counts.dense() + noise.gaussian(counts.cells, sigma)
        keys = np.flatnonzero(noisy > threshold)
        return keys, noisy[keys]
    assert counts.keys is not None
    return sampled_above(noise, counts.cells, counts.keys, counts.values, sigma, threshold)


def sampled_above(
    noise: Noise, cells: int, keys: np.ndarray, values: np.ndarray, sigma: Fraction, threshold: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same law from the occupied cells alone, for a threshold of at least sigma - 1 (N7)."""
    assert threshold + 1 >= sigma
    noisy = values + noise.gaussian(len(keys), sigma)
    large = noisy > threshold
    proposed = binomial(noise, cells - len(keys), partial(_odds, sigma, threshold + 1))
    risen = noise.above(proposed, sigma, threshold)
    places = np.concatenate([keys[large], _empty_cells(noise, cells, keys, len(risen))])
    counts = np.concatenate([noisy[large], risen])
    # by cell number, so that order does not tell which cells are occupied
    order = np.argsort(places)
    return places[order], counts[order]


def _empty_cells(noise: Noise, cells: int, keys: np.ndarray, count: int) -> np.ndarray:
    """``count`` different cells that are not in ``keys``, uniformly: ranks among the empty cells,
    of which the first new ones are taken.
    """
    ranks = np.zeros(0, np.int64)
    while len(ranks) < count:
        ranks = np.concatenate(
            [ranks, noise.uniform(2 * (count - len(ranks)) + 16, cells - len(keys))]
        )
        ranks = ranks[np.sort(np.unique(ranks, return_index=True)[1])]
    ranks = ranks[:count]
    before = keys - np.arange(len(keys))  # empty cells before each occupied one
    return ranks + np.searchsorted(before, ranks, side="right")


# ---------------------------------------------------------------------- the chance of a proposal


def _odds(sigma: Fraction, first: int, bits: int) -> tuple[Fraction, Fraction]:
    """Bounds on b/(1-b), b the chance that an empty cell is proposed (N7):

    b = exp(-first^2 / (2 sigma^2)) / (Z (1 - exp(-first / sigma^2))),   Z the sum of exp(-k^2 / (2 sigma^2)).
    """
    exponent, step = first**2 / (2 * sigma**2), first / sigma**2
    # 1 - exp(-step) loses the digits by which step is below 1, exp(-exponent) those of the
    # exponent.
    digits = math.ceil(bits * 0.302) + 1
    working = digits + 12 + len(str(math.ceil(1 / step))) + len(str(math.ceil(exponent)))
    with localcontext(Context(prec=working, Emin=-(10**17), Emax=10**17)) as ctx:
        chance = _exp(-exponent, ctx) / (_normaliser(sigma, ctx) * (1 - _exp(-step, ctx)))
        middle, slack = Fraction(chance), Fraction(1, 10**digits)
    low, high = middle * (1 - slack), middle * (1 + slack)
    return low / (1 - low), high / (1 - high)


def _exp(x: Fraction, ctx: Context) -> Decimal:
    return ctx.divide(Decimal(x.numerator), Decimal(x.denominator)).exp()


def _normaliser(sigma: Fraction, ctx: Context) -> Decimal:
    """Z: summed as it stands below sigma 1, by Poisson's formula sigma sqrt(2 pi) * sum of exp(-2
    pi^2 sigma^2 m^2) from there on.
    """
    if sigma < 1:
        return _theta(
            ctx.divide(Decimal(sigma.denominator**2), Decimal(2 * sigma.numerator**2)), ctx
        )
    pi, wide = pi_to(ctx.prec), ctx.divide(Decimal(sigma.numerator), Decimal(sigma.denominator))
    return wide * (2 * pi).sqrt() * _theta(2 * (pi * wide) ** 2, ctx)


def _theta(c: Decimal, ctx: Context) -> Decimal:
    """The sum over all whole m of exp(-c m^2), c at least 1/2."""
    total, m, term = Decimal(1), 0, Decimal(1)
    while term > Decimal(10) ** -ctx.prec:
        m += 1
        term = (-c * m * m).exp()
        total += 2 * term
    return total


@lru_cache
def pi_to(digits: int) -> Decimal:
    """pi to so many digits, by Machin's formula in integers."""
    unit = 10 ** (digits + 10)
    # it is kept: the precision of whoever asks first must not matter
    with localcontext(Context(prec=digits + 10)):
        return Decimal(4 * (4 * _arctan_inverse(5, unit) - _arctan_inverse(239, unit))) / Decimal(
            unit
        )


def _arctan_inverse(x: int, unit: int) -> int:
    power, total, k = unit // x, 0, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power //= x * x
        k += 2
    return total
