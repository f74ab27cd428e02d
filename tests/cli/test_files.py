"""The command has a file for each of its commands, and no other files but what they share."""

from __future__ import annotations

from pathlib import Path

import understudy.cli
from understudy.cli.main import COMMANDS, main

SHARED = {"__init__", "main", "console", "options"}


def test_each_command_has_a_file_of_its_name_and_each_file_is_a_command() -> None:
    files = {file.stem for file in Path(understudy.cli.__file__).parent.glob("*.py")}
    assert files - SHARED == set(main.commands) == {command.name for command in COMMANDS}
    for command in COMMANDS:
        assert command.callback is not None
        assert command.callback.__module__ == f"understudy.cli.{command.name}"
