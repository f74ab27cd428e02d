"""release(): what it gives, what it refuses, and that a refusal costs nothing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import understudy as us
from understudy.api import demo
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows
from understudy.mechanisms.base import Decision
from understudy.mechanisms.independent import Independent
from understudy.privacy import FileLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.sources.duckdb import DuckDBSource
from understudy.sources.memory import MemorySource


def make(table: Any = None, **options: Any) -> us.Release:
    settings: dict[str, Any] = {
        "schema": SMALL,
        "epsilon": 1,
        "mechanism": "independent",
        **options,
    }
    return us.release(small_table() if table is None else table, **settings)


def test_the_promised_names() -> None:
    work = us.marginals(SMALL, k=3)
    rel = us.release(
        pd.DataFrame(small_table(), columns=list("abc")),
        schema=SMALL,
        workload=work,
        epsilon=1.0,
        delta=1e-9,
        mechanism="mwem",
    )
    assert list(rel.synthetic.to_pandas().columns) == ["a", "b", "c"]
    assert rel.answers(work)["a", "b", "c"].shape == (3, 4, 2)
    assert 0 < rel.certificate.alpha < 1 and rel.certificate.confidence == 0.95
    assert rel.manifest["ledger"].startswith("this process only")


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "arrow", "csv", "parquet"])
def test_every_kind_of_table(kind: str, tmp_path: Path) -> None:
    rows = small_table()
    frame = pd.DataFrame(rows, columns=list("abc"))
    if kind == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "t.parquet")
    tables = {
        "numpy": rows,
        "pandas": frame,
        "polars": pl.DataFrame(frame),
        "arrow": pa.table(dict(frame)),
        "csv": tmp_path / "t.csv",
        "parquet": str(tmp_path / "t.parquet"),
    }
    made = make(tables[kind], epsilon=50)
    exact = np.bincount(rows[:, 0], minlength=3) / 600
    assert np.abs(made.answers("1-way")["a"] - exact).max() < 0.02
    if kind in ("csv", "parquet"):
        assert FileLedger.beside(tables[kind]).read().spent.rho > 0


def test_types_come_back_as_the_user_gave_them() -> None:
    made = us.release(
        demo.population(), schema=demo.schema(), epsilon=1, mechanism="independent", rows=400
    )
    rows = made.synthetic.to_pylist()
    assert {type(r["birth_date"]) for r in rows} == {date} and {
        type(r["last_visit"]) for r in rows
    } == {datetime}
    assert {type(r["household_size"]) for r in rows} == {int} and {
        type(r["diabetes"]) for r in rows
    } == {bool}
    assert {type(r["income"]) for r in rows} == {float, type(None)}
    assert {r["sex"] for r in rows} == {"female", "male"}
    assert all(date(1935, 1, 1) <= r["birth_date"] <= date(2006, 12, 31) for r in rows)


def test_the_demo_population_is_always_the_same_and_lifelike() -> None:
    a, b = demo.population(), demo.population()
    assert a.equals(b) and a.num_rows == 20_000 and 10 <= a.num_columns <= 14
    frame = a.to_pandas()
    assert (
        frame.groupby("education")["income"].mean().loc["university"]
        > 1.3 * frame.groupby("education")["income"].mean().loc["school"]
    )
    assert frame["income"].isna().mean() > 0.05
    codes = demo.schema().encode(a)
    assert np.all((codes >= 0) & (codes < demo.schema().shape))


# ---------------------------------------------------------------------- refusals

BAD: list[tuple[str, dict[str, Any]]] = [
    ("epsilon zero", {"epsilon": 0}),
    ("epsilon negative", {"epsilon": -1}),
    ("epsilon nan", {"epsilon": math.nan}),
    ("epsilon infinite", {"epsilon": math.inf}),
    ("epsilon text", {"epsilon": "much"}),
    ("delta zero", {"delta": 0}),
    ("delta one over n", {"delta": Fraction(1, 600)}),
    ("delta one", {"delta": 1}),
    ("delta negative", {"delta": -1e-9}),
    ("delta nan", {"delta": math.nan}),
    ("unknown mechanism", {"mechanism": "magic"}),
    ("mechanism of a wrong type", {"mechanism": 7}),
    ("unknown parameter", {"parameters": {"speed": 3}}),
    ("parameters for auto", {"mechanism": "auto", "parameters": {"rounds": 3}}),
    ("bad parameter", {"mechanism": "mwem", "parameters": {"rounds": 0}}),
    ("unknown workload", {"workload": "three-way"}),
    ("workload too wide", {"workload": "4-way"}),
    ("workload of a wrong type", {"workload": 3}),
    (
        "workload of another schema",
        {"workload": us.marginals(us.Schema.from_domain({"z": 2}), k=1)},
    ),
    ("missing workload file", {"workload": "nowhere.yaml"}),
    ("missing schema file", {"schema": "nowhere.yaml"}),
    ("schema of a wrong type", {"schema": 3}),
    ("schema with an unknown column", {"schema": {"a": 3, "z": 2}}),
    ("rows zero", {"rows": 0}),
    ("rows a fraction", {"rows": 1.5}),
    ("seed negative", {"seed": -1}),
    ("neighbours unknown", {"neighbours": "friends"}),
    ("delta needed", {"neighbours": "add-remove-one"}),
]


@pytest.mark.parametrize(("what", "options"), BAD, ids=[what for what, _ in BAD])
def test_a_bad_argument_is_one_sentence_and_costs_nothing(
    what: str, options: dict[str, Any], tmp_path: Path
) -> None:
    table = tmp_path / "t.parquet"
    pd.DataFrame(small_table(), columns=list("abc")).to_parquet(table)
    with pytest.raises(us.InputError) as caught:
        make(str(table), **options)
    sentence = str(caught.value)
    assert (
        caught.value.exit_code == 2
        and sentence.endswith(".")
        and "\n" not in sentence
        and len(sentence) > 15
    )
    assert not FileLedger.beside(table).path.exists()


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((0, 3), int),
        pd.DataFrame({"a": [], "b": [], "c": []}),
        pd.DataFrame(np.zeros((2, 4), int), columns=["a", "b", "c", "a"]),
        pd.DataFrame({"a": [1], "b": [1]}),
        np.zeros((3, 2), int),
        "no/such/file.csv",
        {"a": 1},
        None,
        42,
    ],
    ids=[
        "empty array",
        "empty frame",
        "duplicate columns",
        "missing column",
        "wrong width",
        "missing file",
        "a dict",
        "nothing",
        "a number",
    ],
)
def test_a_bad_table_is_one_sentence(table: Any) -> None:
    with pytest.raises(us.InputError) as caught:
        us.release(table, schema=SMALL, epsilon=1)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_mwem_names_the_size_it_refuses() -> None:
    big = us.Schema.from_domain({f"c{i}": 10 for i in range(8)})
    with pytest.raises(us.NotSupported, match="100,000,000"):
        us.release(np.zeros((5, 8), int), schema=big, epsilon=1, mechanism="mwem")


def test_a_limit_refuses_before_anything_is_read(tmp_path: Path) -> None:
    table, ledger = tmp_path / "t.parquet", tmp_path / "l.jsonl"
    pd.DataFrame(small_table(), columns=list("abc")).to_parquet(table)
    FileLedger(ledger).set_limit(us.Budget.of(epsilon=1.3, delta=1e-6))
    make(str(table), ledger=ledger, delta=1e-6)
    with pytest.raises(us.BudgetRefused) as caught:
        make(str(table), ledger=ledger, delta=1e-6)
    assert caught.value.exit_code == 3 and "1.3" in str(caught.value)
    assert len(FileLedger(ledger).read().charges) == 1


# ---------------------------------------------------------------------- accounting of a release


@pytest.mark.parametrize("mechanism", ["independent", "mwem"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_events_add_up_to_no_more_than_promised(mechanism: str, neighbours: str) -> None:
    made = make(mechanism=mechanism, neighbours=neighbours, delta=1e-6)
    events = [ev.from_dict(e) for e in made.manifest["events"]]
    budget, spent = made.facts.budget, total_cost(events)
    assert budget.accountant == ("gaussian" if mechanism == "independent" else "rho")
    assert Fraction(95, 100) * budget.rho < spent.rho <= budget.rho and spent.fits(budget)
    assert made.manifest["spent"]["epsilon"] <= 1


def test_the_ledger_reserves_the_whole_promise(tmp_path: Path) -> None:
    made = make(ledger=tmp_path / "l.jsonl")
    assert FileLedger(tmp_path / "l.jsonl").read().spent.rho == Fraction(
        made.manifest["budget"]["rho"]
    )


class Breaks(Independent):
    def play(self, *args: Any) -> Any:
        super().play(*args)
        raise KeyboardInterrupt


def test_a_release_that_dies_has_spent_its_budget(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        make(mechanism=Breaks(), ledger=tmp_path / "l.jsonl")
    state = FileLedger(tmp_path / "l.jsonl").read()
    assert state.spent.rho > 0 and "ended early" in state.notes[0]


class Fails(Independent):
    """Breaks after its budget was reserved."""

    def play(self, *args: Any) -> Any:
        raise ValueError("the cell was 13579")


class Refuses(Independent):
    def play(self, *args: Any) -> Any:
        raise us.NotSupported("This cannot be done.")


class Greedy(Independent):
    def decide(self, brief: Any, means: Any) -> Decision:
        return replace(super().decide(brief, means), cost=Cost(100 * means.rho))


def test_a_failure_after_the_reservation_says_that_the_budget_is_spent(tmp_path: Path) -> None:
    for i, mechanism in enumerate((Fails(), Refuses())):
        with pytest.raises(us.ReleaseFailed, match="counts as spent") as caught:
            make(mechanism=mechanism, ledger=tmp_path / f"{i}.jsonl")
        assert caught.value.exit_code == 5 and not isinstance(caught.value, us.InputError)
        assert "13579" not in str(caught.value) and caught.value.__context__ is None
        assert FileLedger(tmp_path / f"{i}.jsonl").read().spent.rho > 0


def test_a_ledger_that_cannot_say_where_it_is_is_refused_before_it_is_charged() -> None:
    charged: list[str] = []

    class Nameless:
        def reserve(self, label: str, *_: Any) -> int:
            charged.append(label)
            return 0

    with pytest.raises(us.ParameterError, match="a ledger"):
        make(ledger=Nameless())
    assert not charged


def test_a_ledger_that_breaks_meanwhile_changes_neither_the_error_nor_the_silence(
    tmp_path: Path,
) -> None:
    class Vandal(Independent):
        def play(self, *args: Any) -> Any:
            (tmp_path / "l.jsonl").write_text("broken\n")
            raise ValueError("the cell was 13579")

    with pytest.raises(us.ReleaseFailed) as caught:
        make(mechanism=Vandal(), ledger=tmp_path / "l.jsonl")
    assert caught.value.__context__ is None


def test_tiny_tables_need_a_delta_of_their_own() -> None:
    with pytest.raises(us.ParameterError, match="delta"):
        make(small_table(20))
    assert make(small_table(20), delta=1e-6).synthetic.num_rows == 20


def test_a_source_over_a_file_keeps_its_ledger_there(tmp_path: Path) -> None:
    pd.DataFrame(small_table(), columns=list("abc")).to_parquet(tmp_path / "t.parquet")
    make(DuckDBSource(tmp_path / "t.parquet", SMALL), seed=np.int64(3)).save(tmp_path / "out")
    assert FileLedger.beside(tmp_path / "t.parquet").read().spent.rho > 0


def test_a_mechanism_cannot_ask_for_more_than_was_promised() -> None:
    with pytest.raises(us.ParameterError, match="more than the promised"):
        make(mechanism=Greedy())


def test_a_marginal_that_cannot_be_numbered_is_refused_before_the_charge(tmp_path: Path) -> None:
    schema = us.Schema.from_domain({f"c{i}": 10 for i in range(20)})
    with pytest.raises(us.NotSupported, match="cells"):
        us.release(
            np.zeros((9, 20), int),
            schema=schema,
            epsilon=1,
            mechanism="independent",
            workload="20-way",
            ledger=tmp_path / "l.jsonl",
        )
    assert not (tmp_path / "l.jsonl").exists()


def test_a_source_opened_with_another_schema_is_refused() -> None:
    source = MemorySource(np.zeros((9, 1), int), us.Schema.from_domain({"a": 5}))
    with pytest.raises(us.SourceError, match="another schema"):
        us.release(source, schema={"a": 1}, epsilon=0.1)


def test_an_empty_table_is_not_told_under_add_remove() -> None:
    """Whether anybody is in the table is private there, so an empty one is released like any other."""
    made = us.release(
        np.zeros((0, 3), int),
        schema=SMALL,
        epsilon=1,
        delta=1e-6,
        neighbours="add-remove-one",
        rows=50,
    )
    assert made.synthetic.num_rows == 50 and made.manifest["rows"]["public"] is False


def test_noise_has_no_seed_but_public_randomness_does() -> None:
    a, b = make(seed=1, epsilon=0.1), make(seed=1, epsilon=0.1)
    assert not np.array_equal(a.measurements[0].counts, b.measurements[0].counts)
    assert a.manifest["seed"] == 1


def test_nothing_exact_in_the_manifest() -> None:
    """Every number in the manifest is public or noisy: exact counts of this table appear nowhere."""
    table = np.repeat([[0, 1, 0], [2, 3, 1]], [7919, 6007], axis=0)
    text = json.dumps(us.release(table, schema=SMALL, epsilon=1).manifest)
    assert "7919" not in text and "6007" not in text


# ---------------------------------------------------------------------- accuracy and coverage


def true_error(made: us.Release, table: np.ndarray) -> float:
    exact = CodedRows(table, made.schema.shape)
    return max(
        float(np.abs(batch.counts(exact).dense() / len(table) - made.answers()[i].ravel()).max())
        for i, batch in enumerate(made.workload)
    )


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_the_certificate_fails_about_as_often_as_it_is_built_to(neighbours: str) -> None:
    """2% of the runs, and less when n is private; 15 of 200 have a chance of one in 50,000."""
    table = small_table(400)
    covered = 0
    for _ in range(200):
        made = make(table, neighbours=neighbours, delta=1e-6, workload="2-way")
        covered += true_error(made, table) <= made.certificate.alpha
    assert covered > 185


def test_the_certificate_is_not_vacuous() -> None:
    table = small_table(20_000)
    made = make(table, mechanism="mwem", epsilon=1)
    assert true_error(made, table) <= made.certificate.alpha * 1.5
    assert made.certificate.alpha < 0.05


def test_mwem_beats_independent_where_columns_depend() -> None:
    table = small_table(20_000)
    errors = {
        name: np.mean([true_error(make(table, mechanism=name), table) for _ in range(3)])
        for name in ("mwem", "independent")
    }
    assert errors["mwem"] < 0.3 * errors["independent"]


def test_adult_reaches_its_figures(shared: Path) -> None:
    """mwem on six columns of ADULT, all 3-way marginals, epsilon 1: largest error of the rows, mean
    of 5 runs.
    """
    domain = json.loads((shared / "data/adult-coded/adult-pgm-domain.json").read_text())
    names = ["marital-status", "relationship", "race", "sex", "education-num", "income>50K"]
    schema = us.Schema.from_domain({name: domain[name] for name in names})
    table = pd.read_csv(shared / "data/adult-coded/adult-pgm.csv.gz")[names].to_numpy()
    errors = [
        true_error(
            us.release(table, schema=schema, workload="3-way", epsilon=1, mechanism="mwem"), table
        )
        for _ in range(5)
    ]
    assert np.mean(errors) <= 0.025


def test_what_goes_wrong_while_rows_are_counted_quotes_no_cell_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: Any, column_sets: Any) -> Any:
        raise ValueError("the cell was 13579")

    monkeypatch.setattr(MemorySource, "count", breaks)
    with pytest.raises(us.SourceError) as caught:
        make(ledger=tmp_path / "l.jsonl")
    assert "13579" not in str(caught.value) and caught.value.__context__ is None
    assert not (tmp_path / "l.jsonl").exists()
