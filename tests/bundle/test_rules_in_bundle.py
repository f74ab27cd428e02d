"""Rules from the schema file to the bundle, its report, its checks and more rows."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import understudy as us
from support.bundles import unsound
from support.ruled import ruled
from understudy.bundle.report import render_report
from understudy.cli.main import main
from understudy.constraints.rows import counts, rows_that_keep
from understudy.constraints.rules import Rules
from understudy.errors import NotSupported

SCHEMA = ruled(
    {"name": "the retired are old", "rule": "work = 'retired' implies age >= 55"},
    "`all of it` = a + b",
    "start <= end",
    "zip determines region",
)
CLAIM = "every row keeps every rule of the schema"


def table(rows: int = 1_500) -> pa.Table:
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, rows) for size in SCHEMA.shape])
    return rows_that_keep(Rules.of(SCHEMA), codes.astype(np.int32), rng).table


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rules")
    pa.csv.write_csv(table(), place / "people.csv")
    SCHEMA.save(place / "schema.yaml")
    words = ["release", str(place / "people.csv"), "--schema", str(place / "schema.yaml")]
    more = ["--mechanism", "projection", "--set", "steps=30", "--out", str(place / "out")]
    done = run(*words, "--epsilon", "1", "--workload", "2-way:12@0", *more)
    assert done.exit_code == 0, done.output
    return place


def test_the_command_goes_all_the_way(bundle: Path) -> None:
    assert not unsound(bundle / "out")
    checked = run("verify", str(bundle / "out"))
    assert checked.exit_code == 0 and "4 rules, 1,500 rows" in checked.output
    manifest = json.loads((bundle / "out/manifest.json").read_text())
    assert manifest["schema"]["rules"][1] == "`all of it` = a + b"
    assert manifest["mechanism"]["played"]["repaired_rows"] > 100


def test_the_report_lists_rules_with_the_rows_that_they_touch(bundle: Path) -> None:
    page = (bundle / "out/report.html").read_text()
    release = us.Release.load(bundle / "out")
    assert render_report(release) == page
    touched = next(counts(Rules.of(SCHEMA), release.codes, release.synthetic)).touched
    row = "if work is retired, then age is at least 55</td>"
    assert f"{row}<td>{touched:,}</td><td>0</td>" in page and "start &lt;= end" in page


def test_the_report_says_nothing_of_rules_where_there_are_none() -> None:
    made = us.release(np.zeros((60, 1), int), schema={"a": 2}, epsilon=1, mechanism="independent")
    assert 'id="rules"' not in render_report(made) and "rules" not in made.manifest["schema"]


def test_schema_check_and_plan_say_rules_in_words(bundle: Path) -> None:
    schema = str(bundle / "schema.yaml")
    said = run("schema", "check", schema).output
    assert "if work is retired, then age is at least 55" in said
    listed = json.loads(run("schema", "check", schema, "--json").output)["rules"]
    assert listed[0] == {
        "name": "the retired are old",
        "rule": "work = 'retired' implies age >= 55",
        "means": "if work is retired, then age is at least 55",
    }
    planned = run("plan", "--schema", schema, "--rows", "1000", "--epsilon", "1").output
    assert "rows with the same zip have the same region" in planned


def test_contradictions_are_refused_before_a_charge(bundle: Path, tmp_path: Path) -> None:
    ruled("age < 20", "drug", "age >= 25").save(tmp_path / "schema.yaml")
    for words in (["schema", "check"], ["plan", "--rows", "900", "--epsilon", "1", "--schema"]):
        refused = run(*words, str(tmp_path / "schema.yaml"))
        assert refused.exit_code != 0 and "'age < 20' and 'age >= 25'" in refused.output
        assert "drug" not in refused.output
    ledger = us.FileLedger(tmp_path / "ledger.jsonl")
    with pytest.raises(us.SchemaError, match="No row can keep these rules together"):
        us.release(table(), schema=tmp_path / "schema.yaml", epsilon=1, ledger=ledger)
    assert not ledger.path.exists()
    with pytest.raises(us.SchemaError, match="No row can keep these rules together"):
        us.project([], tmp_path / "schema.yaml")


def forge(folder: Path, change: dict[str, pa.Array]) -> None:
    """Other cells in the released rows, with the hash that goes with them."""
    file = folder / "synthetic.parquet"
    rows = pq.read_table(file)
    for name, cells in change.items():
        rows = rows.set_column(rows.column_names.index(name), name, cells)
    pq.write_table(rows, file, compression="zstd")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_forged_row_that_breaks_a_rule_inside_its_bins_is_noticed(
    bundle: Path, tmp_path: Path
) -> None:
    """Codes, answers and certificate stay as they are: values alone tell."""
    place = tmp_path / "out"
    place.mkdir()
    for file in (bundle / "out").iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    rows = pq.read_table(place / "synthetic.parquet")
    ages, work = rows["age"].to_pylist(), rows["work"].to_pylist()
    at = next(i for i, age in enumerate(ages) if work[i] == "retired" and age and age < 60)
    ages[at] = 51  # of the bin 50 to 59
    forge(place, {"age": pa.array(ages, rows["age"].type)})
    failed = [one for one in us.verify(place) if not one.holds]
    (rule,) = (one for one in failed if one.claim == CLAIM)
    assert rule.detail == "1 rows break 'the retired are old'"
    assert {one.claim for one in failed} <= {CLAIM, "the report is the one that these files give"}


@pytest.mark.parametrize("where", [None, "drug", "a = 3 or b <= 2", "drug implies a > b"])
def test_new_rows_keep_the_rules_and_the_mapping_of_the_released_ones(
    bundle: Path, where: str | None
) -> None:
    release = us.Release.load(bundle / "out")
    drawn = (
        release.sample(2_000, seed=1)
        if where is None
        else release.sample_where(where, 2_000, seed=1)
    )
    assert SCHEMA.shows(drawn.table, drawn.codes)
    both = np.concatenate([release.codes, drawn.codes])
    rows = pa.concat_tables([release.synthetic, drawn.table])
    assert not any(one.broken for one in counts(Rules.of(SCHEMA), both, rows))
    if where is not None:
        from understudy.queries.condition import Condition

        assert Condition.parse(where, SCHEMA).holds(drawn.codes).all()


def test_a_condition_against_a_rule_is_refused(bundle: Path) -> None:
    release = us.Release.load(bundle / "out")
    with pytest.raises(NotSupported, match="No row was found that keeps the rules"):
        release.sample_where("all of it = 0 to 2 and a = 9", 50, seed=1)
