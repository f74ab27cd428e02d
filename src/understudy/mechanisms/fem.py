"""FEM: follow the perturbed leader against the exponential mechanism.

Vietri, Tian, Bun, Steinke and Wu (2020), Algorithms 1 and 2. In each round the data player draws records, each the best one
against all queries chosen so far and an exponential perturbation; the query player selects, among the queries and their negations, one
that the records answer too low. Nothing is measured. T rounds make T - 1 selections, since the last one would not be used; each
costs rho / (T - 1), which is four times less than the paper charges (privacy/PROOFS.md, N4 and M2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.game import Played, Watcher, play
from understudy.mechanisms.base import Brief, Mechanism, check_whole
from understudy.oracles.base import Oracle
from understudy.players.choosing import WorstSigned
from understudy.players.oracle import Noise, PerturbedLeader, Solver, any_query, check_oracle, exponential, oracle_of
from understudy.privacy import Meter


@dataclass(frozen=True, kw_only=True)
class Fem(Mechanism):
    """Data player: follow the perturbed leader, by an oracle. Query player: the exponential mechanism.

    Attributes:
        rounds: T; ``None`` for the public rule in ``rounds_for``.
        samples: s, records a round; ``None`` for the public rule in ``play``.
        scale: eta, the mean of the exponential perturbation; ``None`` for the public rule.
        last: the share of the rounds, the last ones, whose records are released.
        oracle: who finds the records, by name.
    """

    rounds: int | None = None
    samples: int | None = None
    scale: float | None = None
    last: float = 0.5
    oracle: str | Oracle = "search"

    name: ClassVar[str] = "fem"
    summary: ClassVar[str] = "selects the worst queries and measures nothing; an oracle finds records that satisfy them"
    reference: ClassVar[str] = "Vietri et al., ICML 2020, Algorithms 1 and 2"

    def check(self, brief: Brief) -> None:
        check_whole(self.name, rounds=(2 if self.rounds is None else self.rounds, 2, 100_000))
        check_whole(self.name, samples=(1 if self.samples is None else self.samples, 1, 100_000))
        scale = 1.0 if self.scale is None else self.scale
        if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
            raise ParameterError(f"{self.name} needs scale to be a number above 0.")
        if isinstance(self.last, bool) or not isinstance(self.last, (int, float, Fraction)) or not 0 < self.last <= 1:
            raise ParameterError(f"{self.name} needs last to be above 0 and at most 1.")
        check_oracle(self.name, self.oracle, brief.workload)

    def play(self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher) -> Played:
        parts = list(brief.workload)
        rounds = self.rounds or rounds_for(meter.left, meter.rows, brief.workload.size)
        samples = self.samples or 50
        scale = self.scale or 1.0
        solver = Solver(oracle_of(self.oracle), rng)
        data = PerturbedLeader(
            brief.schema, solver, self._noise(brief, scale), first=any_query(parts, rng), samples=samples, last=self.last, rng=rng
        )
        query = WorstSigned(meter, parts, rho=meter.left / (rounds - 1))
        played = play(data, query, rounds=rounds - 1, watcher=watcher)
        facts = {"rounds": rounds, "samples": samples, "scale": float(scale), "solves": solver.solves, "failed_solves": solver.failed}
        return replace(played, facts=facts)

    def _noise(self, brief: Brief, scale: float) -> Noise:
        return exponential(brief.schema, scale)


def rounds_for(rho: Fraction, rows: int, queries: int) -> int:
    """T from public numbers."""
    return max(2, round(math.sqrt(rho) * rows / math.log(2 * queries)))
