"""The ``understudy`` command: a thin shell over the public functions.

Exit codes: 0 done; 1 a bundle failed verification, an audit found a breach, or something unexpected; 2 the request is wrong
and nothing was charged; 3 the budget does not allow it; 4 the ledger is damaged; 5 a release died and
its budget is spent; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

import understudy
from understudy import demo as demo_population
from understudy.bundle.export import export_csv
from understudy.bundle.release import Release, prepare_folder
from understudy.bundle.verify import verify as verify_bundle
from understudy.cli.audit import audit
from understudy.cli.plain import err, json_option, out, speaks_plainly
from understudy.cli.progress import RichWatcher
from understudy.cli.sample import sample
from understudy.errors import BundleError, ParameterError, ReleaseFailed
from understudy.front_door import check_columns
from understudy.front_door import release as make_release
from understudy.learning.learn import learn as learn_rule
from understudy.learning.learned import Learned
from understudy.mechanisms.base import available_mechanisms
from understudy.plan import plan as make_plan
from understudy.privacy import Budget, FileLedger
from understudy.privacy.accountant import Cost
from understudy.privacy.budget import exact
from understudy.privacy.ledger import EARLY, Statement, describe_budget
from understudy.queries.workload import Workload, marginals
from understudy.schema import Moment, Number, Schema
from understudy.schema.items import ItemColumns


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(understudy.__version__, prog_name="understudy")
def main() -> None:
    """Differentially private stand-ins for sensitive tables."""


main.add_command(audit)
main.add_command(sample)


@main.command()
@click.argument("data")
@click.option(
    "--schema", required=True, help="The table's public description: Table Schema (YAML or JSON), a {column: size} or an {items: ...} file."
)
@click.option("--epsilon", required=True, help="The privacy promise; smaller is more private.")
@click.option("--delta", help="Its failure mass; 1/n^2 if not given (needs replace-one).")
@click.option(
    "--workload",
    help="3-way, 3-way:64@7 (64 random ones, seed 7), 3-conjunctions:1000@7, all-conjunctions, 1-way+2-way, or a YAML file; else 2-way.",
)
@click.option("--mechanism", default="auto", show_default=True, help="See 'understudy mechanisms'.")
@click.option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the mechanism; may be repeated.")
@click.option("--rows", type=int, help="How many synthetic rows; as many as the table has (or 2^28 cells allow) if not given.")
@click.option("--neighbours", default="replace-one", show_default=True, help="replace-one (n is public) or add-remove-one (n is private).")
@click.option("--ledger", help="The file that keeps what was spent; beside the data if not given.")
@click.option("--seed", type=int, help="Seed of the public randomness; noise has none.")
@click.option("--out", "folder", required=True, help="A new folder for the release.")
@json_option
@speaks_plainly
def release(folder: str, as_json: bool, data: str, schema: str, workload: str | None, parameters: tuple[str, ...], **options: Any) -> None:
    """Release a stand-in for DATA: a CSV or Parquet file, or a glob in quotes."""
    described = Schema.load(schema)
    asked = Workload.parse(workload, described) if workload is not None else None
    _release(Path(folder), as_json, data, schema=described, workload=asked, parameters=_parameters(parameters), **options)


def _release(folder: Path, as_json: bool, data: Any, **options: Any) -> Release:
    ours = not folder.exists()
    prepare_folder(folder)
    try:
        with RichWatcher(err, quiet=as_json) as watcher:
            made = make_release(data, watcher=watcher, **options)
    except BaseException:
        if ours:  # and still empty: nothing should look like a release that is none
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    try:
        made.save(folder)
    except BundleError as problem:
        raise ReleaseFailed(f"{problem} The release had been made, so its whole budget counts as spent.") from None
    except KeyboardInterrupt as stop:
        stop.add_note(f"The release had been made and its whole budget counts as spent, but {str(folder)!r} is not a whole release.")
        raise
    if as_json:
        print(json.dumps(_summary(made, folder)))
        return made
    table = Table(show_header=False, box=None)
    for name, value in _summary(made, folder).items():
        if value is not None:
            table.add_row(f"[bold]{name}[/bold]", escape(str(value)))
    out.print(table)
    out.print(str(made.certificate), style="green", markup=False)
    out.print(f"Open {folder / 'report.html'}; check it with: understudy verify {folder}", markup=False, soft_wrap=True)
    return made


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
        "confidence": made.certificate.confidence,
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
@click.option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the mechanism; may be repeated.")
@click.option("--neighbours", default="replace-one", show_default=True, help="replace-one (n is public) or add-remove-one (n is private).")
@json_option
@speaks_plainly
def plan(as_json: bool, parameters: tuple[str, ...], **options: Any) -> None:
    """Say what a release would do and how good it can be. Needs no data and costs nothing."""
    made = make_plan(options.pop("schema"), parameters=_parameters(parameters), **options)
    if as_json:
        print(json.dumps(asdict(made)))
        return
    table = Table(show_header=False, box=None)

    def row(name: str, value: str) -> None:
        table.add_row(name, escape(value))

    row("mechanism", f"{made.mechanism}: {made.why}")
    if made.how:
        row("how", made.how)
    row("queries", f"{made.queries:,}")
    row("budget", f"rho {made.rho:.4g} (delta {made.delta:.3g})")
    if made.noise is not None and made.largest_error is not None:
        row("noise of a measured count", f"{made.noise:.4f} of all rows")
        row("largest error to expect", f"about {made.largest_error:.4f} (a rule of thumb; the release has a certificate)")
    if made.seconds is not None and made.memory is not None:
        row("CPU time and memory", f"about {made.seconds:.0f} s and {made.memory / 1e9:.1f} GB")
    out.print(table)
    for warning in made.warnings:
        out.print(f"Warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)


@main.command()
@click.argument("table")
@click.option("--schema", required=True, help="The table's public description, as for 'release'.")
@click.option("--label", required=True, help="The yes/no question to answer: 'income = >50K', 'age >= 40', or a yes/no column.")
@click.option("--epsilon", required=True, help="The privacy promise; smaller is more private.")
@click.option("--attribute", "attributes", multiple=True, help="A question that rules may ask; may be repeated. Default: every value.")
@click.option("--rules", default="conjunctions", show_default=True, help="Or disjunctions, parities, halfspaces, decision-lists.")
@click.option("--width", type=int, help="At most so many literals, or questions of a list, in a rule.")
@click.option("--unsigned", is_flag=True, help="Without negations.")
@click.option("--method", default="exponential", show_default=True, help="Or rspm (conditional on a solver), prsma (toy sizes).")
@click.option(
    "--certifier",
    default="auto",
    show_default=True,
    help="For rspm and prsma: listing, counting, cpsat or auto.",
)
@click.option("--delta", help="For prsma.")
@click.option("--report", default="0.1", show_default=True, help="The share of epsilon for telling how often the rule is wrong.")
@click.option("--ledger", help="The file that keeps what was spent; beside the data if not given.")
@click.option("--out", "file", help="A new file for the rule (JSON).")
@json_option
@speaks_plainly
def learn(table: str, unsigned: bool, attributes: tuple[str, ...], file: str | None, as_json: bool, **options: Any) -> None:
    """Learn a rule that answers a yes/no question about the rows of TABLE."""
    if file is not None:
        _prepare_file(Path(file))
    with err.status("Learning …"):  # seen on a terminal only
        made = learn_rule(table, attributes=attributes or None, signed=not unsigned, **options)
    if file is not None:
        try:
            made.save(file)
        except BundleError as problem:
            raise ReleaseFailed(f"{problem} The rule had been learnt, so its whole budget counts as spent.") from None
    if as_json:
        print(json.dumps({**made.to_dict(), "file": file}))
        return
    shown = _learnt(made)
    for name, value in shown.items():
        out.print(f"[bold]{escape(name.ljust(max(map(len, shown))))}[/bold]  {escape(value)}", soft_wrap=True, highlight=False)
    if file is not None:
        out.print(f"Wrote {file}; in Python, understudy.Learned.load({file!r}).predict(table) applies it.", markup=False, soft_wrap=True)


def _prepare_file(place: Path) -> None:
    """Refuse a place that cannot be written before a budget is spent on what could not be saved."""
    if place.exists():
        raise ParameterError(f"The file {str(place)!r} exists; name a new one.")
    try:
        place.touch()
        place.unlink()
    except OSError as problem:
        raise ParameterError(f"The file {str(place)!r} cannot be written ({problem.strerror}); name another one.") from None


def _learnt(made: Learned) -> dict[str, str]:
    """A rule for a reader."""
    manifest = made.manifest
    promise, told, delta = manifest["guarantee"], manifest["mistakes"], Fraction(manifest["guarantee"]["delta"])
    also = f", delta {float(delta):.3g}" if delta else ""
    wrong = "not told (--report 0)"
    if told is not None:
        wrong = (
            f"{told['share']:.2%} of {manifest['rows']:,} rows; {told['confidence']:.0%} interval {told['low']:.2%} to {told['high']:.2%}"
        )
    return {
        manifest["label"]: made.words,
        "wrong": wrong,
        "guarantee": f"epsilon {float(Fraction(promise['epsilon'])):.6g}{also} for one row ({promise['neighbours']}), {promise['reads']}",
        "spent": f"rho {float(Fraction(manifest['spent']['rho'])):.6g}{also}, in the ledger {manifest['ledger']}",
    }


@main.command()
@click.option("--out", "folder", default="understudy-demo", show_default=True, help="A new folder for the fictional table and its release.")
@click.option("--epsilon", default="1", show_default=True, help="The privacy promise.")
@click.option("--mechanism", default="auto", show_default=True, help="See 'understudy mechanisms'.")
@json_option
@speaks_plainly
def demo(folder: str, epsilon: str, mechanism: str, as_json: bool) -> None:
    """Release a stand-in for a fictional population of 20,000 people."""
    place = Path(folder)
    prepare_folder(place)
    table, described = demo_population.write(place / "sensitive")
    if not as_json:
        out.print(
            f"Wrote {demo_population.PEOPLE:,} fictional people to {table} and what is public about them to {described}.", markup=False
        )
    _release(place / "release", as_json, str(table), schema=str(described), epsilon=epsilon, mechanism=mechanism)


@main.command()
@click.argument("folder")
@json_option
@speaks_plainly
def verify(folder: str, as_json: bool) -> None:
    """Check a release FOLDER: files, accounting, rows, answers, certificate. Needs no sensitive data."""
    checks = verify_bundle(folder)
    sound = all(check.holds for check in checks)
    if as_json:
        print(json.dumps({"sound": sound, "checks": [vars(check) for check in checks]}))
    else:
        table = Table(box=None, show_header=False)
        for check in checks:
            table.add_row("[green]ok[/green]" if check.holds else "[red]NO[/red]", check.claim, f"[dim]{escape(check.detail)}[/dim]")
        out.print(table)
        out.print("The release is sound." if sound else "The release does NOT hold together.", style="green" if sound else "bold red")
    sys.exit(0 if sound else 1)


@main.command()
@click.argument("folder")
@click.option("--csv", "file", required=True, help="A new file for the rows.")
@click.option("--raw", is_flag=True, help="Leave text that a spreadsheet would run as it is.")
@json_option
@speaks_plainly
def export(folder: str, file: str, raw: bool, as_json: bool) -> None:
    """Write the rows of a release FOLDER as CSV; text that a spreadsheet would run gets a single quote in front."""
    rows = export_csv(folder, file, raw=raw)
    if as_json:
        print(json.dumps({"file": file, "rows": rows, "raw": raw}))
        return
    out.print(f"Wrote {rows:,} rows to {file}.", markup=False, soft_wrap=True)


@main.command()
@json_option
@speaks_plainly
def mechanisms(as_json: bool) -> None:
    """List the mechanisms."""
    found = available_mechanisms()
    if as_json:
        facts = [(name, kind.summary, kind.reference, [f.name for f in fields(kind)]) for name, kind in found.items()]
        print(json.dumps([dict(zip(("name", "summary", "reference", "parameters"), fact, strict=True)) for fact in facts]))
        return
    table = Table(box=None)
    for heading in ("name", "what it does", "--set", "reference"):
        table.add_column(heading, no_wrap=heading == "name")  # a name that is cut cannot be asked for
    table.add_row("auto", "the best of these for the schema and workload; the default", "", "")
    for name, kind in found.items():
        table.add_row(name, kind.summary, ", ".join(f.name for f in fields(kind)), kind.reference)
    out.print(table)


@main.command()
@click.argument("path")
@click.option("--limit-epsilon", help="Set the most that may ever be spent, as epsilon (with --limit-delta).")
@click.option("--limit-delta", help="The delta of the limit.")
@click.option("--add-rho", help="Write down a charge that the ledger lacks, with --why: it can add to what is spent, never take from it.")
@click.option("--why", help="What the added charge was for.")
@json_option
@speaks_plainly
def budget(path: str, limit_epsilon: str | None, limit_delta: str | None, add_rho: str | None, why: str | None, as_json: bool) -> None:
    """Show what was spent on a dataset. PATH is a ledger, or the data file it is kept beside."""
    if not path.endswith(".jsonl") and not Path(path).exists() and not any(c in path for c in "*?["):
        raise ParameterError(f"There is no file {path!r}; give a data file, a glob, or a ledger.")
    ledger = FileLedger(path) if path.endswith(".jsonl") else FileLedger.beside(path)
    if (limit_epsilon is None) != (limit_delta is None):
        raise ParameterError("A limit needs both --limit-epsilon and --limit-delta.")
    if limit_epsilon is not None:
        ledger.set_limit(Budget.of(epsilon=limit_epsilon, delta=limit_delta))
    if (add_rho is None) != (not why):
        raise ParameterError("A charge is added with both --add-rho and --why.")
    if add_rho is not None and why:
        ledger.add(why, exact(add_rho, "rho"))
    _show(ledger.read(), ledger, as_json)


def _show(state: Statement, ledger: FileLedger, as_json: bool) -> None:
    delta = state.limit.delta if state.limit and state.limit.delta else Fraction(1, 10**9)
    total = state.spent.epsilon_at(delta)
    limit = describe_budget(state.limit) if state.limit else None
    if as_json:
        charges = [
            {"time": c.time, "label": c.label, "rho": float(c.cost.rho), "curve": c.cost.curve is not None, "ended": c.ended}
            for c in state.charges
        ]
        shown = float(total) if total is not None else None
        facts = {"ledger": str(ledger.path), "neighbours": state.neighbours, "limit": limit, "charges": charges}
        print(json.dumps({**facts, "rho": float(state.spent.rho), "epsilon": shown, "delta": float(delta), "notes": state.notes}))
        return
    table = Table(box=None)
    for heading in ("when", "what", "rho", "how it ended"):
        table.add_column(heading)
    for charge in state.charges:
        ended = "begun and not finished" if charge.ended is None else "ended early" if charge.ended == EARLY else charge.ended
        table.add_row(_when(charge.time), escape(charge.label), _rho(charge.cost), escape(ended))
    out.print(table)
    if any(charge.ended is None for charge in state.charges):
        out.print("What has begun and not finished is still running, or was killed; it counts in full either way.", markup=False)
    epsilon = f"epsilon {float(total):.6g}" if total is not None else "no finite epsilon"
    if total is None and state.spent.delta >= delta:
        epsilon = (
            f"no epsilon, because charges with a delta of {float(state.spent.delta):.3g} in all were made (ask with a larger --delta),"
        )
    out.print(
        f"Spent in all: {epsilon} at delta {float(delta):.3g} (rho {_rho(state.spent)}, {state.neighbours or 'no charges yet'}).",
        markup=False,
    )
    out.print(f"Limit: {limit}." if limit else "Limit: none; set one with --limit-epsilon and --limit-delta.", markup=False)
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
    """Check the schema file PATH and, with DATA, that the table has its columns (no row is read)."""
    described = Schema.load(path)
    if data is not None:
        check_columns(data, described)
    if described.pairs is not None:
        _show_items(described, described.pairs, data is not None, as_json)
        return
    pairs = marginals(described, k=min(2, len(described)))
    if as_json:
        columns = [{"name": c.name, "kind": c.kind, "codes": c.size, "missing": c.missing, "other": c.other} for c in described]
        print(json.dumps({"columns": columns, "domain_size": str(described.domain_size), "sha256": described.digest}))
        return
    table = Table(box=None)
    for heading in ("column", "kind", "codes", "first", "last"):
        table.add_column(heading)
    for column in described:
        labels = (escape(column.label(code)) for code in (0, column.size - 1))
        table.add_row(escape(column.name), column.kind, f"{column.size:,}", *labels)
    out.print(table)
    out.print(
        f"{len(described)} columns, {described.domain_size:,} possible records, {pairs.size:,} cells in all 2-way marginals.", markup=False
    )
    for column in described:
        if not column.missing and not column.other and not isinstance(column, Number | Moment):
            out.print(f"Note: cells of {column.name!r} that are missing or not listed will count as {column.label(0)!r}.", markup=False)
        elif not column.missing and not column.other:
            out.print(f"Note: cells of {column.name!r} that are missing or unreadable will count as {column.label(0)!r}.", markup=False)
    if any(not column.missing and not column.other for column in described):
        out.print("Declare missing: true or other: true for a column where such cells occur.", markup=False)
    out.print("The schema is fine" + (", and the table has its columns." if data is not None else "."), style="green", markup=False)


def _show_items(described: Schema, items: ItemColumns, checked: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"items": len(items), "row": items.row, "item": items.item, "density": items.density, "sha256": described.digest}))
        return
    out.print(f"{len(items):,} items, in pairs ({items.row}, {items.item}). A pair whose item is not listed is ignored.", markup=False)
    out.print("The schema is fine" + (", and the table has these columns." if checked else "."), style="green", markup=False)
