"""Marginals in coarse bins: a cell of many people stands out of noise, and rows keep every code."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS, LARGEST_TABLE, Counts, Verbs, cells_in_bins
from understudy.errors import WorkloadError
from understudy.queries.base import Grid, Neighbours, QueryClass
from understudy.queries.marginal import Marginal
from understudy.schema.domain import Domain

MOST_RUNS = 4  # of codes, that the words for a bin name
Bins = tuple[int, ...] | None  # of one column: the bin of every code; None for no bins


@dataclass(frozen=True)
class BinnedMarginal(QueryClass):
    """The contingency table of some columns, each in bins of its codes.

    Every code has one bin, so a row sits in exactly one cell, as in a marginal. Replacing a row
    moves at most two cells by one each (L2 squared 2); adding one moves one (L2 squared 1).

    Attributes:
        positions: the columns, in the order of the table's axes.
        sizes: how many codes each of them has.
        bins: of each the bin of every code, from 0 without a gap; None for each code by itself.

    Examples:
        >>> from understudy.counting.tally import CodedRows
        >>> batch = BinnedMarginal((0, 1), (5, 2), ((0, 0, 0, 1, 1), None))
        >>> batch.counts(CodedRows(np.array([[0, 1], [2, 1], [3, 0], [4, 0]]), (5, 2))).dense()
        array([0, 2, 2, 0])
    """

    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    bins: tuple[Bins, ...]

    kind: ClassVar[str] = "binned"

    def __post_init__(self) -> None:
        try:  # plain whole numbers: NumPy's would wrap in a product
            positions = tuple(map(operator.index, self.positions))
            sizes = tuple(map(operator.index, self.sizes))
            bins = tuple(
                None if one is None else tuple(map(operator.index, one)) for one in self.bins
            )
        except TypeError:
            raise WorkloadError("Columns, sizes and bins are whole numbers.") from None
        if not positions or not len(set(positions)) == len(positions) == len(sizes) == len(bins):
            raise WorkloadError("A binned marginal has columns, each once, with a size and bins.")
        if min(positions) < 0 or min(sizes) < 1 or not all(map(_are_sound, bins, sizes)):
            raise WorkloadError("Every code has a bin; bins are numbered from 0 without a gap.")
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "sizes", sizes)
        # bins of one code each, in order, are no bins: equal tables are equal
        bins = tuple(None if one == tuple(range(len(one or ()))) else one for one in bins)
        object.__setattr__(self, "bins", bins)
        if self.size > DENSE_CELLS or math.prod(sizes) > LARGEST_TABLE:
            raise WorkloadError("Too many cells to hold; use fewer columns or wider bins.")

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        pairs = zip(self.sizes, self.bins, strict=True)
        return tuple(size if bins is None else max(bins) + 1 for size, bins in pairs)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted(self.positions))

    def counts(self, table: Verbs) -> Counts:
        return self.added_up(table.count([self.positions])[0])

    def added_up(self, whole: Counts) -> Counts:
        """The counts of the whole marginal of these columns, added up bin by bin."""
        if whole.keys is not None:
            codes = np.column_stack(np.unravel_index(whole.keys, self.sizes))
            total = np.zeros(self.size, np.int64)
            cells = cells_in_bins(codes, range(codes.shape[1]), self.shape, self.bins)
            np.add.at(total, cells, whole.values)
            return Counts(self.size, total)
        counts = whole.values.reshape(self.sizes)
        for axis, bins in enumerate(self.bins):
            if bins is not None:
                along = np.moveaxis(counts, axis, 0)
                sums = np.zeros((max(bins) + 1, *along.shape[1:]), np.int64)
                np.add.at(sums, np.asarray(bins), along)
                counts = np.moveaxis(sums, 0, axis)
        return Counts(self.size, counts.reshape(-1))

    def truth(self, block: np.ndarray) -> np.ndarray:
        at = [self.columns.index(p) for p in self.positions]
        return np.arange(self.size) == cells_in_bins(block, at, self.shape, self.bins)[:, None]

    def around(self, index: int) -> BinnedMarginal:
        return self  # all cells cost twice one cell at most

    def fits(self, schema: Domain) -> bool:
        return self.is_over(schema.shape)

    def is_over(self, shape: Sequence[int]) -> bool:
        """Whether it is written for columns of so many codes."""
        return self.sizes == tuple(shape[p] for p in self.positions if p < len(shape))

    def l2_squared(self, neighbours: Neighbours) -> int:
        return 1 if neighbours is Neighbours.ADD_REMOVE_ONE else 2

    def as_table(self) -> Marginal | None:
        return Marginal(self.positions, self.sizes) if self.as_grid().is_whole else None

    def as_grid(self) -> Grid:
        return Grid(self.positions, self.shape, self.bins)

    def describe(self, schema: Domain, index: int) -> str:
        at = zip(np.unravel_index(index, self.shape), self.bins, strict=True)
        codes = [np.flatnonzero(np.equal(bins or range(one + 1), one)).tolist() for one, bins in at]
        return " and ".join(map(partial(_in_words, schema), self.positions, codes))

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        names = [schema.names[p] for p in self.positions]
        return {"kind": self.kind, "columns": names, "bins": list(map(_written, self.bins))}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> BinnedMarginal:
        positions = tuple(map(schema.position, data["columns"]))
        sizes = tuple(schema.shape[p] for p in positions)
        bins = tuple(_read(one, size) for one, size in zip(data["bins"], sizes, strict=True))
        return cls(positions, sizes, bins)

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[BinnedMarginal]:
        for k in range(1, min(len(schema), 3) + 1):
            positions = tuple(rng.permutation(len(schema))[:k].tolist())
            sizes = tuple(schema.shape[p] for p in positions)
            runs = tuple(_of_firsts(sorted({0, size // 2}), size) for size in sizes)
            yield cls(positions, sizes, runs)
            apart = tuple(code % max(1, sizes[0] - 1) for code in range(sizes[0]))
            yield cls(positions, sizes, (apart, *runs[1:]))


def _are_sound(bins: Bins, size: int) -> bool:
    return bins is None or (len(bins) == size and min(bins) == 0 and max(bins) < len(set(bins)))


def _of_firsts(firsts: Sequence[int], size: int) -> tuple[int, ...]:
    """The bin of every code, if each bin begins at one of some rising codes."""
    return tuple((np.searchsorted(firsts, np.arange(size), side="right") - 1).tolist())


def _written(bins: Bins) -> list[int] | dict[str, list[int]] | None:
    """The first code of each bin, if bins are runs of codes in order; else the bin of every code."""
    if bins is None:
        return None
    in_order = list(bins) == sorted(bins)
    return [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist()] if in_order else {"of": list(bins)}


def _read(written: Any, size: int) -> Bins:
    """The inverse of :func:`_written`."""
    if written is None or isinstance(written, dict):
        return None if written is None else tuple(written["of"])
    firsts = list(map(operator.index, written))
    if firsts[:1] != [0] or firsts != sorted(set(firsts)) or firsts[-1] >= size:
        raise WorkloadError("The first codes of bins rise from 0, and are codes of the column.")
    return _of_firsts(firsts, size)


def _in_words(schema: Domain, position: int, codes: Sequence[int]) -> str:
    """OTHER and MISSING are no neighbours of a column's values."""
    column, name = schema.columns[position], schema.names[position]
    if len(codes) == 1:
        return f"{name} = {column.label(codes[0])}"
    runs: list[tuple[int, ...]] = []  # (first code, last code), or one code alone
    for code in codes:
        near = runs and code == runs[-1][-1] + 1 and code < column.values
        runs.append((runs.pop()[0], code) if near else (code,))
    words = ["..".join(map(column.label, run)) for run in runs[:MOST_RUNS]]
    more = f" and {len(runs) - MOST_RUNS:,} more" if len(runs) > MOST_RUNS else ""
    return f"{name} in {', '.join(words)}{more}"
