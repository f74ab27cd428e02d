"""The schema: everything that is public about a table, read from a file and never from rows.

The file is a Frictionless Table Schema (YAML or JSON) with one block of our own:

    fields:
      - {name: age, type: integer, constraints: {minimum: 0, maximum: 99}}
      - {name: sex, type: string, constraints: {enum: [F, M]}}
    missingValues: ["", "?"]
    understudy:
      privacyUnit: row            # one row per person; the only unit there is
      columns:
        age: {bins: 20}           # or cuts: [18, 30, 65]
        sex: {missing: true, other: true}
      rules: ["sex = 'M' implies age >= 18"]

``title`` and ``description``, of the table and of each field, are for readers. A table in which
every person has some of a long list of items is that list alone, see :meth:`Schema.items`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import SchemaError, shown
from understudy.schema import cells as c
from understudy.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Moment,
    Number,
    is_integer,
    text_of,
)
from understudy.schema.detail import as_step, check_detail
from understudy.schema.edges import moment_edges, number_edges
from understudy.schema.files import read_mapping, write_mapping
from understudy.schema.items import ItemColumns
from understudy.schema.keys import LISTED, SETTINGS, check_keys, meant

# The settings that a type takes besides missing and other.
TAKEN: dict[str, set[str]] = {
    "boolean": set(),
    "categorical": {"ordered"},
    **{kind: {"bins", "cuts", "ordered", "detail", "step"} for kind in ("integer", "year")},
    "number": {"bins", "cuts", "decimals", "ordered", "detail", "step"},
    **{kind: {"bins", "ordered", "resolution", "detail", "step"} for kind in ("date", "datetime")},
}
MOST_DIGITS = 60  # nobody reads more
MOST_NAMED = 40  # columns in a message
MOST_COMPARED = 2000  # columns that a slip is compared with


@dataclass(frozen=True)
class Schema:
    """The public columns of a table, in order.

    Examples:
        >>> schema = Schema.from_domain({"age": 85, "sex": 2})
        >>> schema.shape
        (85, 2)
        >>> schema.domain_size
        170
    """

    columns: Sequence[Column]
    title: str = ""
    description: str = ""
    # texts, or mappings with one; the room constraints reads them
    rules: Sequence[Any] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not isinstance(self.description, str):
            raise SchemaError("The title and the description of a schema are texts.")
        if not isinstance(self.rules, (tuple, list)) or (self.rules and self.pairs is not None):
            raise SchemaError("The rules of a schema are a list, and a list of items has none.")
        object.__setattr__(self, "rules", tuple(self.rules))
        if self.pairs is not None:
            return  # a list of items has been checked as a whole
        if not isinstance(self.columns, (tuple, list)) or not all(
            isinstance(column, Column) for column in self.columns
        ):
            raise SchemaError(
                "The columns of a schema are a tuple of columns, such as Boolean(name='smoker')."
            )
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise SchemaError("The schema has no columns; list at least one under fields.")
        twice = sorted(name for name, times in Counter(self.names).items() if times > 1)
        if twice:
            raise SchemaError(
                f"The schema names the column {twice[0]!r} twice; column names must differ."
            )
        if len({column.missing_values for column in self.columns}) > 1:
            raise SchemaError("The columns of a schema must share one list of missing values.")

    # ------------------------------------------------------------------ what it says

    @property
    def pairs(self) -> ItemColumns | None:
        """The list of items, when the table is one of (row, item) pairs; else None."""
        return self.columns if isinstance(self.columns, ItemColumns) else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (
            tuple(column.name for column in self.columns)
            if self.pairs is None
            else self.pairs.names
        )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return (
            tuple(column.size for column in self.columns)
            if self.pairs is None
            else (2,) * len(self)
        )

    @property
    def domain_size(self) -> int:
        """How many different records there can be (exact, may be astronomically large)."""
        return math.prod(self.shape) if self.pairs is None else 1 << len(self)

    @property
    def domain_text(self) -> str:
        """The same for a reader: all digits, or about how many there are."""
        size = self.domain_size
        digits = int(size.bit_length() * math.log10(2))
        return f"{size:,}" if digits <= MOST_DIGITS else f"about 10^{digits}"

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.position(name)]

    def position(self, name: str) -> int:
        """The place of a column; an unknown name is refused with the names that exist."""
        try:
            return self._places[name]
        except (KeyError, TypeError):  # what has no hash is no name either
            listed = ", ".join(self.names[:MOST_NAMED]) + (
                f" and {len(self) - MOST_NAMED:,} more" if len(self) > MOST_NAMED else ""
            )
            asked = meant(name, self.names) if len(self) <= MOST_COMPARED else ""
            raise SchemaError(
                f"There is no column {shown(name)} in the schema{asked}; its columns are {listed}."
            ) from None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the schema's canonical form: what a release was made against."""
        canonical = json.dumps(
            self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def reads_back(self) -> bool:
        """Whether its file form says all of it; columns made by hand may have bins that no file
        form has.
        """
        return self.pairs is not None or Schema.from_dict(self.to_dict()) == self

    # ------------------------------------------------------------------ codes and cells

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Table:
        """Rows of codes as a table in the user's own types; of items, as pairs."""
        if self.pairs is not None:
            return self.pairs.decode(codes)
        arrays = [column.decode(codes[:, i], rng) for i, column in enumerate(self.columns)]
        return pa.table(arrays, names=list(self.names))

    def encode(self, table: pa.Table) -> np.ndarray:
        """The codes of a *public* table such as a release's own rows (sources encode sensitive
        ones).
        """
        return np.column_stack(
            [column.encode(c.read_cells(table[column.name])) for column in self.columns]
        )

    def shows(self, table: pa.Table, codes: np.ndarray) -> bool:
        """Whether a table in the user's own types says what these codes say."""
        if self.pairs is not None:
            return table.equals(self.pairs.decode(codes))
        # A number or moment with code OTHER is shown as missing: there is no such number to show.
        # So is one among numeric categories.
        worded = [isinstance(column, Categorical) and not column.numeric for column in self.columns]
        unshown = np.column_stack(
            [
                (codes[:, i] == column.values) & column.other & (not worded[i])
                for i, column in enumerate(self.columns)
            ]
        )
        empty = np.column_stack([table[name].is_null().to_numpy() for name in self.names])
        return bool(np.all(np.where(unshown, empty, self.encode(table) == codes)))

    # ------------------------------------------------------------------ files

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a Table Schema (YAML or JSON), a ``{"column": size}`` domain file or an ``{"items":
        ...}`` file.
        """
        return cls.from_dict(read_mapping(path, "schema"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        if not isinstance(data, Mapping):
            raise SchemaError("The plain form of a schema is a mapping, as it is in a schema file.")
        if "fields" in data:
            return _from_table_schema(data)
        if ItemColumns.is_meant(data):
            return cls.items(**data)
        if data and all(isinstance(v, int) and not isinstance(v, bool) for v in data.values()):
            return cls.from_domain(data)
        slips = (
            f"; {shown(key)} is not known{asked}"
            for key in data
            if (asked := meant(key, ("fields", "items")))
        )
        raise SchemaError(
            "This is neither a Table Schema (it has no fields) nor a domain of the form {column:"
            f" number of codes}} nor a list of items{next(slips, '')}."
        )

    @classmethod
    def items(
        cls,
        items: int | Iterable[Any],
        *,
        row: str = "row",
        item: str = "item",
        density: float = 0.0,
        title: str = "",
        description: str = "",
    ) -> Schema:
        """A schema for tables of (row, item) pairs: a person is a row, a column says whether the
        person has the item.

        The file form is ``{"items": 9724}`` or ``{"items": ["a", "b"]}``, with the other arguments
        beside it.

        Args:
            items: how many items there are, numbered from 0; or a list of them, texts or whole
                numbers. Public: all that there are, not those that occur.
            row: what the pairs call a person.
            item: what they call an item.
            density: how likely a person is to have an item of which nothing was learnt. A public
                guess; 0 suits sparse tables.
            title: what the table is called; ``description`` what it is. Both are for whoever reads
                the release.

        Examples:
            >>> schema = Schema.items(["bread", "milk", "tea"], row="customer")
            >>> schema.shape, schema["milk"].kind, schema.pairs.row
            ((2, 2, 2), 'boolean', 'customer')
        """
        return cls(ItemColumns.of(items, row=row, item=item, density=density), title, description)

    @classmethod
    def from_domain(cls, domain: Mapping[str, int], ordered: Iterable[str] = ()) -> Schema:
        """A schema for integer-coded tables, each column holding codes ``0 .. size-1``.

        Args:
            domain: how many codes each column has.
            ordered: the columns of which neighbouring codes are alike, such as ages; codes of the
                others are names.
        """
        if not isinstance(domain, Mapping):
            raise SchemaError("A domain is a mapping from columns to their numbers of codes.")
        alike = _listed(ordered, domain)
        for name, size in domain.items():
            if (
                isinstance(size, bool)
                or not isinstance(size, (int, np.integer))
                or not 1 <= size <= 10**6
            ):
                raise SchemaError(
                    f"Column {str(name)!r} needs a whole number of codes from 1 to 1,000,000."
                )
        return cls(
            tuple(
                Number(
                    name=str(name),
                    integer=True,
                    edges=tuple(map(float, range(int(size) + 1))),
                    ordered=name in alike,
                )
                for name, size in domain.items()
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The Table Schema form (of items, the short form), which :meth:`from_dict` reads back to
        an equal schema.
        """
        if self.pairs is not None:
            return {**self.pairs.to_dict(), **words_of(self)}
        fields, blocks = zip(*(_to_field(column) for column in self.columns), strict=True)
        missing_values = self.columns[0].missing_values
        return {
            **words_of(self),
            "fields": list(fields),
            "missingValues": list(missing_values),
            "understudy": {
                "privacyUnit": "row",
                "columns": {
                    f["name"]: block for f, block in zip(fields, blocks, strict=True) if block
                },
                **({"rules": list(self.rules)} if self.rules else {}),
            },
        }

    def save(self, path: str | Path) -> None:
        """Write the schema as YAML or JSON, by the file's ending."""
        write_mapping(path, self.to_dict())


def _listed(ordered: Any, domain: Mapping[str, int]) -> set[str]:
    """The columns that are said to be ordered, all of which there are."""
    if isinstance(ordered, str) or not isinstance(ordered, Iterable):
        raise SchemaError("The ordered columns of a domain are a list of names.")
    names, known = list(ordered), list(domain)
    strangers = [name for name in names if name not in known]
    if strangers:
        raise SchemaError(
            f"The column {shown(strangers[0])}{meant(strangers[0], map(str, domain))} is said to be"
            " ordered and is not in the domain."
        )
    return set(names)


# ---------------------------------------------------------------------- reading the file form


def _from_table_schema(data: Mapping[str, Any]) -> Schema:
    check_keys(data)
    block = data.get("understudy") or {}
    if not isinstance(block, Mapping):
        raise SchemaError(
            "The schema's understudy block must be a mapping with privacyUnit, columns and rules."
        )
    unit = block.get("privacyUnit", "row")
    if unit != "row":
        raise SchemaError(
            f"The privacy unit {shown(unit)} is not supported; the only one is 'row' (one row per"
            " person). Reduce the table to one row per person first."
        )
    settings = block.get("columns") or {}
    if not isinstance(settings, Mapping) or not all(
        isinstance(entry or {}, Mapping) for entry in settings.values()
    ):
        raise SchemaError(
            "The columns of the schema's understudy block must be a mapping from a column to its"
            " settings."
        )
    fields = data["fields"]
    if not isinstance(fields, list) or not all(
        isinstance(f, Mapping) and isinstance(f.get("name"), str) for f in fields
    ):
        raise SchemaError("The schema's fields must be a list of mappings, each with a name.")
    names = {f["name"] for f in fields}
    strangers = [name for name in settings if name not in names]
    if strangers:
        raise SchemaError(
            "The understudy block describes the column"
            f" {shown(strangers[0])}{meant(strangers[0], names)}, which is not among the fields."
        )
    missing_values = data.get("missingValues", [""])
    if not isinstance(missing_values, list) or not all(
        isinstance(v, (str, int, float)) for v in missing_values
    ):
        raise SchemaError("The schema's missingValues must be a list of strings.")
    texts = tuple(text_of(value) for value in missing_values)
    return Schema(
        tuple(_column(f, settings.get(f["name"]) or {}, texts) for f in fields),
        data.get("title", ""),
        data.get("description", ""),
        block.get("rules") or (),
    )


def _column(
    field: Mapping[str, Any], settings: Mapping[str, Any], missing_values: tuple[str, ...]
) -> Column:
    name = field["name"]
    unknown = next((key for key in settings if key not in SETTINGS), None)
    if unknown is not None:
        asked = meant(unknown, SETTINGS)
        raise SchemaError(
            f"Column {name!r} has the unknown setting {str(unknown)!r}{asked}; known are"
            f" {', '.join(SETTINGS)}."
        )
    for flag in ("missing", "other", "ordered"):
        if not isinstance(settings.get(flag, False), bool):
            raise SchemaError(
                f"Column {name!r} has a {flag} setting that is neither true nor false."
            )
    constraints = field.get("constraints") or {}
    if not isinstance(constraints, Mapping):
        raise SchemaError(f"Column {name!r} needs its constraints as a mapping.")
    kind = field.get("type", "string")
    common: dict[str, Any] = {
        "name": name,
        "missing": settings.get("missing", False),
        "other": settings.get("other", False),
        "missing_values": missing_values,
        "title": field.get("title", ""),
        "description": field.get("description", ""),
    }
    low: Any = constraints.get("minimum")
    high: Any = constraints.get("maximum")
    bins, cuts = settings.get("bins"), settings.get("cuts")
    listed = constraints.get("enum", field.get("categories"))
    shape = "categorical" if listed is not None and kind in LISTED else str(kind)
    idle = sorted(set(settings) - {"missing", "other"} - TAKEN.get(shape, set(SETTINGS)))
    if idle:
        raise SchemaError(
            f"Column {name!r} is {shape} and has no use for the setting {shown(idle[0])};"
            " remove it."
        )
    if shape == "categorical":
        categories = _categories(name, listed, whole=kind in ("integer", "year"))
        # What an integer would not give back as it is written, such as 01234, is given back as
        # text.
        numeric = kind in ("integer", "year") and all(str(int(text)) == text for text in categories)
        return Categorical(
            categories=categories,
            ordered=settings.get("ordered", bool(field.get("categoriesOrdered", False))),
            numeric=numeric,
            **common,
        )
    if kind == "boolean":
        return Boolean(**common)
    common["ordered"] = settings.get("ordered", True)
    common["detail"] = settings.get("detail")
    common["step"] = as_step(name, settings.get("step"), settings.get("decimals"))
    if kind in ("integer", "number", "year"):
        if not _is_number(low) or not _is_number(high):
            raise SchemaError(
                f"Column {name!r} is numeric and needs public bounds: constraints.minimum and"
                " constraints.maximum."
            )
        if cuts is not None and not (
            isinstance(cuts, list) and all(_is_number(cut) for cut in cuts)
        ):
            raise SchemaError(f"Column {name!r} needs its cuts as a list of numbers.")
        integer = kind != "number"
        edges = number_edges(name, low, high, integer, bins, cuts)
        return check_detail(Number(integer=integer, edges=edges, **common))
    if kind in ("date", "datetime"):
        if low is None or high is None:
            raise SchemaError(
                f"Column {name!r} is a {kind} and needs public bounds: constraints.minimum and"
                " constraints.maximum."
            )
        resolution = settings.get("resolution", "month")
        edges = moment_edges(name, low, high, kind == "date", resolution, bins)
        resolution = "bins" if bins is not None else resolution
        return check_detail(
            Moment(date=kind == "date", resolution=resolution, edges=edges, **common)
        )
    if kind == "string":
        raise SchemaError(
            f"Column {name!r} is text and needs a closed list of categories: constraints.enum. Free"
            " text cannot be released."
        )
    raise SchemaError(
        f"Column {name!r} has type {shown(kind)}; supported are string, boolean, integer, number,"
        " date, datetime and year."
    )


def _categories(name: str, listed: Any, *, whole: bool) -> tuple[str, ...]:
    """Categories as they are written; of a column of whole numbers, different ones."""
    values = (
        [v.get("value") if isinstance(v, Mapping) else v for v in listed]
        if isinstance(listed, list)
        else [None]
    )
    if not all(isinstance(value, (str, int, float, dt.date)) for value in values):
        raise SchemaError(f"Column {name!r} needs its categories as a list of texts or numbers.")
    texts = tuple(map(text_of, values))
    if whole and not all(is_integer(text) for text in texts):
        raise SchemaError(
            f"Column {name!r} is an integer column but lists a category that is not a whole number"
            " within 2^53; write it in digits alone, or make the column a string."
        )
    if whole and len(set(map(int, texts))) < len(texts):
        raise SchemaError(
            f"Column {name!r} lists a category twice, in two spellings of one integer; every"
            " category must be listed once."
        )
    return texts


def _is_number(value: Any) -> bool:
    # Compared first: an integer beyond a double cannot even be asked whether it is finite.
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


# ---------------------------------------------------------------------- writing it


def words_of(described: Schema | Column) -> dict[str, str]:
    """Its title and description, where it has them."""
    return {key: text for key in ("title", "description") if (text := getattr(described, key))}


def _to_field(column: Column) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the Table Schema field, its settings in the understudy block)."""
    block: dict[str, Any] = {flag: True for flag in ("missing", "other") if getattr(column, flag)}
    if isinstance(column, Categorical):
        enum: list[Any] = (
            [int(v) for v in column.categories] if column.numeric else list(column.categories)
        )
        field: dict[str, Any] = {
            "name": column.name,
            **words_of(column),
            "type": "integer" if column.numeric else "string",
        }
        field["constraints"] = {"enum": enum}
        if column.ordered:
            field["categories"], field["categoriesOrdered"] = enum, True
        return field, block
    if isinstance(column, Boolean):
        return {"name": column.name, **words_of(column), "type": "boolean"}, block
    assert isinstance(column, Binned)
    return _to_binned_field(column, block)


def _to_binned_field(
    column: Binned, block: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    low, high = column.edges[0], column.edges[-1]
    bounds: dict[str, Any]
    if not column.ordered:
        block["ordered"] = False
    said = {"detail": column.detail, "step": column.step}
    block |= {key: value for key, value in said.items() if value is not None}
    if isinstance(column, Number):
        kind = "integer" if column.integer else "number"
        bounds = (
            {"minimum": int(low), "maximum": int(high) - 1}
            if column.integer
            else {"minimum": low, "maximum": high}
        )
        if column.edges == number_edges(
            column.name, bounds["minimum"], bounds["maximum"], column.integer, column.values, None
        ):
            block["bins"] = column.values
        else:
            block["cuts"] = [int(e) if column.integer else e for e in column.edges[1:-1]]
    else:
        assert isinstance(column, Moment)
        kind = column.kind
        base = "D" if column.date else "s"
        first, last = (str(np.array(int(e), f"M8[{base}]")) for e in (low, high - 1))
        bounds = {"minimum": first, "maximum": last}
        if column.resolution == "bins":
            block["bins"] = column.values
        else:
            block["resolution"] = column.resolution
    return {"name": column.name, **words_of(column), "type": kind, "constraints": bounds}, block
