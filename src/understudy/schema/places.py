"""Where in our files a text stands, and where a number: a code is the characters that somebody
wrote.

A place is the keys that lead to it, ``[]`` standing for any entry of a list. Keys themselves are
always characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

Path = tuple[str, ...]


class Place(Enum):
    """How what stands there is read."""

    TEXT = "the characters written, whatever they look like"
    VALUE = "a number, true, false or nothing"
    BOUND = "the same, or a date in characters"
    ITEM = "whole numbers if all in the list are, else the characters written"


Places = Callable[[Path], Place]


def in_schema(top: Mapping[str, bool]) -> Places:
    """The places of a schema file, by its keys at the top and whether each holds a list."""
    if "fields" in top:
        return _in_table_schema
    return _in_items if top.get("items") else lambda path: Place.VALUE


def in_workload(top: Mapping[str, bool]) -> Places:
    """The places of a workload file: columns and their values are texts, and only ``t`` is a
    number.
    """
    return _in_workload


def _in_table_schema(path: Path) -> Place:
    match path:
        case ("fields", _, "constraints", "minimum" | "maximum"):
            return Place.BOUND
        case ("fields", _, "constraints", "enum" | "pattern", *_) | ("understudy", "rules", *_):
            return Place.TEXT
        case (
            ("fields", _, "constraints" | "categoriesOrdered", *_)
            | ("fields",)
            | ("fields", _)
            | ("understudy", *_)
        ):
            return Place.VALUE
    return Place.TEXT


def _in_items(path: Path) -> Place:
    if path[0] == "items":
        return Place.ITEM
    return Place.VALUE if path[0] == "density" else Place.TEXT


def _in_workload(path: Path) -> Place:
    match path:
        case ("queries", "[]", *negations, "t") if set(negations) <= {"not"}:
            return Place.VALUE
    return Place.TEXT
