"""Whom long work tells how far it has come."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Somebody who watches a long play. They are told public and released values only."""

    def stage(self, name: str, steps: int) -> None: ...

    def step(self, note: str = "") -> None: ...

    def part(self, share: float) -> None:
        """So much of the step that is under way is done, from 0 to 1."""
        ...


class NoWatcher:
    """Nobody is watching."""

    def stage(self, name: str, steps: int) -> None:
        """Ignored."""

    def step(self, note: str = "") -> None:
        """Ignored."""

    def part(self, share: float) -> None:
        """Ignored."""
