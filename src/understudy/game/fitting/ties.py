"""Values of a long column without order that tables of several columns tie together.

A cell of a rare value has few people under a noise of many, and five thousand of them make a table
that says nothing. Tied together, rare values leave a table of those that can be told apart.
"""

from __future__ import annotations

import math

import numpy as np

# A shorter column is measured as it is: tying rare values of short columns took the largest cell of
# ADULT from .008 to .021
MANY_VALUES = 100
# of the rows of an average cell: a value with more is by itself. An average cell has 5 to 18 noises
# (resolving.py), so what is tied has about one noise, in all of its cells together
ALONE = 1 / 8


def ties_of(shares: np.ndarray, cells: float) -> tuple[int, ...] | None:
    """The bin of every value, in a table of about so many cells; None if none are tied.

    Frequent values are by themselves. Rare ones are tied in runs of the list that are of like mass:
    codes that are neighbours may be alike, and if they are not, nothing is lost. There are about as
    many runs as such a mass would have bins in a square table.
    """
    rare = shares * cells < ALONE
    if rare.sum() < 2:
        return None
    mass = np.where(rare, shares, 0.0)
    total = float(mass.sum())
    runs = max(1, min(round(total * math.sqrt(cells)), int(rare.sum()) - 1))
    middles = (np.cumsum(mass) - mass / 2) / max(total, 1e-300)
    run = np.minimum((middles * runs).astype(np.int64), runs - 1)
    # frequent values after the runs, in their own order
    bins = np.where(rare, run, runs + np.cumsum(~rare) - 1)
    # a run may be empty beside a value that is nearly frequent
    return tuple(np.unique(bins, return_inverse=True)[1].reshape(-1).tolist())
