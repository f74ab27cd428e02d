"""What may be asked: each query against its definition, and the workloads that people write."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import PEOPLE
from understudy.counting.tally import CodedRows
from understudy.errors import InputError, SchemaError, WorkloadError
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.literals import Literal, Query, all_of, any_of, at_least, parity
from understudy.queries.marginal import Marginal
from understudy.queries.symmetric import Symmetric, read_query
from understudy.queries.workload import (
    Workload,
    batch_from_dict,
    explicit,
    marginals,
    query_classes,
)
from understudy.schema import Schema

SCHEMA = Schema.from_domain({"a": 2, "b": 3, "c": 4, "d": 2})
EVERY_ROW = np.array(list(itertools.product(*map(range, SCHEMA.shape))), np.int32)
EVERY_CLASS = pytest.mark.parametrize(
    "kind", list(query_classes().values()), ids=list(query_classes())
)
LITERAL = st.integers(0, 3).flatmap(
    lambda c: st.builds(Literal, st.just(c), st.integers(0, SCHEMA.shape[c] - 1), st.booleans())
)
LITERALS = st.lists(LITERAL, min_size=1, max_size=5)
ROWS = st.lists(
    st.tuples(*(st.integers(0, size - 1) for size in SCHEMA.shape)), min_size=1, max_size=12
)


def holding(literals: list[Literal], row: np.ndarray) -> int:
    return sum(bool(row[x.column] == x.value) is x.holds for x in literals)


def counts(batch: QueryClass, rows: Any) -> np.ndarray:
    return batch.counts(
        CodedRows(np.asarray(rows, np.int32).reshape(-1, len(SCHEMA)), SCHEMA.shape)
    ).dense()


def answers(query: Query) -> list[bool]:
    """The query on each row of the domain, one table of one row at a time."""
    return [bool(counts(Symmetric((query,)), row)[0]) for row in EVERY_ROW]


# ---------------------------------------------------------------------- single queries


@given(literals=LITERALS, data=st.data())
@settings(deadline=None, max_examples=25)
def test_each_shape_of_query_against_brute_force(
    literals: list[Literal], data: st.DataObject
) -> None:
    t = data.draw(st.integers(1, len(literals)))
    held = [holding(literals, row) for row in EVERY_ROW]
    assert answers(all_of(*literals)) == [h == len(literals) for h in held]
    assert answers(any_of(*literals)) == [h >= 1 for h in held]
    assert answers(at_least(t, *literals)) == [h >= t for h in held]
    assert answers(parity(*literals)) == [h % 2 == 0 for h in held]
    assert answers(~at_least(t, *literals)) == [h < t for h in held]


@given(literals=LITERALS)
@settings(deadline=None, max_examples=20)
def test_laws_of_logic(literals: list[Literal]) -> None:
    flipped = [Literal(x.column, x.value, not x.holds) for x in literals]
    assert answers(~all_of(*literals)) == answers(any_of(*flipped)), "De Morgan"
    assert ~~parity(*literals) == parity(*literals)


@pytest.mark.parametrize(
    "make",
    [
        lambda: all_of(), lambda: any_of(), lambda: parity(), lambda: at_least(0, Literal(0, 0)), lambda: at_least(2, Literal(0, 0)),
        lambda: Query((Literal(0, 0),), (0, 1, 1)), lambda: Query((Literal(0, 0),), (0, 2)), lambda: Symmetric(()),
    ],
)  # fmt: skip
def test_malformed_queries_are_refused(make: Any) -> None:
    with pytest.raises(WorkloadError):
        make()


def test_the_cells_of_a_marginal_follow_the_order_of_its_columns() -> None:
    batch = Marginal.of(SCHEMA, ["c", "a"])
    found = counts(batch, [[1, 0, 3, 0], [1, 2, 3, 1], [0, 0, 2, 0]])
    assert batch.columns == (0, 2) and batch.size == 8
    assert {batch.cell(i): n for i, n in enumerate(found.tolist()) if n} == {(3, 1): 2, (2, 0): 1}
    assert batch.describe(SCHEMA, 7) == "c = 3 and a = 1"


def test_the_marginal_of_no_columns_is_the_number_of_rows() -> None:
    batch = Marginal.of(SCHEMA, [])
    assert (
        batch.size == 1
        and counts(batch, EVERY_ROW).tolist() == [48]
        and batch.describe(SCHEMA, 0) == "all rows"
    )


def test_a_marginal_of_unknown_or_repeated_columns_is_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'z'"):
        Marginal.of(SCHEMA, ["a", "z"])
    with pytest.raises(WorkloadError, match="twice"):
        Marginal.of(SCHEMA, ["a", "a"])


def test_queries_are_described_in_words() -> None:
    batch = Symmetric(
        (
            all_of(Literal(1, 2), Literal(0, 1, False)),
            parity(Literal(1, 2)),
            Query((Literal(0, 0),), (0, 0)),
        )
    )
    assert [batch.describe(SCHEMA, i) for i in range(3)] == [
        "2 of (b = 2, a != 1)",
        "0 of (b = 2)",
        "none of (a = 0)",
    ]


# ---------------------------------------------------------------------- every query class


def examples(kind: type[QueryClass], seed: int) -> list[QueryClass]:
    return list(kind.examples(SCHEMA, np.random.default_rng(seed)))


@EVERY_CLASS
@given(seed=st.integers(0, 10**6), rows=ROWS)
@settings(deadline=None, max_examples=20)
def test_truth_row_by_row_sums_to_the_counts(
    kind: type[QueryClass], seed: int, rows: list[tuple[int, ...]]
) -> None:
    for batch in examples(kind, seed):
        assert list(batch.columns) == sorted(set(batch.columns))
        truth = batch.truth(np.array(rows, np.int32)[:, list(batch.columns)])
        assert truth.dtype == np.bool_ and truth.shape == (len(rows), batch.size)
        assert truth.sum(axis=0).tolist() == counts(batch, rows).tolist()


@EVERY_CLASS
@given(seed=st.integers(0, 10**6), rows=ROWS, data=st.data())
@settings(deadline=None, max_examples=30)
def test_no_neighbour_moves_the_counts_further_than_declared(
    kind: type[QueryClass], seed: int, rows: list[tuple[int, ...]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    new = data.draw(st.sampled_from(EVERY_ROW.tolist()))
    neighbours = {
        Neighbours.REPLACE_ONE: [[*rows[:at], new, *rows[at + 1 :]]],
        Neighbours.ADD_REMOVE_ONE: [[*rows, new], [*rows[:at], *rows[at + 1 :]]],
    }
    for batch in examples(kind, seed):
        for relation, tables in neighbours.items():
            for table in tables:
                moved = counts(batch, rows) - counts(batch, table)
                assert int(moved @ moved) <= batch.l2_squared(relation)


def test_the_declared_sensitivity_of_a_marginal_is_attained() -> None:
    batch = Marginal.of(SCHEMA, ["a", "b"])
    for relation, table in (
        (Neighbours.REPLACE_ONE, [[1, 0, 0, 0]]),
        (Neighbours.ADD_REMOVE_ONE, []),
    ):
        moved = counts(batch, [[0, 0, 0, 0]]) - counts(batch, table)
        assert int(moved @ moved) == batch.l2_squared(relation)
    assert Marginal.of(SCHEMA, []).l2_squared(Neighbours.REPLACE_ONE) == 0, (
        "the number of rows is public under replace-one"
    )


@EVERY_CLASS
def test_batches_survive_their_plain_form(kind: type[QueryClass]) -> None:
    for batch in examples(kind, 1):
        assert batch_from_dict(json.loads(json.dumps(batch.to_dict(SCHEMA))), SCHEMA) == batch
        assert all(batch.describe(SCHEMA, i) for i in range(batch.size))


@EVERY_CLASS
def test_the_batch_around_a_query_contains_it(kind: type[QueryClass]) -> None:
    for batch in examples(kind, 2):
        for index in range(batch.size):
            around = batch.around(index)
            wanted = batch.describe(SCHEMA, index)
            found = [i for i in range(around.size) if around.describe(SCHEMA, i) == wanted]
            assert found and counts(around, EVERY_ROW)[found[0]] == counts(batch, EVERY_ROW)[index]


def test_an_unknown_kind_of_batch_is_refused() -> None:
    with pytest.raises(WorkloadError, match="'astrology'"):
        batch_from_dict({"kind": "astrology"}, SCHEMA)


# ---------------------------------------------------------------------- workloads of marginals


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_all_k_way_marginals_are_every_set_of_columns_once(k: int) -> None:
    work = marginals(SCHEMA, k=k)
    assert [batch.positions for batch in work.marginals] == list(
        itertools.combinations(range(4), k)
    )
    assert len(work) == math.comb(4, k) and work.cells == work.size
    assert work.size == sum(
        math.prod(SCHEMA.shape[c] for c in s) for s in itertools.combinations(range(4), k)
    )


@pytest.mark.parametrize(
    ("k", "size", "seed"), [(1, 3, 0), (2, 10, 7), (3, 64, 0), (3, 5, 2**32 - 1), (5, 64, 1)]
)
def test_samples_pick_the_marginals_that_other_tools_pick(
    k: int, size: int, seed: int, shared: Path
) -> None:
    spec = importlib.util.spec_from_file_location("shared_workload", shared / "workload.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    domain = {f"column {i}": i + 2 for i in range(9)}
    schema = Schema.from_domain(domain)
    ours = [
        batch.names(schema) for batch in marginals(schema, k=k, sample=size, seed=seed).marginals
    ]
    assert ours == module.workload(domain, k, size, seed)


def test_sizes_are_known_without_data_even_when_astronomical() -> None:
    schema = Schema.from_domain({f"c{i}": 10**5 for i in range(10)})
    work = marginals(schema, k=8)
    assert len(work) == 45 and work.size == 45 * 10**40


def test_what_people_type_means_what_it_says() -> None:
    def parsed(text: str) -> tuple[QueryClass, ...]:
        return Workload.parse(text, SCHEMA).batches

    assert parsed("2-way") == marginals(SCHEMA, k=2).batches
    assert parsed("3-way:2@7") == marginals(SCHEMA, k=3, sample=2, seed=7).batches
    assert parsed("2-way:4") == marginals(SCHEMA, k=2, sample=4, seed=0).batches
    assert (
        parsed("1-way + 2-way") == marginals(SCHEMA, k=1).batches + marginals(SCHEMA, k=2).batches
    )
    both = marginals(SCHEMA, k=2, sample=3, seed=1).batches + marginals(SCHEMA, k=2).batches
    assert parsed("2-way:3@1+2-way") == tuple(dict.fromkeys(both))
    assert set(parsed("2-way:99@5")) == set(parsed("2-way")), (
        "a sample of more than there are is all of them"
    )


def test_the_seed_chooses_the_sample() -> None:
    schema = Schema.from_domain({f"c{i}": 2 for i in range(12)})
    picks = {marginals(schema, k=3, sample=5, seed=seed).batches for seed in range(20)}
    assert len(picks) == 20 and marginals(schema, k=3, sample=5, seed=3).batches in picks


@pytest.mark.parametrize(
    "text",
    ["", "+", "3", "way", "0-way", "5-way", "-1-way", "2-way:", "2-way:0", "2-way:3@", "2-way:3@4294967296", "2-way@3", "2 way",
     "2-way:3@-1", "2-way+", "9" * 5000 + "-way", "2-way:" + "9" * 5000, "٣-way", "2.0-way"],
)  # fmt: skip
def test_malformed_specifications_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(WorkloadError) as problem:
        Workload.parse(text, SCHEMA)
    assert str(problem.value).endswith(".")


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": True},
        {"k": 2.0},
        {"k": 5},
        {"sample": 0},
        {"sample": 1.5},
        {"seed": -1},
        {"seed": 2**32},
        {"seed": True},
    ],
)
def test_malformed_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError):
        marginals(SCHEMA, **{"k": 2, "sample": 2, **wrong})


def test_too_many_marginals_to_list_are_refused_before_they_are_listed() -> None:
    schema = Schema.from_domain({f"c{i}": 2 for i in range(100)})
    with pytest.raises(WorkloadError, match="75,287,520"):
        marginals(schema, k=5)


def test_workloads_over_different_schemas_cannot_be_joined() -> None:
    with pytest.raises(WorkloadError, match="different schemas"):
        _ = marginals(SCHEMA, k=1) + marginals(Schema.from_domain({"a": 2}), k=1)


# ---------------------------------------------------------------------- workload files


def load(folder: Path, text: str, schema: Schema = PEOPLE) -> Workload:
    (folder / "work.yaml").write_text(text, encoding="utf-8")
    return Workload.parse(str(folder / "work.yaml"), schema)


def test_a_workload_file_lists_marginals_and_queries(tmp_path: Path) -> None:
    work = load(
        tmp_path,
        """
        marginals: [1-way, 2-way:3@7, [seen, city], [age]]
        queries:
          - {all_of: {city: 東京, smoker: true}}
          - {at_least: {city: no, age: 30, smoker: {not: true}}, t: 2}
          - {not: {any_of: [{age: 30}, {age: 55}, {city: OTHER}, {born: MISSING}]}}
          - {parity: {born: 1975-06-01, seen: "2020-03-05T10:00:00", grade: 5, income: 999.5}}
        """,
    )
    names = PEOPLE.names
    at = {name: i for i, name in enumerate(names)}
    batch = work.batches[-1]
    assert isinstance(batch, Symmetric)
    assert batch.queries == (
        all_of(Literal(at["city"], 2), Literal(at["smoker"], 1)),
        at_least(2, Literal(at["city"], 4), Literal(at["age"], 3), Literal(at["smoker"], 1, False)),
        ~any_of(
            Literal(at["age"], 3),
            Literal(at["age"], 5),
            Literal(at["city"], 5),
            Literal(at["born"], 50),
        ),
        parity(
            Literal(at["born"], 15),
            Literal(at["seen"], 2),
            Literal(at["grade"], 2),
            Literal(at["income"], 7),
        ),
    )
    singles, sampled = (
        marginals(PEOPLE, k=1).batches,
        marginals(PEOPLE, k=2, sample=3, seed=7).batches,
    )
    assert work.batches[:-1] == (
        *singles,
        *sampled,
        Marginal.of(PEOPLE, ["seen", "city"]),
    ), "what is listed twice counts once"
    assert work.size == work.cells + 4


def test_json_workload_files_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"marginals": ["1-way"]}')
    assert Workload.load(tmp_path / "w.json", SCHEMA) == marginals(SCHEMA, k=1)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "a: 1\na: 2", "a: [",
        "marginals: 1-way", "marginals: []", "marginal: [1-way]", "marginals: [1-way]\nmore: 1", "marginals: [[]]", "marginals: [5]",
        "marginals: [[nowhere]]", "marginals: [[age, age]]", "marginals: [99-way]",
        "queries: []", "queries: [age]", "queries: [{}]", "queries: [{most_of: {age: 3}}]", "queries: [{not: 3}]",
        "queries: [{not: {age: 3}}]",
        "queries: [{all_of: {}}]", "queries: [{all_of: []}]", "queries: [{all_of: age}]", "queries: [{all_of: [age]}]",
        "queries: [{all_of: {age: 3}, any_of: {age: 3}}]", "queries: [{all_of: {age: 3}, t: 1}]",
        "queries: [{at_least: {age: 3}}]", "queries: [{at_least: {age: 3}, t: two}]", "queries: [{at_least: {age: 3}, t: 2}]",
        "queries: [{at_least: {age: 3}, t: true}]", "queries: [{all_of: {city: Atlantis}}]", "queries: [{all_of: {nowhere: 1}}]",
        "queries: [{all_of: {age: {nor: 3}}}]", "queries: [{all_of: {age: [1, 2]}}]", "queries: [{all_of: {smoker: OTHER}}]",
        "queries: [{all_of: {age: null}}]",
    ],
)  # fmt: skip
def test_malformed_workload_files_are_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    with pytest.raises((WorkloadError, SchemaError)) as problem:
        load(tmp_path, text)
    assert isinstance(problem.value, InputError) and str(problem.value).endswith(".")


def test_a_workload_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no workload file"):
        Workload.parse(str(tmp_path / "absent.yaml"), SCHEMA)


def test_explicit_lists_are_checked_against_the_schema() -> None:
    work = explicit(
        SCHEMA, columns=[["a", "b"], ["c"]], queries=[all_of(Literal(0, 1)), {"any_of": {"b": 2}}]
    )
    assert work.size == 6 + 4 + 2 and read_query({"any_of": {"b": 2}}, SCHEMA) == any_of(
        Literal(1, 2)
    )
    for bad in (Literal(0, 2), Literal(4, 0), Literal(0, -1), Literal(-1, 0)):
        with pytest.raises(WorkloadError, match="does not have"):
            explicit(SCHEMA, queries=[all_of(bad)])
    with pytest.raises(WorkloadError, match="empty"):
        explicit(SCHEMA)


def test_workloads_survive_their_plain_form() -> None:
    query = ~parity(Literal(0, 1), Literal(2, 3, False))
    work = marginals(SCHEMA, k=2, sample=3, seed=1) + explicit(
        SCHEMA, columns=[["d", "a"]], queries=[query]
    )
    plain = json.loads(json.dumps(work.to_dict()))
    assert (
        Workload.from_dict(plain, SCHEMA) == work
        and Workload.from_dict(plain, SCHEMA).spec == work.spec
    )


def test_a_batch_that_names_a_column_twice_is_no_part_of_a_workload() -> None:
    """Its rows would be counted one way in the table and another way among the released ones."""

    class Twice(Marginal):
        @property
        def columns(self) -> tuple[int, ...]:
            return (0, 0)

    with pytest.raises(WorkloadError, match="once, in their order"):
        Workload(Schema.from_domain({"a": 2, "b": 2}), (Twice((0, 1), (2, 2)),), "by hand")
