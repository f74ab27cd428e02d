"""``release()``: the one way in. A request is checked, the table opened, what to do decided, the
budget reserved; a mechanism plays, rows are made and certified.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from understudy.api.request import (
    TOTAL_SHARE,
    Request,
    decision_of,
    for_certificate,
    for_mechanism,
    most_rows,
    on_grids,
    reservation,
)
from understudy.api.session import (
    OnGrids,
    Promise,
    accountant_of,
    ledger_for,
    open_again,
    open_table,
    reserve,
)
from understudy.bundle.answers import Answers
from understudy.bundle.manifest import REPAIRED, Manifest, MechanismFacts, RowsFacts
from understudy.bundle.release import Release
from understudy.bundle.saving import Need, check_memory, check_room
from understudy.constraints.rows import rows_that_keep
from understudy.constraints.rules import Rules
from understudy.game.fitting.mixture import Mixture
from understudy.game.fitting.refit import refit
from understudy.game.fitting.values import Values
from understudy.game.loop import Model
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism
from understudy.privacy import Certify, Measurement, Meter, ReleaseTotal, Residual
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.looking import public_rows
from understudy.privacy.noise.samplers import secure_seed
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload
from understudy.runtime.progress import watched
from understudy.runtime.watching import Watcher
from understudy.schema import Schema

FEWEST_MADE = 1000  # rows, when memory runs out for more


def release(
    table: Any,
    *,
    schema: Schema | Mapping[str, Any] | str | Path,
    epsilon: Any,
    delta: Any = None,
    workload: Workload | str | None = None,
    mechanism: str | Mechanism = "auto",
    parameters: Mapping[str, Any] | None = None,
    label: str | None = None,
    rows: int | None = None,
    neighbours: str = "replace-one",
    ledger: str | Path | Ledger | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    watcher: Watcher | None = None,
    out: str | Path | None = None,
    accountant: str | None = None,
) -> Release:
    """Make a differentially private stand-in for a sensitive table.

    Args:
        table: a path or glob of CSV or Parquet files, a table of an SQLite file
            (``people.sqlite::patients``), a pandas or polars DataFrame, a polars LazyFrame, a
            DuckDB relation, an Arrow table, a narwhals frame over one of these, a NumPy array; with
            a schema of items also a sparse matrix.
        schema: what is public about the table; a :class:`Schema`, its plain form, or a file.
        epsilon: the privacy promise; smaller is more private.
        delta: the promise's failure mass; 1/n^2 if not given, which needs a public n (replace-one).
        workload: the queries to answer well; all 2-way marginals if not given.
        mechanism: a name from :func:`available_mechanisms`, an instance, or ``auto``.
        parameters: the mechanism's parameters, by name; all have public defaults.
        label: the column that models of the rows will predict; part of the budget goes to what
            predicts it (docs/learning-from-rows.md).
        rows: how many synthetic rows; if not given, as many as the table has, or as 2^28 cells
            allow.
        neighbours: ``replace-one`` (n is public) or ``add-remove-one`` (n is private).
        ledger: the file that keeps what was spent on this table; beside the data if not given. A
            table in memory has none unless you give one, and then nothing adds up what several
            releases spend.
        seed: for the *public* randomness (rounding, values inside bins); noise has no seed.
        progress: show bars on a terminal or in a notebook, lines elsewhere; if not given, the bars
            only.
        watcher: told of progress instead, in public values only.
        out: the folder that you will save to. Nothing is written to it here, but one that cannot
            take the release is refused before anything is charged.
        accountant: ``gaussian`` counts Gaussian noise alone and needs 4% to 5% less of it; ``rho``
            counts every mechanism. If not given, the better one that the table's limits count by.

    Returns:
        A :class:`Release`; everything in it may be published.

    Raises:
        InputError: something is wrong with the request; nothing was charged.
        BudgetRefused: the ledger's limit does not allow it; nothing was charged.

    Examples:
        >>> import numpy as np
        >>> table = np.random.default_rng(0).integers(0, 3, size=(500, 2))
        >>> made = release(table, schema={"a": 3, "b": 3}, epsilon=1.0, mechanism="mwem")
        >>> made.synthetic.num_rows, made.certificate.confidence
        (500, 0.95)
    """
    with watched(progress, watcher) as seen:
        request = Request.of(
            schema=schema,
            epsilon=epsilon,
            delta=delta,
            workload=workload,
            mechanism=mechanism,
            parameters=parameters,
            label=label,
            rows=rows,
            neighbours=neighbours,
            ledger=ledger,
            seed=seed,
            out=out,
            accountant=accountant,
        )
        return _release(table, request, seen)


def _release(table: Any, request: Request, watcher: Watcher) -> Release:
    brief = request.brief
    source = open_table(table, brief.schema)
    ledger = ledger_for(request.ledger, source)
    n = None
    if brief.neighbours is Neighbours.REPLACE_ONE:
        watcher.stage("counting rows", 1)
        n = public_rows(source)
    decision = request.decide(n, accountant_of(ledger))
    _check_space(request, decision, n)
    budget = decision.means.budget
    promise = Promise(
        what="The release",
        label=f"{request.mechanism.name}, epsilon {float(request.epsilon):.6g}",
        epsilon=request.epsilon,
        delta=budget.delta,
    )
    step = on_grids(brief, budget)
    grids = (
        None
        if step is None
        else OnGrids(source=open_again(table, step.grids.schema, source), cost=step.cost)
    )
    reserved = reserve(
        ledger,
        source,
        promise,
        neighbours=brief.neighbours,
        play=reservation(decision, for_mechanism(brief, budget)),
        certify=for_certificate(budget),
        grids=grids,
    )
    with reserved as meter:
        return _play(meter, reserved.on_grids, request, decision, watcher, ledger.where)


def _check_space(request: Request, decision: Decision, n: int | None) -> None:
    """Refuse what clearly fits neither memory nor disk. Of a private number of rows nothing is
    known here, nor of what they take.
    """
    brief = request.brief
    rows = request.rows or min(n or 1, most_rows(brief.schema))
    need = Need.of(brief.workload, rows, decision.model_numbers)
    check_memory(need)
    if request.out is not None:
        check_room(request.out, need)


def count_and_decide(
    meter: Meter, mechanism: Mechanism, decision: Decision
) -> tuple[list[Measurement], Decision]:
    """COUNT the rows where their number is private, and decide again with what was released;
    elsewhere the decision stands.
    """
    brief, budget = decision.brief, decision.means.budget
    if brief.neighbours is Neighbours.REPLACE_ONE:
        return [], decision
    total = meter.ask(ReleaseTotal(rho=meter.left * TOTAL_SHARE))
    means = Means(budget=budget, rho=meter.left, rows=meter.rows, rows_sigma=meter.rows_sigma)
    return [total], decision_of(mechanism, brief, means)


def _play(
    meter: Meter,
    on_finer: Meter | None,
    request: Request,
    decision: Decision,
    watcher: Watcher,
    ledger: str,
) -> Release:
    """COUNT (if n is private), PLAY, count single columns on their grids, make ROWS, CERTIFY."""
    brief = request.brief
    rng = np.random.default_rng(secure_seed() if request.seed is None else request.seed)
    total, decision = count_and_decide(meter, request.mechanism, decision)
    played = request.mechanism.play(decision, meter, rng, watcher)
    step = on_grids(brief, decision.means.budget)
    details = () if step is None or on_finer is None else step.measured(on_finer)
    watcher.stage("making rows", 1)
    wanted = request.rows or min(meter.rows, most_rows(brief.schema))
    drawn, codes, answers = _rows_that_fit(played.model, brief, wanted, rng)
    values = Values.measured(brief.schema, details, codes, meter.rows)
    rows = rows_that_keep(Rules.of(brief.schema), codes, rng, values)
    if rows.changed:  # bins that hold no values together: a few rows, if any
        codes, answers = rows.codes, Answers(brief.workload, rows.codes)
    watcher.step()
    watcher.stage("certifying", 1)
    certificate = meter.ask(
        Certify(batches=list(brief.workload), answers=answers.counts, released_rows=len(codes))
    )
    watcher.step(f"largest error at most {certificate.people:,} people")
    measurements = (*total, *(f for f in played.findings if isinstance(f, (Measurement, Residual))))
    fewer = (
        {}
        if len(codes) == wanted
        else {"fewer_rows": f"memory ran out for {wanted:,} rows, so fewer were made"}
    )
    # what the model of a bundle does not tell of its rows
    repaired = int((codes != drawn).any(axis=1).sum())
    repairs = {REPAIRED: repaired} if brief.schema.rules else {}
    facts = Manifest.of(
        brief.workload,
        MechanismFacts.of(
            request.mechanism, decision, {**played.facts, **fewer, **repairs}, request.why
        ),
        neighbours=brief.neighbours,
        rows=RowsFacts(
            count=meter.rows, public=not total, sigma=total[0].sigma if total else Fraction(0)
        ),
        synthetic_rows=len(codes),
        budget=decision.means.budget,
        events=(*(() if on_finer is None else on_finer.events), *meter.events),
        measurements=measurements,
        details=details,
        certificate=certificate,
        ledger=ledger,
        seed=request.seed,
    )
    model = played.model if isinstance(played.model, Mixture) else None
    return Release(
        brief.schema, brief.workload, codes, rows.table, measurements, facts, model, details
    )


def _rows_that_fit(
    model: Model, brief: Brief, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, Answers]:
    """Rows as the model has them, the same as the schema's rules leave them, and their answers;
    fewer rows if memory runs out, because the play is paid for.
    """
    rules = Rules.of(brief.schema)
    while True:
        try:
            drawn = model.rows(count, rng)
            codes = refit(rules, drawn, brief.workload, rng)
            return drawn, codes, Answers(brief.workload, codes)
        except MemoryError:
            if count <= FEWEST_MADE:
                raise
        count = max(FEWEST_MADE, count // 8)  # out here, where what was made so far is let go


def check_columns(table: Any, schema: Schema) -> None:
    """Raise SourceError unless the table can be opened and has the schema's columns; reads no row."""
    open_table(table, schema)
