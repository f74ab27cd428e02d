"""The relaxed projection mechanism: everything measured at once, then relaxed rows fitted to it.

The case T = 1 of Aydore et al. (2021, Algorithm 2), a relaxation of Nikolov, Talwar and Zhang
(2013). The paper pays for every cell by itself, m/(2 rho) as the variance; a whole marginal has one
L2 sensitivity, so M of them cost M/rho (replace-one) with the same rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported
from understudy.game.loop import Played, play
from understudy.game.players.measuring import MeasureAll
from understudy.game.players.relaxed import Fit, RelaxedRows
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, cost_of_measuring
from understudy.privacy import Meter
from understudy.runtime.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Projection(Mechanism):
    """Data player: relaxed rows. Query player: the whole workload at once.

    Attributes:
        relaxed_rows: how many rows to fit.
        parameterisation: ``softmax`` or ``sparsemax``.
        rate: Adam's learning rate; ``None`` for 0.3 with softmax, 0.03 with sparsemax: there is one
            fit, from a cold start.
        steps: most Adam steps, each on at most half a million answers.
        most_queries: the largest workload to fit whole.
    """

    relaxed_rows: int = 300
    parameterisation: str = "softmax"
    rate: float | None = None
    steps: int = 450
    most_queries: int = 20_000_000

    name: ClassVar[str] = "projection"
    summary: ClassVar[str] = (
        "the whole workload measured once, relaxed rows fitted to it; large domains, any queries"
    )
    in_short: ClassVar[str] = "relaxed rows fitted to the whole workload"
    can_be_gaussian: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Aydore et al., ICML 2021, Algorithm 2 with T = 1; Nikolov, Talwar and Zhang, STOC 2013"
    )

    def check(self, brief: Brief) -> None:
        self._fit.check(self.name, brief.workload)
        if brief.workload.size > self.most_queries:
            raise NotSupported(
                "projection fits every answer of the workload and this one has"
                f" {brief.workload.size:,} (at most {self.most_queries:,}); use fewer or smaller"
                " marginals, or the mechanism 'rap'."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        moved = sum(batch.l2_squared(brief.neighbours) for batch in brief.workload)
        sigma = math.sqrt(moved / (2 * float(means.rho)))
        batches = len(brief.workload)
        return Decision.of(
            self,
            brief,
            means,
            how=f"{batches} batches measured at once, {self.relaxed_rows} relaxed rows fitted",
            numbers={"batches": batches, "sigma": sigma, "rate": self._fit.pace},
            cost=cost_of_measuring(brief.neighbours, (list(brief.workload), means.rho, None)),
            model_numbers=self.relaxed_rows * sum(brief.schema.shape),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief, means = decision.brief, decision.means
        query = MeasureAll(meter, list(brief.workload), rho=means.rho)
        data = RelaxedRows(brief.schema, self._fit, rows=means.rows, rng=rng, watcher=watcher)
        return play(data, query, rounds=1, watcher=watcher, schema=brief.schema)

    @property
    def _fit(self) -> Fit:
        return Fit(
            relaxed_rows=self.relaxed_rows,
            parameterisation=self.parameterisation,
            rate=self.rate,
            steps=self.steps,
            haste=3,
        )
