"""Faults of everything around a release: processes killed, power lost, disks full, clocks wrong,
ledgers damaged, solvers broken, Ctrl-C.

Whatever happens, the ledger never counts less than was granted, nothing is looked at before its
charge is on disk, and what is not a whole release is not taken for one.
"""

from __future__ import annotations

import errno
import fcntl
import inspect
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import understudy as us
from support.bundles import unsound
from support.disk import Did, Recorder, crashes
from support.faulty_solvers import CERTIFIER_FAULTS, ORACLE_FAULTS, certifier_with, oracle_with
from understudy.bundle.release import Release
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.errors import (
    BundleError,
    LedgerDamaged,
    NotCertified,
    ParameterError,
    ReleaseFailed,
    UnderstudyError,
)
from understudy.learning.learn import learn
from understudy.mechanisms.papers.dualquery import DualQuery
from understudy.mechanisms.papers.fem import Fem
from understudy.mechanisms.papers.sepfem import SepFem
from understudy.oracles import outside
from understudy.oracles.milp import Milp
from understudy.privacy import Budget, FileLedger, TableLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger import chain as chain_module
from understudy.privacy.ledger import ledger as ledger_module
from understudy.privacy.ledger import locking, registry, table_ledger
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.meter import Meter
from understudy.queries.base import Neighbours
from understudy.rules import certifiers
from understudy.runtime import paths
from understudy.sources.delimited import DelimitedSource
from understudy.sources.duckdb import DuckDBSource

Note = Callable[[str, int, str], None]
REPLACE = Neighbours.REPLACE_ONE
ONE = (ev.Reservation(what="release", rho=Fraction(1, 400)),)
QUICK = {"epsilon": 1, "delta": 1e-6, "mechanism": "mwem", "parameters": {"rounds": 3}}
PRICE = Budget.of(epsilon=1, delta=1e-6).rho  # of every release here
SECRET = "s3cr3t-cell"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pd.DataFrame(small_table(), columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.json").write_text(json.dumps({"a": 3, "b": 4, "c": 2}))
    return tmp_path / "t.csv"


def ledger_of(table: Path) -> FileLedger:
    return FileLedger.beside(table)


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "300"}).invoke(main, list(words))


def words_of(
    table: Path, out: str = "out", mechanism: str = "mwem", **parameters: int
) -> list[str]:
    settings = [f"--set={name}={value}" for name, value in (parameters or {"rounds": 3}).items()]
    schema, folder = str(table.with_name("schema.json")), str(table.with_name(out))
    return [
        "release", str(table), "--schema", schema, "--epsilon", "1", "--delta", "1e-6", "--out", folder, "--mechanism", mechanism, *settings
    ]  # fmt: skip


def is_whole(folder: Path) -> bool:
    """Whether a folder is taken for a release; then everything about it must hold."""
    try:
        Release.load(folder)
    except BundleError:
        return False
    assert unsound(folder) == []
    return True


def lock_is_free(path: Path) -> bool:
    if not path.exists():
        return True
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


# ---------------------------------------------------------------------- kill -9


class Nursery:
    """A process that makes children to kill; see support/killable.py."""

    def __init__(self) -> None:
        script = str(Path(__file__).parents[1] / "support" / "killable.py")
        # The tests' own path first, so that a checkout is tested and not what is installed.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def ask(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.endswith("\n"), "the nursery itself died"
        return line.strip()

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    started = Nursery()
    yield started
    started.close()


