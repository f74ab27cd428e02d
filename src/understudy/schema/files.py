"""YAML and JSON files of plain mappings, read strictly: no code is changed, and whatever is wrong
is said with its line.

PyYAML parses, and nothing more: what a scalar means is decided here, by the place where it stands.
A category is the characters written; anything else is what YAML 1.1 and 1.2 both read. A key given
twice is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from understudy.errors import InputError, SchemaError, WorkloadError, shown
from understudy.runtime.paths import as_path
from understudy.schema.places import Place, Places, in_schema, in_workload
from understudy.schema.scalars import is_moment, is_text, read_plain

MOST_REPEATED = 1_000_000  # large enough for any schema; a bomb has billions
MOST_NESTED = 50  # no schema needs a tenth; Python's own stack ends at 1,000
ERRORS: dict[str, type[InputError]] = {"schema": SchemaError, "workload": WorkloadError}
BEGINNING = {  # what a message tells whoever wrote no mapping
    "schema": " and begin with fields: and a list of columns",
    "workload": " and begin with marginals: or queries:",
}
PLACES: dict[str, Callable[[Mapping[str, bool]], Places]] = {
    "schema": in_schema,
    "workload": in_workload,
}

TEXT_TAG = "tag:yaml.org,2002:str"  # YAML's, written out by its parser
PLAIN_TAG = "plain"  # of a scalar without quotes, which may be a number
TAGS = (None, TEXT_TAG, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
COUNTED = re.compile(r"-?[1-9][0-9]{0,17}|0")  # a whole number in its one spelling
OLD_BREAKS = re.compile("[\x85\u2028\u2029]")  # end a line in YAML 1.1 and not in 1.2
# What PyYAML says, and what to do about it.
ADVICE = (
    (r"character '\\t'", "there is a tab where only spaces may stand; indent with spaces"),
    (
        r"character '(.)' that cannot start",
        "a text cannot begin with {0} unless it is in quotes; put it in quotes",
    ),
    (
        r"mapping values are not allowed",
        (
            "there is a colon where none may stand; check the indentation, or put a text that holds"
            " ': ' in quotes"
        ),
    ),
    (r"could not find expected ':'", "a key has no colon after it; write key: value"),
    (
        r"expected ',' or '(.)', but got ':'",
        (
            "there is a colon where a comma or {0} belongs; close the bracket before it, or put a"
            " text that holds ': ' in quotes"
        ),
    ),
    (
        r"expected ',' or '(.)'",
        "a bracket that was opened is not closed; check for a missing comma or {0}",
    ),
    (
        r"expected <block end>",
        "this line does not go with those above it; check its indentation and quotes",
    ),
    (r"expected the node content", "a value is missing before this; check the commas and brackets"),
    (
        r"entries are not allowed here",
        (
            "there is a dash where no list may begin; put the list on a line of its own, or the"
            " text in quotes"
        ),
    ),
    (
        r"unexpected (end of stream|document separator)",
        "a quote that was opened is not closed; close it",
    ),
    (
        r"unknown escape character",
        (
            "there is a backslash in double quotes that escapes nothing; double it, or use single"
            " quotes"
        ),
    ),
    (
        r"undefined alias",
        "an alias names an anchor that does not stand before it; write out what it means",
    ),
    (r"second occurrence", "an anchor is given twice; name the second one otherwise"),
    (r"found another document", "a second document begins; keep one in a file"),
)
OTHERWISE = "this is no YAML; check brackets, quotes and indentation"


class Unreadable(ValueError):
    """What is wrong with a file, and where; ``unclear`` when it can be read in two ways."""

    def __init__(
        self,
        words: str,
        line: int | None = None,
        column: int | None = None,
        *,
        unclear: bool = False,
    ) -> None:
        super().__init__(words)
        self.words, self.unclear = words, unclear
        self.where = f" at line {line}, column {column}" if line is not None else ""


def _stop(words: str, mark: yaml.Mark, *, unclear: bool = False) -> NoReturn:
    raise Unreadable(words, mark.line + 1, mark.column + 1, unclear=unclear) from None


# ---------------------------------------------------------------------- YAML


class _Loader(yaml.BaseLoader):
    """PyYAML's parser up to the tree of nodes, which remember where they stood and whether they had
    quotes.
    """

    nested = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) not in TAGS:
            _stop(
                "tags that begin with ! are not read here; remove it, or put a text in quotes",
                event.start_mark,
            )
        if self.nested == MOST_NESTED:
            _stop(f"it is nested more than {MOST_NESTED} deep", event.start_mark)
        self.nested += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.nested -= 1
        return node

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return PLAIN_TAG
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def _read_yaml(text: str, places: Callable[[Mapping[str, bool]], Places]) -> Any:
    """What a YAML text says, unless its aliases, written out, would be a bomb."""
    match = OLD_BREAKS.search(text)
    if match:
        line, column = _position(text, match.start())
        words = (
            f"the character U+{ord(match[0]):04X} ends a line in YAML 1.1 and not in YAML 1.2;"
            " write it as an escape in double quotes"
        )
        raise Unreadable(words, line, column, unclear=True)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as problem:
        raise Unreadable(
            "there is a control character; remove it", *_position(text, problem.position)
        ) from None
    except yaml.MarkedYAMLError as problem:
        _stop(
            _advice(problem.problem or ""),
            problem.problem_mark or problem.context_mark or yaml.Mark("", 0, 0, 0, None, 0),
        )
    if node is None:
        return None
    _check_size(node, len(text) + MOST_REPEATED, {})
    keys = node.value if isinstance(node, yaml.MappingNode) else []
    return _built(
        node,
        (),
        places(
            {
                key.value: isinstance(value, yaml.SequenceNode)
                for key, value in keys
                if _is_scalar(key)
            }
        ),
    )


def _position(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _advice(problem: str) -> str:
    for pattern, words in ADVICE:
        match = re.search(pattern, problem)
        if match:
            return words.format(*match.groups())
    return OTHERWISE


def _is_scalar(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode)


def _check_size(node: yaml.Node, most: int, sizes: dict[int, int | None]) -> int:
    """How many nodes there are once every alias stands for a copy of its own; a bomb, or a node
    inside itself, is refused.
    """
    if id(node) not in sizes:
        sizes[id(node)] = None  # not yet counted
        pieces = (
            [piece for pair in node.value for piece in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        total = 1 + sum(
            _check_size(piece, most, sizes) for piece in (() if _is_scalar(node) else pieces)
        )
        if total > most:
            _stop(f"its aliases repeat more than {MOST_REPEATED:,} pieces", node.start_mark)
        sizes[id(node)] = total
    size = sizes[id(node)]
    if size is None:
        _stop("an alias stands inside what it repeats", node.start_mark)
    return size


def _built(node: yaml.Node, path: tuple[str, ...], places: Places) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _built(value, (*path, key.value), places) for key, value in _pairs(node)}
    if isinstance(node, yaml.SequenceNode):
        inner = (*path, "[]")
        counted = places(inner) is Place.ITEM and all(
            item.tag == PLAIN_TAG and COUNTED.fullmatch(item.value) for item in node.value
        )
        return [int(item.value) if counted else _built(item, inner, places) for item in node.value]
    return node.value if node.tag != PLAIN_TAG else _scalar(node, places(path))


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """The pairs of a mapping, whose keys are different words."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            _stop("a key is not a plain word", key.start_mark)
        if key.value == "<<" and key.tag == PLAIN_TAG:
            _stop(
                "<< merges mappings in YAML 1.1 and is a key in 1.2; write the keys out, or put it"
                " in quotes",
                key.start_mark,
                unclear=True,
            )
        if key.value in lines:
            _stop(
                f"the key {shown(key.value)} is given twice, first in line {lines[key.value]}; keep"
                " one of them",
                key.start_mark,
            )
        lines[key.value] = key.start_mark.line + 1
    return node.value


