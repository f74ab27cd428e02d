"""Another name of a file is the same file: what was spent on it is found, or the release is refused
with what to do.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.api import session
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.errors import BudgetRefused, ParameterError, ReleaseFailed, SourceError
from understudy.privacy import Budget, FileLedger, ProcessLedger, TableLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger import chain
from understudy.privacy.meter import Meter
from understudy.queries.base import Neighbours
from understudy.runtime.paths import state_folder

QUICK: dict[str, Any] = {
    "epsilon": 1,
    "delta": 1e-6,
    "mechanism": "mwem",
    "parameters": {"rounds": 2},
    "rows": 10,
}
PRICE = Budget.of(epsilon=1, delta=1e-6).rho
REPLACE = Neighbours.REPLACE_ONE
pytestmark = pytest.mark.filterwarnings("ignore::understudy.LedgerWarning")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A table with a limit that one release uses up, and that release."""
    path = table_at(tmp_path / "data" / "people.csv")
    run("budget", str(path), "--limit-epsilon", "1", "--limit-delta", "1e-6")
    release(path)
    return path


def table_at(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(small_table(100, seed), columns=list("abc")).to_csv(path, index=False)
    return path


def release(path: Path | str, **options: Any) -> us.Release:
    return us.release(str(path), schema=SMALL, **{**QUICK, **options})


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "300"}).invoke(main, list(words))


def spent(*paths: Path) -> list[Fraction]:
    return [FileLedger(path).read().spent.rho / PRICE for path in paths]


def ledger(path: Path) -> Path:
    return path.with_name(path.name + ".ledger.jsonl")


def everything_under(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# ---------------------------------------------------------------------- a limit holds under every name


def hard_link(people: Path, there: Path) -> str:
    os.link(people, there / "other.csv")
    return str(there / "other.csv")


def link(people: Path, there: Path) -> str:
    (there / "other.csv").symlink_to(people)
    return str(there / "other.csv")


def rename(people: Path, there: Path) -> str:
    people.rename(there / "other.csv")
    return str(there / "other.csv")


def glob(people: Path, there: Path) -> str:
    return str(people.with_name("peopl?.csv"))


def wide_glob(people: Path, there: Path) -> str:
    table_at(people.with_name("another.csv"), 1)
    return str(people.parent.parent / "*" / "*.csv")


def hard_link_of_what_took_its_place(people: Path, there: Path) -> str:
    os.replace(table_at(people.with_name("new"), 2), people)
    return hard_link(people, there)


def linked_folder(people: Path, there: Path) -> str:
    (there / "folder").symlink_to(people.parent)
    return str(there / "folder" / "peo*.csv")


NAMES = [hard_link, link, rename, glob, wide_glob, hard_link_of_what_took_its_place, linked_folder]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "by", ["default", "explicit ledger", "ledger object", "process ledger", "learn"]
)
def test_a_limit_is_found_under_every_name(
    people: Path, name: Callable[[Path, Path], str], far: bool, by: str, tmp_path: Path
) -> None:
    there = tmp_path / "elsewhere" if far else people.parent
    there.mkdir(exist_ok=True)
    other = name(people, there)
    before = ledger(people).read_bytes()
    given: dict[str, Any] = {
        "explicit ledger": {"ledger": tmp_path / "l.jsonl"},
        "ledger object": {"ledger": FileLedger(tmp_path / "l.jsonl")},
        "process ledger": {"ledger": ProcessLedger()},
    }.get(by, {})
    with pytest.raises(BudgetRefused, match="nothing was charged"):
        if by == "learn":
            us.learn(other, schema=SMALL, label="c", epsilon=1)
        else:
            release(other, **given)
    assert ledger(people).read_bytes() == before
    if by == "process ledger":
        assert not given["ledger"].state.charges
    for made in tmp_path.rglob("*.jsonl"):
        assert made == ledger(people) or not made.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_without_the_registry_the_ledgers_of_a_folder_are_enough(
    people: Path, name: Callable[[Path, Path], str]
) -> None:
    other = name(people, people.parent)
    shutil.rmtree(state_folder())
    with pytest.raises(BudgetRefused, match="nothing was charged"):
        release(other)


