"""Data players that answer with records: whatever an oracle finds best against the queries chosen
so far.

They see choices, which are released values, and public randomness; how good the oracle is, or
whether it works at all, changes the records and never a charge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

from understudy.counting.tally import DENSE_CELLS, CodedRows, count_cells
from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import Finding
from understudy.game.players.measuring import check_choosable, single
from understudy.game.players.rows import repeated
from understudy.oracles.base import (
    Ended,
    FlatQueries,
    Found,
    Instance,
    Oracle,
    Variants,
    available_oracles,
)
from understudy.privacy import Choice
from understudy.queries.base import QueryClass
from understudy.queries.literals import Query
from understudy.schema import Schema

SEEDS = 2**62  # a seed fits 64 bits with a sign, and no two calls are likely to share one


class Records:
    """The uniform mixture of some records."""

    def __init__(self, schema: Schema, codes: np.ndarray) -> None:
        self._schema, self.codes = schema, codes

    def shares(self, batch: QueryClass) -> np.ndarray:
        table = batch.as_table()
        if table is not None and table.size <= DENSE_CELLS:
            return count_cells(self.codes, table.positions, table.shape) / len(self.codes)
        return batch.counts(CodedRows(self.codes, self._schema.shape)).dense() / len(self.codes)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Every record as often as any other, up to one."""
        return repeated(self.codes, count, rng)


class Growing:
    """The uniform mixture of records that come one after the other; answers are added to, not
    counted anew.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema, self._records = schema, [np.zeros((0, len(schema)), np.int32)]
        # up to which record, and how many satisfy each query
        self._counted: dict[QueryClass, tuple[int, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._records) - 1

    @property
    def last(self) -> np.ndarray:
        """The newest record."""
        return self._records[-1][0]

    @property
    def codes(self) -> np.ndarray:
        return np.concatenate(self._records)

    def add(self, record: np.ndarray) -> None:
        """One more record (1 x columns)."""
        self._records.append(record)

    def shares(self, batch: QueryClass) -> np.ndarray:
        done, counts = self._counted.get(batch, (0, np.zeros(batch.size)))
        fresh = np.concatenate(self._records[done + 1 :] or self._records[:1])
        if len(fresh):
            counts = counts + Records(self._schema, fresh).shares(batch) * len(fresh)
            self._counted[batch] = len(self), counts
        return counts / max(1, len(self))

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Every record as often as any other, up to one."""
        return repeated(self.codes, count, rng)


class Solver:
    """An oracle that cannot fail: a failed solve falls back on the best record known, and is
    counted.
    """

    def __init__(self, oracle: Oracle, rng: np.random.Generator) -> None:
        self._oracle, self._rng = oracle, rng
        self._candidates: np.ndarray | None = None  # the records of the last batch
        self.solves = self.failed = 0

    @property
    def facts(self) -> dict[str, int]:
        """How many solves there were, and how many failed: for the manifest."""
        return {"solves": self.solves, "failed_solves": self.failed}

    def records(self, instance: Instance, variants: Variants) -> np.ndarray:
        """A record for each variant (int32, variants x columns)."""
        answers = self._ask(instance, variants)
        shape = instance.shape
        codes = np.zeros((len(answers), len(shape)), np.int32)
        self.solves += len(answers)
        for i, answer in enumerate(answers):
            sound = answer is not None and _is_record(answer.record, shape)
            if answer is not None and sound and answer.ended is not Ended.FAILED:
                codes[i] = answer.record
            else:
                self.failed += 1
                codes[i] = self._fallback(variants.of(instance, i), answer if sound else None)
        self._candidates = codes
        return codes

    def _ask(self, instance: Instance, variants: Variants) -> Sequence[Found | None]:
        seed = int(self._rng.integers(SEEDS))
        try:
            answers: Sequence[Found | None] = self._oracle.solve_many(instance, variants, seed)
        # a solver is somebody else's code; the budget is spent already and a release must end
        except Exception:
            return [None] * len(variants)
        return answers if len(answers) == len(variants) else [None] * len(variants)

    def _fallback(self, instance: Instance, answer: Found | None) -> np.ndarray:
        own = (
            np.empty((0, len(instance.shape)), np.int32)
            if answer is None
            else np.asarray(answer.record, np.int32)[None, :]
        )
        any_one = self._rng.integers(0, instance.shape)[None, :].astype(np.int32)
        candidates = np.concatenate(
            [own, any_one if self._candidates is None else self._candidates]
        )
        return candidates[int(np.argmax(instance.values(candidates)))]


def _is_record(record: object, shape: np.ndarray) -> bool:
    if (
        not isinstance(record, np.ndarray)
        or record.shape != shape.shape
        or record.dtype.kind not in "iu"
    ):
        return False
    return bool(np.all((record >= 0) & (record < shape)))


class Perturbation(Protocol):
    """Where the perturbations of a round come from."""

    def __call__(self, samples: int, rng: np.random.Generator) -> np.ndarray:
        """A linear term on the one-hot coordinates for each sample."""
        ...


