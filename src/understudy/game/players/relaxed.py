"""A data player that keeps relaxed rows, a distribution in place of every cell, and fits them to
noisy answers.

The relaxed projection of Aydore et al. (2021, Algorithm 1): few rows, free numbers turned into
distributions, Adam on the squared distance to everything measured so far, from where the last round
ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.counting.tally import DENSE_CELLS
from understudy.errors import NotSupported, ParameterError
from understudy.game.fitting.mixture import Mixture
from understudy.game.loop import Finding, learning
from understudy.game.players.simplex import PARAMETERISATIONS, Parameterisation
from understudy.privacy import Measurement
from understudy.queries.base import QueryClass, Relaxed
from understudy.queries.relaxed import Chances, relaxed
from understudy.queries.workload import Workload
from understudy.runtime.compiled import kernel
from understudy.runtime.watching import NoWatcher, Watcher
from understudy.schema import Schema

ENOUGH = 0.5  # a mean squared residual of this many noise variances: to fit closer is to fit noise
# a loss that has not fallen by this share in so many passes has settled
PROGRESS, PATIENCE = 1e-3, 30
STEP_CELLS = 500_000  # answers in one Adam step; with more, batches take turns
# free numbers of a relaxed table: 80 MB, held about six times while fitting
MOST_NUMBERS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How to fit: the public parameters that every relaxed projection shares.

    Attributes:
        relaxed_rows: n', how many rows.
        parameterisation: ``softmax`` or ``sparsemax``.
        rate: Adam's learning rate; ``None`` for 0.1 with softmax, 0.01 with sparsemax.
        steps: most Adam steps in one round (about; a pass over the measurements is finished).
        haste: how many times those learning rates, when none is given.
    """

    relaxed_rows: int
    parameterisation: str
    rate: float | None
    steps: int
    haste: float = 1.0

    @property
    def form(self) -> Parameterisation:
        return PARAMETERISATIONS[self.parameterisation]

    @property
    def pace(self) -> float:
        """The learning rate, as given or by the rule."""
        return self.rate or self.haste * self.form.rate

    def check(self, name: str, work: Workload) -> None:
        """Refuse, in a sentence, what cannot be fitted."""
        if self.parameterisation not in PARAMETERISATIONS:
            raise ParameterError(
                f"{name} knows the parameterisations {' and '.join(PARAMETERISATIONS)}, not"
                f" {self.parameterisation!r}."
            )
        for value, what in ((self.relaxed_rows, "relaxed rows"), (self.steps, "steps")):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
                raise ParameterError(f"{name} needs from 1 to 1,000,000 {what}.")
        if self.rate is not None and not (
            isinstance(self.rate, (int, float)) and 0 < self.rate <= 10
        ):
            raise ParameterError(f"{name} needs a learning rate above 0 and at most 10.")
        width = sum(work.schema.shape)
        if width * self.relaxed_rows > MOST_NUMBERS:
            raise NotSupported(
                f"{self.relaxed_rows:,} relaxed rows of {width:,} values are more than"
                f" {MOST_NUMBERS:,} numbers; lower relaxed_rows or use wider bins."
            )
        for batch in work:
            relaxed(batch)
            if batch.size > DENSE_CELLS:
                raise NotSupported(
                    f"{name} holds each marginal whole, at most {DENSE_CELLS:,} cells; one here has"
                    f" {batch.size:,}."
                )


@dataclass(frozen=True)
class Target:
    """A measured batch as the fit sees it: shares, and how much a squared error counts."""

    batch: QueryClass
    queries: Relaxed
    shares: np.ndarray
    weight: float

    def loss(self, at: Chances, gradient: np.ndarray) -> float:
        """Squared residuals in noise variances; their slopes are added to ``gradient``."""
        gaps = self.queries.answers(at) - self.shares
        self.queries.pull(at, gaps * (2 * self.weight), gradient)
        return float(self.weight * np.dot(gaps, gaps))


