"""The matrix mechanism: the plan is optimal, its error bars are true, its tables agree, and its
bundles verify.
"""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize

import understudy as us
from privacy.test_meter import Silence, meter_on
from privacy.test_residuals import sets_of
from support.bundles import unsound
from understudy.audit.laws import ADD, REPLACE
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows
from understudy.game.fitting.evidence import Evidence
from understudy.game.fitting.reconstruction import (
    Estimate,
    Plan,
    closure,
    plan,
    reachable,
    reconstruct,
)
from understudy.game.players.from_residuals import as_measurement
from understudy.game.players.rows import RowPlayer
from understudy.mechanisms.matrix import Matrix, fitted_to, ranges_for, tables_for
from understudy.privacy import Measurement, ReleaseTotal, Residual, Residuals
from understudy.privacy.accounting import events
from understudy.privacy.accounting.accountant import total_cost
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.verbs.residuals import joint_l2, sensitivity
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal

RHO = Fraction(1, 20)
RUNS = 1500
TOTAL = {REPLACE: Fraction(0), ADD: Fraction(30)}


def tables(*sets: tuple[int, ...], sizes: tuple[int, ...] = SMALL.shape) -> list[Marginal]:
    return [Marginal(columns, tuple(sizes[c] for c in columns)) for columns in sets]


def variances(
    wanted: list[Marginal], batches: list[Marginal], weights: np.ndarray, total: float
) -> np.ndarray:
    """Cell variances from matrices: each residual's noise pushed through the reconstruction,
    nothing in closed form.
    """
    found = []
    for table in wanted:
        variance = 0.0
        for batch, weight in [*zip(batches, weights, strict=True), (None, 0.0)]:
            if batch is None:
                variance += total / table.size**2
            elif set(batch.positions) <= set(table.positions):
                push = np.ones((1, 1))
                for p, m in zip(table.positions, table.shape, strict=True):
                    push = np.kron(
                        push, np.eye(m) - 1 / m if p in batch.positions else np.full((m, 1), 1 / m)
                    )
                sigma_squared = sensitivity(batch) / weight / batch.size**2
                variance += sigma_squared * float(push[0] @ push[0])
        found.append(variance)
    return np.array(found)


