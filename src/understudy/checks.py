"""The conformance kit: what every mechanism, source and query class must satisfy.

Whatever is found in its folder is checked by the same suite; there is nothing to register. Authors
of new pieces call ``check_mechanism(MyMechanism)`` and so on; a check that cannot apply is declared
in the class's ``exempt`` with a reason.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy import sources
from understudy.api.plan import plan
from understudy.api.release import count_and_decide, release
from understudy.api.request import decision_of, means_of, reservation
from understudy.bundle.release import Release
from understudy.bundle.verify import verify
from understudy.counting.tally import CodedRows, cells_in_bins
from understudy.errors import BudgetRefused, InputError, UnderstudyError
from understudy.game.loop import Played
from understudy.mechanisms.about import meanings
from understudy.mechanisms.base import Brief, Decision, Mechanism
from understudy.privacy import Budget, FileLedger, Measure, Measurement, Meter
from understudy.privacy.accounting.accountant import total_cost
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.literals import Literal, all_of, any_of, parity
from understudy.queries.relaxed import Chances, relaxed_form
from understudy.queries.symmetric import Symmetric
from understudy.queries.workload import (
    Workload,
    batch_from_dict,
    explicit,
    marginals,
    query_classes,
)
from understudy.runtime.watching import NoWatcher
from understudy.schema import Schema
from understudy.sources.base import Source
from understudy.sources.memory import MemorySource

# the least with three columns of different sizes: its play takes a fraction of a second
SMALL = Schema.from_domain({"a": 3, "b": 4, "c": 2})
# all columns together have more cells than one array holds
WIDE = Schema.from_domain({"a": 300, "b": 300, "c": 200})
# its one column is all that it shares with SMALL: no pair fits it
FIRST = Schema.from_domain({"a": 3})
BASKET = Schema.items(["a", "b", "c"])  # for sources that hold items


def small_table(rows: int = 600, seed: int = 0) -> np.ndarray:
    """An invented, skewed table over SMALL with dependence between its columns."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, rows, p=[0.7, 0.2, 0.1])
    b = np.where(rng.random(rows) < 0.6, a + 1, rng.integers(0, 4, rows))
    c = (rng.random(rows) < 0.1 + 0.4 * (b > 1)).astype(np.int64)
    return np.column_stack([a, b, c])


def small_workloads() -> Iterator[Workload]:
    """A workload of each shape."""
    yield marginals(SMALL, k=2)
    a, b, c = Literal(0, 0), Literal(1, 2), Literal(2, 1, holds=False)
    yield explicit(
        SMALL, columns=[["c", "a"]], queries=[all_of(a, b), any_of(a, c), ~parity(a, b, c)]
    )


# ---------------------------------------------------------------------- mechanisms


def check_mechanism(kind: type[Mechanism], **parameters: object) -> None:
    """Raise AssertionError, naming the check, unless a mechanism keeps the contract."""
    for name, check in (
        ("is a documented, frozen set of parameters", _is_frozen),
        ("decides from public facts, once and for all who ask", _decides),
        # without a release around it, which turns an error of the author's into one sentence
        ("plays every workload under every relation", _plays),
        ("is planned, released and played by one decision", _keeps_to_its_plan),
        ("learns something", _learns),
        ("spends no more than it is given", _spends_within),
    ):
        if name not in kind.exempt:
            try:
                check(kind, parameters)
            except AssertionError as problem:
                raise AssertionError(f"{kind.name}: {name}: {problem}") from problem


def _is_frozen(kind: type[Mechanism], parameters: dict[str, object]) -> None:
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert frozen, "it must be a frozen dataclass"
    assert all(f.kw_only for f in dataclasses.fields(kind)), "its parameters must be keyword-only"
    assert all((kind.name, kind.summary, kind.reference, kind.__doc__)), (
        "name, summary, reference and docstring must be given"
    )
    sentences = meanings(kind)
    silent = [f.name for f in dataclasses.fields(kind) if not sentences.get(f.name)]
    assert not silent, (
        f"its docstring must say what these parameters mean, under Attributes: {', '.join(silent)}"
    )
    assert all(len(reason) > 10 for reason in kind.exempt.values()), "an exemption needs a reason"


