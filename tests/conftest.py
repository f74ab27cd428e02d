"""Shared pieces: where comparison data may be, and small invented tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.checks import SMALL, small_table

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: long statistical audits, run by make audit")


@pytest.fixture
def shared() -> Path:
    """The folder with comparison data, kept beside the project and never inside it."""
    if not (SHARED / "workload.py").exists():
        pytest.skip("the comparison data is not beside this checkout")
    return SHARED


@pytest.fixture
def small() -> tuple[np.ndarray, us.Schema]:
    return small_table(), SMALL