def _scalar(node: yaml.Node, place: Place) -> Any:
    if place in (Place.TEXT, Place.ITEM) or (place is Place.BOUND and is_moment(node.value)):
        return node.value
    try:
        return read_plain(node.value)
    except (ValueError, OverflowError) as problem:
        _stop(str(problem), node.start_mark, unclear=isinstance(problem, ValueError))


# ---------------------------------------------------------------------- JSON


class _Number(str):
    """A number as it is written in a JSON file."""

    __slots__ = ()

    @property
    def value(self) -> int | float:
        return int(self) if re.fullmatch(r"-?[0-9]+", self) else float(self)


def _read_json(text: str, places: Callable[[Mapping[str, bool]], Places]) -> Any:
    try:
        data = json.loads(
            text,
            object_pairs_hook=_no_repeats,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
        )
    except json.JSONDecodeError as problem:
        raise Unreadable(
            problem.msg[:1].lower() + problem.msg[1:], problem.lineno, problem.colno
        ) from None
    except RecursionError:
        raise Unreadable("it is nested too deep") from None
    return _settled(
        data,
        (),
        places(
            {key: isinstance(value, list) for key, value in data.items()}
            if isinstance(data, dict)
            else {}
        ),
    )


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise Unreadable(f"the key {shown(key)} is given twice; keep one of them")
        result[key] = value
    return result


