"""Shared pieces: where comparison data may be, and small invented tables."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.api import session
from understudy.checks import SMALL, small_table

SHARED = Path(__file__).resolve().parents[2] / "shared"


STATE = Path(tempfile.mkdtemp(prefix="understudy-state-"))
PLACES = itertools.count()
# what releases remember of files is never written to the home of whoever runs the tests
os.environ["UNDERSTUDY_STATE"] = str(STATE)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: long statistical audits, run by make audit")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a folder of its own for it, made when something is written there; and of tables
    in memory it has been said.
    """
    monkeypatch.setenv("UNDERSTUDY_STATE", str(STATE / str(next(PLACES))))
    monkeypatch.setattr(session, "_warned", {session.NO_LEDGER})


@pytest.fixture
def shared() -> Path:
    """The folder with comparison data, kept beside the project and never inside it."""
    if not (SHARED / "workload.py").exists():
        pytest.skip("the comparison data is not beside this checkout")
    return SHARED


@pytest.fixture
def battery(record_property: Callable[[str, object], None]) -> Callable[[str, int, str], None]:
    """Note what a test of the battery came to: its row, how many cases, and a few words. ``make
    audit`` collects the notes.

    The note goes into pytest's own record of the test (``--junitxml``), beside whether it passed.
    """

    def note(row: str, cases: int, said: str) -> None:
        record_property("battery", f"{row}|{cases}|{said}")

    return note


@pytest.fixture
def small() -> tuple[np.ndarray, us.Schema]:
    return small_table(), SMALL
