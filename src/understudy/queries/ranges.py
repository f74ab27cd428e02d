"""Ranges of ordered columns: how many rows lie in [low, high), in a rectangle of two, below an edge.

A column of numbers, dates or moments is cut into bins. A range runs from one edge of a bin to
another; a prefix is a range that begins at the lowest edge. Several columns make boxes: a row is in
a box when each of its columns is in the box's range. OTHER and MISSING lie in no range.

On the command line ``prefixes:age`` (at every edge), ``prefixes:age,income`` (rectangles at every
pair of edges) or ``prefixes`` (of each ordered column), and in a workload file

    queries:
      - {prefixes: age}
      - {prefixes: [age, income]}
      - {ranges: {age: [[18, 30], [30, 65]]}}
      - {ranges: {age: [[18, 65]], income: [[0, 20000], [20000, 50000]]}}     # each with each
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np

from understudy.counting.tally import DENSE_CELLS, Counts, Verbs
from understudy.errors import WorkloadError, shown
from understudy.queries.base import Asked, Boxes, Neighbours, QueryClass
from understudy.queries.literals import Literal, Query, at_least
from understudy.queries.relaxed import BLOCK_FLOATS, Chances
from understudy.queries.symmetric import Symmetric
from understudy.schema.columns import Binned
from understudy.schema.domain import Domain

Range = tuple[int, int]  # codes from the first up to, not including, the second
MOST_BOXES = 1_000_000  # all pairs of edges of two columns of 1,000 bins
MOST_APART = 200_000  # literals, when boxes are taken apart for a fit


@dataclass(frozen=True)
class Ranges(QueryClass):
    """Boxes over some columns, each a range of codes a column.

    Sensitivity. Let d be the most boxes that share a point. A row lies in at most d boxes, so
    adding it moves at most d counts, by one each: L2 squared d. Replacing it by another row moves
    the counts of boxes that hold one of the two rows and not the other: at most d for each row,
    and never more than all m boxes: min(m, 2d). Ranges that do not meet cost what a marginal costs
    (d = 1), all m prefixes of a column m, because the lowest value lies in all of them.

    Examples:
        >>> from understudy.counting.tally import CodedRows
        >>> from understudy.schema import Schema
        >>> schema = Schema.from_domain({"age": 4, "sex": 2})
        >>> batch = Ranges.prefixes(schema, ["age"])
        >>> batch.counts(CodedRows(np.array([[0, 1], [2, 0], [2, 1], [3, 0]]), (4, 2))).dense()
        array([1, 1, 3])
        >>> batch.describe(schema, 1), batch.l2_squared(Neighbours.REPLACE_ONE)
        ('age < 2', 3)
    """

    positions: tuple[int, ...]
    boxes: tuple[tuple[Range, ...], ...]

    kind: ClassVar[str] = "ranges"
    words: ClassVar[tuple[str, ...]] = ("prefixes", "ranges")

    def __post_init__(self) -> None:
        try:  # plain whole numbers, which can be written to a file
            positions = tuple(map(operator.index, self.positions))
            boxes = tuple(
                tuple((operator.index(low), operator.index(high)) for low, high in box)
                for box in self.boxes
            )
        except (TypeError, ValueError):
            raise WorkloadError("Ranges are columns and pairs of codes for each.") from None
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "boxes", boxes)
        if not boxes or not positions or list(positions) != sorted(set(positions)):
            raise WorkloadError("Ranges need at least one box, and columns in the schema's order.")
        if len(boxes) > MOST_BOXES:
            raise WorkloadError(f"A batch has at most {MOST_BOXES:,} ranges; ask for fewer.")
        if not all(
            len(box) == len(positions) and all(0 <= low < high < 2**31 for low, high in box)
            for box in boxes
        ):
            raise WorkloadError("Each range needs a low end below its high end, one a column.")

    # ------------------------------------------------------------------ making them

    @classmethod
    def prefixes(cls, schema: Domain, names: Sequence[str]) -> Ranges:
        """Below every edge of a column, or below every pair of edges of two.

        Below the last edge is everybody, and left out, unless a row may have no ordinary value.
        """
        if len(set(names)) < len(names):
            raise WorkloadError("Prefixes name a column twice.")
        return cls.boxed(schema, {name: _prefixes_of(name, schema) for name in names})

    @classmethod
    def boxed(cls, schema: Domain, ranges: Mapping[str, Sequence[Range]]) -> Ranges:
        """Every combination of the ranges of some columns."""
        places = sorted((schema.position(name), name) for name in ranges)
        count = math.prod(len(ranges[name]) for _, name in places)
        if count > MOST_BOXES:
            raise WorkloadError(
                f"These are {count:,} ranges, and a batch has at most {MOST_BOXES:,}; ask for"
                " fewer columns at a time or wider bins."
            )
        boxes = tuple(product(*(ranges[name] for _, name in places)))
        return cls(tuple(position for position, _ in places), boxes)

    @property
    def size(self) -> int:
        return len(self.boxes)

    @property
    def columns(self) -> tuple[int, ...]:
        return self.positions

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """(low, high) of each box and column: two arrays, boxes x columns."""
        ends = np.asarray(self.boxes, np.int64)
        return ends[:, :, 0], ends[:, :, 1]

    @cached_property
    def _grid(self) -> tuple[int, ...]:
        """Codes that some box reaches, and one more for all that none does, of each column."""
        return tuple(int(high) + 1 for high in self._ends[1].max(axis=0))

    # ------------------------------------------------------------------ counting

    def tally(self, block: np.ndarray) -> np.ndarray:
        """Rows are counted once a cell; a box is then a difference of sums of cells."""
        if math.prod(self._grid) > DENSE_CELLS:
            return np.rint(self.weights(block, np.ones(len(block)))).astype(np.int64)
        codes = np.minimum(block, np.asarray(self._grid) - 1)
        cells = np.ravel_multi_index(tuple(codes.T), self._grid)
        counts = np.bincount(cells, minlength=math.prod(self._grid))
        return self._added_up(counts.reshape(self._grid))

    def _added_up(self, cells: np.ndarray) -> np.ndarray:
        """What lies in each box of a table over the grid."""
        sums = np.zeros([size + 1 for size in cells.shape], cells.dtype)
        sums[tuple(slice(1, None) for _ in cells.shape)] = cells
        for axis in range(cells.ndim):
            np.cumsum(sums, axis=axis, out=sums)
        total = np.zeros(self.size, cells.dtype)
        for corner in product((0, 1), repeat=cells.ndim):
            ends = tuple(self._ends[side][:, j] for j, side in enumerate(corner))
            total += (-1) ** (cells.ndim - sum(corner)) * sums[ends]
        return total

    def counts(self, table: Verbs) -> Counts:
        return Counts(self.size, table.scan(self))

    def truth(self, block: np.ndarray) -> np.ndarray:
        low, high = self._ends
        inside = np.ones((len(block), self.size), np.bool_)
        for j in range(len(self.positions)):
            code = block[:, j, None]
            inside &= (code >= low[:, j]) & (code < high[:, j])
        return inside

    def fits(self, schema: Domain) -> bool:
        if not 0 <= self.positions[0] <= self.positions[-1] < len(schema):
            return False
        values = [schema.columns[position].values for position in self.positions]
        return bool((self._ends[1] <= np.asarray(values)).all())

    def l2_squared(self, neighbours: Neighbours) -> int:
        if neighbours is Neighbours.ADD_REMOVE_ONE:
            return self._deepest
        return min(self.size, 2 * self._deepest)

    @cached_property
    def _deepest(self) -> int:
        """The most boxes that share a point; all of them where that is not counted."""
        if math.prod(self._grid) > DENSE_CELLS:
            return self.size
        change = np.zeros(self._grid, np.int64)
        for corner in product((0, 1), repeat=len(self._grid)):
            ends = tuple(self._ends[side][:, j] for j, side in enumerate(corner))
            np.add.at(change, ends, (-1) ** sum(corner))
        for axis in range(change.ndim):
            np.cumsum(change, axis=axis, out=change)
        return int(change.max())

    # ------------------------------------------------------------------ what else they can do

    def as_boxes(self) -> Boxes:
        return Boxes(self.positions, *self._ends)

    def around(self, index: int) -> Ranges:
        return Ranges(self.positions, (self.boxes[index],))

    def query(self, index: int) -> Query:
        """At most one literal a column holds, so that as many as there are columns do in the box
        alone.
        """
        literals = (
            Literal(position, code)
            for position, (low, high) in zip(self.positions, self.boxes[index], strict=True)
            for code in range(low, high)
        )
        return at_least(len(self.positions), *literals)

    @property
    def can_be_fitted(self) -> bool:
        low, high = self._ends
        return int((high - low).sum()) <= MOST_APART

    def apart(self, about: Collection[frozenset[int]] | None = None) -> Symmetric | None:
        if not self.can_be_fitted or not (about is None or frozenset(self.positions) in about):
            return None
        return Symmetric(tuple(self.query(i) for i in range(self.size)))

    def relaxed(self) -> RelaxedRanges:
        return RelaxedRanges(self.positions, *self._ends)

    # ------------------------------------------------------------------ words and files

    def describe(self, schema: Domain, index: int) -> str:
        words = zip(self.positions, self.boxes[index], strict=True)
        return " and ".join(_in_words(schema, position, *ends) for position, ends in words)

    def to_dict(self, schema: Domain) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "columns": [schema.names[position] for position in self.positions],
            "ranges": [[code for ends in box for code in ends] for box in self.boxes],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Domain) -> Ranges:
        boxes = (tuple(zip(flat[::2], flat[1::2], strict=True)) for flat in data["ranges"])
        batch = cls(tuple(map(schema.position, data["columns"])), tuple(boxes))
        if not batch.fits(schema):
            raise WorkloadError("A range names a column or a bin that the schema does not have.")
        return batch

    @classmethod
    def texts(cls, schema: Domain) -> tuple[str, ...]:
        ordered = _ordered(schema)
        return ("prefixes", f"prefixes:{ordered[0]}") if ordered else ()

    @classmethod
    def from_text(cls, text: str, schema: Domain) -> Asked | None:
        word, colon, names = text.partition(":")
        if word != "prefixes":
            return None
        if colon:
            return Asked((cls.prefixes(schema, _names(names, schema)),), text)
        ordered = _ordered(schema)
        if not ordered:
            raise WorkloadError("No column of this table is ordered: there are no prefixes.")
        return Asked(tuple(cls.prefixes(schema, [name]) for name in ordered), text)

    @classmethod
    def from_entries(cls, entries: Sequence[Any], schema: Domain) -> list[QueryClass]:
        return [cls._from_entry(entry, schema) for entry in entries]

    @classmethod
    def _from_entry(cls, entry: Mapping[str, Any], schema: Domain) -> Ranges:
        if len(entry) != 1:
            raise WorkloadError("An entry holds prefixes or ranges, and nothing beside them.")
        ((word, body),) = entry.items()
        if word == "prefixes":
            names = [body] if isinstance(body, str) else body
            if not isinstance(names, (list, tuple)) or not names or not _are_texts(names):
                raise WorkloadError("Prefixes are of a column, or of a list of columns.")
            return cls.prefixes(schema, names)
        if not isinstance(body, Mapping) or not body or not _are_texts(body):
            raise WorkloadError("Ranges are written {column: [[low, high], ...]}.")
        return cls.boxed(
            schema, {name: _read_ranges(name, ends, schema) for name, ends in body.items()}
        )

    @classmethod
    def examples(cls, schema: Domain, rng: np.random.Generator) -> Iterator[Ranges]:
        for k in range(1, min(len(schema), 3) + 1):
            positions = tuple(sorted(rng.permutation(len(schema))[:k].tolist()))
            sizes = [schema.columns[position].values for position in positions]
            for count in (1, 6):
                cuts = [
                    [np.sort(rng.permutation(n + 1)[:2]).tolist() for n in sizes]
                    for _ in range(count)
                ]
                yield cls(positions, tuple(tuple((a, b) for a, b in box) for box in cuts))


class RelaxedRanges:
    """Boxes on relaxed rows: the chance of a box is the product of the chances of its ranges."""

    def __init__(self, positions: tuple[int, ...], low: np.ndarray, high: np.ndarray) -> None:
        self._positions, self._low, self._high = positions, low, high

    def answers(self, at: Chances) -> np.ndarray:
        total = np.zeros(len(self._low))
        for _, inside in self._pieces(at):
            total += np.prod(inside, axis=0).sum(axis=1)
        return total / at.rows

    def pull(self, at: Chances, slopes: np.ndarray, gradient: np.ndarray) -> None:
        each = (slopes / at.rows)[:, None]
        for block, inside in self._pieces(at):
            for j, position in enumerate(self._positions):
                others = np.prod(np.delete(inside, j, axis=0), axis=0) * each
                first, last = at.starts[position], at.starts[position + 1]
                # what a range adds from its low end on, it takes away from its high end on
                change = np.zeros((last - first + 1, others.shape[1]))
                np.add.at(change, self._low[:, j], others)
                np.add.at(change, self._high[:, j], -others)
                gradient[first:last, block] += np.cumsum(change, axis=0)[:-1]

    def _pieces(self, at: Chances) -> Iterator[tuple[slice, np.ndarray]]:
        """(some rows, the chance of each range: columns x boxes x these rows)."""
        step = max(1, BLOCK_FLOATS // (len(self._low) * len(self._positions)))
        for start in range(0, at.rows, step):
            block, inside = slice(start, min(start + step, at.rows)), []
            for j, position in enumerate(self._positions):
                chances = at.column(position)[:, block].astype(np.float64)
                below = np.concatenate(
                    [np.zeros((1, chances.shape[1])), np.cumsum(chances, axis=0)]
                )
                inside.append(below[self._high[:, j]] - below[self._low[:, j]])
            yield block, np.stack(inside)


def _ordered(schema: Domain) -> list[str]:
    """The columns that have prefixes."""
    if schema.pairs is not None:
        return []
    return [c.name for c in schema.columns if isinstance(c, Binned) and c.size > 1]


def _column(name: str, schema: Domain) -> Binned:
    column = schema[name]
    if not isinstance(column, Binned):
        raise WorkloadError(
            f"Column {name!r} has no order; ranges are of columns of numbers, dates or moments."
        )
    return column


def _prefixes_of(name: str, schema: Domain) -> list[Range]:
    column = _column(name, schema)
    ends = range(1, column.values + (column.size > column.values))
    if not ends:
        raise WorkloadError(f"Column {name!r} has a single bin, and nothing lies below another.")
    return [(0, end) for end in ends]


def _names(text: str, schema: Domain) -> list[str]:
    """One name, or several between commas; a name may hold a comma itself."""
    return [text] if text in schema.names else [name.strip() for name in text.split(",")]


def _read_ranges(name: str, body: Any, schema: Domain) -> list[Range]:
    column = _column(name, schema)
    if not isinstance(body, (list, tuple)) or not body:
        raise WorkloadError(f"The ranges of {name!r} are written [[low, high], ...].")
    ranges = []
    for ends in body:
        if not isinstance(ends, (list, tuple)) or len(ends) != 2:
            raise WorkloadError(f"Each range of {name!r} is written [low, high].")
        low, high = (_edge(column, end) for end in ends)
        if low >= high:
            raise WorkloadError(f"A range of {name!r} needs its low end below its high end.")
        ranges.append((low, high))
    return ranges


def _edge(column: Binned, value: Any) -> int:
    """Which edge a value is; no bin can be split."""
    edge = column.edge_at(column.position_of(value))
    if edge is None:
        code = column.code_of(value)
        near = " and ".join(column.edge_text(i) for i in (code, code + 1))
        raise WorkloadError(
            f"A range of {column.name!r} would split the bin {column.label(code)} at"
            f" {shown(value)}, and no bin can be split; its edges near that are {near}."
        )
    return edge


def _in_words(schema: Domain, position: int, low: int, high: int) -> str:
    column, name = schema.columns[position], schema.names[position]
    if not isinstance(column, Binned):
        return f"{name} from {column.label(low)} to {column.label(high - 1)}"
    below = f"{name} < {column.edge_text(high)}"
    if high == column.values and not column.whole:  # its largest value is in the last bin
        below = f"{name} <= {column.edge_text(high)}"
    return below if low == 0 else f"{column.edge_text(low)} <= {below}"


def _are_texts(values: Any) -> bool:
    return all(isinstance(text, str) for text in values)
