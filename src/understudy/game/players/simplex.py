"""Free numbers to distributions and back: what a relaxed row is made of. All arrays are values x
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.runtime.compiled import kernel


@dataclass(frozen=True)
class Parameterisation:
    """How free numbers stand for distributions.

    Attributes:
        chances: ``chances(free, out)`` fills in the distributions.
        pull: ``pull(chances, slopes)`` turns slopes of the chances into slopes of the free numbers,
            in place.
        spread: ``spread(size)`` is the standard deviation of the free numbers of a column of that
            size at the start. Rows must differ to part ways; but a value whose sparsemax is 0 has
            no slope and would never come back.
        rate: Adam's learning rate on this scale.
    """

    chances: Callable[[np.ndarray, np.ndarray], None]
    pull: Callable[[np.ndarray, np.ndarray], None]
    spread: Callable[[int], float]
    rate: float


def softmax(free: np.ndarray, out: np.ndarray) -> None:
    """exp(free), normalised over values."""
    np.subtract(free, free.max(axis=0), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=0)


def _pull_softmax(chances: np.ndarray, slopes: np.ndarray) -> None:
    slopes -= np.einsum("vr,vr->r", chances, slopes)
    slopes *= chances


@kernel()
def sparsemax(free: np.ndarray, out: np.ndarray) -> None:
    """The nearest distribution (Martins and Astudillo, 2016): max(free - t, 0), with t such that it
    adds up to 1.

    t by Newton's method from max - 1, where the sum is at least 1: the sum is convex and piecewise
    linear in t, so t rises to its place in finitely many steps.
    """
    for r in range(free.shape[1]):
        largest = free[0, r]
        for v in range(1, free.shape[0]):
            largest = max(largest, free[v, r])
        t, settled = largest - np.float32(1), False
        while not settled:
            total, support = np.float32(0), 0
            for v in range(free.shape[0]):
                if free[v, r] > t:
                    total += free[v, r] - t
                    support += 1
            step = (total - np.float32(1)) / support
            settled = not (step > np.float32(1e-6))
            t += step
        for v in range(free.shape[0]):
            out[v, r] = max(free[v, r] - t, np.float32(0))


@kernel()
def _pull_sparsemax(chances: np.ndarray, slopes: np.ndarray) -> None:
    for r in range(chances.shape[1]):
        total, support = np.float32(0), 0
        for v in range(chances.shape[0]):
            if chances[v, r] > 0:
                total += slopes[v, r]
                support += 1
        for v in range(chances.shape[0]):
            slopes[v, r] = slopes[v, r] - total / support if chances[v, r] > 0 else np.float32(0)


# how far free numbers begin apart and how fast they move: logits by tenths, points by hundredths
PARAMETERISATIONS = {
    "softmax": Parameterisation(softmax, _pull_softmax, spread=lambda size: 1.0, rate=0.1),
    "sparsemax": Parameterisation(
        sparsemax, _pull_sparsemax, spread=lambda size: 0.3 / size, rate=0.01
    ),
}
