"""Gurobi, for those who own a licence; without one it stops at 2,000 variables or rows and the
solve counts as failed.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import NotSupported
from understudy.oracles.outside import Outside


@dataclass(frozen=True, kw_only=True)
class Gurobi(Outside):
    """``work`` is in Gurobi's units, about a second of one core each."""

    work: float = 60.0

    name: ClassVar[str] = "gurobi"
    solver: ClassVar[str] = "gurobi"

    def check_installed(self) -> None:
        if importlib.util.find_spec("gurobipy") is None:
            raise NotSupported(
                "The oracle gurobi needs gurobipy and its licence: pip install"
                " 'understudy[gurobi]'."
            )
