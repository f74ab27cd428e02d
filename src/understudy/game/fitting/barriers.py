"""Rules as walls of the row fit: what no row may be costs more than anything that was measured.

A rule over few columns is one more table. Its cells without a row that keeps the rule have a huge
cost that counts never change, so that a value which breaks the rule has no chance. Over more
columns, values are taken together that the rule treats alike. What is too large even then is left
to the repair at the end.

Where a rule leaves a value no freedom alone, its columns move together: a row takes over what
another row has in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.constraints.repair import images_of, repaired
from understudy.constraints.rules import Rule, Rules, Tie
from understudy.game.fitting.evidence import Pooled
from understudy.game.fitting.rowfit import TableTarget
from understudy.queries.base import Grid
from understudy.queries.outcomes import Axis, Image, Judge, leaves
from understudy.schema import Schema

MOST_CELLS = 1 << 20  # of a rule's table: 4 MB for each of its columns
WHOLE_CELLS = 1 << 14  # up to so many cells values are not taken together, which costs time
# in people: more than any table has, and so few digits above the others' that these still count
WALL = np.float32(1e12)
FREE = 0.5  # a rule that leaves more of its cells does not hold single values fast
MOST_TOGETHER = 40  # columns that move together


class Keeper:
    """What a row fit needs to keep the rules of a schema: walls, columns that move together, and
    rows to begin with. Without rules all of it is empty.
    """

    def __init__(self, schema: Schema) -> None:
        self._rules = self._now = Rules.of(schema)
        self._barriers = Barriers.of(self._rules)
        self._images: list[Image | None] = [None] * len(self._rules.ties)

    @property
    def targets(self) -> tuple[TableTarget, ...]:
        return self._barriers.targets

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        return self._barriers.together

    def learn(self, tables: Mapping[Grid, Pooled]) -> None:
        """Take the mapping of each tie from noisy tables that have its columns."""
        if self._rules.ties:
            self._images = [_image(tie, tables) for tie in self._rules.ties]
            self._now = self._rules.with_images(self._images)
            self._barriers = Barriers.of(self._now)

    def settled(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows that keep ties as well of which no table has the columns, by what most rows have; so
        the last fit has a wall for each.
        """
        if None in self._images:
            most = images_of(self._rules, rows)
            pairs = zip(self._images, most, strict=True)
            self._images = [own if image is None else image for image, own in pairs]
            self._now = self._rules.with_images(self._images)
            self._barriers = Barriers.of(self._now)
        return self.mended(rows, rng)

    def mended(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows that keep the rules as far as codes can; the same, if they do."""
        return repaired(self._now.only(self._now.alone), rows, rng).codes


def _image(tie: Tie, tables: Mapping[Grid, Pooled]) -> Image | None:
    """The largest noisy count for each value of the given columns; None if no table has them."""
    wanted = set(tie.columns)
    having = [g for g in tables if g.is_whole and wanted <= set(g.positions)]
    if not having:
        return None
    grid = min(having, key=lambda g: (len(g.positions), g.positions))
    counts = tables[grid].counts.reshape(grid.shape)
    gone = tuple(i for i, c in enumerate(grid.positions) if c not in wanted)
    left = [c for c in grid.positions if c in wanted]
    counts = counts.sum(axis=gone).transpose([left.index(c) for c in tie.columns])
    *shape, _ = counts.shape
    image = counts[..., : tie.values].argmax(axis=-1)
    for axis, values in enumerate(tie.key_values):
        beyond = np.arange(shape[axis]) >= values
        image[
            np.moveaxis(np.broadcast_to(beyond, np.moveaxis(image, axis, -1).shape), -1, axis)
        ] = -1
    return Image(tie.keys, tuple(shape), tie.column, image.ravel(), tie.values)


@dataclass(frozen=True)
class Barriers:
    """The walls, and which columns move together."""

    targets: tuple[TableTarget, ...]
    together: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rules: Rules) -> Barriers:
        """Those of rules that each row keeps by itself."""
        by_columns: dict[tuple[int, ...], list[Rule]] = {}
        for rule in rules.alone:
            by_columns.setdefault(rule.columns, []).append(rule)
        targets, together = list[TableTarget](), dict[tuple[int, ...], None]()
        for columns, some in by_columns.items():
            target = _wall(columns, some, rules)
            if target is None:
                continue
            targets.append(target)
            assert target.wall is not None
            if len(columns) > 1 and (target.wall == 0).mean() <= FREE:
                together[columns] = None
        for columns, connected in rules.groups:
            if len(connected) > 1 and 1 < len(columns) <= MOST_TOGETHER:
                together[columns] = None
        return cls(tuple(targets), tuple(together))


def _wall(columns: Sequence[int], some: Sequence[Rule], rules: Rules) -> TableTarget | None:
    """The table of rules over the same columns; None if it would be too large."""
    sizes = [rules.schema.shape[c] for c in columns]
    bins: list[np.ndarray | None] = [None] * len(columns)
    first = [np.arange(size) for size in sizes]
    if math.prod(sizes) > WHOLE_CELLS:
        judges = [rule.judge for rule in some]
        for j, c in enumerate(columns):
            alike = _alike(c, judges, rules.axes)
            if alike is not None and alike.max() + 1 < sizes[j]:
                bins[j] = alike
                first[j] = np.unique(alike, return_index=True)[1]
    shape = tuple(len(one) for one in first)
    if math.prod(shape) > MOST_CELLS:
        return None
    cells = np.column_stack([codes.ravel() for codes in np.meshgrid(*first, indexing="ij")]).astype(
        np.int64
    )
    spans = {c: rules.axes[c].of_codes(cells[:, j]) for j, c in enumerate(columns)}
    broken = np.sum([~rule.allows(spans) for rule in some], axis=0)
    none = np.zeros(len(cells), np.float32)
    binned = tuple(bins) if any(one is not None for one in bins) else ()
    return TableTarget(tuple(columns), shape, none, none, bins=binned, wall=broken * WALL)


def _alike(column: int, judges: Sequence[Judge], axes: Mapping[int, Axis]) -> np.ndarray | None:
    """The class of every code of a column: those that rules treat alike. None if some comparison
    with other columns tells all of them apart.
    """
    every = np.arange(len(axes[column].low))
    outcomes = []
    for leaf, columns in (pair for judge in judges for pair in leaves(judge)):
        if column not in columns:
            continue
        if len(columns) > 1:
            return None
        outcomes.append(leaf.outcomes({column: axes[column].of_codes(every)}))
    classes: np.ndarray = np.unique(np.column_stack(outcomes), axis=0, return_inverse=True)[1]
    return classes.ravel()
