"""Batches of symmetric functions of literals, and how people write them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import Counts, Verbs
from understudy.errors import WorkloadError, shown
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.literals import Literal, Query, all_of, any_of, at_least, parity
from understudy.runtime.compiled import kernel
from understudy.schema.domain import Domain


@dataclass(frozen=True)
class Symmetric(QueryClass):
    """A batch of symmetric queries of any widths, answered by one scan."""

    queries: tuple[Query, ...]

    kind: ClassVar[str] = "symmetric"
    words: ClassVar[tuple[str, ...]] = ("all_of", "any_of", "at_least", "parity", "not")

    def __post_init__(self) -> None:
        if not isinstance(self.queries, tuple) or not all(
            isinstance(query, Query) for query in self.queries
        ):
            raise WorkloadError("A batch of queries is a tuple of queries.")
        if not self.queries:
            raise WorkloadError("A batch of queries needs at least one query.")

    @property
    def size(self) -> int:
        return len(self.queries)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(
            sorted({literal.column for query in self.queries for literal in query.literals})
        )

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """(first literals, columns, values, holds, first table entries, tables), flat."""
        at = {c: i for i, c in enumerate(self.columns)}
        widths = [len(query.literals) for query in self.queries]
        literals = [literal for query in self.queries for literal in query.literals]
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        return (
            starts,
            np.asarray([at[literal.column] for literal in literals], np.int32),
            np.asarray([literal.value for literal in literals], np.int32),
            np.asarray([literal.holds for literal in literals], np.bool_),
            starts[:-1] + np.arange(self.size),
            np.asarray([bit for query in self.queries for bit in query.table], np.int64),
        )

    def tally(self, block: np.ndarray) -> np.ndarray:
        total: np.ndarray = _tally(block, *self._arrays)
        return total

    def counts(self, table: Verbs) -> Counts:
        return Counts(self.size, table.scan(self))

    def truth(self, block: np.ndarray) -> np.ndarray:
        satisfied = np.empty((len(block), self.size), np.bool_)
        for q, query in enumerate(self.queries):
            hits = sum(
                (block[:, self.columns.index(x.column)] == x.value) == x.holds
                for x in query.literals
            )
            satisfied[:, q] = np.asarray(query.table, np.bool_)[hits]
        return satisfied

    def around(self, index: int) -> Symmetric:
        return Symmetric((self.queries[index],))

    def query(self, index: int) -> Query:
        """One query by itself."""
        return self.queries[index]

    @property
    def can_be_fitted(self) -> bool:
        return True

    def apart(self, about: Collection[frozenset[int]] | None = None) -> Symmetric | None:
        if about is None:
            return self
        asked = tuple(query for query in self.queries if query.columns in about)
        return Symmetric(asked) if asked else None

    def column_sets(self) -> list[frozenset[int]]:
        return list(dict.fromkeys(query.columns for query in self.queries))

    def fits(self, schema: Domain) -> bool:
        return all(literals_fit(query.literals, schema) for query in self.queries)

    def l2_squared(self, neighbours: Neighbours) -> int:
        return self.size  # every query may change by one, under either relation

    def describe(self, schema: Domain, index: int) -> str:
        query = self.queries[index]
        words = [
            f"{schema.names[x.column]} {'=' if x.holds else '!='}"
            f" {schema.columns[x.column].label(x.value)}"
            for x in query.literals
        ]
        counts = [str(i) for i, bit in enumerate(query.table) if bit]
        return f"{' or '.join(counts) or 'none'} of ({', '.join(words)})"

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        def plain(query: Query) -> dict[str, Any]:
            return {
                "literals": [[schema.names[x.column], x.value, x.holds] for x in query.literals],
                "table": list(query.table),
            }

        return {"kind": self.kind, "queries": [plain(query) for query in self.queries]}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> Symmetric:
        def read(plain: Mapping[str, Any]) -> Query:
            literals = tuple(
                Literal(schema.position(name), int(value), bool(holds))
                for name, value, holds in plain["literals"]
            )
            return check_fits(Query(literals, tuple(int(bit) for bit in plain["table"])), schema)

        return cls(tuple(read(plain) for plain in data["queries"]))

    @classmethod
    def from_entries(cls, entries: Sequence[Any], schema: Domain) -> list[QueryClass]:
        return [cls(tuple(read_query(entry, schema) for entry in entries))]

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[Symmetric]:
        def literals(k: int) -> list[Literal]:
            columns = rng.choice(len(schema), k, replace=len(schema) < k)
            return [
                Literal(int(c), int(rng.integers(schema.shape[c])), bool(rng.integers(2)))
                for c in columns
            ]

        for make in (
            all_of,
            any_of,
            lambda *x: at_least(max(1, len(x) // 2), *x),
            parity,
            lambda *x: ~parity(*x),
        ):
            yield cls(tuple(make(*literals(int(rng.integers(1, 5)))) for _ in range(5)))


def apart(batch: QueryClass, about: Collection[frozenset[int]] | None = None) -> Symmetric | None:
    """What :meth:`QueryClass.apart` gives, by its type, which the base does not know."""
    queries = batch.apart(about)
    assert queries is None or isinstance(queries, Symmetric)
    return queries


@kernel()
def _tally(
    block: np.ndarray,
    starts: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    holds: np.ndarray,
    tables: np.ndarray,
    table: np.ndarray,
) -> np.ndarray:
    total = np.zeros(len(starts) - 1, np.int64)
    for row in range(block.shape[0]):
        for q in range(len(total)):
            satisfied = 0
            for j in range(starts[q], starts[q + 1]):
                satisfied += (block[row, columns[j]] == values[j]) == holds[j]
            total[q] += table[tables[q] + satisfied]
    return total


def check_fits(query: Query, schema: Domain) -> Query:
    """The query itself, or a refusal if it names a column or a code that the schema does not have."""
    if not literals_fit(query.literals, schema):
        raise WorkloadError("A query names a column or value that the schema does not have.")
    return query


def literals_fit(literals: Sequence[Literal], schema: Domain) -> bool:
    """Whether the schema has every column and code that literals name."""
    return all(
        0 <= x.column < len(schema) and 0 <= x.value < schema.shape[x.column] for x in literals
    )


def read_query(spec: Any, schema: Domain) -> Query:
    """A query as people write it in a YAML file, or one as it is; in a column with bins, a value
    means the bin that holds it.
    """
    if isinstance(spec, Query):
        return check_fits(spec, schema)
    if not isinstance(spec, Mapping):
        raise WorkloadError("Each query must be a mapping such as {all_of: {sex: F, age: 30}}.")
    rest = {key: value for key, value in spec.items() if key != "t"}
    if len(rest) != 1:
        raise WorkloadError(
            "Each query needs exactly one of all_of, any_of, at_least (with t), parity or not."
        )
    name, body = next(iter(rest.items()))
    if "t" in spec and name != "at_least":
        raise WorkloadError("A query has a t, which belongs beside at_least and nowhere else.")
    if name == "not":
        return ~read_query(body, schema)
    literals = _read_literals(body, schema)
    if name == "at_least":
        t = spec.get("t")
        if isinstance(t, bool) or not isinstance(t, int):
            raise WorkloadError(
                "A query at_least needs a whole number t beside it: {at_least: {...}, t: 2}."
            )
        return at_least(t, *literals)
    shapes = {"all_of": all_of, "any_of": any_of, "parity": parity}
    if name not in shapes:
        raise WorkloadError(
            f"A query of kind {shown(name)} is not known; use all_of, any_of, at_least, parity or"
            " not."
        )
    return shapes[name](*literals)


def _read_literals(body: Any, schema: Domain) -> Sequence[Literal]:
    """``{column: value, ...}`` or ``[{column: value}, {column: {not: value}}, ...]``."""
    items: list[tuple[Any, Any]] = []
    for mapping in (
        [body] if isinstance(body, Mapping) else body if isinstance(body, list) else [None]
    ):
        if not isinstance(mapping, Mapping):
            raise WorkloadError(
                "The literals of a query are written {column: value, ...} or as a list of such"
                " mappings."
            )
        items.extend(mapping.items())
    if not items:
        raise WorkloadError("A query needs at least one literal.")
    literals = []
    for name, value in items:
        holds = not (isinstance(value, Mapping) and set(value) == {"not"})
        wanted = value if holds else value["not"]
        literals.append(
            Literal(schema.position(str(name)), schema[str(name)].code_of(wanted), holds)
        )
    return literals
