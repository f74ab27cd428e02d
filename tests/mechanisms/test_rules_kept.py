"""Rules kept by every mechanism: in the fit where rows are fitted, by a repair elsewhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest

import understudy as us
from support.ruled import TWENTY, ruled
from understudy.checks import SMALL, check_crossing
from understudy.constraints.repair import repaired
from understudy.constraints.rows import counts, rows_that_keep
from understudy.constraints.rules import Rules
from understudy.game.fitting import barriers, rowfit
from understudy.game.fitting.barriers import Barriers, Keeper
from understudy.game.fitting.evidence import Evidence
from understudy.game.fitting.refit import refit
from understudy.game.fitting.rowfit import TableTarget, fit_rows
from understudy.mechanisms.base import available_mechanisms
from understudy.privacy import Measurement
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.workload import marginals

FEW = ("a <= b", "c = 1 implies b > 1", "not (a = 0 and b = 3)", "b determines c")
QUICK = {"rounds": 3, "steps": 20, "samples": 50, "relaxed_rows": 20, "epochs": 3}
FITTED = ("arp", "gaussian", "matrix")


@pytest.mark.parametrize("name", available_mechanisms())
def test_a_request_with_rules_ends_in_a_sound_bundle_or_is_refused_before_a_charge(
    name: str,
) -> None:
    """``verify`` looks at every rule; the rows that were drawn at random break them all."""
    kind = available_mechanisms()[name]
    quick = {f.name: QUICK[f.name] for f in fields(kind) if f.name in QUICK}
    schema = replace(SMALL, rules=FEW)
    work = marginals(schema, k=2)
    served = Counter(check_crossing(kind(**quick), work, one) for one in Neighbours)
    assert served[True] == len(kind.relations)


def test_the_rows_of_a_seed_are_those_of_before_without_rules() -> None:
    """The digest is of rows that were made before there were rules."""
    rng = np.random.default_rng(0)
    tables = [
        ((one, other), rng.integers(0, 90, (size, most)), 3.0)
        for one, size, other, most in (("a", 3, "b", 4), ("b", 4, "c", 2))
    ]
    made = us.project(tables, SMALL, rows=700, seed=4)
    text = "".join(str(column.to_pylist()) for column in made.columns)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == BEFORE


BEFORE = "78bbce3b2515"

# ---------------------------------------------------------------------- walls of the row fit

SHAPE = (6, 6, 12, 3)
SUMS = us.Schema.from_domain(dict(zip("abcd", SHAPE, strict=True)))


def targets(shape: Sequence[int], truth: np.ndarray) -> list[TableTarget]:
    """Every pair of columns, exact."""
    found = []
    for i in range(len(shape)):
        for j in range(i):
            table = np.zeros((shape[j], shape[i]), np.float32)
            np.add.at(table, (truth[:, j], truth[:, i]), 1)
            weights = np.ones(table.size, np.float32)
            found.append(TableTarget((j, i), table.shape, table.ravel(), weights))
    return found


@pytest.mark.parametrize("heat", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("whole_cells", [barriers.WHOLE_CELLS, 0], ids=["whole", "in classes"])
def test_a_value_that_breaks_a_rule_has_no_chance(
    heat: float, whole_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barriers, "WHOLE_CELLS", whole_cells)
    rules = Rules.of(replace(SUMS, rules=["c = a + b", "d = 1 implies a > 2", "a <= 4 or d != 2"]))
    rng = np.random.default_rng(0)
    truth = np.column_stack([rng.integers(0, size, 2_000) for size in SHAPE]).astype(np.int32)
    rows = Keeper(rules.schema).mended(truth.copy(), rng)
    assert rules.allows(rows).all()
    walls = Barriers.of(rules)
    assert len(walls.targets) == 2, "rules over the same columns share a table"
    before = rows.copy()
    moves = fit_rows(
        rows,
        SHAPE,
        2_000,
        [*targets(SHAPE, truth), *walls.targets],
        sweeps=3,
        seed=1,
        heat=heat,
        together=walls.together,
    )
    assert moves > 100 and not np.array_equal(rows, before)
    assert rules.allows(rows).all()


def test_columns_that_a_sum_holds_fast_move_together() -> None:
    """One by one they are stuck where they began."""
    rules = Rules.of(replace(SUMS, rules=["c = a + b"]))
    rng = np.random.default_rng(1)
    truth = np.column_stack([rng.integers(0, 3, 3_000), rng.integers(3, 6, 3_000)])
    truth = np.column_stack([truth, truth.sum(axis=1), rng.integers(0, 3, 3_000)])
    walls, start = Barriers.of(rules), np.column_stack([rng.integers(0, 6, (3_000, 2))] * 2)
    start[:, 2], start[:, 3] = start[:, 0] + start[:, 1], rng.integers(0, 3, 3_000)
    off = {}
    for together in ((), walls.together):
        rows = start.astype(np.int32)
        wanted = [*targets(SHAPE, truth), *walls.targets]
        fit_rows(rows, SHAPE, 3_000, wanted, sweeps=8, seed=1, together=together)
        assert np.array_equal(rows[:, 2], rows[:, 0] + rows[:, 1])
        off[together] = max(np.abs(t.counted(rows) - t.counts).max() for t in targets(SHAPE, truth))
    assert off[walls.together] < off[()] / 5


@pytest.mark.parametrize("heat", [0.0, 1e6])
def test_a_row_that_takes_over_columns_moves_in_every_table(heat: float) -> None:
    """Costs stay those of the rows, and without heat no move makes the loss larger."""
    rng = np.random.default_rng(2)
    truth, rows = (
        np.column_stack([rng.integers(0, size, 300) for size in SHAPE]).astype(np.int32)
        for _ in range(2)
    )
    halves = np.arange(12) // 2
    table = np.bincount(truth[:, 0] * 6 + halves[truth[:, 2]], minlength=36).astype(np.float32)
    coarse = TableTarget((0, 2), (6, 6), table, np.full(36, 2, np.float32), bins=(None, halves))
    whole = targets(SHAPE, truth)
    dense, binned = rowfit._Dense(whole, 4), rowfit._Binned([coarse], SHAPE)
    bundles = dense.bundle(rows, 1.0), binned.bundle(rows, 1.0)
    settings = rowfit.Settings(
        np.float32(1), np.float32(heat), np.zeros(27, np.float32), np.zeros(5, np.int64)
    )
    state, other = np.asarray([12345], np.uint64), np.zeros(4, np.int32)
    stamps = np.zeros(len(whole), np.int64), np.zeros(1, np.int64)

    def loss() -> float:
        gaps = [t.weights * (t.counted(rows) - t.counts) ** 2 for t in (*whole, coarse)]
        return float(sum(gap.sum() for gap in gaps))

    moves, before = 0, loss()
    for place in range(300):
        moves += rowfit._take_over(
            rows, np.asarray([place]), np.asarray([0, 2]), state, settings, *bundles, other, stamps
        )
        after = loss()
        assert heat or after <= before
        before = after
    assert moves > 50
    assert np.allclose(bundles[0].costs, dense.costs(rows, 1.0), atol=1e-3)
    assert np.allclose(bundles[1].of_bins.costs, binned._tables.costs(rows, 1.0), atol=1e-3)


def test_a_tie_takes_its_mapping_from_noisy_tables() -> None:
    schema = replace(us.Schema.from_domain({"x": 4, "y": 2, "z": 3}), rules=["x determines z"])
    evidence, keeper = Evidence(), Keeper(schema)
    assert keeper.targets == ()
    counts_of = np.zeros((4, 2, 3))
    for x, z in enumerate([2, 0, 1, 2]):
        counts_of[x, :, z] = 50
    noisy = counts_of + np.random.default_rng(0).normal(0, 3, counts_of.shape)
    batch = Marginal.of(schema, ["x", "y", "z"])
    evidence.add(Measurement(batch, noisy.ravel(), 3))  # type: ignore[arg-type]
    keeper.learn(evidence.tables)
    (wall,) = keeper.targets
    assert wall.wall is not None and wall.positions == (0, 2)
    assert np.argmin(wall.wall.reshape(4, 3), axis=1).tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize("name", FITTED)
def test_fitted_rows_need_no_repair(name: str) -> None:
    schema = ruled(*TWENTY)
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, 2_000) for size in schema.shape])
    table = rows_that_keep(Rules.of(schema), codes.astype(np.int32), rng).table
    released = us.release(table, schema=schema, epsilon=1, mechanism=name, seed=1)
    told = list(counts(Rules.of(schema), released.codes, released.synthetic))
    assert len(told) == 20 and not any(one.broken for one in told)
    # bins that hold no pair of values of two rules at once are found when values are drawn
    assert released.facts.mechanism.played["repaired_rows"] <= 0.02 * len(released.codes)


def test_rules_of_a_wrong_table_cost_nothing_and_are_kept() -> None:
    """Nobody asks whether the sensitive table keeps them."""
    schema = replace(SMALL, rules=("a = 0", "b >= 2"))
    rows = np.column_stack([np.full(400, 2), np.zeros(400, int), np.ones(400, int)])
    released = us.release(rows, schema=schema, epsilon=1, mechanism="arp")
    assert set(released.codes[:, 0]) == {0} and released.codes[:, 1].min() >= 2


def test_rows_that_were_repaired_answer_as_they_did_before() -> None:
    """Independent columns break the sum; the repair alone would shift the columns."""
    rng = np.random.default_rng(4)
    schema = replace(SUMS, rules=["c = a + b", "d = 1 implies a > 0"])
    codes = np.column_stack(
        [rng.binomial(5, 0.3, 6_000), rng.binomial(5, 0.6, 6_000), rng.binomial(11, 0.4, 6_000)]
    )
    codes = np.column_stack([codes, rng.integers(0, 3, 6_000)]).astype(np.int32)
    rules, off = Rules.of(schema), list[float]()
    alone = repaired(rules, codes, np.random.default_rng(0)).codes
    fitted = refit(rules, codes, marginals(schema, k=1), np.random.default_rng(0))
    for rows in (alone, fitted):
        assert rules.allows(rows).all()
        pairs = (
            (
                np.bincount(rows[:, c], minlength=SHAPE[c]),
                np.bincount(codes[:, c], minlength=SHAPE[c]),
            )
            for c in range(4)
        )
        off.append(float(sum(np.abs(one - other).sum() for one, other in pairs)) / 6_000)
    assert off[1] < off[0] / 3
    kept = refit(rules, alone, marginals(schema, k=1), np.random.default_rng(0))
    assert kept is alone, "rows that keep the rules stay"