def _settled(data: Any, path: tuple[str, ...], places: Places) -> Any:
    """The same with its numbers as numbers, or as the characters written where a text belongs."""
    if isinstance(data, dict):
        return {key: _settled(value, (*path, key), places) for key, value in data.items()}
    if isinstance(data, list):
        inner = (*path, "[]")
        counted = places(inner) is Place.ITEM and all(
            isinstance(item, _Number) and COUNTED.fullmatch(item) for item in data
        )
        return [int(item) if counted else _settled(item, inner, places) for item in data]
    if not isinstance(data, _Number):
        return data
    return str(data) if places(path) in (Place.TEXT, Place.ITEM) else data.value


# ---------------------------------------------------------------------- files


def read_mapping(path: str | Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML or JSON file; ``what`` ("schema", "workload") names it in messages."""
    error = ERRORS[what]
    file = as_path(path, f"the {what}", error)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise error(f"There is no {what} file {str(path)!r}; check the path.") from None
    except (OSError, ValueError):  # a name that no file can have is a ValueError, too
        raise error(f"The {what} file {str(path)!r} cannot be read as UTF-8 text.") from None
    form, read = ("JSON", _read_json) if file.suffix.lower() == ".json" else ("YAML", _read_yaml)
    try:
        data = read(text, PLACES[what])
    except Unreadable as problem:
        verdict = "can be read in two ways" if problem.unclear else f"is not valid {form}"
        raise error(
            f"The {what} file {str(path)!r} {verdict}{problem.where}: {problem.words}."
        ) from None
    except (ValueError, yaml.YAMLError, RecursionError):
        raise error(
            f"The {what} file {str(path)!r} is not valid {form}: it cannot be read."
        ) from None
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except (UnicodeEncodeError, ValueError, RecursionError):
        raise error(
            f"The {what} file {str(path)!r} holds text that cannot be written as UTF-8."
        ) from None
    if not isinstance(data, dict):
        raise error(
            f"The file {str(path)!r} is no {what}; it should have a mapping at its"
            f" top{BEGINNING[what]}."
        )
    return data


class _Dumper(yaml.SafeDumper):
    """YAML in which every text is in quotes that some reader would take for something else."""


def _quoted(dumper: _Dumper, text: str) -> yaml.Node:
    style = '"' if OLD_BREAKS.search(text) else None if is_text(text) else "'"
    return dumper.represent_scalar(TEXT_TAG, text, style=style)


_Dumper.add_representer(str, _quoted)


def write_mapping(path: str | Path, data: dict[str, Any]) -> None:
    file = as_path(path, "the file to write")
    if file.suffix.lower() == ".json":
        text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    else:
        text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    file.write_text(text, encoding="utf-8")
