"""Workloads: which queries a release must answer well. Plain values that know their size in
advance.

On the command line ``3-way`` (all of them), ``3-way:64@7`` (64 random ones, public seed 7),
``3-conjunctions:100000@7`` (so many random conjunctions), ``all-conjunctions`` (of any number of
columns, each at its last value), several joined by ``+``, or a YAML file:

    marginals: [3-way:64@7, [age, sex]]
    queries:
      - {all_of: {sex: F, smoker: true}}
      - {at_least: {sex: F, age: 30, smoker: {not: true}}, t: 2}
      - {not: {any_of: [{age: 30}, {age: 50}]}}

In a column with bins, a value means the bin that holds it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

import understudy.queries as room
from understudy.counting.tally import DENSE_CELLS
from understudy.errors import InputError, WorkloadError, shown
from understudy.queries.base import QueryClass
from understudy.queries.conjunctions import random_batch
from understudy.queries.lattice import AllConjunctions
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Query, Symmetric, check_fits, read_query
from understudy.runtime.discovery import classes_in
from understudy.schema import Schema
from understudy.schema.files import read_mapping

ENTRY_POINTS = "understudy.queries"
EVERY_CONJUNCTION = "all-conjunctions"
SPEC = re.compile(r"^([0-9]{1,9})-(way|conjunctions)(?::([0-9]{1,9})(?:@([0-9]{1,10}))?)?$")
MOST_MARGINALS = 2_000_000  # more than this is a mistake in k, not a workload
MOST_CONJUNCTIONS = DENSE_CELLS // 2  # a selection compares them and their negations


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
    parts: tuple[QueryClass, ...]
    spec: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_schema(self.schema)
        if not isinstance(self.parts, (tuple, list)) or not all(
            isinstance(part, QueryClass) for part in self.parts
        ):
            raise WorkloadError(
                "The parts of a workload are a tuple of batches of queries, such as marginals."
            )
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise WorkloadError("The workload is empty; ask for at least one marginal or query.")
        if not all(part.fits(self.schema) for part in self.parts):
            raise WorkloadError(
                "A batch of queries is written for another schema than the workload's."
            )

    @property
    def size(self) -> int:
        """|Q|: how many queries, each cell of a marginal being one."""
        return sum(part.size for part in self.parts)

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        return tuple(part for part in self.parts if isinstance(part, Marginal))

    @property
    def cells(self) -> int:
        """How many of the queries are cells of whole marginals."""
        return sum(part.size for part in self.marginals)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[QueryClass]:
        return iter(self.parts)

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            return NotImplemented
        if other.schema != self.schema:
            raise WorkloadError("Two workloads over different schemas cannot be joined.")
        return Workload(
            self.schema, tuple(dict.fromkeys(self.parts + other.parts)), f"{self.spec}+{other.spec}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"spec": self.spec, "parts": [part.to_dict(self.schema) for part in self.parts]}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Workload:
        """The inverse of :meth:`to_dict`."""
        _check_schema(schema)
        try:
            return cls(
                schema,
                tuple(part_from_dict(part, schema) for part in data["parts"]),
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
        """Read what a person types: ``3-way:64@7``, ``3-conjunctions:1000@7``,
        ``all-conjunctions``, ``1-way+2-way``, or a file.
        """
        _check_schema(schema)
        if not isinstance(text, str):
            raise WorkloadError(
                "A workload is written as a text such as '3-way:64@7', or as the path of a file."
            )
        if Path(text).suffix.lower() in (".yaml", ".yml", ".json"):
            return cls.load(text, schema)
        made = [_from_spec(piece.strip(), schema) for piece in text.split("+")]
        total = made[0]
        for more in made[1:]:
            total = total + more
        return total


def marginals(schema: Schema, k: int = 3, sample: int | None = None, seed: int = 0) -> Workload:
    """All k-way marginals, or ``sample`` random ones by a public seed.

    Args:
        schema: the table's public description.
        k: how many columns each marginal has.
        sample: how many marginals; all of them when there are fewer.
        seed: which random ones; NumPy's legacy generator, so that other tools pick the same.
    """
    _check_numbers("marginals", schema, k, sample, seed)
    count = math.comb(len(schema), int(k))
    if count > MOST_MARGINALS:
        raise WorkloadError(
            f"There are {count:,} {k}-way marginals of this table, too many; take a sample such as"
            " 3-conjunctions:10000@7, or list the ones you need in a workload file."
        )
    subsets = list(itertools.combinations(range(len(schema)), int(k)))
    if sample is not None:
        subsets = [
            subsets[i] for i in np.random.RandomState(int(seed)).permutation(len(subsets))[:sample]
        ]
    spec = f"{k}-way" + (f":{sample}@{seed}" if sample is not None else "")
    return Workload(
        schema, tuple(Marginal(s, tuple(schema.shape[c] for c in s)) for s in subsets), spec
    )


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
    _check_numbers("conjunctions", schema, k, count, seed)
    if count is None or count > MOST_CONJUNCTIONS:
        raise WorkloadError(
            f"A workload has at most {MOST_CONJUNCTIONS:,} conjunctions; say how many."
        )
    return Workload(
        schema,
        (random_batch(schema, int(count), int(k), int(seed)),),
        f"{k}-conjunctions:{count}@{seed}",
    )


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
        >>> work.size, work.parts[0].describe(work.schema, 5)
        (1024, 'a = 1 and c = 1')
    """
    _check_schema(schema)
    if isinstance(columns, str) or not (columns is None or isinstance(columns, Iterable)):
        raise WorkloadError("The columns of all conjunctions are a list of names.")
    part = AllConjunctions.of(schema, schema.names if columns is None else columns)
    return Workload(schema, (part,), EVERY_CONJUNCTION if columns is None else "list")


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, Schema):
        raise WorkloadError(
            "A workload is written for a Schema; make one of its file with Schema.load or of its"
            " plain form first."
        )


