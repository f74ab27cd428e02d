"""Understudy: differentially private stand-ins for sensitive tables.

The rooms, in the order the data flows (``docs/design.md`` has the reasons):

    schema/       0  what is PUBLIC about the table: columns, categories, bounds, bins
    sources/      1  where the sensitive rows live: in memory, in files, or as items of each person
    queries/      2  what may be asked: whole marginals, symmetric functions of k literals, arrays of conjunctions, all of them
    privacy/      3  THE ROOM: budget, events, accountant, noise, meter, ledger, PROOFS.md
    players/      5  data players (never hold the meter) and query players (hold it)
    game.py          the one loop
    mechanisms/   6  one paper, one file
    synthesis/    7  from a finished play to rows
    bundle/       8  the release as a folder: rows, answers, certificate, manifest, report; ``verify``
    cli/          9  the command
    front_door.py    ``release()``, the one way in
    learning/        ``learn()``: a private rule that predicts a yes/no label; estimators for scikit-learn
    plan.py          ``plan()``: what to expect, before anything is spent
    project.py       ``project()``: rows from noisy tables that come from elsewhere
    compiled.py      kernels that Numba compiles on first use;  progress.py  what is seen of long work
    tally.py         counting coded rows: the two verbs of sources and of released rows
    fence.py         names every side door around the privacy room
    checks.py        the conformance kit;  discovery.py  finds what a folder holds
    demo.py          a fictional population, so that the demo needs no data
    paths.py         names of files, checked;  errors.py  the exception tree
"""

from importlib.metadata import version as _version

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
from understudy.front_door import release
from understudy.learning.learn import learn
from understudy.learning.learned import Learned
from understudy.mechanisms.base import Mechanism, available_mechanisms
from understudy.plan import Plan, plan
from understudy.privacy import Budget, Certificate, FileLedger, Measurement
from understudy.project import project
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Literal, Query, all_of, any_of, at_least, parity
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
