"""Time and memory against rows, cells and columns, from the results of ``bench.scaling``; runs where matplotlib is installed.

python bench/scaling_plot.py RESULTS.json PLOT.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg" if sys.argv[2].endswith(".svg") else "agg")
import matplotlib.pyplot as plt

matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same results draw the same file
AXES = {"rows": ("released", "synthetic rows"), "cells": ("cells", "cells of the workload"), "columns": ("columns", "columns, all 2-way")}


def main() -> None:
    kept = json.loads(Path(sys.argv[1]).read_text())
    results = [line for line in kept["results"] if "failure" not in line]
    axes = [axis for axis in AXES if any(line["axis"] == axis for line in results)]
    if not axes:
        sys.exit("No point has a result; nothing to draw.")
    figure, panels = plt.subplots(2, len(axes), figsize=(4 * len(axes), 6), sharex="col", squeeze=False)
    for axis, (above, below) in zip(axes, panels.T, strict=True):
        name, label = AXES[axis]
        mine = [line for line in results if line["axis"] == axis]
        x = [line[name] for line in mine]
        above.plot(x, [line["cpu"] for line in mine], "o-", label="CPU seconds")
        above.plot(x, [line["wall"] for line in mine], "s--", label="wall seconds", alpha=0.6)
        below.plot(x, [line["gigabytes"] for line in mine], "o-", color="tab:green", label="peak GB")
        above.set(xscale="log", yscale="log")
        below.set(xscale="log", xlabel=label, ylim=(0, 1.2 * max(line["gigabytes"] for line in mine)))
        for panel in (above, below):
            panel.grid(True, alpha=0.3)
            panel.legend(frameon=False, fontsize=9)
    figure.suptitle(f"one release by {kept['mechanism']}, epsilon 1, invented tables", fontsize=11)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None} if sys.argv[2].endswith(".svg") else None)


if __name__ == "__main__":
    main()
