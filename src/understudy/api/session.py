"""From an open table to a meter: the one place where a budget is reserved, an interrupt is told of
and an end is written.

    with reserve(ledger, source, ...) as meter:      the whole promise is on the disk before this
        ...                                          only looks through the meter
                                                     the end is in the ledger after this
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Any

from understudy.errors import (
    BudgetRefused,
    LedgerWarning,
    ParameterError,
    ReleaseFailed,
    SourceError,
    UnderstudyError,
    Unread,
    warn,
)
from understudy.privacy import Accountant, Budget, FileLedger, Meter, ProcessLedger, TableLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.ledger.ledger import EARLY, MADE, Ledger, describe_left
from understudy.privacy.requests import exact_number
from understudy.queries.base import Neighbours
from understudy.schema import Schema
from understudy.sources import Source, open_source

# a warning and not a refusal: whoever tries things out in a notebook has no file to name
NO_LEDGER = (
    "This table is in memory and no ledger was given, so nothing remembers what is spent on it:"
    " several releases add up, and nobody counts. Give ledger='people.ledger.jsonl', or a file of"
    " your choice, whenever these people are in the table. This is said once."
)
# Python's own words do not say what to do
OUT_OF_MEMORY = (
    "Memory ran out while the release was made, and what was measured is lost with it; "
    "ask for fewer rows or fewer marginals, or use a larger machine."
)
_warned: set[str] = set()


def open_table(table: Any, schema: Schema) -> Source:
    """The table, opened; reads no row. Columns that are ignored are told of here: rooms where cells
    pass do not talk themselves.
    """
    source = open_source(table, schema)
    if source.unread:
        warn(source.unread, Unread)
    return source


def open_again(table: Any, schema: Schema, first: Source) -> Source:
    """The same table with its columns on their grids; what is ignored of it was told already.

    A glob may find other files by now, which no ledger would be charged for.
    """
    if isinstance(table, Source):
        raise SourceError(
            "An opened source cannot be read on the finer grids of its columns; give the table"
            " itself, or say 'detail: false' for every column with bins. Nothing was charged."
        )
    again = open_source(table, schema)
    if again.files != first.files:
        raise SourceError(
            "The path names other files than a moment ago; wait until no more are written, and ask"
            " again. Nothing was charged."
        )
    return again


def ledger_for(ledger: Ledger | None, source: Source) -> Ledger:
    """The ledger as given, or the one beside a table in files; with those that know its files."""
    if source.origin is not None:
        return TableLedger(source.origin, source.files, ledger, say_once)
    if ledger is None:
        say_once(NO_LEDGER)
        return ProcessLedger()
    return ledger


def accountant_of(ledger: Ledger) -> Accountant | None:
    """By whom a release must be counted to be granted; None where there is no limit. A ledger of
    somebody else's is taken to count by rho.
    """
    if isinstance(ledger, ProcessLedger):
        return None
    if isinstance(ledger, (FileLedger, TableLedger)):
        return ledger.accountant()
    return Accountant.RHO


def say_once(sentence: str) -> None:
    """A remark about ledgers, once in the life of a process."""
    if sentence not in _warned:
        _warned.add(sentence)
        warn(sentence, LedgerWarning)


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What is made of a table, and what it promises: public values, for the ledger and for errors.

    Attributes:
        what: such as ``The release``, at the start of a sentence.
        label: a name for the ledger.
        epsilon: the promise; delta likewise, None or 0 where there is none.
    """

    what: str
    label: str
    epsilon: Fraction
    delta: Fraction | None

    def spent(self, ledger: Ledger) -> str:
        """For somebody who interrupted it."""
        delta = f", delta {float(self.delta):.3g}" if self.delta else ""
        return (
            f"{self.what} had begun: its whole budget (epsilon {float(self.epsilon):.6g}{delta})"
            f" counts as spent (ledger: {ledger.where})."
        )


@dataclass(frozen=True, kw_only=True)
class OnGrids:
    """The same table with its columns on their grids, and what measuring them may cost."""

    source: Source
    cost: Cost


def reserve(
    ledger: Ledger,
    source: Source,
    promise: Promise,
    *,
    neighbours: Neighbours,
    play: Cost,
    certify: Fraction,
    grids: OnGrids | None = None,
) -> Reserved:
    """A meter on a table, once all that it may spend is in the ledger, durably.

    From then on the budget is spent, whatever happens. How it ended is written beside the charge;
    whoever interrupts is told what is spent; and whatever goes wrong becomes ReleaseFailed.
    """
    relation = Neighbours(neighbours)  # a plain text compares equal and is not the same
    beside = None if grids is None else OnGrids(source=grids.source, cost=_plain(grids.cost))
    certified = _plain(Cost(certify)).rho
    return Reserved(ledger, source, promise, relation, _plain(play), certified, beside)


