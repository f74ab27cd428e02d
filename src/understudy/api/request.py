"""What a release, a plan or a rule is asked for: the one place where a request is checked.

Everything here is public and known before a table is opened. What is refused here is refused in the
same sentence to everybody who asks, and nothing was charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from understudy.api.gridstep import GridStep
from understudy.bundle.saving import check_folder
from understudy.constraints.rules import Rules
from understudy.constraints.search import check_rules
from understudy.counting.tally import LARGEST_TABLE
from understudy.errors import NotSupported, ParameterError, SchemaError, SourceError
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism, make, mechanism_of
from understudy.mechanisms.choose import choose
from understudy.privacy import Accountant, Budget, FileLedger
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.accounting.budget import as_accountant, exact_delta, exact_epsilon
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.verbs.measure import charges, sigma_of
from understudy.privacy.verbs.total import EVERYBODY
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload, marginals, query_classes
from understudy.runtime.paths import as_path
from understudy.schema import Schema

CERTIFICATE_SHARE = Fraction(1, 20)  # of rho, for the certificate
TOTAL_SHARE = Fraction(1, 50)  # of what is left, for the number of rows when it is private
MOST_ROWS = 100_000_000  # large enough; of wide tables MOST_CODES allows fewer
MOST_CODES = 2**28  # synthetic rows x columns: one gigabyte
MOST_SEED = 2**63 - 1  # large enough, and a whole number to any reader of a manifest
FEWEST_ROWS_FOR_DEFAULT = 32  # below this, delta = 1/n^2 is above 0.001
# with Gaussian noise alone, no count takes more than one part in so many of rho: the first that a
# mechanism keeps to is best, and 1 asks for nothing
SPREADS = (16, 1)
UNKNOWN_ROWS = 1  # stands for a private number until it is released; no cost depends on it


@dataclass(frozen=True, kw_only=True)
class Request:
    """A release or a plan as it was asked for, and found sound.

    Attributes:
        brief: schema, workload and neighbours.
        epsilon: the promise; delta likewise, or None for 1/n^2 once n is known.
        mechanism: who plays; why that one.
        rows: how many synthetic rows; None for as many as the table has.
        seed: of the public randomness; None for a fresh one.
        ledger: as given; None for the one beside the table.
        out: the folder that a release will be saved to, if that is known.
        accountant: who is to count; None for the best one that the ledger's limits allow.
    """

    brief: Brief
    epsilon: Fraction
    delta: Fraction | None
    mechanism: Mechanism
    why: str
    rows: int | None = None
    seed: int | None = None
    ledger: Ledger | None = None
    out: Path | None = None
    accountant: Accountant | None = None

    @classmethod
    def of(
        cls,
        *,
        schema: Schema | Mapping[str, Any] | str | Path,
        epsilon: Any,
        delta: Any = None,
        workload: Workload | str | None = None,
        mechanism: str | Mechanism = "auto",
        parameters: Mapping[str, Any] | None = None,
        label: str | None = None,
        neighbours: str = "replace-one",
        rows: Any = None,
        seed: Any = None,
        ledger: str | Path | Ledger | None = None,
        out: str | Path | None = None,
        accountant: str | None = None,
    ) -> Request:
        """The request of these arguments, or a refusal in a sentence."""
        described = as_schema(schema)
        work, relation = as_workload(workload, described), as_neighbours(neighbours)
        brief = Brief(schema=described, workload=work, neighbours=relation)
        chosen, why = as_mechanism(mechanism, parameters, brief, label)
        return cls(
            brief=brief,
            epsilon=exact_epsilon(epsilon),
            delta=as_delta(delta, relation),
            mechanism=chosen,
            why=why,
            rows=as_whole_number(rows, "rows", 1, most_rows(described)),
            seed=as_whole_number(seed, "seed", 0, MOST_SEED),
            ledger=as_ledger(ledger),
            out=as_folder(out),
            accountant=None if accountant is None else as_accountant(accountant),
        )

    def decide(self, n: int | None, limited: Accountant | None = None) -> Decision:
        """What to do with a table of ``n`` rows, None if their number is private; a refusal if the
        promise does not go with so many, or does not allow it. ``limited`` says by whom the limits
        of its ledgers count.
        """
        delta, by = self._delta(n), self.accountant or limited
        if by is not Accountant.RHO and self.mechanism.can_be_gaussian:
            for spread in SPREADS if limited is None else (1,):
                decision = self._gaussian(n, delta, spread)
                if decision is not None:
                    return decision
        if self.accountant is Accountant.GAUSSIAN:
            raise ParameterError(
                f"{self.mechanism.name} does not draw Gaussian noise alone here, so the accountant"
                " gaussian cannot count it; name rho, or a mechanism that measures all at once."
            )
        return self._decide(n, Budget.of(epsilon=self.epsilon, delta=delta))

    def _gaussian(self, n: int | None, delta: Fraction, spread: int) -> Decision | None:
        """A decision that is counted as Gaussian noise alone; None where it is not, or some count
        would take too much.
        """
        budget = Budget.of(
            epsilon=self.epsilon, delta=delta, accountant=Accountant.GAUSSIAN, spread=spread
        )
        decision, least = self._decide(n, budget), budget.least_variance
        assert least is not None
        beside = [1 / (2 * for_certificate(budget)), decision.means.rows_sigma**2 or least]
        grids = on_grids(self.brief, budget)
        beside += (
            []
            if grids is None or grids.cost.least_variance is None
            else [grids.cost.least_variance]
        )
        return decision if decision.cost.is_gaussian(least) and min(beside) >= least else None

    def _decide(self, n: int | None, budget: Budget) -> Decision:
        rho = for_mechanism(self.brief, budget)
        means = means_of(self.brief.neighbours, budget, rho, n)
        decision = decision_of(self.mechanism, self.brief, means)
        certify = Cost(for_certificate(budget), least_variance=budget.least_variance)
        grids = on_grids(self.brief, budget)
        beside = certify if grids is None else certify + grids.cost
        if not (reservation(decision, rho) + beside).fits(budget):
            raise ParameterError(
                f"The mechanism {self.mechanism.name} asks for more than the promised epsilon and"
                " delta allow."
            )
        return decision

    def _delta(self, n: int | None) -> Fraction:
        """The promise's; it is checked against n only where n is public."""
        if n == 0:
            raise SourceError("The table is empty; there is nothing to release.")
        delta = self.delta
        if delta is None:
            assert n is not None  # see as_delta
            delta = default_delta(n)
        elif n is not None and self.brief.neighbours is Neighbours.REPLACE_ONE:
            check_delta(delta, n)
        return delta


