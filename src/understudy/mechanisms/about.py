"""What a mechanism's parameters are, for people: read from the one place that says it, the
docstring of its class.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
import typing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from understudy.mechanisms.base import PLAIN, Mechanism

LONGEST_LINE = 52  # of a summary beside the longest name, at 80 columns
# "    name: words", and lines indented deeper go on with them
ENTRY = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.M)
UNSET = "``None`` for "  # said in Python; on the command line there is no None to give
MARKS = re.compile(r":\w+:`([^`]+)`|``([^`]+)``")  # a role such as :func:`x`, or ``x``


@dataclass(frozen=True)
class Parameter:
    """One field of a mechanism: what kinds of value it takes, its default, and what it means."""

    name: str
    kind: str
    default: Any
    meaning: str

    @property
    def usual(self) -> str:
        """The default in words."""
        if self.default is None:
            return "usually not given"
        return (
            "default"
            f" {str(self.default).lower() if isinstance(self.default, bool) else self.default}"
        )


def parameters_of(kind: type[Mechanism]) -> list[Parameter]:
    """Its parameters, in order."""
    hints, texts = typing.get_type_hints(kind), meanings(kind)
    return [
        Parameter(f.name, _kinds(hints[f.name]), _plain(f.default), texts.get(f.name, ""))
        for f in dataclasses.fields(kind)
    ]


def meanings(kind: type[Mechanism]) -> dict[str, str]:
    """What the docstrings of a class and its parents say of each attribute; the class's own words
    come first.
    """
    texts: dict[str, str] = {}
    for ancestor in kind.__mro__:
        for name, words in ENTRY.findall(_page(ancestor).partition("Attributes:\n")[2]):
            texts.setdefault(name, _unmarked(words))
    return texts


def way(kind: type[Mechanism]) -> str:
    """How it goes about it: its docstring without the list of attributes."""
    return _unmarked(_page(kind).partition("Attributes:\n")[0])


def in_one_line(kind: type[Mechanism]) -> str:
    """Its summary, for a list of one line each."""
    return textwrap.shorten(kind.in_short or kind.summary, LONGEST_LINE, placeholder=" …")


def _page(kind: type) -> str:
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def _unmarked(text: str) -> str:
    """One line without the marks that only a documentation tool reads."""
    line = " ".join(text.split()).replace(UNSET, "unless given, ")
    return MARKS.sub(lambda match: match[1] or match[2], line)


def _plain(value: Any) -> Any:
    if value is dataclasses.MISSING or isinstance(value, (bool, int, float, str, type(None))):
        return None if value is dataclasses.MISSING else value
    return float(value) if isinstance(value, Fraction) else str(value)


def _kinds(hint: Any) -> str:
    """The kinds of value that a field takes, or the words of a Literal."""
    listed = typing.get_args(hint) or (hint,)
    words = [
        f"{kind}" if isinstance(kind, str) else PLAIN.get(kind, "")
        for kind in listed
        if kind is not type(None)
    ]
    return " or ".join(dict.fromkeys(word for word in words if word))
