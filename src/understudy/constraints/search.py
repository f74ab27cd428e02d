"""Is there a row that keeps some rules? A search over boxes of values, halved until one is sure.

A box that no rule allows is dropped, so that an empty end is a proof. The search has a limit; what
it has not found by then is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from understudy.constraints.rules import Rule, Rules
from understudy.errors import SchemaError, shown
from understudy.queries.outcomes import Axis, Span

MOST_BOXES = 50_000  # looked at for one question: seconds
AT_ONCE = 128  # boxes that are asked about together
LEAST_WIDTH = 1e-12  # of real numbers, as a share of their size: halved no further
MOST_PAIRED = 40  # rules of which all pairs are tried for a contradiction


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes:
        codes: of the columns asked about, of a row that keeps the rules; None if there is none.
        numbers: the values of the same row, where codes have several.
        known: whether "there is none" is proved.
    """

    codes: Mapping[int, int] | None
    numbers: Mapping[int, float]
    known: bool = True


NONE = Found(None, {}, known=False)


@dataclass
class _Boxes:
    """Boxes side by side: (boxes x columns), from code to code and from number to number."""

    first: np.ndarray
    last: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def take(self, which: np.ndarray) -> _Boxes:
        return _Boxes(self.first[which], self.last[which], self.low[which], self.high[which])

    def joined(self, other: _Boxes) -> _Boxes:
        pairs = ("first", "last", "low", "high")
        return _Boxes(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in pairs))

    def __len__(self) -> int:
        return len(self.first)


class _Search:
    """Depth first, some boxes at a time."""

    def __init__(self, rules: Sequence[Rule], axes: Mapping[int, Axis], most: int) -> None:
        self._rules, self._axes, self._most = rules, axes, most
        self._columns = sorted({c for rule in rules for c in rule.columns})
        self._touch = np.asarray([[c in rule.columns for c in self._columns] for rule in rules])

    def find(self, start: Mapping[int, tuple[int, int]]) -> Found:
        """A row with each column's code in its range."""
        ends = np.asarray([start[c] for c in self._columns], np.int64)
        boxes = self._box(ends[:, 0][None, :], ends[:, 1][None, :])
        looked = 0
        while len(boxes):
            now, boxes = (
                boxes.take(np.arange(max(len(boxes) - AT_ONCE, 0), len(boxes))),
                boxes.take(np.arange(max(len(boxes) - AT_ONCE, 0))),
            )
            looked += len(now)
            spans = self._spans(now)
            allowed = np.all([rule.allows(spans) for rule in self._rules], axis=0)
            now = now.take(allowed)
            if not len(now):
                continue
            middle = self._middle(now)
            kept = np.all([rule.is_sure(self._spans(middle)) for rule in self._rules], axis=0)
            if kept.any():
                return self._found(middle.take(np.flatnonzero(kept)[:1]))
            if looked > self._most:
                return NONE
            boxes = boxes.joined(self._halves(now))
        return Found(None, {})

    def _box(self, first: np.ndarray, last: np.ndarray) -> _Boxes:
        spans = [
            self._axes[c].of_ranges(first[:, j], last[:, j]) for j, c in enumerate(self._columns)
        ]
        return _Boxes(
            first,
            last,
            np.column_stack([span.low for span in spans]),
            np.column_stack([span.high for span in spans]),
        )

    def _spans(self, boxes: _Boxes) -> dict[int, Span]:
        return {
            c: Span(boxes.first[:, j], boxes.last[:, j], boxes.low[:, j], boxes.high[:, j])
            for j, c in enumerate(self._columns)
        }

    def _middle(self, boxes: _Boxes) -> _Boxes:
        """A row in the middle of each box."""
        codes = (boxes.first + boxes.last) // 2
        rows = self._box(codes, codes)
        single = boxes.first == boxes.last
        low = np.where(single, boxes.low, rows.low)
        high = np.where(single, boxes.high, rows.high)
        middle = low + (high - low) / 2
        whole = np.asarray([self._axes[c].whole for c in self._columns])
        middle = np.where(whole, np.floor(middle), middle)
        return _Boxes(codes, codes, middle, middle)

    def _halves(self, boxes: _Boxes) -> _Boxes:
        """Both halves of each box, cut where a rule is undecided and most is open."""
        spans = self._spans(boxes)
        unsure = np.column_stack([~rule.is_sure(spans) for rule in self._rules])
        asked = (unsure.astype(np.int64) @ self._touch.astype(np.int64)) > 0
        codes = boxes.last - boxes.first
        wide = boxes.high - boxes.low
        whole = np.asarray([self._axes[c].whole for c in self._columns])
        size = np.maximum(np.abs(boxes.low), np.abs(boxes.high))
        open_ = np.where(whole, wide >= 1, wide > LEAST_WIDTH * np.maximum(size, 1e-300))
        # codes first; then the widest span, as a share of the whole axis
        reach = np.asarray(
            [
                max(float(self._axes[c].high.max() - self._axes[c].low.min()), 1e-300)
                for c in self._columns
            ]
        )
        most = np.asarray([self._axes[c].values for c in self._columns])
        weight = np.where(codes > 0, 1 + codes / most, np.where(open_, wide / reach, 0.0)) * asked
        at, rows = weight.argmax(axis=1), np.arange(len(boxes))
        going = weight[rows, at] > 0
        boxes, at = boxes.take(going), at[going]
        rows = np.arange(len(boxes))
        by_code = boxes.last[rows, at] > boxes.first[rows, at]
        below, above = self._copy(boxes), self._copy(boxes)
        middle = (boxes.first[rows, at] + boxes.last[rows, at]) // 2
        below.last[rows[by_code], at[by_code]] = middle[by_code]
        above.first[rows[by_code], at[by_code]] = middle[by_code] + 1
        cut = (boxes.low + (boxes.high - boxes.low) / 2)[rows, at]
        cut = np.where(whole[at], np.floor(cut), cut)
        after = np.where(whole[at], cut + 1, np.nextafter(cut, np.inf))
        below.high[rows[~by_code], at[~by_code]] = cut[~by_code]
        above.low[rows[~by_code], at[~by_code]] = after[~by_code]
        for half in (below, above):
            self._renumber(half, rows[by_code], at[by_code])
        both = above.joined(below)  # the lower ones are looked at first
        order = np.arange(len(both)).reshape(2, -1).T.ravel()
        return both.take(order)

    def _renumber(self, boxes: _Boxes, rows: np.ndarray, at: np.ndarray) -> None:
        """The numbers of columns whose range of codes has changed."""
        for j, c in enumerate(self._columns):
            which = rows[at == j]
            span = self._axes[c].of_ranges(boxes.first[which, j], boxes.last[which, j])
            boxes.low[which, j], boxes.high[which, j] = span.low, span.high

    @staticmethod
    def _copy(boxes: _Boxes) -> _Boxes:
        return _Boxes(boxes.first.copy(), boxes.last.copy(), boxes.low.copy(), boxes.high.copy())

    def _found(self, box: _Boxes) -> Found:
        codes = {c: int(box.first[0, j]) for j, c in enumerate(self._columns)}
        numbers = {
            c: float(box.low[0, j])
            for j, c in enumerate(self._columns)
            if codes[c] < self._axes[c].values
        }
        return Found(codes, numbers)


