"""Oracles: every one against brute force, faults of solvers, determinism, free columns, and how
often the heuristic is right.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.faulty_solvers import ORACLE_FAULTS, oracle_with
from understudy.errors import NotSupported, ParameterError, WorkloadError
from understudy.oracles import child, outside
from understudy.oracles.base import (
    Ended,
    FlatQueries,
    Found,
    Instance,
    Oracle,
    TableTerm,
    Variants,
    available_oracles,
)
from understudy.oracles.brute import Brute
from understudy.oracles.cpsat import Cpsat
from understudy.oracles.exact import Exact
from understudy.oracles.gurobi import Gurobi
from understudy.oracles.milp import Milp
from understudy.oracles.outside import Outside
from understudy.oracles.parity import Parity
from understudy.oracles.plan import plan_of
from understudy.oracles.search import Search
from understudy.queries.literals import Literal, Query, all_of, any_of, at_least, parity

CLASSES: dict[str, Callable[..., Query]] = {
    "conjunction": all_of,
    "negated conjunction": lambda *x: ~all_of(*x),
    "disjunction": any_of,
    "threshold": lambda *x: at_least(max(1, len(x) // 2), *x),
    "parity": parity,
    "odd parity": lambda *x: ~parity(*x),
}
ADULT_SHAPE = (85, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 85, 42)  # columns of a survey table
INSTALLED = {"milp": "scipy", "cpsat": "ortools", "gurobi": "gurobipy"}


def random_instance(
    seed: int, kinds: list[str], *, cells: bool = True, tables: bool = True
) -> Instance:
    """A small instance with queries of some classes, repeated columns and negated literals
    included.
    """
    rng = np.random.default_rng([seed, len(kinds)])
    columns = int(rng.integers(1, 6))
    shape = [2] * columns if seed % 3 == 0 else [int(m) for m in rng.integers(1, 6, columns)]

    def literals(k: int) -> list[Literal]:
        return [
            Literal(int(c), int(rng.integers(shape[c])), bool(rng.integers(2)))
            for c in rng.integers(0, columns, k)
        ]

    queries = [
        CLASSES[kinds[rng.integers(len(kinds))]](*literals(int(rng.integers(1, 5))))
        for _ in range(int(rng.integers(0, 15)))
    ]
    for _ in range(int(rng.integers(0, 20)) if cells else 0):
        some = rng.choice(columns, int(rng.integers(1, min(columns, 3) + 1)), replace=False)
        queries.append(all_of(*(Literal(int(c), int(rng.integers(shape[c]))) for c in some)))
    terms = []
    for _ in range(int(rng.integers(0, 3)) if tables else 0):
        some = tuple(
            int(c)
            for c in rng.choice(columns, int(rng.integers(1, min(columns, 3) + 1)), replace=False)
        )
        weights = rng.normal(size=[shape[c] for c in some]) * (
            rng.random() < 0.5 or rng.random([shape[c] for c in some]) < 0.05
        )
        terms.append(TableTerm(some, tuple(shape[c] for c in some), weights))
    linear = rng.normal(size=sum(shape)) if rng.random() < 0.5 else None
    return Instance.of(shape, queries, rng.normal(size=len(queries)), linear=linear, tables=terms)


def mixed(count: int) -> list[Instance]:
    """Instances of every class alone and of all together, in turn."""
    kinds = [[name] for name in CLASSES] + [list(CLASSES)]
    return [random_instance(seed, kinds[seed % len(kinds)]) for seed in range(count)]


def agrees(found: Found, truth: Found, instance: Instance) -> None:
    assert found.proved and found.ended is Ended.OPTIMAL
    assert found.record.dtype == np.int32 and np.all(
        (found.record >= 0) & (found.record < instance.shape)
    )
    assert (
        found.value
        == pytest.approx(instance.value(found.record), abs=1e-9)
        == pytest.approx(truth.value, abs=1e-6)
    )
    assert found.bound >= truth.value - 1e-6


def made(name: str, **parameters: object) -> Outside:
    """A solver of other people, or skip."""
    if importlib.util.find_spec(INSTALLED[name]) is None:
        pytest.skip(f"{INSTALLED[name]} is not installed")
    return {"milp": Milp, "cpsat": Cpsat, "gurobi": Gurobi}[name](**parameters)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- against brute force


def test_every_value_is_the_sum_of_its_terms() -> None:
    for instance in mixed(60):
        rng = np.random.default_rng(0)
        record = np.array([rng.integers(m) for m in instance.shape])
        flat, total = instance.queries, 0.0
        for q in range(len(flat)):
            at = slice(flat.starts[q], flat.starts[q + 1])
            hits = int(np.sum((record[flat.columns[at]] == flat.values[at]) == flat.holds[at]))
            total += float(instance.weights[q]) * int(flat.tables[flat.starts[q] + q + hits])
        for table in instance.tables:
            total += float(table.weights[tuple(record[list(table.positions)])])
        if instance.linear is not None:
            total += sum(
                float(instance.linear[instance.offsets[c] + v]) for c, v in enumerate(record)
            )
        assert instance.value(record) == pytest.approx(total)
        plan = plan_of(instance, dense=False)
        constant, weights = plan.weigh(instance.weights)
        linear = plan.linear(instance.linear, instance.offsets)
        loose = (
            0.0
            if instance.linear is None
            else instance.linear[instance.offsets[:-1] + record].sum()
        )
        loose -= (
            0.0
            if instance.linear is None
            else instance.linear[(instance.offsets[:-1] + record)[plan.columns]].sum()
        )
        assert constant + loose + plan.worth(
            record[plan.columns], weights, linear
        ) == pytest.approx(total)


def test_branch_and_bound_is_right_a_thousand_times_and_the_search_nearly_always() -> None:
    search = Search(restarts=8, kicks=20)
    exact = Exact(start=Search(restarts=1, kicks=0))
    missed = 0
    for instance in mixed(1000):
        truth = Brute().solve(instance, 0)
        agrees(exact.solve(instance, 1), truth, instance)
        found = search.solve(instance, 1)
        assert not found.proved and found.ended is Ended.LIMIT and found.value <= truth.value + 1e-9
        missed += found.value < truth.value - 1e-6
    assert missed <= 5


@pytest.mark.parametrize("name", INSTALLED)
def test_solvers_of_others_are_right(name: str) -> None:
    solver, instances = made(name, start=Search(restarts=1, kicks=0)), mixed(70)
    for instance, found in zip(instances, solver.solve_all(instances, range(70)), strict=True):
        agrees(found, Brute().solve(instance, 0), instance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
def test_every_oracle_is_right_a_thousand_times_for_every_class(kind: str) -> None:
    instances = [
        random_instance(seed, [kind], cells=seed % 2 == 0, tables=seed % 4 == 0)
        for seed in range(1000)
    ]
    truths = [Brute().solve(instance, 0) for instance in instances]
    cold = Search(restarts=1, kicks=0)
    for instance, truth in zip(instances, truths, strict=True):
        agrees(Exact(start=cold).solve(instance, 1), truth, instance)
    missed = sum(
        Search(restarts=8, kicks=20).solve(x, 1).value < t.value - 1e-6
        for x, t in zip(instances, truths, strict=True)
    )
    assert missed <= 10
    for name, package in INSTALLED.items():
        if importlib.util.find_spec(package) is not None:
            for instance, truth, found in zip(
                instances,
                truths,
                made(name, start=cold).solve_all(instances, range(1000)),
                strict=True,
            ):
                agrees(found, truth, instance)


def test_parities_that_do_not_contradict_each_other_are_all_met() -> None:
    proved = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 9))
        queries = []
        for _ in range(int(rng.integers(1, d + 2))):
            literals = [
                Literal(int(c), int(rng.integers(2)), bool(rng.integers(2)))
                for c in rng.integers(0, d, int(rng.integers(1, 5)))
            ]
            queries.append(parity(*literals) if rng.integers(2) else ~parity(*literals))
        instance = Instance.of([2] * d, queries, rng.normal(size=len(queries)))
        found, truth = Parity().solve(instance, 0), Brute().solve(instance, 0)
        assert found.value <= truth.value + 1e-9 <= found.bound + 1e-8
        all_met = truth.value > np.maximum(instance.weights, 0).sum() - 1e-9
        assert found.proved == all_met  # exactly when every parity can be as its weight wants it
        proved += all_met
    assert 100 < proved < 300
    rng = np.random.default_rng(0)
    many = [
        parity(*(Literal(int(c), 1) for c in rng.choice(500, 7, replace=False))) for _ in range(300)
    ]
    assert Parity().solve(Instance.of([2] * 500, many, rng.choice([-1.0, 1.0], 300)), 0).proved
    with pytest.raises(NotSupported):
        Parity().solve(Instance.of([2, 2], [all_of(Literal(0, 1), Literal(1, 1))]), 0)


def test_a_table_of_weights_and_its_cells_one_by_one_are_the_same_instance() -> None:
    rng = np.random.default_rng(5)
    shape, weights = (4, 3, 5), rng.normal(size=(5, 4))
    whole = Instance.of(shape, tables=[TableTerm((2, 0), (5, 4), weights)])
    cells = [all_of(Literal(2, i), Literal(0, j)) for i in range(5) for j in range(4)]
    single = Instance.of(shape, cells, weights.ravel())
    for oracle in (Search(), Exact(), Brute()):
        assert (
            oracle.solve(whole, 0).value
            == pytest.approx(weights.max())
            == pytest.approx(oracle.solve(single, 0).value)
        )


# ---------------------------------------------------------------------- the search


def survey_instance(seed: int, k: int, count: int) -> Instance:
    """Cells of invented rows with much in common, over a survey's columns, half of them negated; a
    linear term as FEM draws it.
    """
    rng = np.random.default_rng(seed)
    sizes = np.asarray(ADULT_SHAPE)
    hidden = rng.integers(0, 6, 3000)
    centres = rng.integers(0, sizes, (6, len(sizes)))
    common = np.minimum(rng.geometric(0.3, (3000, len(sizes))) - 1, sizes - 1)
    rows = np.where(rng.random((3000, len(sizes))) < 0.5, centres[hidden], common)
    marginals = np.stack([np.sort(rng.choice(len(sizes), k, replace=False)) for _ in range(64)])
    columns = marginals[rng.integers(0, 64, count)]
    values = rows[rng.integers(0, 3000, count)[:, None], columns]
    return Instance.of(
        sizes, FlatQueries.conjunctions(columns, values), rng.choice([-1.0, 1.0], count)
    )


def share_found(
    search: Search, instance: Instance, variants: Variants, truth: list[Found]
) -> float:
    found = search.solve_many(instance, variants, 7)
    return float(np.mean([a.value > b.value - 1e-6 for a, b in zip(found, truth, strict=True)]))


@pytest.mark.parametrize(("k", "count"), [(3, 1000), (5, 1000), (3, 4000), (5, 4000)])
def test_how_often_the_search_finds_the_best_record_on_adult(
    k: int, count: int, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of rows of the table, half of them negated; as often as the trials that this search was
    built after, or more.
    """
    monkeypatch.syspath_prepend(str(shared))
    stick = importlib.import_module("workload")
    frame, domain = stick.coded("adult")
    rows, names, rng = frame.to_numpy(), list(domain), np.random.default_rng(1)
    marginals = np.array(
        [[names.index(c) for c in some] for some in stick.workload(domain, k, 64, 0)]
    )
    columns = marginals[rng.integers(0, 64, count)]
    cells = FlatQueries.conjunctions(
        columns, rows[rng.integers(0, len(rows), count)[:, None], columns]
    )
    instance = Instance.of([domain[c] for c in names], cells, rng.choice([-1.0, 1.0], count))
    variants = Variants(linear=-rng.exponential(size=(32, int(instance.shape.sum()))))
    truth = Exact().solve_many(instance, variants, 0)
    assert all(one.proved for one in truth)
    assert share_found(Search(), instance, variants, truth) >= 0.65
    assert share_found(Search(restarts=20, kicks=20), instance, variants, truth) >= 0.94


