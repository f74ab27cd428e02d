"""Rows of results beside each other: groups, means, and which differ by more than scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from bench.grid import Behind
from bench.results import Row

THOUSANDS = 10_000  # from here on, whole numbers have commas
SCATTER = 1 / 6  # of one run, as a share, where nothing was measured twice
CLEARLY = 2.0  # standard errors of a difference that is no chance


def of_part(rows: Sequence[Row], part: str | None) -> list[Row]:
    return [row for row in rows if part is None or row.get("part") == part]


def grouped(rows: Sequence[Row], by: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in by), []).append(row)
    return groups


def mean(rows: Sequence[Row], name: str) -> Any:
    """The mean of numbers; of texts the one that all say, or all of them."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if not values:
        return None
    if any(isinstance(value, str) for value in values):
        return ", ".join(dict.fromkeys(map(str, values)))
    return fmean(values)


def formatted(value: Any, how: str) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, str) or not how else format(value, how)


def plainly(value: Any) -> str:
    """A value of an axis."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= THOUSANDS and value == int(value) else f"{value:g}"


def values(rows: Sequence[Row], name: str) -> list[float]:
    """What was measured in the runs that did not fail, where it is a number."""
    numbers = [row.get(name) for row in rows if not row.get("failure")]
    return [float(one) for one in numbers if isinstance(one, int | float)]


# ---------------------------------------------------------------------- builds


def builds(rows: Sequence[Row]) -> list[str]:
    """Of other source trees, if any took part."""
    return list(dict.fromkeys(row["build"] for row in rows if row.get("build")))


def named(key: Sequence[Any], by: Sequence[str]) -> list[str]:
    """Values of axes, for a reader."""
    return [
        "this" if name == "build" and not value else plainly(value)
        for name, value in zip(by, key, strict=True)
    ]


def against(rows: Sequence[Row], other: str, names: Sequence[str]) -> list[str]:
    """This build as a multiple of another: a line of a table, below the lines of both."""
    ours = [row for row in rows if not row.get("build")]
    theirs = [row for row in rows if row.get("build") == other]
    ratios = [ratio(values(ours, name), values(theirs, name)) for name in names]
    return [f"this / {other}", "", *ratios]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Of means, with its standard error where both have two runs or more."""
    if not ours or not theirs or not fmean(theirs):
        return ""
    quotient = fmean(ours) / fmean(theirs)
    if len(ours) < 2 or len(theirs) < 2 or not fmean(ours):
        return f"{quotient:.2f}"
    off = quotient * math.hypot(
        *(stdev(some) / fmean(some) / math.sqrt(len(some)) for some in (ours, theirs))
    )
    return f"{quotient:.2f} ±{off:.2f}"


# ---------------------------------------------------------------------- who is behind


def scatter(groups: Sequence[Sequence[float]], unknown: float = SCATTER) -> float:
    """Of one run, as a share of the mean: pooled, for two or three runs say little of their own."""
    several = [some for some in groups if len(some) > 1 and fmean(some) > 0]
    if not several:
        return unknown
    squares = sum((len(some) - 1) * (stdev(some) / fmean(some)) ** 2 for some in several)
    return math.sqrt(squares / sum(len(some) - 1 for some in several))


def behind(view: Behind, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells: one line for each error and each other that is clearly smaller."""
    mine = of_part(rows, view.part)
    by = [*view.by, "build"] if builds(mine) else list(view.by)
    heads = [*by, "error", view.ours, "is behind", "which has", "ratio", "of chance"]
    cells = []
    for name, how in view.errors.items():
        places = {
            key: {one: values(some, name) for (one,), some in grouped(those, (view.axis,)).items()}
            for key, those in grouped(mine, by).items()
        }
        usual = scatter([some for sides in places.values() for some in sides.values()])
        for key, sides in places.items():
            for other, theirs, chance in ahead(sides, view.ours, usual):
                ours = fmean(sides[view.ours])
                beside = [
                    formatted(ours, how),
                    other,
                    formatted(theirs, how),
                    f"{ours / theirs:.2f}",
                ]
                cells.append([*named(key, by), name, *beside, f"±{chance:.2f}"])
    return heads, cells


def ahead(sides: dict[str, list[float]], ours: str, usual: float) -> list[tuple[str, float, float]]:
    """Those clearly smaller than ours: their names, means, and what chance does to the ratio."""
    rivals = []
    for other, theirs in sides.items():
        if other == ours or not theirs or not sides.get(ours) or not fmean(theirs):
            continue
        # A table that scatters more than others do is given its own scatter.
        spread = max(usual, scatter([sides[ours], theirs], usual))
        chance = CLEARLY * spread * math.sqrt(1 / len(sides[ours]) + 1 / len(theirs))
        if fmean(sides[ours]) > fmean(theirs) * (1 + chance):
            rivals.append((other, fmean(theirs), chance))
    return rivals
