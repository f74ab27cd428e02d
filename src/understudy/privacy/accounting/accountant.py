"""What events cost, and whether the sum fits a budget.

A cost has three parts that add up separately: ``rho`` (zCDP), ``curve`` (Renyi divergence on a
fixed public grid of orders, beside rho) and ``delta`` (probability mass outside any guarantee).
proofs/accounting shows that adding them is sound for adaptive composition. Where all noise is
Gaussian, a cost also knows its smallest variance, and rho allows more (proofs/gaussian).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.budget import (
    Accountant,
    Budget,
    best_order,
    epsilon_for,
    gaussian_epsilon_for,
    log_delta,
    log_delta_zcdp,
)
from understudy.privacy.accounting.decimals import DIGITS, SLACK, log_of

# Fixed and public: a curve means nothing without its orders. Dense where budgets of 0.05 to 10
# convert.
ORDERS: tuple[Fraction, ...] = tuple(
    [1 + Fraction(i, 16) for i in range(1, 17)]
    + [2 + Fraction(i, 4) for i in range(1, 33)]
    + [
        Fraction(a)
        for a in (
            *range(11, 65),
            *range(68, 129, 4),
            *range(136, 257, 8),
            *range(288, 513, 32),
            640,
            768,
            1024,
            1536,
            2048,
            4096,
        )
    ]
)


@dataclass(frozen=True)
class Cost:
    """An amount of privacy loss."""

    rho: Fraction = Fraction(0)
    curve: tuple[Fraction, ...] | None = None
    delta: Fraction = Fraction(0)
    # a zCDP bound on the curve part, None when there is none
    curve_rho: Fraction | None = Fraction(0)
    # of Gaussian noise, the smallest; None where some noise is of another kind
    least_variance: Fraction | None = None

    def __post_init__(self) -> None:
        # nobody proved that; the default is for no curve
        if self.curve is not None and self.curve_rho == 0 and any(self.curve):
            object.__setattr__(self, "curve_rho", None)

    def __add__(self, other: Cost) -> Cost:
        if self.curve is None or other.curve is None:
            curve = self.curve if other.curve is None else other.curve
        else:
            curve = tuple(a + b for a, b in zip(self.curve, other.curve, strict=True))
        bound = (
            None
            if self.curve_rho is None or other.curve_rho is None
            else self.curve_rho + other.curve_rho
        )
        costly = [cost.least_variance for cost in (self, other) if not cost.is_nothing]
        variances = [variance for variance in costly if variance is not None]
        least = min(variances) if variances and len(variances) == len(costly) else None
        return Cost(self.rho + other.rho, curve, self.delta + other.delta, bound, least)

    @property
    def is_nothing(self) -> bool:
        """Whether neighbours have the same law."""
        return not (self.rho or self.delta or any(self.curve or ()))

    @property
    def is_sound(self) -> bool:
        """Whether no part is below 0: what would give budget back is no cost."""
        return min(self.rho, self.delta, self.curve_rho or 0, *(self.curve or ())) >= 0

    def is_gaussian(self, least: Fraction) -> bool:
        """Whether all of it is Gaussian noise of at least this variance."""
        return self.is_nothing or (self.least_variance is not None and self.least_variance >= least)

    def log_delta_at(self, epsilon: Fraction) -> Decimal:
        """ln of a delta such that the whole is (epsilon, delta)-DP, rounded up."""
        bounds = (
            [] if self.curve_rho is None else [log_delta_zcdp(self.rho + self.curve_rho, epsilon)]
        )
        renyi = min(
            [
                *bounds,
                *(
                    []
                    if self.curve is None
                    else [_log_delta_of_curve(self.curve, self.rho, epsilon)]
                ),
            ]
        )
        if self.delta == 0:
            return renyi
        with localcontext(Context(prec=DIGITS)):
            total = renyi.exp() + log_of(self.delta, up=True).exp()
            return (total * (1 + SLACK)).ln() + SLACK

    def fits(self, budget: Budget) -> bool:
        """Whether a promise covers this cost, fixed beforehand; exact when it is all zCDP."""
        only_rho = self.curve is None and self.delta == 0
        if self.keeps(budget) or only_rho or budget.epsilon is None or budget.delta is None:
            return self.keeps(budget)
        return self.delta < budget.delta and self.log_delta_at(budget.epsilon) <= log_of(
            budget.delta, up=False
        )

    def in_rho(self, limit: Budget) -> Fraction | None:
        """What this counts for against a limit that was fixed before anything was spent; None when
        that cannot be said.

        A limit in epsilon and delta is kept at one order, the one at which its own rho meets them:
        an order picked afterwards, the best for what was spent, could depend on what was released
        (proofs/accounting, A2). So is a limit for Gaussian noise, which counts no other (A7).
        """
        least = limit.least_variance
        if least is not None and limit.spread == 1:
            # one number costs no more than all: what stays within rho has no variance below it (A5)
            least = Fraction(0)
        if self.delta or (least is not None and not self.is_gaussian(least)):
            return None
        bounds = [] if self.curve_rho is None else [self.curve_rho]
        order = order_of(limit)
        if self.curve is not None and order is not None:
            # never falls with the order
            bounds.extend(r / order for a, r in zip(ORDERS, self.curve, strict=True) if a >= order)
        return self.rho + min(bounds) if bounds else None

    def keeps(self, limit: Budget) -> bool:
        """Whether a dataset's limit covers this, however it was spent; exact."""
        counted = self.in_rho(limit)
        return counted is not None and counted <= limit.rho

    def within(self, allowance: Cost) -> bool:
        """Whether each part stays inside that of an allowance; exact."""
        allowed = allowance.curve or (Fraction(0),) * len(ORDERS)
        # An allowance that claims a zCDP bound for its curve was granted on that claim; a curve
        # without one breaks it.
        bounded = allowance.curve_rho is None or (
            self.curve_rho is not None and self.curve_rho <= allowance.curve_rho
        )
        under = self.curve is None or all(r <= a for r, a in zip(self.curve, allowed, strict=True))
        least = allowance.least_variance
        alike = least is None or self.is_gaussian(least)
        inside = self.rho <= allowance.rho and self.delta <= allowance.delta
        return inside and under and bounded and alike

    def epsilon_at(
        self, delta: Fraction, accountant: Accountant = Accountant.RHO
    ) -> Fraction | None:
        """An epsilon, rounded up, such that the whole is (epsilon, delta)-DP; None without one.
        Who counts Gaussian noise counts by rho what holds any other.
        """
        if self.delta >= delta:
            return None
        rest = delta - self.delta
        if accountant is Accountant.GAUSSIAN and self.least_variance is not None:
            return gaussian_epsilon_for(self.rho, self.least_variance, rest)
        if self.curve is None:
            return epsilon_for(self.rho, rest)
        goal, low, high = log_of(rest, up=False), Fraction(0), Fraction(1)
        renyi = Cost(self.rho, self.curve, curve_rho=self.curve_rho)
        while renyi.log_delta_at(high) > goal:
            high *= 2
            if high > 10**6:
                return None
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if renyi.log_delta_at(middle) <= goal else (middle, high)
        return Fraction(-(-high.numerator * 10**12 // high.denominator), 10**12)


def _log_delta_of_curve(curve: tuple[Fraction, ...], rho: Fraction, epsilon: Fraction) -> Decimal:
    """At the best order of the grid or beside it: a divergence never falls with the order."""
    deltas = [log_delta(a, r + a * rho, epsilon) for a, r in zip(ORDERS, curve, strict=True)]
    at = deltas.index(min(deltas))
    for i in (at, at + 1):
        if 0 < i < len(ORDERS):
            order = best_order(rho, epsilon, curve[i], float(ORDERS[i - 1]), float(ORDERS[i]))
            order = min(max(order, ORDERS[i - 1]), ORDERS[i])
            deltas.append(log_delta(order, curve[i] + order * rho, epsilon))
    return min(deltas)


def order_of(limit: Budget) -> Fraction | None:
    """The order at which a limit in epsilon and delta is kept; one in rho is kept at all."""
    return None if limit.epsilon is None else best_order(limit.rho, limit.epsilon)


def cost_of(event: ev.Event) -> Cost:
    """What one event costs. An event type that is not listed here is refused, never guessed."""
    for name, value in vars(event).items():
        values = value if isinstance(value, tuple) else (value,)
        exact = all(
            (isinstance(v, (int, Fraction)) and not isinstance(v, bool))
            or (v is None and name == "rho")
            for v in values
        )
        whole = name not in ev.WHOLE or isinstance(value, int)
        _require(name == "what" or (exact and whole), f"{name} must be exact")
    match event:
        case ev.DiscreteGaussian(sigma_squared=variance, l2_squared=l2) if (
            type(event) is ev.DiscreteGaussian
        ):
            _require(variance > 0 and l2 >= 0, "a Gaussian needs a positive variance")
            return Cost(Fraction(l2) / (2 * variance), least_variance=variance)
        case ev.JointGaussian(sigmas_squared=variances, l2_in_sigmas=l2) if (
            type(event) is ev.JointGaussian
        ):
            _require(
                len(variances) > 0 and min(variances) > 0 and l2 >= 0,
                "Gaussians need positive variances",
            )
            return Cost(Fraction(l2) / 2, least_variance=min(variances))
        case ev.DiscreteLaplace(scale=scale, l1=l1) if type(event) is ev.DiscreteLaplace:
            _require(scale > 0 and l1 >= 0, "a Laplace needs a positive scale")
            return Cost((Fraction(l1) / scale) ** 2 / 2)
        case ev.ExponentialDraws(log_weight_shift=shift, draws=draws) if (
            type(event) is ev.ExponentialDraws
        ):
            _require(
                shift >= 0 and draws >= 0, "an exponential mechanism needs a shift of at least 0"
            )
            return Cost(draws * shift**2 / 2)
        case ev.PerturbedArgmin(shift=shift, slots=slots, scale=scale) if (
            type(event) is ev.PerturbedArgmin
        ):
            _require(
                shift >= 0 and slots >= 0 and scale > 0,
                "a perturbed optimum needs a shift and slots of at least 0 and a positive scale",
            )
            return Cost((shift * slots / Fraction(scale)) ** 2 / 2)
        case ev.PureDP(epsilon=epsilon) if type(event) is ev.PureDP:
            _require(epsilon >= 0, "epsilon must be at least 0")
            return Cost(epsilon**2 / 2)
        case ev.ApproximateDP(epsilon=epsilon, delta=delta) if type(event) is ev.ApproximateDP:
            _require(
                epsilon >= 0 and 0 <= delta < 1, "epsilon must be at least 0 and delta in [0, 1)"
            )
            return Cost(epsilon**2 / 2, delta=delta)
        case ev.RenyiCurve(curve=curve, rho=rho) if type(event) is ev.RenyiCurve:
            _require(
                len(curve) == len(ORDERS) and all(r >= 0 for r in curve),
                f"a curve has {len(ORDERS)} values of at least 0",
            )
            _require(rho is None or rho >= 0, "rho must be at least 0")
            return Cost(curve=curve, curve_rho=rho)
        case ev.Reservation(rho=rho) if type(event) is ev.Reservation:
            _require(rho >= 0, "rho must be at least 0")
            return Cost(rho)
        case ev.GaussianReservation(rho=rho, least_variance=least) if (
            type(event) is ev.GaussianReservation
        ):
            _require(rho > 0 and least > 0, "rho and a variance are above 0")
            # no single count costs more than all do
            return Cost(rho, least_variance=max(least, 1 / (2 * rho)))
    raise ParameterError(
        f"An event of type {type(event).__name__!r} has no known cost and is refused."
    )


def total_cost(events: Iterable[ev.Event]) -> Cost:
    """The cost of a sequence of events, each chosen knowing the results of those before it."""
    total = Cost()
    for event in events:
        total += cost_of(event)
    return total


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ParameterError(f"This privacy event is malformed: {sentence}.")
