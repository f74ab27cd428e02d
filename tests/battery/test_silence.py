"""Neighbour silence: one person's bad cell changes nothing that can be seen of a release but noisy
numbers.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import understudy as us
import understudy.privacy.meter as room
from sources.test_sources import as_arrow, as_columns, as_csv, write
from support.fuzzing import Heard, listen, quick_release, remember_budgets
from support.tables import CANARIES, CANARY_NUMBER, CANARY_TEXT, PEOPLE, people, rows_of
from understudy.cli.main import main
from understudy.privacy.accounting import accountant, budget
from understudy.privacy.noise.samplers import Noise
from understudy.sources import open_source

Battery = Callable[[str, int, str], None]
Rows = list[list[Any]]
NAMES = list(PEOPLE.names)
CITY, AGE, SMOKER, INCOME, BORN, SEEN = 1, 2, 4, 5, 6, 7

# Cells of any type, for tables whose columns hold anything: (column, cell).
ANYTHING: list[tuple[int, Any]] = [
    (CITY, CANARY_TEXT),
    (CITY, None),
    (CITY, ""),
    (CITY, '"'),
    (CITY, 'un"closed'),
    (CITY, "two\nlines"),
    (CITY, "a,b"),
    (CITY, "\x00"),
    (CITY, b"\xff\xfe"),
    (CITY, "x" * 100_000),
    (CITY, "\r"),
    (CITY, 7),
    (AGE, CANARY_NUMBER),
    (AGE, -1),
    (AGE, 10**400),
    (AGE, float("nan")),
    (AGE, "word"),
    (AGE, "9" * 400),
    (AGE, "1e999"),
    (AGE, float("inf")),
    (SMOKER, "maybe"),
    (SMOKER, 2),
    (INCOME, "1,5"),
    (INCOME, 1e308),
    (INCOME, "\ufeff3"),
    (BORN, dt.date(1, 1, 1)),
    (BORN, "9999-99-99"),
    (BORN, 3),
    (SEEN, "yesterday"),
    (SEEN, dt.datetime.max),
]
# Cells that fit the type of their column.
TYPED: list[tuple[int, Any]] = [
    (CITY, CANARY_TEXT),
    (CITY, None),
    (CITY, '"'),
    (CITY, "two\nlines"),
    (CITY, "\x00"),
    (CITY, "x" * 100_000),
    (CITY, "\u2028"),
    (AGE, CANARY_NUMBER),
    (AGE, None),
    (AGE, 2**63 - 1),
    (AGE, -(2**63)),
    (SMOKER, None),
    (INCOME, float("nan")),
    (INCOME, float("inf")),
    (INCOME, 5e-324),
    (BORN, np.datetime64(2**31 - 1, "D")),
    (BORN, None),
    (SEEN, np.datetime64(2**63 - 1, "us")),
    (SEEN, np.datetime64(-(2**63) + 1, "us")),
]


def to_parquet(rows: Rows, folder: Path) -> str:
    pq.write_table(as_arrow(rows), folder / "t.parquet")
    return str(folder / "t.parquet")


HOMES: dict[str, tuple[Callable[[Rows, Path], Any], list[tuple[int, Any]]]] = {
    "csv": (lambda rows, folder: write(folder / "t.csv", as_csv(rows)), ANYTHING),
    "pandas objects": (lambda rows, _: pd.DataFrame(rows, columns=NAMES, dtype=object), ANYTHING),
    "numpy": (lambda rows, _: np.array(rows, dtype=object), ANYTHING),
    "numpy structured": (
        lambda rows, _: np.array([tuple(row) for row in rows], [(name, object) for name in NAMES]),
        ANYTHING,
    ),
    "parquet": (to_parquet, TYPED),
    "arrow": (lambda rows, _: as_arrow(rows), TYPED),
    "polars": (lambda rows, _: pl.from_arrow(as_arrow(rows)), TYPED),
    "pandas arrow": (lambda rows, _: as_arrow(rows).to_pandas(types_mapper=pd.ArrowDtype), TYPED),
    "pandas inferred": (lambda rows, _: pd.DataFrame(as_columns(rows)), TYPED),
}
PAIRS = [(home, column, cell) for home, (_, cells) in HOMES.items() for column, cell in cells]


@pytest.fixture(autouse=True)
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise from a seed, the same for both tables of a pair; and budgets that are worked out once."""
    monkeypatch.setattr(room, "Noise", lambda: Noise(random.Random(1).randbytes))
    monkeypatch.setattr(budget, "rho_for", budget.rho_for)
    monkeypatch.setattr(budget, "epsilon_for", budget.epsilon_for)
    monkeypatch.setattr(accountant, "epsilon_for", accountant.epsilon_for)
    remember_budgets()


def seen_of(heard: Heard, folder: Path) -> tuple[Any, ...]:
    """All that may be looked at after a release, without the noisy numbers themselves."""
    where = str(folder)
    told = [
        heard.outcome,
        str(heard.problem),
        heard.noted,
        heard.warned,
        heard.logged,
        heard.printed,
    ]
    if heard.result is None:
        return (str(told).replace(where, "HERE"),)
    made: us.Release = heard.result
    bundle = made.save(folder / "bundle")
    manifest = json.loads((bundle / "manifest.json").read_text())
    for noisy in ("certificate", "files", "made_at"):
        manifest.pop(noisy)
    stored = {file.name: pq.read_schema(file) for file in sorted(bundle.glob("*.parquet"))}
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))
    return (
        str(told).replace(where, "HERE"),
        manifest,
        made.synthetic.schema,
        made.synthetic.num_rows,
        stored,
        files,
    )


