"""A linear discriminator of one-hot cells by objective perturbation, found in whole numbers
(proofs/discriminate, M14).

With h(x) the cells of M public marginals that a row is in and w(s), about 1/(1 + e^s), one minus
the confidence at a score s, it is the theta at which the slope of a convex objective vanishes:

    - sum over rows of w(theta.h) h  +  v * sum over made rows of (1 - w(theta.h)) h  +  ridge * theta  +  b,    b Gaussian

Made rows are public. w is straight between the entries of LEVELS, so it is computed exactly but for
a last digit that is counted, and a theta on a grid is certified by its own slope: it is no further
from the vanishing point than |slope| / ridge. Where floats decide, they decide where to look, never
whether it is good enough. What is released has a little noise of its own over that distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from understudy.counting.tally import DENSE_CELLS, CodedRows, Verbs
from understudy.errors import NotSupported, ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS
from understudy.privacy.accounting.decimals import DIGITS
from understudy.privacy.noise.samplers import (
    LARGEST_WIDE_SIGMA,
    SMALLEST_FAST_SIGMA,
    round_sigma_up,
    sqrt_up,
)
from understudy.privacy.noise.wide import pi_to
from understudy.privacy.requests import exact_number, whole
from understudy.privacy.resampling import HOPELESS, as_decimal, shown_up
from understudy.queries.marginal import Marginal
from understudy.runtime.compiled import kernel

# theta is in units of 2^-46, slopes and weights of rows in 2^-38, b in 2^-30
GRID, FINE, COARSE = 46, 38, 30
# LEVELS are in units of 2^-20, one every 2^-10, for scores from -16 to 16
LEVEL, STEP, FURTHEST = 20, 10, 16
LEVELS = np.rint(
    2**LEVEL / (1 + np.exp(np.arange(-FURTHEST << STEP, (FURTHEST << STEP) + 1) / 2**STEP))
).astype(np.int64)
# the proof needs w to fall from one to zero
if LEVELS[0] != 2**LEVEL or LEVELS[-1] != 0 or (np.diff(LEVELS) > 0).any():
    raise ImportError("This platform's exponential is not good enough for the discriminator.")
# a quarter, but for the rounding of LEVELS
STEEPEST = Fraction(int(-np.diff(LEVELS).min()) << STEP, 1 << LEVEL)
FAR = 64  # sigmas: no b is larger, or the room stops (probability below 10^-880)
LARGEST_SLOPE = 1 << 23  # of all rows and b together: twice that in units of 2^-38 fits 64 bits
LARGEST_SCORE, LARGEST_RIDGE = 1 << 62, 1 << 40  # the former in units of theta
MOST_MARGINALS = 1 << 20  # large enough: rows x marginals is the work of a slope
# in rows: beyond these lie overflows or nothing but noise (proofs/discriminate, M14)
LEAST_SIGMA, MOST_SIGMA = Fraction(1, 64), Fraction(1 << 16)
# a slope of sigma / 2^12 is small enough; noise of sigma / 8 on ridge * theta covers it
CLOSE, LITTLE = 12, 8


@dataclass(frozen=True)
class Terms:
    """The public numbers of one discriminator, and all that follows from them. ``sigma`` is in
    units of 2^-30.
    """

    rows: int
    fake: int  # how much the made rows weigh together
    marginals: int
    cells: int
    ridge: int
    sigma: int

    @classmethod
    def of(
        cls, *, rows: int, fake: int, marginals: int, cells: int, ridge: int, sigma: int | Fraction
    ) -> Terms:
        """With a sigma in rows, rounded up."""
        return cls(rows, fake, marginals, cells, ridge, math.ceil(sigma * 2**COARSE))

    @property
    def steepest(self) -> int:
        """No eigenvalue of the objective's second derivative is above this."""
        return self.ridge + math.ceil((self.rows + self.fake) * self.marginals * STEEPEST)

    @property
    def box(self) -> int:
        """No entry of theta is beyond this: there the ridge pulls harder than all else can push."""
        return -(
            -((self.rows + self.fake) * 2**COARSE + FAR * self.sigma)
            * 2 ** (GRID - COARSE)
            // self.ridge
        )

    @property
    def stop(self) -> int:
        """A slope that is small enough, in units of 2^-38."""
        return self.sigma * 2 ** (FINE - COARSE) // 2**CLOSE

    @property
    def error(self) -> int:
        """How far a computed slope is from the true one at most: a unit in each row's weight, and
        one in each entry of ridge * theta.
        """
        return (self.rows + self.fake) * _root_up(self.marginals) + _root_up(self.cells)

    @property
    def off(self) -> Fraction:
        """How far from where the slope vanishes under continuous noise a certified theta is at
        most, in units of theta.
        """
        # b on its grid is within two steps of a continuous one
        rounded = 2 * _root_up(self.cells) * 2 ** (FINE - COARSE)
        return Fraction((self.stop + self.error + rounded) * 2 ** (GRID - FINE), self.ridge)

    @property
    def cover(self) -> Fraction:
        """The sigma of the noise on what is released, in units of theta."""
        return round_sigma_up(
            max(
                Fraction(self.sigma * 2 ** (GRID - COARSE), LITTLE * self.ridge),
                SMALLEST_FAST_SIGMA,
            )
        )

    @property
    def events(self) -> tuple[ev.Event, ...]:
        """What one discriminator is charged."""
        what = f"discriminator over {self.marginals:,} marginals"
        moved = sqrt_up(Fraction(2 * self.marginals * 4**COARSE, self.sigma**2))
        bend = STEEPEST * self.marginals / self.ridge
        return (
            ev.RenyiCurve(what=what, curve=_curve(moved, bend), rho=zcdp(moved, bend)),
            ev.DiscreteGaussian(
                what=what, sigma_squared=self.cover**2, l2_squared=math.ceil((2 * self.off) ** 2)
            ),
        )


