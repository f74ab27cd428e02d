"""Turning probabilities into whole rows with less error than sampling them."""

from __future__ import annotations

import numpy as np


def systematic_counts(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """How often each outcome appears among ``count`` rows: the floor or the ceiling of its
    expectation.

    One random start, then equal steps through the cumulative weights: unbiased, the counts add up
    exactly, and neighbouring outcomes compensate each other's rounding.
    """
    edges = np.cumsum(weights, dtype=np.float64)
    edges *= count / edges[-1]
    edges[-1] = count
    below = np.ceil(edges - rng.random()).astype(np.int64)
    # A start just below 1 may leave the last step out, or rounding may let one in too many.
    return (
        np.diff(np.clip(below, 0, count), prepend=0)
        if below[-1] >= count
        else np.diff(np.append(below[:-1], count), prepend=0)
    )
