"""What arp does beyond the tables of a workload, and what that costs: public rules.

A small share of the budget looks for parities of many columns that rows get wrong. With a label, a
larger share goes to what predicts it: its pairs weigh more, and triples with it are selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from understudy.errors import ParameterError
from understudy.game.loop import Played, QueryPlayer
from understudy.game.players.high_order import NARROWEST, WorstParities, WorstTriples, label_triples
from understudy.mechanisms.base import Brief
from understudy.privacy import Measurement, Meter
from understudy.schema import Schema

PARITY_SHARE = Fraction(5, 100)  # of rho, where nobody says otherwise
TRIPLE_SHARE = Fraction(15, 100)  # of rho, with a label
SELECTING = Fraction(1, 2)  # of the share for parities: their tables have few cells
SELECTING_TRIPLES = Fraction(1, 4)
PARITY_ROUNDS, PARITIES_A_ROUND = 2, 2
TRIPLE_ROUNDS, TRIPLES_A_ROUND = 2, 6


@dataclass(frozen=True, kw_only=True)
class HighOrder:
    """What is looked for: shares of rho, and the label's position."""

    parities: Fraction
    triples: Fraction
    label: int | None

    @classmethod
    def of(cls, brief: Brief, label: str | None, share: Fraction | None, on: bool) -> HighOrder:
        """``share`` as asked for; if nobody did, the usual one where it is ``on`` or there is a
        label.
        """
        position = None if label is None else brief.schema.position(label)
        usual = PARITY_SHARE if on or label is not None else Fraction(0)
        possible = len(brief.schema) >= NARROWEST
        triples = position is not None and possible and label_triples(brief.schema, position)
        return cls(
            parities=(usual if share is None else Fraction(share)) if possible else Fraction(0),
            triples=TRIPLE_SHARE if triples else Fraction(0),
            label=position,
        )

    @property
    def share(self) -> Fraction:
        return self.parities + self.triples

    @property
    def numbers(self) -> dict[str, object]:
        """For the manifest."""
        return {"high_order": self.parities, "label_share": self.triples}

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
            for finding in played.findings[-self.tables :]
            if isinstance(finding, Measurement)
        ]
        return {"beyond": "; ".join(", ".join(schema.names[c] for c in one) for one in tables)}

    @property
    def tables(self) -> int:
        """How many tables are measured at most."""
        triples = TRIPLE_ROUNDS * TRIPLES_A_ROUND if self.triples else 0
        return triples + (PARITY_ROUNDS * PARITIES_A_ROUND if self.parities else 0)

    def steps(self, meter: Meter, brief: Brief, rho: Fraction) -> list[QueryPlayer]:
        """Query players for a whole budget of ``rho``, one a round."""
        steps: list[QueryPlayer] = []
        if self.triples:
            assert self.label is not None
            each = rho * self.triples / TRIPLE_ROUNDS
            triples = WorstTriples(
                meter,
                brief.schema,
                select=each * SELECTING_TRIPLES,
                measure=each * (1 - SELECTING_TRIPLES),
                draws=TRIPLES_A_ROUND,
                label=self.label,
            )
            steps += [triples] * TRIPLE_ROUNDS
        if self.parities:
            each = rho * self.parities / PARITY_ROUNDS
            parities = WorstParities(
                meter,
                brief.schema,
                select=each * SELECTING,
                measure=each * (1 - SELECTING),
                draws=PARITIES_A_ROUND,
                label=self.label,
            )
            steps += [parities] * PARITY_ROUNDS
        return steps


def check_high_order(brief: Brief, label: str | None, share: Fraction | None) -> None:
    """Refuse, in a sentence, a label that is no column, or a share that is none."""
    if label is not None:
        brief.schema.position(label)
    if share is not None and not 0 <= share <= Fraction(1, 2):
        raise ParameterError(
            "arp needs high_order, the share of the budget for parities, from 0 to 1/2."
        )
