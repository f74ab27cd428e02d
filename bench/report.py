"""Tables from results: means over seeds, failures in words, CPU seconds as ratios within a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.compare import against, behind, builds, formatted, grouped, mean, named, of_part, plainly
from bench.grid import Behind, Suite, View
from bench.results import Row

WIDTH = 160  # of a table that goes to a file
COST = {"cpu": ".1f", "peak": ".2f"}  # in every table
# with units; other columns have their own names
HEADS = {"cpu": "CPU s", "peak": "peak GB", "wall": "wall s", "max": "largest"}


def of_run(rows: Sequence[Row], run: str | None = None) -> list[Row]:
    """Those of one run, the latest if none is named; of a point measured again, the last."""
    if not rows:
        return []
    run = run or max(rows, key=lambda row: row["when"])["run"]
    mine = [row for row in rows if row["run"] == run]
    last = {row["key"]: row["file"] for row in mine}  # rows come oldest first
    return [row for row in mine if row["file"] == last[row["key"]]]


def lines(view: View, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of one table."""
    mine = of_part(rows, view.part)
    shows = {**view.shows, **{name: how for name, how in COST.items() if name not in view.shows}}
    shows = {
        name: how for name, how in shows.items() if any(row.get(name) is not None for row in mine)
    }
    others = builds(mine)
    by = [*view.by, "build"] if others else list(view.by)
    ratios = beside(view, grouped(mine, by))
    heads = [
        *by,
        "runs",
        *(HEADS.get(name, name.replace("_", " ")) for name in shows),
        *(["x CPU"] if ratios else []),
    ]
    cells = []
    for place, here in grouped(mine, view.by).items():
        for key, those in grouped(here, by).items():
            shown = shown_of(those, shows)
            cells.append([*named(key, by), *shown, *([ratios.get(key, "")] if ratios else [])])
        for other in others:
            line = against(here, other, list(shows))
            cells.append([*map(plainly, place), *line, *([""] if ratios else [])])
    return heads, cells


def shown_of(those: Sequence[Row], shows: Mapping[str, str]) -> list[str]:
    """How many runs there were, and the mean of all that is shown; or why there is none."""
    good = [row for row in those if not row.get("failure")]
    runs = str(len(good)) if len(good) == len(those) else f"{len(good)} of {len(those)}"
    failed = dict.fromkeys(row["failure"] for row in those if row.get("failure"))
    shown = [formatted(mean(good or those, name), how) for name, how in shows.items()]
    if failed and not good:
        shown[0] = "; ".join(failed)
    return [runs, *shown]


def beside(view: View, groups: dict[tuple[Any, ...], list[Row]]) -> dict[tuple[Any, ...], str]:
    """CPU seconds as a multiple of those of the first line that differs in this one axis only."""
    if view.ratio is None:
        return {}
    place, first, ratios = list(view.by).index(view.ratio), dict[tuple[Any, ...], float](), {}
    for key, those in groups.items():
        cpu = mean([row for row in those if not row.get("failure")], "cpu")
        if cpu:
            base = first.setdefault((*key[:place], *key[place + 1 :]), cpu)
            ratios[key] = f"{cpu / base:.2f}"
    return ratios if len(ratios) > len(first) else {}


def origin(rows: Sequence[Row]) -> str:
    """On what it was measured, in a sentence or two."""
    last = rows[-1]
    seen = sorted({row["load"] for row in rows if row.get("load") is not None})
    installed = ", ".join(
        f"{name} {number}" for name, number in json.loads(last["versions"]).items()
    )
    places = {(row["processor"], row["cores"], row["memory_gb"]) for row in rows}
    several = (
        " Several machines took part: do not compare their seconds." if len(places) > 1 else ""
    )
    when = f"Run {last['run']}, {rows[0]['when']} to {last['when']}"
    machine = (
        f"{last['processor']}, {last['cores']} cores, {last['memory_gb']} GB, {last['system']}"
    )
    load = f"load {seen[0]:g} to {seen[-1]:g}"
    own = [row["commit"] for row in rows if not row.get("build")]
    commit = f"commit {(own or [last['commit']])[-1] or 'unknown'}"
    return f"{when}; {commit}. {machine}; {load}. Python {last['python']}, {installed}.{several}"


def as_markdown(title: str, heads: list[str], cells: list[list[str]]) -> str:
    bars = [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *cells)]
    return "\n".join([f"**{title}**", "", *bars, ""])


def show(suite: Suite, rows: Sequence[Row], *, markdown: bool = False) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for view in suite.views:
        heads, cells = behind(view, rows) if isinstance(view, Behind) else lines(view, rows)
        if not cells:
            continue
        if markdown:
            print(as_markdown(view.title, heads, cells))
            continue
        table = Table(*heads, title=view.title)
        for line in cells:
            table.add_row(*(cell.replace("[", r"\[") for cell in line))
        console.print(table)
    print(*([suite.note, ""] if suite.note else []), origin(rows), sep="\n")
