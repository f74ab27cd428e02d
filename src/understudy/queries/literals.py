"""Literals, and symmetric functions of k of them: the one shape of every query in the papers.

A literal is "column c takes value v" or its negation; a query is ``table[number of satisfied
literals]`` with a 0/1 table over 0..k:

    conjunction        1 at k           t-of-k threshold   1 from t
    disjunction        1 from 1         parity             1 at even counts
    negation           1 - table
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.errors import WorkloadError, shown


@dataclass(frozen=True)
class Literal:
    """One condition: a column takes (or, if not ``holds``, does not take) a value."""

    column: int
    value: int
    holds: bool = True

    def __post_init__(self) -> None:
        if type(self.column) is int and type(self.value) is int and type(self.holds) is bool:
            return  # quickly: solvers make millions
        if not (
            _is_whole(self.column)
            and _is_whole(self.value)
            and isinstance(self.holds, (bool, np.bool_))
        ):
            raise WorkloadError(
                "A literal is the number of a column, the number of one of its values, and true or"
                " false."
            )
        # NumPy's own cannot be written to a file
        for name, kind in (("column", int), ("value", int), ("holds", bool)):
            object.__setattr__(self, name, kind(getattr(self, name)))


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Query:
    """One symmetric query: ``table[number of satisfied literals]``."""

    literals: tuple[Literal, ...]
    table: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.literals, tuple) or not all(
            isinstance(literal, Literal) for literal in self.literals
        ):
            raise WorkloadError("The literals of a query are a tuple of Literal(column, value).")
        if not isinstance(self.table, tuple) or not all(
            isinstance(bit, (int, np.integer)) for bit in self.table
        ):
            raise WorkloadError("The table of a query is a tuple of 0s and 1s.")
        object.__setattr__(self, "table", tuple(map(int, self.table)))
        if (
            not self.literals
            or len(self.table) != len(self.literals) + 1
            or not set(self.table) <= {0, 1}
        ):
            raise WorkloadError(
                "A query needs at least one literal and a table of 0s and 1s with one entry more"
                " than literals."
            )

    @property
    def columns(self) -> frozenset[int]:
        """The columns that its literals name."""
        return frozenset(literal.column for literal in self.literals)

    def __invert__(self) -> Query:
        return Query(self.literals, tuple(1 - bit for bit in self.table))


def all_of(*literals: Literal) -> Query:
    """Conjunction: every literal holds."""
    return at_least(len(literals), *literals)


def any_of(*literals: Literal) -> Query:
    """Disjunction: some literal holds."""
    return at_least(1, *literals)


def at_least(t: int, *literals: Literal) -> Query:
    """Threshold: at least ``t`` of the literals hold."""
    if not _is_whole(t):
        raise WorkloadError("The t of at least t literals is a whole number.")
    if not 1 <= t <= len(literals):
        raise WorkloadError(
            f"At least {shown(int(t))} of {len(literals)} literals is always or never true; t must"
            " be from 1 to the number of literals."
        )
    return Query(literals, tuple(int(count >= t) for count in range(len(literals) + 1)))


def parity(*literals: Literal) -> Query:
    """1 when an even number of literals hold: (1 + the +-1 parity)/2, which moves by one count."""
    return Query(literals, tuple(1 - count % 2 for count in range(len(literals) + 1)))
