"""Nothing finished is lost for want of a disk or of memory, and what clearly cannot fit is refused
before anything is charged.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.api import release as front_door
from understudy.api.demo import population
from understudy.api.demo import schema as demo_schema
from understudy.api.request import Request
from understudy.bundle import saving
from understudy.bundle.release import Release
from understudy.checks import SMALL, small_table
from understudy.cli import learn as learn_command
from understudy.cli import release as release_command
from understudy.cli.main import main
from understudy.errors import ReleaseFailed
from understudy.game.players.product import ProductModel
from understudy.privacy import FileLedger
from understudy.queries.base import Neighbours
from understudy.runtime import machine
from understudy.sources import duckdb as duckdb_source

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
QUICK = {"epsilon": 1, "delta": "1e-6", "mechanism": "independent"}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and its schema; the user's own folders are elsewhere in it."""
    for name, folder in (("XDG_STATE_HOME", "state"), ("TMPDIR", "temporary")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.delenv("UNDERSTUDY_STATE")
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "here").mkdir()
    pd.DataFrame(small_table(), columns=list("abc")).to_csv(tmp_path / "here/t.csv", index=False)
    SMALL.save(tmp_path / "here/schema.json")
    return tmp_path / "here"


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "300"}).invoke(main, list(words))


def release(data: Path, out: Path) -> Result:
    settings = [f"--{name}={value}" for name, value in QUICK.items()]
    return run(
        "release",
        str(data / "t.csv"),
        "--schema",
        str(data / "schema.json"),
        *settings,
        "--out",
        str(out),
    )


def charges(data: Path) -> int:
    ledger = FileLedger.beside(data / "t.csv")
    return len(ledger.read().charges) if ledger.path.exists() else 0


def kept_at(result: Result) -> Path:
    """Where the last words say that what was made is."""
    assert result.exit_code == 6, result.output
    (place,) = re.findall(r"is whole and kept in '([^']+)'", result.stderr)
    return Path(place)


def is_sound(folder: Path) -> bool:
    return all(check.holds for check in us.verify(folder))


# ---------------------------------------------------------------------- before a charge


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        not sys.platform.startswith("linux")
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]).returncode
    ):
        pytest.skip("only root can mount a disk here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path, spare: int) -> None:
    """Leave so many bytes free."""
    (disk / "filler").write_bytes(
        b"x" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - spare)
    )


@pytest.mark.parametrize("spare", [0, 30_000])
def test_a_disk_that_is_too_full_is_refused_before_a_charge(
    spare: int, data: Path, disk: Path
) -> None:
    fill(disk, spare)  # the least bundle has more than this
    result = release(data, disk / "out")
    assert result.exit_code == 2 and charges(data) == 0 and not (disk / "out").exists()
    assert re.search("No space left|MB left; make room", result.stderr)


