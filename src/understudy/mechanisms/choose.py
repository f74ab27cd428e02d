"""``auto``: which mechanism serves a request best, from public facts only."""

from __future__ import annotations

from understudy.game.players.rows import MOST_COLUMNS
from understudy.mechanisms.arp import Arp
from understudy.mechanisms.base import Brief, Mechanism
from understudy.mechanisms.independent import Independent
from understudy.mechanisms.matrix import Matrix
from understudy.mechanisms.papers.dualquery import DualQuery

# what ``choose`` does, for those who read it in a list of mechanisms
RULE = (
    "matrix where only ranges are asked about; independent where only single columns are;"
    f" dualquery for tables of more than {MOST_COLUMNS:,} columns; arp for all others"
)


def choose(brief: Brief, label: str | None = None) -> tuple[Mechanism, str]:
    """(a mechanism, why): depends on the schema, the workload and the label, never on rows."""
    if label is not None:
        return Arp(label=label), "it is the one that a label steers (docs/learning-from-rows.md)"
    if all(batch.as_boxes() is not None for batch in brief.workload) and Matrix().serves(brief):
        return (
            Matrix(),
            "the workload asks about ranges only, and it measures their columns in bins of every"
            " width (docs/choosing.md)",
        )
    if all(len(batch.columns) < 2 for batch in brief.workload):
        return (
            Independent(),
            "the workload asks about single columns only, and all of the budget goes to them",
        )
    if len(brief.schema) > MOST_COLUMNS:
        return (
            DualQuery(),
            (
                "the table is too wide to measure or to keep whole rows of; it draws queries and"
                " solves for one record a round"
            ),
        )
    return (
        Arp(),
        (
            "it measures whole marginals and fits rows to them, for any table and any workload"
            " (docs/arp.md)"
        ),
    )