@dataclass(eq=False)
class Reserved(contextlib.AbstractContextManager[Meter]):
    """What :func:`reserve` gives; ``on_grids`` is the meter on the grids, where there are any.

    No generator: contextlib would hold in its frame what went wrong, and that may quote a cell.
    """

    ledger: Ledger
    source: Source
    promise: Promise
    neighbours: Neighbours
    play: Cost
    certify: Fraction
    grids: OnGrids | None = None
    charge: int | None = None
    meter: Meter | None = None
    on_grids: Meter | None = None

    @property
    def whole(self) -> Cost:
        """All that may be spent but for the certificate."""
        return self.play if self.grids is None else self.play + self.grids.cost

    def __enter__(self) -> Meter:
        events = reserved(self.whole, self.certify)
        try:
            self.charge = self.ledger.reserve(self.promise.label, events, self.neighbours)
        except BudgetRefused as refusal:
            raise _with_what_fits(refusal, self.whole, self.promise.delta) from None
        try:
            self.meter = Meter(
                self.source, neighbours=self.neighbours, play=self.play, certify=self.certify
            )
            if self.grids is not None:
                self.on_grids = Meter(
                    self.grids.source,
                    neighbours=self.neighbours,
                    play=self.grids.cost,
                    certify=Fraction(0),
                )
            return self.meter
        except BaseException as problem:
            self.__exit__(type(problem), problem, None)
            raise

    def __exit__(
        self, kind: object, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        how, failure = MADE if problem is None else EARLY, None
        if isinstance(problem, Exception):
            failure = _failure(problem, self.promise)
        elif problem is not None:
            self._tell(problem)
        del problem, trace  # a traceback leads to this frame
        for meter in (self.meter, self.on_grids):
            if meter is not None:
                meter.close()
        self._write_end(how)
        if failure is not None:
            _raise_alone(failure)

    def _write_end(self, how: str) -> None:
        """The charge is on disk already: a remark that cannot be written changes nothing."""
        try:
            with contextlib.suppress(Exception):
                self.ledger.note(how, self.charge)
        except BaseException as stop:
            self._tell(stop)
            raise

    def _tell(self, stop: BaseException) -> None:
        """Tell somebody who interrupts what is spent, and nothing of what else went wrong."""
        stop.__cause__ = stop.__context__ = None
        stop.add_note(self.promise.spent(self.ledger))


def _plain(play: Cost) -> Cost:
    """In plain numbers, read once: what the meter compares is what the ledger writes."""
    curve = None if play.curve is None else [exact_number(value) for value in play.curve]
    bound = None if play.curve_rho is None else exact_number(play.curve_rho)
    rho, delta = exact_number(play.rho), exact_number(play.delta)
    least = None if play.least_variance is None else exact_number(play.least_variance)
    unread = play.curve_rho is not None and bound is None
    unread |= play.least_variance is not None and (least is None or curve is not None or delta != 0)
    if rho is None or delta is None or unread or (curve is not None and None in curve):
        raise ParameterError("What a release may spend is said in exact numbers.")
    exact = None if curve is None else tuple(value for value in curve if value is not None)
    plain = Cost(rho, exact, delta, bound, least)
    # each by itself: one below 0 would hide from the ledger what another may spend
    if not plain.is_sound:
        raise ParameterError("What a release may spend has no part below 0.")
    return plain


def reserved(play: Cost, certify: Fraction) -> tuple[ev.Event, ...]:
    """What a ledger is charged for a play and its certificate."""
    rho, least = play.rho + certify, play.least_variance
    if least is not None:
        return (ev.GaussianReservation(what="release", rho=rho, least_variance=least),)
    events: list[ev.Event] = [ev.Reservation(what="release", rho=rho)]
    if play.curve is not None:
        events.append(ev.RenyiCurve(what="release", curve=play.curve, rho=play.curve_rho))
    if play.delta:
        events.append(ev.ApproximateDP(what="release", epsilon=Fraction(0), delta=play.delta))
    return tuple(events)


def _failure(problem: Exception, promise: Promise) -> ReleaseFailed:
    """What to say of it. Our own sentences are safe to repeat; a foreign message might quote a
    cell.
    """
    if isinstance(problem, ReleaseFailed):  # says itself that the charge stays
        return type(problem)(str(problem))
    sentence = str(problem) if isinstance(problem, UnderstudyError) else ""
    sentence = OUT_OF_MEMORY if isinstance(problem, MemoryError) else sentence
    sentence = sentence or "Something unexpected went wrong."
    return ReleaseFailed(
        f"{sentence} {promise.what} had begun, so its whole budget counts as spent."
    )


def _raise_alone(failure: ReleaseFailed) -> None:
    """Raise it without what it comes from, which holds cells; Python would keep that beside it."""
    try:
        raise failure
    except ReleaseFailed:
        failure.__context__ = None
        raise


def _with_what_fits(refusal: BudgetRefused, asked: Cost, delta: Fraction | None) -> BudgetRefused:
    """A refusal that says what would be granted at this release's own delta; a curve counts
    otherwise at every epsilon.
    """
    if not refusal.left or asked.curve is not None or asked.delta or not delta:
        return refusal
    kind = Accountant.RHO if asked.least_variance is None else Accountant.GAUSSIAN
    fits = describe_left(Budget(refusal.left, accountant=kind), refusal.left, delta)
    more = f"At most {fits}, which is this release's, would be granted."
    return BudgetRefused(f"{refusal} {more}", left=refusal.left)
