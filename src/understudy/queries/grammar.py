"""The one grammar of conditions and rules: from a text that people write to a phrase.

    age < 30 and (sex = 'F' or not married)
    diabetesMed = 'No' implies insulin = 'No'
    start <= end,  total = a + b,  end <= start + 30
    weight is missing,  weight is not missing
    zip determines region

``implies`` binds least, then or, then and, then not. A phrase is read against a schema, so that its
columns exist; what its values mean is for those who use it: whole bins in a condition
(``queries/condition.py``), single values in a rule (``queries/outcomes.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from understudy.errors import ParameterError, SchemaError, shown
from understudy.schema import Schema

MOST_TEXT = 10_000  # characters: longer than anybody writes, short enough to be read at once
DEEPEST = 50  # brackets: far from where Python's own recursion ends
# quoted texts double their quotes inside; two-letter signs come before their first letters
TOKEN = re.compile(
    r"""\s*(?: (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` )
           | (?P<sign> >= | <= | != | <> | == | = | > | < ) | (?P<mark> [(),] ) | (?P<word> [^\s'"`()<>=!,]+ ) )""",
    re.VERBOSE,
)
SIGNS = {"==": "=", "<>": "!="}  # as SQL and Python write them
AS_WORDS = {
    "=": "is",
    "!=": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
}
GLUED = re.compile(r"(?<=\S)[+-](?=\S)")
STOPS = ("and", "or", "implies")
NAME_STOPS = ("in", "not", "is", "determines")
# said with every condition that cannot be read
USAGE = (
    "Write it like \"age < 30 and sex = 'F'\", with and, or, not, in (...) and brackets; quote"
    " values that hold spaces or signs."
)


@dataclass(frozen=True)
class Compared:
    """A column beside a value that somebody wrote."""

    column: int
    sign: str
    value: str


@dataclass(frozen=True)
class Among:
    """A column whose value is one of a list."""

    column: int
    values: tuple[str, ...]


@dataclass(frozen=True)
class Flag:
    """A yes/no column by itself."""

    column: int


@dataclass(frozen=True)
class Missing:
    """A column without a value."""

    column: int


@dataclass(frozen=True)
class Beside:
    """Columns beside columns: a sum of some, less others, and a constant, beside 0."""

    terms: tuple[tuple[int, int], ...]  # (1 or -1, column), each column once
    constant: float
    sign: str


@dataclass(frozen=True)
class Determines:
    """Rows that are equal in some columns are equal in another."""

    keys: tuple[int, ...]
    column: int


@dataclass(frozen=True)
class Not:
    inner: Phrase


@dataclass(frozen=True)
class Every:
    inner: tuple[Phrase, ...]


@dataclass(frozen=True)
class Some:
    inner: tuple[Phrase, ...]


@dataclass(frozen=True)
class Implies:
    premise: Phrase
    conclusion: Phrase


Phrase = Compared | Among | Flag | Missing | Beside | Determines | Not | Every | Some | Implies


class Token(NamedTuple):
    kind: str  # word, quoted, sign or mark
    text: str
    names: bool = False  # in backquotes, which hold names


def parse(text: object, schema: Schema, what: str = "condition") -> Phrase:
    """The phrase of a text; ParameterError, in a sentence about ``what`` it is, if there is none.

    Examples:
        >>> parse("a = 1 implies b >= a", Schema.from_domain({"a": 3, "b": 4})).conclusion
        Beside(terms=((1, 1), (-1, 0)), constant=0.0, sign='>=')
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MOST_TEXT:
        raise ParameterError(f"A {what} is a text of at most {MOST_TEXT:,} characters. {USAGE}")
    return _Reader(text, schema, what).read()


def columns_of(phrase: Phrase) -> frozenset[int]:
    """The columns that a phrase speaks of."""
    match phrase:
        case Beside(terms):
            return frozenset(column for _, column in terms)
        case Determines(keys, column):
            return frozenset((*keys, column))
        case Not(inner):
            return columns_of(inner)
        case Every(inner) | Some(inner):
            return frozenset().union(*map(columns_of, inner))
        case Implies(premise, conclusion):
            return columns_of(premise) | columns_of(conclusion)
    return frozenset((phrase.column,))


