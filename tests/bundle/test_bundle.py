"""The bundle: saved, loaded, verified; and every kind of tampering is noticed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from support.bundles import unsound
from understudy.api import demo
from understudy.checks import SMALL, small_table
from understudy.game.loop import Played
from understudy.game.players.measuring import one_way
from understudy.game.players.product import Product
from understudy.mechanisms.base import Brief, Decision, Means
from understudy.privacy import Measure, Meter
from understudy.queries.marginal import Marginal
from understudy.runtime.watching import Watcher


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = us.explicit(
        SMALL, columns=[["a", "b"], ["c"]], queries=[us.all_of(us.Literal(0, 1), us.Literal(2, 0))]
    )
    made = us.release(small_table(), schema=SMALL, workload=work, epsilon=1, mechanism="mwem")
    return made.save(tmp_path / "bundle")


def test_a_bundle_reads_back_the_same(tmp_path: Path) -> None:
    made = us.release(
        demo.population(n=500), schema=demo.schema(), epsilon=1, mechanism="independent"
    )
    again = us.Release.load(made.save(tmp_path / "b"))
    assert again.synthetic.equals(made.synthetic) and again.certificate == made.certificate
    assert again.schema == made.schema and again.workload == made.workload
    assert np.array_equal(again.codes, made.codes) and np.allclose(
        np.asarray(again.answers()), np.asarray(made.answers())
    )
    assert [m.batch for m in again.measurements] == [m.batch for m in made.measurements]


def test_every_check_holds(folder: Path) -> None:
    checks = us.verify(folder)
    assert len(checks) == 12 and all(check.holds for check in checks), checks


def rewrite(folder: Path, change: Any) -> None:
    """Change the manifest as a forger would, keeping file hashes right."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def failed(folder: Path) -> list[str]:
    return [claim.partition(": ")[0] for claim in unsound(folder)]


