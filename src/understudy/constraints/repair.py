"""Repair of coded rows: each is changed in as few columns as can be, to values that other rows
have, until every rule can be kept.

Rows, not the table, are looked at: all of it is arithmetic on released values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.constraints.rules import BLOCK_CELLS, Rule, Rules, Tie
from understudy.constraints.search import find_row
from understudy.errors import NotSupported
from understudy.queries.outcomes import Image

STEPS = 12  # of changing one column at a time for fewer broken rules, before rows are copied
DONORS = 2_000  # rows of which the nearest is copied: enough to find a near one
MOST_CANDIDATES = 200  # values of a column that are tried, the most common first
ESCAPE = 1e-9  # weight of an empty cell, which keeps most rules and says nothing
ROUNDS = 4  # of ties and repair in turn, before rows are copied


@dataclass(frozen=True)
class Repaired:
    """Rows that keep the rules as far as codes can, and the mappings that ties came to."""

    codes: np.ndarray
    rules: Rules  # with these mappings in the place of ties


def repaired(rules: Rules, codes: np.ndarray, rng: np.random.Generator) -> Repaired:
    """The rows, with as few changes as are found; the same array if none is needed.

    Examples:
        >>> from dataclasses import replace
        >>> from understudy.schema import Schema
        >>> rules = Rules.of(replace(Schema.from_domain({"a": 3, "b": 3}), rules=["a <= b"]))
        >>> codes = np.asarray([[0, 1], [2, 2], [2, 1]], np.int32)
        >>> repaired(rules, codes, np.random.default_rng(0)).codes[:2].tolist()
        [[0, 1], [2, 2]]
    """
    if not rules:
        return Repaired(codes, rules)
    for _ in range(ROUNDS):
        codes = _mended(rules.with_images(images_of(rules, codes)), codes, rng)
        now = rules.with_images(images_of(rules, codes))
        if now.allows(codes).all():
            return Repaired(codes, now)
    codes = _copies(rules, now, codes, rng)
    return Repaired(codes, rules.with_images(images_of(rules, codes)))


def tied_as(rules: Rules, codes: np.ndarray) -> Rules:
    """The same, and the mappings that ties came to in some rows are rules themselves."""
    return Rules(
        rules.schema, rules.with_images(images_of(rules, codes)).alone, rules.ties, rules.bound
    )


def images_of(rules: Rules, codes: np.ndarray) -> list[Image]:
    """The mapping of each tie that most rows have."""
    return [_image(rules, tie, codes) for tie in rules.ties]


def _copies(rules: Rules, whole: Rules, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows that nothing mended become copies of rows that keep every rule, in all columns of rules;
    of the one that was found before anything was charged, if none does.
    """
    codes, good = codes.copy(), whole.allows(codes)
    if good.any():
        bad, columns = np.flatnonzero(~good), np.asarray(list(rules.axes))
        copied = rng.choice(np.flatnonzero(good), len(bad))
        codes[bad[:, None], columns] = codes[copied[:, None], columns]
        return codes
    for tie in rules.ties:
        codes[:, tie.columns] = 0
    for _, some in rules.groups:
        found = find_row(rules, some)
        if found.codes is None:
            raise NotSupported(
                "No row was found that keeps the rules of the schema beside what was asked for."
            )
        for column, code in found.codes.items():
            codes[:, column] = code
    return codes


# ---------------------------------------------------------------------- ties


def _cells(rules: Rules, tie: Tie, codes: np.ndarray) -> np.ndarray:
    shape = [rules.schema.shape[c] for c in tie.keys]
    return np.ravel_multi_index([codes[:, c] for c in tie.keys], shape)


def _speaking(rules: Rules, tie: Tie, codes: np.ndarray) -> np.ndarray:
    """Rows that a tie says something about: all its columns have values."""
    values = zip(tie.columns, (*tie.key_values, tie.values), strict=True)
    return np.all([codes[:, c] < v for c, v in values], axis=0)