def in_words(phrase: Phrase, schema: Schema) -> str:
    """A phrase as a part of a sentence."""
    names = schema.names
    match phrase:
        case Compared(column, sign, value):
            return f"{names[column]} {AS_WORDS[sign]} {value}"
        case Among(column, values):
            return f"{names[column]} is {' or '.join(values)}"
        case Flag(column):
            return f"{names[column]} is {schema.columns[column].label(1)}"
        case Missing(column):
            return f"{names[column]} is missing"
        case Beside(terms, constant, sign):
            left = [names[c] for k, c in terms if k > 0] + _number(constant)
            right = [names[c] for k, c in terms if k < 0] + _number(-constant)
            return f"{' + '.join(left) or '0'} {AS_WORDS[sign]} {' + '.join(right) or '0'}"
        case Determines(keys, column):
            listed = " and ".join(names[c] for c in keys)
            return f"rows with the same {listed} have the same {names[column]}"
        case Not(Missing(column)):
            return f"{names[column]} is not missing"
        case Not(inner):
            return f"not ({in_words(inner, schema)})"
        case Every(inner):
            return " and ".join(_inside(one, schema) for one in inner)
        case Some(inner):
            return " or ".join(_inside(one, schema) for one in inner)
        case Implies(premise, conclusion):
            return f"if {in_words(premise, schema)}, then {in_words(conclusion, schema)}"


def _inside(phrase: Phrase, schema: Schema) -> str:
    text = in_words(phrase, schema)
    return f"({text})" if isinstance(phrase, (Every, Some, Implies)) else text


def _number(constant: float) -> list[str]:
    return [f"{constant:.15g}"] if constant > 0 else []


