"""Gaussian: every marginal of the workload measured at once, rows fitted to all of them.

The baseline that everything else must beat: a whole marginal costs one L2 sensitivity however many
cells it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.game.fitting.evidence import check_fitted, with_sums
from understudy.game.loop import Played, play
from understudy.game.players.measuring import InTurn, MeasureAll, one_way
from understudy.game.players.rows import RowPlayer, check_width, refits, seconds_a_row
from understudy.mechanisms.base import (
    Brief,
    Decision,
    Means,
    Mechanism,
    Outlook,
    check_share,
    cost_of_measuring,
)
from understudy.privacy import Meter
from understudy.queries.base import QueryClass
from understudy.runtime.watching import Watcher

SWEEPS = 3  # as arp's, when it measures at once


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Data player: rows. Query player: measures the 1-way marginals and the whole workload.

    Attributes:
        first: share of the budget for the 1-way marginals.
        supported: release only those categories whose noisy count stands out of its noise.
    """

    first: Fraction = Fraction(1, 10)
    supported: bool = False

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = (
        "measures the whole workload once, rows fitted to it; the baseline for small workloads"
    )
    in_short: ClassVar[str] = "the whole workload measured once; the baseline"
    can_be_gaussian: ClassVar[bool] = True
    reference: ClassVar[str] = "folklore; row projection is Understudy's own"

    def check(self, brief: Brief) -> None:
        check_share(self.name, first=self.first)
        check_width(self.name, brief.schema)
        check_fitted(self.name, brief.workload)

    def decide(self, brief: Brief, means: Means) -> Decision:
        ones = one_way(brief.schema)
        wider = [batch for batch in brief.workload if batch not in ones]
        tables: list[QueryClass] = wider or list(ones)
        first = means.rho * Fraction(self.first) if wider else means.rho
        spent = means.rho - first if wider else means.rho
        moved = sum(batch.l2_squared(brief.neighbours) for batch in tables)
        sigma = math.sqrt(moved / (2 * float(spent)))
        cells = sum(batch.size for batch in tables)
        outlook = Outlook(
            sigma=sigma,
            tables=len(tables),
            cells=cells,
            noisy_cells=cells,
            rounds=0,
            sweep=seconds_a_row(
                with_sums([table for batch in tables if (table := batch.as_table()) is not None])
            ),
            sweeps=refits(tables, SWEEPS),
        )
        return Decision.of(
            self,
            brief,
            means,
            how=f"{len(tables)} tables measured at once",
            numbers={
                "first": self.first if wider else 1,
                "tables": len(tables),
                "sigma": sigma,
            },
            cost=cost_of_measuring(
                brief.neighbours, (ones, first, None), (wider, means.rho - first, None)
            ),
            plan=(ones, wider, first),
            outlook=outlook,
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, means = decision.brief.schema, decision.means
        ones, wider, first = decision.plan
        query = InTurn(
            MeasureAll(meter, ones, rho=first), MeasureAll(meter, wider, rho=means.rho - first)
        )
        data = RowPlayer(
            schema,
            n=means.rows,
            rng=rng,
            sweeps=SWEEPS,
            supported=self.supported,
            watcher=watcher,
        )
        return play(data, query, rounds=2, watcher=watcher, schema=schema)
