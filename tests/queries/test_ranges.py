"""Ranges and prefixes of ordered columns, from a text or a file to a bundle that verifies."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import understudy as us
from support.bundles import unsound
from understudy.checks import SMALL
from understudy.cli.main import main
from understudy.counting.tally import CodedRows
from understudy.queries import ranges
from understudy.queries.base import Neighbours
from understudy.queries.ranges import Ranges
from understudy.queries.relaxed import Chances
from understudy.queries.symmetric import Symmetric
from understudy.queries.workload import batch_from_dict

FIELDS: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
    {"name": "income", "type": "number", "constraints": {"minimum": 0, "maximum": 1000}},
    {
        "name": "seen",
        "type": "date",
        "constraints": {"minimum": "2024-01-01", "maximum": "2024-04-30"},
    },
    {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
]
SETTINGS = {
    "age": {"bins": 10, "missing": True},
    "income": {"bins": 4},
    "seen": {"resolution": "month"},
}
PEOPLE = us.Schema.from_dict({"fields": FIELDS, "understudy": {"columns": SETTINGS}})


def words(work: us.Workload) -> list[str]:
    return [batch.describe(work.schema, i) for batch in work for i in range(batch.size)]


def load(text: str, tmp_path: Path) -> us.Workload:
    file = tmp_path / "w.yaml"
    file.write_text(text)
    return us.Workload.load(file, PEOPLE)


# ---------------------------------------------------------------------- what they are


def test_prefixes_stop_at_every_edge_and_leave_out_what_everybody_satisfies() -> None:
    assert words(us.Workload.parse("prefixes:income", PEOPLE)) == [
        "income < 250",
        "income < 500",
        "income < 750",
    ]
    # an age may be missing, so that below 100 is not everybody
    assert words(us.Workload.parse("prefixes:age", PEOPLE))[-2:] == ["age < 90", "age < 100"]
    assert words(us.Workload.parse("prefixes:seen", PEOPLE)) == [
        "seen < 2024-02-01",
        "seen < 2024-03-01",
        "seen < 2024-04-01",
    ]


def test_prefixes_of_two_columns_are_rectangles_and_of_none_all_ordered_columns() -> None:
    work = us.Workload.parse("prefixes:income,seen", PEOPLE)
    assert len(work) == 1 and work.size == 9
    assert words(work)[4] == "income < 500 and seen < 2024-03-01"
    assert [batch.columns for batch in us.Workload.parse("prefixes", PEOPLE)] == [(0,), (1,), (2,)]
    # the order in which columns are named is not that of the schema
    assert us.Workload.parse("prefixes:seen, income", PEOPLE) == work


def test_a_file_names_ranges_beside_other_queries(tmp_path: Path) -> None:
    work = load(
        """
marginals: [[age, sex], prefixes:age]
queries:
  - {ranges: {age: [[20, 30], [30, 60]]}}
  - {all_of: {sex: f}}
  - {prefixes: income}
  - {ranges: {income: [[0, 250], [750, 1000]], seen: [[2024-01-01, 2024-02-01]]}}
  - {any_of: {sex: m, age: 3}}
