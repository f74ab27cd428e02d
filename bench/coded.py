"""A table in integer codes: what every suite measures on, real or invented."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows of integer codes. How many codes a column has and whether they are ordered is public.

    A table that was read through a schema of its own keeps both, and is released as it was read.
    """

    codes: np.ndarray
    domain: dict[str, int]
    ordered: tuple[str, ...] = ()
    read: tuple[pa.Table, us.Schema] | None = None

    @cached_property
    def schema(self) -> us.Schema:
        if self.read is not None:
            return self.read[1]
        # An earlier build, measured beside this one, may not know the argument.
        takes = "ordered" in inspect.signature(us.Schema.from_domain).parameters
        more: dict[str, Any] = {"ordered": list(self.ordered)} if takes else {}
        return us.Schema.from_domain(self.domain, **more)

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """The codes of each column, side by side in memory."""
        return dict(zip(self.domain, np.ascontiguousarray(self.codes.T), strict=True))

    @cached_property
    def table(self) -> pa.Table:
        return pa.table(self.columns) if self.read is None else self.read[0]

    def of(self, columns: Sequence[str]) -> Coded:
        places = [list(self.domain).index(name) for name in columns]
        domain = {name: self.domain[name] for name in columns}
        return Coded(self.codes[:, places], domain, self._ranked(columns))

    def rows(self, chosen: np.ndarray) -> Coded:
        """Some of the rows."""
        return Coded(self.codes[chosen], self.domain, self.ordered)

    def like(self, table: pa.Table) -> Coded:
        """Released rows over the same columns."""
        return Coded(self.schema.encode(table), self.domain, self.ordered)

    def _ranked(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in columns if name in self.ordered)

    def __len__(self) -> int:
        return len(self.codes)
