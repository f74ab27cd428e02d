"""Discriminators by objective perturbation: the certificate against another solver, the loss by its
definition, the verb's order.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, optimize, special, stats

import understudy as us
from privacy.test_meter import ADD, BASE, REPLACE, TINY, Silence, Tripwire
from support.bundles import unsound
from support.meters import decided
from understudy.audit.distributions import gaussian_pmf
from understudy.checks import BASKET, SMALL, small_table, source_kinds
from understudy.counting.tally import CodedRows
from understudy.errors import BudgetRefused, NotSupported, ParameterError, WorkloadError
from understudy.mechanisms.base import Brief
from understudy.mechanisms.papers.gan_logistic import GanLogistic
from understudy.privacy import Budget, Discriminate, Discriminator, Meter
from understudy.privacy import logistic as room
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS, Cost, total_cost
from understudy.privacy.logistic import (
    COARSE,
    FAR,
    FINE,
    GRID,
    LEVELS,
    Doubts,
    Question,
    Terms,
    is_small,
    minimised,
)
from understudy.privacy.noise.samplers import Noise
from understudy.queries.literals import Literal, all_of
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric
from understudy.queries.workload import marginals
from understudy.schema import Schema
from understudy.sources.memory import MemorySource

X = Marginal.of(TINY, ["x"])
Y = Marginal.of(TINY, ["y"])
BOTH = Marginal.of(TINY, ["y", "x"])
NOTHING = Marginal((), ())
MADE = np.array([[0, 0], [1, 0], [1, 1]])
LARGE = Cost(Fraction(10**6), tuple(Fraction(10**6) for _ in ORDERS), curve_rho=Fraction(10**6))
KNOTS = np.arange(len(LEVELS)) / 2**room.STEP - room.FURTHEST


def meter_on(
    rows: np.ndarray,
    *,
    schema: Schema = TINY,
    noise: Noise | None = None,
    play: Cost = LARGE,
    **how: Any,
) -> Meter:
    settings = {
        "neighbours": REPLACE,
        "certify": Fraction(1),
        **how,
    }
    return Meter(MemorySource(rows, schema), play=play, noise=noise, **settings)


def asked(meter: Meter, **how: Any) -> Discriminator:
    """The verb with some of its arguments changed."""
    given = {"batches": [X, Y], "fake": MADE, "weight": 1, "ridge": 40, "sigma": Fraction(3), **how}
    return meter.ask(Discriminate(batches=given.pop("batches"), fake=given.pop("fake"), **given))


# ---------------------------------------------------------------------- the objective, once more, in floats


def doubt(score: np.ndarray) -> np.ndarray:
    return np.interp(score, KNOTS, LEVELS / 2**room.LEVEL)


def bent(score: np.ndarray) -> np.ndarray:
    """How fast the doubt falls, between knots."""
    at = np.searchsorted(KNOTS, score) - 1
    falls = -np.diff(LEVELS / 2**room.LEVEL) * 2**room.STEP
    return np.where((at >= 0) & (at < len(falls)), falls[np.clip(at, 0, len(falls) - 1)], 0)


def one_hot(rows: np.ndarray, batches: tuple[Marginal, ...]) -> np.ndarray:
    """h of each row, one marginal at a time."""
    found = []
    for batch in batches:
        cells = (
            np.ravel_multi_index(rows[:, batch.positions].T, batch.shape)
            if batch.positions
            else np.zeros(len(rows), int)
        )
        found.append(np.eye(batch.size)[cells])
    return np.hstack(found)


class Objective:
    """Its slope and second derivative without b, for h of the rows, h of the made rows, the made
    rows' weight, and the ridge.
    """

    def __init__(self, rows: np.ndarray, made: np.ndarray, weight: int, ridge: float) -> None:
        self.rows, self.made, self.weight, self.ridge = rows, made, weight, ridge

    def slope(self, theta: np.ndarray) -> np.ndarray:
        pulled = self.weight * self.made.T @ (1 - doubt(self.made @ theta)) - self.rows.T @ doubt(
            self.rows @ theta
        )
        return np.asarray(pulled + self.ridge * theta)

    def curve(self, theta: np.ndarray) -> np.ndarray:
        made = self.weight * (self.made.T * bent(self.made @ theta)) @ self.made
        return np.asarray(
            made
            + (self.rows.T * bent(self.rows @ theta)) @ self.rows
            + self.ridge * np.eye(len(theta))
        )

    def vanishes_at(self, b: np.ndarray) -> np.ndarray:
        """By scipy, which knows nothing of grids."""
        found = optimize.root(
            lambda theta: self.slope(theta) + b, -b / self.ridge, jac=self.curve, tol=1e-13
        )
        assert np.linalg.norm(self.slope(found.x) + b) < 1e-8
        return np.asarray(found.x)


# ---------------------------------------------------------------------- the arithmetic


def test_weights_of_rows_agree_with_their_definition_to_the_last_digit() -> None:
    rng, rows = np.random.default_rng(0), small_table(200)
    batches = (*marginals(SMALL, k=2).marginals, Marginal.of(SMALL, ["b"]), NOTHING)
    for spread in (0.01, 1, 30):
        theta = np.rint(
            rng.normal(0, spread, sum(batch.size for batch in batches)) * 2**GRID
        ).astype(np.int64)
        found = CodedRows(rows, SMALL.shape).scan(Doubts(batches, theta))
        wanted, h = [Fraction(0)] * len(theta), one_hot(rows, batches).astype(bool)
        for cells in h:
            score = Fraction(sum(int(t) for t in theta[cells]), 2**GRID)
            place = min(
                max((score + room.FURTHEST) * 2**room.STEP, Fraction(0)), Fraction(len(LEVELS) - 1)
            )
            at = min(int(place), len(LEVELS) - 2)
            exact = (int(LEVELS[at]) + (place - at) * int(LEVELS[at + 1] - LEVELS[at])) * 2 ** (
                FINE - room.LEVEL
            )
            for cell in np.flatnonzero(cells):
                wanted[cell] += exact
        for value, exact, rows_there in zip(
            found.tolist(), wanted, h.sum(axis=0).tolist(), strict=True
        ):
            assert exact - rows_there <= value <= exact


@pytest.mark.parametrize("name", source_kinds())
def test_every_source_serves_a_discriminator(name: str, tmp_path: Any) -> None:
    kind = source_kinds()[name]
    schema = BASKET if kind.holds_items else SMALL
    rows = np.minimum(small_table(300), np.asarray(schema.shape) - 1)
    source = kind.holding(
        pa.table({n: pa.array(rows[:, i]) for i, n in enumerate(schema.names)}), schema, tmp_path
    )
    batches = (*marginals(schema, k=2).marginals, NOTHING)
    theta = np.rint(
        np.random.default_rng(1).normal(size=sum(batch.size for batch in batches)) * 2**GRID
    ).astype(np.int64)
    found = source.scan(Doubts(batches, theta))
    assert (
        np.array_equal(found, CodedRows(rows, schema.shape).scan(Doubts(batches, theta)))
        and np.count_nonzero(found) > 10
    )


def test_the_doubt_is_that_of_a_logistic_discriminator_and_never_steeper_than_stated() -> None:
    scores = np.linspace(-20, 20, 9999)
    assert (
        np.abs(doubt(scores) - special.expit(-scores)).max() < 2**-19
        and LEVELS[0] == 2**room.LEVEL
        and LEVELS[-1] == 0
    )
    assert (
        np.all(np.diff(LEVELS) <= 0)
        and Fraction(int(-np.diff(LEVELS).min()), 2 ** (room.LEVEL - room.STEP)) == room.STEEPEST
    )
    assert Fraction(1, 4) <= room.STEEPEST < Fraction(26, 100)


def test_a_slope_is_called_small_only_if_it_is() -> None:
    rng, told = np.random.default_rng(1), 0
    for _ in range(300):
        stop, size = int(rng.integers(1, 2 ** int(rng.integers(4, 60)))), int(rng.integers(1, 50))
        slope = np.rint(
            rng.normal(size=size) * stop * rng.choice([0.3, 1, 2]) / math.sqrt(size)
        ).astype(np.int64)
        squared = sum(x**2 for x in slope.tolist())
        small = is_small(slope, stop)
        assert not small or squared <= stop**2
        assert small or 4 * squared > stop**2
        told += small
    assert 50 < told < 250
    assert not is_small(np.full(3, 2**62), 2**40) and not is_small(np.full(3, -(2**62)), 2**40)


def random_question(rng: np.random.Generator) -> tuple[np.ndarray, Question]:
    batches = [(X, Y), (BOTH, X), (BOTH, X, Y, NOTHING)][int(rng.integers(3))]
    rows, made = (rng.integers(0, 2, (int(rng.integers(1, 30)), 2)) for _ in range(2))
    numbers = {
        "weight": int(rng.integers(1, 4)),
        "ridge": int(rng.integers(1, 30)),
        "sigma": Fraction(int(rng.integers(1, 60)), 8),
    }
    return rows, Question.checked(batches, made, TINY.shape, rows=len(rows), **numbers)


@pytest.mark.parametrize("fast", [None, 0, 5], ids=["as it is", "plain descent", "both"])
def test_what_is_certified_is_as_near_as_stated_by_another_solver(
    fast: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, furthest = np.random.default_rng(2), 0.0
    steps = room.minimised
    monkeypatch.setattr(room, "minimised", lambda slope, terms: steps(slope, terms, fast))
    for _ in range(25):
        rows, question = random_question(rng)
        terms = question.terms
        b = np.rint(rng.normal(0, terms.sigma, terms.cells)).astype(np.int64)
        theta = question.answered(CodedRows(rows.astype(np.int32), TINY.shape), b)
        h = [one_hot(codes, question.batches) for codes in (rows, question.fake._codes)]
        truth = Objective(*h, question.weight, terms.ridge).vanishes_at(b / 2**COARSE)
        away = float(np.linalg.norm(theta / 2**GRID - truth)) * 2**GRID
        assert away <= terms.off and np.abs(theta).max() <= terms.box
        furthest = max(furthest, away / float(terms.off))
    assert furthest > 0.01  # so the bound could have been passed


def test_a_wrong_slope_is_noticed_by_the_other_solver() -> None:
    """A solver that forgets the made rows is far from where the slope vanishes: the check above is
    one.
    """
    rows, question = random_question(np.random.default_rng(3))
    table = CodedRows(rows.astype(np.int32), TINY.shape)
    b = np.zeros(question.terms.cells, np.int64)
    forgot = minimised(
        lambda theta: (
            room._scaled(theta, question.terms.ridge) - table.scan(Doubts(question.batches, theta))
        ),
        question.terms,
    )
    h = [one_hot(codes, question.batches) for codes in (rows, question.fake._codes)]
    truth = Objective(*h, question.weight, question.terms.ridge).vanishes_at(b / 2**COARSE)
    assert np.linalg.norm(forgot / 2**GRID - truth) * 2**GRID > 2 * question.terms.off


def test_the_largest_numbers_do_not_wrap() -> None:
    """At the corners of the box, with as many rows as are let in, slopes are those of Python's
    numbers.
    """
    rows, weight = BASE, room.LARGEST_SLOPE - 5000
    question = Question.checked(
        [X, Y],
        MADE[:1],
        TINY.shape,
        rows=len(rows),
        weight=weight,
        ridge=room.LARGEST_SLOPE,
        sigma=64,
    )
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def at_the_corners(slope: Any, terms: Terms) -> np.ndarray:
        for signs in itertools.product((1, -1), repeat=terms.cells):
            theta = terms.box * np.array(signs)
            seen.append((theta, slope(theta)))
        return np.zeros(terms.cells, np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "minimised", at_the_corners)
        question.answered(
            CodedRows(rows.astype(np.int32), TINY.shape), np.full(4, FAR * question.terms.sigma)
        )
    h = [one_hot(codes, question.batches) for codes in (rows, MADE[:1])]
    objective = Objective(*h, weight, question.terms.ridge)
    for theta, slope in seen:
        wanted = objective.slope(theta / 2**GRID) + FAR * 64
        assert np.allclose(slope / 2**FINE, wanted, rtol=1e-9, atol=1e-3)
    assert max(np.abs(slope).max() for _, slope in seen) > 2**61
    with pytest.raises(NotSupported, match="larger ridge"):
        Question.checked(
            [X, Y],
            MADE[:1],
            TINY.shape,
            rows=len(rows),
            weight=weight + 5000,
            ridge=room.LARGEST_SLOPE,
            sigma=64,
        )


# ---------------------------------------------------------------------- the proof, step by step


@pytest.mark.parametrize("sigma", [1.0, 1.3, 4.0, 25.0])
def test_discrete_noise_is_a_continuous_one_moved_by_at_most_two(sigma: float) -> None:
    """Where both distribution functions say the same, they are within two of each other: at every
    whole number, both tails.
    """
    reach = int(8 * sigma)
    below = np.cumsum(gaussian_pmf(sigma, 40 * int(sigma + 1)))
    for m in range(-reach, 1):  # the upper tail is its mirror image
        said = below[40 * int(sigma + 1) + m]
        assert (
            stats.norm.cdf(m - 1, scale=sigma)
            <= said
            <= stats.norm.cdf(m + 1, scale=sigma) * (1 + 1e-12)
        )


def loss(here: Objective, there: Objective, b: np.ndarray, sigma: float) -> float:
    """ln of the two densities' ratio where the first one's slope vanishes, by the change of
    variables.
    """
    theta = here.vanishes_at(b)
    moved = -there.slope(theta)
    near, far = (np.linalg.slogdet(objective.curve(theta))[1] for objective in (here, there))
    return float((moved @ moved - b @ b) / (2 * sigma**2) + near - far)


@pytest.mark.parametrize("planted", ["nothing", "half the noise", "a ridge that is not there"])
def test_no_loss_is_larger_than_the_proof_says_for_any_noise(planted: str) -> None:
    """The bound holds for every b, not on average: with c the length of b along two rows, in
    sigmas, ln(1 + bend) + s^2/2 + s c.
    """
    rng, closest = np.random.default_rng(4), -np.inf
    for _ in range(60):
        rows, question = random_question(rng)
        sigma, ridge = question.terms.sigma / 2**COARSE, question.terms.ridge
        other = rows.copy()
        other[0] = rng.integers(0, 2, 2)
        here, there, made = (
            one_hot(codes, question.batches) for codes in (rows, other, question.fake._codes)
        )
        stated = math.log1p(float(room.STEEPEST) * len(question.batches) / ridge)
        s = math.sqrt(2 * len(question.batches)) / sigma
        noise = sigma / 2 if planted == "half the noise" else sigma
        held = ridge / 100 if "ridge" in planted else ridge
        objectives = [Objective(h, made, question.weight, held) for h in (here, there)]
        across = np.linalg.svd(np.array([here[0], there[0]]), full_matrices=False)
        plane = across[2][across[1] > 1e-9]
        for _ in range(8):
            b = rng.normal(0, noise, question.terms.cells) + rng.normal(0, 3) * noise * (
                here[0] - there[0]
            )
            along = float(np.linalg.norm(plane @ b)) / sigma
            closest = max(closest, loss(*objectives, b, noise) - (stated + s**2 / 2 + s * along))
    assert (closest <= 1e-7) == (planted == "nothing")


def density(counts: tuple[int, int], sigma: float, ridge: float, theta: np.ndarray) -> np.ndarray:
    """ln of the density of one cell's theta, whose rows are counts[0] real ones and counts[1] made
    ones.
    """
    b = counts[0] * doubt(theta) - counts[1] * (1 - doubt(theta)) - ridge * theta
    return np.asarray(stats.norm.logpdf(b, scale=sigma) + np.log(ridge + sum(counts) * bent(theta)))


@pytest.mark.parametrize("times", [1.0, 0.5, 0.8])
def test_divergence_integrated_on_a_grid_is_within_the_curve_and_close_to_it(times: float) -> None:
    """Two cells, one row that goes from one to the other, made rows that outnumber it so that its
    doubt is nearly one: the worst pair.
    """
    made, ridge = 100_000, 1
    terms = Terms.of(rows=1, fake=2 * made, marginals=1, cells=2, ridge=ridge, sigma=Fraction(4))
    curve = terms.events[0]
    assert isinstance(curve, ev.RenyiCurve) and curve.rho is not None
    sigma, step = 4 * times, 2.0**-12
    theta = np.arange(-120, 2, step) + step / 2  # between the knots, where the doubt is straight
    ratios = []
    for order, stated in zip(ORDERS, curve.curve, strict=True):
        a, total = float(order), 0.0
        if a not in (1.0625, 2.0, 8.0, 32.0, 64.0):
            continue
        for here, there in (((1, made), (0, made)), ((0, made), (1, made))):
            p, q = density(here, sigma, ridge, theta), density(there, sigma, ridge, theta)
            assert special.logsumexp(p) + math.log(step) == pytest.approx(0, abs=1e-3)
            total += float(special.logsumexp(a * p + (1 - a) * q) + math.log(step)) / (a - 1)
        assert times < 1 or total <= min(float(stated), a * float(curve.rho))
        ratios.append(total / float(stated))
        print(a, total, float(stated))
    assert max(ratios) > 0.9 if times == 1 else max(ratios) > 1


def test_the_curve_agrees_with_numerical_integration() -> None:
    for s in (Fraction(1, 100), Fraction(1, 18), Fraction(1, 2), Fraction(3)):
        for order in (ORDERS[0], Fraction(2), Fraction(10), Fraction(40)):
            t = float((order - 1) * s)
            mean = integrate.quad(
                lambda r, t=t: r * math.exp(-((r - t) ** 2) / 2), 0, t + 40, points=[t], limit=200
            )[0]
            wanted = (
                math.log1p(0.01)
                + float(s) ** 2 / 2
                + (math.log(mean) + t**2 / 2) / float(order - 1)
            )
            stated = float(room.divergence(order, s, Fraction(1, 100)))
            assert wanted * (1 - 1e-9) <= stated <= 1.2 * wanted
            assert stated <= order * room.zcdp(s, Fraction(1, 100)) * (1 + Fraction(1, 10**8))
    assert room.divergence(Fraction(4096), Fraction(100), Fraction(1)) > 4096 * 100**2 / 2


@pytest.mark.parametrize(("marginals", "ridge", "sigma"), [(2, 1, 3), (64, 5000, 205), (9, 4, 40)])
def test_the_charge_is_the_curve_of_its_own_numbers(marginals: int, ridge: int, sigma: int) -> None:
    """What a row moves and what it bends, at the lowest order, where both count."""
    curve = Terms.of(
        rows=100, fake=100, marginals=marginals, cells=200, ridge=ridge, sigma=sigma
    ).events[0]
    s, a = math.sqrt(2 * marginals) / sigma, float(ORDERS[0])
    t = (a - 1) * s
    chi = math.log1p(t * math.sqrt(2 * math.pi) * math.exp(t**2 / 2) * float(stats.norm.cdf(t))) / (
        a - 1
    )
    wanted = math.log1p(marginals / (4 * ridge)) + s**2 / 2 + chi
    assert isinstance(curve, ev.RenyiCurve) and wanted * (1 - 1e-9) <= float(
        curve.curve[0]
    ) <= wanted * (1 + 1e-3)


# ---------------------------------------------------------------------- the verb


def noise_seen(noise: Noise | None) -> np.ndarray:
    """b, in sigmas, as read off many released discriminators; what covers them is in it, an eighth
    of it.
    """
    h, made = one_hot(BASE, (X, Y)), one_hot(MADE, (X, Y))
    slope = Objective(h, made, 1, 200).slope
    return np.array(
        [-slope(asked(meter_on(BASE, noise=noise), ridge=200).theta) / 3 for _ in range(200)]
    )


class Half(Noise):
    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        return super().gaussian(size, sigma) // 2


class Shared(Noise):
    """One draw for all cells: sums over cells that cancel it would be exact."""

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        return np.repeat(super().gaussian(1, sigma), size)


@pytest.mark.parametrize(
    ("noise", "right"),
    [(None, True), (Half(), False), (Shared(), False)],
    ids=["as it is", "half", "shared"],
)
def test_released_discriminators_have_their_noise(noise: Noise | None, right: bool) -> None:
    seen = noise_seen(noise)
    wanted = (1 + 1 / 64) * np.eye(4)
    assert (
        bool(
            np.abs(np.cov(seen.T) - wanted).max() < 0.5
            and np.abs(seen.mean(axis=0)).max() < 6 / math.sqrt(200)
        )
        == right
    )


def test_what_covers_the_minimum_is_drawn_anew_for_every_cell() -> None:
    sigma = float(Terms.of(rows=3, fake=3, marginals=2, cells=4, ridge=40, sigma=3).cover)

    class Known(Noise):
        """The same b each time."""

        def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
            return (
                np.full(size, 5 << COARSE)
                if sigma == 3 * 2**COARSE
                else super().gaussian(size, sigma)
            )

    values = np.array([asked(meter_on(BASE, noise=Known())).values for _ in range(150)]) / sigma
    assert np.abs(np.cov(values.T) - np.eye(4)).max() < 0.6


def test_a_discriminator_is_charged_before_anybody_looks() -> None:
    source = Tripwire(BASE, TINY)
    source.looked = []
    meter = Meter(
        source,
        neighbours=REPLACE,
        play=LARGE,
        certify=Fraction(1),
    )
    source.meter = meter
    found = asked(meter)
    assert source.looked and set(source.looked) == {2} and meter.events == found.terms.events
    curve, cover = meter.events
    assert isinstance(curve, ev.RenyiCurve) and isinstance(cover, ev.DiscreteGaussian)
    assert found.terms.sigma == 3 * 2**COARSE and cover.sigma_squared == found.terms.cover**2
    assert cover.l2_squared >= (2 * found.terms.off) ** 2 and total_cost([cover]).rho < Fraction(
        1, 100_000
    )
    assert found.values.dtype == np.int64 and found.theta.shape == (4,)


def test_without_noise_it_tells_rows_from_made_ones() -> None:
    found = asked(
        meter_on(np.array([[0, 0]] * 5 + [[0, 1]] * 5), noise=Silence()),
        fake=np.array([[1, 0], [1, 1]]),
        weight=5,
        ridge=1,
    )
    assert found.theta[0] > 1 and found.theta[1] < -1 and np.abs(found.theta[2:]).max() < 1e-3


def test_noise_that_does_not_happen_stops_the_room() -> None:
    class Absurd(Noise):
        def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
            return np.full(size, int(65 * sigma))

    meter = meter_on(BASE, noise=Absurd())
    with pytest.raises(RuntimeError, match="does not happen"):
        asked(meter)
    assert len(meter.events) == 2


def test_refused_discriminators_cost_nothing() -> None:
    refusals: list[tuple[type[Exception], dict[str, Any]]] = [
        (ParameterError, {"batches": []}),
        (ParameterError, {"batches": [X, Symmetric((all_of(Literal(0, 1)),))]}),
        (ParameterError, {"batches": [X, Marginal((7,), (2,))]}),
        (ParameterError, {"batches": [X, Marginal((-1,), (2,))]}),
        (ParameterError, {"batches": [X, Marginal((1,), (1,))]}),
        (ParameterError, {"batches": [X, Marginal((0,), (2, 1))]}),
        (ParameterError, {"fake": np.zeros((0, 2), int)}),
        (ParameterError, {"fake": np.zeros((3, 3), int)}),
        (ParameterError, {"fake": np.zeros(2, int)}),
        (ParameterError, {"fake": MADE.astype(float)}),
        (ParameterError, {"fake": MADE + 1}),
        (ParameterError, {"fake": MADE - 1}),
        *((ParameterError, {"weight": weight}) for weight in (0, -1, True, 1.5, None)),
        *(
            (ParameterError, {"ridge": ridge})
            for ridge in (0, -1, True, 1.5, Fraction(3), None, 2**41)
        ),
        *(
            (ParameterError, {"sigma": sigma})
            for sigma in (0, -1, True, 1.5, None, "1", Fraction(1, 65), 2**16 + 1)
        ),
        (NotSupported, {"weight": 2**23}),
        (NotSupported, {"weight": 2**22, "ridge": 1}),
    ]
    for error, how in refusals:
        meter = meter_on(BASE)
        with pytest.raises(error):
            asked(meter, **how)
        assert meter.events == ()
    poor = (
        Cost(Fraction(10)),
        Cost(Fraction(0), LARGE.curve, curve_rho=None),
        Cost(Fraction(1), (Fraction(1, 10),) * len(ORDERS)),
    )
    # no curve, nothing for what covers the minimum, less of a curve than it takes
    for play in poor:
        meter = meter_on(BASE, play=play)
        with pytest.raises(BudgetRefused):
            asked(meter)
        assert meter.events == ()
    private = meter_on(BASE, neighbours=ADD)
    with pytest.raises(NotSupported, match="replace-one"):
        asked(private)
    assert private.events == ()
    wide = Schema.from_domain({"a": 5000, "b": 5000})
    with pytest.raises(NotSupported, match="at most"):
        asked(meter_on(np.zeros((3, 2), int), schema=wide), batches=[Marginal.of(wide, ["a", "b"])])
    # just below what can be handled, and twice that
    half = Schema.from_domain({"a": 4000, "b": 4000})
    with pytest.raises(NotSupported, match="32,000,000 cells"):
        asked(
            meter_on(np.zeros((3, 2), int), schema=half),
            batches=[Marginal.of(half, ["a", "b"])] * 2,
        )


# ---------------------------------------------------------------------- the mechanism


def test_the_budget_settles_what_is_not_given_and_is_never_passed() -> None:
    brief = Brief(schema=SMALL, workload=us.marginals(SMALL, k=2), neighbours=REPLACE)
    for budget in (
        Budget.of(epsilon=1, delta="1e-6"),
        Budget.of(epsilon="0.1", delta="1e-9"),
        Budget.zcdp("0.01"),
    ):
        rho = budget.rho * Fraction(19, 20)
        made = decided(GanLogistic(rounds=3), brief, rho, 600, budget)
        assert None not in made.numbers.values() and {"ridge", "sigma"} <= made.numbers.keys()
        counted = made.cost.in_rho(budget)
        assert counted is not None and 0.9 * rho < counted <= rho
        again = decided(GanLogistic(**made.numbers), brief, rho, 600, budget)
        assert again.numbers == made.numbers and again.cost == made.cost
        with pytest.raises(ParameterError, match="cost more than there is"):
            decided(GanLogistic(sigma=1), brief, rho, 600, budget)
        with pytest.raises(ParameterError, match="cost more than there is"):
            decided(GanLogistic(ridge=1e-3), brief, Fraction(1, 1000), 600)


def test_a_release_is_charged_as_decided_saved_and_verified(tmp_path: Any) -> None:
    # an exact number, as the command line gives it, is read back by who verifies
    settings = {"rounds": 2, "steps": 3, "push": Fraction(1, 2)}
    made = us.release(
        small_table(),
        schema=SMALL,
        epsilon=1,
        mechanism="gan-logistic-experimental",
        parameters=settings,
    )
    made.save(tmp_path / "bundle")
    assert unsound(tmp_path / "bundle") == []
    assert (
        made.manifest["mechanism"]["conditional_on"] is None
        and made.manifest["mechanism"]["parameters"]["sigma"] > 0
    )
    with pytest.raises(us.NotSupported, match="replace-one"):
        us.release(
            small_table(),
            schema=SMALL,
            epsilon=1,
            delta="1e-6",
            neighbours="add-remove-one",
            mechanism="gan-logistic-experimental",
        )


# ---------------------------------------------------------------------- what readers of the proof asked for


@pytest.mark.parametrize("sigma", [Fraction(1, 64), Fraction(3), Fraction(1 << 16)])
@pytest.mark.parametrize("cells", [1, 2, 1 << 24])
def test_how_far_off_a_theta_may_be_counts_every_rounding(sigma: Fraction, cells: int) -> None:
    """The stop, a unit in each row's weight and in each entry of ridge * theta, and two steps of
    b's grid; worked out once more.
    """
    terms = Terms.of(rows=1000, fake=500, marginals=9, cells=cells, ridge=77, sigma=sigma)
    root = math.isqrt(cells - 1) + 1
    stop = math.ceil(sigma * 2**COARSE) * 2 ** (FINE - COARSE) // 2**12
    slope = Fraction(stop + 1500 * 3 + root + 2 * root * 2 ** (FINE - COARSE), 2**FINE)  # in rows
    assert terms.off == slope / 77 * 2**GRID
    gaussian = terms.events[1]
    assert isinstance(gaussian, ev.DiscreteGaussian) and gaussian.l2_squared == math.ceil(
        (2 * terms.off) ** 2
    )


def test_so_many_marginals_that_scores_would_wrap_are_refused() -> None:
    few = {"rows": 1000, "fake": 1000, "cells": 2, "ridge": 1, "sigma": Fraction(1)}
    box = Terms.of(**few, marginals=1).box
    enough = room.LARGEST_SCORE // (box + 1)
    with pytest.raises(NotSupported, match="arithmetic carries"):
        room.checked_terms(**few, marginals=enough + 1)
    # that one carries, and rounding would hold the descent up
    with pytest.raises(NotSupported, match="closely enough"):
        room.checked_terms(**few, marginals=enough)


def test_a_minimum_that_rounding_would_hide_is_refused() -> None:
    with pytest.raises(NotSupported, match="closely enough"):
        room.checked_terms(
            rows=1000, fake=1000, marginals=3, cells=1 << 20, ridge=1, sigma=Fraction(1, 64)
        )


def test_a_marginal_that_is_named_twice_is_paid_for_twice() -> None:
    """Beside what a swap really moves: with three equal marginals and a doubt of one, the slope
    moves by sqrt(6) rows.
    """
    once, thrice = (asked(meter_on(BASE), batches=[X] * times).terms for times in (1, 3))
    assert (once.marginals, once.cells, thrice.marginals, thrice.cells) == (1, 2, 3, 6)
    far = np.tile([-99 << GRID, -99 << GRID], 3)  # a score at which no row is believed
    here, there = (
        CodedRows(np.array([row], np.int32), TINY.shape).scan(Doubts((X,) * 3, far))
        for row in ([0, 0], [1, 0])
    )
    assert int((((here - there) >> FINE) ** 2).sum()) == 2 * thrice.marginals == 6
    curves = [terms.events[0] for terms in (once, thrice)]
    assert all(isinstance(curve, ev.RenyiCurve) for curve in curves)
    assert all(more > less for less, more in zip(curves[0].curve, curves[1].curve, strict=True))  # type: ignore[union-attr]


def test_the_marginals_that_were_asked_for_are_read_once() -> None:
    class Sly(Marginal):
        pass

    assert [
        type(batch) for batch in asked(meter_on(BASE), batches=[X, Sly((1,), (2,))]).batches
    ] == [Marginal] * 2


def test_numbers_of_numpy_in_a_marginal_never_wrap() -> None:
    """A size of uint8(16) squared is 0 there: all cells would fall onto the same few, for the price
    of one.
    """
    schema = Schema.from_domain({"x": 16, "y": 16})
    meter, made = meter_on(np.zeros((4, 2), np.int64), schema=schema), np.zeros((3, 2), np.int64)
    for kind in (np.uint8, np.int8, np.int64):
        batch = Marginal((0, 1), (kind(16), kind(16)))
        assert batch.size == 256
        # and by somebody who went around the check
        object.__setattr__(batch, "shape", (kind(16), kind(16)))
        found = asked(meter, batches=[batch] * 3, fake=made)
        assert found.terms.cells == 3 * 256 == len(found.values)
        assert all(type(size) is int for one in found.batches for size in one.shape)
    charged = meter.events
    for shape in ((16.0, 16.0), ("16", "16"), (None, 16)):
        with pytest.raises(WorkloadError, match="whole numbers"):
            Marginal((0, 1), shape)  # type: ignore[arg-type]
        forged = Marginal((0, 1), (16, 16))
        object.__setattr__(forged, "shape", shape)
        with pytest.raises(WorkloadError, match="whole numbers"):
            asked(meter, batches=[forged], fake=made)
    assert meter.events == charged


def test_numbers_of_numpy_never_stretch_noise_over_more_cells() -> None:
    schema = Schema.from_domain({"x": 200, "y": 57})
    batches = [Marginal((0,), (200,)), Marginal((1,), (57,))]
    for batch in batches:
        # their sum wraps to one
        object.__setattr__(batch, "shape", tuple(np.uint8(size) for size in batch.shape))
    meter = meter_on(np.zeros((30, 2), np.int64), schema=schema)
    found = meter.ask(
        Discriminate(
            batches=batches,
            fake=np.zeros((3, 2), np.int64),
            weight=1,
            ridge=200,
            sigma=Fraction(40),
        )
    )
    assert found.values.shape == (257,) and len(set((found.values % 1000).tolist())) > 100
    assert asked(meter_on(BASE), sigma=Fraction(np.int64(3))).terms == asked(meter_on(BASE)).terms
    with pytest.raises(ParameterError, match="same length"):
        asked(meter_on(BASE), fake=[[0, 0], [1]])


def test_a_sigma_finer_than_a_float_is_priced_as_it_is_played() -> None:
    made = us.release(
        small_table(), schema=SMALL, workload=marginals(SMALL, k=2), epsilon=1, mechanism="gan-logistic-experimental",
        parameters={"rounds": 1, "steps": 1, "ridge": 1000.0, "sigma": 4000 + Fraction(1, 10**20)},
    )  # fmt: skip
    assert made.manifest["mechanism"]["parameters"]["sigma"] == 4000.0
