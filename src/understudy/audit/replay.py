"""The replay audit: a mechanism on a table, and again on its neighbour with the same released
values.

If what is done next depends on released values alone, the second run calls the same verbs for the
same things. Then privacy is a matter of each verb by itself: what it was about to noise may not
have moved further than was charged for. Both are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.audit.noisy_steps import Coins, Gaussian
from understudy.audit.pairs import Pair, pairs
from understudy.audit.plays import Released, Subject, release
from understudy.audit.rows import Row
from understudy.audit.watching import Call, Differs, Ear, Watched, plain
from understudy.errors import UnderstudyError
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import ORDERS, Cost, total_cost
from understudy.privacy.noise.samplers import Noise
from understudy.queries.base import Neighbours
from understudy.queries.workload import marginals

RHO = Fraction(1, 2)
SHOWN_ORDERS = tuple(ORDERS.index(Fraction(a)) for a in (Fraction(17, 16), 2, 8, 64))
ROUNDING = 1 + 1e-9  # of divergences, which are floating point; everything else here is exact


@dataclass(frozen=True)
class Compared:
    """Two calls of a verb, or all of two runs: how much of what was charged was used, at most, and
    what was wrong.
    """

    used: float
    wrong: str | None = None


def compare(first: Call, second: Call) -> Compared:
    """Whether the second call, on the neighbour, was noised alike and moved within its charge."""
    if first.events != second.events:
        return Compared(0.0, f"{first.verb} charges something else on the neighbour")
    if len(first.steps) != len(second.steps) or not all(
        a.same(b) for a, b in zip(first.steps, second.steps, strict=True)
    ):
        return Compared(0.0, f"{first.verb} draws other noise on the neighbour")
    if not first.steps:
        return Compared(0.0)
    gaussian = [event for event in first.events if type(event) is ev.DiscreteGaussian]
    if len(gaussian) == len(first.events) == len(first.steps) and all(
        isinstance(step, Gaussian) for step in first.steps
    ):
        return _each_gaussian(first, second, gaussian)
    cost = total_cost(first.events)
    if cost.curve is not None:
        return _by_curve(first, second, cost)
    at_work = sum((a.rho(b) for a, b in zip(first.steps, second.steps, strict=True)), Fraction(0))
    wrong = (
        f"{first.verb} moved by what costs rho {float(at_work):.4g} and charged"
        f" {float(cost.rho):.4g}"
        if at_work > cost.rho
        else None
    )
    return Compared(float(at_work / cost.rho) if cost.rho else float(at_work > 0), wrong)


def _each_gaussian(first: Call, second: Call, events: Sequence[ev.DiscreteGaussian]) -> Compared:
    used = 0.0
    for one, other, event in zip(first.steps, second.steps, events, strict=True):
        assert isinstance(one, Gaussian) and isinstance(other, Gaussian)
        moved = one.l2_squared(other)
        if moved > event.l2_squared:
            return Compared(
                0.0,
                f"{first.verb}: the squared L2 distance is {moved} where {event.l2_squared} is"
                " declared",
            )
        if one.sigma**2 < event.sigma_squared:
            return Compared(0.0, f"{first.verb} draws less noise than it is charged for")
        used = max(used, moved / event.l2_squared if event.l2_squared else 0.0)
    return Compared(used)


def _by_curve(first: Call, second: Call, cost: Cost) -> Compared:
    assert cost.curve is not None
    used = 0.0
    for one, other in zip(first.steps, second.steps, strict=True):
        assert isinstance(one, Coins) and isinstance(other, Coins)
        for i in SHOWN_ORDERS:
            order, allowed = float(ORDERS[i]), float(cost.curve[i])
            used = max(used, one.renyi(other, order) / allowed, other.renyi(one, order) / allowed)
    return Compared(
        used,
        (
            f"{first.verb} diverges by {used:.3f} of what its curve allows"
            if used > ROUNDING
            else None
        ),
    )


def replayed(
    subject: Subject, pair: Pair, seed: int, noise: Callable[[], Noise] = Noise
) -> tuple[Compared, int]:
    """(how a pair compares, how many calls were compared)."""
    work = marginals(pair.schema, k=2)

    def run(rows: np.ndarray, script: Sequence[Call] | None) -> tuple[Released, list[Call]]:
        ear = Ear(noise())
        released, watched = release(
            subject,
            pair.schema,
            work,
            rows,
            pair.relation,
            RHO,
            seed=seed,
            noise=ear,
            watch=lambda m: Watched(m, ear, len(rows), script),
        )
        return released, watched.calls

    try:
        released, calls = run(pair.here, None)
        again, others = run(pair.there, calls)
    except Differs as problem:
        return Compared(0.0, f"not the same steps: {problem}"), 0
    except (UnderstudyError, AttributeError) as problem:
        return Compared(0.0, f"it could not be run to the end ({type(problem).__name__})"), 0
    if len(calls) != len(others):
        return Compared(0.0, f"{len(others)} calls on the neighbour instead of {len(calls)}"), len(
            others
        )
    found = [compare(a, b) for a, b in zip(calls, others, strict=True)]
    for one in found:
        if one.wrong is not None:
            return one, len(calls)
    if plain(released.codes) != plain(again.codes) or released.played.facts != again.played.facts:
        return Compared(
            0.0, "the same released values gave other rows, so something else was seen"
        ), len(calls)
    return Compared(max((one.used for one in found), default=0.0)), len(calls)


def replay(subject: Subject, relation: Neighbours, count: int, seed: int = 0) -> Row:
    """One row for a mechanism and a relation."""
    used, calls, wrong, runs = 0.0, 0, list[str](), 0
    for i, pair in enumerate(pairs(count, relation, seed)):
        compared, heard = replayed(subject, pair, seed + i)
        runs, calls, used = runs + 1, calls + heard, max(used, compared.used)
        if compared.wrong is not None:
            wrong.append(compared.wrong)
    said = (
        wrong[0]
        if wrong
        else f"{calls:,} calls of verbs, all alike; the furthest used {used:.1%} of its charge"
    )
    return Row(
        kind="replay", subject=subject.label, relation=str(relation), pair=f"{runs} random pairs", unit="of the charge",
        claimed=1.0, found=max(used, 1.0 + len(wrong)) if wrong else used, runs=runs, held=not wrong, said=said,
    )  # fmt: skip