@pytest.mark.parametrize(("k", "default", "long"), [(3, 0.7, 0.85), (5, 0.3, 0.5)])
def test_how_often_the_search_finds_the_best_record_where_that_is_harder(
    k: int, default: float, long: float
) -> None:
    """Invented rows have less in common than people have; these shares are what was measured, less
    a margin for chance.
    """
    instance = survey_instance(1, k, 1000)
    variants = Variants(linear=-np.random.default_rng(2).exponential(size=(24, sum(ADULT_SHAPE))))
    truth = Exact(start=Search(restarts=20, kicks=20)).solve_many(instance, variants, 0)
    assert all(one.proved for one in truth)
    assert share_found(Search(), instance, variants, truth) >= default
    assert share_found(Search(restarts=4, kicks=100), instance, variants, truth) >= long


def test_the_search_comes_to_rest_where_no_single_change_is_better() -> None:
    for instance in mixed(100):
        found = Search(restarts=1, kicks=2).solve(instance, 3)
        for c, size in enumerate(instance.shape):
            records = np.tile(found.record, (int(size), 1))
            records[:, c] = np.arange(size)
            assert instance.values(records).max() < found.value + 1e-6


def test_a_batch_is_its_members_and_the_seed_decides_everything() -> None:
    instance = survey_instance(3, 3, 500)
    rng = np.random.default_rng(4)
    variants = Variants(
        linear=rng.normal(size=(40, sum(ADULT_SHAPE))), weights=rng.normal(size=(40, 100))
    )
    once, again = (Search(threads=threads).solve_many(instance, variants, 9) for threads in (1, 2))
    quick, other = (
        Search(restarts=1, kicks=0).solve_many(instance, variants, seed) for seed in (9, 10)
    )
    assert all(
        np.array_equal(a.record, b.record) and a.value == b.value
        for a, b in zip(once, again, strict=True)
    )
    assert not all(np.array_equal(a.record, b.record) for a, b in zip(quick, other, strict=True))
    for i, one in enumerate(once):
        assert one.value == pytest.approx(variants.of(instance, i).value(one.record))
    slow = Oracle.solve_many(Search(), instance, variants, 9)
    assert [a.value for a in slow] == [b.value for b in once]
    proofs = Exact().solve_many(instance, Variants(linear=variants.linear[:3]), 1)  # type: ignore[index]
    assert [a.value for a in proofs] == [
        a.value for a in Exact().solve_many(instance, Variants(linear=variants.linear[:3]), 1)
    ]  # type: ignore[index]


