"""What a mechanism is, and how they are found."""

from __future__ import annotations

import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import entry_points
from typing import Any, ClassVar

import numpy as np

from understudy.errors import ParameterError, shown
from understudy.game.loop import Played
from understudy.privacy import Budget, Meter
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.requests import as_shares
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.workload import Workload
from understudy.runtime.discovery import classes_in
from understudy.runtime.watching import Watcher
from understudy.schema import Schema
from understudy.schema.keys import meant

ENTRY_POINTS = "understudy.mechanisms"  # where an installed package announces its mechanisms
Plain = bool | int | float | str | None
# kinds of value that a command line can give, as messages name them
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
LONGEST_WORD = 100  # of a parameter that is a word: all of ours are far shorter
# never the object that a field of another kind is for
JUDGED = (*PLAIN, complex, bytes, Decimal, list, tuple, dict, set, np.ndarray)


@dataclass(frozen=True, kw_only=True)
class Brief:
    """The public facts that a mechanism plans with."""

    schema: Schema
    workload: Workload
    neighbours: Neighbours


@dataclass(frozen=True, kw_only=True)
class Means:
    """The public numbers that a mechanism decides with.

    Attributes:
        budget: the whole promise.
        rho: what is left of it for the mechanism.
        rows: n, where it is public; otherwise as it was released, or as it is expected.
        rows_sigma: the noise on it; 0 where it is public.
    """

    budget: Budget
    rho: Fraction
    rows: int
    rows_sigma: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a mechanism expects to do, said before any row is read."""

    sigma: float  # noise of one measured count, in people
    tables: int  # counted among the rows
    cells: int  # of everything counted
    noisy_cells: int  # cells that get noise
    rounds: int  # in which all that was counted is looked at again
    sweep: float  # seconds to visit every cell of one fitted row once, when everything is measured
    sweeps: float  # so many of them over the rows that are kept while playing
    # about how far off, as a share of the rows, answers are that nothing was measured for
    unmeasured: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a mechanism will do, decided once from public facts: ``plan`` shows it, the reservation
    and the play follow it, and the manifest keeps it.

    Attributes:
        brief: what was asked; means: what there is to spend on how many rows.
        numbers: what the public rule came to, in the paper's words: rounds, draws, rates.
        parameters: every parameter of the mechanism, as given or as the rule decided it.
        how: the same in a few words.
        cost: what to reserve, with its smallest variance where all noise is Gaussian.
        plan: what the mechanism's own play needs beside, worked out once.
        outlook: how good and how long, or None when that cannot be said.
        condition: what its privacy rests on beside the proofs, such as a solver's certificate; None
            when on nothing.
        model_numbers: about how many numbers the model has that is left in a bundle; 0 if rows
            alone are.
        sums_not_kept: the squared sensitivities of noisy sums that it asks for and does not keep,
            in order, so that a bundle can be checked.
    """

    brief: Brief
    means: Means
    numbers: Mapping[str, Plain]
    parameters: Mapping[str, Plain]
    how: str
    cost: Cost
    plan: Any = field(default=None, repr=False, compare=False)
    outlook: Outlook | None = None
    condition: str | None = None
    model_numbers: int = 0
    sums_not_kept: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        brief: Brief,
        means: Means,
        *,
        how: str,
        numbers: Mapping[str, Any],
        cost: Cost | None = None,
        **more: Any,
    ) -> Decision:
        """A decision of a mechanism; it costs all of its rho unless another ``cost`` is given."""
        fields = {f.name: getattr(mechanism, f.name) for f in dataclasses.fields(mechanism)}
        decided = {name: numbers.get(name, value) for name, value in fields.items()}
        return cls(
            brief=brief,
            means=means,
            numbers=_plain(numbers),
            parameters=_plain(decided),
            how=how,
            cost=Cost(means.rho) if cost is None else cost,
            **more,
        )

    @property
    def relation(self) -> Neighbours:
        """The neighbours that it is private for."""
        return self.brief.neighbours


def _plain(values: Mapping[str, Any]) -> dict[str, Plain]:
    """As a manifest and a line of JSON hold them."""
    return {
        name: v if v is None or isinstance(v, (bool, int, float, str)) else str(v)
        for name, v in values.items()
    }


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
    # whether some of its decisions draw Gaussian noise alone; their cost then says its variance
    can_be_gaussian: ClassVar[bool] = False
    # checks of the conformance kit that do not apply, each with the reason
    exempt: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def check(self, brief: Brief) -> None:
        """Raise NotSupported or ParameterError, in a sentence, if this cannot be served, whatever
        the number of rows; nothing is charged yet.
        """

    @abstractmethod
    def decide(self, brief: Brief, means: Means) -> Decision:
        """What to do with these means, or ParameterError in a sentence; nothing is charged yet.

        Public facts alone decide, and the same facts give the same decision. Where the number of
        rows is private, what it costs must not depend on it: that is reserved before the number is
        known, and the play is decided again with the number as it was released.
        """

    @abstractmethod
    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        """Spend what was decided and return a model. ``rng`` is public randomness."""


def available_mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism: those in this folder, and those that installed packages announce."""
    import understudy.mechanisms as room

    mechanisms = {kind.name: kind for kind in classes_in(room, Mechanism)}  # type: ignore[type-abstract]
    for entry in entry_points(group=ENTRY_POINTS):
        thing = entry.load()
        mechanisms.setdefault(thing.name, thing)
    return dict(sorted(mechanisms.items()))


def mechanism_of(name: str) -> type[Mechanism]:
    """The mechanism of a name, or a refusal that says which there are."""
    mechanisms = available_mechanisms()
    if not isinstance(name, str):
        raise ParameterError(
            f"mechanism must be a name or a Mechanism, not of type {type(name).__name__}."
        )
    if name not in mechanisms:
        raise ParameterError(
            f"There is no mechanism {shown(name)}{meant(name, mechanisms)}; there are auto,"
            f" {', '.join(mechanisms)}."
        )
    return mechanisms[name]


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
    calls a number is then one. ``--set`` reads decimals as fractions: where a field is of floats
    alone, they become floats.
    """
    hints, floats = typing.get_type_hints(type(mechanism)), dict[str, float]()
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
        if isinstance(value, Fraction) and Fraction not in allowed:
            floats[f.name] = float(value)
    return dataclasses.replace(mechanism, **floats) if floats else mechanism


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


Step = tuple[Sequence[QueryClass], Fraction, Sequence[int] | None]  # batches, rho and weights


def cost_of_measuring(neighbours: Neighbours, *steps: Step) -> Cost:
    """The cost of a play that does nothing but ``Measure``, step by step: Gaussian noise, and how
    small its variance may be.
    """
    total, least = Fraction(0), []
    for batches, rho, weights in steps:
        total += rho
        moved = {
            (batch.l2_squared(neighbours), share)
            for batch, share in zip(batches, as_shares(weights, len(batches)), strict=True)
        }
        least += [Fraction(l2) / (2 * rho * share) for l2, share in moved if l2]
    return Cost(total, least_variance=min(least, default=None))


def fewest_rows(brief: Brief, means: Means) -> int:
    """The rows, or 1 where their number is private: what is measured at once for one row is for
    more, whose noise is smaller beside them.
    """
    return means.rows if brief.neighbours is Neighbours.REPLACE_ONE else 1
