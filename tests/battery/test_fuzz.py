"""Fuzz: whatever is given, there is a sound release or a sentence; no cell is told, and a refused
call costs nothing.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import understudy as us
from support.bundles import unsound
from support.fuzzing import (
    complaint,
    fuzz_in_a_child,
    is_a_sentence,
    listen,
    quick_release,
    remember_budgets,
)
from support.mutations import as_csv_bytes, csv_case, flip, parquet_case, people_with_canaries
from support.strategies import altered, lies, retold
from support.tables import ANY_CELL, CANARIES, ODD_VALUES, PEOPLE, SCHEMAS, WORKLOADS
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.privacy.accounting import accountant, budget

Battery = Callable[[str, int, str], None]
# Not shrunk: an example is small as it is, and a release takes long enough.
SETTINGS = settings(
    deadline=None,
    max_examples=15,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
EXIT_CODES = {0, 1, 2, 3, 4, 5}


@pytest.fixture(autouse=True)
def budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (budget, accountant):
        for name in ("rho_for", "epsilon_for"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    remember_budgets()


# ---------------------------------------------------------------------- files


def check_files(kind: str, first: int, last: int, folder: Path, battery: Battery) -> None:
    outcomes, cases = fuzz_in_a_child(kind, first, last, folder), last - first
    assert outcomes["released"] > cases / 20 and outcomes["SourceError"] > cases / 20, (
        "the damage is all of one strength"
    )
    battery(
        "fuzz",
        cases,
        f"damaged {kind} files: "
        + ", ".join(f"{count} {name}" for name, count in outcomes.most_common()),
    )


@pytest.mark.parametrize(("kind", "cases"), [("csv", 100), ("parquet", 40)])
def test_damaged_files_are_released_or_refused_in_a_sentence(
    kind: str, cases: int, tmp_path: Path, battery: Battery
) -> None:
    check_files(kind, 0, cases, tmp_path, battery)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "first"),
    [*(("csv", first) for first in range(0, 2000, 250)), ("parquet", 0), ("parquet", 250)],
)
def test_thousands_of_damaged_files_are_released_or_refused_in_a_sentence(
    kind: str, first: int, tmp_path: Path, battery: Battery
) -> None:
    check_files(kind, first, first + 250, tmp_path, battery)


def test_parquet_whose_column_names_are_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"naïve": [1]}), tmp_path / "t.parquet", store_schema=False)
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(data.replace("naïve".encode(), b"na\xff\xffve"))
    with pytest.raises(us.SourceError, match="not a readable Parquet file"):
        us.release(tmp_path / "t.parquet", schema=SMALL, epsilon=1)


def test_a_told_cell_a_foreign_error_and_a_wrong_charge_are_complained_about() -> None:
    """The judge of all tests here can fail."""

    def raises(problem: Exception) -> Callable[[], None]:
        def call() -> None:
            raise problem

        return call

    assert "told" in complaint(
        listen(raises(us.SourceError(f"The cell is {CANARIES[0]}, which is wrong."))), charged=False
    )
    assert "told" in complaint(listen(lambda: print(CANARIES[1])), charged=True)
    assert "not one of our" in complaint(
        listen(raises(TypeError("An error of somebody else."))), charged=False
    )
    assert "not a sentence" in complaint(listen(raises(us.SourceError("no"))), charged=False)
    assert "a charge" in complaint(
        listen(raises(us.SourceError("The table cannot be read."))), charged=True
    )
    assert "charged nothing" in complaint(listen(lambda: None), charged=False)
    assert (
        complaint(listen(raises(us.SourceError("The table cannot be read."))), charged=False) == ""
    )


# ---------------------------------------------------------------------- arguments


def _by_column(rows: np.ndarray, schema: us.Schema) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series(rows[:, i], dtype=object) for i, name in enumerate(schema.names)}
    )


class Subclass(pd.DataFrame):
    pass


HOLDERS: dict[str, Callable[[np.ndarray, us.Schema], Any]] = {
    "numpy": lambda rows, schema: rows,
    "pandas": _by_column,
    "pandas subclass": lambda rows, schema: Subclass(_by_column(rows, schema)),
    "narwhals": lambda rows, schema: nw.from_native(_by_column(rows, schema)),
    "polars": lambda rows, schema: pl.DataFrame(
        [
            pl.Series(name, rows[:, i].tolist(), dtype=pl.Object)
            for i, name in enumerate(schema.names)
        ]
    ),
}


@given(
    schema=SCHEMAS,
    workload=WORKLOADS,
    cells=st.lists(ANY_CELL, min_size=1, max_size=12),
    holder=st.sampled_from(list(HOLDERS)),
)
@SETTINGS
def test_any_schema_workload_and_cells_give_a_sound_release_or_a_sentence(
    schema: us.Schema,
    workload: str,
    cells: list[Any],
    holder: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    rows = np.empty((40, len(schema)), object)
    rows.ravel()[:] = [cells[i % len(cells)] if i % 3 else CANARIES[0] for i in range(rows.size)]
    ledger, table = folder / "l.jsonl", HOLDERS[holder](rows, schema)
    heard = listen(
        lambda: us.release(
            table,
            schema=schema,
            epsilon=1,
            delta="1e-6",
            workload=workload,
            mechanism="independent",
            ledger=ledger,
            rows=9,
        )
    )
    assert complaint(heard, ledger.exists()) == ""
    if heard.result is not None:
        again = us.Release.load(heard.result.save(folder / "b"))
        assert again.schema == schema and again.synthetic.equals(heard.result.synthetic)
        assert unsound(folder / "b") == []


def test_other_among_numeric_categories_is_shown_as_missing_and_the_bundle_is_sound(
    tmp_path: Path,
) -> None:
    schema = us.Schema(
        (us.Categorical(name="x", categories=("1", "2"), numeric=True, missing=True, other=True),)
    )
    made = us.release(
        np.array([["7"]] * 99, object),
        schema=schema,
        epsilon=9,
        delta="1e-6",
        mechanism="independent",
    )
    assert made.synthetic["x"].null_count > 50
    assert unsound(made.save(tmp_path / "b")) == []


PARAMETERS = [
    (name, f.name)
    for name, kind in us.available_mechanisms().items()
    for f in dataclasses.fields(kind)
]
GOOD: dict[str, list[Any]] = {
    "epsilon": [1, "0.5", Fraction(1, 3), Decimal("2")],
    "delta": ["1e-6", 1e-9, None],
    "workload": ["1-way", "2-way", "all-conjunctions", None],
    "rows": [None, 5, np.int64(9)],
    "neighbours": ["replace-one", "add-remove-one"],
    "seed": [None, 0, 7],
    "watcher": [None],
}


def a_parameter_set(number: int) -> dict[str, Any]:
    """Arguments of a release, at most two of them wrong; a mechanism's own parameter is always
    wrong or on an edge.
    """
    rng = random.Random(number)
    asked: dict[str, Any] = {name: rng.choice(values) for name, values in GOOD.items()}
    asked["mechanism"] = rng.choice(["independent", "gaussian", "mwem"])
    if number % 2:
        asked["mechanism"], name = PARAMETERS[number // 2 % len(PARAMETERS)]
        asked["parameters"] = {
            name: rng.choice(
                [value for value in ODD_VALUES if value is not None and value is not True]
            )
        }
    for name in rng.sample(
        [*GOOD, "mechanism", "parameters", "schema"], rng.randint(0 if number % 2 else 1, 2)
    ):
        asked[name] = rng.choice(ODD_VALUES)
    return asked


def check_parameter_sets(numbers: range, folder: Path, battery: Battery) -> None:
    table, refused = small_table(60), 0
    for number in numbers:
        ledger = folder / f"{number}.jsonl"
        asked = {"schema": SMALL, **a_parameter_set(number)}
        heard = listen(lambda asked=asked, ledger=ledger: us.release(table, ledger=ledger, **asked))
        assert complaint(heard, ledger.exists()) == "", number
        assert heard.outcome != "ReleaseFailed", (
            number,
            "a request that cannot be met was charged",
        )
        refused += heard.problem is not None
    assert 0 < refused < len(numbers)
    battery(
        "fuzz", len(numbers), f"parameter sets, {refused} refused, none charged without a release"
    )


def test_odd_arguments_are_refused_in_a_sentence_before_any_charge(
    tmp_path: Path, battery: Battery
) -> None:
    check_parameter_sets(range(60), tmp_path, battery)


@pytest.mark.slow
def test_500_sets_of_odd_arguments_are_refused_in_a_sentence_before_any_charge(
    tmp_path: Path, battery: Battery
) -> None:
    check_parameter_sets(range(500), tmp_path, battery)


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize(
    "value",
    [
        "1e999999999",
        "1e-999999999",
        "-1e99999999",
        Decimal("1e-999999"),
        Fraction(1, 10**3000),
        10**5000,
    ],
    ids=range(6),
)
def test_numbers_with_endless_digits_are_refused_at_once(name: str, value: Any) -> None:
    """Python writes every digit of 1e999999999 out, which takes hours."""
    with pytest.raises(us.ParameterError):
        us.release(small_table(60), **{"schema": SMALL, "epsilon": 1, name: value})


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("mwem", {"first": "x"}),
        ("mwem", {"most_cells": None}),
        ("gaussian", {"first": 1e-320}),
        ("fem", {"scale": 10**5000}),
        ("projection", {"parameterisation": []}),
        ("dualquery", {"oracle": 10**5000}),
        ("matrix", {"objective": np.array([1, 2])}),
    ],
    ids=range(7),
)
def test_a_parameter_of_the_wrong_kind_or_size_costs_nothing(
    mechanism: str, parameters: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(us.ParameterError, match=next(iter(parameters))):
        us.release(
            small_table(60),
            schema=SMALL,
            epsilon=1,
            mechanism=mechanism,
            parameters=parameters,
            ledger=tmp_path / "l",
            delta="1e-6",
        )
    assert not (tmp_path / "l").exists()


def test_a_watcher_that_cannot_watch_costs_nothing(tmp_path: Path) -> None:
    with pytest.raises(us.ParameterError, match="watcher"):
        us.release(
            small_table(60), schema=SMALL, epsilon=1, watcher=object(), ledger=tmp_path / "l"
        )  # type: ignore[arg-type]
    assert not (tmp_path / "l").exists()


# ---------------------------------------------------------------------- public files

BOMBS = {
    "copies of copies.yaml": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
            for before, after in zip("abcdefgh", "bcdefghi", strict=True)
        )
    ),
    "in itself.yaml": "fields: &a\n - *a\n",
    "deep.yaml": "[" * 500,
    "deep.json": '{"a":' * 50_000,
    "digits.json": '{"a": ' + "9" * 5000 + "}",
    "digits.yaml": "a: " + "9" * 5000,
    "endless.json": '{"a": 1e999999999}',
    "code.yaml": "a: !!python/object/apply:os.system [ls]",
    "keys.yaml": "{a: 1}: 3",
    "items.yaml": "items: 99999999999999",
    "null.yaml": 'a: "\\0"',
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize(
    "load", [us.Schema.load, lambda path: us.Workload.load(path, SMALL)], ids=["schema", "workload"]
)
def test_bombs_in_public_files_are_refused_in_a_sentence(
    name: str, load: Callable[[Path], Any], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(BOMBS[name])
    with pytest.raises(us.InputError) as caught:
        load(tmp_path / name)
    assert is_a_sentence(str(caught.value))


def test_aliases_that_repeat_a_little_are_read(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "fields: [{name: a, constraints: &c {enum: [x, y]}}, {name: b, constraints: *c}]"
    )
    assert us.Schema.load(tmp_path / "s.yaml").shape == (2, 2)


UNVERIFIABLE = ("versions", "seed")  # of a manifest: words that nothing else in a bundle bears out


def claims(text: bytes) -> Any:
    """What a manifest claims, as far as a bundle can bear it out; None if it is no manifest."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return (
        {name: said[name] for name in said if name not in UNVERIFIABLE}
        if isinstance(said, dict)
        else None
    )


