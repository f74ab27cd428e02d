"""What queries need to know of a schema: the names of its columns, how many values each has, and
what they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Values(Protocol):
    """One column."""

    @property
    def size(self) -> int:
        """How many codes it has."""
        ...

    @property
    def values(self) -> int:
        """How many of them are values, and not "missing" or "other"."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike: a number, a date, a scale."""
        ...

    def label(self, code: int) -> str:
        """What a code is called."""
        ...

    def code_of(self, value: Any) -> int:
        """The code of a value that somebody wrote."""
        ...


class Domain(Protocol):
    """All columns, in order. :class:`understudy.schema.Schema` is one."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def columns(self) -> Sequence[Values]: ...

    @property
    def pairs(self) -> object | None:
        """How a table of items is written; None for an ordinary table."""
        ...

    def position(self, name: str) -> int: ...

    def __len__(self) -> int: ...

    def __getitem__(self, name: str) -> Values: ...
