"""The plan and the way back of the matrix mechanism for marginals: public arithmetic only.

A table over columns B is the sum of what its subsets A say: x_B = sum over A of r_A, centred along
A and spread evenly over the rest. So measure the residuals r_A once each, with noise that suits the
workload, and add them up for every table: all tables then agree with each other, each cell is
unbiased, and its standard deviation is known before any row is read. With w_A the precision bought
for A (what one row adds to the charge, ``privacy/verbs/residuals.py``), a cell of B has variance

    sum over A in B of  a_A^2 / w_A * prod over B minus A of 1/m_j^2,      a_A = prod over A of (m_i - 1)/m_i.

Xiao, He, Zhang and Kifer, NeurIPS 2023.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.privacy.noise.samplers import SMALLEST_FAST_SIGMA, round_sigma_up, sqrt_up
from understudy.privacy.verbs.residuals import Residual, contrast, joint_l2, sensitivity
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal

Objective = Literal["total", "largest"]
# all 3-way marginals of 121 columns have so many; each set costs work and memory
MOST_SETS = 300_000
CLOSE = 1e-3  # the split for the largest variance stops this near its lower bound
MOST_SWEEPS = 20_000  # so that it ends in any case: a dozen or two come as close as CLOSE asks
# the joint price is rounded up; this much more noise keeps it inside rho
SLACK = 1 + Fraction(1, 1 << 30)


@dataclass(frozen=True)
class Plan:
    """What to measure with how much noise, and how good each wanted table will be."""

    batches: tuple[Marginal, ...]
    sigmas: tuple[Fraction, ...]
    wanted: tuple[Marginal, ...]
    errors: np.ndarray  # standard deviation of a cell of each wanted table, in rows


@dataclass(frozen=True)
class Estimate:
    """A reconstructed table: unbiased, consistent with all others, and how far off a cell is."""

    batch: Marginal
    counts: np.ndarray = field(repr=False)
    sigma: float


def plan(
    wanted: Sequence[Marginal],
    *,
    rho: Fraction,
    neighbours: Neighbours,
    objective: Objective = "total",
    total_sigma: Fraction = Fraction(0),
) -> Plan:
    """Split rho over the residuals of all subsets of the wanted tables.

    Args:
        wanted: the tables that matter.
        rho: what to spend.
        neighbours: which tables must be hard to tell apart.
        objective: ``total`` for the least sum of variances over all cells, ``largest`` for the
            least largest one.
        total_sigma: noise on the number of rows as released; 0 when it is public, and then it is
            not measured again.
    """
    if rho <= 0 or not wanted:
        raise ParameterError("A plan needs at least one marginal and rho above 0.")
    if (total_sigma > 0) is (neighbours is Neighbours.REPLACE_ONE):
        raise ParameterError(
            "The number of rows has noise under add-remove-one, and none under replace-one."
        )
    sets = closure(wanted)
    terms = _Terms.of(wanted, sets)
    precision = np.zeros(len(sets))
    precision[0] = np.inf if total_sigma == 0 else 1 / float(total_sigma) ** 2
    budget = 2 * float(rho)
    weights = (
        _split(terms, precision, budget)
        if objective == "total"
        else _split_largest(terms, precision, budget)
    )
    measured = [i for i, weight in enumerate(weights) if weight > 0]
    if not measured:  # only the number of rows was asked for, and it is known
        return Plan((), (), tuple(wanted), np.full(len(wanted), float(total_sigma)))
    batches = tuple(sets[i] for i in measured)
    # Any positive multiple of the split is the same split; the joint price says which one rho pays
    # for.
    roots = [
        Fraction(math.sqrt(sensitivity(batch) / weights[i]))
        for batch, i in zip(batches, measured, strict=True)
    ]
    factor = sqrt_up(joint_l2(batches, roots, neighbours) / (2 * rho) * SLACK)
    sigmas = tuple(round_sigma_up(max(root * factor, SMALLEST_FAST_SIGMA)) for root in roots)
    precision[measured] += [
        float(sensitivity(batch) / sigma**2) for batch, sigma in zip(batches, sigmas, strict=True)
    ]
    return Plan(batches, sigmas, tuple(wanted), np.sqrt(terms.variances(precision)))


def closure(wanted: Sequence[Marginal]) -> list[Marginal]:
    """Every set of columns below a wanted one, the empty set first; columns with one value say
    nothing and are left out.
    """
    sizes = {
        p: size for batch in wanted for p, size in zip(batch.positions, batch.shape, strict=True)
    }
    tops = {_varying(batch) for batch in wanted}
    if sum(1 << len(top) for top in tops) > 64 * MOST_SETS:
        raise NotSupported(
            f"These marginals have more than {MOST_SETS:,} subsets of columns; ask for marginals of"
            " fewer columns."
        )
    subsets = {
        chosen
        for top in tops
        for k in range(len(top) + 1)
        for chosen in itertools.combinations(top, k)
    }
    if len(subsets) > MOST_SETS:
        raise NotSupported(
            f"These marginals have {len(subsets):,} subsets of columns, at most {MOST_SETS:,} are"
            " planned; ask for fewer."
        )
    return [
        Marginal(chosen, tuple(sizes[p] for p in chosen))
        for chosen in sorted(subsets, key=lambda chosen: (len(chosen), chosen))
    ]


def reconstruct(
    residuals: Sequence[Residual],
    wanted: Sequence[Marginal],
    *,
    total: float,
    total_sigma: float = 0.0,
) -> list[Estimate]:
    """The wanted tables from noisy residuals and the number of rows (with its sigma, 0 when it is
    public).
    """
    noise = {r.batch.positions: float(r.sigma) for r in residuals}
    centred = {r.batch.positions: _centred(r) for r in residuals}
    if () in noise and total_sigma > 0:  # two independent looks at one number, by their precision
        trust = total_sigma**2 / (total_sigma**2 + noise[()] ** 2)
        total = trust * float(centred[()][0]) + (1 - trust) * total
    noise[()] = _total_sigma(noise.get(()), total_sigma)
    centred[()] = np.array([total])
    return [Estimate(batch, _table(batch, centred), _error(batch, noise)) for batch in wanted]


def reachable(residuals: Sequence[Residual], tables: Iterable[Marginal]) -> list[Marginal]:
    """The tables that these residuals add up to."""
    measured = {(), *(r.batch.positions for r in residuals)}
    return [table for table in tables if measured.issuperset(_subsets(table))]


# ---------------------------------------------------------------------- one table


def _varying(batch: Marginal) -> tuple[int, ...]:
    return tuple(
        sorted(p for p, size in zip(batch.positions, batch.shape, strict=True) if size > 1)
    )


def _subsets(batch: Marginal) -> list[tuple[int, ...]]:
    columns = _varying(batch)
    return [
        chosen for k in range(len(columns) + 1) for chosen in itertools.combinations(columns, k)
    ]


def _centred(residual: Residual) -> np.ndarray:
    """Xi over the product of sizes is a projection P; P (Xi x + noise) over that product again is P
    x plus centred noise.
    """
    table: np.ndarray = (
        contrast(residual.counts.astype(np.float64), residual.batch.shape)
        / float(residual.batch.size) ** 2
    )
    return table


def _table(batch: Marginal, centred: Mapping[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """The sum of the residuals of all subsets, each spread evenly over the columns that it does not
    have.
    """
    order = np.argsort(batch.positions)
    positions = [batch.positions[i] for i in order]
    shape = [batch.shape[i] for i in order]
    table = np.zeros(shape)
    for chosen in _subsets(batch):
        if chosen not in centred:
            raise ParameterError(
                "A residual below a wanted marginal was not measured, so the marginal cannot be"
                " reconstructed."
            )
        sizes = [size if p in chosen else 1 for p, size in zip(positions, shape, strict=True)]
        table += centred[chosen].reshape(sizes) / (batch.size // math.prod(sizes))
    return np.transpose(table, np.argsort(order)).reshape(-1)


def _error(batch: Marginal, noise: Mapping[tuple[int, ...], float]) -> float:
    """Standard deviation of a cell, the same for all cells of a table."""
    sizes = dict(zip(batch.positions, batch.shape, strict=True))
    variance = 0.0
    for chosen in _subsets(batch):
        own = math.prod(sizes[p] for p in chosen)
        rest = batch.size // own
        variance += (noise[chosen] / own / rest) ** 2 * math.prod(
            (sizes[p] - 1) / sizes[p] for p in chosen
        )
    return math.sqrt(variance)


def _total_sigma(measured: float | None, released: float) -> float:
    """Sigma of the number of rows: public (0), released once, or twice."""
    return released if measured is None or released == 0 else (measured**-2 + released**-2) ** -0.5


# ---------------------------------------------------------------------- splitting the budget


@dataclass(frozen=True)
class _Terms:
    """Variance of wanted table ``row`` gains ``coefficient`` / precision of set ``column``: a
    sparse matrix.
    """

    rows: np.ndarray
    columns: np.ndarray
    coefficients: np.ndarray
    cells: np.ndarray
    sets: int

    @classmethod
    def of(cls, wanted: Sequence[Marginal], sets: Sequence[Marginal]) -> _Terms:
        at = {batch.positions: i for i, batch in enumerate(sets)}
        gain = [math.prod((size - 1) / size for size in batch.shape) * batch.size for batch in sets]
        entries = [
            (row, at[chosen], batch.size)
            for row, batch in enumerate(wanted)
            for chosen in _subsets(batch)
        ]
        rows, columns, cells = (np.array(values) for values in zip(*entries, strict=True))
        # a_A^2 times the squared share of B's cells that one cell of A is spread over
        return cls(
            rows,
            columns,
            (np.array(gain)[columns] / cells) ** 2,
            np.array([float(batch.size) for batch in wanted]),
            len(sets),
        )

    def needs(self, importance: np.ndarray) -> np.ndarray:
        """v_A: the weighted sum of variances is sum_A v_A / w_A."""
        return np.bincount(self.columns, self.coefficients * importance[self.rows], self.sets)

    def variances(self, precision: np.ndarray) -> np.ndarray:
        return np.bincount(self.rows, self.coefficients / precision[self.columns], len(self.cells))


def _allot(needs: np.ndarray, prior: np.ndarray, budget: float) -> np.ndarray:
    """Precisions that minimise sum v_A / (w_A + prior_A) with sum w_A = budget: in proportion to
    sqrt(v_A), closed form.

    Only the empty set (the first) may be known already; if it is known better than its share,
    nothing is spent on it.
    """
    roots = np.sqrt(needs)
    if prior[0] < np.inf:
        share = roots * ((budget + prior[0]) / roots.sum())
        if share[0] >= prior[0]:
            share[0] -= prior[0]
            return share
    roots[0] = 0.0
    return roots * (budget / roots.sum()) if roots.any() else roots


def _split(terms: _Terms, prior: np.ndarray, budget: float) -> np.ndarray:
    return _allot(terms.needs(terms.cells), prior, budget)


def _split_largest(terms: _Terms, prior: np.ndarray, budget: float) -> np.ndarray:
    """The least largest variance: give each table an importance, allot, and shift importance to the
    tables that come out worst.

    For any importances that add up to 1 the weighted mean of variances at their own best split is a
    lower bound on the largest variance of every split (that is the dual), so the gap says when to
    stop.
    """
    importance = np.full(len(terms.cells), 1 / len(terms.cells))
    best, best_weights = np.inf, np.zeros(terms.sets)
    for _ in range(MOST_SWEEPS):
        weights = _allot(terms.needs(importance), prior, budget)
        variances = terms.variances(np.maximum(weights + prior, 1e-300))
        if variances.max() < best:
            best, best_weights = float(variances.max()), weights
        bound = float(importance @ variances)
        if best <= bound * (1 + CLOSE):
            break
        importance *= variances / bound
        importance /= importance.sum()
    return best_weights
