"""From whatever a table holds to cells with a kind, one cell at a time.

A cell's meaning may depend on that cell alone. If one person's bad value changed how the rest of
the column is read (a dtype that flips, a parse that falls back for the whole batch), replacing
one row would move many counts and every privacy proof would be void. So each rule below is a
function of a single cell: type conversions that could raise are guarded by a per-cell pattern
first, and an object column gives the same cells as a typed one.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import numbers
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MISSING, TEXT, NUMBER, FLAG, MOMENT, UNREADABLE = range(6)  # kinds of cells, one byte each

# At most 300 digits and three in the exponent: what passes the pattern always converts, to zero or
# infinity at worst.
NUMERIC_TEXT = r"^[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})([eE][+-]?\d{1,3})?$"
NAN_TEXTS = ("nan", "NaN", "NAN", "-nan", "-NaN")  # what is written for a number that is none
INFINITE_TEXT = r"(?i)^[+-]?inf(inity)?$"  # as C and Python write it
MOMENT_TEXT = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$"
MICROSECONDS = 1_000_000  # in a second
LARGEST_MOMENT = 2**63 - 1  # stands for what is beyond, in 64 bits
LARGEST_YEAR = 290_000  # beyond it, microseconds since 1970 do not fit 64 bits
LARGEST_EXACT = 2.0**53  # below it every whole number is a double, and no other number rounds to it
SLICE_ROWS = 1 << 20  # 8 MB for each array of 64-bit values


@dataclass(frozen=True, slots=True)
class Cells:
    """A column's cells: what kind each one is, and its value in the array of that kind."""

    kind: np.ndarray  # uint8, one of the constants above
    text: pa.Array  # trimmed strings; null unless TEXT
    number: np.ndarray  # float64; meaningful where NUMBER or FLAG
    moment: np.ndarray  # int64 microseconds since 1970 (UTC); meaningful where MOMENT
    # float64; what ``number`` leaves of a whole number beyond 2^53: the number is their sum
    rest: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, places: np.ndarray) -> Cells:
        """The cells at some places; a place that there is not gives a missing cell."""
        there = (places >= 0) & (places < len(self))
        if not len(self):
            return _blank(len(places), MISSING)
        at = np.where(there, places, 0).astype(np.int64)
        kind = np.where(there, self.kind[at], MISSING).astype(np.uint8)
        text = pc.take(self.text, pa.array(at, mask=~there))
        return Cells(kind, text, self.number[at], self.moment[at], self.rest[at])

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """Cells one behind the other; their text has 64-bit offsets, which no table outgrows."""
        if len(parts) < 2:
            return parts[0] if parts else _blank(0, MISSING)
        arrays = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("kind", "number", "moment", "rest")
        )
        kind, number, moment, rest = arrays
        return cls(kind, pa.concat_arrays([part.text for part in parts]), number, moment, rest)


def read_cells(column: pa.Array | pa.ChunkedArray) -> Cells:
    """The cells of an Arrow column of any type; a type with no reading gives UNREADABLE cells."""
    return Cells.joined(list(read_slices(column)))


def read_slices(column: pa.Array | pa.ChunkedArray) -> Iterator[Cells]:
    """The cells of an Arrow column, some rows at a time.

    No chunk is ever joined to another before it is read: the dictionaries of two chunks may not fit
    one index, nor their text one array, and then somebody's cell would decide whether anybody is
    read.
    """
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        words = read_cells(chunk.dictionary) if pa.types.is_dictionary(chunk.type) else None
        for start in range(0, len(chunk), SLICE_ROWS):
            part = chunk.slice(start, SLICE_ROWS)
            yield _read(part) if words is None else words.take(_places(part.indices))


def _read(array: pa.Array) -> Cells:
    cells = _typed(array)
    cells.kind[_null_mask(array)] = MISSING
    return cells


