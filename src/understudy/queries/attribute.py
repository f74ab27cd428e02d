"""A yes/no question about one column, such as ``age >= 40``: what conditions and rules are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from understudy.errors import ParameterError, shown
from understudy.schema import Column, Schema
from understudy.schema.columns import Binned

# column, sign, value; the longer sign is tried first
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

        A bare column has two values, and asks for the second, which for yes/no columns is yes.
        Comparisons go by the order of the column's values. No bin can be split: a question is about
        whole bins, which a bin's own name asks for (``age = 30 to 39``) and a value only where it
        means exactly some of them (``age >= 30``). Any other is refused, with the edges near it.
        """
        if not isinstance(text, str):
            raise ParameterError(
                f"A question about a column is a text, such as 'age >= 40'; {shown(text)} is none."
            )
        match = COMPARED.match(text)
        if text in schema.names or not match:
            position = schema.position(text if text in schema.names else text.strip())
            column = schema.columns[position]
            if column.values != 2:
                raise ParameterError(
                    f"Column {column.name!r} has {column.values} values and is no yes/no question"
                    f" by itself; ask for one, as in '{column.name} = {column.label(0)}'."
                )
            return cls(position, frozenset([1]), text.strip())
        return cls.compared(schema, *match.groups())

    @classmethod
    def compared(cls, schema: Schema, name: str, sign: str, value: str) -> Attribute:
        """A column beside a value."""
        position = schema.position(name)
        column = schema.columns[position]
        if value in column.labels or not isinstance(column, Binned):
            code = column.labels.index(value) if value in column.labels else column.code_of(value)
            return cls(
                position,
                frozenset(_codes(column, sign, code)),
                f"{name} {sign} {column.label(code)}",
            )
        return cls(
            position, frozenset(_of_whole_bins(column, sign, value)), f"{name} {sign} {value}"
        )

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


def _of_whole_bins(column: Binned, sign: str, value: str) -> Iterable[int]:
    """The bins that a comparison with a value comes to, none of them split."""
    position, code = column.position_of(value), column.code_of(value)
    at = column.edge_at(position)
    # an edge written with fewer digits is that edge
    code = min(at, column.values - 1) if at is not None else code
    if sign in ("=", "!="):
        if not (column.whole and column.edges[code] == position == column.edges[code + 1] - 1):
            asked = f"{column.name} {sign}"
            raise ParameterError(
                f"{_splits(column, code, f'{asked} {value}')} ask for '{asked}"
                f" {column.label(code)}', the whole bin."
            )
        return _codes(column, sign, code)
    above = sign in (">=", ">")
    edge = _edge(column, sign, position)
    if edge is None:
        near = {i: column.edge_text(i) for i in (code, code + 1)}
        proposed = [
            f"'{column.name} {'>=' if above else '<'} {text}'"
            for i, text in near.items()
            if 0 < i < column.values
        ]
        advice = f": ask for {' or '.join(proposed)}" if proposed else ""
        raise ParameterError(
            f"{_splits(column, code, f'{column.name} {sign} {value}')} its edges near {value} are"
            f" {' and '.join(near.values())}{advice}."
        )
    return range(edge, column.values) if above else range(edge)


def _edge(column: Binned, sign: str, position: float) -> int | None:
    """The edge at which a comparison cuts; none if it cuts elsewhere."""
    if column.whole:  # up to 39 is below 40
        return column.edge_at(
            math.floor(position) + 1 if sign in ("<=", ">") else math.ceil(position)
        )
    edge = column.edge_at(position)
    return edge if sign in ("<", ">=") or edge == column.values else None


def _splits(column: Binned, code: int, asked: str) -> str:
    return (
        f"'{asked}' would split the bin {column.label(code)} of {column.name!r}, and no bin can be"
        " split;"
    )
