"""A look at the table, whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from understudy.counting.tally import Verbs
from understudy.errors import SourceError

Seen = TypeVar("Seen")
# fixed sentences: what a library says of a failure may quote a cell
UNREADABLE = (
    "The table could not be read to the end; check that its files are complete and of the format"
    " their names say, or that its query runs."
)
# apart from the other: here the files are fine
OUT_OF_MEMORY = (
    "Memory ran out while the table was read; nothing is wrong with its files. Close other"
    " programs, ask for fewer or narrower marginals, or use a machine with more memory."
)


def guarded(look: Callable[[], Seen]) -> Seen:
    """What a look at the table gives; whatever goes wrong in it becomes one fixed sentence."""
    try:
        return look()
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.__cause__ = stop.__context__ = None  # what went wrong just before may quote a cell
        raise
    except MemoryError:
        sentence = OUT_OF_MEMORY
    except BaseException:  # a panic of a library in Rust is no Exception
        sentence = UNREADABLE
    # Raised out here so that no foreign message, which may quote a cell, travels along.
    raise SourceError(sentence)


def public_rows(table: Verbs) -> int:
    """n under replace-one neighbours, where it is public by definition (proofs/conventions)."""
    return guarded(lambda: int(table.count([()])[0].values[0]))