def test_the_command_refuses_too_and_says_which_ledger(people: Path, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"a": 3, "b": 4, "c": 2}))
    words = [
        "--schema",
        str(tmp_path / "s.json"),
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--out",
        str(tmp_path / "out"),
    ]
    result = run(
        "release", glob(people, people.parent), *words, "--ledger", str(tmp_path / "l.jsonl")
    )
    assert result.exit_code == 3 and str(ledger(people)) in result.stderr.replace("\n", "")


def test_another_name_is_charged_to_the_same_ledger_and_makes_no_other(tmp_path: Path) -> None:
    path = table_at(tmp_path / "people.csv")
    release(path)
    other = tmp_path / "far" / "p.csv"
    other.parent.mkdir()
    path.rename(other)
    made = release(other)
    assert spent(ledger(path)) == [2] and not ledger(other).exists()
    assert made.manifest["ledger"] == "people.csv.ledger.jsonl"
    shown = json.loads(run("budget", str(other), "--json").stdout)
    assert (
        shown["ledger"] == str(ledger(path))
        and len(shown["charges"]) == 2
        and shown["others"] == []
    )
    assert [charge["ended"] for charge in shown["charges"]] == ["made", "made"]


def test_that_a_file_is_taken_for_one_that_was_renamed_is_said_until_it_is_known(
    tmp_path: Path,
) -> None:
    path = table_at(tmp_path / "people.csv")
    release(path)
    other = rename(path, tmp_path)
    first = run("budget", other)
    assert str(ledger(path)) in first.stderr and "--new-table" in first.stderr
    with pytest.warns(us.LedgerWarning, match="which is not there any more"):
        session._warned.clear()
        release(other)
    assert not run("budget", other).stderr and spent(ledger(path)) == [2]


def test_a_limit_set_through_another_name_is_the_tables(tmp_path: Path) -> None:
    path = table_at(tmp_path / "people.csv")
    release(path)
    os.link(path, tmp_path / "link.csv")
    assert (
        run(
            "budget", str(tmp_path / "link.csv"), "--limit-epsilon", "1", "--limit-delta", "1e-6"
        ).exit_code
        == 0
    )
    with pytest.raises(BudgetRefused):
        release(path)


def test_a_ledger_of_the_build_before_is_read_and_learns(tmp_path: Path) -> None:
    """Its records say nothing of files."""
    path = table_at(tmp_path / "people.csv")
    book = FileLedger.beside(path)
    book.set_limit(Budget.zcdp(2 * PRICE))
    book.reserve("before", (ev.Reservation(what="release", rho=PRICE),), REPLACE)
    assert b"inode" not in ledger(path).read_bytes()
    release(path)
    (known,) = book.read().files
    assert (known.device, known.inode, known.path) == (
        path.stat().st_dev,
        path.stat().st_ino,
        str(path),
    )
    with pytest.raises(BudgetRefused):
        release(rename(path, tmp_path))


def test_nothing_of_what_a_file_holds_is_kept(people: Path) -> None:
    """Neither in the ledger nor in the registry: of two tables, all that differs is names, numbers
    and times.
    """
    (entry,) = [
        json.loads(line) for line in (state_folder() / "registry.jsonl").read_text().splitlines()
    ]
    found = people.stat()
    assert entry == {
        "device": found.st_dev, "inode": found.st_ino, "path": str(people), "ledger": str(ledger(people)), "apart": False
    }  # fmt: skip
    told = [
        json.loads(line)["body"].get("files", [])
        for line in ledger(people).read_text().splitlines()
    ]
    assert told[0] == [{name: entry[name] for name in ("device", "inode", "path")}] and not any(
        told[1:]
    )
    assert os.stat(state_folder() / "registry.jsonl").st_mode & 0o077 == 0


# ---------------------------------------------------------------------- globs