def _play(
    kind: type[Mechanism],
    parameters: dict[str, object],
    work: Workload,
    neighbours: Neighbours,
    rho: Fraction,
) -> tuple[Played, Meter]:
    mechanism = kind(**parameters)
    brief = Brief(schema=SMALL, workload=work, neighbours=neighbours)
    source = MemorySource(small_table(), SMALL)
    decision, meter = rehearsal(
        mechanism, brief, source, Budget.zcdp(rho), rho=rho, certify=rho, rows=len(small_table())
    )
    _, decision = count_and_decide(meter, mechanism, decision)
    return mechanism.play(decision, meter, np.random.default_rng(0), NoWatcher()), meter


def rehearsal(
    mechanism: Mechanism,
    brief: Brief,
    source: Source,
    budget: Budget,
    *,
    rho: Fraction,
    certify: Fraction,
    rows: int,
    noise: Any = None,
) -> tuple[Decision, Meter]:
    """A decision, and a meter that allows what it costs: a release without a ledger, for invented
    tables and comparisons. ``noise`` is the audit's own.
    """
    mechanism.check(brief)
    public_rows = rows if brief.neighbours is Neighbours.REPLACE_ONE else None
    means = means_of(brief.neighbours, budget, rho, public_rows)
    decision = decision_of(mechanism, brief, means)
    play = reservation(decision, rho)
    return decision, Meter(
        source, neighbours=brief.neighbours, play=play, certify=certify, noise=noise
    )


def _decides(kind: type[Mechanism], parameters: dict[str, object]) -> None:
    """The same facts give the same decision, which names every parameter; what is reserved for a
    private number of rows does not depend on it.
    """
    mechanism, budget = kind(**parameters), Budget.zcdp(1)
    for neighbours in kind.relations:
        brief = Brief(schema=SMALL, workload=marginals(SMALL, k=2), neighbours=neighbours)
        asked = [means_of(neighbours, budget, Fraction(1, 2), rows) for rows in (600, 600, 50_000)]
        decisions = [mechanism.decide(brief, means) for means in asked]
        assert all(one.brief == brief for one in decisions), "it decides on another brief"
        assert [one.means for one in decisions] == asked, "it decides on means of its own"
        assert all(one.cost.is_sound for one in decisions), "a part of its cost is below 0"
        assert decisions[0] == decisions[1], "the same public facts gave two decisions"
        names = [f.name for f in dataclasses.fields(kind)]
        assert list(decisions[0].parameters) == names, "a decision must say every parameter"
        silent = [name for name in names if decisions[0].parameters[name] is None]
        assert not silent, f"its rule must decide {', '.join(silent)}: None says nothing"
        assert decisions[0].how and decisions[0].numbers, (
            "a decision must say what its rule came to"
        )
        if neighbours is Neighbours.ADD_REMOVE_ONE:
            assert decisions[0].cost == decisions[2].cost, "its cost tells a private number of rows"


def _keeps_to_its_plan(kind: type[Mechanism], parameters: dict[str, object]) -> None:
    """Plan, manifest and play follow the decision."""
    mechanism, table = kind(**parameters), small_table()
    asked = {"schema": SMALL, "epsilon": 1, "delta": "1e-6", "mechanism": mechanism}
    released = release(table, **asked).manifest["mechanism"]  # type: ignore[arg-type]
    planned = plan(rows=len(table), **asked).parameters  # type: ignore[arg-type]
    assert planned == {**planned, **released["parameters"]}, "plan and manifest disagree"
    assert released["played"] == {
        **released["played"],
        **{name: value for name, value in planned.items() if name not in released["parameters"]},
    }, "plan and play disagree"


def _plays(kind: type[Mechanism], parameters: dict[str, object]) -> None:
    for work in small_workloads():
        for neighbours in kind.relations:
            played, meter = _play(kind, parameters, work, neighbours, Fraction(1))
            meter.close()  # a model must not need the meter: it is made of released values
            rows = played.model.rows(200, np.random.default_rng(0))
            assert rows.shape == (200, len(SMALL)) and rows.dtype == np.int32, (
                "rows must be int32, rows x columns"
            )
            assert np.all((rows >= 0) & (rows < SMALL.shape)), "rows must lie in the domain"
            for batch in work:
                shares = played.model.shares(batch)
                assert shares.shape == (batch.size,) and np.all(
                    (shares > -1e-9) & (shares < 1 + 1e-9)
                ), "shares must lie in [0, 1]"
            assert all(
                isinstance(f.counts, np.ndarray) and f.counts.dtype == np.int64
                for f in played.findings
                if isinstance(f, Measurement)
            )


