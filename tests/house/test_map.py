"""The numbered map of the rooms is true, in the package and in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import understudy as us

PACKAGE = Path(us.__file__).parent
DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"
LINE = re.compile(r"^ *(\w+)/ +(\d+)  \S", re.MULTILINE)
BESIDE = {"__init__.py", "__main__.py", "checks.py", "errors.py", "py.typed"}


def numbered(text: str) -> dict[str, int]:
    return {room: int(number) for room, number in LINE.findall(text)}


def test_the_map_has_every_room_once_and_the_docs_have_the_same() -> None:
    rooms = {place.name for place in PACKAGE.iterdir() if (place / "__init__.py").exists()}
    told = numbered(us.__doc__ or "")
    assert set(told) == rooms and sorted(told.values()) == list(range(len(rooms)))
    assert numbered(DESIGN.read_text(encoding="utf-8")) == told


@pytest.mark.parametrize("room", numbered(us.__doc__ or ""))
def test_a_room_says_its_number(room: str) -> None:
    first = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8").splitlines()[0]
    assert re.match(rf'"""Room {numbered(us.__doc__ or "")[room]}\b', first), first


def test_nothing_else_lies_at_the_top() -> None:
    files = {place.name for place in PACKAGE.iterdir() if place.is_file()}
    assert files == BESIDE
