"""A model of rows: an even mixture of relaxed rows, in each of which the columns are independent.

It is what relaxed projections and generator networks come to: it draws rows without limit, answers
queries exactly, and can be conditioned, since a box of values cuts each relaxed row column by
column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.counting.tally import DENSE_CELLS, records_over
from understudy.errors import NotSupported, ParameterError
from understudy.game.fitting.rounding import systematic_counts
from understudy.queries.base import QueryClass
from understudy.queries.condition import Condition, allowed
from understudy.queries.marginal import Marginal
from understudy.queries.relaxed import Chances, relaxed, relaxed_form
from understudy.runtime.compiled import kernel
from understudy.schema import Schema

# its multiples spread evenly over the unit interval, however many there are
GOLDEN = (math.sqrt(5) - 1) / 2
# to answer through a class that has no relaxed form, and how many of them at a time
MOST_CELLS, BLOCK_CELLS = 1 << 22, 1 << 20
MOST_NUMBERS = 100_000_000  # of a conditioned mixture: 400 MB


class Mixture:
    """Rows whose columns are independent distributions."""

    def __init__(self, schema: Schema, chances: Chances) -> None:
        self.schema, self.chances = schema, chances

    def answers(self, batch: QueryClass) -> bool:
        """Whether it can tell the shares of a batch: it has a relaxed form, or reads few enough
        combinations of values.
        """
        return batch.size <= DENSE_CELLS and (
            relaxed_form(batch) is not None or self._combinations(batch) <= MOST_CELLS
        )

    def shares(self, batch: QueryClass) -> np.ndarray:
        if relaxed_form(batch) is None and self.answers(batch):
            return np.clip(self._through_cells(batch), 0.0, 1.0)
        return np.clip(relaxed(batch).answers(self.chances), 0.0, 1.0)

    def _through_cells(self, batch: QueryClass) -> np.ndarray:
        """Any query by the records of its columns that satisfy it, each as likely as the model has
        it.
        """
        shape = self.schema.shape
        likely = (
            relaxed(Marginal(batch.columns, tuple(shape[c] for c in batch.columns)))
            .answers(self.chances)
            .astype(np.float64)
        )
        total = np.zeros(batch.size)
        for first in range(0, len(likely), BLOCK_CELLS):
            last = min(first + BLOCK_CELLS, len(likely))
            total += batch.weights(
                records_over(batch.columns, shape, first, last), likely[first:last]
            )
        return total

    def _combinations(self, batch: QueryClass) -> int:
        return math.prod(self.schema.shape[c] for c in batch.columns)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Randomised rounding, each relaxed row drawn equally often (but for a remainder)."""
        copies = np.full(self.chances.rows, count // self.chances.rows, np.int64)
        copies[rng.permutation(self.chances.rows)[: count % self.chances.rows]] += 1
        return rounded(self.schema, self.chances, copies, rng)

    def conditional(self, condition: Condition) -> Conditioned:
        """The rows for which a condition holds: exactly, by Bayes' rule, with nothing drawn in
        vain.
        """
        cuts, weights = [], []
        if len(condition.boxes) * self.chances.values.size > MOST_NUMBERS:
            raise NotSupported(
                "This condition has too many alternatives for a model of this size; write a simpler"
                " one."
            )
        for box in condition.boxes:
            cut, weight = self.chances.values.copy(), np.ones(self.chances.rows)
            for c in box:
                span = slice(self.chances.starts[c], self.chances.starts[c + 1])
                whole = cut[span].sum(axis=0, dtype=np.float64)
                cut[span][~allowed(self.schema, box, c)] = 0
                weight *= cut[span].sum(axis=0, dtype=np.float64) / whole
            cuts.append(cut[:, weight > 0])
            weights.append(weight[weight > 0])
        if not sum(map(len, weights)):
            raise ParameterError(f"No row of this model meets the condition ({condition.words}).")
        values = np.ascontiguousarray(np.concatenate(cuts, axis=1))
        return Conditioned(
            self.schema,
            Chances(values, self.chances.starts),
            np.concatenate(weights) / self.chances.rows,
        )


@dataclass(frozen=True)
class Conditioned:
    """What is left of a mixture under a condition.

    Attributes:
        chances: the relaxed rows, cut to the condition; their columns need not sum to one.
        weights: how much of the whole mixture each of them carries.
    """

    schema: Schema
    chances: Chances
    weights: np.ndarray

    @property
    def share(self) -> float:
        """The share of all rows for which the condition holds."""
        return min(1.0, float(self.weights.sum()))

    @property
    def carriers(self) -> float:
        """How many equally heavy relaxed rows would weigh as unevenly: (sum of weights)^2 / sum of
        squares.
        """
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        order = rng.permutation(len(self.weights))
        copies = np.empty(len(order), np.int64)
        copies[order] = systematic_counts(self.weights[order], count, rng)
        return rounded(self.schema, self.chances, copies, rng)


def rounded(
    schema: Schema, chances: Chances, copies: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """So many rows of each relaxed row, in random order (int32, rows x columns).

    Within a relaxed row the copies take values at equal steps of its distribution, shuffled column
    by column, and the starts of these steps are spread evenly over the rows. Columns stay
    independent, so the expected answer of every query is kept, with less variance than independent
    draws have.
    """
    count = int(copies.sum())
    owner = np.repeat(np.arange(len(copies)), copies)
    codes = np.empty((count, len(schema)), np.int32)
    for c in range(len(schema)):
        starts = (rng.random() + GOLDEN * rng.permutation(len(copies))) % 1.0
        codes[np.argsort(owner + rng.random(count)), c] = _stepped(
            chances.column(c), copies, starts
        )
    return codes[rng.permutation(count)]


@kernel()
def _stepped(chances: np.ndarray, copies: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Values at ``starts[r], starts[r] + 1, ...`` along the cumulated chances of row r, stretched
    to its number of copies.

    A value without any chance is never taken, whatever rounding does at the ends.
    """
    taken, at = np.empty(copies.sum(), np.int32), 0
    for r in range(len(copies)):
        total, last = 0.0, 0
        for v in range(chances.shape[0]):
            total += chances[v, r]
            if chances[v, r] > 0:
                last = v
        value, edge = 0, chances[0, r] / total * copies[r]
        for i in range(copies[r]):
            while edge <= starts[r] + i and value < last:
                value += 1
                edge += chances[value, r] / total * copies[r]
            taken[at] = value
            at += 1
    return taken
