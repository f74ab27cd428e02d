"""The meter: the only object that looks at sensitive rows on anybody's behalf.

Every verb keeps the same order: check the request, charge for it, look, answer with noise. Callers
name the cost; the meter derives the noise and rounds toward more of it. Each verb's claim is proved
under its name in PROOFS.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn, TypeVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS, Counts
from understudy.errors import BudgetRefused, NotCertified, NotSupported, ParameterError, SourceError
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.argmin import (
    REFUSED,
    WEIGHT,
    BlockPlan,
    Labelled,
    NoiseOn,
    labelled,
    perturbation,
    plan_blocks,
    solve,
    solve_in_blocks,
    together,
)
from understudy.privacy.certificate import Certificate, certificate
from understudy.privacy.logistic import FAR, Discriminator, Question
from understudy.privacy.noise.exponential import MOST_NATS, ScoreTable, draw
from understudy.privacy.noise.samplers import Noise, round_sigma_up, sqrt_up
from understudy.privacy.noise.softmin import draw_least
from understudy.privacy.noise.wide import noisy_above, threshold_for
from understudy.privacy.requests import (
    Choice,
    as_shares,
    check_answers,
    check_distinct,
    check_measurable,
    check_shares,
    check_sizes,
    check_sums,
    check_task,
    checked_certifier,
    checked_epsilon,
    checked_points,
    choices_of,
    exact_rho,
    is_whole,
    name_of,
    places_of,
    whole_numbers,
)
from understudy.privacy.resampling import resampling
from understudy.privacy.scores import MarginalScore, compact, gaps
from understudy.privacy.verbs.residuals import Residual, check_residuals, contrast, joint_event
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.marginal import Marginal
from understudy.rules.base import Points, Rule, RuleClass
from understudy.rules.certifiers import Certifier
from understudy.rules.counting import counting_of
from understudy.rules.task import Task
from understudy.sources import Source

Seen = TypeVar("Seen")
EVERYBODY = Marginal((), ())
LARGEST_SCORE = 2**40  # far below what 64-bit arithmetic could wrap
UNREADABLE = (
    "The table could not be read to the end; check that its files are complete and of the format"
    " their names say, or that its query runs."
)
OUT_OF_MEMORY = (
    "Memory ran out while the table was read; nothing is wrong with its files. Close other"
    " programs, ask for fewer or narrower marginals, or use a machine with more memory."
)
KEPT = 20_000  # empty cells that exceed the threshold of a wide marginal, on average
# so that the threshold of a wide marginal is well beyond sigma (PROOFS.md, M5)
MOST_KEPT = DENSE_CELLS // 16
# Of a coin that keeps a drawn query: far from where 60 digits would not do (PROOFS.md, M9).
LEAST_SHARPNESS, LEAST_GAMMA, MOST_GAMMA = Fraction(1, 2**80), Fraction(1, 2**40), 2**10


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of a batch of queries: released values, safe to show.

    With a ``threshold``, only the noisy counts above it are here and ``keys`` are the numbers of
    their cells, rising. All that is known of the other cells is that their noisy counts are at most
    the threshold.
    """

    part: QueryClass
    counts: np.ndarray = field(repr=False)
    sigma: Fraction
    keys: np.ndarray | None = field(default=None, repr=False)
    threshold: int | None = None


@dataclass
class Account:
    """What one release may spend and has spent; refuses before anything is looked at."""

    allowance: Cost
    events: list[ev.Event] = field(default_factory=list)
    spent: Cost = field(default_factory=Cost)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def charge(self, *events: ev.Event) -> None:
        """Charge some events together, or raise and charge none."""
        with self.lock:  # a mechanism may ask from several threads
            after = self.spent + total_cost(events)
            if not after.within(self.allowance):
                step, left = total_cost(events), float(self.allowance.rho - self.spent.rho)
                costs = f"costs rho {float(step.rho):.6g} and the release has rho {left:.6g} left"
                costs = (
                    costs
                    if step.curve is None
                    else "costs more than is left of the curve that the release has set aside"
                )
                raise BudgetRefused(f"{events[0].what}: this step {costs}; nothing was looked at.")
            self.spent = after
            self.events.extend(events)


