"""What is seen of long work while it goes on: bars on a terminal or in a notebook, one line a stage
where output is piped.

Everything here is told public and released values only (``game.Watcher``). It goes to standard
error, or to the notebook.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from understudy.errors import ParameterError
from understudy.runtime.compiled import telling
from understudy.runtime.watching import NoWatcher, Watcher

if TYPE_CHECKING:
    from rich.progress import TaskID

LONGEST_NOTE = 60  # characters: beside a bar it still fits a line
COMPILING = "compiling"  # a stage that nobody announces: Numba does
WIDEST = len("measuring and fitting")  # of stages: so their bars stand under each other
REDRAWN = 0.1  # seconds between two drawings in a notebook, which keeps every one of them


class Display(Watcher, Protocol):
    """A watcher that people look at."""

    def compiling(self, count: int, busy: bool) -> None:
        """So many functions have been compiled, and another is being compiled or not."""
        ...

    def close(self) -> None: ...


@contextlib.contextmanager
def watched(progress: bool | None, watcher: Any) -> Iterator[Watcher]:
    """Whom to tell of long work: the caller's watcher, or a display where one is wanted."""
    if progress is not None and not isinstance(progress, bool):
        raise ParameterError("progress must be True, False or None.")
    if watcher is None:
        with on_screen(progress) as display:
            yield display
    elif progress:
        raise ParameterError(
            "Give progress or a watcher, not both: a watcher shows what it is told as it likes."
        )
    elif not all(callable(getattr(watcher, verb, None)) for verb in ("stage", "step")):
        raise ParameterError("watcher must have the methods stage and step.")
    else:
        yield watcher if callable(getattr(watcher, "part", None)) else WholeSteps(watcher)


class WholeSteps(NoWatcher):
    """Somebody who watches and has no ear for the parts of a step."""

    def __init__(self, watcher: Any) -> None:
        self._watcher = watcher

    def stage(self, name: str, steps: int) -> None:
        self._watcher.stage(name, steps)

    def step(self, note: str = "") -> None:
        self._watcher.step(note)


@contextlib.contextmanager
def on_screen(progress: bool | None = None) -> Iterator[Watcher]:
    """Show progress while the context lasts: always, never, or only on a terminal and in a
    notebook.
    """
    display = _display(progress)
    if display is None:
        yield NoWatcher()
        return
    try:
        with telling(display.compiling):
            yield display
    finally:
        display.close()


def _display(progress: bool | None) -> Display | None:
    if progress is False:
        return None
    if _in_notebook():
        return Notebook()
    if sys.stderr is not None and sys.stderr.isatty():
        return Bars()
    return Lines() if progress else None


def _in_notebook() -> bool:
    """Whether IPython runs in a kernel, whose output is a page; not whether IPython is installed."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Lines:
    """One line a stage, for files and pipes."""

    def __init__(self) -> None:
        self._compiled = False

    def stage(self, name: str, steps: int) -> None:
        print(f"{name} …", file=sys.stderr, flush=True)

    def step(self, note: str = "") -> None:
        """A stage is one line."""

    def part(self, share: float) -> None:
        """A stage is one line."""

    def compiling(self, count: int, busy: bool) -> None:
        if not self._compiled:
            self._compiled = True
            self.stage(f"{COMPILING}, as on every first use", 1)

    def close(self) -> None:
        """Nothing is left open."""


class Bars:
    """One bar a stage, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._progress = Progress(
            TextColumn(f"{{task.description:<{WIDEST}}}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            # names of columns and values come as the user wrote them
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None
        self._compiling: TaskID | None = None
        self._done, self._steps = 0, 1

    def stage(self, name: str, steps: int) -> None:
        # the next stage begins where this one ended
        if self._task is not None and self._done < self._steps == 1:
            self.step()
        self._done, self._steps = 0, steps
        # A stage of one step that cannot tell its parts has a bar that runs to and fro.
        self._task = self._add(name, None if steps == 1 else steps)

    def step(self, note: str = "") -> None:
        if self._task is not None:
            self._done += 1
            self._progress.update(
                self._task, total=self._steps, completed=self._done, note=_short(note)
            )

    def part(self, share: float) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=self._steps, completed=self._done + share)

    def compiling(self, count: int, busy: bool) -> None:
        if self._compiling is None:
            self._compiling = self._add(COMPILING, None)
        self._progress.update(
            self._compiling,
            total=None if busy else 1,
            completed=0 if busy else 1,
            note=_compiled(count),
        )

    def close(self) -> None:
        self._progress.stop()

    def _add(self, name: str, steps: int | None) -> TaskID:
        self._progress.start()  # only now: a request that is refused has drawn nothing
        return self._progress.add_task(name, total=steps, note="")


@dataclass
class _Stage:
    name: str
    steps: int
    done: float = 0
    note: str = ""
    begun: float = field(default_factory=time.monotonic)
    took: float = 0

    def html(self) -> str:
        # A bar without a value runs to and fro.
        value = f' value="{self.done:.3f}"' if self.done or self.steps > 1 else ""
        cells = (
            html.escape(self.name),
            f'<progress max="{self.steps}"{value}></progress>',
            f"{self.took:.0f} s",
            html.escape(self.note),
        )
        return (
            "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
        )

    def text(self) -> str:
        return f"{self.name:<{WIDEST}} {self.done / self.steps:4.0%} {self.note}".rstrip()


class Notebook:
    """One bar a stage, in the output of a cell; needs nothing but IPython, which is there."""

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._compiling: _Stage | None = None
        self._handle: Any = None
        self._last_draw = 0.0

    def stage(self, name: str, steps: int) -> None:
        # the next stage begins where this one ended
        if self._stages and self._stages[-1].steps == 1:
            self._stages[-1].done = 1
        self._stages.append(_Stage(name, steps))
        self._draw(now=True)

    def step(self, note: str = "") -> None:
        if self._stages:
            last = self._stages[-1]
            last.done, last.note = min(int(last.done) + 1, last.steps), _short(note)
            self._draw(now=last.done == last.steps)

    def part(self, share: float) -> None:
        if self._stages:
            last = self._stages[-1]
            last.done = min(int(last.done), last.steps - 1) + min(share, 0.999)
            self._draw()

    def compiling(self, count: int, busy: bool) -> None:
        if self._compiling is None:
            self._compiling = _Stage(COMPILING, 1)
            self._stages.insert(max(len(self._stages) - 1, 0), self._compiling)
        self._compiling.done, self._compiling.note = 0 if busy else 1, _compiled(count)
        self._draw()

    def close(self) -> None:
        if self._handle is not None:
            self._draw(now=True)

    def _draw(self, now: bool = False) -> None:
        clock = time.monotonic()
        for stage in self._stages:
            if not stage.took or stage.done < stage.steps or stage is self._stages[-1]:
                stage.took = clock - stage.begun
        if not now and clock - self._last_draw < REDRAWN:
            return
        self._last_draw = clock
        page = {
            "text/html": f"<table>{''.join(stage.html() for stage in self._stages)}</table>",
            "text/plain": "\n".join(stage.text() for stage in self._stages),
        }
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display(
                page, raw=True, display_id=True
            )
        else:
            self._handle.update(page, raw=True)


def _short(note: str) -> str:
    return note if len(note) <= LONGEST_NOTE else f"{note[:LONGEST_NOTE]}…"


def _compiled(count: int) -> str:
    return f"{count} functions, on first use"
