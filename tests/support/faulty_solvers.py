"""Solvers that fail, each in its own way: children to run instead of the real one."""

from __future__ import annotations

import sys
from pathlib import Path

from understudy.oracles import child
from understudy.oracles.base import Ended

FOLDER = str(Path(child.__file__).parent)

# What a child does with a message m, and how the oracle that asked must say it ended.
ORACLE_FAULTS = {
    "time-out": ("time.sleep(60)", Ended.FAILED),
    "killed": ("os.kill(os.getpid(), 9)", Ended.FAILED),
    "exit": ("sys.exit(3)", Ended.FAILED),
    "garbage": (
        "sys.stdout.buffer.write(b'x' * 64); sys.stdout.buffer.flush(); time.sleep(60)",
        Ended.FAILED,
    ),
    "half a message": (
        (
            "sys.stdout.buffer.write((99).to_bytes(8, 'little')); sys.stdout.buffer.flush();"
            " sys.exit()"
        ),
        Ended.FAILED,
    ),
    "infeasible": ("answer(status='wrong', x=np.zeros(0), bound=np.inf)", Ended.FAILED),
    "no solution in time": ("answer(status='limit', x=np.zeros(0), bound=np.inf)", Ended.LIMIT),
    "optimal without a solution": (
        "answer(status='optimal', x=np.zeros(0), bound=0.0)",
        Ended.FAILED,
    ),
    "not numbers": (
        "answer(status='optimal', x=np.full(len(m['gain']), np.nan), bound=0.0)",
        Ended.FAILED,
    ),
    "wrong optimum": (
        "answer(status='optimal', x=np.zeros(len(m['gain'])), bound=-5.0)",
        Ended.FAILED,
    ),
    "an empty promise": (
        "answer(status='optimal', x=np.zeros(len(m['gain'])), bound=1e6)",
        Ended.FAILED,
    ),
    "a bound below what exists": (
        "answer(status='limit', x=np.zeros(len(m['gain'])), bound=-5.0)",
        Ended.FAILED,
    ),
    "fields missing": ("answer(status='optimal')", Ended.FAILED),
}

ORACLE = """
import os, sys, time
sys.path.append({folder!r})
import numpy as np
from child import receive, send
def answer(**what):
    send(sys.stdout.buffer, **what)
while (m := receive(sys.stdin.buffer)) is not None:
    {code}
"""


def oracle_with(code: str, folder: Path) -> tuple[str, ...]:
    """The command of a child that answers an oracle's messages by a line of code."""
    return _script(ORACLE.format(folder=FOLDER, code=code), folder)


# What a child finds when a certifier asks it; none of it is a proof that holds.
CERTIFIER_FAULTS = {
    "limit": 'found = {"status": "limit", "x": np.zeros(len(message["gain"])), "bound": 0.0}',
    "wrong": 'found = {"status": "wrong", "x": np.zeros(0), "bound": np.inf}',
    "raises": 'raise RuntimeError("row 7 is Alice")',
    "dies": "import os; os._exit(1)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "lies about its bound": (
        'found = {"status": "optimal", "x": np.zeros(len(message["gain"])), "bound": -1e6}'
    ),
    "lies about its rule": (
        'found = {"status": "optimal", "x": np.ones(len(message["gain"])), "bound":'
        ' np.abs(message["gain"]).sum()}'
    ),
    "claims a bad optimum": 'found = child.solve_cpsat({**message, "gain": -message["gain"]})',
    "wrong shape": 'found = {"status": "optimal", "x": np.zeros(3), "bound": 0.0}',
    "not a number": (
        'found = {"status": "optimal", "x": np.full(len(message["gain"]), np.nan), "bound": np.nan}'
    ),
    "nothing": 'found = {"status": "optimal"}',
}

CERTIFIER = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import child
def solve(message):
    {body}
    return found
child.SOLVERS = {{"cpsat": solve}}
child.main()
"""


def certifier_with(body: str, folder: Path) -> tuple[str, ...]:
    """The command of a child that finds what a line of code says."""
    return _script(CERTIFIER.format(folder=FOLDER, body=body), folder)


def _script(text: str, folder: Path) -> tuple[str, ...]:
    file = folder / "solver.py"
    file.write_text(text)
    return (sys.executable, "-P", str(file))
