"""Row projection: the engine against brute force, what is believed of noisy tables, and project()."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.checks import SMALL
from understudy.counting.tally import CodedRows, cell_numbers, count_cells
from understudy.game.fitting import rowfit
from understudy.game.fitting.evidence import Evidence, believed
from understudy.game.fitting.rowfit import CHAINS, QueryTarget, TableTarget, Target, fit_rows
from understudy.game.players.product import ProductModel
from understudy.game.players.rows import Fitted, RowModel, RowPlayer, repeated
from understudy.queries.binned import BinnedMarginal
from understudy.queries.literals import Literal, any_of, at_least, parity
from understudy.queries.symmetric import Symmetric
from understudy.runtime.watching import NoWatcher

SHAPE = (3, 2, 4, 3)
QUERIES = Symmetric(
    (
        any_of(Literal(0, 1), Literal(0, 2), Literal(2, 3)),
        at_least(2, Literal(1, 0), Literal(2, 1, holds=False), Literal(3, 2)),
        parity(Literal(0, 0), Literal(2, 2), Literal(3, 1, holds=False)),
        any_of(Literal(3, 0, holds=False), Literal(3, 0)),
    )
)


def mixed_targets(rng: np.random.Generator) -> list[Target]:
    """A dense table, one in another order, three in bins, listed cells of another, and single
    queries; all with unequal weights.
    """

    def table(
        positions: tuple[int, ...],
        keys: np.ndarray | None = None,
        bins: tuple[np.ndarray | None, ...] = (),
    ) -> TableTarget:
        sizes = tuple(SHAPE[p] for p in positions)
        shape = tuple(
            m if of is None else int(of.max()) + 1
            for m, of in zip(sizes, bins or (None,) * len(sizes), strict=True)
        )
        cells = int(np.prod(shape)) if keys is None else len(keys)
        return TableTarget(
            positions, shape, rng.uniform(0, 12, cells), rng.uniform(0.1, 1, cells), keys, bins
        )

    runs, apart = np.array([0, 0, 1, 1]), np.array([1, 0, 1])
    return [
        table((0, 1)),
        table((3, 1, 2)),
        table((2, 0), bins=(runs, None)),
        table((1, 3, 2), bins=(None, apart, np.array([2, 0, 1, 0]))),
        table((2,), bins=(runs,)),
        table((0, 2, 3), np.array([1, 5, 9, 17, 30])),
        QueryTarget(QUERIES, rng.uniform(0, 60, QUERIES.size), rng.uniform(0.1, 1, QUERIES.size)),
    ]


def loss(rows: np.ndarray, people: float, targets: list[Target]) -> float:
    scale, total = people / len(rows), 0.0
    for target in targets:
        if isinstance(target, QueryTarget):
            counts = target.batch.counts(CodedRows(rows, SHAPE)).dense().astype(float)
        else:
            counts = target.counted(rows).astype(float)
            counts = counts if target.keys is None else counts[target.keys]
        total += float(np.sum(target.weights * (scale * counts - target.counts) ** 2)) / 2
    return total


@pytest.mark.parametrize("seed", range(4))
def test_no_single_change_is_better_when_the_descent_has_come_to_rest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    targets = mixed_targets(rng)
    rows = np.column_stack([rng.integers(0, m, 40) for m in SHAPE]).astype(np.int32)
    people, before = 100.0, loss(rows, 100.0, targets)
    fits = 0
    while fit_rows(rows, SHAPE, people, targets, sweeps=1, seed=fits) and fits < 50:
        fits += 1
        now = loss(rows, people, targets)
        assert now < before + 1e-6
        before = now
    assert 1 <= fits < 50
    for r, c in itertools.product(range(len(rows)), range(len(SHAPE))):
        was = rows[r, c]
        for v in range(SHAPE[c]):
            rows[r, c] = v
            assert loss(rows, people, targets) > before - 1e-3
        rows[r, c] = was


def test_exact_tables_are_met_and_the_seed_decides_everything() -> None:
    rng = np.random.default_rng(5)
    truth = (rng.random((5000, 4)) ** 2 * SHAPE).astype(np.int32)
    truth[:, 3] = (truth[:, 0] + truth[:, 3]) % 3
    pairs = list(itertools.combinations(range(4), 2))
    shapes = [tuple(SHAPE[p] for p in pair) for pair in pairs]
    targets = [
        TableTarget(
            pair, shape, count_cells(truth, pair, shape).astype(float), np.ones(shape[0] * shape[1])
        )
        for pair, shape in zip(pairs, shapes, strict=True)
    ]
    made = []
    for chains in (1, 2, 2):
        rows = np.column_stack([rng.integers(0, m, 2000) for m in SHAPE]).astype(np.int32) * 0
        rowfit.CHAINS, was = chains, rowfit.CHAINS
        try:
            fit_rows(rows, SHAPE, 5000, targets, sweeps=8, seed=3)
        finally:
            rowfit.CHAINS = was
        for pair, shape in zip(pairs, shapes, strict=True):
            assert (
                np.abs(
                    count_cells(rows, pair, shape) / 2000 - count_cells(truth, pair, shape) / 5000
                ).max()
                < 0.003
            )
        made.append(rows)
    assert np.array_equal(made[1], made[2]) and not np.array_equal(made[0], made[1])


def pairs_of(truth: np.ndarray, bins: dict[int, np.ndarray], known: bool = True) -> list[Target]:
    """Exact tables of all pairs of columns, each column in its bins."""
    found: list[Target] = []
    for pair in itertools.combinations(range(4), 2):
        own = tuple(bins.get(p) for p in pair)
        shape = tuple(
            SHAPE[p] if of is None else int(of.max()) + 1 for p, of in zip(pair, own, strict=True)
        )
        empty = TableTarget(
            pair, shape, np.zeros(0), np.ones(shape[0] * shape[1]), bins=own if known else ()
        )
        found.append(replace(empty, counts=empty.counted(truth).astype(float)))
    return found


def test_bins_of_no_column_are_no_bins_and_bins_of_one_code_each_mean_the_same() -> None:
    rng = np.random.default_rng(5)
    truth = (rng.random((3000, 4)) ** 2 * SHAPE).astype(np.int32)
    truth[:, 3] = (truth[:, 0] + truth[:, 3]) % 3
    alone = {p: np.arange(m) for p, m in enumerate(SHAPE)}
    made = []
    for targets in (pairs_of(truth, {}, known=False), pairs_of(truth, {}), pairs_of(truth, alone)):
        rows = np.zeros((2000, 4), np.int32)
        fit_rows(rows, SHAPE, 3000, targets, sweeps=6, seed=3)
        made.append(rows)
    assert np.array_equal(made[0], made[1])
    for pair in itertools.combinations(range(4), 2):
        shape = tuple(SHAPE[p] for p in pair)
        gap = count_cells(made[2], pair, shape) / 2000 - count_cells(truth, pair, shape) / 3000
        assert np.abs(gap).max() < 0.003


def test_rows_meet_coarse_tables_and_the_prior_decides_inside_a_bin() -> None:
    rng = np.random.default_rng(6)
    truth = (rng.random((6000, 4)) ** 2 * SHAPE).astype(np.int32)
    truth[:, 2] = np.where(rng.random(6000) < 0.7, truth[:, 0] + 1, truth[:, 2])
    targets = pairs_of(truth, {2: np.array([0, 0, 1, 1])})
    priors = [np.full(m, 1 / m) for m in SHAPE]
    priors[2] = np.array([0.1, 0.4, 0.1, 0.4])
    rows = np.zeros((6000, 4), np.int32)
    fit_rows(rows, SHAPE, 6000, targets, sweeps=8, seed=1, heat=2.0, priors=priors)
    for target in targets:
        assert isinstance(target, TableTarget)
        assert np.abs(target.counted(rows) - target.counts).max() < 60
    inside = np.bincount(rows[:, 2], minlength=4)
    assert inside[1] / inside[:2].sum() == pytest.approx(0.8, abs=0.03)
    assert inside[3] / inside[2:].sum() == pytest.approx(0.8, abs=0.03)


def test_heat_draws_from_the_prior_where_nothing_is_known_and_only_named_columns_move() -> None:
    rows = np.zeros((6000, 4), np.int32)
    free = [TableTarget((c,), (m,), np.zeros(m), np.zeros(m)) for c, m in enumerate(SHAPE)]
    priors = [np.arange(1, m + 1) / np.arange(1, m + 1).sum() for m in SHAPE]
    fit_rows(rows, SHAPE, 6000, free, sweeps=1, seed=1, heat=1.0, priors=priors, columns=[0, 2])
    assert not rows[:, 1].any() and not rows[:, 3].any()
    for c in (0, 2):
        expected = 6000 * priors[c]
        assert np.sum((np.bincount(rows[:, c], minlength=SHAPE[c]) - expected) ** 2 / expected) < 20


def parity_rows(count: int) -> np.ndarray:
    """Three bits with an even sum: no pair of them says anything of it."""
    bits = np.random.default_rng(5).integers(0, 2, (count, 2))
    return np.column_stack([bits, bits.sum(axis=1) % 2]).astype(np.int32)


def parity_targets(rows: np.ndarray) -> list[Target]:
    return [
        TableTarget(pair, (2, 2), np.bincount(rows[:, pair] @ [2, 1], minlength=4), np.ones(4))
        for pair in itertools.combinations(range(3), 2)
    ]


def test_what_no_table_tells_is_let_go_by_a_first_sweep_that_is_hot_enough() -> None:
    odd: dict[float, float] = {}
    for first_heat in (0.0, 0.1, 6.0):
        rows = parity_rows(4_000)
        targets = parity_targets(rows)
        fit_rows(rows, (2, 2, 2), 4_000, targets, sweeps=3, seed=1, heat=0.1, first_heat=first_heat)
        odd[first_heat] = float((rows.sum(axis=1) % 2).mean())
        for target in targets:  # the last sweeps have little heat, and meet the tables
            assert np.abs(target.counts - count_cells(rows, target.positions, (2, 2))).max() <= 20
    assert odd[0.0] == odd[0.1] < 0.05
    assert odd[6.0] > 0.25


def test_one_sweep_alone_has_no_first_heat() -> None:
    made = []
    for first_heat in (0.0, 50.0):
        rows = parity_rows(2_000)
        targets = parity_targets(rows)
        fit_rows(rows, (2, 2, 2), 2_000, targets, sweeps=1, seed=1, heat=0.1, first_heat=first_heat)
        made.append(rows)
    assert (made[0] == made[1]).all()


@pytest.mark.parametrize("sigma, least", [(0.01, 0.1), (1.0, 0.1)])
def test_released_rows_forget_what_no_table_tells_however_small_the_noise(
    sigma: float, least: float
) -> None:
    """Three sweeps at such a heat left every row where the descent had put it."""
    codes, schema = parity_rows(8_000), us.Schema.from_domain({"a": 2, "b": 2, "c": 2})
    fitted = Fitted(
        8_000,
        tuple(parity_targets(codes)),
        heat=0.5 * sigma,
        priors=(np.full(2, 0.5),) * 3,
        sweeps=3,
    )
    assert fitted.move(8_000) == 2 * CHAINS  # two tables a column, and so many people a row
    model = RowModel(schema, codes, fitted, NoWatcher())
    rows = model.rows(8_000, np.random.default_rng(2))
    assert float((rows.sum(axis=1) % 2).mean()) > least


def test_noise_is_not_chased_and_what_stands_out_is_believed() -> None:
    rng = np.random.default_rng(2)
    model = np.full(4000, 300.0)
    noisy = model + rng.normal(0, 50, 4000)
    noisy[7] += 2000
    people, trust = believed(noisy, model, 50.0)
    assert people[7] == noisy[7] and trust[7] == 1
    others = np.delete(np.arange(4000), 7)
    assert np.mean(np.abs(people - model)[others]) < 0.7 * np.mean(np.abs(noisy - model)[others])
    small = np.full(4000, 20.0)
    people, _ = believed(small + rng.normal(0, 50, 4000), small, 50.0)
    # cells below their noise: next to nothing of it is left
    assert np.mean(np.abs(people - small)) < 0.2 * 50 * 0.8
    off, _ = believed(model + rng.normal(0, 400, 4000), model, 50.0)
    # where cells scatter far beyond their noise, they are right and the model is not
    assert np.mean(np.abs(off - model)) > 200


def test_what_was_picked_for_surprising_is_believed_sooner() -> None:
    model = np.full(1000, 10.0)
    noisy = model.copy()
    noisy[7] += 3.2 * 50
    late, _ = believed(noisy, model, 50.0)
    soon, trust = believed(noisy, model, 50.0, sooner=1.2)
    assert late[7] < 0.5 * noisy[7] and soon[7] == noisy[7] and trust[7] == 1


def test_evidence_pools_repeats_and_sums_by_their_precision() -> None:
    schema = us.Schema.from_domain({"a": 2, "b": 3})
    evidence = Evidence()
    batch = us.Marginal.of(schema, ["b", "a"])
    a, b = (us.Marginal.of(schema, [name]).as_grid() for name in "ab")
    both = us.Marginal.of(schema, ["a", "b"]).as_grid()
    table = np.arange(6.0)
    evidence.add(us.Measurement(batch, table, Fraction(2)))
    evidence.add(us.Measurement(batch, table + 3, Fraction(1)))
    pooled = evidence.tables[both]
    assert np.allclose(
        pooled.counts,
        (table.reshape(3, 2).T.ravel() * 0.25 + (table.reshape(3, 2).T.ravel() + 3)) / 1.25,
    )
    assert pooled.sigma == pytest.approx((1 / 1.25) ** 0.5)
    # summed over three values of b
    assert evidence.tables[a].sigma == pytest.approx((3 / 1.25) ** 0.5)
    assert evidence.finest == 1 and evidence.fresh == {a, b, both}


def test_evidence_in_other_bins_is_other_evidence() -> None:
    schema = us.Schema.from_domain({"a": 2, "b": 4})
    halves = BinnedMarginal((1, 0), (4, 2), ((0, 0, 1, 1), None))
    ends = BinnedMarginal((0, 1), (2, 4), (None, (0, 1, 1, 0)))
    evidence = Evidence()
    evidence.add(us.Measurement(us.Marginal.of(schema, ["a", "b"]), np.arange(8.0), Fraction(1)))
    evidence.add(us.Measurement(halves, np.array([1.0, 2, 3, 4]), Fraction(2)))
    evidence.add(us.Measurement(halves, np.array([5.0, 6, 7, 8]), Fraction(2)))
    evidence.add(us.Measurement(ends, np.arange(4.0), Fraction(3)))
    turned = halves.as_grid().along([1, 0])
    assert np.allclose(evidence.tables[turned].counts, [3, 5, 4, 6])
    assert evidence.tables[turned].sigma == pytest.approx(2**0.5)
    # summed in its own bins, and no finer or coarser
    b = halves.as_grid().along([0])
    assert np.allclose(evidence.tables[b].counts, [7, 11])
    assert evidence.tables[b].sigma == pytest.approx(2)
    assert np.allclose(evidence.tables[ends.as_grid().along([1])].counts, [2, 4])
    # what all of them say of a: noises of 4, 2 * 4 / 2 and 9 * 2 in squares
    a = us.Marginal.of(schema, ["a"]).as_grid()
    assert evidence.tables[a].sigma == pytest.approx((1 / 4 + 2 / 8 + 1 / 18) ** -0.5)
    assert len(evidence.tables) == 7 and evidence.finest == 1
    target = evidence.targets(turned, np.full(4, 5.0))
    assert target.is_binned and target.shape == (2, 2) and target.positions == (0, 1)


def test_rows_keep_every_code_of_columns_whose_pairs_are_known_in_bins() -> None:
    rng = np.random.default_rng(3)
    schema = us.Schema.from_domain({"x": 40, "y": 40})
    x = np.clip(rng.normal(20, 7, 20_000), 0, 39).astype(np.int32)
    truth = np.column_stack([x, np.clip(x + rng.normal(0, 4, 20_000), 0, 39).astype(np.int32)])
    truth[:3000, 1] = 17  # a heap, which no bin shows
    table = CodedRows(truth, schema.shape)
    tens = tuple(code // 10 for code in range(40))
    pair = BinnedMarginal((0, 1), schema.shape, (tens, tens))
    fives = BinnedMarginal((0, 1), schema.shape, (tuple(code // 5 for code in range(40)), tens))
    noisy = [
        us.Measurement(
            batch, batch.counts(table).dense() + rng.normal(0, 60, batch.size), Fraction(60)
        )
        for batch in (*us.marginals(schema, k=1), pair, fives)
    ]
    made = []
    for _ in range(2):
        player = RowPlayer(schema, n=20_000, rng=np.random.default_rng(1), rows=20_000, sweeps=3)
        player.learn(noisy)
        model = player.result()
        made.append(model.codes)
        for batch in (pair, fives):
            assert np.abs(model.shares(batch) - batch.counts(table).dense() / 20_000).max() < 0.01
            assert np.array_equal(
                model.counts([batch])[0].values,
                batch.counts(CodedRows(model.codes, schema.shape)).dense(),
            )
    assert np.array_equal(made[0], made[1])
    codes = made[0]
    assert np.corrcoef(codes.T)[0, 1] > 0.7 * np.corrcoef(truth.T)[0, 1]
    heap = np.bincount(codes[:, 1], minlength=40)
    assert heap[17] > 2500 and heap[16] < 1800 and heap[18] < 1800


def test_independent_columns_answer_in_bins() -> None:
    columns = [np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.5])]
    batch = BinnedMarginal((1, 0), (4, 3), ((0, 1, 0, 1), None))
    shares = ProductModel(SMALL, columns).shares(batch)
    assert np.allclose(shares, np.multiply.outer([0.4, 0.6], columns[0]).ravel())


def test_a_marginal_of_half_a_billion_cells_is_fitted_by_its_listed_cells_alone() -> None:
    schema = us.Schema.from_domain(dict.fromkeys("abcde", 55))
    batch = us.Marginal.of(schema, list("abcde"))
    assert batch.size > 5e8
    keys = np.sort(np.random.default_rng(0).choice(batch.size, 30, replace=False))
    ones = [
        us.Measurement(us.Marginal.of(schema, [name]), np.full(55, 200.0), Fraction(20))
        for name in "abcde"
    ]
    wide = us.Measurement(batch, np.full(30, 250), Fraction(5), keys, 40)
    player = RowPlayer(schema, n=11_000, rng=np.random.default_rng(1), rows=4000, sweeps=4)
    player.learn([*ones, wide])
    found = player.result().rows(4000, np.random.default_rng(2))
    counts = (
        np.array([(cell_numbers(found, batch.positions, batch.shape) == key).sum() for key in keys])
        * 11_000
        / 4000
    )
    assert np.abs(counts - 250).mean() < 60  # from none at all in independent columns
    # A cell that was not listed is known to lie below the threshold, and no further.
    crowded = np.zeros((4000, 5), np.int32)
    evidence = Evidence()
    evidence.add(wide)
    (target,) = evidence.other_targets(crowded, 11_000 / 4000)
    assert isinstance(target, TableTarget) and target.keys is not None
    assert target.counts[np.searchsorted(target.keys, 0)] == 40


def test_project_makes_rows_from_tables_of_anybody() -> None:
    rng = np.random.default_rng(0)
    exact = np.array([[300, 20, 0], [10, 0, 600], [5, 65, 0]])
    table = us.project(
        [(["x", "y"], exact + rng.normal(0, 3, (3, 3)), 3.0)], {"x": 3, "y": 3}, rows=2000, seed=4
    )
    codes = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()]).astype(np.int32)
    assert (
        np.abs(count_cells(codes, (0, 1), (3, 3)).reshape(3, 3) / 2000 - exact / 1000).max() < 0.02
    )
    again = us.project([(["x", "y"], exact, 0)], {"x": 3, "y": 3}, rows=2000, seed=4)
    assert again.equals(us.project([(["x", "y"], exact, 0)], {"x": 3, "y": 3}, rows=2000, seed=4))
    batch = us.Measurement(
        Symmetric((any_of(Literal(0, 1), Literal(1, 2)),)), np.array([900]), Fraction(2)
    )
    pulled = us.project([batch], {"x": 3, "y": 3}, rows=1000, people=1000)
    assert (
        sum(
            x == 1 or y == 2
            for x, y in zip(pulled["x"].to_pylist(), pulled["y"].to_pylist(), strict=True)
        )
        > 850
    )


@pytest.mark.parametrize(
    ("measurements", "options", "words"),
    [
        ([], {}, "nothing to fit"),
        ([(["x"], [1, 2], 1.0)], {}, "needs 3 finite counts"),
        ([(["x"], [1, 2, float("nan")], 1.0)], {}, "finite"),
        ([(["x"], [1, 2, 3], -1.0)], {}, "sigma"),
        ([(["x"], [1, 2, 3], 1.0)], {"rows": 0}, "rows must be"),
        (
            [us.Measurement(Symmetric((any_of(Literal(0, 1)),)), np.array([9]), Fraction(2))],
            {},
            "people must be given",
        ),
    ],
)
def test_project_says_what_is_wrong(
    measurements: list[object], options: dict[str, int], words: str
) -> None:
    with pytest.raises(us.ParameterError, match=words):
        us.project(measurements, {"x": 3, "y": 3}, **options)  # type: ignore[arg-type]


def test_repeated_rows_appear_as_often_as_each_other() -> None:
    codes = np.arange(10, dtype=np.int32)[:, None]
    counts = np.bincount(repeated(codes, 37, np.random.default_rng(0))[:, 0])
    assert counts.sum() == 37 and set(counts) == {3, 4}


def test_any_number_of_rows_is_fitted() -> None:
    made = us.project(
        [(["a", "b"], np.full((SMALL.shape[0], SMALL.shape[1]), 10), 1.0)], SMALL, rows=7
    )
    assert made.num_rows == 7
