"""What a rule is asked for: what all requests share is checked in ``api/request.py``, what is a
learner's own is checked here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.api.request import as_ledger, as_parameters, as_schema
from understudy.errors import ParameterError, shown
from understudy.privacy.accounting.budget import exact, exact_delta, exact_epsilon
from understudy.privacy.learners import Certifier
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.perturbation import perturbation
from understudy.privacy.requests import check_task, checked_epsilon
from understudy.rules.base import RuleClass
from understudy.rules.certifiers import certifier_of
from understudy.rules.classes import rule_class
from understudy.rules.counting import counting_of, widest
from understudy.rules.task import Task
from understudy.schema import Schema


class Method(StrEnum):
    """How a rule is chosen."""

    EXPONENTIAL = "exponential"  # over every rule, by exact counting: unconditional
    RSPM = "rspm"  # the best under noise, by a solver: conditional on its certificate
    PRSMA = "prsma"  # the same in blocks, robust to failing solves: toy sizes


@dataclass(frozen=True, kw_only=True)
class LearnRequest:
    """A rule as it was asked for, and found sound; replace-one neighbours throughout.

    Attributes:
        schema: what is public about the table.
        task: the question and the questions that rules are made of.
        rules: the class to choose from.
        method: how; certifier: who solves and proves; noise_on: what noise is added to.
        epsilon: the promise, of which for_report tells how often the rule is wrong.
        delta: of prsma, None for the others.
        ledger: as given; None for the one beside the table.
    """

    schema: Schema
    task: Task
    rules: RuleClass
    method: Method
    epsilon: Fraction
    for_report: Fraction
    delta: Fraction | None
    certifier: Certifier
    noise_on: str | None
    ledger: Ledger | None

    @property
    def for_rule(self) -> Fraction:
        return self.epsilon - self.for_report

    @property
    def rho(self) -> Fraction:
        """What to reserve: an exponential mechanism costs an eighth of epsilon squared, any other
        answer half of it.
        """
        rule = self.for_rule / 2 if self.method is Method.EXPONENTIAL else self.for_rule
        return rule**2 / 2 + self.for_report**2 / 2

    @classmethod
    def of(
        cls,
        *,
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
    ) -> LearnRequest:
        """The request of these arguments, or a refusal in a sentence."""
        described, own = as_schema(schema), as_parameters(parameters)
        how, task = as_method(method), Task.of(described, label, attributes, costs)
        among = rule_class(
            rules, attributes=len(task.attributes), signed=signed, width=width, **own
        )
        if how is Method.EXPONENTIAL and width is None:
            among = dataclasses.replace(among, width=widest(among))
        promised = exact_epsilon(epsilon)
        request = cls(
            schema=described,
            task=task,
            rules=among,
            method=how,
            epsilon=promised,
            for_report=promised * as_report(report),
            delta=as_delta(delta, how),
            certifier=certifier_of(certifier, among),
            noise_on=noise_on,
            ledger=as_ledger(ledger),
        )
        request._check()
        return request

    def _check(self) -> None:
        """Raise unless the method can be carried out, whatever the number of rows."""
        check_task(self.task, self.rules, self.schema.shape)
        for batch in (self.for_rule, *([self.for_report] if self.for_report else [])):
            checked_epsilon(batch)
        if self.method is not Method.EXPONENTIAL:
            self.certifier.check(self.rules)
            perturbation(self.task, self.rules, self.for_rule, self.noise_on)
            return
        if self.noise_on is not None:
            raise ParameterError(
                "noise_on belongs to rspm and prsma; the method exponential adds no noise to"
                " descriptions."
            )
        counting_of(self.rules)


def as_method(value: str) -> Method:
    try:
        return Method(value)
    except ValueError:
        raise ParameterError(f"method is {shown(value)}; it must be {', '.join(Method)}.") from None


def as_report(value: Any) -> Fraction:
    share = exact(value, "report")
    if not 0 <= share < 1:
        raise ParameterError(
            "report is the share of epsilon for telling how often the rule is wrong: at least 0 and"
            " below 1."
        )
    return share


def as_delta(value: Any, method: Method) -> Fraction | None:
    if (method is Method.PRSMA) != (value is not None):
        raise ParameterError(
            "delta belongs to prsma, which needs one; the other methods are private without."
        )
    return None if value is None else exact_delta(value)
