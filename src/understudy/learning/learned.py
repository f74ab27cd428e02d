"""A rule that was learnt: what it says of rows, and the file that holds it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import BundleError, SourceError, UnderstudyError
from understudy.learning.manifest import RuleManifest
from understudy.privacy.learners import Rule
from understudy.queries.attribute import Attribute
from understudy.rules.base import RuleClass
from understudy.rules.classes import rule_class
from understudy.rules.task import Task
from understudy.runtime.paths import as_path
from understudy.schema import Schema
from understudy.schema.cells import Cells, read_cells, read_objects

# the first line of defence: another file, or a later format, is refused by it
FORMAT = "understudy rule 1"


@dataclass(frozen=True, repr=False)
class Learned:
    """A rule that may be published, and how it was learnt. Everything in it is a released value."""

    schema: Schema
    task: Task
    of: RuleClass
    rule: Rule
    facts: RuleManifest

    @property
    def manifest(self) -> dict[str, Any]:
        """How it was learnt, in plain values, as the file has them: a copy, to look things up in."""
        return self.facts.to_dict()

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        return self.of.words(self.rule, self.task.names)

    def predict(self, table: Any) -> np.ndarray:
        """What the rule says of rows (bool): anything with columns by name, such as a DataFrame or
        a dict of lists.

        Only columns that the rule asks about have to be there.
        """
        wanted = sorted({a.column for a in self.task.attributes})
        needed = {self.task.attributes[j].column for j in self.of.asks(self.rule)}
        by_column = {
            c: self.schema.columns[c].encode(_column(table, self.schema.columns[c].name))
            for c in sorted(needed)
        }
        if len({len(codes) for codes in by_column.values()}) > 1:
            raise SourceError(
                "The columns that the rule asks about have different numbers of rows; give each row"
                " a cell in each."
            )
        rows = len(next(iter(by_column.values()))) if by_column else _rows(table)
        codes = np.stack([by_column.get(c, np.zeros(rows, np.int32)) for c in wanted], axis=1)
        return self.of.predict(self.rule, self.task.bits(codes, wanted))

    def __repr__(self) -> str:
        return f"<Learned: {self.words}>"

    # ------------------------------------------------------------------ the file

    def save(self, path: str | Path) -> None:
        """Write everything as JSON; :meth:`load` reads it back."""
        try:
            as_path(path, "the rule").write_text(
                json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8"
            )
        except OSError as problem:
            raise BundleError(
                f"The rule could not be written to {str(path)!r}"
                f" ({problem.strerror or type(problem).__name__})."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Learned:
        """Read a rule back; refuses a file whose parts do not fit each other."""
        try:
            data = json.loads(as_path(path, "the rule", BundleError).read_text(encoding="utf-8"))
        except OSError as problem:
            raise BundleError(
                f"The rule {str(path)!r} cannot be read"
                f" ({problem.strerror or type(problem).__name__})."
            ) from None
        except (ValueError, RecursionError):
            raise BundleError(
                f"{str(path)!r} is not a rule: it is not valid JSON. Get the file again."
            ) from None
        return cls.from_dict(data)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values, which :meth:`from_dict` reads back to an equal rule."""
        label = self.task.label
        return {
            "format": FORMAT,
            "words": self.words,
            "schema": self.schema.to_dict(),
            "attributes": [_question(asked, self.schema) for asked in self.task.attributes],
            "label": _question(label, self.schema) if isinstance(label, Attribute) else bool(label),
            "class": {
                "name": self.of.name,
                **{k: v for k, v in vars(self.of).items() if k != "attributes"},
            },
            "rule": list(self.rule),
            "manifest": self.manifest,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Learned:
        """The inverse of :meth:`to_dict`."""
        try:
            learned = cls._read_parts(data)
            sound = (
                learned.of.contains(learned.rule)
                and json.loads(json.dumps(learned.to_dict())) == data
            )
        except UnderstudyError as problem:
            raise BundleError(f"This rule does not fit together: {problem}") from None
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ):
            sound = False
        if not sound:
            raise BundleError(
                "This rule cannot be read; it was changed, is incomplete, or was written by another"
                " version. Get it again."
            )
        return learned

    @classmethod
    def _read_parts(cls, data: Mapping[str, Any]) -> Learned:
        facts = RuleManifest.from_dict(data["manifest"])
        schema = Schema.from_dict(data["schema"])
        asked = tuple(_attribute(entry, schema) for entry in data["attributes"])
        label = data["label"]
        task = Task(
            asked,
            label if isinstance(label, bool) else _attribute(label, schema),
            facts.costs,
        )
        rules = rule_class(
            data["class"]["name"],
            attributes=len(asked),
            **{k: v for k, v in data["class"].items() if k != "name"},
        )
        return cls(schema, task, rules, tuple(data["rule"]), facts)


def _question(asked: Attribute, schema: Schema) -> dict[str, Any]:
    return {"column": schema.names[asked.column], "codes": sorted(asked.codes), "name": asked.name}


def _attribute(entry: Mapping[str, Any], schema: Schema) -> Attribute:
    position = schema.position(entry["column"])
    if not all(
        isinstance(code, int) and 0 <= code < schema.columns[position].size
        for code in entry["codes"]
    ):
        raise ValueError("codes that the column does not have")
    asked = Attribute(position, frozenset(entry["codes"]), entry["name"])
    # a name that somebody made up says nothing about codes
    with contextlib.suppress(UnderstudyError):
        meant = Attribute.parse(asked.name, schema)
        if (meant.column, meant.codes) != (asked.column, asked.codes):
            raise ValueError("codes that are not what the question asks for")
    return asked


def _column(table: Any, name: str) -> Cells:
    try:
        column = table[name]
        return _cells_of(column)
    except (KeyError, TypeError, IndexError, ValueError):
        raise SourceError(
            f"The rule asks about the column {name!r}; give a table that has it by name, such as a"
            " DataFrame or a dict of lists."
        ) from None


def _rows(table: Any) -> int:
    """How many rows a table has, for a rule that asks about nothing."""
    try:
        if isinstance(table, Mapping):
            return len(next(iter(table.values()), ()))
        return int(table.num_rows) if hasattr(table, "num_rows") else len(table)
    except TypeError:
        raise SourceError(
            "A rule predicts for the rows of a table, such as a DataFrame or a dict of lists."
        ) from None


def _cells_of(column: Any) -> Cells:
    return (
        read_cells(column)
        if isinstance(column, (pa.Array, pa.ChunkedArray))
        else read_objects(column)
    )
