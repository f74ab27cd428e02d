"""What a verb is: a value that says what it costs, what it reads, and how noise meets it.

    priced(public)       refuses in a sentence, or says what it costs; sees public facts only
    reads                the only thing that is looked at, after the charge
    answer(exact, noise) the only place where noise meets it

Everything that an answer needs is checked and copied while the verb is priced. So what somebody
does to the verb afterwards, or to an array in it, changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

from understudy.privacy.accounting import events as ev
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.requests import Read
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.marginal import Marginal

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Public:
    """What everybody may know about a table and its release before anything is charged.

    Attributes:
        neighbours: which tables must be hard to tell apart.
        shape: how many codes each column has.
        count_rows: gives n, or refuses where n is private and was not released yet.
        rows_sigma: the noise on n; 0 when n is public.
        set_aside: the rho for the certificate.
        certified: whether that has been spent.
        trusts: types that are handed exact values besides the closed list, in tests only.
        own: gives the room's own copy of a batch, or refuses its class.
    """

    neighbours: Neighbours
    shape: tuple[int, ...]
    count_rows: Callable[[], int]
    rows_sigma: Fraction
    set_aside: Fraction
    certified: bool
    trusts: tuple[type, ...]
    own: Callable[[QueryClass], QueryClass]

    @property
    def rows(self) -> int:
        return self.count_rows()


class Passes:
    """What a verb reads that goes over the rows again and again instead of counting once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Priced(Generic[Answer]):
    """A verb that was checked and has a price.

    Attributes:
        events: what is charged.
        reads: what is looked at; ``exact`` is then the counts of these batches, in order. With
            :class:`Passes` it is the table.
        answer: from exact values and noise to what is released.
        certifies: whether it is paid from what was set aside for the certificate.
    """

    events: tuple[ev.Event, ...]
    reads: tuple[Read, ...] | Passes
    answer: Callable[[Any, Noise], Answer]
    certifies: bool = False


class Verb(ABC, Generic[Answer]):
    """The root of the verbs. They are frozen, and have slots so that no method can be hung on one."""

    __slots__ = ()

    name: ClassVar[str]

    @abstractmethod
    def priced(self, public: Public) -> Priced[Answer]:
        """What it costs, from public facts alone; raises, in a sentence, what makes no sense."""


def read(batches: Sequence[QueryClass]) -> tuple[Read, ...]:
    return tuple(Read(batch, batch.size) for batch in batches)


def public_reads(originals: Sequence[QueryClass], reads: Sequence[Read]) -> tuple[Read, ...]:
    """As an answer names them: the room's own copies stay inside, where nobody changes them. Of
    marginals there are new ones for each question.
    """
    both = zip(originals, reads, strict=True)
    return tuple(r if type(r.batch) is Marginal else Read(one, r.size) for one, r in both)


def l2_squared(batch: QueryClass, neighbours: Neighbours) -> int:
    """As its class has it, not as somebody hung it on the object."""
    return type(batch).l2_squared(batch, neighbours)
