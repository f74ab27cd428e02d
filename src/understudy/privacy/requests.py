"""What the meter's verbs are asked for, checked before anything is charged: public values in, a
sentence out if they make no sense.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.counting.tally import DENSE_CELLS, LARGEST_TABLE, Counts
from understudy.errors import NotSupported, ParameterError
from understudy.privacy.accounting.budget import MOST_EPSILON
from understudy.privacy.argmin import LEAST_EPSILON
from understudy.queries.base import QueryClass
from understudy.queries.marginal import Marginal
from understudy.rules.base import Points, RuleClass
from understudy.rules.certifiers import LARGEST_SUM, Certifier, certifier_of
from understudy.rules.task import Task

LARGEST_PRODUCT = 2**61  # of two numbers of rows: twice it fits 64 bits


@dataclass(frozen=True)
class Choice:
    """A query that a private selection pointed at; ``sign`` is -1 when its negation was meant."""

    part: QueryClass
    index: int
    sign: int = 1


def check_sizes(parts: Sequence[QueryClass]) -> None:
    for part in parts:
        if part.size > DENSE_CELLS:
            raise NotSupported(
                f"{name_of(part)} has {part.size:,} cells; at most {DENSE_CELLS:,} can be handled"
                " whole. Use fewer columns or wider bins."
            )


def check_measurable(parts: Sequence[QueryClass], sparse: bool) -> None:
    check_sizes([part for part in parts if not isinstance(part, Marginal)])
    for part in parts:
        if part.size > LARGEST_TABLE:
            raise NotSupported(
                f"{name_of(part)} has {part.size:,} cells, more than can be numbered; use fewer"
                " columns or wider bins."
            )
        if sparse and not isinstance(part, Marginal):
            raise ParameterError(
                "Only marginals can be released above a threshold; measure other queries by"
                " themselves."
            )


def check_shares(parts: Sequence[QueryClass], shares: Sequence[np.ndarray]) -> None:
    if (
        not parts
        or len(parts) != len(shares)
        or any(share.shape != (part.size,) for part, share in zip(parts, shares, strict=True))
    ):
        raise ParameterError("Each batch of queries needs one answer per query.")


def check_distinct(draws: int, candidates: int, distinct: bool) -> None:
    if distinct and draws > candidates:
        raise ParameterError(
            f"There are {candidates:,} candidates; {draws:,} of them cannot be drawn without"
            " drawing one twice."
        )


def as_shares(weights: Sequence[int | Fraction] | None, count: int) -> list[Fraction]:
    """Weights as exact shares of one."""
    given = [1] * count if weights is None else list(weights)
    if len(given) != count or not all(
        isinstance(w, (int, Fraction)) and not isinstance(w, bool) and w > 0 for w in given
    ):
        raise ParameterError("Weights are whole numbers or Fractions above 0, one for each batch.")
    return [Fraction(w) / sum(given) for w in given]


def check_answers(
    parts: Sequence[QueryClass], answers: Sequence[Counts], answer_rows: int, rows: int
) -> None:
    """That counts among some rows answer each query once, in a form that the kernels compare
    without wrapping.
    """
    if (
        not parts
        or not is_whole(answer_rows, 1)
        or [part.size for part in parts] != [answer.cells for answer in answers]
    ):
        raise ParameterError(
            "These answers need the rows that they were counted in, and one answer per query."
        )
    if rows * int(answer_rows) >= LARGEST_PRODUCT:
        raise ParameterError(
            f"Answers among {answer_rows:,} rows cannot be compared with {rows:,} rows; use fewer."
        )
    if not all(is_table(answer) for answer in answers):
        raise ParameterError(
            "Answers are 32- or 64-bit whole numbers: one a cell, or one for each of some cells"
            " whose numbers rise."
        )


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


def exact_rho(rho: object) -> Fraction:
    """What a verb may cost, exactly: a float would be rounded somewhere, and NaN is not at most 0."""
    if not isinstance(rho, (int, Fraction)) or isinstance(rho, bool) or rho <= 0:
        raise ParameterError(
            "rho must be a whole number or a Fraction above 0; turn a float into a Fraction first,"
            " as in Fraction('0.1')."
        )
    return Fraction(rho)


def checked_epsilon(epsilon: object) -> Fraction:
    if (
        not isinstance(epsilon, (int, Fraction))
        or isinstance(epsilon, bool)
        or not LEAST_EPSILON <= epsilon <= MOST_EPSILON
    ):
        raise ParameterError(
            "epsilon must be an exact number (a Fraction, not a float) from"
            f" {float(LEAST_EPSILON):g} to {MOST_EPSILON}, each part of it."
        )
    return Fraction(epsilon)


def checked_certifier(given: str | Certifier, of: RuleClass) -> Certifier:
    by = certifier_of(given, of)
    by.check(of)
    return by


def check_task(task: Task, of: RuleClass, shape: Sequence[int]) -> None:
    """That a class fits its task, and that the task's columns can be counted together."""
    if (
        not isinstance(task, Task)
        or not isinstance(of, RuleClass)
        or of.attributes != len(task.attributes)
    ):
        raise ParameterError(
            "Learning needs a Task, and a class of rules over as many attributes as the task has."
        )
    if math.prod(shape[c] for c in task.columns) > LARGEST_TABLE:
        raise NotSupported(
            f"The {len(task.columns)} columns of the attributes and the label have more than 2^62"
            " possible combinations, too many to number; name fewer attributes, or use wider bins."
        )


