"""The ledger: what has been spent on a dataset, on disk before any of its rows is read.

One JSON record a line, append-only, each carrying the hash of the one before (``chain.py``).
Writers hold an exclusive lock on the file and fsync before they return, so a charge that was
granted survives a crash, and two processes cannot both take the last of a budget. A charge is never
given back: a release that dies half-way has spent its whole reservation.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from understudy.errors import BudgetRefused, ParameterError, ReleaseFailed
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, cost_of, total_cost
from understudy.privacy.accounting.budget import MOST_RHO, Accountant, Budget, exact
from understudy.privacy.ledger.chain import Chain, Record, locked
from understudy.privacy.ledger.registry import FileId, learn_beside
from understudy.queries.base import Neighbours
from understudy.runtime.paths import LEDGER

# a record without its end was never granted, but nobody can tell why it has none
TORN = (
    "an unfinished record was set aside: a writer died before its charge was granted, "
    "or else the file was damaged from outside and a charge may be missing"
)
ALONE = (
    "The dataset's limit ({}) cannot count what is asked for: it draws other noise too, or is"
    " counted by rho. Nothing was charged. Name a mechanism that measures everything at once"
    " (gaussian, matrix, independent, projection, or arp with adaptive=false and bins=false){}."
)
OR_BY_RHO = ", or set a limit with --accountant rho, which counts all"
MIXED = (
    "The dataset's limit ({}) counts Gaussian noise alone, and a charge of other noise was added by"
    " hand, so it grants nothing more; nothing was charged. Set a limit with --accountant rho,"
    " which counts all."
)
CHOSEN = (
    "The first charge was made under {}, so the limit {} would choose its accountant after releases"
    " were seen, which is no proof. Set it with --accountant {}."
)
NO_LIMIT = (
    "A limit is made by Budget.of or Budget.zcdp, and its spread is 1: how far counts are spread is"
    " a release's own affair."
)
MADE = "made"  # this and the next two are written into ledgers, and read back by these words
EARLY = "a release ended early; its whole reservation counts as spent"
BY_HAND = "added by hand"
MOST_ADDED = 10**12  # rho, by hand; far below what makes a ledger unreadable


@dataclass(frozen=True)
class Charge:
    """One granted reservation, as the ledger tells it."""

    time: float
    label: str
    events: tuple[ev.Event, ...]
    number: int
    ended: str | None = None  # None: nothing on record, so it is still running or was killed

    @property
    def cost(self) -> Cost:
        total = Cost()
        for event in self.events:
            total += cost_of(event)
        return total


@dataclass(frozen=True)
class Statement:
    """What a ledger says at one moment."""

    neighbours: Neighbours | None = None
    limit: Budget | None = None
    charges: tuple[Charge, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[FileId, ...] = ()  # that it was charged for
    first_limit: Budget | None = None  # the one at the first charge: it fixes the accountant

    @property
    def spent(self) -> Cost:
        total = Cost()
        for charge in self.charges:
            total += charge.cost
        return total

    @property
    def accountant(self) -> Accountant:
        """By whom the sum is read: the limit says, and without one Gaussian noise is told apart."""
        return Accountant.GAUSSIAN if self.limit is None else self.limit.accountant

    @property
    def stays_gaussian(self) -> bool:
        """Whether its limits count Gaussian noise alone for good: the first charge was made under
        such a limit, and no other noise was added by hand, which that limit never held.
        """
        by = None if self.first_limit is None else self.first_limit.accountant
        other = self.spent.least_variance is None and not self.spent.is_nothing
        return by is Accountant.GAUSSIAN and not other

    def epsilon_at(self, delta: Fraction) -> Fraction | None:
        """What was spent in all."""
        return self.spent.epsilon_at(delta, self.accountant)

    @property
    def left(self) -> Fraction | None:
        """The rho that the limit still allows; None without one, or where it has none."""
        spent = None if self.limit is None else self.spent.in_rho(self.limit)
        return (
            None
            if self.limit is None or spent is None
            else max(Fraction(0), self.limit.rho - spent)
        )


class Ledger(Protocol):
    """Where reservations are written. ``where`` is a public description for the manifest."""

    @property
    def where(self) -> str: ...

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        """Write a charge, or raise; returns its number."""
        ...

    def note(self, text: str, charge: int | None = None) -> None:
        """Write a remark: with a charge's number, on how what it was for ended."""
        ...


