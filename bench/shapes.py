"""Invented tables of many shapes, each by a name such as ``shape:chain:50000x15:mixed@7``.

The first word says how columns depend on each other:

    alone        not at all
    classes      all of them, through hidden classes; no order
    factor       all of them, through one hidden number
    blocks       each with its own three or four, strongly; hardly otherwise
    chain        each with the one before it
    tree         each with one earlier column, whose codes it mixes up; no order, skewed
    functional   each second column is nearly a function of the one before it

Then rows x columns, then how many values a column has:

    binary       2
    few          2 to 10
    mixed        2 to 100
    long         two of 5,000 and 300, else 2 to 100

The last number is a public seed. What has an order is long-tailed, bell-shaped, flat or has a
spike; what has none has a few frequent values and many rare ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from bench.coded import Coded

NAME = re.compile(r"shape:([a-z]+):(\d+)x(\d+):([a-z]+)@(\d+)")  # as the words above say
MIXED = [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 42, 60, 85, 100]  # a few values to many
LONG = [5_000, 300]  # categories of its first two columns
CLASSES = 5  # hidden ones
FACTOR = 0.75  # how much of a column is the hidden number, and of a step in a chain the last one
BLOCK, BOUND = 4, 0.95  # columns in a block, and how much of each is the block's
KEPT = 0.7  # of rows in which a column of a tree follows the one it hangs on
STRAY = 0.03  # of rows in which a near-functional pair does not hold
Rng = np.random.Generator


def sizes(word: str, columns: int, rng: Rng) -> list[int]:
    """How many values each column has."""
    if word == "binary":
        return [2] * columns
    if word == "few":
        return [int(size) for size in rng.integers(2, 11, columns)]
    if word not in ("mixed", "long"):
        raise ValueError(f"{word!r} is not one of binary, few, mixed and long.")
    first = LONG if word == "long" else []
    return first + [int(size) for size in rng.choice(MIXED, columns - len(first))]


# ---------------------------------------------------------------------- single columns


def ranked(size: int, rng: Rng) -> np.ndarray:
    """Shares of the values of an ordered column."""
    place = (np.arange(size) + 0.5) / size
    kind = rng.integers(4)
    if kind == 0:
        shares = np.exp(-place * rng.uniform(3, 12))  # a long tail
    elif kind == 1:
        shares = np.exp(-(((place - rng.uniform(0.3, 0.7)) / 0.2) ** 2))
    else:
        shares = np.ones(size)
    if kind == 3:
        shares[rng.integers(size)] += size * rng.uniform(0.3, 1.0)  # a spike
    normalised: np.ndarray = shares / shares.sum()
    return normalised


def skewed(size: int, rng: Rng) -> np.ndarray:
    """Shares of the values of a column without an order."""
    shares = 1 / np.arange(1, size + 1) ** rng.uniform(0.7, 1.5)
    permuted: np.ndarray = rng.permutation(shares / shares.sum())
    return permuted


def by_rank(hidden: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Codes with these shares, in the order of hidden numbers."""
    place = np.empty(len(hidden))
    place[np.argsort(hidden, kind="stable")] = (np.arange(len(hidden)) + 0.5) / len(hidden)
    return np.searchsorted(np.cumsum(shares), place).clip(0, len(shares) - 1)


def draw(rows: int, shares: np.ndarray, rng: Rng) -> np.ndarray:
    return np.searchsorted(np.cumsum(shares), rng.random(rows)).clip(0, len(shares) - 1)


# ---------------------------------------------------------------------- dependence

Columns = tuple[list[np.ndarray], list[bool]]  # codes, and whether they are ordered


