"""Query players that report counts with noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from understudy.counting.tally import DENSE_CELLS, Counts
from understudy.errors import NotSupported
from understudy.game.loop import Finding, Model, QueryPlayer
from understudy.game.players.critic import Criticised
from understudy.game.players.rows import RowModel
from understudy.privacy import (
    Choice,
    Discriminate,
    MarginalScore,
    Measure,
    Meter,
    Select,
    SelectMarginal,
)
from understudy.queries.base import QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.queries.literals import Query
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric
from understudy.schema import Schema

# rows of a model that has none of its own: what rounding loses is far below one person
FINE = 2**24
FAKE_ROWS = 20_000  # about so many rows of a model are shown to a discriminator
# of a marginal too wide to hold, at most so many empty cells are expected among those measured
EMPTY_CELLS = 1


def one_way(schema: Schema) -> list[Marginal]:
    """The 1-way marginal of every column."""
    return [Marginal.of(schema, [name]) for name in schema.names]


class MeasureAll:
    """Measures a fixed list once, shares in proportion to public weights, equal if there are none;
    does not look at the model.
    """

    def __init__(
        self,
        meter: Meter,
        batches: Sequence[QueryClass],
        *,
        rho: Fraction,
        weights: Sequence[int] | None = None,
    ) -> None:
        self._meter, self._batches, self._rho, self._weights = meter, list(batches), rho, weights

    def point(self, model: Model) -> Sequence[Finding]:
        batches, self._batches = self._batches, []
        if not batches:
            return []
        return self._meter.ask(
            Measure(batches=batches, rho=self._rho, weights=self._weights, kept=EMPTY_CELLS)
        )


class WorstFirst:
    """SELECT the query on which the model is most wrong, then MEASURE what lies around it."""

    def __init__(
        self, meter: Meter, batches: Sequence[QueryClass], *, select: Fraction, measure: Fraction
    ) -> None:
        self._meter, self._batches = meter, list(batches)
        self._select, self._measure = select, measure

    def point(self, model: Model) -> Sequence[Finding]:
        shares = [model.shares(batch) for batch in self._batches]
        (choice,) = self._meter.ask(Select(batches=self._batches, shares=shares, rho=self._select))
        return self._meter.ask(
            Measure(batches=[choice.batch.around(choice.index)], rho=self._measure)
        )


class WorstSeveral:
    """SELECT several queries on which the model is most wrong, then MEASURE each of them by itself.

    A query that was measured in an earlier round may be chosen again; it is paid for and gets fresh
    noise.
    """

    def __init__(
        self,
        meter: Meter,
        batches: Sequence[QueryClass],
        *,
        queries: int,
        select: Fraction,
        measure: Fraction,
    ) -> None:
        self._meter, self._batches = meter, list(batches)
        self._queries, self._select, self._measure = queries, select, measure

    def point(self, model: Model) -> Sequence[Finding]:
        shares = [model.shares(batch) for batch in self._batches]
        chosen = self._meter.ask(
            Select(
                batches=self._batches,
                shares=shares,
                rho=self._select,
                draws=self._queries,
                distinct=True,
            )
        )
        batch = Symmetric(tuple(single(choice) for choice in chosen))
        return self._meter.ask(Measure(batches=[batch], rho=self._measure))


def single(choice: Choice) -> Query:
    """The chosen query by itself: a cell of a marginal, or a member of a batch."""
    query = choice.batch.query(choice.index)
    if query is None:
        raise NotSupported(
            f"Queries of the kind {choice.batch.kind} cannot be measured one by one."
        )
    return query


def check_choosable(mechanism: str, batches: Iterable[QueryClass]) -> None:
    """Refuse, in a sentence and before anything is charged, batches too large to choose single
    queries from.
    """
    widest = max(batch.size for batch in batches)
    if widest > DENSE_CELLS:
        raise NotSupported(
            f"{mechanism} chooses single queries, from at most {DENSE_CELLS:,} in a batch, and one"
            f" here has {widest:,}; ask for fewer columns at a time or wider bins, or use the"
            " mechanism 'arp'."
        )


class WorstMarginal:
    """SELECT the whole marginals that a model gets most wrong, one or several at a time, then
    MEASURE them.
    """

    def __init__(
        self,
        meter: Meter,
        batches: Sequence[Marginal | BinnedMarginal],
        *,
        select: Fraction,
        measure: Fraction,
        draws: int = 1,
    ) -> None:
        self._meter, self._batches = meter, list(batches)
        self._select, self._measure, self._draws = select, measure, draws

    def point(self, model: Model) -> Sequence[Finding]:
        answers, rows = whole_counts(model, self._batches)
        chosen = self._meter.ask(
            SelectMarginal(
                batches=self._batches,
                answers=answers,
                answer_rows=rows,
                rho=self._select,
                score=MarginalScore.LARGEST,
                draws=self._draws,
                distinct=True,
            )
        )
        worst = [self._batches[index] for index in chosen]
        return self._meter.ask(Measure(batches=worst, rho=self._measure))


def whole_counts(model: Model, batches: Sequence[QueryClass]) -> tuple[list[Counts], int]:
    """A model's answers as counts among so many rows: its own, or its shares of FINE rows, rounded."""
    if isinstance(model, RowModel):
        return model.counts(batches), len(model.codes)
    return [
        Counts(batch.size, np.rint(model.shares(batch) * FINE).astype(np.int64))
        for batch in batches
    ], FINE


class WholeDiscriminator:
    """MEASURE, in one go, the discriminator that best tells the rows from as many rows of the
    model.
    """

    def __init__(
        self, meter: Meter, *, ridge: int, sigma: Fraction, rng: np.random.Generator
    ) -> None:
        self._meter, self._ridge, self._sigma, self._rng = meter, ridge, sigma, rng

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, Criticised)
        count, weight = fake_rows(self._meter.rows)
        fake = model.rows(count, self._rng)
        return [
            self._meter.ask(
                Discriminate(
                    batches=model.batches,
                    fake=fake,
                    weight=weight,
                    ridge=self._ridge,
                    sigma=self._sigma,
                )
            )
        ]


def fake_rows(rows: int) -> tuple[int, int]:
    """How many rows of a model are shown beside so many of the table, and how often each counts:
    about as much in all.
    """
    weight = max(1, rows // FAKE_ROWS)
    return max(1, rows // weight), weight


class InTurn:
    """One query player a round, the last of them for all rounds that remain."""

    def __init__(self, *players: QueryPlayer) -> None:
        self._players = list(players)

    def point(self, model: Model) -> Sequence[Finding]:
        player = self._players.pop(0) if len(self._players) > 1 else self._players[0]
        return player.point(model)


class Together:
    """Several query players in one round."""

    def __init__(self, *players: QueryPlayer) -> None:
        self._players = players

    def point(self, model: Model) -> Sequence[Finding]:
        return [finding for player in self._players for finding in player.point(model)]
