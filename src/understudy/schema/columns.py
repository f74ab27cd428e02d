"""One public description per column: how its cells become codes, and codes become cells again.

A column has ``values`` ordinary codes ``0 .. values-1``, then one for OTHER and one for MISSING if
it declares them. Every cell has a code, by rules that read nothing but the cell:

    missing (null, NaN, a listed missing value)   MISSING, else OTHER, else code 0
    unreadable, or a category not listed          OTHER, else MISSING, else code 0
    a number or moment out of bounds              the nearest bin
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.errors import SchemaError, shown
from understudy.schema import cells as c
from understudy.schema.edges import LARGEST_NUMBER

TRUE_TEXTS = ("true", "t", "yes", "y", "1")  # the usual spellings, in lower case
FALSE_TEXTS = ("false", "f", "no", "n", "0")  # likewise


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """What is public about one column. Subclasses are final."""

    name: str
    missing: bool = False
    other: bool = False
    missing_values: tuple[str, ...] = ("",)
    title: str = ""
    description: str = ""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise SchemaError("The name of a column is a text.")
        if not isinstance(self.missing, bool) or not isinstance(self.other, bool):
            raise SchemaError(
                f"Column {self.name!r} has a missing or other setting that is neither true nor"
                " false."
            )
        if not _are_texts(self.missing_values):
            raise SchemaError(f"Column {self.name!r} needs its missing values as a tuple of texts.")
        if not isinstance(self.title, str) or not isinstance(self.description, str):
            raise SchemaError(f"Column {self.name!r} needs its title and description as texts.")

    @property
    @abstractmethod
    def values(self) -> int:
        """How many ordinary codes there are, OTHER and MISSING not counted."""

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike by nature. The order is that of the ordinary codes
        ``0 .. values-1``; OTHER and MISSING have no place in it.
        """
        return False

    @abstractmethod
    def _codes(self, cells: c.Cells) -> np.ndarray:
        """Code of each cell that has one, -1 where the cell is unreadable; MISSING is done
        elsewhere.
        """

    @property
    def _named(self) -> tuple[str, ...]:
        """Texts that are values of their own, whatever number they look like."""
        return ()

    def _lists(self, cells: c.Cells) -> bool:
        """Whether one readable cell is a value of the column, not merely mapped to one."""
        return True

    @abstractmethod
    def _decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        """Cells for ordinary codes; the caller blanks OTHER and MISSING."""

    @abstractmethod
    def _label(self, code: int) -> str:
        """What a reader calls an ordinary code."""

    @property
    def size(self) -> int:
        return self.values + self.other + self.missing

    @property
    def missing_code(self) -> int:
        return self.size - 1 if (self.missing or self.other) else 0

    @property
    def other_code(self) -> int:
        return self.values if (self.missing or self.other) else 0

    def encode(self, cells: c.Cells) -> np.ndarray:
        """The code of each cell, as int32."""
        cells = c.mark_missing(cells, self.missing_values, self._named)
        codes = self._codes(cells)
        codes = np.where(codes < 0, self.other_code, codes)
        return np.where(cells.kind == c.MISSING, self.missing_code, codes).astype(np.int32)

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        """Cells in the user's own type; a value inside its bin is drawn by the *public* generator."""
        ordinary = codes < self.values
        array = self._decode(np.where(ordinary, codes, 0), rng)
        other = (codes == self.values) & self.other
        array = pc.if_else(pa.array(ordinary), array, pa.scalar(None, array.type))
        if self.other and pa.types.is_string(array.type):
            array = pc.if_else(pa.array(other), pa.scalar(self.other_label, array.type), array)
        return array

    @property
    def other_label(self) -> str:
        return "OTHER"

    def label(self, code: int) -> str:
        if code < self.values:
            return self._label(int(code))
        return self.other_label if self.other and code == self.values else "MISSING"

    @property
    def labels(self) -> list[str]:
        return [self.label(code) for code in range(self.size)]

    def code_of(self, value: Any) -> int:
        """The code of a value that a person wrote in a query; refuses what the schema does not
        list.
        """
        if isinstance(value, str) and value in ("OTHER", "MISSING"):
            if value == "OTHER" and self.other:
                return self.other_code
            if value == "MISSING" and self.missing:
                return self.missing_code
        cells = c.read_objects([value])
        code = int(self._codes(cells)[0])
        if code < 0 or cells.kind[0] == c.MISSING or not self._lists(cells):
            raise SchemaError(
                f"Column {self.name!r} ({self.kind}) has no value {shown(value)}; see its entry in"
                " the schema."
            )
        return code


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) for text in value)


