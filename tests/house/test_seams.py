"""A new query class or source is one file: nobody outside asks what class a batch is of, and no
list names them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.checks import source_kinds
from understudy.queries.workload import query_classes

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "understudy"
CLASSES = {kind.__name__: kind.__module__ for kind in query_classes().values()}


def asked(tree: ast.AST) -> Iterator[str]:
    """The query classes that a module compares something with: isinstance, issubclass, ``type(x)
    is``, or a pattern.
    """
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            known |= {
                alias.asname or alias.name: alias.name
                for alias in node.names
                if node.module in ("understudy", CLASSES.get(alias.name)) and alias.name in CLASSES
            }
    for node in ast.walk(tree):
        compared: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            compared = node.args[1:] if node.func.id in ("isinstance", "issubclass") else []
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            types = [s for s in sides if isinstance(s, ast.Call) and _name(s.func) == "type"]
            compared = sides if types else []
        elif isinstance(node, ast.MatchClass):
            compared = [node.cls]
        for one in compared:
            for batch in ast.walk(one):
                # a bare name may be that of a class of rules; where it came from decides
                if isinstance(batch, ast.Name) and batch.id in known:
                    yield known[batch.id]
                elif isinstance(batch, ast.Attribute) and batch.attr in CLASSES:
                    yield batch.attr


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def test_nobody_outside_the_room_asks_what_class_a_batch_is_of() -> None:
    found = {
        place: set(asked(tree)) for place, tree in modules() if not place.startswith("queries/")
    }
    assert len(found) > 100, "all of it was read"
    breaches = {place: names for place, names in found.items() if names}
    # a proof about tables is one about no other class
    assert all(
        place.startswith("privacy/") and names <= {"Marginal", "BinnedMarginal"}
        for place, names in breaches.items()
    ), breaches


@pytest.mark.parametrize(
    "text",
    [
        "from understudy.queries.marginal import Marginal\nisinstance(x, Marginal)",
        "from understudy.queries.marginal import Marginal as M\nisinstance(x, (int, M))",
        "from understudy.queries.marginal import Marginal\nisinstance(x, int | Marginal)",
        "from understudy import Marginal\ntype(x) is Marginal",
        "from understudy.queries import marginal\nissubclass(x, marginal.Marginal)",
        "from understudy.queries.marginal import Marginal\nmatch x:\n    case Marginal():\n        pass",
    ],
)
def test_a_planted_question_is_found(text: str) -> None:
    assert set(asked(ast.parse(text))) == {"Marginal"}


def test_a_class_and_a_source_are_named_in_their_own_file_only() -> None:
    """The newest of each: what they took is one file."""
    for kind in (query_classes()["ranges"], source_kinds()["SQLiteSource"]):
        home = Path(inspect.getfile(kind)).relative_to(PACKAGE).as_posix()
        names = {
            node.name
            for node in ast.parse(inspect.getsource(kind)).body
            if isinstance(node, ast.ClassDef)
        }
        assert names == {kind.__name__}
        elsewhere = [
            place
            for place, tree in modules()
            if place != home
            and any(
                kind.__name__ in (_name(node), getattr(node, "value", None))
                or (isinstance(node, ast.alias) and node.name.endswith(kind.__name__))
                for node in ast.walk(tree)
            )
        ]
        assert elsewhere == [], f"{kind.__name__} is named in {elsewhere}"
