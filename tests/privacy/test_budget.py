from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import ParameterError
from understudy.privacy import Budget
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS, Cost, cost_of, total_cost
from understudy.privacy.accounting.budget import epsilon_for, exact, log_delta_zcdp, rho_for

N = 48842
DELTA = Fraction(1, N * N)


@pytest.mark.parametrize(
    ("epsilon", "rho"),
    [
        ("0.05", 4.385e-5),
        ("0.1", 1.675e-4),
        ("0.25", 9.853e-4),
        ("0.5", 3.758e-3),
        ("1", 1.427e-2),
        ("2", 5.365e-2),
    ],
)
def test_rho_reproduces_the_reference_table(epsilon: str, rho: float) -> None:
    assert float(Budget.of(epsilon=epsilon, delta=DELTA).rho) == pytest.approx(rho, rel=5e-4)


@pytest.mark.parametrize(("rho", "epsilon"), [("0.01", 0.831), ("0.1", 2.779), ("1", 9.72)])
def test_epsilon_agrees_with_dp_accounting(rho: str, epsilon: float) -> None:
    """Two routes: ours, and Google's Renyi accountant on its own grid of orders (which can only be
    looser).
    """
    ours = float(epsilon_for(Fraction(rho), DELTA))
    accountant = dp_accounting.rdp.RdpAccountant([1 + i / 50 for i in range(1, 5000)])
    accountant.compose(dp_accounting.ZCDpEvent(float(rho)))
    theirs = accountant.get_epsilon(float(DELTA))
    assert ours == pytest.approx(epsilon, abs=6e-3)
    assert ours <= theirs * (1 + 1e-6)
    assert ours == pytest.approx(theirs, rel=2e-3)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 20), st.floats(1e-14, 1e-2))
def test_conversion_round_trip_never_gains(epsilon: float, delta: float) -> None:
    e, d = Fraction(repr(epsilon)), Fraction(repr(delta))
    rho = rho_for(e, d)
    back = epsilon_for(rho, d)
    assert back <= e * (1 + Fraction(1, 10**6))
    assert back >= e * (1 - Fraction(1, 10**4))
    assert log_delta_zcdp(rho, e) <= math.log(delta) + 1e-12


def test_a_tighter_conversion_than_the_papers() -> None:
    paper = (math.sqrt(math.log(N * N) + 1) - math.sqrt(math.log(N * N))) ** 2
    assert float(Budget.of(epsilon=1, delta=DELTA).rho) > 1.2 * paper


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, "x", None, True, 1e9, "1/0"])
def test_bad_epsilons_are_refused(bad: object) -> None:
    with pytest.raises(ParameterError):
        Budget.of(epsilon=bad, delta=1e-9)


@pytest.mark.parametrize("bad", [0, -1e-9, 1, 2, math.nan, math.inf, "x", None])
def test_bad_deltas_are_refused(bad: object) -> None:
    with pytest.raises(ParameterError):
        Budget.of(epsilon=1, delta=bad)


def test_a_float_means_the_decimal_it_prints_as() -> None:
    assert Budget.of(epsilon=0.1, delta=1e-9).epsilon == Fraction(1, 10)


def test_costs_of_events_by_a_second_route() -> None:
    gaussian = cost_of(ev.DiscreteGaussian(what="m", sigma_squared=Fraction(50), l2_squared=2))
    assert gaussian.rho == Fraction(1, 50)
    laplace = cost_of(ev.DiscreteLaplace(what="l", scale=Fraction(10), l1=1))
    assert laplace.rho == Fraction(1, 200)
    draws = cost_of(ev.ExponentialDraws(what="s", log_weight_shift=Fraction(1, 10), draws=4))
    assert draws.rho == 4 * (2 * Fraction(1, 10)) ** 2 / 8


def test_an_unknown_event_is_refused_never_guessed() -> None:
    class Stranger(ev.Event):
        pass

    class Disguised(ev.PureDP):
        pass

    for event in (Stranger(what="x"), Disguised(what="x", epsilon=Fraction(0)), ev.Event(what="x")):
        with pytest.raises(ParameterError, match="no known cost"):
            cost_of(event)


