"""From a column's bins back to values: what is known of it on its grid, and how values are drawn.

Everything here is made of released counts, so it costs nothing. The shape of the column comes from
its sums (runs of neighbours, and what repeats itself), which have little noise a person. A single
cell changes it where it stands out of its own noise: a round number, a heap, a day off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.game.fitting.density import shape_of
from understudy.game.fitting.histogram import to_distribution
from understudy.privacy import Measurement
from understudy.queries.binned import BinnedMarginal
from understudy.schema import Moment, Schema
from understudy.schema.detail import SHORT, Detail, detail_of

# shares of the budget for details: sums tell most, what repeats itself has few cells
WEIGHTS = {"runs": 6, "values": 3, "rhythm": 1}
ALONE = 6  # of single cells that have no runs beside them
MOST_RUNS = 128  # that a shape is fitted to
# beyond the largest noise to expect among all cells, a cell is no noise
BEYOND = 0.3
AROUND = 8  # neighbours on each side, for a first look at what stands out
PASSES = 3  # of what stands out, what repeats itself, and the shape of the rest
LEAST = 1e-7  # of what the most common class of cells has, for the same room
SURE = 0.05  # of the variance of a base that is whole bins, which the rows know better
NOBODY = 0.5  # people: what is left of an empty bin says nothing of its inside
NOTICED = 2.0  # sigmas: a smaller class is taken for empty, such as the hours of the night


class Counted(NamedTuple):
    """Noisy counts of the cells of a table, OTHER and MISSING left out."""

    counts: np.ndarray
    sigma: float


@dataclass(frozen=True, eq=False)
class Grids:
    """The columns of a schema that have a grid inside their bins.

    Attributes:
        schema: the same columns, these on their grids: what their cells are counted by.
        columns: each such column, by its place.
    """

    schema: Schema
    columns: Mapping[int, Detail]

    @property
    def batches(self) -> list[BinnedMarginal]:
        """What is measured of them."""
        return [
            BinnedMarginal((place,), (detail.fine.size,), (tuple(table.tolist()),))
            for place, detail in self.columns.items()
            for table in detail.tables.values()
        ]

    @property
    def names(self) -> list[tuple[str, str]]:
        """(column, table) of each of the batches."""
        return [
            (detail.fine.name, name) for detail in self.columns.values() for name in detail.tables
        ]

    @property
    def weights(self) -> list[int]:
        """What each of the batches gets, in parts."""
        return [
            ALONE
            if name == "values" and "runs" not in detail.tables and detail.fine.values > SHORT
            else WEIGHTS[name]
            for detail in self.columns.values()
            for name in detail.tables
        ]


@lru_cache(maxsize=8)
def grids_of(schema: Schema) -> Grids | None:
    """The grids of a schema; None where no column has one."""
    if schema.pairs is not None:
        return None
    details = {place: detail_of(column) for place, column in enumerate(schema)}
    columns = {place: detail for place, detail in details.items() if detail is not None}
    if not columns:
        return None
    fine = [columns[p].fine if p in columns else column for p, column in enumerate(schema)]
    return Grids(Schema(tuple(fine)), columns)


class Values:
    """How codes become values: drawn on the grids where these are known, uniform in a bin
    elsewhere.

    Args:
        schema: the columns in bins.
        shares: of each column on its grid, the share of every cell in its bin.
    """

    def __init__(self, schema: Schema, shares: Mapping[int, np.ndarray]) -> None:
        grids = grids_of(schema)
        self._schema, self.shares = schema, shares
        self._details = {} if grids is None else {p: grids.columns[p] for p in shares}

    @classmethod
    def measured(
        cls,
        schema: Schema,
        measurements: Sequence[Measurement],
        codes: np.ndarray,
        n: int,
    ) -> Values:
        """By what a release measured of its grids, in the order of their batches; by the bins alone
        if that is nothing. ``codes`` are its rows, for n people: what they say of the bins has less
        noise.
        """
        grids = grids_of(schema)
        shares: dict[int, np.ndarray] = {}
        counted = iter(measurements)
        for place, detail in grids.columns.items() if grids is not None and measurements else ():
            tables = {name: _counted(detail, next(counted)) for name in detail.tables}
            counts = np.bincount(codes[:, place], minlength=detail.coarse.size)
            bins = counts[: detail.coarse.values] * (n / max(len(codes), 1))
            shares[place] = in_bins(detail, _cells(detail, tables, bins))
        return cls(schema, shares)

    @classmethod
    def unknown(cls, schema: Schema) -> Values:
        """By nothing but the grids: every value of a bin alike."""
        grids = grids_of(schema)
        details = {} if grids is None else grids.columns
        return cls(schema, {place: in_bins(one, _room(one)) for place, one in details.items()})

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Table:
        """Rows of codes as a table in the user's own types."""
        if self._schema.pairs is not None:
            return self._schema.decode(codes, rng)
        arrays = [self.draw(place, codes[:, place], rng) for place in range(len(self._schema))]
        return pa.table(arrays, names=list(self._schema.names))

    def draw(self, place: int, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        """Values of one column for codes of it, in their order."""
        column = self._schema.columns[place]
        if place not in self._details:
            return column.decode(codes, rng)
        detail, ordinary = self._details[place], codes < column.values
        positions = np.full(len(codes), float(detail.fine.edges[0]))
        cells, inside = _drawn(detail, self.shares[place], codes[ordinary], rng)
        positions[ordinary] = detail.positions(cells, inside)
        array = _typed(detail, positions)
        return pc.if_else(pa.array(ordinary), array, pa.scalar(None, array.type))


def _typed(detail: Detail, positions: np.ndarray) -> pa.Array:
    column = detail.fine
    if isinstance(column, Moment):
        whole = positions.astype(np.int64)
        return pa.array(
            whole.astype("M8[D]") if column.date else whole.astype("M8[s]").astype("M8[us]")
        )
    return pa.array(positions.astype(np.int64) if column.whole else positions)


def _drawn(
    detail: Detail, shares: np.ndarray, codes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(a cell for each code, how far into it): in every bin as many of each cell as its share, up to
    one, in random order.
    """
    cells, inside = np.zeros(len(codes), np.int64), np.zeros(len(codes))
    starts = np.searchsorted(detail.bins, np.arange(detail.coarse.values + 1))
    for code, rows in _by_code(codes, rng):
        sums = np.cumsum(shares[starts[code] : starts[code + 1]])
        at = (np.arange(len(rows)) + rng.random()) / len(rows) * sums[-1]
        within = np.minimum(np.searchsorted(sums, at, side="right"), len(sums) - 1)
        below = np.where(within > 0, sums[within - 1], 0.0)
        cells[rows] = starts[code] + within
        width = np.maximum(sums[within] - below, np.finfo(float).tiny)
        inside[rows] = np.clip((at - below) / width, 0.0, np.nextafter(1.0, 0.0))
    return cells, inside


def _by_code(codes: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """(a code, the rows that have it, in random order)."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        if len(rows):
            yield int(codes[rows[0]]), rows


def in_bins(detail: Detail, cells: np.ndarray) -> np.ndarray:
    """What each cell has of its bin; by room alone where nobody is left in a bin."""
    totals = np.bincount(detail.bins, cells, detail.coarse.values)
    filled = np.where((totals > NOBODY)[detail.bins], cells, _room(detail))
    whole: np.ndarray = np.bincount(detail.bins, filled, detail.coarse.values)[detail.bins]
    return filled / whole


def _room(detail: Detail) -> np.ndarray:
    """How many values there are in each cell; where there is none in a whole bin, its width."""
    _, count = detail.points
    width = np.diff(np.asarray(detail.fine.edges))
    some = np.bincount(detail.bins, count, detail.coarse.values)[detail.bins] > 0
    return np.where(some, count, width).astype(np.float64)


def _counted(detail: Detail, measurement: Measurement) -> Counted:
    others = detail.fine.size - detail.fine.values
    counts = np.asarray(measurement.counts, np.float64)
    return Counted(counts[: len(counts) - others], float(measurement.sigma))


# ---------------------------------------------------------------------- the shape of a column


def _cells(detail: Detail, tables: Mapping[str, Counted], bins: np.ndarray) -> np.ndarray:
    """About how many people are in each cell of the grid."""
    values = tables["values"]
    if not detail.fine.ordered:
        total = max(values.counts.sum(), 1.0)
        units = to_distribution(values.counts, total, values.sigma) * total
        unit, room = detail.tables["values"][: detail.fine.values], _room(detail)
        whole = np.maximum(np.bincount(unit, room), np.finfo(float).tiny)
        return units[unit] * room / whole[unit]
    return _Column(detail, tables, bins).cells()


class _Column:
    """One ordered column while its shape is found.

    ``values`` has a unit for each cell of the grid, or for several; ``bases`` are the runs of units
    that the shape is fitted to.
    """

    def __init__(self, detail: Detail, tables: Mapping[str, Counted], bins: np.ndarray) -> None:
        self._bins, self._bin = bins, detail.bins
        size = detail.fine.values
        self._room, self._values = _room(detail), tables["values"]
        self._runs, self._rhythm = tables.get("runs"), tables.get("rhythm")
        self._unit = detail.tables["values"][:size]
        self._class = detail.tables["rhythm"][:size] if self._rhythm else np.zeros(size, np.int64)
        if size <= SHORT:
            self._base = self._unit
        elif self._runs is not None:
            self._base = detail.runs
        else:
            merged = detail.bins * min(MOST_RUNS, detail.coarse.values) // detail.coarse.values
            self._base = np.unique(merged, return_inverse=True)[1]
        units = len(self._values.counts)
        # of each unit, the base and the class of its first cell
        first = np.searchsorted(self._unit, np.arange(units))
        self._base_of, self._class_of = self._base[first], self._class[first]
        self._clear = math.sqrt(2 * math.log(max(units, 2))) + BEYOND
        self._repeats_in_units = self._rhythm is not None and units == size

    def cells(self) -> np.ndarray:
        apart, often = self._first_look(), np.ones(int(self._class.max()) + 1)
        cells = self._room
        for _ in range(PASSES):
            cells = self._smooth(apart, often)
            often = self._as_counted(cells, apart, often)
            counts, sigma = self._values
            apart = np.abs(counts - self._in_units(cells)) > self._clear * sigma
        return self._with_apart(cells, apart)

    def _in_units(self, cells: np.ndarray) -> np.ndarray:
        return np.bincount(self._unit, cells, len(self._values.counts))

    def _first_look(self) -> np.ndarray:
        """Units that stand out above those around them of their own class."""
        counts, sigma = self._values
        apart = np.zeros(len(counts), np.bool_)
        classes = self._class_of if self._repeats_in_units else np.zeros(len(counts), np.int64)
        for one in np.unique(classes):
            mine = np.flatnonzero(classes == one)
            wide = np.pad(counts[mine], AROUND, mode="reflect" if len(mine) > AROUND else "edge")
            around = np.median(np.lib.stride_tricks.sliding_window_view(wide, 2 * AROUND + 1), 1)
            apart[mine] = counts[mine] - np.maximum(around, 0.0) > self._clear * sigma
        return apart

    def _smooth(self, apart: np.ndarray, often: np.ndarray) -> np.ndarray:
        """The cells without those that stand apart: a shape over the bases, and in each base by
        room, by what repeats itself, and by the slope between its neighbours.
        """
        room = self._room * often[self._class] * ~apart[self._unit]
        bases = int(self._base.max()) + 1
        in_base = np.bincount(self._base, room, bases)
        counts, variances = self._of_bases(apart, bases)
        there, whole = in_base > 0, np.zeros(bases)
        if not there.any():
            return np.zeros(len(room))
        expected = shape_of(counts[there], variances[there], in_base[there])
        whole[there] = expected
        middles = np.bincount(self._base, np.arange(len(room))) / np.bincount(self._base)
        heights = np.log(np.maximum(expected, 1e-9) / in_base[there])
        slope = np.exp(np.interp(np.arange(len(room)), middles[there], heights))
        cells = room * slope
        totals = np.bincount(self._base, cells, bases)
        cells *= np.where(totals > 0, whole / np.maximum(totals, np.finfo(float).tiny), 0.0)[
            self._base
        ]
        return cells

    def _of_bases(self, apart: np.ndarray, bases: int) -> tuple[np.ndarray, np.ndarray]:
        """(counts of the bases without the units that stand apart, their variances), from all that
        was measured.
        """
        counts, sigma = self._values
        left = np.bincount(self._base_of, np.where(apart, 0.0, counts), bases)
        gone = np.bincount(self._base_of, apart, bases)
        units = np.bincount(self._base_of, minlength=bases) - gone
        variances = np.maximum(units, 1) * sigma**2
        if self._runs is None:
            return self._as_in_bins(left, variances, apart)
        sums = self._runs.counts - np.bincount(self._base_of, np.where(apart, counts, 0.0), bases)
        of_sums = self._runs.sigma**2 + gone * sigma**2
        precision = 1 / variances + 1 / of_sums
        pooled = (left / variances + sums / of_sums) / precision
        return self._as_in_bins(pooled, 1 / precision, apart)

    def _as_in_bins(
        self, counts: np.ndarray, variances: np.ndarray, apart: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same, so that the bases of a bin add up to it. A base may also be several bins."""
        bins, first = len(self._bins), np.searchsorted(self._base, np.arange(len(counts)))
        bin_of = self._bin[np.searchsorted(self._unit, np.arange(len(apart)))]
        gone = np.bincount(bin_of, np.where(apart, self._values.counts, 0.0), bins)
        left = self._bins - gone
        if len(counts) <= bins:
            of_bin = self._base[np.searchsorted(self._bin, np.arange(bins))]
            return np.bincount(of_bin, left, len(counts)), SURE * variances
        mine = self._bin[first]
        share = variances / np.bincount(mine, variances, bins)[mine]
        off = (left - np.bincount(mine, counts, bins))[mine]
        return counts + share * off, variances * np.maximum(1 - share, SURE)

    def _as_counted(self, cells: np.ndarray, apart: np.ndarray, often: np.ndarray) -> np.ndarray:
        """How many times its room each class of cells has, so that the classes add up as counted."""
        if self._rhythm is None:
            return often
        classes = len(often)
        expected = np.bincount(self._class, cells, classes)
        if self._repeats_in_units:
            counts = np.where(apart, self._values.counts, 0.0)
            gone = np.bincount(self._class_of, counts, classes)
        else:
            share = expected / max(expected.sum(), 1.0)
            gone = (np.where(apart, self._values.counts, 0.0).sum()) * share
        counted = self._rhythm.counts - gone
        counted = np.where(counted > NOTICED * self._rhythm.sigma, counted, 0.0)
        times = often * (counted + 1) / (expected + 1)
        return np.clip(times / times.max(), LEAST, 1.0)

    def _with_apart(self, cells: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """The units that stand apart, with their own counts."""
        counts = np.maximum(self._values.counts, 0.0)
        inside = self._room if self._repeats_in_units else self._room * self._often_of(cells)
        whole = self._in_units(inside)[self._unit]
        own = counts[self._unit] * inside / np.maximum(whole, np.finfo(float).tiny)
        return np.where(apart[self._unit], own, cells)

    def _often_of(self, cells: np.ndarray) -> np.ndarray:
        """What repeats itself inside a unit, from the cells that it was laid over."""
        expected = np.bincount(self._class, cells)[self._class]
        room = np.bincount(self._class, self._room)[self._class]
        shares: np.ndarray = (expected + 1) / np.maximum(room, 1.0)
        return shares
