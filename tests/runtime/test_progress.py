"""What is seen of long work: on a terminal, in a pipe, in a notebook; and that it moves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.api import demo
from understudy.runtime import progress
from understudy.runtime.watching import NoWatcher

SOURCE = Path(us.__file__).parents[1]
STAGES = ["counting rows", "measuring and fitting", "making rows", "certifying"]
RELEASE = """
import tempfile, numpy as np, understudy as us
table = np.random.default_rng(0).integers(0, 3, size=(500, 2))
us.release(table, schema={{"a": 3, "b": 3}}, epsilon=1, ledger=tempfile.mkdtemp() + "/ledger"{more})
"""


class Heard(NoWatcher):
    """Remembers the share of each stage that was done whenever it was told something."""

    def __init__(self) -> None:
        self.stages: dict[str, list[float]] = {}
        self.steps = self.done = 0

    def stage(self, name: str, steps: int) -> None:
        self.steps, self.done, self._now = steps, 0, self.stages.setdefault(name, [0.0])

    def step(self, note: str = "") -> None:
        self.done += 1
        self._now.append(self.done / self.steps)

    def part(self, share: float) -> None:
        assert 0 <= share <= 1
        self._now.append((self.done + share) / self.steps)


def small(**settings: Any) -> us.Release:
    table = np.random.default_rng(0).integers(0, 3, size=(500, 2))
    return us.release(table, schema={"a": 3, "b": 3}, epsilon=1, **settings)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return demo.write(tmp_path_factory.mktemp("people"))


@pytest.mark.parametrize("mechanism", ["arp", "gaussian", "matrix", "projection"])
def test_no_step_is_long(mechanism: str, people: tuple[Path, Path]) -> None:
    """The stages where the time goes are told in small pieces that only rise; most of the rows' fit
    used to be one of two steps.
    """
    heard = Heard()
    us.release(
        str(people[0]),
        schema=people[1],
        epsilon=1,
        mechanism=mechanism,
        seed=1,
        watcher=heard,
        ledger=us.FileLedger(people[0].parent / mechanism),
    )
    assert list(heard.stages) == STAGES
    shares = heard.stages["measuring and fitting"]
    assert shares == sorted(shares) and shares[-1] == 1
    # What comes after the last look at the table; projection has one round, and may end its fit
    # early in it.
    fit = [share for share in shares if share >= (0.3 if mechanism == "projection" else 0.625)]
    # the last may be long: a fit that is good enough ends early
    assert len(fit) >= 12 and max(np.diff(fit)[:-1]) <= 0.05
    if mechanism != "projection":  # which draws its rows
        assert max(np.diff(heard.stages["making rows"])) <= 0.1


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_what_is_told_does_not_depend_on_rows(neighbours: str) -> None:
    """Neighbours are told the same, and under add-remove-one so is a table of another size."""

    def told(rows: int, first: int) -> dict[str, list[float]]:
        heard = Heard()
        table = np.random.default_rng(0).integers(0, 3, size=(rows, 2))
        table[0] = first
        us.release(
            table,
            schema={"a": 3, "b": 3},
            epsilon=1,
            delta=1e-6,
            rows=700,
            neighbours=neighbours,
            watcher=heard,
            mechanism="gaussian",
        )
        return heard.stages

    assert told(3000, 0) == told(3000, 2)
    if neighbours == "add-remove-one":
        assert told(3000, 0) == told(2000, 1)


def test_a_watcher_without_parts_is_told_whole_steps() -> None:
    class Old:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def stage(self, name: str, steps: int) -> None:
            self.heard.append(name)

        def step(self, note: str = "") -> None:
            self.heard.append("step")

    old = Old()
    small(watcher=old)  # type: ignore[arg-type]
    assert [word for word in old.heard if word != "step"] == STAGES and old.heard.count("step") >= 3


@pytest.mark.parametrize(
    "wrong", [{"progress": "yes"}, {"progress": 1}, {"progress": True, "watcher": NoWatcher()}]
)
def test_a_wrong_progress_costs_nothing(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(us.ParameterError, match="progress"):
        small(ledger=tmp_path / "book.jsonl", **wrong)
    assert not (tmp_path / "book.jsonl").exists()


def test_piped_python_is_silent_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    small()
    small(progress=False)
    assert capfd.readouterr() == ("", "")
    small(progress=True)
    out, err = capfd.readouterr()
    assert (
        out == ""
        and [line.removesuffix(" …") for line in err.splitlines() if "compiling" not in line]
        == STAGES
    )


def python(code: str, **more: Any) -> list[str]:
    return [sys.executable, "-c", code.format(**more)]


def on_a_terminal(words: list[str], cache: Path) -> tuple[str, str]:
    """(standard output, what a terminal shows of standard error)."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "NUMBA_CACHE_DIR": str(cache),
        "TERM": "xterm",
        "COLUMNS": "120",
    }
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as process:
        os.close(theirs)
        shown = bytearray()
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
            while piece := os.read(ours, 65536):
                shown += piece
        assert process.stdout is not None
        said = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0, shown.decode()
    return said, shown.decode()


