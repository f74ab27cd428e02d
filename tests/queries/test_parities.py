"""Parities by packed words: every count against its definition."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.counting.tally import CodedRows
from understudy.errors import WorkloadError
from understudy.queries.parities import Parities, even_less_odd

SIZES = (2, 3, 4, 2, 5)
BITS = ((0, 1), (0, 1, 1), (1, 0, 1, 0), (1, 0), (0, 0, 1, 1, 0))


@given(
    rows=st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=150),
    least=st.integers(1, 5),
    more=st.integers(0, 4),
    anchor=st.sampled_from([None, 0, 2, 4]),
)
@settings(deadline=None, max_examples=60)
def test_counts_are_those_of_the_definition(
    rows: list[tuple[int, ...]], least: int, more: int, anchor: int | None
) -> None:
    batch = Parities(tuple(range(5)), BITS, least, min(5, least + more), anchor)
    codes = np.asarray(rows, np.int32).reshape(-1, 5)
    table = CodedRows(codes, SIZES)
    counts = batch.counts(table).dense()
    assert len(counts) == batch.size
    for index in range(batch.size):
        columns = batch.of_columns(index)
        assert anchor is None or anchor in columns
        ones = sum(np.asarray(BITS[c])[codes[:, c]] for c in columns)
        assert counts[index] == np.sum(np.asarray(ones) % 2)
    assert len({batch.of_columns(i) for i in range(batch.size)}) == batch.size
    assert (batch.truth(codes).sum(axis=0) == counts).all()


def test_a_table_of_bits_has_its_parity_in_every_other_cell() -> None:
    codes = np.random.default_rng(0).integers(0, SIZES, (500, 5)).astype(np.int32)
    batch, table = Parities(tuple(range(5)), BITS, 3, 4), CodedRows(codes, SIZES)
    counts = batch.counts(table).dense()
    for index in range(batch.size):
        cells = batch.cells(index)
        odd = [sum(cell) % 2 == 1 for cell in itertools.product((0, 1), repeat=len(cells.shape))]
        assert cells.counts(table).dense()[odd].sum() == counts[index]


def test_the_transform_says_how_much_more_is_even() -> None:
    table = np.random.default_rng(1).integers(0, 9, 16)
    found = even_less_odd(table, 4)
    for number in range(16):
        signs = [(-1) ** (number & cell).bit_count() for cell in range(16)]
        assert found[number] == np.dot(signs, table)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"positions": (1, 0, 2, 3, 4)}, "rise"),
        ({"bits": ((0, 2), *BITS[1:])}, "0 or 1"),
        ({"least": 0}, "at least one"),
        ({"most": 6}, "no more than all"),
        ({"anchor": 7}, "one of theirs"),
        ({"least": 1.0}, "the bit of every code"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], says: str) -> None:
    sound: dict[str, Any] = {"positions": tuple(range(5)), "bits": BITS, "least": 2, "most": 3}
    with pytest.raises(WorkloadError, match=says):
        Parities(**{**sound, **changes})


def test_more_than_can_be_counted_are_refused() -> None:
    assert math.comb(60, 5) > 1 << 22
    with pytest.raises(WorkloadError, match="use fewer columns at a time"):
        Parities(tuple(range(60)), ((0, 1),) * 60, 5, 5)


def test_a_code_without_a_bit_is_no_error() -> None:
    """An error would say that some row has it."""
    batch = Parities((0, 1), ((0, 1), (0, 1)), 1, 2)
    codes = np.asarray([[0, 1], [4, 0]], np.int32)
    counts = batch.counts(CodedRows(codes, (5, 2))).dense()
    assert counts.tolist() == [1, 1, 2]
    assert (batch.truth(codes).sum(axis=0) == counts).all()
