"""The meter serves its own verbs, and exact values go to the types of a list: everything else is
refused before anything is charged or looked at. Each attack here was tried first, and some worked.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
import threading
import types
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from privacy.test_meter import BASE, TINY, Silence, Tripwire, meter_on, tripwired
from understudy.audit import laws
from understudy.audit.laws import LABELLED
from understudy.counting.tally import Counts, Verbs
from understudy.errors import InputError, ParameterError
from understudy.learning.learn import learn
from understudy.privacy import (
    Argmin,
    ArgminInBlocks,
    Certify,
    Choice,
    Discriminate,
    MarginalScore,
    Measure,
    Meter,
    Mistakes,
    ReleaseTotal,
    Resample,
    Residuals,
    Select,
    SelectMarginal,
    SoftArgmin,
)
from understudy.privacy.learners import Points, Rules, Solved, Tilted
from understudy.privacy.trusted import HANDED_EXACT_VALUES, is_listed, let_in
from understudy.privacy.verbs import VERBS
from understudy.privacy.verbs.base import Priced, Public, Verb
from understudy.privacy.verbs.blocks import BlockPlan, plan_blocks
from understudy.queries.attribute import Attribute
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.conjunctions import Conjunctions as Batch
from understudy.queries.lattice import AllConjunctions
from understudy.queries.literals import Literal, all_of
from understudy.queries.marginal import Marginal
from understudy.queries.ranges import Ranges
from understudy.queries.symmetric import Symmetric
from understudy.rules import certifiers
from understudy.rules.certifiers import Cpsat, Listing
from understudy.rules.conjunctions import Conjunctions
from understudy.rules.counting import Lattice, counting_of
from understudy.rules.parities import Parities
from understudy.rules.task import Task
from understudy.schema import Schema
from understudy.sources import open_source

X, BOTH = Marginal.of(TINY, ["x"]), Marginal.of(TINY, ["x", "y"])
OF = Conjunctions(attributes=1)
FOREIGN = "own verbs only"
LISTED = "closed list"


def free(exact: Any, noise: Any) -> Any:
    """What an attacker wants: whatever was read."""
    return exact


def refused(ask: Callable[[Meter], Any], words: str) -> None:
    """In a sentence, at no cost and without a look."""
    meter, source = tripwired(np.tile(BASE, (20, 1)), play=laws.RICH)
    with pytest.raises(ParameterError, match=words):
        ask(meter)
    assert source.looked == [] and meter.events == ()


def named_like(kind: type, name: str) -> Any:
    """A class that says it is one of the list."""
    module, _, own = name.rpartition(".")
    return type(own, (kind,), {"__module__": module, "__qualname__": own})


# ---------------------------------------------------------------------- verbs of somebody else's


class Free(Verb[Any]):
    """Costs nothing and returns what it read."""

    name: ClassVar[str] = "measure"

    def priced(self, public: Public) -> Priced[Any]:
        return Priced(
            events=(), reads=Measure(batches=[X], rho=1).priced(public).reads, answer=free
        )


class FreeMeasure(Measure):
    """The same by inheritance."""

    priced = Free.priced  # type: ignore[assignment]


class Lying:
    """Says that it is a Measure."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Measure

    priced = Free.priced


