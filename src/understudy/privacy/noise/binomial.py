"""An exact binomial whose success probability may be irrational: bounds on it are asked for until a
draw is settled.

The draw inverts the distribution at one uniform number U. Both are known as intervals: U by its
first bits, the distribution by integer bounds on the weights around its mode, and bounds on all
that lies beyond. If the intervals leave two answers open, both are refined; nothing is ever decided
by rounding (proofs/noise, N6).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from fractions import Fraction

from understudy.privacy.noise.samplers import Noise

FIRST_BITS = 128  # nearly always enough to settle a draw; if not, they are doubled
# Odds p/(1-p) between two rationals that agree in about so many bits.
Odds = Callable[[int], tuple[Fraction, Fraction]]


def binomial(noise: Noise, trials: int, odds: Odds) -> int:
    """How many of ``trials`` trials succeed; work grows with the root of the expected number."""
    if trials == 0:
        return 0
    bits, uniform = FIRST_BITS, noise.below(1 << FIRST_BITS)
    while True:
        count = _settled(trials, odds(2 * bits), uniform, bits)
        if count is not None:
            return count
        uniform, bits = (uniform << bits) | noise.below(1 << bits), 2 * bits


def _settled(trials: int, odds: tuple[Fraction, Fraction], uniform: int, bits: int) -> int | None:
    """The k with P(K < k) <= U < P(K <= k) for all U that begin with ``uniform``, if it is one."""
    mode = min(trials, int((trials + 1) * odds[0] / (1 + odds[0])))
    up, beyond = _side(trials, mode, odds, bits)
    # Failures are a binomial with the inverse odds: the same walk, downwards.
    down, below = _side(trials, trials - mode, (1 / odds[1], 1 / odds[0]), bits)
    weights = [*reversed(down), (1 << (2 * bits), 1 << (2 * bits)), *up]
    low = list(itertools.accumulate(w for w, _ in weights))
    high = list(itertools.accumulate((w for _, w in weights), initial=below))
    total_low, total_high = low[-1], high[-1] + beyond
    at = bisect.bisect_left(low, (uniform + 1) * total_high, key=lambda w: w << bits)
    if at == len(low) or uniform * total_low < high[at] << bits:
        return None
    return mode - len(down) + at


def _side(
    trials: int, start: int, odds: tuple[Fraction, Fraction], bits: int
) -> tuple[list[tuple[int, int]], int]:
    """Bounds on the weights of start+1, start+2, ... relative to that of start, and on the sum of
    all after the last.

    The unit is 2^(-2 bits) of the weight of start. Ratios of neighbouring weights fall, so what
    follows the last weight is at most a geometric series.
    """
    (low_top, low_bottom), (high_top, high_bottom) = ((r.numerator, r.denominator) for r in odds)
    low = high = 1 << (2 * bits)
    weights: list[tuple[int, int]] = []
    for k in range(start, trials):
        low = low * (trials - k) * low_top // ((k + 1) * low_bottom)
        high = -(-high * (trials - k) * high_top // ((k + 1) * high_bottom))
        weights.append((low, high))
        after, before = (trials - k - 1) * high_top, (k + 2) * high_bottom
        if high >> (bits - 32) == 0 and after < before:
            return weights, -(-high * after // (before - after))
    return weights, 0
