"""Every record there is, for tests: the answer that all other oracles are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported
from understudy.oracles.base import Ended, Found, Instance, Oracle

AT_ONCE = 1 << 16  # records: large enough for NumPy, small enough for any memory


@dataclass(frozen=True, kw_only=True)
class Brute(Oracle):
    """Enumerates the mentioned columns; refuses when there are more than ``most`` records.

    Examples:
        >>> from understudy.queries.literals import Literal, any_of
        >>> found = Brute().solve(Instance.of((2, 3), [any_of(Literal(0, 1), Literal(1, 2))], [-1.0]), seed=0)
        >>> found.value, found.proved, bool(found.record[0] == 1 or found.record[1] == 2)
        (0.0, True, False)
    """

    most: int = 2_000_000

    name: ClassVar[str] = "brute"

    def solve(self, instance: Instance, seed: int) -> Found:
        columns = instance.mentioned
        sizes = tuple(int(m) for m in instance.shape[columns])
        count = math.prod(sizes)
        if count > self.most:
            raise NotSupported(
                f"brute would try {count:,} records (at most {self.most:,}); use exact or search."
            )
        record = instance.fill(np.zeros(len(columns), np.int32), seed)
        best, top = -np.inf, record
        for first in range(0, count, AT_ONCE):
            numbers = np.arange(first, min(first + AT_ONCE, count))
            records = np.tile(record, (len(numbers), 1))
            if sizes:
                records[:, columns] = np.column_stack(np.unravel_index(numbers, sizes))
            values = instance.values(records)
            if values.max() > best:
                best, top = float(values.max()), records[values.argmax()]
        return Found(top, best, best, True, Ended.OPTIMAL)
