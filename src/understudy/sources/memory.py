"""Tables in memory: encoded on first use. Which kinds there are is said in
:mod:`understudy.sources.frames`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from understudy.counting.tally import BLOCK_ROWS
from understudy.errors import SourceError
from understudy.schema import Schema
from understudy.schema.cells import Cells
from understudy.sources.base import CellSource
from understudy.sources.frames import FRAMES, Column, is_frame, open_frame


class MemorySource(CellSource):
    """A table in memory, encoded on first use and kept as one small integer array per column."""

    reads: ClassVar[str] = FRAMES

    def __init__(self, table: Any, schema: Schema) -> None:
        self._frame = open_frame(table, schema)
        super().__init__(schema, self._frame.names)
        self._codes: dict[int, np.ndarray] = {}

    @classmethod
    def opened(cls, table: Any, schema: Schema) -> MemorySource | None:
        return cls(table, schema) if is_frame(table) else None

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> MemorySource:
        return cls(table, schema)

    @cached_property
    def _rows(self) -> int:
        return self._frame.rows()

    @cached_property
    def _columns(self) -> list[Column]:
        """The schema's columns; a lazy table computes them here, which is after they were paid for."""
        rows, columns = self._frame.pull(
            [self._frame.names.index(name) for name in self._schema.names]
        )
        if rows != self._rows:
            raise SourceError(
                "The table has another number of rows each time that it is computed; compute it"
                " first."
            )
        return columns

    def _column(self, position: int) -> np.ndarray:
        if position not in self._codes:
            column = self._schema.columns[position]
            small = np.min_scalar_type(max(column.size - 1, 1))
            slices = [column.encode(cells).astype(small) for cells in self._columns[position]()]
            self._codes[position] = np.concatenate([np.zeros(0, small), *slices])
        return self._codes[position]

    def _cells(self, columns: tuple[int, ...]) -> Iterator[list[Cells]]:
        # Whole columns, because one may come in other slices than another.
        yield [Cells.joined(list(self._columns[c]())) for c in columns]

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        arrays = [self._column(c) for c in columns]
        for start in range(0, self._rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, self._rows)
            block = np.empty((stop - start, len(columns)), np.int32)
            for j, array in enumerate(arrays):
                block[:, j] = array[start:stop]
            yield block
