"""ARP, adaptive row projection: Understudy's own mechanism and its default.

Measure the 1-way marginals. Then either measure the whole workload at once, or go round by round: select the
marginal that the rows get most wrong, measure it whole, move the rows. Which of the two, how many rounds and how
the budget is split follow from public facts (docs/arp.md says how the rule was found).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from understudy.game import Played, QueryPlayer, Watcher, play
from understudy.mechanisms.base import Brief, Mechanism, check_share, check_whole
from understudy.players.measuring import InTurn, MeasureAll, WorstMarginal, one_way
from understudy.players.rows import RowPlayer
from understudy.privacy import Meter
from understudy.queries.base import QueryClass
from understudy.queries.marginal import Marginal

ADAPTIVE_ROUNDS = 30
CANDIDATE_CELLS = 20_000  # a wider marginal is mostly noise; its sub-marginals are candidates instead
ALL_CANDIDATE_CELLS = 50_000_000
CLOSURE = 3  # candidates have at most so many columns, unless the workload's own are small enough
WIDEST_QUERY = 8  # single queries over more columns than this are measured as they are


@dataclass(frozen=True, kw_only=True)
class Arp(Mechanism):
    """Data player: rows. Query player: everything at once, or the worst marginal first.

    Attributes:
        adaptive: select marginals round by round, or measure the workload at once; ``None`` for the public rule.
        rounds: how often to select and measure, when adaptive.
        first: share of the budget for the 1-way marginals.
        selecting: share of the rest for selection, when adaptive.
    """

    adaptive: bool | None = None
    rounds: int | None = None
    first: Fraction | None = None
    selecting: Fraction = Fraction(35, 100)

    name: ClassVar[str] = "arp"
    summary: ClassVar[str] = "adaptive row projection: measures whole marginals, moves rows toward them; any table, most workloads"
    reference: ClassVar[str] = "Understudy; after Aydore et al. (2021) and McKenna et al. (2022)"

    def check(self, brief: Brief) -> None:
        check_share(self.name, first=self.first or Fraction(1, 2), selecting=self.selecting)
        check_whole(self.name, rounds=(self.rounds or 1, 1, 10_000))

    def play(self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher) -> Played:
        rho, ones, own = meter.left, one_way(brief.schema), measurable(brief)
        candidates = closure(brief)
        adaptive = self._adaptive(brief, rho, meter.rows) if self.adaptive is None else self.adaptive
        first = rho * Fraction(self.first or (Fraction(1, 4) if adaptive else Fraction(1, 10)))
        rounds = (self.rounds or ADAPTIVE_ROUNDS) if adaptive else 1
        rest = (rho - first) / rounds
        then: QueryPlayer
        if adaptive:
            then = WorstMarginal(meter, candidates, select=rest * self.selecting, measure=rest * (1 - self.selecting))
        else:
            then = MeasureAll(meter, own, rho=rest)
        query = InTurn(MeasureAll(meter, ones, rho=first), then)
        data = RowPlayer(brief.schema, people=meter.rows, rng=rng, sweeps=2 if adaptive else 3)
        return play(data, query, rounds=1 + rounds, watcher=watcher)

    def _adaptive(self, brief: Brief, rho: Fraction, people: int) -> bool:
        raise NotImplementedError


def measurable(brief: Brief) -> list[QueryClass]:
    return list(brief.workload)


def closure(brief: Brief) -> list[Marginal]:
    """The marginals that selection may choose from: the workload's own and their sub-marginals, none too wide."""
    shape = brief.schema.shape
    found: dict[tuple[int, ...], int] = {}
    for part in brief.workload:
        for k in range(2, min(len(part.columns), CLOSURE) + 1):
            for positions in combinations(part.columns, k):
                found[positions] = math.prod(shape[p] for p in positions)
    chosen, total = [], 0
    for positions, cells in sorted(found.items(), key=lambda item: (len(item[0]), item[1])):
        if cells <= CANDIDATE_CELLS and total + cells <= ALL_CANDIDATE_CELLS:
            chosen.append(Marginal(positions, tuple(shape[p] for p in positions)))
            total += cells
    return chosen
