"""Progress bars for a play. They are told public and released values only."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

LONGEST_NOTE = 60


class RichWatcher:
    """Draws one bar per stage."""

    def __init__(self, console: Console, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),  # names of columns and values come as the user wrote them
        )
        self._progress = Progress(*columns, console=console, disable=quiet, transient=False)
        self._task: TaskID | None = None

    def __enter__(self) -> RichWatcher:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def stage(self, name: str, steps: int) -> None:
        self._task = self._progress.add_task(name, total=steps, note="")

    def step(self, note: str = "") -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=1, note=note if len(note) <= LONGEST_NOTE else f"{note[:LONGEST_NOTE]}…")
