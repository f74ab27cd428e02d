"""What was done to learn a rule, as a value with one writer and one reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from understudy.bundle.entries import (
    Entries,
    Malformed,
    plain,
    this_second,
    this_version,
    versions_of,
)
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import total_cost
from understudy.queries.attribute import Attribute
from understudy.queries.base import Neighbours
from understudy.rules.task import Task

CONFIDENCE = 0.95  # the same as a certificate's
PACKAGES = ("numpy", "numba", "pyarrow")  # that a rule depends on


@final
@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is promised of one row, and under ``reads`` whether it is conditional."""

    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
    conditional_on: str | None
    reads: str

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, condition: str | None) -> Guarantee:
        return cls(
            epsilon=epsilon,
            delta=delta,
            neighbours=Neighbours.REPLACE_ONE,
            conditional_on=condition,
            reads="unconditional" if condition is None else f"conditional on {condition}",
        )


@final
@dataclass(frozen=True, kw_only=True)
class Mistakes:
    """What mistakes cost a row, with an interval that holds with probability ``confidence``."""

    cost: str
    share: float
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, noisy_sum: tuple[int, Fraction], rows: int, top: int) -> Mistakes:
        """Of a noisy sum and its scale: P(|noise| > k) <= exp(-k / scale)."""
        noisy, scale = noisy_sum
        margin = math.ceil(scale * math.log(1 / (1 - CONFIDENCE)))
        low, high = max(0, noisy - margin), min(top * rows, noisy + margin)
        return cls(
            cost=str(noisy),
            share=min(max(noisy / rows, 0), top),
            low=low / rows,
            high=high / rows,
            confidence=CONFIDENCE,
        )


@final
@dataclass(frozen=True, kw_only=True)
class Spent:
    """What all events come to."""

    rho: Fraction
    delta: Fraction


@final
@dataclass(frozen=True, kw_only=True)
class RuleManifest:
    """What was done to learn a rule. All of it is public or noisy.

    Attributes:
        made_by: name and version of the software.
        made_at: when, in UTC.
        label: the question that the rule answers, in words.
        costs: of each kind of mistake.
        mistakes: how often the rule is wrong; None if that was not asked.
        events: every charge, in its order; ``spent`` is what they come to.
        ledger: where the charge is written, in words.
    """

    made_by: str
    made_at: str
    method: str
    guarantee: Guarantee
    label: str
    costs: tuple[int, int]
    rows: int
    mistakes: Mistakes | None
    spent: Spent
    events: tuple[ev.Event, ...]
    versions: Mapping[str, str]
    ledger: str

    @classmethod
    def of(
        cls,
        task: Task,
        *,
        method: str,
        guarantee: Guarantee,
        rows: int,
        noisy_sum: tuple[int, Fraction] | None,
        events: Sequence[ev.Event],
        ledger: str,
    ) -> RuleManifest:
        """Of a rule that has just been learnt by this version; ``noisy_sum`` are its mistakes, with
        noise, and the scale of that.
        """
        spent = total_cost(events)
        return cls(
            made_by=this_version(),
            made_at=this_second(),
            method=str(method),
            guarantee=guarantee,
            label=task.label.name if isinstance(task.label, Attribute) else str(task.label),
            costs=task.costs,
            rows=rows,
            mistakes=None if noisy_sum is None else Mistakes.of(noisy_sum, rows, max(task.costs)),
            spent=Spent(rho=spent.rho, delta=spent.delta),
            events=tuple(events),
            versions=versions_of(*PACKAGES),
            ledger=ledger,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the file; rationals become "p/q"."""
        return dict(plain(self))

    @classmethod
    def from_dict(cls, data: Any) -> RuleManifest:
        """The inverse of :meth:`to_dict`; raises ValueError on anything else."""
        return Entries(data, "manifest").read(_manifest)


def _manifest(entries: Entries) -> RuleManifest:
    return RuleManifest(
        made_by=entries.text("made_by"),
        made_at=entries.text("made_at"),
        method=entries.text("method"),
        guarantee=entries.inside("guarantee", _guarantee),
        label=entries.text("label"),
        costs=_costs(entries.wholes("costs")),
        rows=entries.whole("rows"),
        mistakes=None if entries.takes_none("mistakes") else entries.inside("mistakes", _mistakes),
        spent=entries.inside("spent", _spent),
        events=entries.events("events"),
        versions=entries.texts("versions"),
        ledger=entries.text("ledger"),
    )


def _costs(pair: tuple[int, ...]) -> tuple[int, int]:
    if len(pair) != 2:
        raise Malformed("its entry manifest.costs is not a pair")
    return pair[0], pair[1]


def _guarantee(entries: Entries) -> Guarantee:
    return Guarantee(
        epsilon=entries.rational("epsilon"),
        delta=entries.rational("delta"),
        neighbours=entries.neighbours("neighbours"),
        conditional_on=entries.optional("conditional_on", str, "text"),
        reads=entries.text("reads"),
    )


def _mistakes(entries: Entries) -> Mistakes:
    return Mistakes(
        cost=entries.text("cost"),
        share=entries.number("share", 0),
        low=entries.number("low", 0),
        high=entries.number("high"),  # below 0 if the noise was
        confidence=entries.number("confidence", 0, 1),
    )


def _spent(entries: Entries) -> Spent:
    return Spent(rho=entries.rational("rho"), delta=entries.rational("delta"))