def _learns(kind: type[Mechanism], parameters: dict[str, object]) -> None:
    """With a generous budget, the rows are closer to the table than uniform rows are."""
    work = marginals(SMALL, k=1)
    played, _ = _play(kind, parameters, work, Neighbours.REPLACE_ONE, Fraction(5))
    truth = CodedRows(small_table(), SMALL.shape)
    coded = CodedRows(played.model.rows(600, np.random.default_rng(0)), SMALL.shape)
    for batch in work:
        exact, released = batch.counts(truth).dense() / 600, batch.counts(coded).dense() / 600
        gap = np.abs(exact - released).max()
        assert gap < max(0.05, 0.5 * np.abs(exact - 1 / batch.size).max()), (
            f"a 1-way share is off by {gap:.3f} at rho 5"
        )


def _spends_within(kind: type[Mechanism], parameters: dict[str, object]) -> None:
    work = marginals(SMALL, k=2)
    for rho in (Fraction(1, 1000), Fraction(1)):
        _, meter = _play(kind, parameters, work, Neighbours.REPLACE_ONE, rho)
        spent = total_cost(meter.events)
        assert meter.events, "nothing was charged"
        counted = spent.in_rho(Budget.zcdp(rho))
        assert counted is not None and counted <= rho, "more was spent than given"
        assert counted > 0.9 * rho, f"only {float(counted / rho):.0%} of the budget was used"


# ---------------------------------------------------------------------- mechanisms x query classes x relations


def crossings(classes: dict[str, type[QueryClass]], seed: int = 0) -> Iterator[Workload]:
    """Workloads to cross mechanisms with: each example of each class by itself, then beside all
    pairs of columns, and wide tables.
    """
    rng = np.random.default_rng(seed)
    for kind in classes.values():
        examples = tuple(kind.examples(SMALL, rng))
        yield Workload(
            SMALL,
            tuple(dict.fromkeys([*marginals(SMALL, k=2), *examples])),
            f"pairs and {kind.kind}",
        )
        yield from (Workload(SMALL, (batch,), kind.kind) for batch in examples)
    for kind in classes.values():
        widest = max(kind.examples(WIDE, rng), key=lambda batch: len(batch.columns))
        yield Workload(WIDE, (widest,), f"wide {kind.kind}")


def check_crossing(mechanism: Mechanism, work: Workload, neighbours: Neighbours) -> bool:
    """Raise AssertionError unless a request ends in a sound bundle or is refused before a charge;
    returns whether it was served.
    """
    rows = np.minimum(small_table(300), np.asarray(work.schema.shape) - 1)
    case = f"{mechanism.name} x {work.spec} x {neighbours}"
    with tempfile.TemporaryDirectory() as name:
        folder, ledger = Path(name) / "bundle", FileLedger(Path(name) / "ledger.jsonl")
        settings = {
            "schema": work.schema,
            "epsilon": 1,
            "delta": "1e-6",
            "workload": work,
            "neighbours": neighbours,
            "rows": 500,
        }
        try:
            result = release(rows, mechanism=mechanism, ledger=ledger, **settings)  # type: ignore[arg-type]
        except UnderstudyError as problem:
            spent = ledger.path.exists() and ledger.read().charges
            assert not spent, f"{case}: its budget is spent, for nothing: {problem}"
            assert isinstance(problem, InputError), (
                f"{case}: it was refused, but not as a request that cannot be met: {problem}"
            )
            return False
        assert len(ledger.read().charges) == 1, f"{case}: a release is charged once"
        result.save(folder)
        again = Release.load(folder)
        assert again.workload == work and np.array_equal(again.codes, result.codes), (
            f"{case}: another release was read back"
        )
        broken = [f"{check.claim} ({check.detail})" for check in verify(folder) if not check.holds]
        assert not broken, f"{case}: its own verify rejects it: {'; '.join(broken)}"
    return True


# ---------------------------------------------------------------------- query classes