def alone(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    order = [number % 2 == 0 for number in range(len(wanted))]
    ways = [ranked if one else skewed for one in order]
    codes = [draw(rows, way(size, rng), rng) for way, size in zip(ways, wanted, strict=True)]
    return codes, order


def classes(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    hidden, codes = rng.integers(0, CLASSES, rows), []
    for size in wanted:
        column = np.zeros(rows, np.int64)
        for k in range(CLASSES):
            mine = np.flatnonzero(hidden == k)
            column[mine] = draw(len(mine), rng.dirichlet(np.full(size, 0.5)), rng)
        codes.append(column)
    return codes, [False] * len(wanted)


def partly(hidden: np.ndarray, share: float, rng: Rng) -> np.ndarray:
    """A normal number that is correlated so much with another."""
    mixture: np.ndarray = share * hidden + np.sqrt(1 - share**2) * rng.normal(size=len(hidden))
    return mixture


def factor(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    hidden = rng.normal(size=rows)
    signs = rng.choice([-1, 1], len(wanted))
    codes = [
        by_rank(partly(sign * hidden, FACTOR, rng), ranked(size, rng))
        for sign, size in zip(signs, wanted, strict=True)
    ]
    return codes, [True] * len(wanted)


def blocks(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    whole, codes = rng.normal(size=rows), []
    for number, size in enumerate(wanted):
        if number % BLOCK == 0:
            hidden = partly(whole, 0.2, rng)
        codes.append(by_rank(partly(hidden, BOUND, rng), ranked(size, rng)))
    return codes, [True] * len(wanted)


def chain(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    hidden, codes = rng.normal(size=rows), []
    for size in wanted:
        codes.append(by_rank(hidden, ranked(size, rng)))
        hidden = partly(hidden, FACTOR, rng)
    return codes, [True] * len(wanted)


def tree(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    codes = [draw(rows, skewed(wanted[0], rng), rng)]
    for number, size in enumerate(wanted[1:], 1):
        above = int(rng.integers(number))
        follows = rng.integers(0, size, wanted[above])[codes[above]]
        stray = draw(rows, skewed(size, rng), rng)
        codes.append(np.where(rng.random(rows) < KEPT, follows, stray))
    return codes, [False] * len(wanted)


def functional(rows: int, wanted: Sequence[int], rng: Rng) -> Columns:
    """Pairs (x, f(x) and a little noise): f rises, or is a hump, or mixes codes up."""
    hidden, codes, order = rng.normal(size=rows), list[np.ndarray](), list[bool]()
    for number, size in enumerate(wanted):
        if number % 2 == 0:
            codes.append(by_rank(partly(hidden, 0.4, rng), ranked(size, rng)))
            order.append(True)
            continue
        kind, x = number // 2 % 3, codes[-1] / max(wanted[number - 1] - 1, 1)
        if kind == 2:
            f = rng.integers(0, size, wanted[number - 1])[codes[-1]]
        else:
            y = x if kind == 0 else 4 * x * (1 - x)
            near = y * (size - 1) + rng.normal(scale=0.02 * size, size=rows)
            f = np.rint(near).astype(np.int64).clip(0, size - 1)
        codes.append(np.where(rng.random(rows) < STRAY, rng.integers(0, size, rows), f))
        order.append(kind < 2)
    return codes, order


# by the word of a name; a new one is a function and a line here
KINDS: dict[str, Callable[[int, Sequence[int], Rng], Columns]] = {
    "alone": alone,
    "classes": classes,
    "factor": factor,
    "blocks": blocks,
    "chain": chain,
    "tree": tree,
    "functional": functional,
}


def load(name: str) -> Coded:
    """The table of a name."""
    match = NAME.fullmatch(name)
    if not match or match[1] not in KINDS:
        raise ValueError(f"{name!r} is not a shape such as shape:chain:50000x15:mixed@7.")
    rows, columns, seed = int(match[2]), int(match[3]), int(match[5])
    rng = np.random.default_rng(seed)
    wanted = sizes(match[4], columns, rng)
    codes, order = KINDS[match[1]](rows, wanted, rng)
    names = [f"c{number}" for number in range(columns)]
    ordered = tuple(one for one, ranks in zip(names, order, strict=True) if ranks)
    table = np.empty((rows, columns), np.int32, order="F")
    for number, column in enumerate(codes):
        table[:, number] = column
    return Coded(table, dict(zip(names, wanted, strict=True)), ordered)
