"""One noisy column, and the distribution it most likely came from.

A column of a hundred values is released with a hundred noises, and everything built on it inherits
them: on survey data at a small budget this, and not what columns have to do with each other, is
most of the error. Neighbouring values of a number or a scale are alike, though, and averages over
them are much less noisy than they are. How far to average is read off the released values alone, so
it costs nothing; where neighbours are not alike (an alphabetical list) the averages fail their own
test and the column stays as it was.
"""

from __future__ import annotations

import numpy as np

FEWEST_VALUES = 6  # a shorter column has little noise and no shape
REAL = 2.5  # sigmas: a difference between two neighbouring averages beyond this is no noise
# sigmas: a value so far from its surroundings is taken as it is (a round number, a heap)
SPIKE = 3.0
PASSES = 3  # of finding spikes and averaging without them


def to_distribution(noisy: np.ndarray, n: float, sigma: float) -> np.ndarray:
    """Probabilities for the noisy counts of so many people: smoothed, then the nearest
    distribution.

    That is the Euclidean projection onto the simplex: one constant is subtracted from every cell
    and what falls below zero is cut, so that small cells, which are mostly noise, vanish instead of
    being kept by half.
    """
    values, total = smoothed(noisy, sigma), max(n, 1.0)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected = np.maximum(values - excess[last], 0.0)
    share: np.ndarray = projected / projected.sum()
    return share


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
