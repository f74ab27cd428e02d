"""The audit of the installed build: it holds for what is there, and each of its checks has been
seen to fail.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from understudy.audit import laws, plays, running
from understudy.audit import pairs as pairs_room
from understudy.audit.distributions import (
    at_least,
    at_most,
    gaussian_pmf,
    gaussian_renyi,
    laplace_pmf,
    laplace_renyi,
    renyi,
)
from understudy.audit.hooks import standing_in
from understudy.audit.laws import ADD, REPLACE, check_law
from understudy.audit.pairs import PLACED, pairs
from understudy.audit.plays import UNREPLAYED, Subject, subjects
from understudy.audit.replay import replay
from understudy.audit.rows import Row
from understudy.audit.running import Check, perform, plan
from understudy.audit.statistical import (
    DRAWS,
    EPSILONS,
    VERBS,
    Claim,
    Verb,
    judged,
    mechanism_row,
    verb_row,
)
from understudy.game.loop import Played
from understudy.game.players.measuring import one_way
from understudy.mechanisms.base import Brief, Decision, Means, Mechanism
from understudy.mechanisms.independent import Independent
from understudy.mechanisms.mwem import Mwem
from understudy.privacy import Measure, Meter
from understudy.privacy import meter as meter_room
from understudy.privacy import verbs as verbs_room
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.accounting.events import DiscreteGaussian
from understudy.privacy.noise.exponential import ScoreTable
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.verbs import measure as measure_room
from understudy.privacy.verbs import select as select_room
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.sources.memory import MemorySource

Note = Callable[[str, int, str], None]
BY_NAME = {verb.name: verb for verb in VERBS}
INDEPENDENT = Subject("independent", Independent(), (REPLACE, ADD))
MWEM = Subject("mwem", Mwem(), (REPLACE,))

# ---------------------------------------------------------------------- what is there


@pytest.mark.parametrize(
    ("subject", "relation"),
    [(s, r) for s in subjects() if s.label not in UNREPLAYED for r in s.relations],
    ids=lambda x: getattr(x, "label", x),
)
def test_a_replay_on_a_neighbour_takes_the_same_steps_and_moves_within_its_charges(
    subject: Subject, relation: Neighbours, battery: Note
) -> None:
    row = replay(subject, relation, 2, seed=7)
    assert row.holds and row.runs == 2 and 0 < row.observed <= 1, row
    battery("replay audit", row.runs, f"{subject.label}, {relation}: {row.detail}")


@pytest.mark.parametrize(
    "verb",
    [BY_NAME[name] for name in ("measure", "select", "select_marginal, total")],
    ids=lambda verb: verb.name,
)
def test_many_draws_of_a_verb_say_nothing_against_its_claim(verb: Verb, battery: Note) -> None:
    row = verb_row(verb, verb.pairs[0], Fraction(2), 4000)
    assert row.holds and row.observed > 0, row
    battery(
        "statistical audit",
        1,
        f"{verb.name}: at least epsilon {row.observed:.3f} of {row.claimed:.3f}",
    )


def test_many_releases_say_nothing_against_their_claim() -> None:
    row = mechanism_row(INDEPENDENT, "lonely", Fraction(2), plays=100)
    assert row.holds and row.runs == 100


@pytest.mark.parametrize(
    "subject", [s for s in subjects() if REPLACE in s.relations], ids=lambda s: s.label
)
def test_every_mechanism_can_be_played_at_the_least_epsilon_of_the_audit(subject: Subject) -> None:
    """One that cannot is counted as a breach, which only the full audit would show."""
    row = mechanism_row(subject, "even", min(EPSILONS), plays=10)
    # A claim that the first draws doubt is tried on five times as many fresh ones.
    assert (
        row.holds
        and row.runs == (60 if row.detail.startswith("doubted") else 10)
        and row.claimed > 0
    )


def test_the_plan_covers_every_mechanism_and_verb_and_has_two_hundred_combinations_of_draws() -> (
    None
):
    full = [check.name for check in plan()]
    for subject in subjects():
        assert (f"replay {subject.label}" in full) == (
            subject.label not in UNREPLAYED
        ) and f"statistical {subject.label}" in full
    assert sum(name.startswith("statistical") for name in full) >= 200
    verbs = {verb.name for verb in verbs_room.VERBS}
    heard = " ".join(full)
    # The law of a discriminator is one of real numbers: tests/privacy/test_logistic.py integrates it.
    assert {verb for verb in verbs if f"law {verb}" not in heard} == {"discriminate"}


def test_the_audit_stands_in_by_the_type_of_a_verb_and_leaves_all_as_it_was() -> None:
    """Each function that a verb's type names, wherever it is named; and nothing in a module."""
    named = {
        (verb.__name__, name)
        for verb in verbs_room.VERBS
        for name, thing in vars(verb).items()
        if isinstance(thing, staticmethod)
    }
    assert named == {
        ("Measure", "noisy_above"), ("Select", "draw"), ("SelectMarginal", "draw"),
        ("Resample", "draw"), ("SoftArgmin", "draw_least"), ("Argmin", "solve"),
        ("ArgminInBlocks", "plan_blocks"), ("ArgminInBlocks", "solve_in_blocks"),
    }  # fmt: skip
    before = {verb: dict(vars(verb)) for verb in verbs_room.VERBS}
    with pytest.raises(ZeroDivisionError), standing_in(**dict.fromkeys({n for _, n in named}, max)):
        assert verbs_room.Select.draw is verbs_room.Resample.draw is max
        assert verbs_room.ArgminInBlocks.plan_blocks is max
        _ = 1 / 0
    assert {verb: dict(vars(verb)) for verb in verbs_room.VERBS} == before


