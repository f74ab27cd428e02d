"""FEM: follow the perturbed leader against the exponential mechanism.

Vietri, Tian, Bun, Steinke and Wu (2020), Algorithms 1 and 2. In round t the data player draws
records

    x_j = argmax over x of  q_0(x) + ... + q_{t-1}(x) - <x, sigma_j>,    sigma_j exponential on every one-hot coordinate,

and the query player selects q_t, among the queries and their negations, that these records answer
too low. Nothing is measured. A selection costs rho / (T - 1), four times less than the paper
charges for the same law (privacy/proofs/select, M2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.game.players.oracle import Perturbation, exponential
from understudy.mechanisms.base import Brief
from understudy.mechanisms.papers.leading import Leading


@dataclass(frozen=True, kw_only=True)
class Fem(Leading):
    """Follow the leader under exponential noise, whose mean is ``scale``."""

    name: ClassVar[str] = "fem"
    summary: ClassVar[str] = (
        "selects the worst queries and measures nothing; an oracle finds records that satisfy them"
    )
    in_short: ClassVar[str] = "worst queries; an oracle finds records for them"
    reference: ClassVar[str] = "Vietri et al., ICML 2020, Algorithms 1 and 2"
    usual: ClassVar[float] = 0.22

    def perturbation(self, brief: Brief, scale: float) -> Perturbation:
        return exponential(brief.schema, scale)
