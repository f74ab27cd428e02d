"""``project()``: rows from noisy tables that somebody else measured. No sensitive table, no budget,
no meter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.api.request import MOST_SEED, as_schema, as_whole_number, most_rows
from understudy.constraints.rows import rows_that_keep
from understudy.constraints.rules import Rules
from understudy.errors import ParameterError
from understudy.game.fitting.values import Values
from understudy.game.players.rows import ROWS, RowPlayer, check_width
from understudy.privacy import Measurement
from understudy.privacy.accounting.budget import exact
from understudy.queries.base import QueryClass
from understudy.queries.marginal import Marginal
from understudy.schema import Schema

LARGEST = 10**12  # of counts and their noise; 32-bit weights hold the squares of no more
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
        measurements: ``(columns, counts, sigma)`` for each noisy marginal, counts in the order of
            the columns (any array with one entry per combination of values), or
            :class:`Measurement` objects.
        schema: what the columns are.
        rows: how many rows to make.
        people: how many the counts are out of; the tables' own totals, averaged by how exact they
            are, if not given.
        seed: the rows depend on this and the measurements alone.

    Returns:
        An Arrow table in the schema's own types.

    Examples:
        >>> table = project([(["a", "b"], [[30, 10], [0, 60]], 2.0)], {"a": 2, "b": 2}, rows=50)
        >>> table.num_rows
        50
    """
    described = as_schema(schema)
    if rows is None or seed is None:
        raise ParameterError("rows and seed must be whole numbers.")
    as_whole_number(rows, "rows", 1, most_rows(described))
    as_whole_number(seed, "seed", 0, MOST_SEED)
    as_whole_number(people, "people", 1, LARGEST)
    check_width("project", described)
    if not isinstance(measurements, Iterable) or isinstance(measurements, (str, bytes, Mapping)):
        raise ParameterError(
            "measurements are a list of noisy tables, each (columns, counts, sigma)."
        )
    noisy = [
        _checked(one, described) if isinstance(one, Measurement) else _measurement(one, described)
        for one in measurements
    ]
    if not noisy:
        raise ParameterError("There is nothing to fit rows to; give at least one noisy table.")
    rng = np.random.default_rng(seed)
    player = RowPlayer(
        described,
        n=_estimated_rows(noisy) if people is None else int(people),
        rng=rng,
        sweeps=3,
    )
    player.learn(noisy)
    codes, values = player.result().rows(int(rows), rng), Values.unknown(described)
    return rows_that_keep(Rules.of(described), codes, rng, values).table


def _measurement(triple: tuple[Sequence[str], Any, Any], schema: Schema) -> Measurement:
    if not isinstance(triple, (tuple, list)) or len(triple) != 3:
        raise ParameterError("Each noisy table is given as (columns, counts, sigma).")
    columns, counts, sigma = triple
    return _checked(Measurement(Marginal.of(schema, columns), counts, sigma), schema)


def _checked(measurement: Measurement, schema: Schema) -> Measurement:
    """The same with numbers that rows can be fitted to, or a refusal."""
    batch, sigma = measurement.batch, measurement.sigma
    if not isinstance(batch, QueryClass) or not batch.fits(schema):
        raise ParameterError("A measurement is of queries on another schema than the one given.")
    grid = batch.as_grid()
    names = [] if grid is None else [schema.names[p] for p in grid.positions]
    named = "A batch of queries" if grid is None else f"The table of {', '.join(names)}"
    try:
        values = np.asarray(measurement.counts, np.float64).ravel()
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    keys = None if measurement.keys is None else _keys(measurement.keys, batch.size)
    if keys is not None and not isinstance(measurement.threshold, int):
        raise ParameterError("A sparse table needs its threshold, above which cells were kept.")
    if keys is not None and batch.as_table() is None:
        raise ParameterError("Only a whole marginal is given by some of its cells.")
    wanted = batch.size if keys is None else len(keys)
    if values.size != wanted or not np.all(np.abs(values) <= LARGEST):
        raise ParameterError(
            f"{named} needs {wanted:,} finite counts of at most {LARGEST:,}, and has"
            f" {values.size:,}."
        )
    if (
        not isinstance(sigma, (int, float, Fraction, np.integer, np.floating))
        or isinstance(sigma, bool)
        or not 0 <= sigma <= LARGEST
    ):
        raise ParameterError(
            f"{named} needs sigma, the standard deviation of its noise, from 0 to {LARGEST:,}."
        )
    return replace(
        measurement, counts=values, keys=keys, sigma=max(exact(sigma, "sigma"), LEAST_SIGMA)
    )


def _keys(listed: Any, cells: int) -> np.ndarray:
    """The cells that a sparse table lists."""
    keys = np.asarray(listed) if isinstance(listed, (np.ndarray, list, tuple)) else np.empty(0)
    whole = keys.ndim == 1 and keys.dtype.kind in "iu"
    if not whole or (
        len(keys) and (keys[0] < 0 or keys[-1] >= cells or (keys[1:] <= keys[:-1]).any())
    ):
        raise ParameterError(
            f"The keys of a sparse table are whole numbers that rise, from 0 to {cells - 1:,}."
        )
    return keys.astype(np.int64)


def _estimated_rows(measurements: Sequence[Measurement]) -> int:
    """The number of people that whole tables add up to, the more exact ones counting more."""
    totals = [
        (float(m.counts.sum()), 1 / (float(m.sigma) ** 2 * m.batch.size))
        for m in measurements
        if m.batch.as_grid() is not None and m.keys is None
    ]
    if not totals:
        raise ParameterError("people must be given: no whole table says how many there are.")
    values, weights = zip(*totals, strict=True)
    return max(1, round(float(np.average(values, weights=weights))))
