"""Tables of items: (row, item) pairs in files or in memory, a sparse matrix, or bits; see
:meth:`Schema.items`.

A person is a row: all pairs with one value of ``row``. Each pair is read by rules that look at that
pair alone:

    an item that the schema does not list, or that is missing     the pair is ignored
    a row that is missing or unreadable                           the pair is nobody's, and ignored
    the same pair again                                           counts once

Text that names rows is compared letter by letter after trimming. Numbers are compared by value, 1
and 1.0 being one row:
whole numbers exactly up to 2^106 (and by so many leading bits beyond), others as doubles. Moments
are compared to the microsecond. The text "1", the number 1 and true are three rows. Somebody of
whom there is no pair at all is not in a table of pairs; a sparse matrix has its empty rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from understudy.counting.tally import Conjunctive, Counts, RowFunction, rows_of_a_block
from understudy.errors import SourceError
from understudy.runtime.imported import imported
from understudy.schema import Schema
from understudy.schema import cells as c
from understudy.schema.columns import Boolean
from understudy.schema.items import ItemColumns
from understudy.sources import open_source
from understudy.sources.base import CellSource, Source
from understudy.sources.frames import own_array
from understudy.sources.postings import WORD_BITS, Postings


class ItemSource(Source):
    """Rows as sets of items, turned on first use into lists and bitmaps of who has each item."""

    holds_items: ClassVar[bool] = True

    def __init__(
        self,
        schema: Schema,
        read: Callable[[ItemColumns], Postings],
        pairs: CellSource | None = None,
    ) -> None:
        super().__init__(schema, schema.names)
        if schema.pairs is None:
            raise SourceError("A table of items needs a schema that lists them: Schema.items(...).")
        self._items, self._read, self._pairs = schema.pairs, read, pairs

    @classmethod
    def opened(cls, table: Any, schema: Schema) -> ItemSource | None:
        if schema.pairs is None:
            if _is_sparse(table):
                raise SourceError(
                    "A sparse matrix holds items, and needs a schema that lists them:"
                    " Schema.items(...)."
                )
            return None
        if _is_sparse(table) or (isinstance(table, np.ndarray) and not table.dtype.names):
            return cls.from_matrix(table, schema)
        pairs = open_source(table, pair_schema(schema))
        assert isinstance(pairs, CellSource)
        return cls.from_pairs(pairs, schema)

    @classmethod
    def from_pairs(cls, pairs: CellSource, schema: Schema) -> ItemSource:
        """Pairs that another source holds in the two columns of :func:`pair_schema`."""
        source = cls(schema, lambda items: _read_pairs(pairs, items), pairs)
        source.unread = pairs.unread
        return source

    @classmethod
    def from_matrix(cls, matrix: Any, schema: Schema) -> ItemSource:
        """A matrix of rows x items, sparse (SciPy's, of any format) or NumPy's; what is stored and
        not zero is there.
        """
        matrix = own_array(matrix) if isinstance(matrix, np.ndarray) else matrix
        if len(matrix.shape) != 2 or matrix.shape[1] != len(schema):
            raise SourceError(
                f"A matrix of items must have one column for each of the schema's {len(schema):,}"
                " items."
            )
        if matrix.dtype.kind not in "biuf":
            raise SourceError("A matrix of items must hold numbers or booleans.")
        return cls(schema, lambda items: _read_matrix(matrix))

    @classmethod
    def from_bits(cls, bits: np.ndarray, rows: int, schema: Schema) -> ItemSource:
        """Bitmaps, items x words of 64 (or bytes of 8) rows, the first row being the lowest bit;
        for tables that are wide and dense.
        """
        sound = (
            isinstance(bits, np.ndarray)
            and bits.ndim == 2
            and bits.dtype in (np.uint64, np.uint8)
            and len(bits) == len(schema)
        )
        if not sound or bits.shape[1] != -(-rows // (8 * bits.itemsize)):
            raise SourceError(
                "Bits of items are an array of uint64 or uint8, one line for each of the schema's"
                f" {len(schema):,} items, just long enough for the rows."
            )
        return cls(schema, lambda items: Postings.of_bits(_words(bits), rows))

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> ItemSource:
        codes = np.column_stack(
            [column.encode(c.read_cells(table[column.name])) for column in schema]
        )
        return cls.from_bits(
            np.packbits(codes.astype(np.bool_).T, axis=1, bitorder="little"), len(codes), schema
        )

    @property
    def origin(self) -> str | None:
        return None if self._pairs is None else self._pairs.origin

    @property
    def files(self) -> tuple[str, ...]:
        return () if self._pairs is None else self._pairs.files

    @cached_property
    def _postings(self) -> Postings:
        return self._read(self._items)

    def _blocks(self, columns: tuple[int, ...]) -> Iterator[np.ndarray]:
        wanted, step = np.asarray(columns, np.int64), rows_of_a_block(len(columns))
        for first in range(0, self._postings.rows, step):
            yield self._postings.codes(wanted, first, min(first + step, self._postings.rows))

    def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
        wider = iter(super().count([columns for columns in column_sets if len(columns) != 1]))
        return [
            self._single(columns[0]) if len(columns) == 1 else next(wider)
            for columns in column_sets
        ]

    def _single(self, item: int) -> Counts:
        having = self._postings.having(item)
        return Counts(2, np.asarray([self._postings.rows - having, having], np.int64))

    def scan(self, row_function: RowFunction) -> np.ndarray:
        if isinstance(row_function, Conjunctive):
            return self._postings.conjunctions(row_function.literals)
        return super().scan(row_function)


def _is_sparse(table: Any) -> bool:
    """A matrix or array of SciPy's, which need not be installed."""
    return isinstance(table, imported("scipy.sparse", "spmatrix", "sparray"))


def pair_schema(schema: Schema) -> Schema:
    """The two columns that pairs have, by name; their cells are read, never their codes."""
    assert schema.pairs is not None
    return Schema((Boolean(name=schema.pairs.row), Boolean(name=schema.pairs.item)))


def _read_pairs(pairs: CellSource, items: ItemColumns) -> Postings:
    rows, wanted = [], []
    for person_cells, item in pairs._cells((0, 1)):
        row = c.mark_missing(person_cells, ("",), ())
        valid = np.flatnonzero(np.isin(row.kind, (c.TEXT, c.NUMBER, c.FLAG, c.MOMENT)))
        rows.append(row.take(valid))
        wanted.append(items.listing.encode(item)[valid])
    who, n = _row_numbers(c.Cells.joined(rows))
    named = np.concatenate([np.zeros(0, np.int32), *wanted])
    listed = named < len(items)  # somebody with no listed item is still a row
    return Postings.of_pairs(who[listed], named[listed], (n, len(items)))


def _row_numbers(rows: c.Cells) -> tuple[np.ndarray, int]:
    """(the row of each pair, how many rows): cells of different kinds name different people."""
    who, n = np.empty(len(rows), np.int64), 0
    keys = {
        c.TEXT: [rows.text],
        c.NUMBER: [_bits(rows.number), _bits(rows.rest)],
        c.FLAG: [_bits(rows.number)],
        c.MOMENT: [pa.array(rows.moment)],
    }
    for kind, parts in keys.items():
        these = rows.kind == kind
        named, count = _distinct([part.filter(pa.array(these)) for part in parts])
        who[these] = named + n
        n += count
    return who, n


def _bits(numbers: np.ndarray) -> pa.Array:
    return pa.array((numbers + 0.0).view(np.int64))  # -0.0 is 0.0


def _distinct(parts: list[pa.Array]) -> tuple[np.ndarray, int]:
    """(a number for each key, how many different ones); a key may have several parts."""
    named, total = _numbered(parts[0])
    for part in parts[1:]:
        other, count = _numbered(part)
        if count > 1:  # numbered anew, so that a number is never larger than there are keys
            named, total = _numbered(pa.array(named * count + other))
    return named, total


def _numbered(keys: pa.Array) -> tuple[np.ndarray, int]:
    encoded = keys.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _read_matrix(matrix: Any) -> Postings:
    if isinstance(matrix, np.ndarray):
        rows, items = np.nonzero(matrix)
    else:
        entries = matrix.tocoo()
        there = entries.data != 0  # one entry at a time: added up, two of them could cancel
        rows, items = entries.row[there], entries.col[there]
    return Postings.of_pairs(rows, items, matrix.shape)


def _words(bits: np.ndarray) -> np.ndarray:
    """Bytes as words of 64 bits."""
    if bits.dtype == np.uint64:
        return bits
    padded = np.zeros(
        (len(bits), -(-bits.shape[1] // (WORD_BITS // 8)) * (WORD_BITS // 8)), np.uint8
    )
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)