class Meter:
    """Charges, looks, answers. Algorithms get this and never the table.

    What it may spend is in a ledger, durably, before it exists: ``api/session.py`` makes it, and
    nobody else.

    Args:
        source: the sensitive table.
        neighbours: which tables must be hard to tell apart.
        play: what the mechanism may spend.
        certify: what :meth:`certify` may spend, set aside from the start.
        noise: the samplers; replaced in tests only.
    """

    __slots__ = (
        "_certify",
        "_exact",
        "_noise",
        "_play",
        "_rows",
        "_rows_sigma",
        "_source",
        "neighbours",
    )

    def __init__(
        self,
        source: Source,
        *,
        neighbours: Neighbours,
        play: Cost,
        certify: Fraction,
        noise: Noise | None = None,
    ) -> None:
        self.neighbours = Neighbours(neighbours)  # a plain text compares equal and is not the same
        self._source: Source | None = source
        self._noise = noise or Noise()
        self._play, self._certify = Account(play), Account(Cost(certify))
        self._exact: dict[QueryClass, Counts] = {}
        self._rows: int | None = None
        self._rows_sigma = Fraction(0)

    # ------------------------------------------------------------------ what is public

    @property
    def rows(self) -> int:
        """n: public under replace-one; otherwise what :meth:`release_total` released."""
        if self._rows is None:
            if self.neighbours is Neighbours.ADD_REMOVE_ONE:
                raise ParameterError(
                    "The number of rows is private here; it must be released with release_total"
                    " first."
                )
            self._rows = public_rows(self._open_source())
        return self._rows

    @property
    def rows_sigma(self) -> Fraction:
        """The noise on :attr:`rows`: 0 when n is public."""
        return self._rows_sigma

    @property
    def left(self) -> Fraction:
        """How much rho the mechanism may still spend."""
        return self._play.allowance.rho - self._play.spent.rho

    @property
    def events(self) -> tuple[ev.Event, ...]:
        """Everything charged so far."""
        return (*self._play.events, *self._certify.events)

    # ------------------------------------------------------------------ verbs

    def release_total(self, *, rho: int | Fraction) -> Measurement:
        """The number of rows with noise, when it is private (PROOFS.md, M1)."""
        found = self.measure(EVERYBODY, rho=rho)
        self._rows, self._rows_sigma = max(1, int(found.counts[0])), found.sigma
        return found

    def measure(
        self, part: QueryClass, *, rho: int | Fraction, sparse: bool = False, kept: int = KEPT
    ) -> Measurement:
        """All counts of a batch with discrete Gaussian noise, for the price of its L2 sensitivity
        (M1).
        """
        return self.measure_all([part], rho=rho, sparse=sparse, kept=kept)[0]

    def measure_all(
        self,
        parts: Sequence[QueryClass],
        *,
        rho: int | Fraction,
        weights: Sequence[int | Fraction] | None = None,
        sparse: bool = False,
        kept: int = KEPT,
    ) -> list[Measurement]:
        """Several batches at once: one charge, one pass over the data (M1).

        Shares of ``rho`` are in proportion to ``weights``, which are public; equal if none are
        given. Of a marginal too wide to hold whole, or of every one with ``sparse``, only the noisy
        counts above a public threshold are released: the smallest that at most ``kept`` empty cells
        exceed on average (M5).
        """
        parts = tuple(parts)
        check_measurable(parts, sparse)
        rho = exact_rho(rho)
        if not parts or not is_whole(kept, 1) or kept > MOST_KEPT:
            raise ParameterError(
                "A measurement needs something to measure, and kept, a whole number up to"
                f" {MOST_KEPT:,}."
            )
        shares = as_shares(weights, len(parts))
        sensitivities = [part.l2_squared(self.neighbours) for part in parts]
        # With no sensitivity (n under replace-one) any noise is private; sigma 1/4 is next to none.
        sigmas = [
            round_sigma_up(max(sqrt_up(l2 / (2 * rho * share)), Fraction(1, 4)))
            for l2, share in zip(sensitivities, shares, strict=True)
        ]
        self._play.charge(
            *(
                ev.DiscreteGaussian(
                    what=f"measure {name_of(part)}", sigma_squared=sigma**2, l2_squared=l2
                )
                for part, sigma, l2 in zip(parts, sigmas, sensitivities, strict=True)
            )
        )
        exact = self._look(parts)
        return [
            self._noisy(
                part, counts, sigma, int(kept) if sparse or part.size > DENSE_CELLS else None
            )
            for part, counts, sigma in zip(parts, exact, sigmas, strict=True)
        ]

    def measure_residuals(
        self, parts: Sequence[Marginal], *, sigmas: Sequence[Fraction]
    ) -> list[Residual]:
        """What each set of columns says beyond its subsets, in whole numbers with noise of these
        sigmas: one joint charge (M8).
        """
        parts, sigmas = tuple(parts), tuple(sigmas)
        check_sizes(parts)
        drawn = check_residuals(parts, sigmas, self._open_source().shape)
        self._play.charge(joint_event(parts, drawn, self.neighbours))
        return [
            Residual(
                part,
                contrast(counts.dense(), part.shape) + self._noise.gaussian(part.size, sigma),
                sigma,
            )
            for part, counts, sigma in zip(parts, self._look(parts), drawn, strict=True)
        ]

    def discriminate(
        self,
        parts: Sequence[Marginal],
        made: np.ndarray,
        *,
        weight: int,
        ridge: int,
        sigma: int | Fraction,
    ) -> Discriminator:
        """The weights of cells that best tell the rows from ``made`` ones, under Gaussian noise on
        the objective (M14).

        A made row counts ``weight`` times; ``ridge`` holds the weights back, and ``sigma`` is the
        noise on their slope, in rows. The cost is a curve, and a little beside it for what
        separates the minimum that is found from the true one.
        """
        if self.neighbours is not Neighbours.REPLACE_ONE:
            raise NotSupported(
                "A discriminator is proved private for a public number of rows only; use"
                " replace-one."
            )
        source = self._open_source()
        asked = Question.checked(
            parts, made, source.shape, rows=self.rows, weight=weight, ridge=ridge, sigma=sigma
        )
        terms = asked.terms
        self._play.charge(*terms.events)
        b = self._noise.gaussian(terms.cells, Fraction(terms.sigma))
        # probability below 10^-880 whatever the data; nothing was released
        if np.abs(b).max() > FAR * terms.sigma:
            raise RuntimeError("The noise sampler met an event that does not happen; run again.")
        theta = _guarded(lambda: asked.answered(source, b))
        # noise is drawn for so many numbers, and must never be stretched over more
        if theta.shape != (terms.cells,):
            raise ParameterError("These marginals are written for another schema than the table's.")
        return Discriminator(
            asked.parts, theta + self._noise.gaussian(terms.cells, terms.cover), terms
        )

    def _noisy(
        self, part: QueryClass, counts: Counts, sigma: Fraction, kept: int | None
    ) -> Measurement:
        if kept is None:
            return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma), sigma)
        threshold = threshold_for(part.size, sigma, kept)
        keys, values = noisy_above(self._noise, counts, sigma, threshold)
        return Measurement(part, values, sigma, keys, threshold)

    def select(
        self,
        parts: Sequence[QueryClass],
        shares: Sequence[np.ndarray],
        *,
        rho: int | Fraction,
        draws: int = 1,
        multiplier: int = 1,
        signed: bool = False,
        distinct: bool = False,
    ) -> list[Choice]:
        """Draw queries on which a model is wrong: the exponential mechanism on error counts (M2).

        ``shares`` are the model's answers. A query's score is ``|m*count - round(m*n*share)|``
        rows, m the multiplier; with ``signed``, queries and their negations compete on the error
        with its sign; with ``distinct``, no candidate is drawn twice. The cost ``rho`` covers all
        draws together.
        """
        parts, shares = tuple(parts), tuple(shares)
        check_sizes(parts)
        check_shares(parts, shares)
        rho = exact_rho(rho)
        if not is_whole(draws, 1) or not is_whole(multiplier, 1):
            raise ParameterError(
                "A selection needs at least one draw and a multiplier of at least 1, both whole"
                " numbers."
            )
        # NumPy's whole numbers would wrap, and are not exact to the accountant
        draws, multiplier = int(draws), int(multiplier)
        candidates = sum(part.size for part in parts) * (2 if signed else 1)
        check_distinct(draws, candidates, distinct)
        table = ScoreTable.within(rho / draws, multiplier, self._highest(multiplier, signed))
        shift = table.log_weight_shift(multiplier)
        self._play.charge(
            ev.ExponentialDraws(
                what=f"select {draws} of {sum(p.size for p in parts):,}",
                log_weight_shift=shift,
                draws=draws,
            )
        )
        scores = self._scores(parts, shares, multiplier, table, signed)
        return choices_of(parts, draw(self._noise, scores, table, draws, distinct=distinct))

    def resample(
        self,
        parts: Sequence[QueryClass],
        shares: Sequence[np.ndarray],
        drawn: Sequence[Choice],
        satisfied: Sequence[bool],
        *,
        kappa: Fraction,
        gamma: Fraction,
        records: int,
    ) -> list[Choice]:
        """Keep each drawn query or replace it by a fresh draw, so that all follow weights that
        moved a little (M9).

        After ``records`` records, whose average has the answers ``shares`` and the last of which
        satisfies those of the drawn queries that ``satisfied`` says, a query is kept with
        probability exp(-gamma - kappa*(n*(1 + satisfied) - count)), and otherwise replaced as by
        ``select`` with signs and multiplier ``records``, at the sharpness ``kappa`` a row. The cost
        is a curve, and less than that of drawing anew while kappa times n is small.
        """
        if self.neighbours is not Neighbours.REPLACE_ONE:
            raise NotSupported(
                "Keeping drawn queries is proved private for a public number of rows only; use"
                " replace-one."
            )
        # Read once: a sequence of the caller's own kind might not say the same thing twice.
        parts = tuple(parts)
        shares = tuple(shares)
        drawn = tuple(drawn)
        satisfied = tuple(satisfied)
        check_sizes(parts)
        check_shares(parts, shares)
        kappa, gamma = exact_rho(kappa), exact_rho(gamma)
        if (
            not is_whole(records, 1)
            or not LEAST_SHARPNESS <= kappa <= MOST_NATS
            or not LEAST_GAMMA <= gamma <= MOST_GAMMA
        ):
            raise ParameterError(
                "Keeping drawn queries needs at least one record, and kappa and gamma neither tiny"
                " nor huge."
            )
        places = places_of(parts, drawn, satisfied)
        records, rows = int(records), self.rows
        table = ScoreTable.at(kappa, self._highest(records, True))
        candidates = sum(part.size for part in parts)
        self._play.charge(
            resampling(
                slots=len(places),
                kappa=kappa,
                gamma=gamma,
                rows=rows,
                records=records,
                of=candidates,
            )
        )
        exact = self._look(parts)
        kept = []
        for (part, index), choice, hit in zip(places, drawn, satisfied, strict=True):
            count = min(max(0, int(exact[part].at(np.asarray([index]))[0])), rows)
            count = count if choice.sign > 0 else rows - count
            kept.append(
                self._noise.bernoulli_exp(gamma + kappa * (rows * (2 if hit else 1) - count))
            )
        scores = self._scores(parts, shares, records, table, True)
        fresh = iter(choices_of(parts, draw(self._noise, scores, table, len(kept) - sum(kept))))
        return [choice if keep else next(fresh) for choice, keep in zip(drawn, kept, strict=True)]

    def _highest(self, multiplier: int, signed: bool) -> int:
        top = multiplier * self.rows
        if top > LARGEST_SCORE:
            raise ParameterError(
                f"A selection with multiplier {multiplier:,} over {self.rows:,} rows has scores"
                f" beyond {LARGEST_SCORE:,}."
            )
        return 2 * top if signed else top

    def _scores(
        self,
        parts: Sequence[QueryClass],
        shares: Sequence[np.ndarray],
        multiplier: int,
        table: ScoreTable,
        signed: bool,
    ) -> np.ndarray:
        """What each candidate scores; looks, so it comes after the charge."""
        gaps = np.concatenate(
            [
                # No share asks for more rows than this, and below it nothing can wrap in 64 bits,
                # whatever n is.
                multiplier
                * np.minimum(counts.dense().astype(np.int64), 2 * LARGEST_SCORE // multiplier)
                - self._whole(share, multiplier)
                for counts, share in zip(self._look(parts), shares, strict=True)
            ]
        )
        if not signed:
            return np.abs(gaps)
        # the table may be narrower than the counts: clip around no error, not at one end
        middle = table.top // 2
        gaps = np.clip(gaps, -middle, middle)
        return np.concatenate([middle + gaps, middle - gaps])

    def select_marginal(
        self,
        parts: Sequence[Marginal],
        answers: Sequence[Counts],
        answer_rows: int,
        *,
        rho: int | Fraction,
        score: MarginalScore,
        floors: Sequence[int] | None = None,
        penalties: Sequence[int] | None = None,
        weights: Sequence[int] | None = None,
        draws: int = 1,
        distinct: bool = False,
    ) -> list[int]:
        """Draw whole marginals on which a model is wrong: the exponential mechanism over ``parts``,
        by index (M4).

        ``answers`` are the model's counts among ``answer_rows`` rows, dense or sparse. With a the
        answer rounded to n rows, a candidate's score is ``weight * max(0, s - penalty)``, where s
        is

            LARGEST   max over cells of |count - a|
            TOTAL     sum over cells of max(0, |count - a| - floor)

        Floors, penalties (0 if none are given) and weights (1) are public whole numbers, one a
        candidate. A heavier candidate makes the selection among the others noisier: the largest
        weight is paid for.
        """
        parts, answers = tuple(parts), tuple(answers)
        if not all(isinstance(part, Marginal) for part in parts):
            raise ParameterError(
                "Only whole marginals can be selected as such; use select for other queries."
            )
        rows = self.rows
        check_answers(parts, answers, answer_rows, rows)
        rho = exact_rho(rho)
        if not is_whole(draws, 1) or not isinstance(score, MarginalScore):
            raise ParameterError(
                "A selection needs at least one draw, a whole number, and a MarginalScore."
            )
        draws = int(draws)
        if floors is not None and score is not MarginalScore.TOTAL:
            raise ParameterError(
                "Floors go with the score TOTAL; with LARGEST, give penalties instead."
            )
        floors = whole_numbers(floors, len(parts), 0, "Floors")
        penalties = whole_numbers(penalties, len(parts), 0, "Penalties")
        weights = whole_numbers(weights, len(parts), 1, "Weights")
        check_distinct(draws, len(parts), distinct)
        if max(weights) * rows > LARGEST_SCORE:
            raise ParameterError(
                f"A selection with weight {max(weights):,} over {rows:,} rows has scores beyond"
                f" {LARGEST_SCORE:,}."
            )
        sensitivity = max(weights) * score.sensitivity(self.neighbours)
        # Two tables of n rows differ by at most 2n in total.
        table = ScoreTable.within(
            rho / draws,
            sensitivity,
            max(weights) * rows * (2 if score is MarginalScore.TOTAL else 1),
        )
        shift = table.log_weight_shift(sensitivity)
        self._play.charge(
            ev.ExponentialDraws(
                what=f"select {draws} of {len(parts):,} marginals",
                log_weight_shift=shift,
                draws=draws,
            )
        )
        found = gaps(
            self._look(parts),
            answers,
            rows=rows,
            answer_rows=int(answer_rows),
            score=score,
            floors=floors,
        )
        scores = [
            min(weight * max(0, int(gap) - penalty), table.top)
            for gap, penalty, weight in zip(found, penalties, weights, strict=True)
        ]
        return [
            int(i)
            for i in draw(
                self._noise, np.asarray(scores, np.int64), table, draws, distinct=distinct
            )
        ]

    def soft_argmin(self, task: Task, of: RuleClass, *, epsilon: int | Fraction) -> Rule:
        """A rule with few mistakes: the exponential mechanism over a class that can be counted, on
        what each rule's mistakes cost (M11).
        """
        self._check_learning(task, of)
        epsilon = checked_epsilon(epsilon)
        counting, top = counting_of(of), max(task.costs)
        what = f"soft argmin over {counting.size:,} {of.name}"
        self._play.charge(ev.ExponentialDraws(what=what, log_weight_shift=epsilon / 2, draws=1))
        rows = self._labelled(task)
        kappa = epsilon / (2 * top)
        return counting.rule(
            _guarded(
                lambda: draw_least(self._noise, counting.costs(rows.points(task.costs)), kappa)
            )
        )

    def mistakes(
        self, task: Task, of: RuleClass, rule: Rule, *, epsilon: int | Fraction
    ) -> tuple[int, Fraction]:
        """(what the mistakes of a rule cost in all, with discrete Laplace noise; the scale of the
        noise) (M11).
        """
        self._check_learning(task, of)
        epsilon, top = checked_epsilon(epsilon), max(task.costs)
        if not of.contains(rule):
            raise ParameterError(f"This is not a rule of these {of.name}.")
        scale = top / epsilon
        self._play.charge(ev.DiscreteLaplace(what="mistakes of a rule", scale=scale, l1=top))
        rows = self._labelled(task)
        said = of.predict(rule, rows.bits)
        return (
            int(
                task.costs[0] * rows.no[said].sum()
                + task.costs[1] * rows.yes[~said].sum()
                + self._noise.laplace(1, scale)[0]
            ),
            scale,
        )

    def argmin(
        self,
        task: Task,
        of: RuleClass,
        *,
        epsilon: int | Fraction,
        certifier: str | Certifier = "auto",
        noise_on: NoiseOn | str | None = None,
        weight: int = WEIGHT,
        gap: int = 0,
        public: Points | None = None,
    ) -> Rule:
        """The rule whose mistakes cost least under noise, found and proved by a solver on the
        private rows: RSPM (M10).

        CONDITIONAL on the certificate, unless the certifier is our own: a wrong proof that all
        checks let pass would void the claim. A solve without a proof raises NotCertified and its
        charge stays; that it failed may itself say something about the rows.

        Args:
            task: attributes, label and costs.
            of: the class.
            epsilon: what it costs.
            certifier: who solves, by name or as given.
            noise_on: the separator set, or features if the class has a width; the latter by default
                where there is one.
            weight: how finely a mistake is divided, so that ties and gaps are cheap.
            gap: by how much, in units of 1/weight of a mistake, a certified rule may miss the best.
            public: further points with whole costs, in the same units, that come from released
                values.
        """
        self._check_learning(task, of)
        noisy = perturbation(task, of, checked_epsilon(epsilon), noise_on, weight, gap)
        by = checked_certifier(certifier, of)
        extra = checked_points(public, of)
        check_sums(self.rows, task, noisy.weight)
        self._play.charge(
            noisy.event(f"argmin over {of.name} of {of.attributes} attributes, {by.reads}")
        )
        rule = solve(
            noisy,
            together(self._labelled(task).points(task.costs, noisy.weight), extra),
            by,
            self._noise,
        )
        if rule is None:
            raise NotCertified(REFUSED)
        return rule

    def argmin_in_blocks(
        self,
        task: Task,
        of: RuleClass,
        plan: BlockPlan,
        *,
        certifier: str | Certifier = "auto",
        noise_on: NoiseOn | str | None = None,
        weight: int = WEIGHT,
        public: Points | None = None,
    ) -> Rule | None:
        """The same over random blocks of rows, private even if solves fail as an adversary would
        like: PRSMA (M12). None is an outcome.
        """
        self._check_learning(task, of)
        by = checked_certifier(certifier, of)
        if not isinstance(plan, BlockPlan) or plan != plan_blocks(
            self.rows, plan.epsilon, plan.delta
        ):
            raise ParameterError(
                "Blocks need a plan for as many rows as the table has; make one with prsma.plan."
            )
        if not plan.block_rows:
            raise ParameterError(
                f"{plan.blocks:,} blocks need at least as many rows; the table has {plan.rows:,}."
            )
        noisy = perturbation(task, of, plan.run_epsilon, noise_on, weight, 0)
        check_sums(self.rows, task, noisy.weight)
        extra = checked_points(public, of)
        what = f"argmin over {of.name} in {plan.blocks:,} blocks, {by.reads}"
        self._play.charge(ev.ApproximateDP(what=what, epsilon=plan.epsilon, delta=plan.delta))
        return solve_in_blocks(
            noisy, self._labelled(task), task.costs, extra, plan, by, self._noise
        )

    def _check_learning(self, task: Task, of: RuleClass) -> None:
        if self.neighbours is not Neighbours.REPLACE_ONE:
            raise NotSupported("Learning is proved private for replace-one neighbours only.")
        check_task(task, of, self._open_source().shape)

    def _task_table(self, task: Task) -> Marginal:
        shape = self._open_source().shape
        return Marginal(task.columns, tuple(shape[c] for c in task.columns))

    def _labelled(self, task: Task) -> Labelled:
        table = self._task_table(task)
        counts = self._look([table])[0]
        return _guarded(lambda: labelled(task, counts, table.shape))

    def certify(
        self, parts: Sequence[QueryClass], answers: Sequence[Counts], released_rows: int
    ) -> Certificate:
        """A bound on the largest error of released answers, for what was set aside for it (M3).

        ``answers`` are counts among ``released_rows`` released rows. Wide marginals stay sparse.
        """
        rows = self.rows
        check_answers(parts, answers, released_rows, rows)
        if self._certify.events:
            raise BudgetRefused("A release is certified once; its share for that is spent.")
        sigma = round_sigma_up(max(sqrt_up(1 / (2 * self._certify.allowance.rho)), Fraction(1, 4)))
        self._certify.charge(
            ev.DiscreteGaussian(what="certify", sigma_squared=sigma**2, l2_squared=1)
        )
        found = gaps(
            self._look(parts),
            answers,
            rows=rows,
            answer_rows=int(released_rows),
            score=MarginalScore.LARGEST,
        )
        noisy = int(found.max()) + int(self._noise.gaussian(1, sigma)[0])
        return certificate(noisy, sigma, rows, self._rows_sigma, sum(part.size for part in parts))

    def close(self) -> None:
        """Forget the table and every exact count; the events stay."""
        self._source = None
        self._exact.clear()

    # ------------------------------------------------------------------ looking (after charging)

    def _look(self, parts: Sequence[QueryClass]) -> list[Counts]:
        source = self._open_source()
        _guarded(
            lambda: self._count(
                source, list(dict.fromkeys(part for part in parts if part not in self._exact))
            )
        )
        exact = [self._exact[part] for part in parts]
        if any(counts.cells != part.size for counts, part in zip(exact, parts, strict=True)):
            raise ParameterError("These queries are written for another schema than the table's.")
        return exact

    def _count(self, source: Source, unseen: Sequence[QueryClass]) -> None:
        tables = [part for part in unseen if isinstance(part, Marginal)]
        # all in one pass over the data
        found = source.count([part.positions for part in tables]) if tables else []
        # one at a time, so that the wide form of each table goes as soon as the narrow one is made
        while found:
            self._exact[tables.pop()] = compact(found.pop())
        for part in unseen:
            if part not in self._exact:
                self._exact[part] = compact(part.counts(source))

    def _whole(self, share: np.ndarray, multiplier: int) -> np.ndarray:
        """A model's answers as whole rows, inside what counts can be: public arithmetic."""
        top = multiplier * self.rows
        # first: an absurd share times top would overflow
        inside = np.clip(np.nan_to_num(np.asarray(share, np.float64)), 0, 1)
        return np.rint(inside * top).astype(np.int64)

    def _open_source(self) -> Source:
        if self._source is None:
            raise ParameterError("This meter is closed; start a new release.")
        return self._source

    def __repr__(self) -> str:
        return f"<Meter: {len(self.events)} events, rho {float(self.left):.6g} left>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A meter holds sensitive counts and is never pickled or copied.")


def _guarded(look: Callable[[], Seen]) -> Seen:
    """What a look at the table gives; whatever goes wrong in it becomes one fixed sentence."""
    try:
        return look()
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.__cause__ = stop.__context__ = None  # what went wrong just before may quote a cell
        raise
    except MemoryError:
        sentence = OUT_OF_MEMORY
    except BaseException:  # a panic of a library in Rust is no Exception
        sentence = UNREADABLE
    # Raised out here so that no foreign message, which may quote a cell, travels along.
    raise SourceError(sentence)


def public_rows(source: Source) -> int:
    """n under replace-one neighbours, where it is public by definition (PROOFS.md, conventions)."""
    return _guarded(lambda: int(source.count([()])[0].values[0]))
