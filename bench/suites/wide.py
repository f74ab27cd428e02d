"""DualQuery on wide tables, as in section 6.3 of its paper: up to 512,000 binary attributes.

100,000 rows; attribute i is 1 with probability p_i, itself uniform in [0, 1], in every row and
independently; queries ask for three attributes that are all 1; epsilon = 1 and delta = 0.001. The
paper's delta is above 1/n, which ``release()`` refuses; see bench/playing.py. There are only
19,600 different queries over 50 attributes; all other sizes have 100,000.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numba
import numpy as np

import understudy as us
from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from bench.playing import play_at
from bench.releases import exact, mechanism_of, warm_up
from understudy.mechanisms.base import make
from understudy.sources.items import ItemSource

ROWS, QUERIES = 100_000, 100_000  # the paper's
SIZES = (50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 512_000)  # up to the paper's largest
BITS = 16  # of each p_i


@numba.njit(cache=True, nogil=True)
def _flip(bits: np.ndarray, chances: np.ndarray, first: int, last: int, seed: int) -> None:
    """64 coins of chance p: by the binary digits of p, lowest first, OR a random word or AND it."""
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


def measure(point: Point) -> list[Line]:
    """One release, phase by phase."""
    name, parameters = mechanism_of(point.mechanism)
    warm_up(name)
    with clock() as inventing:
        bits = invent(point["attributes"], point.seed)
        schema = us.Schema.items(point["attributes"], density=0.5)
    with clock() as counting:
        source = ItemSource.from_bits(bits, ROWS, schema)
        work = us.random_conjunctions(schema, QUERIES, seed=point.seed)
        true = work.batches[0].counts(source).dense() / ROWS
    budget = us.Budget.of(epsilon=exact(point.epsilon), delta=Fraction(1, 1000))
    with clock() as playing:
        played, _ = play_at(source, work, make(name, parameters), budget, ROWS, point.seed)
    with clock() as answering:
        errors = np.abs(played.model.shares(work.batches[0]) - true)
    numbers: Line = {
        key: value
        for key, value in dict(played.facts).items()
        if isinstance(value, (int, float, str))
    }
    phases = {"invent_s": inventing, "count_s": counting, "play_s": playing, "answer_s": answering}
    walls: Line = {phase: spent.wall for phase, spent in phases.items()}
    accuracy: Line = {
        "average": float(errors.mean()),
        "max": float(errors.max()),
        "queries": work.size,
    }
    coins: Line = {"average_of_coins": float(np.abs(true - 0.125).mean())}
    return [{**numbers, **accuracy, **coins, **walls, "cpu": playing.cpu, "peak": answering.peak}]


SUITE = Suite(
    grids=[
        Grid(
            measure=measure,
            mechanism=["dualquery"],
            epsilon=[1.0],
            settings=[{"attributes": size} for size in SIZES],
        )
    ],
    views=[
        View(
            title=f"{ROWS:,} rows, delta 0.001",
            by=("mechanism", "epsilon", "attributes", "queries", "rounds", "samples"),
            shows={
                "step": ".2f",
                "average": ".4f",
                "max": ".4f",
                "average_of_coins": ".4f",
                "invent_s": ".1f",
                "count_s": ".1f",
                "play_s": ".1f",
                "answer_s": ".1f",
            },
        )
    ],
)
