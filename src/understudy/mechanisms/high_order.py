"""What arp does beyond the tables of a workload, and what that costs: public rules.

A small share of the budget looks for parities of many columns that rows get wrong. With a label, a
larger share goes to what predicts it: its pairs weigh more, and triples with it are selected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from understudy.counting.tally import LARGEST_TABLE
from understudy.errors import ParameterError
from understudy.game.loop import Played, QueryPlayer
from understudy.game.players.high_order import (
    NARROWEST,
    AllBits,
    WorstParities,
    WorstTriples,
    label_triples,
)
from understudy.game.players.resolving import OF_LABEL
from understudy.mechanisms.base import Brief, Means, cost_of_measuring, fewest_rows
from understudy.privacy import Measurement, Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.marginal import Marginal
from understudy.schema import Schema

# Of rho, where nobody says otherwise: a parity that is off by some per cent of the rows is found
# with far less, and its table has few cells.
SHARE = Fraction(3, 100)
TABLES = 2  # of parities: heat holds them back by the square of their noise
SELECTING = Fraction(1, 6)  # of each of these shares
MOST = Fraction(2, 5)  # each: something must be left for the tables that are asked for
TRIPLES = 6  # selected at most, at once: a refit takes as long as all else
# Where all other noise is Gaussian, a selection would lose its closer accounting, which is worth
# 5% of noise. There the table of all bits is measured, for more.
SHARE_OF_ALL_BITS = Fraction(6, 100)
FIRST = Fraction(1, 2)  # of it, for the table of all bits
# while chance among all parities is at most so much of the rows
CLEAR = 0.3
MOST_BITS = 20  # a million cells
WIDTHS = 3  # a table of many columns, and its sums of one and two


@dataclass(frozen=True, kw_only=True)
class HighOrder:
    """What is looked for: shares of rho, the label's position, and whether the table of all bits is
    measured instead of selecting.
    """

    parities: Fraction
    triples: Fraction
    label: int | None
    all_bits: bool = False

    @classmethod
    def of(cls, brief: Brief, means: Means, asked: Asked, alone: Cost) -> HighOrder:
        """Shares as asked for; if nobody did, the usual one where it costs others little, or there
        is a label. ``alone``: what the tables of the workload cost by themselves.
        """
        label, share = asked.label, asked.high_order
        position = brief.schema.position(label) if label else None
        if len(brief.schema) < NARROWEST:
            return cls(parities=Fraction(0), triples=Fraction(0), label=position)
        gaussian = alone.least_variance is not None and position is None
        usual = SHARE_OF_ALL_BITS if gaussian else SHARE
        clear = gaussian and _is_clear(brief, means, usual if share is None else share)
        default = usual if clear or not gaussian else Fraction(0)
        triples = position is not None and label_triples(brief.schema, position)
        return cls(
            parities=default if share is None else Fraction(share),
            triples=Fraction(asked.triples) if triples else Fraction(0),
            label=position,
            all_bits=clear,
        )

    @property
    def share(self) -> Fraction:
        return self.parities + self.triples

    @property
    def numbers(self) -> dict[str, object]:
        """For the manifest."""
        ours: dict[str, object] = {"high_order": self.parities}
        if self.label is not None:
            ours |= {"label_weight": OF_LABEL}
        return ours

    @property
    def how(self) -> str:
        return " and ".join(
            words
            for words, share in (
                ("triples of the label", self.triples),
                ("parities of many columns", self.parities),
            )
            if share
        )

    def facts(self, played: Played, schema: Schema) -> dict[str, str]:
        """Which columns were found to matter together: released values."""
        tables = [
            finding.batch.columns
            for finding in played.findings[-self._tables :]
            if isinstance(finding, Measurement)
        ]
        return {"beyond": "; ".join(", ".join(schema.names[c] for c in one) for one in tables)}

    @property
    def _tables(self) -> int:
        """How many tables are measured last."""
        return TRIPLES * bool(self.triples) + TABLES * bool(self.parities)

    @property
    def refits(self) -> int:
        """How often rows are fitted anew: to each width of the tables measured."""
        return WIDTHS * (bool(self.triples) + bool(self.parities))

    def cost(self, usual: Cost, brief: Brief, rho: Fraction) -> Cost:
        """With that of the others: all of rho, as Gaussian noise where nothing is selected."""
        if not self.all_bits:
            return Cost(rho)
        some = [Marginal((0,), (brief.schema.shape[0],))]  # any table costs as much
        share = rho * self.parities
        return usual + cost_of_measuring(
            brief.neighbours,
            (some, share * FIRST, None),
            (some * TABLES, share * (1 - FIRST), None),
        )

    def steps(self, meter: Meter, brief: Brief, rho: Fraction) -> list[QueryPlayer]:
        """Query players for a whole budget of ``rho``, one a round."""
        steps: list[QueryPlayer] = []
        if self.triples:
            assert self.label is not None
            share = rho * self.triples
            triples = WorstTriples(
                meter,
                brief.schema,
                select=share * SELECTING,
                measure=share * (1 - SELECTING),
                draws=TRIPLES,
                label=self.label,
            )
            steps.append(triples)
        if self.parities:
            steps.append(self._of_parities(meter, brief, rho * self.parities))
        return steps

    def _of_parities(self, meter: Meter, brief: Brief, rho: Fraction) -> QueryPlayer:
        """Who looks for parities."""
        if self.all_bits:
            return AllBits(
                meter, brief.schema, first=rho * FIRST, then=rho * (1 - FIRST), tables=TABLES
            )
        return WorstParities(
            meter,
            brief.schema,
            select=rho * SELECTING,
            measure=rho * (1 - SELECTING),
            draws=TABLES,
            label=self.label,
        )


def _is_clear(brief: Brief, means: Means, share: Fraction) -> bool:
    """The public rule: few columns, so that the largest noise of a parity, a sum over half of the
    cells, is a small share of the rows.
    """
    bits, shape = len(brief.schema), brief.schema.shape
    if not share or bits > MOST_BITS or math.prod(shape) > LARGEST_TABLE:
        return False
    table = Marginal((0,), (shape[0],))
    l2 = table.l2_squared(brief.neighbours)
    sigma = math.sqrt(l2 / (2 * float(means.rho * share * FIRST)))
    # of so many noises, about
    largest = sigma * math.sqrt(2 ** (bits - 1)) * math.sqrt(2 * math.log(2) * bits)
    return largest <= CLEAR * fewest_rows(brief, means)


class Asked(Protocol):
    """The parameters of arp that are for this."""

    @property
    def label(self) -> str: ...

    @property
    def high_order(self) -> Fraction | None: ...

    @property
    def triples(self) -> Fraction: ...


def check_high_order(brief: Brief, asked: Asked) -> None:
    """Refuse, in a sentence, a label that is no column, or a share that is none."""
    label = asked.label
    if label:
        brief.schema.position(label)
        if all(len(columns) < 2 for batch in brief.workload for columns in batch.column_sets()):
            raise ParameterError(
                "A label says which pairs of columns matter most, and this workload asks about"
                " single columns only; ask for 2-way, or leave the label out."
            )
    if asked.triples and not label:
        raise ParameterError("Triples are those of a label; name one, or leave triples out.")
    if not all(0 <= share <= MOST for share in (asked.high_order or 0, asked.triples)):
        raise ParameterError(
            "arp needs high_order and triples, shares of the budget, from 0 to 2/5 each."
        )
