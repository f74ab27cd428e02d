"""Understudy: differentially private stand-ins for sensitive tables.

The rooms, in the order the data flows (``docs/design.md`` has the reasons):

    runtime/      0  under every room: compiled kernels, files, memory, progress
    schema/       1  what is PUBLIC about the table: columns, categories, bounds, bins
    counting/     2  counting coded rows, whoever owns them
    sources/      3  where the sensitive rows live: in memory, in files, as items of each person
    queries/      4  what may be asked: marginals, functions of k literals, conjunctions
    privacy/      5  THE ROOM: meter, verbs, noise, accounting, ledger, proofs
    oracles/      6  which record is best against some queries
    rules/        7  classes of yes/no rules, and who may solve for the best of them
    constraints/  8  rules that every released row keeps, and rows that are made to
    game/         9  the one loop, its players, and the fits that turn answers into rows
    mechanisms/  10  what we recommend; mechanisms/papers/ the published algorithms
    bundle/      11  the release as a folder: rows, answers, certificate, manifest; ``verify``
    api/         12  what people call: release, plan, project, the demo
    learning/    13  ``learn()``: a private rule for a yes/no label; scikit-learn estimators
    audit/       14  whether this build keeps its claims, on invented tables
    cli/         15  the command

    checks.py        the conformance kit;  errors.py  the exception tree
"""

from importlib.metadata import version as _version

from understudy.api.plan import Plan, plan
from understudy.api.project import project
from understudy.api.release import release
from understudy.bundle import Answers, Release, verify
from understudy.errors import (
    BudgetRefused,
    BundleError,
    InputError,
    LedgerDamaged,
    LedgerWarning,
    NotSupported,
    ParameterError,
    ReleaseFailed,
    SchemaError,
    SourceError,
    UnderstudyError,
    WorkloadError,
)
from understudy.learning.learn import learn
from understudy.learning.learned import Learned
from understudy.mechanisms.base import Mechanism, available_mechanisms
from understudy.privacy import Budget, Certificate, FileLedger, Measurement
from understudy.queries.literals import Literal, Query, all_of, any_of, at_least, parity
from understudy.queries.marginal import Marginal
from understudy.queries.workload import (
    Workload,
    all_conjunctions,
    explicit,
    marginals,
    random_conjunctions,
)
from understudy.schema import Boolean, Categorical, Moment, Number, Schema

__version__ = _version("understudy")

__all__ = [
    "Answers",
    "Boolean",
    "Budget",
    "BudgetRefused",
    "BundleError",
    "Categorical",
    "Certificate",
    "FileLedger",
    "InputError",
    "Learned",
    "LedgerDamaged",
    "LedgerWarning",
    "Literal",
    "Marginal",
    "Measurement",
    "Mechanism",
    "Moment",
    "NotSupported",
    "Number",
    "ParameterError",
    "Plan",
    "Query",
    "Release",
    "ReleaseFailed",
    "Schema",
    "SchemaError",
    "SourceError",
    "UnderstudyError",
    "Workload",
    "WorkloadError",
    "all_conjunctions",
    "all_of",
    "any_of",
    "at_least",
    "available_mechanisms",
    "explicit",
    "learn",
    "marginals",
    "parity",
    "plan",
    "project",
    "random_conjunctions",
    "release",
    "verify",
]
