"""One target under the fuzzer, in a process of its own: ``python -m tools.fuzz_child TARGET
FOLDER`` and libFuzzer's options.

Findings are written to a file, each kind once, and the search goes on; what ends the process (a
hang, too much memory, a crash of native code) libFuzzer leaves as a file.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["understudy"]):
    from tools.fuzz_targets import FINDINGS, TARGETS, Target, complaint

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "1/0", "-1", "1e9", "nan", "\ud800",
    "9" * 5000, [], {}, [[]], [None], {"": None}, {"x": {}}, [0, 0],
)  # fmt: skip


def pieces(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree, as what holds it and its key there."""
    inner = (
        list(tree.items())
        if isinstance(tree, dict)
        else list(enumerate(tree))
        if isinstance(tree, list)
        else []
    )
    return [(tree, key) for key, _ in inner] + [
        place for _, value in inner for place in pieces(value)
    ]


def bent(tree: Any, rng: random.Random) -> Any:
    """A tree with one piece taken away, doubled, or exchanged for something odd or for another of
    its pieces.
    """
    places = pieces(tree)
    if not places:
        return rng.choice(ODD)
    holder, key = rng.choice(places)
    other, there = rng.choice(places)
    way = rng.randrange(5)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif way == 2:
        holder[key] = copy.deepcopy(other[there])
    elif way == 3 and isinstance(holder, dict):
        holder[str(there)] = holder.pop(key)
    else:
        holder[key] = rng.choice(ODD)
    return tree


def mutate_tree(data: bytes, most: int, seed: int) -> bytes:
    """Mostly pieces of JSON, sometimes bytes."""
    rng = random.Random(seed)  # noqa: S311
    try:
        tree = json.loads(data)
        for _ in range(rng.randint(1, 3)):
            tree = bent(tree, rng)
        mutant = json.dumps(tree).encode()
    except (ValueError, RecursionError):
        mutant = b""
    return (
        mutant
        if mutant and len(mutant) <= most and rng.random() < 0.8
        else atheris.Mutate(data, most)
    )


def watched(target: Target, folder: Path) -> Any:
    """What libFuzzer calls: a complaint that is new is written down."""
    complaints: set[str] = set()

    def run(data: bytes) -> None:
        wrong = complaint(partial(target.run, data, folder))
        if wrong and wrong not in complaints:
            complaints.add(wrong)
            with (folder / FINDINGS).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"what": wrong, "input": repr(data)}) + "\n")

    return run


def main() -> None:
    _, name, place, *options = sys.argv
    target = TARGETS[name]
    more = {"custom_mutator": mutate_tree} if target.tree else {}
    atheris.Setup([sys.argv[0], *options], watched(target, Path(place)), **more)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
