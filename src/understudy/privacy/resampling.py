"""What it costs to keep or replace drawn queries instead of drawing all of them anew (proofs/resample,
M9).

A slot holds a query. It is kept with probability p = exp(-x), where x moves by at most ``kappa``
between neighbours and is at least ``gamma``, and is otherwise replaced by a draw whose log-weights
move by at most ``shift``. The cost of that is a Renyi curve: the coin is nearly free and the draw
is rare, but the worst case of a zCDP bound knows nothing of rarity.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS
from understudy.privacy.accounting.decimals import DIGITS
from understudy.privacy.noise.exponential import TABLE_ERROR

# a few dozen operations of DIGITS digits, some of which lose a dozen by cancelling
SLACK = Decimal(10) ** -40
# short numbers for the manifest, a billionth too large
SHOWN = Context(prec=9, rounding=ROUND_CEILING)
HOPELESS = 10_000  # an exponent beyond this: another bound is smaller


def milestone(records: int) -> int:
    """The number of records that a round is priced for: rounded up to six binary digits, so that
    many rounds share one curve.
    """
    unit = 1 << max(0, records.bit_length() - 6)
    return -(-records // unit) * unit


def resampling(
    *, slots: int, kappa: Fraction, gamma: Fraction, rows: int, records: int, candidates: int
) -> ev.RenyiCurve:
    """What one round is charged, after so many records, where ``candidates`` may be drawn."""
    slot = (kappa, gamma, gamma + 2 * kappa * rows, kappa * milestone(records) + TABLE_ERROR)
    curve = tuple(slots * r for r in _slot_curve(*slot))
    rho = slots * slot_rho(kappa, gamma, slot[-1])
    return ev.RenyiCurve(what=f"resample {slots:,} of {candidates:,}", curve=curve, rho=rho)


@lru_cache(maxsize=4096)
def _slot_curve(
    kappa: Fraction, gamma: Fraction, furthest: Fraction, shift: Fraction
) -> tuple[Fraction, ...]:
    return tuple(slot_cost(order, kappa, gamma, furthest, shift) for order in ORDERS)


def slot_cost(
    order: Fraction, kappa: Fraction, gamma: Fraction, furthest: Fraction, shift: Fraction
) -> Fraction:
    """The Renyi divergence of one slot at one order, rounded up; no x exceeds ``furthest``."""
    with localcontext(Context(prec=DIGITS)) as ctx:
        a, k, g, c = (as_decimal(x, ctx) for x in (order, kappa, gamma, shift))
        replaced = _replaced_at_least(gamma, ctx)
        reach = k / replaced  # how far the coin's log-odds move
        bounds = [
            a * (reach**2 / 8 + c**2 / 2),
            k / (g.exp() - 1) + 2 * c,
        ]
        fresh = (a - 1) * min(a * c**2 / 2, 2 * c)
        if (a + 1) * reach + fresh < HOPELESS:
            coin = a / 2 * k**2 * ((a + 1) * reach).exp() / replaced
            often = 1 - (-as_decimal(furthest, ctx)).exp()
            bounds.append(
                coin + (1 + often * ((a - 1) * reach).exp() * (fresh.exp() - 1)).ln() / (a - 1)
            )
        return shown_up(min(bounds))


def slot_rho(kappa: Fraction, gamma: Fraction, shift: Fraction) -> Fraction:
    """A zCDP bound for the same: the coin's bounded range, and a draw every time."""
    with localcontext(Context(prec=DIGITS)) as ctx:
        return shown_up(
            as_decimal(kappa, ctx) ** 2 / (8 * _replaced_at_least(gamma, ctx) ** 2)
            + as_decimal(shift, ctx) ** 2 / 2
        )


def _replaced_at_least(gamma: Fraction, ctx: Context) -> Decimal:
    return 1 - (-as_decimal(gamma, ctx)).exp()


def as_decimal(x: Fraction, ctx: Context) -> Decimal:
    return ctx.divide(Decimal(x.numerator), Decimal(x.denominator))


def shown_up(value: Decimal) -> Fraction:
    return Fraction(SHOWN.plus(value * (1 + SLACK) + SLACK))
