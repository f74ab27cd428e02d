"""All counts of some batches with discrete Gaussian noise (proofs/measure, M1 and M5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS, Counts
from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.noise.samplers import Noise, round_sigma_up, sqrt_up
from understudy.privacy.noise.wide import noisy_above, threshold_for
from understudy.privacy.requests import as_shares, check_measurable, exact_rho, name_of, whole
from understudy.privacy.verbs.base import Priced, Public, Verb, l2_squared, public_reads, read
from understudy.queries.base import Neighbours, QueryClass

KEPT = 20_000  # empty cells that exceed the threshold of a wide marginal, on average
# so that the threshold of a wide marginal is well beyond sigma (proofs/measure, M5)
MOST_KEPT = DENSE_CELLS // 16
# With no sensitivity (n under replace-one) any noise is private; this is next to none.
LEAST_SIGMA = Fraction(1, 4)


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of a batch of queries: released values, safe to show.

    With a ``threshold``, only the noisy counts above it are here and ``keys`` are the numbers of
    their cells, rising. All that is known of the other cells is that their noisy counts are at most
    the threshold.
    """

    batch: QueryClass
    counts: np.ndarray = field(repr=False)
    sigma: Fraction
    keys: np.ndarray | None = field(default=None, repr=False)
    threshold: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measure(Verb[list[Measurement]]):
    """Several batches at once: one charge for the price of their L2 sensitivities, one pass over
    the data (M1).

    Attributes:
        batches: the batches.
        rho: what they cost together.
        weights: public; the shares of ``rho`` are in proportion to them, equal if there are none.
        sparse: whether only noisy counts above a public threshold are released of every marginal,
            as they are of one too wide to hold whole (M5).
        kept: the threshold is the smallest that at most so many empty cells exceed on average.
    """

    batches: Sequence[QueryClass]
    rho: int | Fraction
    weights: Sequence[int | Fraction] | None = None
    sparse: bool = False
    kept: int = KEPT

    name: ClassVar[str] = "measure"
    noisy_above: ClassVar = staticmethod(noisy_above)

    def priced(self, public: Public) -> Priced[list[Measurement]]:
        originals, sparse = tuple(self.batches), bool(self.sparse)
        batches = tuple(map(public.own, originals))
        check_measurable(batches, sparse)
        rho = exact_rho(self.rho)
        most = whole(self.kept, 1)
        if not batches or most is None or most > MOST_KEPT:
            raise ParameterError(
                "A measurement needs something to measure, and kept, a whole number up to"
                f" {MOST_KEPT:,}."
            )
        reads = read(batches)
        events = charges(batches, rho, public.neighbours, self.weights)
        sigmas = [sigma_of(event) for event in events]
        names = public_reads(originals, reads)
        limits = [most if sparse or size > DENSE_CELLS else None for _, size in reads]

        def answer(exact: Sequence[Counts], noise: Noise) -> list[Measurement]:
            return [
                noisy(name.batch, counts, sigma, limit, noise)
                for name, counts, sigma, limit in zip(names, exact, sigmas, limits, strict=True)
            ]

        return Priced(events=events, reads=reads, answer=answer)


def charges(
    batches: Sequence[QueryClass],
    rho: Fraction,
    neighbours: Neighbours,
    weights: Sequence[int | Fraction] | None = None,
) -> tuple[ev.DiscreteGaussian, ...]:
    """What measuring some batches for at most ``rho`` is charged as: sigma is rounded up, so it
    costs a little less. From public numbers alone, so that a plan can ask, too.
    """
    events = []
    for batch, share in zip(batches, as_shares(weights, len(batches)), strict=True):
        l2 = l2_squared(batch, neighbours)
        sigma = round_sigma_up(max(sqrt_up(l2 / (2 * rho * share)), LEAST_SIGMA))
        events.append(
            ev.DiscreteGaussian(
                what=f"measure {name_of(batch)}", sigma_squared=sigma**2, l2_squared=l2
            )
        )
    return tuple(events)


def sigma_of(event: ev.DiscreteGaussian) -> Fraction:
    """The standard deviation of its noise; a sigma that is drawn with is rational."""
    square = event.sigma_squared
    return Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))


def noisy(
    batch: QueryClass, counts: Counts, sigma: Fraction, most: int | None, noise: Noise
) -> Measurement:
    if most is None:
        return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma), sigma)
    threshold = threshold_for(counts.cells, sigma, most)
    keys, values = Measure.noisy_above(noise, counts, sigma, threshold)
    return Measurement(batch, values, sigma, keys, threshold)
