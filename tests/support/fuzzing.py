"""What fuzz tests share: a call with everything that it says caught, what may be wrong with that,
and batches in child processes.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import understudy as us
from support.bundles import unsound
from support.mutations import csv_case, parquet_case
from support.tables import CANARIES, PEOPLE
from tools.fuzz_targets import is_a_sentence
from understudy.errors import Unread
from understudy.privacy.accounting import accountant, budget

# below it, the compiler tells of every instruction
logging.getLogger("numba").setLevel(logging.INFO)
CASES = {"csv": csv_case, "parquet": parquet_case}


@dataclass
class Heard:
    """What a call gave or raised, and all that could be read meanwhile."""

    result: Any = None
    problem: BaseException | None = None
    noted: list[str] = field(default_factory=list)  # what nobody reads, which is said on purpose
    warned: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    printed: str = ""

    @property
    def outcome(self) -> str:
        return type(self.problem).__name__ if self.problem else "released"

    @property
    def everything(self) -> str:
        shown = chain_of(self.problem) if self.problem else ""
        return "\n".join([shown, *self.noted, *self.warned, *self.logged, self.printed])


def chain_of(problem: BaseException) -> str:
    """All that an exception carries: its traceback, and whatever stands behind it, shown by a
    traceback or not.
    """
    seen: dict[int, BaseException] = {}
    waiting = [problem]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            held = [
                value
                for frame, _ in traceback.walk_tb(one.__traceback__)
                for value in frame.f_locals.values()
            ]
            waiting += [
                behind
                for behind in (one.__cause__, one.__context__, *held)
                if isinstance(behind, BaseException)
            ]
    batches = [
        [
            *traceback.format_exception(one, chain=False),
            _written(one.args),
            *getattr(one, "__notes__", []),
        ]
        for one in seen.values()
    ]
    return "\n".join("\n".join(batch) for batch in batches)


def _written(args: tuple[object, ...]) -> str:
    try:
        return repr(args)
    except ValueError:  # Python itself writes no number of more than 4,300 digits
        return "a number too long to be written"


class _Listener(logging.Handler):
    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        self._into.append(f"{record.name} {record.levelname} {record.getMessage()}")


def listen(call: Callable[[], Any]) -> Heard:
    """Call, and hear everything: result or exception, warnings, log records of every level,
    standard output and error.
    """
    heard, out, root = Heard(), io.StringIO(), logging.getLogger()
    listener, level = _Listener(heard.logged), root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            try:
                heard.result = call()
            except Exception as problem:
                heard.problem = problem
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
    heard.noted = [str(w.message) for w in caught if issubclass(w.category, Unread)]
    heard.warned = [str(w.message) for w in caught if not issubclass(w.category, Unread)]
    heard.printed = out.getvalue()
    return heard


def complaint(heard: Heard, charged: bool) -> str:
    """What is wrong with how a call ended; empty when nothing is."""
    told = [canary for canary in CANARIES if canary in heard.everything]
    if told:
        return f"a cell was told: {told[0]}"
    unclear = [note for note in heard.noted if not is_a_sentence(note)]
    if unclear:
        return f"not a sentence: {unclear[0][:200]}"
    if heard.problem is None:
        return "" if charged else "a release that charged nothing"
    if not isinstance(heard.problem, us.UnderstudyError):
        return f"not one of our errors: {type(heard.problem).__name__}: {str(heard.problem)[:100]}"
    if not is_a_sentence(str(heard.problem)):
        return f"not a sentence: {str(heard.problem)[:200]}"
    if charged != isinstance(heard.problem, us.ReleaseFailed):
        return f"{heard.outcome}, and {'a charge' if charged else 'no charge'}"
    return ""


def remember_budgets() -> None:
    """Turning epsilon into rho takes longer than a small release; the same numbers need it once."""
    budget.rho_for = functools.cache(budget.rho_for)
    accountant.epsilon_for = budget.epsilon_for = functools.cache(budget.epsilon_for)


def quick_release(table: Any, ledger: Path, mechanism: str = "independent") -> us.Release:
    return us.release(
        table,
        schema=PEOPLE,
        epsilon=1,
        delta="1e-6",
        workload="1-way",
        mechanism=mechanism,
        ledger=ledger,
        rows=20,
    )


def run_cases(kind: str, first: int, last: int, folder: Path) -> None:
    """Release damaged files, one line of JSON each; called in a child process, which a native
    reader may kill.
    """
    remember_budgets()
    with (folder / "said.jsonl").open("w") as said:
        for number in range(first, last):
            ending, data = CASES[kind](number)
            table, ledger = folder / f"{number}{ending}", folder / f"{number}.jsonl"
            table.write_bytes(data)
            heard = listen(lambda table=table, ledger=ledger: quick_release(str(table), ledger))
            wrong = complaint(heard, ledger.exists())
            if not wrong and heard.result is not None and number % 10 == 0:
                wrong = "; ".join(unsound(heard.result.save(folder / f"{number}.bundle")))
            said.write(json.dumps([number, heard.outcome, wrong]) + "\n")
            said.flush()
            table.unlink()


def fuzz_in_a_child(kind: str, first: int, last: int, folder: Path) -> Counter[str]:
    """Outcomes of damaged files; AssertionError names the first file with which something went
    wrong.
    """
    call = f"fuzzing.run_cases({kind!r}, {first}, {last}, pathlib.Path({str(folder)!r}))"
    code = f"import sys, pathlib; sys.path[:0] = {sys.path!r}; from support import fuzzing; {call}"
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, errors="replace"
    )
    said = [json.loads(line) for line in (folder / "said.jsonl").read_text().splitlines()]
    assert child.returncode == 0, (
        f"{kind} file {first + len(said)} ended the process ({child.returncode}):"
        f" {child.stderr[-2000:]}"
    )
    assert not child.stdout and not child.stderr, (
        f"an engine wrote by itself: {child.stdout}{child.stderr[-2000:]}"
    )
    assert [line for line in said if line[2]] == []
    assert len(said) == last - first
    return Counter(outcome for _, outcome, _ in said)
