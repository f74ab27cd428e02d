"""What an oracle is asked, and what it answers.

An instance is a function of one record x (a code per column) to be made as large as possible:

    value(x) = sum of weights[q] * query_q(x)  +  sum of linear[c, x_c]  +  sum of table_t[cell of x
    in t]

with symmetric queries (see :mod:`understudy.queries.symmetric`) of any sign of weight, a linear
term on the one-hot coordinates, and whole marginal tables of weights. The answer says how good it
is known to be: an oracle never raises because a solver failed, it returns the best record it has
and says how it ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

import numpy as np

import understudy.oracles as room
from understudy.errors import ParameterError, WorkloadError
from understudy.queries.literals import Query
from understudy.runtime.compiled import kernel
from understudy.runtime.discovery import classes_in


class Ended(StrEnum):
    """How a solver ended."""

    OPTIMAL = "optimal"  # with a proof
    LIMIT = "limit"  # a limit of work or time, or a heuristic that never proves anything
    # the solver crashed, hung or contradicted itself; the record is the best one known
    FAILED = "failed"


@dataclass(frozen=True, eq=False)
class Found:
    """A record, its value, and what is known about better ones."""

    record: np.ndarray = field(repr=False)  # int32, one code a column
    value: float
    bound: float  # no record is worth more (infinite when nothing is known)
    proved: bool  # the value is the largest, up to rounding of floats
    ended: Ended


@dataclass(frozen=True, eq=False)
class FlatQueries:
    """Symmetric queries in flat arrays: the literals of query q are ``starts[q]:starts[q + 1]``.

    Its table over 0..k satisfied literals begins at ``starts[q] + q``. Flat, because an instance
    may have a million of them.
    """

    starts: np.ndarray = field(repr=False)
    columns: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    holds: np.ndarray = field(repr=False)
    tables: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, queries: Iterable[Query]) -> FlatQueries:
        """Query objects, flattened."""
        listed = list(queries)
        literals = [literal for query in listed for literal in query.literals]
        return cls(
            np.cumsum([0, *(len(query.literals) for query in listed)]).astype(np.int64),
            np.asarray([x.column for x in literals], np.int64),
            np.asarray([x.value for x in literals], np.int64),
            np.asarray([x.holds for x in literals], np.bool_),
            np.asarray([bit for query in listed for bit in query.table], np.int8),
        )

    @classmethod
    def conjunctions(cls, columns: np.ndarray, values: np.ndarray) -> FlatQueries:
        """Conjunctions of k positive literals each (cells of marginals) from two arrays, queries x
        k.
        """
        count, k = columns.shape
        table = np.zeros((count, k + 1), np.int8)
        table[:, k] = 1
        holds = np.ones(count * k, np.bool_)
        starts = np.arange(count + 1, dtype=np.int64) * k
        return cls(
            starts,
            columns.astype(np.int64).ravel(),
            values.astype(np.int64).ravel(),
            holds,
            table.ravel(),
        )

    def __add__(self, other: FlatQueries) -> FlatQueries:
        return FlatQueries(
            np.concatenate([self.starts, self.starts[-1] + other.starts[1:]]),
            *(
                np.concatenate([getattr(self, x), getattr(other, x)])
                for x in ("columns", "values", "holds", "tables")
            ),
        )


@dataclass(frozen=True, eq=False)
class TableTerm:
    """A weight for every cell of a marginal (row-major in the order of ``positions``)."""

    positions: tuple[int, ...]
    shape: tuple[int, ...]
    weights: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Instance:
    """A function of one record, to be made as large as possible; see the top of this file.

    Attributes:
        shape: how many values each column has.
        queries: the weighted queries.
        weights: one a query, of either sign.
        linear: one number a one-hot coordinate (columns one after the other), or None for zeros.
        tables: whole marginal tables of weights.
        one_way: a public distribution for each column, or None; see :meth:`fill`. An array when all
            columns have as many values.
    """

    shape: np.ndarray = field(repr=False)
    queries: FlatQueries
    weights: np.ndarray = field(repr=False)
    linear: np.ndarray | None = field(default=None, repr=False)
    tables: tuple[TableTerm, ...] = ()
    one_way: Sequence[np.ndarray] | np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        shape: Sequence[int] | np.ndarray,
        queries: FlatQueries | Iterable[Query] = (),
        weights: Sequence[float] | np.ndarray | None = None,
        *,
        linear: Sequence[float] | np.ndarray | None = None,
        tables: Iterable[TableTerm] = (),
        one_way: Sequence[np.ndarray] | np.ndarray | None = None,
    ) -> Instance:
        """An instance from ordinary values, checked once; weights are 1 when not given.

        Examples:
            >>> from understudy.queries.literals import Literal, all_of
            >>> instance = Instance.of((2, 3), [all_of(Literal(0, 1), Literal(1, 2))], [2.5])
            >>> instance.value(np.array([1, 2]))
            2.5
        """
        flat = queries if isinstance(queries, FlatQueries) else FlatQueries.of(queries)
        sizes = np.asarray(shape, np.int64)
        coefficients = np.ones(len(flat)) if weights is None else np.asarray(weights, np.float64)
        along = None if linear is None else np.asarray(linear, np.float64)
        terms = tuple(tables)
        if coefficients.shape != (len(flat),) or not np.isfinite(coefficients).all():
            raise ParameterError("An oracle needs one finite weight for each query.")
        if along is not None and (
            along.shape != (int(sizes.sum()),) or not np.isfinite(along).all()
        ):
            raise ParameterError(
                "The linear term of an oracle needs one finite number for each value of each"
                " column."
            )
        inside = (flat.columns >= 0) & (flat.columns < len(sizes))
        if not inside.all() or not ((flat.values >= 0) & (flat.values < sizes[flat.columns])).all():
            raise WorkloadError("A query names a column or value that the shape does not have.")
        for table in terms:
            fits = len(set(table.positions)) == len(table.positions) > 0 and all(
                0 <= p < len(sizes) for p in table.positions
            )
            if (
                not fits
                or table.shape != tuple(int(sizes[p]) for p in table.positions)
                or table.weights.size != np.prod(table.shape)
            ):
                raise WorkloadError(
                    "A table of weights must have the shape of its columns, each named once."
                )
            if not np.isfinite(table.weights).all():
                raise ParameterError("An oracle needs finite weights in its tables.")
        return cls(sizes, flat, coefficients, along, terms, one_way)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where the one-hot coordinates of each column begin."""
        return np.concatenate([[0], np.cumsum(self.shape)]).astype(np.int64)

    def value(self, record: np.ndarray) -> float:
        """What one record is worth."""
        return float(self.values(np.asarray(record)[None, :])[0])

    def values(self, records: np.ndarray) -> np.ndarray:
        """What each record (rows x columns) is worth."""
        flat = self.queries
        records = np.ascontiguousarray(records, np.int64)
        worth: np.ndarray = _worth(
            records, flat.starts, flat.columns, flat.values, flat.holds, flat.tables, self.weights
        )
        if self.linear is not None:
            worth += self.linear[records + self.offsets[:-1]].sum(axis=1)
        for table in self.tables:
            worth += np.ravel(table.weights)[
                np.ravel_multi_index(tuple(records[:, p] for p in table.positions), table.shape)
            ]
        return worth

    @cached_property
    def mentioned(self) -> np.ndarray:
        """The columns that some query or table names, rising."""
        named = [self.queries.columns, *(np.asarray(t.positions, np.int64) for t in self.tables)]
        flags = np.zeros(len(self.shape), np.bool_)
        flags[np.concatenate(named)] = True
        return np.flatnonzero(flags)

    def fill(self, codes: np.ndarray, seed: int) -> np.ndarray:
        """A whole record from the codes of the ``mentioned`` columns; the public rule for all
        others.

        A column with a linear term takes its best value. A column that nothing speaks of is *free*:
        its value is drawn from its distribution in ``one_way`` if there is one, else uniformly, by
        the seed. Such values do not change what the record is worth.
        """
        if len(self.mentioned) == len(self.shape):
            return codes.astype(np.int32)
        draws = np.random.default_rng([seed, 1]).random(len(self.shape))
        if self._ladder is None:
            record = (draws * self.shape).astype(np.int64)
        else:
            floor = self._ladder[self.offsets[:-1]]
            marks = floor + draws * (self._ladder[self.offsets[1:]] - floor)
            record = np.searchsorted(self._ladder, marks, side="right") - 1 - self.offsets[:-1]
        if self.linear is not None and len(self.shape):
            top, low = (
                f.reduceat(self.linear, self.offsets[:-1]) for f in (np.maximum, np.minimum)
            )
            best = np.flatnonzero(self.linear == np.repeat(top, self.shape))[::-1]
            first = np.empty(len(self.shape), np.int64)
            first[np.repeat(np.arange(len(self.shape)), self.shape)[best]] = best
            record = np.where(top > low, first - self.offsets[:-1], record)
        record = np.clip(record, 0, self.shape - 1).astype(np.int32)
        record[self.mentioned] = codes
        return record

    @cached_property
    def _ladder(self) -> np.ndarray | None:
        """The running total of all columns' distributions, one column after the other."""
        if self.one_way is None:
            return None
        flat = (
            self.one_way.ravel()
            if isinstance(self.one_way, np.ndarray)
            else np.concatenate(list(self.one_way))
        )
        return np.concatenate([[0.0], np.cumsum(flat)])


