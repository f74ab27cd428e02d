"""ARP, adaptive row projection: Understudy's own mechanism and its default.

Measure the 1-way marginals. Then either measure the whole workload at once, pairs with ordered
columns at several resolutions, or go round by round: SELECT the marginal that the rows get most
wrong, MEASURE it whole, MOVE the rows. Which way, how many rounds and how the budget is split follow
from public facts (docs/arp-constants.md says how the rule was found).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np

from understudy.counting.tally import DENSE_CELLS
from understudy.errors import NotSupported, ParameterError
from understudy.game.fitting.evidence import with_sums
from understudy.game.fitting.ties import MANY_VALUES
from understudy.game.loop import DataPlayer, Played, QueryPlayer, play
from understudy.game.players.high_order import WithoutAllBits
from understudy.game.players.measuring import InTurn, MeasureAll, WorstMarginal, one_way
from understudy.game.players.resolving import REPAIRS, AllTied, WorstInBins, resolving
from understudy.game.players.rows import (
    HEAT,
    LAST_SWEEPS,
    ROWS,
    RowPlayer,
    check_width,
    refits,
    seconds_a_row,
)
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
    fewest_rows,
)
from understudy.mechanisms.high_order import HighOrder, check_high_order
from understudy.mechanisms.matrix import Matrix
from understudy.privacy import Meter
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric, apart
from understudy.runtime.watching import Watcher
from understudy.schema import Schema

ROUNDS = 30  # 20 to 45 do about as well (docs/arp-constants.md)
# ... while they leave so much noise, as a share of the rows. Beyond it pairs cost more than they
# bring: fewer rounds, down to so many, and down to so much of what they would get
NOISE_A_ROUND, FEWEST_ROUNDS, LEAST_FOR_PAIRS = 0.03, 5, 0.45
# heat holds strong dependences back by a share of the noise; where noise is small there is room for
# more
HOTTEST = 0.8
# of the rows, at once and in rounds, where fewer tables leave more open
HELD_BACK = (0.00075, 0.0012)
# sigmas: in rounds, a table was picked because some cell of it is far off; not when there are pairs
# only
SOONER = 1.2
# when all pairs that matter are measured, little is left open; with little noise there is room
PAIRS_HEAT, PAIRS_HELD_BACK = 0.25, 0.0001
SMALL_NOISE = 0.008  # one-shot while the noise of a cell is below this share of the rows
# ... or while a cell of average size is not drowned: tables of few cells (binary columns) are read
# together, and their noises average out
DROWNED = 1.0
# ... or while rounds, which pay for each choice, would leave hardly less noise on each table, unless
# cells are drowned by so much: rounds may then choose narrower tables
WORTH_ROUNDS, DEEP = 1.1, 250.0
# the same for pairs in bins: what rounds leave of the largest cell and of all cells is less earlier
WORTH_ROUNDS_IN_BINS = 0.7
SIGMAS_IN_ROUNDS = 8.0  # rows of an average cell of a candidate in bins, in noises
# of rounds in bins, the last: in whole tables, for spikes that bins cut through
WHOLE_ROUNDS = 1 / 2
# heat in bins grows with the columns up to so many: fewer leave less open, and heat would only hold
# back what they have to do with each other
COLUMNS_OF_FULL_HEAT = 14
# the pairs of a label have less noise, and heat is counted in the least
HEAT_WITH_LABEL = 2.0
# kept while playing: with several passes, as many as elsewhere would take twice the time
ROWS_IN_BINS = 12_000
FEW_VALUES = 8  # a column of so many values is measured as it is
# Pairs of columns with at most so many values are measured as residuals, which have fewer cells,
# while noise is at most so much of a cell of average size (docs/arp-constants.md)
FEW_FOR_RESIDUALS, CLEAR = 12, 0.5
# a wider marginal is mostly noise; its sub-marginals are candidates instead
CANDIDATE_CELLS = 20_000
ALL_CELLS = 50_000_000  # of all candidates
AT_ONCE_CELLS = 10_000_000  # of everything measured at once: rows are fitted to each of them
# A pair is known from the tables above it by their sums. Heat holds a dependence back by the square
# of the noise of these, in noises of one cell: beyond so many, the pair is measured by itself, too
LOST = 4.0
# what a table of the workload gets, in shares of such a pair: with 1, the others had too much noise
# on ADULT, and with 4, the pair itself
SHARES_OF_OWN = 2
MOST_TABLES = 200_000  # different sets of columns in the workload
MOST_BELOW = 20_000_000  # sub-marginals of all these
# rounds go on from each other's rows; at once, two were worse than three
SWEEPS_IN_ROUNDS, SWEEPS_AT_ONCE = 2, 3
LAST_SWEEPS_IN_BINS = 2  # of released rows; three were no better
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
            of ordered columns have cells below their noise.
        residuals: measure the residuals of marginals, as ``matrix`` does, which leaves ``first``
            without a meaning; ``None`` for a public rule: for pairs of few values and little noise.
        rounds: how often to select and measure, when adaptive; ``None`` for a public rule: 30, fewer
            for few rows.
        first: share of the budget for the 1-way marginals; ``None`` for 35% when adaptive, more for
            few rows, else 12%.
        selecting: share of each round for the selection, when adaptive.
        supported: release only those categories whose noisy count stands out of its noise.
        label: the column that models of the rows will predict, if there is one; part of the
            budget goes to what predicts it.
        high_order: share of the budget for parities of many columns; ``None`` for a public rule:
            3%, or 6% where few columns allow Gaussian noise alone; none where they do not.
        triples: share of the budget for triples of the label, which are selected; by itself none,
            because on ADULT it bought nothing.
    """

    adaptive: bool | None = None
    bins: bool | None = None
    residuals: bool | None = None
    rounds: int | None = None
    first: Fraction | None = None
    selecting: Fraction = Fraction(35, 100)
    supported: bool = False
    label: str = ""
    high_order: Fraction | None = None
    triples: Fraction = Fraction(0)

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
        check_whole(self.name, rounds=(ROUNDS if self.rounds is None else self.rounds, 1, 10_000))
        if self.adaptive not in (None, True, False):
            raise ParameterError("arp needs adaptive to be true or false.")
        if self.bins not in (None, True, False):
            raise ParameterError("arp needs bins to be true or false.")
        if self.residuals not in (None, True, False):
            raise ParameterError("arp needs residuals to be true or false.")
        if self.residuals and (self.adaptive or self.bins):
            raise ParameterError(
                "arp measures residuals all at once and whole; leave out adaptive and bins, or"
                " residuals."
            )
        if self.residuals and self.supported:
            raise ParameterError(
                "arp cannot tell from residuals which single counts stand out; leave out residuals"
                " or supported."
            )
        check_width(self.name, brief.schema)
        check_high_order(brief, self)
        widths = [len(columns) for batch in brief.workload for columns in batch.column_sets()]
        if len(widths) > MOST_TABLES or sum(map(_below, widths)) > MOST_BELOW:
            raise NotSupported(
                "arp measures a table for each set of columns that is asked about, at most"
                f" {MOST_TABLES:,}, or the tables below them, at most {MOST_BELOW:,}; ask about"
                " fewer, or use the mechanism 'dualquery'."
            )

    def decide(self, brief: Brief, means: Means) -> Decision:
        """What the workload's tables take, and what is left for what lies beyond them."""
        tables = Tables.of(brief)
        alone = self._of_workload(brief, means, tables)
        beyond = HighOrder.of(brief, means, self, alone.cost)
        if not beyond.share or not (tables.own or tables.candidates):
            return alone
        left = replace(means, rho=means.rho * (1 - beyond.share))
        usual = self._of_workload(brief, left, tables)
        return Decision.of(
            self,
            brief,
            means,
            cost=beyond.cost(usual.cost, brief, means.rho),
            how=f"{usual.how}; then {beyond.how}",
            numbers={**usual.numbers, **beyond.numbers},
            plan=_Whole(usual.plan, beyond),
            outlook=usual.outlook
            and replace(
                usual.outlook, sweeps=usual.outlook.sweeps + beyond.refits * SWEEPS_IN_ROUNDS
            ),
        )

    def _of_workload(self, brief: Brief, means: Means, tables: Tables) -> Decision:
        """With all of the means for the tables of the workload."""
        rho = means.rho
        adaptive = self.is_adaptive(tables, rho, means.rows)
        pace = self._pace(tables, rho, means.rows, adaptive)
        sigma = self._sigma(tables, rho, pace)
        share = pace.first if tables.beyond_columns else Fraction(1)
        binned = self._in_bins(tables, sigma, means.rows, adaptive)
        beside = adaptive or binned
        if (self.residuals or not beside) and self._in_residuals(brief, tables, sigma, means.rows):
            return self._residuals(brief, means, pace.first)
        lost = [] if adaptive else tables.lost
        sigma *= math.sqrt(1 + len(lost) / (SHARES_OF_OWN * max(len(tables.own), 1)))
        rounds = pace.rounds or (REPAIRS if binned else 1)
        how = (
            f"{rounds} rounds of select and measure"
            if adaptive
            else f"{len(tables.own)} marginals in bins, then the strongest finer"
            if binned
            else f"{len(tables.own)} marginals measured at once"
            + (f", and {len(lost)} pairs below them" if lost else "")
        )
        plan = _Plan(
            tables=tables,
            adaptive=adaptive,
            binned=binned,
            shares=Shares.of(rho, share, tables, bool(tables.own or tables.candidates)),
            rounds=rounds,
            sigma=sigma,
            heat=self._heat(tables, sigma, adaptive, means.rows)
            * (1.0 if adaptive or not binned else _share_of_heat(len(brief.schema)))
            * (HEAT_WITH_LABEL if binned and self.label else 1.0),
        )
        # decided for the fewest rows, which more rows only confirm
        fewest = fewest_rows(brief, means)
        at_once = not (
            self._in_bins(tables, sigma, fewest, False) or self.is_adaptive(tables, rho, fewest)
        )
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
                "residuals": False,
                "rounds": rounds,
                "first": share if self.first is None or share == 1 else self.first,
                "tables": len(tables.candidates) if adaptive else len(tables.own) + len(lost),
                "sigma": sigma,
                "heat": plan.heat,
                "high_order": 0,
            },
            plan=plan,
            outlook=self._outlook(brief, tables, sigma, pace.rounds, means.rows),
        )

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, whole = decision.brief.schema, decision.plan
        plan, beyond = whole if isinstance(whole, _Whole) else (whole, None)
        if isinstance(plan, Decision):  # of matrix, whose players these then are
            data, query = Matrix().players(plan, meter, rng, watcher)
            steps = [query]
        else:
            data, steps = self._players(decision, plan, meter, rng, watcher)
        if beyond is None:
            return play(data, InTurn(*steps), rounds=len(steps), watcher=watcher, schema=schema)
        steps += beyond.steps(meter, decision.brief, decision.means.rho)
        if beyond.all_bits:
            asked = decision.brief.workload
            data = WithoutAllBits(data, max(len(batch.columns) for batch in asked))
        played = play(data, InTurn(*steps), rounds=len(steps), watcher=watcher, schema=schema)
        return replace(played, facts=beyond.facts(played, schema))

    def _players(
        self,
        decision: Decision,
        plan: _Plan,
        meter: Meter,
        rng: np.random.Generator,
        watcher: Watcher,
    ) -> tuple[DataPlayer, list[QueryPlayer]]:
        """Who fits rows, and who measures the tables of the workload, one a round."""
        schema = decision.brief.schema
        tables, shares, adaptive = plan.tables, plan.shares, plan.adaptive
        *before, (_, rho, weights) = _steps(tables, shares)
        steps: list[QueryPlayer] = [
            MeasureAll(meter, first, rho=share, weights=some) for first, share, some in before
        ]
        if adaptive:
            each, selecting = shares.rest / plan.rounds, Fraction(self.selecting)
            select, measure = each * selecting, each * (1 - selecting)
            steps.append(
                WorstInBins(
                    meter,
                    schema,
                    tables.own,
                    select=select,
                    measure=measure,
                    sigmas=SIGMAS_IN_ROUNDS,
                    rounds=plan.rounds - round(WHOLE_ROUNDS * plan.rounds),
                    whole=tables.candidates,
                )
                if plan.binned
                else WorstMarginal(meter, tables.candidates, select=select, measure=measure)
            )
        elif plan.binned:
            steps += resolving(
                meter,
                schema,
                tables.own,
                rho=shares.rest,
                noise=plan.sigma / decision.means.rows,
                selecting=Fraction(self.selecting),
                label=schema.position(self.label) if self.label else None,
            )
        else:
            at_once = [*tables.lost, *tables.own]  # as _steps has them
            steps.append(AllTied(meter, schema, at_once, rho=rho, weights=weights))
        in_bins = plan.binned and not adaptive
        data = RowPlayer(
            schema,
            n=decision.means.rows,
            rng=rng,
            rows=ROWS_IN_BINS if in_bins else ROWS,
            sweeps=SWEEPS_IN_ROUNDS if adaptive or plan.binned else SWEEPS_AT_ONCE,
            last_sweeps=LAST_SWEEPS_IN_BINS if in_bins else LAST_SWEEPS,
            heat=plan.heat,
            sooner=SOONER if adaptive and not tables.pairs_only else 0.0,
            supported=self.supported,
            watcher=watcher,
        )
        return data, [*steps, *[steps[-1]] * (plan.rounds - 1)]

    def _in_bins(self, tables: Tables, sigma: float, rows: int, adaptive: bool) -> bool:
        """The public rule: where a pair has an ordered column of many values, or in rounds another
        of very many, and cells of average size below their noise.
        """
        possible = tables.pairs_only and bool(tables.own)
        long = [*tables.long, *(tables.unordered if adaptive else ())]
        drowned = any(table.size * sigma > DROWNED * rows for table in long)
        return possible and (drowned if self.bins is None else bool(self.bins))

    def _in_residuals(self, brief: Brief, tables: Tables, sigma: float, rows: int) -> bool:
        """The public rule: where pairs have few values and little noise, and n is public."""
        marginals = all(batch.as_table() is not None for batch in brief.workload)
        possible = bool(tables.own) and marginals and Matrix().serves(brief)
        if self.residuals is not None:
            return self.residuals and possible
        largest = max((size for table in tables.own for size in table.shape), default=0)
        by_rule = self.adaptive is None and self.bins is None and self.first is None
        by_rule = by_rule and not self.supported
        pairs = tables.pairs_only and brief.neighbours is Neighbours.REPLACE_ONE
        return (
            by_rule
            and pairs
            and possible
            and 1 < largest <= FEW_FOR_RESIDUALS
            and _median_size(tables) * sigma <= CLEAR * rows
        )

    def _residuals(self, brief: Brief, means: Means, first: Fraction) -> Decision:
        """As ``matrix`` does it."""
        inner = Matrix().decide(brief, means)
        ours = {"adaptive": False, "bins": False, "residuals": True, "rounds": 1, "first": first}
        ours["high_order"] = Fraction(0)
        return Decision.of(
            self,
            brief,
            means,
            cost=inner.cost,
            how=inner.how,
            numbers={**inner.numbers, **ours},
            plan=inner,
            outlook=inner.outlook,
        )

    def is_adaptive(self, tables: Tables, rho: Fraction, rows: int) -> bool:
        """The public rule: at once while that leaves little noise on each cell, or on a cell of
        typical size, or hardly more noise than rounds would leave on cells that are not far below
        it; else only what is most wrong.
        """
        if self.adaptive is not None or not tables.candidates:
            return bool(self.adaptive) and bool(tables.candidates)
        if not tables.own or sum(batch.size for batch in tables.own) > AT_ONCE_CELLS:
            # with no table small enough to be measured at once, only their sub-marginals are left
            # to spend on
            return True
        once, rounds = (self._pace(tables, rho, rows, way) for way in (False, True))
        at_once = self._sigma(tables, rho, once)
        average = sum(tables.sizes) / len(tables.own)
        binned = self._in_bins(tables, at_once, rows, False)
        cells = average if binned else _median_size(tables)
        noisy = at_once > SMALL_NOISE * rows and at_once * cells > DROWNED * rows
        # for few rows, a round less leaves more to the single columns, too
        few = self.rounds is None and rounds.rounds < min(ROUNDS, len(tables.own))
        # as far as their number is public: a release that may choose is counted as one that does
        public = tables.neighbours is Neighbours.REPLACE_ONE
        deep = public and at_once * average > DEEP * rows
        worth = WORTH_ROUNDS_IN_BINS if binned else WORTH_ROUNDS
        return noisy and (few or deep or at_once > worth * self._sigma(tables, rho, rounds))

    def _outlook(
        self, brief: Brief, tables: Tables, sigma: float, rounds: int, rows: int
    ) -> Outlook:
        counted, ones = tables.candidates if rounds else tables.own, tables.ones
        cells = sum(_stored_cells(batch, rows) for batch in counted)
        # of the candidates, as many as there are rounds
        typical = rounds / len(counted) if rounds else 1.0
        dense = [batch for batch in counted if batch.size <= DENSE_CELLS]
        widest = max((len(batch.shape) for batch in counted), default=1)
        # A round moves the columns of its table only, once for each width below it; on average half
        # of the tables are there.
        moved = rounds * SWEEPS_IN_ROUNDS * widest * widest / len(brief.schema) / 2
        return Outlook(
            sigma=sigma,
            tables=len(counted) + len(ones),
            cells=cells,
            noisy_cells=sum(batch.size for batch in ones) + round(typical * cells),
            rounds=rounds,
            sweep=seconds_a_row(with_sums(dense)) * min(typical, 1.0) + seconds_a_row(ones),
            sweeps=moved if rounds else refits(counted, SWEEPS_AT_ONCE),
            unmeasured=UNMEASURED if rounds else 0.0,
        )

    def _heat(self, tables: Tables, sigma: float, adaptive: bool, rows: int) -> float:
        if not adaptive and tables.pairs_only:
            return min(max(PAIRS_HELD_BACK * rows / sigma, PAIRS_HEAT), HOTTEST)
        return min(max(HELD_BACK[adaptive] * rows / sigma, HEAT), HOTTEST)

    def _pace(self, tables: Tables, rho: Fraction, rows: int, adaptive: bool) -> Pace:
        """How often to select, and what the single columns get: more of it for few rows, as far as
        their number is public.
        """
        if not adaptive:
            return Pace(0, FIRST_AT_ONCE if self.first is None else Fraction(self.first))
        usual = Pace(ROUNDS, FIRST_ADAPTIVE)
        noise = self._sigma(tables, rho, usual) / rows
        if noise > NOISE_A_ROUND and tables.neighbours is Neighbours.REPLACE_ONE:
            calm = NOISE_A_ROUND / noise
            left = Fraction(max(calm, LEAST_FOR_PAIRS)).limit_denominator(100)
            usual = Pace(
                max(FEWEST_ROUNDS, round(ROUNDS * calm**2)), 1 - (1 - FIRST_ADAPTIVE) * left
            )
        return Pace(
            usual.rounds if self.rounds is None else self.rounds,
            usual.first if self.first is None else Fraction(self.first),
        )

    def _sigma(self, tables: Tables, rho: Fraction, pace: Pace) -> float:
        """Noise of one measured count, in people."""
        rest = float(rho * (1 - pace.first))
        moved = [batch.l2_squared(tables.neighbours) for batch in tables.own or tables.ones]
        if pace.rounds:
            selecting = float(1 - Fraction(self.selecting))
            return math.sqrt(moved[0] * pace.rounds / (2 * rest * selecting))
        return math.sqrt(sum(moved) / (2 * rest))


