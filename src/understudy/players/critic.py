"""A data player with a generator network and a linear discriminator of it. It sees released values and public randomness, nothing else.

The discriminator D(x) = sigma(theta . h(x)) looks at h(x), the cells of some public marginals that a row is in. Its likelihood

    average over rows of ln D(x)  +  average over the generator's rows of ln(1 - D(x))  -  ridge/2 |theta|^2

has the slope: average of (1 - D(x)) h(x) over rows, which is what is released with noise (PROOFS.md, M13), less the average of D(x) h(x)
over rows that the generator draws, less ridge theta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.game import Finding
from understudy.players.network import Network
from understudy.privacy import Discriminator, Tilt, Tilted
from understudy.queries.base import QueryClass, relaxed
from understudy.queries.marginal import Marginal
from understudy.queries.relaxed import Chances
from understudy.schema import Schema
from understudy.synthesis.mixture import Mixture
from understudy.tally import CodedRows

UNIT = 256  # scores are in 1/256
FURTHEST = 8  # and cut here: a row that is taken for real or unreal with a confidence of 0.9997
TOP = 1024  # what a row weighs at most
LEVELS = np.rint(TOP / (1 + np.exp(np.arange(-FURTHEST * UNIT, FURTHEST * UNIT + 1) / UNIT))).astype(np.int64)  # 1 - D(x)
DRAWN = 20_000  # rows of the generator that the discriminator is shown


@dataclass(frozen=True)
class Criticised:
    """A model beside what its discriminator weighs each cell with: whole numbers, in 1/UNIT."""

    model: Mixture
    parts: tuple[Marginal, ...]
    weights: tuple[np.ndarray, ...]

    def shares(self, part: QueryClass) -> np.ndarray:
        return self.model.shares(part)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return self.model.rows(count, rng)


class CriticisedGenerator:
    """After each release, one step of the discriminator, or the one released; after every ``ascents``, Adam steps of the generator.

    The generator's answers to all cells go from where they were toward that plus a multiple of theta: toward what the discriminator
    takes for real, but no further, because the row that it likes best would be the end of a linear objective.

    Args:
        schema: the columns.
        network: the generator, not yet trained.
        parts: the marginals whose cells the discriminator looks at.
        rows: how many rows the sensitive table has, or is said to have.
        ascents: steps of the discriminator for each training of the generator.
        ridge: what holds theta back, in units of the most that the likelihood curves; 1 forgets half of theta in a step.
        push: how far the generator goes; 1 is as far as a gap would be that such a theta has settled at.
        rate: Adam's learning rate.
        steps: Adam steps in each training.
        last: the share of the generators, the last ones, that are mixed in the end.
        rng: public randomness.
    """

    def __init__(
        self,
        schema: Schema,
        network: Network,
        parts: tuple[Marginal, ...],
        *,
        rows: int,
        ascents: int,
        ridge: float,
        push: float,
        rate: float,
        steps: int,
        last: float,
        rng: np.random.Generator,
    ) -> None:
        self._schema, self._network, self._parts, self._rows, self._rng = schema, network, parts, rows, rng
        self._ascents, self._steps, self._last = ascents, steps, last
        self._adam, self._theta = network.adam(rate), np.zeros(sum(part.size for part in parts))
        self._edges = np.cumsum([0, *(part.size for part in parts)])
        curve = len(parts) / 2  # |h|^2 is the number of marginals; rows and generator curve by a quarter of it each
        self._ridge = ridge * curve
        self._stride, self._push = 1 / (curve + self._ridge), 2 * push * self._ridge
        self._generators, self._taken = [network.chances()], 0

    def propose(self) -> Criticised:
        limit = FURTHEST * UNIT
        weights = np.clip(np.rint(self._theta * UNIT), -limit, limit).astype(np.int64)
        return Criticised(self._model, self._parts, tuple(self._split(weights)))

    def learn(self, findings: Sequence[Finding]) -> None:
        for found in findings:
            if isinstance(found, Tilted):
                self._ascend(found)
            elif isinstance(found, Discriminator):
                self._theta = found.theta
            self._taken += 1
        if self._taken % self._ascents == 0:
            self._train()
            self._generators.append(self._network.chances())

    def result(self) -> Mixture:
        """The uniform mixture of the last generators."""
        kept = self._generators[1:][-math.ceil((len(self._generators) - 1) * self._last) :]
        return Mixture(self._schema, Chances(np.concatenate([one.values for one in kept], axis=1), kept[0].starts))

    @property
    def _model(self) -> Mixture:
        return Mixture(self._schema, self._generators[-1])

    def _ascend(self, found: Tilted) -> None:
        made = CodedRows(self._model.rows(DRAWN, self._rng), self._schema.shape)
        unreal = made.scan(Tilt(self._parts, found.tilt.weights, TOP - found.tilt.levels))
        slope = found.counts / (TOP * self._rows) - unreal / (TOP * DRAWN)
        self._theta += self._stride * (slope - self._ridge * self._theta)

    def _train(self) -> None:
        queries = [relaxed(part) for part in self._parts]
        aims = [q.answers(self._generators[-1]) + self._push * t for q, t in zip(queries, self._split(self._theta), strict=True)]
        for _ in range(self._steps):
            at = self._network.chances()
            slopes = np.zeros_like(at.values)
            for query, aim in zip(queries, aims, strict=True):
                query.pull(at, query.answers(at) - aim, slopes)
            self._network.pull(at, slopes)
            self._adam.step()

    def _split(self, values: np.ndarray) -> list[np.ndarray]:
        return [values[a:b] for a, b in zip(self._edges[:-1], self._edges[1:], strict=True)]
