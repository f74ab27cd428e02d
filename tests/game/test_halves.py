"""Public halves: about the same mass each, by the order of values or by a label."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from understudy.game.fitting.halves import balance, half, halves
from understudy.game.players.high_order import NARROWEST, WORK, extent
from understudy.schema import Schema


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=30))
def test_both_halves_have_values_and_neither_is_far_from_half(weights: list[float]) -> None:
    shares = np.asarray(weights) / sum(weights)
    bits = half(shares, np.arange(len(shares)))
    assert set(bits) == {0, 1} and list(bits) == sorted(bits)
    # cut as near to half as one value allows
    assert balance(shares, bits) >= 0.5 - max(shares) / 2 - 1e-9 or max(shares) > 0.5


def test_words_are_halved_by_how_often_they_have_the_label() -> None:
    schema = Schema.from_domain({"word": 4, "label": 2})
    rows = np.asarray([[w, int(w in (0, 2))] for w in range(4)] * 10, np.int32)
    columns = [np.full(4, 0.25), np.full(2, 0.5)]
    assert halves(schema, columns, rows, 1) == [(1, 0, 1, 0), (0, 1)]
    assert halves(schema, columns, rows, None) == [(0, 0, 1, 1), (0, 1)]


@given(st.integers(3, 500), st.integers(1, 10**8), st.booleans())
def test_what_is_counted_is_capped_by_public_numbers(
    columns: int, rows: int, anchored: bool
) -> None:
    count, widest = extent(columns, rows, anchored)
    assert NARROWEST <= widest <= 8 and NARROWEST <= count <= columns and widest <= count
    size = sum(math.comb(count - anchored, k - anchored) for k in range(NARROWEST, widest + 1))
    assert size * rows <= WORK or count == NARROWEST