@pytest.mark.parametrize(
    ("instants", "seed"),
    [(20, 0), *(pytest.param(50, seed, marks=pytest.mark.slow) for seed in range(1, 5))],
)
def test_killed_at_any_instant_of_a_release_the_ledger_has_what_was_looked_at(
    instants: int, seed: int, table: Path, nursery: Nursery, battery: Note
) -> None:
    """Half of the instants by the clock, over the whole life; half by the line, inside the ledger
    and the writer of bundles.
    """
    ledger, chance = ledger_of(table), random.Random(seed)
    nursery.ask("run", table, ledger.path, table.with_name("warm"), 0)
    assert nursery.answer().endswith("PB")
    start = time.monotonic()
    nursery.ask("run", table, ledger.path, table.with_name("first"), 0)
    said, life = nursery.answer(), time.monotonic() - start
    assert said.startswith("SRL") and said.endswith("PB") and is_whole(table.with_name("first"))
    granted, stages = 2, Counter[str]()
    for i in range(instants):
        folder = table.with_name(f"out{i}")
        mode = "clock" if i % 2 else f"line:{chance.randrange(1, LINES)}"
        nursery.ask(mode, table, ledger.path, folder, chance.random() * life * 1.05)
        said = nursery.answer()
        assert "E" not in said and "X" not in said
        stages[said[-1:] or "S"] += 1
        granted += "R" in said
        before = len(ledger.read().charges)
        assert before >= granted and ("L" not in said or "R" in said)
        granted = before  # written and killed before it could say so: spent for ever, too
        assert is_whole(folder) or "B" not in said
    state = ledger.read()
    assert state.spent.rho == granted * PRICE and all(
        (stages["S"], stages["L"], stages["P"] + stages["B"])
    ), stages
    unfinished = sum(charge.ended is None for charge in state.charges)
    assert 0 < unfinished < granted
    us.release(str(table), schema=SMALL, **QUICK, ledger=ledger).save(table.with_name("after"))
    assert ledger.read().spent.rho == (granted + 1) * PRICE and is_whole(table.with_name("after"))
    ledger.set_limit(Budget.zcdp((granted + 1) * PRICE))
    with pytest.raises(us.BudgetRefused):
        us.release(str(table), schema=SMALL, **QUICK, ledger=ledger)
    shown = " ".join(run("budget", str(table)).stdout.split())
    assert "begun and not finished" in shown and "counts in full" in shown and "made" in shown
    where = ", ".join(f"{stages[s]} {name}" for s, name in zip("SRLPB", STAGES, strict=True))
    battery("kill -9", instants, f"the ledger never under-counted ({where})")


LINES = 190  # that write the ledger or the bundle, in a release that is not killed: about as many
STAGES = ("before a charge", "just after it", "in the play", "writing the bundle", "done")


def started(words: list[str]) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "COLUMNS": "300",
    }
    code = "import sys; from understudy.cli.main import main; main(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=heeds_ctrl_c,
    )


def heeds_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to SIGINT, and children inherit that: these
    must hear it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for_charge(ledger: FileLedger, process: subprocess.Popen[bytes], more: float) -> None:
    while process.poll() is None and not (ledger.path.exists() and ledger.path.stat().st_size):
        time.sleep(0.02)
    time.sleep(more)
    assert process.poll() is None, "the release was over before it could be interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_says_how_much_is_spent_and_where_that_is_written(
    number: int, table: Path
) -> None:
    process = started(words_of(table, rounds=2_000))
    wait_for_charge(ledger_of(table), process, 0.3)
    process.send_signal(number)
    errors = process.communicate()[1].decode()
    assert process.returncode == 130
    assert (
        "Interrupted. The release had begun: its whole budget (epsilon 1, delta 1e-06) counts as"
        " spent" in errors
    )
    assert "t.csv.ledger.jsonl" in errors and "Traceback" not in errors
    assert "ended early" in run("budget", str(table)).stdout and not table.with_name("out").exists()


NETWORKS = {
    "querygan": {"rounds": 400, "steps": 2_000},
    "generator": {"rounds": 50, "steps": 20_000},
}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NETWORKS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_networks_stopped_while_they_train_have_spent_their_budget(
    mechanism: str, number: int, table: Path, battery: Note
) -> None:
    process = started(words_of(table, mechanism=mechanism, **NETWORKS[mechanism]))
    wait_for_charge(ledger_of(table), process, 3.0)
    process.send_signal(number)
    errors = process.communicate()[1].decode()
    (charge,) = ledger_of(table).read().charges
    assert charge.cost.rho == PRICE and not is_whole(table.with_name("out"))
    shown = run("budget", str(table)).stdout
    if number == signal.SIGKILL:
        assert charge.ended is None and "begun and not finished" in shown
        battery("kill -9", 1, f"{mechanism} killed while its network trained")
    else:
        assert (
            process.returncode == 130
            and "epsilon 1, delta 1e-06" in errors
            and "ended early" in shown
        )
        battery("Ctrl-C", 1, f"{mechanism} interrupted while its network trained")


