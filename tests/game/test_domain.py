"""Weights of all records stay numbers, however many queries pull at them at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from understudy.checks import SMALL
from understudy.game.players.domain import DomainWeights
from understudy.privacy import Measurement
from understudy.queries.lattice import AllConjunctions


def test_answers_far_from_the_weights_pull_without_leaving_the_range_of_floats() -> None:
    batch = AllConjunctions.of(SMALL, SMALL.names)
    weights = DomainWeights(SMALL, rows=300, replays=10)
    counts = np.where(np.arange(batch.size) % 2, 300, 0)
    with np.errstate(all="raise", under="ignore"):
        weights.learn([Measurement(batch, counts, Fraction(1))])
        found = weights.result().shares(batch)
    assert np.isfinite(found).all() and (found >= 0).all() and (found <= 1 + 1e-9).all()
