"""Gaussian: every marginal of the workload measured at once, rows fitted to all of them.

The baseline that everything else must beat: a whole marginal costs one L2 sensitivity however many
cells it has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.game.fitting.evidence import check_fitted, with_sums
from understudy.game.loop import Played, play
from understudy.game.players.measuring import InTurn, MeasureAll, one_way
from understudy.game.players.rows import RowPlayer, check_width, refits, seconds_a_row
from understudy.mechanisms.base import Brief, Mechanism, Outlook, check_share
from understudy.privacy import Meter
from understudy.queries.base import QueryClass
from understudy.runtime.watching import Watcher

SWEEPS = 3


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Data player: rows. Query player: measures the 1-way marginals and the whole workload.

    Attributes:
        first: share of the budget for the 1-way marginals.
    """

    first: Fraction = Fraction(1, 10)

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = (
        "measures the whole workload once, rows fitted to it; the baseline for small workloads"
    )
    in_short: ClassVar[str] = "the whole workload measured once; the baseline"
    reference: ClassVar[str] = "folklore; row projection is Understudy's own"

    def check(self, brief: Brief) -> None:
        check_share(self.name, first=self.first)
        check_width(self.name, brief.schema)
        check_fitted(self.name, brief.workload)

    def outlook(self, brief: Brief, rho: Fraction, people: int) -> Outlook:
        ones, wider = one_way(brief.schema), _wider(brief)
        tables: Sequence[QueryClass]
        tables, share = (wider, 1 - Fraction(self.first)) if wider else (ones, Fraction(1))
        sigma = math.sqrt(
            sum(part.l2_squared(brief.neighbours) for part in tables) / (2 * float(rho * share))
        )
        cells = sum(part.size for part in tables)
        return Outlook(
            how=f"{len(tables)} tables measured at once",
            sigma=sigma,
            tables=len(tables),
            cells=cells,
            drawn=cells,
            rounds=0,
            sweep=seconds_a_row(
                with_sums([table for part in tables if (table := part.as_table()) is not None])
            ),
            sweeps=refits(tables, SWEEPS),
        )

    def play(
        self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        rho, ones, wider = meter.left, one_way(brief.schema), _wider(brief)
        first = rho * Fraction(self.first) if wider else rho
        query = InTurn(
            MeasureAll(meter, ones, rho=first), MeasureAll(meter, wider, rho=rho - first)
        )
        data = RowPlayer(brief.schema, people=meter.rows, rng=rng, sweeps=SWEEPS, watcher=watcher)
        return play(data, query, rounds=2, watcher=watcher, schema=brief.schema)


def _wider(brief: Brief) -> list[QueryClass]:
    ones = one_way(brief.schema)
    return [part for part in brief.workload if part not in ones]
