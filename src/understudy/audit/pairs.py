"""Invented neighbouring tables: small, skewed, and some with the one person who differs where it
shows most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from understudy.queries.base import Neighbours
from understudy.schema import Schema

# where the row that differs stands; the last two are where sensitivities are largest
PLACED = ("anywhere", "alone in each cell", "from one end to the other")


@dataclass(frozen=True)
class Pair:
    """Two tables that must be hard to tell apart."""

    placed: str
    schema: Schema
    relation: Neighbours
    here: np.ndarray = field(repr=False)
    there: np.ndarray = field(repr=False)


def pairs(count: int, relation: Neighbours, seed: int) -> Iterator[Pair]:
    """So many pairs, the same for the same seed."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        sizes = rng.integers(2, 4, int(rng.integers(3, 5)))
        schema = Schema.from_domain({f"c{j}": int(size) for j, size in enumerate(sizes)})
        rows = np.minimum(
            rng.geometric(0.6, (int(rng.integers(12, 40)), len(sizes))) - 1, sizes - 1
        )
        placed = PLACED[i % len(PLACED)]
        here, record = _placed(rows, sizes, placed, rng)
        if relation is Neighbours.REPLACE_ONE:
            there = here.copy()
            there[0] = record
        else:
            there = here[1:]
        both = (here, there) if rng.random() < 0.5 else (there, here)
        yield Pair(placed, schema, relation, *both)


def _placed(
    rows: np.ndarray, sizes: np.ndarray, placed: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(the table with the person who differs in front, who replaces them)."""
    record = rng.integers(0, sizes)
    if placed == "alone in each cell":
        rows = np.minimum(rows, np.maximum(sizes - 2, 0))  # nobody else has a last value
        rows[0], record = sizes - 1, np.zeros_like(sizes)
    elif placed == "from one end to the other":
        rows[0], record = 0, sizes - 1
    return rows, record
