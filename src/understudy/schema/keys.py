"""The keys that a Table Schema may have: which are read here, which are not, and what somebody may
have meant.

Table Schema allows keys of one's own, so an unknown one is no error; it is said that nobody reads
it. One that nearly is a key that would be read, and is not there, is a slip that would change what
the schema means: it is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.errors import SchemaError, Unread, shown, warn

READ = {  # keys that something depends on, by what they are keys of
    "schema": ("fields", "missingValues", "understudy"),
    "field": ("name", "type", "constraints", "categories", "categoriesOrdered"),
    "constraints": ("minimum", "maximum", "enum"),
    "understudy": ("privacyUnit", "columns", "rules"),
}
# Keys that say something about a table and nothing about how its cells are read.
SAID = {
    "schema": (
        {"title", "description", "name", "type", "profile", "homepage", "fieldsMatch"}
        | {"primaryKey", "uniqueKeys", "foreignKeys", "$schema"}
    ),
    "field": {"title", "description", "example", "rdfType"},
    "constraints": {"required", "unique", "pattern", "minLength", "maxLength", "jsonSchema"},
    "understudy": set(),
}
# Keys of Table Schema that say how cells are read, which here is the same for all tables.
OTHERWISE_READ = {
    "field": {
        "format",
        "trueValues",
        "falseValues",
        "decimalChar",
        "groupChar",
        "bareNumber",
        "missingValues",
    },
    "constraints": {"exclusiveMinimum", "exclusiveMaximum"},
}
# of a column, in the understudy block
SETTINGS = (
    "bins",
    "cuts",
    "decimals",
    "detail",
    "missing",
    "ordered",
    "other",
    "resolution",
    "step",
)
TYPES = ("string", "any", "boolean", "integer", "number", "year", "date", "datetime")
# What follows from a key that is not read, by the types of the fields that it matters for.
AS_WORDS = (
    "a boolean column reads true/false, t/f, yes/no, y/n and 1/0 only; for other words make it a"
    " string column with an enum"
)
AS_ISO = "dates and times are read as ISO 8601 only, such as 2024-02-29"
AS_POINT = "numbers are read with a decimal point only, and with no other sign"
FOLLOWS = {
    **{
        (key, "boolean"): AS_WORDS
        for key in ("enum", "categories", "trueValues", "falseValues", "format")
    },
    **{("format", kind): AS_ISO for kind in ("date", "datetime")},
    **{
        (key, kind): AS_POINT
        for key in ("decimalChar", "groupChar", "bareNumber")
        for kind in ("integer", "number")
    },
    **{
        (
            "missingValues",
            kind,
        ): "missingValues are read at the top of the schema only, for all columns"
        for kind in TYPES
    },
}
LISTED = ("string", "any", "integer", "number", "year")  # types whose enum is read
AS_ALIKE = 0.75  # of the letters
MOST_LISTED = 5  # keys in a note


def alike(name: str) -> str:
    """A name without what people mix up: case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", name.casefold())


def nearest(name: object, candidates: Iterable[str]) -> str | None:
    """The known name that somebody may have meant.

    Examples:
        >>> nearest("Maximum", ["minimum", "maximum"]), nearest("bin", ["bins", "cuts"]), nearest("colour", ["bins"])
        ('maximum', 'bins', None)
    """
    if not isinstance(name, str) or not alike(name):
        return None
    plain = {alike(one): one for one in reversed(list(candidates))}
    matches = difflib.get_close_matches(alike(name), plain, n=1, cutoff=AS_ALIKE)
    return plain[matches[0]] if matches else None


def meant(name: object, candidates: Iterable[str]) -> str:
    """What to ask in a message behind the name, if there is something to ask."""
    match = nearest(name, candidates)
    return f" (did you mean {shown(match)}?)" if match is not None else ""


@dataclass
class _Unread:
    """Keys that nobody reads, with the places where they stand, and what to say about them."""

    keys: dict[str, list[str]] = field(default_factory=dict)
    hints: dict[str, None] = field(default_factory=dict)  # each once, in order

    def add(self, key: str, where: str, hint: str | None) -> None:
        self.keys.setdefault(key, []).append(where)
        if hint is not None:
            self.hints[hint] = None

    @property
    def words(self) -> str:
        listed = "; ".join(
            f"{shown(key)} of {_places(places)}"
            for key, places in list(self.keys.items())[:MOST_LISTED]
        )
        listed += (
            f"; and {len(self.keys) - MOST_LISTED:,} more" if len(self.keys) > MOST_LISTED else ""
        )
        notes = "".join(f" Note that {hint}." for hint in self.hints)
        return (
            f"These keys of the schema are not read{'' if notes else ', and change nothing'}:"
            f" {listed}.{notes}"
        )


def check_keys(data: Mapping[str, Any]) -> None:
    """Refuse keys that are slips, and say which others of a Table Schema nobody reads: all of them
    in one warning.
    """
    unread = _Unread()
    _look(data, "schema", "the schema", unread)
    block = data.get("understudy")
    if isinstance(block, Mapping):
        _look(block, "understudy", "the understudy block", unread)
    fields = data["fields"] if isinstance(data["fields"], list) else []
    for one in fields:
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            _look_at_field(one, unread)
    if unread.keys:
        warn(unread.words, Unread)


def _look_at_field(field: Mapping[str, Any], unread: _Unread) -> None:
    where, kind = f"column {shown(field['name'])}", str(field.get("type", "string"))
    _look(field, "field", where, unread, kind)
    constraints = field.get("constraints")
    if isinstance(constraints, Mapping):
        _look(constraints, "constraints", where, unread, kind)
    if kind not in LISTED:
        for key in {"categories"} & set(field) or {"enum"} & set(
            constraints if isinstance(constraints, Mapping) else ()
        ):
            unread.add(key, where, FOLLOWS.get((key, kind)))


def _look(
    part: Mapping[str, Any], kind: str, where: str, unread: _Unread, of_type: str = ""
) -> None:
    for key in part:
        # A table may have a type of its own; a column's type there is one that slipped out of its
        # field.
        slipped = kind == "schema" and key == "type" and part[key] in TYPES
        if not slipped and (
            key in READ[kind]
            or key in SAID[kind]
            or (key == "format" and part[key] in ("default", "any"))
        ):
            continue
        elsewhere = slipped or key in OTHERWISE_READ.get(kind, ())
        near = None if elsewhere else nearest(key, READ[kind])
        if (
            kind == "understudy"
            or (kind == "constraints" and not elsewhere)
            or (near is not None and near not in part)
        ):
            valid_keys = ", ".join([*READ[kind], *sorted(SAID[kind])])
            raise SchemaError(
                f"The key {shown(key)} of {where} is not known{meant(key, READ[kind])}; known are"
                f" {valid_keys}."
            )
        unread.add(str(key), where, FOLLOWS.get((str(key), of_type)) or _belongs(str(key), kind))


def _belongs(key: str, kind: str) -> str | None:
    """Where a key would be read that stands in the wrong place."""
    if kind == "schema" and key in READ["field"]:
        return f"{key} belongs to a field; look at the indentation"
    if kind in ("schema", "field") and key in READ["constraints"]:
        return f"{key} belongs under constraints of a field; look at the indentation"
    if kind in ("schema", "field") and key in SETTINGS:
        return (
            f"{key} belongs under understudy, columns and the name of the column; look at the"
            " indentation"
        )
    return None


def _places(places: list[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1:,} more"
