"""The ``understudy`` command: a thin shell over the public functions.

Exit codes: 0 done; 1 a bundle failed verification, an audit found a breach, or something
unexpected; 2 the request is wrong and nothing was charged; 3 the budget does not allow it; 4 the
ledger is damaged; 5 a release died and its budget is spent; 6 what was made is whole, but kept in
another place than was named; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

import understudy
from understudy.api import demo as demo_population
from understudy.api.plan import plan as make_plan
from understudy.api.release import check_columns
from understudy.api.release import release as make_release
from understudy.bundle.export import export_csv
from understudy.bundle.keeping import rescued, try_file
from understudy.bundle.release import Release, prepare_folder
from understudy.bundle.remarks import about_joining, about_small, joins_first
from understudy.bundle.verify import verify as verify_bundle
from understudy.cli.audit import audit
from understudy.cli.mechanisms import mechanisms
from understudy.cli.plain import check_there, json_option, out, remark, speaks_plainly
from understudy.cli.sample import sample
from understudy.errors import ParameterError
from understudy.learning.learn import learn as learn_rule
from understudy.learning.learned import Learned
from understudy.privacy import Budget, FileLedger, TableLedger
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.accounting.budget import exact, most_epsilon
from understudy.privacy.ledger.ledger import EARLY, Statement, describe_budget, describe_left, shown
from understudy.queries.workload import marginals
from understudy.runtime.progress import on_screen
from understudy.schema import Schema
from understudy.schema.items import ItemColumns
from understudy.schema.schema import words_of

IN_SENTENCES = ("alpha", "alpha_people", "confidence", "small_groups", "remarks", "joins_first")
MOST_REMARKS = 12


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(understudy.__version__, prog_name="understudy")
def main() -> None:
    """Differentially private stand-ins for sensitive tables."""


main.add_command(audit)
main.add_command(mechanisms)
main.add_command(sample)


@main.command()
@click.argument("data")
@click.option(
    "--schema",
    required=True,
    help=(
        "The table's public description: Table Schema (YAML or JSON), a {column: size} or an"
        " {items: ...} file."
    ),
)
@click.option("--epsilon", required=True, help="The privacy promise; smaller is more private.")
@click.option("--delta", help="Its failure mass; 1/n^2 if not given (needs replace-one).")
@click.option(
    "--workload",
    help=(
        "3-way, 3-way:64@7 (64 random ones, seed 7), 3-conjunctions:1000@7, all-conjunctions,"
        " 1-way+2-way, or a YAML file; else 2-way."
    ),
)
@click.option("--mechanism", default="auto", show_default=True, help="See 'understudy mechanisms'.")
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the mechanism; may be repeated.",
)
@click.option(
    "--rows",
    type=int,
    help="How many synthetic rows; as many as the table has (or 2^28 cells allow) if not given.",
)
@click.option(
    "--neighbours",
    default="replace-one",
    show_default=True,
    help="replace-one (n is public) or add-remove-one (n is private).",
)
@click.option("--ledger", help="The file that keeps what was spent; beside the data if not given.")
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
    _release(Path(folder), as_json, data, parameters=_parameters(parameters), **options)


def _release(folder: Path, as_json: bool, data: Any, **options: Any) -> Release:
    ours = not folder.exists()
    prepare_folder(folder)
    try:
        made = make_release(data, progress=not as_json, out=folder, **options)
    except BaseException:
        if ours:  # and still empty: nothing should look like a release that is none
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    try:
        with on_screen(not as_json) as watcher:
            watcher.stage("saving", 1)
            made.save(folder)
            watcher.step()
    # of a disk that filled up, became read-only or went away; or of memory
    except Exception as problem:
        # A folder that was refused was not written to: what is there is somebody else's.
        _clear(
            folder,
            () if isinstance(problem, ParameterError) else (*made.files, "manifest.json"),
            ours,
        )
        raise rescued(made.save, folder, "The release", problem) from None
    except KeyboardInterrupt as stop:
        stop.add_note(
            f"The release had been made and its whole budget counts as spent, but {str(folder)!r}"
            " is not a whole release."
        )
        raise
    if as_json:
        print(json.dumps(_summary(made, folder)))
        return made
    table = Table(show_header=False, box=None)
    for name, value in _summary(made, folder).items():
        if value is not None and name not in IN_SENTENCES:
            table.add_row(f"[bold]{name.replace('_', ' ')}[/bold]", escape(_brief(value)))
    out.print(table)
    _say(made)
    out.print(
        f"Open {folder / 'report.html'}; check it with: understudy verify {folder}",
        markup=False,
        soft_wrap=True,
    )
    return made


def _clear(folder: Path, written: Sequence[str], ours: bool) -> None:
    """Take away what was written of a release that could not be written whole: it takes room, and
    is none.
    """
    with contextlib.suppress(OSError):
        for name in written:
            (folder / name).unlink(missing_ok=True)
        if ours:
            folder.rmdir()


def _brief(value: Any) -> str:
    """A value for people: four digits; the exact one is in --json and in the manifest."""
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:.4g}"
        if isinstance(value, float)
        else str(value)
    )


def _say(made: Release) -> None:
    """How good it is, and what to look at."""
    out.print(str(made.certificate), style="green", markup=False, highlight=False, soft_wrap=True)
    if made.small_groups:
        out.print(about_small(made.small_groups), markup=False, highlight=False, soft_wrap=True)
    if made.remarks:
        out.print("To look at, from the released values (this costs nothing):", markup=False)
    for told in made.remarks[:MOST_REMARKS]:
        out.print(f"- {told}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if len(made.remarks) > MOST_REMARKS:
        out.print(
            f"- and {len(made.remarks) - MOST_REMARKS} more, in the report.",
            style="yellow",
            markup=False,
        )
    joining = about_joining(joins_first(made.schema))
    if joining:
        out.print(joining, markup=False, highlight=False, soft_wrap=True)


def _summary(made: Release, folder: Path) -> dict[str, Any]:
    manifest = made.manifest
    return {
        "folder": str(folder),
        "mechanism": manifest["mechanism"]["name"],
        "why": manifest["mechanism"]["why"],
        "rows": manifest["synthetic_rows"],
        "queries": manifest["workload"]["queries"],
        "epsilon": float(Fraction(manifest["budget"]["epsilon"])),
        "delta": float(Fraction(manifest["budget"]["delta"])),
        "epsilon_spent": manifest["spent"]["epsilon"],
        "conditional_on": manifest["mechanism"].get("conditional_on"),
        "neighbours": manifest["neighbours"],
        "ledger": manifest["ledger"],
        "alpha": float(made.certificate.shown),
        "alpha_people": made.certificate.people,
        "confidence": made.certificate.confidence,
        "small_groups": [asdict(group) for group in made.small_groups],
        "remarks": [asdict(told) for told in made.remarks],
        "joins_first": joins_first(made.schema),
    }


def _value(text: str) -> int | Fraction | bool | str:
    """A number, true or false, or else a word; the mechanism says whether it takes it."""
    for read in (int, lambda number: exact(number, "a parameter")):
        with contextlib.suppress(ValueError):  # which a ParameterError is, too
            return read(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def _parameters(given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or name in found:
            raise ParameterError(f"--set takes NAME=VALUE, each name once, not {text!r}.")
        found[name] = _value(value)
    return found


@main.command()
@click.option("--schema", required=True, help="The table's public description, as for 'release'.")
@click.option("--rows", type=int, required=True, help="About how many rows the table has.")
@click.option("--epsilon", required=True, help="The privacy promise; smaller is more private.")
@click.option("--delta", help="Its failure mass; 1/n^2 if not given.")
@click.option("--workload", help="As for 'release'; all 2-way marginals if not given.")
@click.option("--mechanism", default="auto", show_default=True, help="See 'understudy mechanisms'.")
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the mechanism; may be repeated.",
)
@click.option(
    "--neighbours",
    default="replace-one",
    show_default=True,
    help="replace-one (n is public) or add-remove-one (n is private).",
)
@json_option
@speaks_plainly
def plan(as_json: bool, parameters: tuple[str, ...], **options: Any) -> None:
    """Say what a release would do and how good it can be.

    Needs no data and costs nothing.
    """
    made = make_plan(options.pop("schema"), parameters=_parameters(parameters), **options)
    if as_json:
        print(json.dumps(asdict(made)))
        return
    table = Table(show_header=False, box=None)

    def row(name: str, value: str) -> None:
        table.add_row(name, escape(value))

    row("mechanism", f"{made.mechanism}: {made.why}")
    row("how", made.how)
    for name, value in made.parameters.items():
        row(f"  {name}", _brief(value))
    row("queries", f"{made.queries:,}")
    row("budget", f"rho {made.rho:.4g} (delta {made.delta:.3g})")
    if made.noise is not None and made.largest_error is not None:
        rows = options["rows"]
        row(
            "noise of a measured count",
            f"about {made.noise * rows:,.0f} people ({_share(made.noise)})",
        )
        largest = (
            f"about {made.largest_error * rows:,.0f} of {rows:,} people"
            f" ({_share(made.largest_error)})"
        )
        row("largest error to expect", f"{largest}; a rule of thumb, the release has a certificate")
    if made.seconds is not None and made.memory is not None:
        row("CPU time and memory", f"about {made.seconds:.0f} s and {made.memory / 1e9:.1f} GB")
    out.print(table)
    for warning in made.warnings:
        out.print(
            f"Warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True
        )


def _share(share: float) -> str:
    return "more than all rows" if share > 1 else f"{share:.2%} of all rows"


@main.command()
@click.argument("table")
@click.option("--schema", required=True, help="The table's public description, as for 'release'.")
@click.option(
    "--label",
    required=True,
    help="The yes/no question to answer: 'income = >50K', 'age >= 40', or a yes/no column.",
)
@click.option("--epsilon", required=True, help="The privacy promise; smaller is more private.")
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
@click.option("--ledger", help="The file that keeps what was spent; beside the data if not given.")
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
    made = learn_rule(
        table, attributes=attributes or None, signed=not unsigned, progress=not as_json, **options
    )
    if file is not None:
        try:
            _save_rule(made, Path(file))
        except Exception as problem:
            raise rescued(made.save, Path(file), "The rule", problem) from None
    if as_json:
        print(json.dumps({**made.to_dict(), "file": file}))
        return
    shown = _learnt(made)
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


def _save_rule(made: Learned, place: Path) -> None:
    """Write a rule to a new file, whole or not at all; what somebody put there meanwhile is theirs."""
    try:
        place.open("xb").close()
    except OSError as problem:
        raise ParameterError(
            f"The rule cannot be written to {str(place)!r} ({problem.strerror})."
        ) from None
    try:
        made.save(place)
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


def _learnt(made: Learned) -> dict[str, str]:
    """A rule for a reader."""
    manifest = made.manifest
    promise = manifest["guarantee"]
    told = manifest["mistakes"]
    delta = Fraction(manifest["guarantee"]["delta"])
    also = f", delta {float(delta):.3g}" if delta else ""
    wrong = "not told (--report 0)"
    if told is not None:
        wrong = (
            f"{told['share']:.2%} of {manifest['rows']:,} rows; {told['confidence']:.0%} interval"
            f" {told['low']:.2%} to {told['high']:.2%}"
        )
    return {
        manifest["label"]: made.words,
        "wrong": wrong,
        "guarantee": (
            f"epsilon {float(Fraction(promise['epsilon'])):.6g}{also} for one row"
            f" ({promise['neighbours']}), {promise['reads']}"
        ),
        "spent": (
            f"rho {float(Fraction(manifest['spent']['rho'])):.6g}{also}, in the ledger"
            f" {manifest['ledger']}"
        ),
    }


@main.command()
@click.option(
    "--out",
    "folder",
    default="understudy-demo",
    show_default=True,
    help="A new folder for the fictional table and its release.",
)
@click.option("--epsilon", default="1", show_default=True, help="The privacy promise.")
@click.option("--mechanism", default="auto", show_default=True, help="See 'understudy mechanisms'.")
@json_option
@speaks_plainly
def demo(folder: str, epsilon: str, mechanism: str, as_json: bool) -> None:
    """Release a stand-in for 20,000 fictional people."""
    place = Path(folder)
    prepare_folder(place)
    table, described = demo_population.write(place / "sensitive")
    if not as_json:
        out.print(
            f"Wrote {demo_population.PEOPLE:,} fictional people to {table} and what is public about"
            f" them to {described}.",
            markup=False,
        )
    _release(
        place / "release",
        as_json,
        str(table),
        schema=str(described),
        epsilon=epsilon,
        mechanism=mechanism,
    )


@main.command()
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


@main.command()
@click.argument("folder")
@click.option("--csv", "file", required=True, help="A new file for the rows.")
@click.option("--raw", is_flag=True, help="Leave text that a spreadsheet would run as it is.")
@json_option
@speaks_plainly
def export(folder: str, file: str, raw: bool, as_json: bool) -> None:
    """Write the rows of a release folder as CSV.

    Text in FOLDER that a spreadsheet would run gets a single quote in front.
    """
    check_there(folder)
    rows = export_csv(folder, file, raw=raw)
    if as_json:
        print(json.dumps({"file": file, "rows": rows, "raw": raw}))
        return
    out.print(f"Wrote {rows:,} rows to {file}.", markup=False, soft_wrap=True)


@main.command()
@click.argument("path")
@click.option(
    "--limit-epsilon", help="Set the most that may ever be spent, as epsilon (with --limit-delta)."
)
@click.option("--limit-delta", help="The delta of the limit.")
@click.option(
    "--delta", help="Say what is left for a release at this delta; the limit's if not given."
)
@click.option(
    "--add-rho",
    help=(
        "Write down a charge that the ledger lacks, with --why: it can add to what is spent, never"
        " take from it."
    ),
)
@click.option("--why", help="What the added charge was for.")
@click.option(
    "--new-table",
    is_flag=True,
    help="Say that PATH is another table than the one its inode was known for.",
)
@json_option
@speaks_plainly
def budget(
    path: str,
    limit_epsilon: str | None,
    limit_delta: str | None,
    delta: str | None,
    add_rho: str | None,
    why: str | None,
    new_table: bool,
    as_json: bool,
) -> None:
    """Show what was spent on a dataset. PATH is a ledger, or the data whose ledgers are wanted."""
    if (
        not path.endswith(".jsonl")
        and not os.path.exists(path)
        and not any(c in path for c in "*?[")
    ):
        raise ParameterError(f"There is no file {path!r}; give a data file, a glob, or a ledger.")
    table = None if path.endswith(".jsonl") else TableLedger.at(path, remark)
    ledger = table or FileLedger(path)
    if new_table:
        if table is None:
            raise ParameterError("--new-table is said of a data file, not of a ledger.")
        table.set_apart()
    if (limit_epsilon is None) != (limit_delta is None):
        raise ParameterError("A limit needs both --limit-epsilon and --limit-delta.")
    if limit_epsilon is not None:
        ledger.set_limit(Budget.of(epsilon=limit_epsilon, delta=limit_delta))
    if (add_rho is None) != (not why):
        raise ParameterError("A charge is added with both --add-rho and --why.")
    if add_rho is not None and why:
        ledger.add(why, exact(add_rho, "rho"))
    ledgers = [FileLedger(path)] if table is None else table.ledgers()
    # A table that was just said to be another one need not have a ledger.
    states = [
        (Statement() if new_table and not os.path.exists(one.path) else one.read(), one)
        for one in ledgers
    ]
    asked = None if delta is None else Budget.of(epsilon=1, delta=delta).delta
    if as_json:
        first, *others = [_facts(*one, asked) for one in states]
        print(json.dumps({**first, "others": others}))
        return
    for state, one in states:
        if len(states) > 1:
            out.print(f"Ledger {shown(str(one.path))}:", markup=False, soft_wrap=True)
        _show(state, asked)
    if _share_a_charge([state for state, _ in states]):
        out.print(
            "A release of several files is charged to each of their ledgers: the same line in two"
            " ledgers is one release.",
            markup=False,
        )


def _share_a_charge(states: Sequence[Statement]) -> bool:
    """Whether two ledgers hold what may be one charge; each has a clock time of its own."""
    seen = [{(charge.label, charge.events) for charge in state.charges} for state in states]
    return any(one & other for i, one in enumerate(seen) for other in seen[:i])


def _facts(state: Statement, ledger: FileLedger, asked: Fraction | None) -> dict[str, Any]:
    delta, total, limit = _reading(state)
    charges = [
        {
            "time": c.time,
            "label": c.label,
            "rho": float(c.cost.rho),
            "curve": c.cost.curve is not None,
            "ended": c.ended,
        }
        for c in state.charges
    ]
    facts = {
        "ledger": str(ledger.path),
        "neighbours": state.neighbours,
        "limit": limit,
        "charges": charges,
    }
    shown = float(total) if total is not None else None
    left = None
    if state.left is not None:
        left = {
            "epsilon": float(most_epsilon(state.left, asked or delta) or 0),
            "delta": float(asked or delta),
        }
    return {
        **facts,
        "rho": float(state.spent.rho),
        "epsilon": shown,
        "delta": float(delta),
        "left": left,
        "notes": state.notes,
    }


def _reading(state: Statement) -> tuple[Fraction, Fraction | None, str | None]:
    """(the delta to read a ledger at, its epsilon there, its limit in words)."""
    delta = state.limit.delta if state.limit and state.limit.delta else Fraction(1, 10**9)
    total = state.spent.epsilon_at(delta)
    limit = describe_budget(state.limit) if state.limit else None
    return delta, total, limit


def _show(state: Statement, asked: Fraction | None) -> None:
    delta, total, limit = _reading(state)
    table = Table(box=None)
    for heading in ("when", "what", "rho", "how it ended"):
        table.add_column(heading)
    for charge in state.charges:
        ended = (
            "begun and not finished"
            if charge.ended is None
            else "ended early"
            if charge.ended == EARLY
            else charge.ended
        )
        table.add_row(_when(charge.time), escape(charge.label), _rho(charge.cost), escape(ended))
    out.print(table if state.charges else "Nothing was spent yet.")
    if any(charge.ended is None for charge in state.charges):
        out.print(
            "What has begun and not finished is still running, or was killed; it counts in full"
            " either way.",
            markup=False,
        )
    epsilon = f"epsilon {float(total):.6g}" if total is not None else "no finite epsilon"
    if total is None and state.spent.delta >= delta:
        epsilon = (
            f"no epsilon: charges of delta {float(state.spent.delta):.3g} in all were made (a"
            " larger --limit-delta would count them),"
        )
    out.print(
        f"Spent in all: {epsilon} at delta {float(delta):.3g} (rho {_rho(state.spent)},"
        f" {state.neighbours or 'no charges yet'}).",
        markup=False,
    )
    if state.charges:
        out.print(
            "A release names its epsilon at its own delta; here all are read at this one, and a"
            " smaller delta makes epsilon larger."
        )
    out.print(
        (
            f"Limit: {limit}."
            if limit
            else "Limit: none; set one with --limit-epsilon and --limit-delta."
        ),
        markup=False,
    )
    if state.left is not None:
        left = describe_left(state.left, asked or delta)
        out.print(
            f"Left: about {left}; a release at a larger delta gets less (see --delta).",
            markup=False,
        )
    for note in state.notes:
        out.print(f"Note: {note}.", markup=False)


def _rho(cost: Cost) -> str:
    return f"{float(cost.rho):.6g}" + (" and a curve" if cost.curve is not None else "")


def _when(seconds: float) -> str:
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # a clock that was far off
        return f"{seconds:.0f} s after 1970"


@main.group()
def schema() -> None:
    """Work with schema files."""


@schema.command()
@click.argument("path")
@click.argument("data", required=False)
@json_option
@speaks_plainly
def check(path: str, data: str | None, as_json: bool) -> None:
    """Check a schema file, and that a table has its columns.

    PATH is the schema; DATA, if given, is the table. No row is read.
    """
    described = Schema.load(path)
    if data is not None:
        check_columns(data, described)
    if described.pairs is not None:
        _show_items(described, described.pairs, data is not None, as_json)
        return
    pairs = marginals(described, k=min(2, len(described)))
    if as_json:
        columns = [
            {
                "name": c.name,
                **words_of(c),
                "kind": c.kind,
                "codes": c.size,
                "missing": c.missing,
                "other": c.other,
            }
            for c in described
        ]
        print(
            json.dumps(
                {
                    **words_of(described),
                    "columns": columns,
                    "domain_size": str(described.domain_size),
                    "sha256": described.digest,
                }
            )
        )
        return
    _show_columns(described)
    out.print(
        f"{len(described)} columns, {described.domain_size:,} possible records, {pairs.size:,}"
        " cells in all 2-way marginals.",
        markup=False,
    )
    if any(not column.missing and not column.other for column in described):
        out.print(
            "Declare missing: true or other: true for a column where such cells occur.",
            markup=False,
        )
    out.print(
        "The schema is fine" + (", and the table has its columns." if data is not None else "."),
        style="green",
        markup=False,
    )


def _show_columns(described: Schema) -> None:
    """One table, which also says where cells go that are no value of their column."""
    _show_words(described)
    titled = any(column.title for column in described)
    table = Table(box=None)
    for heading in (
        "column",
        *(["title"] if titled else []),
        "kind",
        "codes",
        "first",
        "last",
        "missing",
        "other",
    ):
        table.add_column(heading, no_wrap=heading == "kind", overflow="fold")
    for column in described:
        labels = (
            escape(column.label(code))
            for code in (0, column.values - 1, column.missing_code, column.other_code)
        )
        title = [escape(column.title)] if titled else []
        table.add_row(escape(column.name), *title, column.kind, f"{column.size:,}", *labels)
    out.print(table)
    out.print(
        "The last two columns: what missing cells, and cells of no value, count as.", markup=False
    )


def _show_words(described: Schema) -> None:
    for words in words_of(described).values():
        out.print(" ".join(words.split()), markup=False, highlight=False)


def _show_items(described: Schema, items: ItemColumns, checked: bool, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "items": len(items),
                    "row": items.row,
                    "item": items.item,
                    "density": items.density,
                    "sha256": described.digest,
                }
            )
        )
        return
    _show_words(described)
    out.print(
        f"{len(items):,} items, in pairs ({items.row}, {items.item}). A pair whose item is not"
        " listed is ignored.",
        markup=False,
    )
    out.print(
        "The schema is fine" + (", and the table has these columns." if checked else "."),
        style="green",
        markup=False,
    )