class Pace(NamedTuple):
    """How often arp selects, none at once, and the share of the single columns."""

    rounds: int
    first: Fraction


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What a brief gives to measure and to choose from."""

    ones: Sequence[Marginal]
    own: Sequence[Marginal]
    single: Sequence[Symmetric]
    candidates: Sequence[Marginal]
    lost: Sequence[Marginal]
    long: Sequence[Marginal]  # of its own, those with an ordered column of many values
    unordered: Sequence[Marginal]  # those with one of very many values without order
    neighbours: Neighbours
    sizes: Sequence[int]  # cells of each own table, about, with rare values tied

    @classmethod
    def of(cls, brief: Brief) -> Tables:
        own = own_tables(brief)
        return cls(
            ones=one_way(brief.schema),
            own=own,
            sizes=[math.prod(_tied_size(brief, p) for p in table.positions) for table in own],
            lost=lost_pairs(own),
            long=[table for table in own if _is_long(brief.schema, table, True, FEW_VALUES)],
            unordered=[t for t in own if _is_long(brief.schema, t, False, MANY_VALUES)],
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
    sigma: float
    heat: float


class _Whole(NamedTuple):
    """What a play follows that looks beyond the workload."""

    of_workload: _Plan | Decision  # a decision is one of matrix
    beyond: HighOrder


def _steps(tables: Tables, shares: Shares) -> list[Step]:
    """What is measured at once; in rounds and in bins, all but the last."""
    single: list[Step] = [(tables.single, shares.single, None)] if tables.single else []
    weights = [_weight(batch) for batch in tables.ones]
    at_once = [*tables.lost, *tables.own]
    split = [1] * len(tables.lost) + [SHARES_OF_OWN] * len(tables.own) if tables.lost else None
    return [(tables.ones, shares.first, weights), *single, (at_once, shares.rest, split)]


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


def lost_pairs(tables: Sequence[Marginal]) -> list[Marginal]:
    """Pairs of columns that wider tables say little of: their sums have the noise of many cells.

    What several tables say of a pair is pooled. Only tables that are summed count.
    """
    precision: dict[Marginal, float] = {}
    for table in tables:
        members = zip(table.positions, table.shape, strict=True)
        for (a, of_a), (b, of_b) in combinations(members, 2) if table.size <= DENSE_CELLS else ():
            pair = Marginal((a, b), (of_a, of_b))
            precision[pair] = precision.get(pair, 0.0) + pair.size / table.size
    return [pair for pair, total in precision.items() if total * LOST**2 < 1]


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


def _is_long(schema: Schema, table: Marginal, ordered: bool, values: int) -> bool:
    """Whether it has a column of more than so many values, with an order or without."""
    columns = (schema.columns[p] for p in table.positions)
    return any(column.ordered is ordered and column.values > values for column in columns)


def _tied_size(brief: Brief, position: int) -> int:
    """About how many values of a column a table keeps apart."""
    column = brief.schema.columns[position]
    return column.size if column.ordered else min(column.size, MANY_VALUES)


def _share_of_heat(columns: int) -> float:
    """Of the heat for pairs, in bins: less where few columns leave little open."""
    return min(1.0, columns / COLUMNS_OF_FULL_HEAT)


def _median_size(tables: Tables) -> int:
    """How many cells a table of the workload has, half of them having no more."""
    return sorted(tables.sizes)[len(tables.own) // 2]


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
