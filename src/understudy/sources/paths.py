"""Which files a path names; reads none of them."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from understudy.errors import SourceError


def expand(path: str | Path) -> list[str]:
    """The files that a path or glob names."""
    text = str(path)
    files = (
        sorted(glob.glob(text, recursive=True))
        if glob.has_magic(text) and not os.path.exists(text)
        else [text]
    )
    files = [file for file in files if not os.path.isdir(file)] if len(files) != 1 else files
    if not files or not all(os.path.exists(file) for file in files):
        raise SourceError(f"There is no file {text!r}; check the path.")
    if any(os.path.isdir(file) for file in files):
        raise SourceError(
            f"{text!r} is a folder; give a file or a glob such as {text.rstrip('/')}/*.parquet."
        )
    return files
