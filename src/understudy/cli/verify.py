"""``understudy verify``: whether a release folder holds together."""

from __future__ import annotations

import json
import sys

import click
from rich.markup import escape
from rich.table import Table

from understudy.bundle.verify import verify as verify_bundle
from understudy.cli.console import check_there, out, speaks_plainly
from understudy.cli.options import json_option
from understudy.runtime.progress import on_screen


@click.command()
@click.argument("folder")
@json_option
@speaks_plainly
def verify(folder: str, as_json: bool) -> None:
    """Check a release folder without the sensitive table.

    Files, accounting, rows, answers, certificate and report of FOLDER must fit each other.
    """
    check_there(folder)
    with on_screen(False if as_json else None) as watcher:
        watcher.stage("verifying", 1)
        checks = verify_bundle(folder)
        watcher.step()
    sound = all(check.holds for check in checks)
    if as_json:
        print(json.dumps({"sound": sound, "checks": [vars(check) for check in checks]}))
    else:
        table = Table(box=None, show_header=False)
        for check in checks:
            mark = (
                "[red]NO[/red]"
                if not check.holds
                else "[green]ok[/green]"
                if check.applies
                else "–"
            )
            table.add_row(mark, check.claim, f"[dim]{escape(check.detail)}[/dim]")
        out.print(table)
        out.print(
            "The release is sound." if sound else "The release does NOT hold together.",
            style="green" if sound else "bold red",
        )
    sys.exit(0 if sound else 1)