@pytest.mark.parametrize(
    "event",
    [
        ev.DiscreteGaussian(what="x", sigma_squared=Fraction(0), l2_squared=1),
        ev.DiscreteLaplace(what="x", scale=Fraction(-1), l1=1),
        ev.ExponentialDraws(what="x", log_weight_shift=Fraction(-1), draws=1),
        ev.ApproximateDP(what="x", epsilon=Fraction(1), delta=Fraction(1)),
        ev.RenyiCurve(what="x", curve=(Fraction(1),)),
        ev.DiscreteGaussian(what="x", sigma_squared=math.inf, l2_squared=1),  # type: ignore[arg-type]
        ev.ExponentialDraws(what="x", log_weight_shift=Fraction(1), draws=Fraction(1, 2)),  # type: ignore[arg-type]
        ev.PureDP(what="x", epsilon=0.1),  # type: ignore[arg-type]
    ],
)
def test_malformed_events_are_refused(event: ev.Event) -> None:
    with pytest.raises(ParameterError):
        cost_of(event)


def test_events_read_back() -> None:
    curve = tuple(a * Fraction(1, 100) for a in ORDERS)
    for event in (
        ev.DiscreteGaussian(what="m", sigma_squared=Fraction(9, 4), l2_squared=2),
        ev.ExponentialDraws(what="s", log_weight_shift=Fraction(1, 7), draws=3),
        ev.RenyiCurve(what="r", curve=curve, rho=None),
        ev.RenyiCurve(what="r", curve=curve, rho=Fraction(1, 100)),
        ev.ApproximateDP(what="a", epsilon=Fraction(1), delta=Fraction(1, 1000)),
    ):
        assert ev.from_dict(ev.to_dict(event)) == event


def test_a_zcdp_curve_on_the_grid_converts_almost_like_rho() -> None:
    rho = Budget.of(epsilon=1, delta=DELTA).rho
    on_grid = cost_of(ev.RenyiCurve(what="r", curve=tuple(a * rho for a in ORDERS))).epsilon_at(
        DELTA
    )
    assert on_grid is not None and 1 - 1e-9 <= on_grid <= Fraction(1001, 1000)


def test_approximate_parts_add_their_delta() -> None:
    rho = Fraction(1, 100)
    plain = Cost(rho).epsilon_at(Fraction(1, 10**6))
    both = total_cost(
        [
            ev.Reservation(what="x", rho=rho),
            ev.ApproximateDP(what="y", epsilon=Fraction(0), delta=Fraction(1, 2 * 10**6)),
        ]
    )
    mixed = both.epsilon_at(Fraction(1, 10**6))
    assert plain is not None and mixed is not None and mixed > plain
    assert mixed == Cost(rho).epsilon_at(Fraction(1, 2 * 10**6))
    assert both.epsilon_at(Fraction(1, 2 * 10**6)) is None


def test_deltas_of_several_steps_add_up() -> None:
    steps = [
        ev.ApproximateDP(what="x", epsilon=Fraction(0), delta=Fraction(1, d)) for d in (8, 8, 4)
    ]
    assert (
        total_cost(steps)
        == Cost(delta=Fraction(1, 2))
        == Cost(delta=Fraction(1, 4)) + Cost(delta=Fraction(1, 4))
    )


def test_a_promise_has_room_for_the_delta_of_steps_and_that_of_the_rest_together() -> None:
    budget = Budget.of(epsilon=1, delta=DELTA)
    half = rho_for(Fraction(1), DELTA / 2)
    assert Cost(half, delta=DELTA / 2 * (1 - Fraction(1, 10**6))).fits(budget)
    for share in (Fraction(1, 2) + Fraction(1, 10**6), Fraction(3, 4), Fraction(1)):
        assert Cost(half).fits(budget) and not Cost(half, delta=share * DELTA).fits(budget)
    alone, both = (
        float(Cost(half, delta=delta).log_delta_at(Fraction(1)).exp())
        for delta in (Fraction(0), DELTA)
    )
    assert both == pytest.approx(alone + float(DELTA), rel=1e-9)


