"""The weights of cells that best tell the rows from made ones (proofs/discriminate, M14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import Verbs
from understudy.errors import NotSupported, ParameterError
from understudy.privacy.logistic import FAR, Discriminator, Question
from understudy.privacy.looking import guarded
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.verbs.base import Passes, Priced, Public, Verb
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Discriminate(Verb[Discriminator]):
    """The discriminator between the rows and ``fake`` ones, under Gaussian noise on the objective.

    The cost is a curve, and a little beside it for what separates the minimum that is found from
    the true one.

    Attributes:
        batches: the marginals whose cells have weights.
        fake: public rows of codes.
        weight: how often a made row counts.
        ridge: holds the weights back.
        sigma: the noise on their slope, in rows.
    """

    batches: Sequence[Marginal]
    fake: np.ndarray
    weight: int
    ridge: int
    sigma: int | Fraction

    name: ClassVar[str] = "discriminate"

    def priced(self, public: Public) -> Priced[Discriminator]:
        if public.neighbours is not Neighbours.REPLACE_ONE:
            raise NotSupported(
                "A discriminator is proved private for a public number of rows only; use"
                " replace-one."
            )
        asked = Question.checked(
            self.batches, self.fake, public.shape, rows=public.rows, weight=self.weight,
            ridge=self.ridge, sigma=self.sigma,
        )  # fmt: skip
        terms = asked.terms

        def answer(table: Verbs, noise: Noise) -> Discriminator:
            b = noise.gaussian(terms.cells, Fraction(terms.sigma))
            # probability below 10^-880 whatever the data; nothing was released
            if np.abs(b).max() > FAR * terms.sigma:
                raise RuntimeError(
                    "The noise sampler met an event that does not happen; run again."
                )
            theta = guarded(lambda: asked.answered(table, b))
            # noise is drawn for so many numbers, and must never be stretched over more
            if theta.shape != (terms.cells,):
                raise ParameterError(
                    "These marginals are written for another schema than the table's."
                )
            return Discriminator(
                asked.batches, theta + noise.gaussian(terms.cells, terms.cover), terms
            )

        return Priced(events=terms.events, reads=Passes(), answer=answer)
