"""``project()``: rows from noisy tables that somebody else measured. No sensitive table, no budget, no meter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import ParameterError
from understudy.front_door import as_schema
from understudy.players.rows import ROWS, RowPlayer
from understudy.privacy import Measurement
from understudy.queries.marginal import Marginal
from understudy.schema import Schema

LEAST_SIGMA = Fraction(1, 4)  # exact counts are given this, so that weights stay finite


def project(
    measurements: Iterable[Measurement | tuple[Sequence[str], Any, Any]],
    schema: Schema | Mapping[str, Any] | str | Path,
    *,
    rows: int = ROWS,
    people: int | None = None,
    seed: int = 0,
) -> pa.Table:
    """Fit whole rows to noisy tables from anywhere: another library, a statistics office's own SQL.

    Args:
        measurements: ``(columns, counts, sigma)`` for each noisy marginal, counts in the order of the columns
            (any array with one entry per combination of values), or :class:`Measurement` objects.
        schema: what the columns are.
        rows: how many rows to make.
        people: how many the counts are out of; the tables' own totals, averaged by how exact they are, if not given.
        seed: the rows depend on this and the measurements alone.

    Returns:
        An Arrow table in the schema's own types.

    Examples:
        >>> table = project([(["a", "b"], [[30, 10], [0, 60]], 2.0)], {"a": 2, "b": 2}, rows=50)
        >>> table.num_rows
        50
    """
    described = as_schema(schema)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ParameterError("rows must be a whole number of at least 1.")
    given = [one if isinstance(one, Measurement) else _measurement(one, described) for one in measurements]
    if not given:
        raise ParameterError("There is nothing to fit rows to; give at least one noisy table.")
    rng = np.random.default_rng(seed)
    player = RowPlayer(described, people=people or _people(given), rng=rng, sweeps=3)
    player.learn(given)
    return described.decode(player.result().rows(rows, rng), rng)


def _measurement(given: tuple[Sequence[str], Any, Any], schema: Schema) -> Measurement:
    columns, counts, sigma = given
    part = Marginal.of(schema, columns)
    values = np.asarray(counts, np.float64).ravel()
    if values.size != part.size or not np.all(np.isfinite(values)):
        raise ParameterError(f"The table of {', '.join(columns)} needs {part.size:,} finite counts and has {values.size:,}.")
    if not isinstance(sigma, (int, float, Fraction)) or isinstance(sigma, bool) or not 0 <= sigma < math.inf:
        raise ParameterError(f"The table of {', '.join(columns)} needs sigma, the standard deviation of its noise, 0 or more.")
    return Measurement(part, values, max(Fraction(sigma), LEAST_SIGMA))


def _people(measurements: Sequence[Measurement]) -> int:
    """The number of people that whole tables add up to, the more exact ones counting more."""
    totals = [
        (float(m.counts.sum()), 1 / (float(m.sigma) ** 2 * m.part.size))
        for m in measurements
        if isinstance(m.part, Marginal) and m.keys is None
    ]
    if not totals:
        raise ParameterError("people must be given: no whole table says how many there are.")
    values, weights = zip(*totals, strict=True)
    return max(1, round(float(np.average(values, weights=weights))))