def another_bundle(before: dict[str, bytes], rng: random.Random) -> tuple[str, bytes]:
    """(the file that is altered, its bytes); a change that changes no claim is made again."""
    while True:
        name = rng.choice(["manifest.json", "manifest.json", *sorted(before)])
        spare = np.random.default_rng(rng.getrandbits(32))
        strength = rng.random() if name == "manifest.json" else 1.0
        if strength < 0.4:  # of a kind that no manifest has there
            text = json.dumps(altered(json.loads(before[name]), rng)).encode()
        elif strength < 0.8:  # well-formed, and not what happened
            said = json.loads(before[name])
            text = json.dumps(retold(said, *rng.choice(list(lies(said))))).encode()
        else:
            text = flip(spare, before[name])
        # Written as text: NaN differs from itself.
        if name != "manifest.json" or repr(claims(text)) != repr(claims(before[name])):
            return name, text


def test_an_altered_bundle_fails_verification_or_is_refused_in_a_sentence(
    tmp_path: Path, battery: Battery
) -> None:
    folder = us.release(
        small_table(), schema=SMALL, epsilon=1, delta="1e-6", workload="1-way", mechanism="gaussian"
    ).save(tmp_path / "b")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    rng = random.Random(0)
    noticed = Counter[str]()
    for number in range(120):
        name, text = another_bundle(before, rng)
        (folder / name).write_bytes(text)
        heard = listen(lambda: us.verify(folder))
        if heard.problem is not None:
            assert isinstance(heard.problem, us.BundleError) and is_a_sentence(
                str(heard.problem)
            ), (number, heard.everything)
        else:
            assert any(not check.holds for check in heard.result), (number, name, "nobody noticed")
        noticed["refused" if heard.problem else "failed"] += 1
        (folder / name).write_bytes(before[name])
    assert unsound(folder) == []
    assert min(noticed["refused"], noticed["failed"]) > 5, "the damage is all of one strength"
    battery(
        "fuzz",
        60,
        f"altered bundles, {noticed['refused']} refused in a sentence and {noticed['failed']}"
        " failed by a check",
    )


