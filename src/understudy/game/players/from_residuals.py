"""Players of the matrix mechanism: one measures residuals, others hand the tables that residuals
and halvings add up to on to any data player.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from understudy.game.fitting.halving import HalvingPlan, from_halvings
from understudy.game.fitting.reconstruction import Estimate, Plan, reconstruct
from understudy.game.loop import DataPlayer, Finding, Model
from understudy.privacy import Measurement, Meter, Residual, Residuals
from understudy.queries.marginal import Marginal


class MeasureResiduals:
    """Measures the residuals of a plan once; does not look at the model."""

    def __init__(self, meter: Meter, plan: Plan) -> None:
        self._meter, self._plan, self._done = meter, plan, False

    def point(self, model: Model) -> Sequence[Finding]:
        if self._done or not self._plan.batches:
            return []
        self._done = True
        return self._meter.ask(Residuals(batches=self._plan.batches, sigmas=self._plan.sigmas))


class FromResiduals:
    """Turns noisy residuals into noisy tables for the data player inside, which need not know where
    they come from.
    """

    def __init__(
        self, inside: DataPlayer, tables: Sequence[Marginal], *, rows: int, rows_sigma: Fraction
    ) -> None:
        self._inside, self._tables = inside, list(tables)
        self._rows, self._rows_sigma = rows, rows_sigma

    def propose(self) -> Model:
        return self._inside.propose()

    def learn(self, findings: Sequence[Finding]) -> None:
        residuals = [finding for finding in findings if isinstance(finding, Residual)]
        others = [finding for finding in findings if not isinstance(finding, Residual)]
        # none are left where other tables are measured later
        tables = self._tables if residuals else []
        estimates = reconstruct(
            residuals, tables, total=self._rows, total_sigma=float(self._rows_sigma)
        )
        self._inside.learn([*others, *map(as_measurement, estimates)])

    def result(self) -> Model:
        return self._inside.result()


class FromHalvings:
    """Turns noisy tables in bins of every depth into tables that agree, for the data player inside."""

    def __init__(
        self, inside: DataPlayer, plan: HalvingPlan, *, rows: int, rows_sigma: Fraction
    ) -> None:
        self._inside, self._plan = inside, plan
        self._rows, self._rows_sigma = rows, rows_sigma

    def propose(self) -> Model:
        return self._inside.propose()

    def learn(self, findings: Sequence[Finding]) -> None:
        measured = [finding for finding in findings if isinstance(finding, Measurement)]
        others = [finding for finding in findings if not isinstance(finding, Measurement)]
        tables = from_halvings(
            self._plan, measured, total=self._rows, total_sigma=float(self._rows_sigma)
        )
        self._inside.learn([*tables, *others])

    def result(self) -> Model:
        return self._inside.result()


def as_measurement(estimate: Estimate) -> Measurement:
    """A reconstructed table in the form that data players learn from; its counts are not whole."""
    return Measurement(estimate.batch, estimate.counts, Fraction(estimate.sigma))