def test_a_glob_charges_every_ledger_of_its_files_and_its_own(tmp_path: Path) -> None:
    a, b = table_at(tmp_path / "d" / "a.csv"), table_at(tmp_path / "d" / "b.csv", 1)
    folder = tmp_path / "d" / "understudy.ledger.jsonl"
    release(a)
    made = release(tmp_path / "d" / "*.csv")
    assert spent(folder, ledger(a)) == [1, 2] and not ledger(b).exists()
    assert made.manifest["ledger"] == "understudy.ledger.jsonl, a.csv.ledger.jsonl"
    assert all(
        charge.ended == "made"
        for path in (folder, ledger(a))
        for charge in FileLedger(path).read().charges
    )
    release(b)  # which the glob's ledger knows
    assert spent(folder, ledger(a)) == [2, 2] and not ledger(b).exists()
    release(a)
    assert spent(folder, ledger(a)) == [3, 3]
    # not those that it is not for
    assert [file.path for file in FileLedger(ledger(a)).read().files] == [str(a)]


def test_one_release_in_two_ledgers_is_said_to_be_one(tmp_path: Path) -> None:
    a, _ = (table_at(tmp_path / "data" / f"{name}.csv", i) for i, name in enumerate("ab"))
    run("budget", str(a), "--limit-epsilon", "9", "--limit-delta", "1e-6")
    assert "Nothing was spent yet." in run("budget", str(a)).stdout
    release(tmp_path / "data" / "*.csv")
    shown = run("budget", str(a)).stdout
    assert shown.count("Spent in all") == 2 and "one release" in shown
    assert (
        "one release" not in run("budget", str(ledger(a))).stdout
        and "Nothing was spent" not in shown
    )


def test_a_refused_glob_leaves_no_ledger_behind(people: Path) -> None:
    table_at(people.parent / "others.csv", 1)
    before = everything_under(people.parent)
    with pytest.raises(BudgetRefused, match="Ledger"):
        release(glob(people, people.parent))
    assert everything_under(people.parent) == before


def test_two_globs_over_one_file_share_it(tmp_path: Path) -> None:
    table_at(tmp_path / "d" / "a.csv")
    release(tmp_path / "d" / "*.csv")
    run("budget", str(tmp_path / "d" / "*.csv"), "--limit-epsilon", "1", "--limit-delta", "1e-6")
    with pytest.raises(BudgetRefused):
        release(tmp_path / "*" / "a.csv")
    assert spent(tmp_path / "d" / "understudy.ledger.jsonl") == [1]


def test_a_budget_of_several_ledgers_shows_them_all_and_asks_which_one_is_meant(
    tmp_path: Path,
) -> None:
    a = table_at(tmp_path / "d" / "a.csv")
    release(tmp_path / "d" / "*.csv")
    release(tmp_path / "*" / "a.csv")
    shown = json.loads(run("budget", str(a), "--json").stdout)
    assert {Path(one["ledger"]) for one in (shown, *shown["others"])} == {
        folder / "understudy.ledger.jsonl" for folder in (tmp_path, a.parent)
    }
    assert run("budget", str(a)).stdout.count("Ledger ") == 2
    result = run("budget", str(a), "--limit-epsilon", "9", "--limit-delta", "1e-6")
    assert result.exit_code == 2 and "several ledgers" in result.stderr


def test_a_file_under_two_names_in_one_glob_would_count_twice_and_is_refused(people: Path) -> None:
    hard_link(people, people.parent)
    with pytest.raises(SourceError, match="count twice"):
        release(people.parent / "*.csv")


def test_other_relations_without_a_limit_do_not_stop_a_table(tmp_path: Path) -> None:
    """The way to keep two promises is two ledgers."""
    path = table_at(tmp_path / "people.csv")
    release(path)
    release(path, ledger=tmp_path / "add.jsonl", neighbours="add-remove-one")
    release(path)
    assert (
        len(FileLedger.beside(path).read().charges) == 2
        and len(FileLedger(tmp_path / "add.jsonl").read().charges) == 1
    )
    os.link(path, tmp_path / "link.csv")
    FileLedger(tmp_path / "add.jsonl").set_limit(Budget.zcdp(10))
    with pytest.raises(BudgetRefused, match="add-remove-one"):
        release(tmp_path / "link.csv")


# ---------------------------------------------------------------------- an explicit ledger


