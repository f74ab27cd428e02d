"""A data player whose generator network follows the leader: it is trained on all queries chosen so
far, and never sees a count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from understudy.game.fitting.mixture import Mixture
from understudy.game.loop import Finding
from understudy.game.players.measuring import single
from understudy.game.players.network import Network
from understudy.privacy import Choice
from understudy.queries.literals import Query
from understudy.queries.relaxed import Chances, relaxed
from understudy.queries.symmetric import Symmetric
from understudy.schema import Schema

# the default first: the paper's own two collapse to one record on ADULT
LEADERS = ("regularised", "follow", "perturbed")
# of all rows: how far the first choice moves its query's answer; the t-th moves it by this over the
# root of t
FIRST_PUSH = 0.4
GAMMA = 1e-4  # mean of the perturbation of a parameter


class LeadingGenerator:
    """After each choice, some Adam steps on all choices so far, from where the network stood.

    With s = 1 for a query and -1 for a negation, and phi the parameters, the network goes toward
    the least of

        follow       - sum over choices of s q(phi)
        perturbed    the same, and gamma . phi with a fresh exponential gamma each round
        regularised  - sum over choices of eta s q(phi) + half the squares, over the queries chosen, of q(phi) - q(when first chosen)

    The first two are the paper's. A sum that is linear in the rows is best served by a single
    record, and following it did badly on ADULT (docs/decisions.md). In the third every choice moves
    its query's answer by eta, which falls with the root of the round; it is the default.

    Args:
        schema: the columns.
        network: the generator before anything is known, phi_0.
        leader: one of LEADERS.
        rate: Adam's learning rate.
        steps: Adam steps a round.
        last: the share of the generators, the last ones, that are mixed in the end.
        rng: public randomness for gamma.
    """

    def __init__(
        self,
        schema: Schema,
        network: Network,
        *,
        leader: str,
        rate: float,
        steps: int,
        last: Fraction | float,
        rng: np.random.Generator,
    ) -> None:
        self._schema, self._network, self._leader, self._rng = schema, network, leader, rng
        self._steps, self._last, self._adam = steps, last, network.adam(rate)
        # of each query chosen: how often, less how often its negation
        self._signs: dict[Query, int] = {}
        self._aims: dict[Query, float] = {}  # where the choices have pushed its answer
        self._generators: list[Chances] = []

    def propose(self) -> Mixture:
        self._generators.append(self._network.chances())
        return Mixture(self._schema, self._generators[-1])

    def learn(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if isinstance(finding, Choice):
                self._add(single(finding), finding.sign)
        queries = relaxed(Symmetric(tuple(self._signs)))
        signs = np.asarray([*self._signs.values()], np.float32)
        aims = np.asarray([*self._aims.values()], np.float32)
        gamma = (
            self._network.exponential(GAMMA, self._rng)
            if self._leader == "perturbed"
            else np.float32(0)
        )
        for _ in range(self._steps):
            at = self._network.chances()
            slopes = np.zeros_like(at.values)
            queries.pull(
                at, queries.answers(at) - aims if self._leader == "regularised" else -signs, slopes
            )
            self._adam.step(self._network.pull(at, slopes) + gamma)

    def result(self) -> Mixture:
        """The uniform mixture of the generators; the last of them has learnt from every choice."""
        self.propose()
        generators = self._generators[-math.ceil(len(self._generators) * self._last) :]
        return Mixture(
            self._schema,
            Chances(
                np.concatenate([one.values for one in generators], axis=1), generators[0].starts
            ),
        )

    def _add(self, query: Query, sign: int) -> None:
        at = self._generators[-1]
        aim = self._aims.get(query, float(relaxed(Symmetric((query,))).answers(at)[0]))
        self._aims[query] = min(
            1.0, max(0.0, aim + sign * FIRST_PUSH / math.sqrt(len(self._generators)))
        )
        self._signs[query] = self._signs.get(query, 0) + sign