def test_a_place_that_takes_names_and_no_bytes_is_refused_before_a_charge(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota, for one, lets files be made and not written."""

    def full(fd: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(saving.os, "fsync", full)
    result = release(data, data / "out")
    assert (
        result.exit_code == 2
        and "quota" in result.stderr.lower()
        and charges(data) == 0
        and not (data / "out").exists()
    )


def test_the_room_that_a_disk_must_have_grows_with_the_rows(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = saving.shutil.disk_usage(data)
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda place: usage._replace(free=5_000_000))
    settings: dict[str, Any] = {
        "schema": SMALL,
        **QUICK,
        "ledger": data / "l.jsonl",
        "out": data / "out",
    }
    with pytest.raises(us.ParameterError, match=r"will take about .* has 5 MB left"):
        us.release(small_table(), rows=10_000_000, **settings)
    assert not (data / "l.jsonl").exists()
    assert len(us.release(small_table(), rows=1000, **settings).codes) == 1000


SIZED = {
    "rows": ({"mechanism": "independent"}, "2-way"),
    "a model": (
        {"mechanism": "rap", "parameters": {"rounds": 2, "steps": 5, "relaxed_rows": 5000}},
        "1-way",
    ),
    "answers": ({"mechanism": "independent"}, "4-way:60@1"),
    "batches": ({"mechanism": "independent"}, "3-way"),
}


@pytest.mark.parametrize("what", SIZED)
@pytest.mark.parametrize("rows", [500, 20_000])
def test_the_size_of_a_bundle_is_known_within_a_factor(
    what: str, rows: int, tmp_path: Path
) -> None:
    settings, work = SIZED[what]
    schema = demo_schema()
    made = us.release(
        population(2000), schema=schema, epsilon=1, workload=work, rows=rows, **settings
    )  # type: ignore[arg-type]
    found = sum(file.stat().st_size for file in made.save(tmp_path / "out").iterdir())
    decision = Request.of(schema=schema, epsilon=1, workload=work, **settings).decide(2000)  # type: ignore[arg-type]
    said = saving.Need.of(made.workload, rows, decision.model_numbers).disk
    assert found / 3 < said < 3 * found


def test_what_clearly_needs_more_memory_than_there_is_is_refused_before_a_charge(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "memory_left", lambda: 100_000_000)
    settings: dict[str, Any] = {"schema": SMALL, **QUICK, "ledger": data / "l.jsonl"}
    with pytest.raises(us.NotSupported, match="of memory or more, and 100 MB are left"):
        us.release(small_table(), rows=10_000_000, **settings)
    wide = us.Schema.from_domain({"a": 4000, "b": 4000, "c": 4000})
    for neighbours in Neighbours:  # the answers alone
        with pytest.raises(us.NotSupported, match="384 MB of memory"):
            us.release(small_table(), neighbours=neighbours, **{**settings, "schema": wide})
    assert not (data / "l.jsonl").exists()
    assert len(us.release(small_table(), **settings).codes) == 600


LIMITED = """
import resource
from understudy.runtime.machine import memory_left
before = memory_left()
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
assert 0 < memory_left() < 8 << 30 and memory_left() <= before
print("seen")
"""


def test_a_limit_on_the_process_is_seen() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert done.stdout == "seen\n", done.stderr


GROUP_LIMITS = {
    "version 2": (
        "0::/a/b\n",
        "a",
        {
            "memory.max": "5000",
            "memory.current": "3000",
            "memory.stat": "anon 1\ninactive_file 700\n",
        },
    ),
    "version 2, a file read twice": (
        "0::/a/b\n",
        "a",
        {
            "memory.max": "5000",
            "memory.current": "4300",
            "memory.stat": "inactive_file 500\nactive_file 1500\n",
        },
    ),
    "version 2, in a container": ("0::/\n", "", {"memory.max": "5000", "memory.current": "2300"}),
    "version 1": (
        "4:memory:/a\n",
        "memory/a",
        {"memory.limit_in_bytes": "5000", "memory.usage_in_bytes": "2300"},
    ),
}


@pytest.mark.parametrize("kind", GROUP_LIMITS)
def test_the_limit_of_a_control_group_is_seen(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, folder, files = GROUP_LIMITS[kind]
    (tmp_path / "own").write_text(own)
    (tmp_path / "groups/a/b").mkdir(parents=True)
    (tmp_path / "groups/a/b/memory.max").write_text("max")
    (tmp_path / "groups" / folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (tmp_path / "groups" / folder / name).write_text(text)
    monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    assert machine.memory_left() == 2700


def test_where_nothing_tells_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OWN_GROUPS", "GROUPS", "MEMORY_INFO"):
        monkeypatch.setattr(machine, name, tmp_path / "nothing")
    assert machine.memory_left() is None
    saving.check_memory(saving.Need(disk=1, memory=10**18))


# ---------------------------------------------------------------------- after the play


def after_the_play(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    made = front_door.release

    def late(*args: Any, **options: Any) -> Release:
        found = made(*args, **options)
        happens()
        return found

    monkeypatch.setattr(release_command, "make_release", late)


def test_a_disk_that_fills_up_during_the_play_loses_nothing(
    data: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_the_play(monkeypatch, lambda: fill(disk, 8192))
    result = release(data, disk / "out")
    place = kept_at(result)
    assert (
        is_sound(place)
        and place.is_relative_to(data.parent / "state")
        and f"understudy verify {place}" in result.stderr
    )
    assert "No space left" in result.stderr and charges(data) == 1
    # nothing that looks like a release and is none
    assert [file.name for file in disk.iterdir()] == ["filler"]


def test_a_folder_that_is_gone_or_closed_after_the_play_loses_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as a disk does that is mounted again; root would be let through by mere permissions
    def closes() -> None:
        (data / "out").rmdir()
        (data / "out").write_text("no folder")

    after_the_play(monkeypatch, closes)
    place = kept_at(release(data, data / "out"))
    assert (
        is_sound(place)
        and place.parent.parent == data
        and (data / "out").read_text() == "no folder"
    )


def test_what_somebody_else_put_there_during_the_play_is_left_alone(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_the_play(monkeypatch, lambda: (data / "out/report.html").write_text("another release"))
    assert (
        is_sound(kept_at(release(data, data / "out")))
        and (data / "out/report.html").read_text() == "another release"
    )


class Failing:
    """Files and beginnings of paths that, after so many things were done to them, can be written no
    more.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bad: tuple[str, ...], at: int) -> None:
        self.done, self.at, self.bad = 0, at, bad
        for owner, name in (
            (pq, "write_table"),
            (Path, "write_text"),
            (Path, "write_bytes"),
            (Path, "open"),
        ):
            monkeypatch.setattr(
                owner, name, self.failing(getattr(owner, name), 1 if owner is pq else 0)
            )

    def failing(self, real: Callable[..., Any], which: int) -> Callable[..., Any]:
        def does(*args: Any, **options: Any) -> Any:
            reads = real.__name__ == "open" and not set("wxa+") & set("".join(args[1:2]))
            if str(args[which]).startswith(self.bad) and not reads:
                self.done += 1
                if self.done > self.at:
                    raise FULL
            return real(*args, **options)

        return does