class Equal(type):
    """Types that are equal to every other."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(Measure)


class EqualVerb(metaclass=Equal):
    priced = Free.priced


@pytest.mark.parametrize(
    "verb",
    [Free(), FreeMeasure(batches=[X], rho=1), Lying(), EqualVerb(), None, Measure, "measure"],
    ids=lambda verb: type(verb).__name__,
)
def test_a_verb_of_somebody_elses_is_refused_before_a_charge(verb: Any) -> None:
    refused(lambda meter: meter.ask(verb), FOREIGN)


@pytest.mark.parametrize("kind", VERBS, ids=lambda kind: kind.__name__)
def test_no_verb_is_served_as_a_subclass_of_itself(kind: type[Verb[Any]]) -> None:
    heir = type("Heir", (kind,), {"priced": Free.priced})
    refused(lambda meter: meter.ask(object.__new__(heir)), FOREIGN)


@pytest.mark.parametrize("kind", VERBS, ids=lambda kind: kind.__name__)
def test_nothing_can_be_hung_on_a_verb(kind: type[Verb[Any]]) -> None:
    verb = object.__new__(kind)
    assert not hasattr(verb, "__dict__")
    for name in ("priced", "draw", "solve", "anything"):
        with pytest.raises(AttributeError):
            object.__setattr__(verb, name, free)
    assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_nobody_changes_the_relation_of_a_meter() -> None:
    meter = meter_on(BASE)
    with pytest.raises(AttributeError):
        meter.neighbours = Neighbours.ADD_REMOVE_ONE  # type: ignore[misc]
    with pytest.raises(AttributeError):
        meter.rows = 1  # type: ignore[misc]


# ---------------------------------------------------------------------- changed on the way


class Always(int):
    """A number that equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def test_answers_that_say_they_have_the_right_length_are_counted() -> None:
    """A shorter one would have the kernel read what lies behind it in memory."""
    short = Counts(Always(2), np.array([1]))
    for verb in (
        Certify(batches=[BOTH], answers=[short], released_rows=2),
        SelectMarginal(
            batches=[BOTH], answers=[short], answer_rows=2, rho=1, score=MarginalScore.TOTAL
        ),
    ):
        refused(lambda meter, verb=verb: meter.ask(verb), "one answer per query")  # type: ignore[misc]


class Between(Tripwire):
    """Does something just before the first look: what another thread might do."""

    then: Callable[[], None]

    def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
        if any(column_sets):
            self.then()
        return super().count(column_sets)


def asked_while(then: Callable[[], None], verb: Verb[Any], **how: Any) -> Any:
    source = Between(np.tile(BASE, (20, 1)), TINY)
    source.looked, source.then = [], then
    meter = laws.meter_on(BASE, source=source, **how)
    source.meter = meter
    return meter.ask(verb)


def test_a_verb_that_is_changed_after_it_was_priced_answers_as_it_was() -> None:
    verb = Measure(batches=[X], rho=Fraction(1, 1000))

    def change() -> None:
        object.__setattr__(verb, "batches", [BOTH])
        object.__setattr__(verb, "rho", Fraction(10**9))
        object.__setattr__(verb, "sparse", True)

    (found,) = asked_while(change, verb)
    assert found.batch == X and len(found.counts) == 2 and found.sigma > 30 and found.keys is None


def test_a_marginal_that_is_changed_after_it_was_priced_is_read_as_it_was() -> None:
    """Priced as the number of rows, which is public, and then turned into a table."""
    batch = Marginal((), ())

    def change() -> None:
        object.__setattr__(batch, "positions", (0, 1))
        object.__setattr__(batch, "shape", (2, 2))

    source = Between(np.tile(BASE, (20, 1)), TINY)
    source.looked, source.then = [], change
    source.meter = meter = laws.meter_on(BASE, source=source)
    found = meter.ask(Measure(batches=[X, batch], rho=Fraction(1)))
    assert [len(one.counts) for one in found] == [2, 1] and found[1].batch == Marginal((), ())


def test_a_price_hung_on_a_marginal_is_not_its_price() -> None:
    batch = Marginal((0,), (2,))
    object.__setattr__(batch, "l2_squared", lambda neighbours: 0)
    (found,) = meter_on(BASE).ask(Measure(batches=[batch], rho=Fraction(1, 1000)))
    assert found.sigma > 30


def test_shares_that_are_changed_after_they_were_priced_are_not_read_again() -> None:
    shares = np.array([0.5, 0.5])
    seen = []

    def spy(noise: Any, scores: np.ndarray, table: Any, draws: int, **how: Any) -> np.ndarray:
        seen.append(scores.tolist())
        return np.zeros(draws, np.int64)

    def change() -> None:
        shares[:] = 1.0

    verb = Select(batches=[X], shares=[shares], rho=1)
    with laws.standing_in(draw=spy):
        asked_while(lambda: None, verb)
        asked_while(change, verb)
    assert seen[0] == seen[1]


