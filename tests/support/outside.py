"""A query class from another package, with the fewest abilities that the conformance kit allows.

It counts people two of whose columns have codes that add up to an even number. It is no symmetric
function of literals, cannot be taken apart into single queries, and has no relaxed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.queries.base import Neighbours, QueryClass
from understudy.schema import Schema


@dataclass(frozen=True)
class EvenSums(QueryClass):
    """One query for each pair of neighbouring columns among some."""

    chosen: tuple[int, ...]

    kind: ClassVar[str] = "even-sums"

    @property
    def size(self) -> int:
        return len(self.chosen) - 1

    @property
    def columns(self) -> tuple[int, ...]:
        return self.chosen

    def truth(self, block: np.ndarray) -> np.ndarray:
        return (block[:, 1:] + block[:, :-1]) % 2 == 0

    def tally(self, block: np.ndarray) -> np.ndarray:
        return self.truth(block).sum(axis=0)

    def counts(self, table: Verbs) -> Counts:
        return Counts(self.size, table.scan(self))

    def around(self, index: int) -> EvenSums:
        return EvenSums(self.chosen[index : index + 2])

    def fits(self, schema: Schema) -> bool:
        return self.chosen[0] >= 0 and self.chosen[-1] < len(schema)

    def l2_squared(self, neighbours: Neighbours) -> int:
        return self.size

    def describe(self, schema: Schema, index: int) -> str:
        return (
            f"{schema.names[self.chosen[index]]} and {schema.names[self.chosen[index + 1]]} add up"
            " to an even number"
        )

    def to_dict(self, schema: Schema) -> dict[str, Any]:
        return {"kind": self.kind, "columns": list(self.chosen)}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> EvenSums:
        return cls(tuple(data["columns"]))

    @classmethod
    def examples(cls, schema: Schema, rng: np.random.Generator) -> Iterator[EvenSums]:
        for k in range(2, min(len(schema), 3) + 1):
            yield cls(tuple(sorted(rng.permutation(len(schema))[:k].tolist())))
