"""SciPy's HiGHS: the one to take for sparse binary instances, where it proves tens of thousands of
clauses in a second.

HiGHS has returned wrong optima and ignored its time limit before (its issues 1273, 2439, 2980; 885,
2226), hence the child process and the checks in :mod:`understudy.oracles.outside`. Never highspy:
it cannot share a process with OR-tools.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import NotSupported
from understudy.oracles.outside import Outside


@dataclass(frozen=True, kw_only=True)
class Milp(Outside):
    """``work`` is a number of nodes of its search tree."""

    work: float = 100_000

    name: ClassVar[str] = "milp"
    solver: ClassVar[str] = "highs"

    def check_installed(self) -> None:
        if importlib.util.find_spec("scipy") is None:
            raise NotSupported("The oracle milp needs SciPy: pip install 'understudy[solvers]'.")
