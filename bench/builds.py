"""Other source trees, measured in turn with this one by the same bench."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.results import commit

PACKAGE = Path("understudy", "__init__.py")  # how a folder of sources is known


@dataclass(frozen=True)
class Build:
    """A name for the results, which keep no path, and the folder that has the package."""

    name: str
    sources: Path

    @classmethod
    def of(cls, text: str) -> Build:
        """``before=../before``, a checkout or its folder src."""
        name, equals, folder = text.partition("=")
        if not name or not equals:
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER")
        place = Path(folder).resolve()
        sources = next((one for one in (place / "src", place) if (one / PACKAGE).exists()), None)
        if sources is None:
            raise argparse.ArgumentTypeError(f"{folder!r} has no {PACKAGE}, nor has its folder src")
        return cls(name, sources)

    @property
    def label(self) -> str:
        """What results call it: the same name may be another commit tomorrow."""
        return f"{self.name} {self.commit or ''}".strip()

    @cached_property
    def commit(self) -> str | None:
        return commit(self.sources.parent)