""",
        tmp_path,
    )
    assert [type(batch).__name__ for batch in work] == [
        "Marginal", "Ranges", "Ranges", "Ranges", "Ranges", "Symmetric",
    ]  # fmt: skip
    listed = words(work)
    assert "30 <= age < 60" in listed and "income < 500" in listed
    assert "750 <= income <= 1000 and seen < 2024-02-01" in listed
    assert work.batches[-1].size == 2
    assert us.Workload.from_dict(json.loads(json.dumps(work.to_dict())), PEOPLE) == work


def test_they_can_be_asked_for_in_python() -> None:
    work = us.explicit(PEOPLE, queries=[{"ranges": {"age": [(20, 30)]}}, {"prefixes": "income"}])
    assert words(work)[0] == "20 <= age < 30" and work.size == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prefixes:sex", "Column 'sex' has no order; ranges are of columns of numbers"),
        ("prefixes:age,age", "name a column twice"),
        ("prefixes:agee", "no column 'agee'"),
        ("prefixes:", "no column ''"),
        ("prefixes:age+nonsense", "'nonsense' is not understood"),
        ("ranges:age", "'ranges:age' is not understood; write one such as"),
    ],
)
def test_a_text_that_names_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(us.InputError) as refused:
        us.Workload.parse(text, PEOPLE)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{ranges: {age: [[15, 30]]}}", "would split the bin 10 to 19 at '15'"),
        ("{ranges: {age: [[30, 20]]}}", "low end below its high end"),
        ("{ranges: {age: [[20, 20]]}}", "low end below its high end"),
        ("{ranges: {age: [20, 30]}}", "is written [low, high]"),
        ("{ranges: {age: [[20, 30, 40]]}}", "is written [low, high]"),
        ("{ranges: {age: []}}", "are written [[low, high], ...]"),
        ("{ranges: {}}", "are written {column: [[low, high], ...]}"),
        ("{ranges: age}", "are written {column: [[low, high], ...]}"),
        ("{ranges: {age: [[20, 3000]]}}", "has no value '3000'"),
        ("{ranges: {sex: [[f, m]]}}", "has no order"),
        ("{prefixes: []}", "of a column, or of a list of columns"),
        ("{prefixes: {age: 3}}", "of a column, or of a list of columns"),
        ("{prefixes: age, ranges: {age: [[20, 30]]}}", "nothing beside them"),
        ("{prefixes: age, all_of: {sex: f}}", "exactly one of these words"),
        ("{suffixes: age}", "A query of kind 'suffixes' is not known; use one of"),
    ],
)
def test_an_entry_that_is_none_is_refused(entry: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(us.InputError) as refused:
        load(f"queries: [{entry}]", tmp_path)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("positions", "boxes"),
    [
        ((0,), ()),
        ((), ((),)),
        ((1, 0), (((0, 1), (0, 1)),)),
        ((0, 0), (((0, 1), (0, 1)),)),
        ((0,), (((0, 1), (0, 1)),)),
        ((0,), (((1, 1),),)),
        ((0,), (((-1, 1),),)),
        ((0,), (((0, 2**31),),)),
        ((0,), (((0, 1.5),),)),
        ((0,), ((0, 1),)),
    ],
)
def test_boxes_that_are_none_are_refused(positions: Any, boxes: Any) -> None:
    with pytest.raises(us.WorkloadError):
        Ranges(positions, boxes)


def test_a_range_of_another_schema_is_refused() -> None:
    wide = Ranges((0,), (((0, 10),),))
    assert wide.fits(PEOPLE) and not Ranges((0,), (((0, 11),),)).fits(PEOPLE), "11 is MISSING"
    with pytest.raises(us.WorkloadError, match="does not have"):
        batch_from_dict(Ranges((0,), (((0, 11),),)).to_dict(PEOPLE), PEOPLE)
    assert not Ranges((4,), (((0, 1),),)).fits(PEOPLE)


# ---------------------------------------------------------------------- what they cost


def moved(batch: Ranges, shape: tuple[int, ...]) -> tuple[int, int]:
    """(adding, replacing): the largest L2 squared over all rows and pairs of rows of a schema."""
    rows = np.array(list(itertools.product(*(range(n) for n in shape))), np.int32)
    inside = batch.truth(rows[:, list(batch.columns)]).astype(int)
    gaps = inside[:, None] - inside[None]
    return int((inside**2).sum(axis=1).max()), int((gaps**2).sum(axis=2).max())


def test_sensitivity_is_exact_for_prefixes_and_for_ranges_that_do_not_meet() -> None:
    add, replace = Neighbours.ADD_REMOVE_ONE, Neighbours.REPLACE_ONE
    prefixes = Ranges.prefixes(SMALL, ["b"])
    assert prefixes.size == 3
    assert (prefixes.l2_squared(add), prefixes.l2_squared(replace)) == moved(prefixes, SMALL.shape)
    assert prefixes.l2_squared(replace) == 3, "a row of the lowest bin is in all of them"
    apart = Ranges((1,), (((0, 1),), ((1, 2),), ((2, 4),)))
    assert (apart.l2_squared(add), apart.l2_squared(replace)) == (1, 2) == moved(apart, SMALL.shape)
    pairs = Ranges.prefixes(SMALL, ["a", "b"])
    assert (pairs.l2_squared(add), pairs.l2_squared(replace)) == moved(pairs, SMALL.shape)


def test_sensitivity_is_never_below_what_a_row_moves() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        for batch in Ranges.examples(SMALL, rng):
            adding, replacing = moved(batch, SMALL.shape)
            assert batch.l2_squared(Neighbours.ADD_REMOVE_ONE) == adding
            assert replacing <= batch.l2_squared(Neighbours.REPLACE_ONE) <= 2 * adding


def test_a_grid_too_large_to_count_is_counted_otherwise_and_charged_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, (3, 4, 2), (500, 3)).astype(np.int32)
    table, batch = CodedRows(rows, SMALL.shape), Ranges.prefixes(SMALL, ["a", "b"])
    counts, same = batch.counts(table).dense(), Ranges(batch.positions, batch.boxes)
    monkeypatch.setattr(ranges, "DENSE_CELLS", 5)
    assert np.array_equal(same.counts(table).dense(), counts) and counts.any()
    assert same.l2_squared(Neighbours.ADD_REMOVE_ONE) == same.size


# ---------------------------------------------------------------------- fits and gradients


def test_taken_apart_they_count_the_same_and_too_many_are_not() -> None:
    batch = Ranges.prefixes(SMALL, ["a", "b"])
    assert batch.apart() == Symmetric(tuple(batch.query(i) for i in range(batch.size)))
    assert batch.apart([frozenset([0])]) is None
    long = us.Schema.from_domain({"a": 1000, "b": 3})
    many = Ranges.prefixes(long, ["a"])
    assert not many.can_be_fitted and many.apart() is None
    with pytest.raises(us.InputError, match="gaussian fits rows to marginals and single queries"):
        us.plan(long, epsilon=1, rows=1000, workload="prefixes:a", mechanism="gaussian")


def test_relaxed_slopes_are_those_of_differences() -> None:
    rng = np.random.default_rng(3)
    starts = np.concatenate([[0], np.cumsum(SMALL.shape)]).astype(np.int64)
    values = rng.random((int(starts[-1]), 7)).astype(np.float32)
    for batch in Ranges.examples(SMALL, rng):
        relaxed, slopes = batch.relaxed(), rng.normal(size=batch.size)
        gradient = np.zeros(values.shape, np.float64)
        relaxed.pull(Chances(values, starts), slopes, gradient)
        for at in ((0, 0), (3, 2), (5, 6), (8, 1)):
            up, down = values.astype(np.float64), values.astype(np.float64)
            up[at] += 1e-4
            down[at] -= 1e-4
            slope = (
                slopes
                @ (relaxed.answers(Chances(up, starts)) - relaxed.answers(Chances(down, starts)))
                / 2e-4
            )
            assert gradient[at] == pytest.approx(slope, abs=1e-6)


# ---------------------------------------------------------------------- release to verify


def table(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, rows)
    return pa.table(
        {
            "age": age,
            "income": np.clip(age * 5 + rng.normal(0, 100, rows), 0, 1000),
            "seen": rng.choice(np.arange("2024-01-01", "2024-05-01", dtype="M8[D]"), rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


@pytest.mark.parametrize("mechanism", ["arp", "matrix", "mwem", "rap"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_released_and_verified(mechanism: str, relation: str, tmp_path: Path) -> None:
    people = table()
    made = us.release(
        people,
        schema=PEOPLE,
        epsilon=4,
        delta=1e-6,
        workload="prefixes:age,income+prefixes:seen",
        mechanism=mechanism,
        neighbours=relation,
        ledger=tmp_path / "l.jsonl",
        seed=1,
    )
    made.save(tmp_path / "out")
    assert unsound(tmp_path / "out") == []
    again = us.Release.load(tmp_path / "out")
    assert again.workload == made.workload and again.workload.spec == made.workload.spec
    truth = CodedRows(PEOPLE.encode(people), PEOPLE.shape)
    off = [
        np.abs(batch.counts(truth).dense() / people.num_rows - again.answers()[i]).max()
        for i, batch in enumerate(again.workload)
    ]
    assert max(off) < 0.1
    labels = again.answers().to_arrow()["query"].to_pylist()
    assert "age < 20 and income < 250" in labels and "seen < 2024-02-01" in labels


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_pandas().to_csv("people.csv", index=False)
    PEOPLE.save("schema.json")
    Path("w.yaml").write_text("queries:\n  - {ranges: {age: [[20, 30], [30, 60]]}}\n")
    for workload in ("prefixes:age+prefixes:income", "w.yaml"):
        folder = f"out-{workload[0]}"
        said = CliRunner().invoke(
            main,
            ["release", "people.csv", "--schema", "schema.json", "--epsilon", "1", "--workload",
             workload, "--out", folder],
        )  # fmt: skip
        assert said.exit_code == 0, said.output
        assert CliRunner().invoke(main, ["verify", folder]).exit_code == 0
    asked = us.Release.load("out-w").workload
    assert words(asked) == ["20 <= age < 30", "30 <= age < 60"]