class PerturbedLeader:
    """Follow the perturbed leader: each record is the best one against all queries so far and fresh
    noise of its own.

    Args:
        schema: the columns.
        solver: finds the records.
        perturb: the perturbation; see :func:`exponential` and :mod:`understudy.queries.separator`.
        first: the query to begin with, drawn in public.
        samples: records a round.
        window: how many rounds' records are proposed together.
        last: the share of the rounds, the last ones, whose records are released.
        rng: public randomness.
    """

    def __init__(
        self,
        schema: Schema,
        solver: Solver,
        perturb: Perturbation,
        *,
        first: Choice,
        samples: int,
        window: int,
        last: Fraction | float,
        rng: np.random.Generator,
    ) -> None:
        self._schema, self._solver, self._perturb, self._rng = schema, solver, perturb, rng
        self._samples, self._window, self._last = samples, window, last
        self._weights: dict[Query, int] = {}
        self._rounds: list[np.ndarray] = []
        self.learn([first])

    def propose(self) -> Records:
        instance = weighted(self._schema, self._weights)
        variants = Variants(linear=self._perturb(self._samples, self._rng))
        self._rounds.append(self._solver.records(instance, variants))
        return Records(self._schema, np.concatenate(self._rounds[-self._window :]))

    def learn(self, findings: Sequence[Finding]) -> None:
        add_up(self._weights, findings)

    def result(self) -> Records:
        """The average over the last rounds, one more than there were findings: the last round asks
        nothing.
        """
        self.propose()
        rounds = math.ceil(len(self._rounds) * self._last)
        return Records(self._schema, np.concatenate(self._rounds[-rounds:]))


class BestResponse:
    """One record a round, the best one against the queries of that round; what is proposed is the
    average so far.

    Columns that no query of a round names follow ``one_way``, released distributions of single
    columns, if there are any.
    """

    def __init__(
        self, schema: Schema, solver: Solver, one_way: Sequence[np.ndarray] | None = None
    ) -> None:
        self._schema = schema
        self._solver = solver
        self._one_way = one_way
        self._records = Growing(schema)

    def propose(self) -> Growing:
        return self._records

    def learn(self, findings: Sequence[Finding]) -> None:
        weights: dict[Query, int] = {}
        add_up(weights, findings)
        self._records.add(
            self._solver.records(weighted(self._schema, weights, self._one_way), Variants())
        )

    def result(self) -> Growing:
        return self._records


def add_up(weights: dict[Query, int], findings: Iterable[Finding]) -> None:
    """Add chosen queries to a sum: 1 - q differs from -q by a constant, so a negation counts as
    minus one.
    """
    for finding in findings:
        if isinstance(finding, Choice):
            query = single(finding)
            weights[query] = weights.get(query, 0) + finding.sign


def weighted(
    schema: Schema, weights: dict[Query, int], one_way: Sequence[np.ndarray] | None = None
) -> Instance:
    """The sum as an instance for an oracle; what is known of single columns, or the schema's guess,
    is for those that none names.
    """
    terms = [(query, weight) for query, weight in weights.items() if weight]
    flat = FlatQueries.of(query for query, _ in terms)
    coefficients = np.asarray([w for _, w in terms], np.float64)
    guess = None if schema.pairs is None else schema.pairs.guess
    return Instance.of(
        schema.shape, flat, coefficients, one_way=guess if one_way is None else one_way
    )


def exponential(schema: Schema, scale: float) -> Perturbation:
    """FEM's perturbation: minus an exponential of this scale on every one-hot coordinate."""
    width = sum(schema.shape)
    return lambda samples, rng: -rng.exponential(scale, (samples, width))


def laplace(schema: Schema, fake: Sequence[Query], scale: float) -> Perturbation:
    """sepFEM's perturbation: a Laplace weight on each query of a separator set, all of one literal
    and so a linear term.
    """
    starts = np.concatenate([[0], np.cumsum(schema.shape)])
    places = [int(starts[query.literals[0].column]) + query.literals[0].value for query in fake]
    # a negation is minus the literal, up to a constant
    signs = np.asarray([query.table[1] - query.table[0] for query in fake])

    def draw(samples: int, rng: np.random.Generator) -> np.ndarray:
        linear = np.zeros((samples, int(starts[-1])))
        linear[:, places] = signs * rng.laplace(0, scale, (samples, len(places)))
        return linear

    return draw


def any_query(batches: Sequence[QueryClass], rng: np.random.Generator) -> Choice:
    """A query or a negation, uniformly, by public randomness."""
    ends = np.cumsum([batch.size for batch in batches])
    at = int(rng.integers(ends[-1]))
    batch = int(np.searchsorted(ends, at, side="right"))
    return Choice(
        batches[batch], at - int(ends[batch]) + batches[batch].size, 1 if rng.integers(2) else -1
    )


def oracle_of(oracle: str | Oracle) -> Oracle:
    """An oracle by name with its usual limits, or as given."""
    if isinstance(oracle, Oracle):
        return oracle
    available = available_oracles()
    if not isinstance(oracle, str) or oracle not in available:
        raise ParameterError(
            f"There is no oracle {oracle!r}; there are {', '.join(sorted(available))}."
        )
    return available[oracle]()


def check_oracle(
    mechanism: str, oracle: str | Oracle, schema: Schema, batches: Iterable[QueryClass]
) -> None:
    """Raise, in a sentence, unless the oracle can be made and takes queries such as those of
    ``batches``. Solves one small instance.
    """
    batches = list(batches)
    if any(batch.query(0) is None for batch in batches):
        raise NotSupported(
            f"{mechanism} hands single queries to an oracle; not all classes of this workload can"
            " be taken apart so."
        )
    check_choosable(mechanism, batches)
    solver = oracle_of(oracle)
    weights: dict[Query, int] = {}
    # the last: the first of all conjunctions asks nothing
    add_up(weights, [Choice(batch, batch.size - 1) for batch in batches])
    solver.solve(weighted(schema, weights), 0)
