"""``learn()``: a private rule from a table. Checks everything, reserves the budget, learns, reports
how often the rule is wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.api.release import as_schema, ledger_for, say_unread
from understudy.api.session import Booked
from understudy.errors import NotCertified, ParameterError, ReleaseFailed, UnderstudyError, shown
from understudy.learning.learned import Learned
from understudy.learning.manifest import Guarantee, RuleManifest
from understudy.privacy import Argmin, ArgminInBlocks, Meter, Mistakes, SoftArgmin
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.accounting.budget import exact, exact_epsilon
from understudy.privacy.learners import Certifier
from understudy.privacy.ledger.ledger import EARLY, MADE, Ledger
from understudy.privacy.looking import public_rows
from understudy.privacy.perturbation import WEIGHT, perturbation
from understudy.privacy.requests import check_sums, check_task, checked_epsilon
from understudy.queries.base import Neighbours
from understudy.rules import prsma
from understudy.rules.certifiers import certifier_of
from understudy.rules.classes import rule_class
from understudy.rules.counting import counting_of, widest
from understudy.rules.task import Task
from understudy.runtime.progress import watched
from understudy.runtime.watching import Watcher
from understudy.schema import Schema
from understudy.sources import open_source


class Method(StrEnum):
    """How a rule is chosen."""

    EXPONENTIAL = "exponential"  # over every rule, by exact counting: unconditional
    RSPM = "rspm"  # the best under noise, by a solver: conditional on its certificate
    PRSMA = "prsma"  # the same in blocks, robust to failing solves: toy sizes


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
    with watched(progress, None) as watcher:
        return _learn(
            table, schema, label, epsilon, attributes, rules, width, signed, method, delta, costs, report,
            certifier, noise_on, parameters, ledger, watcher,
        )  # fmt: skip


def _learn(
    table: Any,
    schema: Schema | Mapping[str, Any] | str | Path,
    label: str,
    epsilon: Any,
    attributes: Sequence[str] | None,
    rules: str,
    width: int | None,
    signed: bool,
    method: str,
    delta: Any,
    costs: Sequence[int],
    report: Any,
    certifier: str | Certifier,
    noise_on: str | None,
    parameters: Mapping[str, Any] | None,
    ledger: str | Path | Ledger | None,
    watcher: Watcher,
) -> Learned:
    schema = as_schema(schema)
    if parameters is not None and not (
        isinstance(parameters, Mapping) and all(isinstance(name, str) for name in parameters)
    ):
        raise ParameterError("parameters must be a mapping from names to values.")
    how, task = _method(method), Task.of(schema, label, attributes, costs)
    of = rule_class(
        rules, attributes=len(task.attributes), signed=signed, width=width, **dict(parameters or {})
    )
    if how is Method.EXPONENTIAL and width is None:
        of = dataclasses.replace(of, width=widest(of))
    promised, share = exact_epsilon(epsilon), exact(report, "report")
    if not 0 <= share < 1:
        raise ParameterError(
            "report is the share of epsilon for telling how often the rule is wrong: at least 0 and"
            " below 1."
        )
    if (how is Method.PRSMA) != (delta is not None):
        raise ParameterError(
            "delta belongs to prsma, which needs one; the other methods are private without."
        )
    for_report = promised * share
    for_rule = promised - for_report
    by = certifier_of(certifier, of)
    check_task(task, of, schema.shape)
    for part in (for_rule, for_report) if for_report else (for_rule,):
        checked_epsilon(part)
    if how is Method.EXPONENTIAL:
        if noise_on is not None:
            raise ParameterError(
                "noise_on belongs to rspm and prsma; the method exponential adds no noise to"
                " descriptions."
            )
        counting_of(of)
    else:
        by.check(of)
        perturbation(task, of, for_rule, noise_on)
    source = open_source(table, schema)
    book = Booked(ledger_for(ledger, source))
    say_unread(source)
    watcher.stage("counting rows", 1)
    rows = public_rows(source)
    if rows == 0:
        raise ParameterError("The table is empty; there is nothing to learn.")
    check_sums(rows, task, WEIGHT)
    blocks = (
        prsma.checked_plan(rows, for_rule, exact(delta, "delta"), by)
        if how is Method.PRSMA
        else None
    )
    spent = (for_rule / 2) ** 2 / 2 if how is Method.EXPONENTIAL else for_rule**2 / 2
    allowed = Cost(spent + for_report**2 / 2, delta=blocks.delta if blocks else Fraction(0))

    failure: UnderstudyError | None = None
    rule, told, meter = None, None, None
    events: tuple[ev.Event, ...] = ()
    try:
        meter = Meter(
            source, neighbours=Neighbours.REPLACE_ONE, ledger=book, play=allowed, certify=Fraction(0),
            label=f"learning {of.name} by {how}, epsilon {float(promised):.6g}",
        )  # fmt: skip
        # From here on the budget is spent, whatever happens.
        watcher.stage("learning", 1)
        if how is Method.EXPONENTIAL:
            rule = meter.ask(SoftArgmin(task=task, epsilon=for_rule, counting=counting_of(of)))
        elif how is Method.RSPM:
            rule = meter.ask(
                Argmin(task=task, of=of, epsilon=for_rule, certifier=by, noise_on=noise_on)
            )
        else:
            assert blocks is not None
            rule = meter.ask(
                ArgminInBlocks(task=task, of=of, plan=blocks, certifier=by, noise_on=noise_on)
            )
        if for_report and rule is not None:
            watcher.stage("counting mistakes", 1)
            told = meter.ask(Mistakes(task=task, of=of, rule=rule, epsilon=for_report))
        watcher.step()
        events = meter.events
        book.ended(EARLY if rule is None else MADE)
    except BaseException as problem:
        if not book.begun:  # refused, and nothing was charged
            raise
        book.ended(EARLY)
        if not isinstance(problem, Exception):  # interrupted
            problem.add_note(book.in_words("Learning", promised, allowed.delta))
            raise
        # Our own sentences are safe to repeat; a foreign message might quote a cell.
        failure = (
            problem
            if isinstance(problem, UnderstudyError)
            else UnderstudyError("Something unexpected went wrong.")
        )
    finally:
        if meter is not None:
            meter.close()
    if isinstance(failure, NotCertified):
        raise NotCertified(str(failure))
    if failure is not None:
        raise ReleaseFailed(f"{failure} Learning had begun, so its whole budget counts as spent.")
    if rule is None:
        raise ReleaseFailed(
            "Too few blocks of rows could be solved, so prsma gives no rule; its whole budget"
            " counts as spent."
        )
    condition = None if how is Method.EXPONENTIAL else by.condition
    facts = RuleManifest.of(
        task,
        method=how,
        guarantee=Guarantee.of(promised, blocks.delta if blocks else Fraction(0), condition),
        rows=rows,
        told=told,
        events=events,
        ledger=book.where,
    )
    return Learned(schema, task, of, rule, facts)


def _method(given: str) -> Method:
    try:
        return Method(given)
    except ValueError:
        raise ParameterError(f"method is {shown(given)}; it must be {', '.join(Method)}.") from None
