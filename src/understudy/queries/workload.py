"""Workloads: which queries a release must answer well. Plain values that know their size in
advance.

Each query class reads its own texts (``3-way:64@7`` on the command line, several joined by ``+``)
and its own entries of a YAML file, which begin with one of its words:

    marginals: [3-way:64@7, [age, sex]]
    queries:
      - {all_of: {sex: F, smoker: true}}
      - {not: {any_of: [{age: 30}, {age: 50}]}}
      - {prefixes: age}

The classes are those in this folder, and those that installed packages announce.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import understudy.queries as room
from understudy.errors import InputError, WorkloadError, shown
from understudy.queries.base import Asked, QueryClass
from understudy.queries.conjunctions import Conjunctions
from understudy.queries.lattice import AllConjunctions
from understudy.queries.literals import Query
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric
from understudy.runtime.discovery import classes_in
from understudy.schema import Schema
from understudy.schema.files import read_mapping

ENTRY_POINTS = "understudy.queries"  # where an installed package announces its query classes


@dataclass(frozen=True)
class Workload:
    """An ordered collection of query batches over one schema.

    Examples:
        >>> from understudy.schema import Schema
        >>> work = marginals(Schema.from_domain({"a": 2, "b": 3, "c": 4}), k=2)
        >>> len(work), work.size
        (3, 26)
    """

    schema: Schema
    batches: tuple[QueryClass, ...]
    spec: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_schema(self.schema)
        if not isinstance(self.batches, (tuple, list)) or not all(
            isinstance(batch, QueryClass) for batch in self.batches
        ):
            raise WorkloadError(
                "The batches of a workload are a tuple of batches of queries, such as marginals."
            )
        object.__setattr__(self, "batches", tuple(self.batches))
        if not self.batches:
            raise WorkloadError("The workload is empty; ask for at least one marginal or query.")
        if not all(batch.fits(self.schema) for batch in self.batches):
            raise WorkloadError(
                "A batch of queries is written for another schema than the workload's."
            )
        if any(list(batch.columns) != sorted(set(batch.columns)) for batch in self.batches):
            raise WorkloadError(
                "A batch of queries names each of its columns once, in their order."
            )

    @property
    def size(self) -> int:
        """|Q|: how many queries, each cell of a marginal being one."""
        return sum(batch.size for batch in self.batches)

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The whole marginals among the batches."""
        return tuple(table for batch in self.batches if (table := batch.as_table()) is not None)

    @property
    def cells(self) -> int:
        """How many of the queries are cells of whole marginals."""
        return sum(batch.size for batch in self.marginals)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[QueryClass]:
        return iter(self.batches)

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            return NotImplemented
        if other.schema != self.schema:
            raise WorkloadError("Two workloads over different schemas cannot be joined.")
        return Workload(
            self.schema,
            tuple(dict.fromkeys(self.batches + other.batches)),
            f"{self.spec}+{other.spec}",
        )

    def to_dict(self) -> dict[str, Any]:
        return {"spec": self.spec, "parts": [batch.to_dict(self.schema) for batch in self.batches]}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Workload:
        """The inverse of :meth:`to_dict`."""
        _check_schema(schema)
        try:
            return cls(
                schema,
                tuple(batch_from_dict(batch, schema) for batch in data["parts"]),
                data.get("spec", ""),
            )
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
        ) as problem:
            if isinstance(problem, InputError):
                raise
            raise WorkloadError(
                "This is not the plain form of a workload, or it was written by another version."
            ) from None

    @classmethod
    def load(cls, path: str | Path, schema: Schema) -> Workload:
        """Read a workload file."""
        _check_schema(schema)
        return _from_file(read_mapping(path, "workload"), schema, str(Path(path).name))

    @classmethod
    def parse(cls, text: str, schema: Schema) -> Workload:
        """Read what a person types: texts of query classes joined by ``+``, or the path of a
        file.
        """
        _check_schema(schema)
        if not isinstance(text, str):
            raise WorkloadError(
                "A workload is written as a text such as '3-way:64@7', or as the path of a file."
            )
        if Path(text).suffix.lower() in (".yaml", ".yml", ".json"):
            return cls.load(text, schema)
        entries = [_named(piece.strip(), schema) for piece in text.split("+")]
        batches = dict.fromkeys(batch for asked in entries for batch in asked.batches)
        return cls(schema, tuple(batches), "+".join(asked.spec for asked in entries))


def marginals(schema: Schema, k: int = 3, sample: int | None = None, seed: int = 0) -> Workload:
    """All k-way marginals, or ``sample`` random ones by a public seed.

    Args:
        schema: the table's public description.
        k: how many columns each marginal has.
        sample: how many marginals; all of them when there are fewer.
        seed: which random ones; NumPy's legacy generator, so that other tools pick the same.
    """
    return _workload(schema, Marginal.every(_check_schema(schema), k, sample, seed))


def random_conjunctions(schema: Schema, count: int, k: int = 3, seed: int = 0) -> Workload:
    """``count`` different conjunctions "column = value and ..." of k random columns, by a public
    seed.

    Each asks for a random value of each of its columns; of a table of items, for people who have
    all k items.

    Args:
        schema: the table's public description.
        count: how many conjunctions; all of them when there are fewer.
        k: how many columns each has.
        seed: which random ones.

    Examples:
        >>> work = random_conjunctions(Schema.items(10_000), 5_000, seed=7)
        >>> work.size, work.spec
        (5000, '3-conjunctions:5000@7')
    """
    return _workload(schema, Conjunctions.random(_check_schema(schema), count, k, seed))


