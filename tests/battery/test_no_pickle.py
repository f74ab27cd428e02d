"""No pickle, anywhere: nothing of ours writes one, and a file from somebody else runs nothing."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import understudy as us
from support.bundles import FEWEST
from understudy.audit.fence import side_doors
from understudy.bundle.export import export_csv
from understudy.bundle.release import FILES
from understudy.checks import SMALL, small_table
from understudy.oracles.child import receive, send

ROOT = Path(__file__).resolve().parents[2]


class Mine:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.mark), "w")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return us.release(
        small_table(), schema=SMALL, workload="1-way", epsilon=1, mechanism="independent"
    ).save(tmp_path / "bundle")


def npy(mine: Mine) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([mine], dtype=object), allow_pickle=True)
    return stream.getvalue()


def npz(mine: Mine) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, status=np.array([mine], dtype=object))
    return stream.getvalue()


def crafted_table(table: pa.Table, mine: Mine) -> pa.Table:
    """Every column claims to be of a pickled Python type, as older versions of Arrow believed; the
    metadata claims more of it.
    """
    words = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(mine),
    }
    schema = pa.schema([field.with_metadata(words) for field in table.schema])
    return table.cast(schema).replace_schema_metadata(
        {b"pandas": pickle.dumps(mine), b"ARROW:schema": pickle.dumps(mine)}
    )


def parquet(file: Path, mine: Mine) -> bytes:
    stream = io.BytesIO()
    pq.write_table(crafted_table(pq.read_table(file), mine), stream)
    return stream.getvalue()


def ipc(file: Path, mine: Mine) -> bytes:
    stream, table = io.BytesIO(), crafted_table(pq.read_table(file), mine)
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


CRAFTED: dict[str, Callable[[Path, Mine], bytes]] = {
    "pickle": lambda file, mine: pickle.dumps(mine),
    "npy": lambda file, mine: npy(mine),
    "npz": lambda file, mine: npz(mine),
    "parquet": lambda file, mine: parquet(file, mine),
    "ipc": lambda file, mine: ipc(file, mine),
    "parquet and a pickle": lambda file, mine: pickle.dumps(mine) + file.read_bytes(),
    "yaml": lambda file, mine: (
        f"!!python/object/apply:builtins.open ['{mine.mark}', 'w']\n".encode()
    ),
}
TABLES = [name for name in FILES if name.endswith(".parquet")]
TEXTS = ["schema.json", "workload.json", "manifest.json"]


def test_the_mark_is_left_by_whoever_unpickles(mark: Path) -> None:
    for read in (pickle.loads, lambda data: np.load(io.BytesIO(data), allow_pickle=True)):
        mark.unlink(missing_ok=True)
        read(pickle.dumps(Mine(mark)) if read is pickle.loads else npy(Mine(mark)))
        assert mark.exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (n, k)
        for n in (*TABLES, *TEXTS)
        for k in CRAFTED
        if n in TABLES or k not in ("parquet", "ipc")
    ],
)
def test_a_crafted_bundle_runs_nothing(folder: Path, mark: Path, name: str, kind: str) -> None:
    """As a forger would send it: the hashes are right, so every reader gets to see the file."""
    (folder / name).write_bytes(CRAFTED[kind](folder / name, Mine(mark)))
    if name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
    rows = folder.parent / "rows.csv"
    # What each gives if it takes the file for what it should be: nobody may pass it by.
    readers: list[tuple[Callable[[], object], Callable[[Any], bool]]] = [
        (lambda: us.verify(folder), lambda checks: len(checks) >= FEWEST),
        (lambda: us.Release.load(folder), lambda made: len(made.codes) == len(small_table())),
        (
            lambda: export_csv(folder, rows),
            lambda _: rows.read_text().count("\n") > len(small_table()),
        ),
    ]
    for read, whole in readers:
        try:
            assert whole(read())
        except us.UnderstudyError as refused:
            assert str(refused).endswith(".") and "pickle" not in str(refused).lower()
        assert not mark.exists()


@pytest.mark.parametrize("kind", ["pickle", "npy", "npz", "yaml"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "s.yaml", "s.json", "r.json"])
def test_a_crafted_table_schema_or_rule_runs_nothing(
    tmp_path: Path, mark: Path, kind: str, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(CRAFTED[kind](file, Mine(mark)))
    with pytest.raises(us.UnderstudyError):
        if name.startswith("t"):
            us.release(str(file), schema=SMALL, epsilon=1)
        elif name.startswith("s"):
            us.Schema.load(file)
        else:
            us.Learned.load(file)
    assert not mark.exists()


def test_a_table_of_objects_in_memory_runs_nothing(mark: Path) -> None:
    with pytest.raises(us.UnderstudyError):
        us.release(np.array([[Mine(mark)] * 3] * 20, dtype=object), schema=SMALL, epsilon=1)
    assert not mark.exists()


def test_a_message_from_a_solver_runs_nothing(mark: Path) -> None:
    data = npz(Mine(mark))
    with pytest.raises(ValueError, match="allow_pickle"):
        receive(io.BytesIO(struct.pack("<q", len(data)) + data))
    assert not mark.exists()
    stream = io.BytesIO()
    send(stream, x=np.arange(3))
    stream.seek(0)
    assert list((receive(stream) or {})["x"]) == [0, 1, 2]


def test_a_message_to_a_solver_holds_no_pickle() -> None:
    """An array of objects would be one."""
    with pytest.raises(ValueError, match="no objects"):
        send(io.BytesIO(), x=np.array([{}], dtype=object))


def test_saved_bundles_and_rules_are_parquet_json_and_a_page(folder: Path, tmp_path: Path) -> None:
    us.learn(small_table(), schema=SMALL, label="c = 1", epsilon=1).save(tmp_path / "rule.json")
    for file in [*folder.iterdir(), tmp_path / "rule.json"]:
        data = file.read_bytes()
        if file.suffix == ".parquet":
            assert data[:4] == data[-4:] == b"PAR1"
            assert all(
                b"\x80\x04" not in value for value in (pq.read_schema(file).metadata or {}).values()
            )
        elif file.suffix == ".json":
            json.loads(data)
        else:
            assert file.name == "report.html" and data.startswith(b"<!doctype html>")


def test_no_source_of_ours_reads_or_writes_a_pickle(tmp_path: Path) -> None:
    """The fence over the package is tested elsewhere; here also what runs beside it, and one that
    does.
    """
    (tmp_path / "does.py").write_text("import pickle")
    for place, doors in ((ROOT / "src/understudy", 0), (ROOT / "bench", 0), (tmp_path, 1)):
        assert len([door for door in side_doors(place) if "pickle" in door]) == doors and any(
            place.rglob("*.py")
        )