def is_integer(text: str) -> bool:
    """Whether a text is a whole number that a double holds exactly."""
    digits = text.removeprefix("-")
    return (
        digits.isascii()
        and digits.isdigit()
        and len(digits) <= 16
        and int(digits) <= LARGEST_NUMBER
    )


def text_of(value: Any) -> str:
    """How a category written in a schema file is spelt as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_NUMBER:
        return str(int(value))
    return str(value).strip(" \t\n\r\v\f")


@dataclass(frozen=True, kw_only=True)
class Categorical(Column):
    """A closed list of categories, ordered or not. Text matches exactly, numbers by value."""

    categories: tuple[str, ...]
    ordered: bool = False
    numeric: bool = False  # give categories back as integers, not text

    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            not _are_texts(self.categories)
            or not isinstance(self.ordered, bool)
            or not isinstance(self.numeric, bool)
        ):
            raise SchemaError(
                f"Column {self.name!r} needs its categories as a tuple of texts, and ordered and"
                " numeric as true or false."
            )
        if self.numeric and not all(
            is_integer(text) and str(int(text)) == text for text in self.categories
        ):
            raise SchemaError(
                f"Column {self.name!r} is numeric but lists a category that is not a whole number"
                " within 2^53."
            )
        if not self.categories:
            raise SchemaError(
                f"Column {self.name!r} is categorical but lists no categories; give them in"
                " constraints.enum."
            )
        if len(set(self.categories)) != len(self.categories):
            raise SchemaError(
                f"Column {self.name!r} lists a category twice; every category must be listed once."
            )
        try:
            "".join((*self.categories, *self.missing_values)).encode()
        except UnicodeEncodeError:
            raise SchemaError(
                f"Column {self.name!r} lists text that cannot be written as UTF-8; change that"
                " category."
            ) from None
        for label, declared in (("OTHER", self.other), ("MISSING", self.missing)):
            if declared and label in self.categories:
                raise SchemaError(
                    f"Column {self.name!r} declares the code {label} and also lists that category;"
                    " drop one of them."
                )
        numbers = [
            value[looks]
            for value, looks in (
                c.numbers_in_text(pa.array(t, pa.large_string()))
                for t in (self.categories, self.missing_values)
            )
        ]
        if set(self.categories) & set(self.missing_values) or np.isin(*numbers).any():
            raise SchemaError(
                f"Column {self.name!r} lists a category that is also a missing value, which no cell"
                " can be; drop one."
            )

    @property
    def values(self) -> int:
        return len(self.categories)

    @property
    def _named(self) -> tuple[str, ...]:
        return self.categories

    @cached_property
    def _by_number(self) -> tuple[np.ndarray, np.ndarray]:
        """(numbers, codes) of the categories that are numbers, sorted; the first spelling wins."""
        value, looks = c.numbers_in_text(pa.array(self.categories, pa.large_string()))
        numbers, first = np.unique(value[looks], return_index=True)
        return numbers, np.flatnonzero(looks)[first]

    def _codes(self, cells: c.Cells) -> np.ndarray:
        index = pc.index_in(cells.text, value_set=pa.array(self.categories, pa.large_string()))
        codes = pc.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        numbers, number_codes = self._by_number
        if len(numbers):
            value, looks = cells.number, cells.kind == c.NUMBER
            unmatched = np.flatnonzero((cells.kind == c.TEXT) & (codes < 0))
            if len(unmatched):
                value, looks = value.copy(), looks.copy()
                value[unmatched], looks[unmatched] = c.numbers_in_text(
                    pc.take(cells.text, pa.array(unmatched))
                )
            at = np.clip(np.searchsorted(numbers, value), 0, len(numbers) - 1)
            codes = np.where(looks & (numbers[at] == value), number_codes[at], codes)
        flags = {name.lower(): code for code, name in reversed(list(enumerate(self.categories)))}
        if flags.keys() & {"true", "false"}:
            flag, readable = c.true_or_false(cells.text)
            flag = np.where(cells.kind == c.FLAG, cells.number, flag)
            readable = (readable & (codes < 0)) | (cells.kind == c.FLAG)
            for number, name in ((1.0, "true"), (0.0, "false")):
                codes[readable & (flag == number)] = flags.get(name, -1)
        return codes

    def _decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        if self.numeric:
            return pc.take(
                pa.array([int(name) for name in self.categories], pa.int64()), pa.array(codes)
            )
        return pc.take(pa.array(self.categories, pa.string()), pa.array(codes))

    def _label(self, code: int) -> str:
        return self.categories[code]


@dataclass(frozen=True, kw_only=True)
class Boolean(Column):
    """True or false, in any of the usual spellings."""

    kind: ClassVar[str] = "boolean"

    @property
    def values(self) -> int:
        return 2

    def _codes(self, cells: c.Cells) -> np.ndarray:
        low = pc.ascii_lower(cells.text)
        numeric = np.isin(cells.kind, (c.NUMBER, c.FLAG))
        codes = np.full(len(cells), -1, np.int64)
        for code, texts in ((0, FALSE_TEXTS), (1, TRUE_TEXTS)):
            matches = pc.is_in(low, value_set=pa.array(texts, pa.large_string())).to_numpy(
                zero_copy_only=False
            )
            codes[matches | (numeric & (cells.number == code))] = code
        # "1.0" is what a column of ones becomes when one of its cells was once missing.
        value, looks = c.numbers_in_text(cells.text)
        codes[looks & (value == 1)], codes[looks & (value == 0)] = 1, 0
        return codes

    def _decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        return pa.array(codes == 1)

    def _label(self, code: int) -> str:
        return ("false", "true")[code]


@dataclass(frozen=True, kw_only=True)
class Binned(Column):
    """What integers, reals and moments share: an axis cut into bins ``[edge_i, edge_i+1)``.

    Attributes:
        detail: how finely the column is known by itself (``schema/detail.py``): a width or a unit
            of the calendar, true for the default, false for its bins alone.
        step: values are multiples of it, or whole units of the calendar.
    """

    edges: tuple[float, ...] = field(repr=False)
    ordered: bool = True  # numbers may be mere codes of something
    detail: bool | float | str | None = None
    step: float | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.ordered, bool):
            raise SchemaError(f"Column {self.name!r} needs ordered to be true or false.")
        if not isinstance(self.edges, tuple) or not all(
            isinstance(e, (int, float)) and abs(e) <= LARGEST_NUMBER + 1 for e in self.edges
        ):
            raise SchemaError(
                f"Column {self.name!r} needs its edges as a tuple of numbers within 2^53."
            )
        steps = np.diff(np.asarray(self.edges, float))
        if len(self.edges) < 2 or not np.all(np.isfinite(self.edges)) or not np.all(steps > 0):
            raise SchemaError(
                f"Column {self.name!r} needs finite bounds with minimum below maximum, and cut"
                " points that rise strictly between them."
            )

    @property
    def values(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def _edges(self) -> np.ndarray:
        return np.asarray(self.edges, np.float64)

    @abstractmethod
    def _axis(self, cells: c.Cells) -> tuple[np.ndarray, np.ndarray]:
        """(position on the axis, is the cell readable)."""

    def _codes(self, cells: c.Cells) -> np.ndarray:
        position, readable = self._axis(cells)
        position = np.where(readable, position, self._edges[0])
        codes = np.searchsorted(self._edges, position, side="right") - 1
        return np.where(readable, np.clip(codes, 0, self.values - 1), -1)

    def _lists(self, cells: c.Cells) -> bool:
        return bool(self._edges[0] <= self._axis(cells)[0][0] <= self._edges[-1])

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether there is nothing between two neighbouring whole positions on the axis."""

    @abstractmethod
    def _written(self, edge: float) -> str:
        """An edge, as people write it."""

    def position_of(self, value: Any) -> float:
        """Where on the axis a value stands that a person wrote in a query; refuses what is out of
        bounds.
        """
        self.code_of(value)
        return float(self._axis(c.read_objects([value]))[0][0])

    def edge_at(self, position: float) -> int | None:
        """Which edge stands at a position; of several digits, those count that people see."""
        index = int(np.searchsorted(self._edges, position))
        if index < len(self.edges) and self.edges[index] == position:
            return index
        seen = [
            i
            for i in range(max(index - 2, 0), min(index + 2, len(self.edges)))
            if self._written(self.edges[i]) == self._written(position)
        ]
        return seen[0] if len(seen) == 1 and not self.whole else None

    def edge_text(self, index: int) -> str:
        """An edge in as few digits as find it again."""
        text = self._written(self.edges[index])
        return text if self.whole or self.edge_at(float(text)) == index else repr(self.edges[index])

    def _draw_integers(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        low, high = self._edges[codes].astype(np.int64), self._edges[codes + 1].astype(np.int64)
        return rng.integers(low, high)


@dataclass(frozen=True, kw_only=True)
class Number(Binned):
    """An integer or real column with bounds; ``edges`` of an integer column end at maximum + 1."""

    integer: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.integer, bool):
            raise SchemaError(f"Column {self.name!r} needs integer to be true or false.")

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "integer" if self.integer else "real"

    @property
    def whole(self) -> bool:
        return self.integer

    def _written(self, edge: float) -> str:
        return f"{edge:.0f}" if self.integer else f"{edge:.6g}"

    def _axis(self, cells: c.Cells) -> tuple[np.ndarray, np.ndarray]:
        value, readable = c.numbers_in_text(cells.text)
        flag, boolean = c.true_or_false(cells.text)
        numeric = np.isin(cells.kind, (c.NUMBER, c.FLAG))
        return (
            np.where(numeric, cells.number, np.where(boolean, flag, value)),
            numeric | readable | boolean,
        )

    def _decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        if self.integer:
            return pa.array(self._draw_integers(codes, rng))
        low, high = self._edges[codes], self._edges[codes + 1]
        return pa.array(
            np.minimum(low + rng.random(len(codes)) * (high - low), np.nextafter(high, low))
        )

    def _label(self, code: int) -> str:
        low, high = self.edges[code], self.edges[code + 1]
        if self.integer:
            return f"{low:.0f}" if high - low == 1 else f"{low:.0f} to {high - 1:.0f}"
        return f"{low:.6g} to {high:.6g}"


