"""A yes/no question about one column, such as ``age >= 40``: what conditions and rules are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from understudy.errors import ParameterError, shown
from understudy.schema import Column, Schema

COMPARED = re.compile(r"^\s*(.+?)\s*(>=|<=|!=|=|>|<)\s*(.+?)\s*$")


@dataclass(frozen=True)
class Attribute:
    """A yes/no question about one column: whether its code is one of these."""

    column: int
    codes: frozenset[int]
    name: str

    @classmethod
    def parse(cls, text: str, schema: Schema) -> Attribute:
        """Read ``married``, ``sex = F``, ``age >= 40`` and the like.

        A bare column has two values, and asks for the second, which for yes/no columns is yes. Comparisons go by the order of the
        column's values; in a column with bins by whole bins, the one that holds the value being in ``>=`` and ``<=``. A bin is then
        named instead of the value, so that a rule's words say what the rule does.
        """
        if not isinstance(text, str):
            raise ParameterError(f"A question about a column is a text, such as 'age >= 40'; {shown(text)} is none.")
        match = COMPARED.match(text)
        if text in schema.names or not match:
            position = schema.position(text if text in schema.names else text.strip())
            column = schema.columns[position]
            if column.values != 2:
                raise ParameterError(
                    f"Column {column.name!r} has {column.values} values and is no yes/no question by itself; "
                    f"ask for one, as in '{column.name} = {column.label(0)}'."
                )
            return cls(position, frozenset([1]), text.strip())
        return cls.compared(schema, *match.groups())

    @classmethod
    def compared(cls, schema: Schema, name: str, sign: str, value: str) -> Attribute:
        """A column beside a value."""
        position = schema.position(name)
        column = schema.columns[position]
        code = column.labels.index(value) if value in column.labels else column.code_of(value)
        return cls(position, frozenset(_codes(column, sign, code)), f"{name} {sign} {column.label(code)}")

    def bits(self, codes: np.ndarray) -> np.ndarray:
        """The answer for each code of the column (uint8)."""
        return np.isin(codes, sorted(self.codes)).astype(np.uint8)


def _codes(column: Column, sign: str, code: int) -> Iterable[int]:
    chosen = {
        "=": [code],
        "!=": [c for c in range(column.size) if c != code],
        ">=": range(code, column.values),
        ">": range(code + 1, column.values),
        "<=": range(code + 1),
        "<": range(code),
    }
    return chosen[sign]