def test_numbers_of_cells_that_are_changed_after_they_were_checked_are_not_read_again() -> None:
    """A walk along two sparse tables relies on both rising; out of order, one row could move all
    that comes after it.
    """
    keys = np.array([0, 2, 3])
    answer = Counts(4, np.array([9, 9, 9]), keys)

    def change() -> None:
        keys[:] = keys[::-1].copy()
        object.__setattr__(answer, "keys", None)

    verb = Certify(batches=[BOTH], answers=[answer], released_rows=27)
    still = asked_while(lambda: None, verb, noise=Silence())
    keys[:] = [0, 2, 3]
    object.__setattr__(answer, "keys", keys)
    assert asked_while(change, verb, noise=Silence()) == still


def test_an_array_whose_type_is_changed_after_it_was_checked_keeps_its_length() -> None:
    """Half as many numbers of twice the size: the kernel would read on behind them."""
    values = np.array([9, 9, 9, 9], np.int32)

    def change() -> None:
        values.dtype = np.int64  # type: ignore[misc]

    verb = Certify(batches=[BOTH], answers=[Counts(4, values)], released_rows=36)
    still = asked_while(lambda: None, verb, noise=Silence())
    assert asked_while(change, verb, noise=Silence()) == still and len(values) == 2


class Fake:
    """Says that it is a score, and moves by next to nothing."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return MarginalScore

    def sensitivity(self, neighbours: Neighbours) -> Fraction:
        return Fraction(1, 1000)


def test_a_score_is_one_of_the_two() -> None:
    """It was priced by what it said of itself, and counted as the total."""
    verb = SelectMarginal(
        batches=[X], answers=[Counts(2, np.array([1, 1]))], answer_rows=2, rho=1,
        score=Fake(),  # type: ignore[arg-type]
    )  # fmt: skip
    refused(lambda meter: meter.ask(verb), "a MarginalScore")


# ---------------------------------------------------------------------- numbers


class Two(int):
    """A whole number that is another one each time it is asked."""

    asked = 0

    def __int__(self) -> int:
        type(self).asked += 1
        return 1 if type(self).asked == 1 else 10**6

    __index__ = __int__

    def __le__(self, other: Any) -> bool:
        return True

    __ge__ = __gt__ = __lt__ = __le__


def test_numbers_of_numpy_in_a_fraction_never_wrap() -> None:
    """2^62 times 4 is 0 there: noise for nothing, at the price of nothing."""
    for rho in (Fraction(np.int64(2**62), np.int64(2**40 + 1)), Fraction(np.int8(1), np.int8(100))):
        plain = Fraction(int(rho.numerator), int(rho.denominator))
        found = [
            meter_on(BASE, rho=10**9).ask(
                Measure(batches=[X, BOTH], rho=each, weights=[each, Fraction(np.int8(3), 7)])
            )
            for each in (rho, plain)
        ]
        assert [m.sigma for m in found[0]] == [m.sigma for m in found[1]]
        assert all(type(m.sigma.numerator) is int for m in found[0])
    meter = meter_on(BASE, rho=10**9)
    sigma = Fraction(np.int64(2**40), np.int64(2**30 + 1))
    meter.ask(Residuals(batches=[X], sigmas=[sigma]))
    (event,) = meter.events
    assert all(type(s.numerator) is int and s > 2**19 for s in event.sigmas_squared)  # type: ignore[union-attr]


def test_a_number_that_changes_is_read_once() -> None:
    Two.asked = 0
    meter = meter_on(BASE, rho=1)
    found = meter.ask(Select(batches=[X], shares=[np.zeros(2)], rho=Fraction(1, 2), draws=Two(5)))
    (event,) = meter.events
    assert len(found) == event.draws == 1  # type: ignore[union-attr]


# ---------------------------------------------------------------------- batches that misbehave


@dataclass(frozen=True)
class Odd(QueryClass):
    """A batch of somebody else's, which says it has one query and gives what it likes."""

    given: Counts

    kind: ClassVar[str] = "odd"
    columns: ClassVar[tuple[int, ...]] = (0,)  # type: ignore[misc]

    @property
    def size(self) -> int:
        return 1

    def counts(self, table: Verbs) -> Counts:
        return self.given

    def __hash__(self) -> int:
        return 7

    def truth(self, block: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def around(self, index: int) -> QueryClass:
        return self

    def fits(self, schema: Any) -> bool:
        return True

    def l2_squared(self, neighbours: Neighbours) -> int:
        return 1

    def describe(self, schema: Any, index: int) -> str:
        return "odd"

    def to_dict(self, schema: Any) -> dict[str, Any]:
        return {}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Any) -> QueryClass:
        raise NotImplementedError

    @classmethod
    def examples(cls, schema: Any, rng: Any) -> Iterator[QueryClass]:
        return iter(())


