"""What one check found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# in files, where they are as they were first written
KEYS = {"observed": "found", "holds": "held", "detail": "said"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One check: what was claimed, and what was found.

    Attributes:
        kind: ``replay``, ``law`` or ``statistical``.
        subject: the mechanism or the verb.
        relation: which neighbours.
        pair: which tables, in a few words.
        unit: what ``claimed`` and ``observed`` are: ``of the charge`` (1 is all of it) or ``epsilon at
            delta ...``.
        claimed: no more than this was promised.
        observed: so much of it was seen: the most, or a lower bound that holds with 99.9% confidence.
        runs: how many pairs, neighbours or draws that rests on.
        holds: whether the claim was kept.
        detail: a few words more.
    """

    kind: str
    subject: str
    relation: str
    pair: str
    unit: str
    claimed: float
    observed: float
    runs: int
    holds: bool
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        return {KEYS.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Row:
        names = {key: name for name, key in KEYS.items()}
        return cls(**{names.get(key, key): value for key, value in data.items()})


def breaches(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.holds]
