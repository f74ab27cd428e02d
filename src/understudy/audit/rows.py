"""What one check found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One check: what was claimed, and what was found.

    Attributes:
        kind: ``replay``, ``law`` or ``statistical``.
        subject: the mechanism or the verb.
        relation: which neighbours.
        pair: which tables, in a few words.
        unit: what ``claimed`` and ``found`` are: ``of the charge`` (1 is all of it) or ``epsilon at
            delta ...``.
        claimed: no more than this was promised.
        found: so much of it was seen: the most, or a lower bound that holds with 99.9% confidence.
        runs: how many pairs, neighbours or draws that rests on.
        held: whether the claim was kept.
        said: a few words more.
    """

    kind: str
    subject: str
    relation: str
    pair: str
    unit: str
    claimed: float
    found: float
    runs: int
    held: bool
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Row:
        return cls(**data)


def breaches(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.held]
