"""The ledgers of a table in files, charged as one: beside it, beside each of its files, and those
that were charged for one of them before.

Another name of a file is the same file: a hard link, a link, a rename, a glob. What decides is
device and inode, and the path under which a file was known; ``docs/ledger.md`` has the cases.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from understudy.errors import ParameterError, SourceError, UnderstudyError
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import total_cost
from understudy.privacy.accounting.budget import Accountant, Budget
from understudy.privacy.ledger.chain import Chain, locked
from understudy.privacy.ledger.ledger import (
    FileLedger,
    Ledger,
    check_charge,
    statement,
    write_charge,
)
from understudy.privacy.ledger.locking import holding
from understudy.privacy.ledger.registry import Entry, FileId, Registry, Say, entries_in, opened
from understudy.queries.base import Neighbours
from understudy.sources.paths import expand

Places = dict[Path, list[FileId]]  # ledgers, and the files that each is for
# An inode is used again once its file is gone: the same number is no proof of the same table.
DOUBT = (
    "{!r} is by its inode the file that was {!r} when {!r} was charged for it, and another file has"
    " that name now; nothing was charged. If it still holds those people, say so with --ledger (in"
    " Python ledger=) and that ledger. If it is another table, say so once with 'understudy budget"
    " FILE --new-table'."
)
# Not refused: whoever deletes a table deletes its ledger, and the inode is then used again.
GONE = (
    "{!r} had a ledger {!r} when it was {!r}, which is not there any more: neither what it counted"
    " nor its limit is kept to. Put it back, or name it with --ledger (in Python ledger=). If it is"
    " gone for good, say so once with 'understudy budget FILE --new-table'."
)
# Not refused either: a table that was moved keeps what was charged for it.
RENAMED = (
    "{!r} is by its inode the file that was {!r}, which is not there any more, so its ledger {!r}"
    " counts. If it is another table, say so once with 'understudy budget FILE --new-table'."
)


class TableLedger:
    """The ledgers of one table, for one release.

    Args:
        origin: the path or glob as it was given; the table's own ledger lies beside it.
        files: the files that it names.
        ledger: the one to charge instead; others are then charged too if they have a limit.
        say: told in a sentence what cannot be kept.
    """

    def __init__(
        self, origin: str | Path, files: Sequence[str | Path], ledger: Ledger | None, say: Say
    ) -> None:
        if isinstance(ledger, TableLedger):
            raise ParameterError(
                "The ledgers of a table in files are found without being given; give none, or the"
                " path of one."
            )
        self._own, self._is_file = FileLedger.beside(origin), os.path.exists(origin)
        self._origin, self._ledger, self._say = str(origin), ledger, say
        self._files = _identify(files)
        self._charged: list[tuple[Ledger, int]] = []

    @classmethod
    def at(cls, path: str | Path, say: Say) -> TableLedger:
        """The ledgers of the files that a path or glob names; a glob may name none, and has a
        ledger all the same.
        """
        if os.path.isdir(path):
            raise ParameterError(
                f"{str(path)!r} is a folder; give a file, or a glob such as"
                f" {os.path.join(path, '*.csv')!r}."
            )
        try:
            files = expand(path)
        except SourceError:
            files = []
        return cls(path, files, None, say)

    @property
    def where(self) -> str:
        charged = [ledger for ledger, _ in self._charged] or [self._ledger or self._own]
        return ", ".join(ledger.where for ledger in charged)

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        """Charge every ledger of the table, or raise and charge none."""
        total_cost(events)  # refuses unknown events before a file is touched
        foreign = None if isinstance(self._ledger, FileLedger) else self._ledger
        # The registry stays locked until the charge is written: nobody finds these files without
        # their ledgers meanwhile.
        with opened(self._say) as registry:
            asked, others = self._places(registry)
            if not (asked or others):
                assert foreign is not None
                self._charged = [(foreign, foreign.reserve(label, events, neighbours))]
                return self._charged[0][1]
            places = {**others, **asked}
            _check_limits(
                [path for path in places if _is_there(path)], len(places), events, neighbours
            )
            with locked([*asked, *others], create=True) as chains:
                chains = self._chosen(chains, asked, neighbours)
                check_charge(chains, events, neighbours)
                files = [places[chain.path] for chain in chains]
                self._learn(
                    registry, {chain.path: own for chain, own in zip(chains, files, strict=True)}
                )
                elsewhere: list[tuple[Ledger, int]] = []
                if foreign is not None:
                    with holding(chain.path for chain in chains):
                        elsewhere.append((foreign, foreign.reserve(label, events, neighbours)))
                numbers = write_charge(
                    chains, label, events, neighbours, files, elsewhere=bool(elsewhere)
                )
        here = [
            (FileLedger(chain.path), number) for chain, number in zip(chains, numbers, strict=True)
        ]
        self._charged = [*elsewhere, *here]
        return self._charged[0][1]

    def note(self, text: str, charge: int | None = None) -> None:
        """Write a remark beside the charge, in every ledger that has it."""
        for ledger, number in self._charged:
            # it changes no total, and the next ledger may take it
            with contextlib.suppress(UnderstudyError):
                ledger.note(text, number)

    def ledgers(self) -> list[FileLedger]:
        """Every ledger of the table; its own, which is then still to be made, if there is none."""
        with opened(self._say) as registry:
            asked, others = self._places(registry)
        paths = [path for path in {**asked, **others} if _is_there(path)]
        return [FileLedger(path) for path in paths or [self._own.path]]

    def accountant(self) -> Accountant | None:
        """By whom the limits count that a release will be held to: by rho if any does, or if one
        cannot be asked; None without a limit.
        """
        kinds = {ledger.accountant() for ledger in self.ledgers()} - {None}
        foreign = self._ledger is not None and not isinstance(self._ledger, FileLedger)
        return Accountant.RHO if foreign or len(kinds) > 1 else next(iter(kinds), None)

    def set_limit(self, budget: Budget) -> None:
        """Set the limit of the table's ledger."""
        with opened(self._say) as registry:
            ledger = self._one(registry)
            self._learn(registry, {ledger.path: list(self._files)})
        ledger.set_limit(budget, self._files)

    def add(self, why: str, rho: Fraction, accountant: Accountant = Accountant.RHO) -> None:
        """Write down a charge that the table's ledger does not know of."""
        with opened(self._say) as registry:
            ledger = self._one(registry)
            self._learn(registry, {ledger.path: list(self._files)})
        ledger.add(why, rho, accountant=accountant)

    def set_apart(self) -> None:
        """Say that these files are another table than the one that their inodes were known for."""
        with opened(self._say) as registry:
            if registry.path is None:
                raise ParameterError(
                    "That cannot be kept, because there is no folder to keep it in; nothing was"
                    " changed."
                )
            index = _Index(self._all_entries(registry), self._files)
            matches = [(file, one) for file in self._files for one in index.of(file)]
            others = {
                (one.ledger, file)
                for file, one in matches
                if _is_there(one.ledger) and _may_be_another(file, one)
            }
            for ledger, file in sorted(others, key=str):
                FileLedger(ledger).note(
                    f"{file.path} was said to be another table than this ledger's"
                )
                registry.learn(Entry(file, ledger, apart=True))
            for _, one in matches:
                if not _is_there(one.ledger):
                    registry.forget(one)
            registry.save(self._say)

    def _one(self, registry: Registry) -> FileLedger:
        """The ledger that a limit belongs into."""
        asked, others = self._places(registry)
        if asked:
            return self._own
        if len(others) > 1:
            names = ", ".join(repr(str(path)) for path in others)
            raise ParameterError(
                f"{self._origin!r} has several ledgers; name the one that is meant: {names}."
            )
        return FileLedger(next(iter(others)))

    def _chosen(
        self, chains: list[Chain], asked: Collection[Path], neighbours: Neighbours
    ) -> list[Chain]:
        """What is asked for, and of what is known: those with a limit; without one, unless another
        was given or it cannot count this.
        """
        chosen = []
        for chain in chains:
            state = statement(chain)
            counts = self._ledger is None and state.neighbours in (None, neighbours)
            if chain.path in asked or state.limit is not None or counts:
                chosen.append(chain)
        return chosen or chains if self._ledger is None else chosen

    def _places(self, registry: Registry) -> tuple[Places, Places]:
        """(ledgers that are asked for, others that are known for some of the files)."""
        others, doubts = self._find(registry)
        registry.save(self._say)  # whatever becomes of the request
        if self._ledger is None:
            asked = (
                {}
                if self._is_file and others and self._own.path not in others
                else {self._own.path: list(self._files)}
            )
        elif isinstance(self._ledger, FileLedger):
            asked = {self._ledger.path: list(self._files)}
        else:
            asked = {}
        for file, one in doubts:
            if any(_is_same(path, one.ledger) for path in (*asked, *others)):
                continue
            if self._ledger is None or FileLedger(one.ledger).read().limit is not None:
                raise ParameterError(DOUBT.format(file.path, one.file.path, one.ledger))
        return asked, others

    def _find(self, registry: Registry) -> tuple[Places, list[tuple[FileId, Entry]]]:
        """(ledgers of the files, ledgers of which it cannot be told whether they are)."""
        index = _Index(self._all_entries(registry), self._files)
        places: Places = defaultdict(list)
        doubts = []
        for file in self._files:
            beside = FileLedger.beside(file.path).path
            ledgers = [beside] if _is_there(beside) else []
            for ledger in ledgers:  # one that was made before there was a registry
                registry.learn(Entry(file, os.path.realpath(ledger)))
            for one in index.of(file):
                there = _is_there(one.ledger)
                apart = Entry(file, one.ledger, apart=True) in registry.entries
                if apart and _may_be_another(file, one):
                    continue
                if not there:
                    # deleted with its ledger, and the inode is used again; or both were moved
                    if not _is_there(one.file.path):
                        registry.forget(one)
                    self._say(GONE.format(file.path, one.ledger, one.file.path))
                elif not _may_be_another(file, one):
                    ledgers.append(Path(one.ledger))
                elif _is_there(one.file.path):
                    doubts.append((file, one))
                else:
                    ledgers.append(Path(one.ledger))
                    if Entry(file, one.ledger) not in registry.entries:
                        self._say(RENAMED.format(file.path, one.file.path, one.ledger))
            for ledger in dict.fromkeys(ledgers):
                places[ledger].append(file)
        return dict(places), doubts

    def _all_entries(self, registry: Registry) -> list[Entry]:
        """What the registry knows, and what the ledgers in the folders of the files say."""
        folders = dict.fromkeys(os.path.dirname(file.path) for file in self._files)
        nearby = [one for folder in folders for one in entries_in(folder)]
        return list(dict.fromkeys([one for one in (*registry.entries, *nearby) if not one.apart]))

    def _learn(self, registry: Registry, places: Places) -> None:
        for ledger, files in places.items():
            for file in files:
                registry.learn(Entry(file, os.path.realpath(ledger)))
        registry.save(self._say)


