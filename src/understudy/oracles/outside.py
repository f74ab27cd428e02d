"""Solvers that somebody else wrote, kept at arm's length.

They run in a child process with a deterministic limit of work, and a wall clock that kills them
when they ignore it. What comes back is checked: the record is worth what it is worth here, not what
the solver says; a proof that our own local search contradicts is no proof. Whatever goes wrong, the
answer is the best record known, marked as failed.
"""

from __future__ import annotations

import contextlib
import io
import selectors
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.oracles import child
from understudy.oracles.base import Ended, Found, Instance, Oracle, Variants, sub_seed
from understudy.oracles.plan import Plan, plan_of
from understudy.oracles.program import Program, program_of
from understudy.oracles.search import Search

GRACE = 5.0  # seconds beyond its own limit, and for starting, before a child is killed
CLOSE = 1e-6  # solvers' own tolerances, as a share of the value


class Worker:
    """A child process that solves one program after the other; a killed one is replaced when the
    next program comes.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self.command = list(command or [sys.executable, "-P", str(Path(child.__file__))])
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, wall: float, **message: Any) -> dict[str, np.ndarray] | None:
        """The child's answer, or None if it died or did not answer in time."""
        deadline = time.monotonic() + wall + GRACE
        try:
            if self.process is None:
                self.process = subprocess.Popen(  # noqa: S603
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            assert self.process.stdin is not None
            child.send(self.process.stdin, wall=wall, **message)
            answer = self._answer(deadline)
        except (OSError, ValueError, EOFError):
            answer = None
        if answer is None:
            self.close()
        return answer

    def _answer(self, deadline: float) -> dict[str, np.ndarray] | None:
        assert self.process is not None and self.process.stdout is not None
        received, wanted = bytearray(), 8
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while len(received) < wanted:
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    return None
                piece = self.process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
                if not piece:
                    return None
                received += piece
                if wanted == 8 and len(received) >= 8:
                    wanted = 8 + int.from_bytes(received[:8], "little")
        return child.receive(io.BytesIO(bytes(received)))

    def close(self) -> None:
        """End the child, by force."""
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(OSError):
                self.process.communicate()
            self.process = None


@dataclass(frozen=True, kw_only=True)
class Outside(Oracle):
    """A solver in a child process; one child serves a whole batch.

    Attributes:
        work: the deterministic limit, in the solver's own unit.
        wall: seconds for one instance; a child that takes much longer is killed.
        start: the local search that finds the record to fall back on.
        command: what to run instead of the child; for tests.
    """

    work: float
    wall: float = 60.0
    # on wide tables a longer one would outlast the solver
    start: Search = field(default_factory=lambda: Search(restarts=1, kicks=10))
    command: tuple[str, ...] | None = field(default=None, repr=False)

    solver: ClassVar[str]

    def __post_init__(self) -> None:
        if not (self.work > 0 and self.wall > 0):
            raise ParameterError(f"{self.name} needs positive limits of work and of wall time.")
        self.check_installed()

    @abstractmethod
    def check_installed(self) -> None:
        """Raise, with the line that installs it, if the solver is not there; it is imported in the
        child only.
        """

    def solve(self, instance: Instance, seed: int) -> Found:
        return self.solve_all([instance], [seed])[0]

    def solve_many(self, instance: Instance, variants: Variants, seed: int) -> list[Found]:
        starts = self.start.solve_many(instance, variants, seed)
        seeds = [sub_seed(seed, i) for i in range(len(starts))]
        plan = plan_of(instance, dense=False)
        return self._solve(
            (variants.of(instance, i), seeds[i], starts[i], plan) for i in range(len(starts))
        )

    def solve_all(self, instances: Sequence[Instance], seeds: Sequence[int]) -> list[Found]:
        """Instances that have nothing in common, by one child."""
        pairs = zip(instances, seeds, strict=True)
        return self._solve(
            (one, seed, self.start.solve(one, seed), plan_of(one, dense=False))
            for one, seed in pairs
        )

    def _solve(self, tasks: Iterable[tuple[Instance, int, Found, Plan]]) -> list[Found]:
        worker = Worker(self.command)
        try:
            return [self._one(worker, *task) for task in tasks]
        finally:
            worker.close()

    def _one(
        self, worker: Worker, instance: Instance, seed: int, start: Found, plan: Plan
    ) -> Found:
        if not len(plan.columns):
            return Found(start.record, start.value, start.value, True, Ended.OPTIMAL)
        _, weights = plan.weigh(instance.weights)
        linear = plan.linear(instance.linear, instance.offsets)
        program = program_of(plan, weights, linear, start.record[plan.columns])
        hint = (start.record[plan.columns][program.column_of] == program.code_of).astype(np.int64)
        arrays = {
            name: getattr(program, name)
            for name in ("gain", "whole", "starts", "indices", "numbers", "low", "high")
        }
        answer = worker.ask(
            self.wall, solver=self.solver, work=self.work, seed=seed, hint=hint, **arrays
        )
        # constants and columns that no term names
        rest = start.value - plan.worth(start.record[plan.columns], weights, linear)
        return self._judge(instance, plan.columns, program, rest, start, answer)

    def _judge(
        self,
        instance: Instance,
        columns: np.ndarray,
        program: Program,
        rest: float,
        start: Found,
        answer: dict[str, np.ndarray] | None,
    ) -> Found:
        """What an answer is worth, by our own arithmetic."""
        failed = Found(start.record, start.value, np.inf, False, Ended.FAILED)
        if (
            answer is None
            or not {"status", "x", "bound"} <= set(answer)
            or str(answer["status"]) not in (child.OPTIMAL, child.LIMIT)
        ):
            return failed
        x, optimal = answer["x"], str(answer["status"]) == child.OPTIMAL
        if len(x) == 0 and not optimal:
            return Found(start.record, start.value, np.inf, False, Ended.LIMIT)
        if x.shape != program.gain.shape or not np.isfinite(x).all():
            return failed
        record = start.record.copy()
        record[columns] = program.codes(x, len(columns))
        value = instance.value(record)
        close = CLOSE * (1 + abs(value))
        bound = float(answer["bound"]) + rest
        better = (
            Found(record, value, np.inf, False, Ended.FAILED) if value > start.value else failed
        )
        if np.isnan(bound) or bound < better.value - close or (optimal and bound > value + close):
            # a bound below a record that exists, or a proof without the record that it proves
            return better
        if not optimal:
            return Found(better.record, better.value, max(bound, better.value), False, Ended.LIMIT)
        return Found(record, value, max(bound, value), True, Ended.OPTIMAL)
