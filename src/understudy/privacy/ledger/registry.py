"""Which ledgers were charged for which files: kept for each user, so that another name of a file
does not hide what was spent on it.

A file is known by its device and inode, and by the path under which it was met. Nothing of what it
holds is kept, no hash and no size:
either would let a reader test guesses of a cell.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from understudy.privacy.ledger.locking import lock, sync, sync_folder
from understudy.runtime.paths import LEDGER, STATE, state_folder

Say = Callable[[str], None]
# a release goes on: the ledger beside a file needs no registry
UNPROTECTED = (
    "The folder {!r} cannot be used ({}), so it cannot be kept there which ledger belongs to"
    f" which file: a limit may not be found when a file is released under another name. Set {STATE}"
    " to a folder that you can write to."
)
# a line that cannot be read costs the lines beside it nothing
DAMAGED = (
    "{} lines of {!r} could not be read and were set aside in {!r}. The ledgers themselves are not"
    " touched; one that lies in another folder than its file is found again after the next release"
    " that names it (--ledger)."
)


@dataclass(frozen=True)
class FileId:
    """A file as the system knows it, and where it was met."""

    device: int
    inode: int
    path: str

    @classmethod
    def of(cls, file: str | Path) -> FileId:
        status = os.stat(file)
        return cls(status.st_dev, status.st_ino, os.path.realpath(file))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FileId:
        """Raises KeyError, TypeError or ValueError for anything else than what ``to_dict`` makes."""
        device, inode, path = data["device"], data["inode"], data["path"]
        if not (type(device) is int and type(inode) is int and isinstance(path, str)):
            raise TypeError("a file is two whole numbers and a path")
        return cls(device, inode, path)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def is_same_file(self, other: FileId) -> bool:
        """Some file systems have no inodes, and give 0 to every file."""
        return self.inode != 0 and (self.device, self.inode) == (other.device, other.inode)


@dataclass(frozen=True)
class Entry:
    """A ledger that was charged for a file; or, ``apart``, one said not to be the file's."""

    file: FileId
    ledger: str
    apart: bool = False


@dataclass
class Registry:
    """What is known of one user's files."""

    path: Path | None
    entries: dict[Entry, None] = field(default_factory=dict)  # a set that keeps its order
    changed: bool = False

    def learn(self, entry: Entry) -> None:
        self.changed |= entry not in self.entries
        self.entries[entry] = None

    def forget(self, entry: Entry) -> None:
        self.changed |= entry in self.entries
        self.entries.pop(entry, None)

    def save(self, say: Say) -> None:
        """Write it down, whole or not at all."""
        if self.path is None or not self.changed:
            return
        lines = [
            json.dumps({**one.file.to_dict(), "ledger": one.ledger, "apart": one.apart}) + "\n"
            for one in self.entries
        ]
        try:
            _replace(self.path, "".join(lines))
            self.changed = False
        except OSError as problem:
            say(UNPROTECTED.format(str(self.path.parent), problem.strerror))


@contextlib.contextmanager
def opened(say: Say) -> Iterator[Registry]:
    """The registry, locked; where it has no place, an empty one that is never saved."""
    fd = -1
    try:
        path: Path | None = None
        folder = state_folder()
        try:
            if not folder.is_absolute():  # it would be another one in every working directory
                raise OSError(errno.EINVAL, "it is not an absolute path")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder / "registry.lock", os.O_RDWR | os.O_CREAT, 0o600)
            _share(fd, folder)
            lock(fd)
            path = folder / "registry.jsonl"
        except OSError as problem:
            say(UNPROTECTED.format(str(folder), problem.strerror))
        yield _read(folder / "registry.jsonl", path, say)
    finally:
        if fd >= 0:
            os.close(fd)


def learn_beside(ledger: Path) -> None:
    """Keep that a ledger is that of the file that it lies beside; a release says it where that
    cannot be kept.
    """
    with contextlib.suppress(OSError):
        if ledger.name.endswith(LEDGER):
            file = FileId.of(str(ledger)[: -len(LEDGER)])
            with opened(_in_silence) as registry:
                registry.learn(Entry(file, os.path.realpath(ledger)))
                registry.save(_in_silence)


def _in_silence(sentence: str) -> None:
    pass


def _share(fd: int, folder: Path) -> None:
    """A file in a folder that a group may write to is the group's too; else its owner's alone."""
    if hasattr(os, "fchmod") and folder.stat().st_mode & stat.S_IWGRP:
        with contextlib.suppress(OSError):  # somebody else of the group made it, and has done it
            os.fchmod(fd, 0o660)


def _read(place: Path, path: Path | None, say: Say) -> Registry:
    registry, wrong = Registry(path), []
    try:
        _check_plain(place)
        lines = place.read_bytes().splitlines()
    except FileNotFoundError:
        lines = []
    except OSError as problem:
        if path is not None:  # else it has been said
            say(UNPROTECTED.format(str(place), problem.strerror))
        return Registry(None)
    for line in lines:
        try:
            entry = json.loads(line)
            registry.entries[
                Entry(FileId.from_dict(entry), os.fspath(entry["ledger"]), entry["apart"] is True)
            ] = None
        except (ValueError, KeyError, TypeError, RecursionError):
            wrong.append(line)
    if wrong and path is not None:
        aside = place.with_name("registry.damaged.jsonl")
        with contextlib.suppress(OSError), aside.open("ab") as stream:
            stream.write(b"".join(line + b"\n" for line in wrong))
        say(DAMAGED.format(len(wrong), str(place), str(aside)))
        registry.changed = True
        registry.save(say)  # or they would be set aside again by whoever reads next
    return registry


def _check_plain(place: Path) -> None:
    """Raise OSError for what may never end, or never begin."""
    if not stat.S_ISREG(place.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a plain file")


def _replace(path: Path, text: str) -> None:
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(fd, "w", encoding="utf-8") as stream:
            _share(fd, path.parent)
            stream.write(text)
            stream.flush()
            sync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


# ---------------------------------------------------------------------- what a folder says by itself


def entries_in(folder: str) -> list[Entry]:
    """What the ledgers of a folder say about files, for a registry that was lost or is somebody
    else's.

    Read without a lock and without checking: what is found here is only opened, and checked then.
    """
    entries: list[Entry] = []
    with contextlib.suppress(OSError):
        for ledger in sorted(Path(folder).glob(f"*{LEDGER}")):
            with contextlib.suppress(OSError):
                # beside its file, which may have more names
                entries.append(Entry(FileId.of(str(ledger)[: -len(LEDGER)]), str(ledger)))
            with contextlib.suppress(OSError):
                if stat.S_ISREG(ledger.stat().st_mode):
                    entries.extend(Entry(file, str(ledger)) for file in _files(ledger.read_bytes()))
    return entries


def _files(data: bytes) -> Iterator[FileId]:
    for line in data.splitlines():
        if b'"files":' in line:
            with contextlib.suppress(
                ValueError, KeyError, TypeError, AttributeError, RecursionError
            ):
                yield from [FileId.from_dict(file) for file in json.loads(line)["body"]["files"]]