# ---------------------------------------------------------------------- it has been seen to fail: many draws


class Half(Noise):
    """A broken sampler with half of the noise."""

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        return np.rint(super().gaussian(size, sigma) / 2).astype(np.int64)

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        return np.rint(super().laplace(size, scale) / 2).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "draws"), [("measure", 4000), ("mistakes", 800), ("certify", 500)]
)
def test_many_draws_show_half_the_noise(name: str, draws: int) -> None:
    """One look misses it once in sixty times: it tried an event that promised more than it had."""
    looks = (
        verb_row(BY_NAME[name], BY_NAME[name].pairs[0], Fraction(2), draws, Half())
        for _ in range(4)
    )
    row = next(row for row in looks if not row.holds)
    assert row.observed > row.claimed and "broken on 5 times as many fresh draws" in row.detail


class Hardly(Noise):
    """A broken sampler with a tenth of the noise."""

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        return np.rint(super().gaussian(size, sigma) / 10).astype(np.int64)


def test_many_draws_show_a_discriminator_with_hardly_any_noise() -> None:
    row = verb_row(BY_NAME["discriminate"], "lonely", Fraction(2), 2000, Hardly())
    assert not row.holds and row.observed > row.claimed


def test_many_releases_show_noise_that_is_hardly_there() -> None:
    row = mechanism_row(INDEPENDENT, "lonely", Fraction(2), plays=300, noise=Hardly())
    assert not row.holds, row


def test_draws_that_are_the_same_every_time_are_shown() -> None:
    class Fixed(Noise):
        def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
            return np.full(size, 3, np.int64)

    assert not verb_row(BY_NAME["measure"], "lonely", Fraction(1), 1000, Fixed()).holds


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [
        (Fraction(1, 2), Fraction(11, 10)),
        (Fraction(1), Fraction(106, 100)),
        (Fraction(2), Fraction(104, 100)),
    ],
)
def test_a_small_overrun_is_shown_where_a_bound_is_tight(
    epsilon: Fraction, factor: Fraction, battery: Note
) -> None:
    """As many draws as the full audit has of a number with Laplace noise, as ``mistakes`` gives it:
    right, and a little too precise.
    """
    claim, noise = Claim(Cost(epsilon**2 / 2), epsilon), Noise(random.Random(7).randbytes)

    def found(overrun: Fraction) -> bool:
        scale = 1 / (overrun * epsilon)
        tried, least, _ = judged(
            lambda draws: (
                noise.laplace(draws, scale) + 0.0,
                noise.laplace(draws, scale) + 1.0,
                claim,
            ),
            DRAWS,
        )
        return least > tried.claimed

    shown = [found(factor) for _ in range(3)]
    assert all(shown) and not any(found(Fraction(1)) for _ in range(3))
    battery(
        "statistical audit",
        6,
        f"an overrun of {float(factor):.2f}x at epsilon {float(epsilon):g} is caught, 3 times of 3",
    )


# ---------------------------------------------------------------------- it has been seen to fail: replays


TOLD: list[np.ndarray] = []


class Telling(MemorySource):
    """A side door: leaves the table where a mechanism finds it."""

    def __init__(self, table: Any, schema: Any) -> None:
        super().__init__(table, schema)
        TOLD[:] = [table]


def with_what_is_left(mechanism: Mechanism, decision: Decision, meter: Meter) -> Decision:
    """The same, once something was spent beside it."""
    return mechanism.decide(decision.brief, replace(decision.means, rho=meter.left))


@dataclass(frozen=True, kw_only=True)
class Chooses(Independent):
    """Measures another column first if somebody has a last value in the first one."""

    def play(self, decision: Decision, meter: Meter, rng: Any, watcher: Any) -> Played:
        ones = one_way(decision.brief.schema)
        first = ones[-1] if TOLD[0][:, 0].max() == decision.brief.schema.shape[0] - 1 else ones[0]
        meter.ask(Measure(batches=[first], rho=meter.left / 10))[0]
        return super().play(with_what_is_left(self, decision, meter), meter, rng, watcher)


