"""The matrix mechanism for marginals: measure residuals once, with the noise that is best for the
workload, and add them up.

Xiao, He, Zhang and Kifer (2023), ResidualPlanner, with exact discrete noise and the joint price of
privacy/proofs/residuals, M8. Every marginal of the workload is answered without bias, all agree with each other,
and the noise of each is known before a row is read. Single columns are planned for as well: rows
cannot be better than their columns, and a workload of wide tables alone would starve them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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
from understudy.mechanisms.base import Brief, Mechanism, Outlook
from understudy.privacy import Meter
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.workload import Workload
from understudy.runtime.watching import Watcher

SWEEPS = 3
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
    reference: ClassVar[str] = "Xiao, He, Zhang and Kifer, NeurIPS 2023"

    def check(self, brief: Brief) -> None:
        if self.objective not in get_args(Objective):
            raise ParameterError(
                f"matrix has the objectives {' and '.join(get_args(Objective))}; {self.objective!r}"
                " is none of them."
            )
        check_width(self.name, brief.schema)
        wanted = tables_for(brief.workload)
        widest = max(part.size for part in wanted)
        if widest > DENSE_CELLS:
            raise NotSupported(
                f"matrix measures whole marginals and one of this workload has {widest:,} cells (at"
                f" most {DENSE_CELLS:,}); ask for fewer columns at a time or wider bins."
            )
        cells = sum(part.size for part in closure(wanted))
        if cells > MOST_CELLS:
            raise NotSupported(
                f"matrix would measure {cells:,} cells (at most {MOST_CELLS:,}); ask for fewer"
                " marginals or wider bins."
            )

    def outlook(self, brief: Brief, rho: Fraction, people: int) -> Outlook:
        """The noise of the worst table of the workload, exactly as planned."""
        wanted = tables_for(brief.workload)
        # Under add-remove-one the number of rows was bought before, with about a fiftieth of what
        # there was.
        total = (
            Fraction(0)
            if brief.neighbours is Neighbours.REPLACE_ONE
            else Fraction(math.ceil(math.sqrt(25 / rho)))
        )
        made = plan(
            wanted,
            rho=rho,
            neighbours=brief.neighbours,
            objective=self.objective,
            total_sigma=total,
        )
        cells = sum(part.size for part in made.parts)
        return Outlook(
            how=f"{len(made.parts)} residuals measured at once",
            sigma=float(made.errors.max()),
            tables=len(made.parts),
            cells=cells,
            drawn=cells,
            rounds=0,
            sweep=seconds_a_row(fitted_to(wanted)),
            sweeps=refits(wanted, SWEEPS),
        )

    def play(
        self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        wanted = tables_for(brief.workload)
        made = plan(
            wanted,
            rho=meter.left,
            neighbours=brief.neighbours,
            objective=self.objective,
            total_sigma=meter.rows_sigma,
        )
        rows = RowPlayer(
            brief.schema, people=meter.rows, rng=rng, sweeps=SWEEPS, sums_up_to=0, watcher=watcher
        )
        data = FromResiduals(rows, fitted_to(wanted), rows=meter.rows, rows_sigma=meter.rows_sigma)
        return play(
            data, MeasureResiduals(meter, made), rounds=1, watcher=watcher, schema=brief.schema
        )


def tables_for(workload: Workload) -> list[Marginal]:
    """The tables to plan for: the marginals of a workload, the columns of each other query, and
    every single column.
    """
    shape = workload.schema.shape
    sets = [part.columns for part in workload.marginals]
    sets += [
        part.around(i).columns
        for part in workload
        if part.as_table() is None
        for i in range(part.size)
    ]
    sets += [part.columns for part in one_way(workload.schema)]
    return [Marginal(columns, tuple(shape[c] for c in columns)) for columns in dict.fromkeys(sets)]


def fitted_to(wanted: Sequence[Marginal]) -> list[Marginal]:
    """The tables that rows are fitted to: the wanted ones and all small ones below them, each with
    its own noise.

    What cells that are each below their noise say together is in the small ones.
    """
    small = [part for part in closure(wanted) if len(part.positions) <= SUMS_UP_TO]
    # one cell is the number of rows, which is known
    return [part for part in dict.fromkeys([*small, *wanted]) if part.size > 1]
