"""From noisy counts on a grid to values: shapes, heaps and hours are found, and draws follow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.tables import column
from understudy.game.fitting.density import shape_of
from understudy.game.fitting.values import Values, grids_of
from understudy.privacy import Measurement
from understudy.schema import Schema
from understudy.schema.cells import read_objects

INCOME = {"kind": "number", "constraints": {"minimum": 0, "maximum": 100_000}}
SEEN = {"kind": "datetime", "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"}}
PEOPLE = 20_000


def known(schema: Schema, cells: list[Any], sigma: float, seed: int = 0) -> tuple[Values, Any]:
    """(what is known of one column of these cells under noise, their codes)."""
    grids = grids_of(schema)
    assert grids is not None
    rng, fine = np.random.default_rng(seed), grids.schema.columns[0].encode(read_objects(cells))
    measured = []
    for batch in grids.batches:
        bins = np.arange(batch.size) if batch.bins[0] is None else np.asarray(batch.bins[0])
        counts = np.bincount(bins[fine], minlength=batch.size)
        noise = np.round(rng.normal(0, sigma, batch.size)).astype(np.int64)
        measured.append(Measurement(batch, counts + noise, sigma))  # type: ignore[arg-type]
    codes = schema.columns[0].encode(read_objects(cells))[:, None]
    return Values.measured(schema, measured, codes, len(cells)), codes


def drawn(values: Values, codes: np.ndarray, seed: int = 1) -> np.ndarray:
    out: np.ndarray = values.draw(0, codes[:, 0], np.random.default_rng(seed)).to_numpy(
        zero_copy_only=False
    )
    return out


def prefix(real: np.ndarray, made: np.ndarray) -> float:
    at = np.unique(np.concatenate([real, made]))
    shares = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (real, made)]
    return float(np.abs(shares[0] - shares[1]).max())


def test_a_smooth_column_in_four_bins_is_smooth_inside_them() -> None:
    real = np.round(np.random.default_rng(3).lognormal(10, 0.4, PEOPLE), -1)
    schema = Schema((column(**INCOME, cuts=[12_000, 24_000, 40_000]),))
    values, codes = known(schema, real.tolist(), 30.0)
    made = drawn(values, codes)
    flat = drawn(Values.unknown(schema), codes)
    assert prefix(real, made) < 0.012 < 0.04 < prefix(real, flat)
    assert abs(made.mean() / real.mean() - 1) < 0.01 and abs(made.std() / real.std() - 1) < 0.03
    assert set(schema.columns[0].encode(read_objects(made.tolist()))) <= set(codes[:, 0])


def test_heaps_keep_their_places_and_their_size() -> None:
    rng = np.random.default_rng(4)
    smooth = np.round(rng.uniform(1_000, 99_000, PEOPLE - 1_500), -1)
    real = np.concatenate([smooth, np.full(1_000, 40_000.0), np.full(500, 0.0)])
    schema = Schema((column(**INCOME, bins=4),))
    values, codes = known(schema, real.tolist(), 30.0)
    made = drawn(values, codes)
    for heap, people in ((40_000, 1_000), (0, 500)):
        assert abs((made == heap).sum() - people) < 200
    assert (np.diff(np.sort(made)) >= 0).all() and (made % 10 == 0).all()


def test_people_who_round_are_found_by_what_repeats_itself() -> None:
    rng = np.random.default_rng(5)
    real = np.round(rng.uniform(0, 99_900, PEOPLE), -3)  # thousands alone
    values, codes = known(Schema((column(**INCOME, bins=4),)), real.tolist(), 40.0)
    assert (drawn(values, codes) % 1_000 == 0).mean() > 0.9


def test_nobody_comes_at_night_where_nobody_came() -> None:
    rng = np.random.default_rng(6)
    days = rng.integers(0, 366, PEOPLE).astype("m8[D]")
    minutes = rng.integers(8 * 60, 18 * 60, PEOPLE).astype("m8[m]")
    real = (np.datetime64("2024-01-01") + days).astype("M8[s]") + minutes
    schema = Schema((column(**SEEN, resolution="quarter"),))
    values, codes = known(schema, real.tolist(), 40.0)
    made = drawn(values, codes).astype("M8[m]").astype(np.int64)
    hours = made // 60 % 24
    assert ((hours >= 8) & (hours < 18)).mean() > 0.99


@pytest.mark.parametrize("ordered", [True, False])
def test_single_values_of_an_integer_column_come_back(ordered: bool) -> None:
    rng = np.random.default_rng(7)
    real = np.minimum(1 + rng.poisson(1.3, PEOPLE), 9)
    how = {"kind": "integer", "constraints": {"minimum": 1, "maximum": 9}, "cuts": [2, 3]}
    schema = Schema((column(**how, ordered=ordered),))
    values, codes = known(schema, real.tolist(), 30.0)
    counts = [np.bincount(one, minlength=10) / PEOPLE for one in (real, drawn(values, codes))]
    assert np.abs(counts[0] - counts[1]).sum() / 2 < 0.02


def test_draws_follow_the_shares_to_one_and_are_in_random_order() -> None:
    schema = Schema((column(**INCOME, bins=2, detail=10_000, step=10_000),))
    shares = np.array([0.5, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    values = Values(schema, {0: shares})
    codes = np.repeat([0, 1], [4_000, 1_000])[:, None]
    made = drawn(values, codes)
    assert [int((made == k).sum()) for k in (0, 10_000, 20_000, 80_000)] == [2000, 1000, 1000, 1000]
    assert (made[:2_000] == 0).mean() < 0.7
    assert (drawn(values, codes) == made).all() and (drawn(values, codes, 2) != made).any()


def test_a_bin_that_nobody_is_in_is_drawn_from_all_the_same() -> None:
    schema = Schema((column(**INCOME, bins=2, missing=True),))
    values, _ = known(schema, [1_000.0] * 400, 1.0)
    table = values.decode(np.array([[1]] * 500 + [[2]] * 3), np.random.default_rng(0))
    made = table["x"].to_numpy()
    assert np.isnan(made[500:]).all() and (made[:500] >= 50_000).all()
    assert (made[:500] <= 100_000).all()


def test_a_shape_is_never_below_nothing_and_adds_up_where_noise_is_small() -> None:
    counts = np.array([0.0, 3.0, 700.0, 690.0, 100.0, 5.0, -2.0, 1.0])
    shape = shape_of(counts, np.full(8, 0.01), np.ones(8))
    assert (shape >= 0).all() and np.abs(shape - np.maximum(counts, 0)).max() < 3
    noisy = np.random.default_rng(0).normal(0, 50, 40)
    assert shape_of(noisy, np.full(40, 2500.0), np.ones(40)).sum() < 40 * 50
    assert shape_of(np.full(40, -9.0), np.full(40, 1.0), np.ones(40)).tolist() == [0.0] * 40


def test_days_without_order_are_drawn_with_their_hours() -> None:
    schema = Schema((column(**SEEN, ordered=False),))
    start = np.datetime64("2024-03-01T09:30:00")
    cells = [(start + np.timedelta64(i % 20, "D")).item() for i in range(2_000)]
    values, codes = known(schema, cells, 5.0)
    assert np.isfinite(values.shares[0]).all()
    assert schema.shows(values.decode(codes, np.random.default_rng(0)), codes)