@dataclass(frozen=True, kw_only=True)
class StopsEarly(Independent):
    """Asks once more if somebody has a last value in the first column."""

    def play(self, decision: Decision, meter: Meter, rng: Any, watcher: Any) -> Played:
        played = super().play(decision, meter, rng, watcher)
        if TOLD[0][:, 0].max() == decision.brief.schema.shape[0] - 1:
            meter.ask(Measure(batches=[one_way(decision.brief.schema)[0]], rho=Fraction(1, 10**6)))[
                0
            ]
        return played

    def decide(self, brief: Brief, means: Means) -> Decision:
        return replace(super().decide(brief, means), cost=Cost(means.rho + 1))


@dataclass(frozen=True, kw_only=True)
class Spends(Independent):
    """Pays more when a cell is occupied."""

    def play(self, decision: Decision, meter: Meter, rng: Any, watcher: Any) -> Played:
        share = 20 if TOLD[0][:, 0].max() == decision.brief.schema.shape[0] - 1 else 10
        meter.ask(Measure(batches=[one_way(decision.brief.schema)[0]], rho=meter.left / share))[0]
        return super().play(with_what_is_left(self, decision, meter), meter, rng, watcher)


@dataclass(frozen=True, kw_only=True)
class CopiesRows(Independent):
    """Takes the same steps, and puts a person of the table among the released rows."""

    def play(self, decision: Decision, meter: Meter, rng: Any, watcher: Any) -> Played:
        played = super().play(decision, meter, rng, watcher)
        person, honest = TOLD[0].sum(axis=0), played.model

        class Copy:
            shares = honest.shares

            def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
                made = honest.rows(count, rng)
                made[0] = person % np.asarray(decision.brief.schema.shape)
                return made

        return replace(played, model=Copy())


@dataclass(frozen=True, kw_only=True)
class OrdersRows(Independent):
    """Takes the same steps, and tells something by the order of the released rows."""

    def play(self, decision: Decision, meter: Meter, rng: Any, watcher: Any) -> Played:
        played = super().play(decision, meter, rng, watcher)
        secret, honest = int(TOLD[0][:, 0].sum()), played.model

        class Turned:
            shares = honest.shares

            def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
                return np.roll(honest.rows(count, rng), secret, axis=0)

        return replace(played, model=Turned())


@dataclass(frozen=True, kw_only=True)
class Reaches(Independent):
    """Looks behind the meter."""

    name: ClassVar[str] = "reaches"

    def play(self, decision: Decision, meter: Meter, rng: Any, watcher: Any) -> Played:
        assert meter._exact is not None
        return super().play(decision, meter, rng, watcher)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Chooses, "asked for something else"),
        (StopsEarly, "call"),
        (Spends, "asked for something else"),
        (CopiesRows, "certify is asked for something else"),
        (OrdersRows, "gave other rows"),
        (Reaches, "could not be run"),
    ],
)
def test_a_replay_shows_a_mechanism_that_sees_more_than_is_released(
    kind: type[Mechanism], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plays, "MemorySource", Telling)
    row = replay(Subject("sly", kind(), (REPLACE,)), REPLACE, 6)
    assert not row.holds and said in row.detail, row


def test_an_honest_mechanism_through_the_same_side_door_is_fine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plays, "MemorySource", Telling)
    assert replay(INDEPENDENT, REPLACE, 6).holds


def test_replays_and_laws_show_an_understated_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Marginal, "l2_squared", lambda self, neighbours: 1)
    row = replay(INDEPENDENT, REPLACE, 3)
    assert not row.holds and "squared L2 distance is 2 where 1 is declared" in row.detail
    law = check_law(laws.LAWS[0], REPLACE)
    assert not law.holds and law.observed == pytest.approx(2, rel=1e-3)


def test_replays_and_laws_show_a_score_that_moves_further_than_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = select_room.scored
    monkeypatch.setattr(select_room, "scored", lambda *args: 2 * honest(*args))
    row = replay(MWEM, REPLACE, 3)
    assert not row.holds and "select moved" in row.detail
    law = check_law(next(law for law in laws.LAWS if law.subject == "select"), REPLACE)
    assert not law.holds and law.observed == pytest.approx(4, rel=1e-2)


