"""Which files a path names; reads none of them."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from understudy.errors import SourceError
from understudy.runtime.paths import LEDGER


def expand(path: str | Path) -> list[str]:
    """The files that a path or glob names; of what a glob finds, ledgers are no tables."""
    text = str(path)
    files = (
        sorted(file for file in glob.glob(text, recursive=True) if not file.endswith(LEDGER))
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
