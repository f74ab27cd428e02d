"""Statistical audits: many draws on a worst-placed pair of tables, against what was charged.

Exact laws and replays trust the samplers to draw what they are asked for; here nothing is trusted.
A promise says that for every event P(event) <= e^epsilon P'(event) + delta. An event is picked on
some draws and tried on others: a lower bound on P and an upper bound on P' (Clopper and Pearson,
99.9% in all) give an epsilon that the software has at least. It must not exceed the one that was
claimed. A claim that looks doubtful is tried again on many more, fresh draws, so that small
overruns show and chance does not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from understudy.audit.distributions import at_least, at_most, wilson
from understudy.audit.laws import ADD, BOTH, LABELLED, REPLACE, TINY, X, Y, meter_on
from understudy.audit.plays import Subject, release
from understudy.audit.rows import Row
from understudy.counting.tally import Counts
from understudy.privacy import (
    Argmin,
    Certify,
    Discriminate,
    MarginalScore,
    Measure,
    Meter,
    Mistakes,
    ReleaseTotal,
    Residuals,
    Select,
    SelectMarginal,
    SoftArgmin,
)
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS, Cost, total_cost
from understudy.privacy.accounting.budget import rho_for
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.verbs.residuals import joint_l2
from understudy.queries.base import Neighbours
from understudy.queries.workload import marginals
from understudy.rules.certifiers import certifier_of
from understudy.rules.conjunctions import Conjunctions
from understudy.rules.counting import counting_of
from understudy.sources.memory import MemorySource

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))
DELTA = Fraction(1, 100)  # of the promises: a tiny one could not be told from 0 by so many draws
DELTAS = (Fraction(0), Fraction(1, 1000), DELTA, Fraction(1, 20))
DRAWS = 20_000
MANY = 200  # draws in one call
PLENTY = Cost(Fraction(10**9))
PLENTY_OF_CURVES = Cost(
    Fraction(10**9), (Fraction(10**9),) * len(ORDERS), curve_rho=Fraction(10**9)
)
MISS = 1e-3  # the chance, at most, that a claim which is kept is called broken
DOUBT = 0.3  # a claim that a bound at this level breaks is looked at again
AGAIN = 5  # times as many draws for that
CUTS = 60
# standard deviations that an event is distrusted by when one is picked: rare ones promise much and
# show little
WARY = 3.5


@dataclass(frozen=True)
class Claim:
    """What was charged, as epsilon at a delta."""

    cost: Cost
    pure: Fraction | None  # an epsilon at delta 0, if there is one

    @classmethod
    def of(cls, events: tuple[ev.Event, ...]) -> Claim:
        each = [_pure(event) for event in events]
        return cls(
            total_cost(events),
            None if None in each else sum((e for e in each if e is not None), Fraction(0)),
        )

    def epsilon(self, delta: Fraction) -> float | None:
        """The least of the bounds, or None when nothing is claimed at this delta."""
        bounds = [] if self.pure is None else [self.pure]
        found = _epsilon_at(self.cost, delta) if delta else None
        return (
            float(min([*bounds, *([] if found is None else [found])]))
            if bounds or found is not None
            else None
        )


@lru_cache(maxsize=4096)
def _epsilon_at(cost: Cost, delta: Fraction) -> Fraction | None:
    return cost.epsilon_at(delta)


def _pure(event: ev.Event) -> Fraction | None:
    match event:
        case ev.DiscreteLaplace():
            return event.l1 / event.scale
        case ev.PerturbedArgmin():
            return event.shift * event.slots / event.scale
        case ev.ExponentialDraws():
            return 2 * event.log_weight_shift * event.draws
        case ev.PureDP():
            return event.epsilon
    return None


Event = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Suspect:
    """The event that speaks most against a claim: likelier on one table than e^claimed times on the
    other, plus delta?
    """

    event: Event
    first: bool  # likelier on the first table than on the second
    delta: Fraction
    claimed: float

    def least(self, here: np.ndarray, there: np.ndarray, miss: float) -> float:
        """The epsilon that there is at least, but for a chance of ``miss``, from draws that had no
        part in the choice of the event.
        """
        one, other = (here, there) if self.first else (there, here)
        low = at_least(int(self.event(one).sum()), len(one), miss / 2) - float(self.delta)
        high = at_most(int(self.event(other).sum()), len(other), miss / 2)
        return max(0.0, math.log(low / high)) if low > 0 else 0.0


def suspect(here: np.ndarray, there: np.ndarray, claim: Claim) -> Suspect:
    """Of all events, both ways round and at every delta at which something is claimed, the one that
    promises most.
    """
    events = _events(np.concatenate([here, there]))
    bounds = [
        wilson(np.array([event(side).mean() for event in events]), len(side), WARY)
        for side in (here, there)
    ]
    found: list[tuple[float, Suspect]] = []
    for first in (True, False):
        (low, _), (_, high) = bounds if first else reversed(bounds)
        for delta, claimed in ((delta, claim.epsilon(delta)) for delta in DELTAS):
            if claimed is not None:
                excess = (np.log(np.maximum(low - float(delta), 1e-9) / high) - claimed) / max(
                    claimed, 1e-9
                )
                best = int(np.argmax(excess))
                found.append((float(excess[best]), Suspect(events[best], first, delta, claimed)))
    return max(found, key=lambda pair: pair[0])[1]


def _events(seen: np.ndarray) -> list[Event]:
    """Single values if there are few, and everything to one side of a cut."""
    values = np.unique(seen)
    single = [lambda s, v=v: s == v for v in values] if len(values) <= CUTS else []
    cuts = (
        values
        if len(values) <= CUTS
        else np.unique(np.quantile(seen, np.linspace(0.005, 0.995, CUTS)))
    )
    return [*single, *(lambda s, c=c: s >= c for c in cuts), *(lambda s, c=c: s < c for c in cuts)]


# ---------------------------------------------------------------------- verbs

# one row decides whether a cell is occupied
LONELY = (np.array([[0, 0]] * 20), np.array([[0, 0]] * 19 + [[1, 0]]))
EVEN = (np.array([[0, 0]] * 10 + [[1, 1]] * 10), np.array([[0, 0]] * 11 + [[1, 1]] * 9))
ACROSS = (np.array([[0, 0]] * 20), np.array([[0, 0]] * 19 + [[1, 1]]))
FEWER = (np.array([[0, 0]] * 20), np.array([[0, 0]] * 19))
ONE_MORE = (np.array([[0, 0]] * 19 + [[1, 1]]), np.array([[0, 0]] * 19))
WRONG = (np.array([[0, 0]] * 6), np.array([[0, 0]] * 5 + [[0, 1]]))  # labels: one mistake more
TABLES = {
    "lonely": LONELY, "even": EVEN, "across": ACROSS, "one fewer": FEWER, "one more": ONE_MORE, "another label": WRONG,
}  # fmt: skip
RULES = Conjunctions(attributes=1, signed=False)


@dataclass(frozen=True)
class Verb:
    """A verb as numbers to look at: ``ask(meter, price, many)`` gives so many independent ones.

    Its price is an epsilon (pure) or the rho of (epsilon, DELTA). Verbs that can be asked for many
    draws at once are; ``single`` ones cannot; of a ``slow`` one there are so many times fewer.
    """

    name: str
    ask: Callable[[Meter, Fraction, int], Any]
    pairs: tuple[str, ...]
    pure: bool = False
    single: bool = False
    slow: int = 1
    curved: bool = False  # charged as a curve
    relation: Neighbours = REPLACE
    total: bool = False  # whether a private n must be released first, for next to nothing


def _gaps(m: Meter, rho: Fraction, many: int) -> list[int]:
    return [
        int(found.counts[0] - found.counts[1])
        for found in m.ask(Measure(batches=[X] * many, rho=rho * many))
    ]


def _both_gaps(m: Meter, rho: Fraction, many: int) -> list[int]:
    found = m.ask(Measure(batches=[X, Y] * many, rho=rho * many))
    return [
        sum(int(f.counts[0] - f.counts[1]) for f in found[i : i + 2]) for i in range(0, 2 * many, 2)
    ]


def _firsts(m: Meter, rho: Fraction, many: int) -> list[int]:
    return [int(found.counts[0]) for found in m.ask(Measure(batches=[X] * many, rho=rho * many))]


def _kept(m: Meter, rho: Fraction, many: int) -> list[int]:
    """The first cell if it was kept, or the threshold."""
    return [
        (
            int(f.counts[0])
            if len(f.counts) and f.keys is not None and f.keys[0] == 0
            else int(f.threshold or 0)
        )
        for f in m.ask(Measure(batches=[BOTH] * many, rho=rho * many, sparse=True, kept=1))
    ]


def _residuals(m: Meter, rho: Fraction, many: int) -> list[int]:
    price = joint_l2([X, Y], [Fraction(8), Fraction(8)], m.neighbours) / 2
    sigma = Fraction(math.ceil(8 * math.sqrt(price / rho) * 16) + 1, 16)
    found = m.ask(Residuals(batches=[X, Y] * many, sigmas=[sigma] * (2 * many)))
    return [int(found[i].counts[0] + found[i + 1].counts[0]) for i in range(0, 2 * many, 2)]


def _told_apart(m: Meter, rho: Fraction, many: int) -> list[int]:
    """Its own terms say what this costs, which is a curve: about rho."""
    sigma = Fraction(math.ceil(32 / math.sqrt(rho)), 32)
    values = m.ask(
        Discriminate(batches=[X], fake=np.array([[0, 0], [1, 0]]), weight=10, ridge=40, sigma=sigma)
    ).values
    return [int(values[0] - values[1])]


def _choices(
    batches: list[Any], shares: list[np.ndarray], **how: Any
) -> Callable[[Meter, Fraction, int], list[int]]:
    """A number for each candidate."""
    return lambda m, rho, many: [
        choice.sign * (10 * choice.batch.columns[0] + choice.index + 1)
        for choice in m.ask(
            Select(batches=batches, shares=shares, rho=rho * many, draws=many, **how)
        )
    ]


def _distinct(m: Meter, rho: Fraction, many: int) -> list[int]:
    one, two = m.ask(
        Select(batches=[X], shares=[HALVES], rho=rho, signed=True, draws=2, distinct=True)
    )
    return [one.sign * (one.index + 1) + 10 * two.sign * (two.index + 1)]


def _marginals(score: MarginalScore) -> Callable[[Meter, Fraction, int], list[int]]:
    answers = [Counts(2, np.array([10, 10])), Counts(2, np.array([12, 8]))]
    return lambda m, rho, many: m.ask(
        SelectMarginal(
            batches=[X, Y], answers=answers, answer_rows=20, rho=rho * many, draws=many, score=score
        )
    )


def _argmin(of: Conjunctions) -> Callable[[Meter, Fraction, int], list[int]]:
    return lambda m, epsilon, many: [
        len(
            m.ask(
                Argmin(
                    task=LABELLED,
                    rules=of,
                    epsilon=epsilon,
                    certifier=certifier_of("listing", of),
                    weight=10,
                )
            )
        )
    ]


HALVES = np.array([0.5, 0.5])
APART = [np.array([0.4, 0.6]), np.array([0.6, 0.4])]
ALL = ("even", "lonely", "across")
RULED = ("another label", "across")
NARROW = Conjunctions(attributes=1, signed=False, width=1)
VERBS: tuple[Verb, ...] = (
    Verb("measure", _gaps, ALL),
    Verb("measure_all", _both_gaps, ALL),
    Verb("measure, private n", _firsts, ("one fewer", "one more"), relation=ADD),
    Verb("measure, sparse", _kept, ALL),
    Verb(
        "release_total",
        lambda m, r, _: [int(m.ask(ReleaseTotal(rho=r)).counts[0])],
        ("one fewer", "one more"),
        relation=ADD,
        single=True,
    ),
    Verb("measure_residuals", _residuals, ALL),
    Verb("discriminate", _told_apart, ALL[:2], single=True, slow=5, curved=True),
    Verb("select", _choices([X, Y], APART), ALL),
    Verb("select, signed", _choices([X], [HALVES], signed=True), ALL),
    Verb("select, distinct", _distinct, ALL[:2], single=True),
    Verb(
        "select, private n",
        _choices([X], [HALVES], signed=True),
        ("one more", "one fewer"),
        relation=ADD,
        total=True,
    ),
    *(Verb(f"select_marginal, {score}", _marginals(score), ALL) for score in MarginalScore),
    Verb(
        "certify",
        lambda m, r, _: [
            m.ask(
                Certify(batches=[X], answers=[Counts(2, np.array([20, 0]))], released_rows=20)
            ).noisy_largest_error
        ],
        ALL[:2],
        single=True,
    ),
    Verb(
        "soft_argmin",
        lambda m, e, _: [
            len(m.ask(SoftArgmin(task=LABELLED, epsilon=e, counting=counting_of(RULES))))
        ],
        RULED,
        pure=True,
        single=True,
    ),
    Verb(
        "mistakes",
        lambda m, e, _: [m.ask(Mistakes(task=LABELLED, rules=RULES, rule=(0,), epsilon=e))[0]],
        RULED,
        pure=True,
        single=True,
    ),
    Verb("argmin, separators", _argmin(RULES), RULED, pure=True, single=True),
    Verb("argmin, features", _argmin(NARROW), RULED, pure=True, single=True),
)


@lru_cache(maxsize=64)
def rho_of(epsilon: Fraction) -> Fraction:
    """The rho of (epsilon, DELTA)."""
    return rho_for(epsilon, DELTA)


def price(verb: Verb, epsilon: Fraction) -> Fraction:
    return epsilon if verb.pure else rho_of(epsilon)


def drawn(
    verb: Verb, rows: np.ndarray, epsilon: Fraction, draws: int, noise: Noise | None = None
) -> tuple[np.ndarray, Claim]:
    """So many draws of a verb on a table, and what one of them claims."""
    source, given = MemorySource(rows, TINY), price(verb, epsilon)
    settings: dict[str, Any] = {
        "noise": noise,
        "source": source,
        "play": PLENTY_OF_CURVES if verb.curved else PLENTY,
        "certify": given,
    }

    def meter() -> Meter:
        made = meter_on(rows, verb.relation, **settings)
        if verb.total:
            made.ask(ReleaseTotal(rho=10**6))
        return made

    one = meter()
    before = len(one.events)
    verb.ask(one, given, 1)
    claim = Claim.of(one.events[before:])
    found: list[float] = []
    while len(found) < draws:
        if verb.name == "certify":  # which a meter does once
            one = meter()
        found.extend(verb.ask(one, given, 1 if verb.single else min(MANY, draws - len(found))))
    return np.asarray(found, float), claim


def verb_row(
    verb: Verb, pair: str, epsilon: Fraction, draws: int = DRAWS, noise: Noise | None = None
) -> Row:
    here, there = TABLES[pair]

    def look(draws: int) -> Seen:
        (one, claim), (other, also) = (
            drawn(verb, rows, epsilon, draws, noise) for rows in (here, there)
        )
        assert claim == also
        return one, other, claim

    return _row(verb.name, verb.relation, pair, epsilon, look, draws // verb.slow)


# draws on the one table, on the other, and what one draw claims
Seen = tuple[np.ndarray, np.ndarray, Claim]


def judged(look: Callable[[int], Seen], draws: int) -> tuple[Suspect, float, bool]:
    """(The event tried, the epsilon there is at least, whether that took a second look).

    An event picked on a fifth of the draws is tried on the rest. If the claim is then in doubt, the
    event that all of them speak for is tried on fresh draws, and those decide: a first look at 70%
    and a second at 99.9% call few sound claims broken, and miss little.
    """
    here, there, claim = look(draws)
    split = len(here) // 5
    doubted = suspect(here[:split], there[:split], claim)
    rest = here[split:], there[split:]
    if doubted.least(*rest, DOUBT) <= doubted.claimed:
        return doubted, doubted.least(*rest, MISS), False
    doubted = suspect(here, there, claim)
    here, there, _ = look(AGAIN * draws)
    return doubted, doubted.least(here, there, MISS), True


def _row(
    subject: str,
    relation: Neighbours,
    pair: str,
    epsilon: Fraction,
    look: Callable[[int], Seen],
    draws: int,
) -> Row:
    tried, found, again = judged(look, draws)
    held = found <= tried.claimed
    said = (
        ""
        if not again
        else f"doubted, and {'kept' if held else 'broken'} on {AGAIN} times as many fresh draws"
    )
    return Row(
        kind="statistical", subject=subject, relation=str(relation), pair=f"{pair}, epsilon {float(epsilon):g}",
        unit=f"epsilon at delta {float(tried.delta):g}", claimed=tried.claimed, found=found, runs=draws * (1 + AGAIN) if again else draws,
        held=held, said=said,
    )  # fmt: skip


# ---------------------------------------------------------------------- mechanisms

PLAYED = ("lonely", "even")
FEWEST = 100  # releases of a mechanism on either side


def mechanism_row(
    subject: Subject,
    pair: str,
    epsilon: Fraction,
    seconds: float = 0.0,
    plays: int | None = None,
    noise: Noise | None = None,
) -> Row:
    """Whole releases, so many or as many as fit into about so many seconds: what the rows' share of
    one value is.
    """
    here, there = TABLES[pair]
    work, rho = marginals(TINY, k=2), rho_of(epsilon)
    # read once: they give counts, whoever asks
    sources = [MemorySource(rows, TINY) for rows in (here, there)]

    def play(side: int) -> tuple[float, Claim]:
        released, meter = release(
            subject,
            TINY,
            work,
            (here, there)[side],
            REPLACE,
            rho,
            seed=0,
            noise=noise,
            source=sources[side],
        )
        return float(released.played.model.shares(X)[1]), Claim.of(meter.events)

    _, claim = play(0)  # also compiles what is not compiled yet
    if plays is None:
        started = time.perf_counter()
        for _ in range(5):
            play(0)
        plays = int(min(DRAWS, max(FEWEST, seconds / 2 / ((time.perf_counter() - started) / 5))))

    def look(count: int) -> Seen:
        one, other = (np.array([play(side)[0] for _ in range(count)]) for side in (0, 1))
        return one, other, claim

    return _row(subject.label, REPLACE, pair, epsilon, look, plays)
