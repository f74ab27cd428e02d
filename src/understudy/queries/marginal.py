"""Whole k-way marginals: every combination of values of k columns, for the price of one."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import WorkloadError
from understudy.queries.base import Asked, Grid, Neighbours, QueryClass
from understudy.queries.literals import Literal, Query, all_of
from understudy.queries.sampled import check_sample, read_sample
from understudy.schema.domain import Domain

MOST_MARGINALS = 2_000_000  # more than this is a mistake in k, not a workload
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

    @classmethod
    def every(cls, schema: Domain, k: int, sample: int | None = None, seed: int = 0) -> Asked:
        """All k-way marginals, or ``sample`` random ones by a public seed."""
        asked = check_sample("marginals", schema, k, sample, seed)
        k, sample, seed = asked.k, asked.count, asked.seed
        count = math.comb(len(schema), k)
        if count > MOST_MARGINALS:
            raise WorkloadError(
                f"There are {count:,} {k}-way marginals of this table, too many; take a sample such"
                " as 3-conjunctions:10000@7, or list the ones you need in a workload file."
            )
        subsets = list(itertools.combinations(range(len(schema)), k))
        if sample is not None:
            chosen = np.random.RandomState(seed).permutation(len(subsets))[:sample]
            subsets = [subsets[i] for i in chosen]
        spec = f"{k}-way" + (f":{sample}@{seed}" if sample is not None else "")
        return Asked(tuple(cls(s, tuple(schema.shape[c] for c in s)) for s in subsets), spec)

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

    def as_table(self) -> Marginal:
        return self

    def as_grid(self) -> Grid:
        return Grid(self.positions, self.shape, (None,) * len(self.shape))

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
        batches = (
            f"{schema.names[p]} = {schema.columns[p].label(code)}"
            for p, code in zip(self.positions, self.cell(index), strict=True)
        )
        return " and ".join(batches) or "all rows"

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        return {"kind": self.kind, "columns": list(self.names(schema))}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> Marginal:
        return cls.of(schema, data["columns"])

    @classmethod
    def texts(cls, schema: Domain) -> tuple[str, ...]:
        k = min(3, len(schema))
        return (f"{k}-way", f"{k}-way:64@7")

    @classmethod
    def from_text(cls, text: str, schema: Domain) -> Asked | None:
        asked = read_sample(text, "way")
        if asked is None:
            return None
        return cls.every(schema, asked.k, asked.count, asked.seed)

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[Marginal]:
        for k in range(min(len(schema), 3) + 1):
            chosen = rng.permutation(len(schema))[:k]
            yield cls.of(schema, [schema.names[i] for i in chosen])
