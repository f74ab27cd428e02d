"""How finely a column is known by itself: a public grid inside its bins.

Tables of several columns are counted in a column's bins; the column alone is counted on a finer
grid. A column on its grid is a column like any other, of the same cells and the same rules, so a
cell's place on the grid depends on that cell and the schema alone. Every edge of a bin is an edge of
the grid: the bin of a value is a function of its place.

A grid of numbers has cells as wide as a power of ten (or ``step`` times one) that is public:

    integer, up to 2,000 values      a cell for each
    other numbers                    the first width that gives at most 2,000 cells; beside each, a
                                     cell for its round left end alone, where people heap
    dates and times                  the finest unit of the calendar that gives at most 2,000 cells;
                                     beside days of a date and time, the hours of the day

A long grid is counted more than once, because a sum of k noisy cells has the noise of k cells: cell
by cell (``values``), in some runs of neighbours for each bin (``runs``), and by what repeats itself
along the whole grid (``rhythm``): multiples of 10 and of 5 cells, or the hour of the day.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from understudy.errors import SchemaError, shown
from understudy.schema.columns import Binned, Moment, Number
from understudy.schema.edges import LARGEST_NUMBER, RESOLUTIONS, moment_edges

MOST_CELLS = 2_000  # of a grid that nobody asked for: round steps up to a thousand values
MOST_ASKED = 100_000  # of any grid: enough for the hours of ten years
SHORT = 160  # cells: a shorter grid needs no sums
RUNS = 32  # of all bins together: enough for a smooth shape, and each stands out of its noise
INSIDE = 3  # the class of cells that are no round left end
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}  # in seconds
UNSURE = 1e-6  # of a step: what a quotient of two doubles may be off by, and more
MOST_STEPS = 2.0**48  # from 0 to a bound: doubles tell a sixteenth of a step
AnyBinned = TypeVar("AnyBinned", bound=Binned)


class Grid(NamedTuple):
    """The edges of a grid, the step of the values on it (0 for none), and for each cell the class
    it has in the rhythm and the unit it is counted in (None for each by itself).
    """

    edges: tuple[float, ...]
    step: float
    classes: np.ndarray | None = None
    units: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Detail:
    """One column on its grid.

    Attributes:
        coarse: the column in bins; fine: the same column on its grid.
        grid: the edges, and what is counted together.
    """

    coarse: Binned
    fine: Binned
    grid: Grid

    @cached_property
    def bins(self) -> np.ndarray:
        """The bin of every cell of the grid."""
        return np.searchsorted(self.coarse.edges, self.fine.edges[:-1], side="right") - 1

    @cached_property
    def runs(self) -> np.ndarray:
        """Runs of neighbours, as many in one bin as in another, none across two bins."""
        each = max(1, round(RUNS / self.coarse.values))
        edges, lefts = np.asarray(self.coarse.edges), np.asarray(self.fine.edges[:-1])
        low, high = edges[self.bins], edges[self.bins + 1]
        part = np.minimum(((lefts - low) / (high - low) * each).astype(np.int64), each - 1)
        return np.unique(self.bins * each + part, return_inverse=True)[1]

    @cached_property
    def tables(self) -> Mapping[str, np.ndarray]:
        """What is counted: for every code of the fine column, OTHER and MISSING among them, the
        cell of the table.
        """
        units = np.arange(self.fine.values) if self.grid.units is None else self.grid.units
        counted = {"values": units}
        if self.fine.values > SHORT:
            if self.coarse.values <= RUNS // 2:
                counted["runs"] = self.runs
            if self.grid.classes is not None:
                counted["rhythm"] = self.grid.classes
        return {name: self._with_others(cells) for name, cells in counted.items()}

    def _with_others(self, cells: np.ndarray) -> np.ndarray:
        _, numbered = np.unique(cells, return_inverse=True)
        others = np.arange(self.fine.size - self.fine.values) + numbered.max() + 1
        return np.concatenate([numbered, others])

    @cached_property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """(the first step in each cell, how many there are)."""
        edges, step = np.asarray(self.fine.edges), self.grid.step
        if not step:
            return np.zeros(self.fine.values, np.int64), np.zeros(self.fine.values, np.int64)
        return _points(edges, step, closed=not self.fine.whole)

    def positions(self, cells: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """Where on the axis values stand that are so far into their cells, from 0 to 1."""
        first, count = (one[cells] for one in self.points)
        low, high = (np.asarray(self.fine.edges)[cells + i] for i in (0, 1))
        most = np.maximum(count - 1, 0)
        on_steps = _value(
            first + np.minimum((inside * count).astype(np.int64), most), self.grid.step
        )
        between = np.minimum(low + inside * (high - low), np.nextafter(high, low))
        positions: np.ndarray = np.where(count > 0, on_steps, between)
        return np.floor(positions) if self.fine.whole else positions


def detail_of(column: Any) -> Detail | None:
    """A column on its grid; None where its bins say all, or are all that is wanted."""
    if not isinstance(column, Binned) or column.detail is False:
        return None
    grid = _of_moments(column) if isinstance(column, Moment) else _of_numbers(column)
    if len(grid.edges) <= len(column.edges):
        return None
    more: dict[str, Any] = {"resolution": "bins"} if isinstance(column, Moment) else {}
    return Detail(column, replace(column, edges=grid.edges, **more), grid)


# ---------------------------------------------------------------------- numbers


def _of_numbers(column: Binned) -> Grid:
    assert isinstance(column, Number)
    low, high = (Fraction(str(edge)) for edge in (column.edges[0], column.edges[-1]))
    width, step = _width_and_step(column, high - low)
    if max(abs(low), abs(high)) > step * MOST_STEPS:
        return Grid(column.edges, 0.0)  # bins alone
    rounds = range(math.ceil(low / width), math.ceil(high / width))
    lefts = {float(k * width): k for k in rounds}
    rights = {float(k * width + step) for k in rounds if step < width}
    inside = {edge for edge in {*lefts, *rights} if low < edge < high}
    edges = _with_values(np.asarray(sorted({*column.edges, *inside})), column, float(step))
    heads = step == width
    classes = [
        (0 if lefts[left] % 10 == 0 else 1 if lefts[left] % 5 == 0 else 2)
        if left in lefts and (heads or right in rights)
        else INSIDE
        for left, right in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    return Grid(tuple(edges.tolist()), float(step), np.asarray(classes))


def _width_and_step(column: Number, span: Fraction) -> tuple[Fraction, Fraction]:
    asked = column.detail if _is_number(column.detail) else None
    step = Fraction(str(column.step)) if column.step is not None else Fraction(int(column.integer))
    if asked is not None:
        width = Fraction(str(asked))
    elif step:
        width = step
    else:
        width = Fraction(10) ** math.floor(math.log10(span / MOST_CELLS))
    while asked is None and span > width * MOST_CELLS:
        width *= 10
    return width, step or width / 10


def _with_values(edges: np.ndarray, column: Binned, step: float) -> np.ndarray:
    """The edges without those that leave a cell with no value on it, as far as they are not of
    bins.
    """
    _, counts = _points(edges, step, closed=not column.whole)
    mine = np.isin(edges, column.edges)
    gone = np.zeros(len(edges), np.bool_)
    empty = counts == 0
    gone[1:] |= empty & ~mine[1:]
    gone[:-1] |= empty & mine[1:] & ~mine[:-1]
    kept: np.ndarray = edges[~gone]
    return kept


def _points(edges: np.ndarray, step: float, *, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """(the first multiple of the step in each cell, how many there are); the last cell may be
    closed.
    """
    ends = np.ceil(edges / step - UNSURE).astype(np.int64)
    ends += _value(ends, step) < edges
    ends -= _value(ends - 1, step) >= edges
    first, stop = ends[:-1], ends[1:].copy()
    if closed:
        stop[-1] += _value(stop[-1:], step)[0] == edges[-1]
    return first, stop - first


def _value(multiples: np.ndarray, step: float) -> np.ndarray:
    """The double that is nearest to a multiple of a step, as it is written."""
    digits = max(0, -_exponent(Fraction(str(step))))
    rounded: np.ndarray = np.round(multiples * step, digits)
    return rounded


def _exponent(number: Fraction) -> int:
    """Minus the digits after the point."""
    digits = 0
    while number.denominator > 1 and digits < 300:  # 10^300 is a double
        number, digits = number * 10, digits + 1
    return -digits


# ---------------------------------------------------------------------- dates and times


def _of_moments(column: Moment) -> Grid:
    units = [unit for unit in reversed(RESOLUTIONS) if unit not in ("week", "quarter")]
    units = units[3:] if column.date else units
    counted = {unit: _cells(column, unit) for unit in units}
    asked = column.detail if isinstance(column.detail, str) else None
    unit = asked or next((one for one in units if counted[one] <= MOST_CELLS), units[-1])
    by_hours = asked is None and not column.date and UNITS.get(unit, 86400) > 3600
    if by_hours and counted["hour"] <= MOST_ASKED:
        return _of_hours(column, unit)
    return Grid(_merged(column, unit), _step_of(column, "second" if unit == "second" else "minute"))


def _of_hours(column: Moment, unit: str) -> Grid:
    edges = _merged(column, "hour", unit)
    lefts = np.asarray(edges[:-1])
    units = np.searchsorted(_marks(column, unit), lefts, side="right") - 1
    hours = (lefts // 3600 % 24).astype(np.int64)
    return Grid(edges, _step_of(column, "minute"), hours, units)


def _cells(column: Moment, unit: str) -> float:
    """About how many cells a unit gives."""
    seconds = {"month": 30 * 86400, "year": 365 * 86400, **UNITS}[unit]
    return (column.edges[-1] - column.edges[0]) * (86400 if column.date else 1) / seconds


def _marks(column: Moment, unit: str) -> np.ndarray:
    first, last = (_written(column, edge) for edge in (column.edges[0], column.edges[-1] - 1))
    return np.asarray(moment_edges(column.name, first, last, column.date, unit, None))


def _written(column: Moment, edge: float) -> str:
    return str(np.datetime64(int(edge), "D" if column.date else "s"))


def _merged(column: Moment, *units: str) -> tuple[float, ...]:
    marks = {edge for unit in units for edge in _marks(column, unit).tolist()}
    return tuple(sorted({*column.edges, *marks}))


def _step_of(column: Moment, usual: str) -> float:
    if column.date:
        return 1.0
    return float(UNITS[str(column.step or usual)])


# ---------------------------------------------------------------------- what a schema may say


def as_step(name: str, step: Any, decimals: Any) -> float | str | None:
    """The step that a schema says, in numbers or in decimals."""
    if decimals is None:
        return None if step is None else step if isinstance(step, (int, float, str)) else str(step)
    if step is not None:
        raise SchemaError(f"Column {name!r} gives both step and decimals; give one of them.")
    if isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= 12:
        raise SchemaError(f"Column {name!r} needs its decimals as a whole number from 0 to 12.")
    return 1 if decimals == 0 else float(Fraction(1, 10**decimals))


def check_detail(column: AnyBinned) -> AnyBinned:
    """Raise SchemaError unless its detail and its step make sense."""
    if isinstance(column, Moment):
        _check_units(column)
    else:
        _check_numbers(column)
    return column


def _check_units(column: Moment) -> None:
    units = RESOLUTIONS[:5] if column.date else RESOLUTIONS
    if not (column.detail is None or isinstance(column.detail, bool) or column.detail in units):
        raise SchemaError(
            f"Column {column.name!r} has the detail {shown(column.detail)}; a {column.kind} column"
            f" takes true, false or one of {', '.join(units)}."
        )
    steps = ("day",) if column.date else tuple(UNITS)
    if column.step is not None and column.step not in steps:
        raise SchemaError(
            f"Column {column.name!r} has the step {shown(column.step)}; a {column.kind} column takes"
            f" one of {', '.join(steps)}."
        )
    if isinstance(column.detail, str) and _cells(column, _plain(column.detail)) > MOST_ASKED:
        raise _too_fine(column)


def _plain(unit: str) -> str:
    return {"week": "day", "quarter": "month"}.get(unit, unit)


def _check_numbers(column: Binned) -> None:
    assert isinstance(column, Number)
    for word, value in (("detail", column.detail), ("step", column.step)):
        chosen = value is None or (word == "detail" and isinstance(value, bool))
        if not chosen and not (_is_number(value) and 0 < value <= LARGEST_NUMBER):  # type: ignore[operator]
            raise SchemaError(
                f"Column {column.name!r} has the {word} {shown(value)}; it takes a number above 0"
                + (", true or false." if word == "detail" else ".")
            )
        if not chosen and column.integer and value != int(value):  # type: ignore[arg-type]
            raise SchemaError(
                f"Column {column.name!r} is an integer column; its {word} must be a whole number."
            )
    largest = max(abs(column.edges[0]), abs(column.edges[-1]))
    if column.step is not None and largest / column.step > MOST_STEPS:  # type: ignore[operator]
        raise SchemaError(f"Column {column.name!r} has too many steps; give a wider step.")
    if _is_number(column.detail):
        if column.step is not None and column.detail < column.step:  # type: ignore[operator]
            raise SchemaError(f"Column {column.name!r} has a detail below its step; widen it.")
        if (column.edges[-1] - column.edges[0]) / column.detail > MOST_ASKED / 2:  # type: ignore[operator]
            raise _too_fine(column)


def _too_fine(column: Binned) -> SchemaError:
    return SchemaError(
        f"Column {column.name!r} would be known in more than {MOST_ASKED:,} cells; give a wider"
        " detail."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
