"""Where the meter hands exact values to its samplers: for the length of a ``with``, somebody else
may stand there.

These are the names that ``privacy/meter.py`` calls and that take exact values: anybody who stands
in for one sees them. That is why the fence lets nobody but the audit import this room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from understudy.privacy import meter as room


@contextmanager
def standing_in(**functions: Callable[..., Any]) -> Iterator[None]:
    """Let these functions be called instead of the meter's own of the same name."""
    own = {name: getattr(room, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(room, name, function)
        yield
    finally:
        for name, function in own.items():
            setattr(room, name, function)
