"""Rationals in 60-digit decimals, rounded against us."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

DIGITS = 60
# Each decimal operation is off by at most one unit in the 60th digit; a few hundred of them,
# amplified by orders under 10^12, stay below this.
SLACK = Decimal(10) ** -45


def in_decimals(x: Fraction, ctx: Context) -> Decimal:
    return ctx.divide(Decimal(x.numerator), Decimal(x.denominator))


def log_of(x: Fraction, *, up: bool) -> Decimal:
    """ln(x) with directed rounding."""
    with localcontext(Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)) as ctx:
        value = in_decimals(x, ctx).ln()
        slack = abs(value) * SLACK + SLACK
        return value + slack if up else value - slack
