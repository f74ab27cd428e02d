"""Facts about a release or a rule as plain values, and back: what JSON keeps, entry by entry."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any, TypeVar, final

from understudy.errors import shown
from understudy.privacy import Accountant
from understudy.privacy.accounting import events as ev
from understudy.queries.base import Neighbours

Scalar = bool | int | float | str | None
LARGEST = sys.float_info.max  # the largest that is finite
SCALARS = (bool, int, float, str, type(None))  # what JSON keeps as it is

T = TypeVar("T")


def this_version() -> str:
    """The software, as manifests name it."""
    return f"understudy {version('understudy')}"


def this_second() -> str:
    """Now, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions_of(*packages: str) -> dict[str, str]:
    """Of Python and of packages that are installed."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def plain(value: Any) -> Any:
    """A value, or a dataclass of values, as JSON has it; nothing in it is shared with the value.

    Rationals become "p/q". A field that has a default is written only where it says otherwise, and
    one with a ``key`` among its metadata under that: a bundle keeps the word it began with.
    """
    if isinstance(value, ev.Event):
        return ev.to_dict(value)
    if isinstance(value, (Fraction, Neighbours, Accountant)):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    if is_dataclass(value):
        named = ((field, getattr(value, field.name)) for field in fields(value))
        return {
            field.metadata.get("key", field.name): plain(one)
            for field, one in named
            if field.default is MISSING or one != field.default
        }
    return value


class Malformed(ValueError):
    """Why plain values cannot be read, as a part of a sentence that quotes none of them."""


@final
class Entries:
    """The entries of an object, taken one by one, each of one type; none may be left over."""

    def __init__(self, data: Any, path: str) -> None:
        if type(data) is not dict:
            raise Malformed(f"its entry {path} is not an object")
        self._left = dict(data)
        self._path = path

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def name_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def one(self, name: str, kind: type[T], what: str) -> T:
        if name not in self._left:
            raise Malformed(f"its entry {self.name_of(name)} is missing")
        value = self._left.pop(name)
        if type(value) is not kind:  # true and false are numbers to Python, and to nobody else
            raise Malformed(f"its entry {self.name_of(name)} is not {what}")
        return value

    def optional(self, name: str, kind: type[T], what: str) -> T | None:
        return None if self.takes_none(name) else self.one(name, kind, f"{what} or null")

    def takes_none(self, name: str) -> bool:
        """Whether the entry is null, which it then is no longer."""
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return True
        return False

    def text(self, name: str) -> str:
        return self.one(name, str, "text")

    def whole(self, name: str) -> int:
        return self.one(name, int, "a whole number")

    def number(self, name: str, least: float = -LARGEST, most: float = LARGEST) -> float:
        """A finite one within bounds."""
        whole = type(self._left.get(name)) is int
        value = self.whole(name) if whole else self.one(name, float, "a number")
        if not least <= value <= most:  # which no NaN is
            raise Malformed(f"its entry {self.name_of(name)} is no number that there can be")
        return value

    def rational(self, name: str) -> Fraction:
        text = self.text(name)
        try:
            return ev.written(text)
        except (ValueError, ArithmeticError):
            raise Malformed(f"its entry {self.name_of(name)} is not a rational p/q") from None

    def many(self, name: str) -> list[Any]:
        return self.one(name, list, "a list")

    def wholes(self, name: str) -> tuple[int, ...]:
        values = self.many(name)
        if not all(type(value) is int for value in values):
            raise Malformed(f"its entry {self.name_of(name)} holds what is not a whole number")
        return tuple(values)

    def texts(self, name: str) -> dict[str, str]:
        return self._all(name, (str,), "text")

    def scalars(self, name: str) -> dict[str, Scalar]:
        return self._all(name, SCALARS, "a single value")

    def _all(self, name: str, kinds: tuple[type, ...], what: str) -> dict[str, Any]:
        values = self.one(name, dict, "an object")
        if not all(type(value) in kinds for value in values.values()):
            raise Malformed(f"its entry {self.name_of(name)} holds what is not {what}")
        return values

    def neighbours(self, name: str) -> Neighbours:
        text = self.text(name)
        try:
            return Neighbours(text)
        except ValueError:
            raise Malformed(
                f"its entry {self.name_of(name)} is no relation that there is"
            ) from None

    def accountant(self, name: str) -> Accountant:
        text = self.text(name)
        try:
            return Accountant(text)
        except ValueError:
            raise Malformed(
                f"its entry {self.name_of(name)} is no accountant that there is"
            ) from None

    def events(self, name: str) -> tuple[ev.Event, ...]:
        """As :func:`ev.to_dict` writes them, each with a label that is text."""
        records = self.many(name)
        try:
            events = tuple(map(ev.from_dict, records))
            if all(isinstance(event.what, str) for event in events):
                return events
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
            pass
        raise Malformed(f"its entry {self.name_of(name)} has what is no event that there is")

    def inside(self, name: str, read: Callable[[Entries], T]) -> T:
        return Entries(self.one(name, dict, "an object"), self.name_of(name)).read(read)

    def read(self, read: Callable[[Entries], T]) -> T:
        """Everything, by a reader that must leave nothing over."""
        result = read(self)
        self.end()
        return result

    def end(self) -> None:
        for name in self._left:
            raise Malformed(f"its entry {shown(self.name_of(name))} is in no manifest")