def test_an_allowance_is_kept_in_every_part() -> None:
    """At its edge, and a hair beyond it in one part at a time."""
    hair, curve = Fraction(1, 10**30), tuple(Fraction(i + 1, 100) for i in range(len(ORDERS)))
    allowance = Cost(Fraction(1), curve, Fraction(1, 9), Fraction(3))
    assert allowance.within(allowance) and Cost().within(allowance)
    for i in (0, len(ORDERS) // 2, len(ORDERS) - 1):
        assert not replace(allowance, curve=(*curve[:i], curve[i] + hair, *curve[i + 1 :])).within(
            allowance
        )
    for beyond in (
        {"rho": 1 + hair},
        {"delta": Fraction(1, 9) + hair},
        {"curve_rho": 3 + hair},
        {"curve_rho": None},
    ):
        assert not replace(allowance, **beyond).within(allowance)
    assert not Cost(curve=curve, curve_rho=Fraction(3)).within(Cost(Fraction(9))), (
        "no curve was set aside"
    )


def test_a_budget_refuses_one_unit_too_much() -> None:
    budget = Budget.of(epsilon=1, delta=DELTA)
    assert Cost(budget.rho).fits(budget)
    assert not Cost(budget.rho + Fraction(1, 10**40)).fits(budget)


def test_a_curve_without_a_proved_rho_never_fits_a_pure_rho_budget() -> None:
    curve = tuple(Fraction(1, 10**9) for _ in ORDERS)
    assert not cost_of(ev.RenyiCurve(what="r", curve=curve)).fits(Budget.zcdp(1))
    assert cost_of(ev.RenyiCurve(what="r", curve=curve, rho=Fraction(1, 2))).fits(Budget.zcdp(1))
    assert not cost_of(ev.RenyiCurve(what="r", curve=curve, rho=Fraction(2))).fits(Budget.zcdp(1))
    assert cost_of(ev.RenyiCurve(what="r", curve=curve)).fits(Budget.of(epsilon=1, delta=1e-6))


def test_an_allowance_holds_part_by_part() -> None:
    curve = tuple(Fraction(1, 100) for _ in ORDERS)
    assert Cost(Fraction(1)).within(Cost(Fraction(1), curve))
    assert not Cost(Fraction(1), curve).within(Cost(Fraction(5)))
    assert not Cost(delta=Fraction(1, 10**9)).within(Cost(Fraction(5)))


def test_an_allowance_granted_on_a_zcdp_bound_refuses_a_curve_without_one() -> None:
    curve = tuple(Fraction(1, 100) for _ in ORDERS)
    granted = Cost(curve=curve, curve_rho=Fraction(1, 10**9))
    assert not Cost(curve=curve, curve_rho=None).within(granted)
    assert not Cost(curve=curve, curve_rho=Fraction(1, 10)).within(granted)
    assert Cost(curve=curve, curve_rho=Fraction(1, 10**9)).within(granted)
    assert Cost(curve=curve, curve_rho=None).within(Cost(curve=curve, curve_rho=None))


def test_a_delta_smaller_than_any_float_still_converts() -> None:
    budget = Budget.of(epsilon=1, delta="1e-400")
    assert budget.delta is not None and 0 < epsilon_for(budget.rho, budget.delta) <= Fraction(
        1000001, 1000000
    )


def test_what_each_kind_of_event_costs_is_what_the_proofs_say() -> None:
    third = Fraction(1, 3)
    assert cost_of(ev.PureDP(what="x", epsilon=third)).rho == third**2 / 2
    assert cost_of(ev.DiscreteLaplace(what="x", scale=Fraction(6), l1=2)).rho == third**2 / 2
    assert (
        cost_of(ev.PerturbedArgmin(what="x", shift=1, slots=2, scale=Fraction(6))).rho
        == third**2 / 2
    )
    assert (
        cost_of(ev.ExponentialDraws(what="x", log_weight_shift=third, draws=5)).rho
        == 5 * third**2 / 2
    )
    assert cost_of(
        ev.DiscreteGaussian(what="x", sigma_squared=Fraction(9), l2_squared=2)
    ).rho == Fraction(1, 9)
    assert (
        cost_of(ev.JointGaussian(what="x", sigmas_squared=(Fraction(1),), l2_in_sigmas=third)).rho
        == third / 2
    )
    both = cost_of(ev.ApproximateDP(what="x", epsilon=third, delta=Fraction(1, 7)))
    assert (both.rho, both.delta) == (third**2 / 2, Fraction(1, 7))
    assert cost_of(ev.Reservation(what="x", rho=third)).rho == third


@pytest.mark.parametrize("written", ["1,5", "abc", "inf", "nan", "", "1_0", math.inf, math.nan])
def test_what_is_no_number_is_answered_with_one(written: object) -> None:
    with pytest.raises(
        ParameterError, match=r"epsilon must be a finite number such as 0\.5 or 1\.5, with a point"
    ):
        exact(written, "epsilon")


@pytest.mark.parametrize("written", ["1e999999999", "1" * 1500, "1" * 5000, 10**2000])
def test_a_number_with_too_many_digits_is_told_how_many(written: object) -> None:
    with pytest.raises(ParameterError, match="no more than 1,000 digits"):
        exact(written, "epsilon")
