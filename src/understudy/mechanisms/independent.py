"""Independent columns: every 1-way marginal measured once, rows drawn from their product.

The baseline that assumes nothing and misses every dependence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.game.loop import Played, play
from understudy.game.players.measuring import MeasureAll, one_way
from understudy.game.players.product import Product
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, cost_of_measuring
from understudy.privacy import Meter
from understudy.runtime.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """Data player: product of 1-way marginals. Query player: measures all of them at once.

    Attributes:
        supported: release only those categories whose noisy count stands out of its noise.
    """

    supported: bool = False

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = (
        "1-way marginals only; any table, any size; no dependence between columns"
    )
    in_short: ClassVar[str] = "1-way marginals only; any table of any size"
    can_be_gaussian: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "folklore; discrete Gaussian noise of Canonne, Kamath and Steinke (2020)"
    )

    def check(self, brief: Brief) -> None:
        """Serves every table and every workload."""

    def decide(self, brief: Brief, means: Means) -> Decision:
        ones = one_way(brief.schema)
        moved = sum(batch.l2_squared(brief.neighbours) for batch in ones)
        return Decision.of(
            self,
            brief,
            means,
            how=f"{len(ones)} columns measured at once",
            numbers={"tables": len(ones), "sigma": math.sqrt(moved / (2 * float(means.rho)))},
            cost=cost_of_measuring(brief.neighbours, (ones, means.rho, None)),
            plan=ones,
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, rows = decision.brief.schema, decision.means.rows
        query = MeasureAll(meter, decision.plan, rho=decision.means.rho)
        data = Product(schema, rows, supported=self.supported)
        return play(data, query, rounds=1, watcher=watcher, schema=schema)
