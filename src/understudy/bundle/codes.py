"""Coded rows as a bundle stores them: a column for each of the schema's or, for items, the pairs
that are there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.schema import Schema

MOST_CODES = 2**31  # a manifest that asks for more is not one of ours


def coded(codes: np.ndarray, schema: Schema) -> pa.Table:
    """What is stored for some rows."""
    if schema.pairs is None:
        return pa.table(list(np.ascontiguousarray(codes.T)), names=list(schema.names))
    rows, items = np.nonzero(codes)
    return pa.table({"row": rows.astype(np.int32), "item": items.astype(np.int32)})


def uncoded(stored: pa.Table, schema: Schema, count: int) -> np.ndarray:
    """The rows that were stored; ValueError when they are not of this schema. The caller checks
    that they are stored the same again.
    """
    if schema.pairs is None:
        if stored.column_names != list(schema.names):
            raise ValueError("other columns than the schema's")
        codes = np.column_stack([stored[name].to_numpy() for name in schema.names]).astype(np.int32)
        # compiled counting would write beyond its tables
        if (codes < 0).any() or (codes >= np.asarray(schema.shape)).any():
            raise ValueError("codes that the columns do not have")
        return codes
    if (
        not isinstance(count, int)
        or isinstance(count, bool)
        or not 0 < count * len(schema) <= MOST_CODES
    ):
        raise ValueError("no such number of rows")
    rows, items = (stored[name].to_numpy() for name in ("row", "item"))
    if len(rows) and (
        min(rows.min(), items.min()) < 0 or rows.max() >= count or items.max() >= len(schema)
    ):
        raise ValueError("pairs beyond the rows or the items")
    codes = np.zeros((count, len(schema)), np.int32)
    codes[rows, items] = 1
    return codes
