"""The step of a release that counts single columns on their grids: what it measures, for which share
of the budget. Public facts alone decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from understudy.game.fitting.values import Grids, grids_of
from understudy.mechanisms.base import cost_of_measuring
from understudy.privacy import Measure, Measurement, Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.base import Neighbours
from understudy.schema import Schema

# of what the play may spend, for each part that a table gets (``WEIGHTS``), and for all of them: a
# column with a long grid gets 3%, and four of them no more than an eighth
A_PART, MOST = Fraction(3, 1000), Fraction(1, 8)


@dataclass(frozen=True, kw_only=True)
class GridStep:
    """MEASURE every column that has a grid, once.

    Attributes:
        grids: the columns.
        share: of the budget of the play; ``rho`` is what that comes to.
        cost: what is reserved.
    """

    grids: Grids
    share: Fraction
    rho: Fraction
    cost: Cost

    @classmethod
    def of(cls, schema: Schema, neighbours: Neighbours, rho: Fraction) -> GridStep | None:
        """The step with its public share of ``rho``; None where there is nothing to measure."""
        grids = grids_of(schema)
        if grids is None:
            return None
        share = min(sum(grids.weights) * A_PART, MOST)
        cost = cost_of_measuring(neighbours, (grids.batches, rho * share, grids.weights))
        return cls(grids=grids, share=share, rho=rho * share, cost=cost)

    @property
    def words(self) -> str:
        """For a plan."""
        columns = len(self.grids.columns)
        return (
            f"{columns} column{'s' if columns > 1 else ''} counted inside bins, too, for"
            f" {float(self.share):.1%} of the budget"
        )

    def measured(self, meter: Meter) -> tuple[Measurement, ...]:
        """The noisy counts, in the order of the grids' batches."""
        grids = self.grids
        measured = meter.ask(Measure(batches=grids.batches, rho=self.rho, weights=grids.weights))
        return tuple(measured)