def _check_limits(
    there: list[Path], count: int, events: tuple[ev.Event, ...], neighbours: Neighbours
) -> None:
    """Refuse before a ledger is made that would stay behind empty. What decides is asked again once
    all are locked.
    """
    if 0 < len(there) < count:
        with locked(there, create=False) as chains:
            check_charge(
                [chain for chain in chains if statement(chain).limit is not None],
                events,
                neighbours,
            )


class _Index:
    """What is known, by path and by inode: the one of then, and the one that the path has now."""

    def __init__(self, entries: Iterable[Entry], files: Iterable[FileId]) -> None:
        self._by: dict[object, dict[Entry, None]] = defaultdict(dict)
        devices = {file.device for file in files}
        for one in entries:
            names: list[object] = [one.file.path, (one.file.device, one.file.inode)]
            if one.file.device in devices:  # no other mount is asked: it might not answer
                names.extend((now.device, now.inode) for now in _now(one.file.path))
            for name in names:
                self._by[name][one] = None

    def of(self, file: FileId) -> list[Entry]:
        names = [file.path, *([(file.device, file.inode)] if file.inode else [])]
        return list(dict.fromkeys(one for name in names for one in self._by.get(name, ())))


def _identify(files: Sequence[str | Path]) -> tuple[FileId, ...]:
    try:
        ids = tuple(FileId.of(file) for file in files)
    except OSError:
        raise SourceError("A file of the table is not there any more; check the path.") from None
    inodes = [(file.device, file.inode) for file in ids if file.inode]
    if len(set(inodes)) < len(inodes):
        raise SourceError(
            "Two of the files are one file under two names, and its rows would count twice; give a"
            " glob that names it once."
        )
    return ids


def _may_be_another(file: FileId, one: Entry) -> bool:
    """Whether a file may only have the inode of what a ledger was charged for: neither its path,
    nor a path that is still its name.
    """
    return one.file.path != file.path and not any(
        now.is_same_file(file) for now in _now(one.file.path)
    )


def _now(path: str) -> list[FileId]:
    """The file at a path, if there is one."""
    try:
        return [FileId.of(path)]
    except (OSError, ValueError):
        return []


def _is_there(path: str | Path) -> bool:
    """Whether there is something, as far as one can tell: what may not be looked at is there."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as problem:
        return problem.errno != errno.ENAMETOOLONG
    return True


def _is_same(one: Path, other: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
