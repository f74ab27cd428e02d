"""The command: ``python -m bench list``, ``run SUITE``, ``report``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import grid, results, tables
from bench.builds import Build
from bench.clock import in_a_child
from bench.grid import Line, Point, Suite


def setting(text: str) -> tuple[str, Any]:
    """``work=60`` as a name and a value; what is not JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measurements of Understudy: see them, make them, show them.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--out",
        type=Path,
        default=results.OUT,
        help="folder of the results; bench/out if not given",
    )
    shared.add_argument(
        "--data", type=Path, help=f"folder of the comparison data; or set {tables.VARIABLE}"
    )

    shown = commands.add_parser(
        "list", parents=[shared], help="every suite, or every measurement of one"
    )
    shown.add_argument("suite", nargs="?")

    run = commands.add_parser(
        "run", parents=[shared], help="measure what the results do not have yet"
    )
    run.add_argument("suite")
    words = (
        "measurements with all of these words in a part, data set, workload, mechanism or setting"
    )
    run.add_argument("--only", nargs="+", default=[], metavar="WORD", help=words)
    run.add_argument("--workload", nargs="+")
    run.add_argument("--mechanism", nargs="+", help="such as arp, or 'rap rounds=5'")
    run.add_argument("--epsilon", nargs="+", type=float)
    run.add_argument("--relation", nargs="+", choices=["replace-one", "add-remove-one"])
    run.add_argument("--seeds", type=int, help="measurements of each point")
    run.add_argument(
        "--set",
        nargs="+",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="settings of a suite, by name",
    )
    run.add_argument(
        "--against",
        nargs="+",
        type=Build.of,
        default=[],
        metavar="NAME=FOLDER",
        help="other checkouts, measured in turn with this one; the report has ratios",
    )
    run.add_argument("--limit", type=int, help="CPU seconds allowed to each measurement")
    run.add_argument(
        "--run",
        help="go on with the run of this name; without it, with that of this commit and machine",
    )
    run.add_argument("--again", action="store_true", help="measure again what the run already has")
    run.add_argument("--retry", action="store_true", help="measure again what failed")

    report = commands.add_parser(
        "report", parents=[shared], help="tables from the results, and figures if asked for"
    )
    report.add_argument("suite", nargs="*")
    report.add_argument("--run", help="the run to show; the latest if not given")
    report.add_argument("--markdown", action="store_true", help="tables for a page")
    report.add_argument(
        "--figures", type=Path, metavar="FOLDER", help="draw into this folder; needs matplotlib"
    )
    return parser.parse_args(argv)


def wanted(name: str) -> Suite:
    suites = grid.suites()
    if name not in suites:
        sys.exit(f"There is no suite {name!r}. There are: {', '.join(suites)}.")
    return suites[name]


def points(suite: Suite, asked: argparse.Namespace) -> list[Point]:
    """Of the grid as it was asked for; every --only must be met."""
    axes = ("workload", "mechanism", "epsilon", "relation", "seeds", "limit")
    changes = {name: getattr(asked, name) for name in axes}
    builds = ["", *(build.label for build in asked.against)]
    grids = [replace(one.asked(changes, dict(asked.set)), builds=builds) for one in suite.grids]
    every = {point.key: point for one in grids for point in one.points()}
    return [point for point in every.values() if all(point.matches(word) for word in asked.only)]


def show_list(asked: argparse.Namespace) -> None:
    if asked.suite:
        for one in wanted(asked.suite).grids:
            for point in one.points():
                print(point.words)
        return
    suites = grid.suites()
    width = max(map(len, suites))
    for name, suite in suites.items():
        count = sum(len(list(one.points())) for one in suite.grids)
        print(f"{name:<{width}}  {count:>4} measurements  {suite.description}")
    lacking = [name for name in tables.FILES if tables.lacks(name)]
    here = [name for name in tables.FILES if name not in lacking]
    print(
        f"\nComparison data that is here: {', '.join(here) or 'none'}."
        + (f" Not here: {', '.join(lacking)}." if lacking else "")
    )


def run(asked: argparse.Namespace) -> None:
    suite = wanted(asked.suite)
    every = points(suite, asked)
    if not every:
        shows = f"'python -m bench list {suite.name}' shows them all"
        sys.exit(f"No measurement of {suite.name} is like that; {shows}.")
    reasons = {reason for point in every if (reason := tables.lacks(point.data))}
    for reason in sorted(reasons):
        print(f"left out: {reason}")
    here = [point for point in every if not tables.lacks(point.data)]
    session = results.Session(asked.out, suite.name, asked.run or results.this_run())
    print(f"run {session.run}: {len(here)} measurements asked for", flush=True)
    others = {build.label: build for build in asked.against}
    with tempfile.TemporaryDirectory() as folder:

        def measure(point: Point) -> list[Line]:
            if point.build not in others:
                return in_a_child(suite.name, point, Path(folder))
            build = others[point.build]
            lines = in_a_child(suite.name, point, Path(folder), build.sources)
            return [{**line, "commit": build.commit} for line in lines]

        try:
            count = results.go_on(session, here, measure, again=asked.again, retry=asked.retry)
        except KeyboardInterrupt:
            sys.exit("Stopped. The same command goes on from here.")
    print(f"{count} measured, {len(here) - count} were there already.")
    print(f"Show them: python -m bench report {suite.name}")


def show_report(asked: argparse.Namespace) -> None:
    from bench import report

    names = asked.suite or [name for name in grid.suites() if (asked.out / name).exists()]
    if not names:
        sys.exit(f"There are no results in {asked.out}; make some with: python -m bench run SUITE")
    for name in names:
        suite = wanted(name)
        rows = report.of_run(results.read(asked.out, name), asked.run)
        if not rows:
            which = f"no results of {name}" + (f" in a run {asked.run!r}" if asked.run else "")
            sys.exit(f"There are {which}; make some with: python -m bench run {name}")
        report.show(suite, rows, markdown=asked.markdown)
        if asked.figures and suite.panels:
            from bench import figures

            print(f"drawn: {figures.draw(suite, rows, asked.figures)}")


def main(argv: Sequence[str] | None = None) -> None:
    asked = arguments(argv)
    if asked.data is not None:
        # so that children look there as well
        os.environ[tables.VARIABLE] = str(asked.data.resolve())
    {"list": show_list, "run": run, "report": show_report}[asked.command](asked)


if __name__ == "__main__":
    main()
