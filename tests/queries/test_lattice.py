"""All conjunctions at once: every count against its definition, and what mechanisms make of such a
workload.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from support.bundles import unsound
from support.meters import decided
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows
from understudy.errors import NotSupported, SchemaError, WorkloadError
from understudy.game.players.domain import DomainModel
from understudy.mechanisms.arp import Arp, single_queries
from understudy.mechanisms.base import Brief
from understudy.privacy import ProcessLedger
from understudy.queries.base import Neighbours
from understudy.queries.lattice import AllConjunctions, add_supersets
from understudy.queries.literals import Literal, all_of
from understudy.queries.marginal import ALWAYS, Marginal
from understudy.queries.symmetric import Symmetric
from understudy.queries.workload import Workload, all_conjunctions, batch_from_dict
from understudy.schema import Schema

SCHEMA = Schema.from_domain({"a": 2, "b": 3, "c": 4, "d": 2})
EVERY_ROW = np.array(list(itertools.product(*map(range, SCHEMA.shape))), np.int32)
LITERALS = [
    Literal(column, value) for column, size in enumerate(SCHEMA.shape) for value in range(size)
]
SOME = st.lists(st.sampled_from(LITERALS), min_size=1, max_size=7, unique=True).map(
    lambda some: AllConjunctions(tuple(some))
)
ROWS = st.lists(st.sampled_from(EVERY_ROW.tolist()), min_size=0, max_size=12)


def binary(columns: int) -> Schema:
    return Schema.from_domain({f"c{i}": 2 for i in range(columns)})


def counts(batch: us.queries.base.QueryClass, rows: Any) -> np.ndarray:
    return batch.counts(
        CodedRows(np.asarray(rows, np.int32).reshape(-1, len(SCHEMA)), SCHEMA.shape)
    ).dense()


# ---------------------------------------------------------------------- counting


@given(batch=SOME, rows=ROWS)
@settings(deadline=None, max_examples=60)
def test_every_conjunction_against_brute_force(
    batch: AllConjunctions, rows: list[list[int]]
) -> None:
    expected = [
        sum(
            all(row[x.column] == x.value for j, x in enumerate(batch.literals) if index >> j & 1)
            for row in rows
        )
        for index in range(batch.size)
    ]
    assert counts(batch, rows).tolist() == expected


@given(batch=SOME, rows=ROWS)
@settings(deadline=None, max_examples=30)
def test_one_by_one_they_count_the_same(batch: AllConjunctions, rows: list[list[int]]) -> None:
    singles = Symmetric(tuple(batch.query(i) for i in range(batch.size)))
    assert counts(batch, rows).tolist() == counts(singles, rows).tolist()
    assert [counts(batch.around(i), rows).tolist() for i in range(batch.size)] == [
        [n] for n in counts(batch, rows).tolist()
    ]


def test_bit_j_of_a_number_is_literal_j() -> None:
    # c = 3 is bit 0, though a comes first in the schema
    batch = AllConjunctions.of(SCHEMA, ["c", "a"])
    assert batch.columns == (0, 2) and batch.size == 4
    assert [batch.describe(SCHEMA, i) for i in range(4)] == [
        "all rows",
        "c = 3",
        "a = 1",
        "c = 3 and a = 1",
    ]
    assert counts(
        batch, [[1, 0, 3, 0], [1, 0, 3, 0], [0, 0, 3, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    ).tolist() == [5, 3, 3, 2]
    assert batch.query(3) == all_of(Literal(2, 3), Literal(0, 1))


def test_the_empty_conjunction_is_everybody() -> None:
    batch = AllConjunctions.of(SCHEMA, ["d"])
    assert batch.query(0) == ALWAYS and batch.around(0) == Marginal((), ())
    assert batch.around(0).l2_squared(Neighbours.REPLACE_ONE) == 0 and batch.around(0).describe(
        SCHEMA, 0
    ) == batch.describe(SCHEMA, 0)


def test_wide_tables_are_counted_as_rows_come() -> None:
    """22 columns of 100 values have more cells than can be numbered; their conjunctions are still 4
    million.
    """
    schema = Schema.from_domain({f"c{i}": 100 for i in range(22)})
    rows = np.random.default_rng(0).integers(96, 100, (300, 22)).astype(np.int32)
    batch = AllConjunctions.of(schema, schema.names)
    found = batch.counts(CodedRows(rows, schema.shape)).dense()
    held = rows == 99
    assert found.shape == (2**22,) and found[0] == 300 and found[-1] == held.all(axis=1).sum()
    assert found[1 << np.arange(22)].tolist() == held.sum(axis=0).tolist()
    assert found[0b1011] == held[:, [0, 1, 3]].all(axis=1).sum()


def test_sums_over_supersets() -> None:
    values = np.random.default_rng(0).integers(0, 100, 64)
    expected = [
        sum(int(values[other]) for other in range(64) if other & one == one) for one in range(64)
    ]
    before = values.copy()
    assert add_supersets(values).tolist() == expected and np.array_equal(values, before)


def test_weights_of_records_add_up_as_their_truth_does() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(SCHEMA.domain_size)).reshape(SCHEMA.shape)
    for batch in (AllConjunctions.of(SCHEMA, ["d", "b"]), AllConjunctions(tuple(LITERALS[:7]))):
        expected = weights.ravel() @ batch.truth(EVERY_ROW[:, list(batch.columns)])
        assert np.allclose(DomainModel(weights).shares(batch), expected)


# ---------------------------------------------------------------------- sensitivity


@pytest.mark.parametrize(
    "literals", [[1, 4], [1, 8], [1, 3, 4], [2, 3, 4], [5, 6, 7, 8, 10], [0, 1], [3]]
)
def test_the_declared_sensitivity_is_the_largest_there_is_or_a_little_more(
    literals: list[int],
) -> None:
    batch = AllConjunctions(tuple(LITERALS[i] for i in literals))
    truth = batch.truth(EVERY_ROW[:, list(batch.columns)])
    assert int(truth.sum(axis=1).max()) == batch.l2_squared(Neighbours.ADD_REMOVE_ONE)
    largest = max(int(np.sum(one != other)) for one, other in itertools.combinations(truth, 2))
    declared = batch.l2_squared(Neighbours.REPLACE_ONE)
    assert largest <= declared
    if len(batch.columns) in (1, len(literals)):
        assert largest == declared, "one column, or one literal a column: attained"


# ---------------------------------------------------------------------- what people write


def test_the_last_ordinary_value_is_asked_for() -> None:
    region = us.Categorical(name="region", categories=("north", "south"), missing=True, other=True)
    schema = Schema((us.Boolean(name="smoker"), region))
    work = Workload.parse("all-conjunctions", schema)
    assert schema.shape == (2, 4) and work.size == 4 and work.spec == "all-conjunctions"
    assert work.batches[0].describe(schema, 3) == "smoker = true and region = south"


def test_a_workload_of_all_conjunctions_is_written_in_two_words(tmp_path: Path) -> None:
    (tmp_path / "work.yaml").write_text("marginals: [all-conjunctions, [a, b]]")
    batch = AllConjunctions.of(SCHEMA, SCHEMA.names)
    assert (
        Workload.parse("all-conjunctions", SCHEMA).batches
        == (batch,)
        == us.all_conjunctions(SCHEMA).batches
    )
    assert Workload.parse("1-way + all-conjunctions", SCHEMA).batches[-1] == batch
    assert Workload.load(tmp_path / "work.yaml", SCHEMA).batches == (
        batch,
        Marginal.of(SCHEMA, ["a", "b"]),
    )
    assert all_conjunctions(SCHEMA, ["d", "a"]).batches == (
        AllConjunctions((Literal(3, 1), Literal(0, 1))),
    )
    assert Workload.from_dict(us.all_conjunctions(SCHEMA).to_dict(), SCHEMA) == us.all_conjunctions(
        SCHEMA
    )


def test_more_than_22_columns_are_refused_in_a_sentence() -> None:
    assert all_conjunctions(binary(22)).size == 2**22
    for make in (
        lambda: all_conjunctions(binary(23)),
        lambda: Workload.parse("all-conjunctions", Schema.items(5_000)),
    ):
        with pytest.raises(WorkloadError, match=r"too many to count; at most 22 literals.*\.$"):
            make()
    assert all_conjunctions(binary(23), [f"c{i}" for i in range(5)]).size == 32


def test_malformed_ones_are_refused() -> None:
    for literals in ((), (Literal(0, 1), Literal(0, 1)), (Literal(0, 1, False),)):
        with pytest.raises(
            WorkloadError, match="at least one literal, each given once and none negated"
        ):
            AllConjunctions(literals)
    with pytest.raises(SchemaError, match="no column 'z'"):
        all_conjunctions(SCHEMA, ["z"])
    with pytest.raises(WorkloadError, match="does not have"):
        batch_from_dict({"kind": "all-conjunctions", "literals": [["a", 2]]}, SCHEMA)


# ---------------------------------------------------------------------- what mechanisms make of them


@pytest.mark.parametrize("mechanism", ["auto", "mwem", "fem", "independent", "matrix"])
def test_a_release_answers_all_conjunctions(mechanism: str, tmp_path: Path) -> None:
    made = us.release(
        small_table(),
        schema=SMALL,
        epsilon=5,
        workload="all-conjunctions",
        mechanism=mechanism,
        seed=0,
    )
    exact = made.workload.batches[0].counts(CodedRows(small_table(), SMALL.shape)).dense() / 600
    gap = float(np.abs(made.answers()[0] - exact).max())
    assert gap < 0.2 and made.certificate.queries == 8
    made.save(tmp_path / "bundle")
    assert unsound(tmp_path / "bundle") == []


@pytest.mark.parametrize("mechanism", ["gaussian", "rap", "projection"])
def test_what_cannot_be_fitted_to_them_says_so_and_costs_nothing(mechanism: str) -> None:
    ledger = ProcessLedger()
    with pytest.raises(NotSupported, match="all-conjunctions"):
        us.release(
            small_table(),
            schema=SMALL,
            epsilon=1,
            workload="all-conjunctions",
            mechanism=mechanism,
            ledger=ledger,
        )
    assert not ledger.state.charges


LONG = us.explicit(binary(16), queries=[{"all_of": {f"c{i}": 1 for i in range(16)}}])


@pytest.mark.parametrize("work", [all_conjunctions(binary(16)), LONG])
def test_arp_goes_by_rounds_where_no_table_is_small_enough_to_be_measured_at_once(
    work: Workload,
) -> None:
    brief = Brief(schema=work.schema, workload=work, neighbours=Neighbours.REPLACE_ONE)
    assert decided(Arp(), brief, Fraction(1), 10**6).numbers["adaptive"]
    assert not any(isinstance(batch, AllConjunctions) for batch in single_queries(brief))