class RelaxedRows:
    """Fits relaxed rows to every measurement so far, after each round, from where it stood.

    Args:
        schema: the public columns.
        fit: how.
        rows: how many rows the sensitive table has, or is said to have.
        rng: public randomness for the start and the order of batches.
        watcher: told how many of the most passes a fit may take are done.
    """

    def __init__(
        self,
        schema: Schema,
        fit: Fit,
        *,
        rows: int,
        rng: np.random.Generator,
        watcher: Watcher | None = None,
    ) -> None:
        self._tell = learning(watcher or NoWatcher())
        self._schema, self._fitting, self._rows, self._rng = schema, fit, rows, rng
        starts = np.concatenate([[0], np.cumsum(schema.shape)]).astype(np.int64)
        spreads = np.repeat([fit.form.spread(size) for size in schema.shape], schema.shape)
        self._free = (
            spreads[:, None] * rng.standard_normal((int(starts[-1]), fit.relaxed_rows))
        ).astype(np.float32)
        self._chances = Chances(np.empty_like(self._free), starts)
        self._targets: list[Target] = []
        self._normalise(self._spans(range(len(schema))))

    def propose(self) -> Mixture:
        return Mixture(self._schema, Chances(self._chances.values.copy(), self._chances.starts))

    def learn(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if isinstance(finding, Measurement):
                # Not clipped to [0, 1]: the noise of a thousand empty cells must cancel, not add
                # up.
                shares = (finding.counts / self._rows).astype(np.float32)
                self._targets.append(
                    Target(
                        finding.batch,
                        relaxed(finding.batch),
                        shares,
                        (self._rows / float(finding.sigma)) ** 2,
                    )
                )
        self._fit()

    def result(self) -> Mixture:
        return self.propose()

    def _fit(self) -> None:
        """Passes of Adam until the noise is reached or nothing improves; the best table seen is
        kept.
        """
        spans = self._spans(sorted({c for target in self._targets for c in target.batch.columns}))
        answers = sum(target.batch.size for target in self._targets)
        adam = Adam(self._free, self._fitting.pace)
        best, free, settled = math.inf, self._free.copy(), 0
        most = math.ceil(self._fitting.steps * min(1, STEP_CELLS / answers))
        for done in range(most):
            self._tell(done / most)
            before, loss = self._free.copy(), 0.0
            for batch in self._batches():
                loss += self._step(batch, adam, spans)
            settled = 0 if loss < best * (1 - PROGRESS) else settled + 1
            if loss < best:
                best, free = loss, before
            if best <= ENOUGH * answers or settled >= PATIENCE:
                break
        self._free = free
        self._normalise(spans)

    def _step(self, batch: Sequence[Target], adam: Adam, spans: Sequence[slice]) -> float:
        """One Adam step on some of the measurements; their loss before it."""
        gradient = np.zeros_like(self._free)
        loss = sum(target.loss(self._chances, gradient) for target in batch)
        for span in spans:
            self._fitting.form.pull(self._chances.values[span], gradient[span])
        adam.step(gradient, spans)
        self._normalise(spans)
        return loss

    def _batches(self) -> list[list[Target]]:
        """Everything in one step; or, when that is much, in turns and in random order."""
        batches: list[list[Target]] = []
        room = 0
        for i in self._rng.permutation(len(self._targets)):
            target = self._targets[i]
            if target.batch.size > room:
                batches.append([])
                room = STEP_CELLS
            batches[-1].append(target)
            room -= target.batch.size
        return batches

    def _spans(self, columns: Iterable[int]) -> list[slice]:
        return [slice(self._chances.starts[c], self._chances.starts[c + 1]) for c in columns]

    def _normalise(self, spans: Sequence[slice]) -> None:
        for span in spans:
            self._fitting.form.chances(self._free[span], self._chances.values[span])


class Adam:
    """Kingma and Ba (2015), in place.

    Where no epsilon is given it is larger, DAMPING times the first gradient's root mean square:
    plain Adam moves a number with hardly any slope as far as one that matters, and one round's
    fit of relaxed rows then spoils answers that nobody measured.
    """

    DAMPING = 0.03

    def __init__(self, free: np.ndarray, rate: float, epsilon: float | None = None) -> None:
        self._free, self._rate, self._plain = free, rate, epsilon
        self._mean, self._square = np.zeros_like(free), np.zeros_like(free)
        self._steps, self._damped = 0, 0.0

    def step(self, gradient: np.ndarray, spans: Sequence[slice] = (slice(None),)) -> None:
        if self._steps == 0:
            self._damped = (
                self.DAMPING * math.sqrt(np.vdot(gradient, gradient) / gradient.size) + 1e-12
            )
        self._steps += 1
        unbiased = math.sqrt(1 - 0.999**self._steps)
        rate = self._rate * unbiased / (1 - 0.9**self._steps)
        epsilon = self._damped if self._plain is None else self._plain * unbiased
        for span in spans:
            _adam(
                self._free[span],
                gradient[span],
                self._mean[span],
                self._square[span],
                rate,
                epsilon,
            )


@kernel()
def _adam(
    free: np.ndarray,
    slopes: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
    rate: float,
    epsilon: float,
) -> None:
    step, tiny = np.float32(rate), np.float32(epsilon)
    for v in range(free.shape[0]):
        for r in range(free.shape[1]):
            slope = slopes[v, r]
            mean[v, r] = np.float32(0.9) * mean[v, r] + np.float32(0.1) * slope
            square[v, r] = np.float32(0.999) * square[v, r] + np.float32(0.001) * slope * slope
            free[v, r] -= step * mean[v, r] / (np.sqrt(square[v, r]) + tiny)