def test_on_a_terminal_there_are_bars_and_compiling_says_so_once(tmp_path: Path) -> None:
    said, cold = on_a_terminal(python(RELEASE, more=""), tmp_path)
    assert said == "" and all(stage in cold for stage in STAGES) and "100%" in cold
    assert "compiling" in cold and "on first use" in cold
    _, warm = on_a_terminal(python(RELEASE, more=""), tmp_path)
    assert "certifying" in warm and "compiling" not in warm
    assert on_a_terminal(python(RELEASE, more=", progress=False"), tmp_path) == ("", "")


def test_the_command_says_one_line_a_stage_into_a_pipe(
    people: tuple[Path, Path], tmp_path: Path
) -> None:
    words = [
        sys.executable,
        "-m",
        "understudy",
        "release",
        str(people[0]),
        "--schema",
        str(people[1]),
        "--epsilon",
        "1",
        "--mechanism",
    ]
    words += ["independent", "--ledger", str(tmp_path / "book"), "--out"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    plain = subprocess.run(
        [*words, str(tmp_path / "a")], env=environment, capture_output=True, text=True, check=True
    )
    lines = [line for line in plain.stderr.splitlines() if "compiling" not in line]
    assert lines == [f"{stage} …" for stage in (*STAGES, "saving")]
    quiet = subprocess.run(
        [*words, str(tmp_path / "b"), "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert quiet.stderr == ""


class Page:
    """The output of a cell, as a notebook's front end would hold it."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, page: dict[str, str], *, raw: bool, display_id: bool) -> Page:
        assert raw and display_id and not self.shown, "displayed once, then updated"
        self.shown.append(page)
        return self

    def update(self, page: dict[str, str], *, raw: bool) -> None:
        assert raw and self.shown
        self.shown.append(page)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    page, ipython, display = Page(), ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = page.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    yield page


def test_in_a_notebook_there_are_bars_on_the_page(
    notebook: Page, capfd: pytest.CaptureFixture[str]
) -> None:
    small()
    last = notebook.shown[-1]
    assert all(stage in last["text/html"] and stage in last["text/plain"] for stage in STAGES)
    assert last["text/html"].count("<progress") >= len(STAGES) and len(notebook.shown) > len(STAGES)
    assert all("100%" in line for line in last["text/plain"].splitlines())
    assert capfd.readouterr() == ("", "")
    before = len(notebook.shown)
    small(progress=False)
    assert len(notebook.shown) == before


def test_names_are_escaped_on_the_page(notebook: Page) -> None:
    with progress.on_screen() as watcher:
        watcher.stage("<b>stage", 2)
        watcher.step("<script>")
        watcher.step("<script>")
    assert (
        "<script>" not in notebook.shown[-1]["text/html"]
        and "&lt;script&gt;" in notebook.shown[-1]["text/html"]
    )


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not progress._in_notebook()
