"""The matrix mechanism for marginals: measure residuals once, with the noise that is best for the
workload, and add them up.

Xiao, He, Zhang and Kifer (2023), ResidualPlanner, with exact discrete noise and the joint price of
privacy/proofs/residuals, M8. Every marginal of the workload is answered without bias, all agree with each other,
and the noise of each is known before a row is read. Single columns are planned for as well: rows
cannot be better than their columns, and a workload of wide tables alone would starve them.

Ranges have a basis of their own, as in ResidualPlanner+: their columns are measured in bins of 2, 4,
8 ... neighbours (``game/fitting/halving.py``), so that a range is a few bins and not many cells.
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
from understudy.game.fitting.halving import (
    HalvingPlan,
    all_depths,
    depth_of,
    plan_halvings,
    table_of,
)
from understudy.game.fitting.reconstruction import Objective, Plan, closure, plan
from understudy.game.loop import DataPlayer, Played, QueryPlayer, play
from understudy.game.players.from_residuals import FromHalvings, FromResiduals, MeasureResiduals
from understudy.game.players.measuring import MeasureAll, Together, one_way
from understudy.game.players.rows import RowPlayer, check_width, refits, seconds_a_row
from understudy.mechanisms.base import (
    Brief,
    Decision,
    Means,
    Mechanism,
    Outlook,
    cost_of_measuring,
)
from understudy.privacy import Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.base import Boxes
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal
from understudy.queries.workload import Workload
from understudy.runtime.watching import Watcher

SWEEPS = 3  # as arp's, when it measures at once
SHARES = 1 << 20  # the share of rho for ranges is a fraction with at most this below its line
# of rho at least, for tables and for ranges, however little the others need
LEAST_SHARE = Fraction(1, 100)
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
        wanted, asked = tables_for(brief.workload), ranges_for(brief.workload)
        whole = [*wanted, *(_whole(boxes, brief.schema.shape) for boxes in asked)]
        widest = max(batch.size for batch in whole)
        if widest > DENSE_CELLS:
            raise NotSupported(
                f"matrix measures whole marginals and one of this workload has {widest:,} cells (at"
                f" most {DENSE_CELLS:,}); ask for fewer columns at a time or wider bins."
            )
        sizes = dict(enumerate(brief.schema.shape))
        halved = all_depths([boxes.positions for boxes in asked], sizes)
        cells = sum(batch.size for batch in closure(wanted)) + sum(
            table_of(depths, sizes).size for depths in halved
        )
        if cells > MOST_CELLS:
            raise NotSupported(
                f"matrix would measure {cells:,} cells (at most {MOST_CELLS:,}); ask for fewer"
                " marginals or wider bins."
            )

    def serves(self, brief: Brief) -> bool:
        """Whether it takes a request of this size."""
        try:
            self.check(brief)
        except NotSupported:
            return False
        return True

    def decide(self, brief: Brief, means: Means) -> Decision:
        """The noise of the worst table of the workload is known exactly, that of its worst range too
        or by a bound, where columns have no 2^k values.
        """
        split, halved, first = self._plans(brief, means)
        batches = [*split.batches, *(halved.batches if halved else [])]
        fitted = [*fitted_to(split.wanted), *(fitted_in_bins(halved) if halved else [])]
        ranges = max(halved.errors) if halved else 0.0
        cells = sum(batch.size for batch in batches)
        sigma = max(float(split.errors.max(initial=0.0)), ranges)
        outlook = Outlook(
            sigma=sigma,
            tables=len(batches),
            cells=cells,
            noisy_cells=cells,
            rounds=0,
            sweep=seconds_a_row(fitted),
            sweeps=refits(fitted, SWEEPS),
        )
        how = f"{len(split.batches)} residuals measured at once"
        numbers: dict[str, float] = {
            "residuals": len(split.batches),
            "tables": len(split.wanted),
            "sigma": sigma,
        }
        cost = Cost(
            means.rho - first, least_variance=min((s**2 for s in split.sigmas), default=None)
        )
        if halved:
            how = f"{len(split.batches)} residuals and {len(halved.tables)} tables in bins at once"
            numbers |= {"binned": len(halved.tables), "range_sigma": ranges}
            binned = cost_of_measuring(brief.neighbours, (halved.batches, first, halved.weights))
            cost = cost + binned if split.batches else binned
        return Decision.of(
            self,
            brief,
            means,
            how=how,
            numbers=numbers,
            cost=cost,
            plan=(split, halved, first),
            outlook=outlook,
        )

    def _plans(self, brief: Brief, means: Means) -> tuple[Plan, HalvingPlan | None, Fraction]:
        """The plans for residuals and for ranges, and how much of rho is for ranges.

        Variances fall as 1/rho. The largest ones are equal if each has a share in proportion to its
        variance at the whole of rho; their sum is least with shares as the roots.
        """
        wanted, asked = tables_for(brief.workload), ranges_for(brief.workload)

        def tables(rho: Fraction) -> Plan:
            return plan(
                wanted,
                rho=rho,
                neighbours=brief.neighbours,
                objective=self.objective,
                total_sigma=means.rows_sigma,
            )

        def ranges(rho: Fraction) -> HalvingPlan:
            return plan_halvings(
                asked,
                dict(enumerate(brief.schema.shape)),
                rho=rho,
                neighbours=brief.neighbours,
                objective=self.objective,
                total_sigma=means.rows_sigma,
            )

        if not asked:
            return tables(means.rho), None, Fraction(0)
        if not wanted:
            return Plan((), (), (), np.empty(0)), ranges(means.rho), means.rho
        cells, whole = tables(means.rho), ranges(means.rho)
        if self.objective == "largest":
            needs = [float(cells.errors.max()) ** 2, max(whole.errors) ** 2]
        else:
            total = sum(t.size * e**2 for t, e in zip(wanted, cells.errors, strict=True))
            needs = [math.sqrt(total), math.sqrt(whole.total)]
        share = Fraction(needs[1] / sum(needs)).limit_denominator(SHARES)
        first = means.rho * min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
        return tables(means.rho - first), ranges(first), first

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        data, query = self.players(decision, meter, rng, watcher)
        return play(data, query, rounds=1, watcher=watcher, schema=decision.brief.schema)

    def players(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> tuple[DataPlayer, QueryPlayer]:
        """Who fits rows, and who measures all at once."""
        schema, means = decision.brief.schema, decision.means
        split, halved, first = decision.plan
        rows = RowPlayer(
            schema, n=means.rows, rng=rng, sweeps=SWEEPS, sums_up_to=0, watcher=watcher
        )
        data: DataPlayer = FromResiduals(
            rows, fitted_to(split.wanted), rows=means.rows, rows_sigma=means.rows_sigma
        )
        query: QueryPlayer = MeasureResiduals(meter, split)
        if halved:
            data = FromHalvings(data, halved, rows=means.rows, rows_sigma=means.rows_sigma)
            bins = MeasureAll(meter, halved.batches, rho=first, weights=halved.weights)
            query = Together(query, bins)
        return data, query


def tables_for(workload: Workload) -> list[Marginal]:
    """The tables to plan for: the marginals of a workload, the columns of each other query, and
    every single column, but those that ranges are about.
    """
    shape = workload.schema.shape
    ranged = {column for boxes in ranges_for(workload) for column in boxes.positions}
    sets = [batch.columns for batch in workload.marginals]
    sets += [
        batch.around(i).columns
        for batch in workload
        if batch.as_table() is None and batch.as_boxes() is None
        for i in range(batch.size)
    ]
    sets += [batch.columns for batch in one_way(workload.schema) if batch.columns[0] not in ranged]
    return [Marginal(columns, tuple(shape[c] for c in columns)) for columns in dict.fromkeys(sets)]


def ranges_for(workload: Workload) -> list[Boxes]:
    """The ranges to plan for, but those of columns with a single value each."""
    shape = workload.schema.shape
    ranges = [boxes for batch in workload if (boxes := batch.as_boxes()) is not None]
    return [boxes for boxes in ranges if any(depth_of(shape[c]) for c in boxes.positions)]


def _whole(boxes: Boxes, shape: Sequence[int]) -> Marginal:
    return Marginal(boxes.positions, tuple(shape[c] for c in boxes.positions))


def fitted_in_bins(halved: HalvingPlan) -> list[Marginal | BinnedMarginal]:
    """The tables in bins that rows are fitted to."""
    return [table_of(depths, halved.sizes) for depths in halved.reached]


def fitted_to(wanted: Sequence[Marginal]) -> list[Marginal]:
    """The tables that rows are fitted to: the wanted ones and all small ones below them, each with
    its own noise.

    What cells that are each below their noise say together is in the small ones.
    """
    small = [batch for batch in closure(wanted) if len(batch.positions) <= SUMS_UP_TO]
    # one cell is the number of rows, which is known
    return [batch for batch in dict.fromkeys([*small, *wanted]) if batch.size > 1]
