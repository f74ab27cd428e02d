"""Names of files and folders as people give them, checked before the operating system is asked,
whose own complaint is no sentence.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from understudy.errors import ParameterError, UnderstudyError

OURS = "understudy"  # the folder's name, below the one that the system has for such
STATE = "UNDERSTUDY_STATE"  # an environment variable: the folder for what belongs to a user
LEDGER = ".ledger.jsonl"  # how the name of a ledger ends that lies beside its table
LONGEST = 4096  # bytes, of Linux


def as_path(value: Any, what: str, error: type[UnderstudyError] = ParameterError) -> Path:
    """The path that was given for something, or a refusal when no file could have it."""
    if not isinstance(value, (str, os.PathLike)):
        raise error(f"The path given for {what} is neither a text nor a path.")
    try:
        named = os.fsencode(value)
    except UnicodeEncodeError:
        named = b"\0"
    if b"\0" in named:
        raise error(f"The path given for {what} holds characters that no file name has.")
    if len(named) >= LONGEST:
        raise error(f"The path given for {what} is longer than a path may be.")
    return Path(os.fsdecode(named))


def state_folder() -> Path:
    """Where Understudy keeps what belongs to a user and to no dataset; not absolute where nothing
    tells the user's home.
    """
    if os.environ.get(STATE):
        return Path(os.environ[STATE])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")) / OURS
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Application Support")) / OURS
    base = os.environ.get("XDG_STATE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.local/state")) / OURS
