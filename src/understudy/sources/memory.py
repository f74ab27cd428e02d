"""Tables in memory: pandas, polars, Arrow, NumPy, or anything that speaks Arrow's C interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.schema.cells import Cells, read_cells, read_objects
from understudy.sources.base import CellSource
from understudy.tally import BLOCK_ROWS


class MemorySource(CellSource):
    """A table in memory, encoded on first use and kept as one small integer array per column."""

    def __init__(self, table: Any, schema: Schema) -> None:
        names, self._read, self._rows = _open(table, schema)
        super().__init__(schema, names)
        self._codes: dict[int, np.ndarray] = {}

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> MemorySource:
        return cls(table, schema)

    def _column(self, position: int) -> np.ndarray:
        if position not in self._codes:
            column = self._schema.columns[position]
            codes = column.encode(self._read(column.name))
            self._codes[position] = codes.astype(np.min_scalar_type(max(column.size - 1, 1)))
        return self._codes[position]

    def _cells(self, columns: tuple[int, ...]) -> Iterator[list[Cells]]:
        yield [self._read(self._schema.names[c]) for c in columns]

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        arrays = [self._column(c) for c in columns]
        for start in range(0, self._rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, self._rows)
            block = np.empty((stop - start, len(columns)), np.int32)
            for j, array in enumerate(arrays):
                block[:, j] = array[start:stop]
            yield block


# pandas types of its own that hold numbers or Arrow arrays
ARROW_LIKE = {"ArrowDtype", "BooleanDtype", *(f"{kind}{bits}Dtype" for kind in ("Int", "UInt", "Float") for bits in (8, 16, 32, 64))}

Opened = tuple[list[str], Callable[[str], Cells], int]


def _open(table: Any, schema: Schema) -> Opened:
    """(column names, a reader of one column's cells, number of rows) without touching a cell."""
    if isinstance(table, np.ndarray):
        return _open_array(table, schema)
    if type(table).__module__.split(".")[0] == "pandas" and hasattr(table, "columns"):
        return _open_pandas(table)
    if isinstance(table, (pa.Table, pa.RecordBatch)):
        return list(table.schema.names), lambda name: read_cells(table.column(name)), table.num_rows
    if hasattr(table, "__arrow_c_stream__"):
        try:
            arrow = pa.table(table)
        except pa.ArrowException:
            raise SourceError(f"The {type(table).__name__} has a column of a type that Arrow does not know; convert it first.") from None
        return list(arrow.schema.names), lambda name: read_cells(arrow.column(name)), arrow.num_rows
    raise SourceError(
        f"A table of type {type(table).__name__!r} cannot be read; "
        "give a path, a pandas or polars DataFrame, an Arrow table or a 2-D NumPy array."
    )


def _open_array(array: np.ndarray, schema: Schema) -> Opened:
    if array.dtype.names:
        return list(array.dtype.names), lambda name: _array_cells(array[name]), len(array)
    if array.ndim != 2 or array.shape[1] != len(schema):
        raise SourceError(f"A NumPy table must have two dimensions and one column for each of the schema's {len(schema)} columns.")
    return list(schema.names), lambda name: _array_cells(array[:, schema.position(name)]), len(array)


def _array_cells(values: np.ndarray) -> Cells:
    if isinstance(values, np.ma.MaskedArray):
        return read_objects(values.tolist())  # what is masked becomes None
    if values.ndim == 1 and values.dtype.kind in "biuf":
        # Arrow knows neither foreign byte orders nor long doubles; what a double cannot hold is infinite, without a warning.
        with np.errstate(over="ignore"):
            return read_cells(pa.array(np.ascontiguousarray(values, np.bool_ if values.dtype.kind == "b" else np.float64)))
    return read_objects(values.tolist() if values.dtype.kind not in "mM" else list(values))


def _open_pandas(frame: Any) -> Opened:
    names = [str(name) for name in frame.columns]

    def read(name: str) -> Cells:
        series = frame.iloc[:, names.index(name)]
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
            return _array_cells(series.to_numpy())
        # Only types that convert whatever their cells hold go to Arrow. Object columns hold anything, and Arrow would
        # guess one type from all the cells together; text in Python strings may not be encodable.
        if series.dtype.kind == "M" or type(series.dtype).__name__ in ARROW_LIKE or getattr(series.dtype, "storage", "") == "pyarrow":
            return read_cells(pa.Array.from_pandas(series))
        return read_objects(series.astype(object))

    return names, read, len(frame)
