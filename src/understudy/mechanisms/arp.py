"""ARP, adaptive row projection: Understudy's own mechanism and its default.

Measure the 1-way marginals. Then either measure the whole workload at once, pairs with ordered
columns at several resolutions, or go round by round: SELECT the marginal that the rows get most
wrong, MEASURE it whole, MOVE the rows. Which way, how many rounds and how the budget is split follow
from public facts (docs/arp-constants.md says how the rule was found).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS
from understudy.errors import NotSupported, ParameterError
from understudy.game.fitting.evidence import with_sums
from understudy.game.loop import Played, QueryPlayer, play
from understudy.game.players.measuring import InTurn, MeasureAll, WorstMarginal, one_way
from understudy.game.players.resolving import InBins, Strongest, WorstInBins
from understudy.game.players.rows import HEAT, ROWS, RowPlayer, check_width, refits, seconds_a_row
from understudy.mechanisms.base import (
    Brief,
    Decision,
    Means,
    Mechanism,
    Outlook,
    Step,
    check_share,
    check_whole,
    cost_of_measuring,
)
from understudy.privacy import Meter
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric, apart
from understudy.runtime.watching import Watcher

ROUNDS = 30  # 20 to 45 do about as well (docs/arp-constants.md)
# heat holds strong dependences back by a share of the noise; where noise is small there is room for
# more
HOTTEST = 0.8
# of the rows, at once and in rounds, where fewer tables leave more open
HELD_BACK = (0.00075, 0.0012)
# sigmas: in rounds, a table was picked because some cell of it is far off; not when there are pairs
# only
SOONER = 1.2
PAIRS_HEAT = 0.25  # when all pairs that matter are measured, little is left open
SMALL_NOISE = 0.008  # one-shot while the noise of a cell is below this share of the rows
# ... or while a cell of average size is not drowned: tables of few cells (binary columns) are read
# together, and their noises average out
DROWNED = 1.0
# ... or while rounds, which pay for each choice, would leave hardly less noise on each table
WORTH_ROUNDS = 1.1
# Pairs at several resolutions (docs/arp-constants.md, "Several resolutions"): what the single
# columns leave goes to all pairs in bins, to the strongest in finer ones, and the rest to repair
RESOLVING = (Fraction(30, 100), Fraction(47, 100))
# rows of an average cell, in noises
SIGMAS_A_BIN, SIGMAS_A_FINER_BIN, SIGMAS_IN_ROUNDS = 18.0, 10.0, 8.0
FINER, FEWEST_FINER = 0.5, 3  # of all pairs, measured again; at least so many
# pairs chosen for their worst cell, which bins may have cut through, measured whole: so often, so
# many each time, and where there are many pairs one of so many
REPAIRS, REPAIRED, PAIRS_A_REPAIR = 2, 3, 120
# heat in bins grows with the columns up to so many: fewer leave less open, and heat would only hold
# back what they have to do with each other
COLUMNS_OF_FULL_HEAT = 14
# kept while playing: with several passes, as many as elsewhere would take twice the time
ROWS_IN_BINS = 12_000
FEW_VALUES = 8  # a column of so many values is measured as it is
# a wider marginal is mostly noise; its sub-marginals are candidates instead
CANDIDATE_CELLS = 20_000
ALL_CELLS = 50_000_000  # of all candidates
AT_ONCE_CELLS = 10_000_000  # of everything measured at once: rows are fitted to each of them
MOST_TABLES = 200_000  # different sets of columns in the workload
MOST_BELOW = 20_000_000  # sub-marginals of all these
# rounds go on from each other's rows; at once, two were worse than three
SWEEPS_IN_ROUNDS, SWEEPS_AT_ONCE = 2, 3
CLOSURE = 3  # candidates have at most so many columns
# for the single columns, which everything else is built on
FIRST_ADAPTIVE, FIRST_AT_ONCE = Fraction(35, 100), Fraction(12, 100)
LONG_COLUMN = 1_000  # a column of more values gets no more of the budget
UNMEASURED = 0.005  # of the rows: what a model of the strongest dependences leaves on survey data
# of what the 1-ways leave, for queries over too many columns to be part of a marginal
SINGLE_SHARE = Fraction(1, 4)


@dataclass(frozen=True, kw_only=True)
class Arp(Mechanism):
    """Data player: rows. Query player: everything at once, or the worst marginal first.

    Attributes:
        adaptive: select marginals round by round, or measure the workload at once; ``None`` for a
            public rule: at once while that leaves little noise.
        bins: measure pairs in coarse bins of ordered columns first, the strongest of them again,
            finer, and whole those that are most wrong then; ``None`` for a public rule: when pairs
            are measured at once and some column is ordered.
        rounds: how often to select and measure, when adaptive.
        first: share of the budget for the 1-way marginals; ``None`` for 35% when adaptive, else
            12%.
        selecting: share of each round for the selection, when adaptive.
    """

    adaptive: bool | None = None
    bins: bool | None = None
    rounds: int = ROUNDS
    first: Fraction | None = None
    selecting: Fraction = Fraction(35, 100)

    name: ClassVar[str] = "arp"
    summary: ClassVar[str] = (
        "adaptive row projection: measures whole marginals and moves rows toward them; any table,"
        " any workload"
    )
    in_short: ClassVar[str] = "fits rows to measured marginals; any table"
    can_be_gaussian: ClassVar[bool] = True
    reference: ClassVar[str] = "Understudy; after Aydore et al. (2021) and McKenna et al. (2022)"

    def check(self, brief: Brief) -> None:
        check_share(
            self.name,
            first=Fraction(1, 2) if self.first is None else self.first,
            selecting=self.selecting,
        )
        check_whole(self.name, rounds=(self.rounds, 1, 10_000))
        if self.adaptive not in (None, True, False):
            raise ParameterError("arp needs adaptive to be true or false.")
        if self.bins not in (None, True, False):
            raise ParameterError("arp needs bins to be true or false.")
        check_width(self.name, brief.schema)
        widths = [len(columns) for batch in brief.workload for columns in batch.column_sets()]
        if len(widths) > MOST_TABLES or sum(map(_below, widths)) > MOST_BELOW:
            raise NotSupported(
                "arp measures a table for each set of columns that is asked about, at most"
                f" {MOST_TABLES:,}, or the tables below them, at most {MOST_BELOW:,}; ask about"
                " fewer, or use the mechanism 'dualquery'."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        tables, rho = Tables.of(brief), means.rho
        adaptive = self.is_adaptive(tables, rho, means.rows)
        sigma = self._sigma(tables, rho, adaptive)
        share = self._first(adaptive) if tables.beyond_columns else Fraction(1)
        binned = self._in_bins(brief, tables)
        rounds = self.rounds if adaptive else REPAIRS if binned else 1
        how = (
            f"{rounds} rounds of select and measure"
            if adaptive
            else f"{len(tables.own)} marginals in bins, then the strongest finer"
            if binned
            else f"{len(tables.own)} marginals measured at once"
        )
        plan = _Plan(
            tables=tables,
            adaptive=adaptive,
            binned=binned,
            shares=Shares.of(rho, share, tables, bool(tables.own or tables.candidates)),
            rounds=rounds,
            heat=self._heat(tables, sigma, adaptive, means.rows)
            * (1.0 if adaptive or not binned else _share_of_heat(len(brief.schema))),
        )
        at_once = not binned and not self.is_adaptive(tables, rho, fewest_rows(brief, means))
        return Decision.of(
            self,
            brief,
            means,
            cost=cost_of_measuring(brief.neighbours, *_steps(tables, plan.shares))
            if at_once
            else None,
            how=how,
            numbers={
                "adaptive": adaptive,
                "bins": binned,
                "rounds": rounds,
                "first": share if self.first is None or share == 1 else self.first,
                "tables": len(tables.candidates if adaptive else tables.own),
                "sigma": sigma,
                "heat": plan.heat,
            },
            plan=plan,
            outlook=self._outlook(brief, tables, sigma, adaptive, means.rows),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, plan = decision.brief.schema, decision.plan
        tables, shares, adaptive = plan.tables, plan.shares, plan.adaptive
        steps: list[QueryPlayer] = [
            MeasureAll(meter, batches, rho=rho, weights=weights)
            for batches, rho, weights in _steps(tables, shares)[:-1]
        ]
        if adaptive:
            each, selecting = shares.rest / plan.rounds, Fraction(self.selecting)
            select, measure = each * selecting, each * (1 - selecting)
            steps.append(
                WorstInBins(
                    meter,
                    schema,
                    tables.candidates,
                    select=select,
                    measure=measure,
                    sigmas=SIGMAS_IN_ROUNDS,
                )
                if plan.binned
                else WorstMarginal(meter, tables.candidates, select=select, measure=measure)
            )
        elif plan.binned:
            steps.extend(self._resolving(meter, decision))
        else:
            steps.append(MeasureAll(meter, tables.own, rho=shares.rest))
        data = RowPlayer(
            schema,
            n=decision.means.rows,
            rng=rng,
            rows=ROWS_IN_BINS if plan.binned and not adaptive else ROWS,
            sweeps=SWEEPS_IN_ROUNDS if adaptive or plan.binned else SWEEPS_AT_ONCE,
            heat=plan.heat,
            sooner=SOONER if adaptive and not tables.pairs_only else 0.0,
            watcher=watcher,
        )
        rounds = len(steps) - 1 + plan.rounds
        return play(data, InTurn(*steps), rounds=rounds, watcher=watcher, schema=schema)

    def _resolving(self, meter: Meter, decision: Decision) -> list[QueryPlayer]:
        """MEASURE in bins, then the strongest in finer ones, then whole what is most wrong."""
        schema, tables = decision.brief.schema, decision.plan.tables.own
        rest, (coarse, finer) = decision.plan.shares.rest, RESOLVING
        repair = rest * (1 - coarse - finer) / REPAIRS
        selecting = Fraction(self.selecting)
        count = min(len(tables), max(FEWEST_FINER, math.ceil(FINER * len(tables))))
        first = InBins(meter, schema, tables, rho=rest * coarse, sigmas=SIGMAS_A_BIN)
        return [
            first,
            Strongest(
                meter, schema, first, count=count, rho=rest * finer, sigmas=SIGMAS_A_FINER_BIN
            ),
            WorstMarginal(
                meter,
                tables,
                select=repair * selecting,
                measure=repair * (1 - selecting),
                draws=min(max(REPAIRED, len(tables) // PAIRS_A_REPAIR), (len(tables) + 1) // 2),
            ),
        ]

    def _in_bins(self, brief: Brief, tables: Tables) -> bool:
        """The public rule: where a pair has an ordered column of many values."""
        possible = tables.pairs_only and bool(tables.own)
        wide = any(
            column.ordered and column.values > FEW_VALUES
            for table in tables.own
            for column in (brief.schema.columns[p] for p in table.positions)
        )
        return possible and (wide if self.bins is None else bool(self.bins))

    def is_adaptive(self, tables: Tables, rho: Fraction, rows: int) -> bool:
        """The public rule: at once while that leaves little noise on each cell, or on a cell of
        typical size, or hardly more noise than rounds would leave; else only what is most wrong.
        """
        if self.adaptive is not None or not tables.candidates:
            return bool(self.adaptive) and bool(tables.candidates)
        if not tables.own or sum(batch.size for batch in tables.own) > AT_ONCE_CELLS:
            # with no table small enough to be measured at once, only their sub-marginals are left
            # to spend on
            return True
        at_once, in_rounds = (self._sigma(tables, rho, way) for way in (False, True))
        cells = sorted(batch.size for batch in tables.own)[len(tables.own) // 2]
        noisy = at_once > SMALL_NOISE * rows and at_once * cells > DROWNED * rows
        return noisy and at_once > WORTH_ROUNDS * in_rounds

    def _outlook(
        self, brief: Brief, tables: Tables, sigma: float, adaptive: bool, rows: int
    ) -> Outlook:
        counted, ones = tables.candidates if adaptive else tables.own, tables.ones
        cells = sum(_stored_cells(batch, rows) for batch in counted)
        # of the candidates, as many as there are rounds
        typical = self.rounds / len(counted) if adaptive else 1.0
        dense = [batch for batch in counted if batch.size <= DENSE_CELLS]
        widest = max((len(batch.shape) for batch in counted), default=1)
        # A round moves the columns of its table only, once for each width below it; on average half
        # of the tables are there.
        moved = self.rounds * SWEEPS_IN_ROUNDS * widest * widest / len(brief.schema) / 2
        return Outlook(
            sigma=sigma,
            tables=len(counted) + len(ones),
            cells=cells,
            noisy_cells=sum(batch.size for batch in ones) + round(typical * cells),
            rounds=self.rounds if adaptive else 0,
            sweep=seconds_a_row(with_sums(dense)) * min(typical, 1.0) + seconds_a_row(ones),
            sweeps=moved if adaptive else refits(counted, SWEEPS_AT_ONCE),
            unmeasured=UNMEASURED if adaptive else 0.0,
        )

    def _heat(self, tables: Tables, sigma: float, adaptive: bool, rows: int) -> float:
        if not adaptive and tables.pairs_only:
            return PAIRS_HEAT
        return min(max(HELD_BACK[adaptive] * rows / sigma, HEAT), HOTTEST)

    def _first(self, adaptive: bool) -> Fraction:
        return (
            (FIRST_ADAPTIVE if adaptive else FIRST_AT_ONCE)
            if self.first is None
            else Fraction(self.first)
        )

    def _sigma(self, tables: Tables, rho: Fraction, adaptive: bool) -> float:
        """Noise of one measured count, in people."""
        rest = float(rho * (1 - self._first(adaptive)))
        moved = [batch.l2_squared(tables.neighbours) for batch in tables.own or tables.ones]
        if adaptive:
            selecting = float(1 - Fraction(self.selecting))
            return math.sqrt(moved[0] * self.rounds / (2 * rest * selecting))
        return math.sqrt(sum(moved) / (2 * rest))


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What a brief gives to measure and to choose from."""

    ones: Sequence[Marginal]
    own: Sequence[Marginal]
    single: Sequence[Symmetric]
    candidates: Sequence[Marginal]
    neighbours: Neighbours

    @classmethod
    def of(cls, brief: Brief) -> Tables:
        return cls(
            ones=one_way(brief.schema),
            own=own_tables(brief),
            single=single_queries(brief),
            candidates=closure(brief),
            neighbours=brief.neighbours,
        )

    @property
    def beyond_columns(self) -> bool:
        """Whether anything but single columns is asked about."""
        return bool(self.own or self.single or self.candidates)

    @property
    def pairs_only(self) -> bool:
        return all(len(batch.positions) <= 2 for batch in self.own)


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How rho is split: single columns, single queries, and tables."""

    first: Fraction
    single: Fraction
    rest: Fraction

    @classmethod
    def of(cls, rho: Fraction, first: Fraction, tables: Tables, beside: bool) -> Shares:
        """``first`` is the share of the single columns; ``beside``, whether single queries leave
        tables to spend on.
        """
        ones = rho * first
        share = SINGLE_SHARE if beside else Fraction(1)
        single = (rho - ones) * share if tables.single else Fraction(0)
        return cls(first=ones, single=single, rest=rho - ones - single)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a play of arp follows."""

    tables: Tables
    adaptive: bool
    binned: bool
    shares: Shares
    rounds: int
    heat: float


