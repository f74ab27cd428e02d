"""OR-tools' CP-SAT: weights are scaled to whole numbers, so its proof is one of integer arithmetic.

What the scaling rounds away is added to the bound. All weights that are whole numbers, as sampled
queries have, are kept exactly.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import NotSupported
from understudy.oracles.outside import Outside


@dataclass(frozen=True, kw_only=True)
class Cpsat(Outside):
    """``work`` is its deterministic time, about a second of one core each."""

    work: float = 60.0

    name: ClassVar[str] = "cpsat"
    solver: ClassVar[str] = "cpsat"

    def check_installed(self) -> None:
        if importlib.util.find_spec("ortools") is None:
            raise NotSupported(
                "The oracle cpsat needs OR-tools: pip install 'understudy[solvers]'."
            )
