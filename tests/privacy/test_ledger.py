"""The ledger never under-counts: not when killed, not when shared, not when tampered with."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from understudy.errors import (
    BudgetRefused,
    LedgerDamaged,
    ParameterError,
    ReleaseFailed,
    UnderstudyError,
)
from understudy.privacy import Budget, FileLedger, ProcessLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger import chain
from understudy.privacy.ledger import ledger as ledger_module
from understudy.queries.base import Neighbours

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE_ONE


def charge(rho: Fraction = Fraction(1, 400)) -> tuple[ev.Event, ...]:
    return (ev.Reservation(what="release", rho=rho),)


def test_charges_add_up_across_openings(tmp_path: Path) -> None:
    for _ in range(3):
        FileLedger(tmp_path / "l.jsonl").reserve("r", charge(), REPLACE)
    state = FileLedger(tmp_path / "l.jsonl").read()
    assert (
        state.spent.rho == Fraction(3, 400)
        and state.neighbours is REPLACE
        and len(state.charges) == 3
    )


def test_a_limit_is_kept_to_the_last_unit(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l.jsonl")
    ledger.set_limit(Budget.zcdp(Fraction(1, 200)))
    ledger.reserve("one", charge(), REPLACE)
    with pytest.raises(BudgetRefused, match="limit"):
        ledger.reserve("too much", charge(Fraction(1, 400) + Fraction(1, 10**50)), REPLACE)
    ledger.reserve("two", charge(), REPLACE)
    with pytest.raises(BudgetRefused):
        ledger.reserve("three", charge(Fraction(1, 10**50)), REPLACE)
    assert ledger.read().spent.rho == Fraction(1, 200)


def test_an_epsilon_limit_composes_tightly(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l.jsonl")
    ledger.set_limit(Budget.of(epsilon=2, delta=1e-9))
    one = Budget.of(epsilon=1, delta=1e-9).rho
    granted = 0
    with pytest.raises(BudgetRefused, match="epsilon"):
        for _ in range(10):
            ledger.reserve("r", charge(one), REPLACE)
            granted += 1
    # four would fit if epsilons were added in squares, two if they were just added
    assert granted == 3


def test_a_limit_below_what_is_spent_is_refused(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l.jsonl")
    ledger.reserve("r", charge(Fraction(1)), REPLACE)
    with pytest.raises(ParameterError, match="already spent"):
        ledger.set_limit(Budget.zcdp(Fraction(1, 2)))


def test_relations_are_not_mixed(tmp_path: Path) -> None:
    for ledger in (FileLedger(tmp_path / "l.jsonl"), ProcessLedger()):
        ledger.reserve("r", charge(), REPLACE)
        with pytest.raises(BudgetRefused, match="add-remove-one"):
            ledger.reserve("r", charge(), ADD)


def test_an_unknown_event_is_refused_before_the_file_exists(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no known cost"):
        FileLedger(tmp_path / "l.jsonl").reserve("r", (ev.Event(what="x"),), REPLACE)
    assert not (tmp_path / "l.jsonl").exists()


def test_beside_a_file_a_glob_and_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "people.csv"
    data.write_text("a\n1\n")
    assert FileLedger.beside(data).path == tmp_path.resolve() / "people.csv.ledger.jsonl"
    (tmp_path / "link.csv").symlink_to(data)
    assert FileLedger.beside(tmp_path / "link.csv").path == FileLedger.beside(data).path
    (tmp_path / "parts").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (
        FileLedger.beside("parts/*.csv").path
        == FileLedger.beside("./parts/*.csv").path
        == tmp_path.resolve() / "parts" / "understudy.ledger.jsonl"
    )
    assert FileLedger.beside("*.csv").path == tmp_path.resolve() / "understudy.ledger.jsonl"
    for pattern in ("parts/*.parquet", "parts/a*.parquet", "parts/**/x.parquet"):
        assert (
            FileLedger.beside(f"{tmp_path}/{pattern}").path
            == tmp_path.resolve() / "parts" / "understudy.ledger.jsonl"
        )


def test_an_unwritable_place_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="--ledger"):
        FileLedger(tmp_path / "no" / "such" / "folder.jsonl").reserve("r", charge(), REPLACE)


# ---------------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["edit", "delete", "swap", "garbage", "empty_line"])
def test_damage_in_the_middle_stops_everything(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "l.jsonl"
    for i in range(4):
        FileLedger(path).reserve(f"r{i}", charge(), REPLACE)
    lines = path.read_text().splitlines(keepends=True)
    if damage == "edit":
        lines[1] = lines[1].replace("1/400", "1/900")
    elif damage == "delete":
        del lines[1]
    elif damage == "swap":
        lines[1], lines[2] = lines[2], lines[1]
    elif damage == "garbage":
        lines.insert(2, "not a record\n")
    else:
        lines.insert(2, "\n")
    path.write_text("".join(lines))
    before = path.read_bytes()
    for use in (FileLedger(path).read, lambda: FileLedger(path).reserve("x", charge(), REPLACE)):
        with pytest.raises(LedgerDamaged, match="Restore"):
            use()
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep", [1, 40, 200])
def test_a_torn_last_line_is_vouched_for_and_work_goes_on(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "l.jsonl"
    for _ in range(3):
        FileLedger(path).reserve("r", charge(), REPLACE)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:keep])
    FileLedger(path).reserve("r", charge(), REPLACE)
    assert FileLedger(path).read().spent.rho == Fraction(3, 400)
    state = FileLedger(path).read()
    assert state.spent.rho == Fraction(3, 400) and "unfinished record" in state.notes[0]


def test_a_complete_record_without_its_line_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    for _ in range(2):
        FileLedger(path).reserve("r", charge(), REPLACE)
    path.write_bytes(path.read_bytes()[:-1])
    assert FileLedger(path).read().spent.rho == Fraction(2, 400)
    FileLedger(path).reserve("r", charge(), REPLACE)
    assert FileLedger(path).read().spent.rho == Fraction(3, 400)


def test_dying_while_mending_a_torn_line_never_stops_the_ledger(tmp_path: Path) -> None:
    """Cut the file at every byte of the mend: it opens, and both charges that were granted are
    still there.
    """
    path = tmp_path / "l.jsonl"
    for _ in range(3):
        FileLedger(path).reserve("r", charge(), REPLACE)
    lines = path.read_bytes().splitlines(keepends=True)
    granted = b"".join(lines[:2])
    path.write_bytes(granted + lines[2][:50])
    FileLedger(path).read()
    mended = path.read_bytes()
    assert mended.startswith(granted) and lines[2][:50].hex().encode() in mended
    for cut in range(len(granted), len(mended) + 1):
        path.write_bytes(mended[:cut])
        assert FileLedger(path).read().spent.rho == Fraction(2, 400)


def test_a_file_put_in_place_of_the_ledger_while_waiting_is_the_one_that_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "l.jsonl", tmp_path / "restored.jsonl"
    FileLedger(path).reserve("r", charge(), REPLACE)
    copy.write_bytes(path.read_bytes())
    real, waits = fcntl.flock, iter([True])

    def slow(fd: int, operation: int) -> None:
        if next(waits, False):
            os.replace(copy, path)
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    FileLedger(path).reserve("r", charge(), REPLACE)
    assert FileLedger(path).read().spent.rho == Fraction(2, 400)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "limit", "body": {"rho": "-1"}},
        {"kind": "limit", "body": {"rho": "1/0"}},
        {
            "kind": "charge",
            "body": {
                "label": "x",
                "neighbours": "replace-one",
                "events": [{"event": "Reservation", "what": "x", "rho": "inf"}],
            },
        },
        {
            "kind": "charge",
            "body": {
                "label": "x",
                "neighbours": "replace-one",
                "events": [{"event": "Reservation", "what": "x", "rho": -1}],
            },
        },
        {"kind": "charge", "body": {"label": "x", "neighbours": "add-remove-one", "events": []}},
        {"kind": "refund", "body": {}},
        {"kind": "limit", "body": {"rho": "1" + "0" * 400}},
        {
            "kind": "charge",
            "body": {
                "label": "x",
                "neighbours": "replace-one",
                "events": [
                    {
                        "event": "PerturbedArgmin",
                        "what": "x",
                        "shift": 1,
                        "slots": 10**400,
                        "scale": "1",
                    }
                ],
            },
        },
        {"kind": "charge", "body": {"label": False, "neighbours": "replace-one", "events": []}},
        {
            "kind": "charge",
            "body": {"label": "x", "neighbours": "replace-one", "events": [], "ended": 3},
        },
        {
            "kind": "charge",
            "body": {"label": "x", "neighbours": "replace-one", "events": []},
            "time": "now",
        },
        {"kind": "note", "body": {"text": ["x"]}},
        {"kind": "note", "body": {"text": "x"}, "format": 99},
    ],
)
def test_a_record_that_cannot_be_understood_stops_everything(tmp_path: Path, body: dict) -> None:
    path = tmp_path / "l.jsonl"
    FileLedger(path).reserve("r", charge(), REPLACE)
    last = json.loads(path.read_text())
    record = {"seq": 1, "format": 1, "time": 0, "prev": last["hash"], **body}
    record["hash"] = chain.hash_of(record)
    path.write_text(path.read_text() + json.dumps(record) + "\n")
    with pytest.raises(LedgerDamaged):
        FileLedger(path).read()


def test_what_a_ledger_could_not_read_again_is_not_written(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l.jsonl")
    number = ledger.reserve(2024, charge(), REPLACE)  # type: ignore[arg-type]
    ledger.note(7, number)  # type: ignore[arg-type]
    ledger.add(2025, 0.5)  # type: ignore[arg-type]
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetRefused, match="larger than any ledger counts"):
        ledger.reserve("r", (ev.Reservation(what="x", rho=Fraction(10**101)),), REPLACE)
    with pytest.raises(ParameterError, match="at most 10"):
        ledger.add("x", Fraction(10**101))
    assert ledger.path.read_bytes() == before
    assert [(c.label, c.ended) for c in ledger.read().charges] == [
        ("2024", "7"),
        ("2025", "added by hand"),
    ]


def test_words_that_cannot_be_shown_are_read_all_the_same(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l.jsonl")
    ledger.add("\udcff", Fraction(1))
    ledger.note("\ud800")
    state = ledger.read()
    assert (
        state.charges[0].label == "\\udcff" and state.notes == ("\\ud800",) and state.spent.rho == 1
    )


def test_garbage_at_the_start_does_not_hide_a_charge(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    FileLedger(path).reserve("r", charge(), REPLACE)
    path.write_bytes(b"x\n" + path.read_bytes())
    with pytest.raises(LedgerDamaged):
        FileLedger(path).read()


def test_a_flipped_line_end_never_hides_a_charge(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    for _ in range(3):
        FileLedger(path).reserve("r", charge(), REPLACE)
    path.write_bytes(path.read_bytes()[:-1] + b"\v")
    with pytest.raises(LedgerDamaged):
        FileLedger(path).read()


@pytest.mark.parametrize(
    "content", [b'{"age": 100}', b"this is not a ledger", b"\x00\xff\x13", b"[" * 100_000]
)
def test_another_file_is_never_taken_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    with pytest.raises(LedgerDamaged):
        FileLedger(path).reserve("r", charge(), REPLACE)
    assert path.read_bytes() == content


def test_threads_share_a_process_ledger() -> None:
    ledger = ProcessLedger()
    threads = [
        threading.Thread(
            target=lambda: [ledger.reserve("r", charge(), REPLACE) for _ in range(200)]
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.state.charges) == 800


def test_not_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps({"a": 1}) + "\n")
    with pytest.raises(LedgerDamaged):
        FileLedger(tmp_path / "x.jsonl").read()
    with pytest.raises(ParameterError, match="no ledger"):
        FileLedger(tmp_path / "missing.jsonl").read()


# ---------------------------------------------------------------------- killed, and shared

SPENDER = """
import sys
from fractions import Fraction
from understudy.privacy import FileLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger import ledger as ledger_module
from understudy.privacy.ledger import chain
from understudy.queries.base import Neighbours
ledger = FileLedger(sys.argv[1])
print("ready", flush=True)
while True:
    ledger.reserve("r", (ev.Reservation(what="release", rho=Fraction(1, 10**6)),), Neighbours.REPLACE_ONE)
    sys.stdout.write("granted\\n")
    sys.stdout.flush()
