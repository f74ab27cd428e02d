"""A bit for every column, from released values: two public halves of about the same mass.

A column of two values is its own bit. Codes of an ordered column are halved where they come nearest
to half of the rows. Others are put in an order first: by how often their rows have a label's bit, if
there is a label. All of it is arithmetic on released values, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.counting.tally import count_cells
from understudy.schema.domain import Domain

Bits = tuple[int, ...]  # of every code of a column


def halves(
    schema: Domain, columns: Sequence[np.ndarray], rows: np.ndarray, label: int | None
) -> list[Bits]:
    """The bits of all columns, given their distributions and the rows fitted so far."""
    plain = [half(shares, np.arange(len(shares))) for shares in columns]
    if label is None:
        return plain
    shape, bits = schema.shape, []
    for column, shares in enumerate(columns):
        if column == label or schema.columns[column].ordered or len(shares) == 2:
            bits.append(plain[column])
            continue
        table = count_cells(rows, (column, label), (shape[column], shape[label]))
        table = table.reshape(shape[column], shape[label])
        often = (table @ np.asarray(plain[label]) + 1) / (table.sum(axis=1) + 2)
        bits.append(half(shares, often))
    return bits


def half(shares: np.ndarray, order: np.ndarray) -> Bits:
    """0 for codes that come first in an order, 1 for the others, about half of the mass each."""
    ranked = np.argsort(order, kind="stable")
    below = np.cumsum(shares[ranked])[:-1]
    bits = np.zeros(len(shares), np.int64)
    if len(below):
        bits[ranked[np.argmin(np.abs(below - below[-1] / 2 - shares[ranked[-1]] / 2)) + 1 :]] = 1
    return tuple(bits.tolist())


def balance(shares: np.ndarray, bits: Bits) -> float:
    """The share of the rarer half."""
    ones = float(np.asarray(shares) @ np.asarray(bits))
    return min(ones, 1 - ones)
