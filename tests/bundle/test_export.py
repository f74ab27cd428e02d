"""Released rows as CSV: what a spreadsheet would run is not run, and nothing else changes."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.api import demo
from understudy.bundle import export
from understudy.cli.main import main

RUN = [
    "=1+1",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "'=1+1",
    "''-x",
    "＝1",
    '=HYPERLINK("//x","a")',
]
SAFE = ["plain", "a=b", "'tis", "x\n=y", 'say "hi", then', "1-2", "ünï", "'"]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def read(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": "=name", "type": "string", "constraints": {"enum": RUN + SAFE}},
                {
                    "name": "change",
                    "type": "integer",
                    "constraints": {"minimum": -9, "maximum": -1},
                },
                {"name": "real", "type": "number", "constraints": {"minimum": -2, "maximum": -1}},
                {
                    "name": "day",
                    "type": "date",
                    "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"},
                },
                {
                    "name": "at",
                    "type": "datetime",
                    "constraints": {
                        "minimum": "2024-01-01T00:00:00",
                        "maximum": "2024-12-31T00:00:00",
                    },
                },
                {"name": "yes", "type": "boolean"},
            ],
            "understudy": {
                "columns": {
                    "change": {"missing": True},
                    "real": {"bins": 2},
                    "day": {"bins": 2},
                    "at": {"bins": 2},
                }
            },
        }
    )
    rows = np.random.default_rng(0).integers(0, schema.shape, (600, len(schema)))
    table = schema.decode(rows, np.random.default_rng(0))
    made = us.release(
        table, schema=schema, workload="1-way", epsilon=50, mechanism="independent", seed=0
    )
    return made.save(tmp_path / "release")


def test_what_a_spreadsheet_would_run_gets_a_quote(
    folder: Path, tmp_path: Path, battery: Callable[[str, int, str], None]
) -> None:
    made = run("export", str(folder), "--csv", str(tmp_path / "rows.csv"), "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout) == {
        "file": str(tmp_path / "rows.csv"),
        "rows": 600,
        "raw": False,
    }
    header, *rows = read(tmp_path / "rows.csv")
    assert header == ["'=name", "change", "real", "day", "at", "yes"]
    released = us.Release.load(folder).synthetic
    names = released["=name"].to_pylist()
    assert set(RUN + SAFE) == set(names)  # every one of them occurs
    assert [row[0] for row in rows] == ["'" + name if name in RUN else name for name in names]
    assert [row[1] for row in rows] == [
        "" if v is None else str(v) for v in released["change"].to_pylist()
    ]
    assert [float(row[2]) for row in rows] == released["real"].to_pylist()
    assert [row[3] for row in rows] == [str(v) for v in released["day"].to_pylist()]
    battery("web page", len(RUN), "formula cells: each gets a quote in front")


def test_the_rule_by_itself() -> None:
    """Blanks around a category are dropped by the schema, so these come from elsewhere, and the
    rule covers them.
    """
    run, safe = ["\tx", "\r=x", "\n", "'\t", "+", "－1"], [" =1", "", "x\t=", None]
    assert export._harmless(pa.array(run + safe)).to_pylist() == [f"'{text}" for text in run] + safe


def test_raw_leaves_the_text_as_it_is(folder: Path, tmp_path: Path) -> None:
    assert run("export", str(folder), "--csv", str(tmp_path / "rows.csv"), "--raw").exit_code == 0
    header, *rows = read(tmp_path / "rows.csv")
    assert (
        header[0] == "=name"
        and [row[0] for row in rows] == us.Release.load(folder).synthetic["=name"].to_pylist()
    )


def test_rows_of_every_batch_are_there_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE", 64)
    made = us.release(
        demo.population(n=500), schema=demo.schema(), epsilon=1, mechanism="independent"
    )
    assert export.export_csv(made.save(tmp_path / "r"), tmp_path / "rows.csv") == 500
    header, *rows = read(tmp_path / "rows.csv")
    assert header == list(made.schema.names) and len(rows) == 500
    texts = [i for i, kind in enumerate(made.synthetic.schema.types) if export._is_text(kind)]
    assert texts and [[row[i] or None for i in texts] for row in rows] == [
        [list(r.values())[i] for i in texts] for r in made.synthetic.to_pylist()
    ]


def test_pairs_of_items_are_written_as_pairs(tmp_path: Path) -> None:
    schema = us.Schema.items(["=bread", "milk"])
    pairs = pa.table(
        {
            schema.pairs.row: list(range(100)) * 2,
            schema.pairs.item: ["=bread"] * 100 + ["milk"] * 100,
        }
    )
    folder = us.release(
        pairs,
        schema=schema,
        workload="1-way",
        epsilon=5,
        rows=50,
        mechanism="independent",
        delta=1e-6,
    ).save(tmp_path / "r")
    export.export_csv(folder, tmp_path / "rows.csv")
    header, *rows = read(tmp_path / "rows.csv")
    assert header == [schema.pairs.row, schema.pairs.item] and {row[1] for row in rows} == {
        "'=bread",
        "milk",
    }


def test_a_file_that_exists_or_cannot_be_written_is_a_sentence(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("mine")
    refused = run("export", str(folder), "--csv", str(tmp_path / "rows.csv"))
    assert (
        refused.exit_code == 2
        and "exists" in refused.stderr
        and (tmp_path / "rows.csv").read_text() == "mine"
    )
    nowhere = run("export", str(folder), "--csv", str(tmp_path / "no/such/rows.csv"))
    assert nowhere.exit_code != 0 and "could not be written" in nowhere.stderr
    assert run("export", str(tmp_path / "nothing"), "--csv", str(tmp_path / "x.csv")).exit_code == 2


def test_a_bundle_that_was_changed_is_not_exported(folder: Path, tmp_path: Path) -> None:
    file = folder / "synthetic.parquet"
    manifest = json.loads((folder / "manifest.json").read_text())
    table = pq.read_table(file)
    # bytes would not be looked at
    pq.write_table(table.set_column(0, "=name", table["=name"].cast(pa.binary())), file)
    assert "differs" in run("export", str(folder), "--csv", str(tmp_path / "a.csv")).stderr
    manifest["files"]["synthetic.parquet"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert (
        "not those of its schema"
        in run("export", str(folder), "--csv", str(tmp_path / "a.csv")).stderr
    )
    assert not (tmp_path / "a.csv").exists()


def test_half_a_file_does_not_stay(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(cells: pa.Array) -> pa.Array:
        if len(cells) > 6:
            raise OSError(28, "No space left on device")
        return cells

    monkeypatch.setattr(export, "_harmless", fails)
    with pytest.raises(us.ParameterError, match="No space left"):
        export.export_csv(folder, tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()
