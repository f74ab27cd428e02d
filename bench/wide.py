"""DualQuery on wide tables, as in section 6.3 of its paper: 100,000 rows, 50 to 512,000 binary attributes, 3-way conjunctions.

    python -m bench.wide [--attributes 50 ... 512000] [--runs 1] [--mechanism dualquery] [--set NAME=VALUE]

Attribute i is 1 with probability p_i, itself uniform in [0, 1], in every row and independently; queries ask for three attributes
that are all 1; epsilon = 1 and delta = 0.001. The paper's delta is above 1/n, which ``release()`` refuses; see bench/playing.py.
There are only 19,600 different queries over 50 attributes; all other sizes have 100,000. Each run is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.playing import play_at
from understudy.mechanisms.base import make
from understudy.sources.items import ItemSource

ROWS, QUERIES = 100_000, 100_000
SIZES = (50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 512_000)
BITS = 16  # of each p_i


@numba.njit(cache=True, nogil=True)
def _flip(bits: np.ndarray, chances: np.ndarray, first: int, last: int, seed: int) -> None:
    """64 coins of chance p at once: along the binary digits of p, lowest first, OR a random word for 1 and AND one for 0."""
    for i in range(first, last):
        state = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(2 * i + 1)
        for w in range(bits.shape[1]):
            word = np.uint64(0)
            for digit in range(BITS):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                word = (word | state) if (chances[i] >> digit) & 1 else (word & state)
            bits[i, w] = word


def invent(attributes: int, seed: int) -> np.ndarray:
    """Bitmaps of the attributes, items x words."""
    chances = np.random.default_rng(seed).integers(0, 1 << BITS, attributes)
    bits = np.empty((attributes, -(-ROWS // 64)), np.uint64)
    edges = np.linspace(0, attributes, 65).astype(int)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda i: _flip(bits, chances, edges[i], edges[i + 1], 1 + seed), range(64)))
    return bits


def run(attributes: int, seed: int, name: str, parameters: dict[str, float]) -> dict[str, object]:
    """One release, phase by phase."""
    clock = [time.perf_counter()]
    bits = invent(attributes, seed)
    schema = us.Schema.items(attributes, density=0.5)
    clock.append(time.perf_counter())
    source = ItemSource.from_bits(bits, ROWS, schema)
    work = us.random_conjunctions(schema, QUERIES, seed=seed)
    exact = work.parts[0].counts(source).dense() / ROWS
    clock.append(time.perf_counter())
    played, _ = play_at(source, work, make(name, parameters), us.Budget.of(epsilon=1, delta=Fraction(1, 1000)), ROWS, seed)
    clock.append(time.perf_counter())
    errors = np.abs(played.model.shares(work.parts[0]) - exact)
    clock.append(time.perf_counter())
    facts = {
        **dict(played.facts),
        "average": float(errors.mean()),
        "largest": float(errors.max()),
        "uniform": float(np.abs(exact - 0.125).mean()),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"attributes": attributes, "queries": work.size, **facts, "seconds": np.diff(clock).tolist(), "peak": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attributes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--mechanism", default="dualquery")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="parameters, whole numbers")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    parameters = {name: int(value) for name, value in (text.split("=") for text in given.set)}
    if given.child is not None:
        print(json.dumps(run(given.attributes[0], given.child, given.mechanism, parameters)))
        return
    table = Table(title=f"{given.mechanism}: {ROWS:,} rows, epsilon 1, delta 0.001; 'uniform' is the average error of coins")
    titles = ("attributes", "queries", "rounds", "samples", "eta", "average", "largest", "uniform")
    for title in (*titles, "invent s", "count s", "play s", "answer s", "peak GB"):
        table.add_column(title, justify="right")
    for size in given.attributes:
        for seed in range(given.runs):
            command = [sys.executable, "-m", "bench.wide", *sys.argv[1:], "--attributes", str(size), "--child", str(seed)]
            made = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            step = made.get("step")
            shown = [
                f"{size:,}",
                f"{made['queries']:,}",
                str(made.get("rounds", "")),
                str(made.get("samples", "")),
                f"{step:.2f}" if step else "",
            ]
            shown += [f"{made[name]:.4f}" for name in ("average", "largest", "uniform")]
            table.add_row(*shown, *(f"{s:.1f}" for s in made["seconds"]), f"{made['peak']:.2f}")
            Console(stderr=True).print(" ".join(shown))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