def for_certificate(budget: Budget) -> Fraction:
    """The rho that is set aside for the certificate."""
    return budget.rho * CERTIFICATE_SHARE


def for_play(budget: Budget) -> Fraction:
    """The rho that is left for everything else."""
    return budget.rho - for_certificate(budget)


def on_grids(brief: Brief, budget: Budget) -> GridStep | None:
    """What is measured of single columns on their grids; None where no column has one."""
    return GridStep.of(brief.schema, brief.neighbours, for_play(budget))


def for_mechanism(brief: Brief, budget: Budget) -> Fraction:
    """The rho that is left for everything but the certificate and the grids."""
    step, rho = on_grids(brief, budget), for_play(budget)
    return rho if step is None else rho - step.rho


def means_of(neighbours: Neighbours, budget: Budget, rho: Fraction, n: int | None) -> Means:
    """What ``rho`` leaves a mechanism, once the number of rows is bought where it is private; None
    for a number that nobody knows yet.
    """
    rows = UNKNOWN_ROWS if n is None else n
    if neighbours is Neighbours.REPLACE_ONE:
        return Means(budget=budget, rho=rho, rows=rows)
    (count,) = charges([EVERYBODY], rho * TOTAL_SHARE, neighbours)
    left = rho - total_cost([count]).rho
    return Means(budget=budget, rho=left, rows=rows, rows_sigma=sigma_of(count))