def test_a_rational_with_an_exponent_in_a_manifest_is_no_rational(tmp_path: Path) -> None:
    folder = us.release(
        small_table(), schema=SMALL, epsilon=1, workload="1-way", mechanism="independent"
    ).save(tmp_path / "b")
    manifest = json.loads((folder / "manifest.json").read_text())
    for inner, name in (
        (manifest["budget"], "delta"),
        (manifest["events"][0], "sigma_squared"),
        (manifest["measurements"][0], "sigma"),
    ):
        inner[name] = "1e999999999"  # hours and gigabytes, if it were written out
        (folder / "manifest.json").write_text(json.dumps(manifest))
        heard = listen(lambda: us.verify(folder))
        assert isinstance(heard.problem, us.BundleError) or any(
            not check.holds for check in heard.result
        )


def test_an_altered_rule_is_refused_in_a_sentence_or_is_the_same_rule(tmp_path: Path) -> None:
    table = small_table()
    made = us.learn(table, schema=SMALL, label="c = 1", epsilon=1, width=1)
    cells = {name: table[:, i].tolist() for i, name in enumerate("abc")}
    rng, place, ends = random.Random(0), tmp_path / "r.json", Counter[str]()
    for number in range(60):
        data = altered(made.to_dict(), rng)
        place.write_text(json.dumps(data))
        heard = listen(lambda: us.Learned.load(place))
        ends[heard.outcome] += 1
        if heard.problem is not None:
            assert isinstance(heard.problem, us.BundleError) and is_a_sentence(
                str(heard.problem)
            ), (number, heard.everything)
        else:
            assert heard.result.words == made.words and np.array_equal(
                heard.result.predict(cells), made.predict(cells)
            ), number
    assert set(ends) == {"BundleError", "released"} and min(ends.values()) > 5, (
        "the damage is all of one strength"
    )


