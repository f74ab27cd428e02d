"""Budgets: exact zCDP amounts, and their conversion to and from (epsilon, delta).

Conversion (Canonne, Kamath and Steinke 2020, Proposition 12): a mechanism with Renyi divergence
R(a) at order a is (epsilon, delta)-DP for

    delta = exp((a-1)(R(a) - epsilon)) / (a-1) * (1 - 1/a)^a,        any a > 1,

and zCDP means R(a) = a*rho for all a. Any order gives a true bound, so orders are *found* in
floating point and the bound is then *evaluated* in 60-digit decimals, rounded against us.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from understudy.errors import ParameterError
from understudy.privacy.accounting.decimals import DIGITS, SLACK, in_decimals, log_of
from understudy.privacy.accounting.gaussian import log_delta_gaussian

MOST_EPSILON = 1000  # far beyond any promise that means something
MOST_DIGITS = 1000  # of a number that is given: more would only take time
MOST_RHO = 10**100  # nobody spends more, and floats, which show what was spent, hold it
LARGEST = 10**MOST_DIGITS  # of a numerator or denominator that somebody gives
STEPS = 44  # of a bisection: twelve digits and more
MOST_SPREAD = 10**6


class Accountant(StrEnum):
    """Who reads what was spent in epsilon and delta."""

    RHO = "rho"  # zCDP, which counts every kind of noise (proofs/accounting)
    GAUSSIAN = "gaussian"  # for Gaussian noise alone, which needs less of it (proofs/gaussian)


def exact(value: Any, name: str) -> Fraction:
    """A finite number as an exact rational; a float means the decimal that it prints as."""
    if isinstance(value, bool) or (
        not isinstance(value, (int, float, str, Fraction, Decimal))
        and not hasattr(value, "__float__")
    ):
        raise ParameterError(f"{name} must be a number.")
    try:
        if isinstance(value, (int, Fraction)):
            number = Fraction(value)
        else:
            number = _rational(
                str(value) if isinstance(value, (str, Decimal)) else repr(float(value))
            )
        if max(abs(number.numerator), number.denominator) > LARGEST:
            raise OverflowError
    except OverflowError:
        raise ParameterError(
            f"{name} must be a finite number of no more than {MOST_DIGITS:,} digits."
        ) from None
    except (ValueError, ZeroDivisionError, TypeError):
        raise ParameterError(
            f"{name} must be a finite number such as 0.5 or 1.5, with a point and no comma."
        ) from None
    return number


def _rational(text: str) -> Fraction:
    """A decimal or a quotient; Python would read 1_0 as ten, and write out all of 1e999999999."""
    exponent = re.search(r"[eE]([+-]?[0-9]+)\s*$", text)
    if len(text) > 2 * MOST_DIGITS or (exponent and abs(int(exponent[1])) > MOST_DIGITS):
        raise OverflowError
    if "_" in text or not text.isascii():
        raise ValueError
    return Fraction(text)


def exact_epsilon(value: Any) -> Fraction:
    """epsilon as an exact rational inside what is allowed."""
    epsilon = exact(value, "epsilon")
    if not 0 < epsilon <= MOST_EPSILON:
        raise ParameterError(
            f"epsilon must be above 0 and at most {MOST_EPSILON}; typical values are 0.1 to 4."
        )
    return epsilon


def exact_delta(value: Any) -> Fraction:
    """delta as an exact rational inside what is allowed."""
    delta = exact(value, "delta")
    if not 0 < delta < 1:
        raise ParameterError("delta must lie strictly between 0 and 1; a common choice is 1/n^2.")
    return delta


def log_delta(order: Fraction, renyi: Fraction, epsilon: Fraction) -> Decimal:
    """ln of the delta above at one order, rounded up."""
    with localcontext(Context(prec=DIGITS)) as ctx:
        a, r, e = (in_decimals(x, ctx) for x in (order, renyi, epsilon))
        one, other = _logs(order)
        value = (a - 1) * (r - e) - one + a * other
        return value + abs(value) * SLACK + SLACK


# a search for epsilon asks sixty times for every order of the grid, and these were nearly all of
# its time
@lru_cache(maxsize=4096)
def _logs(order: Fraction) -> tuple[Decimal, Decimal]:
    """What :func:`log_delta` needs of an order alone."""
    with localcontext(Context(prec=DIGITS)) as ctx:
        a = in_decimals(order, ctx)
        return (a - 1).ln(), (1 - 1 / a).ln()


def log_delta_zcdp(rho: Fraction, epsilon: Fraction) -> Decimal:
    """ln of the smallest delta that rho-zCDP gives at ``epsilon``, rounded up."""
    if rho == 0:
        return Decimal("-Infinity")
    order = best_order(rho, epsilon)
    return log_delta(order, rho * order, epsilon)


def best_order(
    rho: Fraction,
    epsilon: Fraction,
    fixed: Fraction = Fraction(0),
    least: float = 1 + 1e-6,
    most: float = 1e12,
) -> Fraction:
    """The order from ``least`` to ``most`` that about minimises delta, if the divergence at order a
    is ``fixed + a * rho``.

    The objective's log is convex in a, so a ternary search.
    """
    r, e, f = float(rho), float(epsilon), float(fixed)

    def objective(log_shift: float) -> float:
        a = 1.0 + math.exp(log_shift)
        return (a - 1) * (f + a * r - e) - math.log(a - 1) + a * math.log1p(-1 / a)

    low, high = math.log(least - 1), math.log(most - 1)
    for _ in range(200):
        third = (high - low) / 3
        if objective(low + third) < objective(high - third):
            high -= third
        else:
            low += third
    return 1 + Fraction(math.exp((low + high) / 2)).limit_denominator(10**9)


# of public numbers alone; shadow releases ask for the same ones thousands of times
@lru_cache(maxsize=256)
def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho (12 digits, rounded down) whose zCDP gives (epsilon, delta)-DP."""
    target = log_of(delta, up=False)
    goal = float(target)
    low, high = 0.0, float(epsilon)  # rho >= epsilon already violates any delta < 1 of interest
    for _ in range(200):
        middle = (low + high) / 2
        if float(log_delta_zcdp(Fraction(middle), epsilon)) <= goal if middle > 0 else True:
            low = middle
        else:
            high = middle
    rho = Fraction(low).limit_denominator(10**15)
    while rho > 0 and log_delta_zcdp(rho, epsilon) > target:
        rho = Fraction(float(rho) * (1 - 1e-12))
    if rho <= 0:
        raise ParameterError("This epsilon and delta leave no budget at all; raise one of them.")
    return rho


