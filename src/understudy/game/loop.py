"""The one loop. Query release is a game: one player proposes data, the other points at what is
wrong.

    data player     proposes a model of the table; never holds the meter, sees released values only
    query player    looks through the meter and reports findings: queries chosen, counts with noise

Every mechanism is a pairing of two such players; this is all that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from understudy.privacy import Choice, Discriminator, Measurement, Residual
from understudy.queries.base import QueryClass
from understudy.runtime.watching import Watcher
from understudy.schema import Schema

MOST_NAMED = 4  # columns of a batch, in a progress bar
LOOKING = 0.25  # of a round, for those who watch: the rest is learning
Finding = Choice | Discriminator | Measurement | Residual


class Model(Protocol):
    """A proposal: something that answers queries and can be turned into rows."""

    def shares(self, batch: QueryClass) -> np.ndarray:
        """The share of rows that satisfies each query of a batch."""
        ...

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """``count`` rows of codes (int32, rows x columns); all randomness is public."""
        ...


class DataPlayer(Protocol):
    def propose(self) -> Model:
        """The model to be criticised this round."""
        ...

    def learn(self, findings: Sequence[Finding]) -> None:
        """Take in what the query player found."""
        ...

    def result(self) -> Model:
        """What to release in the end: the last model, or an average over the play."""
        ...


class QueryPlayer(Protocol):
    def point(self, model: Model) -> Sequence[Finding]:
        """Where the model is wrong; nothing more to say ends the game."""
        ...


def learning(watcher: Watcher) -> Callable[[float], None]:
    """Whom a data player tells how much of its learning is done, in a round that began with a look
    at the table.
    """
    return lambda share: watcher.part(LOOKING + (1 - LOOKING) * share)


@dataclass(frozen=True)
class Played:
    """How a game ended: the model to release, every finding, and facts for the manifest; all of it
    public.
    """

    model: Model
    findings: tuple[Finding, ...]
    # such as what the public rule came to
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


def play(
    data: DataPlayer, query: QueryPlayer, *, rounds: int, watcher: Watcher, schema: Schema
) -> Played:
    """Let two players play for at most ``rounds`` rounds."""
    findings: list[Finding] = []
    watcher.stage("measuring and fitting", rounds)
    for _ in range(rounds):
        answers = query.point(data.propose())
        if not answers:
            break
        watcher.part(LOOKING)
        data.learn(answers)
        findings.extend(answers)
        watcher.step(in_words(answers, schema))
    return Played(data.result(), tuple(findings))


def in_words(findings: Sequence[Finding], schema: Schema) -> str:
    """What a round found, for those who watch; a finding is a released value."""
    last = findings[-1]
    if isinstance(last, Choice):
        text = f"chosen: {'' if last.sign > 0 else 'not '}{last.batch.describe(schema, last.index)}"
    elif isinstance(last, Discriminator):
        text = f"a discriminator of {len(last.values):,} cells"
    else:
        text = (
            "measured:"
            f" {', '.join(schema.names[c] for c in last.batch.columns[:MOST_NAMED]) or 'all rows'}"
        )
    return text if len(findings) == 1 else f"{text}, and {len(findings) - 1:,} more"