@dataclass(frozen=True, kw_only=True)
class Moment(Binned):
    """A date (axis: days) or a date and time (axis: seconds), cut at a calendar resolution."""

    date: bool
    resolution: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.date, bool) or not isinstance(self.resolution, str):
            raise SchemaError(
                f"Column {self.name!r} needs date to be true or false, and a resolution such as"
                " 'month'."
            )

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "date" if self.date else "datetime"

    @property
    def _unit(self) -> int:
        return c.MICROSECONDS * (86400 if self.date else 1)

    @property
    def whole(self) -> bool:
        return True

    def _written(self, edge: float) -> str:
        return str(np.datetime64(int(edge), "D" if self.date else "s"))

    def _axis(self, cells: c.Cells) -> tuple[np.ndarray, np.ndarray]:
        value, readable = c.moments_in_text(cells.text)
        typed = cells.kind == c.MOMENT
        return np.where(typed, cells.moment, value) // self._unit, typed | readable

    def _decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        values = self._draw_integers(codes, rng)
        return pa.array(
            values.astype("M8[D]") if self.date else values.astype("M8[s]").astype("M8[us]")
        )

    def _label(self, code: int) -> str:
        low, high = (
            np.datetime64(int(e), "D" if self.date else "s") for e in self.edges[code : code + 2]
        )
        shown = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m"}.get(
            self.resolution
        )
        # the bin is exactly one unit, or the clipped end of one
        if shown and low.astype(f"M8[{shown}]") + 1 >= high:
            return str(low.astype(f"M8[{shown}]"))
        return f"{low} to {high - 1}"
