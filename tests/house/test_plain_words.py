"""Plain words: a short README, short sentences, words that are explained, no page without a link."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.shape import FENCE, GENERATED, length, sentences, words

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in GENERATED),
]
README_WORDS = 900  # outside code blocks; words of tables and of link targets count
MEDIAN, NINTH_TENTH, LONGEST = 15, 22, 25  # words of a sentence
LINE = 100  # columns, outside tables, code and pictures
# words that say less than a plainer one would
AVOIDED = ("booked", "settled", "unkept", "met", "seams", "nursery")
# verbs' third forms and the like, which say nothing of the thing that they would be the name of
NO_NAMES = {
    *("drawn", "found", "given", "held", "kept", "known", "made", "met", "of", "people", "said"),
    "told",
}
NAMED_ROOMS = ("game", "mechanisms", "queries", "privacy")
# (file, class or function, name): a parameter that an error sentence names
EXCUSED = {("privacy/verbs/measure.py", "Measure", "kept")}
# words of our own that a reader meets
EXPLAINED = (
    *("batch", "block", "brief", "bundle", "certificate", "certifier", "charge", "data player"),
    *("epsilon", "event", "finding", "heat", "ledger", "manifest", "marginal", "meter", "model"),
    *("mutant", "neighbours", "oracle", "play", "query player", "registry", "relaxed row"),
    *("remark", "reservation", "residual", "rho", "room", "verb", "workload"),
)


def measured(page: Path) -> tuple[float, float, int]:
    lengths = [length(sentence) for sentence in sentences(page.read_text(encoding="utf-8"))]
    return float(np.median(lengths)), float(np.quantile(lengths, 0.9)), max(lengths)


def test_readme_is_short() -> None:
    count = words((ROOT / "README.md").read_text(encoding="utf-8"))
    print(f"README: {count} words")
    assert count <= README_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    median, ninth_tenth, longest = measured(page)
    print(f"{page.name}: median {median:g}, 90% {ninth_tenth:g}, longest {longest}")
    assert median <= MEDIAN and ninth_tenth <= NINTH_TENTH and longest <= LONGEST


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_fit_a_diff_and_words_are_plain(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if not line.startswith(("|", "!["))]
    assert [line for line in lines if len(line) > LINE] == []
    assert re.findall(rf"\b(?:{'|'.join(AVOIDED)})\b", re.sub(r"`[^`]*`", "", text)) == []


def links(page: Path) -> list[tuple[Path, str]]:
    """The files and places that a page links to, beside addresses of the web."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"\]\(([^)#:]*)(?:#([^):]*))?\)", text)
    return [((page.parent / name).resolve() if name else page, place) for name, place in found]


def anchors(page: Path) -> set[str]:
    """The places of a page, named as a viewer names them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_linked_and_every_link_leads_somewhere() -> None:
    every = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    led = {page: links(page) for page in every}
    for page, targets in led.items():
        for target, place in targets:
            assert target.exists(), (page.name, target.name)
            assert not place or place in anchors(target), (page.name, target.name, place)
    seen, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in led and page not in seen:
            seen.add(page)
            left += [target for target, _ in led[page]]
    assert [page.name for page in every if page not in seen] == []


def test_the_glossary_has_the_words_of_our_own_in_order() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w -]+) \| (.+) \| (\[.*\)) \|$", text, re.M)[1:]
    told = [word for word, _, _ in rows]
    assert set(EXPLAINED) <= set(told) and told == sorted(told) and len(set(told)) == len(told)
    for word, meaning, _ in rows:
        assert length(meaning) <= 26 and not meaning.endswith("."), word


def names_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(the class or function around it, a name): of variables, fields, parameters, functions.

    Constructors that are called ``of`` and properties stay: they are read after what they belong to.
    """
    for scope in ast.walk(tree):
        if not isinstance(scope, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.Lambda)):
            continue
        around = getattr(scope, "name", "")
        inside = list(ast.iter_child_nodes(scope))
        for node in inside:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                if isinstance(scope, ast.Module):
                    yield around, node.name
                continue
            if isinstance(node, ast.Name):
                yield around, node.id
            elif isinstance(node, ast.arg):
                yield around, node.arg
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield around, node.attr.lstrip("_")
            inside += ast.iter_child_nodes(node)


def test_names_in_the_rooms_of_the_algorithms_are_nouns() -> None:
    package = ROOT / "src/understudy"
    files = [path for room in NAMED_ROOMS for path in sorted((package / room).rglob("*.py"))]
    bad = {
        (path.relative_to(package).as_posix(), around, name)
        for path in files
        for around, name in names_of(ast.parse(path.read_text(encoding="utf-8")))
        if name in NO_NAMES
    }
    assert len(files) > 80 and bad == EXCUSED


def test_a_name_that_is_no_noun_is_seen_wherever_it_is() -> None:
    text = """
def f(given, *, known=1):
    for found in given: self._held = lambda told: [drawn for drawn in told if (met := drawn)]
    def inner(): kept = of
class C:
    people: int
    @classmethod
    def of(cls): return cls.of(said=1).made
def made(): pass
"""
    seen = {name for _, name in names_of(ast.parse(text))} & NO_NAMES
    assert seen == NO_NAMES - {"said"}
    assert ("C", "people") in names_of(ast.parse(text))