def find_values(
    rules: Sequence[Rule], axes: Mapping[int, Axis], codes: Mapping[int, int], most: int = 5_000
) -> Found:
    """Values inside given bins that keep the rules."""
    return _Search(rules, axes, most).find({c: (code, code) for c, code in codes.items()})


def find_row(rules: Rules, some: Sequence[Rule], most: int = MOST_BOXES) -> Found:
    """A row that keeps some rules. Its cells have values, but for columns of whose empty cells a
    rule speaks.
    """
    ranges = {
        c: (0, (rules.schema.shape[c] if c in rules.bound else axis.values) - 1)
        for c, axis in rules.axes.items()
    }
    return _Search(some, rules.axes, most).find(ranges)


def check_rules(rules: Rules) -> None:
    """Refuse rules that no row keeps, and name the smallest contradiction that is found."""
    if not rules:
        return
    for _, some in rules.groups:
        found = find_row(rules, some)
        if found.codes is not None:
            continue
        if not found.known:
            listed = ", ".join(shown(rule.text) for rule in some[:4])
            raise SchemaError(
                f"No row was found that keeps the rules {listed}{' and more' if len(some) > 4 else ''}"
                f" within {MOST_BOXES:,} steps; write them more simply, or drop one. Nothing was"
                " charged."
            )
        smallest = _contradiction(rules, some)
        texts = " and ".join(shown(rule.text) for rule in smallest)
        raise SchemaError(
            f"No row can keep the rule {texts}."
            if len(smallest) == 1
            else f"No row can keep these rules together: {texts}; change or drop one of them."
        )


def _contradiction(rules: Rules, some: Sequence[Rule]) -> Sequence[Rule]:
    """The fewest of some rules that contradict each other, one or two if there are such; else some
    of which none can be left out.
    """
    for few in _few(some):
        if _contradict(rules, few):
            return few
    kept = list(some)
    for rule in some:
        rest = [one for one in kept if one is not rule]
        if rest and _contradict(rules, rest):
            kept = rest
    return kept


def _few(some: Sequence[Rule]) -> Iterator[tuple[Rule, ...]]:
    yield from combinations(some, 1)
    if len(some) <= MOST_PAIRED:
        yield from ((a, b) for a, b in combinations(some, 2) if set(a.columns) & set(b.columns))


def _contradict(rules: Rules, some: Sequence[Rule]) -> bool:
    found = find_row(rules, some, MOST_BOXES // 10)
    return found.codes is None and found.known
