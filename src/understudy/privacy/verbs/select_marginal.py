"""Whole marginals on which a model is wrong: the exponential mechanism over marginals
(proofs/select_marginal, M4).
"""

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
    check_distinct,
    checked_answers,
    exact_rho,
    whole,
    whole_numbers,
)
from understudy.privacy.scores import MarginalScore, gaps
from understudy.privacy.verbs.base import Priced, Public, Verb, read
from understudy.privacy.verbs.select import LARGEST_SCORE
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SelectMarginal(Verb[list[int]]):
    """Draw whole marginals on which a model is wrong, by index.

    With a the answer rounded to n rows, a candidate's score is ``weight * max(0, s - penalty)``,
    where s is

        LARGEST   max over cells of |count - a|
        TOTAL     sum over cells of max(0, |count - a| - floor)

    Floors, penalties (0 if none are given) and weights (1) are public whole numbers, one a
    candidate. A heavier candidate makes the selection among the others noisier: the largest weight
    is paid for.

    Attributes:
        batches: the candidates; of one in bins, a cell is one of these.
        answers: the model's counts, dense or sparse.
        answer_rows: among so many rows.
        rho: what all draws cost together.
        score: what makes a marginal bad.
        floors: with TOTAL, what an error must exceed to count.
        penalties: what is taken off a score.
        weights: what a score is multiplied with.
        draws: how many.
        distinct: whether no marginal is drawn twice.
    """

    batches: Sequence[Marginal | BinnedMarginal]
    answers: Sequence[Counts]
    answer_rows: int
    rho: int | Fraction
    score: MarginalScore
    floors: Sequence[int] | None = None
    penalties: Sequence[int] | None = None
    weights: Sequence[int] | None = None
    draws: int = 1
    distinct: bool = False

    name: ClassVar[str] = "select_marginal"
    draw: ClassVar = staticmethod(draw)

    def priced(self, public: Public) -> Priced[list[int]]:
        batches, distinct = tuple(map(public.own, self.batches)), bool(self.distinct)
        # the very one: what only says that it is a score would say what it costs, too
        score = next((one for one in MarginalScore if one is self.score), None)
        if not all(isinstance(batch, (Marginal, BinnedMarginal)) for batch in batches):
            raise ParameterError(
                "Only whole marginals can be selected as such; use select for other queries."
            )
        rows, reads = public.rows, read(batches)
        answers, answer_rows = checked_answers(reads, self.answers, self.answer_rows, rows)
        rho = exact_rho(self.rho)
        draws = whole(self.draws, 1)
        if draws is None or score is None:
            raise ParameterError(
                "A selection needs at least one draw, a whole number, and a MarginalScore."
            )
        if self.floors is not None and score is not MarginalScore.TOTAL:
            raise ParameterError(
                "Floors go with the score TOTAL; with LARGEST, give penalties instead."
            )
        floors = whole_numbers(self.floors, len(batches), 0, "Floors")
        penalties = whole_numbers(self.penalties, len(batches), 0, "Penalties")
        weights = whole_numbers(self.weights, len(batches), 1, "Weights")
        check_distinct(draws, len(batches), distinct)
        if max(weights) * rows > LARGEST_SCORE:
            raise ParameterError(
                f"A selection with weight {max(weights):,} over {rows:,} rows has scores beyond"
                f" {LARGEST_SCORE:,}."
            )
        sensitivity = max(weights) * score.sensitivity(public.neighbours)
        # Two tables of n rows differ by at most 2n in total.
        table = ScoreTable.within(
            rho / draws,
            sensitivity,
            max(weights) * rows * (2 if score is MarginalScore.TOTAL else 1),
        )
        shift = table.log_weight_shift(sensitivity)

        def answer(exact: Sequence[Counts], noise: Noise) -> list[int]:
            errors = gaps(
                exact, answers, rows=rows, answer_rows=answer_rows, score=score, floors=floors
            )
            scores = [
                min(weight * max(0, int(gap) - penalty), table.top)
                for gap, penalty, weight in zip(errors, penalties, weights, strict=True)
            ]
            indices = SelectMarginal.draw(
                noise, np.asarray(scores, np.int64), table, draws, distinct=distinct
            )
            return [int(i) for i in indices]

        what = f"select {draws} of {len(batches):,} marginals"
        event = ev.ExponentialDraws(what=what, log_weight_shift=shift, draws=draws)
        return Priced(events=(event,), reads=reads, answer=answer)