@pytest.mark.parametrize(
    "given",
    [
        Counts(1, np.arange(5)),
        Counts(5, np.arange(5)),
        Counts(1, np.array([0.5])),
        Counts(1, np.array([1, 2]), np.array([0, 0])),
        Counts(1, np.array([[3]])),
    ],
)
def test_one_number_of_noise_is_never_stretched_over_more_counts(given: Counts) -> None:
    for verb in (
        Measure(batches=[Odd(given)], rho=1),
        Select(batches=[Odd(given)], shares=[np.zeros(1)], rho=1),
        Certify(batches=[Odd(given)], answers=[Counts(1, np.array([1]))], released_rows=2),
    ):
        with pytest.raises(ParameterError, match="another schema"):
            laws.meter_on(BASE, trusts=[Odd]).ask(verb)


def test_a_size_that_changes_is_read_once() -> None:
    class Growing(Odd):
        asked = 0

        @property
        def size(self) -> int:
            type(self).asked += 1
            return 1 if type(self).asked < 4 else 5

    with pytest.raises(ParameterError, match="another schema"):
        laws.meter_on(BASE, trusts=[Growing]).ask(
            Measure(batches=[Growing(Counts(5, np.arange(5)))], rho=1)
        )


def test_what_is_hung_on_a_batch_never_sees_rows() -> None:
    """Its row function would be handed every block of them."""
    seen: list[Any] = []
    for batch, names in (
        (Symmetric((all_of(Literal(0, 1)),)), ("tally", "counts", "l2_squared", "_arrays")),
        (Batch.of([[0, 1]], [[1, 1]]), ("tally", "counts", "l2_squared", "_slots")),
        (AllConjunctions((Literal(0, 1), Literal(1, 1))), ("held", "counts", "l2_squared")),
        (Marginal((0,), (2,)), ("counts", "l2_squared")),
    ):
        honest = laws.meter_on(BASE).ask(Measure(batches=[batch], rho=Fraction(1, 1000)))[0]
        for name in names:
            object.__setattr__(batch, name, lambda *given: seen.append(given))
        meter = laws.meter_on(BASE)
        (found,) = meter.ask(Measure(batches=[batch], rho=Fraction(1, 1000)))
        assert found.sigma == honest.sigma and len(found.counts) == len(honest.counts)
    assert not seen


class Watches(int):
    """A value that sees what it is compared with."""

    seen: ClassVar[list[Any]] = []

    def __eq__(self, other: object) -> bool:
        self.seen.append(other)
        return int(self) == other

    __hash__ = int.__hash__
    __array_ufunc__ = None


def test_a_query_that_was_tampered_with_is_checked_again() -> None:
    """One that counts a person a million times, at the price of once; and a value that looks."""
    many = all_of(Literal(0, 1))
    object.__setattr__(many, "table", (0, 10**6))
    with pytest.raises(InputError, match="0s and 1s"):
        meter_on(BASE).ask(Measure(batches=[Symmetric((many,))], rho=1))
    looks = Literal(0, 1)
    object.__setattr__(looks, "value", Watches(1))
    for batch in (Symmetric((all_of(looks),)), AllConjunctions((looks,))):
        Watches.seen.clear()
        refused(lambda meter, batch=batch: meter.ask(Measure(batches=[batch], rho=1)), "no query")  # type: ignore[misc]
        assert not any(isinstance(one, np.ndarray) for one in Watches.seen)


def test_a_batch_that_is_changed_after_it_was_let_in_stays_as_it_was() -> None:
    query = all_of(Literal(0, 1))
    batch, meter = Symmetric((query,)), laws.meter_on(np.tile(BASE, (20, 1)), noise=Silence())
    (first,) = meter.ask(Measure(batches=[batch], rho=1))
    object.__setattr__(query, "table", (0, 10**6))
    object.__setattr__(batch, "queries", (query,) * 3)
    (again,) = meter.ask(Measure(batches=[batch], rho=1))
    assert first.counts.tolist() == again.counts.tolist() == [20] and first.batch == again.batch


