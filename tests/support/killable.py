"""Starts releases that can be killed: imports everything once, then makes a child for each line it
is given.

    a line:   mode file ledger folder seconds          on standard input
    answers:  S(tarted), R(eserved), L(ooked at cells), P(layed), B(undle written), X (refused), E(rror), and an end of line

``seconds`` after it began, the child is killed from outside (mode ``clock``). The mode ``line:K``
kills it before the K-th line that it runs where the ledger or the bundle is written, which is so
short that no clock would hit it. ``run`` lets it live; ``until`` releases until it is refused.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import understudy as us
from understudy.bundle import release as bundle
from understudy.checks import SMALL
from understudy.privacy.ledger import chain, ledger, locking, registry, table_ledger
from understudy.privacy.ledger.table_ledger import TableLedger
from understudy.privacy.meter import Meter

FILES = (
    *(module.__file__ for module in (chain, ledger, locking, registry, table_ledger)),
    bundle.__file__,
)
WRITERS = (
    "reserve", "note", "locked", "_open", "append", "write_charge", "sync", "sync_folder", "opened", "_learn", "save", "_write", "_replace",
    "prepare_folder",
)  # fmt: skip


def say(word: bytes) -> None:
    os.write(1, word)


class Slowly:
    """Tells that the play has begun, and takes its time, so that a clock can hit it."""

    def stage(self, name: str, steps: int) -> None:
        time.sleep(0.02)

    def step(self, note: str = "") -> None:
        time.sleep(0.002)


def one_release(table: str, ledger: str, folder: str, say: Callable[[bytes], object] = say) -> None:
    book = us.FileLedger(ledger)
    made = us.release(
        table,
        schema=SMALL,
        epsilon=1,
        delta=1e-6,
        mechanism="mwem",
        parameters={"rounds": 8},
        ledger=book,
        watcher=Slowly(),
    )
    say(b"P")
    if folder != "-":
        made.save(folder)
        say(b"B")


def tell_what_happens() -> None:
    reserve, look = TableLedger.reserve, Meter._look

    def reserved(self: Any, *args: Any) -> int:
        number = reserve(self, *args)
        say(b"R")
        return number

    def looked(self: Any, *args: Any) -> Any:
        say(b"L")
        return look(self, *args)

    TableLedger.reserve = reserved  # type: ignore[method-assign]
    Meter._look = looked  # type: ignore[method-assign]


def die_at_line(wanted: int) -> None:
    left = [wanted]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name not in WRITERS:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def child(mode: str, table: str, ledger: str, folder: str) -> None:
    say(b"S")
    if mode.startswith("line:"):
        die_at_line(int(mode[5:]))
    try:
        one_release(table, ledger, folder)
        while mode == "until":
            one_release(table, ledger, folder)
    except us.BudgetRefused:
        say(b"X")
    except Exception:
        say(b"E")


def warm_up() -> None:
    """What is compiled or loaded at first use is so before there are children: they begin where
    they would otherwise be in a second.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.csv").write_text("a,b,c\n" + "0,1,1\n2,3,0\n" * 50)
        one_release(f"{folder}/t.csv", f"{folder}/l.jsonl", f"{folder}/out", say=lambda word: None)


def main() -> None:
    warm_up()
    tell_what_happens()
    for line in sys.stdin:
        mode, table, ledger, folder, seconds = line.split()
        pid = os.fork()
        if not pid:
            try:
                child(mode, table, ledger, folder)
            finally:
                os._exit(0)
        if mode == "clock":
            time.sleep(float(seconds))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        say(b"\n")


if __name__ == "__main__":
    main()