def test_an_explicit_ledger_is_honoured_where_there_is_no_limit(tmp_path: Path) -> None:
    path = table_at(tmp_path / "people.csv")
    release(path)
    made = release(path, ledger=tmp_path / "l.jsonl")
    assert (
        spent(ledger(path), tmp_path / "l.jsonl") == [1, 1] and made.manifest["ledger"] == "l.jsonl"
    )


def test_beside_an_explicit_ledger_one_with_a_limit_is_charged_too(tmp_path: Path) -> None:
    path = table_at(tmp_path / "people.csv")
    run("budget", str(path), "--limit-epsilon", "2", "--limit-delta", "1e-6")
    made = release(path, ledger=tmp_path / "l.jsonl")
    assert (
        spent(ledger(path), tmp_path / "l.jsonl") == [1, 1]
        and made.manifest["ledger"] == "l.jsonl, people.csv.ledger.jsonl"
    )
    book = ProcessLedger()
    release(path, ledger=book)
    assert spent(ledger(path)) == [2] and len(book.state.charges) == 1


def test_the_limit_of_an_explicit_ledger_holds_without_it(tmp_path: Path) -> None:
    path = table_at(tmp_path / "people.csv")
    FileLedger(tmp_path / "l.jsonl").set_limit(Budget.zcdp(PRICE))
    release(path, ledger=tmp_path / "l.jsonl")
    with pytest.raises(BudgetRefused):
        release(path)
    assert not ledger(path).exists()


# ---------------------------------------------------------------------- when it cannot be told


@pytest.fixture
def replaced(people: Path) -> Path:
    """A file that was people.csv, while another one is that now."""
    old = people.with_name("old.csv")
    people.rename(old)
    table_at(people, 5)
    return old


def test_a_file_whose_old_name_is_taken_is_refused_with_what_to_do(
    replaced: Path, people: Path, tmp_path: Path
) -> None:
    before = everything_under(tmp_path)
    for given in ({}, {"ledger": tmp_path / "l.jsonl"}):
        with pytest.raises(ParameterError, match=r"nothing was charged.*--ledger.*--new-table"):
            release(replaced, **given)
    assert everything_under(tmp_path) == before
    assert run("budget", str(replaced)).exit_code == 2
    with pytest.raises(BudgetRefused):  # the same people: their ledger counts
        release(replaced, ledger=ledger(people))


def test_the_same_people_are_known_again_after_their_ledger_was_named(
    replaced: Path, people: Path
) -> None:
    FileLedger(ledger(people)).set_limit(Budget.zcdp(3 * PRICE))
    release(replaced, ledger=ledger(people))
    release(replaced)
    assert spent(ledger(people)) == [3] and not ledger(replaced).exists()


def test_another_table_with_a_used_inode_is_released_once_that_was_said(
    replaced: Path, people: Path
) -> None:
    assert run("budget", str(people), "--new-table").exit_code == 0  # has its path: nothing to say
    with pytest.raises(BudgetRefused):
        release(people)
    result = run(
        "budget", str(replaced), "--new-table", "--limit-epsilon", "1", "--limit-delta", "1e-6"
    )
    assert result.exit_code == 0, result.output
    release(replaced)
    assert spent(ledger(replaced), ledger(people)) == [1, 1]
    assert "old.csv was said to be another table" in " ".join(
        FileLedger(ledger(people)).read().notes
    )
    with pytest.raises(BudgetRefused):
        release(replaced)
    assert run("budget", str(ledger(people)), "--new-table").exit_code == 2


def test_what_still_has_both_names_is_never_another_table(people: Path, tmp_path: Path) -> None:
    other = hard_link(people, tmp_path)
    run("budget", other, "--new-table")
    with pytest.raises(BudgetRefused):
        release(other)


def test_a_table_replaced_in_place_keeps_its_ledger_which_learns_its_inode(tmp_path: Path) -> None:
    path = table_at(tmp_path / "people.csv")
    release(path)
    os.replace(table_at(tmp_path / "new", 1), path)
    release(path)
    assert (
        spent(ledger(path)) == [2]
        and [file.inode for file in FileLedger(ledger(path)).read().files][1] == path.stat().st_ino
    )


