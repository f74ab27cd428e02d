"""What a source is: the two verbs over sensitive rows, and the names of its columns (public)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from understudy.counting.tally import Blocks
from understudy.schema import Schema
from understudy.schema.cells import Cells
from understudy.sources.header import check_header


class Source(Blocks):
    """Where sensitive rows live. Only ``privacy/`` and ``api/session.py`` import this room.

    A source answers ``count`` and ``scan`` and nothing else; both return integer counts. It holds
    no result, writes nothing, and its messages name columns and files but never a cell.

    Attributes:
        reads: the tables that it opens, for a sentence that refuses others.
        in_files: whether these are files.
        advice: what to look at when a column is not found.
        holds_items: whether its schema must be one of items.
    """

    reads: ClassVar[str] = ""
    in_files: ClassVar[bool] = False
    advice: ClassVar[str] = "names match letter by letter."
    holds_items: ClassVar[bool] = False

    def __init__(self, schema: Schema, available: Sequence[str]) -> None:
        self._schema = schema
        # columns that are ignored, in a sentence that may be shown
        self.unread = check_header(schema, list(available), advice=self.advice)

    @classmethod
    def opened(cls, table: Any, schema: Schema) -> Source | None:
        """A source of this kind for a table that it reads, None for any other table.

        A path is known by its name, an object by its library's own class and nothing else. Opening
        reads the names of columns and no cell.
        """
        return None

    @classmethod
    @abstractmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> Source:
        """A source of this kind with a given invented table, for the conformance kit; may write to
        ``folder``.
        """

    @property
    def origin(self) -> str | None:
        """The path or glob that the rows came from, if they came from files: where their ledger is
        kept.
        """
        return None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the rows came from: each may have a ledger of its own."""
        return ()

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def shape(self) -> tuple[int, ...]:
        return self._schema.shape


class CellSource(Source):
    """A source of cells as somebody wrote them, which another source may be made from."""

    @abstractmethod
    def _cells(self, columns: tuple[int, ...]) -> Iterator[list[Cells]]:
        """Batches of the cells of some columns, before they have codes."""
