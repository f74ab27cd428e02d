"""What a query class is: a batch of counting queries that lowers itself to ``count`` and ``scan``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import NotSupported
from understudy.queries.relaxed import Relaxed
from understudy.schema.domain import Domain

if TYPE_CHECKING:
    from understudy.queries.symmetric import Query

MOST_TRUTHS = 1 << 26  # of a block of rows and all queries, held at once: 64 MB


class Neighbours(StrEnum):
    """Which two tables must be hard to tell apart."""

    REPLACE_ONE = "replace-one"  # one row differs; the number of rows is public
    ADD_REMOVE_ONE = "add-remove-one"  # one row more or fewer; the number of rows is private


class QueryClass(ABC):
    """A batch of ``size`` queries, each a 0/1 function of one row; its answer is a vector of
    counts.

    Implementations are frozen values. The same ``counts`` runs on a sensitive source (inside the
    privacy room) and on released rows, because both answer the same two verbs. A class that a
    solver or a gradient can use offers ``terms()`` or ``relaxed()`` besides; a mechanism that needs
    what a class lacks says so before any budget is spent.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many queries."""

    @property
    @abstractmethod
    def columns(self) -> tuple[int, ...]:
        """The columns they read, as positions in the schema, rising."""

    @abstractmethod
    def counts(self, table: Verbs) -> Counts:
        """How many rows satisfy each query."""

    @abstractmethod
    def truth(self, block: np.ndarray) -> np.ndarray:
        """Which rows of a block satisfy which queries: bool, rows x size. The block holds
        ``columns`` in order.
        """

    def weights(self, block: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weight of the rows of a block that satisfy each query, for rows that have weights."""
        total, step = np.zeros(self.size), max(1, MOST_TRUTHS // self.size)
        for first in range(0, len(block), step):
            total += weights[first : first + step] @ self.truth(block[first : first + step])
        return total

    @abstractmethod
    def around(self, index: int) -> QueryClass:
        """The batch to measure when one query is of interest: whatever comes at about the same
        price.
        """

    @abstractmethod
    def fits(self, schema: Domain) -> bool:
        """Whether the schema has every column and code that the queries name."""

    @abstractmethod
    def l2_squared(self, neighbours: Neighbours) -> int:
        """Bound on the squared L2 distance between the count vectors of two neighbouring tables."""

    def query(self, index: int) -> Query | None:
        """One query by itself; None when the class cannot be taken apart."""
        return None

    def relaxed(self) -> Relaxed | None:
        """The same queries on relaxed rows, with gradients; None when the class has no such form."""
        return None

    @abstractmethod
    def describe(self, schema: Domain, index: int) -> str:
        """One query in words."""

    @abstractmethod
    def to_dict(self, schema: Domain) -> dict[str, Any]:
        """A plain form that :func:`understudy.queries.workload.part_from_dict` reads back."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> QueryClass:
        """The inverse of :meth:`to_dict`."""

    @classmethod
    @abstractmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[QueryClass]:
        """A few random batches over a schema, for the conformance kit."""


def relaxed(part: QueryClass) -> Relaxed:
    """The relaxed form of a batch, or a refusal."""
    found = part.relaxed()
    if found is None:
        raise NotSupported(
            f"Queries of the kind {part.kind} have no relaxed form, which relaxed rows need."
        )
    return found