def writes_of_a_save(made: Release, folder: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        watched = Failing(patch, (f"{folder}/",), at=10**6)
        made.save(folder)
    return watched.done


@pytest.fixture(scope="module")
def whole() -> Release:
    return us.release(
        small_table(),
        schema=SMALL,
        epsilon=1,
        mechanism="rap",
        parameters={"rounds": 2, "steps": 5},
    )


def test_whichever_write_fails_the_release_is_kept_whole(
    whole: Release, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_command, "make_release", lambda *args, **options: whole)
    total = writes_of_a_save(whole, data / "counted")
    assert total > 15  # ten files, most of them written and synced
    out = data / "out"
    for at in range(1, total + 1):  # the first is the folder's check, before the play
        with pytest.MonkeyPatch.context() as patch:
            Failing(patch, (f"{out}/",), at)
            result = release(data, out)
        place = kept_at(result)
        assert is_sound(place) and not out.exists() and "No space left" in result.stderr


PLACES = ["beside it", "the user's folder", "the folder for temporary files", "nowhere"]


@pytest.mark.parametrize("which", range(4), ids=PLACES)
def test_it_is_kept_in_the_first_place_that_takes_it(
    which: int, whole: Release, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_command, "make_release", lambda *args, **options: whole)
    places = [f"{data}/out-kept-", f"{data.parent}/state/", f"{data.parent}/temporary/"]
    with pytest.MonkeyPatch.context() as patch:
        Failing(patch, (f"{data}/out/", *places[:which]), at=1)
        result = release(data, data / "out")
    if which == 3:
        assert (
            result.exit_code == 5
            and "lost, and its whole budget counts as spent" in result.stderr
            and "Traceback" not in result.output
        )
    else:
        place = kept_at(result)
        assert is_sound(place) and str(place).startswith(places[which])
    assert len(list(data.parent.rglob("out"))) == (which < 3)  # and no half of one anywhere


def test_a_rule_that_cannot_be_saved_is_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "learn",
        str(data / "t.csv"),
        "--schema",
        str(data / "schema.json"),
        "--label",
        "c = 1",
        "--epsilon",
        "1",
    ]
    with pytest.MonkeyPatch.context() as patch:
        Failing(patch, (f"{data}/",), at=1)
        result = run(*words, "--out", str(data / "rule.json"))
    place = kept_at(result)
    assert (
        us.Learned.load(place).manifest["label"]
        and "understudy verify" not in result.stderr
        and not (data / "rule.json").exists()
    )


@pytest.mark.parametrize("what", ["file", "dangling link"])
def test_a_rule_takes_nobodys_place(what: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "learn",
        str(data / "t.csv"),
        "--schema",
        str(data / "schema.json"),
        "--label",
        "c = 1",
        "--epsilon",
        "1",
    ]
    out, learnt = data / "rule.json", learn_command.learn_rule

    def meanwhile(*args: Any, **options: Any) -> us.Learned:
        out.write_text("somebody else's")
        return learnt(*args, **options)

    if what == "file":
        monkeypatch.setattr(learn_command, "learn_rule", meanwhile)
        place = kept_at(run(*words, "--out", str(out)))
        assert out.read_text() == "somebody else's" and us.Learned.load(place).manifest["label"]
    else:
        out.symlink_to(data / "nothing")
        assert run(*words, "--out", str(out)).exit_code == 2
        assert out.is_symlink() and charges(data) == 0


