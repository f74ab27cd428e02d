"""Exact laws of the samplers, and tests of fit that can fail."""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats


def gaussian_pmf(sigma: float, reach: int) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    return weights / weights.sum()


def laplace_pmf(scale: float, reach: int) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    p = math.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** np.abs(k)


def p_value(draws: np.ndarray, pmf: np.ndarray, reach: int) -> float:
    """Chi-square test of integer draws against a pmf on -reach..reach, tails pooled to 5 expected each."""
    counts = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    expected = pmf * len(draws)
    pooled_counts, pooled_expected, running = [], [], [0.0, 0.0]
    for count, want in zip(counts, expected, strict=True):
        running[0] += count
        running[1] += want
        if running[1] >= 5:
            pooled_counts.append(running[0])
            pooled_expected.append(running[1])
            running = [0.0, 0.0]
    pooled_counts[-1] += running[0]
    pooled_expected[-1] += running[1]
    observed, wanted = np.asarray(pooled_counts), np.asarray(pooled_expected)
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    return float(stats.chi2.sf(statistic, len(observed) - 1))


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """Renyi divergence of two pmfs with the same support."""
    used = p > 0
    return float(special.logsumexp(order * np.log(p[used]) + (1 - order) * np.log(q[used])) / (order - 1))
