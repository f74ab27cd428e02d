"""The exponential mechanism over rules by what they cost, drawn exactly however far apart the costs
are.

Candidate i is drawn with probability proportional to exp(-kappa * cost_i), kappa a rational number.
Weights are bounded from both sides in fixed point, relative to the least cost that occurs; a
uniform number is drawn bit by bit until the bounds leave one candidate for every way to go on. The
law is that of the real weights: neither the reference nor the number of bits leaves a trace in it
(proofs/noise, N8).
"""

from __future__ import annotations

import itertools
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from understudy.privacy.noise.samplers import Noise

STEP = 192  # bits a refinement


def draw_least(noise: Noise, costs: np.ndarray, kappa: Fraction) -> int:
    """One candidate, with probability proportional to exp(-kappa * cost)."""
    values, sizes = np.unique(costs, return_counts=True)
    drops, members = [int(v) - int(values[0]) for v in values], sizes.tolist()
    bits, u = 0, 0
    while True:
        bits, u = bits + STEP, (u << STEP) | noise.below(1 << STEP)
        group = settled(u, bits, drops, members, kappa)
        if group is not None:
            break
    return int(np.flatnonzero(costs == values[group])[noise.below(members[group])])


def settled(u: int, bits: int, drops: list[int], members: list[int], kappa: Fraction) -> int | None:
    """The group that holds the share U of weight, U in [u, u+1) / 2^bits; None if several do."""
    bounds = _bounds(drops, kappa, bits)
    low = list(
        itertools.accumulate(
            least * count for (least, _), count in zip(bounds, members, strict=True)
        )
    )
    high = list(
        itertools.accumulate(most * count for (_, most), count in zip(bounds, members, strict=True))
    )
    first, last = 0, len(low) - 1
    while first < last:  # the first group whose weight surely reaches beyond U
        middle = (first + last) // 2
        first, last = (
            (first, middle) if (u + 1) * high[-1] <= low[middle] << bits else (middle + 1, last)
        )
    above = first == len(low) - 1 or (u + 1) * high[-1] <= low[first] << bits
    below = first == 0 or u * low[-1] >= high[first - 1] << bits
    return first if above and below else None


def _bounds(drops: list[int], kappa: Fraction, bits: int) -> list[tuple[int, int]]:
    """Whole numbers around 2^bits * exp(-kappa * drop)."""
    far = math.ceil(bits / kappa)  # beyond it exp(-kappa * drop) < 2^-bits, since e > 2
    digits = math.ceil(bits * 0.30103) + 30
    bounds = []
    with localcontext(Context(prec=digits)) as ctx:
        rate = ctx.divide(Decimal(-kappa.numerator), Decimal(kappa.denominator))
        unit = Decimal(1 << bits)
        for drop in drops:
            if drop > far:
                bounds.append((0, 1))
            else:
                about = int(ctx.multiply((rate * drop).exp(), unit))
                bounds.append((max(0, about - 1), about + 2))
    return bounds