@pytest.mark.parametrize("home", HOMES)
def test_one_bad_cell_changes_nothing_that_can_be_seen(
    home: str, tmp_path: Path, battery: Battery
) -> None:
    check_silence(home, HOMES[home][1][::5], tmp_path, battery)


@pytest.mark.slow
@pytest.mark.parametrize("home", HOMES)
def test_none_of_200_bad_cells_changes_anything_that_can_be_seen(
    home: str, tmp_path: Path, battery: Battery
) -> None:
    check_silence(home, HOMES[home][1], tmp_path, battery)


def check_silence(
    home: str, cells: list[tuple[int, Any]], tmp_path: Path, battery: Battery
) -> None:
    hold, rows = HOMES[home][0], people(40, seed=6, bad=0)

    def look(changed: Rows, name: str) -> tuple[Any, ...]:
        folder = tmp_path / name
        folder.mkdir()
        table = hold(changed, folder)
        heard = listen(lambda: quick_release(table, folder / "l.jsonl"))
        assert heard.outcome == "released", heard.everything
        assert not any(canary in heard.everything for canary in CANARIES)
        return seen_of(heard, folder)

    clean = look(rows, "clean")
    for number, (column, cell) in enumerate(cells):
        changed = [list(row) for row in rows]
        changed[number % len(rows)][column] = cell
        assert look(changed, str(number)) == clean, (
            NAMES[column],
            str(cell)[:40] if not isinstance(cell, int) else "a number",
        )
    battery(
        "neighbour silence",
        len(cells),
        f"pairs in {home}: the same messages, logs, warnings, files, types and rows",
    )


def test_there_are_200_pairs() -> None:
    assert len(PAIRS) >= 200


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_says_the_same_whatever_one_cell_holds(
    ending: str, tmp_path: Path, battery: Battery
) -> None:
    rows = people(40, seed=6, bad=0)
    PEOPLE.save(tmp_path / "schema.json")

    def look(changed: Rows, name: str) -> tuple[Any, ...]:
        folder = tmp_path / name
        folder.mkdir()
        table = HOMES[ending][0](changed, folder)
        words = [
            "release",
            table,
            "--schema",
            str(tmp_path / "schema.json"),
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--out",
            str(folder / "o"),
        ]
        result = CliRunner().invoke(
            main,
            [*words, "--workload", "1-way", "--mechanism", "independent"],
            env={"COLUMNS": "300"},
        )
        text = "".join(
            letter for letter in result.output.replace(str(folder), "HERE") if not letter.isdigit()
        )
        # the bar of progress tells the time
        said = [line.split() for line in text.splitlines() if "━" not in line]
        assert not any(canary in result.output for canary in CANARIES)
        return (
            result.exit_code,
            said,
            sorted(str(file.relative_to(folder)) for file in folder.rglob("*")),
        )

    clean, cells = look(rows, "clean"), HOMES[ending][1][::5]
    assert clean[0] == 0
    for number, (column, cell) in enumerate(cells):
        changed = [list(row) for row in rows]
        changed[number][column] = cell
        assert look(changed, str(number)) == clean, NAMES[column]
    battery("neighbour silence", len(cells), f"pairs of {ending} files through the command")


def rows_in(folder: Path, body: bytes) -> int:
    path = write(folder / "t.csv", b"city,id\n" + body)
    return len(rows_of(open_source(path, us.Schema((PEOPLE["city"], PEOPLE["id"])))))


@pytest.mark.parametrize(
    "cell",
    [
        b"\x00",
        b"\xff",
        b"\r",
        b'a"b',
        b'""""',
        b'"a,b"',
        b'"two\nlines"',
        b"x" * 5000,
        b"",
        b" ",
        b'"closed"after',
    ],
)
def test_a_cell_that_is_quoted_as_csv_asks_is_one_row_of_its_own(
    cell: bytes, tmp_path: Path
) -> None:
    assert rows_in(tmp_path, b"no,1\n" + cell + b",2\nno,3\n") == 3


def test_what_raw_bytes_can_do_to_the_number_of_rows_is_what_known_limits_says(
    tmp_path: Path,
) -> None:
    """A writer that does not quote lets one person's cell swallow others or add rows; the page says
    so, and this pins how.
    """
    assert rows_in(tmp_path, b'"no,1\nno,2\nno,3\n') == 1, (
        "a quote that is never closed swallows the rows after it"
    )
    assert rows_in(tmp_path, b"no,1\nn\no,2\nno,3\n") == 4, "a line break outside quotes ends a row"
    limits = (Path(__file__).parents[2] / "KNOWN-LIMITS.md").read_text()
    assert (
        "never closed swallows the rows" in limits
        and "line break that is not inside quotes" in limits
    )


def test_the_pairs_differ_in_what_is_counted(tmp_path: Path) -> None:
    """Silence would be easy if bad cells were not read at all: most of them do change their row's
    codes.
    """
    rows, differing = people(40, seed=6, bad=0), 0
    before = rows_of(open_source(HOMES["numpy"][0](rows, tmp_path), PEOPLE))
    for column, cell in ANYTHING:
        changed = [list(row) for row in rows]
        changed[0][column] = cell
        after = rows_of(open_source(HOMES["numpy"][0](changed, tmp_path), PEOPLE))
        assert np.array_equal(after[1:], before[1:])
        differing += not np.array_equal(after[0], before[0])
    assert differing > len(ANYTHING) / 2
