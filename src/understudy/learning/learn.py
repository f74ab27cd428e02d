"""``learn()``: a private rule from a table. A request is checked, the table opened, the budget
reserved; a rule is learnt, and how often it is wrong is reported.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from understudy.api.session import Promise, ledger_for, open_table, reserve
from understudy.errors import ParameterError, ReleaseFailed
from understudy.learning.learned import Learned
from understudy.learning.request import LearnRequest, Method
from understudy.privacy import Meter
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.argmin import WEIGHT, BlockPlan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.meter import public_rows
from understudy.privacy.requests import check_sums
from understudy.queries.attribute import Attribute
from understudy.queries.base import Neighbours
from understudy.rules import prsma
from understudy.rules.base import Rule
from understudy.rules.certifiers import Certifier
from understudy.rules.task import Task
from understudy.runtime.progress import watched
from understudy.runtime.watching import Watcher
from understudy.schema import Schema

CONFIDENCE = 0.95
NO_RULE = (
    "Too few blocks of rows could be solved, so prsma gives no rule; its whole budget counts as"
    " spent."
)


def learn(
    table: Any,
    *,
    schema: Schema | Mapping[str, Any] | str | Path,
    label: str,
    epsilon: Any,
    attributes: Sequence[str] | None = None,
    rules: str = "conjunctions",
    width: int | None = None,
    signed: bool = True,
    method: str = "exponential",
    delta: Any = None,
    costs: Sequence[int] = (1, 1),
    report: Any = Fraction(1, 10),
    certifier: str | Certifier = "auto",
    noise_on: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    ledger: str | Path | Ledger | None = None,
    progress: bool | None = None,
) -> Learned:
    """Learn a rule that predicts a yes/no label, with differential privacy under replace-one
    neighbours.

    Args:
        table: as for :func:`understudy.release`.
        schema: what is public about it.
        label: the question to answer, such as ``income = >50K``.
        epsilon: the privacy promise, pure unless the method is prsma.
        attributes: the questions that rules are made of, such as ``age >= 40``; every value of
            every other column if not given.
        rules: conjunctions, disjunctions, parities, halfspaces or decision-lists.
        width: at most so many literals or questions in a rule; if not given, by the method
            exponential the widest class that is counted in seconds, by the others the whole class.
        signed: whether literals may be negated.
        method: exponential (unconditional, by counting), rspm (by a solver, conditional on its
            certificate) or prsma (toy sizes).
        delta: for prsma only.
        costs: of a wrong yes and a wrong no, whole numbers.
        report: the share of epsilon for telling how often the rule is wrong; 0 for not telling.
        certifier: who solves and proves, for rspm and prsma: listing or counting (our own code),
            cpsat, or auto.
        noise_on: separators or features, for rspm and prsma.
        parameters: of the class, such as ``bias`` of halfspaces.
        ledger: the file that keeps what was spent on this table; beside the data if not given.
        progress: show bars on a terminal or in a notebook, lines elsewhere; if not given, the bars
            only.

    Returns:
        A :class:`Learned`; everything in it may be published.

    Raises:
        InputError: something is wrong with the request; nothing was charged.
        NotCertified: the solver gave no proof that holds; the charge stays.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.integers(0, 2, (2000, 4))
        >>> rows = np.column_stack([x, x[:, 0] & (1 - x[:, 2])])
        >>> found = learn(rows, schema={"a": 2, "b": 2, "c": 2, "d": 2, "y": 2}, label="y", epsilon=1)
        >>> found.words
        'a and not c'
    """
    request = LearnRequest.of(
        schema=schema,
        label=label,
        epsilon=epsilon,
        attributes=attributes,
        rules=rules,
        width=width,
        signed=signed,
        method=method,
        delta=delta,
        costs=costs,
        report=report,
        certifier=certifier,
        noise_on=noise_on,
        parameters=parameters,
        ledger=ledger,
    )
    with watched(progress, None) as watcher:
        return _learn(table, request, watcher)


def _learn(table: Any, request: LearnRequest, watcher: Watcher) -> Learned:
    source = open_table(table, request.schema)
    ledger = ledger_for(request.ledger, source)
    watcher.stage("counting rows", 1)
    rows = public_rows(source)
    blocks = _blocks(request, rows)
    delta = blocks.delta if blocks else Fraction(0)
    promise = Promise(
        what="Learning",
        label=f"learning {request.rules.name} by {request.method},"
        f" epsilon {float(request.epsilon):.6g}",
        epsilon=request.epsilon,
        delta=delta,
    )
    with reserve(
        ledger,
        source,
        promise,
        neighbours=Neighbours.REPLACE_ONE,
        play=Cost(request.rho, delta=delta),
        certify=Fraction(0),
    ) as meter:
        rule, told = _rule(meter, request, blocks, watcher)
    manifest = _manifest(
        meter.events,
        rows,
        request.task,
        request.method,
        request.certifier,
        request.epsilon,
        delta,
        told,
    )
    manifest["ledger"] = ledger.where
    return Learned(request.schema, request.task, request.rules, rule, manifest)


def _blocks(request: LearnRequest, rows: int) -> BlockPlan | None:
    """How prsma cuts the rows, once it is known that so many can be learnt from."""
    if rows == 0:
        raise ParameterError("The table is empty; there is nothing to learn.")
    check_sums(rows, request.task, WEIGHT)
    if request.delta is None:
        return None
    return prsma.checked_plan(rows, request.for_rule, request.delta, request.certifier)


def _rule(
    meter: Meter, request: LearnRequest, blocks: BlockPlan | None, watcher: Watcher
) -> tuple[Rule, tuple[int, Fraction] | None]:
    """LEARN, and COUNT mistakes."""
    task, of, epsilon = request.task, request.rules, request.for_rule
    solved: dict[str, Any] = {"certifier": request.certifier, "noise_on": request.noise_on}
    watcher.stage("learning", 1)
    if blocks is not None:
        found = meter.argmin_in_blocks(task, of, blocks, **solved)
        if found is None:
            raise ReleaseFailed(NO_RULE)
        rule = found
    elif request.method is Method.RSPM:
        rule = meter.argmin(task, of, epsilon=epsilon, **solved)
    else:
        rule = meter.soft_argmin(task, of, epsilon=epsilon)
    told = None
    if request.for_report:
        watcher.stage("counting mistakes", 1)
        told = meter.mistakes(task, of, rule, epsilon=request.for_report)
    watcher.step()
    return rule, told


def _manifest(
    events: tuple[ev.Event, ...],
    rows: int,
    task: Task,
    how: Method,
    by: Certifier,
    epsilon: Fraction,
    delta: Fraction,
    told: tuple[int, Fraction] | None,
) -> dict[str, Any]:
    condition, spent = None if how is Method.EXPONENTIAL else by.condition, total_cost(events)
    return {
        "made_by": f"understudy {version('understudy')}",
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": str(how),
        "guarantee": {
            "epsilon": str(epsilon),
            "delta": str(delta),
            "neighbours": "replace-one",
            "conditional_on": condition,
            "reads": "unconditional" if condition is None else f"conditional on {condition}",
        },
        "label": task.label.name if isinstance(task.label, Attribute) else str(task.label),
        "costs": list(task.costs),
        "rows": rows,
        "mistakes": None if told is None else _share_wrong(told, rows, max(task.costs)),
        "spent": {"rho": str(spent.rho), "delta": str(spent.delta)},
        "events": [ev.to_dict(event) for event in events],
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "numba", "pyarrow")},
        },
    }


def _share_wrong(told: tuple[int, Fraction], rows: int, top: int) -> dict[str, Any]:
    """What mistakes cost a row, with an interval that holds with probability 0.95: P(|noise| > k)
    <= exp(-k / scale).
    """
    noisy, scale = told
    margin = math.ceil(scale * math.log(1 / (1 - CONFIDENCE)))
    low, high = max(0, noisy - margin), min(top * rows, noisy + margin)
    return {
        "cost": str(noisy),
        "share": min(max(noisy / rows, 0), top),
        "low": low / rows,
        "high": high / rows,
        "confidence": CONFIDENCE,
    }
