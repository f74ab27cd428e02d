"""Mistakes beyond those of the best rule against rows, from the results of ``bench.learning``; runs where matplotlib is installed.

python bench/learning_plot.py RESULTS.json PLOT.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg" if sys.argv[2].endswith(".svg") else "agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same results draw the same file
KINDS = {"conjunctions": 20, "disjunctions": 20, "parities": 8, "halfspaces": 8, "decision-lists": 8}  # and what RSPM was tried on
EPSILONS = {"0.5": ":", "1": "--", "4": "-"}
FLOOR = 0.01  # percent: below it the axis is linear
METHODS = {  # colour, marker
    "exponential, width 3": ("#0072b2", "o"),
    "exponential, whole": ("#56b4e9", "s"),
    "features, width 3": ("#d55e00", "^"),
    "separators, whole": ("#009e73", "D"),
}
SAID = {
    "exponential, whole": "exponential, whole (conjunctions, disjunctions: unsigned)",
    "features, width 3": "RSPM, noise on features, width 3",
    "separators, whole": "RSPM, noise on separators, whole",
}


def method(one: dict[str, Any]) -> str:
    which = "whole" if one["width"] is None else f"width {one['width']}"
    return f"{one['method']}, {which}"


def panel(axes: Any, lines: list[dict[str, Any]]) -> None:
    for name, (colour, marker) in METHODS.items():
        for epsilon, dashes in EPSILONS.items():
            mine = sorted(
                (one["n"], 100 * one["excess"]) for one in lines if method(one) == name and one["epsilon"] == epsilon and "excess" in one
            )
            if mine:
                axes.plot(*zip(*mine, strict=True), dashes, color=colour, marker=marker, markersize=3.5, linewidth=1.2)
    axes.set(xscale="log", ylim=(-FLOOR / 5, 100))
    axes.set_yscale("symlog", linthresh=FLOOR)
    axes.set_yticks([0, 0.01, 0.1, 1, 10, 100])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(True, which="major", alpha=0.3)


def main() -> None:
    kept = json.loads(Path(sys.argv[1]).read_text())
    lines = [one for part in ("counting", "small", "large") for one in kept.get(part, [])]
    tables = [name for name in ("ADULT, income > 50K", "planted") if any(one["table"] == name for one in lines)]
    if not tables:
        sys.exit("There are no results; nothing to draw.")
    figure, panels = plt.subplots(len(tables), len(KINDS), figsize=(14, 3.1 * len(tables) + 1), sharex=True, sharey=True, squeeze=False)
    for table, beside in zip(tables, panels, strict=True):
        for (kind, d), axes in zip(KINDS.items(), beside, strict=True):
            panel(axes, [one for one in lines if (one["table"], one["kind"], one["d"]) == (table, kind, d)])
            if table == tables[0]:
                axes.set_title(f"{kind}, d = {d}", fontsize=10)
            if table == tables[-1]:
                axes.set_xlabel("rows")
        beside[0].set_ylabel(f"{table}\nmistakes beyond the best rule's, %", fontsize=9)
    handles = [plt.Line2D([], [], color=c, marker=m, markersize=5, label=SAID.get(name, name)) for name, (c, m) in METHODS.items()]
    handles += [plt.Line2D([], [], color="grey", linestyle=dashes, label=f"epsilon {epsilon}") for epsilon, dashes in EPSILONS.items()]
    figure.legend(handles=handles, loc="lower center", ncols=4, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(sys.argv[2], metadata={"Date": None} if sys.argv[2].endswith(".svg") else None)


if __name__ == "__main__":
    main()