def test_trying_a_file_leaves_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("somebody else's")
    with pytest.raises(FileExistsError):
        saving.try_file(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "somebody else's"


@pytest.mark.parametrize("name", ["a" * 250, "\N{SNOWMAN}" * 83])
def test_a_release_whose_folder_has_a_long_name_is_kept(
    name: str, whole: Release, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_command, "make_release", lambda *args, **options: whole)
    with pytest.MonkeyPatch.context() as patch:
        Failing(patch, (f"{data / name}/",), at=1)
        place = kept_at(release(data, data / name))
    assert is_sound(place) and (place.parent.stat().st_mode & 0o077) == 0


def test_a_release_is_kept_when_the_working_directory_is_gone(
    whole: Release, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = data / "gone"
    here.mkdir()
    monkeypatch.chdir(here)

    def made(*args: Any, **options: Any) -> Release:
        (here / "out").rmdir()
        here.rmdir()
        return whole

    monkeypatch.setattr(release_command, "make_release", made)
    place = kept_at(release(data, Path("out")))
    assert is_sound(place) and place.is_relative_to(data.parent / "state")


def test_a_disk_that_tells_no_size_is_not_taken_for_a_full_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(total=0, used=0, free=0))
    assert release(data, data / "out").exit_code == 0


# ---------------------------------------------------------------------- memory


@pytest.mark.parametrize("error", [duckdb.OutOfMemoryException, pa.ArrowMemoryError, MemoryError])
def test_memory_that_runs_out_while_a_table_is_read_is_no_fault_of_its_file(
    error: type[Exception], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.DataFrame(small_table(), columns=list("abc")).to_parquet(data / "t.parquet")

    def breaks(*args: Any) -> Iterator[Any]:
        raise error("could not hold s3cr3t")
        yield

    monkeypatch.setattr(duckdb_source, "_through_duckdb", breaks)
    with pytest.raises(us.SourceError, match="Memory ran out while the table was read") as caught:
        us.release(data / "t.parquet", schema=SMALL, **QUICK)
    assert "nothing is wrong with its files" in str(caught.value) and "s3cr3t" not in str(
        caught.value
    )


STARVED = """
import resource, sys
import numpy as np, understudy as us
from understudy.runtime.machine import OWN_SIZE, memory_left
from understudy.checks import SMALL
us.release(np.zeros((100, 3), int), schema=SMALL, epsilon=1, mechanism="independent")  # everything is loaded
used = int(OWN_SIZE.read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    us.release(np.zeros((100, 3), int), schema=SMALL, epsilon=1, mechanism="independent", rows=50_000_000)
except us.NotSupported as refusal:
    print(refusal)
"""


def test_a_process_that_may_not_have_the_memory_refuses() -> None:
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True)
    assert "of memory or more" in done.stdout, done.stderr


def short_of_memory(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    rows = ProductModel.rows

    def made(self: ProductModel, count: int, rng: np.random.Generator) -> np.ndarray:
        if count > most:
            raise MemoryError
        return rows(self, count, rng)

    monkeypatch.setattr(ProductModel, "rows", made)


def test_memory_that_runs_out_after_the_play_leaves_a_release_of_fewer_rows(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_of_memory(monkeypatch, 20_000)
    made = us.release(small_table(), schema=SMALL, **QUICK, rows=100_000)
    assert len(made.codes) == 12_500 == made.manifest["synthetic_rows"] and is_sound(
        made.save(data / "out")
    )
    assert (
        made.manifest["mechanism"]["played"]["fewer_rows"]
        == "memory ran out for 100,000 rows, so fewer were made"
    )


def test_memory_that_runs_out_for_any_rows_says_what_is_lost(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_of_memory(monkeypatch, 0)
    with pytest.raises(
        ReleaseFailed,
        match="Memory ran out while the release was made, and what was measured is lost",
    ) as caught:
        us.release(data / "t.csv", schema=SMALL, **QUICK)
    assert "unexpected" not in str(caught.value) and charges(data) == 1


@pytest.mark.parametrize("there", ["a release", "a file"])
def test_a_folder_that_is_taken_is_refused_before_a_charge_from_python_too(
    data: Path, there: str
) -> None:
    taken = data / "taken"
    if there == "a file":
        taken.write_text("mine")
    else:
        us.release(data / "t.csv", schema=SMALL, ledger=data / "first", **QUICK).save(taken)
    with pytest.raises(
        us.ParameterError, match="not empty" if there == "a release" else "is a file"
    ):
        us.release(data / "t.csv", schema=SMALL, ledger=data / "second", out=taken, **QUICK)
    assert not (data / "second").exists()


def test_a_folder_that_is_only_checked_is_not_made(data: Path) -> None:
    us.release(data / "t.csv", schema=SMALL, out=data / "deep/er", **QUICK)
    assert not (data / "deep").exists()


def test_a_mistyped_path_is_a_wrong_request_and_no_forged_bundle(data: Path) -> None:
    assert run("verify", str(data / "nothing")).exit_code == 2
    assert release(data, data / "made").exit_code == 0
    assert run("export", str(data / "made"), "--csv", str(data / "no/rows.csv")).exit_code == 2
    (data / "made" / "codes.parquet").write_bytes(b"")
    assert run("verify", str(data / "made")).exit_code == 1
