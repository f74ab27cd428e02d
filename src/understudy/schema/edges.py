"""Bin edges of numbers and moments, from the public bounds in a schema."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import SchemaError, shown
from understudy.schema import cells as c

DEFAULT_BINS = 32  # for a numeric column that says nothing about its bins
ONE_BIN_PER_INTEGER = 128  # an integer column with at most so many values needs no bins
LARGEST_NUMBER = 2**53  # beyond this a double skips integers
# How many of which of NumPy's calendar units make a bin.
SPANS = {
    "year": (12, "M"), "quarter": (3, "M"), "month": (1, "M"), "week": (7, "D"), "day": (1, "D"),
    "hour": (1, "h"), "minute": (1, "m"), "second": (1, "s"),
}  # fmt: skip
RESOLUTIONS = tuple(SPANS)  # the coarsest first


def number_edges(
    name: str,
    low: float,
    high: float,
    integer: bool,
    bins: int | None,
    cuts: Sequence[float] | None,
) -> tuple[float, ...]:
    """Bin edges from bounds and either a number of equal bins or interior cut points."""
    if (
        not (math.isfinite(low) and math.isfinite(high))
        or low > high
        or (low == high and not integer)
    ):
        raise SchemaError(
            f"Column {name!r} needs a finite minimum below its maximum (constraints.minimum,"
            " constraints.maximum)."
        )
    if max(abs(low), abs(high)) > LARGEST_NUMBER:
        raise SchemaError(
            f"Column {name!r} has a bound beyond 2^53, where numbers lose their last digit; use"
            " narrower bounds."
        )
    if integer and (low != math.floor(low) or high != math.floor(high)):
        raise SchemaError(
            f"Column {name!r} is an integer column; its bounds must be whole numbers."
        )
    if bins is not None and cuts is not None:
        raise SchemaError(f"Column {name!r} gives both bins and cuts; give one of them.")
    end = high + 1 if integer else high
    if cuts is not None:
        if integer and any(cut != math.floor(cut) for cut in cuts):
            raise SchemaError(
                f"Column {name!r} is an integer column; its cuts must be whole numbers."
            )
        return (float(low), *map(float, cuts), float(end))
    if bins is None:
        bins = int(end - low) if integer and end - low <= ONE_BIN_PER_INTEGER else DEFAULT_BINS
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= 10**6:
        raise SchemaError(f"Column {name!r} needs a whole number of bins from 1 to 1,000,000.")
    if integer and bins > end - low:
        raise SchemaError(
            f"Column {name!r} has {int(end - low)} values and cannot have {bins} bins; use at most"
            " as many bins as values."
        )
    if integer:
        return tuple(float(low + (i * int(end - low)) // bins) for i in range(bins + 1))
    return (*(low + (high - low) * i / bins for i in range(bins)), float(high))


def moment_edges(
    name: str, low: Any, high: Any, date: bool, resolution: str, bins: int | None
) -> tuple[float, ...]:
    """Bin edges in days or seconds: calendar units between two bounds, or so many equal bins."""
    first, last = (_moment(name, bound, date) for bound in (low, high))
    if first > last:
        raise SchemaError(f"Column {name!r} needs a minimum that is not after its maximum.")
    end = last + 1
    if bins is not None:
        return number_edges(name, first, last, True, bins, None)
    if resolution not in RESOLUTIONS or (date and resolution in ("hour", "minute", "second")):
        kind, allowed = ("date", RESOLUTIONS[:5]) if date else ("datetime", RESOLUTIONS)
        raise SchemaError(
            f"Column {name!r} has resolution {shown(resolution)}; a {kind} column takes one of"
            f" {', '.join(allowed)}."
        )
    base = "D" if date else "s"
    count, unit = SPANS[resolution]
    start = int(np.array(first, f"M8[{base}]").astype(f"M8[{unit}]").astype(np.int64))
    # Weeks begin on Monday; day 0 of the epoch is a Thursday.
    offset = 4 if resolution == "week" else 0
    start = (start - offset) // count * count + offset
    stop = int(np.array(last, f"M8[{base}]").astype(f"M8[{unit}]").astype(np.int64)) + 1
    if (stop - start) // count > 10**6:
        raise SchemaError(
            f"Column {name!r} would have over a million bins at resolution {resolution!r}; use a"
            " coarser resolution or bins."
        )
    marks = (
        np.arange(start, stop + count, count)
        .astype(f"M8[{unit}]")
        .astype(f"M8[{base}]")
        .astype(np.int64)
    )
    inside = marks[(marks > first) & (marks < end)]
    return (float(first), *map(float, inside), float(end))


def _moment(name: str, value: Any, date: bool) -> int:
    if isinstance(value, str):
        micro, good = c.moments_in_text(pa.array([value.strip()], pa.large_string()))
        value = int(micro[0]) if good[0] else None
    elif isinstance(value, dt.date):
        value = c.read_objects([value]).moment[0]
    else:
        value = None
    if value is None:
        raise SchemaError(
            f"Column {name!r} needs ISO 8601 bounds such as 2020-01-31 (constraints.minimum,"
            " constraints.maximum)."
        )
    return int(value // (c.MICROSECONDS * (86400 if date else 1)))