def check_grant(state: Statement, cost: Cost, neighbours: Neighbours) -> None:
    """Raise unless the ledger's relation and limit allow one more charge."""
    if state.neighbours not in (None, neighbours):
        raise BudgetRefused(
            f"This ledger counts privacy under {state.neighbours}, and charges under {neighbours}"
            f" cannot be added to it; use --neighbours {state.neighbours}, or keep another ledger"
            " for this promise."
        )
    if state.limit is None or (state.spent + cost).keeps(state.limit):
        return
    if state.limit.accountant is Accountant.GAUSSIAN:  # less would not be granted either
        if not state.spent.is_nothing and state.spent.least_variance is None:
            raise BudgetRefused(MIXED.format(describe_budget(state.limit)))
        if cost.least_variance is None:
            or_by_rho = "" if state.stays_gaussian else OR_BY_RHO
            raise BudgetRefused(ALONE.format(describe_budget(state.limit), or_by_rho))
    raise BudgetRefused(
        f"The dataset's limit of {describe_budget(state.limit)} does not allow this charge;"
        f" nothing was charged. {_at(state.limit)} it costs {describe_cost(cost, state.limit)},"
        f" on top of {describe_cost(state.spent, state.limit)} already spent. Ask for"
        f" less{_within(state)}, or raise the limit with 'understudy budget'.",
        left=state.left,
    )


def _shown(text: str) -> tuple[str, ...]:
    """A remark as a note of its own; that a release was made is told beside its charge."""
    return () if text == MADE else (text,)


class ProcessLedger:
    """A ledger in memory, made anew for each release of a table in memory without ``ledger=``: it
    remembers nothing after.
    """

    where = "this process only (no ledger file was given)"

    def __init__(self) -> None:
        self.state = Statement()
        self._lock = threading.Lock()

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        with self._lock:
            charge = Charge(time.time(), label, events, len(self.state.charges))
            check_grant(self.state, charge.cost, neighbours)
            self.state = replace(
                self.state, neighbours=neighbours, charges=(*self.state.charges, charge)
            )
        return charge.number

    def note(self, text: str, charge: int | None = None) -> None:
        with self._lock:
            charges = tuple(
                replace(c, ended=text) if c.number == charge else c for c in self.state.charges
            )
            self.state = replace(
                self.state, charges=charges, notes=(*self.state.notes, *_shown(text))
            )


