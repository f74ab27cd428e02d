"""Every rule of a class at once: how much each would cost, counted exactly.

What a solver may fail at, counting cannot: how long it takes depends on the class and on the number
of points alone. So the exponential mechanism over a class that can be counted is private whatever
happens, which no solver's certificate has to be believed for.

    Lattice   all conjunctions or disjunctions of d attributes: sums over sub-cubes, one axis after the other
    Walsh     all parities: one Walsh-Hadamard transform
    Juntas    rules about at most k attributes, of any class: for each set of attributes a small table of costs, times all rules about it
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from understudy.errors import NotSupported
from understudy.privacy.learners import Counting, Points, Rule
from understudy.queries.parities import even_less_odd
from understudy.rules.base import RuleClass
from understudy.rules.conjunctions import Conjunctions, Disjunctions
from understudy.rules.halfspaces import Halfspaces
from understudy.rules.parities import Parities
from understudy.runtime.compiled import kernel

MOST_RULES = 2**24  # their costs are 128 MB of 64-bit numbers
# where nobody said how wide: a fit then takes seconds
USUAL_RULES, USUAL_PATTERN_RULES = 2**21, 60_000
MOST_PATTERN_RULES = 300_000  # to list when looking for the different functions of k attributes
MOST_PATTERN_CELLS = 2**27  # those rules times the 2^k points that each is asked about


@dataclass(frozen=True)
class Lattice:
    """Each attribute is demanded, demanded to be false (if signed), or left out: 2^d or 3^d
    conjunctions, and "never" if signed.
    """

    rules: Conjunctions | Disjunctions

    @property
    def _options(self) -> int:
        return 2 + self.rules.signed

    @property
    def _negate(self) -> bool:
        """A disjunction is no exactly where the conjunction of negations is yes."""
        return isinstance(self.rules, Disjunctions)

    @property
    def size(self) -> int:
        return self._options**self.rules.attributes + self.rules.signed

    def costs(self, points: Points) -> np.ndarray:
        d = self.rules.attributes
        bits = 1 - points.bits if self._negate else points.bits
        table = _table(bits, points.cost).reshape((2,) * d)
        for axis in range(d):
            no, yes = np.take(table, 0, axis), np.take(table, 1, axis)
            table = np.stack([no, yes, no + yes] if self.rules.signed else [yes, no + yes], axis)
        costs = table.reshape(-1)
        total = int(points.cost.sum())
        costs = total - costs if self._negate else costs
        constant = [total if self._negate else 0] if self.rules.signed else []
        return np.concatenate([costs, np.asarray(constant, np.int64)])

    def rule(self, index: int) -> Rule:
        d = self.rules.attributes
        if index == self._options**d:
            return (0, d)  # an attribute and its negation
        rule = []
        for attribute, option in enumerate(np.unravel_index(index, (self._options,) * d)):
            if int(option) < self._options - 1:  # the last is to leave it out
                rule.append(attribute + d * (self.rules.signed and int(option) == 0))
        return tuple(sorted(rule))


@dataclass(frozen=True)
class Walsh:
    """All 2^d parities, and if signed their negations after them."""

    rules: Parities

    @property
    def size(self) -> int:
        return 2**self.rules.lifted

    def costs(self, points: Points) -> np.ndarray:
        d = self.rules.attributes
        even = even_less_odd(_table(points.bits, points.cost), d)
        # Cost where even and cost where odd add up to the total.
        odd = (int(points.cost.sum()) - even) // 2
        return np.concatenate([odd, int(points.cost.sum()) - odd]) if self.rules.signed else odd

    def rule(self, index: int) -> Rule:
        d = self.rules.attributes
        even, chosen = divmod(index, 2**d)
        return (*(j for j in range(d) if chosen >> (d - 1 - j) & 1), *([d] if even else []))


@dataclass(frozen=True)
class Juntas:
    """Rules about at most so many attributes as the class is wide, each function once: by number of
    attributes, set of attributes, function.
    """

    rules: RuleClass

    @property
    def _width(self) -> int:
        return _width(self.rules)

    @cached_property
    def _patterns(self) -> list[tuple[np.ndarray, list[Rule]]]:
        return [functions(self.rules, k) for k in range(self._width + 1)]

    @cached_property
    def _starts(self) -> list[int]:
        sizes = [
            len(tables) * math.comb(self.rules.attributes, k)
            for k, (tables, _) in enumerate(self._patterns)
        ]
        return [0, *itertools.accumulate(sizes)]

    @property
    def size(self) -> int:
        return self._starts[-1]

    def costs(self, points: Points) -> np.ndarray:
        columns = np.ascontiguousarray(points.bits.T)
        costs = [np.zeros(0, np.int64)]
        for k, (tables, _) in enumerate(self._patterns):
            sets = np.asarray(
                list(itertools.combinations(range(self.rules.attributes), k)), np.int64
            ).reshape(math.comb(self.rules.attributes, k), k)
            for start in range(0, len(sets), 1024):
                cells = _cells(columns, points.cost, sets[start : start + 1024])
                costs.append((cells @ tables.T.astype(np.int64)).reshape(-1))
        return np.concatenate(costs)

    def rule(self, index: int) -> Rule:
        k = next(k for k in range(self._width + 1) if index < self._starts[k + 1])
        tables, rules = self._patterns[k]
        at, pattern = divmod(index - self._starts[k], len(tables))
        attributes = next(
            itertools.islice(itertools.combinations(range(self.rules.attributes), k), at, None)
        )
        return self.rules.renamed(rules[pattern], attributes or (0,), small_class(self.rules, k))


def small_class(rules: RuleClass, attributes: int) -> RuleClass:
    """The same class over a few attributes, at least one."""
    small = dataclasses.replace(rules, attributes=max(1, attributes), width=None)
    return (
        dataclasses.replace(small, bias=min(small.bias, small.attributes))
        if isinstance(small, Halfspaces)
        else small
    )


@lru_cache(maxsize=64)
def patterns(rules: RuleClass, k: int) -> tuple[np.ndarray, list[Rule]]:
    """(what they say on all 2^k points, one rule of each) of the different functions that depend on
    all of k attributes.
    """
    most = min(MOST_PATTERN_RULES, MOST_PATTERN_CELLS >> rules.attributes)
    if sum(1 for _ in itertools.islice(rules.rules(), most + 1)) > most:
        raise NotSupported(
            f"Rules of {rules.name} about {k} attributes are too many to list; ask for a"
            " smaller width."
        )
    d = rules.attributes
    points = np.asarray(list(itertools.product((0, 1), repeat=d)), np.uint8)
    lifted, seen = rules.lift(points), dict[bytes, Rule]()
    for rule in rules.rules():
        seen.setdefault(rules.values(rule, lifted).tobytes(), rule)
    tables = np.frombuffer(b"".join(seen), np.bool_).reshape(-1, *(2,) * d)
    matter = [
        np.any(np.take(tables, 0, 1 + a) != np.take(tables, 1, 1 + a), axis=tuple(range(1, d)))
        for a in range(d)
    ]
    dependent = np.flatnonzero(np.sum(matter, axis=0) == k)
    examples = list(seen.values())
    return tables[dependent].reshape(len(dependent), -1)[:, : 2**k], [
        examples[i] for i in dependent
    ]


@lru_cache(maxsize=256)
def functions(rules: RuleClass, k: int) -> tuple[np.ndarray, list[Rule]]:
    """Those patterns that a rule of the class can say: a conjunction of one literal is never
    "never", which takes two.
    """
    small = small_class(rules, k)
    tables, examples = patterns(small, k)
    members = [
        i
        for i, rule in enumerate(examples)
        if rules.contains(rules.renamed(rule, range(small.attributes), small))
    ]
    return tables[members], [examples[i] for i in members]


def size_of(rules: RuleClass) -> int:
    """How many rules of a class there are to count; raises NotSupported if even that takes too long
    to say.
    """
    if rules.width is None and isinstance(rules, (Conjunctions, Disjunctions)):
        return (2 + rules.signed) ** rules.attributes + rules.signed
    if rules.width is None and isinstance(rules, Parities):
        return 2**rules.lifted
    return sum(
        len(functions(rules, k)[0]) * math.comb(rules.attributes, k)
        for k in range(_width(rules) + 1)
    )


def _width(rules: RuleClass) -> int:
    return rules.attributes if rules.width is None else min(rules.width, rules.attributes)


@lru_cache(maxsize=256)
def widest(rules: RuleClass) -> int | None:
    """The largest width at which counting takes seconds; None where no width is needed. A function
    of the class alone, so public.
    """
    free = dataclasses.replace(rules, width=None)
    if isinstance(free, (Conjunctions, Disjunctions, Parities)) and size_of(free) <= USUAL_RULES:
        return None
    best = 1
    for width in range(2, rules.attributes + 1):
        listed = sum(
            1 for _ in itertools.islice(small_class(rules, width).rules(), USUAL_PATTERN_RULES + 1)
        )
        if (
            listed > USUAL_PATTERN_RULES
            or size_of(dataclasses.replace(rules, width=width)) > USUAL_RULES
        ):
            break
        best = width
    return best


def counting_of(rules: RuleClass) -> Counting:
    """All rules of a class; raises, in a sentence, when they are too many."""
    size = size_of(rules)
    if size > MOST_RULES:
        raise NotSupported(
            f"There are {size:,} {rules.name} of {rules.attributes} attributes, and at"
            f" most {MOST_RULES:,} can be counted; give a smaller width, or fewer attributes, or"
            " leave out negations."
        )
    if rules.width is None and isinstance(rules, (Conjunctions, Disjunctions)):
        return Lattice(rules)
    if rules.width is None and isinstance(rules, Parities):
        return Walsh(rules)
    return Juntas(rules)


def _table(bits: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The cost in each of the 2^d cells, the first attribute changing slowest."""
    d = bits.shape[1]
    cells = bits.astype(np.int64) @ (1 << np.arange(d - 1, -1, -1, dtype=np.int64))
    table = np.zeros(2**d, np.int64)
    np.add.at(table, cells, cost)
    return table


@kernel()
def _cells(columns: np.ndarray, cost: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """For each set of k attributes, the cost in each of its 2^k cells (columns: attributes x
    points).
    """
    count, k = sets.shape
    totals = np.zeros((count, 1 << k), np.int64)
    for s in range(count):
        for i in range(len(cost)):
            cell = 0
            for j in range(k):
                cell = 2 * cell + columns[sets[s, j], i]
            totals[s, cell] += cost[i]
    return totals
