"""RAP: relaxed adaptive projection.

Aydore, Brown, Kearns, Kenthapadi, Melis, Roth and Siva (2021), Algorithm 2. In each round, the K
queries of the workload (every cell of a marginal is one) on which the relaxed rows are most wrong
are selected together and each is measured; then the rows are fitted to everything measured so far.
Half of a round's budget selects and half measures, rho/(2TK) for each query. The Gumbel scale that
the paper prints is sqrt(n) too large; the meter draws at the scale that the charge allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import Played, play
from understudy.game.players.measuring import WorstSeveral
from understudy.game.players.relaxed import Fit, RelaxedRows
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism
from understudy.privacy import Meter
from understudy.runtime.watching import Watcher

# queries chosen together are often alike; more rounds than this gain little on ADULT
USUAL_ROUNDS = 20


@dataclass(frozen=True, kw_only=True)
class Rap(Mechanism):
    """Data player: relaxed rows. Query player: several worst queries at a time, each measured.

    Attributes:
        rounds: T, how often to select and measure; ``None`` for 20, or fewer when there is little
            to choose.
        queries_per_round: K, measured in each; ``None`` for a public rule: more with rows and
            budget, fewer with queries.
        relaxed_rows: n', how many rows to fit; the paper's 1000 is slower and no better.
        parameterisation: ``softmax``, or the paper's ``sparsemax``.
        rate: Adam's learning rate; ``None`` for 0.1 with softmax, 0.01 with sparsemax.
        steps: most Adam steps a round.
        most_queries: the largest workload to answer in every round.
    """

    rounds: int | None = None
    queries_per_round: int | None = None
    relaxed_rows: int = 200
    parameterisation: str = "softmax"
    rate: float | None = None
    steps: int = 300
    most_queries: int = 20_000_000

    name: ClassVar[str] = "rap"
    summary: ClassVar[str] = (
        "selects and measures the worst single queries, fits relaxed rows to them; large domains,"
        " any queries"
    )
    in_short: ClassVar[str] = "relaxed rows fitted to the worst single queries"
    reference: ClassVar[str] = "Aydore et al., ICML 2021, Algorithm 2"

    def check(self, brief: Brief) -> None:
        self._fit.check(self.name, brief.workload)
        for value, most, what in (
            (self.rounds, 10_000, "rounds"),
            (self.queries_per_round, 100_000, "queries_per_round"),
        ):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most
            ):
                raise ParameterError(f"rap needs {what} to be a whole number from 1 to {most:,}.")
        size = brief.workload.size
        if (self.queries_per_round or 1) > size:
            raise ParameterError(
                f"rap cannot choose {self.queries_per_round:,} queries a round: this workload has"
                f" {size:,}."
            )
        if size > self.most_queries:
            raise NotSupported(
                f"rap answers the whole workload in every round and this one has {size:,} queries"
                f" (at most {self.most_queries:,}); use fewer or smaller marginals."
            )
        if any(batch.query(0) is None for batch in brief.workload):
            raise NotSupported(
                "rap measures single queries, which not all classes of this workload can be taken"
                " apart into."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        rounds, queries = self._rounds(means.rho, means.rows, brief.workload.size)
        return Decision.of(
            self,
            brief,
            means,
            how=f"{rounds} rounds, {queries} queries selected and measured in each",
            numbers={"rounds": rounds, "queries_per_round": queries, "rate": self._fit.pace},
            plan=(rounds, queries),
            model_numbers=self.relaxed_rows * sum(brief.schema.shape),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief, means = decision.brief, decision.means
        rounds, queries = decision.plan
        half = means.rho / (2 * rounds)
        query = WorstSeveral(
            meter, list(brief.workload), queries=queries, select=half, measure=half
        )
        data = RelaxedRows(brief.schema, self._fit, rows=means.rows, rng=rng)
        return play(data, query, rounds=rounds, watcher=watcher, schema=brief.schema)

    @property
    def _fit(self) -> Fit:
        return Fit(
            relaxed_rows=self.relaxed_rows,
            parameterisation=self.parameterisation,
            rate=self.rate,
            steps=self.steps,
        )

    def _rounds(self, rho: Fraction, rows: int, queries: int) -> tuple[int, int]:
        """(T, K) from public numbers.

        The noise of selection and of measurement is about ln|Q| * sqrt(TK / rho) rows, and what is
        left unmeasured falls about as 1/TK at first; so TK grows with sqrt(rho) * n / ln|Q|. The
        factor one half is from ADULT, a public table.
        """
        total = min(queries, max(4, round(math.sqrt(rho) * rows / math.log(queries + 2) / 2)))
        each = self.queries_per_round or min(
            queries, max(1, round(total / (self.rounds or USUAL_ROUNDS)))
        )
        return self.rounds or max(1, min(USUAL_ROUNDS, total // each)), each
