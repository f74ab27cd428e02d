"""What noisy counts will cost and how noisy they will be, from public numbers alone.

Whoever decides before anything is looked at asks here; nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from understudy.privacy.accounting import events as ev
from understudy.privacy.noise.samplers import round_sigma_up, sqrt_up
from understudy.privacy.requests import as_shares, name_of
from understudy.queries.base import Neighbours, QueryClass

# With no sensitivity (n under replace-one) any noise is private; this is next to none.
LEAST_SIGMA = Fraction(1, 4)


def measuring(
    parts: Sequence[QueryClass],
    rho: Fraction,
    neighbours: Neighbours,
    weights: Sequence[int | Fraction] | None = None,
) -> list[ev.DiscreteGaussian]:
    """The events of measuring some batches for at most ``rho``: sigma is rounded up, so it costs a
    little less.
    """
    found = []
    for part, share in zip(parts, as_shares(weights, len(parts)), strict=True):
        l2 = part.l2_squared(neighbours)
        sigma = round_sigma_up(max(sqrt_up(l2 / (2 * rho * share)), LEAST_SIGMA))
        found.append(
            ev.DiscreteGaussian(
                what=f"measure {name_of(part)}", sigma_squared=sigma**2, l2_squared=l2
            )
        )
    return found


def sigma_of(event: ev.DiscreteGaussian) -> Fraction:
    """The standard deviation of its noise; a sigma that is drawn with is rational."""
    square = event.sigma_squared
    return Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
