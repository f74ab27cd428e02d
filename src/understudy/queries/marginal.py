"""Whole k-way marginals: every combination of values of k columns, for the price of one."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import WorkloadError
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.relaxed import RelaxedTable
from understudy.queries.symmetric import Literal, Query, all_of
from understudy.schema.domain import Domain

ALWAYS = Query((Literal(0, 0),), (1, 1))  # the only cell of the marginal of no columns: every row


@dataclass(frozen=True)
class Marginal(QueryClass):
    """The contingency table of some columns; with no columns, the number of rows.

    A row sits in exactly one cell. Replacing a row moves at most two cells by one each
    (L2 squared 2); adding one moves one cell (L2 squared 1).
    """

    positions: tuple[int, ...]
    shape: tuple[int, ...]

    kind: ClassVar[str] = "marginal"

    def __post_init__(self) -> None:
        try:  # plain whole numbers: NumPy's would wrap in a product
            object.__setattr__(self, "positions", tuple(map(operator.index, self.positions)))
            object.__setattr__(self, "shape", tuple(map(operator.index, self.shape)))
        except TypeError:
            raise WorkloadError("The columns and sizes of a marginal are whole numbers.") from None

    @classmethod
    def of(cls, schema: Domain, names: Sequence[str]) -> Marginal:
        """The marginal of named columns, kept in the order given."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise WorkloadError("The columns of a marginal are a list of names.")
        names = list(names)
        positions = tuple(schema.position(name) for name in names)
        if len(set(positions)) != len(positions):
            raise WorkloadError(f"The marginal {', '.join(names)} names a column twice.")
        return cls(positions, tuple(schema.shape[p] for p in positions))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted(self.positions))

    def names(self, schema: Domain) -> tuple[str, ...]:
        return tuple(schema.names[p] for p in self.positions)

    def counts(self, table: Verbs) -> Counts:
        return table.count([self.positions])[0]

    def truth(self, block: np.ndarray) -> np.ndarray:
        codes = block[:, [self.columns.index(p) for p in self.positions]]
        strides = [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]
        return np.arange(self.size) == (codes @ np.asarray(strides, np.int64))[:, None]

    def around(self, index: int) -> Marginal:
        return self  # all cells cost twice one cell at most

    def fits(self, schema: Domain) -> bool:
        inside = all(0 <= position < len(schema) for position in self.positions)
        return (
            inside
            and len(set(self.positions)) == len(self.positions)
            and self.shape == tuple(schema.shape[p] for p in self.positions)
        )

    def l2_squared(self, neighbours: Neighbours) -> int:
        if neighbours is Neighbours.ADD_REMOVE_ONE:
            return 1
        return 2 if self.positions else 0

    def relaxed(self) -> RelaxedTable:
        return RelaxedTable(self.positions, self.shape)

    def query(self, index: int) -> Query:
        """One cell as a query of its own."""
        literals = [
            Literal(position, code)
            for position, code in zip(self.positions, self.cell(index), strict=True)
        ]
        return all_of(*literals) if literals else ALWAYS

    def cell(self, index: int) -> tuple[int, ...]:
        """The codes of one cell."""
        return tuple(int(i) for i in np.unravel_index(index, self.shape)) if self.shape else ()

    def describe(self, schema: Domain, index: int) -> str:
        parts = (
            f"{schema.names[p]} = {schema.columns[p].label(code)}"
            for p, code in zip(self.positions, self.cell(index), strict=True)
        )
        return " and ".join(parts) or "all rows"

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        return {"kind": self.kind, "columns": list(self.names(schema))}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> Marginal:
        return cls.of(schema, data["columns"])

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[Marginal]:
        for k in range(min(len(schema), 3) + 1):
            chosen = rng.permutation(len(schema))[:k]
            yield cls.of(schema, [schema.names[i] for i in chosen])