def _check_numbers(what: str, schema: Schema, k: Any, sample: Any, seed: Any) -> None:
    _check_schema(schema)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= len(schema):
        raise WorkloadError(f"k-way {what} of this table need k from 1 to {len(schema)}.")
    if sample is not None and (
        isinstance(sample, bool) or not isinstance(sample, (int, np.integer)) or sample < 1
    ):
        raise WorkloadError(f"A sample of {what} needs a whole number of at least 1.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise WorkloadError(
            f"The seed of a sample of {what} is a whole number from 0 to 4,294,967,295."
        )


def explicit(
    schema: Schema,
    *,
    columns: Iterable[Sequence[str]] = (),
    queries: Iterable[Query | dict[str, Any]] = (),
) -> Workload:
    """A workload from lists: marginals by their columns, and single queries."""
    _check_schema(schema)
    if not all(
        isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
        for given in (columns, queries)
    ):
        raise WorkloadError(
            "The columns and queries of a workload are two lists: of marginals' columns, and of"
            " queries."
        )
    parts: list[QueryClass] = [Marginal.of(schema, names) for names in columns]
    single = [
        check_fits(query, schema) if isinstance(query, Query) else read_query(query, schema)
        for query in queries
    ]
    if single:
        parts.append(Symmetric(tuple(single)))
    return Workload(schema, tuple(dict.fromkeys(parts)), "list")


def _from_spec(text: str, schema: Schema) -> Workload:
    if text == EVERY_CONJUNCTION:
        return all_conjunctions(schema)
    match = SPEC.match(text)
    if not match:
        raise WorkloadError(
            f"The workload {shown(text)} is not understood; write 3-way, 3-way:64@7 (64 random"
            f" ones, seed 7), 3-conjunctions:1000@7, {EVERY_CONJUNCTION} or the path of a .yaml"
            " file."
        )
    k, kind, sample, seed = match.groups()
    if kind == "conjunctions":
        if sample is None:
            raise WorkloadError(
                f"The workload {text!r} needs to say how many random conjunctions, as in"
                f" {k}-conjunctions:1000@7."
            )
        return random_conjunctions(schema, int(sample), int(k), int(seed or 0))
    return marginals(schema, int(k), int(sample) if sample else None, int(seed) if seed else 0)


def _from_file(data: dict[str, Any], schema: Schema, name: str) -> Workload:
    unknown = set(data) - {"marginals", "queries"}
    if unknown or not data:
        raise WorkloadError(
            "A workload file has two lists, marginals and queries, of which at least one is given."
        )
    for key, value in data.items():
        if not isinstance(value, list):
            raise WorkloadError(f"In a workload file, {key} must be a list.")
    parts: list[QueryClass] = []
    for item in data.get("marginals", []):
        if isinstance(item, str):
            parts.extend(_from_spec(item, schema).parts)
        elif isinstance(item, list) and item:
            parts.append(Marginal.of(schema, [str(column) for column in item]))
        else:
            raise WorkloadError(
                "Each entry of marginals is a list of columns or a text such as 3-way:64@7."
            )
    if data.get("queries"):
        parts.append(Symmetric(tuple(read_query(spec, schema) for spec in data["queries"])))
    return Workload(schema, tuple(dict.fromkeys(parts)), name)


@cache
def query_classes() -> dict[str, type[QueryClass]]:
    """Every query class, by its kind: those in this folder, and those that installed packages
    announce.
    """
    found = {kind.kind: kind for kind in classes_in(room, QueryClass)}  # type: ignore[type-abstract]
    for entry in entry_points(group=ENTRY_POINTS):
        thing = entry.load()
        found.setdefault(thing.kind, thing)
    return found


def part_from_dict(data: dict[str, Any], schema: Schema) -> QueryClass:
    """Read back one batch that :meth:`QueryClass.to_dict` wrote."""
    classes = query_classes()
    if data.get("kind") not in classes:
        raise WorkloadError(f"A query class {shown(data.get('kind'))} is not known here.")
    return classes[data["kind"]].from_dict(data, schema)
