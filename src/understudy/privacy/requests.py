"""What the meter's verbs are asked for, checked before anything is charged: public values in, a
sentence out if they make no sense.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from understudy.counting.tally import DENSE_CELLS, LARGEST_TABLE, Counts
from understudy.errors import NotSupported, ParameterError
from understudy.privacy.accounting.budget import MOST_EPSILON
from understudy.privacy.learners import LARGEST_SUM, Certifier, LearningTask, Points, Rules
from understudy.privacy.trusted import let_in
from understudy.queries.base import QueryClass
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal

LEAST_EPSILON = Fraction(1, 10**6)  # of an optimum: below it, noise is all there is
LARGEST_PRODUCT = 2**61  # of two numbers of rows: twice it fits 64 bits


@dataclass(frozen=True)
class Choice:
    """A query that a private selection pointed at; ``sign`` is -1 when its negation was meant."""

    batch: QueryClass
    index: int
    sign: int = 1


class Read(NamedTuple):
    """A batch to be counted, and how many counts it was priced for."""

    batch: QueryClass
    size: int


def check_sizes(batches: Sequence[QueryClass]) -> None:
    for batch in batches:
        if batch.size > DENSE_CELLS:
            raise NotSupported(
                f"{name_of(batch)} has {batch.size:,} cells; at most {DENSE_CELLS:,} can be handled"
                " whole. Use fewer columns or wider bins."
            )


def check_measurable(batches: Sequence[QueryClass], sparse: bool) -> None:
    check_sizes([batch for batch in batches if not isinstance(batch, Marginal)])
    for batch in batches:
        if batch.size > LARGEST_TABLE:
            raise NotSupported(
                f"{name_of(batch)} has {batch.size:,} cells, more than can be numbered; use fewer"
                " columns or wider bins."
            )
        if sparse and not isinstance(batch, Marginal):
            raise ParameterError(
                "Only marginals can be released above a threshold; measure other queries by"
                " themselves."
            )


def checked_shares(
    batches: Sequence[QueryClass], answers: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """A model's answers, copied: somebody may go on writing to them."""
    wrong = "Each batch of queries needs one answer per query."
    try:
        shares = tuple(np.array(share, np.float64) for share in answers)
    except (TypeError, ValueError):
        raise ParameterError(wrong) from None
    if (
        not batches
        or len(batches) != len(shares)
        or any(share.shape != (batch.size,) for batch, share in zip(batches, shares, strict=True))
    ):
        raise ParameterError(wrong)
    return shares


def check_distinct(draws: int, candidates: int, distinct: bool) -> None:
    if distinct and draws > candidates:
        raise ParameterError(
            f"There are {candidates:,} candidates; {draws:,} of them cannot be drawn without"
            " drawing one twice."
        )


def as_shares(weights: Sequence[int | Fraction] | None, count: int) -> list[Fraction]:
    """Weights as exact shares of one."""
    numbers = [Fraction(1)] * count if weights is None else [exact_number(w) for w in weights]
    if len(numbers) != count or not all(w is not None and w > 0 for w in numbers):
        raise ParameterError("Weights are whole numbers or Fractions above 0, one for each batch.")
    exact = [w for w in numbers if w is not None]
    total = sum(exact)
    return [w / total for w in exact]


def checked_answers(
    reads: Sequence[Read], counts: Sequence[Counts], answer_rows: object, rows: int
) -> tuple[tuple[Counts, ...], int]:
    """Counts among some rows that answer each query once, in a form that the kernels compare
    without wrapping; and the number of those rows.
    """
    among = whole(answer_rows, 1)
    # The numbers of cells are copied: two sparse tables are walked along them, side by side.
    answers = tuple(
        Counts(
            whole(one.cells, 0) or 0,
            np.asarray(one.values).view(),  # of a length and type that nobody else sets
            None if one.keys is None else np.array(one.keys),
        )
        for one in counts
    )
    if not reads or among is None or [r.size for r in reads] != [one.cells for one in answers]:
        raise ParameterError(
            "These answers need the rows that they were counted in, and one answer per query."
        )
    if rows * among >= LARGEST_PRODUCT:
        raise ParameterError(
            f"Answers among {among:,} rows cannot be compared with {rows:,} rows; use fewer."
        )
    if not all(is_table(answer) for answer in answers):
        raise ParameterError(
            "Answers are 32- or 64-bit whole numbers: one a cell, or one for each of some cells"
            " whose numbers rise."
        )
    return answers, among


def is_table(counts: Counts) -> bool:
    values, keys = counts.values, counts.keys
    if values.ndim != 1 or values.dtype not in (np.int32, np.int64):
        return False
    if keys is None:
        return len(values) == counts.cells
    rising = (
        keys.ndim == 1
        and keys.dtype == np.int64
        and len(keys) == len(values)
        and bool(np.all(keys[1:] > keys[:-1]))
    )
    return rising and (not len(keys) or bool(keys[0] >= 0 and keys[-1] < counts.cells))


def exact_number(value: object) -> Fraction | None:
    """A whole number or a Fraction, in plain whole numbers; None for anything else.

    NumPy's whole numbers inside a Fraction would wrap, and a number of somebody's own kind might
    not say the same thing twice.
    """
    if not isinstance(value, (int, Fraction)) or isinstance(value, bool):
        return None
    return Fraction(int(value.numerator), int(value.denominator))


