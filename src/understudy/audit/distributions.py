"""Exact laws of the samplers, how far apart two laws are, and what a count of hits says about a
probability.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def gaussian_pmf(sigma: float, reach: int) -> np.ndarray:
    """The discrete Gaussian on -reach..reach."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum())


def laplace_pmf(scale: float, reach: int) -> np.ndarray:
    """The discrete Laplace on -reach..reach; what lies beyond is left out."""
    k = np.arange(-reach, reach + 1)
    p = math.exp(-1 / scale)
    return np.asarray((1 - p) / (1 + p) * p ** np.abs(k))


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """Renyi divergence of two pmfs; infinite where the second lacks something of the first."""
    used = p > 0
    if np.any(q[used] <= 0):
        return math.inf
    return _from_logs(order * np.log(p[used]) + (1 - order) * np.log(q[used]), order)


def _from_logs(exponents: np.ndarray, order: float) -> float:
    largest = exponents.max()
    return float((largest + np.log(np.exp(exponents - largest).sum())) / (order - 1))


@lru_cache(maxsize=65_536)
def gaussian_renyi(sigma: float, shift: int, order: float) -> float:
    """Of a discrete Gaussian and the same moved by a whole number, in logarithms: at a high order
    the mass is far out on one side.
    """
    reach = math.ceil(12 * sigma + (order + 1) * abs(shift)) + 12
    k = np.arange(-reach, reach + 1)
    normaliser = np.log(np.exp(-(k**2) / (2 * sigma**2)).sum())
    return _from_logs(
        -(order * k**2 + (1 - order) * (k - shift) ** 2) / (2 * sigma**2) - normaliser, order
    )


@lru_cache(maxsize=65_536)
def laplace_renyi(scale: float, shift: int, order: float) -> float:
    """Of a discrete Laplace and the same moved by a whole number; the tails, alike but for a
    factor, are summed in closed form.
    """
    ratio, steps = math.exp(-1 / scale), abs(shift)
    k = np.arange(0, steps + 1)
    inside = -(order * k + (1 - order) * (steps - k)) / scale  # between the two centres
    largest = float(inside.max())
    total = math.log(float(np.exp(inside - largest).sum())) + largest
    below = -(1 - order) * steps / scale + math.log(ratio / (1 - ratio))
    above = -order * steps / scale + math.log(ratio / (1 - ratio))
    total = float(np.logaddexp(np.logaddexp(total, below), above))
    return (total + math.log((1 - ratio) / (1 + ratio))) / (order - 1)


# ---------------------------------------------------------------------- hits


@lru_cache(maxsize=8)
def _log_choose(trials: int) -> np.ndarray:
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    return np.asarray(logs[-1] - logs - logs[::-1])


def at_least(hits: int, trials: int, level: float) -> float:
    """Clopper and Pearson: the probability is at least this, but for a chance of ``level``.
    Bisection on the exact binomial tail.
    """
    if hits == 0:
        return 0.0
    k = np.arange(hits, trials + 1)
    choose = _log_choose(trials)[hits:]
    low, high = 0.0, hits / trials
    for _ in range(60):
        p = (low + high) / 2
        with np.errstate(divide="ignore"):
            logs = choose + k * np.log(p) + np.where(k == trials, 0.0, (trials - k) * np.log1p(-p))
        low, high = (p, high) if np.exp(logs).sum() < level else (low, p)
    return low


def at_most(hits: int, trials: int, level: float) -> float:
    """The other side."""
    return 1.0 - at_least(trials - hits, trials, level)


def wilson(shares: np.ndarray, trials: int, deviations: float) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's approximate bounds of many probabilities at once."""
    square = deviations**2 / trials
    centre = shares + square / 2
    half = np.sqrt(square * shares * (1 - shares) + square**2 / 4)
    return (centre - half) / (1 + square), (centre + half) / (1 + square)
