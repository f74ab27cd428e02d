"""Room 3: where the sensitive rows live. Only ``privacy/`` and ``api/session.py`` open it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy import sources as room
from understudy.errors import SourceError
from understudy.runtime.discovery import classes_in
from understudy.schema import Schema
from understudy.sources.base import Source


def open_source(table: Any, schema: Schema) -> Source:
    """A source for a table: of the first kind in this folder that opens it. What none opens is
    refused in a sentence, and a source that was opened before is taken as it is.
    """
    if isinstance(table, Source):
        if table.schema != schema:
            raise SourceError("The source was opened with another schema than the release's.")
        return table
    # The first array that Arrow turns into NumPy's makes it look for pandas, and an interrupt in the
    # midst of that is lost. Here nothing is charged yet, and whoever asks can ask again.
    pa.array([0]).to_numpy(zero_copy_only=False)
    for kind in source_kinds():
        source = kind.opened(table, schema)
        if source is not None:
            return source
    raise _refusal(table)


@cache
def source_kinds() -> tuple[type[Source], ...]:
    """Every kind of source in this folder; a list that no installed package can add to. Those of
    items come first, because they take their pairs from the others.
    """
    kinds = classes_in(room, Source)  # type: ignore[type-abstract]
    return tuple(sorted(kinds, key=lambda kind: not kind.holds_items))


def _refusal(table: Any) -> SourceError:
    from understudy.sources.frames import cannot_be_read
    from understudy.sources.paths import expand

    kinds = [kind for kind in source_kinds() if kind.reads]
    if not isinstance(table, (str, Path)):
        memory = " or ".join(kind.reads for kind in kinds if not kind.in_files)
        return cannot_be_read(table, f"a path, {memory}")
    expand(table)  # raises unless there is such a file
    files = ", or ".join(kind.reads for kind in kinds if kind.in_files)
    return SourceError(
        f"{str(table)!r} is not a table that can be read; give {files}. Several files must be all"
        " of one kind."
    )


__all__ = ["Source", "open_source", "source_kinds"]
