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
    ├── SavedElsewhere            what was made is whole, in another place than was named    exit code 6
    └── BundleError               a release folder is unreadable or fails verification    exit code 1

    Unread                        a warning: something public was given that nobody reads
    LedgerWarning                 a warning: what no ledger will remember, or know again

Messages are sentences: what was called, what was given, what is allowed, what to do next. They
never quote a cell of the sensitive table, because an error that depends on one person's cell is
a leak.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from fractions import Fraction
from pathlib import Path

MOST_SHOWN = 80  # characters of a value in a message, about one line


def shown(value: object) -> str:
    """A public value as a message quotes it: a part of one line, whatever was given."""
    if isinstance(value, str) and len(value) > MOST_SHOWN:
        return f"{value[:MOST_SHOWN]!r}..."
    if (
        isinstance(value, (str, bool, float))
        or value is None
        or (isinstance(value, int) and abs(value) < 10**MOST_SHOWN)
    ):
        return repr(value)
    return f"something of type {type(value).__name__}"


class Unread(UserWarning):
    """Something public was given that nobody reads: a key of a schema, or columns of a table.
    Nothing is wrong, but look.
    """


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
    """A charge would exceed the budget; the sentence names the cost and what is left.

    Attributes:
        left: the rho that the limit still allows; None where it cannot be said.
    """

    exit_code = 3

    def __init__(self, sentence: str = "", left: Fraction | None = None) -> None:
        super().__init__(sentence)
        self.left = left


class LedgerDamaged(UnderstudyError):
    """The ledger file was altered, truncated in the middle, or is not a ledger."""

    exit_code = 4


class ReleaseFailed(UnderstudyError):
    """A release that had begun could not be finished; its whole reservation counts as spent."""

    exit_code = 5


class NotCertified(ReleaseFailed):
    """A solver that ran on private rows gave no proof that holds; what was charged stays charged."""


class SavedElsewhere(UnderstudyError):
    """What was made and paid for could not be written where it was wanted, and is kept in another
    place.

    Attributes:
        place: where it is.
    """

    exit_code = 6

    def __init__(self, why: str, what: str, place: Path) -> None:
        self.place = place
        check = (
            ""
            if place.is_file()
            else f" Check it with: understudy verify {shlex.quote(str(place))}"
        )
        super().__init__(
            f"{why} {what} is whole and kept in {str(place)!r}; move it to where you want"
            f" it.{check}"
        )


class LedgerWarning(UserWarning):
    """Not an error: what no ledger will remember, or know again."""


class BundleError(UnderstudyError):
    """A release folder is unreadable, or its contents contradict its manifest."""


def warn(sentence: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here, however deep it was called."""
    level, frame = 1, sys._getframe()
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "understudy"
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=level)
