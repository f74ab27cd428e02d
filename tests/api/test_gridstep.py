"""The step of a release that counts columns on their grids: charged, kept, verified, and nothing
where there is no grid.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import understudy as us
from sources.test_sources import HOMES
from support.tables import PEOPLE, people, rows_of
from understudy.api.gridstep import MOST, GridStep
from understudy.api.request import Request, for_mechanism, for_play, on_grids
from understudy.errors import InputError
from understudy.game.fitting.values import grids_of
from understudy.privacy.accounting.accountant import total_cost
from understudy.privacy.looking import public_rows
from understudy.queries.base import Neighbours
from understudy.schema import Schema
from understudy.sources import open_source

FIELDS: dict[str, Any] = {
    "fields": [
        {"name": "income", "type": "number", "constraints": {"minimum": 0, "maximum": 1000}},
        {"name": "size", "type": "integer", "constraints": {"minimum": 1, "maximum": 9}},
        {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
    ],
    "understudy": {"columns": {"income": {"bins": 4, "missing": True}, "size": {"cuts": [3]}}},
}
SCHEMA = Schema.from_dict(FIELDS)
BARE = Schema.from_dict(
    {**FIELDS, "understudy": {"columns": {"income": {"bins": 4, "missing": True, "detail": False}}}}
)


def table(rows: int = 800) -> pa.Table:
    rng = np.random.default_rng(0)
    income = np.round(rng.gamma(2, 90, rows), 1)
    return pa.table(
        {
            "income": pa.array(income, mask=rng.random(rows) < 0.1),
            "size": np.minimum(1 + rng.poisson(1, rows), 9),
            "sex": np.where(rng.random(rows) < 0.5, "f", "m"),
        }
    )


@pytest.fixture(scope="module")
def made() -> us.Release:
    return us.release(table(), schema=SCHEMA, epsilon=2, seed=1)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("mechanism", ["arp", "mwem", "independent"])
def test_all_of_it_is_charged_kept_and_verified(
    relation: Neighbours, mechanism: str, tmp_path: Path
) -> None:
    release = us.release(
        table(), schema=SCHEMA, epsilon=1, delta="1e-6", mechanism=mechanism,
        neighbours=relation, ledger=tmp_path / "l.jsonl",
    )  # fmt: skip
    grids = grids_of(SCHEMA)
    assert grids is not None and len(release.details) == len(grids.batches) > 2
    assert total_cost(release.facts.events).fits(release.facts.budget)
    checks = us.verify(release.save(tmp_path / "made"))
    assert all(check.holds for check in checks), checks
    again = us.Release.load(tmp_path / "made")
    assert [m.counts.tolist() for m in again.details] == [
        m.counts.tolist() for m in release.details
    ]
    assert again.facts.details == release.facts.details


def test_a_count_that_is_not_charged_does_not_verify(made: us.Release, tmp_path: Path) -> None:
    import dataclasses

    finer = [dataclasses.replace(one, sigma=one.sigma / 2) for one in made.facts.details]
    measured = [dataclasses.replace(one, sigma=one.sigma / 2) for one in made.details]
    facts = dataclasses.replace(made.facts, details=tuple(finer))
    forged = dataclasses.replace(made, facts=facts, details=tuple(measured))
    failed = [
        check.claim for check in us.verify(forged.save(tmp_path / "forged")) if not check.holds
    ]
    assert any("each measurement has the noise of a charged event" in claim for claim in failed)


def test_values_are_short_and_on_their_step(made: us.Release) -> None:
    incomes = made.synthetic["income"].drop_null().to_numpy()
    assert np.abs(incomes * 10 - np.round(incomes * 10)).max() < 1e-6 or (
        np.abs(incomes * 100 - np.round(incomes * 100)).max() < 1e-6
    )
    assert made.schema.shows(made.synthetic, made.codes)
    assert set(made.synthetic["size"].to_pylist()) <= set(range(1, 10))


def test_where_no_column_has_a_grid_nothing_is_different() -> None:
    release = us.release(table(), schema=BARE, epsilon=1, seed=1)
    assert release.details == () and "details" not in release.manifest
    request = Request.of(schema=BARE, epsilon=1)
    budget = request.decide(800).means.budget
    assert on_grids(request.brief, budget) is None
    assert for_mechanism(request.brief, budget) == for_play(budget)
    assert us.plan(BARE, rows=800, epsilon=1).details == ""


@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_share_is_public_and_bounded(relation: Neighbours) -> None:
    many = [{**FIELDS["fields"][0], "name": f"x{i}"} for i in range(30)]
    bins = {f"x{i}": {"bins": 4} for i in range(30)}
    wide = Schema.from_dict({"fields": many, "understudy": {"columns": bins}})
    for schema in (SCHEMA, wide):
        step = GridStep.of(schema, relation, Fraction(1))
        assert step is not None and 0 < step.share <= MOST
        assert step.cost.rho == step.rho == step.share
        assert step.cost.least_variance is not None
    assert us.plan(SCHEMA, rows=800, epsilon=1).details.startswith("2 columns counted")


def test_a_refused_request_costs_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "l.jsonl"
    with pytest.raises(InputError):
        us.release(table().drop_columns(["size"]), schema=SCHEMA, epsilon=1, ledger=ledger)
    assert not ledger.exists()


def test_an_opened_source_is_refused_with_what_to_do(tmp_path: Path) -> None:
    source, ledger = open_source(HOMES["arrow"](people(60, 3), tmp_path), PEOPLE), tmp_path / "l"
    with pytest.raises(us.InputError, match="detail: false"):
        us.release(source, schema=PEOPLE, epsilon=1, mechanism="independent", ledger=ledger)
    assert not ledger.exists()


@pytest.mark.parametrize("home", list(HOMES.values()), ids=list(HOMES))
def test_every_door_gives_the_same_places(home: Any, tmp_path: Path) -> None:
    grids = grids_of(PEOPLE)
    assert grids is not None
    rows = people(60, 3)
    fine = rows_of(open_source(home(rows, tmp_path), grids.schema))
    coarse = rows_of(open_source(home(rows, tmp_path), PEOPLE))
    for place, detail in grids.columns.items():
        others = np.arange(detail.fine.size - detail.fine.values) + detail.coarse.values
        assert np.array_equal(
            np.concatenate([detail.bins, others])[fine[:, place]], coarse[:, place]
        )


@pytest.mark.parametrize("relation", list(Neighbours))
def test_one_row_moves_two_cells_of_a_grid_at_most(relation: Neighbours) -> None:
    grids = grids_of(PEOPLE)
    assert grids is not None
    rows = people(50, 4)
    other = [*rows[:-1], people(51, 9)[-1]] if relation is Neighbours.REPLACE_ONE else rows[:-1]
    one, two = (
        open_source(HOMES["arrow"](some, Path()), grids.schema).count(
            [b.positions for b in grids.batches]
        )
        for some in (rows, other)
    )
    for batch, a, b in zip(grids.batches, one, two, strict=True):
        gap = batch.added_up(a).dense() - batch.added_up(b).dense()
        assert (gap**2).sum() <= batch.l2_squared(relation)


def test_a_model_draws_values_as_the_release_did(tmp_path: Path) -> None:
    release = us.release(
        table(), schema=SCHEMA, epsilon=2, mechanism="projection",
        parameters={"steps": 20, "relaxed_rows": 20},
    )  # fmt: skip
    more = release.sample(500, seed=3)
    assert SCHEMA.shows(more.table, more.codes)
    again = us.Release.load(release.save(tmp_path / "made")).sample(500, seed=3)
    assert again.table.equals(more.table)


def test_an_earlier_bundle_draws_values_as_it_did() -> None:
    place = Path(__file__).parents[1] / "bundle" / "fixtures" / "0.1" / "generator"
    earlier = us.Release.load(place)
    assert earlier.details == ()
    rng = np.random.default_rng(5)
    assert earlier.model is not None
    codes = earlier.model.rows(40, rng)
    expected = earlier.schema.decode(codes, rng)
    assert earlier.sample(40, seed=5).table.equals(expected)


def test_a_file_that_comes_between_both_openings_is_refused_before_a_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.csv").write_bytes(csv_of(table()))

    def slowly(source: Any) -> int:
        (tmp_path / "two.csv").write_bytes(csv_of(table(50)))
        return public_rows(source)

    monkeypatch.setattr("understudy.api.release.public_rows", slowly)
    with pytest.raises(InputError, match="other files than a moment ago"):
        us.release(str(tmp_path / "*.csv"), schema=SCHEMA, epsilon=1)
    assert not list(tmp_path.glob("*.jsonl")), "nothing was charged"


def csv_of(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pa.csv.write_csv(rows, out)
    return bytes(out.getvalue())