def decision_of(mechanism: Mechanism, brief: Brief, means: Means) -> Decision:
    """What a mechanism decides, on the brief and the means of the request and no others: what is
    reserved, and what the certificate may spend, follow from these.
    """
    decision = mechanism.decide(brief, means)
    if type(decision) is not Decision or (decision.brief, decision.means) != (brief, means):
        raise ParameterError(
            f"The mechanism {mechanism.name} decides on another brief or other means than it was"
            " given; its author returns a Decision with those of the request."
        )
    if not decision.cost.is_sound:
        raise ParameterError(
            f"The mechanism {mechanism.name} asks for a part of the budget that is below 0; a"
            " decision costs at least nothing."
        )
    # what only says that it equals the request's goes no further
    return replace(decision, brief=brief, means=means)


def reservation(decision: Decision, rho: Fraction) -> Cost:
    """What to reserve of ``rho``: the mechanism's cost, and that of a private number of rows; for
    Gaussian noise alone, if the promise is counted so.
    """
    whole = decision.cost + Cost(rho - decision.means.rho)
    return replace(whole, least_variance=decision.means.budget.least_variance)


def as_schema(value: Schema | Mapping[str, Any] | str | Path) -> Schema:
    if isinstance(value, Schema):
        schema = value
    elif isinstance(value, Mapping):
        schema = Schema.from_dict(value)
    elif isinstance(value, (str, Path)):
        schema = Schema.load(value)
    else:
        raise ParameterError("schema must be a Schema, a mapping, or the path of a schema file.")
    try:
        schema.digest  # noqa: B018 (kept; a schema that cannot be written must be refused before a budget is spent on it)
    except UnicodeEncodeError:
        raise SchemaError(
            "The schema holds text that cannot be written as UTF-8; change that name or category."
        ) from None
    if not schema.reads_back:
        raise SchemaError(
            "The schema has a column whose bins cannot be written to a file; make it with"
            " Schema.from_dict."
        )
    check_rules(Rules.of(schema))
    return schema


def as_workload(value: Workload | str | None, schema: Schema) -> Workload:
    if value is None:
        work = marginals(schema, k=min(2, len(schema)))
    elif isinstance(value, str):
        work = Workload.parse(value, schema)
    elif isinstance(value, Workload):
        work = value
    else:
        raise ParameterError(
            "workload must be a Workload, a text such as '3-way:64@7', or the path of a workload"
            " file."
        )
    if work.schema != schema:
        raise ParameterError("The workload is written for another schema than the table's.")
    classes = query_classes()
    for batch in work:
        if classes.get(batch.kind) is not type(batch):
            raise NotSupported(
                f"Queries of the kind {batch.kind} could be asked but not read back from the"
                " release; put their class into queries/ or announce it by an entry point"
                " (docs/add-a-query-class.md)."
            )
    widest = max(batch.size for batch in work)
    if widest > LARGEST_TABLE:
        raise NotSupported(
            f"The workload has a marginal of {widest:,} cells, more than can be numbered; ask for"
            " fewer columns."
        )
    return work


def as_neighbours(value: str) -> Neighbours:
    try:
        return Neighbours(value)
    except ValueError:
        shown = f"{value[:40]!r}" if isinstance(value, str) else f"of type {type(value).__name__}"
        raise ParameterError(
            f"neighbours is {shown}; it must be replace-one or add-remove-one."
        ) from None


def as_parameters(values: Mapping[str, Any] | None) -> dict[str, Any]:
    if values is not None and not (
        isinstance(values, Mapping) and all(isinstance(name, str) for name in values)
    ):
        raise ParameterError("parameters must be a mapping from names to values.")
    return dict(values or {})


