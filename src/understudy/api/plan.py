"""``plan()``: what a release would do and how good it can be, from public facts alone. Needs no
data and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.api import effort
from understudy.api.request import Request, as_whole_number, most_rows, on_grids
from understudy.constraints.rules import Rules
from understudy.errors import ParameterError
from understudy.mechanisms.base import Mechanism
from understudy.queries.workload import Workload
from understudy.schema import Schema

# The largest error of fitted rows was 2 to 3.5 times the noise of a measured count where all was
# measured at once.
LARGEST_IN_SIGMAS = 3.0
MOST_PLANNED = 10**15  # rows; no table has more
MOSTLY_NOISE = 0.1  # a largest error beyond this leaves little to see


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to expect of a release.

    Attributes:
        mechanism: the mechanism's name; ``why`` it was chosen; ``how`` it will go about it.
        details: what is counted of single columns inside their bins; empty if nothing is.
        parameters: its parameters, as given or as its public rule decides them for so many rows,
            and what else the rule comes to; the release's manifest has the same.
        rho: the budget that epsilon and delta allow; ``accountant``, by whom: a limit on the table
            may ask for another.
        noise: standard deviation of one measured count, as a share of the rows; None when it cannot
            be said.
        largest_error: about how far off the worst answer may be, likewise; a rule of thumb, not a
            promise.
        seconds: rough CPU time; ``memory`` in bytes, rough.
        warnings: what to think about before spending anything.
        rules: what every row will keep, in words.
    """

    mechanism: str
    why: str
    how: str
    details: str
    parameters: Mapping[str, bool | int | float | str | None]
    rho: float
    accountant: str
    delta: float
    queries: int
    noise: float | None
    largest_error: float | None
    seconds: float | None
    memory: int | None
    warnings: tuple[str, ...]
    rules: tuple[str, ...] = ()


def plan(
    schema: Schema | Mapping[str, Any] | str | Path,
    *,
    rows: int,
    epsilon: Any,
    delta: Any = None,
    workload: Workload | str | None = None,
    mechanism: str | Mechanism = "auto",
    parameters: Mapping[str, Any] | None = None,
    label: str | None = None,
    neighbours: str = "replace-one",
    accountant: str | None = None,
) -> Plan:
    """Say what :func:`release` would do with a table of about ``rows`` rows, without looking at
    any.

    Examples:
        >>> made = plan({"a": 3, "b": 3, "c": 4}, rows=10_000, epsilon=1.0)
        >>> made.mechanism, made.warnings
        ('arp', ())
    """
    request = Request.of(
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        workload=workload,
        mechanism=mechanism,
        parameters=parameters,
        label=label,
        neighbours=neighbours,
        accountant=accountant,
    )
    n = as_whole_number(rows, "rows", 1, MOST_PLANNED)
    if n is None:
        raise ParameterError(
            "rows says about how many rows the table has: a whole number of at least 1."
        )
    decision = request.decide(n)
    work, outlook, budget = request.brief.workload, decision.outlook, decision.means.budget
    released = min(n, most_rows(request.brief.schema))
    grids = on_grids(request.brief, budget)
    largest = (
        None
        if outlook is None
        else min(1.0, LARGEST_IN_SIGMAS * outlook.sigma / n + outlook.unmeasured)
    )
    return Plan(
        mechanism=request.mechanism.name,
        why=request.why,
        how=decision.how,
        details="" if grids is None else grids.words,
        parameters={**decision.parameters, **decision.numbers},
        rho=float(budget.rho),
        accountant=str(budget.accountant),
        delta=float(budget.delta or 0),
        queries=work.size,
        noise=None if outlook is None else outlook.sigma / n,
        largest_error=largest,
        seconds=None if outlook is None else effort.seconds(work, outlook, n, released),
        memory=None if outlook is None else effort.memory(work, outlook, n, released),
        warnings=tuple(_warnings(work, n, largest, request.mechanism.name)),
        rules=tuple(rule.words for rule in Rules.of(request.brief.schema)),
    )


def _warnings(work: Workload, rows: int, largest: float | None, name: str) -> list[str]:
    warnings = []
    if largest is not None and largest > MOSTLY_NOISE:
        warnings.append(
            f"This will be mostly noise: the worst answers may be off by {largest:.0%} of all rows."
            " Ask for fewer marginals, use a larger epsilon, or more rows."
        )
    if largest is None:
        warnings.append(
            f"The error of {name} depends on the data and cannot be said beforehand; its release"
            " has a certificate."
        )
    if rows < 1000:
        warnings.append(
            f"{rows:,} rows are few: noise is counted in people, and a count of 10 drowns in it."
        )
    widest = max((batch.size for batch in work.marginals), default=0)
    if widest > 100 * rows:
        warnings.append(
            f"The widest marginal has {widest:,} cells for {rows:,} rows; nearly all are empty and"
            " will be answered with 0."
        )
    return warnings
