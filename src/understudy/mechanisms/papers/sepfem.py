"""sepFEM: FEM with fake queries for noise.

Vietri, Tian, Bun, Steinke and Wu (2020), Algorithms 1 and 3. As FEM, but what perturbs a solve is
the separator set of the query class (:mod:`understudy.queries.separator`), each query of it with a
Laplace weight:

    x_j = argmax over x of  q_0(x) + ... + q_{t-1}(x) + sum over l of sigma_jl * separator_l(x).

The charge is that of FEM: the perturbation is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.game.players.oracle import Perturbation, laplace
from understudy.mechanisms.base import Brief
from understudy.mechanisms.papers.leading import Leading
from understudy.queries.separator import separator


@dataclass(frozen=True, kw_only=True)
class SepFem(Leading):
    """Follow the leader under a separator set with Laplace weights of ``scale``."""

    name: ClassVar[str] = "sepfem"
    summary: ClassVar[str] = (
        "fem with another perturbation: queries that tell records apart, at random weights"
    )
    in_short: ClassVar[str] = "fem with queries that tell records apart"
    reference: ClassVar[str] = "Vietri et al., ICML 2020, Algorithms 1 and 3"
    usual: ClassVar[float] = 0.09

    def perturbation(self, brief: Brief, scale: float) -> Perturbation:
        return laplace(brief.schema, separator(brief.workload, brief.schema), scale)