def check_query_class(kind: type[QueryClass], seed: int = 0) -> None:
    """Raise AssertionError unless a query class keeps the contract, on random examples of its own."""
    rng = np.random.default_rng(seed)
    rows = small_table(200, seed).astype(np.int32)
    table = CodedRows(rows, SMALL.shape)
    examples = list(kind.examples(SMALL, rng))
    assert examples, f"{kind.kind}: it gives no examples"
    for batch in examples:
        counts = batch.counts(table).dense()
        assert counts.dtype == np.int64 and counts.shape == (batch.size,), (
            f"{kind.kind}: counts must be int64, one a query"
        )
        assert list(batch.columns) == sorted(set(batch.columns)), f"{kind.kind}: columns must rise"
        assert np.array_equal(batch.truth(rows[:, list(batch.columns)]).sum(axis=0), counts), (
            f"{kind.kind}: truth and counts disagree"
        )
        assert _read_back(kind, batch) == batch, f"{kind.kind}: its plain form does not read back"
        assert all(batch.describe(SMALL, i) for i in range(batch.size)), (
            f"{kind.kind}: a query has no words"
        )
        assert batch.fits(SMALL), f"{kind.kind}: it does not fit the schema that it was made for"
        if max(batch.columns, default=0) > 0:
            assert not batch.fits(FIRST), (
                f"{kind.kind}: it fits a schema that lacks some of its columns"
            )
        assert hash(_read_back(kind, batch)) == hash(batch), (
            f"{kind.kind}: equal batches have different hashes"
        )
        _check_abilities(batch, rows, counts)
        _check_fitting(batch, rows, counts)
        _check_sensitivity(batch, rows, rng)
    for text in kind.texts(SMALL):
        _check_text(kind, text)


def _read_back(kind: type[QueryClass], batch: QueryClass) -> QueryClass:
    """A batch after it was written; of the class that is checked, whether it is announced or not."""
    data = batch.to_dict(SMALL)
    return kind.from_dict(data, SMALL) if batch.kind == kind.kind else batch_from_dict(data, SMALL)


def _check_abilities(batch: QueryClass, rows: np.ndarray, counts: np.ndarray) -> None:
    """What a class says it can do, it can do for every query and rightly: mechanisms ask once,
    before a budget is spent.
    """
    for i in range(batch.size):
        around = batch.around(i)
        assert isinstance(around, QueryClass) and set(around.columns) <= set(batch.columns), (
            f"{batch.kind}: around reads other columns"
        )
        assert _read_back(type(batch), around) == around, (
            f"{batch.kind}: what is around a query does not read back"
        )
    queries = [query for i in range(batch.size) if (query := batch.query(i)) is not None]
    assert len(queries) in (
        0,
        batch.size,
    ), f"{batch.kind}: some queries can be taken apart and others cannot"
    if queries:
        alone = Symmetric(tuple(queries)).counts(CodedRows(rows, SMALL.shape)).dense()
        assert np.array_equal(alone, counts), f"{batch.kind}: a query by itself counts otherwise"
    weighed = batch.weights(rows[:, list(batch.columns)], np.full(len(rows), 0.5))
    assert np.allclose(weighed, counts / 2), f"{batch.kind}: weights and counts disagree"
    relaxed = relaxed_form(batch)
    if relaxed is not None:
        starts = np.concatenate([[0], np.cumsum(SMALL.shape)]).astype(np.int64)
        sure = np.zeros((int(starts[-1]), len(rows)), np.float32)
        sure[(starts[:-1] + rows).ravel(), np.repeat(np.arange(len(rows)), len(SMALL))] = 1
        expected = relaxed.answers(Chances(sure, starts)) * len(rows)
        assert np.allclose(expected, counts, atol=0.01), (
            f"{batch.kind}: relaxed answers and counts disagree"
        )


def _check_fitting(batch: QueryClass, rows: np.ndarray, counts: np.ndarray) -> None:
    """What rows are fitted to says the same as the batch, and tables over its sets of columns hold
    every query.
    """
    coded, table, apart = CodedRows(rows, SMALL.shape), batch.as_table(), batch.apart()
    grid = batch.as_grid()
    assert batch.can_be_fitted == (grid is not None or apart is not None), (
        f"{batch.kind}: it can be fitted if it is a grid or comes apart, and not otherwise"
    )
    assert (table is not None) == (grid is not None and grid.is_whole), (
        f"{batch.kind}: it is a table if it is a grid without bins, and not otherwise"
    )
    for same in (table, apart):
        assert same is None or np.array_equal(same.counts(coded).dense(), counts), (
            f"{batch.kind}: taken as a table or apart it counts otherwise"
        )
    if grid is not None and not grid.is_whole:
        cells = cells_in_bins(rows, grid.positions, grid.shape, grid.bins)
        assert np.array_equal(np.bincount(cells, minlength=batch.size), counts), (
            f"{batch.kind}: taken as a grid it counts otherwise"
        )
    sets = batch.column_sets()
    assert len(sets) == len(set(sets)) and frozenset().union(*sets) == set(batch.columns), (
        f"{batch.kind}: its sets of columns are not those of its columns, each once"
    )
    if apart is not None:
        assert batch.apart(sets) == apart and batch.apart([]) is None, (
            f"{batch.kind}: apart does not keep to the sets of columns that are asked for"
        )


