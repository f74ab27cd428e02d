"""A disk that loses power: what the ledger does to its file is recorded, and every state that a
crash may leave is built from it.

The model is the least that POSIX promises. What was written before an fsync of the file is kept. Of
everything after it any part may be lost, and the rest may arrive in the other order: a write whole,
torn at any byte, or with any of its blocks missing (zeros are read there when the file is longer);
a truncation or not. The file's name is kept only when its folder was synced after it was made;
until then the whole file may be gone.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BLOCK = 64  # bytes that reach the disk together; small, so that a record has several


@dataclass(frozen=True)
class Did:
    """One thing done: ``write`` of data at a place, ``truncate`` to it, ``sync``, ``sync folder``,
    or ``granted``.
    """

    what: str
    at: int = 0
    data: bytes = b""


@dataclass
class Recorder:
    """Watches one file through the functions of ``os``."""

    path: Path
    done: list[Did] = field(default_factory=list)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        real_write, real_sync, real_cut = os.write, os.fsync, os.ftruncate

        def write(fd: int, data: bytes) -> int:
            if not self._is_ours(fd):
                return real_write(fd, data)
            size = os.fstat(fd).st_size
            self.done.append(Did("write", size, bytes(data)))
            return real_write(fd, data)

        def fsync(fd: int) -> None:
            real_sync(fd)
            if self._is_ours(fd):
                self.done.append(Did("sync"))
            elif os.path.samestat(os.fstat(fd), os.stat(self.path.parent)):
                self.done.append(Did("sync folder"))

        def ftruncate(fd: int, size: int) -> None:
            real_cut(fd, size)
            if self._is_ours(fd):
                self.done.append(Did("truncate", size))

        for name, function in (("write", write), ("fsync", fsync), ("ftruncate", ftruncate)):
            patch.setattr(os, name, function)

    def granted(self) -> None:
        """A charge was granted: from now on it may not be lost."""
        self.done.append(Did("granted"))

    def _is_ours(self, fd: int) -> bool:
        return self.path.exists() and os.path.samestat(os.fstat(fd), os.stat(self.path))


def crashes(
    done: list[Did], start: bytes | None, chance: random.Random, tears: int
) -> Iterator[tuple[bytes | None, int]]:
    """(what the file may hold after a crash, or None if it is gone; how many charges had been
    granted), for every moment of a crash.
    """
    for moment in range(len(done) + 1):
        before = done[:moment]
        granted = sum(did.what == "granted" for did in before)
        synced = max((i + 1 for i, did in enumerate(before) if did.what == "sync"), default=0)
        durable = _replay(before[:synced], start or b"")
        loose = [did for did in before[synced:] if did.what in ("write", "truncate")]
        if start is None and not any(did.what == "sync folder" for did in before):
            yield None, granted
        for kept in itertools.chain.from_iterable(
            itertools.combinations(loose, count) for count in range(len(loose) + 1)
        ):
            for order in (kept, kept[::-1]):
                yield _replay(order, durable), granted
                if order and order[-1].what == "write":
                    whole = _replay(order[:-1], durable)
                    for torn in _torn(order[-1], chance, tears):
                        yield torn(whole), granted


def _replay(done: list[Did] | tuple[Did, ...], content: bytes) -> bytes:
    for did in done:
        if did.what == "write":
            content = (
                content.ljust(did.at, b"\0")[: did.at]
                + did.data
                + content[did.at + len(did.data) :]
            )
        elif did.what == "truncate":
            content = content[: did.at].ljust(did.at, b"\0")
    return content


def _torn(did: Did, chance: random.Random, tears: int) -> Iterator[Callable[[bytes], bytes]]:
    lengths = (
        range(len(did.data))
        if tears >= len(did.data)
        else sorted(chance.sample(range(len(did.data)), tears))
    )
    for length in lengths:
        yield lambda content, n=length: _replay([Did("write", did.at, did.data[:n])], content)  # type: ignore[misc]
    blocks = range(0, len(did.data), BLOCK)
    for _ in range(max(1, tears // 4)):
        kept = [b for b in blocks if chance.random() < 0.5]
        pieces = [Did("write", did.at + b, did.data[b : b + BLOCK]) for b in kept]
        yield lambda content, some=pieces: _replay(some, content)  # type: ignore[misc]
