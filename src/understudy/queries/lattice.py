"""All conjunctions of some literals at once: 2^d queries for d literals, every one counted for d *
2^d additions.

A conjunction is a set of literals, and its number is that set as bits: bit j (of value 2^j) stands
for literal j, so that number 0 is the empty conjunction, which every row satisfies, and the last
number asks for all literals. A row satisfies a conjunction when the set of literals that hold for
it contains the conjunction's. Rows are therefore counted by that set, and sums over supersets do
the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import WorkloadError
from understudy.queries.base import Asked, Neighbours, QueryClass
from understudy.queries.conjunctions import Conjunctions
from understudy.queries.literals import Literal, Query, all_of
from understudy.queries.marginal import ALWAYS, Marginal
from understudy.queries.symmetric import check_fits, literals_fit
from understudy.schema.domain import Domain

MOST_LITERALS = 22  # 4 million conjunctions; a selection compares as many negations


@dataclass(frozen=True)
class AllConjunctions(QueryClass):
    """Every conjunction of a subset of ``literals``, which all hold; see the file's head for their
    order.

    Examples:
        >>> from understudy.counting.tally import CodedRows
        >>> from understudy.schema import Schema
        >>> batch = AllConjunctions.of(Schema.from_domain({"a": 2, "b": 2}), ["a", "b"])
        >>> batch.counts(CodedRows(np.array([[1, 1], [1, 0], [0, 0]]), (2, 2))).dense()  # all, a, b, a and b
        array([3, 2, 1, 1])
    """

    literals: tuple[Literal, ...]

    kind: ClassVar[str] = "all-conjunctions"

    def __post_init__(self) -> None:
        if not isinstance(self.literals, tuple) or not all(
            isinstance(literal, Literal) for literal in self.literals
        ):
            raise WorkloadError(
                "The literals of all conjunctions are a tuple of Literal(column, value)."
            )
        if (
            not self.literals
            or len(set(self.literals)) != len(self.literals)
            or not all(x.holds for x in self.literals)
        ):
            raise WorkloadError(
                "All conjunctions need at least one literal, each given once and none negated."
            )
        if len(self.literals) > MOST_LITERALS:
            raise WorkloadError(
                f"All conjunctions of {len(self.literals):,} literals are 2^{len(self.literals)}"
                f" queries, too many to count; at most {MOST_LITERALS} literals can be asked about"
                " so. Name fewer columns, or take a sample such as 3-conjunctions:10000@7."
            )

    @classmethod
    def of(cls, schema: Domain, names: Sequence[str]) -> AllConjunctions:
        """One literal a column: it takes the last of its ordinary values, which is 1 of 0 and 1,
        and true of a boolean column.
        """
        columns = [(schema.position(name), schema[name]) for name in names]
        return cls(tuple(Literal(position, column.values - 1) for position, column in columns))

    @property
    def size(self) -> int:
        return 1 << len(self.literals)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({literal.column for literal in self.literals}))

    # ------------------------------------------------------------------ counting

    def literal_sets(self, block: np.ndarray) -> np.ndarray:
        """For each row of a block, the set of literals that hold for it: the number of the longest
        conjunction it satisfies.
        """
        sets = np.zeros(len(block), np.int64)
        for j, literal in enumerate(self.literals):
            sets |= (block[:, self.columns.index(literal.column)] == literal.value).astype(
                np.int64
            ) << j
        return sets

    def counts(self, table: Verbs) -> Counts:
        return Counts(self.size, add_supersets(table.scan(_BySet(self))))

    def weights(self, block: np.ndarray, weights: np.ndarray) -> np.ndarray:
        # Counted by what holds: as many queries as there may be records have a truth that would not
        # fit.
        return add_supersets(np.bincount(self.literal_sets(block), weights, self.size))

    def truth(self, block: np.ndarray) -> np.ndarray:
        numbers = np.arange(self.size)
        satisfied: np.ndarray = (self.literal_sets(block)[:, None] & numbers) == numbers
        return satisfied

    # ------------------------------------------------------------------ single queries

    def chosen(self, index: int) -> tuple[Literal, ...]:
        """The literals of one conjunction."""
        return tuple(literal for j, literal in enumerate(self.literals) if index >> j & 1)

    def around(self, index: int) -> QueryClass:
        literals = self.chosen(index)
        if not literals:
            return Marginal((), ())
        return Conjunctions.of([[x.column for x in literals]], [[x.value for x in literals]])

    def query(self, index: int) -> Query:
        """One conjunction by itself."""
        literals = self.chosen(index)
        return all_of(*literals) if literals else ALWAYS

    def fits(self, schema: Domain) -> bool:
        return literals_fit(self.literals, schema)

    def l2_squared(self, neighbours: Neighbours) -> int:
        """At most one literal a column holds for a row, so with c columns it satisfies 2^c
        conjunctions or fewer, the empty one among them.

        The empty one, which two rows share, does not move when one replaces the other: 2 * (2^c -
        1) others at most, of 2^d - 1.
        """
        satisfied: int = 1 << len(self.columns)
        return (
            satisfied
            if neighbours is Neighbours.ADD_REMOVE_ONE
            else min(self.size, 2 * satisfied - 1) - 1
        )

    # ------------------------------------------------------------------ words and files

    def describe(self, schema: Domain, index: int) -> str:
        words = (
            f"{schema.names[x.column]} = {schema.columns[x.column].label(x.value)}"
            for x in self.chosen(index)
        )
        return " and ".join(words) or "all rows"

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "literals": [[schema.names[x.column], x.value] for x in self.literals],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> AllConjunctions:
        batch = cls(
            tuple(Literal(schema.position(name), int(value)) for name, value in data["literals"])
        )
        check_fits(all_of(*batch.literals), schema)
        return batch

    @classmethod
    def texts(cls, schema: Domain) -> tuple[str, ...]:
        return (cls.kind,)

    @classmethod
    def from_text(cls, text: str, schema: Domain) -> Asked | None:
        return Asked((cls.of(schema, schema.names),), text) if text == cls.kind else None

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[AllConjunctions]:
        for k in range(1, min(len(schema), 4) + 1):
            yield cls.of(schema, [schema.names[i] for i in rng.permutation(len(schema))[:k]])
        every = [
            Literal(column, value)
            for column, size in enumerate(schema.shape)
            for value in range(size)
        ]
        yield cls(tuple(every[i] for i in rng.permutation(len(every))[:6]))


@dataclass(frozen=True)
class _BySet:
    """Rows counted by the set of literals that hold: a function of one row each, before anything is
    added up.
    """

    batch: AllConjunctions

    @property
    def columns(self) -> tuple[int, ...]:
        return self.batch.columns

    @property
    def size(self) -> int:
        return self.batch.size

    def tally(self, block: np.ndarray) -> np.ndarray:
        return np.bincount(self.batch.literal_sets(block), minlength=self.size)


def add_supersets(counts: np.ndarray) -> np.ndarray:
    """At each set of bits, the sum over all sets that contain it (a zeta transform), one bit at a
    time.

    Examples:
        >>> add_supersets(np.array([1, 2, 3, 4]))
        array([10,  6,  7,  4])
    """
    total = counts.copy()
    for bit in range(len(total).bit_length() - 1):
        halves = total.reshape(-1, 2, 1 << bit)
        halves[:, 0] += halves[:, 1]
    return total
