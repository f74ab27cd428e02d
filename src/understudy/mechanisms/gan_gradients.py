"""EXPERIMENTAL: a generator network against a logistic discriminator that climbs noisy gradients.

The discriminator is linear in the one-hot cells of the workload's marginals. Each round it takes some steps up its likelihood; what the
sensitive rows say about a step is RELEASED with discrete Gaussian noise (PROOFS.md, M13: private whatever the discriminator is), the rest
is public. Then the generator is TRAINED toward what the discriminator takes for real. That the two come to rest anywhere is not proved:
accuracy is what the certificate says. On ADULT's 64 3-way marginals at epsilon 1 (python -m bench.querygan, one run) the largest error was
0.030 and the mean 6.4e-6, where querygan had 0.085 and 1.9e-5; arp is the mechanism to use, this one is here to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.game import Played, Watcher, play
from understudy.mechanisms.base import Brief, Mechanism, check_whole
from understudy.players.critic import TOP, CriticisedGenerator
from understudy.players.measuring import Slopes
from understudy.players.network import Network, Size, check_network, one_thread
from understudy.players.relaxed import MOST_NUMBERS
from understudy.privacy import Meter
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload
from understudy.tally import DENSE_CELLS

MOST_SLOPES = 2**27  # released in a whole play, and kept as its findings: 2 GB with the weights they were asked with


@dataclass(frozen=True, kw_only=True)
class GanGradients(Mechanism):
    """Data player: a generator network and its discriminator. Query player: noisy slopes of the discriminator's likelihood.

    Every release costs the same; there are ``rounds`` times ``ascents`` of them.

    Attributes:
        rounds: how often the generator is trained.
        ascents: steps of the discriminator before each training.
        ridge: how strongly the discriminator is held back; see :class:`CriticisedGenerator`.
        push: how far the generator goes toward what the discriminator takes for real.
        last: the share of the trained generators, the last ones, that rows are drawn from.
        latents: random vectors, each of which becomes a distribution over rows.
        entries: numbers in such a vector.
        hidden: units in each of two layers.
        rate: Adam's learning rate.
        steps: Adam steps a round.
    """

    rounds: int = 10
    ascents: int = 1
    ridge: float = 1.0
    push: float = 1.0
    last: float = 0.5
    latents: int = 100
    entries: int = 32
    hidden: int = 128
    rate: float = 0.003
    steps: int = 30

    name: ClassVar[str] = "gan-gradients-experimental"
    summary: ClassVar[str] = "EXPERIMENTAL: a generator network against a discriminator that climbs noisy gradients; to compare with"
    reference: ClassVar[str] = "Understudy, experimental; after QueryGAN (ODO) with a logistic loss, noisy full-batch gradients"

    def check(self, brief: Brief) -> None:
        check_whole(self.name, rounds=(self.rounds, 1, 10_000), ascents=(self.ascents, 1, 1000), steps=(self.steps, 1, 1_000_000))
        check_discriminator(self.name, brief, ridge=self.ridge, push=self.push, last=self.last)
        check_network(self.name, self._size, self.rate, brief.schema)
        if self.rounds * self.latents * sum(brief.schema.shape) > 5 * MOST_NUMBERS:
            raise NotSupported(f"{self.name} cannot keep {self.rounds:,} generators of this size; use fewer rounds or latents.")
        if self.rounds * self.ascents * brief.workload.cells > MOST_SLOPES:
            raise NotSupported(f"{self.name} would release more than {MOST_SLOPES:,} slopes; use fewer rounds, ascents or marginals.")

    def unkept(self, workload: Workload, neighbours: Neighbours, rows: int) -> Sequence[int]:
        """Slopes are used up in training."""
        each = (1 if neighbours is Neighbours.ADD_REMOVE_ONE else 2) * len(workload.marginals) * TOP**2
        return [each] * (self.rounds * self.ascents)

    def play(self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher) -> Played:
        releases, parts = self.rounds * self.ascents, brief.workload.marginals
        settings = {name: getattr(self, name) for name in ("ascents", "ridge", "push", "rate", "steps", "last")}
        with one_thread():
            network = Network(brief.schema, self._size, rng)
            data = CriticisedGenerator(brief.schema, network, parts, rows=meter.rows, rng=rng, **settings)
            played = play(data, Slopes(meter, rho=meter.left / releases), rounds=releases, watcher=watcher, schema=brief.schema)
        return replace(played, facts={"rounds": self.rounds, "releases": releases, "status": "experimental"})

    @property
    def _size(self) -> Size:
        return Size(latents=self.latents, entries=self.entries, hidden=self.hidden)


def check_discriminator(name: str, brief: Brief, *, ridge: float, push: float, last: float) -> None:
    """Refuse, in a sentence and before any budget is touched, what a discriminator of cells cannot look at."""
    for what, number, most in (("ridge", ridge, 1000), ("push", push, 1000), ("last", last, 1)):
        if isinstance(number, bool) or not isinstance(number, (int, float, Fraction)) or not 0 < number <= most:
            raise ParameterError(f"{name} needs {what} to be above 0 and at most {most}.")
    cells = brief.workload.cells
    if not cells or cells > DENSE_CELLS:
        raise NotSupported(
            f"The discriminator of {name} looks at the cells of the workload's marginals, from 1 to {DENSE_CELLS:,} in all; "
            f"there are {cells:,} here."
        )
