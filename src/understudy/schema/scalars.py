"""One plain scalar of a YAML file, read by YAML 1.1 and by YAML 1.2. Where the two differ, nobody
guesses: it is refused.

PyYAML reads YAML 1.1, most other programs 1.2, and people have neither in mind: ``010`` is 8 in one
and 10 in the other, ``12:30`` is 750 or a text, ``1e3`` is a text or 1000. So both readings are
worked out, and only one that they share counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from understudy.errors import shown

LONGEST_NUMBER = 400  # digits; a double has fewer
NULLS = {"", "~", "null", "Null", "NULL"}  # as YAML 1.2 writes nothing
FLAGS = {
    word: word.lower() == "true"
    for name in ("true", "false")
    for word in (name, name.title(), name.upper())
}
# What only YAML 1.1 takes for true and false.
OLD_FLAGS = {
    word: name in ("y", "yes", "on")
    for name in ("y", "yes", "on", "n", "no", "off")
    for word in (name, name.title(), name.upper())
}
ENDLESS = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")  # YAML 1.2; OLD_ is 1.1
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
OLD_INTEGER = re.compile(
    r"[-+]?(0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|(0|[1-9][0-9_]*)|[1-9][0-9_]*(:[0-5]?[0-9])+)"
)
OLD_FLOAT = re.compile(
    r"[-+]?(([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?|[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)"
)
OLD_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?(["
    r" \t]*(Z|[-+][0-9]{1,2}(:?[0-9]{2})?))?"
)
OLD_MARKS = {"<<": "a merge of mappings", "=": "a default value"}


@dataclass(frozen=True)
class Reading:
    """What one version of YAML takes a scalar for."""

    words: str
    value: Any

    def is_as(self, other: Reading) -> bool:
        return self.words == other.words and repr(self.value) == repr(other.value)  # nan is as nan


def read_plain(text: str) -> Any:
    """What both versions of YAML read; ValueError says how to write it where they differ,
    OverflowError that it is too long.

    Examples:
        >>> [read_plain(text) for text in ("12", "0x1F", "-.5", "1.0e+3", "true", "~", "F")]
        [12, 31, -0.5, 1000.0, True, None, 'F']
    """
    old, new = _old(text), _new(text)
    if old.is_as(new):
        return new.value
    written = [
        _written(reading.value)
        for reading in (old, new)
        if isinstance(reading.value, (bool, int, float))
    ]
    advice = f"write {' or '.join(written)}, or put it in quotes" if written else "put it in quotes"
    raise ValueError(
        f"{shown(text)} is {old.words} in YAML 1.1 and {new.words} in YAML 1.2; {advice} if it is a"
        " text"
    )


def is_moment(text: str) -> bool:
    """Whether YAML 1.1 takes a text for a date or a time."""
    return OLD_MOMENT.fullmatch(text) is not None


def is_text(text: str) -> bool:
    """Whether a text may stand without quotes and is the same text to both versions."""
    try:
        return isinstance(read_plain(text), str)
    except (ValueError, OverflowError):
        return False


def _new(text: str) -> Reading:
    """By the core schema of YAML 1.2."""
    if INTEGER.fullmatch(text):
        base = 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10
        return _number(text, lambda digits: int(digits, base))
    if FLOAT.fullmatch(text):
        return _number(text, float)
    return _alike(text) or Reading("a text", text)


def _old(text: str) -> Reading:
    """By the types of YAML 1.1."""
    if OLD_INTEGER.fullmatch(text):
        return _number(text, _old_integer)
    if OLD_FLOAT.fullmatch(text):
        return _number(text, lambda digits: float(_sixties(digits, float)))
    if text in OLD_FLAGS:
        return Reading(_written(OLD_FLAGS[text]), OLD_FLAGS[text])
    if is_moment(text):
        return Reading("a date", None)
    if text in OLD_MARKS:
        return Reading(OLD_MARKS[text], None)
    return _alike(text) or Reading("a text", text)


def _alike(text: str) -> Reading | None:
    """What both versions read by one rule."""
    if text in NULLS:
        return Reading("nothing", None)
    if text in FLAGS:
        return Reading(_written(FLAGS[text]), FLAGS[text])
    if ENDLESS.fullmatch(text):
        return Reading("no finite number", float(text.lower().replace(".", "")))
    return None


def _number(text: str, read: Any) -> Reading:
    if len(text) > LONGEST_NUMBER:
        raise OverflowError(
            f"a number has more than {LONGEST_NUMBER} digits; write a shorter one, or put it in"
            " quotes if it is a text"
        )
    value = read(text)
    return Reading(f"the number {_written(value)}", value)


def _old_integer(text: str) -> int:
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-").replace("_", "")
    for prefix, base in (("0b", 2), ("0x", 16), ("0", 8)):
        if digits.startswith(prefix) and digits != "0":
            return sign * int(digits.removeprefix(prefix) or "0", base)
    return sign * int(_sixties(digits, int))


def _sixties(text: str, last: Any) -> Any:
    """Digits in groups of base sixty, as an hour has them; one group is a plain number."""
    sign = -1 if text.startswith("-") else 1
    groups = text.lstrip("+-").replace("_", "").split(":")
    total: Any = 0
    for group in groups[:-1]:
        total = total * 60 + int(group)
    return sign * (total * 60 + last(groups[-1]))


def _written(value: bool | int | float) -> str:
    """A value in the one way that both versions read."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
