"""Separator sets: a few queries of a class that tell any two records apart, on the columns that the
class reads.

A query over one literal belongs to every class here (all of one, any of one, one of one; a parity
of one is its negation), and "column c takes value v" for all values but the first of each column
separates all records: two that differ in a column differ on the value of one of them, or of both.
That is one query less per column than there are one-hot coordinates, and no smaller set of such
queries separates: two values of one column that no query names look alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.queries.base import QueryClass
from understudy.queries.literals import Literal, Query, all_of, parity
from understudy.queries.symmetric import Symmetric
from understudy.schema.domain import Domain


def separator(batches: Iterable[QueryClass], schema: Domain) -> tuple[Query, ...]:
    """A separator set for the classes of some batches; of parities alone, parities.

    Examples:
        >>> from understudy.queries.marginal import Marginal
        >>> from understudy.schema import Schema
        >>> schema = Schema.from_domain({"a": 2, "b": 3, "c": 4})
        >>> found = separator([Marginal.of(schema, ["a", "b"])], schema)
        >>> [(query.literals[0].column, query.literals[0].value) for query in found]
        [(0, 1), (1, 1), (1, 2)]
    """
    batches = list(batches)
    make = parity if batches and all(_only_parities(batch) for batch in batches) else all_of
    columns = sorted({column for batch in batches for column in batch.columns})
    return tuple(
        make(Literal(column, value))
        for column in columns
        for value in range(1, schema.shape[column])
    )


def _only_parities(batch: QueryClass) -> bool:
    """Whether the table of each query alternates; over one literal that says nothing of its class."""
    if not isinstance(batch, Symmetric):
        return False
    return all(
        len(q.table) > 2 and all(a != b for a, b in zip(q.table, q.table[1:], strict=False))
        for q in batch.queries
    )
