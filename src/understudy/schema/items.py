"""Tables of items: every person has some items of one long public list. Ten to a million columns
that are true or false.

Such a table is written as pairs (row, item), one for each item that a person has. It has no place
for an OTHER or a MISSING: an item that is not listed is not there. A listed item is a
:class:`Boolean` column like any other, made when it is asked for, because a million of them would
be large and mostly idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa

from understudy.errors import SchemaError
from understudy.schema.columns import Boolean, Categorical, Column, text_of

MOST_ITEMS = 10_000_000  # large enough; so many names take about a gigabyte
WORDS = {"row", "item", "title", "description"}  # for readers only
SETTINGS = {"items", "density"} | WORDS  # any other key is refused


@dataclass(frozen=True)
class ItemColumns(Sequence[Column]):
    """The columns of a table of items.

    Attributes:
        names: the items, in order.
        numeric: whether pairs name them by whole numbers, not by text.
        counted: whether they are the numbers from 0, so that a file needs only to say how many.
        density: how likely a person is to have an item of which nothing was learnt; a public guess,
            not a finding.
        row: what pairs call a person; ``item`` what they call an item.
    """

    names: tuple[str, ...]
    numeric: bool = False
    counted: bool = False
    density: float = 0.0
    row: str = "row"
    item: str = "item"

    def __post_init__(self) -> None:
        if not 1 <= len(self.names) <= MOST_ITEMS:
            raise SchemaError(f"A table of items needs from 1 to {MOST_ITEMS:,} of them.")
        if not _is_share(self.density):
            raise SchemaError(
                "The density of a table of items must be a number from 0 to 1: a public guess."
            )
        if not (
            isinstance(self.row, str)
            and isinstance(self.item, str)
            and self.row
            and self.item
            and self.row != self.item
        ):
            raise SchemaError(
                "The pairs of a table of items need two different names for their columns, row and"
                " item."
            )
        if not self.counted:
            _ = self.listing  # refuses an item that is listed twice, or that no cell can be

    @classmethod
    def of(cls, items: int | Iterable[Any], **settings: Any) -> ItemColumns:
        """So many items, numbered from 0; or those that are listed, texts or whole numbers."""
        if isinstance(items, (int, np.integer)) and not isinstance(items, bool):
            if not 1 <= items <= MOST_ITEMS:
                raise SchemaError(f"A table of items needs from 1 to {MOST_ITEMS:,} of them.")
            return cls(tuple(map(str, range(int(items)))), numeric=True, counted=True, **settings)
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise SchemaError(
                "The items of a table are a number of them, or a list of texts or whole numbers."
            )
        listed = list(items)
        numeric = all(
            isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in listed
        )
        if not numeric and not all(isinstance(item, str) for item in listed):
            raise SchemaError(
                "The items of a table are listed as texts or as whole numbers, not both."
            )
        if numeric and any(abs(int(item)) > 2**53 for item in listed):
            raise SchemaError(
                "An item that is a whole number must be within 2^53; list longer ones as texts."
            )
        return cls(
            tuple(text_of(item) if isinstance(item, str) else str(int(item)) for item in listed),
            numeric=numeric,
            **settings,
        )

    # ------------------------------------------------------------------ a sequence of columns

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> Column: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Column]: ...

    def __getitem__(self, at: int | slice) -> Column | Sequence[Column]:
        if isinstance(at, slice):
            return [Boolean(name=name) for name in self.names[at]]
        return Boolean(name=self.names[at])

    @cached_property
    def listing(self) -> Categorical:
        """The item of a pair as a column of its own: cells that name no listed item are OTHER."""
        return Categorical(name=self.item, categories=self.names, numeric=self.numeric, other=True)

    @cached_property
    def guess(self) -> np.ndarray | None:
        """Columns x 2: how likely each item is absent and present when nothing is known; None when
        both are alike.
        """
        return (
            None
            if self.density == 0.5
            else np.tile([1.0 - self.density, self.density], (len(self), 1))
        )

    # ------------------------------------------------------------------ rows as pairs

    def decode(self, codes: np.ndarray) -> pa.Table:
        """Rows as pairs, rising; a row without items has none."""
        rows, items = np.nonzero(codes)
        # an item has no bin to draw from
        shown = self.listing.decode(items, np.random.default_rng(0))
        return pa.table([pa.array(rows.astype(np.int32)), shown], names=[self.row, self.item])

    # ------------------------------------------------------------------ the file form

    def to_dict(self) -> dict[str, Any]:
        listed: Any = (
            len(self)
            if self.counted
            else [int(name) for name in self.names]
            if self.numeric
            else list(self.names)
        )
        usual = {"row": "row", "item": "item", "density": 0.0}
        return {
            "items": listed,
            **{
                name: getattr(self, name)
                for name, value in usual.items()
                if getattr(self, name) != value
            },
        }

    @staticmethod
    def is_meant(data: Mapping[str, Any]) -> bool:
        """Whether a plain mapping describes items. A domain that happens to have columns of these
        names gives them sizes.
        """
        return (
            "items" in data
            and set(data) <= SETTINGS
            and all(isinstance(data[name], str) for name in WORDS & set(data))
        )


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
