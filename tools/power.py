"""Which tests still pass when what they call does nothing?

    python -m tools.power [--only WORDS] [TEST ...]

Each function of ``HOLLOW`` in turn is emptied, and the tests run (all quick ones, or those named).
A test that called it and passes all the same has asserted nothing about it: it is listed, and the
exit code is 1, unless ``EXCUSED`` says why it may.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Functions whose answer is a judgement, or whose work is the point of calling them, and the answer
# that says nothing.
HOLLOW: tuple[tuple[str, Any], ...] = (
    ("understudy.bundle.verify:verify", []),
    ("understudy.bundle.release:Release.load", None),
    ("understudy.bundle.export:export_csv", None),
    ("understudy.bundle.attached_audit:check_attachment", (True, "")),
    ("understudy.checks:check_mechanism", None),
    ("understudy.checks:check_query_class", None),
    ("understudy.checks:check_source", None),
    ("understudy.checks:check_refuses_overspending", None),
    ("understudy.audit.fence:side_doors", []),
    ("understudy.learning.learned:Learned.load", None),
    ("understudy.privacy.learners:certified", True),
    ("understudy.privacy.meter:Account.charge", None),
    ("understudy.privacy.meter:Meter.ask", None),
    ("understudy.schema.schema:Schema.load", None),
    ("understudy.queries.workload:Workload.load", None),
)
# (function, test): why the test may pass without it.
EXCUSED: dict[tuple[str, str], str] = {
    (
        "understudy.checks:check_mechanism",
        "test_mechanism",
    ): "the kit is the assertion; bad mechanisms are seen to fail it",
    (
        "understudy.checks:check_query_class",
        "test_query_class",
    ): "the kit is the assertion; a wrong sensitivity is seen to fail it",
    (
        "understudy.checks:check_source",
        "test_source",
    ): "the kit is the assertion; a source that miscounts is seen to fail it",
}


# ---------------------------------------------------------------------- in the child: a plugin of pytest

running: list[str] = []  # the test that is under way
called: set[str] = set()
passed: set[str] = set()


answer: list[Any] = [None]


def emptied(*_: Any, **__: Any) -> Any:
    import tools.power  # it runs with the names of the function that it stands for

    tools.power.called.update(tools.power.running)
    return tools.power.answer[0]


def hollow(place: str, says: Any) -> None:
    """Empty a function, whoever has imported it already."""
    answer[:] = [says]
    room, _, name = place.partition(":")
    target: Any = importlib.import_module(room)
    for attribute in name.split("."):
        target = getattr(target, attribute)
    function: FunctionType = getattr(target, "__func__", target)
    function.__code__, function.__defaults__, function.__kwdefaults__ = emptied.__code__, None, None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hollow", type=int, help="which function to empty")
    parser.addoption(
        "--hollow-says", default="", help="where to write the tests that called it and passed"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out here")


def pytest_collection_finish(session: pytest.Session) -> None:
    hollow(*HOLLOW[session.config.getoption("--hollow")])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running[:] = [item.nodeid]
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    record = {"called": sorted(called), "idle": sorted(called & passed)}
    Path(session.config.getoption("--hollow-says")).write_text(json.dumps(record), encoding="utf-8")


# ---------------------------------------------------------------------- in the parent


def idle_without(number: int, tests: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """(the tests that called a function, those of them that pass when it does nothing)."""
    with tempfile.NamedTemporaryFile(suffix=".json") as says:
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-m", "not slow", "-p", "no:cacheprovider",
            "-c", str(ROOT / "pyproject.toml"),  # also for tests that are kept elsewhere
            "-p", "tools.power", f"--hollow={number}", f"--hollow-says={says.name}", *tests,
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(
                f"the tests could not be run without {HOLLOW[number][0]}:"
                f" {done.stdout[-500:]}{done.stderr[-500:]}"
            )
        record = json.loads(Path(says.name).read_text(encoding="utf-8"))
    return record["called"], record["idle"]


def excuse(place: str, test: str) -> str:
    return EXCUSED.get((place, test.partition("[")[0].rpartition("::")[2]), "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="functions whose names hold this")
    parser.add_argument(
        "tests", nargs="*", help="as pytest takes them; all quick ones if none are named"
    )
    asked, missed = parser.parse_args(), 0
    for number, (place, says) in enumerate(HOLLOW):
        if asked.only in place:
            calls, idle = idle_without(number, asked.tests)
            unexcused = [test for test in idle if not excuse(place, test)]
            print(
                f"{place} -> {says}: {len(calls)} tests call it, {len(unexcused)} pass without it",
                *unexcused,
                sep="\n  ",
                flush=True,
            )
            missed += len(unexcused)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