def test_a_changed_file_is_noticed(folder: Path) -> None:
    for name in ("synthetic.parquet", "answers.parquet", "report.html", "schema.json"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(before + b" ")
        with pytest.raises(us.BundleError, match=name):
            us.verify(folder)
        (folder / name).write_bytes(before)
    assert failed(folder) == []


FORGERIES = {
    "less noise than charged": lambda m: m["events"][0].update(sigma_squared="1/4"),
    "an event left out": lambda m: m["events"].pop(0),
    "a better certificate": lambda m: m["certificate"].update(alpha=m["certificate"]["alpha"] / 2),
    "a better noisy error": lambda m: m["certificate"].update(noisy_largest_error=0),
    "a smaller epsilon": lambda m: m["budget"].update(epsilon="1/2"),
    "another schema": lambda m: m["schema"].update(sha256="0" * 64),
    "more rows": lambda m: m.update(synthetic_rows=10**6),
    "less spent": lambda m: m["spent"].update(rho=str(Fraction(m["spent"]["rho"]) / 2)),
    "a smaller epsilon said to be spent": lambda m: m["spent"].update(epsilon=0.01),
    "another rho": lambda m: m["budget"].update(rho="1/1000"),
    "more queries": lambda m: m["workload"].update(queries=10**6),
    "an impossible noisy error": (
        lambda m: m["certificate"].update(noisy_largest_error=-(10**6), alpha=0.0)
    ),
    "other rows": lambda m: m["rows"].update(count=10**7),
    "another spec": lambda m: m["workload"].update(spec="5-way"),
    "no selections": lambda m: m.update(selections=0),
    "another version": lambda m: m.update(made_by="understudy 99"),
    "another n": lambda m: m["rows"].update(sigma="5"),
    "quieter measurements": lambda m: m["measurements"][0].update(sigma="1/2"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_manifest_is_noticed(folder: Path, forgery: str) -> None:
    rewrite(folder, FORGERIES[forgery])
    assert failed(folder)


BREAKAGES = {
    "an unknown event": lambda m: m["events"][0].update(event="Magic"),
    "no measurements": lambda m: m.update(measurements=[]),
    "fewer measurements and charges": lambda m: (m["measurements"].pop(), m["events"].pop(0)),
    "no files": lambda m: m.update(files={}),
    "files as a list": lambda m: m.update(files=[]),
    "a measurement of nothing": lambda m: m["measurements"][0].update(batch=None),
    "no mechanism": lambda m: m.pop("mechanism"),
    "a mechanism without a name": lambda m: m["mechanism"].update(name=None),
    "a certificate in words": lambda m: m["certificate"].update(alpha="small"),
    "a certificate without an alpha": lambda m: m["certificate"].pop("alpha"),
    "an alpha that is no number": lambda m: m["certificate"].update(alpha=float("nan")),
    "a confidence without end": lambda m: m["certificate"].update(confidence=float("inf")),
    "half a query": lambda m: m["certificate"].update(queries=0.5),
    "noise without end": lambda m: m["certificate"].update(sigma=10**400),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_manifest_that_does_not_describe_its_files_is_a_sentence(
    folder: Path, breakage: str
) -> None:
    rewrite(folder, BREAKAGES[breakage])
    with pytest.raises(us.BundleError) as caught:
        us.verify(folder)
    assert str(caught.value).endswith(".")


KEPT = "each measurement has the noise of a charged event, and each charge its measurement"


def test_a_release_by_a_mechanism_that_is_not_installed_is_checked_as_far_as_it_can_be(
    folder: Path,
) -> None:
    rewrite(folder, lambda m: m["mechanism"].update(name="elsewhere"))
    assert {check.claim: check.holds for check in us.verify(folder)}[KEPT], (
        "all that it measured is there"
    )
    assert us.Release.load(folder).manifest["mechanism"]["name"] == "elsewhere"


@pytest.mark.parametrize(
    "what",
    ["discriminator", "tilt"],
    ids=["charged as this version does", "charged as an earlier one did"],
)
@pytest.mark.parametrize(
    "name", ["elsewhere", "else\nwhere", "e" * 9999], ids=["a word", "two lines", "too long"]
)
def test_what_only_a_mechanism_that_is_not_installed_could_explain_names_it_in_a_sentence(
    name: str, what: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "mechanism": "gan-logistic-experimental",
        "parameters": {"rounds": 2, "steps": 2},
    }
    folder = us.release(small_table(), schema=SMALL, epsilon=1, **settings).save(tmp_path / "b")
    assert unsound(folder) == []

    def forge(manifest: dict[str, Any]) -> None:
        manifest["mechanism"]["name"] = name
        for event in manifest["events"]:
            event["what"] = event["what"].replace("discriminator", what)

    rewrite(folder, forge)
    (detail,) = [
        check.detail for check in us.verify(folder) if check.claim == KEPT and not check.holds
    ]
    assert re.search(r"the mechanism 'e[^\n]{3,99} is not installed here$", detail), detail


def change_file(folder: Path, name: str, change: Callable[[Path], object]) -> None:
    """Change a file and keep its hash in the manifest right."""
    change(folder / name)
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    rewrite(folder, lambda m: m["files"].update({name: digest}))


def test_a_forged_report_and_a_stray_file_are_noticed(folder: Path) -> None:
    (folder / "notes.txt").write_text("x")
    assert failed(folder) == ["the files are those that the manifest lists, and no others"]
    (folder / "notes.txt").unlink()
    change_file(
        folder, "report.html", lambda file: file.write_text(file.read_text().replace("95%", "99%"))
    )
    assert failed(folder) == ["the report is the one that these files give"]


@pytest.mark.parametrize("name", ["codes.parquet", "synthetic.parquet"])
def test_a_smuggled_column_is_noticed(folder: Path, name: str) -> None:
    def smuggle(file: Path) -> None:
        table = pq.read_table(file)
        pq.write_table(table.append_column("ssn", pa.array(range(table.num_rows))), file)

    change_file(folder, name, smuggle)
    with pytest.raises(us.BundleError):
        us.verify(folder)


def test_codes_of_another_type_are_noticed(folder: Path) -> None:
    def shift(file: Path) -> None:
        table = pq.read_table(file)
        wide = [
            pa.array(table[name].to_numpy().astype(np.int64) + 2**32) for name in table.column_names
        ]
        pq.write_table(pa.table(wide, names=table.column_names), file)

    change_file(folder, "codes.parquet", shift)
    with pytest.raises(us.BundleError):
        us.verify(folder)


@pytest.mark.parametrize("code", [2**30, 3, -1, -(2**30)])
def test_codes_outside_the_schema_are_refused_before_anything_is_counted(
    folder: Path, code: int
) -> None:
    """Compiled code counts without asking where a cell lies: a code of 2^30 ended the process that
    verified it.
    """

    def place(file: Path) -> None:
        table = pq.read_table(file)
        pq.write_table(
            table.set_column(0, "a", pa.array(np.full(table.num_rows, code, np.int32))), file
        )

    change_file(folder, "codes.parquet", place)
    with pytest.raises(us.BundleError, match="cannot be read"):
        us.verify(folder)


def test_a_cell_without_a_value_must_be_empty(tmp_path: Path) -> None:
    """A number with code OTHER has nothing to show; a value in its place would be a way to smuggle
    one out.
    """
    schema = us.Schema.from_dict(
        {
            "fields": [
                {"name": "y", "type": "number", "constraints": {"minimum": 0, "maximum": 10}}
            ],
            "understudy": {"columns": {"y": {"bins": 2, "other": True}}},
        }
    )
    made = us.release(
        pa.table({"y": ["1", "7", "oops", "9"] * 100}),
        schema=schema,
        epsilon=5,
        mechanism="independent",
    )
    folder = made.save(tmp_path / "b")
    assert failed(folder) == []

    def fill(file: Path) -> None:
        table = pq.read_table(file)
        pq.write_table(table.set_column(0, "y", table["y"].fill_null(3.21)), file)

    change_file(folder, "synthetic.parquet", fill)
    assert "the rows in the user's types and the coded rows agree" in failed(folder)


def test_extra_counts_among_the_measurements_are_noticed(folder: Path) -> None:
    def extend(file: Path) -> None:
        table = pq.read_table(file)
        pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), file)

    change_file(folder, "measurements.parquet", extend)
    with pytest.raises(us.BundleError):
        us.verify(folder)


@dataclass(frozen=True, kw_only=True)
class Threshold(us.Mechanism):
    """Columns by themselves, and one marginal that is too wide to hold."""

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "for this test"
    reference: ClassVar[str] = "none"

    def check(self, brief: Brief) -> None:
        """Anything."""

    def decide(self, brief: Brief, means: Means) -> Decision:
        return Decision.of(self, brief, means, how="at once", numbers={"tables": 6})

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief = decision.brief
        ways = meter.ask(Measure(batches=one_way(brief.schema), rho=meter.left / 2))
        wide = meter.ask(
            Measure(
                batches=[Marginal.of(brief.schema, brief.schema.names)], rho=meter.left, kept=300
            )
        )[0]
        data = Product(brief.schema, meter.rows)
        data.learn(ways)
        return Played(data.result(), (*ways, wide))


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    schema = us.Schema.from_domain(dict.fromkeys("abcde", 100))
    rows = np.random.default_rng(0).integers(0, 100, (4000, 5))
    rows[:1000] = 7
    return us.release(rows, schema=schema, workload="1-way", epsilon=2, mechanism=Threshold()).save(
        tmp_path / "b"
    )


def test_a_measurement_above_a_threshold_reads_back_the_same(sparse: Path, tmp_path: Path) -> None:
    assert failed(sparse) == []
    *ways, wide = us.Release.load(sparse).measurements
    assert all(m.keys is None and m.threshold is None for m in ways)
    assert wide.keys is not None and wide.threshold is not None and wide.batch.size == 10**10
    assert np.all(np.diff(wide.keys) > 0) and np.all(wide.counts > wide.threshold)
    assert 707070707 in wide.keys and "e = 7" in (sparse / "report.html").read_text()
    again = us.Release.load(us.Release.load(sparse).save(tmp_path / "again")).measurements[-1]
    assert (
        again.keys is not None
        and np.array_equal(again.keys, wide.keys)
        and np.array_equal(again.counts, wide.counts)
    )


@pytest.mark.parametrize(
    "forgery",
    [
        lambda m: m.update(kept=m["kept"] - 1),
        lambda m: m.update(kept=-1),
        lambda m: m.update(threshold=10**6),
        lambda m: m.update(threshold=None),
        lambda m: m.update(threshold=1.5),
        lambda m: m.pop("threshold"),
    ],
)
def test_a_threshold_that_does_not_fit_its_counts_is_noticed(
    sparse: Path, forgery: Callable[[dict[str, Any]], Any]
) -> None:
    rewrite(sparse, lambda m: forgery(m["measurements"][-1]))
    with pytest.raises(us.BundleError):
        us.verify(sparse)


def test_more_cells_than_noise_and_rows_explain_are_noticed(sparse: Path) -> None:
    def flood(file: Path) -> None:
        table = pq.read_table(file).to_pandas()
        last = table[table["measurement"] == 5]
        more = (
            last.iloc[[-1]]
            .loc[lambda t: t.index.repeat(20_000)]
            .assign(query=range(10**10 - 20_000, 10**10))
        )
        keep = last[last["query"] < 10**10 - 20_000]
        whole = pa.Table.from_pandas(
            pd.concat([table[table["measurement"] < 5], keep, more]), preserve_index=False
        )
        pq.write_table(whole.replace_schema_metadata(None), file)
        rewrite(sparse, lambda m: m["measurements"][-1].update(kept=len(keep) + 20_000))

    change_file(sparse, "measurements.parquet", flood)
    assert (
        "each measurement has the noise of a charged event, and each charge its measurement"
        in failed(sparse)
    )


def test_a_private_n_must_be_the_one_that_was_released(tmp_path: Path) -> None:
    made = us.release(
        small_table(),
        schema=SMALL,
        epsilon=1,
        delta=1e-6,
        neighbours="add-remove-one",
        mechanism="independent",
    )
    folder = made.save(tmp_path / "b")
    assert failed(folder) == []
    rewrite(folder, lambda m: m["rows"].update(sigma="0", public=True))
    assert "the certificate follows from its released parts" in failed(folder)


def test_swapped_answers_are_noticed(folder: Path) -> None:
    def swap(file: Path) -> None:
        table = pq.read_table(file)
        values = table["count"].to_numpy().copy()
        values[0] += 1
        pq.write_table(table.set_column(2, "count", pa.array(values)), file)

    change_file(folder, "answers.parquet", swap)
    assert failed(folder) == ["the stored answers are those of the released rows"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "not json",
        '{"format": 99}',
        '{"format": 1, "files": {"../x": "0"}}',
        '{"format": 1, "files": {}}',
    ],
)
def test_a_broken_bundle_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(us.BundleError) as caught:
        us.verify(tmp_path)
    assert str(caught.value).endswith(".")


def test_a_folder_with_something_in_it_is_not_overwritten(folder: Path) -> None:
    with pytest.raises(us.ParameterError, match="not empty"):
        us.Release.load(folder).save(folder)


def test_the_report_is_self_contained_and_escapes_names(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    schema = us.Schema.from_dict(
        {
            "fields": [
                {
                    "name": nasty,
                    "type": "string",
                    "constraints": {"enum": ["<b>x</b>", "a & b", "c"]},
                },
                {"name": "y", "type": "boolean"},
            ]
        }
    )
    table = pa.table({nasty: ["<b>x</b>", "c"] * 50, "y": [True, False] * 50})
    made = us.release(table, schema=schema, epsilon=1, mechanism="mwem").save(tmp_path / "b")
    page = (made / "report.html").read_text()
    assert "<script" not in page and "<b>x" not in page and "&lt;script&gt;" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)


def test_nothing_in_a_bundle_is_pickled(folder: Path) -> None:
    assert {f.suffix for f in folder.iterdir()} == {".parquet", ".json", ".html"}


def test_answers_by_name_by_number_and_whole(folder: Path) -> None:
    release = us.Release.load(folder)
    answers = release.answers()
    assert answers["a", "b"].shape == (3, 4) and answers["c"].sum() == pytest.approx(1)
    assert np.asarray(answers).shape == (release.workload.size,) and len(answers) == 3
    assert answers[2].shape == (1,)
    assert list(answers) == [("a", "b"), ("c",), 2]
    with pytest.raises(us.WorkloadError):
        answers["b", "z"]
    frame = release.answers("1-way").to_pandas()
    assert set(frame.columns) == {"query", "share"} and frame["query"].str.contains("a = 0").any()
    with pytest.raises(us.WorkloadError):
        release.answers(us.marginals(us.Schema.from_domain({"q": 2}), k=1))
