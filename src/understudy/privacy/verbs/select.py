"""Queries on which a model is wrong: the exponential mechanism on errors (proofs/select, M2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import Counts
from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.noise.exponential import ScoreTable, draw
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.requests import (
    Choice,
    check_distinct,
    check_sizes,
    checked_shares,
    choices_of,
    exact_rho,
    whole,
)
from understudy.privacy.verbs.base import Priced, Public, Verb, public_reads, read
from understudy.queries.base import QueryClass

LARGEST_SCORE = 2**40  # far below what 64-bit arithmetic could wrap


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Select(Verb[list[Choice]]):
    """Draw queries on which a model is wrong.

    A query's score is ``|m*count - round(m*n*share)|`` rows, m the multiplier.

    Attributes:
        batches: the batches to draw from.
        shares: the model's answers.
        rho: what all draws cost together.
        draws: how many.
        multiplier: m.
        signed: whether queries and their negations compete on the error with its sign.
        distinct: whether no candidate is drawn twice.
    """

    batches: Sequence[QueryClass]
    shares: Sequence[np.ndarray]
    rho: int | Fraction
    draws: int = 1
    multiplier: int = 1
    signed: bool = False
    distinct: bool = False

    name: ClassVar[str] = "select"
    draw: ClassVar = staticmethod(draw)

    def priced(self, public: Public) -> Priced[list[Choice]]:
        originals, signed, distinct = tuple(self.batches), bool(self.signed), bool(self.distinct)
        batches = tuple(map(public.own, originals))
        check_sizes(batches)
        shares = checked_shares(batches, self.shares)
        rho = exact_rho(self.rho)
        # NumPy's whole numbers would wrap, and are not exact to the accountant
        draws, multiplier = whole(self.draws, 1), whole(self.multiplier, 1)
        if draws is None or multiplier is None:
            raise ParameterError(
                "A selection needs at least one draw and a multiplier of at least 1, both whole"
                " numbers."
            )
        reads = read(batches)
        candidates = sum(size for _, size in reads)
        check_distinct(draws, candidates * (2 if signed else 1), distinct)
        table = ScoreTable.within(rho / draws, multiplier, highest(public.rows, multiplier, signed))
        shift = table.log_weight_shift(multiplier)
        wanted = in_rows(shares, public.rows, multiplier)

        def answer(exact: Sequence[Counts], noise: Noise) -> list[Choice]:
            scores = scored(exact, wanted, multiplier, table, signed)
            indices = Select.draw(noise, scores, table, draws, distinct=distinct)
            return choices_of(public_reads(originals, reads), indices)

        what = f"select {draws} of {candidates:,}"
        event = ev.ExponentialDraws(what=what, log_weight_shift=shift, draws=draws)
        return Priced(events=(event,), reads=reads, answer=answer)


def highest(rows: int, multiplier: int, signed: bool) -> int:
    """The largest score that there can be."""
    top = multiplier * rows
    if top > LARGEST_SCORE:
        raise ParameterError(
            f"A selection with multiplier {multiplier:,} over {rows:,} rows has scores"
            f" beyond {LARGEST_SCORE:,}."
        )
    return 2 * top if signed else top


def in_rows(shares: Sequence[np.ndarray], rows: int, multiplier: int) -> list[np.ndarray]:
    """A model's answers as whole rows, inside what counts can be: public arithmetic."""
    # clipped first: an absurd share times the rows would overflow
    inside = (np.clip(np.nan_to_num(share), 0, 1) for share in shares)
    return [np.rint(share * (multiplier * rows)).astype(np.int64) for share in inside]


def scored(
    exact: Sequence[Counts],
    wanted: Sequence[np.ndarray],
    multiplier: int,
    table: ScoreTable,
    signed: bool,
) -> np.ndarray:
    """What each candidate scores."""
    gaps = np.concatenate(
        [
            # No share asks for more rows than this, and below it nothing can wrap in 64 bits,
            # whatever n is.
            multiplier
            * np.minimum(counts.dense().astype(np.int64), 2 * LARGEST_SCORE // multiplier)
            - answers
            for counts, answers in zip(exact, wanted, strict=True)
        ]
    )
    if not signed:
        return np.abs(gaps)
    # the table may be narrower than the counts: clip around no error, not at one end
    middle = table.top // 2
    gaps = np.clip(gaps, -middle, middle)
    return np.concatenate([middle + gaps, middle - gaps])
