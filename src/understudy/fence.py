"""The fence around the sensitive rows: reads source code and names every side door.

A reader of the code must be able to audit the privacy room alone. That holds only while nothing else
can reach rows, exact counts or the noise; this module checks it, and a test runs it.
"""

from __future__ import annotations

import ast
from pathlib import Path

# Who may open the room of sensitive rows, and why.
MAY_IMPORT_SOURCES = {
    "sources/": "the room itself",
    "privacy/": "the meter looks at rows, after charging",
    "front_door.py": "opens the table and hands it to the meter",
    "checks.py": "holds invented tables only",
}
INSIDE_ONLY = {"_exact", "_look", "_open_source", "_noise", "_source", "_read", "_blocks"}
SEEDED = {"random", "numpy.random"}
PICKLES = {"pickle", "cPickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}
TALKERS = {"logging", "warnings"}


def side_doors(root: Path) -> list[str]:
    """Every breach of the fence under a package folder, as ``file:line: what``."""
    found: list[str] = []
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            found.extend(f"{place}:{getattr(node, 'lineno', 0)}: {breach}" for breach in _breaches(node, place))
    return found


def _breaches(node: ast.AST, place: str) -> list[str]:
    found = []
    trusted = place.startswith(tuple(MAY_IMPORT_SOURCES))
    in_room = place.startswith(("privacy/", "sources/"))
    for module in _imports(node, place):
        if not trusted and (module == "understudy.sources" or module.startswith("understudy.sources.")):
            found.append("imports the room of sensitive rows")
        if module.split(".")[0] in PICKLES:
            found.append(f"imports {module}: nothing here is ever pickled")
        if place.startswith("privacy/") and (module in SEEDED or module.startswith("numpy.random")):
            found.append(f"imports {module}: a generator with a seed inside the privacy room")
        if in_room and module in TALKERS:
            found.append(f"imports {module}: rooms with exact values do not talk")
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("understudy.sources")
        and place != "fence.py"
    ):
        found.append("names the room of sensitive rows in a string")
    if isinstance(node, ast.Attribute):
        if node.attr in INSIDE_ONLY and not in_room and place not in ("tally.py", "checks.py"):
            found.append(f"reaches for {node.attr}, which is inside the room")
        if place.startswith("privacy/") and node.attr in ("random", "default_rng", "RandomState"):
            found.append(f"uses {node.attr}: a generator with a seed inside the privacy room")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "print" and in_room:
            found.append("prints inside a room with exact values")
        if node.func.id == "Noise" and not place.startswith("privacy/"):
            found.append("makes its own noise")
    return found


def _imports(node: ast.AST, place: str) -> list[str]:
    """The absolute names of what an import statement brings in, submodules included."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = ["understudy", *place.split("/")[:-1]]
        base = ".".join(package[: len(package) - node.level + 1] + ([node.module] if node.module else []))
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]
