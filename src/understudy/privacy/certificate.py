"""How far off a release can be: an upper bound on its largest error, itself obtained privately."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from statistics import NormalDist

# The stated confidence is 95%. The bound is built to fail less often than that: 2% for its own
# noise and, when n is private, 2% for the noise of n.
CONFIDENCE = 0.95
ERROR_TAIL = 0.02  # of its own noise
TOTAL_TAIL = 0.02  # of the noise of n


@dataclass(frozen=True)
class Certificate:
    """With probability ``confidence``, every query of the workload is answered to within ``alpha``.

    Attributes:
        alpha: bound on the largest |share among the sensitive rows - share among the released
            rows|.
        confidence: over the noise of the certificate; it holds whatever the table.
        noisy_largest_error: the released noisy value of the largest error, in rows.
        sigma: standard deviation of its noise, in rows.
        rows: the number of sensitive rows used, public or released with noise.
        rows_sigma: noise on ``rows``; 0 when n is public.
        queries: how many queries it covers.
    """

    alpha: float
    confidence: float
    noisy_largest_error: int
    sigma: float
    rows: int
    rows_sigma: float
    queries: int

    @property
    def shown(self) -> str:
        """alpha in three significant digits, rounded up: a bound rounded down is no bound."""
        return round_up(self.alpha)

    @property
    def people(self) -> int:
        """alpha in people, rounded up: what a count may be off by."""
        return min(self.rows, math.ceil(self.alpha * self.rows))

    @property
    def bound(self) -> str:
        """The bound in people and as a share of all rows; people are "about" so many when their
        number was released with noise.
        """
        about = "about " if self.rows_sigma else ""
        return (
            f"at most {about}{self.people:,} of {about}{self.rows:,} people"
            f" ({round_up(Decimal(self.alpha) * 100)}% of all rows)"
        )

    def __str__(self) -> str:
        if self.alpha >= 1:
            return (
                f"Nothing can be said of the {self.queries:,} answers: the bound is as large as the"
                " whole table."
            )
        return (
            f"With {self.confidence:.0%} confidence, each of the {self.queries:,} answers is off by"
            f" {self.bound}."
        )


def round_up(value: float | Decimal, digits: int = 3) -> str:
    """A number of at least 0 in plain decimals, rounded up to so many significant digits.

    >>> round_up(0.072825), round_up(3.11e-05), round_up(1.0)
    ('0.0729', '0.0000311', '1')
    """
    if value == 0:
        return "0"
    exact = Decimal(value)
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = exact.quantize(step, rounding=ROUND_CEILING)
    return f"{rounded:f}".rstrip("0").rstrip(".") if "." in f"{rounded:f}" else f"{rounded:f}"


def certificate(
    noisy: int, sigma: Fraction, rows: int, rows_sigma: Fraction, queries: int
) -> Certificate:
    """The bound from its released parts (proofs/certify, M3); `verify` recomputes it with the same
    function.

    ``P[N_Z(0, s^2) >= m] <= P[N(0, s^2) >= m - 1]`` (Canonne, Kamath and Steinke 2020, Prop. 25),
    so the noise is below ``-margin`` with probability at most ERROR_TAIL. The half is for rounding
    the released answers to whole rows.
    """
    margin = math.ceil(float(sigma) * NormalDist().inv_cdf(1 - ERROR_TAIL))
    rows_margin = math.ceil(float(rows_sigma) * NormalDist().inv_cdf(1 - TOTAL_TAIL / 2)) + (
        1 if rows_sigma else 0
    )
    fewest = rows - rows_margin
    alpha = (noisy + margin + 0.5 + rows_margin) / fewest if fewest > 0 else 1.0
    return Certificate(
        min(1.0, max(0.0, alpha)),
        CONFIDENCE,
        int(noisy),
        float(sigma),
        int(rows),
        float(rows_sigma),
        int(queries),
    )
