"""Error against CPU seconds, from the results of ``bench.rivals``; runs where matplotlib is installed.

python bench/rivals_plot.py RESULTS.json PLOT.svg
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg" if sys.argv[2].endswith(".svg") else "agg")
import matplotlib.pyplot as plt

matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same results draw the same file
COLOURS = plt.get_cmap("tab10").colors
SHAPES = "osD^v"


def mean(lines: list[dict[str, Any]], name: str) -> float:
    return statistics.fmean(line[name] for line in lines)


def panel(axes: Any, results: list[dict[str, Any]], measure: str, title: str) -> None:
    """One point for each system and epsilon; a system without a result is a cross at the top, where its clock stopped."""
    systems = list(dict.fromkeys(line["system"] for line in results))
    epsilons = sorted({line["epsilon"] for line in results})
    for number, system in enumerate(systems):
        colour, track = COLOURS[number % len(COLOURS)], []
        for shape, epsilon in zip(SHAPES, epsilons, strict=False):
            lines = [line for line in results if (line["system"], line["epsilon"]) == (system, epsilon)]
            good = [line for line in lines if "failure" not in line]
            if good:
                track.append((mean(good, "cpu"), mean(good, measure)))
                axes.plot(*track[-1], shape, color=colour, markersize=8, markeredgecolor="white", zorder=3)
            elif lines:
                axes.plot(mean(lines, "cpu"), 0.97, "x", color=colour, markersize=8, transform=axes.get_xaxis_transform(), clip_on=False)
        axes.plot(*zip(*track, strict=True), "-", color=colour, alpha=0.4) if len(track) > 1 else None
    axes.set(xscale="log", yscale="log", xlabel="CPU seconds", title=title)
    axes.grid(True, which="major", alpha=0.3)


def main() -> None:
    kept = json.loads(Path(sys.argv[1]).read_text())
    results = kept["results"]
    figure, panels = plt.subplots(1, 2, figsize=(11, 5.2))
    panel(panels[0], results, "max", "largest error of a cell")
    panel(panels[1], results, "mean", "mean error of a cell")
    systems = list(dict.fromkeys(line["system"] for line in results))
    without = {s for s in systems if all("failure" in line for line in results if line["system"] == s)}
    epsilons = sorted({line["epsilon"] for line in results})
    handles = [
        plt.Line2D([], [], marker="x" if s in without else "s", linestyle="", color=COLOURS[i % len(COLOURS)],
                   label=f"{s}: no result" if s in without else s)
        for i, s in enumerate(systems)
    ]  # fmt: skip
    handles += [
        plt.Line2D([], [], marker=m, linestyle="", color="grey", label=f"epsilon {e:g}") for m, e in zip(SHAPES, epsilons, strict=False)
    ]
    figure.legend(handles=handles, loc="lower center", ncols=4, fontsize=9, frameon=False)
    figure.suptitle(f"{kept['table']}, {kept['workload']}, delta = 1/n², add-remove-one: lower and further left is better", fontsize=11)
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    figure.savefig(sys.argv[2], metadata={"Date": None} if sys.argv[2].endswith(".svg") else None)


if __name__ == "__main__":
    main()
