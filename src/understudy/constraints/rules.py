"""The rules of a schema: read, explained, and asked about rows.

A rule is public and speaks of released rows only. Nobody asks whether the sensitive table keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from understudy.errors import ParameterError, SchemaError, shown
from understudy.queries import grammar as g
from understudy.queries.outcomes import (
    FALSE,
    OPEN,
    TRUE,
    All,
    Axis,
    Image,
    Judge,
    OfCodes,
    Spans,
    bound_by,
    either,
    judge_of,
    mapped,
)
from understudy.schema import Schema
from understudy.schema.keys import meant

MOST_RULES = 1_000  # every row is asked about each of them
MOST_KEYS = 10_000_000  # combinations of the columns that determine another
BLOCK_CELLS = 1 << 22  # rows x columns of rules that are asked about at a time
KEYS = ("name", "rule", "mapping")  # of a rule that is more than a text


@dataclass(frozen=True)
class Rule:
    """A rule that each row keeps by itself.

    Attributes:
        name: as the schema calls it, or its text.
        text: as it was written.
        words: what it says, in a sentence.
        columns: those that it speaks of.
        judge: its outcomes; it is broken where it is false.
        premise: of "if ..., then ...", what comes first.
        strict: whether a row keeps it only where it is true.
    """

    name: str
    text: str
    words: str
    columns: tuple[int, ...]
    judge: Judge
    premise: Judge | None = None
    strict: bool = False

    def allows(self, spans: Spans) -> np.ndarray:
        """For which rows some of their values keep it."""
        allowed: np.ndarray = self.judge.outcomes(spans) & (TRUE if self.strict else TRUE | OPEN)
        return allowed != 0

    def is_sure(self, spans: Spans) -> np.ndarray:
        """For which rows all of their values keep it."""
        sure: np.ndarray = self.judge.outcomes(spans) & (FALSE | OPEN if self.strict else FALSE)
        return sure == 0

    def speaks_of(self, spans: Spans) -> np.ndarray:
        """The rows that it says something about: nothing that it compares is missing, and what
        comes before "then" holds.
        """
        about = self.judge.outcomes(spans) != OPEN
        return about if self.premise is None else about & (self.premise.outcomes(spans) == TRUE)


@dataclass(frozen=True)
class Tie:
    """A rule that rows keep together: those that are equal in some columns are equal in another.

    It is kept by codes: bins of the given columns determine.
    """

    name: str
    text: str
    words: str
    keys: tuple[int, ...]
    column: int
    key_values: tuple[int, ...]  # of each of these columns: how many codes are values
    values: int  # of the other, likewise

    @property
    def columns(self) -> tuple[int, ...]:
        return (*self.keys, self.column)


@dataclass(frozen=True)
class Rules:
    """All rules of a schema."""

    schema: Schema
    alone: tuple[Rule, ...]  # each row by itself
    ties: tuple[Tie, ...]
    bound: frozenset[int]  # columns of whose empty cells or OTHER some rule speaks

    def __bool__(self) -> bool:
        return bool(self.alone or self.ties)

    def __iter__(self) -> Iterator[Rule | Tie]:
        yield from self.alone
        yield from self.ties

    def __len__(self) -> int:
        return len(self.alone) + len(self.ties)

    @classmethod
    def of(cls, schema: Schema) -> Rules:
        """Those of a schema; SchemaError, in a sentence that names the rule, if one makes no sense.

        Examples:
            >>> from dataclasses import replace
            >>> schema = replace(Schema.from_domain({"a": 3, "b": 4}), rules=["a <= b"])
            >>> [rule.words for rule in Rules.of(schema)]
            ['a is at most b']
        """
        if not schema.rules:
            return cls(schema, (), (), frozenset())
        return _read(_Held(schema, schema.digest))

    @cached_property
    def axes(self) -> Mapping[int, Axis]:
        """What the codes of the columns stand for that rules speak of."""
        columns = {c for rule in self for c in rule.columns}
        return {c: Axis.of(self.schema.columns[c]) for c in sorted(columns)}

    def spans(self, codes: np.ndarray, numbers: Mapping[int, np.ndarray] | None = None) -> Spans:
        """Rows of codes as the rules see them; with the ``numbers`` of some columns, their values."""
        own = numbers or {}
        return {
            c: axis.of_values(codes[:, c], own[c]) if c in own else axis.of_codes(codes[:, c])
            for c, axis in self.axes.items()
        }

    def allows(self, codes: np.ndarray) -> np.ndarray:
        """Which rows of codes have values that keep each rule by itself."""
        found = np.ones(len(codes), np.bool_)
        block = max(1, BLOCK_CELLS // max(len(self.axes), 1))
        for start in range(0, len(codes), block):
            spans = self.spans(codes[start : start + block])
            for rule in self.alone:
                found[start : start + block] &= rule.allows(spans)
        return found

    def with_images(self, images: Sequence[Image | None]) -> Rules:
        """The same and, in the place of ties, mappings that were found for them; a tie without one
        is left out.
        """
        made = [
            Rule(tie.name, tie.text, tie.words, tuple(sorted(tie.columns)), image)
            for tie, image in zip(self.ties, images, strict=True)
            if image is not None
        ]
        return Rules(self.schema, (*self.alone, *made), (), self.bound)

    def within(self, boxes: Sequence[Mapping[int, frozenset[int]]]) -> Rules:
        """The same, and every row in one of these boxes of codes."""
        one_of = [
            All(tuple(_inside(self.schema, column, codes) for column, codes in box.items()))
            for box in boxes
            if box
        ]
        if len(one_of) < len(boxes):
            return self  # one of them holds every row
        columns = tuple(sorted({column for box in boxes for column in box}))
        text = "the condition"
        rule = Rule(text, text, text, columns, either(one_of), strict=True)
        bound = self.bound | frozenset(columns)
        return Rules(self.schema, (*self.alone, rule), self.ties, bound)

    def only(self, rules: Sequence[Rule]) -> Rules:
        return Rules(self.schema, tuple(rules), (), self.bound)

    @cached_property
    def groups(self) -> tuple[tuple[tuple[int, ...], tuple[Rule, ...]], ...]:
        """Columns that rules connect, with these rules; no two groups share a column."""
        sets: list[set[int]] = []
        for rule in self.alone:
            touching = [one for one in sets if one & set(rule.columns)]
            sets = [one for one in sets if one not in touching]
            sets.append(set(rule.columns).union(*touching))
        return tuple(
            (tuple(sorted(one)), tuple(r for r in self.alone if set(r.columns) <= one))
            for one in sets
        )


@dataclass(frozen=True)
class _Held:
    """A schema that is told from others by its digest alone, which has been worked out already."""

    schema: Schema
    digest: str

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.digest == self.digest


@lru_cache(maxsize=8)
def _read(held: _Held) -> Rules:
    schema, alone, ties, bound = held.schema, list[Rule](), list[Tie](), frozenset[int]()
    if len(schema.rules) > MOST_RULES:
        raise SchemaError(f"The schema has more than {MOST_RULES:,} rules; leave some out.")
    for number, entry in enumerate(schema.rules, 1):
        text, name, mapping = _entry(entry, number)
        try:
            phrase = g.parse(text, schema, "rule")
            if isinstance(phrase, g.Determines) and mapping is None:
                ties.append(_tie(phrase, name, text, schema))
            elif isinstance(phrase, g.Determines):
                alone.append(_mapping(phrase, name, text, mapping or {}, schema))
            elif mapping is not None:
                raise ParameterError("A mapping belongs to a rule such as 'zip determines region'.")
            else:
                alone.append(_rule(phrase, name, text, schema))
                bound |= bound_by(phrase, schema)
        except (ParameterError, SchemaError) as problem:
            raise SchemaError(f"Rule {number} of the schema, {shown(name)}: {problem}") from None
    rules = Rules(schema, tuple(alone), tuple(ties), bound)
    _check_ties(rules)
    return rules


def _entry(entry: Any, number: int) -> tuple[str, str, Mapping[str, str] | None]:
    """(text, name, mapping) of a rule as the schema has it."""
    if isinstance(entry, str):
        return entry, entry.strip(), None
    if not isinstance(entry, Mapping) or not isinstance(entry.get("rule"), str):
        raise SchemaError(
            f"Rule {number} of the schema is neither a text nor a mapping with a rule, and perhaps"
            " a name and a mapping."
        )
    unknown = next((key for key in entry if key not in KEYS), None)
    if unknown is not None:
        raise SchemaError(
            f"Rule {number} of the schema has the unknown key {shown(unknown)}"
            f"{meant(unknown, KEYS)}; known are {', '.join(KEYS)}."
        )
    name, mapping = entry.get("name", entry["rule"]), entry.get("mapping")
    if not isinstance(name, str) or not (mapping is None or isinstance(mapping, Mapping)):
        raise SchemaError(
            f"Rule {number} of the schema needs its name as a text, and its mapping as a mapping"
            " from values to values."
        )
    pairs = None if mapping is None else {str(k): str(v) for k, v in mapping.items()}
    return entry["rule"], name.strip(), pairs


def _rule(phrase: g.Phrase, name: str, text: str, schema: Schema, *, strict: bool = False) -> Rule:
    premise = judge_of(phrase.premise, schema) if isinstance(phrase, g.Implies) else None
    columns = tuple(sorted(g.columns_of(phrase)))
    words = g.in_words(phrase, schema)
    return Rule(name, text, words, columns, judge_of(phrase, schema), premise, strict)


def _inside(schema: Schema, column: int, codes: frozenset[int]) -> OfCodes:
    inside = np.isin(np.arange(schema.shape[column]), sorted(codes))
    return OfCodes(column, np.where(inside, TRUE, FALSE))


def _mapping(
    phrase: g.Determines, name: str, text: str, mapping: Mapping[str, str], schema: Schema
) -> Rule:
    if len(phrase.keys) != 1:
        raise ParameterError("A mapping goes from the values of one column; name one.")
    (key,) = phrase.keys
    judge = mapped(key, phrase.column, mapping, schema)
    words = (
        f"{schema.names[key]} determines {schema.names[phrase.column]} by a mapping of"
        f" {len(mapping):,} values"
    )
    return Rule(name, text, words, (key, phrase.column), judge)


def _tie(phrase: g.Determines, name: str, text: str, schema: Schema) -> Tie:
    cells = 1
    for column in phrase.keys:
        cells *= schema.shape[column]
    if cells > MOST_KEYS:
        raise ParameterError(
            f"The columns before 'determines' have {cells:,} combinations, more than"
            f" {MOST_KEYS:,}; name fewer."
        )
    *sizes, values = (schema.columns[c].values for c in (*phrase.keys, phrase.column))
    words = g.in_words(phrase, schema)
    return Tie(name, text, words, phrase.keys, phrase.column, tuple(sizes), values)


def _check_ties(rules: Rules) -> None:
    """A value that a tie chooses inside a bin cannot be chosen by another rule, too."""
    for tie in rules.ties:
        others = [rule for rule in rules if rule is not tie and tie.column in rule.columns]
        if others and Axis.of(rules.schema.columns[tie.column]).has_spans:
            raise SchemaError(
                f"The column {shown(rules.schema.names[tie.column])} is determined by others, has"
                f" bins of several values, and stands in the rule {shown(others[0].name)} too; give"
                " it a bin for each value, or drop one of the rules."
            )