@kernel()
def _worth(records, starts, columns, values, holds, tables, weights):  # type: ignore[no-untyped-def]
    worth = np.zeros(len(records))
    for row in range(len(records)):
        for q in range(len(weights)):
            hits = 0
            for j in range(starts[q], starts[q + 1]):
                hits += (records[row, columns[j]] == values[j]) == holds[j]
            worth[row] += weights[q] * tables[starts[q] + q + hits]
    return worth


@dataclass(frozen=True, eq=False)
class Variants:
    """Many instances that differ in numbers only, as the perturbations of one round do.

    Attributes:
        linear: variants x one-hot coordinates, instead of the instance's linear term; or None.
        weights: variants x j, instead of the weights of the *last* j queries; or None.
    """

    linear: np.ndarray | None = field(default=None, repr=False)
    weights: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return (
            len(self.linear)
            if self.linear is not None
            else len(self.weights)
            if self.weights is not None
            else 1
        )

    def of(self, instance: Instance, i: int) -> Instance:
        """The i-th variant as an instance of its own."""
        linear = instance.linear if self.linear is None else np.asarray(self.linear[i], np.float64)
        weights = instance.weights
        if self.weights is not None:
            weights = np.concatenate(
                [weights[: len(weights) - self.weights.shape[1]], self.weights[i]]
            )
        return replace(instance, linear=linear, weights=weights)

    def check(self, instance: Instance) -> None:
        """Raise unless these fit an instance."""
        if self.linear is not None and self.linear.shape[1:] != (int(instance.shape.sum()),):
            raise ParameterError(
                "The linear terms of variants need one number for each value of each column."
            )
        if self.weights is not None and (
            self.weights.ndim != 2 or self.weights.shape[1] > len(instance.weights)
        ):
            raise ParameterError(
                "The weights of variants replace those of the last queries; there are more of them"
                " than queries."
            )
        if (
            self.linear is not None
            and self.weights is not None
            and len(self.linear) != len(self.weights)
        ):
            raise ParameterError("Variants need as many rows of weights as of linear terms.")


@dataclass(frozen=True, kw_only=True)
class Oracle(ABC):
    """A solver with its limits. Deterministic for a seed, except where a wall clock had to stop it."""

    name: ClassVar[str]

    @abstractmethod
    def solve(self, instance: Instance, seed: int) -> Found:
        """The best record that can be found."""

    def solve_many(self, instance: Instance, variants: Variants, seed: int) -> list[Found]:
        """One answer for each variant, the i-th by the seed (seed, i)."""
        variants.check(instance)
        return [
            self.solve(variants.of(instance, i), sub_seed(seed, i)) for i in range(len(variants))
        ]


def sub_seed(seed: int, i: int) -> int:
    """The seed of the i-th item of a batch."""
    return int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def available_oracles() -> dict[str, type[Oracle]]:
    """Every oracle in this folder, by name; some need an extra installed before they can be made."""
    return {kind.name: kind for kind in classes_in(room, Oracle)}  # type: ignore[type-abstract]
