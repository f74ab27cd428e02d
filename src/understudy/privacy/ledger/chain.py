"""The bytes of a ledger: one JSON record a line, each carrying the hash of the one before; appended
under a lock, synced, read back.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import LedgerDamaged, ParameterError, ReleaseFailed
from understudy.privacy.ledger.locking import APPENDING, READING, is_at, lock, sync, sync_folder

FIRST_HASH = "0" * 64  # before the first record there is none: as long as a SHA-256 in hex
FORMAT = 1  # of a record; one of another number is refused, not guessed at
# what to do, for it never mends itself: a charge might be lost
DAMAGED = (
    "The ledger {!r} {}. Nothing was charged and no row was read. Restore the file from a backup,"
    " or keep its lines above the damage, and add what is then missing with 'understudy budget"
    " LEDGER --add-rho RHO --why WORDS'. What was spent still counts: if you cannot tell how much"
    " is missing, release nothing more from this table (docs/ledger.md)."
)
Record = dict[str, Any]


class Chain:
    """An open and locked ledger: its verified records, and the one way to add another."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path, self._fd = path, fd
        self._data = _read_all(fd)
        self.records, torn = self._parse()
        if not self.records:
            sync_folder(path.resolve().parent)  # the file's name must survive too, whoever made it
        if torn:
            self._mend(torn)

    def append(self, kind: str, body: Record) -> int:
        """Add a record, wait until the disk has it, read it back; returns its number."""
        record: Record = {
            "seq": len(self.records), "format": FORMAT, "time": round(time.time(), 3), "kind": kind, "body": body,
            "prev": self.records[-1]["hash"] if self.records else FIRST_HASH,
        }  # fmt: skip
        record["hash"] = hash_of(record)
        try:
            self._write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        except OSError as problem:
            problem.filename = str(self.path)  # of several that are open
            raise
        self.records.append(record)
        return len(self.records) - 1

    def damaged(self, how: str) -> LedgerDamaged:
        return LedgerDamaged(DAMAGED.format(str(self.path), how))

    def _write(self, line: bytes) -> None:
        if os.fstat(self._fd).st_size != len(self._data):
            raise OSError(
                errno.EBUSY,
                "somebody else wrote to it while it was locked: locks do not work there",
            )
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError:
            # what lies behind is ours alone
            if os.fstat(self._fd).st_size == len(self._data) + written:
                os.ftruncate(self._fd, len(self._data))
            raise
        try:
            sync(self._fd)
            content = self._read_back()
        except OSError as problem:
            raise ReleaseFailed(
                f"The disk did not confirm a record of the ledger ({problem.strerror}), so no row"
                " was read. If it was a charge, it may count as spent: 'understudy budget'"
                " shows it."
            ) from None
        self._data += line
        if content != self._data:
            raise ReleaseFailed(
                f"A record was written to the ledger {str(self.path)!r} and is not where it was"
                " put, so no row was read: somebody else wrote at the same time, and locks do not"
                " work there. If it was a charge, it may count as spent. Keep the ledger on a file"
                " system whose locks all its users share (docs/ledger.md)."
            )

    def _read_back(self) -> bytes:
        """What the file says to somebody who opens it now: a network's file system may show the
        writer what nobody else sees.
        """
        fd = os.open(self.path, READING)
        try:
            return _read_all(fd)
        finally:
            os.close(fd)

    def _parse(self) -> tuple[list[Record], bytes]:
        """(verified records, the bytes of an unfinished last line)."""
        records: list[Record] = []
        *lines, tail = self._data.split(b"\n")
        for number, line in enumerate(lines, 1):
            record = _record(line, records)
            if record is None:
                raise self.damaged(f"is damaged at line {number}: its hash chain does not hold")
            records.append(record)
        start = f'{{"seq":{len(records)},'.encode()
        if tail[: len(start)] != start[: len(tail)]:
            raise self.damaged("ends in something that no writer of a ledger wrote")
        return records, tail

    def _mend(self, torn: bytes) -> None:
        """Deal with an unfinished last line.

        A complete record that only lacks the line's end is counted: it may have been granted.
        Anything else is a write that died before its fsync returned, so nobody acted on it; it is
        cut off and kept inside a record of its own. Dying in the middle of this leaves an
        unfinished line again.
        """
        complete = _record(torn, self.records)
        if complete is not None:
            self._write(b"\n")
            self.records.append(complete)
            return
        if _holds_a_record(torn):
            raise self.damaged(
                "ends in a whole record with something behind it, which no interrupted write leaves"
            )
        if self._read_back() != self._data:  # its writer lives, and was not kept out by our lock
            raise OSError(
                errno.EBUSY,
                "somebody else is writing to it while it is locked: locks do not work there",
            )
        self._data = self._data[: -len(torn)]
        os.ftruncate(self._fd, len(self._data))
        self.append("torn", {"bytes": torn.hex()})


@contextlib.contextmanager
def locked(paths: Sequence[Path], *, create: bool) -> Iterator[list[Chain]]:
    """Open and lock ledgers, check and mend them; those that are one file are one chain.

    They are locked in the order of their inodes, whatever they are called, so that two writers
    never wait for each other. What the disk refuses becomes a sentence, in the body of the ``with``
    too.
    """
    fds: list[int] = []
    at = paths[0]  # told when something fails
    try:
        # The descriptors are ours to close before one is locked: an interrupt in between must not
        # leave a lock that nobody frees.
        while True:
            files: dict[tuple[int, int], tuple[Path, int]] = {}
            for path in paths:
                at = path
                fds.append(_open(path, create))
                status = os.fstat(fds[-1])
                files.setdefault((status.st_dev, status.st_ino), (path, fds[-1]))
            for inode in sorted(files):
                at, fd = files[inode]
                lock(fd)
            # While we waited somebody may have put another file in its place: a charge in the old
            # one would be lost.
            if all(is_at(fd, path) for path, fd in files.values()):
                break
            while fds:
                os.close(fds.pop())
        chains = []
        for at, fd in files.values():
            chains.append(Chain(at, fd))
        yield chains
    except OSError as problem:
        at = Path(problem.filename or at)
        if isinstance(problem, FileNotFoundError) and not create:
            raise ParameterError(
                f"There is no ledger {str(at)!r}; one is made by the first release."
            ) from None
        raise ParameterError(
            f"The ledger {str(at)!r} cannot be written ({problem.strerror}); nothing was charged"
            " and no row was read. Make room or get the right to write there. Another place"
            " (--ledger) starts another ledger, which does not know what this one holds."
        ) from None
    finally:
        for fd in fds:
            os.close(fd)  # no function of ours in between: an interrupt could stop it


def _open(path: Path, create: bool) -> int:
    fd = os.open(path, APPENDING | (os.O_CREAT if create else 0), 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):  # /dev/null forgets, and /dev/zero never ends
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file")
    return fd


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    pieces = []
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def hash_of(record: Record) -> str:
    content = {key: value for key, value in record.items() if key != "hash"}
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _record(line: bytes, before: list[Record]) -> Record | None:
    try:
        record = json.loads(line)
        expected = before[-1]["hash"] if before else FIRST_HASH
        linked = (
            record["prev"] == expected
            and record["seq"] == len(before)
            and record["hash"] == hash_of(record)
        )
        whole = linked and record["format"] == FORMAT and isinstance(record["body"], dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if whole else None


def _holds_a_record(torn: bytes) -> bool:
    try:
        json.JSONDecoder().raw_decode(torn.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True
