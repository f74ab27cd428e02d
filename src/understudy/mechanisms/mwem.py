"""MWEM: multiplicative weights and the exponential mechanism, over the whole domain.

Hardt, Ligett and McSherry (2012), the baseline of the oracle-efficient papers, accounted in zCDP,
with three things that cost nothing: the 1-way marginals first, the whole marginal around a chosen
cell instead of the cell alone (its L2 sensitivity is that of two cells), and replays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import Played, play
from understudy.game.players.domain import DomainWeights
from understudy.game.players.measuring import (
    InTurn,
    MeasureAll,
    WorstFirst,
    check_choosable,
    one_way,
)
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism
from understudy.privacy import Meter
from understudy.runtime.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Mwem(Mechanism):
    """Data player: a weight for every record. Query player: worst query first, then measured.

    Attributes:
        rounds: how often to select and measure; ``None`` for as many as keep the noise of the
            selection below about one percent (at least 4, at most one per batch).
        replays: sweeps over all measurements after each round.
        first: share of the budget for the 1-way marginals.
        most_cells: the largest domain to enumerate.
    """

    rounds: int | None = None
    replays: int = 3
    first: Fraction = Fraction(1, 10)
    most_cells: int = 4_000_000

    name: ClassVar[str] = "mwem"
    summary: ClassVar[str] = (
        "selects and measures the worst answers; a weight for every record, so small domains only"
    )
    in_short: ClassVar[str] = "a weight for every record; small domains only"
    reference: ClassVar[str] = "Hardt, Ligett and McSherry, NIPS 2012"

    def check(self, brief: Brief) -> None:
        if brief.schema.domain_size > self.most_cells:
            raise NotSupported(
                "mwem keeps a weight for every possible record and this schema has"
                f" {brief.schema.domain_text} of them (at most {self.most_cells:,}); use fewer"
                " columns, wider bins, or the mechanism 'arp'."
            )
        check_choosable(self.name, brief.workload)
        if self.rounds is not None and (
            isinstance(self.rounds, bool)
            or not isinstance(self.rounds, int)
            or not 1 <= self.rounds <= 10_000
        ):
            raise ParameterError("mwem needs a whole number of rounds from 1 to 10,000.")
        if (
            isinstance(self.replays, bool)
            or not isinstance(self.replays, int)
            or not 1 <= self.replays <= 1000
            or not 0 < self.first < 1
        ):
            raise ParameterError(
                "mwem needs from 1 to 1,000 replays and a first share strictly between 0 and 1."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        # The selection's noise is about ln|Q| / kappa rows, kappa = sqrt(rho / rounds).
        seen = 0.01 * means.rows / math.log(brief.workload.size + 1)
        affordable = float(means.rho) * seen**2
        rounds = self.rounds or max(4, min(int(affordable), len(brief.workload)))
        return Decision.of(
            self,
            brief,
            means,
            how=f"{rounds} rounds of select and measure",
            numbers={"rounds": rounds},
            plan=rounds,
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief, rho, rounds = decision.brief, decision.means.rho, decision.plan
        # half of each round to SELECT, half to MEASURE
        each = rho * (1 - Fraction(self.first)) / (2 * rounds)
        query = InTurn(
            MeasureAll(meter, one_way(brief.schema), rho=rho * Fraction(self.first)),
            WorstFirst(meter, list(brief.workload), select=each, measure=each),
        )
        data = DomainWeights(brief.schema, rows=decision.means.rows, replays=self.replays)
        return play(data, query, rounds=1 + rounds, watcher=watcher, schema=brief.schema)
