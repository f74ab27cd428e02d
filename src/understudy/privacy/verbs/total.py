"""The number of rows with noise, where it is private (proofs/total)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from understudy.privacy.noise.samplers import Noise
from understudy.privacy.verbs.base import Priced, Public, Verb
from understudy.privacy.verbs.measure import Measure, Measurement
from understudy.queries.marginal import Marginal

EVERYBODY = Marginal((), ())  # the marginal of no columns: one cell, with every row


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReleaseTotal(Verb[Measurement]):
    """The number of rows with noise: from then on, the meter's ``rows`` (M1)."""

    rho: int | Fraction

    name: ClassVar[str] = "release_total"

    def priced(self, public: Public) -> Priced[Measurement]:
        measured = Measure(batches=(EVERYBODY,), rho=self.rho).priced(public)

        def answer(exact: object, noise: Noise) -> Measurement:
            return measured.answer(exact, noise)[0]

        return Priced(events=measured.events, reads=measured.reads, answer=answer)
