"""DualQuery: multiplicative weights over queries against best responses.

Gaboardi, Gallego Arias, Hsu, Roth and Wu (2014), Algorithm 2. The query player keeps a weight for
every query and negation and shows s of them a round, drawn by weight; the data player answers with
the record that satisfies most of these, by an oracle. T rounds make T records, which are the
release. Round t is s draws of an exponential mechanism at eta (t - 1), so that

    rho = s eta^2 (T - 1) T (2T - 1) / (12 n^2),

and eta follows from T, s and the budget (privacy/proofs/select, M2). The first round's draws are
uniform and free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.errors import ParameterError
from understudy.game.loop import Played, play
from understudy.game.players.choosing import WeightedQueries
from understudy.game.players.measuring import one_way
from understudy.game.players.oracle import BestResponse, Solver, check_oracle, oracle_of
from understudy.game.players.product import Product
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, check_share, check_whole
from understudy.mechanisms.papers.leading import reach
from understudy.oracles.base import Oracle
from understudy.privacy import Measure, Measurement, Meter
from understudy.privacy.accounting.accountant import total_cost
from understudy.privacy.verbs.measure import charges
from understudy.privacy.verbs.select import LARGEST_SCORE
from understudy.runtime.watching import Watcher

MOST_ROUNDS = 100_000  # large enough: each is a solve
MOST_BY_RULE = 2000  # nobody waits for more solves without having asked for them
MOST_BY_STEP = 10_000  # a step so small is rather a slip of the pen
# samples for each item left to chance; with three literals it is then named about 15 times a round
NAMINGS = 5
LEAST_WIDE = 40  # rounds on tables of items


@dataclass(frozen=True, kw_only=True)
class DualQuery(Mechanism):
    """Data player: the best record against this round's queries. Query player: multiplicative
    weights, by samples.

    Attributes:
        rounds: T, also the number of different records; ``None`` for a public rule: more with rows
            and budget, fewer with queries.
        samples: s, queries drawn a round; ``None`` for the same rule, and more where many items are
            asked about.
        step: eta, how sharply queries that are wrong gain weight. Usually it follows from the
            budget; if it is given, the budget settles the rounds.
        columns: the share of the budget for single columns, which attributes that no drawn query
            names then follow; 0 is the paper's.
        oracle: who finds the records, by name: search, exact, cpsat, milp, gurobi, parity or brute
            (docs/oracles.md).
    """

    rounds: int | None = None
    samples: int | None = None
    step: float | None = None
    columns: float | Fraction = 0
    oracle: str | Oracle = "search"

    name: ClassVar[str] = "dualquery"
    summary: ClassVar[str] = (
        "draws queries by weight and measures nothing; one solve a round, so very large workloads"
        " and wide tables"
    )
    in_short: ClassVar[str] = "one solve a round; huge workloads, wide tables"
    reference: ClassVar[str] = "Gaboardi et al., ICML 2014, Algorithm 2"

    def check(self, brief: Brief) -> None:
        check_whole(self.name, rounds=(2 if self.rounds is None else self.rounds, 2, MOST_ROUNDS))
        check_whole(self.name, samples=(1 if self.samples is None else self.samples, 1, 1_000_000))
        step = 1.0 if self.step is None else self.step
        if (
            isinstance(step, bool)
            or not isinstance(step, (int, float, Fraction))
            or not 0 < step <= 100
        ):
            raise ParameterError("dualquery needs step to be a number above 0, at most 100.")
        if self.step is not None and self.rounds is not None:
            raise ParameterError(
                "dualquery takes rounds or step, not both: the budget settles the other."
            )
        if self.columns:
            check_share(self.name, columns=self.columns)
        check_oracle(self.name, self.oracle, brief.schema, brief.workload)

    def decide(self, brief: Brief, means: Means) -> Decision:
        rho, rows = means.rho, means.rows
        if self.columns:
            ones, share = one_way(brief.schema), means.rho * Fraction(self.columns)
            rho -= total_cost(charges(ones, share, brief.neighbours)).rho
        rounds, samples, unit = self._rounds(rho, rows, brief)
        if self.step is not None and rounds > MOST_BY_STEP:
            raise ParameterError(
                f"dualquery: a step of {float(self.step):g} would take {rounds:,} rounds or"
                " more; use a larger one."
            )
        if rounds * rows > LARGEST_SCORE:
            raise ParameterError(
                f"dualquery: {rounds:,} rounds over {rows:,} rows are more than a selection can"
                " score; use fewer."
            )
        step = rows * math.sqrt(2 * unit / samples)
        return Decision.of(
            self,
            brief,
            means,
            how=f"{rounds} rounds of {samples} drawn queries, at a step of {step:.3g}",
            numbers={"rounds": rounds, "samples": samples, "step": step},
            plan=(rounds, samples, unit),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief = decision.brief
        rounds, samples, unit = decision.plan
        measurements, distributions = self._measured(decision, meter)
        solver = Solver(oracle_of(self.oracle), rng)
        query = WeightedQueries(meter, list(brief.workload), unit=unit, draws=samples, rng=rng)
        played = play(
            BestResponse(brief.schema, solver, distributions),
            query,
            rounds=rounds,
            watcher=watcher,
            schema=brief.schema,
        )
        return replace(played, findings=(*measurements, *played.findings), facts=solver.facts)

    def _measured(
        self, decision: Decision, meter: Meter
    ) -> tuple[list[Measurement], Sequence[np.ndarray] | None]:
        """Single columns with noise, and the distributions that they come to; nothing if no share
        is set for them.
        """
        if not self.columns:
            return [], None
        schema, means = decision.brief.schema, decision.means
        measurements = meter.ask(
            Measure(batches=one_way(schema), rho=means.rho * Fraction(self.columns))
        )
        product = Product(schema, means.rows)
        product.learn(measurements)
        return measurements, product.result().columns

    def _rounds(self, rho: Fraction, rows: int, brief: Brief) -> tuple[int, int, Fraction]:
        """(T, s, what a round costs after one record) from public numbers.

        The last weights are as sharp as eta T = n sqrt(6 rho / (s T)): records and samples are paid
        for alike, and both grow with the root of the reach. With these constants eta is about 3 on
        ADULT, a public table (other workloads than those that are reported). Where items that no
        sampled query names are left to chance, samples grow with these, as far as eta = 1 leaves
        LEAST_WIDE rounds.
        """
        root = math.sqrt(reach(rho, rows, brief.workload.size))
        power = float(6 * rho * rows**2)  # s eta^2 T^3, about
        loose = min(NAMINGS * (_left_to_chance(brief) - root), power / LEAST_WIDE**3)
        samples = self.samples or max(1, round(max(root, loose)))
        usual = 5 * root if samples <= root + 1 else (power / samples) ** (1 / 3)
        rounds = self.rounds or max(8, min(MOST_BY_RULE, round(usual)))
        if self.step is None:
            return rounds, samples, rho / squares(rounds)
        unit = samples * Fraction(self.step) ** 2 / (2 * rows**2)
        return rounds_within(rho / unit), samples, unit


def _left_to_chance(brief: Brief) -> float:
    """How many items the workload names, each counted by how uncertain its public guess leaves it;
    0 for other tables.
    """
    if brief.schema.pairs is None:
        return 0.0
    density = brief.schema.pairs.density
    return (
        4
        * density
        * (1 - density)
        * len({column for batch in brief.workload for column in batch.columns})
    )


def squares(rounds: int) -> int:
    """1 + 4 + ... + (T - 1)^2: what T rounds cost in units of the second."""
    return (rounds - 1) * rounds * (2 * rounds - 1) // 6


def rounds_within(units: Fraction) -> int:
    """The most rounds that cost no more; one is free."""
    low, high = 1, MOST_ROUNDS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if squares(middle) <= units else (low, middle - 1)
    return low