def test_a_million_attributes_cost_no_more_than_those_that_are_mentioned() -> None:
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(1_000_000, (2000, 3), replace=False), axis=1)
    instance = Instance.of(
        np.full(1_000_000, 2), FlatQueries.conjunctions(columns, rng.integers(0, 2, columns.shape))
    )
    Search(restarts=1, kicks=0).solve(instance, 0)
    start = time.process_time()
    found = Search(restarts=1).solve(instance, 0)
    assert time.process_time() - start < 5
    assert found.value == 2000  # they share no column


def test_the_limit_of_work_is_kept_and_its_bound_holds() -> None:
    instance = survey_instance(1, 5, 1000)
    full = Exact().solve(instance, 0)
    short = Exact(work=3000, start=Search(restarts=1, kicks=0)).solve(instance, 0)
    assert full.proved and not short.proved and short.ended is Ended.LIMIT
    assert short.value <= full.value + 1e-9 <= short.bound + 1e-8 < np.inf


# ---------------------------------------------------------------------- free columns, refusals


def test_free_columns_follow_the_public_rule() -> None:
    shape = [3, 4, 2, 5]
    query = [all_of(Literal(0, 2))]
    first = np.array(
        [
            [Search().solve(Instance.of(shape, query), seed).record[c] for c in range(4)]
            for seed in range(300)
        ]
    )
    assert (
        set(first[:, 0]) == {2}
        and len(set(first[:, 1])) == 4
        and np.bincount(first[:, 3]).min() > 30
    )
    one_way = [
        np.ones(3) / 3,
        np.array([0, 0.9, 0.1, 0]),
        np.array([0.0, 1.0]),
        np.array([0, 0, 1.0, 0, 0]),
    ]
    drawn = np.array(
        [
            Search().solve(Instance.of(shape, query, one_way=one_way), seed).record
            for seed in range(300)
        ]
    )
    assert (
        set(drawn[:, 2]) == {1}
        and set(drawn[:, 3]) == {2}
        and 230 < np.sum(drawn[:, 1] == 1) < 295
        and set(drawn[:, 1]) == {1, 2}
    )
    linear = np.zeros(14)
    linear[3 + 3] = 1.0  # column 1 has something to say for value 3
    for oracle in (Search(), Exact(), Brute()):
        found = oracle.solve(Instance.of(shape, query, linear=linear, one_way=one_way), 0)
        assert found.record[1] == 3 and found.value == 2.0
        assert np.array_equal(
            found.record,
            oracle.solve(Instance.of(shape, query, linear=linear, one_way=one_way), 0).record,
        )


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    query = [all_of(Literal(0, 1))]
    for wrong in (
        lambda: Instance.of([2], [all_of(Literal(1, 0))]),
        lambda: Instance.of([2], [all_of(Literal(0, 2))]),
        lambda: Instance.of([2, 3], tables=[TableTerm((0,), (3,), np.zeros(3))]),
    ):
        with pytest.raises(WorkloadError):
            wrong()
    for wrong in (
        lambda: Instance.of([2], query, [1.0, 2.0]),
        lambda: Instance.of([2], query, [np.nan]),
        lambda: Instance.of([2], query, linear=[0.0]),
        lambda: Search(restarts=0),
        lambda: Exact(work=0),
        lambda: Search().solve_many(Instance.of([2], query), Variants(linear=np.zeros((3, 5))), 0),
    ):
        with pytest.raises(ParameterError):
            wrong()
    with pytest.raises(NotSupported, match="records"):
        Brute(most=10).solve(Instance.of([9, 9], [all_of(Literal(0, 1), Literal(1, 1))]), 0)


