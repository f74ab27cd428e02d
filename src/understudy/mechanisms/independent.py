"""Independent columns: every 1-way marginal measured once, rows drawn from their product.

The baseline that assumes nothing and misses every dependence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.game.loop import Played, play
from understudy.game.players.measuring import MeasureAll, one_way
from understudy.game.players.product import Product
from understudy.mechanisms.base import Brief, Mechanism
from understudy.privacy import Meter
from understudy.runtime.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """Data player: product of 1-way marginals. Query player: measures all of them at once."""

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = (
        "1-way marginals only; any table, any size; no dependence between columns"
    )
    in_short: ClassVar[str] = "1-way marginals only; any table of any size"
    reference: ClassVar[str] = (
        "folklore; discrete Gaussian noise of Canonne, Kamath and Steinke (2020)"
    )

    def check(self, brief: Brief) -> None:
        """Serves every table and every workload."""

    def play(
        self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        query = MeasureAll(meter, one_way(brief.schema), rho=meter.left)
        return play(
            Product(brief.schema, meter.rows), query, rounds=1, watcher=watcher, schema=brief.schema
        )
