"""Tilted sums in the privacy room: what a row adds, sensitivity by brute force, the exact law, and the verb's order."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from test_meter import Silence, meter_on, tripwired
from understudy.audit.distributions import gaussian_pmf, renyi
from understudy.audit.laws import ADD, BASE, RECORDS, REPLACE, TINY, neighbours_of
from understudy.audit.laws import RENYI_ORDERS as ORDERS
from understudy.checks import BASKET, SMALL, small_table, source_kinds
from understudy.errors import BudgetRefused, NotSupported, ParameterError, WorkloadError
from understudy.privacy import Meter, ProcessLedger, Tilt, Tilted
from understudy.privacy import events as ev
from understudy.privacy.accountant import Cost, cost_of
from understudy.privacy.tilted import LARGEST_LEVEL, LARGEST_WEIGHT
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Literal, Symmetric, all_of
from understudy.queries.workload import marginals
from understudy.schema import Schema
from understudy.sources.memory import MemorySource
from understudy.tally import CodedRows

X, Y, BOTH = Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["y"]), Marginal.of(TINY, ["y", "x"])
NOTHING = Marginal((), ())
WEIGHTS = [np.array([1, -2]), np.array([0, 3])]
LEVELS = [5, 1, 4, 2, 3]


def asked(meter: Meter, **how: Any) -> Tilted:
    """The verb with some of its arguments changed."""
    given = {"parts": [X, Y], "weights": WEIGHTS, "levels": LEVELS, "rho": Fraction(1, 2), **how}
    return meter.measure_tilted(given["parts"], given["weights"], given["levels"], rho=given["rho"])


def by_definition(tilt: Tilt, rows: np.ndarray) -> np.ndarray:
    """The sum over rows, one row and one marginal at a time."""
    total, middle = np.zeros(tilt.size, np.int64), len(tilt.levels) // 2
    starts = np.cumsum([0, *(part.size for part in tilt.parts)])
    for row in rows:
        cells = [
            start + (int(np.ravel_multi_index([row[p] for p in part.positions], part.shape)) if part.positions else 0)
            for part, start in zip(tilt.parts, starts, strict=False)
        ]
        score = sum(int(tilt.weights[cell]) for cell in cells)
        for cell in cells:
            total[cell] += tilt.levels[min(max(score, -middle), middle) + middle]
    return total


def random_tilt(parts: tuple[Marginal, ...], rng: np.random.Generator) -> Tilt:
    return Tilt(parts, rng.integers(-4, 5, sum(part.size for part in parts)), rng.integers(0, 9, 11))


def test_sums_agree_with_their_definition() -> None:
    rng, rows = np.random.default_rng(0), small_table(300)
    for k in (1, 2, 3):
        tilt = random_tilt((*marginals(SMALL, k=k).marginals, Marginal.of(SMALL, ["c", "a"]), NOTHING), rng)
        assert np.array_equal(CodedRows(rows, SMALL.shape).scan(tilt), by_definition(tilt, rows))
    assert np.array_equal(asked(meter_on(BASE, noise=Silence())).counts, [5, 2, 2, 5])  # rows score 1, 4 (cut at 2) and 1


@pytest.mark.parametrize("name", source_kinds())
def test_every_source_serves_tilted_sums(name: str, tmp_path: Any) -> None:
    kind = source_kinds()[name]
    schema = BASKET if kind.holds_items else SMALL
    rows = np.minimum(small_table(300), np.asarray(schema.shape) - 1)
    source = kind.holding(pa.table({n: pa.array(rows[:, i]) for i, n in enumerate(schema.names)}), schema, tmp_path)
    tilt = random_tilt((*marginals(schema, k=2).marginals, NOTHING), np.random.default_rng(1))
    assert np.array_equal(source.scan(tilt), by_definition(tilt, rows))


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_no_pair_of_rows_moves_the_sums_by_more_than_declared(relation: Neighbours) -> None:
    rng, closest = np.random.default_rng(2), 0.0
    for parts in ((X,), (X, Y), (BOTH, X, Y), (X, Y, NOTHING)):
        for _ in range(100):
            tilt = random_tilt(parts, rng)
            adds = [by_definition(tilt, [record]) for record in RECORDS]
            pairs = itertools.product(adds, adds) if relation is REPLACE else ((a, 0 * a) for a in adds)
            worst = max(int((a - b) @ (a - b)) for a, b in pairs)
            assert worst <= tilt.l2_squared(relation)
            closest = max(closest, worst / tilt.l2_squared(relation))
    assert closest == 1


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("levels", [LEVELS, [2, 0, 7, 7, 7]], ids=["some", "tight"])
def test_exact_law_of_measure_tilted(relation: Neighbours, levels: list[int]) -> None:
    """The released law is a product of discrete Gaussians: its divergence is within the charge, and close to it for the worst pair."""
    rho, tight = Fraction(1, 40), levels != LEVELS

    def centre_on(rows: np.ndarray) -> tuple[Tilted, ev.Event]:
        meter = meter_on(rows, neighbours=relation, noise=Silence())
        found = asked(meter, parts=[X, Y], levels=levels, rho=rho, weights=[np.array([0, 1])] * 2 if tight else WEIGHTS)
        return found, meter.events[-1]

    centre, event = centre_on(BASE)
    assert isinstance(event, ev.DiscreteGaussian) and event.sigma_squared == centre.sigma**2
    charged = float(cost_of(event).rho)
    assert 0.99 * rho < charged <= rho
    pmf = gaussian_pmf(float(centre.sigma), int(9 * centre.sigma) + 70 * max(levels))
    worst = dict.fromkeys(ORDERS, 0.0)
    for other in neighbours_of(BASE, relation):
        moved, _ = centre_on(other)
        for a in ORDERS:
            total = 0.0
            for shift in (moved.counts - centre.counts).tolist():
                window = slice(max(0, shift), len(pmf) + min(0, shift))
                total += renyi(pmf[window], np.roll(pmf, shift)[window], a)
            worst[a] = max(worst[a], total)
    for a in ORDERS:
        assert worst[a] <= a * charged * (1 + 1e-6)
        assert worst[a] > (0.9 if tight else 0.2) * a * charged


def test_tilted_sums_have_their_noise_and_are_charged_before_anybody_looks() -> None:
    meter, source = tripwired()
    found = asked(meter)
    assert source.looked == [1] and found.counts.dtype == np.int64
    assert found.sigma**2 >= 2 * 2 * 25 / (2 * Fraction(1, 2))
    draws = np.array([asked(meter_on(BASE), rho=Fraction(1, 100)).counts for _ in range(500)])
    truth = asked(meter_on(BASE, noise=Silence())).counts
    sigma = float(asked(meter_on(BASE), rho=Fraction(1, 100)).sigma)
    noise = (draws - truth) / sigma
    # Means, spreads, and every cell with noise of its own: one draw for all of them would give the sums away.
    assert np.all(np.abs(noise.mean(axis=0)) < 6 / np.sqrt(500)) and np.all(np.abs(np.cov(noise.T) - np.eye(4)) < 0.3)


def test_what_was_asked_for_is_read_once() -> None:
    """A table of levels that grows after it was checked would be noised for the smaller one."""
    levels, weight = np.array(LEVELS), np.array([0, 0])
    found = asked(meter_on(BASE, noise=Silence()), levels=levels, weights=[weight, weight])
    levels[:], weight[:] = 10**6, 10**6
    assert found.tilt.levels.max() == 5 and found.tilt.weights.max() == 0

    class Sly(Marginal):
        pass

    assert [type(part) for part in asked(meter_on(BASE), parts=[X, Sly((1,), (2,))]).tilt.parts] == [Marginal] * 2


def test_the_largest_levels_and_weights_do_not_wrap() -> None:
    top = np.full(2, LARGEST_WEIGHT)
    for sign, level in ((1, LARGEST_LEVEL), (-1, 1)):
        found = asked(meter_on(np.zeros((2000, 2), int), noise=Silence()), weights=[sign * top] * 2, levels=[1, 0, LARGEST_LEVEL], rho=1)
        assert found.counts.tolist() == [2000 * level, 0] * 2


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64])
def test_whole_numbers_of_any_width_are_taken_as_what_they_are(kind: type) -> None:
    rows, weights, levels = np.ones((300, 2), int), [np.array([0, 200])] * 2, np.zeros(801, int)
    levels[800] = 255  # a score of 400, which eight bits would not hold
    plain = asked(meter_on(rows, noise=Silence()), weights=weights, levels=levels)
    other = asked(meter_on(rows, noise=Silence()), weights=[w.astype(kind) for w in weights], levels=levels.astype(kind))
    assert plain.counts.tolist() == other.counts.tolist() == [0, 300 * 255] * 2 and plain.sigma == other.sigma


def test_refused_tilts_cost_nothing() -> None:
    refusals: list[tuple[type[Exception], dict[str, Any]]] = [
        (BudgetRefused, {"rho": Fraction(2)}),
        (ParameterError, {"rho": Fraction(0)}),
        (ParameterError, {"rho": 0.5}),
        (ParameterError, {"rho": Fraction(1, 10**40)}),
        (ParameterError, {"parts": [], "weights": []}),
        (ParameterError, {"parts": [X]}),
        (ParameterError, {"parts": [X, Symmetric((all_of(Literal(0, 1)), all_of(Literal(0, 0))))]}),
        (ParameterError, {"parts": [X, Marginal((7,), (2,))]}),
        (ParameterError, {"parts": [X, Marginal((-1,), (2,))]}),
        (ParameterError, {"parts": [X, Marginal((1,), (1,))], "weights": [np.array([0, 0]), np.array([0])]}),
        (ParameterError, {"parts": [X, Marginal((0,), (2, 1))]}),
        (ParameterError, {"weights": [np.array([0, 0]), np.array([0, 0, 0])]}),
        (ParameterError, {"weights": [np.array([0, 0]), np.array([0.0, 1.0])]}),
        (ParameterError, {"weights": [np.array([0, 0]), np.array([True, False])]}),
        (ParameterError, {"weights": [np.array([0, 0]), np.array([0, LARGEST_WEIGHT + 1])]}),
        (ParameterError, {"weights": [np.array([0, 0]), np.array([0, 2**63], np.uint64)]}),
        (ParameterError, {"levels": [1, 2]}),
        (ParameterError, {"levels": []}),
        (ParameterError, {"levels": [0, 0, 0]}),
        (ParameterError, {"levels": [1, -1, 1]}),
        (ParameterError, {"levels": [0.5, 1.0, 0.5]}),
        (ParameterError, {"levels": [[1], [2], [3]]}),
        (ParameterError, {"levels": [1, LARGEST_LEVEL + 1, 1]}),
        (ParameterError, {"levels": np.ones(2**20 + 1, np.int64)}),
    ]
    for error, how in refusals:
        meter, source = tripwired()
        with pytest.raises(error):
            asked(meter, **how)
        assert source.looked == [] and meter.events == ()


def test_more_cells_than_can_be_held_are_refused_before_any_charge() -> None:
    wide = Schema.from_domain({"a": 5000, "b": 5000})
    meter = meter_on(np.zeros((3, 2), int), schema=wide)
    with pytest.raises(NotSupported, match="at most"):
        meter.measure_tilted([Marginal.of(wide, ["a", "b"])], [np.zeros(1, int)], [1], rho=Fraction(1))
    assert meter.events == ()


def test_numbers_of_numpy_in_a_marginal_never_wrap() -> None:
    """A size of uint8(16) squared is 0 there: all cells would fall onto the same few, for the price of one."""
    schema = Schema.from_domain({"x": 16, "y": 16})
    source = MemorySource(np.zeros((4, 2), np.int64), schema)
    for kind in (np.uint8, np.int8, np.int64):
        part = Marginal((0, 1), (kind(16), kind(16)))
        assert part.size == 256
        object.__setattr__(part, "shape", (kind(16), kind(16)))  # and by somebody who went around the check
        meter = Meter(source, neighbours=REPLACE, ledger=ProcessLedger(), play=Cost(Fraction(1)), certify=Fraction(1), label="t")
        found = meter.measure_tilted([part] * 3, [np.ones(256, np.int64)] * 3, [1, 1, 1], rho=Fraction(1))
        assert found.tilt.size == 3 * 256 == len(found.counts)
        assert all(type(size) is int for one in found.tilt.parts for size in one.shape)
    for shape in ((16.0, 16.0), ("16", "16"), (None, 16)):
        with pytest.raises(WorkloadError, match="whole numbers"):
            Marginal((0, 1), shape)  # type: ignore[arg-type]
        forged = Marginal((0, 1), (16, 16))
        object.__setattr__(forged, "shape", shape)
        with pytest.raises(ParameterError, match="whole numbers"):
            meter.measure_tilted([forged], [np.ones(256, np.int64)], [1, 1, 1], rho=Fraction(1))


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_a_marginal_that_is_named_twice_is_paid_for_twice(relation: Neighbours) -> None:
    part = Marginal.of(TINY, ["x"])
    tilt = Tilt((part, part, part), np.ones(6, np.int64), np.array([0, 0, 0, 0, 0, 0, 5]))
    here, there = (
        by_definition(tilt, np.array(rows)) for rows in ([[0, 0], [0, 0]], [[0, 0], [1, 0]] if relation is REPLACE else [[0, 0]])
    )
    assert int(((here - there) ** 2).sum()) == tilt.l2_squared(relation) == (150 if relation is REPLACE else 75)


def test_a_relation_written_as_text_costs_no_less() -> None:
    tilt = Tilt((Marginal.of(TINY, ["x"]),), np.ones(2, np.int64), np.array([1, 1, 1]))
    assert tilt.l2_squared("replace-one") == tilt.l2_squared(REPLACE)  # type: ignore[arg-type]
    source = MemorySource(BASE, TINY)
    meter = Meter(source, neighbours="replace-one", ledger=ProcessLedger(), play=Cost(Fraction(1)), certify=Fraction(1), label="t")  # type: ignore[arg-type]
    assert meter.neighbours is REPLACE


@pytest.mark.parametrize(
    ("weights", "levels"),
    [
        ([np.array([-LARGEST_WEIGHT - 1, 0])], [1, 1, 1]),
        ([np.array([LARGEST_WEIGHT + 1, 0])], [1, 1, 1]),
        ([np.array([0, 0])], [[1], [1, 2], 1]),
    ],
)
def test_weights_and_levels_out_of_range_are_refused(weights: Any, levels: Any) -> None:
    with pytest.raises(ParameterError):
        meter_on(BASE).measure_tilted([Marginal.of(TINY, ["x"])], weights, levels, rho=Fraction(1, 2))


def test_cells_are_limited_in_all_and_not_one_by_one() -> None:
    schema = Schema.from_domain({"x": 4000, "y": 4000})
    wide = Marginal((0, 1), (4000, 4000))  # just below what can be handled
    source = MemorySource(np.zeros((2, 2), np.int64), schema)
    meter = Meter(source, neighbours=REPLACE, ledger=ProcessLedger(), play=Cost(Fraction(1)), certify=Fraction(1), label="t")
    with pytest.raises(NotSupported, match="32,000,000 cells"):
        meter.measure_tilted([wide, wide], [np.zeros(0)] * 2, [1], rho=Fraction(1))
