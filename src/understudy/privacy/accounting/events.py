"""What happened, as frozen data. What it costs is the accountant's reading, in ``accountant.py``.

An event states the parameters of the noise that was really drawn, never the cost that a caller
hoped for. All numbers are exact rationals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    """The root; an event whose exact type the accountant does not know is refused."""

    what: str  # a public label for the ledger and the manifest


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(Event):
    """Integer counts plus discrete Gaussian noise: rho = l2_squared / (2 sigma_squared)."""

    sigma_squared: Fraction
    l2_squared: int


@dataclass(frozen=True, kw_only=True)
class JointGaussian(Event):
    """Integer vectors with discrete Gaussian noise, each of its own sigma: rho = l2_in_sigmas / 2.

    ``l2_in_sigmas`` bounds the sum over vectors of |change|^2 / sigma^2 for any one pair of
    neighbours.
    """

    sigmas_squared: tuple[Fraction, ...]
    l2_in_sigmas: Fraction


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(Event):
    """Integer counts plus discrete Laplace noise: pure epsilon = l1 / scale."""

    scale: Fraction
    l1: int


@dataclass(frozen=True, kw_only=True)
class ExponentialDraws(Event):
    """``draws`` of an exponential mechanism, with or without replacement; log-weights move by at
    most ``log_weight_shift`` each.
    """

    log_weight_shift: Fraction
    draws: int


@dataclass(frozen=True, kw_only=True)
class PerturbedArgmin(Event):
    """The best of a class under noise on its description: pure epsilon = shift * slots / scale."""

    shift: int
    slots: int
    scale: Fraction


@dataclass(frozen=True, kw_only=True)
class PureDP(Event):
    """Any epsilon-DP step whose proof is elsewhere in ``proofs/``."""

    epsilon: Fraction


@dataclass(frozen=True, kw_only=True)
class ApproximateDP(Event):
    """Any (epsilon, delta)-DP step."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, kw_only=True)
class RenyiCurve(Event):
    """Any step with Renyi divergence at most ``curve[i]`` at order ``ORDERS[i]`` of the accountant.

    ``rho`` is a zCDP bound for the same step when one is proved; a curve on a grid implies none.
    """

    curve: tuple[Fraction, ...]
    rho: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class Reservation(Event):
    """A whole release's zCDP allowance, charged to the dataset's ledger before any row is read."""

    rho: Fraction


@dataclass(frozen=True, kw_only=True)
class GaussianReservation(Event):
    """The allowance of a release that draws Gaussian noise alone, of at least this variance."""

    rho: Fraction
    least_variance: Fraction


RATIONAL = re.compile(r"-?[0-9]+(/[0-9]+)?")  # as ``to_dict`` writes a Fraction, and nothing else
WHOLE = ("l2_squared", "l1", "draws", "shift", "slots")  # fields that are whole numbers
# what a ledger may hold: an event of another name is refused, never guessed
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        DiscreteGaussian,
        JointGaussian,
        DiscreteLaplace,
        ExponentialDraws,
        PerturbedArgmin,
        PureDP,
        ApproximateDP,
        RenyiCurve,
        Reservation,
        GaussianReservation,
    )
}


def to_dict(event: Event) -> dict[str, Any]:
    """A plain form for the ledger and the manifest; rationals become "p/q"."""

    def plain(value: Any) -> Any:
        if isinstance(value, Fraction):
            return str(value)
        return [plain(v) for v in value] if isinstance(value, tuple) else value

    return {
        "event": type(event).__name__,
        **{name: plain(value) for name, value in vars(event).items()},
    }


def written(value: Any) -> Fraction:
    """A rational as :func:`to_dict` writes it. With an exponent, ten letters of a file could ask
    for more memory than there is.
    """
    if isinstance(value, str) and not RATIONAL.fullmatch(value):
        raise ValueError("a rational is written p/q")
    return Fraction(value)


def from_dict(data: dict[str, Any]) -> Event:
    """Read back what :func:`to_dict` wrote; KeyError, TypeError or ValueError on anything else."""
    kind = KINDS[data["event"]]
    fields = {name: value for name, value in data.items() if name != "event"}

    def exact(name: str, value: Any) -> Any:
        if value is None or name == "what":
            return value
        if isinstance(value, list):
            return tuple(map(written, value))
        if name in WHOLE:
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError("a whole number is expected")
            return value
        return written(value)

    return kind(**{name: exact(name, value) for name, value in fields.items()})