def fewest_rows(brief: Brief, means: Means) -> int:
    """The rows, or 1 where their number is private: what is measured at once for one row is for
    more, whose noise is smaller beside them.
    """
    return means.rows if brief.neighbours is Neighbours.REPLACE_ONE else 1


def _steps(tables: Tables, shares: Shares) -> list[Step]:
    """What is measured at once; in rounds and in bins, all but the last."""
    single: list[Step] = [(tables.single, shares.single, None)] if tables.single else []
    weights = [_weight(batch) for batch in tables.ones]
    return [(tables.ones, shares.first, weights), *single, (tables.own, shares.rest, None)]


def own_tables(brief: Brief) -> list[Marginal]:
    """The workload's own marginals of two columns and more, and those of the columns of its single
    queries; widest left out.
    """
    tables: dict[Marginal, None] = {}
    for batch in brief.workload:
        own = batch.as_table() is not None
        for columns in batch.column_sets():
            table = _marginal(brief, columns)
            if len(columns) > 1 and (table.size <= CANDIDATE_CELLS or own):
                tables[table] = None
    return list(tables)


def single_queries(brief: Brief) -> list[Symmetric]:
    """Queries over columns whose marginal would be too wide: measured as they are.

    Only of classes that rows can be fitted to; every other class is served by the marginals of its
    columns, as far as these go.
    """
    batches: list[Symmetric] = []
    for batch in brief.workload:
        sets = batch.column_sets()
        wide = {columns for columns in sets if _marginal(brief, columns).size > CANDIDATE_CELLS}
        asked = apart(batch, wide)
        batches.extend([] if asked is None else [asked])
    return batches


