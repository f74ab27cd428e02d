"""How every command speaks: one sentence and an exit code, and never a traceback."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

import click
from rich.console import Console

from understudy.errors import UnderstudyError

out, err = Console(), Console(stderr=True)
SPENDING = ("release", "learn", "demo")  # commands that charge a ledger


def finish(code: int, sentence: str, as_json: bool) -> NoReturn:
    """Say one sentence and stop."""
    if as_json:
        print(json.dumps({"error": sentence, "exit_code": code}))
    err.print(sentence, style="bold red" if code else None, highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


def speaks_plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Every failure is one sentence and an exit code; a traceback could show cells, so there is none."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        as_json = bool(options.get("as_json"))
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _interrupt)  # to be asked to stop is to be interrupted: the ledger gets its note
        try:
            command(*args, **options)
        except UnderstudyError as problem:
            finish(problem.exit_code, str(problem), as_json)
        except KeyboardInterrupt as stop:
            # A release that had begun says so itself; between two of its steps it may not have come to that.
            unsure = ["If a release had begun, its whole budget counts as spent; 'understudy budget' shows it."]
            told = getattr(stop, "__notes__", unsure if command.__name__ in SPENDING else [])
            finish(130, " ".join(["Interrupted.", *told]), as_json)
        except Exception as problem:
            kind = type(problem).__name__
            finish(
                1,
                f"Something unexpected went wrong ({kind}). If a release had begun, its budget counts as spent; please report this.",
                as_json,
            )

    return run


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
