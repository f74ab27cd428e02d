"""Noisy counts of neighbours, and the smooth shape that they most likely came from.

The logarithm of the shape has small second differences: those of an exponential tail are none. How
small they are is decided by the likelihood of the counts, with all shapes integrated out (Laplace).
Where noise is small, the counts themselves decide; where it is large, the shape is a slope.

    least squares of the counts, each in its own noise, + penalty * sum (second differences)^2

After Eilers and Marx (1996), penalised splines, and Wood (2011), their restricted likelihood.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.game.fitting.histogram import smoothed

ORDER = 2  # of the differences; with 3, what lies beyond the last people curved up again
# no shape is stiffer than the first, none less so than the last; a third of a decade hardly differs
PENALTIES = 10.0 ** np.arange(6, -4, -0.75)
FEWEST_CELLS = 5  # fewer have no shape to speak of
MOST_STEPS, CLOSE = 40, 1e-6  # of Gauss and Newton; a dozen do
FARTHEST = 3.0  # that a logarithm moves in a step
SOFTEST, HARDEST = 1e-9, 1e8  # damping of a step
FLOOR = 0.2  # of its noise: what a cell begins with at least


def shape_of(counts: np.ndarray, variances: np.ndarray, room: np.ndarray) -> np.ndarray:
    """What is expected in each cell.

    A cell holds people who came by chance, about as many more or less as the root of their number:
    so far as its noise is smaller than that, the count itself is believed.

    Args:
        counts: noisy, of neighbours in order; variances, of their noise.
        room: how many values each cell has: the shape is of counts a value.
    """
    if len(counts) < FEWEST_CELLS or not counts.max() > 0:
        return np.maximum(counts, 0.0)
    scale = room / room.mean()
    noise = np.sqrt(variances)
    start = np.maximum(smoothed(counts, float(np.median(noise))), FLOOR * noise)
    logs, best, chosen = np.log(start / scale), -math.inf, np.zeros(len(counts))
    for penalty in PENALTIES:
        logs, evidence = _fitted(counts, variances, scale, float(penalty), logs)
        if evidence > best:
            best, chosen = evidence, logs
    expected = scale * np.exp(chosen)
    believed = expected / (expected + variances)
    return np.maximum(expected + believed * (counts - expected), 0.0)


def _fitted(
    counts: np.ndarray, variances: np.ndarray, scale: np.ndarray, penalty: float, logs: np.ndarray
) -> tuple[np.ndarray, float]:
    """(the best logarithms for a penalty, the logarithm of their evidence)."""
    cells = len(counts)
    differences = np.diff(np.eye(cells), ORDER, axis=0)
    stiff = penalty * differences.T @ differences

    def loss(at: np.ndarray) -> float:
        off = counts - scale * np.exp(at)
        return float((off * off / variances).sum() + at @ stiff @ at) / 2

    value, damping = loss(logs), 1e-3
    for _ in range(MOST_STEPS):
        expected = scale * np.exp(logs)
        curve = np.diag(expected**2 / variances) + stiff
        slope = -expected * (counts - expected) / variances + stiff @ logs
        gained = 0.0
        while damping < HARDEST:
            damped = curve + damping * np.diag(np.maximum(np.diag(curve), SOFTEST))
            step = np.clip(np.linalg.solve(damped, -slope), -FARTHEST, FARTHEST)
            after = loss(logs + step)
            if after <= value:
                gained = value - after
                logs, value = logs + step, after
                break
            damping *= 4
        damping = max(damping / 8, SOFTEST)
        if gained <= CLOSE * max(1.0, value):
            break
    expected = scale * np.exp(logs)
    curve = np.diag(expected**2 / variances) + stiff
    _, volume = np.linalg.slogdet(curve + 1e-10 * np.eye(cells))
    return logs, -value + ((cells - ORDER) * math.log(penalty) - float(volume)) / 2
