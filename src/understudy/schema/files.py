"""YAML and JSON files of plain mappings, read strictly: a key given twice is an error, ``no`` is text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from understudy.errors import InputError, SchemaError, WorkloadError
from understudy.paths import as_path

MOST_REPEATED = 1_000_000
ERRORS: dict[str, type[InputError]] = {"schema": SchemaError, "workload": WorkloadError}


class _StrictLoader(yaml.SafeLoader):
    """YAML whose booleans are only ``true`` and ``false``: a category ``no`` stays the text it is."""


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _mapping_without_repeats(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    pairs = loader.construct_pairs(node, deep=True)
    return _no_repeats(pairs)


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping_without_repeats)


def _no_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, (str, int, float, bool)):
            raise ValueError("a key is not a plain word")
        if key in result:
            raise ValueError(f"the key {key!r} is given twice")
        result[key] = value
    return result


def _read_yaml(text: str) -> Any:
    """What a YAML text says, unless its aliases, written out, would be a bomb."""
    loader = _StrictLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _written_out(node, {}) > len(text) + MOST_REPEATED:
            raise ValueError(f"its aliases repeat more than {MOST_REPEATED:,} pieces")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _written_out(node: yaml.Node, known: dict[int, int]) -> int:
    """How many nodes there are once every alias stands for a copy of its own."""
    if id(node) not in known:
        known[id(node)] = 1  # a node inside itself, which is refused when it is constructed
        inner = [piece for pair in node.value for piece in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] += sum(_written_out(piece, known) for piece in inner) if isinstance(inner, list) else 0
    return known[id(node)]


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
    form = "JSON" if file.suffix.lower() == ".json" else "YAML"
    try:
        data = json.loads(text, object_pairs_hook=_no_repeats) if form == "JSON" else _read_yaml(text)
    except (ValueError, yaml.YAMLError, RecursionError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else "malformed"
        raise error(f"The {what} file {str(path)!r} is not valid {form}: {reason}.") from None
    try:
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, ValueError, RecursionError):
        raise error(f"The {what} file {str(path)!r} holds text that cannot be written as UTF-8.") from None
    if not isinstance(data, dict):
        raise error(f"The {what} file {str(path)!r} must hold a mapping at its top.")
    return data


def write_mapping(path: str | Path, data: dict[str, Any]) -> None:
    file = as_path(path, "the file to write")
    if file.suffix.lower() == ".json":
        text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    else:
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    file.write_text(text, encoding="utf-8")
