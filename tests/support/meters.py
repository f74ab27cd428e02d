"""Meters on invented tables that nothing is reserved for, and plays on them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from understudy.api.request import means_of
from understudy.checks import rehearsal
from understudy.game.loop import Played
from understudy.mechanisms.base import Brief, Decision, Mechanism
from understudy.privacy import Budget, Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.noise.samplers import Noise
from understudy.queries.base import Neighbours
from understudy.runtime.watching import NoWatcher
from understudy.schema import Schema
from understudy.sources import Source
from understudy.sources.memory import MemorySource


def meter_on(
    table: Any,
    schema: Schema,
    *,
    play: Cost,
    certify: Fraction = Fraction(1),
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    noise: Noise | None = None,
) -> Meter:
    """A meter on a source, or on rows of a schema."""
    source = table if isinstance(table, Source) else MemorySource(np.asarray(table), schema)
    return Meter(source, neighbours=neighbours, play=play, certify=certify, noise=noise)


def decided(
    mechanism: Mechanism, brief: Brief, rho: Fraction, rows: int, budget: Budget | None = None
) -> Decision:
    """What a mechanism does with so much rho on so many rows."""
    means = means_of(brief.neighbours, budget or Budget.zcdp(rho), rho, rows)
    return mechanism.decide(brief, means)


def play_on(
    source: Source,
    mechanism: Mechanism,
    brief: Brief,
    rho: Fraction,
    rows: int,
    *,
    seed: int = 0,
    noise: Noise | None = None,
) -> tuple[Played, Meter, Decision]:
    """A play with a public number of rows, as a release would make it."""
    decision, meter = rehearsal(
        mechanism, brief, source, Budget.zcdp(rho), rho=rho, certify=rho, rows=rows, noise=noise
    )
    rng = np.random.default_rng(seed)
    return mechanism.play(decision, meter, rng, NoWatcher()), meter, decision