class _Reader:
    """Reads from left to right."""

    def __init__(self, text: str, schema: Schema, what: str) -> None:
        self._schema, self._what, self._depth, self._at = schema, what, 0, 0
        self._tokens = list(_tokens(text, what))

    def read(self) -> Phrase:
        alone = self._determined()
        phrase = self._if() if alone is None else alone
        if self._at < len(self._tokens):
            self._refuse()
        return phrase

    def _determined(self) -> Phrase | None:
        """``zip determines region``, with as many before it as there are commas."""
        if not any(kind == "word" and t.lower() == "determines" for kind, t, _ in self._tokens):
            return None
        keys = [self._schema.position(_joined(self._words(NAME_STOPS)))]
        while self._take(","):
            keys.append(self._schema.position(_joined(self._words(NAME_STOPS))))
        self._expect("determines")
        column = self._schema.position(_joined(self._words()))
        if column in keys or len(set(keys)) < len(keys):
            raise ParameterError(
                f"The {self._what} names a column twice; a column is determined by others."
            )
        return Determines(tuple(keys), column)

    def _if(self) -> Phrase:
        phrase = self._chain("or", Some, lambda: self._chain("and", Every, self._single))
        if not self._take("implies"):
            return phrase
        return Implies(phrase, self._deeper(self._if))

    def _chain(
        self,
        word: str,
        kind: Callable[[tuple[Phrase, ...]], Phrase],
        inner: Callable[[], Phrase],
    ) -> Phrase:
        phrases = [inner()]
        while self._take(word):
            phrases.append(inner())
        return phrases[0] if len(phrases) == 1 else kind(tuple(phrases))

    def _single(self) -> Phrase:
        return self._deeper(self._bare)

    def _deeper(self, inner: Callable[[], Phrase]) -> Phrase:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ParameterError(
                f"The {self._what} is nested more than {DEEPEST} deep; write it with fewer"
                " brackets."
            )
        phrase = inner()
        self._depth -= 1
        return phrase

    def _bare(self) -> Phrase:
        if self._take("not"):
            return Not(self._single())
        if self._take("("):
            phrase = self._if()
            self._expect(")")
            return phrase
        return self._question()

    def _question(self) -> Phrase:
        left = self._words(NAME_STOPS)
        sign = self._sign()
        if sign is not None:
            return self._beside(left, sign, self._words())
        column = self._schema.position(_joined(left))
        if self._take("is"):
            without = self._take("not")
            self._expect("missing")
            return Not(Missing(column)) if without else Missing(column)
        without = self._next("not", "in")
        self._at += without
        if not self._take("in"):
            return Flag(column)
        self._expect("(")
        values = [_joined(self._words())]
        while self._take(","):
            values.append(_joined(self._words()))
        self._expect(")")
        return Not(Among(column, tuple(values))) if without else Among(column, tuple(values))

    def _beside(self, left: Sequence[Token], sign: str, right: Sequence[Token]) -> Phrase:
        name, value = _joined(left), _joined(right)
        self._check_spaces(name)
        alone = name in self._schema.names or not _is_sum(left)
        if alone:
            column = self._schema.position(name)
            names = len(right) == 1 and right[0].names
            if self._is_value(column, value) and not (names and value in self._schema.names):
                return Compared(column, sign, value)
            self._check_spaces(value)
            if value not in self._schema.names and not _is_sum(right):
                return Compared(column, sign, value)  # which says what values there are
        terms, constant = dict[int, int](), 0.0
        for side, factor in ((left, 1), (right, -1)):
            for of_sign, piece in self._pieces(side):
                text = _joined(piece)
                if text not in self._schema.names and (number := _as_number(text)) is not None:
                    constant += factor * of_sign * number
                    continue
                column = self._schema.position(text)
                if column in terms:
                    raise ParameterError(
                        f"The {self._what} names the column {shown(text)} twice in one comparison;"
                        " name it once."
                    )
                terms[column] = factor * of_sign
        if not terms:
            self._refuse()
        return Beside(tuple((k, c) for c, k in terms.items()), constant, sign)

    def _check_spaces(self, text: str) -> None:
        """Refuse names that a plus or minus sticks to: a name may hold one."""
        pieces, names = GLUED.split(text), self._schema.names
        if len(pieces) > 1 and text not in names and all(piece in names for piece in pieces):
            raise ParameterError(
                f"The {self._what} has {shown(text)}, and a plus or minus stands between spaces:"
                f" write {' + '.join(pieces)}."
            )

    def _is_value(self, column: int, text: str) -> bool:
        """Whether a column knows a value; then it is not the name of another column."""
        described = self._schema.columns[column]
        try:
            described.code_of(text)
        except SchemaError:
            return text in described.labels
        return True

    def _pieces(self, side: Sequence[Token]) -> Iterator[tuple[int, list[Token]]]:
        """The terms of a sum, each with its sign."""
        if _joined(side) in self._schema.names:
            yield 1, list(side)
            return
        sign, piece = 1, list[Token]()
        for i, token in enumerate(side):
            if not _is_plus(token):
                piece.append(token)
                continue
            if not piece and i:
                self._refuse()
            if piece:
                yield sign, piece
            sign, piece = -1 if token.text == "-" else 1, []
        if not piece:
            self._refuse()
        yield sign, piece

    def _words(self, stops: Sequence[str] = ()) -> list[Token]:
        """Words and quoted texts up to something else."""
        start = self._at
        while self._at < len(self._tokens) and self._tokens[self._at].kind in ("word", "quoted"):
            kind, token, _ = self._tokens[self._at]
            if kind == "word" and token.lower() in (*STOPS, *stops):
                break
            self._at += 1
        if self._at == start:
            self._refuse()
        return self._tokens[start : self._at]

    def _sign(self) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "sign":
            self._at += 1
            sign = self._tokens[self._at - 1].text
            return SIGNS.get(sign, sign)
        return None

    def _next(self, *words: str) -> bool:
        following = self._tokens[self._at : self._at + len(words)]
        return [t.text.lower() for t in following if t.kind != "quoted"] == list(words)

    def _take(self, word: str) -> bool:
        taken = self._next(word)
        self._at += taken
        return taken

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._refuse()

    def _refuse(self) -> NoReturn:
        where = (
            f"before {self._tokens[self._at].text!r}"
            if self._at < len(self._tokens)
            else "at its end"
        )
        raise ParameterError(f"The {self._what} cannot be read {where}. {USAGE}")


def _joined(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)


def _is_plus(token: Token) -> bool:
    return token.kind == "word" and token.text in ("+", "-")


def _is_sum(tokens: Sequence[Token]) -> bool:
    return any(map(_is_plus, tokens))


def _as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _tokens(text: str, what: str) -> Iterator[Token]:
    at, text = 0, text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ParameterError(f"The {what} cannot be read at {text[at : at + 20]!r}. {USAGE}")
        kind, token, at = str(match.lastgroup), str(match.group(str(match.lastgroup))), match.end()
        yield (
            Token(kind, token[1:-1].replace(token[0] * 2, token[0]), token[0] == "`")
            if kind == "quoted"
            else Token(kind, token)
        )
