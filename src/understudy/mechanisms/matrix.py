"""The matrix mechanism for marginals: measure residuals once, with the noise that is best for the
workload, and add them up.

Xiao, He, Zhang and Kifer (2023), ResidualPlanner, with exact discrete noise and the joint price of
privacy/proofs/residuals, M8. Every marginal of the workload is answered without bias, all agree with each other,
and the noise of each is known before a row is read. Single columns are planned for as well: rows
cannot be better than their columns, and a workload of wide tables alone would starve them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from understudy.counting.tally import DENSE_CELLS
from understudy.errors import NotSupported, ParameterError
from understudy.game.fitting.evidence import SUMS_UP_TO
from understudy.game.fitting.reconstruction import Objective, closure, plan
from understudy.game.loop import Played, play
from understudy.game.players.from_residuals import FromResiduals, MeasureResiduals
from understudy.game.players.measuring import one_way
from understudy.game.players.rows import RowPlayer, check_width, refits, seconds_a_row
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, Outlook
from understudy.privacy import Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.marginal import Marginal
from understudy.queries.workload import Workload
from understudy.runtime.watching import Watcher

SWEEPS = 3  # as arp's, when it measures at once
MOST_CELLS = 1 << 26  # of all residuals together: half a gigabyte of counts


@dataclass(frozen=True, kw_only=True)
class Matrix(Mechanism):
    """Data player: rows, fitted to reconstructed tables. Query player: every residual below the
    workload, measured once.

    Attributes:
        objective: ``largest`` for the least largest variance of any table, ``total`` for the least
            sum of variances over all cells, which are mostly those of the widest tables.
    """

    objective: Objective = "largest"

    name: ClassVar[str] = "matrix"
    summary: ClassVar[str] = (
        "all marginals of the workload measured together with the best split of the budget; known"
        " error bars"
    )
    in_short: ClassVar[str] = "all marginals at once; known error bars"
    can_be_gaussian: ClassVar[bool] = True
    reference: ClassVar[str] = "Xiao, He, Zhang and Kifer, NeurIPS 2023"

    def check(self, brief: Brief) -> None:
        if self.objective not in get_args(Objective):
            raise ParameterError(
                f"matrix has the objectives {' and '.join(get_args(Objective))}; {self.objective!r}"
                " is none of them."
            )
        check_width(self.name, brief.schema)
        wanted = tables_for(brief.workload)
        widest = max(batch.size for batch in wanted)
        if widest > DENSE_CELLS:
            raise NotSupported(
                f"matrix measures whole marginals and one of this workload has {widest:,} cells (at"
                f" most {DENSE_CELLS:,}); ask for fewer columns at a time or wider bins."
            )
        cells = sum(batch.size for batch in closure(wanted))
        if cells > MOST_CELLS:
            raise NotSupported(
                f"matrix would measure {cells:,} cells (at most {MOST_CELLS:,}); ask for fewer"
                " marginals or wider bins."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        """The noise of the worst table of the workload is known exactly."""
        wanted = tables_for(brief.workload)
        split = plan(
            wanted,
            rho=means.rho,
            neighbours=brief.neighbours,
            objective=self.objective,
            total_sigma=means.rows_sigma,
        )
        cells, sigma = sum(batch.size for batch in split.batches), float(split.errors.max())
        outlook = Outlook(
            sigma=sigma,
            tables=len(split.batches),
            cells=cells,
            noisy_cells=cells,
            rounds=0,
            sweep=seconds_a_row(fitted_to(wanted)),
            sweeps=refits(wanted, SWEEPS),
        )
        return Decision.of(
            self,
            brief,
            means,
            how=f"{len(split.batches)} residuals measured at once",
            numbers={"residuals": len(split.batches), "tables": len(wanted), "sigma": sigma},
            cost=Cost(means.rho, least_variance=min((s**2 for s in split.sigmas), default=None)),
            plan=split,
            outlook=outlook,
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, means, split = decision.brief.schema, decision.means, decision.plan
        rows = RowPlayer(
            schema, n=means.rows, rng=rng, sweeps=SWEEPS, sums_up_to=0, watcher=watcher
        )
        data = FromResiduals(
            rows, fitted_to(split.wanted), rows=means.rows, rows_sigma=means.rows_sigma
        )
        return play(data, MeasureResiduals(meter, split), rounds=1, watcher=watcher, schema=schema)


def tables_for(workload: Workload) -> list[Marginal]:
    """The tables to plan for: the marginals of a workload, the columns of each other query, and
    every single column.
    """
    shape = workload.schema.shape
    sets = [batch.columns for batch in workload.marginals]
    sets += [
        batch.around(i).columns
        for batch in workload
        if batch.as_table() is None
        for i in range(batch.size)
    ]
    sets += [batch.columns for batch in one_way(workload.schema)]
    return [Marginal(columns, tuple(shape[c] for c in columns)) for columns in dict.fromkeys(sets)]


def fitted_to(wanted: Sequence[Marginal]) -> list[Marginal]:
    """The tables that rows are fitted to: the wanted ones and all small ones below them, each with
    its own noise.

    What cells that are each below their noise say together is in the small ones.
    """
    small = [batch for batch in closure(wanted) if len(batch.positions) <= SUMS_UP_TO]
    # one cell is the number of rows, which is known
    return [batch for batch in dict.fromkeys([*small, *wanted]) if batch.size > 1]
