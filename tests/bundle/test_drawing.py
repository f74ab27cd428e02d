"""New rows of releases that hold rows and no model."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.bundle import drawing
from understudy.errors import ParameterError
from understudy.game.players import rows as players

SCHEMA = us.Schema.from_domain({"a": 12, "b": 12, "c": 3, "d": 40})


def dependent(n: int = 6_000) -> np.ndarray:
    """b follows a, d follows a and b, and c is by itself."""
    rng = np.random.default_rng(5)
    a = rng.integers(0, 12, n)
    b = (a + rng.integers(0, 2, n)) % 12
    return np.column_stack([a, b, rng.integers(0, 3, n), 3 * a + rng.integers(0, 4, n)])


@pytest.fixture(scope="module")
def released() -> us.Release:
    return us.release(dependent(), schema=SCHEMA, epsilon=2, workload="2-way", mechanism="arp")


def distinct(codes: np.ndarray) -> int:
    return len(np.unique(codes, axis=0))


@pytest.mark.parametrize("count", [1, 700, 6_000, 20_000])
def test_new_rows_answer_as_the_released_ones_do(released: us.Release, count: int) -> None:
    drawn = released.sample(count, seed=1)
    assert drawn.codes.shape == (count, 4) and drawn.table.num_rows == count
    assert (drawn.kind, drawn.means, drawn.share) == ("fitted", "any row", 1.0)
    bound = released.certificate.alpha + 0.02 + 4 / np.sqrt(count)
    assert released.certificate.alpha <= released.alpha_of(drawn) < bound


def test_new_rows_are_not_the_released_ones(released: us.Release) -> None:
    """Of half as many possible rows as drawn ones, copies would hold fewer than new rows do."""
    drawn = released.sample(20_000, seed=1)
    assert distinct(drawn.codes) > 1.1 * distinct(released.codes)


def test_a_seed_gives_the_same_rows_again_and_none_gives_others(released: us.Release) -> None:
    one, same, other = (released.sample(500, seed=seed).codes for seed in (3, 3, None))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("condition", ["a = 3", "a < 4 and c != 1", "d >= 30 or b = 2"])
def test_rows_under_a_condition_are_all_like_that(released: us.Release, condition: str) -> None:
    drawn = released.sample_where(condition, 3_000, seed=2)
    asked = drawing.Condition.parse(condition, SCHEMA)
    assert asked.holds(drawn.codes).all() and len(drawn.codes) == 3_000
    assert drawn.share == pytest.approx(asked.holds(released.codes).mean())
    assert drawn.carriers == asked.holds(released.codes).sum()


def test_of_a_condition_as_many_as_the_released_rows_have_if_not_said(
    released: us.Release,
) -> None:
    drawn = released.sample_where("c = 1")
    assert len(drawn.codes) == (released.codes[:, 2] == 1).sum()


def test_what_no_released_row_is_like_is_refused(released: us.Release) -> None:
    empty = next(
        f"a = {a} and d = {d}"
        for a in range(12)
        for d in range(40)
        if not ((released.codes[:, 0] == a) & (released.codes[:, 3] == d)).any()
    )
    with pytest.raises(ParameterError, match="No released row is like that"):
        released.sample_where(empty)
    rare = " and ".join(
        f"{name} = {code}" for name, code in zip("abcd", released.codes[0], strict=True)
    )
    with pytest.raises(ParameterError, match="rows can be picked out at once"):
        released.sample_where(rare, drawing.MOST_DRAWN // 4)


def test_a_row_that_does_not_come_back_is_copied(released: us.Release) -> None:
    """A source that never draws it: the released rows that are like it fill up."""

    class Elsewhere(drawing.Rows):
        def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
            return np.zeros((count, 4), np.int32)

    like = Elsewhere(SCHEMA, released.codes, (), 0.01)
    condition = drawing.Condition.parse("a = 5", SCHEMA)
    drawn = drawing.from_rows(like, condition, lambda share: 40, np.random.default_rng(0))
    assert len(drawn.codes) == 40 and (drawn.codes[:, 0] == 5).all()


def test_too_many_tables_leave_copies_and_say_so(
    released: us.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "MOST_CELLS", 10)
    again = us.Release(**{f: getattr(released, f) for f in released.__dataclass_fields__})
    drawn = again.sample(9_000)
    assert drawn.kind == "copies" and distinct(drawn.codes) == distinct(released.codes)


def test_what_three_columns_do_together_is_kept_if_it_was_measured() -> None:
    """d is the parity of three others, of which no pair of columns says anything."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (20_000, 3))
    table = np.column_stack([bits, bits.sum(axis=1) % 2])
    schema = us.Schema.from_domain(dict.fromkeys("abcd", 2))
    made = us.release(table, schema=schema, epsilon=4, workload=us.marginals(schema, 4))
    drawn = made.sample(30_000, seed=0).codes
    assert (drawn[:, :3].sum(axis=1) % 2 == drawn[:, 3]).mean() > 0.97


@pytest.mark.parametrize("mechanism", ["independent", "gaussian", "fem", "dualquery", "mwem"])
def test_every_release_can_be_drawn_from(mechanism: str) -> None:
    schema = us.Schema.from_domain({"a": 3, "b": 4, "c": 2})
    table = np.random.default_rng(0).integers(0, 2, (400, 3))
    made = us.release(table, schema=schema, epsilon=1, mechanism=mechanism, workload="2-way")
    drawn = made.sample(1_000)
    assert drawn.kind == "fitted" and (drawn.codes < schema.shape).all()
    assert made.alpha_of(drawn) <= 1


def test_rows_beyond_a_batch_are_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(players, "MOST_FITTED", 1_000)
    schema = us.Schema.from_domain(dict.fromkeys("abcd", 20))
    table = np.random.default_rng(0).integers(0, 20, (4_000, 4))
    table[:, 1] = table[:, 0]
    made = us.release(table, schema=schema, epsilon=4, mechanism="arp", rows=3_500, seed=1)
    first, *others = np.split(made.codes, range(875, 3_500, 875))
    assert len(made.codes) == 3_500 and distinct(made.codes) > 2 * distinct(first)
    for one in (first, *others):  # each is fitted
        assert (one[:, 0] == one[:, 1]).mean() > 0.8