@dataclass(frozen=True)
class Discriminator:
    """A discriminator with noise: released values, safe to show. ``values`` are theta, over all
    cells in order, in units of 2^-46.
    """

    batches: tuple[Marginal, ...] = field(repr=False)
    values: np.ndarray = field(repr=False)
    terms: Terms

    @property
    def theta(self) -> np.ndarray:
        return np.ldexp(self.values.astype(np.float64), -GRID)


@lru_cache
def _curve(moved: Fraction, bend: Fraction) -> tuple[Fraction, ...]:
    return tuple(divergence(order, moved, bend) for order in ORDERS)


def divergence(order: Fraction, moved: Fraction, bend: Fraction) -> Fraction:
    """The Renyi divergence at one order, rounded up: a row moves the slope by ``moved`` sigmas at
    most, and bends by ``bend`` ridges.
    """
    with localcontext(Context(prec=DIGITS)) as ctx:
        a, s, turn = (as_decimal(x, ctx) for x in (order, moved, 1 + bend))
        t, root = (a - 1) * s, (2 * pi_to(DIGITS)).sqrt()
        bounds = [s * root / 2 + a * s**2 / 2]
        if t**2 / 2 < HOPELESS:
            # the normal distribution function at t is at most this
            below = min(Decimal(1), Decimal("0.5") + t / root)
            bounds.append(s**2 / 2 + (1 + t * root * (t**2 / 2).exp() * below).ln() / (a - 1))
        return shown_up(turn.ln() + min(bounds))


def zcdp(moved: Fraction, bend: Fraction) -> Fraction:
    """A rho for the same."""
    with localcontext(Context(prec=DIGITS)) as ctx:
        s, turn = as_decimal(moved, ctx), as_decimal(1 + bend, ctx)
        return shown_up(turn.ln() + s * (2 * pi_to(DIGITS)).sqrt() / 2 + s**2 / 2)


def checked_parts(batches: Sequence[Marginal], shape: Sequence[int]) -> tuple[Marginal, ...]:
    """The marginals whose cells are looked at, copied, or a refusal in a sentence."""
    batches = tuple(batches)
    if not 0 < len(batches) <= MOST_MARGINALS or not all(
        isinstance(batch, Marginal) for batch in batches
    ):
        raise ParameterError(f"Sums over cells need from 1 to {MOST_MARGINALS:,} marginals.")
    # made anew, in plain whole numbers that are read once
    batches = tuple(Marginal(batch.positions, batch.shape) for batch in batches)
    if not all(0 <= p < len(shape) for batch in batches for p in batch.positions) or any(
        batch.shape != tuple(shape[p] for p in batch.positions) for batch in batches
    ):
        raise ParameterError("These marginals are written for another schema than the table's.")
    cells = sum(batch.size for batch in batches)
    if cells > DENSE_CELLS:
        raise NotSupported(
            f"{cells:,} cells in all marginals together; at most {DENSE_CELLS:,} can be handled."
            " Use fewer, or wider bins."
        )
    return batches


