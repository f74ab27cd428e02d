"""Marginals in bins: counts by another way, words, the plain form, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows, Counts
from understudy.errors import UnderstudyError, WorkloadError
from understudy.queries.base import Grid, Neighbours
from understudy.queries.binned import BinnedMarginal
from understudy.queries.marginal import Marginal
from understudy.queries.workload import batch_from_dict
from understudy.schema import Schema
from understudy.schema.columns import Boolean, Categorical, Number

PEOPLE = Schema(
    (
        Number(name="age", integer=True, edges=tuple(map(float, range(18, 31))), missing=True),
        Categorical(name="sex", categories=("F", "M")),
        Boolean(name="smoker"),
    )
)
AGES = (0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2)  # 18..21, 22..29, MISSING


@pytest.mark.parametrize("seed", range(5))
def test_cells_are_sums_of_the_cells_of_the_whole_marginal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = small_table(300, seed)
    for positions in [(1,), (1, 0), (2, 0, 1)]:
        sizes = tuple(SMALL.shape[p] for p in positions)
        bins = tuple(
            None if rng.random() < 0.3 else tuple(np.unique(rng.integers(0, m, m), return_inverse=True)[1])
            for m in sizes
        )  # fmt: skip
        batch = BinnedMarginal(positions, sizes, bins)
        by_hand = np.zeros(batch.shape, np.int64)
        for row in rows[:, list(positions)]:
            by_hand[tuple(c if of is None else of[c] for c, of in zip(row, bins, strict=True))] += 1
        table = CodedRows(rows, SMALL.shape)
        assert np.array_equal(batch.counts(table).dense(), by_hand.ravel())
        whole = table.count([positions])[0]
        occupied = np.flatnonzero(whole.values)
        listed = Counts(whole.cells, whole.values[occupied], occupied)
        assert np.array_equal(batch.added_up(listed).values, by_hand.ravel())


def test_a_table_too_large_to_hold_is_added_up_from_its_occupied_cells() -> None:
    schema = Schema.from_domain({"a": 5000, "b": 5000})
    rows = np.random.default_rng(0).integers(0, 5000, (2000, 2))
    halves = tuple(code // 2500 for code in range(5000))
    batch = BinnedMarginal((0, 1), schema.shape, (halves, halves))
    found = batch.counts(CodedRows(rows, schema.shape))
    assert found.keys is None and found.cells == 4
    assert np.array_equal(found.values, np.bincount((rows // 2500) @ [2, 1], minlength=4))


def test_a_grid_without_bins_is_a_marginal() -> None:
    whole = BinnedMarginal((1, 0), (4, 3), (None, range(3)))  # type: ignore[arg-type]
    assert whole.bins == (None, None) and whole.as_table() == Marginal((1, 0), (4, 3))
    assert whole.as_grid() == Marginal((1, 0), (4, 3)).as_grid()
    coarse = BinnedMarginal((1, 0), (4, 3), ((0, 0, 1, 1), None))
    assert coarse.as_table() is None and coarse.can_be_fitted
    assert coarse.as_grid().along([1]) == Grid((0,), (3,), (None,))
    assert (coarse.l2_squared(Neighbours.REPLACE_ONE), coarse.shape) == (2, (2, 3))


def test_numbers_of_numpy_become_plain() -> None:
    batch = BinnedMarginal(np.array([1, 0]), np.array([4, 3]), [np.array([0, 0, 1, 1]), None])  # type: ignore[arg-type]
    assert batch == BinnedMarginal((1, 0), (4, 3), ((0, 0, 1, 1), None))
    assert hash(batch) and {type(x) for x in (*batch.positions, *batch.sizes)} == {int}
    assert {type(x) for x in batch.bins[0] or ()} == {int}


@pytest.mark.parametrize(
    ("positions", "sizes", "bins"),
    [
        ((), (), ()),
        ((0, 0), (3, 3), (None, None)),
        ((0,), (3, 4), (None,)),
        ((-1,), (2,), (None,)),
        ((0,), (0,), (None,)),
        ((0,), (3,), ((0, 0, 2),)),
        ((0,), (3,), ((1, 1, 2),)),
        ((0,), (3,), ((-1, 0, 1),)),
        ((0,), (3,), ((0, 1),)),
        ((0,), (3,), ((),)),
        ((0,), (3,), ((0, 0, 10**18),)),
        ((0,), (3,), ((0.0, 0.0, 1.0),)),
        ((0,), (3,), "000"),
        ((0,), (3,), 5),
        ((0, 1), (5000, 5000), (None, None)),
        ((0, 1, 2), (2**21, 2**21, 2**21), (None,) * 3),
    ],
)
def test_what_is_no_grid_is_refused_in_a_sentence(positions: Any, sizes: Any, bins: Any) -> None:
    with pytest.raises(WorkloadError):
        BinnedMarginal(positions, sizes, bins)


def test_words_are_those_of_the_columns() -> None:
    batch = BinnedMarginal((0, 1), PEOPLE.shape[:2], (AGES, None))
    assert [batch.describe(PEOPLE, i) for i in (0, 3, 4)] == [
        "age in 18..21 and sex = F",
        "age in 22..29 and sex = M",
        "age = MISSING and sex = F",
    ]
    odd = BinnedMarginal((0,), (13,), (tuple(code % 2 for code in range(13)),))
    assert odd.describe(PEOPLE, 0) == "age in 18, 20, 22, 24 and 3 more"
    last = BinnedMarginal((0,), (13,), ((*[0] * 8, *[1] * 5),))
    assert last.describe(PEOPLE, 1) == "age in 26..29, MISSING"


def test_the_plain_form_names_first_codes_where_bins_are_runs() -> None:
    batch = BinnedMarginal((1, 0), (2, 13), (None, AGES))
    data = batch.to_dict(PEOPLE)
    assert data == {"kind": "binned", "columns": ["sex", "age"], "bins": [None, [0, 4, 12]]}
    odd = BinnedMarginal((0,), (13,), (tuple(code % 2 for code in range(13)),))
    for one in (batch, odd, BinnedMarginal((0,), (13,), ((1, *[0] * 12),))):
        assert batch_from_dict(json.loads(json.dumps(one.to_dict(PEOPLE))), PEOPLE) == one


@pytest.mark.parametrize(
    "bins",
    [[], [1, 4], [0, 4, 4], [0, 13], [0, -1], [0, 2.5], {"of": [0]}, {}, "0", 7, {"of": None}],
)
def test_a_plain_form_that_is_none_is_refused(bins: Any) -> None:
    data = {"kind": "binned", "columns": ["age"], "bins": [bins]}
    with pytest.raises((UnderstudyError, KeyError, TypeError, ValueError)):
        batch_from_dict(data, PEOPLE)


def test_sizes_are_compared_with_the_schemas() -> None:
    assert BinnedMarginal((0, 1), (13, 2), (AGES, None)).fits(PEOPLE)
    assert not BinnedMarginal((1, 0), (13, 2), (AGES, None)).fits(PEOPLE)
    assert not BinnedMarginal((0, 3), (13, 2), (AGES, None)).fits(PEOPLE)
