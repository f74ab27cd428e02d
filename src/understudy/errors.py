"""Every exception that Understudy raises on purpose.

    UnderstudyError
    ├── InputError                what was asked cannot be done; nothing was charged      exit code 2
    │   ├── ParameterError        a number or name outside what is allowed
    │   ├── SchemaError           the public description of the table is wrong
    │   ├── SourceError           the table cannot be opened, or does not fit its schema
    │   ├── WorkloadError         the queries are malformed
    │   └── NotSupported          this mechanism cannot serve this request
    ├── BudgetRefused             the privacy budget does not allow it; nothing charged   exit code 3
    ├── LedgerDamaged             the ledger's hash chain is broken                       exit code 4
    ├── ReleaseFailed             a release died after its budget was reserved: it is spent   exit code 5
    │   └── NotCertified          a solver on private rows gave no proof that holds
    └── BundleError               a release folder is unreadable or fails verification    exit code 1

Messages are sentences: what was called, what was given, what is allowed, what to do next. They
never quote a cell of the sensitive table, because an error that depends on one person's cell is
a leak.
"""

from __future__ import annotations

MOST_SHOWN = 80


def shown(value: object) -> str:
    """A public value that somebody gave, as a message quotes it: a part of one line, whatever was given."""
    if isinstance(value, str) and len(value) > MOST_SHOWN:
        return f"{value[:MOST_SHOWN]!r}..."
    if isinstance(value, (str, bool, float)) or value is None or (isinstance(value, int) and abs(value) < 10**MOST_SHOWN):
        return repr(value)
    return f"something of type {type(value).__name__}"


class UnderstudyError(Exception):
    """The root: catch this to catch everything that Understudy raises on purpose."""

    exit_code = 1


class InputError(UnderstudyError, ValueError):
    """A request that cannot be met; raised before anything is charged."""

    exit_code = 2


class ParameterError(InputError):
    """A number, name or combination of arguments outside what is allowed."""


class SchemaError(InputError):
    """The public description of the table is malformed."""


class SourceError(InputError):
    """The table cannot be opened, or lacks a column that the schema names."""


class WorkloadError(InputError):
    """The queries are malformed or do not fit the schema."""


class NotSupported(InputError):
    """A mechanism was asked for something that it cannot do; the sentence says what can."""


class BudgetRefused(UnderstudyError):
    """A charge would exceed the budget; the sentence names the cost and what is left."""

    exit_code = 3


class LedgerDamaged(UnderstudyError):
    """The ledger file was altered, truncated in the middle, or is not a ledger."""

    exit_code = 4


class ReleaseFailed(UnderstudyError):
    """A release that had begun could not be finished; its whole reservation counts as spent."""

    exit_code = 5


class NotCertified(ReleaseFailed):
    """A solver that ran on private rows gave no proof that holds; what was charged stays charged."""


class BundleError(UnderstudyError):
    """A release folder is unreadable, or its contents contradict its manifest."""