def test_a_used_inode_of_a_table_that_was_deleted_with_its_ledger_is_a_new_table(
    people: Path, tmp_path: Path
) -> None:
    """By the registry's word: whether a file system uses the inode again is its own affair."""
    place = state_folder() / "registry.jsonl"
    (entry,) = [json.loads(line) for line in place.read_text().splitlines()]
    shutil.rmtree(people.parent)
    new = table_at(tmp_path / "another.csv")
    place.write_text(json.dumps({**entry, "inode": new.stat().st_ino}) + "\n")
    release(new)
    assert spent(ledger(new)) == [1] and "people.csv" not in place.read_text()


# ---------------------------------------------------------------------- the registry


def test_a_registry_with_unreadable_lines_keeps_the_others_and_says_so(
    people: Path, tmp_path: Path
) -> None:
    place = state_folder() / "registry.jsonl"
    wrong = [
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"device": "x"}',
        b"[" * 100_000,
        b'{"device":1,"inode":2,"path":"a\\u0000b","ledger":"x"}',
    ]
    place.write_bytes(b"\n".join([*wrong[:3], place.read_bytes().strip(), *wrong[3:]]) + b"\n")
    other = rename(people, tmp_path)
    session._warned.clear()
    with (
        pytest.raises(BudgetRefused),
        pytest.warns(us.LedgerWarning, match="6 lines of .* set aside"),
    ):
        release(other)
    assert (state_folder() / "registry.damaged.jsonl").read_bytes().splitlines() == wrong


def test_registered_paths_that_no_system_takes_do_no_harm(people: Path) -> None:
    place, found = state_folder() / "registry.jsonl", people.stat()
    entry = {
        "device": found.st_dev,
        "inode": found.st_ino,
        "path": "a\0b",
        "ledger": "c\0d",
        "apart": False,
    }
    place.write_text(json.dumps(entry) + "\n")
    with pytest.raises(BudgetRefused):
        release(people)


def test_without_a_place_for_the_registry_a_release_works_and_says_once_what_is_not_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table_at(tmp_path / "people.csv")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNDERSTUDY_STATE", str(tmp_path / "file" / "under"))
    session._warned.clear()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        release(path)
        release(path)
    (one,) = [str(warning.message) for warning in heard if warning.category is us.LedgerWarning]
    assert "under another name" in one and "UNDERSTUDY_STATE" in one
    assert spent(ledger(path)) == [2]
    session._warned.clear()
    (tmp_path / "s.json").write_text(json.dumps({"a": 3, "b": 4, "c": 2}))
    words = [
        "--schema",
        str(tmp_path / "s.json"),
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--accountant",
        "rho",
        "--out",
        str(tmp_path / "out"),
    ]
    result = run("release", str(path), *words)
    assert (
        result.exit_code == 0
        and "UNDERSTUDY_STATE" in result.stderr
        and "LedgerWarning" not in result.stderr
    )
    assert run("budget", str(path), "--new-table").exit_code == 2
    FileLedger(ledger(path)).set_limit(Budget.zcdp(3 * PRICE))
    with pytest.raises(BudgetRefused):  # what lies in the folder is found all the same
        release(hard_link(path, tmp_path))


