"""A data player with a generator network and a linear discriminator of it. It sees released values
and public randomness, nothing else.

The discriminator D(x) = sigma(theta . h(x)) looks at h(x), the cells of some public marginals that
a row is in. Its likelihood

    average over rows of ln D(x)  +  average over the generator's rows of ln(1 - D(x))  -  ridge/2
    |theta|^2

has one maximum, and what is released is the theta that is there under noise (privacy/proofs/discriminate, M14).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.game.fitting.mixture import Mixture
from understudy.game.loop import Finding
from understudy.game.players.network import Network
from understudy.privacy import Discriminator
from understudy.queries.base import QueryClass
from understudy.queries.marginal import Marginal
from understudy.queries.relaxed import Chances, relaxed
from understudy.schema import Schema


@dataclass(frozen=True)
class Criticised:
    """A model beside the marginals whose cells its discriminator looks at."""

    model: Mixture
    batches: tuple[Marginal, ...]

    def shares(self, batch: QueryClass) -> np.ndarray:
        return self.model.shares(batch)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return self.model.rows(count, rng)


class CriticisedGenerator:
    """After each discriminator that is released, Adam steps of the generator.

    The generator's answers to all cells go from where they were toward that plus a multiple of
    theta: toward what the discriminator takes for real, but no further, because the row that it
    likes best would be the end of a linear objective.

    Args:
        schema: the columns.
        network: the generator, not yet trained.
        batches: the marginals whose cells the discriminator looks at.
        ridge: what holds theta back, in units of the most that the likelihood curves.
        push: how far the generator goes; 1 is as far as a gap would be that such a theta has
            settled at.
        rate: Adam's learning rate.
        steps: Adam steps in each training.
        last: the share of the generators, the last ones, that are mixed in the end.
    """

    def __init__(
        self,
        schema: Schema,
        network: Network,
        batches: tuple[Marginal, ...],
        *,
        ridge: float,
        push: float,
        rate: float,
        steps: int,
        last: float,
    ) -> None:
        self._schema, self._network, self._batches = schema, network, batches
        self._adam, self._steps, self._last = network.adam(rate), steps, last
        self._edges = np.cumsum([0, *(batch.size for batch in batches)])
        # |h|^2 is the number of marginals; rows and generator curve by a quarter of it each
        curve = len(batches) / 2
        self._push = 2 * push * (ridge * curve)
        self._generators = [network.chances()]

    def propose(self) -> Criticised:
        return Criticised(Mixture(self._schema, self._generators[-1]), self._batches)

    def learn(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            assert isinstance(finding, Discriminator)
            self._train(finding.theta)
            self._generators.append(self._network.chances())

    def result(self) -> Mixture:
        """The uniform mixture of the last generators."""
        generators = self._generators[1:][-math.ceil((len(self._generators) - 1) * self._last) :]
        return Mixture(
            self._schema,
            Chances(
                np.concatenate([one.values for one in generators], axis=1), generators[0].starts
            ),
        )

    def _train(self, theta: np.ndarray) -> None:
        queries = [relaxed(batch) for batch in self._batches]
        aims = [
            q.answers(self._generators[-1]) + self._push * t
            for q, t in zip(queries, self._split(theta), strict=True)
        ]
        for _ in range(self._steps):
            at = self._network.chances()
            slopes = np.zeros_like(at.values)
            for query, aim in zip(queries, aims, strict=True):
                query.pull(at, query.answers(at) - aim, slopes)
            self._adam.step(self._network.pull(at, slopes))

    def _split(self, values: np.ndarray) -> list[np.ndarray]:
        return [values[a:b] for a, b in zip(self._edges[:-1], self._edges[1:], strict=True)]
