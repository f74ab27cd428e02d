"""A whole release of an invented table as `api/release.py` makes it: COUNT if n is private, PLAY,
make ROWS, CERTIFY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from understudy.api.release import count_and_decide
from understudy.api.request import CERTIFICATE_SHARE
from understudy.bundle.answers import Answers
from understudy.checks import rehearsal
from understudy.game.loop import Played
from understudy.mechanisms.base import Brief, Mechanism, available_mechanisms
from understudy.privacy import Budget, Certify, Meter
from understudy.privacy.noise.samplers import Noise
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload
from understudy.runtime.watching import NoWatcher
from understudy.schema import Schema
from understudy.sources.memory import MemorySource

# How long a network trains and how many records answer a round change nothing that is charged:
# short plays audit the same verbs.
SHORT: dict[str, dict[str, Any]] = {
    "dqrs": {"rounds": 6, "samples": 2, "step": 0.4},
    "gan-logistic-experimental": {"steps": 2, "rounds": 2},
    "generator": {"steps": 2},
    "querygan": {"steps": 2, "rounds": 5},
    "fem": {"samples": 5, "rounds": 6},
    "sepfem": {"samples": 5, "rounds": 6},
    "oraclequery": {"samples": 5, "rounds": 6},
    "rap": {"steps": 20, "relaxed_rows": 20},
    "projection": {"steps": 20, "relaxed_rows": 20},
}
# The noise of its verb is part of an objective and never added to an exact value that a replay
# could compare (tests/privacy/test_logistic.py has the law of that verb).
UNREPLAYED = ("gan-logistic-experimental",)
# Another way through a mechanism that asks for other verbs.
VARIANTS: dict[str, tuple[str, dict[str, Any], tuple[Neighbours, ...]]] = {
    "arp, adaptive": ("arp", {"adaptive": True, "rounds": 4}, tuple(Neighbours)),
    "oraclequery, rspm": (
        "oraclequery",
        {"samples": 5, "rounds": 4, "learner": "rspm"},
        (Neighbours.REPLACE_ONE,),
    ),
}


@dataclass(frozen=True)
class Subject:
    """A mechanism, under a name."""

    label: str
    mechanism: Mechanism
    relations: tuple[Neighbours, ...]


def subjects(only: str | None = None) -> list[Subject]:
    """All mechanisms that are installed, or one of them with its variants."""
    kinds = available_mechanisms()
    listed = [
        Subject(name, kind(**SHORT.get(name, {})), kind.relations) for name, kind in kinds.items()
    ]
    listed += [
        Subject(label, kinds[name](**parameters), relations)
        for label, (name, parameters, relations) in VARIANTS.items()
    ]
    return [subject for subject in listed if only is None or subject.mechanism.name == only]


@dataclass(frozen=True)
class Released:
    """What a play came to: all of it public."""

    played: Played
    codes: np.ndarray


Watch = Callable[[Meter], Any]


def release(
    subject: Subject,
    schema: Schema,
    workload: Workload,
    rows: np.ndarray,
    relation: Neighbours,
    rho: Fraction,
    *,
    seed: int,
    noise: Noise | None = None,
    source: MemorySource | None = None,
    watch: Watch = lambda meter: meter,
) -> tuple[Released, Any]:
    """(what was released, the meter as it was watched); the public randomness is that of ``seed``."""
    brief = Brief(schema=schema, workload=workload, neighbours=relation)
    certify = rho * CERTIFICATE_SHARE
    decision, meter = rehearsal(
        subject.mechanism,
        brief,
        source or MemorySource(rows, schema),
        Budget.zcdp(rho),
        rho=rho - certify,
        certify=certify,
        rows=len(rows),
        noise=noise,
    )
    watched, rng = watch(meter), np.random.default_rng(seed)
    _, decision = count_and_decide(watched, subject.mechanism, decision)
    played = subject.mechanism.play(decision, watched, rng, NoWatcher())
    codes = played.model.rows(watched.rows, rng)
    watched.ask(
        Certify(
            batches=list(workload),
            answers=Answers(workload, codes).counts,
            released_rows=len(codes),
        )
    )
    return Released(played, codes), watched
