"""Damaged files by number: the same number is always the same file, so that a finding can be looked
at again.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.tables import CANARY_DATE, CANARY_NUMBER, CANARY_TEXT, PEOPLE, people

Change = Callable[[np.random.Generator, bytes], bytes]
NAMES = list(PEOPLE.names)


def people_with_canaries(rows: int, seed: int = 0) -> list[list[Any]]:
    """Invented people, among them cells that nobody could say by accident."""
    table = people(rows, seed)
    for i in range(0, rows, 5):
        table[i][1] = CANARY_TEXT
        table[i + 1][2] = CANARY_NUMBER
        table[i + 2][5] = CANARY_NUMBER + 0.25
        table[i + 3][6] = CANARY_DATE
    return table


def as_csv_bytes(rows: list[list[Any]], **dialect: Any) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, **dialect)
    writer.writerow(NAMES)
    writer.writerows([["" if cell is None else str(cell) for cell in row] for row in rows])
    return text.getvalue().encode()


# ---------------------------------------------------------------------- bytes


def _somewhere(rng: np.random.Generator, data: bytes) -> int:
    return int(rng.integers(0, len(data) + 1))


def _put(piece: bytes, times: int = 1) -> Change:
    """Insert a piece at random places."""

    def change(rng: np.random.Generator, data: bytes) -> bytes:
        for _ in range(times):
            at = _somewhere(rng, data)
            data = data[:at] + piece + data[at:]
        return data

    return change


def flip(rng: np.random.Generator, data: bytes) -> bytes:
    """Other bits in up to 20 bytes."""
    found = np.frombuffer(data, np.uint8).copy()
    if len(found):
        found[rng.integers(0, len(found), int(rng.integers(1, 20)))] ^= np.uint8(
            1 << rng.integers(0, 8)
        )
    return found.tobytes()


def _each(wanted: bytes, replaced: Callable[[np.random.Generator], bytes], share: float) -> Change:
    """Replace a share of the places where something stands."""

    def change(rng: np.random.Generator, data: bytes) -> bytes:
        first, *rest = data.split(wanted)
        return first + b"".join(
            (replaced(rng) if rng.random() < share else wanted) + piece for piece in rest
        )

    return change


def _lines(change: Callable[[np.random.Generator, list[bytes]], list[bytes]]) -> Change:
    return lambda rng, data: b"\n".join(change(rng, data.split(b"\n")))


def _ragged(rng: np.random.Generator, lines: list[bytes]) -> list[bytes]:
    return [
        (
            line.rsplit(b",", int(rng.integers(0, 4)))[0] + b",x" * int(rng.integers(0, 3))
            if rng.random() < 0.3
            else line
        )
        for line in lines
    ]


def _header(make: Callable[[np.random.Generator, bytes], bytes]) -> Change:
    return _lines(lambda rng, lines: [make(rng, lines[0]), *lines[1:]])


def _cut(rng: np.random.Generator, data: bytes) -> bytes:
    return data[: _somewhere(rng, data)]


def _recoded(encoding: str) -> Change:
    return lambda rng, data: data.decode("utf-8", "replace").encode(encoding, "replace")


CSV_CHANGES: list[Change] = [
    flip,
    _cut,
    _each(b",", lambda rng: b"", 0.05),
    _each(b",", lambda rng: b",,", 0.05),
    _each(b",", lambda rng: b";", 1.0),
    _each(b",", lambda rng: b"\t", 1.0),
    _put(b'"'),
    _put(b'"', 7),
    _each(b'"', lambda rng: b"", 0.3),
    _put(b"\x00", 5),
    _put(b"\xef\xbb\xbf"),
    _put(b"\xff\xfe", 3),
    _put(b"\n", 5),
    _put(b"\r", 5),
    _put(b"\x1a"),
    _put(b"x" * 200_000),
    _put(b"9" * 5_000),
    _put(b'"' + b"\n" * 3_000),
    _recoded("utf-16"),
    _recoded("latin-1"),
    _recoded("utf-32-be"),
    _recoded("cp037"),
    _each(b"\r\n", lambda rng: b"\n", 0.5),
    _each(b"\r\n", lambda rng: b"\r", 0.5),
    _each(b"\n", lambda rng: b"\r", 1.0),
    _each(b"\r\n", lambda rng: b"\r\r\n\n", 0.5),
    _lines(_ragged),
    lambda rng, data: b"",
    lambda rng, data: data.split(b"\n")[0],
    lambda rng, data: b"\xef\xbb\xbf" + data,
    lambda rng, data: rng.bytes(3_000),
    lambda rng, data: data.split(b"\n", 1)[-1],
    lambda rng, data: data * 3,
    lambda rng, data: data[::-1],
    lambda rng, data: gzip.compress(data),
    _header(lambda rng, line: line.replace(b"age", b"city")),
    _header(lambda rng, line: line.replace(b"age", CANARY_TEXT.encode())),
    _header(lambda rng, line: line.upper()),
    _header(lambda rng, line: b'"' + line),
    _header(lambda rng, line: line + b",z" * 5_000),
    _header(lambda rng, line: line + b",," + line),
    _header(lambda rng, line: line.replace(b",", b" , ")),
    _header(lambda rng, line: b""),
    _lines(lambda rng, lines: [lines[0], *rng.permutation(np.array(lines[1:], object)).tolist()]),
]


def csv_case(number: int) -> tuple[str, bytes]:
    """(ending, bytes) of a damaged CSV file; one in ten is gzipped, and half of those are damaged
    once more.
    """
    rng = np.random.default_rng([1, number])
    quoting = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL][int(rng.integers(2))]
    data = as_csv_bytes(people_with_canaries(40, seed=number % 5), quoting=quoting)
    # In two of three files the header stays whole: a broken one is refused at once, and nothing
    # behind it would be read.
    header, data = (
        (b"", data)
        if number % 3 == 0
        else (data[: data.index(b"\n") + 1], data[data.index(b"\n") + 1 :])
    )
    # every change in its turn, then others at random
    data = CSV_CHANGES[number % len(CSV_CHANGES)](rng, data)
    for i in rng.integers(0, len(CSV_CHANGES), int(rng.integers(0, 3))):
        data = CSV_CHANGES[i](rng, data)
    data = header + data
    if number % 10 < 9:
        return ".csv", data
    zipped = gzip.compress(data)
    return (
        ".csv.gz",
        [
            lambda: zipped,
            lambda: flip(rng, zipped),
            lambda: _cut(rng, zipped),
            lambda: data,
        ][int(rng.integers(4))](),
    )


# ---------------------------------------------------------------------- Parquet


def arrow_people(rows: int, seed: int = 0) -> pa.Table:
    kinds = [
        pa.int64(),
        pa.string(),
        pa.int64(),
        pa.int64(),
        pa.bool_(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us"),
    ]
    columns = zip(*people_with_canaries(rows, seed), strict=True)
    return pa.table(
        [pa.array(list(cells), kind) for cells, kind in zip(columns, kinds, strict=True)],
        names=NAMES,
    )


ODD_ARRAYS: list[Callable[[int], pa.Array]] = [
    lambda n: pa.array([[CANARY_TEXT, None]] * n),
    lambda n: pa.array([{"x": CANARY_NUMBER, "y": [1]}] * n),
    lambda n: pa.array([[("k", CANARY_TEXT)]] * n, pa.map_(pa.string(), pa.string())),
    lambda n: pa.nulls(n),
    lambda n: pa.array([CANARY_TEXT] * n).dictionary_encode(),
    lambda n: pa.array([b"\xff" + CANARY_TEXT.encode()] * n),
    lambda n: pa.array([CANARY_TEXT] * n, pa.string_view()),
    lambda n: pa.array([CANARY_NUMBER] * n, pa.decimal128(38, 9)),
    lambda n: pa.array([CANARY_NUMBER] * n, pa.decimal256(70, 20)),
    lambda n: pa.array([dt.time(1)] * n),
    lambda n: pa.array([b"xx"] * n, pa.binary(2)),
    lambda n: pa.array([1] * n, pa.duration("ns")).cast(pa.int64()),
    lambda n: pa.array(np.full(n, 2, np.float16)),
    lambda n: pa.array([2**64 - 1] * n, pa.uint64()),
    lambda n: pa.array([2**63 - 1] * n, pa.int64()).cast(pa.timestamp("ns")),
    lambda n: pa.array([-(2**31)] * n, pa.int32()).cast(pa.date32()),
    lambda n: pa.array([2**62] * n, pa.int64()).cast(pa.timestamp("ms", "Asia/Tokyo")),
    lambda n: pa.array([dt.date.max] * n, pa.date64()),
    lambda n: pa.array([float("nan"), float("inf")] * n, pa.float32())[:n],
    lambda n: pa.array([[[[1.5]]]] * n),
    lambda n: pa.array([str(CANARY_NUMBER)] * n),
]


def _with_odd_columns(rng: np.random.Generator, table: pa.Table) -> pa.Table:
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(table.num_columns))
        make = ODD_ARRAYS[int(rng.integers(len(ODD_ARRAYS)))]
        table = table.set_column(at, table.column_names[at], make(table.num_rows))
    return table


def _with_odd_names(rng: np.random.Generator, table: pa.Table) -> pa.Table:
    names = list(table.column_names)
    names[int(rng.integers(len(names)))] = [
        "city",
        "AGE",
        "",
        CANARY_TEXT,
        "city.x",
        "a\x00b",
        "日本",
    ][int(rng.integers(7))]
    return table.rename_columns(names)


TABLE_CHANGES: list[Callable[[np.random.Generator, pa.Table], pa.Table]] = [
    lambda rng, table: table,
    lambda rng, table: table,
    _with_odd_columns,
    _with_odd_columns,
    _with_odd_names,
    lambda rng, table: table.slice(0, 0),
    lambda rng, table: table.select([]),
    lambda rng, table: table.select(NAMES[::-1]),
    lambda rng, table: table.append_column("more", pa.array([[1]] * table.num_rows)),
]


def _in_footer(rng: np.random.Generator, data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little") + 8
    return data[:-length] + flip(rng, data[-length:])


def _in_pages(rng: np.random.Generator, data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little") + 8
    return flip(rng, data[:-length]) + data[-length:]


def _footer_length(rng: np.random.Generator, data: bytes) -> bytes:
    return data[:-8] + int(rng.integers(0, 2**32)).to_bytes(4, "little") + data[-4:]


FILE_CHANGES: list[Change] = [
    lambda rng, data: data,
    _in_footer,
    _in_footer,
    _in_pages,
    _in_pages,
    _in_pages,
    flip,
    _cut,
    _footer_length,
    _put(b"\x00", 3),
    lambda rng, data: data[:-4] + b"PARE",
    lambda rng, data: data + data,
    lambda rng, data: b"",
    lambda rng, data: b"PAR1" + rng.bytes(200) + b"PAR1",
    lambda rng, data: as_csv_bytes(people_with_canaries(10)),
    lambda rng, data: gzip.compress(data),
]


def parquet_case(number: int) -> tuple[str, bytes]:
    """(ending, bytes) of a Parquet file of odd types, or damaged, or both."""
    rng = np.random.default_rng([2, number])
    table = TABLE_CHANGES[number % len(TABLE_CHANGES)](rng, arrow_people(40, seed=number % 5))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression=["none", "snappy", "zstd", "gzip", "lz4", "brotli"][int(rng.integers(6))],
        use_dictionary=bool(rng.integers(2)),
        data_page_version=["1.0", "2.0"][int(rng.integers(2))],
        row_group_size=int(rng.choice([1, 7, 100])),
        write_statistics=bool(rng.integers(2)),
        store_schema=bool(rng.integers(2)),
        write_page_index=bool(rng.integers(2)),
        write_page_checksum=bool(rng.integers(2)),
    )
    return ".parquet", FILE_CHANGES[number // len(TABLE_CHANGES) % len(FILE_CHANGES)](
        rng, sink.getvalue().to_pybytes()
    )
