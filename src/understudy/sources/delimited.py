"""CSV files, or globs of them, cut into cells by fixed rules that no byte can break.

A general CSV reader stops at a byte, a line or a length that it dislikes, and then one person's
cell decides whether anybody is counted. Here every sequence of bytes is a table:

    a row ends at a line feed; a line with nothing on it is not a row
    cells are separated by commas; absent ones are empty, surplus ones are ignored
    a cell that begins with a quote runs to the closing quote, commas and line feeds included
    two quotes inside it are one quote; a quote anywhere else is a plain character

A carriage return before the line feed is white space, which cells lose anyway. Text is taken to
be UTF-8 but never checked: bytes that are not simply match no category.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv

from understudy.errors import SourceError
from understudy.runtime.compiled import kernel
from understudy.schema import Schema
from understudy.sources.files import UNREADABLE, FileSource

CHUNK_BYTES = 1 << 22  # 4 MB: read once, and far less than a file
LONGEST_HEADER = 1 << 20  # 1 MB; a longer first line is no header
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # UTF-32 begins alike, or with a zero
COMMA, QUOTE, LINE_FEED, CARRIAGE_RETURN = ord(","), ord('"'), ord("\n"), ord("\r")
START, PLAIN, QUOTED, CLOSED = range(4)  # where in a cell we are
# what a damaged file raises; dropped before we raise, since a message may quote what it read
BROKEN = (OSError, EOFError, zlib.error)


class DelimitedSource(FileSource):
    """CSV, plain or gzipped, a few megabytes at a time."""

    endings: ClassVar[tuple[str, ...]] = (".csv", ".csv.gz")
    reads: ClassVar[str] = ".csv or .csv.gz files"
    advice: ClassVar[str] = (
        "a CSV file is UTF-8, separated by commas, and begins with a line of column names."
    )

    @classmethod
    def holding(cls, table: pa.Table, schema: Schema, folder: Path) -> DelimitedSource:
        file = folder / "table.csv"
        pyarrow.csv.write_csv(table, file)
        return cls(file, schema)

    def _header(self, file: str) -> list[str]:
        cells = None
        with contextlib.suppress(*BROKEN), _open(file) as stream:
            cells = first_row(stream)
        if cells is None:
            raise SourceError(
                f"The first line of {file!r} cannot be read as the header of a CSV file."
            )
        if cells[0].startswith(WIDE_MARKS) or any(0 in cell for cell in cells):
            raise SourceError(
                f"The file {file!r} is not UTF-8; it seems to be UTF-16 or UTF-32. Save it again as"
                " UTF-8."
            )
        return [cell.decode("utf-8", "replace").strip() for cell in cells]

    def _batches(self, file: str, places: list[int]) -> Iterator[list[pa.Array]]:
        with contextlib.suppress(*BROKEN), _open(file) as stream:
            header = 1
            for arrays in cut(stream, places):
                yield [array[header:] for array in arrays]
                header = 0
            return
        raise SourceError(UNREADABLE)


def _open(file: str) -> BinaryIO:
    """The bytes of a file, behind the byte-order mark that some programs put before a header."""
    stream = cast(BinaryIO, (gzip.open if file.lower().endswith(".gz") else open)(file, "rb"))
    if stream.read(3) != codecs.BOM_UTF8:
        stream.seek(0)
    return stream


def first_row(stream: BinaryIO) -> list[bytearray]:
    """The cells of the first row, by the rules of :func:`cut`: both must agree on where the header
    ends.
    """
    cells, state = [bytearray()], START
    data = chain.from_iterable(iter(lambda: stream.read(4096), b""))
    for byte in islice(data, LONGEST_HEADER):
        if byte == LINE_FEED and state != QUOTED:
            break
        if byte == QUOTE and state in (START, QUOTED):
            state = QUOTED if state == START else CLOSED
        elif byte == COMMA and state != QUOTED:
            cells.append(bytearray())
            state = START
        else:
            state = QUOTED if state == QUOTED or (byte == QUOTE and state == CLOSED) else PLAIN
            cells[-1].append(byte)
    return cells


def cut(
    stream: BinaryIO, wanted: Sequence[int], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[list[pa.Array]]:
    """Batches of the wanted cells (by their place in the row), one array each, empty cells null;
    all rows, the header too.
    """
    slots = np.full(max(wanted, default=-1) + 1, -1, np.int64)
    slots[list(wanted)] = np.arange(len(wanted))
    rest = b""
    while True:
        # A row may be longer than a chunk; reading as much again each time keeps the work linear.
        fresh = stream.read(max(chunk_bytes, len(rest)))
        data = np.frombuffer(rest + fresh, np.uint8)
        text = np.empty((len(wanted), len(data)), np.uint8)
        ends = np.zeros((len(wanted), np.count_nonzero(data == LINE_FEED) + 2), np.int64)
        rows, done = _cut(data, not fresh, slots, np.zeros(len(wanted), np.int64), text, ends)
        if rows:
            yield [_array(text[slot], ends[slot, : rows + 1]) for slot in range(len(wanted))] or [
                pa.nulls(rows)
            ]
        if not fresh:
            return
        rest = data[done:].tobytes()


def _array(text: np.ndarray, ends: np.ndarray) -> pa.Array:
    present = pa.array(np.diff(ends) > 0).buffers()[1]
    return pa.Array.from_buffers(
        pa.large_string(),
        len(ends) - 1,
        [present, pa.py_buffer(ends), pa.py_buffer(text[: ends[-1]])],
    )


@kernel(borrows=True)
def _cut(
    data: np.ndarray,
    last: bool,
    slots: np.ndarray,
    at: np.ndarray,
    text: np.ndarray,
    ends: np.ndarray,
) -> tuple[int, int]:
    """(complete rows, bytes they took); what is left over belongs to the next chunk unless this is
    the last.

    ``at`` is where the next byte of each wanted cell goes: zeros.
    """
    row, field, begin, state = 0, 0, 0, START
    for i in range(len(data) + (1 if last else 0)):
        byte = data[i] if i < len(data) else LINE_FEED
        if i == len(data) or (byte == LINE_FEED and state != QUOTED):
            blank = i == begin or (i == begin + 1 and data[begin] == CARRIAGE_RETURN)
            if not blank:
                row += 1
            for slot in range(len(at)):
                if blank:
                    at[slot] = ends[slot, row]
                ends[slot, row] = at[slot]
            field, begin, state = 0, i + 1, START
        elif byte == QUOTE and state == START:
            state = QUOTED
        elif byte == QUOTE and state == QUOTED:
            state = CLOSED
        elif byte == COMMA and state != QUOTED:
            field, state = field + 1, START
        else:
            # A quote right after the closing one was a doubled quote: the cell goes on.
            state = QUOTED if state == QUOTED or (byte == QUOTE and state == CLOSED) else PLAIN
            if field < len(slots) and slots[field] >= 0:
                text[slots[field], at[slots[field]]] = byte
                at[slots[field]] += 1
    return row, min(begin, len(data))