@pytest.mark.parametrize(
    "batch",
    [Symmetric((all_of(Literal(0, 1)),)), Batch.of([[0]], [[1]]), Ranges((0,), (((0, 1),),))],
    ids=lambda batch: type(batch).__name__,
)
def test_what_an_answer_names_is_not_the_room_s_own_copy(batch: QueryClass) -> None:
    """Or it could be changed there, after it was checked: this one was handed every row."""
    meter, seen = laws.meter_on(np.tile(BASE, (20, 1)), play=laws.RICH), list[Any]()
    other = type(batch).examples(TINY, np.random.default_rng(0))

    def tamper(copy: Any) -> None:
        assert copy == batch
        vars(copy).clear()
        vars(copy).update(vars(next(other)), tally=lambda block: seen.append(block) or [0] * 9)

    (measured,) = meter.ask(Measure(batches=[batch], rho=1))
    (drawn,) = meter.ask(Select(batches=[batch], shares=[np.zeros(batch.size)], rho=1))
    slot = {"kappa": Fraction(1, 9), "gamma": Fraction(1), "records": 1}
    (kept,) = meter.ask(
        Resample(
            batches=[batch],
            shares=[np.zeros(batch.size)],
            choices=[drawn],
            satisfied=[True],
            **slot,
        )
    )
    honest = copy.deepcopy(batch)
    for one in (measured.batch, drawn.batch, kept.batch):
        tamper(one)
        (found,) = meter.ask(Measure(batches=[batch], rho=1))
        assert len(found.counts) == 1 and not seen
        vars(one).clear()
        vars(one).update(vars(honest))


class Sly(Marginal):
    """A marginal that says it costs nothing."""

    def l2_squared(self, neighbours: Neighbours) -> int:
        return 0


class EqualMarginal(Odd, metaclass=type("Both", (Equal, ABCMeta), {})):  # type: ignore[misc]
    """A class that says it is the class of marginals."""


def batches() -> list[QueryClass]:
    named = named_like(Odd, "understudy.queries.marginal.Marginal")
    one = Counts(1, np.array([1]))
    return [Odd(one), Sly((0,), (2,)), EqualMarginal(one), named(one)]


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: type(batch).__name__)
def test_a_batch_that_nobody_announced_never_sees_the_table(batch: QueryClass) -> None:
    """It would be handed the rows, and believed what it says about its price."""
    size = batch.size
    answers, shares = [Counts(size, np.zeros(size, np.int64))], [np.zeros(size)]
    slot = {"kappa": Fraction(1, 9), "gamma": Fraction(1), "records": 1}
    for verb in (
        Measure(batches=[X, batch], rho=1),
        Select(batches=[batch], shares=shares, rho=1),
        Certify(batches=[batch], answers=answers, released_rows=2),
        Residuals(batches=[batch], sigmas=[Fraction(9)]),  # type: ignore[list-item]
        SelectMarginal(
            batches=[batch], answers=answers, answer_rows=2, rho=1, score=MarginalScore.TOTAL
        ),  # type: ignore[list-item]
        Resample(
            batches=[batch], shares=shares, choices=[Choice(batch, 0)], satisfied=[True], **slot
        ),
    ):
        refused(lambda meter, verb=verb: meter.ask(verb), "package announces")  # type: ignore[misc]


