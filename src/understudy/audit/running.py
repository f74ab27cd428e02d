"""The whole audit: which checks there are, and running them in a few processes that talk in lines
of JSON.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from understudy.audit import laws
from understudy.audit.plays import UNREPLAYED, subjects
from understudy.audit.replay import replay
from understudy.audit.rows import Row
from understudy.audit.statistical import DRAWS, EPSILONS, PLAYED, VERBS, mechanism_row, verb_row
from understudy.errors import ParameterError, UnderstudyError
from understudy.mechanisms.base import available_mechanisms
from understudy.queries.base import Neighbours

PAIRS, QUICK_PAIRS = 200, 6  # of a mechanism, both relations together
QUICK_DRAWS = 2_000  # a tenth: breaches by a factor still show
SECONDS, QUICK_SECONDS = 3.0, 0.5  # of playing a mechanism, for each pair and epsilon


@dataclass(frozen=True)
class Check:
    """Something to run, under a name."""

    name: str
    run: Callable[[], Row]


def plan(mechanism: str | None = None, quick: bool = False) -> list[Check]:
    """Every check, the longest first; of one mechanism, only what is about it."""
    if mechanism is not None and mechanism not in available_mechanisms():
        raise ParameterError(
            f"There is no mechanism {mechanism!r}; 'understudy mechanisms' lists them."
        )
    chosen, epsilons = subjects(mechanism), EPSILONS[1:2] if quick else EPSILONS
    pairs, draws, seconds = (
        (QUICK_PAIRS, QUICK_DRAWS, QUICK_SECONDS) if quick else (PAIRS, DRAWS, SECONDS)
    )
    replayed = [s for s in chosen if s.label not in UNREPLAYED]
    checks = [
        Check(f"replay {s.label}", partial(replay, s, r, pairs // len(s.relations)))
        for s in replayed
        for r in s.relations
    ]
    checks += [
        Check(f"statistical {s.label}", partial(mechanism_row, s, p, e, seconds))
        for s in chosen
        if Neighbours.REPLACE_ONE in s.relations
        for p in (PLAYED[:1] if quick else PLAYED)
        for e in epsilons
    ]
    if mechanism is None:
        checks += [
            Check(f"statistical {v.name}", partial(verb_row, v, p, e, draws))
            for v in VERBS
            for p in (v.pairs[:1] if quick else v.pairs)
            for e in epsilons
        ]
        checks += [Check(f"law {name}", run) for name, run in laws.checks()]
    return checks


def perform(check: Check) -> Row:
    """Run one check; one that cannot be run to its end has not held."""
    try:
        return check.run()
    except UnderstudyError as problem:
        detail = f"could not be run: {problem}"
    except Exception as problem:
        detail = f"could not be run ({type(problem).__name__})"
    return _lost(check, detail)


def _lost(check: Check, detail: str) -> Row:
    """A check that gave no row of its own: that is no proof of anything, so it counts as a breach."""
    kind, _, subject = check.name.partition(" ")
    return Row(
        kind=kind,
        subject=subject,
        relation="",
        pair="",
        unit="",
        claimed=0.0,
        observed=0.0,
        runs=0,
        holds=False,
        detail=detail,
    )


def run(
    mechanism: str | None = None, quick: bool = False, processes: int = 2
) -> Iterator[tuple[int, Row]]:
    """(place in the plan, row), as they come, from so many processes of this same build."""
    checks = plan(mechanism, quick)
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(checks)):
        left.put(i)
    done: queue.SimpleQueue[tuple[int, Row] | None] = queue.SimpleQueue()
    workers = [
        _Worker(mechanism, quick, checks, left, done) for _ in range(min(processes, len(checks)))
    ]
    try:
        working = len(workers)
        while working:
            result = done.get()
            if result is None:
                working -= 1
            else:
                yield result
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A child process that is handed one number after another and answers each with a row."""

    def __init__(
        self,
        mechanism: str | None,
        quick: bool,
        checks: list[Check],
        left: queue.SimpleQueue[int],
        done: queue.SimpleQueue[tuple[int, Row] | None],
    ) -> None:
        self._checks, self._left, self._done = checks, left, done
        request = json.dumps({"mechanism": mechanism, "quick": quick})
        command = [sys.executable, "-P", "-m", "understudy.audit", request]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                i = self._left.get_nowait()
                self._done.put((i, self._answer(i)))
        self._done.put(None)

    def _answer(self, i: int) -> Row:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{i}\n")
            self._process.stdin.flush()
            return Row.from_dict(json.loads(self._process.stdout.readline()))
        except (OSError, ValueError, TypeError):
            return _lost(self._checks[i], "the process that ran it died")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