def check_sums(rows: int, task: Task, weight: int) -> None:
    """That what all rows cost together is far from what a solver's arithmetic carries, whatever the
    rows are.
    """
    if rows * weight * max(task.costs) > LARGEST_SUM // 4:
        raise ParameterError(f"With {rows:,} rows and these costs, weight must be smaller.")


def checked_points(given: Points | None, of: RuleClass) -> Points:
    if given is None:
        return Points(np.zeros((0, of.attributes), np.uint8), np.zeros(0, np.int64))
    shaped = given.bits.shape == (*given.cost.shape, of.attributes) and given.cost.ndim == 1
    whole = shaped and given.cost.dtype == np.int64 and bool(np.isin(given.bits, (0, 1)).all())
    if not whole or sum(abs(cost) for cost in given.cost.tolist()) > LARGEST_SUM // 4:
        raise ParameterError(
            "Public points are rows of 0 and 1, one for each attribute, with 64-bit whole costs"
            " that are not huge."
        )
    return given


def is_whole(value: object, least: int) -> bool:
    return (
        isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least
    )


def whole_numbers(values: Sequence[int] | None, count: int, least: int, name: str) -> list[int]:
    given = [least] * count if values is None else list(values)
    if len(given) != count or not all(is_whole(value, least) for value in given):
        raise ParameterError(
            f"{name} are whole numbers of at least {least}, one for each candidate."
        )
    return [int(value) for value in given]


def choices_of(parts: Sequence[QueryClass], candidates: np.ndarray) -> list[Choice]:
    """Candidates by number: all queries in order, and then all negations."""
    offsets = np.cumsum([0, *(part.size for part in parts)])
    negated, within = np.divmod(candidates, offsets[-1])
    at = np.searchsorted(offsets, within, side="right") - 1
    triples = zip(at.tolist(), (within - offsets[at]).tolist(), negated.tolist(), strict=True)
    return [Choice(parts[i], index, -1 if negation else 1) for i, index, negation in triples]


def places_of(
    parts: Sequence[QueryClass], drawn: Sequence[Choice], satisfied: Sequence[bool]
) -> list[tuple[int, int]]:
    """Where each drawn query is; raises unless they are queries of these parts, each with a yes or
    no.
    """
    where = {part: i for i, part in enumerate(parts)}
    if (
        not drawn
        or len(drawn) != len(satisfied)
        or any(hit not in (False, True) for hit in satisfied)
    ):
        raise ParameterError(
            "Keeping drawn queries needs at least one, and for each whether the last record"
            " satisfies it."
        )
    places = []
    for choice in drawn:
        sound = (
            isinstance(choice, Choice)
            and choice.part in where
            and choice.sign in (1, -1)
            and is_whole(choice.index, 0)
        )
        if not sound or choice.index >= choice.part.size:
            raise ParameterError("Only queries of these batches, or their negations, can be kept.")
        places.append((where[choice.part], int(choice.index)))
    return places


def name_of(part: QueryClass) -> str:
    if isinstance(part, Marginal):
        return (
            f"marginal of columns {list(part.positions)}"
            if part.positions
            else "the number of rows"
        )
    return f"{part.size:,} {part.kind} queries"
