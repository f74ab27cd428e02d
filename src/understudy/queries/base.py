"""What a query class is: a batch of counting queries that lowers itself to ``count`` and ``scan``,
says what else it can do, and reads its own words in a workload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import WorkloadError
from understudy.schema.domain import Domain

if TYPE_CHECKING:
    from understudy.queries.literals import Query
    from understudy.queries.marginal import Marginal

MOST_TRUTHS = 1 << 26  # of a block of rows and all queries, held at once: 64 MB


class Neighbours(StrEnum):
    """Which two tables must be hard to tell apart."""

    REPLACE_ONE = "replace-one"  # one row differs; the number of rows is public
    ADD_REMOVE_ONE = "add-remove-one"  # one row more or fewer; the number of rows is private


@dataclass(frozen=True)
class Asked:
    """What a text such as ``3-way:64@7`` names.

    Attributes:
        batches: the batches.
        spec: the text as it is kept with a release; it names the same batches again.
    """

    batches: tuple[QueryClass, ...]
    spec: str


class Relaxed(Protocol):
    """A batch of queries on relaxed rows (``Chances`` of ``queries/relaxed.py``)."""

    def answers(self, at: Any) -> np.ndarray:
        """The expected share of rows that satisfies each query."""
        ...

    def pull(self, at: Any, slopes: np.ndarray, gradient: np.ndarray) -> None:
        """Add to ``gradient`` (shaped as ``at.values``) the slopes times the derivatives."""
        ...


@dataclass(frozen=True)
class Grid:
    """The cells of a table of which each row is in exactly one: some columns, each in bins."""

    positions: tuple[int, ...]
    shape: tuple[int, ...]  # how many bins each column has
    bins: tuple[tuple[int, ...] | None, ...]  # of every code; None for each code by itself

    @property
    def is_whole(self) -> bool:
        """Whether these are the cells of a whole marginal."""
        return all(bins is None for bins in self.bins)

    def along(self, axes: Sequence[int]) -> Grid:
        """The grid of some of its columns, in the order given."""
        return Grid(
            tuple(self.positions[axis] for axis in axes),
            tuple(self.shape[axis] for axis in axes),
            tuple(self.bins[axis] for axis in axes),
        )


class Boxes(NamedTuple):
    """Ranges of codes of some columns, from ``low`` up to ``high``: boxes x columns."""

    positions: tuple[int, ...]
    low: np.ndarray
    high: np.ndarray


class QueryClass(ABC):
    """A batch of ``size`` queries, each a 0/1 function of one row; its answer is a vector of
    counts.

    Implementations are frozen values. The same ``counts`` runs on a sensitive source (inside the
    privacy room) and on released rows, because both answer the same two verbs. Whatever else a
    class can do, it says by the abilities below. Each has a default, which is mostly that the class
    cannot. Nobody outside this room asks what class a batch is of. A mechanism that needs what a
    batch lacks says so before any budget is spent.

    Attributes:
        kind: its name in a bundle.
        words: the words that its entries under ``queries`` in a workload file begin with.
    """

    kind: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()

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
        """The batch to measure when one query is of interest: what costs about the same."""

    @abstractmethod
    def fits(self, schema: Domain) -> bool:
        """Whether the schema has every column and code that the queries name."""

    @abstractmethod
    def l2_squared(self, neighbours: Neighbours) -> int:
        """Bound on the squared L2 distance between the count vectors of two neighbouring tables."""

    # ------------------------------------------------------------------ what else it can do

    def as_table(self) -> Marginal | None:
        """The whole marginal whose cells are these queries, in the same order; None when they are
        no such table.

        A table has an axis for each column, is summed to its sub-marginals, and may be measured
        above a threshold; each row is in exactly one of its cells.
        """
        return None

    def as_grid(self) -> Grid | None:
        """The grid whose cells are these queries, in the same order; None when there is none.

        Rows are counted in a grid and moved toward it. A whole marginal is one without bins.
        """
        table = self.as_table()
        return None if table is None else table.as_grid()

    def as_boxes(self) -> Boxes | None:
        """The same queries as boxes of neighbouring codes; None when they are none."""
        return None

    def query(self, index: int) -> Query | None:
        """One query by itself; None when the class cannot be taken apart."""
        return None

    @property
    def can_be_fitted(self) -> bool:
        """Whether rows can be moved toward its answers: there is a grid, or it comes apart."""
        return self.as_grid() is not None

    def apart(self, about: Collection[frozenset[int]] | None = None) -> QueryClass | None:
        """The same queries one by one (``Symmetric``), which rows can be moved toward; only those
        about some sets of columns if these are given. None when none is left, or rows cannot be
        moved so.
        """
        return None

    def column_sets(self) -> list[frozenset[int]]:
        """The sets of columns that are asked about together, each once: the marginals of these
        answer every query.
        """
        return [frozenset(self.columns)]

    def relaxed(self) -> Relaxed | None:
        """A form of its own on relaxed rows, with gradients; None when it has none beside those of
        a table and of queries that come apart, which ``queries/relaxed.py`` knows.
        """
        return None

    # ------------------------------------------------------------------ words and files

    @abstractmethod
    def describe(self, schema: Domain, index: int) -> str:
        """One query in words."""

    @abstractmethod
    def to_dict(self, schema: Domain) -> dict[str, Any]:
        """A plain form that :func:`understudy.queries.workload.batch_from_dict` reads back."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> QueryClass:
        """The inverse of :meth:`to_dict`."""

    @classmethod
    def texts(cls, schema: Domain) -> tuple[str, ...]:
        """Texts that name batches of this class on the command line, for messages and for the
        conformance kit; none if it has none.
        """
        return ()

    @classmethod
    def from_text(cls, text: str, schema: Domain) -> Asked | None:
        """The batches that a text names; None when it is no text of this class."""
        return None

    @classmethod
    def from_entries(cls, entries: Sequence[Any], schema: Domain) -> list[QueryClass]:
        """The batches of a workload file's entries that begin with one of ``words``, in order; a
        value in them is the characters written.
        """
        raise WorkloadError(f"Queries of the kind {cls.kind} have no form in a workload file.")

    @classmethod
    @abstractmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[QueryClass]:
        """A few random batches over a schema, for the conformance kit."""
