"""``understudy audit``: whether this installed build keeps its privacy claims, on invented tables.
Needs no data, costs nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from understudy.audit.rows import Row, breaches
from understudy.audit.running import plan, run
from understudy.bundle.attached_audit import attach, check_can_attach, statement
from understudy.cli.console import out, speaks_plainly
from understudy.cli.options import json_option
from understudy.privacy.trusted import HANDED_EXACT_VALUES
from understudy.privacy.verbs import VERBS
from understudy.queries.workload import query_classes
from understudy.runtime.progress import on_screen

PROCESSES = 2  # a core each on the two that everything here is run on


@click.command()
@click.option("--mechanism", help="Only this one, and not the verbs that all of them share.")
@click.option(
    "--quick",
    is_flag=True,
    help="Fewer pairs and draws: a few minutes instead of about half an hour.",
)
@click.option(
    "--attach",
    "folder",
    help="Write the result into a release FOLDER of this same version; 'verify' shows it.",
)
@json_option
@speaks_plainly
def audit(mechanism: str | None, quick: bool, folder: str | None, as_json: bool) -> None:
    """Try to break this build's privacy claims on invented tables.

    Replays on neighbours, exact laws, many draws. Needs no data and costs nothing.
    """
    if folder is not None:
        check_can_attach(Path(folder), mechanism)
    rows = _run(mechanism, quick, quiet=as_json)
    report = statement([row.to_dict() for row in rows], quick=quick, mechanism=mechanism)
    if folder is not None:
        attach(Path(folder), report)
    holds = not breaches(rows)
    if as_json:
        print(json.dumps({"held": holds, **report, **closed_lists()}))
    else:
        _show(rows)
        for words in _in_words(closed_lists()):
            out.print(words, markup=False, soft_wrap=True)
        out.print(
            _verdict(rows), style="green" if holds else "bold red", markup=False, soft_wrap=True
        )
        if folder is not None:
            out.print(
                f"Attached to {folder}; it is a statement about this software, not about that"
                " release's rows.",
                markup=False,
                soft_wrap=True,
            )
    sys.exit(0 if holds else 1)


def closed_lists() -> dict[str, list[str]]:
    """What the meter can be asked, and which code outside the room is handed exact values."""
    return {
        "verbs": [f"{verb.__module__}.{verb.__qualname__}" for verb in VERBS],
        "handed_exact_values": list(HANDED_EXACT_VALUES),
        "query_classes": [
            f"{kind.__module__}.{kind.__qualname__}" for kind in query_classes().values()
        ],
    }


def _in_words(lists: dict[str, list[str]]) -> list[str]:
    names = {key: ", ".join(one.rpartition(".")[2] for one in some) for key, some in lists.items()}
    return [
        f"The meter can be asked {len(lists['verbs'])} things: {names['verbs']}.",
        f"{len(lists['handed_exact_values'])} types outside the privacy room are handed exact"
        f" values: {names['handed_exact_values']}.",
        f"Rows are counted by {len(lists['query_classes'])} query classes:"
        f" {names['query_classes']}.",
    ]


def _run(mechanism: str | None, quick: bool, quiet: bool) -> list[Row]:
    """All rows, in the order of the plan."""
    checks = plan(mechanism, quick)
    results: dict[int, Row] = {}
    with on_screen(not quiet) as watcher:
        watcher.stage("auditing", len(checks))
        for place, row in run(mechanism, quick, min(PROCESSES, os.cpu_count() or 1)):
            results[place] = row
            watcher.step(f"{row.kind} {escape(row.subject)}")
    return [results[place] for place in sorted(results)]


def _show(rows: Sequence[Row]) -> None:
    """One line for each mechanism or verb and kind of check: the closest of its rows, or all that
    are broken.
    """
    table = Table(box=None)
    for heading in ("subject", "check", "checks", "runs", "claimed", "found at most", "unit", ""):
        table.add_column(heading)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.subject, row.kind), []).append(row)
    for (subject, kind), group in groups.items():
        closest = max(group, key=lambda row: row.observed / row.claimed if row.claimed else 0.0)
        for i, row in enumerate(breaches(group) or [closest]):
            named = (
                (escape(subject), kind, str(len(group)), f"{sum(r.runs for r in group):,}")
                if i == 0
                else ("", "", "", "")
            )
            verdict = (
                "[green]held[/green]"
                if row.holds
                else (
                    f"[red]BREACH[/red] {escape(row.relation)}, {escape(row.pair)}:"
                    f" {escape(row.detail)}"
                )
            )
            table.add_row(*named, f"{row.claimed:.4g}", f"{row.observed:.4g}", row.unit, verdict)
    out.print(table)


def _verdict(rows: Sequence[Row]) -> str:
    broken = breaches(rows)
    if broken:
        subjects = ", ".join(dict.fromkeys(row.subject for row in broken))
        return (
            f"{len(broken)} of {len(rows)} checks found a breach: {subjects}. Do not release with"
            " this build; please report it."
        )
    return (
        f"All {len(rows)} checks held. That is evidence about this software, not a proof; the"
        " proofs are in understudy/privacy/proofs."
    )