def _typed(array: pa.Array) -> Cells:
    kind = array.type
    if pa.types.is_boolean(kind):
        return _numbers(_to_numpy(pc.cast(array, pa.int8()), 0).astype(np.float64), FLAG)
    if pa.types.is_integer(kind):
        return _whole_numbers(array)
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_floating(kind):
        return _numbers(_to_numpy(pc.cast(array, pa.float64()), np.nan))
    if pa.types.is_date(kind):
        # A date64 counts milliseconds, and not all writers keep them to whole days.
        whole, factor = (
            (pa.int32(), 86400 * MICROSECONDS) if pa.types.is_date32(kind) else (pa.int64(), 1000)
        )
        return _moments(_scaled(_to_numpy(pc.cast(array, whole), 0).astype(np.int64), factor))
    if pa.types.is_timestamp(kind):
        return _moments(_microseconds(array))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _texts(pc.cast(array, pa.large_string()))
    if pa.types.is_null(kind):
        return _blank(len(array), MISSING)
    return _blank(len(array), UNREADABLE)


def read_objects(values: Iterable[Any]) -> Cells:
    """The cells of a Python sequence of mixed types (a pandas ``object`` column)."""
    values = list(values)
    cells = _blank(len(values), UNREADABLE)
    texts: list[str | None] = [None] * len(values)
    for i, value in enumerate(values):
        try:
            cells.kind[i], texts[i], cells.number[i], cells.moment[i], cells.rest[i] = _one_object(
                value
            )
        except Exception:  # noqa: S112 (an object that breaks when looked at stays unreadable, and nobody else notices)
            continue
    text = pc.ascii_trim_whitespace(pa.array(texts, pa.large_string()))
    return Cells(cells.kind, text, cells.number, cells.moment, cells.rest)


def _one_object(value: Any) -> tuple[int, str | None, float, int, float]:
    blank = (None, np.nan, 0, 0.0)
    if isinstance(value, str):
        # By the class's own verb: what a subclass makes of it may be no text, and then no text at
        # all could be kept.
        return (
            TEXT,
            str.encode(value, "utf-8", "backslashreplace").decode("utf-8"),
            np.nan,
            0,
            0.0,
        )
    if isinstance(value, (bool, np.bool_)):
        return (FLAG, None, float(value), 0, 0.0)
    if isinstance(value, np.timedelta64):  # which calls itself an integer
        return (UNREADABLE, *blank)
    if isinstance(value, (complex, np.complexfloating)) and value.imag == 0:
        value = value.real  # one complex cell makes a whole column complex
    if isinstance(value, (decimal.Decimal, numbers.Real)):
        number, rest = _double_and_rest(value)
        return (MISSING, *blank) if number != number else (NUMBER, None, number, 0, rest)
    if isinstance(value, (np.datetime64, dt.date)):  # a datetime is a date too
        if value != value:  # pandas' and NumPy's NaT differ from themselves
            return (MISSING, *blank)
        if isinstance(value, np.datetime64):
            year = int(value.astype("M8[Y]").astype(np.int64))
            if abs(year) > LARGEST_YEAR:
                return (MOMENT, None, np.nan, LARGEST_MOMENT if year > 0 else -LARGEST_MOMENT, 0.0)
        offset = getattr(value, "utcoffset", lambda: None)() or dt.timedelta()
        naive = value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
        shift = offset // dt.timedelta(microseconds=1)
        return (MOMENT, None, np.nan, int(np.array(naive, "M8[us]").astype(np.int64)) - shift, 0.0)
    if value is None or value is getattr(sys.modules.get("pandas"), "NA", None):
        return (MISSING, *blank)
    return (UNREADABLE, *blank)


def _double_and_rest(value: Any) -> tuple[float, float]:
    """(the nearest double, what it leaves of a whole number); a number beyond all doubles raises."""
    number = float(value)
    if (
        abs(number) < LARGEST_EXACT
        or not math.isfinite(number)
        or not isinstance(value, (numbers.Integral, decimal.Decimal))
    ):
        return number, 0.0
    return number, float(int(value) - int(number))


