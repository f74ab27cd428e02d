"""The walk in docs/design.md, from the command to the bundle, is the one that a release takes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from click.testing import CliRunner

import understudy as us
from support.tables import PEOPLE, people
from understudy.cli.main import main

PACKAGE = Path(us.__file__).parent
DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"
HOP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", re.MULTILINE)
MOST_HOPS = 30
BESIDE = {"runtime", "errors.py"}  # under every room: they are part of no walk


def walked(arguments: list[str]) -> list[tuple[str, str]]:
    """(file, function) of the package in the order of their first calls."""
    found: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            found.setdefault((os.path.relpath(code.co_filename, PACKAGE), code.co_qualname))

    sys.setprofile(note)
    try:
        done = CliRunner().invoke(main, arguments)
    finally:
        sys.setprofile(None)
    assert done.exit_code == 0, done.output
    return list(found)


def test_the_walk_is_taken_hop_by_hop_in_this_order(tmp_path: Path) -> None:
    named = HOP.findall(DESIGN.read_text(encoding="utf-8"))
    assert 10 <= len(named) <= MOST_HOPS
    table, schema = tmp_path / "people.csv", tmp_path / "schema.json"
    lines = [",".join(PEOPLE.names)]
    lines += [",".join("" if cell is None else str(cell) for cell in row) for row in people(300)]
    table.write_text("\n".join(lines))
    PEOPLE.save(schema)
    words = ["release", str(table), "--schema", str(schema), "--epsilon", "1"]
    taken = walked([*words, "--out", str(tmp_path / "out")])
    places = [taken.index(hop) for hop in named]
    assert places == sorted(places)
    rooms = {file.split("/")[0] for file, _ in taken} - BESIDE
    assert {file.split("/")[0] for file, _ in named} == rooms, "a room that is visited is named"
