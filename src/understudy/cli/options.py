"""Options that several commands have, and how a mechanism's parameters are read."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import Any

import click

from understudy.errors import ParameterError
from understudy.privacy.accounting.budget import exact

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)
schema_option = click.option(
    "--schema", required=True, help="The table's public description, as for 'release'."
)
epsilon_option = click.option(
    "--epsilon", required=True, help="The privacy promise; smaller is more private."
)
mechanism_option = click.option(
    "--mechanism", default="auto", show_default=True, help="See 'understudy mechanisms'."
)
parameters_option = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the mechanism; may be repeated.",
)
label_option = click.option(
    "--label", help="The column that models will predict; part of the budget goes to it."
)
neighbours_option = click.option(
    "--neighbours",
    default="replace-one",
    show_default=True,
    help="replace-one (n is public) or add-remove-one (n is private).",
)
accountant_option = click.option(
    "--accountant",
    help=(
        "gaussian (counts Gaussian noise alone, and needs less of it) or rho (counts every"
        " mechanism); the better one that the table's limit counts by if not given."
    ),
)
ledger_option = click.option(
    "--ledger", help="The file that keeps what was spent; beside the data if not given."
)


def read_parameters(texts: tuple[str, ...]) -> dict[str, Any]:
    """What ``--set`` was given, by name."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name in values:
            raise ParameterError(f"--set takes NAME=VALUE, each name once, not {text!r}.")
        values[name] = _value(value)
    return values


def _value(text: str) -> int | Fraction | bool | str:
    """A number, true or false, or else a word; the mechanism says whether it takes it."""
    for read in (int, lambda number: exact(number, "a parameter")):
        with contextlib.suppress(ValueError):  # which a ParameterError is, too
            return read(text)
    return {"true": True, "false": False}.get(text.lower(), text)
