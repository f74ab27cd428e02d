"""What FEM, sepFEM and OracleQuery share: all but the perturbation, and which queries are chosen
from and how.

The public rule for rounds, samples and scale is here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.game.loop import Played, QueryPlayer, play
from understudy.game.players.choosing import WorstSigned
from understudy.game.players.oracle import (
    Perturbation,
    PerturbedLeader,
    Solver,
    any_query,
    check_oracle,
    oracle_of,
)
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, check_whole
from understudy.oracles.base import Oracle
from understudy.privacy import Meter
from understudy.queries.base import QueryClass
from understudy.runtime.watching import Watcher

SAMPLES = 150  # a sampling error of 8% in what a selection sees, for as many solves a round
MOST_ROUNDS = 1000  # of the rule's own: 150,000 solves with SAMPLES are enough
FEW_COLUMNS = 14  # ADULT has so many; the rule was found there, and grows with columns beyond


@dataclass(frozen=True, kw_only=True)
class Leading(Mechanism):
    """Data player: follow the perturbed leader, by an oracle. Query player: the exponential
    mechanism on signed errors.

    T rounds make T - 1 selections, since the last one would not be used.

    Attributes:
        rounds: T, how often a query is chosen and records found; ``None`` for
            a public rule: more with rows, budget and columns, fewer with queries.
        samples: s, records a round; ``None`` for 150: the play sees 1 / sqrt(s) of sampling error,
            and each costs a solve.
        scale: eta, the size of the perturbation; ``None`` for a constant times the root of the
            rounds, as regret wants it.
        window: how many rounds' records are shown to the query player together; 1 is the paper's.
        last: the share of the rounds, the last ones, whose records are released.
        oracle: who finds the records, by name: search, exact, cpsat, milp, gurobi, parity or brute
            (docs/oracles.md).
    """

    rounds: int | None = None
    samples: int | None = None
    scale: float | None = None
    window: int = 3
    last: float = 0.5
    oracle: str | Oracle = "search"

    usual: ClassVar[float]  # scale in one round; from public or invented tables

    @abstractmethod
    def perturbation(self, brief: Brief, scale: float) -> Perturbation:
        """The perturbation of one solve."""

    def candidates(self, brief: Brief) -> Sequence[QueryClass]:
        """What is chosen from, with all negations."""
        return brief.workload.batches

    def query_player(
        self, meter: Meter, batches: Sequence[QueryClass], rho: Fraction
    ) -> QueryPlayer:
        """Who chooses, for ``rho`` a round."""
        return WorstSigned(meter, batches, rho=rho)

    def usual_rounds(self, rho: Fraction, rows: int, batches: Sequence[QueryClass]) -> int:
        """T from public numbers."""
        return rounds_for(rho, rows, batches)

    def check(self, brief: Brief) -> None:
        check_whole(self.name, rounds=(2 if self.rounds is None else self.rounds, 2, 100_000))
        check_whole(self.name, samples=(1 if self.samples is None else self.samples, 1, 100_000))
        check_whole(self.name, window=(self.window, 1, 100_000))
        scale = 1.0 if self.scale is None else self.scale
        if (
            isinstance(scale, bool)
            or not isinstance(scale, (int, float, Fraction))
            or not 0 < scale < math.inf
        ):
            raise ParameterError(f"{self.name} needs scale to be a number above 0.")
        if (
            isinstance(self.last, bool)
            or not isinstance(self.last, (int, float, Fraction))
            or not 0 < self.last <= 1
        ):
            raise ParameterError(f"{self.name} needs last to be above 0 and at most 1.")
        check_oracle(self.name, self.oracle, brief.schema, self.candidates(brief))

    def decide(self, brief: Brief, means: Means) -> Decision:
        batches = self.candidates(brief)
        rounds = self.rounds or self.usual_rounds(means.rho, means.rows, batches)
        samples = self.samples or SAMPLES
        scale = float(self.scale or self.usual * math.sqrt(rounds))
        return Decision.of(
            self,
            brief,
            means,
            how=f"{rounds} rounds of {samples} records, perturbed at {scale:.3g}",
            numbers={"rounds": rounds, "samples": samples, "scale": scale},
            plan=(batches, rounds, samples, scale),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief = decision.brief
        batches, rounds, samples, scale = decision.plan
        solver = Solver(oracle_of(self.oracle), rng)
        first, perturb = any_query(batches, rng), self.perturbation(brief, scale)
        data = PerturbedLeader(
            brief.schema,
            solver,
            perturb,
            first=first,
            samples=samples,
            window=self.window,
            last=self.last,
            rng=rng,
        )
        query = self.query_player(meter, batches, decision.means.rho / (rounds - 1))
        played = play(data, query, rounds=rounds - 1, watcher=watcher, schema=brief.schema)
        return replace(played, facts=solver.facts)


def reach(rho: Fraction, rows: int, queries: int) -> float:
    """sqrt(rho) * n / ln(2|Q|): one over the error, as a share of the rows, of a selection that
    spends everything, up to a constant.
    """
    return math.sqrt(rho) * rows / math.log(2 * queries + 1)


def rounds_for(rho: Fraction, rows: int, batches: Iterable[QueryClass]) -> int:
    """T from public numbers.

    The error of a selection grows with sqrt(T) / reach and what the play leaves falls about as 1 /
    sqrt(T), which would make T grow with the reach. Beyond its root little was gained on ADULT, a
    public table; on LOANS, another one with 48 columns, twice as many rounds had a third less error
    (other workloads than those that are reported), so T grows with the root of the columns too.
    """
    batches = list(batches)
    columns = len({column for batch in batches for column in batch.columns})
    queries = sum(batch.size for batch in batches)
    return max(
        8,
        min(
            MOST_ROUNDS, round(2 * math.sqrt(reach(rho, rows, queries) * max(FEW_COLUMNS, columns)))
        ),
    )
