"""The meter: the only object that looks at sensitive rows on anybody's behalf.

It is asked with a verb (:mod:`understudy.privacy.verbs`) and keeps one order: check the request,
charge for it, look, answer with noise. Callers name the cost; verbs derive the noise and round
toward more of it. Each verb's claim is proved under its name in ``proofs/``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

from understudy.counting.tally import Blocks, Counts
from understudy.errors import BudgetRefused, ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.looking import guarded, public_rows
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.requests import Read, is_table
from understudy.privacy.scores import compact
from understudy.privacy.trusted import let_in_batch
from understudy.privacy.verbs import VERBS, ReleaseTotal
from understudy.privacy.verbs.base import Answer, Passes, Public, Verb
from understudy.privacy.verbs.measure import Measurement
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal

# one sentence, whether it is seen before the rows are looked at or after
ANOTHER_SCHEMA = "These queries are written for another schema than the table's."


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
                step, left = total_cost(events), float(self.allowance.rho - self.spent.rho)
                least = self.allowance.least_variance
                costs = f"costs rho {float(step.rho):.6g} and the release has rho {left:.6g} left"
                if step.curve is not None:
                    costs = "costs more than is left of the curve that the release has set aside"
                if least is not None and not step.is_gaussian(least):
                    costs = (
                        "does not draw Gaussian noise alone, of sigma"
                        f" {float(least) ** 0.5:.6g} and more, by which the release is counted"
                    )
                raise BudgetRefused(f"{events[0].what}: this step {costs}; nothing was looked at.")
            self.spent = after
            self.events.extend(events)


class Meter:
    """Charges, looks, answers. Algorithms get this and never the table.

    What it may spend is in a ledger, durably, before it exists: ``api/session.py`` makes it, and
    nobody else.

    Args:
        source: the sensitive table.
        neighbours: which tables must be hard to tell apart.
        play: what the mechanism may spend.
        certify: what the verb ``Certify`` may spend, set aside from the start.
        noise: the samplers; replaced in tests only.
        trusts: types that are handed exact values besides the closed list; in tests only.
    """

    __slots__ = (
        "_certify",
        "_exact",
        "_neighbours",
        "_noise",
        "_owned",
        "_play",
        "_rows",
        "_rows_sigma",
        "_source",
        "_trusts",
    )

    def __init__(
        self,
        source: Blocks,
        *,
        neighbours: Neighbours,
        play: Cost,
        certify: Fraction,
        noise: Noise | None = None,
        trusts: Sequence[type] = (),
    ) -> None:
        # a plain text compares equal and is not the same
        self._neighbours = Neighbours(neighbours)
        self._source: Blocks | None = source
        self._noise = noise or Noise()
        self._trusts = tuple(trusts)
        self._play = Account(play)
        self._certify = Account(Cost(certify, least_variance=play.least_variance))
        self._exact: dict[QueryClass, Counts] = {}
        self._owned: dict[int, tuple[QueryClass, QueryClass]] = {}
        self._rows: int | None = None
        self._rows_sigma = Fraction(0)

    # ------------------------------------------------------------------ what is public

    @property
    def neighbours(self) -> Neighbours:
        """Which tables must be hard to tell apart; nobody changes it on the way."""
        return self._neighbours

    @property
    def rows(self) -> int:
        """n: public under replace-one; otherwise what ``ReleaseTotal`` released."""
        if self._rows is None:
            if self.neighbours is Neighbours.ADD_REMOVE_ONE:
                raise ParameterError(
                    "The number of rows is private here; it must be released with release_total"
                    " first."
                )
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

    # ------------------------------------------------------------------ asking

    def ask(self, verb: Verb[Answer]) -> Answer:
        """CHECK what is asked, CHARGE for it, LOOK, and ANSWER with noise.

        Only the room's own verbs are served, by their exact type: one of somebody else's could
        cost nothing and return what it read.
        """
        kind = type(verb)
        # one by one: a type may be made to say that it equals another
        if not any(kind is one for one in VERBS):
            raise ParameterError(
                "The meter is asked with its own verbs only, and not with their subclasses:"
                f" {', '.join(one.__name__ for one in VERBS)}. {kind.__name__} is none of them, so"
                " nothing was charged or looked at."
            )
        priced = kind.priced(verb, self._public())
        account = self._certify if priced.certifies else self._play
        account.charge(*priced.events)
        exact = (
            self._open_source() if isinstance(priced.reads, Passes) else self._look(priced.reads)
        )
        answer = priced.answer(exact, self._noise)
        if kind is ReleaseTotal:
            assert isinstance(answer, Measurement)
            self._rows, self._rows_sigma = max(1, int(answer.counts[0])), answer.sigma
        return answer

    def _public(self) -> Public:
        return Public(
            neighbours=self.neighbours,
            shape=self._open_source().shape,
            count_rows=lambda: self.rows,
            rows_sigma=self._rows_sigma,
            set_aside=self._certify.allowance.rho,
            certified=bool(self._certify.events),
            trusts=self._trusts,
            own=self._own,
        )

    def _own(self, batch: QueryClass) -> QueryClass:
        """The room's own copy of a batch, made once: nobody can change it after it was priced."""
        if type(batch) is Marginal:
            return self._fitting(Marginal(batch.positions, batch.shape))
        original, copy = self._owned.get(id(batch), (None, None))
        if original is not batch or copy is None:
            copy = self._fitting(let_in_batch(batch, self._trusts))
            self._owned[id(batch)] = batch, copy
        return copy

    def _fitting(self, batch: QueryClass) -> QueryClass:
        """Compiled code does not ask where an array ends."""
        shape = self._open_source().shape
        if not all(0 <= column < len(shape) for column in batch.columns) or (
            isinstance(batch, BinnedMarginal) and not batch.is_over(shape)
        ):
            raise ParameterError(ANOTHER_SCHEMA)
        return batch

    def close(self) -> None:
        """Forget the table and every exact count; the events stay."""
        self._source = None
        self._exact.clear()
        self._owned.clear()

    # ------------------------------------------------------------------ looking (after charging)

    def _look(self, reads: Sequence[Read]) -> list[Counts]:
        source, batches = self._open_source(), [batch for batch, _ in reads]
        unseen = list(dict.fromkeys(batch for batch in batches if batch not in self._exact))
        guarded(lambda: self._count(source, unseen))
        exact = [self._exact[batch] for batch in batches]
        # Noise for so many counts must never be stretched over more of them.
        if any(counts.cells != r.size for counts, r in zip(exact, reads, strict=True)) or not all(
            is_table(counts) for counts in exact
        ):
            raise ParameterError(ANOTHER_SCHEMA)
        return exact

    def _count(self, source: Blocks, unseen: Sequence[QueryClass]) -> None:
        tables: dict[tuple[int, ...], list[Marginal | BinnedMarginal]] = {}
        for batch in unseen:
            if isinstance(batch, (Marginal, BinnedMarginal)):
                tables.setdefault(batch.positions, []).append(batch)
        # all in one pass over the data
        tallies = source.count(list(tables)) if tables else []
        # one at a time, so that the wide form of each table goes as soon as the narrow one is made;
        # in full resolution it stays only if it was asked for
        while tallies:
            whole, (_, asked) = tallies.pop(), tables.popitem()
            for batch in asked:
                counts = batch.added_up(whole) if isinstance(batch, BinnedMarginal) else whole
                self._exact[batch] = compact(counts)
        for batch in unseen:
            if batch not in self._exact:
                self._exact[batch] = compact(type(batch).counts(batch, source))

    def _open_source(self) -> Blocks:
        if self._source is None:
            raise ParameterError("This meter is closed; start a new release.")
        return self._source

    def __repr__(self) -> str:
        return f"<Meter: {len(self.events)} events, rho {float(self.left):.6g} left>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A meter holds sensitive counts and is never pickled or copied.")
