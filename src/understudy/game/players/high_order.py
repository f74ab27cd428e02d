"""Query players that look beyond the workload: parities of many columns, and triples of a label.

Small marginals are blind to some dependences: the exclusive or of five columns looks like chance to
every four of them. A private selection costs the same for a hundred thousand candidates as for ten,
up to a logarithm. So it can look for the few that rows get most wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from understudy.counting.tally import DENSE_CELLS, LARGEST_TABLE
from understudy.game.fitting.halves import balance, halves
from understudy.game.loop import DataPlayer, Finding, Model
from understudy.game.players.measuring import whole_counts
from understudy.game.players.resolving import cells_at, resolution_of
from understudy.game.players.rows import RowModel
from understudy.privacy import MarginalScore, Measure, Measurement, Meter, Select, SelectMarginal
from understudy.queries.marginal import Marginal
from understudy.queries.parities import MOST_PARITIES, Parities, even_less_odd
from understudy.schema import Schema

NARROWEST, WIDEST = 3, 8  # columns of a parity: pairs are measured, and 2^8 cells still stand out
MOST_BITS = 128  # columns, those with the most balanced bits: all their triples can be counted
LEAST_BALANCE = 0.02  # a rarer bit hides no dependence of many rows
WORK = 1 << 36  # parities times rows: a second or two each time
SIGMAS_OF_TRIPLES = 6.0  # rows of a cell on average, in noises
FLOOR = 0.8  # noises: what a measured cell is off by on average
TRIPLE_CELLS = 1 << 26  # of all triples, at full resolution


class WorstParities:
    """SELECT the parities that rows get most wrong, then MEASURE the tables of their bits.

    Args:
        select: for choosing; ``measure``, for the tables.
        draws: how many each time.
        label: a column that all parities have; None for any.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        *,
        select: Fraction,
        measure: Fraction,
        draws: int,
        label: int | None = None,
    ) -> None:
        self._meter, self._schema, self._label = meter, schema, label
        self._select, self._measure, self._draws = select, measure, draws
        self._parities: Parities | None = None

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, RowModel)
        if self._parities is None:
            self._parities = self._of(model)
        chosen = self._meter.ask(
            Select(
                batches=[self._parities],
                shares=[model.shares(self._parities)],
                rho=self._select,
                draws=min(self._draws, self._parities.size),
                distinct=True,
            )
        )
        tables = [self._parities.cells(choice.index) for choice in chosen]
        return self._meter.ask(Measure(batches=tables, rho=self._measure))

    def _of(self, model: RowModel) -> Parities:
        bits = halves(self._schema, model.columns, model.codes, self._label)
        rarer = [balance(shares, one) for shares, one in zip(model.columns, bits, strict=True)]
        order = sorted(range(len(bits)), key=lambda c: (c != self._label, -rarer[c]))
        clear = sum(rarer[c] >= LEAST_BALANCE for c in order)
        anchored, rows = self._label is not None, max(self._meter.rows, len(model.codes))
        count, widest = extent(max(clear, NARROWEST), rows, anchored)
        positions = tuple(sorted(order[:count]))
        # a table in bins is counted from the whole one: cells of any that may be chosen are numbered
        sizes = sorted((self._schema.shape[c] for c in positions), reverse=True)
        while widest > NARROWEST and math.prod(sizes[:widest]) > LARGEST_TABLE:
            widest -= 1
        return Parities(
            positions, tuple(bits[c] for c in positions), NARROWEST, widest, self._label
        )


class AllBits:
    """MEASURE the table of the bits of all columns, then the tables of those parities that stand
    out of it.

    The noise of a parity grows with the root of the number of cells, so this is for few columns. It
    chooses from what was released: its noise is Gaussian alone, which is counted more closely.

    Args:
        first: for the table of all bits; ``then``, for the others.
        tables: how many others.
    """

    def __init__(
        self, meter: Meter, schema: Schema, *, first: Fraction, then: Fraction, tables: int
    ) -> None:
        self._meter, self._schema, self._tables = meter, schema, tables
        self._first, self._then = first, then

    def point(self, model: Model) -> Sequence[Finding]:
        assert isinstance(model, RowModel)
        bits = halves(self._schema, model.columns, model.codes, None)
        count = len(bits)
        whole = Parities(tuple(range(count)), tuple(bits), count, count).cells(0)
        (measured,) = self._meter.ask(Measure(batches=[whole], rho=self._first))
        expected = model.shares(whole) * self._meter.rows
        gaps = np.abs(even_less_odd(measured.counts - expected, count))
        widths = np.bitwise_count(np.arange(1 << count))
        parities = np.flatnonzero((widths >= NARROWEST) & (widths <= WIDEST))
        order = np.argsort(-gaps[parities], kind="stable")[: self._tables]
        tables = []
        for number in parities[order].tolist():
            places = tuple(i for i in range(count) if number >> (count - 1 - i) & 1)
            some = tuple(bits[i] for i in places)
            tables.append(Parities(places, some, len(places), len(places)).cells(0))
        return [measured, *self._meter.ask(Measure(batches=tables, rho=self._then))]


