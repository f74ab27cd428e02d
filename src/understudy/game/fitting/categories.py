"""One noisy column of many values without order, and who has the values below its noise.

A list of a thousand codes is mostly rare ones, each far below its noise. The nearest distribution
keeps those that noise happened to lift, and cuts the others. Better: how often rare values of this
list are as frequent as that is estimated from all of them together (empirical Bayes), and each has
the mean of what its own noisy count leaves open. Everything here is arithmetic on released values,
so it costs nothing.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from understudy.game.fitting.histogram import onto_simplex, to_distribution

MANY = 100  # a column of no more values says too little of how frequent rare ones are
FEWEST_RARE = 50  # below noise, likewise
ABOVE = 3.5  # sigmas: a count above is no rare one, and is taken as it is
# sizes that a rare value may have, in sigmas: none, and so many from the least up to the largest
LEAST, LARGEST, SIZES = 0.02, 8.0, 40
STEPS = 8  # of a sigma: noisy counts are taken together so finely
PASSES = 300  # of expectation and maximisation: more are no better, and take longer
# Codes are often alike where they are neighbours in a list: beyond so many sigmas of chance, rare
# values are judged among those whose surroundings are alike, in so many groups
ALIKE, REACH, CAP, GROUPS = 2.3, 6, 3.0, 8
SHARPER = 1.3  # power of the posterior means there: it takes people from values that nobody has
# of the rows: the least supported values, which together have no more, get none; more of them where
# neighbours are alike, since values that nobody has are then side by side
LEFT_OUT = (0.01, 0.02)
TRIALS = 4  # of both ways, on halves of the noise
# values that nobody has and that stand out by chance, in a column
BY_CHANCE = 0.05


def distribution_of(noisy: np.ndarray, n: float, sigma: float, ordered: int = 0) -> np.ndarray:
    """Probabilities for the noisy counts of so many people.

    Many values without order are smoothed, as every column is, or judged by how frequent rare ones
    are. Both ways are tried on the noisy counts, split in two by more noise: each is fitted to one
    half and judged by the other. Where neighbours are alike, smoothing stays unless it loses every
    time but one; elsewhere it has to win every time.

    Args:
        ordered: the first so many values are in order, which then decides.
    """
    if ordered or len(noisy) <= MANY or sigma <= 0:
        return to_distribution(noisy, n, sigma, ordered)
    values = np.asarray(noisy, np.float64)
    ways = (to_distribution, by_frequency)
    # public randomness that is the same in every run: the distribution is a function of the counts
    rng, gains = np.random.default_rng(0), np.empty(TRIALS)
    for trial in range(TRIALS):
        more = sigma * rng.standard_normal(len(values))
        usual, other = (
            _misfit(way(values + more, n, math.sqrt(2) * sigma), values - more, n) for way in ways
        )
        gains[trial] = usual - other
    alike = _likeness(values, _surroundings(values, sigma), sigma) > ALIKE
    better = bool(np.sort(gains)[1 if alike else -1] > 0)
    return ways[better](values, n, sigma)


def supported_part(probabilities: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The same distribution without the values that no noisy count supports."""
    part = np.where(there, probabilities, 0.0)
    total = float(part.sum())
    shares: np.ndarray = part / total if total > 0 else there / there.sum()
    return shares


