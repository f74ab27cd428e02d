"""Figures from results, where matplotlib is installed."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.compare import grouped, mean, plainly
from bench.grid import Panel, Suite
from bench.report import HEADS
from bench.results import Row

DASHES = ("-", "--", ":", "-.")  # told apart in print, too
SHAPES = "osD^v<>PX*"  # ten marks of matplotlib; more lines than that nobody reads
LINEAR = 1e-4  # below it, an axis that has a zero is linear
HIGH, WIDE = 3.6, 4.6  # inches of a panel


def matplotlib() -> Any:
    try:
        import matplotlib as module
    except ImportError:
        sys.exit("Figures are drawn by matplotlib, which is not installed: pip install matplotlib")
    module.use("svg")
    module.rcParams["svg.hashsalt"] = "understudy"  # the same results draw the same file
    return module


def values(rows: Sequence[Row], name: str | None) -> list[Any]:
    """What a column says, in the order in which it was first said."""
    return list(dict.fromkeys(row.get(name) for row in rows)) if name else [None]


def place(row: Row) -> str:
    """Of the grid: what the rows of all seeds have in common."""
    asked = json.loads(row["key"]) | {"seed": None, "epsilon": row.get("epsilon")}
    return json.dumps(asked, sort_keys=True)


def mine(panel: Panel, rows: Sequence[Row]) -> list[Row]:
    """What a panel shows: results that it has an axis for, and failures where their clock stopped."""
    here = [
        row for row in rows if all(row.get(name) == value for name, value in panel.where.items())
    ]
    return [row for row in here if has(row, panel) or (row.get("failure") and panel.x == "cpu")]


def has(row: Row, panel: Panel) -> bool:
    return not row.get("failure") and all(row.get(name) is not None for name in (panel.x, *panel.y))


@dataclass(frozen=True)
class Styles:
    """One for each value of a column, the same in every panel."""

    colours: dict[Any, Any]
    dashes: dict[Any, str]
    marks: dict[Any, str]

    @classmethod
    def of(cls, panel: Panel, rows: Sequence[Row], palette: Any) -> Styles:
        ten = itertools.cycle(map(palette, range(10)))
        return cls(
            dict(zip(values(rows, panel.colour), ten, strict=False)),
            dict(zip(values(rows, panel.dash), itertools.cycle(DASHES))),
            dict(zip(values(rows, panel.mark), itertools.cycle(SHAPES))),
        )


def draw_panel(axes: Any, panel: Panel, rows: Sequence[Row], styles: Styles) -> None:
    """A line for each colour, dash and measured value, through the means over seeds.

    A line without any result is a cross at the top, where its clock stopped.
    """
    here = mine(panel, rows)
    for (colour, dash), line in grouped(here, (panel.colour, panel.dash or "")).items():
        for number, y in enumerate(panel.y):
            shade, track = styles.colours[colour], []
            for those in grouped(line, ("place",)).values():
                good = [row for row in those if has(row, panel)]
                if not good:
                    at = {"transform": axes.get_xaxis_transform(), "clip_on": False}
                    axes.plot(mean(those, "cpu"), 0.97, "x", color=shade, **at)
                    continue
                track.append((mean(good, panel.x), mean(good, y)))
                mark = styles.marks[those[0].get(panel.mark or "")]
                axes.plot(*track[-1], mark, color=shade, markersize=6)
            style = DASHES[number] if panel.dash is None else styles.dashes[dash]
            (
                axes.plot(*zip(*sorted(track), strict=True), style, color=shade, alpha=0.7)
                if track
                else None
            )
    axes.set(xscale=panel.xscale, xlabel=HEADS.get(panel.x, panel.x))
    axes.set(ylabel=", ".join(HEADS.get(name, name) for name in panel.y))
    axes.set_yscale(panel.yscale, **({"linthresh": LINEAR} if panel.yscale == "symlog" else {}))
    axes.set_title(panel.title, fontsize=10)
    axes.grid(True, alpha=0.3)


def legend(plt: Any, panel: Panel, styles: Styles) -> list[Any]:
    """Every colour, dash and marker, once."""
    handles = [
        plt.Line2D([], [], color=colour, label=plainly(name))
        for name, colour in styles.colours.items()
    ]
    for value, dash in styles.dashes.items() if panel.dash else ():
        handles.append(
            plt.Line2D([], [], color="grey", label=f"{panel.dash} {plainly(value)}", linestyle=dash)
        )
    for value, mark in styles.marks.items() if panel.mark else ():
        handles.append(
            plt.Line2D(
                [],
                [],
                color="grey",
                label=f"{panel.mark} {plainly(value)}",
                marker=mark,
                linestyle="",
            )
        )
    return handles


def draw(suite: Suite, rows: Sequence[Row], folder: Path) -> Path:
    """One file for a suite, named after it."""
    matplotlib()
    import matplotlib.pyplot as plt

    # A figure is of this build; a report has the others beside it.
    rows = [{**row, "place": place(row)} for row in rows if not row.get("build")]
    panels = [panel for panel in suite.panels if any(has(row, panel) for row in mine(panel, rows))]
    if not panels:
        sys.exit(f"No measurement of {suite.name} has a result; nothing to draw.")
    shown = [row for panel in panels for row in mine(panel, rows)]
    styles = Styles.of(panels[0], shown, plt.get_cmap("tab10"))
    down = -(-len(panels) // suite.across)
    figure, places = plt.subplots(
        down, suite.across, figsize=(WIDE * suite.across, HIGH * down + 1), squeeze=False
    )
    for axes, panel in itertools.zip_longest(places.flat, panels):
        if panel is None:
            axes.set_axis_off()
        else:
            draw_panel(axes, panel, rows, styles)
    figure.legend(
        handles=legend(plt, panels[0], styles),
        loc="lower center",
        ncols=4,
        fontsize=9,
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0.7 / (HIGH * down + 1), 1, 1))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{suite.name}.svg"
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    return file