# ---------------------------------------------------------------------- several processes


@pytest.mark.parametrize(
    ("processes", "charges"), [(2, 6), pytest.param(8, 40, marks=pytest.mark.slow)]
)
def test_processes_that_release_from_one_table_are_granted_its_budget_and_no_more(
    processes: int, charges: int, table: Path, battery: Note
) -> None:
    ledger = ledger_of(table)
    ledger.set_limit(Budget.zcdp(charges * PRICE))
    nurseries = [Nursery() for _ in range(processes)]
    for one in nurseries:
        one.ask("until", table, ledger.path, "-", 0)
    said = [one.answer() for one in nurseries]
    for one in nurseries:
        one.close()
    assert sum(text.count("R") for text in said) == sum(text.count("P") for text in said) == charges
    assert all(text.endswith("X") and "E" not in text for text in said)
    state = ledger.read()
    assert len(state.charges) == charges and all(
        charge.ended == ledger_module.MADE for charge in state.charges
    )
    battery(
        "concurrency",
        charges,
        f"real releases by {processes} processes from a budget for exactly as many",
    )


# ---------------------------------------------------------------------- power loss


def scenario(path: Path, recorder: Recorder) -> None:
    """Charges, a remark, a line that a dead writer left unfinished and its mending, a limit."""
    ledger = FileLedger(path)
    for _ in range(2):
        ledger.reserve("r", ONE, REPLACE)
        recorder.granted()
    ledger.note("made", 0)
    half = b'{"seq":3,"format":1,"time":1.0,"kind":"charge","body":{"label":"r'
    with path.open("ab") as stream:
        stream.write(half)
    recorder.done.append(Did("write", path.stat().st_size - len(half), half))
    ledger.reserve("r", ONE, REPLACE)
    recorder.granted()
    ledger.set_limit(Budget.zcdp(1))
    ledger.reserve("r", ONE, REPLACE)
    recorder.granted()