def by_frequency(noisy: np.ndarray, n: float, sigma: float) -> np.ndarray:
    """Probabilities where counts above the noise are taken as they are, and rare values share the
    rest by their posterior means. The least supported get none.
    """
    rare = noisy <= ABOVE * sigma
    left = n - float(noisy[~rare].sum())
    if left <= 0 or rare.sum() < FEWEST_RARE:
        return onto_simplex(noisy, n)
    counts = np.maximum(noisy[rare], -LARGEST * sigma)  # no noise goes further
    prior = sizes_of(counts, sigma)
    likely = _posterior_mean(counts, sigma, prior)
    near = _surroundings(noisy, sigma)
    alike = _likeness(noisy, near, sigma) > ALIKE
    if alike:
        edges = np.quantile(near[rare], np.arange(1, GROUPS) / GROUPS)
        group = np.searchsorted(edges, near[rare], side="right")
        for one in np.unique(group):
            some = group == one
            likely[some] = _posterior_mean(
                counts[some], sigma, sizes_of(counts[some], sigma, prior)
            )
        likely = likely**SHARPER
    rising = np.argsort(likely, kind="stable")
    below = np.cumsum(likely[rising])
    if not below[-1] > 0:  # all of them, by noise that is next to none
        return onto_simplex(noisy, n)
    least = min(LEFT_OUT[alike] * n / left, 0.5) * below[-1]
    likely[rising[below <= least]] = 0.0
    estimates = noisy.copy()
    estimates[rare] = left * (likely / likely.sum())
    probabilities: np.ndarray = estimates / estimates.sum()
    return probabilities


def standing_out(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Where a noisy count says that somebody is there: above so many sigmas that, of all values
    that nobody has, fewer than BY_CHANCE are expected to get there; at least the largest.
    """
    bar = NormalDist().inv_cdf(1 - BY_CHANCE / len(noisy)) * sigma
    there: np.ndarray = (noisy > bar) | (noisy == noisy.max())
    return there


def sizes_of(counts: np.ndarray, sigma: float, prior: np.ndarray | None = None) -> np.ndarray:
    """How likely each of the sizes of a rare value is: the maximum of the likelihood of all noisy
    counts together, nearly, from a prior or from none.
    """
    steps = np.rint(counts / sigma * STEPS).astype(np.int64)
    first = int(steps.min())
    times = np.bincount(steps - first)
    chances = _chances((np.arange(len(times)) + first) / STEPS)
    sizes = np.full(SIZES + 1, 1 / (SIZES + 1)) if prior is None else prior
    for _ in range(PASSES):
        sizes = sizes * (chances.T @ (times / (chances @ sizes)))
        sizes = sizes / sizes.sum()
    return sizes


def _posterior_mean(counts: np.ndarray, sigma: float, prior: np.ndarray) -> np.ndarray:
    weights = _chances(counts / sigma) * prior
    means: np.ndarray = sigma * (weights @ _sizes()) / weights.sum(axis=1)
    return means


def _sizes() -> np.ndarray:
    return np.concatenate([[0.0], np.geomspace(LEAST, LARGEST, SIZES)])


def _chances(at: np.ndarray) -> np.ndarray:
    """How likely noise takes each size to each place, both in sigmas; never quite 0."""
    gaps = at[:, None] - _sizes()
    chances: np.ndarray = np.exp(-0.5 * gaps * gaps) + 1e-300
    return chances


def _surroundings(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """What is around each value in the list, without it: a mean in which no value counts for more
    than CAP sigmas.
    """
    places = np.arange(-3 * REACH, 3 * REACH + 1)
    weights = np.where(places == 0, 0.0, np.exp(-0.5 * (places / REACH) ** 2))
    sums = np.convolve(np.minimum(noisy, CAP * sigma), weights, "same")
    means: np.ndarray = sums / np.convolve(np.ones(len(noisy)), weights, "same")
    return means


def _likeness(noisy: np.ndarray, near: np.ndarray, sigma: float) -> float:
    """How much values are like their surroundings, in sigmas of chance."""
    own = np.minimum(noisy, CAP * sigma)
    own, near = own - own.mean(), near - near.mean()
    scale = math.sqrt(float(own @ own) * float(near @ near))
    return float(own @ near) * math.sqrt(len(noisy)) / scale if scale > 0 else 0.0


def _misfit(shares: np.ndarray, counts: np.ndarray, n: float) -> float:
    """How far off a distribution is from counts that it was not fitted to."""
    gap = n * shares - counts
    return float(gap @ gap)
