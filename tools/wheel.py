"""Build the wheel twice, from two copies at different places and times, and compare: ``make
wheel``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.requirements import ROOT

# 2020-01-01, for every file in it: the wheel then depends on the sources alone
EPOCH = "1577836800"
SOURCES = ("src", "pyproject.toml", "README.md", "LICENSE")  # all that goes into a wheel


def build(root: Path, into: Path, epoch: str = EPOCH) -> Path:
    """The wheel of the sources under a folder."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "random"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True)
    (wheel,) = into.glob("*.whl")
    return wheel


def copy(root: Path, to: Path) -> Path:
    """The sources alone, at another place, with other times and without what running them leaves
    behind.
    """
    to.mkdir(parents=True)
    for name in SOURCES:
        if (root / name).is_dir():
            shutil.copytree(
                root / name,
                to / name,
                copy_function=shutil.copyfile,
                ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
            )
        else:
            shutil.copyfile(root / name, to / name)
    return to


def digest(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def main(out: Path = ROOT / "dist") -> int:
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        first, second = (
            build(copy(ROOT, Path(folder) / place), Path(folder) / f"{place}-out")
            for place in ("here", "elsewhere")
        )
        if digest(first) != digest(second):
            print(f"The two wheels differ: {digest(first)} and {digest(second)}.")
            return 1
        shutil.copyfile(first, out / first.name)
    print(f"{digest(out / first.name)}  dist/{first.name}, the same twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