class FileLedger:
    """A durable ledger in a file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def beside(cls, data: str | Path) -> FileLedger:
        """The ledger kept beside a data file, or in the folder of a glob."""
        text = str(data)
        if os.path.exists(text):
            whole = Path(text).resolve()
            return cls(whole.with_name(whole.name + LEDGER))
        fixed = text[: min((text.find(c) for c in "*?[" if c in text), default=len(text))]
        folder = fixed[: max(fixed.rfind("/"), fixed.rfind(os.sep)) + 1] or "."
        return cls(Path(os.path.realpath(folder)) / f"understudy{LEDGER}")

    @property
    def where(self) -> str:
        return shown(self.path.name)

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        """Write a charge and make it durable, or raise and write nothing."""
        total_cost(events)  # refuses unknown events before the file is touched
        with locked([self.path], create=True) as chains:
            check_charge(chains, events, neighbours)
            return write_charge(chains, label, events, neighbours)[0]

    def add(
        self,
        why: str,
        rho: Fraction,
        neighbours: Neighbours | None = None,
        accountant: Accountant = Accountant.RHO,
    ) -> Statement:
        """Write down a charge that this file does not know of; no limit refuses it, because it has
        been spent already.

        For what a damaged ledger hid and its backup lacks: this can add to what is spent and never
        take from it. Whoever adds it says whether it was Gaussian noise alone.
        """
        rho = exact(rho, "rho")
        if not 0 < rho <= MOST_ADDED:
            raise ParameterError(
                "What is added to a ledger by hand is a rho above 0 and at most 10^12."
            )
        learn_beside(self.path)
        with locked([self.path], create=True) as (chain,):
            state = statement(chain)
            relation = neighbours or state.neighbours or Neighbours.REPLACE_ONE
            _check_sane(state.spent + Cost(rho))
            check_grant(replace(state, limit=None), Cost(rho), relation)
            event = ev.to_dict(
                ev.Reservation(what=BY_HAND, rho=rho)
                if accountant is Accountant.RHO
                else ev.GaussianReservation(what=BY_HAND, rho=rho, least_variance=1 / (2 * rho))
            )
            chain.append(
                "charge",
                {
                    "label": str(why),
                    "neighbours": str(relation),
                    "events": [event],
                    "ended": BY_HAND,
                },
            )
        return self.read()

    def note(self, text: str, charge: int | None = None) -> None:
        """Write a remark (how a release ended); it changes no total."""
        with locked([self.path], create=True) as (chain,):
            chain.append(
                "note",
                {"text": str(text)} if charge is None else {"text": str(text), "charge": charge},
            )

    def set_limit(self, budget: Budget, files: Sequence[FileId] = ()) -> Statement:
        """Set the most that may ever be spent; the change itself is on record."""
        # what says no more than an older ledger is not written
        body = {
            f.name: str(value)
            for f in fields(budget)
            if (value := getattr(budget, f.name)) != f.default
        }
        limit = _limit(body)  # what is checked is what will be read
        if limit != budget:
            raise ParameterError(NO_LIMIT)
        learn_beside(self.path)
        with locked([self.path], create=True) as (chain,):
            _check_limit(statement(chain), limit)
            chain.append("limit", body | _new_files(chain, files))
        return self.read()

    def accountant(self) -> Accountant | None:
        """By whom its limit counts; None without a limit."""
        limit = self.read().limit if os.path.exists(self.path) else None
        return None if limit is None else limit.accountant

    def read(self) -> Statement:
        """What the ledger says; raises LedgerDamaged if its chain does not hold."""
        with locked([self.path], create=False) as (chain,):
            return statement(chain)


def _check_limit(state: Statement, limit: Budget) -> None:
    """Raise for a limit that chooses its accountant after the first charge (proofs/gaussian, A7), or
    is below what is spent.
    """
    named, first = describe_budget(limit), state.first_limit
    if limit.accountant is Accountant.RHO and state.stays_gaussian and first is not None:
        raise ParameterError(CHOSEN.format(describe_budget(first), named, "gaussian"))
    if limit.accountant is Accountant.GAUSSIAN and state.charges:
        if first is None:
            raise ParameterError(CHOSEN.format("no limit", named, "rho"))
        # within the rho of the first limit, that one is a filter for all
        if first.accountant is Accountant.RHO and limit.rho > first.rho:
            most = (
                f"rho, or with a rho of {float(first.rho):.6g} at most (now {float(limit.rho):.6g})"
            )
            raise ParameterError(CHOSEN.format(describe_budget(first), named, most))
    if not state.spent.keeps(limit):
        spent = describe_cost(state.spent, limit)
        raise ParameterError(f"The limit {named} is below what is already spent ({spent}).")


def check_charge(
    chains: Sequence[Chain], events: tuple[ev.Event, ...], neighbours: Neighbours
) -> None:
    """Raise unless every one of some ledgers allows a charge."""
    cost = total_cost(events)
    for chain in chains:
        state = statement(chain)
        try:
            _check_sane(state.spent + cost)
            check_grant(state, cost, neighbours)
        except BudgetRefused as refusal:
            least = min(
                (left for left in (statement(one).left for one in chains) if left is not None),
                default=None,
            )
            left = None if refusal.left is None else least
            raise BudgetRefused(f"{refusal} (Ledger: {str(chain.path)!r}.)", left=left) from None


def write_charge(
    chains: Sequence[Chain],
    label: str,
    events: tuple[ev.Event, ...],
    neighbours: Neighbours,
    files: Sequence[Sequence[FileId]] = (),
    elsewhere: bool = False,
) -> list[int]:
    """Write a charge to every one of some ledgers, each with those of its files that it does not
    know; returns its numbers.

    Dying between two of them leaves a charge that counts in the first and was never acted upon.
    ``elsewhere``: another was made already.
    """
    body = {
        "label": str(label),
        "neighbours": str(neighbours),
        "events": [ev.to_dict(event) for event in events],
    }
    numbers: list[int] = []
    for chain, own in zip(chains, files or [()] * len(chains), strict=True):
        try:
            numbers.append(chain.append("charge", body | _new_files(chain, own)))
        except OSError as problem:
            if not (numbers or elsewhere):
                raise
            raise ReleaseFailed(
                f"The ledger {str(chain.path)!r} cannot be written ({problem.strerror}), so no row"
                " was read; but the charge counts as spent in the other ledgers of this table,"
                " where it was written already."
            ) from None
    return numbers


def _new_files(chain: Chain, files: Sequence[FileId]) -> Record:
    """Files as a part of a record's body: readers that do not know of them pass over it."""
    old = set(_files(chain.records))
    new = [file.to_dict() for file in files if file not in old]
    return {"files": new} if new else {}


