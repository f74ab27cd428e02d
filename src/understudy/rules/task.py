"""What is to be learnt from a table: which questions about its columns are the attributes, and
which is the label; all public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import ParameterError
from understudy.queries.attribute import Attribute
from understudy.schema import Schema

MOST_COST = 1000  # large enough; sums of costs stay far inside 64 bits


@dataclass(frozen=True)
class Task:
    """Attributes, label, and what a wrong answer costs.

    Attributes:
        attributes: the questions that rules are made of.
        label: the question to be answered by a rule; or, if all rows have the same one, which.
        costs: of a yes that should be a no, and of a no that should be a yes; whole numbers from 1.
    """

    attributes: tuple[Attribute, ...]
    label: Attribute | bool
    costs: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ParameterError(
                "A rule needs at least one attribute: a question about a column that is not the"
                " label's."
            )
        if isinstance(self.label, Attribute) and any(
            a.column == self.label.column for a in self.attributes
        ):
            raise ParameterError("The label's column cannot be an attribute as well.")
        if (
            not isinstance(self.costs, tuple)
            or len(self.costs) != 2
            or any(
                isinstance(c, bool) or not isinstance(c, int) or not 1 <= c <= MOST_COST
                for c in self.costs
            )
        ):
            raise ParameterError(
                f"costs are two whole numbers from 1 to {MOST_COST}: of a wrong yes, and of a"
                " wrong no."
            )

    @classmethod
    def of(
        cls,
        schema: Schema,
        label: str,
        attributes: Sequence[str] | None = None,
        costs: Any = (1, 1),
    ) -> Task:
        """From texts; without a list, each value of each other column is an attribute, or of a
        yes/no column the second one.
        """
        if attributes is not None and (
            isinstance(attributes, (str, Mapping)) or not isinstance(attributes, Iterable)
        ):
            raise ParameterError(
                "attributes are a list of texts; put even a single one into brackets."
            )
        target = Attribute.parse(label, schema)
        if len(target.codes) in (0, schema.shape[target.column]):
            raise ParameterError(
                f"The label {target.name!r} has one answer for every row, so there is nothing to"
                " learn; ask another question."
            )
        if attributes is None:
            parsed = [
                a for p in range(len(schema)) if p != target.column for a in _usual(schema, p)
            ]
        else:
            parsed = [Attribute.parse(text, schema) for text in attributes]
        return cls(
            tuple(parsed), target, tuple(costs) if isinstance(costs, (list, tuple)) else costs
        )

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that are read, rising."""
        target = {self.label.column} if isinstance(self.label, Attribute) else set()
        return tuple(sorted(target | {a.column for a in self.attributes}))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    def bits(self, codes: np.ndarray, columns: Sequence[int]) -> np.ndarray:
        """The attributes of coded rows (rows x columns): uint8, rows x attributes."""
        place = {c: i for i, c in enumerate(columns)}
        return np.stack([a.bits(codes[:, place[a.column]]) for a in self.attributes], axis=1)

    def labels(self, codes: np.ndarray, columns: Sequence[int]) -> np.ndarray:
        """The labels of coded rows (bool)."""
        if not isinstance(self.label, Attribute):
            return np.full(len(codes), bool(self.label))
        return self.label.bits(codes[:, list(columns).index(self.label.column)]).astype(bool)


def _usual(schema: Schema, position: int) -> list[Attribute]:
    column = schema.columns[position]
    if column.size == 2:
        return [
            Attribute(
                position,
                frozenset([1]),
                (
                    column.name
                    if column.label(1) in ("1", "true", "True")
                    else f"{column.name} = {column.label(1)}"
                ),
            )
        ]
    return [
        Attribute(position, frozenset([code]), f"{column.name} = {column.label(code)}")
        for code in range(column.size)
    ]
