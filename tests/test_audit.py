"""Statistical audits: many draws on a worst-placed pair of tables, against what was charged (make audit).

These catch gross errors (half the noise, a forgotten factor); exact laws are in test_meter.py.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from understudy.game import NoWatcher
from understudy.mechanisms.base import Brief, available_mechanisms, make
from understudy.privacy import Budget, Meter, ProcessLedger
from understudy.privacy.accountant import Cost, total_cost
from understudy.privacy.budget import log_delta_zcdp
from understudy.privacy.noise import Noise
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.workload import marginals
from understudy.schema import Schema
from understudy.sources.memory import MemorySource
from understudy.tally import Counts

pytestmark = pytest.mark.slow

TINY = Schema.from_domain({"x": 2, "y": 2})
PART = Marginal.of(TINY, ["x"])
# One row decides whether the only rare cell is occupied.
TABLE = np.array([[0, 0]] * 20)
OTHER = np.array([[0, 0]] * 19 + [[1, 0]])
DRAWS = 20_000
PLAYS = 4_000  # of a whole mechanism, which takes longer than a verb
QUICK = {
    "generator": {"steps": 2},
    "querygan": {"steps": 2, "rounds": 5},
    "gan-gradients-experimental": {"steps": 2, "rounds": 3},
    "gan-logistic-experimental": {"steps": 2, "rounds": 2},
}  # how long a network trains does not change what is charged


def meter_on(rows: np.ndarray, rho: Fraction, noise: Noise | None = None, play: Cost | None = None) -> Meter:
    source = MemorySource(rows, TINY)
    ledger = ProcessLedger()
    return Meter(source, neighbours=Neighbours.REPLACE_ONE, ledger=ledger, play=play or Cost(rho), certify=rho, label="audit", noise=noise)


def breach(here: np.ndarray, there: np.ndarray, rho: float) -> float:
    """The worst log-ratio of (lower bound of P) to (e^eps * upper bound of P' + delta): above 0 refutes rho-zCDP at 99.9%."""
    worst, tests = -np.inf, 0
    results = []
    for a, b in ((here, there), (there, here)):
        for cut in np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0.02, 0.98, 25))):
            for above in (True, False):
                hits = [int(np.sum(s >= cut) if above else np.sum(s < cut)) for s in (a, b)]
                for epsilon in (0.05, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0):
                    tests += 1
                    results.append((hits, epsilon))
    for (p, q), epsilon in results:
        level = 1e-3 / (2 * tests)
        low = stats.beta.ppf(level, p, len(here) - p + 1) if p else 0.0
        high = stats.beta.ppf(1 - level, q + 1, len(there) - q) if q < len(there) else 1.0
        delta = float(log_delta_zcdp(Fraction(rho).limit_denominator(10**9), Fraction(epsilon).limit_denominator(100)).exp())
        if low > 0:
            worst = max(worst, float(np.log(low / (np.exp(epsilon) * high + min(1.0, delta)))))
    return worst


def measured(rows: np.ndarray, rho: Fraction, noise: Noise | None) -> np.ndarray:
    found = []
    for _ in range(DRAWS):
        counts = meter_on(rows, rho, noise).measure(PART, rho=rho).counts
        found.append(counts[0] - counts[1])
    return np.asarray(found)


def selected(rows: np.ndarray, rho: Fraction, noise: Noise | None) -> np.ndarray:
    return np.asarray(
        [meter_on(rows, rho, noise).select([PART], [np.array([0.5, 0.5])], rho=rho, signed=True)[0].index for _ in range(DRAWS)]
    )


def certified(rows: np.ndarray, rho: Fraction, noise: Noise | None) -> np.ndarray:
    answer = Counts(2, np.array([20, 0]))
    return np.asarray([meter_on(rows, rho, noise).certify([PART], [answer], 20).noisy_largest_error for _ in range(DRAWS)])


def tilted(rows: np.ndarray, rho: Fraction, noise: Noise | None) -> np.ndarray:
    found = []
    for _ in range(DRAWS):
        counts = meter_on(rows, rho, noise).measure_tilted([PART], [np.array([1, 1])], [0, 2, 7], rho=rho).counts
        found.append(counts[0] - counts[1])
    return np.asarray(found)


@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("verb", [measured, selected, certified, tilted])
def test_verbs_keep_what_they_charge(verb: Callable[..., np.ndarray], rho: Fraction) -> None:
    assert breach(verb(TABLE, rho, None), verb(OTHER, rho, None), float(rho)) <= 0


class Half(Noise):
    """A broken sampler with half of the noise: the audit must see it."""

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        return np.rint(super().gaussian(size, sigma) / 2).astype(np.int64)


@pytest.mark.parametrize("verb", [measured, certified, tilted])
def test_the_audit_sees_half_the_noise(verb: Callable[..., np.ndarray]) -> None:
    rho = Fraction(2)
    assert breach(verb(TABLE, rho, Half()), verb(OTHER, rho, Half()), float(rho)) > 0


@pytest.mark.parametrize("name", available_mechanisms())
def test_mechanisms_keep_what_they_charge(name: str) -> None:
    rho = Fraction(1, 2)
    brief = Brief(schema=TINY, workload=marginals(TINY, k=2), neighbours=Neighbours.REPLACE_ONE)

    mechanism, allowed = make(name, QUICK.get(name)).settled(brief, Budget.zcdp(rho), rho, len(TABLE))

    def rare_cell(rows: np.ndarray) -> np.ndarray:
        found = []
        for _ in range(PLAYS):
            meter = meter_on(rows, rho, play=allowed)
            played = mechanism.play(brief, meter, np.random.default_rng(0), NoWatcher())
            found.append(played.model.shares(PART)[1])
            assert total_cost(meter.events).keeps(Budget.zcdp(rho))
        return np.asarray(found)

    assert breach(rare_cell(TABLE), rare_cell(OTHER), float(rho)) <= 0