def all_conjunctions(schema: Schema, columns: Sequence[str] | None = None) -> Workload:
    """Every conjunction "column = its last value and ..." of any number of columns, none included:
    2^d queries for d columns.

    For columns of 0 and 1 these are the monotone conjunctions; the last value is the last ordinary
    one, OTHER and MISSING not counted.

    Args:
        schema: the table's public description.
        columns: which columns, at most 22; all of them if not given.

    Examples:
        >>> work = all_conjunctions(Schema.from_domain(dict.fromkeys("abcdefghij", 2)))
        >>> work.size, work.batches[0].describe(work.schema, 5)
        (1024, 'a = 1 and c = 1')
    """
    _check_schema(schema)
    if isinstance(columns, str) or not (columns is None or isinstance(columns, Iterable)):
        raise WorkloadError("The columns of all conjunctions are a list of names.")
    batch = AllConjunctions.of(schema, schema.names if columns is None else columns)
    return Workload(schema, (batch,), batch.kind if columns is None else "list")


def _workload(schema: Schema, asked: Asked) -> Workload:
    return Workload(schema, asked.batches, asked.spec)


def _check_schema(schema: Any) -> Schema:
    if not isinstance(schema, Schema):
        raise WorkloadError(
            "A workload is written for a Schema; make one of its file with Schema.load or of its"
            " plain form first."
        )
    return schema


def explicit(
    schema: Schema,
    *,
    columns: Iterable[Sequence[str]] = (),
    queries: Iterable[Query | dict[str, Any]] = (),
) -> Workload:
    """A workload from lists: marginals by their columns, and single queries."""
    _check_schema(schema)
    if not all(
        isinstance(items, Iterable) and not isinstance(items, (str, Mapping))
        for items in (columns, queries)
    ):
        raise WorkloadError(
            "The columns and queries of a workload are two lists: of marginals' columns, and of"
            " queries."
        )
    batches: list[QueryClass] = [Marginal.of(schema, names) for names in columns]
    batches += _from_entries(queries, schema)
    return Workload(schema, tuple(dict.fromkeys(batches)), "list")


# ---------------------------------------------------------------------- texts and files


def _named(text: str, schema: Schema) -> Asked:
    """What a text names, by the first class that reads it."""
    kinds = query_classes().values()
    for kind in kinds:
        asked = kind.from_text(text, schema)
        if asked is not None:
            return asked
    texts = ", ".join(word for kind in kinds for word in kind.texts(schema))
    raise WorkloadError(
        f"The workload {shown(text)} is not understood; write one such as {texts}, several of them"
        " joined by +, or the path of a .yaml file."
    )


def _from_file(data: dict[str, Any], schema: Schema, name: str) -> Workload:
    unknown = set(data) - {"marginals", "queries"}
    if unknown or not data:
        raise WorkloadError(
            "A workload file has two lists, marginals and queries, of which at least one is given."
        )
    for key, value in data.items():
        if not isinstance(value, list):
            raise WorkloadError(f"In a workload file, {key} must be a list.")
    batches: list[QueryClass] = []
    for item in data.get("marginals", []):
        if isinstance(item, str):
            batches.extend(_named(item, schema).batches)
        elif isinstance(item, list) and item:
            batches.append(Marginal.of(schema, [str(column) for column in item]))
        else:
            raise WorkloadError(
                "Each entry of marginals is a list of columns or a text such as 3-way:64@7."
            )
    batches += _from_entries(data.get("queries", []), schema)
    return Workload(schema, tuple(dict.fromkeys(batches)), name)


def _from_entries(entries: Iterable[Any], schema: Schema) -> list[QueryClass]:
    """The batches of a list of queries: each class gets its own entries, in their order."""
    own: dict[type[QueryClass], list[Any]] = {}
    for entry in entries:
        own.setdefault(_class_of(entry), []).append(entry)
    return [batch for kind, those in own.items() for batch in kind.from_entries(those, schema)]


def _class_of(entry: Any) -> type[QueryClass]:
    """The class that an entry is for: one of its words is a key."""
    if isinstance(entry, Query):
        return Symmetric
    if not isinstance(entry, Mapping):
        raise WorkloadError("Each query must be a mapping such as {all_of: {sex: F, age: 30}}.")
    words = {word: kind for kind in query_classes().values() for word in kind.words}
    kinds = dict.fromkeys(words[key] for key in entry if key in words)
    if len(kinds) == 1:
        return next(iter(kinds))
    listed = ", ".join(words)
    if kinds or not entry:
        raise WorkloadError(f"Each query needs exactly one of these words: {listed}.")
    raise WorkloadError(
        f"A query of kind {shown(next(iter(entry)))} is not known; use one of {listed}."
    )


@cache
def query_classes() -> dict[str, type[QueryClass]]:
    """Every query class, by its kind: those in this folder, and those that installed packages
    announce.
    """
    classes = {kind.kind: kind for kind in classes_in(room, QueryClass)}  # type: ignore[type-abstract]
    for entry in entry_points(group=ENTRY_POINTS):
        thing = entry.load()
        classes.setdefault(thing.kind, thing)
    return classes


def batch_from_dict(data: dict[str, Any], schema: Schema) -> QueryClass:
    """Read back one batch that :meth:`QueryClass.to_dict` wrote."""
    classes = query_classes()
    if data.get("kind") not in classes:
        raise WorkloadError(f"A query class {shown(data.get('kind'))} is not known here.")
    return classes[data["kind"]].from_dict(data, schema)
