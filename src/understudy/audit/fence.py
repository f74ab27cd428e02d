"""The fence around the sensitive rows: reads source code and names every side door.

A reader of the code must be able to audit the privacy room alone. That holds only while nothing
else can reach rows, exact counts or the noise; this module checks it, and a test runs it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

# Who may open the room of sensitive rows, and why.
MAY_IMPORT_SOURCES = {
    "sources/": "the room itself",
    "privacy/": "the meter looks at rows, after charging",
    "api/session.py": "opens the table and hands it to the meter",
    "checks.py": "holds invented tables only",
    "audit/": "holds invented tables only",
}
# The audit stands where exact values meet noise. It makes its own tables; whoever else could import
# it could stand there too.
MAY_IMPORT_AUDIT = ("audit/", "cli/audit.py")
# Who may name further types that are handed exact values: whoever invents the tables, too.
MAY_TRUST_MORE = ("privacy/", "audit/")
# Attributes of meters and sources that lead to rows, to noise or to what was reserved.
INSIDE_ONLY = {
    "_exact",
    "_look",
    "_open_source",
    "_noise",
    "_source",
    "_read",
    "_cells",
    "_blocks",
    "_play",
    "_certify",
    "_trusts",
}
# Names that lead to rows or to noise, whatever module they are taken from, and the files that may
# take them.
TRUSTED_NAMES = {
    "Source": ("sources/", "privacy/", "api/session.py", "checks.py"),
    "open_source": ("sources/", "api/session.py"),
    "public_rows": ("privacy/", "api/release.py", "learning/learn.py"),
    "Noise": ("privacy/", "audit/"),
}
# Every kind of source that the folder holds: its class, by whatever name.
MAY_NAME_SOURCES = ("sources/", "checks.py", "audit/")
# Who may make a meter: one that nothing was reserved for charges nobody.
MAY_METER = ("api/session.py", "audit/", "checks.py")
# Where raw cells or exact counts pass: nothing here may print, log or warn.
SILENT = (
    "privacy/",
    "sources/",
    "queries/",
    "rules/",
    "learning/",
    "schema/cells.py",
    "schema/columns.py",
    "counting/tally.py",
)
SEEDED = {"random", "numpy.random"}  # noise that can be repeated is none
# What is read by these can run anything; multiprocessing sends it.
PICKLES = {
    "pickle",
    "_pickle",
    "cPickle",
    "pickletools",
    "joblib",
    "dill",
    "cloudpickle",
    "shelve",
    "marshal",
    "copyreg",
    "multiprocessing",
}
# Readers that run what a file says.
RUNS_FILES = {
    "read_pickle",
    "to_pickle",
    "unsafe_load",
    "unsafe_load_all",
    "full_load",
    "UnsafeLoader",
    "FullLoader",
    "ProcessPoolExecutor",
}
TALKERS = {"logging", "warnings", "rich", "traceback"}  # ways to print without print


def side_doors(root: Path) -> list[str]:
    """Every breach of the fence under a package folder, as ``file:line: what``."""
    lines: list[str] = []
    trusted = {**dict.fromkeys(_kinds(root), MAY_NAME_SOURCES), **TRUSTED_NAMES}
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            breaches = [*_import_breaches(node, place, trusted), *_name_breaches(node, place)]
            lines.extend(f"{place}:{getattr(node, 'lineno', 0)}: {breach}" for breach in breaches)
    return lines


def _kinds(root: Path) -> set[str]:
    """The classes in the folder of sources that are sources, by what they extend."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for file in sorted((root / "sources").glob("**/*.py"))
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    kinds, before = {"Source"}, 0
    while len(kinds) > before:
        before = len(kinds)
        kinds |= {name for name, extended in bases.items() if extended & kinds}
    return kinds


def _import_breaches(
    node: ast.AST, place: str, trusted_names: Mapping[str, tuple[str, ...]]
) -> list[str]:
    breaches = []
    trusted = place.startswith(tuple(MAY_IMPORT_SOURCES))
    for module in _imports(node, place):
        if not trusted and (
            module == "understudy.sources" or module.startswith("understudy.sources.")
        ):
            breaches.append("imports the room of sensitive rows")
        if not place.startswith(MAY_IMPORT_AUDIT) and (
            module == "understudy.audit" or module.startswith("understudy.audit.")
        ):
            breaches.append("imports the audit, which sees what the meter is about to noise")
        if module.split(".")[0] in PICKLES:
            breaches.append(f"imports {module}: nothing here is ever pickled")
        if place.startswith("privacy/") and (module in SEEDED or module.startswith("numpy.random")):
            breaches.append(f"imports {module}: a generator with a seed inside the privacy room")
        if place.startswith(SILENT) and module.split(".")[0] in TALKERS:
            breaches.append(f"imports {module}: where cells and exact counts pass, nothing talks")
        name = module.rsplit(".", 1)[-1]
        if name in RUNS_FILES:
            breaches.append(f"imports {name}: nothing here is ever pickled, and no file is run")
        if (
            isinstance(node, ast.ImportFrom)
            and name in trusted_names
            and not place.startswith(trusted_names[name])
        ):
            breaches.append(f"imports {name}, which leads to rows or to noise")
    return breaches


def _name_breaches(node: ast.AST, place: str) -> list[str]:
    breaches = []
    in_room = place.startswith(("privacy/", "sources/")) or place in (
        "counting/tally.py",
        "checks.py",
        "audit/fence.py",
    )
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and place != "audit/fence.py":
        if node.value.startswith("understudy.sources"):
            breaches.append("names the room of sensitive rows in a string")
        if node.value.startswith("understudy.audit") and not place.startswith(MAY_IMPORT_AUDIT):
            breaches.append("names the audit in a string")
        if node.value in INSIDE_ONLY and not in_room:
            breaches.append(f"names {node.value} in a string, which is inside the room")
    if isinstance(node, ast.Attribute):
        if node.attr in INSIDE_ONLY and not in_room:
            breaches.append(f"reaches for {node.attr}, which is inside the room")
        if node.attr == "sources" and not in_room:
            breaches.append("reaches for the room of sensitive rows")
        if node.attr == "audit" and not place.startswith(MAY_IMPORT_AUDIT):
            breaches.append("reaches for the audit")
        if node.attr in ("stdout", "stderr") and place.startswith(SILENT):
            breaches.append(f"uses {node.attr} where cells and exact counts pass")
        if place.startswith("privacy/") and node.attr in ("random", "default_rng", "RandomState"):
            breaches.append(f"uses {node.attr}: a generator with a seed inside the privacy room")
        if node.attr in RUNS_FILES:
            breaches.append(f"uses {node.attr}: nothing here is ever pickled, and no file is run")
    if (
        isinstance(node, ast.ClassDef)
        and not in_room
        and any(isinstance(base, ast.Name) and base.id == "Meter" for base in node.bases)
    ):
        breaches.append("extends the meter")
    if isinstance(node, ast.Call):
        called = (
            node.func.id
            if isinstance(node.func, ast.Name)
            else node.func.attr
            if isinstance(node.func, ast.Attribute)
            else ""
        )
        if called == "print" and place.startswith(SILENT):
            breaches.append("prints where cells and exact counts pass")
        if place in ("api/release.py", "api/session.py") and called in ("count", "scan", "counts"):
            breaches.append(f"asks for {called}: only the meter looks")
        if not place.startswith(MAY_TRUST_MORE) and any(w.arg == "trusts" for w in node.keywords):
            breaches.append("lets in types besides the closed list of those that see exact values")
        if called == "Noise" and not place.startswith(TRUSTED_NAMES["Noise"]):
            breaches.append("makes its own noise")
        if called == "Meter" and not place.startswith(MAY_METER):
            breaches.append("makes a meter, for which nothing is reserved")
        breaches.extend(_archive_breaches(node, called))
    return breaches


def _archive_breaches(node: ast.Call, called: str) -> list[str]:
    """NumPy archives may hold pickles: every reader must say that it takes none, and nobody may ask
    for them.
    """
    allowed = [word.value for word in node.keywords if word.arg == "allow_pickle"]
    if any(not isinstance(value, ast.Constant) or value.value is not False for value in allowed):
        return ["allows pickles in an archive"]
    owner = (
        node.func.value.id
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        else ""
    )
    if called == "load" and owner in ("np", "numpy") and not allowed:
        return ["reads an archive without allow_pickle=False"]
    return []


def _imports(node: ast.AST, place: str) -> list[str]:
    """The absolute names of what an import statement brings in, submodules included."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = ["understudy", *place.split("/")[:-1]]
        base = ".".join(
            package[: len(package) - node.level + 1] + ([node.module] if node.module else [])
        )
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]
