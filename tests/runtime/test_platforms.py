"""Platforms other than this one, as far as they can be seen from here: modules that cannot be
imported, locks by byte, a full sync.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import understudy as us
from understudy.checks import SMALL, small_table
from understudy.privacy import Budget, FileLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger import locking
from understudy.queries.base import Neighbours

# Nobody but POSIX has these. What is loaded already is taken away, too.
WITHOUT = """
import sys
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "readline"):
    sys.modules[name] = None
"""
# msvcrt.locking as its documentation tells it, over locks of Linux that belong to the open file as
# those of Windows do.
STAND_IN = """
import errno, fcntl, os, struct, subprocess, sys, types  # subprocess itself asks for msvcrt, to know where it is

def locking(fd, mode, count):
    assert mode == 2 and count == 1
    start = os.lseek(fd, 0, os.SEEK_CUR)
    assert start < 2**31
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, start, count, 0))
    except OSError:
        raise OSError(errno.EACCES, "Permission denied") from None

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
"""


def python(code: str, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pd.DataFrame(small_table(), columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.json").write_text(json.dumps({"a": 3, "b": 4, "c": 2}))
    return tmp_path / "t.csv"


READERS = """
import understudy as us
from understudy.cli.main import main
def run(*words):
    try:
        main(list(words), standalone_mode=False)
    except SystemExit as end:
        assert not end.code, (words, end.code)
folder, schema, out = sys.argv[1:]
assert all(check.holds for check in us.verify(folder))
assert us.Release.load(folder).synthetic.num_rows == 50
us.plan(schema=schema, rows=1000, epsilon=1, delta=1e-6)
run("verify", folder)
run("plan", "--schema", schema, "--rows", "1000", "--epsilon", "1")
run("export", folder, "--csv", out + "/rows.csv")
run("sample", folder, "--rows", "20", "--out", out + "/some.csv")
run("mechanisms")
assert "fcntl" not in sys.modules or sys.modules["fcntl"] is None
print("all of it")
"""


def test_a_release_is_read_checked_planned_exported_and_sampled_without_posix(
    table: Path, tmp_path: Path
) -> None:
    made = us.release(
        str(table), schema=SMALL, epsilon=1, delta=1e-6, mechanism="projection", rows=50
    )
    made.save(tmp_path / "out")
    done = python(WITHOUT + READERS, tmp_path / "out", tmp_path / "schema.json", tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("all of it\n"), done.stderr
    assert len((tmp_path / "some.csv").read_text().splitlines()) == 21


RELEASE = """
import understudy as us
us.release(sys.argv[1], schema={"a": 3, "b": 4, "c": 2}, epsilon=1, delta=1e-6, mechanism="mwem", parameters={"rounds": 2})
"""


def test_without_any_lock_no_ledger_is_kept_and_nothing_is_released(table: Path) -> None:
    done = python(WITHOUT + RELEASE, table)
    assert (
        done.returncode == 1
        and "ParameterError" in done.stderr
        and "no locks that Understudy knows" in done.stderr
    )


def test_with_the_locks_of_windows_a_release_is_charged(table: Path) -> None:
    done = python(STAND_IN + WITHOUT + RELEASE, table)
    assert done.returncode == 0, done.stderr
    assert len(FileLedger.beside(table).read().charges) == 1


SPENDER = """
from fractions import Fraction
from understudy.privacy import FileLedger
from understudy.privacy.accounting import events as ev
from understudy.queries.base import Neighbours
from understudy.errors import BudgetRefused
granted = 0
try:
    while True:
        FileLedger(sys.argv[1]).reserve("r", (ev.Reservation(what="release", rho=Fraction(1, 40)),), Neighbours.REPLACE_ONE)
        granted += 1
except BudgetRefused:
    print(granted)
"""


def test_processes_that_lock_as_on_windows_share_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    FileLedger(path).set_limit(Budget.zcdp(1))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", STAND_IN + WITHOUT + SPENDER, str(path)]
    spenders = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(3)
    ]
    granted = [int(spender.communicate()[0]) for spender in spenders]
    assert sum(granted) == 40 and FileLedger(path).read().spent.rho == 1


def test_a_lock_of_bytes_waits_for_its_turn_and_tells_of_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[int | None] = [errno.EACCES, errno.EDEADLK, None]
    asked = []

    def answer(fd: int, mode: int, count: int) -> None:
        asked.append((os.lseek(fd, 0, os.SEEK_CUR), mode, count))
        number = answers.pop(0)
        if number is not None:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locking, "fcntl", None)
    monkeypatch.setattr(locking, "msvcrt", SimpleNamespace(locking=answer, LK_NBLCK=2))
    monkeypatch.setattr(locking, "PAUSE", 0)
    with (tmp_path / "f").open("wb") as stream:
        locking.lock(stream.fileno())
        assert asked == [(2**31 - 2, 2, 1)] * 3
        answers.append(errno.EINVAL)
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            locking.lock(stream.fileno())


@pytest.mark.parametrize(
    ("refusal", "syncs"), [(None, 0), (errno.ENOTSUP, 1), (errno.EINVAL, 1), (errno.ENOTTY, 1)]
)
def test_where_the_platform_has_a_full_sync_that_is_what_a_charge_waits_for(
    refusal: int | None, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS; a file system that does not have it is synced as anywhere else."""
    asked, synced, real = [], [], os.fsync

    def control(fd: int, command: int) -> int:
        asked.append((os.path.isdir(f"/proc/self/fd/{fd}"), command))
        if refusal is not None:
            raise OSError(refusal, os.strerror(refusal))
        return 0

    def fsync(fd: int) -> None:
        synced.append(fd)
        real(fd)

    full = SimpleNamespace(**vars(locking.fcntl), F_FULLFSYNC=51)
    full.fcntl = control
    monkeypatch.setattr(locking, "fcntl", full)
    monkeypatch.setattr(os, "fsync", fsync)
    FileLedger(tmp_path / "l.jsonl").reserve(
        "r", (ev.Reservation(what="r", rho=Fraction(1)),), Neighbours.REPLACE_ONE
    )
    assert asked == [(True, 51), (False, 51)] and len(synced) == 2 * syncs


def test_a_full_sync_that_fails_grants_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def control(fd: int, command: int) -> int:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 0

    full = SimpleNamespace(**vars(locking.fcntl), F_FULLFSYNC=51)
    full.fcntl = control
    monkeypatch.setattr(locking, "fcntl", full)
    with pytest.raises(us.ReleaseFailed, match="did not confirm"):
        FileLedger(tmp_path / "l.jsonl").reserve(
            "r", (ev.Reservation(what="r", rho=Fraction(1)),), Neighbours.REPLACE_ONE
        )


def test_a_glob_with_the_separators_of_the_platform_has_a_ledger_in_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sep", "\\")
    assert FileLedger.beside("data\\2024*.csv").path.parent.name == "data\\"
