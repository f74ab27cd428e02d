"""Many conjunctions of k literals each, kept as arrays: millions of them without an object for
each.

Rows are counted 64 at a time. Each literal "column c takes value v" that some query has becomes a
bitmap of the rows it holds for; a query is the AND of k bitmaps, a negated literal being its
complement.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS, Conjunctive, Counts, Literals, Verbs, ones
from understudy.errors import WorkloadError
from understudy.queries.base import Asked, Neighbours, QueryClass
from understudy.queries.literals import Literal, Query
from understudy.queries.relaxed import RelaxedQueries, relaxed_queries
from understudy.queries.sampled import check_sample, read_sample
from understudy.queries.symmetric import Symmetric
from understudy.runtime.compiled import kernel
from understudy.schema.domain import Domain

# 8,192 rows at a time: the bitmaps of a table of ordinary width stay in the cache
CHUNK_WORDS = 128
MOST_CONJUNCTIONS = DENSE_CELLS // 2  # a selection compares them and their negations
LONGEST_KEY = 2**62  # a conjunction's literals as one number


@dataclass(frozen=True, eq=False)
class Conjunctions(QueryClass, Conjunctive):
    """A batch of conjunctions, ``columns``, ``values`` and ``holds`` being arrays of queries x k.

    Examples:
        >>> from understudy.counting.tally import CodedRows
        >>> batch = Conjunctions.of([[0, 1], [0, 2]], [[1, 1], [1, 0]])
        >>> batch.counts(CodedRows(np.array([[1, 1, 0], [1, 0, 0]]), (2, 2, 2))).dense()
        array([1, 2])
    """

    literals: Literals = field(repr=False)

    kind: ClassVar[str] = "conjunctions"

    def __post_init__(self) -> None:
        shape = self.literals.columns.shape
        if (
            len(shape) != 2
            or 0 in shape
            or not self.literals.values.shape == self.literals.holds.shape == shape
        ):
            raise WorkloadError(
                "Conjunctions need columns, values and holds: three arrays of queries x literals,"
                " none of them empty."
            )

    @classmethod
    def of(cls, columns: Any, values: Any, holds: Any = True) -> Conjunctions:
        """From anything that NumPy takes for arrays of queries x k; all literals hold unless it is
        said.
        """
        places = _frozen(columns, np.int32)
        return cls(
            Literals(
                places,
                _frozen(values, np.int32),
                _frozen(np.broadcast_to(holds, places.shape), np.bool_),
            )
        )

    @classmethod
    def random(cls, schema: Domain, count: int | None, k: int = 3, seed: int = 0) -> Asked:
        """``count`` different random ones by a public seed; see :func:`random_batch`."""
        asked = check_sample("conjunctions", schema, k, count, seed)
        if asked.count is None or asked.count > MOST_CONJUNCTIONS:
            raise WorkloadError(
                f"A workload has at most {MOST_CONJUNCTIONS:,} conjunctions; say how many."
            )
        batch = random_batch(schema, asked.count, asked.k, asked.seed)
        return Asked((batch,), f"{asked.k}-conjunctions:{asked.count}@{asked.seed}")

    # ------------------------------------------------------------------ a value: equal when its arrays are

    @cached_property
    def _digest(self) -> bytes:
        hasher = hashlib.sha256(repr(self.literals.columns.shape).encode())
        for array in (self.literals.columns, self.literals.values, self.literals.holds):
            hasher.update(array.data)
        return hasher.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conjunctions) and (self is other or self._digest == other._digest)

    def __hash__(self) -> int:
        return hash(self._digest)

    # ------------------------------------------------------------------ counting

    @property
    def size(self) -> int:
        return len(self.literals.columns)

    @property
    def width(self) -> int:
        """k."""
        return int(self.literals.columns.shape[1])

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(np.unique(self.literals.columns).tolist())

    @cached_property
    def _slots(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(place in ``columns`` and value of each bitmap, the bitmap of each literal): one bitmap
        for each pair that occurs.
        """
        span = int(self.literals.values.max()) + 1
        pairs, where = np.unique(
            self.literals.columns.astype(np.int64) * span + self.literals.values,
            return_inverse=True,
        )
        places = np.searchsorted(np.asarray(self.columns, np.int64), pairs // span)
        return (
            places.astype(np.int32),
            (pairs % span).astype(np.int32),
            where.reshape(-1, self.width).astype(np.int32),
        )

    def tally(self, block: np.ndarray) -> np.ndarray:
        total: np.ndarray = _tally(block, *self._slots, self.literals.holds)
        return total

    def counts(self, table: Verbs) -> Counts:
        return Counts(self.size, table.scan(self))

    def truth(self, block: np.ndarray) -> np.ndarray:
        places = np.searchsorted(np.asarray(self.columns, np.int64), self.literals.columns)
        satisfied = np.ones((len(block), self.size), np.bool_)
        for j in range(self.width):
            satisfied &= (
                block[:, places[:, j]] == self.literals.values[:, j]
            ) == self.literals.holds[:, j]
        return satisfied

    # ------------------------------------------------------------------ single queries

    def around(self, index: int) -> Conjunctions:
        one = [
            array[index : index + 1]
            for array in (self.literals.columns, self.literals.values, self.literals.holds)
        ]
        return Conjunctions.of(*one)

    def query(self, index: int) -> Query:
        """One conjunction by itself."""
        rows = (
            self.literals.columns[index].tolist(),
            self.literals.values[index].tolist(),
            self.literals.holds[index].tolist(),
        )
        return Query(tuple(map(Literal, *rows)), (0,) * self.width + (1,))

    @property
    def can_be_fitted(self) -> bool:
        return True

    def apart(self, about: Collection[frozenset[int]] | None = None) -> Symmetric | None:
        asked = tuple(
            self.query(i)
            for i, columns in enumerate(self._column_sets)
            if about is None or columns in about
        )
        return Symmetric(asked) if asked else None

    def column_sets(self) -> list[frozenset[int]]:
        return list(dict.fromkeys(self._column_sets))

    @property
    def _column_sets(self) -> Iterator[frozenset[int]]:
        return map(frozenset, self.literals.columns.tolist())

    def fits(self, schema: Domain) -> bool:
        columns, values = self.literals.columns, self.literals.values
        if columns.min() < 0 or columns.max() >= len(schema) or values.min() < 0:
            return False
        return not np.any(values >= np.asarray(schema.shape)[columns])

    def l2_squared(self, neighbours: Neighbours) -> int:
        return self.size  # every query may change by one, under either relation

    def relaxed(self) -> RelaxedQueries:
        return self._relaxed

    @cached_property
    def _relaxed(self) -> RelaxedQueries:
        return relaxed_queries(Symmetric(tuple(map(self.query, range(self.size)))))

    # ------------------------------------------------------------------ words and files

    def describe(self, schema: Domain, index: int) -> str:
        words = (
            f"{schema.names[x.column]} {'=' if x.holds else '!='}"
            f" {schema.columns[x.column].label(x.value)}"
            for x in self.query(index).literals
        )
        return " and ".join(words)

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        every = bool(self.literals.holds.all())
        return {
            "kind": self.kind,
            "literals": self.width,
            "columns": self.literals.columns.ravel().tolist(),
            "values": self.literals.values.ravel().tolist(),
            "holds": True if every else self.literals.holds.ravel().astype(int).tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> Conjunctions:
        k = data["literals"]
        columns, values = (np.asarray(data[name]) for name in ("columns", "values"))
        holds = (
            np.ones(columns.shape, np.int64) if data["holds"] is True else np.asarray(data["holds"])
        )
        whole = all(
            array.dtype.kind == "i" and array.ndim == 1 and len(array) == len(columns)
            for array in (columns, values, holds)
        )
        if (
            not isinstance(k, int)
            or isinstance(k, bool)
            or k < 1
            or not whole
            or not len(columns)
            or len(columns) % k
        ):
            raise WorkloadError(
                "Conjunctions are written as lists of whole numbers, k to a query: columns, values"
                " and holds."
            )
        if not np.isin(holds, (0, 1)).all() or max(columns.max(), values.max()) >= 2**31:
            raise WorkloadError(
                "A conjunction names a column or value that the schema does not have."
            )
        batch = cls.of(*(array.reshape(-1, k) for array in (columns, values, holds)))
        if not batch.fits(schema):
            raise WorkloadError(
                "A conjunction names a column or value that the schema does not have."
            )
        return batch

    @classmethod
    def texts(cls, schema: Domain) -> tuple[str, ...]:
        return (f"{min(3, len(schema))}-conjunctions:1000@7",)

    @classmethod
    def from_text(cls, text: str, schema: Domain) -> Asked | None:
        asked = read_sample(text, "conjunctions")
        if asked is None:
            return None
        if asked.count is None:
            raise WorkloadError(
                f"The workload {text!r} needs to say how many random conjunctions, as in"
                f" {asked.k}-conjunctions:1000@7."
            )
        return cls.random(schema, asked.count, asked.k, asked.seed)

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[Conjunctions]:
        for k in (1, 2, 3):
            columns = rng.integers(len(schema), size=(7, k))
            values = rng.integers(np.asarray(schema.shape)[columns])
            yield cls.of(columns, values, rng.random((7, k)) < 0.7)


def _frozen(array: Any, kind: Any) -> np.ndarray:
    """An array of its own that nobody can change: what is a dictionary's key must not move."""
    copy: np.ndarray = np.array(array, kind, order="C")
    copy.flags.writeable = False
    return copy


@kernel()
def _tally(
    block: np.ndarray, places: np.ndarray, codes: np.ndarray, slots: np.ndarray, holds: np.ndarray
) -> np.ndarray:
    """How many rows satisfy each query: a few words of every bitmap at a time, then all queries on
    these.
    """
    total = np.zeros(len(slots), np.int64)
    chunk = min(CHUNK_WORDS, (len(block) + 63) // 64)
    bits, both = np.empty((len(places), chunk), np.uint64), np.empty(chunk, np.uint64)
    for begin in range(0, len(block), 64 * chunk):
        rows = min(64 * chunk, len(block) - begin)
        words = (rows + 63) // 64
        for w in range(words):
            first = begin + 64 * w
            for s in range(len(places)):
                word = np.uint64(0)
                for r in range(min(64, len(block) - first)):
                    word |= np.uint64(block[first + r, places[s]] == codes[s]) << np.uint64(r)
                bits[s, w] = word
        # bits behind the last row are nobody
        last = ~np.uint64(0) >> np.uint64(63 - ((rows - 1) & 63))
        for q in range(len(slots)):
            both[:words] = ~np.uint64(0)
            both[words - 1] = last
            for j in range(slots.shape[1]):
                column = bits[slots[q, j]]
                if holds[q, j]:
                    for w in range(words):
                        both[w] &= column[w]
                else:
                    for w in range(words):
                        both[w] &= ~column[w]
            hits = np.int64(0)
            for w in range(words):
                hits += ones(both[w])
            total[q] += hits
    return total


# ---------------------------------------------------------------------- random ones


def random_batch(schema: Domain, count: int, k: int, seed: int) -> Conjunctions:
    """``count`` different random conjunctions by a public seed; all of them when there are fewer.

    They are sensible, as the DualQuery paper has it: over k different columns, each with a value
    drawn from those that it has. Of a table of items they ask for people who have all k.
    """
    least = 0 if schema.pairs is None else 1
    sizes = np.asarray(schema.shape, np.int64) - least
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    wanted = min(count, _how_many(sizes, k))
    rng = np.random.default_rng(seed)
    rows = np.empty((0, k), np.int64)
    while len(rows) < wanted:
        fresh = np.sort(
            _sets(len(schema), k, max(3 * (wanted - len(rows)) // 2, 1 << 12), rng), axis=1
        )
        rows = _distinct(
            np.concatenate([rows, offsets[fresh] + rng.integers(sizes[fresh])]), int(offsets[-1])
        )[:wanted]
    columns = np.searchsorted(offsets, rows, side="right") - 1
    return Conjunctions.of(columns, rows - offsets[columns] + least)


def _how_many(sizes: np.ndarray, k: int) -> int:
    """Conjunctions of k literals of different columns: the coefficient of x^k in the product of (1
    + size * x).
    """
    ways = [1] + [0] * k
    for size, times in zip(
        *(array.tolist() for array in np.unique(sizes, return_counts=True)), strict=True
    ):
        here = [math.comb(times, j) * size**j for j in range(k + 1)]
        ways = [sum(ways[i] * here[j - i] for i in range(j + 1)) for j in range(k + 1)]
    return ways[k]


def _sets(width: int, k: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """About ``count`` sets of k different columns, uniformly."""
    if k * k > 4 * width:  # nearly every draw would name a column twice
        return np.argsort(rng.random((count, width)), axis=1)[:, :k]
    draws = rng.integers(width, size=(count, k))
    rising = np.sort(draws, axis=1)
    return draws[(rising[:, 1:] > rising[:, :-1]).all(axis=1)]


def _distinct(rows: np.ndarray, base: int) -> np.ndarray:
    """The rows that were not there before, in order."""
    if base ** rows.shape[1] <= LONGEST_KEY:
        keys = rows @ np.asarray([base**j for j in range(rows.shape[1])], np.int64)
        _, first = np.unique(keys, return_index=True)
    else:
        _, first = np.unique(rows, axis=0, return_index=True)
    unique: np.ndarray = rows[np.sort(first)]
    return unique