def _check_text(kind: type[QueryClass], text: str) -> None:
    """A text that a class announces is read by it and by no other, and what is kept of it names the
    same batches.
    """
    asked = kind.from_text(text, SMALL)
    assert asked is not None and all(isinstance(batch, kind) for batch in asked.batches), (
        f"{kind.kind}: it does not read its own text {text}"
    )
    assert kind.from_text(asked.spec, SMALL) == asked, (
        f"{kind.kind}: what is kept of the text {text} names other batches"
    )
    for other in query_classes().values():
        assert other.kind == kind.kind or other.from_text(text, SMALL) is None, (
            f"{kind.kind}: the text {text} is one of {other.kind} too"
        )


def _check_sensitivity(batch: QueryClass, rows: np.ndarray, rng: np.random.Generator) -> None:
    for _ in range(20):
        other = rows.copy()
        other[rng.integers(len(rows))] = [rng.integers(size) for size in SMALL.shape]
        for neighbours, changed in (
            (Neighbours.REPLACE_ONE, other),
            (Neighbours.ADD_REMOVE_ONE, np.delete(rows, rng.integers(len(rows)), axis=0)),
        ):
            gap = (
                batch.counts(CodedRows(rows, SMALL.shape)).dense()
                - batch.counts(CodedRows(changed, SMALL.shape)).dense()
            )
            bound = batch.l2_squared(neighbours)
            assert int(gap @ gap) <= bound, (
                f"{batch.kind}: L2 squared {int(gap @ gap)} where {bound} is declared ({neighbours})"
            )
            assert np.abs(gap).max(initial=0) <= 1, (
                f"{batch.kind}: one row moved a count by more than one"
            )


# ---------------------------------------------------------------------- sources


def source_kinds() -> dict[str, type[Source]]:
    """Every source in the sources folder, by name."""
    return {kind.__name__: kind for kind in sources.source_kinds()}


def check_source(kind: type[Source], classes: dict[str, type[QueryClass]]) -> None:
    """Raise AssertionError unless a source counts every query class exactly, whatever its cells."""
    schema = BASKET if kind.holds_items else SMALL
    rows = np.minimum(small_table(300), np.asarray(schema.shape) - 1)
    table = pa.table({name: pa.array(rows[:, i]) for i, name in enumerate(schema.names)})
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        source = kind.holding(table, schema, Path(folder))
        truth = CodedRows(rows, schema.shape)
        for query_class in classes.values():
            for batch in query_class.examples(schema, rng):
                counts = batch.counts(source)
                assert counts.cells == batch.size and counts.values.dtype == np.int64, (
                    f"{kind.__name__}: counts must be int64"
                )
                assert np.array_equal(counts.dense(), batch.counts(truth).dense()), (
                    f"{kind.__name__}: wrong counts for a {batch.kind}"
                )
        bad = pa.table(
            {
                "a": [9, -5, None],
                "b": [1.5, math.nan, math.inf],
                "c": ["x", "1", ""],
                "unused": [1, 2, 3],
            }
        )
        assert int(kind.holding(bad, schema, Path(folder)).count([()])[0].values[0]) == 3, (
            f"{kind.__name__}: a bad cell lost a row"
        )


def check_refuses_overspending(meter: Meter) -> None:
    """Raise AssertionError unless a meter refuses one unit too much and charges nothing for it."""
    before = meter.events
    try:
        meter.ask(Measure(batches=[marginals(SMALL, k=1).batches[0]], rho=meter.left * 2 + 1))[0]
    except BudgetRefused:
        assert meter.events == before, "a refused charge was recorded"
        return
    raise AssertionError("a charge above the allowance was granted")
