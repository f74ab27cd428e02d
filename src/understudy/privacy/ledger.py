"""The ledger: what has been spent on a dataset, on disk before any of its rows is read.

One JSON record a line, append-only, each carrying the hash of the one before. Writers hold an
exclusive lock on the file and fsync before they return, so a charge that was granted survives a
crash, and two processes cannot both take the last of a budget. A charge is never given back: a
release that dies half-way has spent its whole reservation.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from understudy.errors import BudgetRefused, LedgerDamaged, ParameterError, ReleaseFailed
from understudy.privacy import events as ev
from understudy.privacy.accountant import Cost, cost_of, total_cost
from understudy.privacy.budget import MOST_RHO, Budget, epsilon_for, exact
from understudy.queries.base import Neighbours

FIRST_HASH = "0" * 64
FORMAT = 1
TORN = (
    "an unfinished record was set aside: a writer died before its charge was granted, "
    "or else the file was damaged from outside and a charge may be missing"
)
MADE = "made"
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

    @property
    def spent(self) -> Cost:
        total = Cost()
        for charge in self.charges:
            total += charge.cost
        return total


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
            f"This ledger counts privacy under {state.neighbours}, and charges under {neighbours} cannot be added to it; "
            f"use --neighbours {state.neighbours}, or keep another ledger for this promise."
        )
    if state.limit is not None and not (state.spent + cost).keeps(state.limit):
        raise BudgetRefused(
            f"The dataset's limit of {describe_budget(state.limit)} does not allow a charge of {describe_cost(cost, state.limit)} "
            f"on top of the {describe_cost(state.spent, state.limit)} already spent; nothing was charged. "
            "Ask for less, or raise the limit with 'understudy budget'."
        )


def _shown(text: str) -> tuple[str, ...]:
    """A remark as a note of its own; that a release was made is told beside its charge."""
    return () if text == MADE else (text,)


class ProcessLedger:
    """A ledger in memory, made anew for each release of a table in memory without ``ledger=``: it remembers nothing after."""

    where = "this process only (no ledger file was given)"

    def __init__(self) -> None:
        self.state = Statement()
        self._lock = threading.Lock()

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        with self._lock:
            charge = Charge(time.time(), label, events, len(self.state.charges))
            check_grant(self.state, charge.cost, neighbours)
            self.state = replace(self.state, neighbours=neighbours, charges=(*self.state.charges, charge))
        return charge.number

    def note(self, text: str, charge: int | None = None) -> None:
        with self._lock:
            charges = tuple(replace(c, ended=text) if c.number == charge else c for c in self.state.charges)
            self.state = replace(self.state, charges=charges, notes=(*self.state.notes, *_shown(text)))


class FileLedger:
    """A durable ledger in a file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def beside(cls, data: str | Path) -> FileLedger:
        """The ledger kept beside a data file, or in the folder of a glob."""
        text = str(data)
        if Path(text).exists():
            whole = Path(text).resolve()
            return cls(whole.with_name(whole.name + ".ledger.jsonl"))
        fixed = text[: min((text.find(c) for c in "*?[" if c in text), default=len(text))]
        return cls(Path(fixed[: fixed.rfind("/") + 1] or ".").resolve() / "understudy.ledger.jsonl")

    @property
    def where(self) -> str:
        """The file's name as text that can be written; a name may hold bytes that are none."""
        return self.path.name.encode("utf-8", "backslashreplace").decode("utf-8")

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        """Write a charge and make it durable, or raise and write nothing."""
        cost = total_cost(events)  # refuses unknown events before the file is touched
        with self._locked(create=True) as (fd, records):
            state = _statement(records)
            _check_sane(state.spent + cost)
            check_grant(state, cost, neighbours)
            body = {"label": str(label), "neighbours": str(neighbours), "events": [ev.to_dict(event) for event in events]}
            _append(fd, records, "charge", body)
            return len(records) - 1

    def add(self, why: str, rho: Fraction, neighbours: Neighbours | None = None) -> Statement:
        """Write down a charge that this file does not know of; no limit refuses it, because it has been spent already.

        For what a damaged ledger hid and its backup lacks: this can add to what is spent and never take from it.
        """
        rho = exact(rho, "rho")
        if not 0 < rho <= MOST_ADDED:
            raise ParameterError("What is added to a ledger by hand is a rho above 0 and at most 10^12.")
        with self._locked(create=True) as (fd, records):
            state = _statement(records)
            relation = neighbours or state.neighbours or Neighbours.REPLACE_ONE
            _check_sane(state.spent + Cost(rho))
            check_grant(replace(state, limit=None), Cost(rho), relation)
            event = ev.to_dict(ev.Reservation(what=BY_HAND, rho=rho))
            _append(fd, records, "charge", {"label": str(why), "neighbours": str(relation), "events": [event], "ended": BY_HAND})
        return self.read()

    def note(self, text: str, charge: int | None = None) -> None:
        """Write a remark (how a release ended); it changes no total."""
        with self._locked(create=True) as (fd, records):
            _append(fd, records, "note", {"text": str(text)} if charge is None else {"text": str(text), "charge": charge})

    def set_limit(self, budget: Budget) -> Statement:
        """Set the most that may ever be spent; the change itself is on record."""
        with self._locked(create=True) as (fd, records):
            state = _statement(records)
            if not state.spent.keeps(budget):
                raise ParameterError(
                    f"The limit {describe_budget(budget)} is below what is already spent ({describe_cost(state.spent, budget)})."
                )
            body = {name: str(value) for name, value in vars(budget).items() if value is not None}
            _append(fd, records, "limit", body)
        return self.read()

    def read(self) -> Statement:
        """What the ledger says; raises LedgerDamaged if its chain does not hold."""
        with self._locked(create=False) as (_, records):
            return _statement(records)

    @contextlib.contextmanager
    def _locked(self, *, create: bool) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Open, lock, check and mend; what the disk refuses becomes a sentence, in the body of the ``with`` too."""
        fd = -1
        try:
            # The descriptor is ours to close before it is locked: an interrupt in between must not leave a lock that nobody frees.
            while True:
                fd = self._open(create)
                fcntl.flock(fd, fcntl.LOCK_EX)  # freed by the system if this process dies
                # While we waited somebody may have put another file in its place: a charge in the old one would be lost.
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.fstat(fd), os.stat(self.path)):
                        break
                fd, other = -1, fd
                os.close(other)
            records, torn = _parse(_read_all(fd))
            if not records:
                _sync_folder(self.path.resolve().parent)  # the file's name must survive too, whoever made it
            if torn:
                _mend(fd, records, torn)
            yield fd, records
        except OSError as problem:
            if isinstance(problem, FileNotFoundError) and not create:
                raise ParameterError(f"There is no ledger {str(self.path)!r}; one is made by the first release.") from None
            raise ParameterError(
                f"The ledger {str(self.path)!r} cannot be written ({problem.strerror}); nothing was charged and no row was read. Make room "
                "or get the right to write there. Another place (--ledger) starts another ledger, which does not know what this one holds."
            ) from None
        finally:
            if fd >= 0:
                os.close(fd)  # no function of ours in between: an interrupt could stop it

    def _open(self, create: bool) -> int:
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0), 0o600)
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # /dev/null forgets, and /dev/zero never ends
            os.close(fd)
            raise OSError(errno.EINVAL, "it is not a plain file")
        return fd


def _statement(records: list[dict[str, Any]]) -> Statement:
    neighbours: Neighbours | None = None
    limit, charges = None, []
    notes: list[str] = []
    ends: dict[int | None, str] = {}  # how what a charge was for ended
    try:
        for record in records:
            body = record["body"]
            if record["kind"] == "charge":
                if neighbours not in (None, Neighbours(body["neighbours"])):
                    raise ValueError("two relations")
                neighbours = Neighbours(body["neighbours"])
                events = tuple(ev.from_dict(e) for e in body["events"])
                ended = None if body.get("ended") is None else _text(body["ended"])
                charges.append(Charge(float(record["time"]), _text(body["label"]), events, record["seq"], ended))
            elif record["kind"] == "limit":
                limit = Budget.of(epsilon=body["epsilon"], delta=body["delta"]) if "epsilon" in body else Budget.zcdp(body["rho"])
            elif record["kind"] == "note":
                ends[body.get("charge")] = _text(body["text"])
                notes.extend(_shown(_text(body["text"])))
            elif record["kind"] == "torn":
                notes.append(TORN)
            else:
                raise ValueError("unknown kind")
        told = tuple(replace(charge, ended=ends.get(charge.number, charge.ended)) for charge in charges)
        state = Statement(neighbours, limit, told, tuple(notes))
        if _is_absurd(state.spent):  # every event has a known cost
            raise ValueError("more than anybody spends")
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise LedgerDamaged(DAMAGED.format("holds a record that this version cannot read")) from None
    return state


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
    return value.encode("utf-8", "backslashreplace").decode("utf-8")  # words of a command line may hold bytes that no screen shows


# ---------------------------------------------------------------------- bytes on disk

DAMAGED = (
    "The ledger {}. Nothing was charged and no row was read. Restore the file from a backup, or keep its lines above the damage, and add "
    "what is then missing with 'understudy budget LEDGER --add-rho RHO --why WORDS'. What was spent still counts: if you cannot tell how "
    "much is missing, release nothing more from this table (docs/ledger.md)."
)


def _hash(record: dict[str, Any]) -> str:
    content = {key: value for key, value in record.items() if key != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _append(fd: int, records: list[dict[str, Any]], kind: str, body: dict[str, Any]) -> None:
    record: dict[str, Any] = {
        "seq": len(records), "format": FORMAT, "time": round(time.time(), 3), "kind": kind, "body": body,
        "prev": records[-1]["hash"] if records else FIRST_HASH,
    }  # fmt: skip
    record["hash"] = _hash(record)
    data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    size = os.fstat(fd).st_size
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        os.ftruncate(fd, size)
        raise
    try:
        os.fsync(fd)
    except OSError as problem:
        raise ReleaseFailed(
            f"The disk did not confirm a record of the ledger ({problem.strerror}), so no row was read. "
            "If it was a charge, it may count as spent: 'understudy budget' shows it."
        ) from None
    records.append(record)


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    pieces = []
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _parse(data: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """(verified records, the bytes of an unfinished last line)."""
    records: list[dict[str, Any]] = []
    *lines, tail = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        record = _record(line, records)
        if record is None:
            raise LedgerDamaged(DAMAGED.format(f"is damaged at line {number}: its hash chain does not hold"))
        records.append(record)
    start = f'{{"seq":{len(records)},'.encode()
    if tail[: len(start)] != start[: len(tail)]:
        raise LedgerDamaged(DAMAGED.format("ends in something that no writer of a ledger wrote"))
    return records, tail


def _record(line: bytes, before: list[dict[str, Any]]) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
        expected = before[-1]["hash"] if before else FIRST_HASH
        linked = record["prev"] == expected and record["seq"] == len(before) and record["hash"] == _hash(record)
        whole = linked and record["format"] == FORMAT and isinstance(record["body"], dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if whole else None


def _mend(fd: int, records: list[dict[str, Any]], torn: bytes) -> None:
    """Deal with an unfinished last line.

    A complete record that only lacks the line's end is counted: it may have been granted. Anything
    else is a write that died before its fsync returned, so nobody acted on it; it is cut off and kept
    inside a record of its own. Dying in the middle of this leaves an unfinished line again.
    """
    complete = _record(torn, records)
    if complete is not None:
        os.write(fd, b"\n")
        os.fsync(fd)
        records.append(complete)
        return
    if _holds_a_record(torn):
        raise LedgerDamaged(DAMAGED.format("ends in a whole record with something behind it, which no interrupted write leaves"))
    os.ftruncate(fd, os.fstat(fd).st_size - len(torn))
    _append(fd, records, "torn", {"bytes": torn.hex()})


def _holds_a_record(torn: bytes) -> bool:
    try:
        json.JSONDecoder().raw_decode(torn.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ---------------------------------------------------------------------- words


def describe_budget(budget: Budget) -> str:
    if budget.epsilon is not None and budget.delta is not None:
        return f"epsilon {float(budget.epsilon):.6g} at delta {float(budget.delta):.3g}"
    return f"rho {float(budget.rho):.6g}"


def describe_cost(cost: Cost, budget: Budget) -> str:
    """A cost in the words of the limit it is compared with."""
    counted = cost.in_rho(budget)
    if counted is None:
        return f"delta {float(cost.delta):.3g}, which no limit counts" if cost.delta else "a curve that this limit cannot count"
    if budget.epsilon is not None and budget.delta is not None:
        return f"epsilon {float(epsilon_for(counted, budget.delta)):.6g}"
    return f"rho {float(counted):.6g}"
