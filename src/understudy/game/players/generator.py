"""A data player that fits a generator network to noisy answers. It sees released values and public
randomness, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from understudy.game.fitting.mixture import Mixture
from understudy.game.loop import Finding
from understudy.game.players.network import Network
from understudy.game.players.relaxed import ENOUGH, Target
from understudy.privacy import Measurement
from understudy.queries.relaxed import relaxed
from understudy.schema import Schema

# A loss has settled that has not fallen, in so many steps, by this share of what it is above that
# of the truth: about one for every answer, which in millions of nearly empty cells is nearly all of
# it.
PROGRESS, PATIENCE = 5e-3, 20
MANY_STEPS = 8  # times as many, at most, for tables that come together
# times as many in the first round: a network starts far from every table, and single columns are
# quickly answered
FIRST_STEPS = 4


class FittedGenerator:
    """Fits the network to every measurement so far, after each round, from where it stood: squared
    error over noise variance, by Adam.

    Args:
        schema: the columns.
        network: the generator, not yet trained.
        rows: how many rows the sensitive table has, or is said to have.
        rate: Adam's learning rate.
        steps: most Adam steps a round.
    """

    def __init__(
        self, schema: Schema, network: Network, *, rows: int, rate: float, steps: int
    ) -> None:
        self._schema, self._network, self._rows, self._steps = schema, network, rows, steps
        # one for all rounds: begun anew, its first steps are the longest and undo what was fitted
        self._adam = network.adam(rate)
        self._targets: list[Target] = []
        self.taken = 0  # steps so far

    def propose(self) -> Mixture:
        return Mixture(self._schema, self._network.chances())

    def learn(self, findings: Sequence[Finding]) -> None:
        steps = self._steps * (min(len(findings), MANY_STEPS) if self._targets else FIRST_STEPS)
        for finding in findings:
            if isinstance(finding, Measurement):
                shares = (finding.counts / self._rows).astype(np.float32)
                self._targets.append(
                    Target(
                        finding.batch,
                        relaxed(finding.batch),
                        shares,
                        (self._rows / float(finding.sigma)) ** 2,
                    )
                )
        self._fit(steps)

    def result(self) -> Mixture:
        return self.propose()

    def _fit(self, steps: int) -> None:
        """Steps until the noise is reached or nothing improves; the best network seen is kept."""
        answers = sum(target.batch.size for target in self._targets)
        best, parameters, settled = math.inf, self._network.parameters.copy(), 0
        for _ in range(steps):
            at = self._network.chances()
            slopes = np.zeros_like(at.values)
            loss = sum(target.loss(at, slopes) for target in self._targets)
            excess = max(best - answers, 0.0) + math.sqrt(2 * answers)
            settled = 0 if loss < best - PROGRESS * excess or math.isinf(best) else settled + 1
            if loss < best:
                best, parameters = loss, self._network.parameters.copy()
            if best <= ENOUGH * answers or settled >= PATIENCE:
                break
            self._adam.step(self._network.pull(at, slopes))
            self.taken += 1
        self._network.parameters[:] = parameters
