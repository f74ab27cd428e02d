"""What a mechanism is, and how they are found."""

from __future__ import annotations

import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import entry_points
from typing import Any, ClassVar

import numpy as np

from understudy.errors import ParameterError, shown
from understudy.game.loop import Played
from understudy.privacy import Budget, Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload
from understudy.runtime.discovery import classes_in
from understudy.runtime.watching import Watcher
from understudy.schema import Schema
from understudy.schema.keys import meant

ENTRY_POINTS = "understudy.mechanisms"
PLAIN = {
    bool: "true or false",
    int: "a whole number",
    Fraction: "a number",
    float: "a number",
    str: "a word",
    type(None): "nothing",
}
# of a parameter that is a number and not zero; beyond them no noise can be drawn
LEAST_SIZE, MOST_SIZE = Fraction(1, 10**6), 10**15
LONGEST_WORD = 100
# never the object that a field of another kind is for
JUDGED = (*PLAIN, complex, bytes, Decimal, list, tuple, dict, set, np.ndarray)


@dataclass(frozen=True, kw_only=True)
class Brief:
    """The public facts that a mechanism plans with."""

    schema: Schema
    workload: Workload
    neighbours: Neighbours


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a mechanism expects to do, said before any row is read."""

    how: str
    sigma: float  # noise of one measured count, in people
    tables: int  # counted among the rows
    cells: int  # of everything counted
    drawn: int  # cells that get noise
    rounds: int  # in which all that was counted is looked at again
    sweep: float  # seconds to visit every cell of one fitted row once, when everything is measured
    sweeps: float  # so many of them over the rows that are kept while playing
    # about how far off, as a share of the rows, answers are that nothing was measured for
    unmeasured: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """One paper, one short file: a frozen set of parameters that pairs two players.

    Fields of a subclass are its parameters. They are public and must never be tuned on the
    sensitive table; ``None`` means "by the public rule in the file".
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    in_short: ClassVar[str] = ""  # the summary in at most 50 letters, for a list of one line each
    reference: ClassVar[str]
    # which neighbours it is proved private for
    relations: ClassVar[tuple[Neighbours, ...]] = tuple(Neighbours)
    # with which parameters its privacy rests on something beside the proofs, and on what
    conditions: ClassVar[str] = ""
    # checks of the conformance kit that do not apply, each with the reason
    exempt: ClassVar[Mapping[str, str]] = {}

    @property
    def conditional_on(self) -> str | None:
        """What its privacy rests on beside the proofs, such as a solver's certificate; None when on
        nothing.
        """
        return None

    @abstractmethod
    def check(self, brief: Brief) -> None:
        """Raise NotSupported or ParameterError, in a sentence, if this cannot be served; nothing is
        charged yet.
        """

    def allowance(self, brief: Brief, rho: Fraction) -> Cost:
        """What to reserve when ``rho`` is available; a mechanism with another kind of cost
        overrides this.
        """
        return Cost(rho)

    def settled(
        self, brief: Brief, budget: Budget, rho: Fraction, rows: int | None
    ) -> tuple[Mechanism, Cost]:
        """The mechanism to play, and what to reserve for it, once all public numbers are known;
        nothing is charged yet.

        ``rho`` is what the certificate leaves of the budget, ``rows`` the number of rows or None
        when it is private. A mechanism whose parameters and cost depend on each other settles both
        here, or raises ParameterError in a sentence.
        """
        return self, self.allowance(brief, rho)

    def outlook(self, brief: Brief, rho: Fraction, people: int) -> Outlook | None:
        """What to expect for ``people`` rows, or None when that cannot be said."""
        return None

    def model_numbers(self, brief: Brief) -> int:
        """About how many numbers the model has that it leaves in a bundle; 0 if it leaves rows
        alone.
        """
        return 0

    def unkept(self, workload: Workload, neighbours: Neighbours, rows: int) -> Sequence[int]:
        """The squared sensitivities of noisy sums that it asks for and does not keep, in order, so
        that a bundle can be checked.
        """
        return ()

    @abstractmethod
    def play(
        self, brief: Brief, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        """Spend what ``meter.left`` allows and return a model. ``rng`` is public randomness."""

    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values, for the manifest."""
        return dataclasses.asdict(self)


def available_mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism: those in this folder, and those that installed packages announce."""
    import understudy.mechanisms as room

    found = {kind.name: kind for kind in classes_in(room, Mechanism)}  # type: ignore[type-abstract]
    for entry in entry_points(group=ENTRY_POINTS):
        thing = entry.load()
        found.setdefault(thing.name, thing)
    return dict(sorted(found.items()))


def mechanism_of(name: str) -> type[Mechanism]:
    """The mechanism of a name, or a refusal that says which there are."""
    known = available_mechanisms()
    if not isinstance(name, str):
        raise ParameterError(
            f"mechanism must be a name or a Mechanism, not of type {type(name).__name__}."
        )
    if name not in known:
        raise ParameterError(
            f"There is no mechanism {shown(name)}{meant(name, known)}; there are auto,"
            f" {', '.join(known)}."
        )
    return known[name]


def make(mechanism: str | Mechanism, parameters: dict[str, Any] | None = None) -> Mechanism:
    """A mechanism from its name and parameters, or as given."""
    if isinstance(mechanism, Mechanism):
        if parameters:
            raise ParameterError(
                "Parameters were given beside a mechanism that already has its own; give one or the"
                " other."
            )
        return check_types(mechanism)
    kind = mechanism_of(mechanism)
    allowed = [f.name for f in dataclasses.fields(kind)]
    for name in parameters or {}:
        if name not in allowed:
            listed = ", ".join(allowed) or "none"
            raise ParameterError(
                f"The mechanism {kind.name} has no parameter {shown(name)}{meant(name, allowed)};"
                f" it has {listed}."
            )
    return check_types(kind(**(parameters or {})))


def check_types(mechanism: Mechanism) -> Mechanism:
    """Raise unless every parameter is of a kind that its field is annotated with; what a mechanism
    calls a number is then one.
    """
    hints = typing.get_type_hints(type(mechanism))
    for f in dataclasses.fields(mechanism):
        listed = typing.get_args(hints[f.name]) or (hints[f.name],)
        # the words of a Literal are words
        allowed = {str if isinstance(kind, str) else kind for kind in listed}
        value = getattr(mechanism, f.name)
        judged = isinstance(value, JUDGED) or allowed <= PLAIN.keys()
        if judged and not _is_plain(value, allowed):
            kinds = " or ".join(
                sorted({PLAIN[kind] for kind in allowed & PLAIN.keys() - {type(None)}})
            )
            raise ParameterError(
                f"{mechanism.name} needs {f.name} to be {kinds}, neither tiny nor huge."
            )
    return mechanism


def _is_plain(value: object, allowed: set[type]) -> bool:
    if isinstance(value, (bool, str, type(None))):
        return type(value) in allowed and not (isinstance(value, str) and len(value) > LONGEST_WORD)
    kinds = (
        {int, float, Fraction}
        if isinstance(value, int)
        else {float, Fraction}
        if isinstance(value, (float, Fraction))
        else set()
    )
    return bool(kinds & allowed) and (value == 0 or LEAST_SIZE <= abs(value) <= MOST_SIZE)  # type: ignore[arg-type]


def check_share(name: str, **shares: object) -> None:
    """Raise unless each is strictly between 0 and 1."""
    for parameter, share in shares.items():
        if (
            isinstance(share, bool)
            or not isinstance(share, (int, float, Fraction))
            or not 0 < share < 1
        ):
            raise ParameterError(f"{name} needs {parameter} strictly between 0 and 1.")


def check_whole(name: str, **numbers: tuple[object, int, int]) -> None:
    """Raise unless each is a whole number in its range, given as (number, least, most)."""
    for parameter, (number, least, most) in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ParameterError(
                f"{name} needs {parameter} to be a whole number from {least:,} to {most:,}."
            )