# ---------------------------------------------------------------------- the command

WORDS = [
    "",
    "x",
    "0",
    "-1",
    "nan",
    "inf",
    "1e999999999",
    "1/0",
    "9" * 5000,
    "[bold]",
    "日本",
    "a=b",
    "/",
    "/no/such/file.csv",
    "*",
    "%s",
    "\x1b[31m",
]


def command_line(number: int, folder: Path) -> list[str]:
    """Words for the command: mostly sensible ones, of which some are replaced, left out or doubled."""
    rng = random.Random(number)
    ending, data = (
        (csv_case, parquet_case)[number % 2](number)
        if number % 4 == 0
        else (".csv", as_csv_bytes(people_with_canaries(40)))
    )
    table, schema = folder / f"t{ending}", folder / "schema.json"
    table.write_bytes(data)
    PEOPLE.save(schema)
    common = ["--schema", str(schema), "--epsilon", "1"]
    words = rng.choice(
        [
            [
                "release",
                str(table),
                *common,
                "--out",
                str(folder / "o"),
                "--delta",
                "1e-6",
                "--mechanism",
                "independent",
                "--workload",
                "1-way",
                "--rows",
                "9",
            ],
            [
                "release",
                str(table),
                *common,
                "--out",
                str(folder / "o"),
                "--mechanism",
                "gaussian",
                "--set",
                "first=0.5",
                "--workload",
                "1-way",
                "--seed",
                "3",
            ],
            [
                "release",
                str(table),
                *common,
                "--out",
                str(folder / "o"),
                "--delta",
                "1e-6",
                "--neighbours",
                "add-remove-one",
                "--ledger",
                str(folder / "l.jsonl"),
                "--mechanism",
                "independent",
            ],
            [
                "plan",
                *common,
                "--rows",
                "1000",
                "--workload",
                "2-way",
                "--mechanism",
                "gaussian",
                "--set",
                "first=0.5",
                "--delta",
                "1e-6",
            ],
            [
                "learn",
                str(table),
                *common,
                "--label",
                "smoker",
                "--width",
                "1",
                "--rules",
                "conjunctions",
                "--report",
                "0.1",
                "--attribute",
                "grade = 1",
                "--out",
                str(folder / "r.json"),
            ],
            ["verify", str(folder)],
            ["export", str(folder), "--csv", str(folder / "x.csv"), "--raw"],
            ["mechanisms"],
            ["budget", str(table), "--limit-epsilon", "1", "--limit-delta", "1e-6"],
            ["schema", "check", str(schema), str(table)],
        ]
    )
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(len(words) or 1)
        words[at : at + 1] = rng.choice(
            [[], [rng.choice(WORDS)], words[at : at + 1] * 2, [rng.choice(WORDS)]]
        )
    return [*words, "--json"] if rng.random() < 0.3 else words