def numbers_in_text(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(value, is it numeric) for each string; fixed pattern, never raises."""
    if text.null_count == len(text):  # a typed column has no text at all
        return np.full(len(text), np.nan), np.zeros(len(text), bool)
    looks = pc.fill_null(pc.match_substring_regex(text, NUMERIC_TEXT), False)
    chosen = pc.if_else(looks, text, pa.scalar(None, text.type))
    # Arrow's parser refuses a leading plus sign that the pattern allows.
    chosen = pc.replace_substring_regex(chosen, r"^\+", "")
    value = _to_numpy(pc.cast(chosen, pa.float64()), np.nan)
    numeric = looks.to_numpy(zero_copy_only=False).copy()
    endless = pc.fill_null(pc.match_substring_regex(text, INFINITE_TEXT), False).to_numpy(
        zero_copy_only=False
    )
    if endless.any():
        below = pc.fill_null(pc.starts_with(text, "-"), False).to_numpy(zero_copy_only=False)
        value[endless] = np.where(below[endless], -np.inf, np.inf)
        numeric |= endless
    return value, numeric


def moments_in_text(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(microseconds, is it a real moment) for each ISO 8601 string; fixed pattern, never raises."""
    looks = pc.fill_null(pc.match_substring_regex(text, MOMENT_TEXT), False).to_numpy(
        zero_copy_only=False
    )
    value = np.zeros(len(text), np.int64)
    good = np.zeros(len(text), bool)
    at = np.flatnonzero(looks)
    if not len(at):
        return value, good
    # What passed the pattern is plain ASCII; fixed positions, then two optional tails.
    strings = np.array(pc.take(text, pa.array(at)).to_pylist(), dtype="U40")
    year, month, day = (_digits(strings, i, j) for i, j in ((0, 4), (5, 7), (8, 10)))
    hour, minute = _digits(strings, 11, 13), _digits(strings, 14, 16)
    has_seconds = _slice(strings, 16, 17) == ":"
    second = np.where(has_seconds, _digits(strings, 17, 19), 0)
    tail = np.array([_fraction_and_offset(s[16:]) for s in strings], dtype=np.int64).reshape(-1, 2)
    months = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (np.maximum(day, 1) - 1)
    real = (
        (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("M8[M]") == months)
        & (hour < 24) & (minute < 60) & (second < 60)
    )  # fmt: skip
    seconds = days.astype(np.int64) * 86400 + hour * 3600 + minute * 60 + second - tail[:, 1] * 60
    value[at], good[at] = seconds * MICROSECONDS + tail[:, 0], real
    return value, good


def _fraction_and_offset(tail: str) -> tuple[int, int]:
    """(microseconds, offset in minutes) from what follows ``HH:MM`` in a string that fits
    MOMENT_TEXT.
    """
    fraction = 0
    if "." in tail:
        digits = tail.split(".")[1].split("Z")[0].split("+")[0].split("-")[0]
        fraction = int(digits[:6].ljust(6, "0"))
    for sign in "+-":
        if sign in tail:
            offset = tail.split(sign)[1].replace(":", "")
            minutes = int(offset[:2]) * 60 + int(offset[2:])
            return fraction, minutes if sign == "+" else -minutes
    return fraction, 0


def _slice(strings: np.ndarray, start: int, stop: int) -> np.ndarray:
    letters = np.ascontiguousarray(strings).view("U1").reshape(len(strings), -1)[:, start:stop]
    return np.ascontiguousarray(letters).view(f"U{stop - start}").ravel()


def _digits(strings: np.ndarray, start: int, stop: int) -> np.ndarray:
    part = _slice(strings, start, stop)
    return np.where(part == "", "0", part).astype(np.int64)


def _to_numpy(array: pa.Array, fill: float) -> np.ndarray:
    if array.null_count:
        array = pc.fill_null(array, fill)
    out = array.to_numpy(zero_copy_only=False)
    return out if out.flags.writeable else out.copy()


def _places(indices: pa.Array) -> np.ndarray:
    """The places that indices of any integer type name, -1 for a null."""
    places = _to_numpy(indices, 0).astype(np.int64)
    places[_null_mask(indices)] = -1
    return places


def _null_mask(array: pa.Array) -> np.ndarray:
    if not array.null_count:
        return np.zeros(len(array), bool)
    mask: np.ndarray = pc.is_null(array).to_numpy(zero_copy_only=False)
    return mask


def _microseconds(array: pa.Array) -> np.ndarray:
    per_second = {"s": 1, "ms": 1_000, "us": MICROSECONDS, "ns": 1_000_000_000}[array.type.unit]
    raw = _to_numpy(pc.cast(array, pa.int64()), 0)
    if per_second <= MICROSECONDS:
        return _scaled(raw, MICROSECONDS // per_second)
    return raw // (per_second // MICROSECONDS)


def _scaled(raw: np.ndarray, factor: int) -> np.ndarray:
    """``raw * factor``, where a moment too far away for 64 bits stays at the end that it is nearest
    to.
    """
    limit = LARGEST_MOMENT // factor
    return np.clip(raw, -limit, limit) * factor


def _blank(length: int, kind: int) -> Cells:
    return Cells(
        np.full(length, kind, np.uint8),
        pa.nulls(length, pa.large_string()),
        np.full(length, np.nan),
        np.zeros(length, np.int64),
        np.zeros(length),
    )


def _numbers(values: np.ndarray, kind: int = NUMBER) -> Cells:
    cells = _blank(len(values), kind)
    cells.kind[np.isnan(values)] = MISSING
    return Cells(cells.kind, cells.text, values, cells.moment, cells.rest)


def _whole_numbers(array: pa.Array) -> Cells:
    cells = _numbers(_to_numpy(pc.cast(array, pa.float64(), safe=False), np.nan))
    large = np.flatnonzero(np.abs(cells.number) >= LARGEST_EXACT)
    if len(large):
        values, number = _to_numpy(pc.take(array, pa.array(large)), 0), cells.number[large]
        high = values >> np.asarray(32, values.dtype)
        low = values & np.asarray(2**32 - 1, values.dtype)
        # Every step is a whole number of at most 34 bits, or a multiple of 2^32 below 2^64: exact
        # in doubles.
        cells.rest[large] = (high.astype(np.float64) * 2.0**32 - number) + low.astype(np.float64)
    return cells


def _decimals(array: pa.Array) -> Cells:
    cells = _numbers(_to_numpy(pc.cast(array, pa.float64(), safe=False), np.nan))
    large = np.flatnonzero(np.abs(cells.number) >= LARGEST_EXACT)
    # Arrow's cast may miss the nearest double by one, and then the same number would be two.
    for place, value in zip(large, pc.take(array, pa.array(large)).to_pylist(), strict=True):
        cells.number[place], cells.rest[place] = _double_and_rest(value)
    return cells


def _moments(values: np.ndarray) -> Cells:
    cells = _blank(len(values), MOMENT)
    return Cells(cells.kind, cells.text, cells.number, values, cells.rest)


def _texts(array: pa.Array) -> Cells:
    cells = _blank(len(array), TEXT)
    return Cells(
        cells.kind, pc.ascii_trim_whitespace(array), cells.number, cells.moment, cells.rest
    )


def mark_missing(
    cells: Cells, missing_values: Sequence[str], categories: Sequence[str] = ()
) -> Cells:
    """What the schema lists as missing becomes MISSING, by value: 999 is 999 as a number and as
    text.

    Text that is a listed category stays one, whatever value it looks like.
    """
    listed = pa.array(list(missing_values), pa.large_string())
    kinds, typed = cells.kind, cells.text.null_count == len(cells)
    matches = np.zeros(len(cells), bool) if typed else _among(cells.text, NAN_TEXTS)
    readings = (
        (NUMBER, cells.number, numbers_in_text),
        (FLAG, cells.number, true_or_false),
        (MOMENT, cells.moment, moments_in_text),
    )
    for kind, values, read in readings:
        missing, looks = read(listed)
        if looks.any():
            kinds[(kinds == kind) & np.isin(values, missing[looks])] = MISSING
            if not typed:
                value, looks_alike = read(cells.text)
                matches |= looks_alike & np.isin(value, missing[looks])
    if not typed:
        matches &= ~_among(cells.text, categories)
        kinds[(kinds == TEXT) & (matches | _among(cells.text, missing_values))] = MISSING
    return cells


def _among(text: pa.Array, values: Sequence[str]) -> np.ndarray:
    mask: np.ndarray = pc.is_in(text, value_set=pa.array(list(values), pa.large_string())).to_numpy(
        zero_copy_only=False
    )
    return mask.copy()


def true_or_false(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(1 or 0, does it say true or false) for each string: what a flag becomes when its column is
    read as text.
    """
    if text.null_count == len(text):
        return np.zeros(len(text)), np.zeros(len(text), bool)
    low = pc.ascii_lower(text)
    true, false = _among(low, ["true"]), _among(low, ["false"])
    return true.astype(np.float64), true | false
