"""What the privacy room imports, and that rooms do not import each other in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from understudy.privacy import trusted, verbs

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
MAY_IMPORT = {"privacy", "schema", "queries", "sources", "errors", "counting", "runtime"}
MOST_LINES = 8_400
GENERAL = {
    *("README", "conventions", "accounting", "gaussian", "noise", "meter", "learning", "ledger")
}


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in (SRC / "understudy").rglob("*.py"):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path) -> Iterator[str]:
    """Whatever a module's import statements name, wherever in it they stand."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *([node.module] * bool(node.module))])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def closure(start: str, known: dict[str, Path]) -> set[str]:
    """A package and all that its modules import, by whatever way; but not the public names."""
    seen: set[str] = set()
    todo = [name for name in known if name == start or name.startswith(f"{start}.")]
    while todo:
        name = todo.pop()
        if name in known and name not in seen and name != "understudy":
            seen.add(name)
            todo.extend(imported(name, known[name]))
    return seen


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def length(paths: Iterator[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def test_the_room_imports_no_room_above_it_and_can_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = modules()
    seen = closure("understudy.privacy", known)
    lines = length(known[name] for name in seen)
    by_room = {
        room: length(known[name] for name in seen if room_of(name) == room)
        for room in sorted(map(room_of, seen))
    }
    with capsys.disabled():
        print(
            f"\nwhat privacy/ imports, itself included: {len(seen)} modules, {lines:,} lines:"
            f" {', '.join(f'{room} {count:,}' for room, count in by_room.items())}"
        )
    assert set(by_room) <= MAY_IMPORT, set(by_room) - MAY_IMPORT
    assert "understudy.privacy.meter" in seen and 5_000 < lines <= MOST_LINES


def test_an_import_is_seen_wherever_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        "def f():\n    from ..rules import task\nif x:\n    import understudy.oracles.base\n"
    )
    found = set(imported("understudy.privacy.one", file))
    assert {"understudy.rules", "understudy.rules.task", "understudy.oracles.base"} <= found


def rooms_of_rooms(known: dict[str, Path]) -> dict[str, set[str]]:
    """Which rooms each room imports."""
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        if room_of(name):
            met = {room_of(one) for one in imported(name, path) if one in known}
            graph.setdefault(room_of(name), set()).update(met - {"", room_of(name)})
    return graph


def test_no_two_rooms_import_each_other_by_whatever_way() -> None:
    graph = rooms_of_rooms(modules())
    order = list(TopologicalSorter(graph).static_order())
    assert {"privacy", "rules", "game", "api", "cli"} <= set(order)
    assert order.index("privacy") < min(order.index(room) for room in ("rules", "game", "audit"))
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, "privacy": {"rules"}}).prepare()


# ---------------------------------------------------------------------- lists and proofs


def test_the_second_list_names_what_there_is_and_no_more() -> None:
    """Every class of rules, way to count, and certifier; each by the name that leads to it."""
    from understudy.rules import certifiers, classes, counting

    kinds = [*classes.rule_classes().values(), *certifiers.CERTIFIERS.values()]
    kinds += [counting.Lattice, counting.Walsh, counting.Juntas]
    named = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    named |= {"understudy.rules.task.Task", "understudy.queries.attribute.Attribute"}
    assert named == set(trusted.HANDED_EXACT_VALUES)
    assert all(trusted.is_listed(kind) for kind in kinds)


def test_each_verb_has_a_file_and_a_page_of_its_own() -> None:
    room = SRC / "understudy/privacy"
    files = {verb.__module__.rpartition(".")[2]: verb for verb in verbs.VERBS}
    assert len(files) == len(verbs.VERBS) == len({verb.name for verb in verbs.VERBS})
    assert set(files) == {path.stem for path in (room / "verbs").glob("*.py")} - {
        "__init__",
        "base",
    }
    pages = {path.stem: path.read_text() for path in (room / "proofs").glob("*.md")}
    assert set(pages) == set(files) | GENERAL and not set(files) & GENERAL
    for name, verb in files.items():
        assert pages[name].startswith(f"# `{verb.__name__}`\n")
        ids = re.findall(r"^\*\*(M\d+)\.", pages[name], re.M)
        assert ids and f"proofs/{name}" in (room / "verbs" / f"{name}.py").read_text()
        assert f"[{name}]({name}.md)" in pages["README"]


def test_every_claim_that_is_cited_has_its_proof_where_it_is_said_to_be() -> None:
    room = SRC / "understudy/privacy"
    where = {
        claim: page.stem
        for page in (room / "proofs").glob("*.md")
        for claim in re.findall(r"^\*\*([AMNL]\d+)\.", page.read_text(), re.M)
    }
    assert {"A1", "N4", "M1", "M5", "M10", "L1"} <= set(where)
    texts = [path.read_text() for path in (SRC / "understudy").rglob("*.py")]
    texts += [path.read_text() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]]
    cited = [
        (page, claim)
        for text in texts
        for page, claims in re.findall(
            r"proofs/([a-z_]+)(?:\.md\))?,\s+(?:# )?([AMNL]\d+(?:(?:,| and)\s+[AMNL]\d+)*)", text
        )
        for claim in re.findall(r"[AMNL]\d+", claims)
    ]
    assert len(cited) > 30
    assert all(where.get(claim) == page for page, claim in cited), [
        (page, claim) for page, claim in cited if where.get(claim) != page
    ]
    loose = {claim for text in texts for claim in re.findall(r"\(([AMN]\d+)\)", text)}
    pages = [page for page in (room / "proofs").glob("*.md") if page.stem != "README"]
    proved = {
        claim for page in pages for claim in re.findall(r"\b[AMN]\d{1,2}\b", page.read_text())
    }
    assert loose <= set(where) and proved <= set(where), (loose | proved) - set(where)
