"""The exponential mechanism on integer scores, drawn exactly from a table of big integers.

Candidate i is drawn with probability proportional to w(score_i), where

    w(u) = floor(2^P * exp(-kappa * (top - u))),   top a PUBLIC largest score,

and P is large enough that every weight exceeds 2^64. The table is a function of public numbers, so
the charge (``log_weight_shift`` below) bounds every pair of neighbouring tables, not the scores
that happen to occur. Candidates are grouped by score: thousands of big integers, not millions.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from understudy.errors import ParameterError
from understudy.privacy.noise.samplers import Noise
from understudy.runtime.compiled import kernel

# A weight is the true value to within 2 units and at least 2^64, so its log is off by less than
# 2^-62; a pair of weights by less than 2^-61 (proofs/noise, N4).
TABLE_ERROR = Fraction(1, 2**61)
GUARD_BITS = 66  # the largest weight is at least 2^66, so that TABLE_ERROR holds
# of the powers that weights are multiplied from: truncation stays far below a unit
WORKING_BITS = 96
FINE_BITS = 14  # of a score, looked up at once; the 42 bits of the largest are three times as many
# Scores beyond MOST_NATS / kappa are clipped to that public cap: candidates that far up tie with
# each other, which only a table of very many rows with a very sharp selection would notice. It
# bounds the digits of a weight, too.
MOST_NATS = 2800


@dataclass(frozen=True)
class ScoreTable:
    """Weights for scores 0..top at inverse temperature ``kappa``."""

    kappa: Fraction
    top: int

    @classmethod
    def within(cls, rho: Fraction, sensitivity: int, top: int) -> ScoreTable:
        """The sharpest table whose single draw costs at most ``rho``, for scores in 0..top."""
        kappa = _sqrt_down(2 * rho) / sensitivity - TABLE_ERROR / sensitivity
        # Twelve digits less than the most: exact sums of charges keep short denominators.
        kappa = min(Fraction(math.floor(kappa * 2**48), 2**48), Fraction(MOST_NATS))
        if kappa <= 0:
            raise ParameterError(
                "This share of the budget is too small for a private selection; use fewer rounds,"
                " smaller weights or a larger epsilon."
            )
        return cls.at(kappa, top)

    @classmethod
    def at(cls, kappa: Fraction, top: int) -> ScoreTable:
        """The table of a sharpness, at most ``MOST_NATS``, for scores in 0..top."""
        return cls(kappa, min(max(1, top), math.floor(MOST_NATS / kappa)))

    def log_weight_shift(self, sensitivity: int) -> Fraction:
        """How far the log of one weight can move when its score moves by ``sensitivity``."""
        return self.kappa * sensitivity + TABLE_ERROR

    def weights(self, scores: np.ndarray) -> list[int]:
        """Exact integer weights of distinct scores in 0..top, each a product of three powers from
        tables of at most 2^FINE_BITS.
        """
        # 1.4427 > 1/ln 2
        bits = math.ceil(self.kappa * self.top * Fraction(14427, 10000)) + GUARD_BITS
        fixed = bits + WORKING_BITS
        drops = [self.top - int(u) for u in scores]
        # the tables depend on public numbers only, not on the scores that occur
        low = min(FINE_BITS, -(-self.top.bit_length() // 2))
        mid = -(-(self.top.bit_length() - low) // 2)
        fine = _powers(self.kappa, 1 << low, fixed)
        middle = _powers(self.kappa * 2**low, 1 << mid, fixed)
        coarse = _powers(self.kappa * 2 ** (low + mid), (self.top >> low + mid) + 1, fixed)
        high = {
            d: middle[d % (1 << mid)] * coarse[d >> mid] >> fixed for d in {d >> low for d in drops}
        }
        return [fine[d % (1 << low)] * high[d >> low] >> (2 * fixed - bits) for d in drops]


def _powers(kappa: Fraction, count: int, fixed: int) -> list[int]:
    """2^fixed * exp(-kappa*i) for i < count, each within ``2i + 1`` units: a truncated ratio, a
    truncated shift.
    """
    with localcontext(Context(prec=int(fixed * 0.30103) + 30)) as ctx:
        base = ctx.multiply(
            ctx.divide(Decimal(-kappa.numerator), Decimal(kappa.denominator)).exp(),
            Decimal(1 << fixed),
        )
        ratio = int(base)
    powers = [1 << fixed]
    for _ in range(1, count):
        powers.append((powers[-1] * ratio) >> fixed)
    return powers


def _sqrt_down(x: Fraction) -> Fraction:
    shift = 128
    return Fraction(math.isqrt((x.numerator << (2 * shift)) // x.denominator), 1 << shift)


def draw(
    noise: Noise, scores: np.ndarray, table: ScoreTable, draws: int, *, distinct: bool = False
) -> np.ndarray:
    """``draws`` candidates, each with probability proportional to the weight of its score.

    Independent draws; or, if ``distinct``, each from the candidates that those before it left
    (proofs/noise, N5).
    """
    clipped = np.clip(scores, 0, table.top)  # clipping is 1-Lipschitz: the sensitivity stays
    values, sizes = _groups(clipped, table.top)
    weights = table.weights(values)
    cumulative = list(
        itertools.accumulate(weight * size for weight, size in zip(weights, sizes, strict=True))
    )
    taken: set[tuple[int, int]] = set()
    groups, members = np.empty(draws, np.int64), np.empty(draws, np.int64)
    for i in range(draws):
        group = _first_above(cumulative, noise.below(cumulative[-1]))
        member = noise.below(sizes[group])
        # uniform among the members that are left, without listing them
        while (group, member) in taken:
            member = noise.below(sizes[group])
        groups[i], members[i] = group, member
        if distinct:
            taken.add((group, member))
            cumulative[group:] = [total - weights[group] for total in cumulative[group:]]
    return _candidates(clipped, values, groups, members)


def _candidates(
    clipped: np.ndarray, values: np.ndarray, groups: np.ndarray, members: np.ndarray
) -> np.ndarray:
    """The candidates at these places of their groups, in one walk along all candidates."""
    order = np.lexsort((members, groups))
    wanted, starts = np.unique(groups[order], return_index=True)
    candidates = np.empty(len(order), np.int64)
    _walk(clipped, values[wanted], np.append(starts, len(order)), members[order], candidates)
    chosen = np.empty(len(order), np.int64)
    chosen[order] = candidates
    return chosen


@kernel()
def _walk(
    clipped: np.ndarray,
    wanted: np.ndarray,
    starts: np.ndarray,
    members: np.ndarray,
    candidates: np.ndarray,
) -> None:
    """For the scores ``wanted`` (rising): which candidates are the members of these numbers
    (rising, from ``starts``) of their group.
    """
    seen, at = np.zeros(len(wanted), np.int64), starts[:-1].copy()
    for candidate in range(len(clipped)):
        group = np.searchsorted(wanted, clipped[candidate])
        if group < len(wanted) and wanted[group] == clipped[candidate]:
            while at[group] < starts[group + 1] and members[at[group]] == seen[group]:
                candidates[at[group]] = candidate
                at[group] += 1
            seen[group] += 1


def _groups(clipped: np.ndarray, top: int) -> tuple[np.ndarray, list[int]]:
    """The scores that occur and how many candidates have each. Which way they are found, and the
    tally, depend on public numbers only.
    """
    if top <= min(1 << 24, max(1 << 16, 4 * len(clipped))):
        counted = np.bincount(clipped, minlength=top + 1)
        values = np.flatnonzero(counted)
        return values, counted[values].tolist()
    values, sizes = np.unique(clipped, return_counts=True)
    return values, sizes.tolist()


def _first_above(cumulative: list[int], value: int) -> int:
    low, high = 0, len(cumulative) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cumulative[middle] > value else (middle + 1, high)
    return low