def checked_terms(
    *, rows: int, fake: int, marginals: int, cells: int, ridge: object, sigma: object
) -> Terms:
    """The numbers of a discriminator, or a refusal in a sentence; all of them are public."""
    # plain numbers: others may see what they are multiplied with, and say what they like
    strength, width = whole(ridge, 1), exact_number(sigma)
    if strength is None or strength > LARGEST_RIDGE:
        raise ParameterError(
            f"A discriminator needs a ridge, a whole number from 1 to {LARGEST_RIDGE:,}."
        )
    if width is None or not LEAST_SIGMA <= width <= MOST_SIGMA:
        raise ParameterError(
            f"A discriminator needs a sigma, a whole number or a Fraction from {LEAST_SIGMA} to"
            f" {MOST_SIGMA}."
        )
    terms = Terms.of(
        rows=rows, fake=fake, marginals=marginals, cells=cells, ridge=strength, sigma=width
    )
    slope = (rows + fake) * 2**COARSE + FAR * terms.sigma
    if (
        slope >= LARGEST_SLOPE * 2**COARSE
        or marginals * (terms.box + 1) >= LARGEST_SCORE
        or terms.cover > LARGEST_WIDE_SIGMA
    ):
        raise NotSupported(
            "So many rows, or so small a ridge, is more than the discriminator's arithmetic"
            " carries; use a larger ridge."
        )
    # Plain descent is sure to arrive: rounding holds it up by no more than this (proofs/discriminate, M14).
    stuck = terms.error + Fraction(terms.steepest * _root_up(cells), 2 ** (GRID - FINE))
    if 2 * (1 + Fraction(terms.steepest, strength)) * stuck > terms.stop:
        raise NotSupported(
            "The discriminator could not be found closely enough to be covered by its noise; use a"
            " larger ridge."
        )
    return terms


