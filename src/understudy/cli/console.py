"""How every command speaks: one sentence and an exit code, and never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

from rich.console import Console

from understudy.errors import LedgerWarning, ParameterError, UnderstudyError, Unread

out, err = Console(), Console(stderr=True)
SPENDING = ("release", "learn", "demo")  # commands that charge a ledger


def finish(code: int, sentence: str, as_json: bool) -> NoReturn:
    """Say one sentence and stop."""
    if as_json:
        print(json.dumps({"error": sentence, "exit_code": code}))
    err.print(
        sentence, style="bold red" if code else None, highlight=False, markup=False, soft_wrap=True
    )
    sys.exit(code)


def speaks_plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Every failure is one sentence and an exit code; a traceback could show cells, so there is
    none.
    """

    @wraps(command)
    @_to_whoever_listens()
    def run(*args: Any, **options: Any) -> None:
        as_json = bool(options.get("as_json"))
        if threading.current_thread() is threading.main_thread():
            # to be asked to stop is to be interrupted: the ledger gets its note
            signal.signal(signal.SIGTERM, _interrupt)
        try:
            with warnings.catch_warnings():
                for remarked in (LedgerWarning, Unread):
                    warnings.simplefilter("always", remarked)
                warnings.showwarning = _noted(warnings.showwarning)
                command(*args, **options)
        except UnderstudyError as problem:
            finish(problem.exit_code, str(problem), as_json)
        except KeyboardInterrupt as stop:
            # A release that had begun says so itself; between two of its steps it may not have come
            # to that.
            unsure = [
                "If a release had begun, its whole budget counts as spent; 'understudy budget'"
                " shows it."
            ]
            notes = getattr(stop, "__notes__", unsure if command.__name__ in SPENDING else [])
            finish(130, " ".join(["Interrupted.", *notes]), as_json)
        except Exception as problem:
            kind = type(problem).__name__
            finish(
                1,
                f"Something unexpected went wrong ({kind}). If a release had begun, its budget"
                " counts as spent; please report this.",
                as_json,
            )

    return run


class _Unforced:
    """A stream whose reader may go away, as ``head`` does; what is written after that is dropped,
    and nothing else changes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._drop(len(text))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self, length: int = 0) -> int:
        # What the stream still holds goes there too, or the interpreter would fail to write it as
        # it ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        return length


@contextlib.contextmanager
def _to_whoever_listens() -> Iterator[None]:
    """A reader that closes its end has seen enough: the work goes on, and the exit code is the
    work's own.
    """
    with contextlib.ExitStack() as stack:
        for stream, redirect in (
            (sys.stdout, contextlib.redirect_stdout),
            (sys.stderr, contextlib.redirect_stderr),
        ):
            if stream is not None:
                unforced = cast(TextIO, _Unforced(stream))
                stack.enter_context(redirect(unforced))
                stack.callback(unforced.flush)
        yield


def in_brief(value: Any) -> str:
    """A value for people: four digits; the exact one is in --json and in the manifest."""
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:.4g}"
        if isinstance(value, float)
        else str(value)
    )


def remark(sentence: str) -> None:
    """Say a sentence and go on."""
    err.print(f"Note: {sentence}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def _noted(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Say what nobody reads, or no ledger remembers, as a note, where any other warning goes its
    own way.
    """

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, (LedgerWarning, Unread)):
            remark(str(message))
        else:
            otherwise(message, category, *where, **more)

    return show


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def check_there(folder: str) -> None:
    """Refuse a path that is mistyped: a script can then tell it from a bundle that is not sound."""
    if not os.path.lexists(folder):
        raise ParameterError(f"There is no release folder {folder!r}; check the path.")