def test_a_missing_solver_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for kind, extra in ((Milp, "solvers"), (Cpsat, "solvers"), (Gurobi, "gurobi")):
        with pytest.raises(NotSupported, match=rf"pip install 'understudy\[{extra}\]'"):
            kind()
    assert set(available_oracles()) >= {
        "search",
        "exact",
        "milp",
        "cpsat",
        "gurobi",
        "brute",
        "parity",
    }


def test_nothing_to_ask_is_still_answered() -> None:
    for oracle in (Search(), Exact(), Brute(), made("milp")):
        found = oracle.solve(Instance.of([3, 2]), 0)
        assert found.value == 0.0 and found.record.shape == (2,)


# ---------------------------------------------------------------------- solvers that fail


@pytest.mark.parametrize("fault", ORACLE_FAULTS)
def test_whatever_a_solver_does_there_is_a_record_and_the_failure_is_named(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, ended = ORACLE_FAULTS[fault]
    command = oracle_with(code, tmp_path)
    monkeypatch.setattr(outside, "GRACE", 3.0)
    instance = survey_instance(1, 3, 50)
    broken = Milp(wall=0.1, command=command)
    found = broken.solve(instance, 0)
    assert found.ended is ended and not found.proved
    assert found.value == broken.start.solve(instance, 0).value == instance.value(found.record)
    assert found.bound >= found.value


def test_one_dead_child_does_not_spoil_a_batch(tmp_path: Path) -> None:
    script, mark = tmp_path / "once.py", tmp_path / "died"
    script.write_text(
        f"import os, runpy, sys\nif not os.path.exists({str(mark)!r}):\n    open({str(mark)!r},"
        f" 'w').close()\n    sys.exit(1)\nrunpy.run_path({child.__file__!r}, run_name='__main__')\n"
    )
    solver = Milp(command=(sys.executable, str(script)))
    instances = mixed(20)[-4:]
    found = solver.solve_all(instances, range(4))
    assert [one.ended for one in found] == [Ended.FAILED] + [Ended.OPTIMAL] * 3


def test_a_solver_that_ignores_its_limits_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "GRACE", 0.5)
    sleeper = (sys.executable, "-c", "import time; time.sleep(60)")
    start = time.monotonic()
    found = Milp(wall=0.2, command=sleeper).solve(survey_instance(1, 3, 50), 0)
    assert found.ended is Ended.FAILED and time.monotonic() - start < 20


def test_whole_weights_are_proved_exactly_by_cpsat() -> None:
    instance = survey_instance(2, 3, 40)
    found = made("cpsat").solve(instance, 0)
    assert found.proved and found.bound == found.value == Exact().solve(instance, 0).value
