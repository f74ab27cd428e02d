"""New rows from a release: from its model where it has one, else more rows like those released.

All of it is arithmetic on what is public, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import pyarrow as pa

from understudy.errors import ParameterError
from understudy.game.fitting.mixture import Mixture
from understudy.game.fitting.rowfit import TableTarget, count_binned
from understudy.game.players.rows import HEAT, MOST_COLUMNS, Fitted, RowModel, repeated
from understudy.queries.base import Grid
from understudy.queries.condition import Condition
from understudy.runtime.watching import NoWatcher
from understudy.schema import Schema

MOST_DRAWN = 2**28  # rows x columns of one sample: a gigabyte
# What released rows are known to is the certificate's bound; so much less is lost unnoticed, and
# rows may move by it
UNNOTICED = 0.1
SWEEPS = 2  # from copies of released rows to rows of their own
SPARE = 1.2  # times as many rows as a condition should need, so that one draw mostly is enough
TRIES = 5
MOST_CELLS = 20_000_000  # of all tables that new rows are held to
MOST_PAIRED = 100  # columns: each cell of each row looks at all its pairs


@dataclass(frozen=True)
class Sample:
    """New rows of a release.

    Attributes:
        table: the rows, in the user's own types (an Arrow table).
        codes: the same as codes.
        means: what the condition came to, in the schema's own values; "any row" without one.
        share: the share of the model's rows for which it holds, or of the released rows where there
            is no model. Of rows drawn without the condition, this share would be kept.
        carriers: how many carry it: relaxed rows of the model (an effective number), or released
            rows. Few of them know little about it.
        kind: what the rows are: drawn from a ``model``, ``fitted`` to the released rows' tables, or
            ``copies`` of released rows.
        doubtful: why the certificate says nothing of the condition: no marginal of the workload
            holds all its columns, or it is rarer than answers may be off. None otherwise; and even
            then the certificate bounds shares of all rows. A share among these few may be off by
            about alpha / ``share`` if a marginal holds the columns of both, and by anything if none
            does.
    """

    table: pa.Table
    codes: np.ndarray
    means: str
    share: float
    carriers: float
    kind: str
    doubtful: str | None

    def __repr__(self) -> str:
        whose = "model's" if self.kind == "model" else "released"
        return (
            f"<Sample of {len(self.codes):,} rows: {self.means}; holds for {self.share:.3%} of the"
            f" {whose} rows>"
        )


@dataclass(frozen=True)
class Drawn:
    """Codes of new rows, and what :class:`Sample` says of them."""

    codes: np.ndarray
    means: str
    share: float
    carriers: float
    kind: str


def from_model(
    model: Mixture,
    condition: Condition | None,
    count: Callable[[float], int],
    rng: np.random.Generator,
) -> Drawn:
    """Rows of a model. ``count`` says how many, given the share for which the condition holds."""
    if condition is None:
        codes = model.rows(count(1.0), rng)
        return Drawn(codes, "any row", 1.0, float(model.chances.rows), "model")
    some = model.conditional(condition)
    codes = some.rows(count(some.share), rng)
    return Drawn(codes, condition.words, some.share, some.carriers, "model")


def from_rows(
    like: Rows, condition: Condition | None, count: Callable[[float], int], rng: np.random.Generator
) -> Drawn:
    """Rows like those released. Of those for which a condition holds, as many as asked for are
    picked out of more.
    """
    if condition is None:
        codes = like.draw(count(1.0), rng)
        return Drawn(codes, "any row", 1.0, float(len(like.codes)), like.kind)
    carriers = like.codes[condition.holds(like.codes)]
    if not len(carriers):
        raise ParameterError("No released row is like that, so nothing is known of such rows.")
    share = len(carriers) / len(like.codes)
    wanted, most = count(share), MOST_DRAWN // like.codes.shape[1]
    if wanted > most * share:
        raise ParameterError(
            f"The condition holds for {100 * share:.2g}% of the released rows; at most"
            f" {int(most * share):,} rows can be picked out at once."
        )
    picked = carriers[:0]
    for _ in range(TRIES):
        if len(picked) < wanted:
            codes = like.draw(max(1, int(SPARE * (wanted - len(picked)) / share)), rng)
            picked = np.concatenate([picked, codes[condition.holds(codes)]])
    if len(picked) < wanted:  # one row in a million may not come back in any draw
        picked = np.concatenate([picked, repeated(carriers, wanted - len(picked), rng)])
    return Drawn(picked[:wanted], condition.words, share, float(len(carriers)), like.kind)


@dataclass(frozen=True)
class Rows:
    """Released rows as something to draw from.

    New rows begin as copies and are moved, while the tables that were asked about or measured stay
    as the released rows have them, and pairs of columns besides. Where there are too many tables
    for that, the copies stay what they are.

    Attributes:
        codes: the released rows.
        tables: of the workload and of what was measured.
        alpha: the certificate's bound.
    """

    schema: Schema
    codes: np.ndarray
    tables: tuple[Grid, ...]
    alpha: float

    @property
    def kind(self) -> str:
        return "fitted" if self._kept else "copies"

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        if not self._kept:
            return rng.permutation(repeated(self.codes, count, rng))
        return self._model.rows(count, rng)

    @cached_property
    def _kept(self) -> tuple[Grid, ...]:
        """The tables that new rows are held to; none if they would be too many."""
        shape, columns = self.schema.shape, range(len(self.schema))
        pairs = (
            [Grid((a, b), (shape[a], shape[b]), (None, None)) for a, b in combinations(columns, 2)]
            if len(columns) <= MOST_PAIRED
            else []
        )
        room, kept = MOST_CELLS, dict[Grid, None]()
        for number, grid in enumerate([*self.tables, *pairs]):
            cells = math.prod(grid.shape)
            if grid in kept:
                continue
            if cells <= room:
                room, kept[grid] = room - cells, None
            elif number < len(self.tables):
                return ()
        return tuple(kept) if len(columns) <= MOST_COLUMNS else ()

    @cached_property
    def _model(self) -> RowModel:
        """What is known of the released rows is what the certificate says. They may move by a part
        of that.
        """
        n, codes = len(self.codes), self.codes.astype(np.int32)
        targets = []
        for grid in self._kept:
            counts = count_binned(codes, grid.positions, grid.shape, grid.bins)
            bins = tuple(None if one is None else np.asarray(one) for one in grid.bins)
            exact, weights = counts.astype(np.float32), np.ones(len(counts), np.float32)
            targets.append(TableTarget(grid.positions, grid.shape, exact, weights, bins=bins))
        priors = [
            np.bincount(codes[:, c], minlength=k) / n for c, k in enumerate(self.schema.shape)
        ]
        heat = HEAT * max(1.0, UNNOTICED * self.alpha * n)
        fitted = Fitted(float(n), tuple(targets), heat, tuple(priors), SWEEPS)
        return RowModel(self.schema, codes, fitted, NoWatcher())
