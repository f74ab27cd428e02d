"""A data player that keeps a weight for every possible record: multiplicative weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from understudy.counting.tally import records_over
from understudy.game.fitting.rounding import systematic_counts
from understudy.game.loop import Finding
from understudy.privacy import Measurement
from understudy.queries.base import QueryClass
from understudy.schema import Schema

STEP = 0.5  # of the way to each target, in the logarithm: measurements that disagree settle between
CERTAIN = 3.0  # an answer this many sigmas from the model is believed in full


class DomainModel:
    """A distribution over the whole domain, one weight a record."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights  # in the shape of the schema

    def shares(self, batch: QueryClass) -> np.ndarray:
        table = batch.as_table()
        if table is not None:
            return self.marginal(table.positions)
        return batch.weights(
            records_over(batch.columns, self.weights.shape), self.marginal(batch.columns)
        )

    def marginal(self, positions: tuple[int, ...]) -> np.ndarray:
        """The marginal over some columns, in the order given, flat."""
        table = sum_out(self.weights, set(positions))
        return (
            np.transpose(table, np.argsort(np.argsort(positions))).ravel()
            if positions
            else table.reshape(1)
        )

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        flat = self.weights.ravel()
        cells = np.repeat(np.arange(flat.size), systematic_counts(flat, count, rng))
        codes = np.column_stack(np.unravel_index(cells, self.weights.shape)).astype(np.int32)
        return codes[rng.permutation(count)]


class DomainWeights:
    """Multiplicative weights with replays: every measurement so far is revisited each round.

    A query answered with m when the model says a has the weight of the records that satisfy it
    multiplied by (m/a)^STEP and that of all others by ((1-m)/(1-a))^STEP; the cells of a whole
    marginal move together, each by its own factor. With STEP = 1 this is the entropy projection,
    which the small fixed step of the paper approaches by repetition. Noisy answers are first shrunk
    toward the model: an answer that its noise explains should not be chased.
    """

    def __init__(self, schema: Schema, *, rows: int, replays: int) -> None:
        self._weights = np.full(schema.shape, 1 / schema.domain_size)
        self._rows, self._replays = rows, replays
        self._seen: list[Measurement] = []

    def propose(self) -> DomainModel:
        return DomainModel(self._weights)

    def learn(self, findings: Sequence[Finding]) -> None:
        self._seen.extend(f for f in findings if isinstance(f, Measurement))
        for _ in range(self._replays):
            self._revisit()

    def result(self) -> DomainModel:
        """The average over some last sweeps, which evens out the pull of whatever was visited last."""
        total = np.zeros_like(self._weights)
        for _ in range(self._replays):
            self._revisit(total)
        return DomainModel(total / total.sum()) if total.any() else self.propose()

    def _revisit(self, total: np.ndarray | None = None) -> None:
        for measurement in self._seen:
            self._weights *= self._factors(measurement)
            if total is not None:
                total += self._weights

    def _factors(self, measurement: Measurement) -> np.ndarray:
        """What each record's weight is multiplied by, broadcast over the columns that do not
        matter.
        """
        batch, shape = measurement.batch, self._weights.shape
        model = DomainModel(self._weights).shares(batch)
        target = shrunk(measurement, model, self._rows)
        whole = batch.as_table()
        if whole is not None:
            table = (target / np.maximum(model, 1e-300)) ** STEP
            table /= model @ table  # the new weights add up to 1
            table = np.transpose(table.reshape(whole.shape), np.argsort(whole.positions))
        else:
            inside = batch.truth(records_over(batch.columns, shape))
            pull = target / np.maximum(model, 1e-300)
            push = (1 - target) / np.maximum(1 - model, 1e-300)
            # A product over many queries leaves the range of floats; what it makes of the weights
            # is taken relative to the largest of them.
            logs = STEP * np.where(inside, np.log(pull), np.log(push)).sum(axis=1)
            there = DomainModel(self._weights).marginal(batch.columns)
            some = there > 1e-290
            largest = (logs[some] + np.log(there[some])).max()
            table = np.exp(np.minimum(logs - largest, 690.0))  # below 1e300
            table /= there @ table
        return table.reshape(
            [size if axis in batch.columns else 1 for axis, size in enumerate(shape)]
        )


def shrunk(measurement: Measurement, model: np.ndarray, rows: int) -> np.ndarray:
    """Noisy shares pulled toward the model by as much as noise explains, kept inside (0, 1)."""
    noisy, sigma = measurement.counts / rows, float(measurement.sigma) / rows
    trust = model**2 / (model**2 + sigma**2)
    trust = np.where(np.abs(noisy - model) > CERTAIN * sigma, 1.0, trust)
    tiny = 0.1 / rows  # nothing is ruled out: a weight of zero could never come back
    return np.clip(model + trust * (noisy - model), tiny, 1 - tiny)


def sum_out(weights: np.ndarray, axes: set[int]) -> np.ndarray:
    """The table over the kept axes, in their order.

    Neighbouring axes with one fate are merged, and the largest block is summed first as a product
    with ones:
    eight times faster than NumPy's sum over many short axes.
    """
    shape = [size for axis, size in enumerate(weights.shape) if axis in axes]
    blocks = [
        (stays, math.prod(weights.shape[i] for i in run))
        for stays, run in groupby(range(weights.ndim), axes.__contains__)
    ]
    sizes, stays = [size for _, size in blocks], [stay for stay, _ in blocks]
    while not all(stays):
        at = max((i for i, stay in enumerate(stays) if not stay), key=sizes.__getitem__)
        before, after = math.prod(sizes[:at]), math.prod(sizes[at + 1 :])
        ones = np.ones(sizes[at])
        weights = (
            weights.reshape(before, -1) @ ones
            if after == 1
            else ones @ weights.reshape(before, len(ones), after)
        )
        del sizes[at], stays[at]
    return weights.reshape(shape)
