"""Releases of a table with a long column without order: frequent values keep what they have to do
with others, and no category is invented where that is asked for.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from support.meters import decided
from understudy.game.fitting.categories import standing_out
from understudy.mechanisms.arp import Arp
from understudy.mechanisms.base import Brief
from understudy.queries.base import Neighbours

VALUES, ROWS = 2_000, 20_000
SCHEMA = us.Schema.from_domain(
    {"code": VALUES, "group": 6, "other": 150, "age": 40}, ordered=["age"]
)


def _table(seed: int = 1) -> np.ndarray:
    """Frequent codes decide the group of three in four rows; half of all codes have nobody."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, VALUES // 2 + 1) ** 1.2
    code = 2 * rng.choice(VALUES // 2, ROWS, p=shares / shares.sum())
    group = np.where(rng.random(ROWS) < 0.75, code // 2 % 6, rng.integers(0, 6, ROWS))
    other = rng.choice(150, ROWS, p=np.repeat([0.3, 0.01, 0.0], [3, 10, 137]))
    return np.column_stack([code, group, other, rng.integers(0, 40, ROWS)])


def _release(mechanism: str, epsilon: float = 0.5, **parameters: Any) -> us.Release:
    return us.release(
        _table(),
        schema=SCHEMA,
        epsilon=epsilon,
        delta="1e-9",
        workload="2-way",
        mechanism=mechanism,
        parameters=parameters or None,
        rows=5_000,
    )


@pytest.mark.parametrize(
    "how", [{"adaptive": False, "bins": False}, {"bins": True}, {"adaptive": True}]
)
def test_frequent_values_keep_what_they_have_to_do_with_others(
    how: dict[str, bool], tmp_path: Path
) -> None:
    release, table = _release("arp", **how), _table()
    tied = [m.batch for m in release.measurements if m.batch.kind == "binned"]
    assert any(batch.size < VALUES for batch in tied if 0 in batch.columns)
    gaps = []
    for code in (0, 2, 4):  # a third of all rows
        true, rows = (one[one[:, 0] == code][:, 1] for one in (table, release.codes))
        gaps.append(abs(np.mean(true == code // 2) - np.mean(rows == code // 2)))
    # independent columns would be off by more than half
    assert np.mean(gaps) < 0.25
    release.save(tmp_path / "release")
    us.verify(tmp_path / "release")


@pytest.mark.parametrize(
    ("mechanism", "how"),
    [
        ("independent", {}),
        ("gaussian", {}),
        ("arp", {"adaptive": True, "rounds": 4}),
        ("arp", {"bins": True}),
        ("arp", {"adaptive": False, "bins": False}),
    ],
)
def test_no_category_is_released_that_no_noisy_count_supports(
    mechanism: str, how: dict[str, Any]
) -> None:
    release = _release(mechanism, supported=True, **how)
    assert release.manifest["mechanism"]["parameters"]["supported"] is True
    for column in (0, 1, 2):
        alone = next(m for m in release.measurements if m.batch.columns == (column,))
        there = standing_out(alone.counts.astype(float), float(alone.sigma))
        assert there[release.codes[:, column]].all()
    # of codes that nobody has, 0.05 are expected: more than three, less than once in 10^5 runs
    assert len(set(release.codes[:, 0].tolist()) & set(range(1, VALUES, 2))) <= 3
    # ordered columns are none of its business
    assert len(np.unique(release.codes[:, 3])) > 30


def test_without_it_categories_are_invented() -> None:
    codes = _release("independent").codes[:, 0]
    assert len(set(codes.tolist()) & set(range(1, VALUES, 2))) > 100


@pytest.mark.parametrize("mechanism", ["mwem", "matrix", "dualquery"])
def test_mechanisms_that_cannot_hold_it_refuse_before_a_charge(
    mechanism: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "codes.ledger.jsonl"
    with pytest.raises(us.ParameterError, match="has no parameter 'supported'"):
        us.release(
            _table(),
            schema=SCHEMA,
            epsilon=1,
            delta="1e-9",
            mechanism=mechanism,
            parameters={"supported": True},
            ledger=ledger,
        )
    assert not ledger.exists()


def test_residuals_cannot_hold_it() -> None:
    short = us.Schema.from_domain(dict.fromkeys("abcde", 5))
    brief = Brief(
        schema=short,
        workload=us.Workload.parse("2-way", short),
        neighbours=Neighbours.REPLACE_ONE,
    )
    with pytest.raises(us.ParameterError, match="leave out residuals or supported"):
        Arp(residuals=True, supported=True).check(brief)
    rho = Fraction(1, 100)
    assert decided(Arp(), brief, rho, 20_000).parameters["residuals"] is True
    assert decided(Arp(supported=True), brief, rho, 20_000).parameters["residuals"] is False


def test_ties_are_counted_when_the_way_is_decided() -> None:
    """A pair of 5,000 codes and 60 has few cells once rare values are tied: no reason for rounds."""
    long = us.Schema.from_domain({"code": 5_000, **dict.fromkeys("abcdefg", 30)})
    brief = Brief(
        schema=long,
        workload=us.Workload.parse("2-way", long),
        neighbours=Neighbours.REPLACE_ONE,
    )
    assert decided(Arp(), brief, Fraction(12, 100_000), 50_000).parameters["adaptive"] is False
