"""The demo's rows beside their source, single columns as small panels: ``docs/rows.png``.

python -m tools.rows [--epsilon 1] [--out docs/rows.png]
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.api.demo import population, schema

BINS = 60  # of a panel: finer than any bin of the demo's schema
SEED = 7  # of the public randomness; the noise has none
PANEL = (3.2, 2.1)  # inches
ACROSS = 4  # panels


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1))
    parser.add_argument("--out", type=Path, default=Path("docs/rows.png"))
    asked = parser.parse_args()
    made = us.release(population(), schema=schema(), epsilon=asked.epsilon, seed=SEED)
    draw(population(), made.synthetic, asked.out)
    print(f"{asked.out}: {made.synthetic.num_columns} columns")


def draw(source: pa.Table, released: pa.Table, place: Path) -> None:
    """A panel for each column: shares of the source in grey, of the released rows in blue."""
    import matplotlib.pyplot as plt  # only this picture needs it

    names = source.column_names
    down = -(-len(names) // ACROSS)
    figure, panels = plt.subplots(down, ACROSS, figsize=(PANEL[0] * ACROSS, PANEL[1] * down))
    for panel, name in zip(panels.flat, names, strict=False):
        _panel(panel, name, *(one[name].drop_null().to_pandas() for one in (source, released)))
    for panel in panels.flat[len(names) :]:
        panel.axis("off")
    panels.flat[0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    figure.savefig(place, dpi=110)
    plt.close(figure)


def _panel(panel: Any, name: str, source: Any, released: Any) -> None:
    panel.set_title(name, fontsize=9)
    panel.tick_params(labelsize=6)
    panel.set_yticks([])
    if source.dtype.kind in "OUSb" and not hasattr(source.iloc[0], "year"):
        words = sorted(set(map(str, source)))
        for shift, one, hue in ((-0.2, source, "0.6"), (0.2, released, "#2f6fdf")):
            counts = one.astype(str).value_counts(normalize=True)
            heights = [counts.get(word, 0.0) for word in words]
            panel.bar(np.arange(len(words)) + shift, heights, 0.4, color=hue)
        panel.set_xticks(range(len(words)), words)
        return
    both = [_numbers(one) for one in (source, released)]
    whole = len(np.unique(both[0])) <= BINS
    edges = (
        np.arange(both[0].min(), both[0].max() + 2) - 0.5
        if whole
        else np.linspace(both[0].min(), both[0].max(), BINS + 1)
    )
    panel.hist(both[0], edges, density=True, color="0.8", label="source")
    panel.hist(both[1], edges, density=True, histtype="step", color="#2f6fdf", label="released")
    panel.locator_params(axis="x", nbins=5)


def _numbers(column: Any) -> np.ndarray:
    """Values as numbers; of dates and times, the year with what is behind its point."""
    if column.dtype.kind in "iuf":
        numbers: np.ndarray = column.to_numpy(np.float64)
        return numbers
    days = column.to_numpy().astype("M8[s]").astype(np.float64) / 86400
    return 1970 + days / 365.25


if __name__ == "__main__":
    main()
