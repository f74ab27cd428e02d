"""``learn()``: a private rule from a table. A request is checked, the table opened, the budget
reserved; a rule is learnt, and how often it is wrong is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.api.session import Promise, ledger_for, open_table, reserve
from understudy.errors import ParameterError, ReleaseFailed
from understudy.learning.learned import Learned
from understudy.learning.manifest import Guarantee, RuleManifest
from understudy.learning.request import LearnRequest, Method
from understudy.privacy import Argmin, ArgminInBlocks, Meter, Mistakes, SoftArgmin
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.learners import Certifier, Rule
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.looking import public_rows
from understudy.privacy.perturbation import WEIGHT
from understudy.privacy.requests import check_sums
from understudy.privacy.verbs.blocks import BlockPlan
from understudy.queries.base import Neighbours
from understudy.rules import prsma
from understudy.rules.counting import counting_of
from understudy.runtime.progress import watched
from understudy.runtime.watching import Watcher
from understudy.schema import Schema

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
        rule, mistakes = _rule(meter, request, blocks, watcher)
    condition = None if request.method is Method.EXPONENTIAL else request.certifier.condition
    facts = RuleManifest.of(
        request.task,
        method=request.method,
        guarantee=Guarantee.of(request.epsilon, delta, condition),
        rows=rows,
        noisy_sum=mistakes,
        events=meter.events,
        ledger=ledger.where,
    )
    return Learned(request.schema, request.task, request.rules, rule, facts)


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
    task, rules, epsilon = request.task, request.rules, request.for_rule
    solved: dict[str, Any] = {"certifier": request.certifier, "noise_on": request.noise_on}
    watcher.stage("learning", 1)
    if blocks is not None:
        winner = meter.ask(ArgminInBlocks(task=task, rules=rules, plan=blocks, **solved))
        if winner is None:
            raise ReleaseFailed(NO_RULE)
        rule = winner
    elif request.method is Method.RSPM:
        rule = meter.ask(Argmin(task=task, rules=rules, epsilon=epsilon, **solved))
    else:
        rule = meter.ask(SoftArgmin(task=task, epsilon=epsilon, counting=counting_of(rules)))
    mistakes = None
    if request.for_report:
        watcher.stage("counting mistakes", 1)
        mistakes = meter.ask(
            Mistakes(task=task, rules=rules, rule=rule, epsilon=request.for_report)
        )
    watcher.step()
    return rule, mistakes