def charging(times: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Gaussian noise be charged as if its variance were so many times what it is."""
    honest = meter_room.Account.charge

    def charge(self: Any, *events: Any) -> None:
        said = [
            (
                replace(e, sigma_squared=times * e.sigma_squared)
                if isinstance(e, DiscreteGaussian)
                else e
            )
            for e in events
        ]
        honest(self, *said)

    monkeypatch.setattr(meter_room.Account, "charge", charge)


def test_replays_and_laws_show_a_verb_that_charges_half(monkeypatch: pytest.MonkeyPatch) -> None:
    charging(Fraction(2), monkeypatch)
    row = replay(INDEPENDENT, REPLACE, 1)
    assert not row.holds and "less noise than it is charged for" in row.detail
    law = check_law(laws.LAWS[0], REPLACE)
    assert not law.holds and law.observed == pytest.approx(2, rel=1e-3)


def test_laws_show_twice_the_noise_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a breach of privacy, but not the noise that the proof is about."""
    charging(Fraction(1, 4), monkeypatch)
    law = check_law(laws.LAWS[0], REPLACE)
    assert (
        not law.holds
        and law.observed == pytest.approx(1 / 4, rel=1e-3)
        and "other noise than the proof's" in law.detail
    )


def test_replays_and_laws_show_a_selection_that_charges_a_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = ScoreTable.log_weight_shift
    monkeypatch.setattr(
        ScoreTable, "log_weight_shift", lambda self, sensitivity: honest(self, sensitivity) / 2
    )
    row = replay(MWEM, REPLACE, 3)
    assert not row.holds and "select moved" in row.detail
    assert not check_law(
        next(law for law in laws.LAWS if law.subject == "select, signed"), REPLACE
    ).holds


def test_replays_show_noise_that_depends_on_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = measure_room.noisy
    monkeypatch.setattr(
        measure_room,
        "noisy",
        lambda batch, counts, sigma, kept, noise: honest(
            batch, counts, sigma + int(counts.dense()[-1]), kept, noise
        ),
    )
    assert not replay(INDEPENDENT, REPLACE, 6).holds


def test_what_cannot_be_run_has_not_held() -> None:
    def breaks() -> Row:
        raise ValueError("no")

    row = perform(Check("law of nothing", breaks))
    assert not row.holds and row.kind == "law" and row.detail == "could not be run (ValueError)"


def test_a_worker_that_dies_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running.sys, "executable", "/bin/false")
    rows = [row for _, row in running.run("independent", quick=True)]
    assert len(rows) == 3 and all(
        not row.holds and row.detail == "the process that ran it died" for row in rows
    )


# ---------------------------------------------------------------------- what it is made of


@pytest.mark.parametrize("relation", list(Neighbours))
def test_pairs_are_neighbours_and_some_are_badly_placed(relation: Neighbours) -> None:
    found = list(pairs(30, relation, 3))
    assert {pair.placed for pair in found} == set(PLACED)
    for pair in found:
        few, many = sorted((pair.here, pair.there), key=len)
        assert np.all(pair.here < pair.schema.shape) and np.all(pair.there < pair.schema.shape)
        if relation is REPLACE:
            assert len(few) == len(many) and np.any(few != many, axis=1).sum() <= 1
        else:
            assert np.array_equal(many[1:], few)
        if pair.placed == "alone in each cell":
            assert any(
                np.all((rows == np.asarray(pair.schema.shape) - 1).sum(axis=0) == 1)
                for rows in (pair.here, pair.there)
            )
    again = list(pairs_room.pairs(30, relation, 3))
    assert all(np.array_equal(a.here, b.here) for a, b in zip(found, again, strict=True))


def test_bounds_on_a_probability_are_clopper_and_pearsons() -> None:
    for trials, level in itertools.product((20, 20_000), (1e-2, 1e-5)):
        for hits in {0, 1, trials // 3, trials - 1, trials}:
            low = stats.beta.ppf(level, hits, trials - hits + 1) if hits else 0.0
            high = stats.beta.ppf(1 - level, hits + 1, trials - hits) if hits < trials else 1.0
            assert at_least(hits, trials, level) == pytest.approx(low, rel=1e-6, abs=1e-12)
            assert at_most(hits, trials, level) == pytest.approx(high, rel=1e-6)


@pytest.mark.parametrize("order", [1.01, 2, 8])
def test_divergences_agree_with_sums_over_pmfs(order: float) -> None:
    for width, shift in itertools.product((1.5, 6.0), (-2, 0, 1, 3)):
        for pmf, closed in ((gaussian_pmf, gaussian_renyi), (laplace_pmf, laplace_renyi)):
            reach = math.ceil((30 if pmf is gaussian_pmf else 60) * width) if width > 2 else 45
            law = pmf(width, reach)
            window = slice(max(0, shift), len(law) + min(0, shift))
            assert closed(width, shift, order) == pytest.approx(
                renyi(law[window], np.roll(law, shift)[window], order), rel=1e-4, abs=1e-6
            )
    assert renyi(np.array([0.5, 0.5]), np.array([1.0, 0.0]), order) == math.inf


def test_rows_read_back_from_lines_of_json() -> None:
    row = verb_row(BY_NAME["measure"], "even", Fraction(1), 500)
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
