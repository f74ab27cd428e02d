"""A bound on the largest error of released answers (proofs/certify, M3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from understudy.counting.tally import Counts
from understudy.errors import BudgetRefused
from understudy.privacy.accounting import events as ev
from understudy.privacy.certificate import Certificate, certificate
from understudy.privacy.noise.samplers import Noise, round_sigma_up, sqrt_up
from understudy.privacy.requests import checked_answers
from understudy.privacy.scores import MarginalScore, gaps
from understudy.privacy.verbs.base import Priced, Public, Verb, read
from understudy.queries.base import QueryClass


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Certify(Verb[Certificate]):
    """A bound on the largest error of released answers, for what was set aside for it.

    Attributes:
        batches: the queries; wide marginals stay sparse.
        answers: counts among released rows.
        released_rows: so many.
    """

    batches: Sequence[QueryClass]
    answers: Sequence[Counts]
    released_rows: int

    name: ClassVar[str] = "certify"

    def priced(self, public: Public) -> Priced[Certificate]:
        rows, rows_sigma = public.rows, public.rows_sigma
        reads = read(tuple(map(public.own, self.batches)))
        answers, released = checked_answers(reads, self.answers, self.released_rows, rows)
        if public.certified:
            raise BudgetRefused("A release is certified once; its share for that is spent.")
        sigma = round_sigma_up(max(sqrt_up(1 / (2 * public.set_aside)), Fraction(1, 4)))
        queries = sum(size for _, size in reads)

        def answer(exact: Sequence[Counts], noise: Noise) -> Certificate:
            errors = gaps(
                exact, answers, rows=rows, answer_rows=released, score=MarginalScore.LARGEST
            )
            noisy = int(errors.max()) + int(noise.gaussian(1, sigma)[0])
            return certificate(noisy, sigma, rows, rows_sigma, queries)

        return Priced(
            events=(ev.DiscreteGaussian(what="certify", sigma_squared=sigma**2, l2_squared=1),),
            reads=reads,
            answer=answer,
            certifies=True,
        )
