"""Discrete Gaussian noise and nothing else: what it comes to in (epsilon, delta), which is less
than its zCDP says.

With B = 2 rho, ``least`` the smallest variance that was drawn with, and any c > 0 (proofs/gaussian,
A5),

    delta <= exp(B * least * e) * delta_G(epsilon, (1 + c) B),   e = 2 r / (1 - r),
    r = exp(-2 pi^2 * least * c / (1 + c)),

where delta_G(epsilon, b) is that of one continuous Gaussian whose mean moves by sqrt(b) sigmas. A
good c is *found* by a rule of thumb, and the bound is *evaluated* at it in 60-digit decimals,
rounded against us. This has no floating point, so everybody finds the same delta. The searches for
rho and epsilon (``budget.py``) begin with those of zCDP, which use it: their results may differ in
the last digits, and each was found to hold here.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

from understudy.privacy.accounting.decimals import DIGITS, SLACK, in_decimals

PI = Decimal("3.14159265358979323846264338327950288419716939937510")  # cut off, so below pi
NEAREST = Decimal("0.5")  # in sigmas: nearer to the middle the tail is not evaluated, zCDP stands
SMOOTHEST = 1  # a larger c is of no use
CLOSE = Decimal(10) ** -30  # of two convergents
OFF = Decimal(10) ** -50  # relative, far more than rounding adds up to in MOST_TERMS steps
MOST_TERMS = 20_000
MOST_RHO = 10**20  # above, x is a difference of so large numbers that SLACK is not enough
UNBOUNDED = Decimal("Infinity")


def log_delta_gaussian(rho: Fraction, least: Fraction, epsilon: Fraction) -> Decimal:
    """ln of a delta such that Gaussian noise of variances from ``least`` on, rho in all, is
    (epsilon, delta)-DP; rounded up, infinite where this bound is of no use.
    """
    if rho > MOST_RHO:
        return UNBOUNDED
    with localcontext(Context(prec=DIGITS)) as ctx:
        b, floor, e = (in_decimals(x, ctx) for x in (2 * rho, least, epsilon))
        plain, slope = _log_delta_normal(b, e)
        rate = 2 * PI * PI * floor
        # where the two factors of the bound about balance
        c = (2 * rate * b * floor / slope).ln() / rate if plain.is_finite() else UNBOUNDED
        if not 0 < c <= SMOOTHEST:
            return UNBOUNDED
        r = (-rate * c / (1 + c)).exp()
        normal, rippled = _log_delta_normal((1 + c) * b, e)[0], b * floor * 2 * r / (1 - r)
        return normal + rippled + (abs(normal) + rippled + 1) * SLACK


def _log_delta_normal(b: Decimal, epsilon: Decimal) -> tuple[Decimal, Decimal]:
    """(ln delta_G rounded up, about its derivative by ln b): with m = sqrt(b), x = epsilon/m - m/2
    and M the tail of a normal law over its density, delta_G = density(x) (M(x) - M(x + m)).
    """
    m = b.sqrt()
    x = epsilon / m - m / 2
    if x < NEAREST:
        return UNBOUNDED, Decimal(1)
    gap = _tail(x, up=True) - _tail(x + m, up=False)
    return gap.ln() - x * x / 2 - (2 * PI).ln() / 2, m / (2 * gap)


def _tail(x: Decimal, *, up: bool) -> Decimal:
    """M(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...)))), rounded: convergents are above and below in turn."""
    above, below = Decimal(1) / x, Decimal(0)
    p, q, before_p, before_q = Decimal(1), x, Decimal(0), Decimal(1)
    for n in range(1, MOST_TERMS, 2):
        if above - below <= above * CLOSE:
            break
        p, q, before_p, before_q = x * p + n * before_p, x * q + n * before_q, p, q
        below = p / q
        p, q, before_p, before_q = x * p + (n + 1) * before_p, x * q + (n + 1) * before_q, p, q
        above = p / q
    return above * (1 + OFF) if up else below * (1 - OFF)
