"""What platforms do differently with a file that must not be lost: locking it, and waiting until
the disk has it.

POSIX systems have ``flock``, Windows locks a range of bytes; macOS keeps what was synced in the
memory of the drive unless it is told not to. Both kinds of lock belong to the open file, and the
system frees them when it is closed or its process dies.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Without text mode, which on Windows would change the ends of lines and so the hashes.
APPENDING = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)
LOCKED_BYTE = 2**31 - 2  # no ledger is as long: on Windows nobody else can read what is locked
TAKEN = (errno.EACCES, errno.EDEADLK)  # by somebody else
NOT_THERE = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)  # a file system without full sync
PAUSE = 0.01  # seconds between two attempts


def _module(name: str) -> Any:
    """A module that only some platforms have, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fcntl, msvcrt = _module("fcntl"), _module("msvcrt")


def lock(fd: int) -> None:
    """Wait until this open file is the only one that holds the lock."""
    if any(os.path.samestat(os.fstat(fd), file) for file in getattr(_local, "files", ())):
        raise OSError(errno.EDEADLK, "this release has locked it already and would wait for itself")
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
    elif msvcrt is not None:
        _lock_byte(fd)
    else:
        raise OSError(errno.ENOSYS, "this platform has no locks that Understudy knows")


_local = threading.local()


@contextlib.contextmanager
def holding(paths: Iterable[Path]) -> Iterator[None]:
    """Refuse to wait for these files in this thread, which has locked them, while somebody else's
    code is called.
    """
    _local.files = [os.stat(path) for path in paths]
    try:
        yield
    finally:
        _local.files = []


def _lock_byte(fd: int) -> None:
    while True:
        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as problem:
            if problem.errno not in TAKEN:
                raise
            time.sleep(PAUSE)
        else:
            return


def is_at(fd: int, path: Path) -> bool:
    """Whether an open file is still the one at a path; on Windows an open file cannot be replaced."""
    if os.name == "nt":
        return True
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def sync(fd: int) -> None:
    """Return when the disk has what was written."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS
    if full is not None:
        try:
            fcntl.fcntl(fd, full)
        except OSError as problem:
            if problem.errno not in NOT_THERE:
                raise
        else:
            return
    os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Return when the disk has the names in a folder; Windows keeps names by itself."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)
