"""What sources in files share: which files a path names, their columns, and one block after
another.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from understudy.errors import SourceError
from understudy.runtime.paths import LEDGER
from understudy.schema import Schema
from understudy.schema.cells import Cells, read_cells
from understudy.sources.base import CellSource, Source
from understudy.sources.paths import expand

MOVED = (  # the ledger knows the first file only
    "A name of the table leads to another file than it did at first; give the file itself, or leave"
    " the link alone while it is read."
)
UNREADABLE = (  # a library's own words may quote cells
    "The files could not be read to the end; check that they are complete and of the format their"
    " names say."
)


class FileSource(CellSource):
    """Files of one format, read column by column and batch by batch; memory does not grow with the
    rows.

    Attributes:
        endings: of the names of its files.
    """

    in_files: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]]

    def __init__(self, path: str | Path, schema: Schema) -> None:
        self._path = str(path)
        self._files = expand(path)
        if not all(file.lower().endswith(self.endings) for file in self._files):
            raise SourceError(f"{str(path)!r} is not of the kind {' or '.join(self.endings)}.")
        if any(file.endswith(LEDGER) for file in self._files):
            raise SourceError(
                f"{str(path)!r} is a ledger: it remembers what was spent on a table. Give the table."
            )
        self._places = [os.path.realpath(file) for file in self._files]
        self._headers = [self._header(file) for file in self._files]
        if any(sorted(header) != sorted(self._headers[0]) for header in self._headers):
            raise SourceError(
                "The files do not all have the same columns; give files of one table."
            )
        super().__init__(schema, self._headers[0])

    @classmethod
    def opened(cls, table: Any, schema: Schema) -> Source | None:
        if not isinstance(table, (str, Path)):
            return None
        try:
            files = expand(table)
        except SourceError:
            return None  # no such file
        ours = all(file.lower().endswith(cls.endings) for file in files)
        return cls(table, schema) if ours else None

    @property
    def origin(self) -> str:
        return self._path

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._files)

    @abstractmethod
    def _header(self, file: str) -> list[str]:
        """The names of a file's columns, which are public."""

    @abstractmethod
    def _batches(self, file: str, places: list[int]) -> Iterator[list[Any]]:
        """Batches of the columns at some places of a file's header, as ``_read`` takes them; with
        no places, anything with the right lengths.
        """

    def _read(self, column: Any) -> Cells:
        """The cells of one column of a batch: of Arrow's, unless a format says otherwise."""
        return read_cells(column)

    def _arrays(self, columns: tuple[int, ...]) -> Iterator[list[Any]]:
        """Batches of whole columns; one file at a time: joined, a file's type would depend on the
        others' cells.
        """
        names = [self._schema.names[c] for c in columns]
        for file, place, header in zip(self._files, self._places, self._headers, strict=True):
            if os.path.realpath(file) != place:  # what was charged is the ledger of the other one
                raise SourceError(MOVED)
            yield from self._batches(file, [header.index(name) for name in names])

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        chosen = [self._schema.columns[c] for c in columns]
        for arrays in self._arrays(columns):
            block = np.empty((len(arrays[0]), len(chosen)), np.int32)
            for j, (column, array) in enumerate(zip(chosen, arrays, strict=False)):
                block[:, j] = column.encode(self._read(array))
            yield block

    def _cells(self, columns: tuple[int, ...]) -> Iterator[list[Cells]]:
        for arrays in self._arrays(columns):
            yield [self._read(array) for array in arrays]
