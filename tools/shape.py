"""The shape of a project's code and pages: how long, how deep, how wide, in what sentences.

    python -m tools.shape [FOLDER ...]

A folder is a checkout or an unpacked archive; this project's own if none is named. Code is what
lies in ``src`` or in packages, tests and programs beside it left out; pages are the README and all
of ``docs``. Prints a row of a table for each folder. Needs nothing but Python.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"audit.md", "licences.md"}  # of our own pages: written by tools, mostly tables
BESIDE = {"tests", "test", "docs", "examples", "bench", "benchmarks", "tools", "build"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
DEEPER = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
HEAD = (
    "| | functions, lines med/p90/max | parameters max | nesting max | annotated"
    " | lines > 100 / > 120 | README words | sentence in README med/p90 | in docs med/p90"
    " | code blocks per 1,000 words |"
)


# ---------------------------------------------------------------------- code


def modules(folder: Path) -> list[Path]:
    """The modules of a project: those in ``src``, or those in its packages."""
    inner = folder / "src" if (folder / "src").is_dir() else folder
    found = (path.relative_to(inner) for path in inner.rglob("*.py"))
    return sorted(
        inner / path
        for path in found
        if len(path.parts) > 1
        and not BESIDE & set(path.parts)
        and not re.match(r"conftest|test_|.*_test$", path.stem)
    )


def functions(tree: ast.AST) -> list[Function]:
    """Every function and method, those inside others too."""
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def lines_of(function: Function) -> int:
    """From ``def`` to the last line, without the docstring."""
    first = function.body[0]
    told = ast.get_docstring(function, clean=False) is not None
    without = (first.end_lineno or 0) - first.lineno + 1 if told else 0
    return (function.end_lineno or 0) - function.lineno + 1 - without


def parameters(function: Function) -> list[ast.arg]:
    """What a caller may give: ``self`` and ``cls`` do not count."""
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [arg for arg in every if arg is not None and arg.arg not in ("self", "cls")]


def annotated(function: Function) -> bool:
    """Whether every parameter and the result have a type; ``__init__`` has no result."""
    given = all(arg.annotation is not None for arg in parameters(function))
    return given and (function.returns is not None or function.name == "__init__")


def nesting(node: ast.AST, chained: bool = False) -> int:
    """How many statements with a body lie inside each other; ``elif`` is no deeper than ``if``, and
    a function inside another begins anew.
    """
    inside = 0
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, Function):
                elif_ = isinstance(node, ast.If) and field == "orelse" and len(value) == 1
                inside = max(inside, nesting(child, elif_ and isinstance(child, ast.If)))
    return inside + (isinstance(node, DEEPER) and not chained)


# ---------------------------------------------------------------------- pages

FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$", re.S | re.M)
SHORT = ("e.g", "i.e", "etc", "vs", "cf", "al", "Fig", "No")  # a point after these ends nothing
LIST = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+")
ASIDE = ("|", "#", "![", "[![", "<", "!!!", "???", ":::", "---", "===")  # no sentence begins so


def prose(text: str) -> list[str]:
    """The paragraphs and list items of a page: no code, tables, headings or pictures.

    Inline code is one word, and so is a link whose text is code.
    """
    found: list[str] = []
    fresh = True
    for line in FENCE.sub("\n", text).splitlines():
        aside = line.lstrip().startswith(ASIDE) or not line.strip()
        if aside or (line.startswith("    ") and fresh):  # an indented block is code, too
            fresh = True
            continue
        if LIST.match(line) or fresh:
            found.append(LIST.sub("", line))
        else:
            found[-1] += " " + line.strip()
        fresh = False
    return [plain(paragraph) for paragraph in found]


def plain(paragraph: str) -> str:
    """A paragraph without markup: a link is its text, inline code is one word."""
    paragraph = re.sub(r"\[((?:`[^`]*`|[^\]`])*)\]\([^)]*\)", r"\1", paragraph)
    return re.sub(r"(`+)[^`]+\1", "`code`", paragraph)


def sentences(text: str) -> list[str]:
    """The sentences of a page's prose; a paragraph or a list item ends one."""
    found: list[str] = []
    for paragraph in prose(text):
        held = ""
        for piece in END.split(paragraph):
            held = f"{held} {piece}".strip()
            last = held.rstrip(".").split()[-1:]
            if held.endswith("...") or (last and last[0].lstrip("(") in SHORT):
                continue
            found.append(held)
            held = ""
        if held:
            found.append(held)
    return [sentence for sentence in found if length(sentence)]


def length(sentence: str) -> int:
    """Words between spaces that hold a letter or a digit: ``3.5``, ``2-way`` and ``n^2`` are one."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def words(text: str) -> int:
    """Outside code; words of tables and of the targets of links count."""
    return len(re.findall(r"\w+", FENCE.sub("", text)))


# ---------------------------------------------------------------------- rows


def quantile(numbers: Iterable[int], share: float) -> int:
    """The smallest number that so large a share does not exceed; 0 of none."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0


def row(folder: Path) -> Iterator[str]:
    """The cells of a folder's row."""
    texts = [path.read_text(encoding="utf-8") for path in modules(folder)]
    made = [function for text in texts for function in functions(ast.parse(text))]
    lines = [line for text in texts for line in text.splitlines()]
    sizes = list(map(lines_of, made))
    yield "ours" if folder.resolve() == ROOT else folder.resolve().name
    yield f"{quantile(sizes, 0.5)}/{quantile(sizes, 0.9)}/{max(sizes, default=0)}"
    yield str(max((len(parameters(function)) for function in made), default=0))
    yield str(max(map(nesting, made), default=0))
    yield f"{sum(map(annotated, made)) / max(len(made), 1):.0%}"
    wide = [sum(len(line) > limit for line in lines) / max(len(lines), 1) for limit in (100, 120)]
    yield " / ".join(f"{share:.1%}" for share in wide)
    yield from pages(folder)


def pages(folder: Path) -> Iterator[str]:
    """The cells about a folder's pages; blank where there are none."""
    readme = next((p for p in sorted(folder.glob("*.md")) if p.stem.lower() == "readme"), None)
    docs = [p for p in sorted(folder.glob("docs/**/*.md")) if p.name not in GENERATED]
    first = "" if readme is None else readme.read_text(encoding="utf-8")
    rest = [page.read_text(encoding="utf-8") for page in docs]
    yield f"{words(first):,}" if first else ""
    for told in ([first], rest):
        lengths = [length(sentence) for text in told for sentence in sentences(text)]
        yield f"{quantile(lengths, 0.5)}/{quantile(lengths, 0.9)}" if lengths else ""
    blocks = sum(len(FENCE.findall(text)) for text in (first, *rest))
    counted = sum(map(words, (first, *rest)))
    yield f"{1000 * blocks / counted:.1f}" if counted else ""


def main(folders: Sequence[str]) -> None:
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for folder in folders or [str(ROOT)]:
        print("|", " | ".join(row(Path(folder))), "|")


if __name__ == "__main__":
    main(sys.argv[1:])
