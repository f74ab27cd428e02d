"""The matrix mechanism for marginals: measure residuals once, with the noise that is best for the workload, and add them up.

Xiao, He, Zhang and Kifer (2023), ResidualPlanner, with exact discrete noise and the joint price of PROOFS.md, M8. Every marginal of
the workload is answered without bias, all agree with each other, and the noise of each is known before a row is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.game import DataPlayer, Played, Watcher, play
from understudy.mechanisms.base import Brief, Mechanism
from understudy.players.domain import DomainWeights
from understudy.players.measuring import one_way
from understudy.players.product import Product
from understudy.players.residuals import FromResiduals, MeasureResiduals
from understudy.privacy import Meter
from understudy.queries.marginal import Marginal
from understudy.queries.workload import Workload
from understudy.synthesis.residuals import Objective, closure, plan
from understudy.tally import DENSE_CELLS

MOST_CELLS = 1 << 26  # of all residuals together: half a gigabyte of counts
MOST_RECORDS = 4_000_000  # up to so many, rows come from a weight for every record
REPLAYS = 10


@dataclass(frozen=True, kw_only=True)
class Matrix(Mechanism):
    """Data player: fits rows to reconstructed tables. Query player: every residual below the workload, measured once.

    Attributes:
        objective: ``total`` for the least sum of variances over all cells of the workload, ``largest`` for
            the least largest variance.
    """

    objective: Objective = "total"

    name: ClassVar[str] = "matrix"
    summary: ClassVar[str] = "all marginals of the workload measured together with the best split of the budget; known error bars"
    reference: ClassVar[str] = "Xiao, He, Zhang and Kifer, NeurIPS 2023"

    def check(self, brief: Brief) -> None:
        if self.objective not in get_args(Objective):
            raise ParameterError(f"matrix has the objectives {' and '.join(get_args(Objective))}; {self.objective!r} is none of them.")
        wanted = tables_for(brief.workload)
        widest = max(part.size for part in wanted)
        if widest > DENSE_CELLS:
            raise NotSupported(
                f"matrix measures whole marginals and one of this workload has {widest:,} cells (at most {DENSE_CELLS:,}); "
                "ask for fewer columns at a time or wider bins."
            )
        cells = sum(part.size for part in closure(wanted))
        if cells > MOST_CELLS:
            raise NotSupported(f"matrix would measure {cells:,} cells (at most {MOST_CELLS:,}); ask for fewer marginals or wider bins.")

    def play(self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher) -> Played:
        wanted = tables_for(brief.workload)
        made = plan(wanted, rho=meter.left, neighbours=brief.neighbours, objective=self.objective, total_sigma=meter.rows_sigma)
        data = FromResiduals(_fitter(brief, meter.rows), wanted, rows=meter.rows, rows_sigma=meter.rows_sigma)
        return play(data, MeasureResiduals(meter, made), rounds=1, watcher=watcher)


def tables_for(workload: Workload) -> list[Marginal]:
    """The tables that answer a workload: its marginals, the columns of each other query, and every column that none of them has."""
    shape = workload.schema.shape
    sets = [part.columns for part in workload.marginals]
    sets += [part.around(i).columns for part in workload if not isinstance(part, Marginal) for i in range(part.size)]
    seen = {column for columns in sets for column in columns}
    sets += [part.columns for part in one_way(workload.schema) if part.columns[0] not in seen]
    return [Marginal(columns, tuple(shape[c] for c in columns)) for columns in dict.fromkeys(sets)]


def _fitter(brief: Brief, rows: int) -> DataPlayer:
    """Who makes rows from noisy tables: any data player that learns from measurements fits in here."""
    if brief.schema.domain_size <= MOST_RECORDS:
        return DomainWeights(brief.schema, rows=rows, replays=REPLAYS)
    return Product(brief.schema)
