"""Names of files and folders as people give them, checked before the operating system is asked, whose own complaint is no sentence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from understudy.errors import ParameterError, UnderstudyError

LONGEST = 4096  # bytes, of Linux


def as_path(given: Any, what: str, error: type[UnderstudyError] = ParameterError) -> Path:
    """The path that was given for something, or a refusal when no file could have it."""
    if not isinstance(given, (str, os.PathLike)):
        raise error(f"The path given for {what} is neither a text nor a path.")
    try:
        named = os.fsencode(given)
    except UnicodeEncodeError:
        named = b"\0"
    if b"\0" in named:
        raise error(f"The path given for {what} holds characters that no file name has.")
    if len(named) >= LONGEST:
        raise error(f"The path given for {what} is longer than a path may be.")
    return Path(os.fsdecode(named))