def states_of(folder: Path, tears: int) -> Iterator[tuple[bytes | None, int]]:
    recorder = Recorder(folder / "l.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        recorder.watch(patch)
        scenario(recorder.path, recorder)
    seen = set()
    for state in crashes(recorder.done, None, random.Random(0), tears):
        if state not in seen:
            seen.add(state)
            yield state


def under_counts(path: Path, content: bytes | None, granted: int) -> str:
    """What is wrong with a ledger after a crash, if anything; else how it was found."""
    path.unlink(missing_ok=True)
    if content is None:
        return "gone" if not granted else "LOST: the file is gone"
    path.write_bytes(content)
    try:
        counted = len(FileLedger(path).read().charges)
        FileLedger(path).reserve("next", ONE, REPLACE)
    except LedgerDamaged:
        return "refused"
    if counted < granted or len(FileLedger(path).read().charges) != counted + 1:
        return f"LOST: {counted} of {granted}"
    return "read"


@pytest.mark.parametrize("tears", [12, pytest.param(1000, marks=pytest.mark.slow)])
def test_after_power_was_lost_at_any_moment_the_ledger_counts_what_was_granted_or_refuses(
    tears: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    states = list(states_of(tmp_path, tears))
    # the states are files already; waiting for the disk would prove nothing
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    found = Counter(under_counts(tmp_path / "after.jsonl", *state) for state in states)
    assert not [what for what in found if what.startswith("LOST")], found
    assert found["read"] > found["refused"] > 0 and found["gone"]
    battery(
        "power loss",
        len(states),
        f"states of the disk: {found['read']} read with every granted charge, {found['refused']}"
        " refused",
    )


@pytest.mark.parametrize("broken", ["no sync of the file", "no sync of the folder"])
def test_the_model_of_a_disk_sees_a_ledger_that_does_not_wait_for_it(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "no sync of the folder":
        monkeypatch.setattr(chain_module, "sync_folder", lambda folder: None)
    else:
        real = os.fsync
        monkeypatch.setattr(
            os, "fsync", lambda fd: real(fd) if os.path.isdir(f"/proc/self/fd/{fd}") else None
        )
        # The recorder wraps whatever is there: of files it would note a sync that never was.
        recorded = Recorder.watch

        def honest(self: Recorder, patch: pytest.MonkeyPatch) -> None:
            recorded(self, patch)
            noted = os.fsync
            patch.setattr(
                os, "fsync", lambda fd: noted(fd) if os.path.isdir(f"/proc/self/fd/{fd}") else None
            )

        monkeypatch.setattr(Recorder, "watch", honest)
    assert any(
        under_counts(tmp_path / "after.jsonl", *state).startswith("LOST")
        for state in states_of(tmp_path, 4)
    )


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_a_charge_is_on_disk_before_the_first_look_at_a_cell(
    neighbours: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_of(table)
    recorder, count = Recorder(ledger.path), DelimitedSource.count

    def looked(self: Any, column_sets: Any) -> Any:
        # under replace-one the number of rows is public
        if any(column_sets) or neighbours == "add-remove-one":
            recorder.done.append(Did("look"))
        return count(self, column_sets)

    monkeypatch.setattr(DelimitedSource, "count", looked)
    recorder.watch(monkeypatch)
    us.release(str(table), schema=SMALL, **QUICK, neighbours=neighbours)
    order = [did.what for did in recorder.done]
    assert order[: order.index("look")] == ["sync folder", "write", "sync"]


# ---------------------------------------------------------------------- disks that refuse

REFUSALS = {
    "full": errno.ENOSPC,
    "broken": errno.EIO,
    "read-only": errno.EROFS,
    "over quota": errno.EDQUOT,
    "not allowed": errno.EACCES,
}


def fails(number: int) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("why", REFUSALS)
@pytest.mark.parametrize(
    "step", ["open", "flock", "read", "write", "half a write", "fsync of the folder", "fsync"]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_ledger_that_cannot_be_written_stops_a_release_before_any_cell_is_looked_at(
    step: str, why: str, first: bool, table: Path, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    ledger, number, looks = ledger_of(table), REFUSALS[why], []
    if not first:
        ledger.reserve("before", ONE, REPLACE)
    monkeypatch.setattr(Meter, "_look", lambda *args: looks.append(1))
    real_open, real_sync, real_write = os.open, os.fsync, os.write

    def is_ledger(fd: int) -> bool:
        return os.readlink(f"/proc/self/fd/{fd}") == str(ledger.path)

    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr(
                os,
                "open",
                lambda path, *a, **k: (
                    fails(number)() if path == ledger.path else real_open(path, *a, **k)
                ),
            )
        elif step == "flock":
            patch.setattr(fcntl, "flock", fails(number))
        elif step == "read":
            patch.setattr(os, "read", fails(number))
        elif step == "write":
            patch.setattr(
                os,
                "write",
                lambda fd, data: fails(number)() if is_ledger(fd) else real_write(fd, data),
            )
        elif step == "half a write":
            halves = iter([True])
            patch.setattr(
                os,
                "write",
                lambda fd, data: (
                    real_write(fd, data[:50]) if next(halves, False) else fails(number)()
                ),
            )
        elif step == "fsync":
            patch.setattr(
                os, "fsync", lambda fd: fails(number)() if is_ledger(fd) else real_sync(fd)
            )
        else:
            patch.setattr(
                os,
                "fsync",
                lambda fd: (
                    fails(number)() if os.path.isdir(f"/proc/self/fd/{fd}") else real_sync(fd)
                ),
            )
        result = run(*words_of(table))
    if step == "fsync of the folder" and not first:  # the name of the file is safe already
        assert looks
        return
    assert (
        not looks
        and os.strerror(number) in result.stderr
        and "no row was read" in result.stderr
        and "Traceback" not in result.output
    )
    assert result.exit_code == (5 if step == "fsync" else 2) and not table.with_name("out").exists()
    counted = 0 if first and not ledger.path.exists() else len(ledger.read().charges)
    assert counted == (not first) + (step == "fsync")  # written and not confirmed: it counts
    # that another ledger would forget is said where one might be tried
    assert step == "fsync" or "not know" in result.stderr
    battery("disk full and read-only", 1, "no look at a cell, a sentence, and the ledger as it was")


@pytest.mark.parametrize("place", ["/dev/full", "/dev/null", "/dev/zero"])
def test_a_ledger_that_is_no_file_is_refused(place: str, table: Path) -> None:
    result = run(*words_of(table), "--ledger", place)
    assert result.exit_code == 2 and "not a plain file" in result.stderr


@pytest.mark.parametrize("limit", [0, 100, 700, 3_000, 12_000])
def test_a_bundle_that_does_not_fit_on_the_disk_leaves_the_charge_and_no_release(
    limit: int, table: Path, battery: Note
) -> None:
    """The system itself refuses to let a file grow beyond a limit, which root is held to as well."""
    made = us.release(str(table), schema=SMALL, **QUICK)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        with pytest.raises((BundleError, ParameterError)):
            made.save(table.with_name("out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert not is_whole(table.with_name("out")) and ledger_of(table).read().spent.rho == PRICE
    battery("disk full and read-only", 1, "a bundle cut short is no release and stays charged")


# ---------------------------------------------------------------------- clocks

CLOCKS = {
    "1970": 0.0,
    "before 1970": -86_400.0,
    "2038": 2.0**31,
    "the year 9999": 253_402_300_799.0,
    "beyond all years": 1e15,
}


@pytest.mark.parametrize(
    "zone",
    [
        "America/New_York",
        *(pytest.param(z, marks=pytest.mark.slow) for z in ("UTC", "Australia/Lord_Howe")),
    ],
)
def test_clocks_that_jump_lose_no_charge(
    zone: str, table: Path, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        # the last two: an hour that comes twice
        for i, now in enumerate([*CLOCKS.values(), 1e9, 1.0, 1_699_163_999.0, 1_699_160_400.0]):
            with monkeypatch.context() as patch:
                patch.setattr(ledger_module.time, "time", lambda now=now: now)
                made = us.release(str(table), schema=SMALL, **QUICK)
            state = ledger_of(table).read()
            assert (
                state.spent.rho == (i + 1) * PRICE and state.charges[-1].ended == ledger_module.MADE
            )
            shown = run("budget", str(table))
            assert shown.exit_code == 0 and shown.stdout.count("mwem, epsilon 1") == i + 1
        assert is_whole(made.save(table.with_name("out")))
    finally:
        monkeypatch.undo()
        time.tzset()
    battery(
        "clock jumps",
        9,
        f"backwards, 1970, far future, an hour twice ({zone}): every charge counted",
    )


# ---------------------------------------------------------------------- damaged ledgers


@pytest.fixture
def small_ledger(tmp_path: Path) -> FileLedger:
    ledger = FileLedger(tmp_path / "l.jsonl")
    ledger.set_limit(Budget.zcdp(1))
    for i in range(3):
        ledger.note("made", ledger.reserve(f"r{i}", ONE, REPLACE))
    return ledger


def reads(ledger: FileLedger, content: bytes) -> Fraction | None:
    """What a ledger counts with this content, or None if it is refused; a refusal names the way out
    and changes nothing.
    """
    ledger.path.write_bytes(content)
    try:
        return ledger.read().spent.rho
    except LedgerDamaged as problem:
        assert (
            "--add-rho" in str(problem)
            and "still counts" in str(problem)
            and ledger.path.read_bytes() == content
        )
        return None


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_byte_is_noticed_or_does_no_harm(
    step: int, small_ledger: FileLedger, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    whole, chance, noticed = small_ledger.path.read_bytes(), random.Random(0), 0
    for at in range(0, len(whole), step):
        for mask in (1, 0x20, chance.randrange(1, 256)):
            found = reads(small_ledger, whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :])
            assert found is None or found >= Fraction(3, 400)
            noticed += found is None
    cases = 3 * len(range(0, len(whole), step))
    assert noticed > 0.95 * cases
    battery(
        "damaged ledger",
        cases,
        f"flipped bytes of a small ledger: {noticed} refused, the rest harmless",
    )


def test_a_ledger_cut_anywhere_counts_its_whole_records_and_says_that_one_was_unfinished(
    small_ledger: FileLedger, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    """At the end of a record nothing can tell: KNOWN-LIMITS.md says so."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    whole = small_ledger.path.read_bytes()
    for length in range(len(whole)):
        lines = (whole[:length] + b"\n" * (whole[length : length + 1] == b"\n")).split(b"\n")
        charges = sum(b'"charge","body":{"label"' in line for line in lines[:-1])
        assert reads(small_ledger, whole[:length]) == Fraction(charges, 400)
        assert ("unfinished record" in str(small_ledger.read().notes)) == bool(lines[-1])
    battery(
        "damaged ledger",
        len(whole),
        "cuts at every length: whole records counted, unfinished ones told",
    )


def test_lines_taken_out_doubled_or_exchanged_are_noticed(
    small_ledger: FileLedger, battery: Note
) -> None:
    lines, cases = small_ledger.path.read_bytes().splitlines(keepends=True), 0
    for i in range(len(lines)):
        changed = [lines[:i] + lines[i:] + [lines[i]], [*lines[:i], lines[i], *lines[i:]]]
        # without its last line it is an older copy
        changed += [lines[:i] + lines[i + 1 :]] if i < len(lines) - 1 else []
        changed += [
            [*lines[:i], lines[j], *lines[i + 1 : j], lines[i], *lines[j + 1 :]]
            for j in range(i + 1, len(lines))
        ]
        for some in changed:
            assert reads(small_ledger, b"".join(some)) is None
            cases += 1
    battery("damaged ledger", cases, "lines taken out, doubled or exchanged: all refused")


def test_the_way_out_of_a_damaged_ledger_adds_and_never_takes(small_ledger: FileLedger) -> None:
    path = str(small_ledger.path)
    lines = small_ledger.path.read_bytes().splitlines(keepends=True)
    small_ledger.path.write_bytes(b"".join([*lines[:3], lines[3][5:], *lines[4:]]))
    assert run("budget", path).exit_code == 4
    small_ledger.path.write_bytes(b"".join(lines[:3]))  # the lines above the damage: one charge
    assert (
        run(
            "budget", path, "--add-rho", "1/200", "--why", "two releases that were in damaged lines"
        ).exit_code
        == 0
    )
    state = small_ledger.read()
    assert state.spent.rho == Fraction(3, 400) and state.charges[-1].ended == ledger_module.BY_HAND
    assert "added by hand" in run("budget", path).stdout
    for wrong in (
        ["--add-rho", "-1", "--why", "a refund"],
        ["--add-rho", "0", "--why", "x"],
        ["--add-rho", "1"],
        ["--why", "x"],
    ):
        assert run("budget", path, *wrong).exit_code == 2
    assert small_ledger.read().spent.rho == Fraction(3, 400)
    small_ledger.add("beyond the limit, and spent all the same", Fraction(5))
    with pytest.raises(us.BudgetRefused):
        small_ledger.reserve("r", ONE, REPLACE)
    with pytest.raises(us.BudgetRefused):
        small_ledger.add("x", Fraction(1), Neighbours.ADD_REMOVE_ONE)
    with pytest.raises(ParameterError, match="at most 10"):
        small_ledger.add("x", Fraction(10**400))


# ---------------------------------------------------------------------- solvers and engines

TURNS = """
    # each message meets the next fault of the list
    turn = len(os.listdir({marks!r}))
    open(os.path.join({marks!r}, str(turn)), "w").close()
    code = {codes!r}[turn % {count}]
    exec(code)
"""


def all_faults(folder: Path, codes: list[str]) -> str:
    """Code of a child that goes through all faults in turn, however often it is started anew."""
    marks = folder / "marks"
    marks.mkdir()
    return TURNS.format(marks=str(marks), codes=codes, count=len(codes)).strip()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Fem, {"rounds": 3, "samples": 5}),
        pytest.param(Fem, {"rounds": 7, "samples": 5}, marks=pytest.mark.slow),
        pytest.param(SepFem, {"rounds": 7, "samples": 5}, marks=pytest.mark.slow),
        pytest.param(DualQuery, {"rounds": 35}, marks=pytest.mark.slow),
    ],
)
def test_a_release_with_a_broken_oracle_costs_the_same_and_is_sound(
    kind: Any, settings: dict[str, int], table: Path, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    monkeypatch.setattr(outside, "GRACE", 2.0)
    command = oracle_with(
        all_faults(table.parent, [code for code, _ in ORACLE_FAULTS.values()]), table.parent
    )
    broken = Milp(wall=0.1, command=command)
    honest = us.release(str(table), schema=SMALL, epsilon=1, delta=1e-6, mechanism=kind(**settings))
    made = us.release(
        str(table), schema=SMALL, epsilon=1, delta=1e-6, mechanism=kind(**settings, oracle=broken)
    )
    played = made.manifest["mechanism"]["played"]
    assert (
        made.manifest["events"] == honest.manifest["events"]
        and made.manifest["spent"] == honest.manifest["spent"]
    )
    assert [charge.cost.rho for charge in ledger_of(table).read().charges] == [PRICE, PRICE]
    # a limit is no failure, and a small lie about a bound may be true
    assert played["failed_solves"] >= 0.5 * played["solves"] > 0
    assert is_whole(made.save(table.with_name("out")))
    battery(
        "solver faults",
        played["solves"],
        f"{kind.name}, oracle as post-processing: same charge, sound bundle",
    )


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_rule_whose_proof_does_not_hold_is_never_released(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    """The oracle inside the room: every fault, on ``times`` different tables."""
    pytest.importorskip("ortools")
    ledger, refused = FileLedger(tmp_path / "l.jsonl"), 0
    schema = {**{f"x{i}": 2 for i in range(4)}, "y": 2}
    for seed in range(times):
        x = np.random.default_rng(seed).integers(0, 2, (200, 4))
        rows = np.column_stack([x, x[:, 0] & x[:, 1]])
        for fault in CERTIFIER_FAULTS if times > 1 else ["killed", "limit", "claims a bad optimum"]:
            command = certifier_with(CERTIFIER_FAULTS[fault], tmp_path)
            monkeypatch.setattr(certifiers, "COMMAND", command)
            with pytest.raises(NotCertified):
                learn(
                    rows,
                    schema=schema,
                    label="y",
                    epsilon=5,
                    method="rspm",
                    certifier="cpsat",
                    ledger=ledger,
                )
            refused += 1
    state = ledger.read()
    assert len(state.charges) == refused and len({charge.cost.rho for charge in state.charges}) == 1
    assert all(charge.ended == ledger_module.EARLY for charge in state.charges)
    battery("solver faults", refused, "oracle inside the room: refused, and charged")


@pytest.mark.parametrize("kind", [DuckDBSource, DelimitedSource])
@pytest.mark.parametrize("error", [OSError, MemoryError, RuntimeError])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_engine_that_breaks_in_a_scan_gives_one_sentence_and_the_charge_stays(
    kind: Any, error: type[Exception], at: int, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first scan, which counts the rows, comes before the charge: their number is public."""
    frame = pd.read_csv(table)
    file = table.with_suffix(".parquet")
    frame.to_parquet(file)
    place, scans, batches = str(file if kind is DuckDBSource else table), [0], kind._batches

    def breaks(self: Any, *args: Any) -> Any:
        scans[0] += 1
        for i, batch in enumerate(batches(self, *args)):
            if scans[0] == at and i == 0:
                raise error(f"could not convert {SECRET}")
            yield batch

    monkeypatch.setattr(kind, "_batches", breaks)
    words = (
        "Memory ran out while the table was read"
        if error is MemoryError
        else "could not be read to the end"
    )
    with pytest.raises(UnderstudyError, match=words) as caught:
        us.release(place, schema=SMALL, **QUICK)
    assert ("files are complete" in str(caught.value)) == (error is not MemoryError)
    assert SECRET not in str(caught.value) and caught.value.__context__ is None
    ledger = FileLedger.beside(place)
    if at == 1:
        assert caught.value.exit_code == 2 and not ledger.path.exists()
    else:
        assert isinstance(caught.value, ReleaseFailed) and ledger.read().spent.rho == PRICE
        assert ledger.read().charges[0].ended == ledger_module.EARLY


# ---------------------------------------------------------------------- Ctrl-C at any moment


class Interrupter:
    """Raises KeyboardInterrupt at the wanted one of the calls and returns of some code: there
    Python looks whether Ctrl-C was pressed.
    """

    def __init__(self, wanted: int, home: str | tuple[str, ...]) -> None:
        self.left, self.home = wanted, home

    def __enter__(self) -> Interrupter:
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *args: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.home):
            return None
        frame.f_trace_lines = False
        # A yield is told as a return, but what is raised there would pass by the function's own
        # handlers, as no Ctrl-C does.
        self.left -= event == "call" or not frame.f_code.co_flags & inspect.CO_GENERATOR
        if self.left == 0:
            self.left = -1
            raise KeyboardInterrupt
        return self.trace


def interrupted(table: Path, out: Path, wanted: int) -> tuple[bool, int, bool]:
    """(whether it was interrupted, events left over, whether cells were looked at)."""
    look, looked = Meter._look, []

    def looks(self: Meter, batches: Any) -> Any:
        looked.append(1)
        return look(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Meter, "_look", looks)
        interrupter = Interrupter(wanted, str(Path(us.__file__).parent))
        try:
            with interrupter:
                us.release(str(table), schema=SMALL, **QUICK).save(out)
        except KeyboardInterrupt:
            return True, 0, bool(looked)
    return False, interrupter.left, bool(looked)


# Python drops what is raised while it frees a generator, and says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("moments", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_interrupted_at_any_moment_the_ledger_is_right_and_no_half_bundle_is_a_release(
    moments: int, table: Path, battery: Note
) -> None:
    ledger, chance = ledger_of(table), random.Random(2)
    interrupted(table, table.with_name("warm"), 10**9)
    _, left, _ = interrupted(table, table.with_name("whole"), 10**9)
    life, charged, early = 10**9 - left, 2, 0
    for i in range(moments):
        out = table.with_name(f"out{i}")
        stopped, _, looked = interrupted(table, out, chance.randrange(1, life))
        assert lock_is_free(ledger.path)
        state = ledger.read()
        assert charged + looked <= len(state.charges) <= charged + 1
        early += len(state.charges) > charged and state.charges[-1].ended != ledger_module.MADE
        charged = len(state.charges)
        assert is_whole(out) or stopped
    assert ledger.read().spent.rho == charged * PRICE and early
    battery(
        "Ctrl-C",
        moments,
        f"moments of a release: {charged - 2} had been charged, {early} of them ended early",
    )


@pytest.mark.parametrize("kind", ["ledger", "ledgers of a table"])
def test_interrupted_at_every_step_of_a_reservation_no_lock_is_left_behind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, battery: Note
) -> None:
    """In a notebook the process lives on, and a lock that nobody frees would stop every later
    release.
    """
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    modules = (ledger_module, chain_module, locking, registry, table_ledger)
    wanted, over, last = 0, False, None
    while not over:
        wanted += 1
        # a new one: a longer one would take more steps
        ledger = FileLedger(tmp_path / f"l{wanted}.jsonl")
        interrupter = Interrupter(wanted, tuple(str(module.__file__) for module in modules))
        charged: Ledger = ledger
        if kind != "ledger":
            (tmp_path / "t.csv").write_text("a")
            monkeypatch.setenv(paths.STATE, str(tmp_path / f"state{wanted}"))
            charged = TableLedger(
                tmp_path / "t.csv", [tmp_path / "t.csv"], ledger, lambda sentence: None
            )
        try:
            with interrupter:
                charged.reserve("r", ONE, REPLACE)
        except KeyboardInterrupt as kept:
            last = kept  # as a notebook keeps its last traceback: what it refers to is not freed
        assert lock_is_free(ledger.path) and lock_is_free(paths.state_folder() / "registry.lock"), (
            last
        )
        over = interrupter.left > 0  # before the wanted step came
        ledger.reserve("next", ONE, REPLACE)
        assert 1 + over <= len(ledger.read().charges) <= 2
    assert wanted > 10
    battery("Ctrl-C", wanted - 1, "steps of a reservation: no lock left, no charge lost")