def with_label(
    wanted: str | Mechanism, parameters: dict[str, Any], label: str | None
) -> dict[str, Any]:
    """The parameters, and among them the label, of a mechanism that has one."""
    if label is None:
        return parameters
    if not isinstance(label, str):
        raise ParameterError("label is the name of a column.")
    if not isinstance(wanted, str):
        raise ParameterError("Give the label to the mechanism that you made, or name one instead.")
    if wanted == "auto":
        return parameters
    if "label" not in {f.name for f in fields(mechanism_of(wanted))}:
        raise NotSupported(
            f"A label steers the mechanism arp; {wanted} has no use for one. Leave the label out,"
            " or name arp."
        )
    if parameters.get("label", label) != label:
        raise ParameterError("Two labels were given, which differ; give one of them.")
    return {**parameters, "label": label}


def as_mechanism(
    wanted: str | Mechanism,
    parameters: Mapping[str, Any] | None,
    brief: Brief,
    label: str | None = None,
) -> tuple[Mechanism, str]:
    """(the mechanism as asked for, or the best one for the brief; why), once it is known that it
    serves the brief.
    """
    named = with_label(wanted, as_parameters(parameters), label)
    if not isinstance(wanted, str) or wanted != "auto":
        chosen, why = make(wanted, named), "you asked for it"
    elif named:
        raise ParameterError("Parameters belong to a mechanism; name one instead of auto.")
    else:
        chosen, why = choose(brief, label)
    if brief.neighbours not in chosen.relations:
        raise NotSupported(
            f"{chosen.name} is proved private under {' or '.join(chosen.relations)} only; name"
            " another mechanism or relation."
        )
    chosen.check(brief)
    return chosen, why


def as_ledger(value: str | Path | Ledger | None) -> Ledger | None:
    if isinstance(value, (str, Path)):
        return FileLedger(as_path(value, "ledger"))
    if value is not None and not (
        callable(getattr(value, "reserve", None)) and isinstance(getattr(value, "where", None), str)
    ):
        raise ParameterError("ledger is the path of a file, or a ledger.")
    return value


def as_folder(value: str | Path | None) -> Path | None:
    """A folder that a release can be saved to."""
    if value is None:
        return None
    place = as_path(value, "the release's folder")
    check_folder(place)
    return place


def as_delta(value: Any, neighbours: Neighbours) -> Fraction | None:
    if value is None:
        if neighbours is Neighbours.ADD_REMOVE_ONE:
            raise ParameterError(
                "delta is required with add-remove-one, because its default 1/n^2 would reveal the"
                " private n."
            )
        return None
    return exact_delta(value)


def check_delta(delta: Fraction, n: int) -> None:
    """Raise unless the failure mass is below one row's share."""
    if not delta < Fraction(1, n):
        raise ParameterError(
            f"delta must lie strictly between 0 and 1/n = {1 / n:.3g}; a common choice is 1/n^2."
        )


def default_delta(n: int) -> Fraction:
    """1/n^2, which is a promise only when n is not tiny."""
    if n < FEWEST_ROWS_FOR_DEFAULT:
        raise ParameterError(
            f"A table of fewer than {FEWEST_ROWS_FOR_DEFAULT} rows needs delta to be given: 1/n^2"
            " would be no promise."
        )
    return Fraction(1, n**2)


def as_whole_number(value: Any, name: str, low: int, high: int) -> int | None:
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, np.integer))
        or not low <= value <= high
    ):
        raise ParameterError(f"{name} must be a whole number from {low:,} to {high:,}.")
    return int(value)


def most_rows(schema: Schema) -> int:
    """The most synthetic rows of a table: a wide one is released with fewer rows than it has.
    Public numbers alone decide.
    """
    return max(1, min(MOST_ROWS, MOST_CODES // len(schema)))