CASES = [
    tables((0, 1), (1, 2), (0,)),
    tables((0, 1, 2)),
    tables((0,), (1,), sizes=(2, 7)),
    tables((0, 1), (2,), sizes=(2, 2, 9)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("objective", ["total", "largest"])
def test_the_split_is_what_a_numerical_optimiser_finds(case: int, objective: Any) -> None:
    wanted = CASES[case]
    found = plan(
        wanted, rho=RHO, neighbours=ADD, objective=objective, total_sigma=Fraction(1, 10**6)
    )
    batches = [batch for batch in closure(wanted) if batch.positions]
    cells = np.array([batch.size for batch in wanted])

    def value(logs: np.ndarray, power: float) -> float:
        weights = np.exp(logs - logs.max())
        each = variances(wanted, batches, weights * 2 * float(RHO) / weights.sum(), 0.0)
        return (
            float(cells @ each)
            if objective == "total"
            else float(each.max() * ((each / each.max()) ** power).sum() ** (1 / power))
        )

    start = np.zeros(len(batches))
    for power in (4, 32, 256):
        start = minimize(value, start, args=(power,), method="BFGS").x
    reached = value(start, 256)
    ours = (
        float(cells @ found.errors**2) if objective == "total" else float((found.errors**2).max())
    )
    assert reached * 0.99 < ours < reached * 1.005


@pytest.mark.parametrize("relation", list(Neighbours))
def test_error_bars_are_those_of_the_matrices(relation: Neighbours) -> None:
    wanted = [Marginal.of(SMALL, names) for names in (["b", "a"], ["c"], ["a", "b", "c"])]
    made = plan(wanted, rho=RHO, neighbours=relation, total_sigma=TOTAL[relation])
    weights = np.array(
        [
            float(sensitivity(batch) / sigma**2)
            for batch, sigma in zip(made.batches, made.sigmas, strict=True)
        ]
    )
    measured = [
        (batch, weight)
        for batch, weight in zip(made.batches, weights, strict=True)
        if batch.positions
    ]
    total = 0.0
    if relation is ADD:
        total = 1 / (
            1 / 30**2 + dict(zip(made.batches, weights, strict=True)).get(Marginal((), ()), 0.0)
        )
    expected = variances(
        wanted,
        [batch for batch, _ in measured],
        np.array([weight for _, weight in measured]),
        total,
    )
    assert made.errors == pytest.approx(np.sqrt(expected), rel=1e-9)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("objective", ["total", "largest"])
def test_a_plan_spends_its_rho_and_no_more(relation: Neighbours, objective: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        sizes = tuple(int(m) for m in rng.integers(1, 9, int(rng.integers(2, 7))))
        wanted = [batch for batch in sets_of(sizes, 2) if rng.random() < 0.7 and batch.size > 1]
        if wanted:
            made = plan(
                wanted,
                rho=RHO,
                neighbours=relation,
                objective=objective,
                total_sigma=TOTAL[relation],
            )
            assert 0.995 * 2 * RHO < joint_l2(made.batches, made.sigmas, relation) <= 2 * RHO
            assert all(1 not in batch.shape for batch in made.batches)


def test_under_replace_one_the_plan_is_near_a_lower_bound() -> None:
    """The mean price over random pairs of records is 2 sum w for any split, so no split can be
    better than the one with that price.
    """
    for sizes in (SMALL.shape, (2, 5, 9, 16, 3)):
        made = plan(sets_of(sizes, 2), rho=RHO, neighbours=REPLACE)
        weights = sum(
            sensitivity(batch) / sigma**2
            for batch, sigma in zip(made.batches, made.sigmas, strict=True)
        )
        assert 1 <= joint_l2(made.batches, made.sigmas, REPLACE) / (2 * weights) < 1.25


def estimates(
    made: Plan, relation: Neighbours, runs: int = 1, noise: Noise | None = None
) -> list[list[Estimate]]:
    """What the real meter gives for a plan, again and again."""
    meter = meter_on(small_table(), schema=SMALL, neighbours=relation, rho=10**4, noise=noise)
    found = []
    for _ in range(runs):
        if relation is ADD:
            meter.ask(ReleaseTotal(rho=Fraction(1) / (2 * 30**2)))
        residuals = meter.ask(Residuals(batches=made.batches, sigmas=made.sigmas))
        found.append(
            reconstruct(
                residuals, made.wanted, total=meter.rows, total_sigma=float(meter.rows_sigma)
            )
        )
    return found


WANTED = [Marginal.of(SMALL, names) for names in (["a", "b"], ["c", "b"], ["b"], ["c", "a", "b"])]


@pytest.mark.parametrize("relation", list(Neighbours))
def test_without_noise_the_tables_come_back_exactly(relation: Neighbours) -> None:
    made = plan(WANTED, rho=RHO, neighbours=relation, total_sigma=TOTAL[relation])
    for estimate in estimates(made, relation, noise=Silence())[0]:
        assert np.allclose(
            estimate.counts,
            estimate.batch.counts(CodedRows(small_table(), SMALL.shape)).dense(),
            atol=1e-9,
        )


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("objective", ["total", "largest"])
def test_cells_are_unbiased_and_have_the_standard_deviation_that_was_promised(
    relation: Neighbours, objective: Any
) -> None:
    made = plan(
        WANTED, rho=RHO, neighbours=relation, objective=objective, total_sigma=TOTAL[relation]
    )
    runs = estimates(made, relation, RUNS)
    for i, (batch, promised) in enumerate(zip(WANTED, made.errors, strict=True)):
        drawn = np.array([run[i].counts for run in runs])
        truth = batch.counts(CodedRows(small_table(), SMALL.shape)).dense()
        assert np.all(np.abs(drawn.mean(axis=0) - truth) < 6 * promised / RUNS**0.5)
        # cells of one table are few and dependent
        assert math.sqrt(((drawn - truth) ** 2).mean()) == pytest.approx(promised, rel=0.05)
        assert np.all(np.abs(drawn.std(axis=0) / promised - 1) < 0.1)
        assert runs[0][i].sigma == pytest.approx(promised, rel=1e-3)


def test_overlapping_tables_agree() -> None:
    made = plan(WANTED, rho=RHO, neighbours=ADD, total_sigma=TOTAL[ADD])
    found = {
        estimate.batch.positions: estimate.counts.reshape(estimate.batch.shape)
        for estimate in estimates(made, ADD)[0]
    }
    assert np.allclose(found[0, 1].sum(axis=0), found[1,], atol=1e-9)
    assert np.allclose(found[2, 1].sum(axis=0), found[1,], atol=1e-9)
    assert np.allclose(found[2, 0, 1].sum(axis=0), found[0, 1], atol=1e-9)
    assert np.allclose(found[2, 0, 1].sum(axis=1), found[2, 1], atol=1e-9)


def test_noise_below_a_table_that_was_not_measured_is_refused() -> None:
    meter = meter_on(small_table(), schema=SMALL)
    residuals = meter.ask(Residuals(batches=[Marginal.of(SMALL, ["a", "b"])], sigmas=[Fraction(9)]))
    with pytest.raises(us.ParameterError, match="not measured"):
        reconstruct(residuals, [Marginal.of(SMALL, ["a", "b"])], total=600)
    assert reachable(residuals, WANTED) == []


def test_refusals_are_sentences() -> None:
    brief = us.mechanisms.base.Brief(
        schema=SMALL, workload=us.marginals(SMALL, 2), neighbours=REPLACE
    )
    with pytest.raises(us.ParameterError, match="objectives"):
        Matrix(objective="mean").check(brief)  # type: ignore[arg-type]
    wide = us.Schema.from_domain({"x": 5000, "y": 5000, "z": 2})
    with pytest.raises(us.NotSupported, match="whole marginals"):
        asked = us.explicit(wide, columns=[["x", "y"]])
        us.release(
            np.zeros((100, 3), int), schema=wide, workload=asked, epsilon=1, mechanism="matrix"
        )
    many = us.Schema.from_domain({f"c{i}": 400 for i in range(40)})
    with pytest.raises(us.NotSupported, match="would measure"):
        Matrix().check(
            us.mechanisms.base.Brief(
                schema=many, workload=us.marginals(many, 2), neighbours=REPLACE
            )
        )
    with pytest.raises(us.NotSupported, match="subsets"):
        closure([Marginal(tuple(range(30)), (2,) * 30)])
    for problem in ({"rho": Fraction(0)}, {"total_sigma": Fraction(3)}):
        with pytest.raises(us.ParameterError):
            plan(WANTED, **{"rho": RHO, "neighbours": REPLACE, **problem})  # type: ignore[arg-type]


def test_every_column_and_every_query_has_a_table() -> None:
    work = us.explicit(
        SMALL,
        columns=[["c", "a"]],
        queries=[us.all_of(us.Literal(0, 1), us.Literal(2, 0)), us.any_of(us.Literal(2, 0))],
    )
    assert [batch.positions for batch in tables_for(work)] == [(0, 2), (2,), (0,), (1,)]


def test_rows_are_fitted_to_every_small_table_with_its_own_noise_and_only_once() -> None:
    """Tables that agree say nothing new in their sums; summing them would make every small table
    look better known than it is.
    """
    learnt = fitted_to([Marginal.of(SMALL, ["c", "a", "b"])])
    assert [batch.positions for batch in learnt] == [
        (0,),
        (1,),
        (2,),
        (0, 1),
        (0, 2),
        (1, 2),
        (2, 0, 1),
    ]
    made = plan(learnt, rho=RHO, neighbours=REPLACE)
    once, summed = Evidence(sums_up_to=0), Evidence()
    for estimate in estimates(made, REPLACE)[0]:
        once.add(as_measurement(estimate))
        summed.add(as_measurement(estimate))
    promised = {
        tuple(sorted(batch.positions)): error
        for batch, error in zip(learnt, made.errors, strict=True)
    }
    assert {grid.positions: table.sigma for grid, table in once.tables.items()} == pytest.approx(
        promised, rel=1e-3
    )
    alone = Marginal.of(SMALL, ["a"]).as_grid()
    assert summed.tables[alone].sigma < 0.9 * promised[0,]


def test_a_table_of_one_cell_is_not_learnt_but_its_column_is_released() -> None:
    """Under replace-one its noise is 0, and a weight of 1/0 would follow."""
    schema = us.Schema.from_domain({"x": 3, "y": 1, "z": 4})
    assert [batch.positions for batch in fitted_to(tables_for(us.marginals(schema, 2)))] == [
        (0,),
        (2,),
        (0, 2),
        (0, 1),
        (1, 2),
    ]
    rows = np.random.default_rng(0).integers(0, (3, 1, 4), (900, 3))
    made = us.release(rows, schema=schema, workload="2-way", epsilon=1, mechanism="matrix")
    assert made.codes.shape == (900, 3) and set(made.codes[:, 1]) == {0}


def test_rows_start_from_the_columns_as_first_learnt() -> None:
    """A model is proposed before anything is measured; wider tables must not be judged against that
    one.
    """
    player = RowPlayer(SMALL, n=600, rng=np.random.default_rng(0))
    player.propose()
    batch = Marginal.of(SMALL, ["a"])
    truth = np.array([540.0, 30.0, *[30.0 / (SMALL.shape[0] - 2)] * (SMALL.shape[0] - 2)])
    player.learn([Measurement(batch, truth, Fraction(1))])
    assert player.propose().shares(batch) == pytest.approx(truth / 600, abs=0.01)


# ---------------------------------------------------------------------- releases


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = us.release(
        small_table(),
        schema=SMALL,
        epsilon=1,
        mechanism="matrix",
        parameters={"objective": "largest"},
    )
    return made.save(tmp_path / "bundle")


@pytest.mark.parametrize("relation", list(Neighbours))
def test_a_release_is_read_back_and_verified(relation: Neighbours, tmp_path: Path) -> None:
    made = us.release(
        small_table(),
        schema=SMALL,
        epsilon=1,
        delta=1e-6,
        neighbours=str(relation),
        mechanism="matrix",
    )
    place = made.save(tmp_path / "b")
    again = us.Release.load(place)
    assert unsound(place) == []
    residuals = [m for m in again.measurements if isinstance(m, Residual)]
    assert {r.batch.positions for r in residuals} >= {
        c for k in (1, 2) for c in itertools.combinations(range(3), k)
    }
    assert "noisy measurement" in (place / "report.html").read_text()


FORGERIES: dict[str, Any] = {
    "less noise": lambda m: m["measurements"][0].update(sigma="1"),
    "a residual called a count": lambda m: m["measurements"][0].pop("residual"),
    "one residual fewer": lambda m: m["events"][0]["sigmas_squared"].pop(),
    "a lower price": lambda m: m["events"][0].update(l2_in_sigmas="1/1000"),
    "no charge": lambda m: m["events"].pop(0),
    "other columns": lambda m: m["measurements"][2].update(batch=m["measurements"][1]["part"]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_residuals_are_noticed(folder: Path, forgery: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    FORGERIES[forgery](manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    try:
        assert any(
            not check.holds and "noise of a charged event" in check.claim
            for check in us.verify(folder)
        )
    except us.BundleError:
        assert forgery == "other columns"  # tables of other sizes do not fit the stored counts


def test_a_wide_release_uses_wide_noise() -> None:
    """100 x 100 x 100 cells at a small budget: sigma in whole units is far beyond 2^23."""
    schema = us.Schema.from_domain({"x": 100, "y": 100, "z": 100})
    made = us.release(
        np.random.default_rng(0).integers(0, 100, (500, 3)),
        schema=schema,
        workload="3-way",
        epsilon=0.1,
        mechanism="matrix",
    )
    assert max(m.sigma for m in made.measurements) > 2**24
    assert total_cost(map(events.from_dict, made.manifest["events"])).rho <= Fraction(
        made.manifest["budget"]["rho"]
    )


RANGED = us.Schema.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 59}},
            {"name": "pay", "type": "integer", "constraints": {"minimum": 0, "maximum": 20}},
            {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
        ]
    }
)
RANGED_ROWS = {
    "age": np.random.default_rng(0).integers(0, 60, 3000),
    "pay": np.random.default_rng(1).integers(0, 21, 3000),
    "sex": np.random.default_rng(2).choice(["f", "m"], 3000),
}


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("objective", ["total", "largest"])
@pytest.mark.parametrize("asked", ["prefixes:age", "prefixes:age,pay+2-way", "prefixes:age,pay"])
def test_ranges_are_released_within_their_error_bars_and_the_bundle_verifies(
    asked: str, objective: Any, relation: Neighbours, tmp_path: Path
) -> None:
    work = us.Workload.parse(asked, RANGED)
    made = us.release(
        pa.table(RANGED_ROWS), schema=RANGED, workload=work, epsilon=2, delta=1e-6, neighbours=relation,
        mechanism=Matrix(objective=objective), ledger=tmp_path / "ledger.jsonl",
    )  # fmt: skip
    made.save(tmp_path / "bundle")
    assert not unsound(tmp_path / "bundle")
    ranges = next(i for i, batch in enumerate(work) if batch.as_boxes() is not None)
    codes = RANGED.encode(pa.table(RANGED_ROWS))
    true = list(work)[ranges].counts(CodedRows(codes, RANGED.shape)).dense() / len(codes)
    off = np.abs(made.answers()[ranges] - true).max() * len(codes)
    assert off < 5 * sigma_of_ranges(work, relation, objective) + 30


def sigma_of_ranges(work: us.Workload, relation: Neighbours, objective: Any) -> float:
    mechanism = Matrix(objective=objective)
    brief = us.mechanisms.base.Brief(schema=RANGED, workload=work, neighbours=relation)
    means = us.mechanisms.base.Means(
        budget=us.Budget(rho=Fraction(1, 20), epsilon=Fraction(2), delta=Fraction(1, 10**6)),
        rho=Fraction(1, 20),
        rows=3000,
        rows_sigma=TOTAL[relation],
    )
    decision = mechanism.decide(brief, means)
    assert decision.cost.rho == Fraction(1, 20)
    return float(decision.numbers["range_sigma"])  # type: ignore[arg-type]


def test_only_ranges_are_measured_in_bins() -> None:
    """Without ranges the plan is the one for marginals alone."""
    assert ranges_for(us.marginals(RANGED, 2)) == []
    work = us.Workload.parse("prefixes:age", RANGED)
    assert [batch.columns for batch in tables_for(work)] == [(1,), (2,)]
    assert [boxes.positions for boxes in ranges_for(work)] == [(0,)]
