"""What a release's own values say of its tables: noisy ones as measured, and the share of each
value of a single column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.counting.tally import CodedRows
from understudy.game.fitting.reconstruction import Estimate, reachable, reconstruct
from understudy.privacy import Measurement, Residual
from understudy.queries.marginal import Marginal

if TYPE_CHECKING:
    from understudy.bundle.release import Release

MOST_TABLES = 1500  # reconstructed from residuals
SIGMAS = 4.0  # that a value is off by more than so many has a chance of 1 in 30,000

Tables = dict[tuple[int, ...], Measurement | Estimate]


@dataclass(frozen=True)
class Single:
    """The share of every value of one column, as released.

    Attributes:
        shares: of all rows, one for each code; noisy, so they need not lie in [0, 1] nor add up to
            1.
        noise: standard deviation of one share; 0 when they are those of the released rows.
        shift: what all of them may be off by together: the certificate's bound, or the noise on the
            number of rows.
    """

    position: int
    shares: np.ndarray
    noise: float
    shift: float

    def off(self, values: int = 1) -> float:
        """How far the sum of so many shares may be off, but for a small chance."""
        return SIGMAS * self.noise * values**0.5 + self.shift * values


def noisy_tables(release: Release) -> Tables:
    """Noisy tables by their columns: as measured whole, or as residuals add up to them (single
    columns and the workload's marginals).
    """
    by_columns: Tables = {}
    residuals = [m for m in release.measurements if isinstance(m, Residual)]
    if residuals:
        rows = release.facts.rows
        columns = {p for r in residuals for p in r.batch.positions}
        singles = [
            Marginal.of(release.schema, [name])
            for p, name in enumerate(release.schema.names)
            if p in columns
        ]
        tables = reachable(residuals, dict.fromkeys([*singles, *release.workload.marginals]))[
            :MOST_TABLES
        ]
        for estimate in reconstruct(
            residuals, tables, total=rows.count, total_sigma=float(rows.sigma)
        ):
            by_columns[estimate.batch.positions] = estimate
    for m in release.measurements:
        if isinstance(m, Measurement) and m.keys is None:
            whole = m.batch.as_table()
            if whole is not None and whole.positions:
                by_columns[whole.positions] = m
    return by_columns


def released_shares(release: Release, batch: Marginal) -> np.ndarray:
    return batch.counts(CodedRows(release.codes, release.schema.shape)).dense() / len(release.codes)


def single_columns(release: Release, measured: Tables) -> list[Single]:
    """Each column of which the release says anything that can be relied on, in the schema's order."""
    best: dict[int, tuple[float, Measurement | Estimate]] = {}
    for positions, table in measured.items():
        for position in positions:
            noise = float(table.sigma) * (table.batch.size / release.schema.shape[position]) ** 0.5
            if position not in best or noise < best[position][0]:
                best[position] = noise, table
    covered = {
        position: cells for position, cells in _covered(release).items() if position not in best
    }
    singles = [
        _from_table(release, position, noise, table) for position, (noise, table) in best.items()
    ]
    singles += [_from_rows(release, position, cells) for position, cells in covered.items()]
    return sorted(singles, key=lambda single: single.position)


def _covered(release: Release) -> dict[int, int]:
    """Of each column that a marginal of the workload holds, the fewest cells of one that add up to
    a value.
    """
    cells: dict[int, int] = {}
    for batch in release.workload.marginals:
        for position, size in zip(batch.positions, batch.shape, strict=True):
            cells[position] = min(cells.get(position, batch.size), batch.size // size)
    return cells


def _from_table(
    release: Release, position: int, noise: float, table: Measurement | Estimate
) -> Single:
    """A measured table, added up over its other columns."""
    batch, rows = table.batch.as_table(), release.certificate.rows
    assert batch is not None
    others = tuple(axis for axis, p in enumerate(batch.positions) if p != position)
    shares = table.counts.reshape(batch.shape).sum(axis=others) / rows
    return Single(position, shares, noise / rows, SIGMAS * release.certificate.rows_sigma / rows)


def _from_rows(release: Release, position: int, cells: int) -> Single:
    """The released rows: the certificate bounds each of the cells that a value is the sum of."""
    shares = released_shares(release, Marginal((position,), (release.schema.shape[position],)))
    return Single(position, shares, 0.0, min(1.0, cells * release.certificate.alpha))
