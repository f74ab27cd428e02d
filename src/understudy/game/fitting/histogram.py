"""One noisy column, and the distribution it most likely came from.

A column of a hundred values is released with a hundred noises, and everything built on it inherits
them: on survey data at a small budget this, and not what columns have to do with each other, is
most of the error. Neighbouring values of a number or a scale are alike, though, and averages over
them are much less noisy than they are. How far to average is read off the released values alone, so
it costs nothing; where neighbours are not alike (an alphabetical list) the averages fail their own
test and the column stays as it was.
"""

from __future__ import annotations

import math

import numpy as np

FEWEST_VALUES = 6  # a shorter column has little noise and no shape
REAL = 2.5  # sigmas: a difference between two neighbouring averages beyond this is no noise
# sigmas: a value so far from its surroundings is taken as it is (a round number, a heap)
SPIKE = 3.0
# of the largest noise to expect among all runs as long as one: a larger sum of neighbours is no
# tail. With 1, real tails were cut off; with 0.5, hardly any
OUT_OF_NOISE = 0.7
PASSES = 3  # of finding spikes and averaging without them


def to_distribution(noisy: np.ndarray, n: float, sigma: float, ordered: int = 0) -> np.ndarray:
    """Probabilities for the noisy counts of so many people: smoothed, then the nearest
    distribution.

    That is the Euclidean projection onto the simplex: one constant is subtracted from every cell
    and what falls below zero is cut, so that small cells, which are mostly noise, vanish instead of
    being kept by half.

    Args:
        ordered: the first so many values are in order. Nobody is beyond the last of them, on either
            side, that stands out of the noise by itself or with its neighbours.
    """
    there = np.ones(len(noisy), np.bool_)
    there[:ordered] = between_tails(noisy[:ordered], sigma)
    share = np.zeros(len(noisy))
    share[there] = onto_simplex(smoothed(noisy, sigma)[there], n)
    return share


def onto_simplex(values: np.ndarray, n: float) -> np.ndarray:
    """The nearest distribution to the counts of so many people."""
    total, falling = max(n, 1.0), np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected = np.maximum(values - excess[last], 0.0)
    shares: np.ndarray = projected / projected.sum()
    return shares


def between_tails(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Where a column in order lies, from the first to the last run of 1, 2, 4, ... values whose sum
    stands out of its noise, beside what shorter runs have shown; everywhere if none does.

    A long empty tail keeps half of its noises otherwise, and a few people far out are enough to
    double a standard deviation.
    """
    values = np.asarray(noisy, np.float64)
    there = np.zeros(len(values), np.bool_)
    length = 1
    while sigma > 0 and length <= len(values):
        sums = _over_runs(np.where(there, 0.0, values), length)
        cells = _over_runs(np.where(there, 0.0, 1.0), length)
        largest = OUT_OF_NOISE * math.sqrt(2 * math.log(2 * len(values) / length))
        stands_out = sums > largest * sigma * np.sqrt(np.maximum(cells, 1.0))
        starts = np.concatenate([stands_out, np.zeros(length - 1)])
        # a place is there if one of the runs that it is in stands out
        there |= _over_runs(np.concatenate([np.zeros(length - 1), starts]), length) > 0
        length *= 2
    if not there.any():
        return ~there
    first, last = np.flatnonzero(there)[[0, -1]]
    there[first:last] = True
    return there


def _over_runs(values: np.ndarray, length: int) -> np.ndarray:
    """Sums of all runs of so many neighbours."""
    before = np.concatenate([[0.0], np.cumsum(values)])
    sums: np.ndarray = before[length:] - before[:-length]
    return sums


def smoothed(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """The counts with the noise between neighbours taken out: steps and spikes that stand out of it
    stay.
    """
    values = np.asarray(noisy, np.float64)
    if len(values) < FEWEST_VALUES or sigma <= 0:
        return values
    spikes = np.zeros(len(values), np.bool_)
    for _ in range(PASSES):
        level = _without_small_steps(_bridged(values, spikes), sigma)
        outliers = np.abs(values - level) > SPIKE * sigma
        if outliers.sum() > len(values) / 2:  # no surroundings to stand out of
            return values
        if (outliers == spikes).all():
            break
        spikes = outliers
    return np.where(spikes, values, level)


def _bridged(values: np.ndarray, spikes: np.ndarray) -> np.ndarray:
    """The values, with spikes replaced by the line between their neighbours."""
    places = np.arange(len(values))
    return np.where(spikes, np.interp(places, places[~spikes], values[~spikes]), values)


def _without_small_steps(values: np.ndarray, sigma: float) -> np.ndarray:
    """Haar shrinkage, averaged over all shifts: differences between averages of 1, 2, 4, ...
    values, small ones set to none.

    The column is mirrored at its end, so that its first and last value are no neighbours.
    """
    level = np.concatenate([values, values[::-1]])
    steps: list[np.ndarray] = []
    reach = 1
    while 2 * reach <= len(values):
        other = np.roll(level, -reach)
        step = (level - other) / 2
        steps.append(np.where(np.abs(step) > REAL * sigma / np.sqrt(2 * reach), step, 0.0))
        level = (level + other) / 2
        reach *= 2
    for step in reversed(steps):
        reach //= 2
        level = ((level + step) + np.roll(level - step, reach)) / 2
    return level[: len(values)]
