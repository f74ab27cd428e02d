"""The meter: the only object that looks at sensitive rows on anybody's behalf.

Every verb keeps the same order: check the request, charge for it, look, answer with noise. Callers
name the cost; the meter derives the noise and rounds toward more of it. Each verb's claim is proved
under its name in PROOFS.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

import numpy as np

from understudy.errors import BudgetRefused, NotSupported, ParameterError, SourceError
from understudy.privacy import events as ev
from understudy.privacy.accountant import Cost, total_cost
from understudy.privacy.certificate import Certificate, certificate
from understudy.privacy.exponential import ScoreTable, draw
from understudy.privacy.ledger import Ledger
from understudy.privacy.noise import Noise, round_sigma_up, sqrt_up
from understudy.privacy.residuals import Residual, check_residuals, contrast, joint_event
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.marginal import Marginal
from understudy.sources import Source
from understudy.tally import DENSE_CELLS, Counts

EVERYBODY = Marginal((), ())
LARGEST_SCORE = 2**40  # far below what 64-bit arithmetic could wrap


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of a batch of queries: released values, safe to show."""

    part: QueryClass
    counts: np.ndarray = field(repr=False)
    sigma: Fraction


@dataclass(frozen=True)
class Choice:
    """A query that a private selection pointed at; ``sign`` is -1 when its negation was meant."""

    part: QueryClass
    index: int
    sign: int = 1


@dataclass
class Account:
    """What one release may spend and has spent; refuses before anything is looked at."""

    allowance: Cost
    events: list[ev.Event] = field(default_factory=list)
    spent: Cost = field(default_factory=Cost)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def charge(self, *events: ev.Event) -> None:
        """Charge some events together, or raise and charge none."""
        with self.lock:  # a mechanism may ask from several threads
            after = self.spent + total_cost(events)
            if not after.within(self.allowance):
                cost, left = float(total_cost(events).rho), float(self.allowance.rho - self.spent.rho)
                raise BudgetRefused(
                    f"{events[0].what}: this step costs rho {cost:.6g} and the release has rho {left:.6g} left; nothing was looked at."
                )
            self.spent = after
            self.events.extend(events)


