"""Drawn queries that are kept, or replaced by fresh draws (proofs/resample, M9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import Counts
from understudy.errors import NotSupported, ParameterError
from understudy.privacy.noise.exponential import MOST_NATS, ScoreTable, draw
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.requests import (
    Choice,
    check_sizes,
    checked_shares,
    choices_of,
    exact_rho,
    slots_of,
    whole,
)
from understudy.privacy.resampling import resampling
from understudy.privacy.verbs.base import Priced, Public, Verb, public_reads, read
from understudy.privacy.verbs.select import highest, in_rows, scored
from understudy.queries.base import Neighbours, QueryClass

# Of a coin that keeps a drawn query: far from where 60 digits would not do (proofs/resample, M9).
LEAST_SHARPNESS, LEAST_GAMMA, MOST_GAMMA = Fraction(1, 2**80), Fraction(1, 2**40), 2**10


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Resample(Verb[list[Choice]]):
    """Keep each drawn query or replace it by a fresh draw, so that all follow weights that moved a
    little.

    A query is kept with probability exp(-gamma - kappa*(n*(1 + satisfied) - count)), and otherwise
    replaced as by ``Select`` with signs and multiplier ``records``, at the sharpness ``kappa`` a
    row. The cost is a curve, and less than that of drawing anew while kappa times n is small.

    Attributes:
        batches: the batches that are drawn from.
        shares: the answers of the average of the records so far.
        choices: the queries that were drawn.
        satisfied: which of them the last record satisfies.
        kappa: how sharp, a row.
        gamma: how often a query is replaced in any case.
        records: how many records there are.
    """

    batches: Sequence[QueryClass]
    shares: Sequence[np.ndarray]
    choices: Sequence[Choice]
    satisfied: Sequence[bool]
    kappa: Fraction
    gamma: Fraction
    records: int

    name: ClassVar[str] = "resample"
    draw: ClassVar = staticmethod(draw)

    def priced(self, public: Public) -> Priced[list[Choice]]:
        if public.neighbours is not Neighbours.REPLACE_ONE:
            raise NotSupported(
                "Keeping drawn queries is proved private for a public number of rows only; use"
                " replace-one."
            )
        originals = tuple(self.batches)
        batches = tuple(map(public.own, originals))
        check_sizes(batches)
        shares = checked_shares(batches, self.shares)
        kappa, gamma = exact_rho(self.kappa), exact_rho(self.gamma)
        records = whole(self.records, 1)
        if (
            records is None
            or not LEAST_SHARPNESS <= kappa <= MOST_NATS
            or not LEAST_GAMMA <= gamma <= MOST_GAMMA
        ):
            raise ParameterError(
                "Keeping drawn queries needs at least one record, and kappa and gamma neither tiny"
                " nor huge."
            )
        reads = read(batches)
        names = public_reads(originals, reads)
        slots = slots_of(names, self.choices, self.satisfied)
        rows = public.rows
        table = ScoreTable.at(kappa, highest(rows, records, True))
        wanted = in_rows(shares, rows, records)
        candidates = sum(size for _, size in reads)

        def answer(exact: Sequence[Counts], noise: Noise) -> list[Choice]:
            coins = []
            for slot in slots:
                count = min(max(0, int(exact[slot.batch].at(np.asarray([slot.place]))[0])), rows)
                count = count if slot.sign > 0 else rows - count
                coins.append(
                    noise.bernoulli_exp(gamma + kappa * (rows * (2 if slot.hit else 1) - count))
                )
            scores = scored(exact, wanted, records, table, True)
            draws = Resample.draw(noise, scores, table, len(coins) - sum(coins))
            fresh = iter(choices_of(names, draws))
            return [
                Choice(names[slot.batch].batch, slot.place, slot.sign) if keep else next(fresh)
                for slot, keep in zip(slots, coins, strict=True)
            ]

        event = resampling(
            slots=len(slots),
            kappa=kappa,
            gamma=gamma,
            rows=rows,
            records=records,
            candidates=candidates,
        )
        return Priced(events=(event,), reads=reads, answer=answer)
