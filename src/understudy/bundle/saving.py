"""A finished release is not lost for want of a disk: the place is looked at before a budget is
spent, and there are others.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.counting.tally import DENSE_CELLS
from understudy.errors import (
    NotSupported,
    ParameterError,
    ReleaseFailed,
    SavedElsewhere,
    UnderstudyError,
)
from understudy.queries.workload import Workload
from understudy.runtime.machine import memory_left
from understudy.runtime.paths import state_folder
from understudy.schema import Moment, Number

SMALLEST = 60_000  # bytes of a bundle that hardly holds anything
BATCH_BYTES = 400  # of a batch of queries, described in the workload and beside its measurement
ANSWER_BYTES = 3  # of an answer that is not zero, in a file
DRAWN_BYTES = 6  # of a value drawn inside a bin, which hardly compresses
LONGEST_PREFIX = 40  # letters of a name, of which a system takes about 60 to 250
PROBE = b"\0" * 4096  # a disk that is full takes a name and no bytes


@dataclass(frozen=True, kw_only=True)
class Need:
    """What making and saving a release takes, in bytes, from public numbers: within a small factor
    on disk, at least in memory.
    """

    disk: int
    memory: int

    @classmethod
    def of(cls, work: Workload, rows: int, model_numbers: int) -> Need:
        """For so many released rows, and a model of so many numbers (0 if none is left)."""
        schema = work.schema
        bits = sum(math.log2(size) for size in schema.shape)
        binned = (
            sum(isinstance(column, (Number, Moment)) for column in schema)
            if schema.pairs is None
            else 0
        )
        answers = sum(min(batch.size, rows) for batch in work)
        counts = sum(
            batch.size if batch.size <= DENSE_CELLS else 2 * min(batch.size, rows) for batch in work
        )
        described = SMALLEST + BATCH_BYTES * len(work) + ANSWER_BYTES * answers + 4 * model_numbers
        # codes twice, because rows are shuffled, and values inside bins
        a_row = 2 * 4 * len(schema) + 8 * binned
        return cls(
            disk=int(described + rows * (2 * bits / 8 + DRAWN_BYTES * binned)),
            memory=rows * a_row + 8 * counts + 4 * model_numbers,
        )


def check_memory(need: Need) -> None:
    """Refuse what clearly does not fit into memory, before a budget is spent on it."""
    left = memory_left()
    if left is not None and need.memory > left:
        raise NotSupported(
            f"The rows and answers of this release take {_size(need.memory)} of memory or more, and"
            f" {_size(left)} are left here; ask for fewer rows or fewer marginals, or use a larger"
            " machine."
        )


def check_room(place: Path, need: Need) -> None:
    """Refuse a place that clearly cannot hold a release, before a budget is spent on it."""
    with contextlib.suppress(OSError):  # a system that does not tell: saving will
        disk = shutil.disk_usage(_existing(place))
        if need.disk > disk.free and disk.total:  # some file systems have no size to tell
            raise ParameterError(
                f"The release will take about {_size(need.disk)}, and the disk of {str(place)!r}"
                f" has {_size(disk.free)} left; make room, name another place, or ask for fewer"
                " rows."
            )


def check_folder(place: Path) -> None:
    """Refuse a folder that a bundle could not be saved to, and leave no trace of having looked."""
    try:
        check_new(place)
        with tempfile.TemporaryFile(dir=_existing(place)) as stream:
            stream.write(PROBE)
    except OSError as problem:
        raise unwritable(place, problem) from None


def check_new(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise ParameterError(f"{str(place)!r} is a file; name a new folder.")
    if place.exists() and any(place.iterdir()):
        raise ParameterError(f"The folder {str(place)!r} exists and is not empty; name a new one.")


def unwritable(place: Path, problem: OSError) -> ParameterError:
    return ParameterError(
        f"The folder {str(place)!r} cannot be written ({problem.strerror}); name another one."
    )


def try_file(file: Path) -> None:
    """Write a few bytes to a new file and remove it again; OSError if that cannot be done."""
    stream = file.open("xb")  # out here: what is there already is not ours to remove
    try:
        with stream:
            stream.write(PROBE)
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        file.unlink(missing_ok=True)


def rescued(
    save: Callable[[Path], object], target: Path, what: str, problem: Exception
) -> UnderstudyError:
    """Save what could not be saved where it belongs to the first place that takes it; what to
    raise, which says where it is.
    """
    why = (
        str(problem)
        if isinstance(problem, UnderstudyError)
        else f"{what} could not be written to {str(target)!r}."
    )
    why = (
        f"{what} could not be written: memory ran out." if isinstance(problem, MemoryError) else why
    )
    for folder in _places(target):
        with contextlib.suppress(Exception):
            folder.mkdir(parents=True, exist_ok=True)
            inside = Path(
                tempfile.mkdtemp(prefix=f"{target.name[:LONGEST_PREFIX]}-kept-", dir=folder)
            )
            try:
                save(inside / target.name)
            except BaseException:
                shutil.rmtree(inside, ignore_errors=True)
                raise
            return SavedElsewhere(why, what, inside / target.name)
    return ReleaseFailed(
        f"{why} No other place took it either: not the folder beside it, nor"
        f" {str(state_folder())!r}, nor the folder for temporary files. {what} is lost, and its"
        " whole budget counts as spent. Make room before you try again."
    )


def _places(target: Path) -> Iterator[Path]:
    """Beside the target, the user's own folder, the folder for temporary files."""
    with contextlib.suppress(OSError):  # the working directory may be gone
        yield target.absolute().parent
    if state_folder().is_absolute():
        yield state_folder() / "kept"
    with contextlib.suppress(OSError):  # where none can be written to
        yield Path(tempfile.gettempdir())


def _existing(place: Path) -> Path:
    return next(
        folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists()
    )


def _size(count: int) -> str:
    unit, name = (10**9, "GB") if count >= 10**9 else (10**6, "MB")
    return f"{count / unit:.3g} {name}"