def _files(records: Iterable[Record]) -> tuple[FileId, ...]:
    return tuple(
        FileId.from_dict(file) for record in records for file in record["body"].get("files", ())
    )


def statement(chain: Chain) -> Statement:
    """What an open ledger says; raises LedgerDamaged for a record that makes no sense."""
    neighbours: Neighbours | None = None
    limit, first_limit, charges = None, None, list[Charge]()
    notes: list[str] = []
    ends: dict[int | None, str] = {}  # how what a charge was for ended
    try:
        for record in chain.records:
            body = record["body"]
            if record["kind"] == "charge":
                if neighbours not in (None, Neighbours(body["neighbours"])):
                    raise ValueError("two relations")
                neighbours = Neighbours(body["neighbours"])
                first_limit = first_limit if charges else limit
                events = tuple(ev.from_dict(e) for e in body["events"])
                ended = None if body.get("ended") is None else _text(body["ended"])
                charges.append(
                    Charge(
                        float(record["time"]), _text(body["label"]), events, record["seq"], ended
                    )
                )
            elif record["kind"] == "limit":
                limit = _limit(body)
            elif record["kind"] == "note":
                ends[body.get("charge")] = _text(body["text"])
                notes.extend(_shown(_text(body["text"])))
            elif record["kind"] == "torn":
                notes.append(TORN)
            else:
                raise ValueError("unknown kind")
        final = tuple(
            replace(charge, ended=ends.get(charge.number, charge.ended)) for charge in charges
        )
        files = _files(chain.records)
        state = Statement(neighbours, limit, final, tuple(notes), files, first_limit)
        if _is_absurd(state.spent):  # every event has a known cost
            raise ValueError("more than anybody spends")
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise chain.damaged("holds a record that this version cannot read") from None
    return state


def _limit(body: Record) -> Budget:
    if "epsilon" not in body:
        return Budget.zcdp(body["rho"])
    return Budget.of(
        epsilon=body["epsilon"],
        delta=body["delta"],
        accountant=body.get("accountant", Accountant.RHO),
    )


def _is_absurd(cost: Cost) -> bool:
    """More than anybody spends, and than can be shown."""
    return max(cost.rho, cost.curve_rho or 0, *(cost.curve or ())) > MOST_RHO


def _check_sane(spent: Cost) -> None:
    """Raise before a charge is written that this reader would then call damage."""
    if _is_absurd(spent):
        raise BudgetRefused("This charge is larger than any ledger counts; nothing was charged.")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return shown(value)


# ---------------------------------------------------------------------- words


def shown(text: str) -> str:
    """Text that can be written: a command's words and names of files may hold any bytes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def describe_budget(budget: Budget) -> str:
    if budget.epsilon is not None and budget.delta is not None:
        alone = ", Gaussian noise alone" if budget.accountant is Accountant.GAUSSIAN else ""
        return f"epsilon {float(budget.epsilon):.6g} at delta {float(budget.delta):.3g}{alone}"
    return f"rho {float(budget.rho):.6g}"


def describe_left(limit: Budget, rho: Fraction, delta: Fraction) -> str:
    """What is left of a limit for a release at a delta, never more than would be granted."""
    most = limit.most_epsilon(rho, delta)
    return (
        f"{'no epsilon' if most is None else f'epsilon {float(most):.6g}'} at delta"
        f" {float(delta):.3g}"
    )


def _at(limit: Budget) -> str:
    return "In rho" if limit.delta is None else f"At the limit's delta {float(limit.delta):.3g}"


def _within(state: Statement) -> str:
    """How much less, where that can be said."""
    if state.left is None or state.limit is None:
        return ""
    left = (
        f"rho {float(state.left):.6g}"
        if state.limit.delta is None
        else describe_left(state.limit, state.left, state.limit.delta)
    )
    return f" ({left} is about what is left)"


def describe_cost(cost: Cost, budget: Budget) -> str:
    """A cost in the words of the limit it is compared with."""
    counted = cost.in_rho(budget)
    if counted is None:
        return (
            f"delta {float(cost.delta):.3g}, which no limit counts"
            if cost.delta
            else "other noise than the Gaussian that alone this limit counts"
            if budget.accountant is Accountant.GAUSSIAN
            else "a curve that this limit cannot count"
        )
    if budget.epsilon is not None and budget.delta is not None:
        return f"epsilon {float(budget.epsilon_of(counted)):.6g}"
    return f"rho {float(counted):.6g}"
