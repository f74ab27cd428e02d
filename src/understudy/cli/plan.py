"""``understudy plan``: what a release would do and cost, from public facts alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from understudy.api.plan import plan as make_plan
from understudy.cli.console import in_brief, out, speaks_plainly
from understudy.cli.options import (
    accountant_option,
    epsilon_option,
    json_option,
    label_option,
    mechanism_option,
    neighbours_option,
    parameters_option,
    read_parameters,
    schema_option,
)


@click.command()
@schema_option
@click.option("--rows", type=int, required=True, help="About how many rows the table has.")
@epsilon_option
@click.option("--delta", help="Its failure mass; 1/n^2 if not given.")
@click.option("--workload", help="As for 'release'; all 2-way marginals if not given.")
@mechanism_option
@parameters_option
@label_option
@neighbours_option
@accountant_option
@json_option
@speaks_plainly
def plan(as_json: bool, parameters: tuple[str, ...], **options: Any) -> None:
    """Say what a release would do and how good it can be.

    Needs no data and costs nothing.
    """
    result = make_plan(options.pop("schema"), parameters=read_parameters(parameters), **options)
    if as_json:
        print(json.dumps(asdict(result)))
        return
    table = Table(show_header=False, box=None)

    def row(name: str, value: str) -> None:
        table.add_row(name, escape(value))

    row("mechanism", f"{result.mechanism}: {result.why}")
    row("how", result.how)
    if result.details:
        row("values", result.details)
    for name, value in result.parameters.items():
        row(f"  {name}", in_brief(value))
    row("queries", f"{result.queries:,}")
    row("budget", f"rho {result.rho:.4g} (delta {result.delta:.3g})")
    row("accountant", result.accountant)
    if result.noise is not None and result.largest_error is not None:
        rows = options["rows"]
        row(
            "noise of a measured count",
            f"about {result.noise * rows:,.0f} people ({_share(result.noise)})",
        )
        largest = (
            f"about {result.largest_error * rows:,.0f} of {rows:,} people"
            f" ({_share(result.largest_error)})"
        )
        row("largest error to expect", f"{largest}; a rule of thumb, the release has a certificate")
    if result.seconds is not None and result.memory is not None:
        row("CPU time and memory", f"about {result.seconds:.0f} s and {result.memory / 1e9:.1f} GB")
    for i, words in enumerate(result.rules):
        row("" if i else "every row keeps", words)
    out.print(table)
    for warning in result.warnings:
        out.print(
            f"Warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True
        )


def _share(share: float) -> str:
    return "more than all rows" if share > 1 else f"{share:.2%} of all rows"
