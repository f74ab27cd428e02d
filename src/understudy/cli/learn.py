"""``understudy learn``: a private rule that answers a yes/no question."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from understudy.bundle.saving import rescued, try_file
from understudy.cli.console import out, speaks_plainly
from understudy.cli.options import epsilon_option, json_option, ledger_option, schema_option
from understudy.errors import ParameterError
from understudy.learning.learn import learn as learn_rule
from understudy.learning.learned import Learned


@click.command()
@click.argument("table")
@schema_option
@click.option(
    "--label",
    required=True,
    help="The yes/no question to answer: 'income = >50K', 'age >= 40', or a yes/no column.",
)
@epsilon_option
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    help="A question that rules may ask; may be repeated. Default: every value.",
)
@click.option(
    "--rules",
    default="conjunctions",
    show_default=True,
    help="Or disjunctions, parities, halfspaces, decision-lists.",
)
@click.option(
    "--width", type=int, help="At most so many literals, or questions of a list, in a rule."
)
@click.option("--unsigned", is_flag=True, help="Without negations.")
@click.option(
    "--method",
    default="exponential",
    show_default=True,
    help="Or rspm (conditional on a solver), prsma (toy sizes).",
)
@click.option(
    "--certifier",
    default="auto",
    show_default=True,
    help="For rspm and prsma: listing, counting, cpsat or auto.",
)
@click.option("--delta", help="For prsma.")
@click.option(
    "--report",
    default="0.1",
    show_default=True,
    help="The share of epsilon for telling how often the rule is wrong.",
)
@ledger_option
@click.option("--out", "file", help="A new file for the rule (JSON).")
@json_option
@speaks_plainly
def learn(
    table: str,
    unsigned: bool,
    attributes: tuple[str, ...],
    file: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn a rule that answers a yes/no question about a table.

    TABLE is a CSV or Parquet file, or a glob in quotes.
    """
    if file is not None:
        _prepare_file(Path(file))
    learned = learn_rule(
        table, attributes=attributes or None, signed=not unsigned, progress=not as_json, **options
    )
    if file is not None:
        try:
            _save_rule(learned, Path(file))
        except Exception as problem:
            raise rescued(learned.save, Path(file), "The rule", problem) from None
    if as_json:
        print(json.dumps({**learned.to_dict(), "file": file}))
        return
    shown = _learnt(learned)
    for name, value in shown.items():
        out.print(
            f"[bold]{escape(name.ljust(max(map(len, shown))))}[/bold]  {escape(value)}",
            soft_wrap=True,
            highlight=False,
        )
    if file is not None:
        out.print(
            f"Wrote {file}; in Python, understudy.Learned.load({file!r}).predict(table)"
            " applies it.",
            markup=False,
            soft_wrap=True,
        )


def _save_rule(learned: Learned, place: Path) -> None:
    """Write a rule to a new file, whole or not at all; what somebody put there meanwhile is theirs."""
    try:
        place.open("xb").close()
    except OSError as problem:
        raise ParameterError(
            f"The rule cannot be written to {str(place)!r} ({problem.strerror})."
        ) from None
    try:
        learned.save(place)
    except BaseException:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
        raise


def _prepare_file(place: Path) -> None:
    """Refuse a place that cannot be written before a budget is spent on what could not be saved."""
    if os.path.lexists(place):
        raise ParameterError(f"The file {str(place)!r} exists; name a new one.")
    try:
        try_file(place)
    except OSError as problem:
        raise ParameterError(
            f"The file {str(place)!r} cannot be written ({problem.strerror}); name another one."
        ) from None


def _learnt(learned: Learned) -> dict[str, str]:
    """A rule for a reader."""
    facts = learned.facts
    promise, mistakes = facts.guarantee, facts.mistakes
    also = f", delta {float(promise.delta):.3g}" if promise.delta else ""
    wrong = "not told (--report 0)"
    if mistakes is not None:
        wrong = (
            f"{mistakes.share:.2%} of {facts.rows:,} rows; {mistakes.confidence:.0%} interval"
            f" {mistakes.low:.2%} to {mistakes.high:.2%}"
        )
    return {
        facts.label: learned.words,
        "wrong": wrong,
        "guarantee": (
            f"epsilon {float(promise.epsilon):.6g}{also} for one row"
            f" ({promise.neighbours}), {promise.reads}"
        ),
        "spent": f"rho {float(facts.spent.rho):.6g}{also}, in the ledger {facts.ledger}",
    }
