"""EXPERIMENTAL: a generator network against a logistic discriminator that is found whole, by
objective perturbation.

The discriminator is linear in the one-hot cells of the workload's marginals. What is RELEASED each
round is the discriminator itself, the minimum of a convex objective with Gaussian noise in it
(privacy/proofs/discriminate, M14), charged as a Renyi curve. Then the generator is TRAINED toward what the
discriminator takes for real. That the two come to rest anywhere is not proved: accuracy is what the
certificate says. On ADULT's 64 3-way marginals at epsilon 1 (the suite querygan, one run) the
largest error was 0.025 and the mean 6.3e-6, in 142 CPU seconds. arp is the mechanism to use, this
one is here to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS
from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import Played, play
from understudy.game.players.critic import CriticisedGenerator
from understudy.game.players.measuring import WholeDiscriminator, fake_rows
from understudy.game.players.network import Network, Size, check_network, one_thread
from understudy.game.players.relaxed import MOST_NUMBERS
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, check_whole
from understudy.privacy import Meter
from understudy.privacy.accounting.accountant import total_cost
from understudy.privacy.accounting.budget import exact
from understudy.privacy.accounting.events import DiscreteGaussian
from understudy.privacy.logistic import LEAST_SIGMA, MOST_SIGMA, Terms, checked_terms
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload
from understudy.runtime.watching import Watcher

USUAL_RIDGE = 0.1  # a tenth of the most that the likelihood bends: light, where it can be paid for
MOST_RIDGE = 1000.0  # the most that may be given
MOST_WEIGHTS = 2**27  # of cells, released in a whole play and kept as its findings: 1 GB


@dataclass(frozen=True, kw_only=True)
class GanLogistic(Mechanism):
    """Data player: a generator network. Query player: the best discriminator of it under noise.

    Attributes:
        rounds: how often a discriminator is found and the generator trained.
        ridge: how strongly the discriminator is held back, in units of the most that its likelihood
            curves; ``None`` for 0.1, or more where the budget is so small that a tenth of it would
            go on what a row bends.
        sigma: the noise on the slope of the objective, in rows; ``None`` for the least that the
            budget allows.
        push: how far the generator goes toward what the discriminator takes for real.
        last: the share of the trained generators, the last ones, that rows are drawn from.
        latents: random vectors, each of which becomes a distribution over rows.
        entries: numbers in such a vector.
        hidden: units in each of two layers.
        rate: Adam's learning rate.
        steps: Adam steps a round.
    """

    rounds: int = 6
    ridge: float | None = None
    sigma: float | None = None
    push: float = 1.0
    last: float = 0.5
    latents: int = 100
    entries: int = 32
    hidden: int = 128
    rate: float = 0.003
    steps: int = 30

    name: ClassVar[str] = "gan-logistic-experimental"
    summary: ClassVar[str] = (
        "EXPERIMENTAL: a generator network against a logistic discriminator found under noise; to"
        " compare with"
    )
    in_short: ClassVar[str] = "EXPERIMENTAL: a network and a logistic critic"
    reference: ClassVar[str] = (
        "Understudy, experimental; after QueryGAN (ODO) with a logistic loss, objective"
        " perturbation corrected"
    )
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)

    def check(self, brief: Brief) -> None:
        check_whole(self.name, rounds=(self.rounds, 1, 1000), steps=(self.steps, 1, 1_000_000))
        self._check_discriminator(brief)
        check_network(self.name, self._size, self.rate, brief.schema)
        if self.sigma is not None and (
            isinstance(self.sigma, bool)
            or not isinstance(self.sigma, (int, float, Fraction))
            or not self.sigma > 0
        ):
            raise ParameterError(f"{self.name} needs sigma to be above 0.")
        if self.rounds * self.latents * sum(brief.schema.shape) > 5 * MOST_NUMBERS:
            raise NotSupported(
                f"{self.name} cannot keep {self.rounds:,} generators of this size; use fewer rounds"
                " or latents."
            )
        if self.rounds * brief.workload.cells > MOST_WEIGHTS:
            raise NotSupported(
                f"{self.name} would release more than {MOST_WEIGHTS:,} weights of cells; use fewer"
                " rounds or marginals."
            )

    def _check_discriminator(self, brief: Brief) -> None:
        ridge = USUAL_RIDGE if self.ridge is None else self.ridge
        for what, number, most in (
            ("ridge", ridge, 1000),
            ("push", self.push, 1000),
            ("last", self.last, 1),
        ):
            if (
                isinstance(number, bool)
                or not isinstance(number, (int, float, Fraction))
                or not 0 < number <= most
            ):
                raise ParameterError(f"{self.name} needs {what} to be above 0 and at most {most}.")
        cells = brief.workload.cells
        if not cells or cells > DENSE_CELLS:
            raise NotSupported(
                f"The discriminator of {self.name} looks at the cells of the workload's marginals,"
                f" from 1 to {DENSE_CELLS:,} in all; there are {cells:,} here."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        rho, rows, ridge = means.rho, means.rows, self.ridge
        # a round pays ln(1 + about 1/(2 ridge n)) for how much a row may bend the objective
        if ridge is None:
            ridge = min(
                max(USUAL_RIDGE, float(f"{5 * self.rounds / float(rows * rho):.3g}")), MOST_RIDGE
            )
        public = _public(brief.workload, rows)
        whole = whole_ridge(ridge, rows, len(brief.workload.marginals))

        def fits(sigma: Fraction) -> bool:
            counted = total_cost(
                Terms.of(**public, ridge=whole, sigma=sigma).events * self.rounds
            ).in_rho(means.budget)
            return counted is not None and counted <= rho

        sigma = _least(fits) if self.sigma is None else exact(self.sigma, "sigma")
        sigma = exact(float(sigma), "sigma")  # as it is played with
        if not fits(sigma):
            raise ParameterError(
                f"{self.name}: {self.rounds} rounds at a ridge of {ridge:g} and a sigma of"
                f" {float(sigma):g} cost more than there is; use fewer rounds, a larger ridge, or"
                " more noise."
            )
        events = checked_terms(**public, ridge=whole, sigma=sigma).events * self.rounds
        generators = math.ceil(self.rounds * self.last)
        return Decision.of(
            self,
            brief,
            means,
            how=f"{self.rounds} discriminators, found under noise of {float(sigma):.3g} rows",
            numbers={"rounds": self.rounds, "ridge": ridge, "sigma": float(sigma)},
            cost=total_cost(events),
            plan=(ridge, whole, sigma),
            model_numbers=generators * self.latents * sum(brief.schema.shape),
            # discriminators are used up in training
            sums_not_kept=tuple(e.l2_squared for e in events if isinstance(e, DiscreteGaussian)),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief = decision.brief
        ridge, whole, sigma = decision.plan
        settings = {name: getattr(self, name) for name in ("push", "rate", "steps", "last")}
        query = WholeDiscriminator(meter, ridge=whole, sigma=sigma, rng=rng)
        with one_thread():
            network = Network(brief.schema, self._size, rng)
            data = CriticisedGenerator(
                brief.schema, network, brief.workload.marginals, ridge=ridge, **settings
            )
            played = play(data, query, rounds=self.rounds, watcher=watcher, schema=brief.schema)
        return replace(played, facts={"status": "experimental"})

    @property
    def _size(self) -> Size:
        return Size(latents=self.latents, entries=self.entries, hidden=self.hidden)


def _public(workload: Workload, rows: int) -> dict[str, int]:
    """The public numbers that the cost of a discriminator depends on."""
    count, weight = fake_rows(rows)
    return {
        "rows": rows,
        "fake": count * weight,
        "marginals": len(workload.marginals),
        "cells": workload.cells,
    }


def whole_ridge(ridge: float, rows: int, marginals: int) -> int:
    """A ridge for sums over rows in place of averages, in units of 1: see
    :class:`CriticisedGenerator`.
    """
    return max(1, math.ceil(exact(ridge, "ridge") * rows * marginals / 2))


def _least(fits: Callable[[Fraction], bool]) -> Fraction:
    """The least sigma that fits, rounded up to four digits; the largest there is if none does."""
    low, high = math.log2(LEAST_SIGMA), math.log2(MOST_SIGMA)
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(Fraction(2**middle)) else (middle, high)
    return min(
        Fraction(Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(2**high)),
        MOST_SIGMA,
    )
