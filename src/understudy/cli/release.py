"""``understudy release``: a stand-in for a sensitive table, saved to a folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from understudy.api.release import release as make_release
from understudy.bundle.manifest import MANIFEST_FILE
from understudy.bundle.release import Release, prepare_folder
from understudy.bundle.remarks import about_joining, about_small, joins_first
from understudy.bundle.saving import rescued
from understudy.cli.console import in_brief, out, speaks_plainly
from understudy.cli.options import (
    accountant_option,
    epsilon_option,
    json_option,
    label_option,
    ledger_option,
    mechanism_option,
    neighbours_option,
    parameters_option,
    read_parameters,
)
from understudy.errors import ParameterError
from understudy.runtime.progress import on_screen

# of the summary: said below the table in words, not as rows of it
IN_SENTENCES = ("alpha", "alpha_people", "confidence", "small_groups", "remarks", "joins_first")
MOST_REMARKS = 12  # about half a screen; all of them are in the report


@click.command()
@click.argument("data")
@click.option(
    "--schema",
    required=True,
    help=(
        "The table's public description: Table Schema (YAML or JSON), a {column: size} or an"
        " {items: ...} file."
    ),
)
@epsilon_option
@click.option("--delta", help="Its failure mass; 1/n^2 if not given (needs replace-one).")
@click.option(
    "--workload",
    help=(
        "3-way, 3-way:64@7 (64 random ones, seed 7), 3-conjunctions:1000@7, all-conjunctions,"
        " prefixes:age, 1-way+2-way, or a YAML file; else 2-way."
    ),
)
@mechanism_option
@parameters_option
@label_option
@click.option(
    "--rows",
    type=int,
    help="How many synthetic rows; as many as the table has (or 2^28 cells allow) if not given.",
)
@neighbours_option
@accountant_option
@ledger_option
@click.option("--seed", type=int, help="Seed of the public randomness; noise has none.")
@click.option("--out", "folder", required=True, help="A new folder for the release.")
@json_option
@speaks_plainly
def release(
    folder: str,
    as_json: bool,
    data: str,
    parameters: tuple[str, ...],
    **options: Any,
) -> None:
    """Release a stand-in for a sensitive table.

    DATA is a CSV or Parquet file, or a glob in quotes.
    """
    release_to(Path(folder), as_json, data, parameters=read_parameters(parameters), **options)


def release_to(folder: Path, as_json: bool, data: Any, **options: Any) -> None:
    """Make a release, save it, and say how good it is."""
    ours = not folder.exists()
    prepare_folder(folder)
    try:
        result = make_release(data, progress=not as_json, out=folder, **options)
    except BaseException:
        if ours:  # and still empty: nothing should look like a release that is none
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    try:
        with on_screen(not as_json) as watcher:
            watcher.stage("saving", 1)
            result.save(folder)
            watcher.step()
    # of a disk that filled up, became read-only or went away; or of memory
    except Exception as problem:
        # A folder that was refused was not written to: what is there is somebody else's.
        _clear(
            folder,
            () if isinstance(problem, ParameterError) else (*result.files, MANIFEST_FILE),
            ours,
        )
        raise rescued(result.save, folder, "The release", problem) from None
    except KeyboardInterrupt as stop:
        stop.add_note(
            f"The release had been made and its whole budget counts as spent, but {str(folder)!r}"
            " is not a whole release."
        )
        raise
    if as_json:
        print(json.dumps(_summary(result, folder)))
        return
    table = Table(show_header=False, box=None)
    for name, value in _summary(result, folder).items():
        if value is not None and name not in IN_SENTENCES:
            table.add_row(f"[bold]{name.replace('_', ' ')}[/bold]", escape(in_brief(value)))
    out.print(table)
    _say(result)
    out.print(
        f"Open {folder / 'report.html'}; check it with: understudy verify {folder}",
        markup=False,
        soft_wrap=True,
    )


def _clear(folder: Path, written: Sequence[str], ours: bool) -> None:
    """Take away what was written of a release that could not be written whole: it takes room, and
    is none.
    """
    with contextlib.suppress(OSError):
        for name in written:
            (folder / name).unlink(missing_ok=True)
        if ours:
            folder.rmdir()


def _say(result: Release) -> None:
    """How good it is, and what to look at."""
    out.print(str(result.certificate), style="green", markup=False, highlight=False, soft_wrap=True)
    if result.small_groups:
        out.print(about_small(result.small_groups), markup=False, highlight=False, soft_wrap=True)
    if result.remarks:
        out.print("To look at, from the released values (this costs nothing):", markup=False)
    for remark in result.remarks[:MOST_REMARKS]:
        out.print(f"- {remark}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if len(result.remarks) > MOST_REMARKS:
        out.print(
            f"- and {len(result.remarks) - MOST_REMARKS} more, in the report.",
            style="yellow",
            markup=False,
        )
    joining = about_joining(joins_first(result.schema))
    if joining:
        out.print(joining, markup=False, highlight=False, soft_wrap=True)


def _summary(result: Release, folder: Path) -> dict[str, Any]:
    facts = result.facts
    epsilon, delta = facts.promise
    return {
        "folder": str(folder),
        "mechanism": facts.mechanism.name,
        "why": facts.mechanism.why,
        "rows": facts.synthetic_rows,
        "queries": facts.workload.queries,
        "epsilon": epsilon,
        "delta": delta,
        "epsilon_spent": facts.spent.epsilon,
        "accountant": str(facts.budget.accountant),
        "conditional_on": facts.mechanism.conditional_on,
        "neighbours": str(facts.neighbours),
        "ledger": facts.ledger,
        "alpha": float(result.certificate.shown),
        "alpha_people": result.certificate.people,
        "confidence": result.certificate.confidence,
        "small_groups": [asdict(group) for group in result.small_groups],
        "remarks": [asdict(remark) for remark in result.remarks],
        "joins_first": joins_first(result.schema),
    }
