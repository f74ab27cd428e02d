"""What learning starts from: a task and a class that fit each other, and the private rows as points
with labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.counting.tally import Counts
from understudy.errors import NotSupported
from understudy.privacy.learners import LearningTask, Points, Rules
from understudy.privacy.looking import guarded
from understudy.privacy.requests import Read, check_task
from understudy.privacy.trusted import let_in
from understudy.privacy.verbs.base import Public, read
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal


@dataclass(frozen=True, eq=False)
class Labelled:
    """Private rows: the different points and how many rows of either label each has."""

    bits: np.ndarray = field(repr=False)
    no: np.ndarray = field(repr=False)
    yes: np.ndarray = field(repr=False)

    def points(self, costs: tuple[int, int], weight: int = 1) -> Points:
        """What saying yes costs at each point, up to what all rules pay alike."""
        return Points(self.bits, weight * (costs[0] * self.no - costs[1] * self.yes))


def together(private: Points, public: Points) -> Points:
    """Both, one after the other; points may occur twice."""
    return Points(
        np.concatenate([private.bits, public.bits]), np.concatenate([private.cost, public.cost])
    )


def labelled(task: LearningTask, counts: Counts, shape: tuple[int, ...]) -> Labelled:
    """Counted cells of the task's columns as points."""
    cells = np.flatnonzero(counts.values) if counts.keys is None else counts.keys
    numbers = (counts.values[cells] if counts.keys is None else counts.values).astype(np.int64)
    codes = (
        np.stack(np.unravel_index(cells, shape), axis=1)
        if len(cells)
        else np.zeros((0, len(shape)), np.int64)
    )
    bits = task.bits(codes, task.columns)
    yes = task.labels(codes, task.columns)
    packed = np.packbits(bits, axis=1)
    _, first, where = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    by_label = np.zeros((2, len(first)), np.int64)
    np.add.at(by_label, (yes.astype(int), where.reshape(-1)), numbers)
    return Labelled(bits[first], by_label[0], by_label[1])


@dataclass(frozen=True)
class Learning:
    """A task and a class that may be handed exact values, and the table that they are about."""

    task: LearningTask
    rules: Rules
    table: Marginal

    @property
    def reads(self) -> tuple[Read, ...]:
        return read([self.table])

    def labelled(self, exact: Sequence[Counts]) -> Labelled:
        return guarded(lambda: labelled(self.task, exact[0], self.table.shape))


def learning(task: LearningTask, rules: Rules, public: Public) -> Learning:
    """Checked, and copied; raises, in a sentence, what cannot be learnt."""
    if public.neighbours is not Neighbours.REPLACE_ONE:
        raise NotSupported("Learning is proved private for replace-one neighbours only.")
    task, rules = let_in(task, public.trusts), let_in(rules, public.trusts)
    check_task(task, rules, public.shape)
    shape = tuple(public.shape[c] for c in task.columns)
    return Learning(task, rules, Marginal(task.columns, shape))