@pytest.mark.parametrize(
    ("platform", "settings", "expected"),
    [
        ("linux", {"XDG_STATE_HOME": "/x"}, "/x/understudy"),
        ("linux", {"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/understudy"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/understudy"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/understudy"),
        ("linux", {"UNDERSTUDY_STATE": "/u", "XDG_STATE_HOME": "/x"}, "/u"),
    ],
)
def test_the_registry_is_where_the_platform_keeps_such_things(
    platform: str, settings: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_STATE")
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert str(state_folder()) == expected


# ---------------------------------------------------------------------- all or none


def test_of_several_ledgers_all_are_charged_or_none(tmp_path: Path) -> None:
    a, b = table_at(tmp_path / "d" / "a.csv"), table_at(tmp_path / "d" / "b.csv", 1)
    release(a)
    run("budget", str(b), "--limit-epsilon", "0.5", "--limit-delta", "1e-6")
    with pytest.raises(BudgetRefused, match=r"b\.csv\.ledger"):
        release(tmp_path / "d" / "*.csv")
    assert (
        spent(ledger(a), ledger(b)) == [1, 0]
        and not (tmp_path / "d" / "understudy.ledger.jsonl").exists()
    )


def test_a_disk_that_fails_between_two_ledgers_leaves_a_charge_that_counts_and_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = table_at(tmp_path / "d" / "a.csv")
    release(a)
    real, looks = os.write, []

    def full(fd: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") == str(ledger(a)):
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(Meter, "_look", lambda *args: looks.append(1))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ReleaseFailed, match="counts as spent in the other ledgers"):
        release(tmp_path / "d" / "*.csv")
    monkeypatch.undo()
    assert not looks and spent(tmp_path / "d" / "understudy.ledger.jsonl", ledger(a)) == [1, 1]


def test_ledgers_that_are_one_file_are_charged_once_and_nobody_waits_for_himself(
    tmp_path: Path,
) -> None:
    path = table_at(tmp_path / "people.csv")
    release(path)
    os.link(ledger(path), tmp_path / "same.jsonl")
    FileLedger(tmp_path / "same.jsonl").set_limit(Budget.zcdp(9 * PRICE))
    release(path, ledger=tmp_path / "same.jsonl")
    assert spent(ledger(path)) == [2]


def test_writers_that_name_two_ledgers_in_either_order_do_not_wait_for_each_other(
    tmp_path: Path,
) -> None:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    done: list[int] = []

    def work(first: Path, second: Path) -> None:
        for _ in range(30):
            with chain.locked([first, second], create=True) as chains:
                done.append(len(chains))

    threads = [
        threading.Thread(target=work, args=pair, daemon=True) for pair in ((a, b), (b, a)) * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert done == [2] * 120


def test_two_names_released_at_once_are_charged_to_one_ledger(tmp_path: Path) -> None:
    """Neither is known before: whoever comes second must find what the first one made."""
    path = table_at(tmp_path / "people.csv")
    other = tmp_path / "far" / "p.csv"
    other.parent.mkdir()
    os.link(path, other)
    ready = threading.Barrier(2)

    def reserve(name: Path) -> None:
        book = TableLedger(name, [name], None, lambda sentence: None)
        ready.wait()
        book.reserve("r", (ev.Reservation(what="release", rho=PRICE),), REPLACE)

    threads = [threading.Thread(target=reserve, args=(name,)) for name in (path, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (made,) = tmp_path.rglob("*.ledger.jsonl")
    assert spent(made) == [2]


# ---------------------------------------------------------------------- tables in memory


def test_a_table_in_memory_without_a_ledger_says_once_what_that_means() -> None:
    session._warned.clear()
    table, schema = np.zeros((40, 2), int), {"a": 2, "b": 2}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            us.release(table, schema=schema, **QUICK)
            us.learn(table, schema=schema, label="b", epsilon=1)
    (one,) = [warning for warning in heard if warning.category is us.LedgerWarning]
    assert "nothing remembers" in str(one.message) and one.filename == __file__


def test_with_a_ledger_nothing_is_said(tmp_path: Path) -> None:
    session._warned.clear()
    table, schema = np.zeros((40, 2), int), {"a": 2, "b": 2}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            us.release(table, schema=schema, ledger=tmp_path / "l.jsonl", **QUICK)
    assert not [warning for warning in heard if warning.category is us.LedgerWarning]
    assert spent(tmp_path / "l.jsonl") == [2]


def test_a_new_process_says_it_in_one_warning_that_a_notebook_shows(tmp_path: Path) -> None:
    code = (
        "import numpy as np, understudy as us\nfor _ in range(2):\n    us.release(np.zeros((40, 2),"
        " int), schema={'a': 2, 'b': 2}, epsilon=1, delta=1e-6, mechanism='independent')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stderr.count("LedgerWarning") == 1 and "nothing remembers" in done.stderr


# ---------------------------------------------------------------------- from outside


def limit(path: Path | str) -> Result:
    return run("budget", str(path), "--limit-epsilon", "1", "--limit-delta", "1e-6")


def far_link(path: Path) -> Path:
    """Another name where no ledger lies."""
    place = path.parent.parent / "far"
    place.mkdir(exist_ok=True)
    os.link(path, place / "other.csv")
    return place / "other.csv"


@pytest.mark.parametrize("by", ["command", "Python"])
def test_a_limit_set_on_the_ledger_itself_holds_for_a_far_name(by: str, tmp_path: Path) -> None:
    path = table_at(tmp_path / "d" / "a.csv")
    if by == "command":
        assert limit(ledger(path)).exit_code == 0
    else:
        FileLedger.beside(path).set_limit(Budget.of(epsilon=1, delta=1e-6))
    other = far_link(path)
    release(other)
    with pytest.raises(BudgetRefused):
        release(other)


@pytest.mark.parametrize("by", ["a look", "a refusal"])
def test_a_ledger_that_no_registry_knows_is_found_under_a_far_name_after(
    by: str, people: Path
) -> None:
    other = far_link(people)
    (state_folder() / "registry.jsonl").unlink()
    if by == "a look":
        assert run("budget", str(people)).exit_code == 0
    else:
        with pytest.raises(BudgetRefused):
            release(people)
    with pytest.raises(BudgetRefused):
        release(other)


@pytest.mark.parametrize("of", ["table", "ledger"])
def test_what_was_added_by_hand_is_found_under_a_far_name(of: str, tmp_path: Path) -> None:
    path = table_at(tmp_path / "d" / "a.csv")
    assert (
        run(
            "budget",
            str(path if of == "table" else ledger(path)),
            "--add-rho",
            "1",
            "--why",
            "lost",
        ).exit_code
        == 0
    )
    release(far_link(path))
    assert len(FileLedger(ledger(path)).read().charges) == 2


def test_a_limit_on_a_folder_would_hold_for_nothing_and_is_refused(tmp_path: Path) -> None:
    table_at(tmp_path / "d" / "a.csv")
    result = limit(tmp_path / "d")
    assert (
        result.exit_code == 2
        and "is a folder" in result.stderr
        and [file.name for file in tmp_path.rglob("*.jsonl")] == []
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_link_that_leads_elsewhere_after_the_charge_is_not_followed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        frame = pd.DataFrame(small_table(100, seed), columns=list("abc"))
        if kind == "csv":
            frame.to_csv(tmp_path / f"{name}.csv", index=False)
        else:
            frame.to_parquet(tmp_path / f"{name}.parquet")
    link = tmp_path / f"current.{kind}"
    link.symlink_to(tmp_path / f"a.{kind}")
    reserve = TableLedger.reserve

    def late(self: TableLedger, *args: Any) -> int:
        number = reserve(self, *args)
        link.unlink()
        link.symlink_to(tmp_path / f"b.{kind}")
        return number

    monkeypatch.setattr(TableLedger, "reserve", late)
    with pytest.raises(ReleaseFailed, match="could not be read to the end"):
        release(link)


@pytest.mark.parametrize("where", ["its folder was renamed", "it was taken away"])
def test_that_a_ledger_is_not_there_any_more_is_said_until_it_is_said_to_be_gone(
    where: str, tmp_path: Path
) -> None:
    path = table_at(tmp_path / "d" / "a.csv")
    book = tmp_path / "d" / "budget.jsonl"
    release(path, ledger=book)
    if where == "it was taken away":
        book.unlink()
    else:
        (tmp_path / "d").rename(tmp_path / "e")
        path = tmp_path / "e" / "a.csv"
    session._warned.clear()
    with pytest.warns(us.LedgerWarning, match=r"budget\.jsonl.*not there any more.*--new-table"):
        release(path)
    assert run("budget", str(path), "--new-table").exit_code == 0
    session._warned.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", us.LedgerWarning)
        release(path)


def test_to_say_that_a_table_is_another_one_needs_no_ledger(replaced: Path) -> None:
    for words in ((), ("--json",)):
        result = run("budget", str(replaced), "--new-table", *words)
        assert result.exit_code == 0, result.stderr


LONG = "a" * 300


@pytest.mark.parametrize(
    "name", [LONG, f"{LONG}.csv", f"{LONG}*.csv", f"{LONG}/[a].csv", "a\0.csv", "x/" * 3000]
)
def test_names_that_no_file_has_are_refused_in_a_sentence(name: str) -> None:
    result = run("budget", name)
    assert result.exit_code == 2 and "unexpected" not in result.stderr, result.stderr
    with pytest.raises(SourceError):
        release(name)


def test_what_may_not_be_looked_at_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.stat

    def closed(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", closed)
    result = run("budget", str(tmp_path / "closed" / "a.csv"))
    assert result.exit_code == 2 and "unexpected" not in result.stderr
    with pytest.raises(SourceError):
        release(tmp_path / "closed" / "a.csv")


def test_a_name_too_long_for_a_ledger_beside_it_can_have_one_elsewhere(tmp_path: Path) -> None:
    path = table_at(tmp_path / ("a" * 248 + ".csv"))
    with pytest.raises(ParameterError, match="too long"):
        release(path)
    release(path, ledger=tmp_path / "l.jsonl")
    assert spent(tmp_path / "l.jsonl") == [1]


def test_ledgers_in_a_folder_whose_name_is_no_text_are_shown(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    for name in "ab":
        release(table_at(folder / f"{name}.csv"))
    for words in ((), ("--json",)):
        result = run("budget", str(folder / "*.csv"), *words)
        assert result.exit_code == 0, result.stderr


class Wrapped:
    """A ledger of somebody's own, which writes to another one."""

    where = "wrapped"

    def __init__(self, inner: FileLedger) -> None:
        self.inner = inner

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        return self.inner.reserve(label, events, neighbours)

    def note(self, text: str, charge: int | None = None) -> None:
        self.inner.note(text, charge)


def test_a_release_does_not_wait_for_itself(people: Path) -> None:
    FileLedger(ledger(people)).set_limit(Budget.zcdp(5 * PRICE))
    for given, why in (
        (Wrapped(FileLedger(ledger(people))), "wait for itself"),
        (TableLedger.at(people, print), "give none"),
    ):
        with pytest.raises(ParameterError, match=why):
            release(people, ledger=given)
    release(people)
    assert spent(ledger(people)) == [2]


def test_a_charge_that_somebody_elses_ledger_took_is_not_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table_at(tmp_path / "a.csv")
    limit(path)
    book = ProcessLedger()

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with (
        monkeypatch.context() as patch,
        pytest.raises(ReleaseFailed, match="counts as spent in the other"),
    ):
        patch.setattr(os, "write", full)
        release(path, ledger=book)
    assert len(book.state.charges) == 1


# ---------------------------------------------------------------------- the registry's place


@pytest.mark.parametrize(
    "settings", [{"UNDERSTUDY_STATE": "relative"}, {"HOME": "."}, {"HOME": "~"}]
)
def test_a_place_that_depends_on_the_working_directory_is_not_used(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNDERSTUDY_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.warns(us.LedgerWarning, match="not an absolute path"):
        release(table_at(tmp_path / "a.csv"))
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o755, 0o600), (0o2770, 0o660)])
def test_a_registry_is_shared_with_a_group_that_may_write_to_its_folder_and_with_nobody_else(
    folder: int, file: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "state"
    place.mkdir()
    place.chmod(folder)
    monkeypatch.setenv("UNDERSTUDY_STATE", str(place))
    release(table_at(tmp_path / "a.csv"))
    made = {one.name: stat.S_IMODE(one.stat().st_mode) for one in place.iterdir()}
    assert made == {"registry.jsonl": file, "registry.lock": file}


def test_unreadable_lines_are_set_aside_once(people: Path) -> None:
    place = state_folder() / "registry.jsonl"
    place.write_bytes(b"{\n" + place.read_bytes())
    for _ in range(3):
        assert run("budget", str(people)).exit_code == 0
    assert (state_folder() / "registry.damaged.jsonl").read_bytes() == b"{\n"


def test_a_registry_that_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    state_folder().mkdir(parents=True)
    os.mkfifo(state_folder() / "registry.jsonl")
    with pytest.warns(us.LedgerWarning, match="not a plain file"):
        release(table_at(tmp_path / "a.csv"))