def check_commands(
    numbers: range, folder: Path, battery: Battery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # a word may name a file to write
    codes: set[int] = set()
    for number in numbers:
        place = folder / str(number)
        place.mkdir()
        words = command_line(number, place)
        result = CliRunner().invoke(main, words)
        shown = result.output + result.stderr
        assert result.exit_code in EXIT_CODES, (number, words, result.exit_code)
        assert result.exception is None or isinstance(result.exception, SystemExit), (number, words)
        assert "Traceback" not in shown and "Something unexpected" not in shown, (
            number,
            words,
            shown,
        )
        assert not any(canary in shown for canary in CANARIES), (number, words)
        if result.exit_code in (2, 3):
            assert not [file for file in place.glob("*.jsonl") if '"charge"' in file.read_text()], (
                number,
                words,
            )
        codes.add(result.exit_code)
    assert {0, 2} <= codes
    battery("fuzz", len(numbers), f"command lines, exit codes {sorted(codes)}")


def test_odd_command_lines_end_in_a_documented_way(
    tmp_path: Path, battery: Battery, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_commands(range(60), tmp_path, battery, monkeypatch)


@pytest.mark.slow
def test_500_odd_command_lines_end_in_a_documented_way(
    tmp_path: Path, battery: Battery, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_commands(range(500), tmp_path, battery, monkeypatch)


@pytest.mark.parametrize("schema", ["\x00", "\ud800"])
def test_a_path_that_no_file_can_have_is_refused_in_a_sentence(schema: str, tmp_path: Path) -> None:
    for asked in ({"schema": schema}, {"schema": SMALL, "ledger": schema}):
        with pytest.raises(us.InputError) as caught:
            us.release(small_table(60), epsilon=1, **asked)  # type: ignore[arg-type]
        assert is_a_sentence(str(caught.value))
    assert quick_release(people_array(), tmp_path / "l.jsonl").synthetic.num_rows == 20


def people_array() -> np.ndarray:
    return np.array(people_with_canaries(40), dtype=object)
