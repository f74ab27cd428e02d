"""The one place where a budget is reserved, an interrupt told and an end written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from support.fuzzing import chain_of
from understudy.api.session import Promise, reserve
from understudy.checks import SMALL, small_table
from understudy.errors import (
    BudgetRefused,
    NotCertified,
    NotSupported,
    ParameterError,
    ReleaseFailed,
)
from understudy.privacy import Measure, Meter, ProcessLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS, Cost, total_cost
from understudy.privacy.ledger.ledger import EARLY, MADE
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.sources.memory import MemorySource

REPLACE, ADD = Neighbours
CURVE = tuple(Fraction(i + 1, 10) for i in range(len(ORDERS)))
CELL = str(13579)
PROMISE = Promise(what="The test", label="a test", epsilon=Fraction(1), delta=Fraction(1, 10**6))


class Tripwire(MemorySource):
    looked = False

    def count(self, column_sets: Any) -> Any:
        Tripwire.looked = True
        return super().count(column_sets)


def reserving(ledger: Any, relation: Any = REPLACE, play: Cost = Cost(Fraction(1))) -> Any:  # noqa: B008
    source = Tripwire(small_table(), SMALL)
    return reserve(ledger, source, PROMISE, neighbours=relation, play=play, certify=Fraction(1, 4))


@pytest.mark.parametrize(
    ("play", "certify"),
    [
        (Cost(Fraction(-1, 8)), Fraction(1, 4)),
        (Cost(Fraction(1), delta=Fraction(-1, 9)), Fraction(1, 4)),
        (Cost(Fraction(1), tuple(-value for value in CURVE), curve_rho=None), Fraction(1, 4)),
        (Cost(Fraction(1), CURVE, curve_rho=Fraction(-3)), Fraction(1, 4)),
        (Cost(Fraction(1), curve_rho=Fraction(-3)), Fraction(1, 4)),
        (Cost(Fraction(1)), Fraction(-1, 4)),
    ],
)
def test_a_part_below_0_is_refused_before_anything_is_charged(
    play: Cost, certify: Fraction
) -> None:
    """A sum that is above 0 says nothing of its parts: one below 0 hides what the other spends."""
    ledger = ProcessLedger()
    source = Tripwire(small_table(), SMALL)
    with (
        pytest.raises(ParameterError, match="no part below 0"),
        reserve(ledger, source, PROMISE, neighbours=REPLACE, play=play, certify=certify),
    ):
        pass
    assert not ledger.state.charges


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize(
    "play",
    [
        Cost(Fraction(1)),
        Cost(Fraction(1), delta=Fraction(1, 9)),
        Cost(Fraction(1), CURVE, curve_rho=Fraction(3)),
        Cost(Fraction(0), CURVE, Fraction(1, 9), Fraction(3)),
    ],
)
def test_what_is_reserved_covers_every_part_of_the_allowance(
    relation: Neighbours, play: Cost
) -> None:
    """rho, delta and the curve, with the share of the certificate, under the relation that is
    meant, though it is given as plain text.
    """
    told: list[tuple[Cost, Any]] = []

    class Listens(ProcessLedger):
        def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
            told.append((total_cost(events), neighbours))
            return super().reserve(label, events, neighbours)

    with reserving(Listens(), str(relation), play) as meter:
        ((whole, neighbours),) = told
        assert whole == play + Cost(Fraction(1, 4))
        assert neighbours is relation and meter.neighbours is relation
        assert meter.left == play.rho


def test_the_ledger_is_charged_before_there_is_a_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(ProcessLedger):
        def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
            raise BudgetRefused("no")

    made: list[object] = []
    monkeypatch.setattr(Meter, "__init__", lambda self, *args, **how: made.append(self))
    Tripwire.looked = False
    with pytest.raises(BudgetRefused, match=r"^no$"), reserving(Refuses()):
        pass
    assert not made and not Tripwire.looked


def test_an_end_is_written_and_the_meter_is_closed() -> None:
    ledger = ProcessLedger()
    with reserving(ledger) as meter:
        assert ledger.state.charges[0].ended is None
    assert ledger.state.charges[0].ended == MADE and ledger.state.charges[0].label == "a test"
    with pytest.raises(Exception, match="closed"):
        _ = meter.rows


@pytest.mark.parametrize(
    ("problem", "kind", "words"),
    [
        (ValueError(f"the cell was {CELL}"), ReleaseFailed, "Something unexpected went wrong."),
        (NotSupported("This cannot be done."), ReleaseFailed, "This cannot be done."),
        (MemoryError(CELL), ReleaseFailed, "Memory ran out"),
    ],
)
def test_whatever_goes_wrong_after_the_charge_says_that_it_is_spent(
    problem: Exception, kind: type[Exception], words: str
) -> None:
    ledger = ProcessLedger()
    with pytest.raises(kind) as caught, reserving(ledger):
        raise problem
    said = str(caught.value)
    assert said.startswith(words) and said.endswith(
        "The test had begun, so its whole budget counts as spent."
    )
    # what it came from holds cells, and must not be found beside it
    assert CELL not in said
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert ledger.state.charges[0].ended == EARLY


def test_no_frame_of_a_failure_holds_what_it_came_from() -> None:
    """Whoever keeps the locals of frames with a traceback would keep a cell."""
    with pytest.raises(ReleaseFailed) as caught, reserving(ProcessLedger()):
        raise ValueError(f"the cell was {CELL}")
    assert CELL not in chain_of(caught.value)


def test_a_failure_that_says_itself_that_the_charge_stays_is_not_told_twice() -> None:
    with (
        pytest.raises(NotCertified, match=r"^No proof; the charge stays\.$") as caught,
        reserving(ProcessLedger()),
    ):
        raise NotCertified("No proof; the charge stays.")
    assert caught.value.__context__ is None


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_whoever_interrupts_is_told_what_is_spent(stop: type[BaseException]) -> None:
    ledger = ProcessLedger()
    with pytest.raises(stop) as caught, reserving(ledger):
        raise stop
    assert caught.value.__notes__ == [
        "The test had begun: its whole budget (epsilon 1, delta 1e-06) counts as spent"
        f" (ledger: {ledger.where})."
    ]
    assert ledger.state.charges[0].ended == EARLY


class Loud(Fraction):
    """An allowance that no cost exceeds."""

    def __ge__(self, other: Any) -> bool:
        return True

    def __add__(self, other: Any) -> Any:
        return Fraction(1, 10**6)

    __gt__, __radd__ = __ge__, __add__


@pytest.mark.parametrize(
    "play",
    [
        Cost(Loud(1)),
        Cost(Fraction(1), tuple(map(Loud, CURVE)), Loud(1, 9), Loud(3)),
        Cost(1),  # type: ignore[arg-type]
        Cost(Fraction(1), least_variance=Loud(1)),
    ],
)
def test_what_a_meter_may_spend_is_in_plain_numbers(play: Cost) -> None:
    """Or a mechanism could decide for a cost that is nothing in the ledger and everything here."""
    ledger = ProcessLedger()
    with reserving(ledger, play=play) as meter:
        assert ledger.state.spent.rho == Fraction(5, 4) and type(meter.left) is Fraction
        with pytest.raises(BudgetRefused):
            meter.ask(Measure(batches=[Marginal.of(SMALL, ["a"])], rho=3))
        granted = meter._play.allowance
        numbers = (granted.rho, granted.delta, granted.curve_rho, *(granted.curve or ()))
        numbers += () if play.least_variance is None else (granted.least_variance,)
        assert {type(number) for number in numbers} == {Fraction}
        assert granted.curve in (None, CURVE)


@pytest.mark.parametrize(
    "play",
    [
        Cost("1"),  # type: ignore[arg-type]
        Cost(1.0),  # type: ignore[arg-type]
        Cost(None),  # type: ignore[arg-type]
        Cost(Fraction(1), least_variance=1.0),  # type: ignore[arg-type]
        # what is Gaussian noise alone has no curve and no delta
        Cost(Fraction(1), CURVE, least_variance=Fraction(1)),
        Cost(Fraction(1), delta=Fraction(1, 9), least_variance=Fraction(1)),
    ],
)
def test_an_allowance_that_is_no_number_is_refused_before_a_charge(play: Cost) -> None:
    ledger = ProcessLedger()
    with pytest.raises(ParameterError, match="exact numbers"), reserving(ledger, play=play):
        pass
    assert not ledger.state.charges


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("when", ["meanwhile", "at the end"])
def test_an_interrupt_brings_nothing_along_that_may_hold_a_cell(
    stop: type[BaseException], when: str
) -> None:
    class Interrupted(ProcessLedger):
        def note(self, text: str, charge: int | None = None) -> None:
            raise stop

    with pytest.raises(stop) as caught, reserving(Interrupted()):
        try:
            raise ValueError(f"the cell was {CELL}")
        except ValueError:
            if when == "meanwhile":
                raise stop from None
            raise
    assert CELL not in chain_of(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