def exact_rho(rho: object) -> Fraction:
    """What a verb may cost, exactly: a float would be rounded somewhere, and NaN is not at most 0."""
    exact = exact_number(rho)
    if exact is None or exact <= 0:
        raise ParameterError(
            "rho must be a whole number or a Fraction above 0; turn a float into a Fraction first,"
            " as in Fraction('0.1')."
        )
    return exact


def checked_epsilon(epsilon: object) -> Fraction:
    exact = exact_number(epsilon)
    if exact is None or not LEAST_EPSILON <= exact <= MOST_EPSILON:
        raise ParameterError(
            "epsilon must be an exact number (a Fraction, not a float) from"
            f" {float(LEAST_EPSILON):g} to {MOST_EPSILON}, each part of it."
        )
    return exact


def checked_certifier(certifier: Certifier, rules: Rules, also: tuple[type, ...]) -> Certifier:
    by = let_in(certifier, also)
    by.check(rules)
    return by


def check_task(task: LearningTask, rules: Rules, shape: Sequence[int]) -> None:
    """That a class fits its task, and that the task's columns can be counted together."""
    if rules.attributes != len(task.attributes):
        raise ParameterError(
            "Learning needs a Task, and a class of rules over as many attributes as the task has."
        )
    if math.prod(shape[c] for c in task.columns) > LARGEST_TABLE:
        raise NotSupported(
            f"The {len(task.columns)} columns of the attributes and the label have more than 2^62"
            " possible combinations, too many to number; name fewer attributes, or use wider bins."
        )


def check_sums(rows: int, task: LearningTask, weight: int) -> None:
    """That the cost of all rows is far below what a solver's arithmetic carries."""
    if rows * weight * max(task.costs) > LARGEST_SUM // 4:
        raise ParameterError(f"With {rows:,} rows and these costs, weight must be smaller.")


def checked_points(points: Points | None, rules: Rules) -> Points:
    """Public points, copied."""
    if points is None:
        return Points(np.zeros((0, rules.attributes), np.uint8), np.zeros(0, np.int64))
    bits, cost = np.array(points.bits), np.array(points.cost)
    shaped = bits.shape == (*cost.shape, rules.attributes) and cost.ndim == 1
    typed = bits.dtype.kind in "biu" and cost.dtype == np.int64
    sound = shaped and typed and bool(np.isin(bits, (0, 1)).all())
    if not sound or sum(abs(each) for each in cost.tolist()) > LARGEST_SUM // 4:
        raise ParameterError(
            "Public points are rows of 0 and 1, one for each attribute, with 64-bit whole costs"
            " that are not huge."
        )
    return Points(bits, cost)


def whole(value: object, least: int) -> int | None:
    """A whole number of at least so much, read once; None for anything else."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return None
    exact = int(value)
    return exact if exact >= least else None


def whole_numbers(values: Sequence[int] | None, count: int, least: int, name: str) -> list[int]:
    numbers = [least] * count if values is None else [whole(value, least) for value in values]
    exact = [value for value in numbers if value is not None]
    if len(numbers) != count or len(exact) != count:
        raise ParameterError(
            f"{name} are whole numbers of at least {least}, one for each candidate."
        )
    return exact


def choices_of(reads: Sequence[Read], candidates: np.ndarray) -> list[Choice]:
    """Candidates by number: all queries in order, and then all negations."""
    offsets = np.cumsum([0, *(size for _, size in reads)])
    negated, within = np.divmod(candidates, offsets[-1])
    at = np.searchsorted(offsets, within, side="right") - 1
    triples = zip(at.tolist(), (within - offsets[at]).tolist(), negated.tolist(), strict=True)
    return [Choice(reads[i].batch, index, -1 if negation else 1) for i, index, negation in triples]


class Slot(NamedTuple):
    """A drawn query: its batch, its place there, and whether the last record satisfies it."""

    batch: int
    place: int
    sign: int
    hit: bool


def slots_of(
    reads: Sequence[Read], choices: Sequence[Choice], satisfied: Sequence[bool]
) -> list[Slot]:
    """Where each drawn query is; raises unless each is of these batches and has a yes or no."""
    # Read once: a sequence of the caller's own kind might not say the same thing twice.
    choices, satisfied = tuple(choices), tuple(satisfied)
    where = {batch: i for i, (batch, _) in enumerate(reads)}
    if (
        not choices
        or len(choices) != len(satisfied)
        or any(hit not in (False, True) for hit in satisfied)
    ):
        raise ParameterError(
            "Keeping drawn queries needs at least one, and for each whether the last record"
            " satisfies it."
        )
    slots = []
    for choice, hit in zip(choices, satisfied, strict=True):
        at = where.get(choice.batch) if isinstance(choice, Choice) else None
        index = whole(choice.index, 0) if at is not None else None
        sound = at is not None and index is not None and choice.sign in (1, -1)
        if not sound or at is None or index is None or index >= reads[at].size:
            raise ParameterError("Only queries of these batches, or their negations, can be kept.")
        slots.append(Slot(at, index, 1 if choice.sign > 0 else -1, bool(hit)))
    return slots


def name_of(batch: QueryClass) -> str:
    if isinstance(batch, BinnedMarginal):
        return f"marginal of columns {list(batch.positions)} in {list(batch.shape)} bins"
    if isinstance(batch, Marginal):
        return (
            f"marginal of columns {list(batch.positions)}"
            if batch.positions
            else "the number of rows"
        )
    return f"{batch.size:,} {batch.kind} queries"
