"""Residuals in the privacy room: sensitivity by brute force, the joint price, and the verb's order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from privacy.test_meter import Silence, meter_on, tripwired
from understudy.audit.distributions import gaussian_renyi
from understudy.audit.laws import ADD, BASE, REPLACE, TINY, neighbours_of
from understudy.audit.laws import RENYI_ORDERS as ORDERS
from understudy.errors import BudgetRefused, NotSupported, ParameterError
from understudy.privacy import Residuals
from understudy.privacy.accounting.accountant import cost_of
from understudy.privacy.verbs import residuals as residuals_module
from understudy.privacy.verbs.residuals import contrast, joint_l2, sensitivity
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.schema import Schema


def sets_of(sizes: Sequence[int], widest: int, *, empty: bool = False) -> list[Marginal]:
    columns = range(len(sizes))
    return [
        Marginal(chosen, tuple(sizes[c] for c in chosen))
        for k in range(0 if empty else 1, widest + 1)
        for chosen in itertools.combinations(columns, k)
    ]


def xi(shape: tuple[int, ...]) -> np.ndarray:
    """Xi as a matrix, the way the proof writes it."""
    matrix = np.ones((1, 1), np.int64)
    for size in shape:
        matrix = np.kron(matrix, size * np.eye(size, dtype=np.int64) - 1)
    return matrix


def moves(
    batches: Sequence[Marginal], sizes: Sequence[int], relation: Neighbours
) -> list[list[int]]:
    """Squared change of every residual, for every pair of neighbours, by matrices."""
    records = list(itertools.product(*(range(size) for size in sizes)))
    columns = []
    for record in records:
        cells = [
            (
                np.ravel_multi_index([record[p] for p in batch.positions], batch.shape)
                if batch.positions
                else 0
            )
            for batch in batches
        ]
        columns.append(
            [xi(batch.shape)[:, cell] for batch, cell in zip(batches, cells, strict=True)]
        )
    if relation is ADD:
        return [[int(c @ c) for c in column] for column in columns]
    return [
        [int((a - b) @ (a - b)) for a, b in zip(u, v, strict=True)]
        for u, v in itertools.combinations(columns, 2)
    ]


def test_the_contrast_is_the_matrix_of_the_proof() -> None:
    rng = np.random.default_rng(0)
    for shape in ((), (2,), (5,), (3, 4), (2, 3, 4)):
        table = rng.integers(0, 50, math.prod(shape))
        assert np.array_equal(contrast(table, shape), xi(shape) @ table)


def test_contrasts_of_narrow_tables_do_not_wrap() -> None:
    for shape in ((1000,), (40, 25)):
        table = np.zeros(1000, np.int32)
        table[0] = 2**31 - 1
        found = contrast(table, shape)
        assert found.dtype == np.int64 and np.array_equal(
            found, contrast(table.astype(np.int64), shape)
        )
        assert found[0] == (2**31 - 1) * math.prod(size - 1 for size in shape)


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 4), (2, 2, 2), (2, 3, 4), (5, 2, 3)])
def test_the_joint_price_is_that_of_the_worst_pair(
    sizes: tuple[int, ...], relation: Neighbours
) -> None:
    rng = np.random.default_rng(sum(sizes))
    for batches in (
        sets_of(sizes, len(sizes), empty=True),
        sets_of(sizes, 2),
        sets_of(sizes, 1)[:1],
    ):
        sigmas = [Fraction(int(s)) for s in rng.integers(1, 40, len(batches))]
        worst = max(
            sum(m / s**2 for m, s in zip(pair, sigmas, strict=True))
            for pair in moves(batches, sizes, relation)
        )
        charged = joint_l2(batches, sigmas, relation)
        assert worst <= charged <= worst * (1 + Fraction(1, 10**12))
        if relation is ADD:
            assert all(
                pair == [sensitivity(batch) for batch in batches]
                for pair in moves(batches, sizes, relation)
            )


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_a_set_that_is_measured_twice_is_paid_for_twice(relation: Neighbours) -> None:
    """Also when its columns come in another order: the same residual, written down differently."""
    sizes = (3, 4)
    one, two, turned = Marginal((0,), (3,)), Marginal((0, 1), (3, 4)), Marginal((1, 0), (4, 3))
    for batches in ([one, one], [two, turned], [one, two, one, turned, two]):
        sigmas = [Fraction(2 + i) for i in range(len(batches))]
        worst = max(
            sum(m / s**2 for m, s in zip(pair, sigmas, strict=True))
            for pair in moves(batches, sizes, relation)
        )
        assert worst <= joint_l2(batches, sigmas, relation) <= worst * (1 + Fraction(1, 10**12))


def test_the_search_in_a_block_never_falls_below_the_exact_maximum() -> None:
    """In weights of a few units every rounding shows; what is added for it must cover it, and not
    be more than twice the proof's.
    """
    rng = np.random.default_rng(6)
    rounded = 0
    for _ in range(120):
        sizes = [int(m) for m in rng.integers(2, 10, rng.integers(1, 6))]
        sets = range(1 << len(sizes))
        kernel = np.where(rng.random(len(sets)) < 0.5, rng.integers(0, 50, len(sets)), 0)
        kernel[0] = 0
        exact = max(
            sum(
                int(kernel[a])
                * (
                    1
                    - math.prod(
                        (Fraction(-1, m - 1) for i, m in enumerate(sizes) if a & s & 1 << i),
                        start=Fraction(1),
                    )
                )
                for a in sets
            )
            for s in sets
        )
        found = residuals_module._worst_in_block(kernel.astype(np.int64), sizes)
        assert exact <= found <= exact + 2 * len(sets)
        rounded += found - len(sets) < exact
    assert rounded > 5


def by_hand(batches: Sequence[Marginal], sigmas: Sequence[Fraction], changed: set[int]) -> Fraction:
    total = Fraction(0)
    for batch, sigma in zip(batches, sigmas, strict=True):
        inner = math.prod(
            -m if p in changed else m * (m - 1)
            for p, m in zip(batch.positions, batch.shape, strict=True)
        )
        total += Fraction(2 * (sensitivity(batch) - inner)) / sigma**2
    return total


def test_many_columns_are_bounded_from_above_and_not_by_much() -> None:
    """Beyond 16 columns the bound is a sum over blocks: never below any pair, and far below set by
    set.
    """
    rng = np.random.default_rng(1)
    sizes = [int(m) for m in rng.integers(2, 6, 19)]
    batches = sets_of(sizes, 2)
    sigmas = [
        Fraction(int(rng.integers(1, 4)) * (math.isqrt(sensitivity(batch)) + 1))
        for batch in batches
    ]
    bound = joint_l2(batches, sigmas, REPLACE)
    pairs = [set(np.flatnonzero(rng.random(19) < share).tolist()) for share in rng.random(300)] + [
        set(range(19))
    ]
    largest = max(by_hand(batches, sigmas, changed) for changed in pairs)
    apart = sum(
        joint_l2([batch], [sigma], REPLACE) for batch, sigma in zip(batches, sigmas, strict=True)
    )
    assert largest <= bound < largest * Fraction(5, 4) and bound < apart * Fraction(9, 10)


def test_blocks_agree_with_the_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (2, 3, 2, 5, 4, 2, 3, 2, 2, 7, 2, 3, 4, 2)
    batches = sets_of(sizes, 3)
    sigmas = [
        Fraction(math.isqrt(sensitivity(batch)) + 1 + len(batch.positions)) for batch in batches
    ]
    exact = joint_l2(batches, sigmas, REPLACE)
    monkeypatch.setattr(residuals_module, "MOST_TOGETHER", 13)
    blocked = joint_l2(batches, sigmas, REPLACE)
    monkeypatch.setattr(residuals_module, "WIDEST_IN_BLOCKS", 2)
    apart = joint_l2(batches, sigmas, REPLACE)
    assert exact <= blocked <= exact * Fraction(11, 10) and blocked < apart


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_exact_law_of_measure_residuals(relation: Neighbours) -> None:
    """The released law is a product of discrete Gaussians: its divergence is within the charge, and
    close to it for the worst pair.
    """
    batches = [Marginal.of(TINY, names) for names in (["x"], ["y"], ["y", "x"])] + (
        [Marginal((), ())] if relation is ADD else []
    )
    sigmas = [Fraction(6), Fraction(9), Fraction(15, 2), Fraction(20)][: len(batches)]
    meter = meter_on(BASE, neighbours=relation, noise=Silence())
    centre = meter.ask(Residuals(batches=batches, sigmas=sigmas))
    charged = float(cost_of(meter.events[-1]).rho)
    worst = dict.fromkeys(ORDERS, 0.0)
    for other in neighbours_of(BASE, relation):
        moved = meter_on(other, neighbours=relation, noise=Silence()).ask(
            Residuals(batches=batches, sigmas=sigmas)
        )
        for a in ORDERS:
            total = 0.0
            for here, there in zip(centre, moved, strict=True):
                total += sum(
                    gaussian_renyi(float(here.sigma), shift, a)
                    for shift in (there.counts - here.counts).tolist()
                )
            worst[a] = max(worst[a], total)
    for a in ORDERS:
        assert 0.99 * a * charged < worst[a] <= a * charged * (1 + 1e-6)


def test_residuals_have_their_noise_and_are_charged_before_anybody_looks() -> None:
    meter, source = tripwired()
    batches = [Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["y", "x"])]
    found = meter.ask(Residuals(batches=batches, sigmas=[Fraction(4), Fraction(1001, 300)]))
    assert (
        source.looked == [1]
        and [r.batch for r in found] == batches
        and [r.counts.dtype for r in found] == [np.int64] * 2
    )
    assert found[1].sigma >= Fraction(1001, 300)
    draws = np.array(
        [
            meter_on(BASE, rho=10**6)
            .ask(Residuals(batches=batches, sigmas=[Fraction(50)] * 2))[1]
            .counts
            for _ in range(500)
        ]
    )
    truth = (
        meter_on(BASE, noise=Silence())
        .ask(Residuals(batches=batches, sigmas=[Fraction(50)] * 2))[1]
        .counts
    )
    assert np.all(np.abs(draws.mean(axis=0) - truth) < 6 * 50 / np.sqrt(500)) and np.all(
        np.abs(draws.std(axis=0) / 50 - 1) < 0.2
    )


def test_counts_that_fit_32_bits_may_have_residuals_that_do_not() -> None:
    """Wrapping before the noise would be a large change by one row."""
    wide = Schema.from_domain({"x": 200_000})
    meter = meter_on(np.zeros((20_000, 1), int), schema=wide, noise=Silence())
    (found,) = meter.ask(Residuals(batches=[Marginal.of(wide, ["x"])], sigmas=[Fraction(2**40)]))
    assert found.counts[0] == 20_000 * 199_999 and np.all(found.counts[1:] == -20_000)


def test_refused_residuals_cost_nothing() -> None:
    batch, tall = Marginal.of(TINY, ["x"]), Marginal((0, 1), (4, 1))
    many = Fraction(2**47)
    for error, batches, sigmas in (
        (BudgetRefused, [batch], [Fraction(1, 2)]),
        (ParameterError, [], []),
        (ParameterError, [batch], []),
        (ParameterError, [batch], [Fraction(0)]),
        (ParameterError, [batch], [0.5]),
        (ParameterError, [tall], [Fraction(9)]),
        (ParameterError, [Marginal((0,), (1,))], [Fraction(9)]),
        (ParameterError, [Marginal((7,), (2,))], [Fraction(9)]),
        (NotSupported, [batch], [many]),
        (NotSupported, [Marginal((0, 1), (5000, 5000))], [Fraction(9)]),
    ):
        meter, source = tripwired()
        with pytest.raises(error):
            meter.ask(Residuals(batches=batches, sigmas=sigmas))  # type: ignore[arg-type]
        assert source.looked == [] and meter.events == ()
