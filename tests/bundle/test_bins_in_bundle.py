"""A release from tables in bins: saved, read back, verified, shown, and fitted to by project()."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from bundle.test_bundle import change_file, failed, rewrite
from understudy.bundle.measured import noisy_tables
from understudy.game.loop import Played, play
from understudy.game.players.measuring import InTurn, MeasureAll, one_way
from understudy.game.players.rows import RowPlayer
from understudy.mechanisms.base import Brief, Decision, Means
from understudy.privacy import Measurement, Meter
from understudy.queries.base import Neighbours
from understudy.queries.binned import BinnedMarginal
from understudy.runtime.watching import Watcher

SCHEMA = us.Schema.from_domain({"age": 40, "income": 30, "sex": 2})
TENS, ODD = tuple(code // 10 for code in range(40)), tuple(code % 3 for code in range(30))
PAIRS = (
    BinnedMarginal((0, 1), (40, 30), (TENS, tuple(code // 10 for code in range(30)))),
    BinnedMarginal((1, 0), (30, 40), (ODD, TENS)),
    BinnedMarginal((2, 0), (2, 40), (None, TENS)),
)
NOISE = "each measurement has the noise of a charged event, and each charge its measurement"


@dataclass(frozen=True, kw_only=True)
class Coarse(us.Mechanism):
    """Columns by themselves, and pairs in bins."""

    name: ClassVar[str] = "coarse"
    summary: ClassVar[str] = "for this test"
    reference: ClassVar[str] = "none"

    def check(self, brief: Brief) -> None:
        """Anything."""

    def decide(self, brief: Brief, means: Means) -> Decision:
        return Decision.of(self, brief, means, how="at once", numbers={"tables": 6})

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        schema, half = decision.brief.schema, meter.left / 2
        steps = (MeasureAll(meter, one_way(schema), rho=half), MeasureAll(meter, PAIRS, rho=half))
        data = RowPlayer(schema, n=meter.rows, rng=rng, rows=2000)
        return play(data, InTurn(*steps), rounds=2, watcher=watcher, schema=schema)


def people() -> np.ndarray:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 40, 2000)
    return np.column_stack([age, age * 3 // 4, rng.integers(0, 2, 2000)])


def made(**settings: Any) -> us.Release:
    settings = {
        "workload": "2-way",
        "epsilon": 2,
        "delta": "1e-6",
        "mechanism": Coarse(),
        **settings,
    }
    return us.release(people(), schema=SCHEMA, **settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made().save(tmp_path / "b")


@pytest.mark.parametrize("relation", Neighbours)
def test_it_reads_back_the_same_and_is_sound(tmp_path: Path, relation: Neighbours) -> None:
    one = made(neighbours=relation)
    place = one.save(tmp_path / "b")
    assert failed(place) == []
    again = us.Release.load(place)
    assert [m.batch for m in again.measurements] == [m.batch for m in one.measurements]
    for mine, read in zip(one.measurements, again.measurements, strict=True):
        assert np.array_equal(mine.counts, read.counts) and mine.sigma == read.sigma
    assert tuple(m.batch for m in again.measurements[-3:]) == PAIRS
    assert again.remarks == one.remarks and again.summary == one.summary
    assert set(noisy_tables(again)) == {(0,), (1,), (2,)}, "bins are no whole marginals"


def test_the_manifest_says_the_bins_in_short(folder: Path) -> None:
    said = [m["part"] for m in us.Release.load(folder).manifest["measurements"][-3:]]
    assert said[0] == {
        "kind": "binned", "columns": ["age", "income"], "bins": [[0, 10, 20, 30], [0, 10, 20]],
    }  # fmt: skip
    assert said[1]["bins"] == [{"of": list(ODD)}, [0, 10, 20, 30]]
    assert said[2]["bins"] == [None, [0, 10, 20, 30]]


def test_the_report_shows_noisy_and_released_shares_of_bins(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "age in 10..19 and income in 0..9" in page and "sex = 1 and age in 30..39" in page


@pytest.mark.parametrize(
    "forgery",
    [
        lambda part: part.update(bins=[[0, 10, 20], [0, 10, 20]]),  # fewer cells than counts
        lambda part: part.update(bins=[[0, 10, 20, 40], [0, 10, 20]]),
        lambda part: part.update(bins=[[1, 10, 20, 30], [0, 10, 20]]),
        lambda part: part.update(bins=[{"of": [0] * 40}, [0, 10, 20]]),
        lambda part: part.update(bins=[[0, 10, 20, 30]]),
        lambda part: part.update(bins=None),
        lambda part: part.update(columns=["age", "age"]),
        lambda part: part.pop("bins"),
    ],
)
def test_forged_bins_are_noticed(folder: Path, forgery: Callable[[dict[str, Any]], Any]) -> None:
    rewrite(folder, lambda m: forgery(m["measurements"][-3]["part"]))
    with pytest.raises(us.BundleError):
        us.verify(folder)


def test_a_table_in_bins_adds_up_to_the_number_of_rows(folder: Path) -> None:
    def inflate(file: Path) -> None:
        table = pq.read_table(file).to_pydict()
        last = max(table["measurement"])
        pairs = zip(table["measurement"], table["count"], strict=True)
        table["count"] = [count + 5000 * (at == last) for at, count in pairs]
        kinds = pq.read_schema(file)
        pq.write_table(pa.table(table, schema=kinds), file)

    change_file(folder, "measurements.parquet", inflate)
    assert NOISE in failed(folder)


def test_a_workload_may_ask_in_bins(tmp_path: Path) -> None:
    work = us.Workload(SCHEMA, (*PAIRS, *us.marginals(SCHEMA, k=1)), "bins")
    place = made(workload=work).save(tmp_path / "b")
    assert failed(place) == []
    again = us.Release.load(place)
    assert again.workload == work and again.answers()[0].shape == (12,)
    assert "age in 0..9 and income in 0..9" in again.answers().to_arrow()["query"].to_pylist()
    assert again.answers()["sex"].sum() == pytest.approx(1)


def test_project_fits_rows_to_bins_of_anybody() -> None:
    exact = np.array([[400, 100], [0, 500]])
    batch = BinnedMarginal((0, 2), (40, 2), (tuple(code // 20 for code in range(40)), None))
    table = us.project([Measurement(batch, exact, Fraction(3))], SCHEMA, rows=2000, seed=1)
    age, sex = (table[name].to_numpy() for name in ("age", "sex"))
    found = np.bincount((age // 20) * 2 + sex, minlength=4) / 2000
    assert np.abs(found - exact.ravel() / 1000).max() < 0.02 and len(set(age)) == 40
    with pytest.raises(us.ParameterError, match="table of age, sex needs 4 finite counts"):
        us.project([Measurement(batch, np.arange(3), Fraction(3))], SCHEMA)
    with pytest.raises(us.ParameterError, match="whole marginal"):
        us.project(
            [Measurement(batch, np.array([9]), Fraction(3), np.array([1]), 5)], SCHEMA, people=9
        )
