"""generator: a network that draws rows, fitted to whole marginals with noise.

The line of work is GEM's (Liu, Vietri and Wu, 2021): a network turns random vectors into a
distribution for every column, and is trained on answers that were selected and measured. Here the
1-way marginals are MEASURED first; then, round by round, the whole marginal that the network gets
most wrong is SELECTED and MEASURED, and the network is FITTED to all noisy counts so far. Where the
noise is small enough the whole workload is MEASURED at once instead. Query players, rule and split
of the budget are those of arp, so the two differ in the data player only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.game.loop import Played, QueryPlayer, play
from understudy.game.players.generator import FittedGenerator
from understudy.game.players.measuring import InTurn, MeasureAll, WorstMarginal
from understudy.game.players.network import Network, Size, check_network, one_thread
from understudy.mechanisms.arp import (
    FIRST_ADAPTIVE,
    FIRST_AT_ONCE,
    ROUNDS,
    Arp,
    Shares,
    Tables,
)
from understudy.mechanisms.base import (
    Brief,
    Decision,
    Means,
    Mechanism,
    check_share,
    check_whole,
    cost_of_measuring,
    fewest_rows,
)
from understudy.privacy import Meter
from understudy.runtime.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Generator(Mechanism):
    """Data player: a generator network, fitted to counts. Query player: single columns, then the
    worst marginal each round.

    Attributes:
        rounds: how often to select and measure; ``None`` for arp's public rule: the whole workload
            at once while that leaves little noise on each cell, and otherwise 30, or as often as
            there are marginals to choose from if these are fewer.
        first: share of the budget for the 1-way marginals; ``None`` for 35% in rounds, else 12%.
        selecting: share of each round for the selection.
        latents: random vectors, each of which becomes a distribution over rows; they are drawn
            once.
        entries: numbers in such a vector.
        hidden: units in each of two layers.
        rate: Adam's learning rate.
        steps: most Adam steps a round, four times as many in the first, and up to eight times where
            many tables are measured at once.
    """

    rounds: int | None = None
    first: Fraction | None = None
    selecting: Fraction = Fraction(35, 100)
    latents: int = 300
    entries: int = 32
    hidden: int = 128
    rate: float = 0.002
    steps: int = 100

    name: ClassVar[str] = "generator"
    summary: ClassVar[str] = (
        "selects and measures the worst marginals, fits a generator network to them; large domains"
    )
    in_short: ClassVar[str] = "a network fitted to the worst marginals"
    can_be_gaussian: ClassVar[bool] = True
    reference: ClassVar[str] = "Understudy; after Liu, Vietri and Wu, NeurIPS 2021 (GEM)"

    def check(self, brief: Brief) -> None:
        check_share(
            self.name,
            selecting=self.selecting,
            **({} if self.first is None else {"first": self.first}),
        )
        check_whole(
            self.name,
            rounds=(1 if self.rounds is None else self.rounds, 1, 10_000),
            steps=(self.steps, 1, 1_000_000),
        )
        check_network(self.name, self._size, self.rate, brief.schema)

    def decide(self, brief: Brief, means: Means) -> Decision:
        tables, rho = Tables.of(brief), means.rho
        at_once = (
            self.rounds is None
            and bool(tables.own)
            and not Arp(bins=False).is_adaptive(tables, rho, means.rows)
        )
        usual = min(ROUNDS, len(tables.candidates))
        rounds = usual if self.rounds is None or not tables.candidates else self.rounds
        rounds = 1 if at_once else rounds
        first = (FIRST_AT_ONCE if at_once else FIRST_ADAPTIVE) if self.first is None else self.first
        first = first if tables.single or tables.candidates else Fraction(1)
        shares = Shares.of(rho, Fraction(first), tables, bool(tables.candidates))
        how = (
            f"{len(tables.own)} marginals measured at once"
            if at_once
            else f"{rounds} rounds of select and measure"
        )
        return Decision.of(
            self,
            brief,
            means,
            how=f"{how}, a network of {self.latents} latents fitted",
            numbers={"rounds": rounds, "first": first},
            cost=cost_of_measuring(
                brief.neighbours,
                (tables.ones, shares.first, None),
                (tables.single, shares.single, None),
                (tables.own, shares.rest, None),
            )
            if at_once and not Arp(bins=False).is_adaptive(tables, rho, fewest_rows(brief, means))
            else None,
            plan=_Plan(tables=tables, at_once=at_once, rounds=rounds, shares=shares),
            model_numbers=self.latents * sum(brief.schema.shape),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, plan = decision.brief.schema, decision.plan
        tables, shares = plan.tables, plan.shares
        steps: list[QueryPlayer] = [MeasureAll(meter, tables.ones, rho=shares.first)]
        if tables.single:
            steps.append(MeasureAll(meter, tables.single, rho=shares.single))
        turns = len(steps) + plan.rounds
        if plan.at_once:
            steps.append(MeasureAll(meter, tables.own, rho=shares.rest))
        elif tables.candidates:
            each, selecting = shares.rest / plan.rounds, Fraction(self.selecting)
            select, measure = each * selecting, each * (1 - selecting)
            steps.append(WorstMarginal(meter, tables.candidates, select=select, measure=measure))
        with one_thread():
            network = Network(schema, self._size, rng)
            data = FittedGenerator(
                schema, network, rows=decision.means.rows, rate=self.rate, steps=self.steps
            )
            played = play(data, InTurn(*steps), rounds=turns, watcher=watcher, schema=schema)
        return replace(played, facts={"steps": data.taken})

    @property
    def _size(self) -> Size:
        return Size(latents=self.latents, entries=self.entries, hidden=self.hidden)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a play of the generator follows."""

    tables: Tables
    at_once: bool
    rounds: int
    shares: Shares