@lru_cache(maxsize=256)
def epsilon_for(rho: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon (to 9 digits, rounded up) that rho-zCDP gives at ``delta``."""
    if rho == 0:
        return Fraction(0)
    target = log_of(delta, up=False)
    low, high = 0.0, float(rho) + 2 * math.sqrt(float(rho) * -float(target)) + 1e-9
    for _ in range(100):
        middle = (low + high) / 2
        if float(log_delta_zcdp(rho, Fraction(middle))) <= float(target):
            high = middle
        else:
            low = middle
    epsilon = Fraction(math.ceil(high * 10**12), 10**12)
    while log_delta_zcdp(rho, epsilon) > target:
        epsilon *= 1 + Fraction(1, 10**9)
    return epsilon


@lru_cache(maxsize=256)
def gaussian_rho_for(epsilon: Fraction, delta: Fraction, spread: int) -> Fraction:
    """The largest rho (rounded down) whose Gaussian noise gives (epsilon, delta)-DP if no variance
    is below spread / (2 rho): then no count takes more than one part in ``spread`` of the whole.
    At least that of zCDP, which asks for nothing.
    """
    low, target = rho_for(epsilon, delta), log_of(delta, up=False)

    def holds(rho: Fraction) -> bool:
        return log_delta_gaussian(rho, spread / (2 * rho), epsilon) <= target

    return _last(low, 2 * low, holds)


@lru_cache(maxsize=256)
def gaussian_epsilon_for(rho: Fraction, least: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon (rounded up) that Gaussian noise of variances from ``least`` on gives at
    ``delta``: at most that of zCDP.
    """
    high, target = epsilon_for(rho, delta), log_of(delta, up=False)

    def holds(less: Fraction) -> bool:
        return log_delta_gaussian(rho, least, high - less) <= target

    return high - _last(Fraction(0), high / 2, holds) if rho else high


def _last(low: Fraction, high: Fraction, holds: Callable[[Fraction], bool]) -> Fraction:
    """About the last number up to ``high`` for which something holds, never one for which it does
    not; ``low`` if it was found to hold for none above.
    """
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class Budget:
    """What may be spent: rho in zCDP, and the (epsilon, delta) it came from, if it did.

    Attributes:
        rho: the sum of what every step costs.
        epsilon: the promise; delta likewise.
        accountant: by whom rho is what they allow.
        spread: with Gaussian noise alone, no count takes more than one part in so many of rho; 1
            asks for nothing.

    Examples:
        >>> b = Budget.of(epsilon=1, delta=Fraction(1, 48842**2))
        >>> round(float(b.rho), 5)
        0.01427
    """

    rho: Fraction
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    accountant: Accountant = Accountant.RHO
    spread: int = 1

    @classmethod
    def of(
        cls, *, epsilon: Any, delta: Any, accountant: str = Accountant.RHO, spread: int = 1
    ) -> Budget:
        """The budget of an (epsilon, delta) promise."""
        e, d, by = exact_epsilon(epsilon), exact_delta(delta), as_accountant(accountant)
        if by is Accountant.RHO:
            return cls(rho_for(e, d), e, d)
        if (
            isinstance(spread, bool)
            or not isinstance(spread, int)
            or not 1 <= spread <= MOST_SPREAD
        ):
            raise ParameterError(f"spread must be a whole number from 1 to {MOST_SPREAD:,}.")
        return cls(gaussian_rho_for(e, d, spread), e, d, by, spread)

    @classmethod
    def zcdp(cls, rho: Any) -> Budget:
        """A budget given directly in zCDP."""
        r = exact(rho, "rho")
        if not 0 < r <= MOST_RHO:
            raise ParameterError("rho must be above 0 and no larger than any budget.")
        return cls(r)

    @property
    def least_variance(self) -> Fraction | None:
        """What Gaussian noise must not be below; None where any noise is counted."""
        return None if self.accountant is Accountant.RHO else self.spread / (2 * self.rho)

    def epsilon_of(self, rho: Fraction) -> Fraction:
        """The epsilon that a rho comes to at its delta, counted as it is."""
        assert self.delta is not None
        if self.accountant is Accountant.RHO:
            return epsilon_for(rho, self.delta)
        # of more than all of it, one count may take more
        least = self.spread / (2 * max(rho, self.rho))
        return gaussian_epsilon_for(rho, least, self.delta)

    def most_epsilon(self, rho: Fraction, delta: Fraction) -> Fraction | None:
        """The largest epsilon of three digits whose promise at ``delta``, counted as this one is,
        costs at most rho; None when there is none.
        """
        if rho <= 0:
            return None
        reach = epsilon_for(rho, delta)
        if self.accountant is Accountant.GAUSSIAN:
            reach = gaussian_epsilon_for(rho, self.spread / (2 * rho), delta)
        reach = min(reach, Fraction(MOST_EPSILON))
        step = Fraction(10) ** (math.floor(math.log10(float(reach))) - 2)
        # one of the first three fits: rounding alone is in the way, up or down
        for count in range(math.ceil(reach / step), 0, -1):
            try:
                asked = Budget.of(
                    epsilon=count * step,
                    delta=delta,
                    accountant=self.accountant,
                    spread=self.spread,
                )
            except ParameterError:  # too little for any rho
                return None
            if asked.rho <= rho:
                return count * step
        return None


def as_accountant(value: Any) -> Accountant:
    try:
        return Accountant(value)
    except ValueError:
        raise ParameterError(
            f"accountant must be one of {' and '.join(Accountant)}; gaussian counts releases that"
            " draw Gaussian noise alone, and rho counts all."
        ) from None
