"""A meter that is watched: every verb that is asked, what it charged, what met noise in it, and what it
gave.

A :class:`Watched` stands where a meter stands. With a ``script``, the calls of an earlier run, it
replays: each verb runs on its own table, and gives what the script says it gave, so that whoever
plays sees the same released values and must do the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from understudy.audit.hooks import standing_in
from understudy.audit.noisy_steps import (
    Above,
    Coins,
    Drawn,
    Gaussian,
    Laplace,
    Least,
    NoisyStep,
    Solved,
)
from understudy.counting.tally import Counts
from understudy.privacy import Certificate, Measurement, Meter, ReleaseTotal, Residual, perturbation
from understudy.privacy.accounting import events as ev
from understudy.privacy.learners import Certifier, Points
from understudy.privacy.noise import exponential, softmin, wide
from understudy.privacy.noise.exponential import ScoreTable
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.perturbation import Perturbation
from understudy.privacy.verbs.base import Verb


class Differs(Exception):
    """A replay that did something else than the run before it; the message says what."""


class Ear(Noise):
    """Noise as ever, and a note of what was asked for. Noise that no verb is known to ask for is
    refused, never guessed.
    """

    def __init__(self, noise: Noise | None = None) -> None:
        super().__init__()
        self._plain = noise or Noise()
        self._coins: list[bool] = []
        self.start()

    def start(self, coins: Sequence[bool] = (), total: tuple[int, int] | None = None) -> None:
        """Before a verb. A replay gives the coins of the first run, and (number of rows, what to
        release for it).
        """
        self.steps: list[NoisyStep] = []
        self.added: list[tuple[type[Gaussian] | type[Laplace], Fraction, np.ndarray]] = []
        self.tossed: list[tuple[Fraction, bool]] = []
        self._coins, self._total = list(coins), total

    # ------------------------------------------------------------------ numbers that are added

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        drawn = self._plain.gaussian(size, sigma)
        if self._total is not None and size == 1:
            drawn = np.asarray([self._total[1] - self._total[0]], np.int64)
        self.added.append((Gaussian, sigma, drawn))
        return drawn

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        drawn = self._plain.laplace(size, scale)
        self.added.append((Laplace, scale, drawn))
        return drawn

    def bernoulli_exp(self, gamma: Fraction) -> bool:
        kept = self._coins.pop(0) if self._coins else self._plain.bernoulli_exp(gamma)
        self.tossed.append((gamma, kept))
        return kept

    def below(self, bound: int) -> int:
        raise Differs(
            "a verb asks for plain random numbers, which this audit does not know how to judge"
        )

    def uniform(self, size: int, bound: int) -> np.ndarray:
        raise Differs(
            "a verb asks for plain random numbers, which this audit does not know how to judge"
        )

    # ------------------------------------------------------------------ where exact values are handed over

    def seams(self) -> dict[str, Callable[..., Any]]:
        return {
            "draw": self._draw,
            "draw_least": self._draw_least,
            "noisy_above": self._noisy_above,
            "solve": self._solve,
        }

    def _draw(
        self,
        noise: Noise,
        scores: np.ndarray,
        table: ScoreTable,
        draws: int,
        *,
        distinct: bool = False,
    ) -> np.ndarray:
        drawn = Drawn(np.array(scores), table, draws, distinct)
        self.steps.append(Coins(tuple(x for x, _ in self.tossed), drawn) if self.tossed else drawn)
        return exponential.draw(self._plain, scores, table, draws, distinct=distinct)

    def _draw_least(self, noise: Noise, costs: np.ndarray, kappa: Fraction) -> int:
        self.steps.append(Least(np.array(costs), kappa))
        return softmin.draw_least(self._plain, costs, kappa)

    def _noisy_above(
        self, noise: Noise, counts: Counts, sigma: Fraction, threshold: int
    ) -> tuple[np.ndarray, np.ndarray]:
        self.steps.append(Above(np.array(counts.dense()), sigma, threshold))
        return wide.noisy_above(self._plain, counts, sigma, threshold)

    def _solve(self, how: Perturbation, points: Points, certifier: Certifier, noise: Noise) -> Any:
        asked = _Asked(self._plain)
        rule = perturbation.solve(how, points, certifier, asked)
        self.steps.append(Solved(points, how, asked.scale, asked.numbers))
        return rule

    def heard(self, given: Any) -> tuple[NoisyStep, ...]:
        """What met noise in the verb that just gave this: of sums, the exact part is what is left
        without the noise.
        """
        sums = _sums(given)
        if len(sums) != len(self.added):
            raise Differs("a verb gives other numbers than those that it drew noise for")
        found = [
            kind(total - drawn, width)
            for total, (kind, width, drawn) in zip(sums, self.added, strict=True)
        ]
        return (*found, *self.steps)


class _Asked(Noise):
    """Notes the noise that a perturbed optimum asks for."""

    def __init__(self, noise: Noise) -> None:
        super().__init__()
        self._plain, self.scale, self.numbers = noise, Fraction(0), 0

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        self.scale, self.numbers = scale, size
        return self._plain.laplace(size, scale)

    def geometric(self, size: int, scale: Fraction) -> np.ndarray:
        self.scale, self.numbers = scale, size
        return self._plain.geometric(size, scale)


def _sums(given: Any) -> list[np.ndarray]:
    """The released numbers that are an exact value plus noise, in the order in which the noise was
    drawn.
    """
    if isinstance(given, Measurement):
        return [given.counts] if given.keys is None else []
    if isinstance(given, Residual):
        return [given.counts]
    if isinstance(given, Certificate):
        return [np.asarray([given.noisy_largest_error], np.int64)]
    # mistakes, and their scale
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Fraction):
        return [np.asarray([given[0]], np.int64)]
    return [array for one in given for array in _sums(one)] if isinstance(given, list) else []


@dataclass(frozen=True)
class Call:
    """One verb that was asked."""

    kind: type[Verb[Any]]
    asked: Any
    events: tuple[ev.Event, ...]
    steps: tuple[NoisyStep, ...]
    coins: tuple[bool, ...]
    given: Any

    @property
    def verb(self) -> str:
        return self.kind.name


class Watched:
    """Stands where a meter stands."""

    def __init__(
        self, meter: Meter, ear: Ear, rows: int, script: Sequence[Call] | None = None
    ) -> None:
        self.__meter, self.__ear, self.__rows, self.__script = meter, ear, rows, script
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a mechanism has no business with {name}")
        return getattr(self.__meter, name)

    def ask(self, verb: Verb[Any]) -> Any:
        """What the meter answers, with a note of it."""
        kind = type(verb)
        before, ear, script = self.__meter.events, self.__ear, self.__script
        first = None
        if script is not None:
            if len(self.calls) >= len(script):
                raise Differs(f"{kind.name} is one more call than on the other table")
            first = script[len(self.calls)]
        total = (
            (self.__rows, int(first.given.counts[0]))
            if first is not None and kind is first.kind is ReleaseTotal
            else None
        )
        ear.start(() if first is None else first.coins, total)
        with standing_in(**ear.seams()):
            given = self.__meter.ask(verb)
        call = Call(
            kind,
            plain(verb),
            self.__meter.events[len(before) :],
            ear.heard(given),
            tuple(kept for _, kept in ear.tossed),
            given,
        )
        self.calls.append(call)
        if first is None:
            return given
        if call.kind is not first.kind:
            raise Differs(f"{call.verb} is called where the other table has {first.verb}")
        if call.asked != first.asked:
            raise Differs(f"{call.verb} is asked for something else")
        return first.given


def plain(value: Any) -> Any:
    """A value as nested tuples that can be compared, arrays as bytes."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((key, plain(one)) for key, one in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(plain(one) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(
            plain(getattr(value, f.name)) for f in dataclasses.fields(value)
        )
    return value