@pytest.mark.parametrize(
    "batch",
    [
        Marginal((7,), (2,)),
        Marginal((0, -1), (2, 2)),
        Symmetric((all_of(Literal(7, 1)),)),
        Batch.of([[0, 7]], [[1, 1]]),
        AllConjunctions((Literal(7, 1),)),
        Ranges((7,), (((0, 1),),)),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_a_batch_of_columns_that_the_table_does_not_have_is_refused_before_a_charge(
    batch: QueryClass,
) -> None:
    """Items are counted without a look at where their arrays end: this read what lies behind."""
    refused(lambda meter: meter.ask(Measure(batches=[batch], rho=1)), "another schema")
    bought = open_source(np.eye(3, dtype=np.int8), Schema.items(["a", "b", "c"]))
    meter = laws.meter_on(BASE, source=bought)
    with pytest.raises(ParameterError, match="another schema"):
        meter.ask(Measure(batches=[batch], rho=1))
    assert meter.events == ()


# ---------------------------------------------------------------------- who is handed exact values


class Spy(Listing):
    """Keeps what it is given."""

    seen: ClassVar[list[Tilted]] = []

    def solve(self, problem: Tilted) -> Solved | None:
        self.seen.append(problem)
        return super().solve(problem)


@dataclass(frozen=True, kw_only=True)
class SpyClass(Conjunctions):
    """Keeps the points that it is asked about."""


@dataclass(frozen=True)
class SpyTask(Task):
    """Keeps the cells that it is asked about."""


@dataclass(frozen=True)
class SpyAttribute(Attribute):
    """The same, inside a task."""


@dataclass(frozen=True)
class SpyCounting(Lattice):
    """Keeps the points that it counts."""


INSIDE = Task((SpyAttribute(0, frozenset([1]), "x"),), LABELLED.label)
STRANGERS: dict[str, Callable[[Meter], Any]] = {
    "a certifier": lambda m: m.ask(
        Argmin(task=LABELLED, rules=OF, epsilon=1, certifier=Spy())
    ),
    "a certifier by another name": lambda m: m.ask(
        Argmin(
            task=LABELLED, rules=OF, epsilon=1,
            certifier=named_like(Spy, "understudy.rules.certifiers.Listing")(),
        )
    ),
    "a certifier over blocks": lambda m: m.ask(
        ArgminInBlocks(
            task=LABELLED, rules=OF, plan=plan_blocks(60, Fraction(4), Fraction(1, 2)), certifier=Spy()
        )
    ),
    "a class": lambda m: m.ask(
        Argmin(task=LABELLED, rules=SpyClass(attributes=1), epsilon=1, certifier=Listing())
    ),
    "a class that is counted": lambda m: m.ask(
        SoftArgmin(task=LABELLED, counting=Lattice(SpyClass(attributes=1)), epsilon=1)
    ),
    "a class of mistakes": lambda m: m.ask(
        Mistakes(task=LABELLED, rules=SpyClass(attributes=1), rule=(0,), epsilon=1)
    ),
    "a task": lambda m: m.ask(
        SoftArgmin(
            task=SpyTask(LABELLED.attributes, LABELLED.label), counting=counting_of(OF), epsilon=1
        )
    ),
    "an attribute": lambda m: m.ask(
        SoftArgmin(task=INSIDE, counting=counting_of(OF), epsilon=1)
    ),
    "a way to count": lambda m: m.ask(
        SoftArgmin(task=LABELLED, counting=SpyCounting(OF), epsilon=1)
    ),
    "nothing": lambda m: m.ask(SoftArgmin(task=LABELLED, counting=None, epsilon=1)),  # type: ignore[arg-type]
    "a text": lambda m: m.ask(
        Argmin(task=LABELLED, rules=OF, epsilon=1, certifier="listing")  # type: ignore[arg-type]
    ),
}  # fmt: skip


@pytest.mark.parametrize("stranger", STRANGERS)
def test_exact_values_go_to_the_types_of_a_list_and_not_to_their_subclasses(stranger: str) -> None:
    refused(STRANGERS[stranger], LISTED)
    assert not Spy.seen


def test_a_stranger_is_refused_at_the_front_door_before_anything_is_reserved(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    table = np.column_stack([np.arange(100) % 2, np.arange(100) % 2])
    with pytest.raises(ParameterError, match=LISTED):
        learn(
            table, schema={"x": 2, "y": 2}, label="y", epsilon=1, method="rspm", certifier=Spy(),
            ledger=ledger,
        )  # fmt: skip
    assert not ledger.exists() and not Spy.seen


def test_a_type_is_on_the_list_only_if_its_name_leads_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_listed(Listing) and not is_listed(Spy)
    other = types.ModuleType("understudy.rules.certifiers")
    other.Listing = Spy  # type: ignore[attr-defined]
    assert not is_listed(named_like(Spy, "understudy.rules.certifiers.Listing"))
    monkeypatch.delitem(sys.modules, "understudy.rules.certifiers")
    assert not is_listed(Listing), "a module that is not loaded has no types"
    assert len(set(HANDED_EXACT_VALUES)) == len(HANDED_EXACT_VALUES)


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (Listing(), "solve"),
        (Conjunctions(attributes=1), "values"),
        (Conjunctions(attributes=1), "lift"),
        (Task(LABELLED.attributes, LABELLED.label), "bits"),
        (Attribute(0, frozenset([1]), "x"), "bits"),
        (Lattice(OF), "costs"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_a_method_that_is_hung_on_an_object_does_not_come_along(thing: Any, name: str) -> None:
    fresh = type(thing)(**{f.name: getattr(thing, f.name) for f in dataclasses.fields(thing)})
    object.__setattr__(fresh, name, free)
    assert getattr(fresh, name) is free
    copied = let_in(fresh)
    assert copied == thing and getattr(copied, name) is not free
    assert vars(copied).keys() <= {f.name for f in dataclasses.fields(thing)}


def test_a_method_hung_on_what_a_verb_holds_is_never_called() -> None:
    """On the task, its attributes, the class and the solver at once, each a leak before."""
    seen: list[Any] = []

    def leak(*given: Any) -> Any:
        seen.append(given)
        raise AssertionError

    attribute = Attribute(0, frozenset([1]), "x")
    task, of, by = Task((attribute,), LABELLED.label), Conjunctions(attributes=1), Listing()
    for thing, names in (
        (attribute, ["bits"]),
        (task, ["bits", "labels"]),
        (of, ["lift", "values", "predict"]),
        (by, ["solve"]),
    ):
        for name in names:
            object.__setattr__(thing, name, leak)
    counting = Lattice(of)
    object.__setattr__(counting, "costs", leak)
    meter = laws.meter_on(np.tile(BASE, (20, 1)))
    assert OF.contains(meter.ask(Argmin(task=task, rules=of, epsilon=1, certifier=by)))
    assert OF.contains(meter.ask(SoftArgmin(task=task, counting=counting, epsilon=1)))
    meter.ask(Mistakes(task=task, rules=of, rule=(0,), epsilon=1))
    assert not seen


class Times(int):
    """A cost that sees what it is multiplied with."""

    seen: ClassVar[list[Any]] = []

    def __mul__(self, other: Any) -> Any:
        self.seen.append(other)
        return int(self) * other

    __rmul__ = __mul__


def test_costs_that_see_what_they_are_multiplied_with_are_plain_numbers_inside() -> None:
    task = Task(LABELLED.attributes, LABELLED.label, (Times(2), Times(3)))
    meter = laws.meter_on(np.tile(BASE, (20, 1)))
    meter.ask(Mistakes(task=task, rules=OF, rule=(0,), epsilon=1))
    meter.ask(Argmin(task=task, rules=OF, epsilon=1, certifier=Listing()))
    assert Times.seen == []


def test_the_numbers_of_a_discriminator_are_plain_inside() -> None:
    """They were multiplied with slopes at a theta that has no noise of its own yet; and a ridge
    that divides to nothing cost nothing.
    """

    class Rude(Times):
        def __rtruediv__(self, other: Any) -> Any:
            return Fraction(0)

        __array_ufunc__ = None

    def found(number: type[int]) -> Meter:
        meter = laws.meter_on(np.tile(BASE, (20, 1)), play=laws.RICH)
        made = np.zeros((20, 2), np.int64)
        meter.ask(
            Discriminate(
                batches=[X], fake=made, weight=number(1), ridge=number(10**6), sigma=Fraction(50)
            )
        )
        return meter

    assert found(Rude).events == found(int).events and Times.seen == []


class Small(Fraction):
    """Says that it is as large as it has to be."""

    def __ge__(self, other: Any) -> bool:
        return True

    __le__ = __gt__ = __lt__ = __ge__


def test_a_sigma_is_compared_as_what_it_is() -> None:
    made = np.zeros((20, 2), np.int64)
    for sigma in (Small(0), Small(-50), Small(2**40)):
        verb = Discriminate(batches=[X], fake=made, weight=1, ridge=10**6, sigma=sigma)
        refused(lambda meter, verb=verb: meter.ask(verb), "needs a sigma")  # type: ignore[misc]


def test_points_of_somebody_s_own_kind_of_number_are_refused() -> None:
    for bits in (np.array([[Watches(1)]], object), np.ones((1, 1)), np.ones((1, 1), complex)):
        points = Points(bits, np.array([5]))
        verb = Argmin(task=LABELLED, rules=OF, epsilon=1, certifier=Listing(), public=points)
        refused(lambda meter, verb=verb: meter.ask(verb), "rows of 0 and 1")  # type: ignore[misc]


def test_a_solver_names_no_command_to_run() -> None:
    """The child process is handed private points."""
    assert [field.name for field in dataclasses.fields(Cpsat)] == ["work"]
    with pytest.raises(TypeError):
        Cpsat(command=("sh", "-c", "cat > points"))  # type: ignore[call-arg]
    assert certifiers.COMMAND is None


def test_a_plan_is_made_again_and_not_believed() -> None:
    class Agrees(BlockPlan):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    honest = plan_blocks(60, Fraction(4), Fraction(1, 2))
    for plan in (
        Agrees(**{**vars(honest), "blocks": 1}),
        dataclasses.replace(honest, blocks=1),
        dataclasses.replace(honest, run_epsilon=Fraction(1000)),
    ):
        refused(
            lambda meter, plan=plan: meter.ask(  # type: ignore[misc]
                ArgminInBlocks(task=LABELLED, rules=OF, plan=plan, certifier=Listing())
            ),
            "plan",
        )


def test_public_points_are_copied() -> None:
    bits, cost = np.array([[1]], np.uint8), np.array([5])
    given = Points(bits, cost)

    def change() -> None:
        cost[:] = 2**62
        bits[:] = 7

    rule = asked_while(
        change, Argmin(task=LABELLED, rules=OF, epsilon=1, certifier=Listing(), public=given)
    )
    assert OF.contains(rule)


def test_a_mechanism_cannot_name_further_types() -> None:
    """Only whoever makes the meter can; the fence keeps that to the audit and to tests."""
    meter = meter_on(BASE)
    with pytest.raises(AttributeError):
        meter.trusts = (Spy,)  # type: ignore[attr-defined]
    seen = laws.meter_on(np.tile(BASE, (20, 1)), trusts=[Spy])
    try:
        seen.ask(Argmin(task=LABELLED, rules=OF, epsilon=1, certifier=Spy()))
        assert len(Spy.seen) == 1
    finally:
        Spy.seen.clear()


def test_two_threads_get_an_answer_each_for_a_charge_each() -> None:
    meter, found = laws.meter_on(np.tile(BASE, (20, 1))), list[Any]()
    verb = Measure(batches=[BOTH], rho=1)
    threads = [threading.Thread(target=lambda: found.append(meter.ask(verb))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(meter.events) == 8


def test_what_is_asked_of_a_closed_meter_is_refused_before_a_charge() -> None:
    meter, source = tripwired()
    meter.close()
    for verb in (
        Measure(batches=[X], rho=Fraction(1, 2)),
        ReleaseTotal(rho=Fraction(1, 2)),
        Resample(
            batches=[X], shares=[np.zeros(2)], choices=[Choice(X, 0)], satisfied=[True],
            kappa=Fraction(1, 9), gamma=Fraction(1), records=1,
        ),
        SelectMarginal(
            batches=[X], answers=[Counts(2, np.array([1, 1]))], answer_rows=2, rho=1,
            score=MarginalScore.TOTAL,
        ),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match="closed"):
            meter.ask(verb)
    assert source.looked == [] and meter.events == ()


def test_the_types_of_the_room_are_those_of_the_learners() -> None:
    """What the room says that it needs of a class of rules, each class has."""
    needed = {name for name in vars(Rules) if not name.startswith("_")} | set(Rules.__annotations__)
    for of in (Conjunctions(attributes=2, width=1), Parities(attributes=2, width=1)):
        assert all(hasattr(of, name) for name in needed)