def closure(brief: Brief) -> list[Marginal]:
    """What selection may choose from: the workload's own marginals and their sub-marginals, narrow
    and small ones first.
    """
    marginals = {
        columns: _marginal(brief, columns)
        for batch in brief.workload
        for whole in batch.column_sets()
        for k in range(2, min(len(whole), CLOSURE) + 1)
        for columns in combinations(sorted(whole), k)
    }
    chosen, total = [], 0
    for table in sorted(marginals.values(), key=lambda table: (len(table.positions), table.size)):
        total += table.size
        if table.size <= CANDIDATE_CELLS and total <= ALL_CELLS:
            chosen.append(table)
    return chosen


def _share_of_heat(columns: int) -> float:
    """Of the heat for pairs, in bins: less where few columns leave little open."""
    return min(1.0, columns / COLUMNS_OF_FULL_HEAT)


def _below(width: int) -> int:
    """How many sub-marginals a set of columns has that selection may choose from."""
    return sum(math.comb(width, k) for k in range(2, CLOSURE + 1))


def _marginal(brief: Brief, columns: frozenset[int] | set[int] | tuple[int, ...]) -> Marginal:
    positions = tuple(sorted(columns))
    return Marginal(positions, tuple(brief.schema.shape[p] for p in positions))


def _stored_cells(batch: Marginal, rows: int) -> int:
    """How many counts of a table are kept: all cells, or only the occupied ones of a wide table."""
    return batch.size if batch.size <= DENSE_CELLS else rows


def _weight(column: Marginal) -> int:
    """A column's share of the first step: its error adds up over its values, so a long one needs
    less noise on each.
    """
    return math.isqrt(100 * min(column.size, LONG_COLUMN))