class Meter:
    """Charges, looks, answers. Algorithms get this and never the table.

    Args:
        source: the sensitive table.
        neighbours: which tables must be hard to tell apart.
        ledger: where the whole release is reserved, durably, before this object exists.
        play: what the mechanism may spend.
        certify: what :meth:`certify` may spend, set aside from the start.
        label: a public name for the ledger.
        noise: the samplers; replaced in tests only.
    """

    __slots__ = ("_certify", "_exact", "_noise", "_play", "_rows", "_rows_sigma", "_source", "neighbours")

    def __init__(
        self,
        source: Source,
        *,
        neighbours: Neighbours,
        ledger: Ledger,
        play: Cost,
        certify: Fraction,
        label: str,
        noise: Noise | None = None,
    ) -> None:
        reserved: list[ev.Event] = [ev.Reservation(what="release", rho=play.rho + certify)]
        if play.curve is not None:
            reserved.append(ev.RenyiCurve(what="release", curve=play.curve, rho=play.curve_rho))
        if play.delta:
            reserved.append(ev.ApproximateDP(what="release", epsilon=Fraction(0), delta=play.delta))
        ledger.reserve(label, tuple(reserved), neighbours)
        self.neighbours = neighbours
        self._source: Source | None = source
        self._noise = noise or Noise()
        self._play, self._certify = Account(play), Account(Cost(certify))
        self._exact: dict[QueryClass, Counts] = {}
        self._rows: int | None = None
        self._rows_sigma = Fraction(0)

    # ------------------------------------------------------------------ what is public

    @property
    def rows(self) -> int:
        """n: public under replace-one; otherwise what :meth:`release_total` released."""
        if self._rows is None:
            if self.neighbours is Neighbours.ADD_REMOVE_ONE:
                raise ParameterError("The number of rows is private here; it must be released with release_total first.")
            self._rows = public_rows(self._open_source())
        return self._rows

    @property
    def rows_sigma(self) -> Fraction:
        """The noise on :attr:`rows`: 0 when n is public."""
        return self._rows_sigma

    @property
    def left(self) -> Fraction:
        """How much rho the mechanism may still spend."""
        return self._play.allowance.rho - self._play.spent.rho

    @property
    def events(self) -> tuple[ev.Event, ...]:
        """Everything charged so far."""
        return (*self._play.events, *self._certify.events)

    # ------------------------------------------------------------------ verbs

    def release_total(self, *, rho: Fraction) -> Measurement:
        """The number of rows with noise, when it is private (PROOFS.md, M1)."""
        found = self.measure(EVERYBODY, rho=rho)
        self._rows, self._rows_sigma = max(1, int(found.counts[0])), found.sigma
        return found

    def measure(self, part: QueryClass, *, rho: Fraction) -> Measurement:
        """All counts of a batch with discrete Gaussian noise, for the price of its L2 sensitivity (M1)."""
        return self.measure_all([part], rho=rho)[0]

    def measure_all(self, parts: Sequence[QueryClass], *, rho: Fraction) -> list[Measurement]:
        """Several batches at once, an equal share of ``rho`` each: one charge, one pass over the data (M1)."""
        _check_sizes(parts)
        if rho <= 0 or not parts:
            raise ParameterError("A measurement needs something to measure and rho above 0.")
        sensitivities = [part.l2_squared(self.neighbours) for part in parts]
        # With no sensitivity (n under replace-one) any noise is private; sigma 1/4 is next to none.
        sigmas = [round_sigma_up(max(sqrt_up(Fraction(l2) * len(parts) / (2 * rho)), Fraction(1, 4))) for l2 in sensitivities]
        self._play.charge(
            *(
                ev.DiscreteGaussian(what=f"measure {_name(part)}", sigma_squared=sigma**2, l2_squared=l2)
                for part, sigma, l2 in zip(parts, sigmas, sensitivities, strict=True)
            )
        )
        exact = self._look(parts)
        return [
            Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma), sigma)
            for part, counts, sigma in zip(parts, exact, sigmas, strict=True)
        ]

    def measure_residuals(self, parts: Sequence[Marginal], *, sigmas: Sequence[Fraction]) -> list[Residual]:
        """What each set of columns says beyond its subsets, in whole numbers with noise of these sigmas: one joint charge (M8)."""
        _check_sizes(parts)
        drawn = check_residuals(parts, sigmas, self._open_source().shape)
        self._play.charge(joint_event(parts, drawn, self.neighbours))
        return [
            Residual(part, contrast(counts.dense(), part.shape) + self._noise.gaussian(part.size, sigma), sigma)
            for part, counts, sigma in zip(parts, self._look(parts), drawn, strict=True)
        ]

    def select(
        self,
        parts: Sequence[QueryClass],
        shares: Sequence[np.ndarray],
        *,
        rho: Fraction,
        draws: int = 1,
        multiplier: int = 1,
        signed: bool = False,
    ) -> list[Choice]:
        """Draw queries on which a model is wrong: the exponential mechanism on error counts (M2).

        ``shares`` are the model's answers. A query's score is ``|m*count - round(m*n*share)|`` rows, m the
        multiplier; with ``signed``, queries and their negations compete on the error with its sign. The
        cost ``rho`` covers all draws together.
        """
        _check_sizes(parts)
        _check_shares(parts, shares)
        if rho <= 0 or not isinstance(draws, int) or draws < 1 or not isinstance(multiplier, int) or multiplier < 1:
            raise ParameterError("A selection needs rho above 0, at least one draw and a multiplier of at least 1, both whole numbers.")
        top = multiplier * self.rows
        if top > LARGEST_SCORE:
            raise ParameterError(f"A selection with multiplier {multiplier:,} over {self.rows:,} rows has scores beyond {LARGEST_SCORE:,}.")
        table = ScoreTable.within(rho / draws, multiplier, 2 * top if signed else top)
        shift = table.log_weight_shift(multiplier)
        self._play.charge(
            ev.ExponentialDraws(what=f"select {draws} of {sum(p.size for p in parts):,}", log_weight_shift=shift, draws=draws)
        )
        gaps = np.concatenate(
            [
                # No share asks for more rows than this, and below it nothing can wrap in 64 bits, whatever n is.
                multiplier * np.minimum(counts.dense(), 2 * LARGEST_SCORE // multiplier) - self._whole(share, multiplier)
                for counts, share in zip(self._look(parts), shares, strict=True)
            ]
        )
        middle = table.top // 2  # the table may be narrower than the counts: clip around no error, not at one end
        gaps = np.clip(gaps, -middle, middle) if signed else gaps
        scores = np.concatenate([middle + gaps, middle - gaps]) if signed else np.abs(gaps)
        offsets = np.cumsum([0, *(part.size for part in parts)])
        return [_choice(parts, offsets, int(i)) for i in draw(self._noise, scores, table, draws)]

    def certify(self, parts: Sequence[QueryClass], answers: Sequence[Counts], released_rows: int) -> Certificate:
        """A bound on the largest error of released answers, for what was set aside for it (M3).

        ``answers`` are counts among ``released_rows`` released rows. Wide marginals stay sparse.
        """
        if not parts or released_rows < 1 or [part.size for part in parts] != [answer.cells for answer in answers]:
            raise ParameterError("A certificate needs released rows, and one answer per query.")
        if self._certify.events:
            raise BudgetRefused("A release is certified once; its share for that is spent.")
        rows = self.rows
        sigma = round_sigma_up(max(sqrt_up(1 / (2 * self._certify.allowance.rho)), Fraction(1, 4)))
        self._certify.charge(ev.DiscreteGaussian(what="certify", sigma_squared=sigma**2, l2_squared=1))
        largest = max(
            _largest_gap(exact, answer, lambda counts: (2 * rows * counts + released_rows) // (2 * released_rows))
            for exact, answer in zip(self._look(parts), answers, strict=True)
        )
        noisy = largest + int(self._noise.gaussian(1, sigma)[0])
        return certificate(noisy, sigma, rows, self._rows_sigma, sum(part.size for part in parts))

    def close(self) -> None:
        """Forget the table and every exact count; the events stay."""
        self._source = None
        self._exact.clear()

    # ------------------------------------------------------------------ looking (after charging)

    def _look(self, parts: Sequence[QueryClass]) -> list[Counts]:
        source = self._open_source()
        unseen = list(dict.fromkeys(part for part in parts if part not in self._exact))
        failed = False
        try:
            tables = [part for part in unseen if isinstance(part, Marginal)]
            if tables:  # all in one pass over the data
                self._exact.update(zip(tables, source.count([part.positions for part in tables]), strict=True))
            for part in unseen:
                if part not in self._exact:
                    self._exact[part] = part.counts(source)
        except Exception:
            failed = True
        if failed:  # raised out here so that no foreign message, which may quote a cell, travels along
            raise SourceError(
                "The table could not be read to the end; check that its files are complete and of the format their names say."
            )
        found = [self._exact[part] for part in parts]
        if any(counts.cells != part.size for counts, part in zip(found, parts, strict=True)):
            raise ParameterError("These queries are written for another schema than the table's.")
        return found

    def _whole(self, share: np.ndarray, multiplier: int) -> np.ndarray:
        """A model's answers as whole rows, inside what counts can be: public arithmetic."""
        top = multiplier * self.rows
        return np.clip(np.rint(np.nan_to_num(share) * top), 0, top).astype(np.int64)

    def _open_source(self) -> Source:
        if self._source is None:
            raise ParameterError("This meter is closed; start a new release.")
        return self._source

    def __repr__(self) -> str:
        return f"<Meter: {len(self.events)} events, rho {float(self.left):.6g} left>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A meter holds sensitive counts and is never pickled or copied.")


def public_rows(source: Source) -> int:
    """n under replace-one neighbours, where it is public by definition (PROOFS.md, conventions)."""
    return int(source.count([()])[0].values[0])


def _check_sizes(parts: Sequence[QueryClass]) -> None:
    for part in parts:
        if part.size > DENSE_CELLS:
            raise NotSupported(
                f"{_name(part)} has {part.size:,} cells; at most {DENSE_CELLS:,} can be handled whole. Use fewer columns or wider bins."
            )


def _check_shares(parts: Sequence[QueryClass], shares: Sequence[np.ndarray]) -> None:
    if not parts or len(parts) != len(shares) or any(share.shape != (part.size,) for part, share in zip(parts, shares, strict=True)):
        raise ParameterError("Each batch of queries needs one answer per query.")


def _largest_gap(exact: Counts, answer: Counts, to_rows: Callable[[np.ndarray], np.ndarray]) -> int:
    """The largest difference of two tables, the second rescaled; sparse tables are compared where occupied."""
    if exact.keys is None and answer.keys is None:
        return int(np.max(np.abs(exact.values - to_rows(answer.values))))
    keys = [np.flatnonzero(c.values) if c.keys is None else c.keys for c in (exact, answer)]
    cells = np.union1d(*keys)
    exact_there, answer_there = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    exact_there[np.searchsorted(cells, keys[0])] = exact.values[keys[0]] if exact.keys is None else exact.values
    answer_there[np.searchsorted(cells, keys[1])] = answer.values[keys[1]] if answer.keys is None else answer.values
    return int(np.max(np.abs(exact_there - to_rows(answer_there)), initial=0))


def _choice(parts: Sequence[QueryClass], offsets: np.ndarray, candidate: int) -> Choice:
    sign = 1
    if candidate >= offsets[-1]:
        candidate, sign = candidate - int(offsets[-1]), -1
    at = int(np.searchsorted(offsets, candidate, side="right")) - 1
    return Choice(parts[at], candidate - int(offsets[at]), sign)


def _name(part: QueryClass) -> str:
    if isinstance(part, Marginal):
        return f"marginal of columns {list(part.positions)}" if part.positions else "the number of rows"
    return f"{part.size:,} {part.kind} queries"
