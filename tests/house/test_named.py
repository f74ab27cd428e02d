"""What messages, helps and pages name exists: options, commands, names in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import understudy as us
from understudy.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src/understudy").rglob("*.py"))
SHELL = [path for path in SOURCES if path.parent.name == "cli"]
PAGES = [
    ROOT / "README.md",
    ROOT / "KNOWN-LIMITS.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
OPTION = re.compile(r"(?<!var\()(?<![\w-])--[a-z][a-z-]*[a-z]")
CALL = re.compile(r"(?<![\w/.-])(?<!import )understudy (?:(schema) )?([a-z]+)\b([^`\n]*)")
NAME = re.compile(
    r"(?<![\w./])(us|understudy|rel|Release|Schema|Workload|Budget|FileLedger|Learned|Certificate)\.([A-Za-z]\w*)"
)


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """Every command by its last word, and groups."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found[name] = command
        if isinstance(command, click.Group):
            found |= commands(command, (*path, name))
    return found


COMMANDS = commands()


def options(command: click.Command) -> set[str]:
    return {
        "--help",
        *(name for parameter in command.params for name in parameter.opts if name.startswith("--")),
    }


EVERY = set().union({"--version"}, *map(options, COMMANDS.values()))


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text in some code, the fixed pieces of an f-string joined by an ellipsis."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(value) for value in node.values}
            yield "".join(
                str(value.value) if isinstance(value, ast.Constant) else "…"
                for value in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.value


def functions(command: str) -> dict[str, ast.FunctionDef]:
    """The functions of the file of the command line that holds a command, by name."""
    files = [
        [
            node
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.FunctionDef)
        ]
        for path in SHELL
    ]
    (found,) = [
        {node.name: node for node in file}
        for file in files
        if any(node.name == command and node.decorator_list for node in file)
    ]
    return found


def reached(name: str, known: dict[str, ast.FunctionDef]) -> set[str]:
    """The functions that one of them may call, itself included."""
    found, left = set(), [name]
    while left:
        at = left.pop()
        if at in known and at not in found:
            found.add(at)
            left += [node.id for node in ast.walk(known[at]) if isinstance(node, ast.Name)]
    return found


def unknown_options(name: str, text: str) -> set[str]:
    """Options that a text of a command names and neither it nor the command that it calls by name
    has.
    """
    wrong: set[str] = set()
    for _, called, rest in CALL.findall(text):
        if called in COMMANDS:
            wrong |= set(OPTION.findall(rest)) - options(COMMANDS[called])
    return wrong | (set(OPTION.findall(CALL.sub("", text))) - options(COMMANDS[name]))


@pytest.mark.parametrize(
    "name", [name for name, command in COMMANDS.items() if not isinstance(command, click.Group)]
)
def test_a_command_names_options_that_it_has(name: str) -> None:
    known = functions(name)
    said = {text for function in reached(name, known) for text in texts(known[function])}
    said |= {
        COMMANDS[name].help or "",
        *(getattr(parameter, "help", None) or "" for parameter in COMMANDS[name].params),
    }
    assert said and {text: wrong for text in said if (wrong := unknown_options(name, text))} == {}


def test_the_walk_over_commands_sees_what_they_say() -> None:
    """The test above is worth nothing unless it finds options in helpers, and misses what is not
    there.
    """
    known = functions("budget")
    shown = {text for function in reached("budget", known) for text in texts(known[function])}
    assert any("--limit-epsilon" in text for text in shown) and unknown_options(
        "budget", "ask for fewer --rows"
    ) == {"--rows"}
    assert unknown_options("budget", "see understudy plan --rows 3 --epsilon 1") == set()
    assert unknown_options("budget", "see understudy plan --csv x") == {"--csv"}


def test_messages_everywhere_name_options_and_commands_that_exist() -> None:
    seen = 0
    for path in SOURCES:
        for text in texts(ast.parse(path.read_text("utf-8"))):
            seen += len(OPTION.findall(text))
            assert set(OPTION.findall(text)) <= EVERY, (path.name, text)
            for quoted in re.findall(r"(?:'|``|`|with: |run )understudy ([a-z-]+)", text):
                seen += 1
                assert quoted in COMMANDS, (path.name, text)
    assert seen > 30


def test_pages_call_commands_with_options_that_they_have() -> None:
    seen = 0
    for page in PAGES:
        pieces = page.read_text("utf-8").split("```")
        code = "\n".join([*pieces[1::2], *re.findall(r"`([^`\n]+)`", "\n".join(pieces[::2]))])
        for _, called, rest in CALL.findall(code):
            assert called in COMMANDS, (page.name, called, rest)
            named = set(OPTION.findall(rest.split("#")[0]))
            assert named <= options(COMMANDS[called]), (page.name, called, rest)
            seen += len(named)
    assert seen > 15


def holders() -> dict[str, object]:
    return {
        "us": us,
        "understudy": us,
        "rel": us.Release,
        **{name: getattr(us, name) for name in us.__all__ if name[0].isupper()},
    }


def has(holder: object, name: str) -> bool:
    """Whether there is such a name, field, module or folder."""
    place = ROOT / "src/understudy" / name
    return (
        hasattr(holder, name)
        or name in getattr(holder, "__dataclass_fields__", {})
        or place.exists()
        or place.with_suffix(".py").exists()
    )


def test_names_in_messages_and_pages_exist() -> None:
    known, seen = holders(), 0
    said = [
        (path.name, text) for path in SOURCES for text in texts(ast.parse(path.read_text("utf-8")))
    ]
    said += [(page.name, page.read_text("utf-8")) for page in PAGES]
    for where, text in said:
        for holder, name in NAME.findall(text):
            if (
                " " not in text
                or name in ("py", "yaml", "md")
                or (holder, name) == ("understudy", "columns")
            ):
                continue  # an identifier, a file, a block of a schema
            seen += 1
            assert has(known[holder], name), (where, f"{holder}.{name}")
    assert seen > 30


def test_mechanisms_and_pages_that_messages_name_exist() -> None:
    said = [text for path in SOURCES for text in texts(ast.parse(path.read_text("utf-8")))]
    named = {name for text in said for name in re.findall(r"mechanisms? '([a-z-]+)'", text)}
    pages = {page for text in said for page in re.findall(r"(?:docs/)?[\w-]+\.md", text)}
    assert named and named <= us.available_mechanisms().keys() | {"auto"}
    assert pages and not [
        page
        for page in pages
        if not (ROOT / page).exists() and not list((ROOT / "src").rglob(page))
    ]
