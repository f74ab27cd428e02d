"""A test of fit that can fail; the exact laws are in understudy.audit.distributions."""

from __future__ import annotations

import numpy as np
from scipy import stats


def p_value(draws: np.ndarray, pmf: np.ndarray, reach: int) -> float:
    """Chi-square test of integer draws against a pmf on -reach..reach, tails pooled to 5 expected
    each.
    """
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