def checked_rows(rows: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Public rows of codes, copied, or a refusal in a sentence."""
    try:
        codes = np.array(rows)
    except ValueError:
        raise ParameterError("A discriminator needs made rows of the same length.") from None
    if (
        codes.ndim != 2
        or codes.dtype.kind not in "iu"
        or codes.shape[1] != len(shape)
        or not len(codes)
    ):
        raise ParameterError("A discriminator needs made rows: whole codes, one for each column.")
    if np.any(codes < 0) or np.any(codes >= np.asarray(shape)):
        raise ParameterError("A made row has a code that its column does not have.")
    return codes.astype(np.int32)


@dataclass(frozen=True)
class Question:
    """One discriminator that is asked for: all public, and checked."""

    batches: tuple[Marginal, ...]
    fake: CodedRows
    weight: int
    terms: Terms

    @classmethod
    def checked(
        cls,
        batches: Sequence[Marginal],
        fake: np.ndarray,
        shape: tuple[int, ...],
        *,
        rows: int,
        weight: object,
        ridge: object,
        sigma: object,
    ) -> Question:
        batches, codes = checked_parts(batches, shape), checked_rows(fake, shape)
        each = whole(weight, 1)
        if each is None:
            raise ParameterError("Made rows weigh a whole number of at least 1 each.")
        cells = sum(batch.size for batch in batches)
        terms = checked_terms(
            rows=rows,
            fake=each * len(codes),
            marginals=len(batches),
            cells=cells,
            ridge=ridge,
            sigma=sigma,
        )
        return cls(batches, CodedRows(codes, shape), each, terms)

    def answered(self, table: Verbs, b: np.ndarray) -> np.ndarray:
        """A theta whose slope is certified to be small; ``b`` is in units of 2^-30."""
        totals = self.weight * np.concatenate(
            [batch.counts(self.fake).dense() for batch in self.batches]
        ).astype(np.int64)

        def slope(theta: np.ndarray) -> np.ndarray:
            doubts = Doubts(self.batches, theta)
            rows = (totals << FINE) - self.weight * self.fake.scan(doubts) - table.scan(doubts)
            return rows + _scaled(theta, self.terms.ridge) + (b << (FINE - COARSE))

        return minimised(slope, self.terms)


def _scaled(theta: np.ndarray, ridge: int) -> np.ndarray:
    """ridge * theta in units of 2^-38, rounded down; the product itself would not fit."""
    spare = GRID - FINE
    scaled: np.ndarray = ridge * (theta >> spare) + ((ridge * (theta & (2**spare - 1))) >> spare)
    return scaled


def minimised(
    slope: Callable[[np.ndarray], np.ndarray], terms: Terms, fast: int | None = None
) -> np.ndarray:
    """Where the slope is small: by steps with momentum, more than are usually needed or ``fast``,
    then by steps that always arrive.
    """
    theta = np.zeros(terms.cells, np.int64)
    before = np.zeros(terms.cells)
    ratio = math.sqrt(terms.ridge / terms.steepest)
    momentum, most = (1 - ratio) / (1 + ratio), math.ldexp(terms.box, -GRID)
    for _ in range(fast if fast is not None else 100 + int(50 / ratio)):
        at = slope(theta)
        if is_small(at, terms.stop):
            return theta
        ahead = (
            np.ldexp(theta.astype(np.float64), -GRID)
            - np.ldexp(at.astype(np.float64), -FINE) / terms.steepest
        )
        theta = np.rint(
            np.ldexp(np.clip(ahead + momentum * (ahead - before), -most, most), GRID)
        ).astype(np.int64)
        before = ahead
    while not is_small(at := slope(theta), terms.stop):
        whole, rest = np.divmod(at, terms.steepest)
        theta = np.clip(
            theta - (whole << (GRID - FINE)) - (rest << (GRID - FINE)) // terms.steepest,
            -terms.box,
            terms.box,
        )
    return theta


def is_small(slope: np.ndarray, stop: int) -> bool:
    """Whether |slope| <= stop, in whole numbers: rounded up to 19 binary digits of stop, so a slope
    just below it may be told no.
    """
    spare = max(0, stop.bit_length() - 19)
    limit, rounded = stop >> spare, (np.abs(slope) + ((1 << spare) - 1)) >> spare
    return bool(rounded.max() <= limit and int((rounded * rounded).sum()) <= limit**2)


def _root_up(x: int) -> int:
    return math.isqrt(x - 1) + 1


def places(batches: Sequence[Marginal], columns: Sequence[int]) -> tuple[np.ndarray, ...]:
    """(first cell of each batch; first entry of each batch in the next two; columns in a block of
    ``columns``; strides), flat.
    """
    at = {c: i for i, c in enumerate(columns)}
    sizes = [math.prod(batch.shape) for batch in batches]
    widths = [len(batch.positions) for batch in batches]
    strides = [math.prod(one.shape[i + 1 :]) for one in batches for i in range(len(one.shape))]
    return (
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.cumsum([0, *widths]).astype(np.int64),
        np.asarray([at[position] for batch in batches for position in batch.positions], np.int64),
        np.asarray(strides, np.int64),
    )


@dataclass(frozen=True, eq=False)
class Doubts:
    """A row function: w(score) at each of the row's cells, in units of 2^-38, rounded down; the
    score is theta summed over them.

    >>> Doubts((Marginal((0,), (2,)),), np.array([0, 99 << GRID])).tally(np.array([[0], [0], [1]], np.int32)).tolist() == [1 << FINE, 0]
    True
    """

    batches: tuple[Marginal, ...]
    theta: np.ndarray = field(repr=False)

    @property
    def size(self) -> int:
        return len(self.theta)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({position for batch in self.batches for position in batch.positions}))

    @cached_property
    def _places(self) -> tuple[np.ndarray, ...]:
        return places(self.batches, self.columns)

    def tally(self, block: np.ndarray) -> np.ndarray:
        """What the rows of a block add up to."""
        sums: np.ndarray = _doubts(block, *self._places, self.theta, LEVELS)
        return sums


@kernel()
def _doubts(
    block: np.ndarray,
    cells: np.ndarray,
    entries: np.ndarray,
    columns: np.ndarray,
    strides: np.ndarray,
    theta: np.ndarray,
    levels: np.ndarray,
) -> np.ndarray:
    total, mine = np.zeros(len(theta), np.int64), np.empty(len(cells), np.int64)
    far, batch, spare = np.int64(FURTHEST) << GRID, GRID - STEP, FINE - LEVEL
    for row in range(block.shape[0]):
        score = np.int64(0)
        for m in range(len(cells)):
            cell = cells[m]
            for j in range(entries[m], entries[m + 1]):
                cell += block[row, columns[j]] * strides[j]
            mine[m] = cell
            score += theta[cell]
        inside = min(max(score, -far), far - 1) + far
        at = inside >> batch
        between = inside & ((np.int64(1) << batch) - 1)
        # A level falls by less than 2^9 to the next: times the 36 digits in between it fits with
        # room to spare.
        doubt = (levels[at] << spare) + (
            ((levels[at + 1] - levels[at]) * between) >> (batch - spare)
        )
        for m in range(len(cells)):
            total[mine[m]] += doubt
    return total
