"""Features and labels as yes or no: each cell is read by itself, by a public rule, and none can
raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import ParameterError
from understudy.runtime.imported import imported
from understudy.schema import Categorical, Number
from understudy.schema import cells as c
from understudy.schema.columns import text_of

# the first float above one half: one half itself is a no
HALF = (0.0, float(np.nextafter(0.5, 1)), 1.0)


def feature(name: str) -> Number:
    """A column that is yes where it holds a number above one half; whatever is no number is a no."""
    return Number(name=name, integer=False, edges=HALF)


def columns_of(x: Any) -> list[np.ndarray]:
    """The columns of a table in memory; refuses what has not two dimensions, rows or features, all
    of which are public.
    """
    if isinstance(x, imported("scipy.sparse", "spmatrix", "sparray")):
        raise ParameterError(
            "X is a sparse matrix, which cannot be learnt from; give a dense one (X.toarray())."
        )
    frames = imported("pandas", "DataFrame")
    if isinstance(x, frames):
        table = frames[0](x)  # read as pandas reads it, whatever a subclass overrides
    elif isinstance(x, (list, tuple)):
        table = _by_cells(x)
    else:
        table = (
            x
            if isinstance(x, np.ndarray)
            else np.asarray(x, dtype=None if hasattr(x, "dtype") else object)
        )
    if table.ndim != 2:
        raise ParameterError(
            f"X has {table.ndim} dimension(s) and needs two, rows and features. Reshape your data:"
            " one feature is X.reshape(-1, 1)."
        )
    for count, what in zip(table.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ParameterError(
                f"X has 0 {what}(s) (shape={table.shape}) while a minimum of 1 is required."
            )
    if isinstance(table, np.ndarray):
        return list(table.T)
    return [table.iloc[:, place].to_numpy() for place in range(table.shape[1])]


def _by_cells(rows: Sequence[Any]) -> np.ndarray:
    """Nested lists as a table: NumPy would take a dimension more from cells that are lists
    themselves.
    """
    if not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return np.empty(len(rows), object)
    if len({len(row) for row in rows}) > 1:
        raise ParameterError("The rows of X have different lengths; every row needs every feature.")
    table = np.empty((len(rows), len(rows[0]) if rows else 0), object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            table[i, j] = cell
    return table


def bits_of(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Features as yes or no (uint8, rows x features)."""
    rule = feature("feature")
    return np.stack([rule.encode(_cells_of(column)).astype(np.uint8) for column in columns], axis=1)


def label(name: str, classes: Sequence[Any]) -> Categorical:
    """A column of two public classes, the first of which stands for everything that is neither."""
    return Categorical(name=name, categories=tuple(text_of(value) for value in classes))


def plain_classes(classes: Any) -> tuple[Any, Any]:
    """Two different classes as plain values."""
    values = (
        [v.item() if isinstance(v, np.generic) else v for v in classes]
        if isinstance(classes, (tuple, list, np.ndarray))
        else []
    )
    if (
        len(values) != 2
        or not all(isinstance(v, (str, int, float)) and v == v for v in values)
        or len(set(map(text_of, values))) != 2
    ):
        raise ParameterError(
            "classes are two different numbers or texts, no and yes; they are public and never read"
            " from y."
        )
    if values[0] == values[1]:
        raise ParameterError("classes are two different numbers or texts, and true is 1.")
    return values[0], values[1]


def yes_of(y: Any, classes: tuple[Any, Any]) -> np.ndarray:
    """Where a label is the second class, as a number or as text (bool, of y's own shape)."""
    cells = (
        y
        if isinstance(y, np.ndarray)
        else np.asarray(y, dtype=None if hasattr(y, "dtype") else object)
    )
    read = _cells_of(cells.reshape(-1))
    same = label("label", classes).encode(read) == 1
    if not isinstance(classes[1], str):
        same |= np.isin(read.kind, (c.NUMBER, c.FLAG)) & (read.number == float(classes[1]))
    return same.reshape(cells.shape)


def _cells_of(values: np.ndarray) -> c.Cells:
    if isinstance(values, np.ma.MaskedArray):
        return c.read_objects(values.tolist())  # what is masked becomes None
    if values.dtype.kind == "b":
        return c.read_cells(pa.array(np.ascontiguousarray(values)))
    if values.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # what a double cannot hold is infinite
            return c.read_cells(pa.array(np.ascontiguousarray(values, np.float64)))
    return c.read_objects(list(values))
