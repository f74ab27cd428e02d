"""The names of a table's columns beside those of its schema: what is absent, what is ignored, and
what may be said of it.

Names of columns are public, cells are not, and the first line of a CSV file without a header is a
person. So what a table calls its columns is shown only as far as it cannot be a person's cells. A
word of the schema is one of its names that cannot be a cell of its own table: no column reads it as
a value or as missing. Then

    another spelling of an absent word (case, spaces, punctuation)   is shown: it tells nothing that the schema does not
    a name that is nearly an absent one     is shown when all other names of the schema are there, one of them a word
    the names of columns that are ignored   are shown when all names of the schema are there, two of them words

A person would have to hold, cell by cell, what the schema calls its columns, in words that its
columns do not take. Columns called 0, 1, 2 show nothing: a person's cells may well be 0, 1 and 2.
Otherwise the number of ignored columns is all that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from understudy.errors import SourceError, shown
from understudy.schema import Categorical, Schema
from understudy.schema import cells as c
from understudy.schema.columns import FALSE_TEXTS, TRUE_TEXTS
from understudy.schema.keys import alike, nearest

MOST_SHOWN = 20  # names in a message


def check_header(schema: Schema, names: Sequence[str], *, advice: str) -> str:
    """Raise SourceError, with the source's advice, unless a table with these columns has the
    schema's, each once; which further ones nobody reads, in a sentence.
    """
    distinct = set(names)
    absent = [name for name in schema.names if name not in distinct]
    if absent:
        near = _meant(absent[0], schema, names)
        if near is not None:
            advice = (
                f"did you mean {shown(near)}, which the table has? Names match letter by letter;"
                " correct one of them."
            )
        raise SourceError(
            f"The table has no column {absent[0]!r}, which the schema names; {advice}"
        )
    times = Counter(names)
    twice = [name for name in schema.names if times[name] > 1]
    if twice:
        raise SourceError(
            f"The table has two columns named {twice[0]!r}; column names must differ."
        )
    if len(distinct) < len(names):
        raise SourceError("The table has two columns of one name; column names must differ.")
    return _ignored(schema, names) if len(distinct) > len(schema) else ""


def _meant(absent: str, schema: Schema, names: Sequence[str]) -> str | None:
    """The column that may have been meant, when it may be named."""
    free = [name for name in names if name not in schema.names] if schema.pairs is None else []
    near = (
        next((name for name in free if alike(name) == alike(absent)), None)
        if absent in _words(schema)
        else None
    )
    if near is None and _words_there(schema, names, lacking=1):
        near = nearest(absent, free)
    return near


def _ignored(schema: Schema, names: Sequence[str]) -> str:
    own = set(schema.names)
    ignored = [name for name in names if name not in own]
    listed = ""
    if _words_there(schema, names, lacking=0) >= 2:
        listed = (
            ": "
            + ", ".join(map(shown, ignored[:MOST_SHOWN]))
            + (" and others" if len(ignored) > MOST_SHOWN else "")
        )
    columns = "one column" if len(ignored) == 1 else f"{len(ignored):,} columns"
    return f"The table has {columns} that the schema does not have; ignored{listed}."


def _words_there(schema: Schema, names: Sequence[str], *, lacking: int) -> int:
    """How many words of the schema are among a table's names; none, when more than so many of its
    names are not.
    """
    there = set(map(alike, names))
    present = {name for name in schema.names if alike(name) in there}
    return len(present & _words(schema)) if len(present) >= len(schema) - lacking else 0


def _words(schema: Schema) -> set[str]:
    """The names that are neither a number, a moment, true or false, nor a category or missing value
    of any column.
    """
    values = {*TRUE_TEXTS, *FALSE_TEXTS, *c.NAN_TEXTS, ""}
    for column in schema.columns:
        values |= {
            *column.missing_values,
            *(column.categories if isinstance(column, Categorical) else ()),
        }
    taken = set(map(alike, values))
    names = pa.array(schema.names, pa.large_string())
    read = c.numbers_in_text(names)[1] | c.moments_in_text(names)[1]
    return {
        name
        for name, is_read in zip(schema.names, read, strict=True)
        if not is_read and alike(name) not in taken
    }
