"""QueryGAN-EM: a generator network against a private discriminator.

The discriminators of the paper's ODO are one-layer ReLU units, max(0, sum of k one-hot entries - (k
- 1)): on records, exactly the k-way queries of the workload; and their negations. One of them is
SELECTED each round by the exponential mechanism, where the generator answers too low, and the
generator is TRAINED on all that were selected. Nothing is measured. What is released are rows from
the uniform mixture of the generators phi_0 ... phi_{T-1}. The paper's own privacy proof is broken
in several places (its losses are not convex, its noise is calibrated to another norm); selection by
the exponential mechanism needs none of it, and the release's certificate no regret bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import Played, play
from understudy.game.players.choosing import WorstSigned
from understudy.game.players.leader import LEADERS, LeadingGenerator
from understudy.game.players.measuring import check_choosable
from understudy.game.players.network import Network, Size, check_network, one_thread
from understudy.game.players.relaxed import MOST_NUMBERS
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, check_whole
from understudy.mechanisms.papers.leading import rounds_for
from understudy.privacy import Meter
from understudy.queries.relaxed import relaxed
from understudy.runtime.watching import Watcher

LATENTS = 100  # in every generator; the mixture has as many for each round
MIXED = 5 * MOST_NUMBERS  # numbers in the mixture: 400 MB


@dataclass(frozen=True, kw_only=True)
class QueryGan(Mechanism):
    """Data player: a generator network that follows the leader. Query player: the exponential
    mechanism on signed errors.

    T generators are criticised T - 1 times, since nobody would learn from the last choice.

    Attributes:
        rounds: T, how often a query is chosen and the network trained; ``None`` for
            fem's rule: more with rows, budget and columns, fewer with queries.
        leader: what the network is trained for: ``regularised``, or the paper's ``follow`` and
            ``perturbed``.
        last: the share of the generators, the last ones, that rows are drawn from; 1 is the
            paper's.
        latents: random vectors, each of which becomes a distribution over rows; ``None`` for 100,
            fewer where all rounds would not fit.
        entries: numbers in such a vector.
        hidden: units in each of two layers.
        rate: Adam's learning rate.
        steps: Adam steps a round.
    """

    rounds: int | None = None
    leader: str = "regularised"
    last: float = 1.0
    latents: int | None = None
    entries: int = 32
    hidden: int = 128
    rate: float = 0.003
    steps: int = 30

    name: ClassVar[str] = "querygan"
    summary: ClassVar[str] = (
        "selects the worst queries and measures nothing; a generator network is trained on them"
    )
    in_short: ClassVar[str] = "a network trained on the worst queries"
    reference: ClassVar[str] = (
        "QueryGAN (ODO), corrected: the exponential mechanism over one-layer ReLU units"
    )

    def check(self, brief: Brief) -> None:
        check_whole(
            self.name,
            rounds=(2 if self.rounds is None else self.rounds, 2, 100_000),
            steps=(self.steps, 1, 1_000_000),
        )
        if self.leader not in LEADERS:
            raise ParameterError(
                f"querygan needs leader to be {', '.join(LEADERS[:-1])} or {LEADERS[-1]}, not"
                f" {self.leader!r}."
            )
        if (
            isinstance(self.last, bool)
            or not isinstance(self.last, (int, float))
            or not 0 < self.last <= 1
        ):
            raise ParameterError("querygan needs last to be above 0 and at most 1.")
        check_network(self.name, self._size(brief, self.rounds or 2), self.rate, brief.schema)
        for batch in brief.workload:
            relaxed(batch)
            if batch.query(0) is None:
                raise NotSupported(
                    f"querygan chooses single queries; one class here, {batch.kind}, cannot be taken"
                    " apart so."
                )
        check_choosable(self.name, brief.workload)

    def decide(self, brief: Brief, means: Means) -> Decision:
        rounds = self.rounds or rounds_for(means.rho, means.rows, brief.workload)
        size = self._size(brief, rounds)
        return Decision.of(
            self,
            brief,
            means,
            how=f"{rounds - 1} queries selected, a network of {size.latents} latents trained on them",
            numbers={"rounds": rounds, "latents": size.latents},
            plan=(rounds, size),
            model_numbers=int(self.last * rounds * size.latents * sum(brief.schema.shape)),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief, rho = decision.brief, decision.means.rho
        rounds, size = decision.plan
        query = WorstSigned(meter, brief.workload.batches, rho=rho / (rounds - 1))
        with one_thread():
            network = Network(brief.schema, size, rng)
            data = LeadingGenerator(
                brief.schema,
                network,
                leader=self.leader,
                rate=self.rate,
                steps=self.steps,
                last=self.last,
                rng=rng,
            )
            return play(data, query, rounds=rounds - 1, watcher=watcher, schema=brief.schema)

    def _size(self, brief: Brief, rounds: int) -> Size:
        most = max(1, MIXED // (rounds * sum(brief.schema.shape)))
        latents = min(LATENTS, most) if self.latents is None else self.latents
        return Size(latents=latents, entries=self.entries, hidden=self.hidden)