"""


def test_killed_at_50_random_instants_it_never_under_counts(tmp_path: Path) -> None:
    """A process that was told "granted" may have looked at rows: the ledger must show at least that
    many.
    """
    path, granted, chance = tmp_path / "l.jsonl", 0, random.Random(0)
    for _ in range(10):
        spenders = [
            subprocess.Popen([sys.executable, "-c", SPENDER, str(path)], stdout=subprocess.PIPE)
            for _ in range(5)
        ]
        for spender in spenders:
            assert spender.stdout is not None and spender.stdout.readline() == b"ready\n"
        for spender in spenders:
            time.sleep(chance.random() * 0.06)
            os.kill(spender.pid, signal.SIGKILL)
        for spender in spenders:
            output, _ = spender.communicate()
            granted += output.count(b"granted\n")
        state = FileLedger(path).read()
        assert len(state.charges) >= granted
        assert state.spent.rho == len(state.charges) * Fraction(1, 10**6)
    assert granted > 50
    # At most one unreported charge per process: written, but killed before it could say so.
    assert len(FileLedger(path).read().charges) <= granted + 50


def spend_until_refused(path: str, rho: str, counter: multiprocessing.Queue) -> None:
    count = 0
    try:
        while True:
            FileLedger(path).reserve("r", charge(Fraction(rho)), REPLACE)
            count += 1
    except BudgetRefused:
        counter.put(count)


def test_eight_processes_share_one_budget_of_exactly_400_charges(
    tmp_path: Path, battery: Callable[[str, int, str], None]
) -> None:
    path = str(tmp_path / "l.jsonl")
    FileLedger(path).set_limit(Budget.zcdp(1))
    context = multiprocessing.get_context("spawn")
    counter: multiprocessing.Queue = context.Queue()
    processes = [
        context.Process(target=spend_until_refused, args=(path, "1/400", counter)) for _ in range(8)
    ]
    for process in processes:
        process.start()
    granted = sum(counter.get(timeout=240) for _ in processes)
    for process in processes:
        process.join()
    assert granted == 400
    assert FileLedger(path).read().spent.rho == 1
    battery("concurrency", granted, "charges granted to 8 processes by a budget for exactly 400")


# ---------------------------------------------------------------------- locks that keep nobody out


@pytest.mark.parametrize("meet", ["before they write", "as they write"])
def test_where_locks_do_nothing_no_more_is_granted_than_the_limit(
    meet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody has read the ledger before anybody writes, as on a file system whose locks are only
    local.
    """
    writers, path = 4, tmp_path / "l.jsonl"
    FileLedger(path).set_limit(Budget.zcdp(Fraction(1, 400)))
    gate, check, write = threading.Barrier(writers), ledger_module.check_grant, os.write
    outcomes: list[str] = []

    def checked(*args: object) -> None:
        check(*args)  # type: ignore[arg-type]
        gate.wait(60)

    def written(fd: int, data: bytes) -> int:
        gate.wait(60)
        return write(fd, data)

    def spend() -> None:
        try:
            FileLedger(path).reserve("r", charge(), REPLACE)
            outcomes.append("granted")
        except UnderstudyError as refusal:
            outcomes.append(str(refusal))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda fd, operation: None)
        (
            patch.setattr(ledger_module, "check_grant", checked)
            if meet == "before they write"
            else patch.setattr(os, "write", written)
        )
        threads = [threading.Thread(target=spend) for _ in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == writers and outcomes.count("granted") <= 1
    assert all(
        "locks do not work there" in one and "no row was read" in one
        for one in outcomes
        if one != "granted"
    )
    if path.read_bytes().count(b'"charge"') > 1:
        with pytest.raises(LedgerDamaged):
            FileLedger(path).read()


HEEDLESS = (
    "import fcntl; fcntl.flock = lambda fd, operation: None\n"
    + """
import sys
from fractions import Fraction
from understudy.errors import UnderstudyError
from understudy.privacy import FileLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger import ledger as ledger_module
from understudy.queries.base import Neighbours
print("ready", flush=True)
sys.stdin.readline()
granted = 0
try:
    for _ in range(50):
        FileLedger(sys.argv[1]).reserve("r", (ev.Reservation(what="release", rho=Fraction(1, 50)),), Neighbours.REPLACE_ONE)
        granted += 1
except UnderstudyError:
    pass
print(granted)
"""
)


def test_processes_whose_locks_do_nothing_are_granted_no_more_than_is_on_record(
    tmp_path: Path,
) -> None:
    path = tmp_path / "l.jsonl"
    FileLedger(path).set_limit(Budget.zcdp(1))
    spenders = [
        subprocess.Popen(
            [sys.executable, "-c", HEEDLESS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for spender in spenders:
        assert spender.stdout is not None and spender.stdout.readline() == b"ready\n"
    for spender in spenders:
        assert spender.stdin is not None
        spender.stdin.write(b"go\n")
        spender.stdin.flush()
    granted = sum(int(spender.communicate()[0]) for spender in spenders)
    lines, before = path.read_bytes().splitlines(), []
    for line in lines:  # up to where two of them met
        record = chain._record(line, before)
        if record is None:
            break
        before.append(record)
    assert granted <= sum(record["kind"] == "charge" for record in before) <= 50


def overwritten(path: Path, before: bytes) -> None:
    mine = path.read_bytes()[len(before) :]
    path.write_bytes(before + mine.replace(b'"r"', b'"s"'))


def followed(path: Path, before: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(b'{"seq":')


def moved(path: Path, before: bytes) -> None:
    path.write_bytes(before + path.read_bytes()[len(before) :] * 2)


def lost(path: Path, before: bytes) -> None:
    path.write_bytes(before)


def replaced(path: Path, before: bytes) -> None:
    path.with_name("copy").write_bytes(before)
    os.replace(path.with_name("copy"), path)


def removed(path: Path, before: bytes) -> None:
    path.unlink()


@pytest.mark.parametrize("happens", [overwritten, followed, moved, lost, replaced, removed])
def test_a_record_that_is_not_where_it_was_put_grants_nothing(
    happens: Callable[[Path, bytes], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l.jsonl"
    FileLedger(path).reserve("r", charge(), REPLACE)
    before, real = path.read_bytes(), os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        happens(path, before)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ReleaseFailed, match="no row was read"):
        FileLedger(path).reserve("r", charge(), REPLACE)


def test_an_unfinished_line_that_is_still_being_written_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer lives, and our lock did not keep him out."""
    path = tmp_path / "l.jsonl"
    for _ in range(2):
        FileLedger(path).reserve("r", charge(), REPLACE)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    real = chain._read_all

    def read(fd: int) -> bytes:
        found = real(fd)
        path.write_bytes(whole)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(chain, "_read_all", read)
        with pytest.raises(ParameterError, match="locks do not work there"):
            FileLedger(path).reserve("r", charge(), REPLACE)
    assert path.read_bytes() == whole