def _image(rules: Rules, tie: Tie, codes: np.ndarray) -> Image:
    """The value that most rows have, of those that keep the other rules: of all, if none does.

    Where no value stands out, the shares of the values decide, so that these stay what they are:
    the commonest keys choose first, and a value is the less wanted the more of it is taken.
    """
    shape = tuple(rules.schema.shape[c] for c in tie.keys)
    image = np.full(int(np.prod(shape)), -1, np.int64)
    speaking = _speaking(rules, tie, codes)
    size = rules.schema.shape[tie.column]
    pairs = _cells(rules, tie, codes) * size + codes[:, tie.column]
    left = np.bincount(codes[speaking, tie.column], minlength=size).astype(np.float64)
    good = speaking & rules.allows(codes)
    # keys that some good row has are decided among good rows
    others = speaking & ~np.isin(pairs // size, pairs[good] // size)
    unique, counts = np.unique(pairs[good | others], return_counts=True)
    keys, values = unique // size, unique % size
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    totals = np.add.reduceat(counts, starts) if len(starts) else counts
    ends = np.append(starts[1:], len(keys))
    for i in np.argsort(-totals, kind="stable").tolist():
        some = slice(starts[i], ends[i])
        room = np.minimum(left[values[some]], totals[i])
        value = values[some][(counts[some] + np.maximum(room, 0)).argmax()]
        left[value] -= totals[i]
        image[keys[starts[i]]] = value
    return Image(tie.keys, shape, tie.column, image, tie.values)


# ---------------------------------------------------------------------- rules of single rows


def _mended(rules: Rules, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows with changes where some rule cannot be kept."""
    bad = np.flatnonzero(~rules.allows(codes))
    if not len(bad):
        return codes
    codes = codes.copy()
    for columns, some in rules.groups:
        mender = _Mender(rules, columns, some, codes, rng)
        start = max(1, BLOCK_CELLS // (MOST_CANDIDATES * len(columns)))
        for at in range(0, len(bad), start):
            rows = bad[at : at + start]
            codes[rows[:, None], np.asarray(columns)] = mender.mended(codes[rows])[:, columns]
    return codes


class _Mender:
    """Rows of one group of columns, and the rules that connect these."""

    def __init__(
        self,
        rules: Rules,
        columns: tuple[int, ...],
        some: Sequence[Rule],
        codes: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self._rules, self._columns, self._some, self._rng = rules, columns, some, rng
        self._of = {c: [rule for rule in some if c in rule.columns] for c in columns}
        self._touch = np.asarray([[c in rule.columns for c in columns] for rule in some])
        self._shares = {c: self._share(codes, c) for c in columns}
        self._codes = codes

    def _share(self, codes: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
        """(codes, how many rows have each) of a column, the most common ones."""
        counts = np.bincount(codes[:, column], minlength=self._rules.schema.shape[column])
        some = np.argsort(-counts, kind="stable")[:MOST_CANDIDATES]
        some = some[counts[some] > 0]
        has_value = some < self._rules.schema.columns[column].values
        return some, np.where(has_value, 1.0, ESCAPE) * counts[some]

    def mended(self, rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        for step in range(STEPS):
            broken = self._broken(rows)
            bad = np.flatnonzero(broken.any(axis=1))
            if not len(bad):
                return rows
            rows[bad] = self._better(rows[bad], broken[bad], alone=step == 0)
        bad = np.flatnonzero(self._broken(rows).any(axis=1))
        if len(bad) and len(self._donors):
            rows[bad[:, None], np.asarray(self._columns)] = self._copied(rows[bad])
        return rows

    def _broken(self, rows: np.ndarray) -> np.ndarray:
        spans = self._rules.spans(rows)
        return np.column_stack([~rule.allows(spans) for rule in self._some])

    def _better(self, rows: np.ndarray, broken: np.ndarray, *, alone: bool) -> np.ndarray:
        """Each row with one column changed: so that nothing is broken, if one change can do that;
        otherwise so that as little is broken as one change of a broken rule can do.
        """
        rows, n = rows.copy(), np.arange(len(rows))
        # a change that mends a row is of a column that stands in every rule that is broken
        common = (broken.astype(np.int64) @ self._touch) == broken.sum(axis=1)[:, None]
        some = common if alone else (broken.astype(np.int64) @ self._touch) > 0
        best, weight = np.full(len(rows), np.iinfo(np.int64).max), np.zeros(len(rows))
        column, value = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
        for j, c in enumerate(self._columns):
            at = np.flatnonzero(some[:, j])
            if not len(at):
                continue
            left, weights, codes = self._tried(rows[at], broken[at], c)
            fewest = left.min(axis=1)
            weights = np.where(left == fewest[:, None], weights, 0.0)
            total = weights.sum(axis=1)
            drawn = (weights.cumsum(axis=1) <= (self._rng.random(len(at)) * total)[:, None]).sum(1)
            drawn = np.minimum(drawn, len(codes) - 1)
            better = fewest < best[at]
            equal = (fewest == best[at]) & (
                self._rng.random(len(at)) * (weight[at] + total) < total
            )
            weight[at] = np.where(
                better, total, weight[at] + np.where(fewest == best[at], total, 0)
            )
            best[at] = np.minimum(fewest, best[at])
            taken = at[better | equal]
            column[taken], value[taken] = c, codes[drawn[better | equal]]
        changed = column >= 0
        if alone:  # a first change that leaves something broken is chosen among all, not these
            changed &= best == 0
        rows[n[changed], column[changed]] = value[changed]
        return rows

    def _tried(
        self, rows: np.ndarray, broken: np.ndarray, column: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rules left broken, weight) of each row with each value of a column, and the values."""
        codes, counts = self._shares[column]
        n, m = len(rows), len(codes)
        spans = {
            c: axis.of_codes(np.tile(codes, n) if c == column else np.repeat(rows[:, c], m))
            for c, axis in self._rules.axes.items()
            if any(c in rule.columns for rule in self._of[column])
        }
        own = np.asarray([column in rule.columns for rule in self._some])
        left = np.repeat(broken[:, ~own].sum(axis=1), m)
        for rule in self._of[column]:
            left = left + ~rule.allows(spans)
        described = self._rules.schema.columns[column]
        weights = np.broadcast_to(counts, (n, m))
        if described.ordered:  # near values before far ones
            weights = weights / (1.0 + np.abs(codes[None, :] - rows[:, column][:, None]))
        return left.reshape(n, m), weights, codes

    def _copied(self, rows: np.ndarray) -> np.ndarray:
        """The group's columns of the nearest row that keeps the rules."""
        columns = list(self._columns)
        good = self._donors
        found = np.empty((len(rows), len(columns)), rows.dtype)
        block = max(1, BLOCK_CELLS // max(good.size, 1))
        for at in range(0, len(rows), block):
            some = rows[at : at + block][:, columns]
            far = (some[:, None, :] != good[None, :, :]).sum(axis=2)
            near = (far + self._rng.random(far.shape) / 2).argmin(axis=1)
            found[at : at + block] = good[near]
        return found

    @cached_property
    def _donors(self) -> np.ndarray:
        """Different rows that keep the rules, as they came; the one that a search finds, if none
        does; none where the mappings of ties leave none.
        """
        columns = list(self._columns)
        some = self._rng.permutation(len(self._codes))[: 20 * DONORS]
        rows = self._codes[some]
        good = np.unique(rows[~self._broken(rows).any(axis=1)][:, columns], axis=0)
        if len(good):
            return good[self._rng.permutation(len(good))[:DONORS]]
        found = find_row(self._rules, self._some)
        one = [] if found.codes is None else [[found.codes[c] for c in columns]]
        return np.asarray(one, self._codes.dtype)