class WithoutAllBits:
    """Keeps tables of too many columns from the data player inside: nearly all of their cells are
    below their noise, and pulled toward the rows as they are they would only hold these back.
    """

    def __init__(self, inside: DataPlayer, width: int) -> None:
        self._inside, self._most = inside, max(WIDEST, width)

    def propose(self) -> Model:
        return self._inside.propose()

    def learn(self, findings: Sequence[Finding]) -> None:
        narrow = [
            finding
            for finding in findings
            if not isinstance(finding, Measurement) or len(finding.batch.columns) <= self._most
        ]
        self._inside.learn(narrow)

    def result(self) -> Model:
        return self._inside.result()


def extent(columns: int, rows: int, anchored: bool) -> tuple[int, int]:
    """(how many columns parities are of, how many one has at most): as many as can be counted."""
    most = max(min(MOST_PARITIES, WORK // rows), 1)
    while columns > NARROWEST and _parities(columns, NARROWEST, anchored) > most:
        columns -= 1
    widest = NARROWEST
    while widest < min(WIDEST, columns) and _parities(columns, widest + 1, anchored) <= most:
        widest += 1
    return columns, widest


def _parities(columns: int, widest: int, anchored: bool) -> int:
    return sum(math.comb(columns - anchored, k - anchored) for k in range(NARROWEST, widest + 1))


class WorstTriples:
    """SELECT the triples of a label and two columns, in bins, that rows get most wrong, then
    MEASURE them.

    Args:
        select: for choosing; ``measure``, for the tables.
        draws: how many each time.
        label: the column that all triples have.
    """

    def __init__(
        self,
        meter: Meter,
        schema: Schema,
        *,
        select: Fraction,
        measure: Fraction,
        draws: int,
        label: int,
    ) -> None:
        self._meter, self._schema, self._label = meter, schema, label
        self._select, self._measure, self._draws = select, measure, draws
        self._tables = label_triples(schema, label)

    def point(self, model: Model) -> Sequence[Finding]:
        draws = min(self._draws, len(self._tables))
        resolution = resolution_of(model, self._schema, self._meter)
        l2 = self._tables[0].l2_squared(self._meter.neighbours)
        each = self._measure / draws
        cells = cells_at(resolution.n, SIGMAS_OF_TRIPLES, l2, each)
        tables = [resolution.table(table, cells) for table in self._tables]
        answers, rows = whole_counts(model, tables)
        floor = round(FLOOR * math.sqrt(l2 / (2 * float(each))))
        chosen = self._meter.ask(
            SelectMarginal(
                batches=tables,
                answers=answers,
                answer_rows=rows,
                rho=self._select,
                score=MarginalScore.TOTAL,
                floors=[floor] * len(tables),
                draws=draws,
                distinct=True,
            )
        )
        return self._meter.ask(Measure(batches=[tables[i] for i in chosen], rho=self._measure))


def label_triples(schema: Schema, label: int) -> list[Marginal]:
    """The label with every two other columns, small ones first, as many as can be counted."""
    shape, others = schema.shape, [c for c in range(len(schema.shape)) if c != label]
    triples = []
    for pair in combinations(others, 2):
        positions = tuple(sorted((label, *pair)))
        triples.append(Marginal(positions, tuple(shape[c] for c in positions)))
    chosen, total = [], 0
    for table in sorted(triples, key=lambda one: one.size):
        total += table.size
        if table.size <= DENSE_CELLS and total <= TRIPLE_CELLS:
            chosen.append(table)
    return chosen
