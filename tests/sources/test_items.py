"""Tables of items: schema, source, release, and conjunctions as arrays. Counts are compared with
plain Python.
"""

from __future__ import annotations

import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import understudy as us
from support.bundles import unsound
from support.tables import ODD_CELLS, kept_in_duckdb, rows_of
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.counting.tally import CodedRows
from understudy.oracles.base import Instance
from understudy.oracles.search import Search
from understudy.queries.conjunctions import Conjunctions, random_batch
from understudy.queries.symmetric import Symmetric
from understudy.sources import Source, open_source
from understudy.sources import items as item_sources
from understudy.sources.items import ItemSource

BASKET = us.Schema.items(["bread", "milk", "tea", "salt", "figs"])


def table(rows: int, width: int, seed: int = 0) -> np.ndarray:
    """From rare to common items, so that lists and bitmaps both occur."""
    rng = np.random.default_rng(seed)
    return (rng.random((rows, width)) < np.linspace(0.002, 0.9, width) ** 2).astype(np.int32)


def as_pairs(codes: np.ndarray, rng: np.random.Generator) -> pa.Table:
    rows, items = np.nonzero(codes)
    order = rng.permutation(len(rows))
    again = rng.integers(len(rows), size=len(rows) // 3)  # pairs that are there twice
    order = np.concatenate([order, again])
    return pa.table({"row": rows[order], "item": items[order]})


def homes(codes: np.ndarray, schema: us.Schema, folder: Path) -> dict[str, Source]:
    """The same table in every form that it can have; rows without items are not in pairs, so each
    has one here.
    """
    rng = np.random.default_rng(1)
    pairs = as_pairs(codes, rng)
    pq.write_table(pairs, folder / "pairs.parquet")
    pq.write_table(pairs.slice(0, 50), folder / "part-1.parquet")
    pq.write_table(pairs.slice(50), folder / "part-2.parquet")
    pairs.to_pandas().to_csv(folder / "pairs.csv", index=False)
    packed = np.packbits(codes.T.astype(bool), axis=1, bitorder="little")
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    words[:, : packed.shape[1]] = packed
    frame = pairs.to_pandas()
    frame["row"] = [f"person {row}" for row in frame["row"]]
    given = {
        "parquet": folder / "pairs.parquet",
        "glob": str(folder / "part-*.parquet"),
        "csv": folder / "pairs.csv",
        "arrow": pairs,
        "pandas": frame,
        "csr": sparse.csr_array(codes),
        "coo": sparse.coo_matrix(codes.astype(float)),
        "numpy": codes.astype(bool),
        "bytes": ItemSource.from_bits(packed, len(codes), schema),
        "words": ItemSource.from_bits(words.view(np.uint64), len(codes), schema),
    }
    return {name: open_source(one, schema) for name, one in given.items()}


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 700])
def test_every_form_of_a_table_gives_the_same_counts(rows: int, tmp_path: Path) -> None:
    schema = us.Schema.items(40)
    codes = table(rows, 40)
    codes[:, 39] = 1
    truth = CodedRows(codes, schema.shape)
    rng = np.random.default_rng(2)
    columns = rng.integers(40, size=(300, 3))
    parts = [
        Conjunctions.of(columns, rng.integers(2, size=(300, 3)), rng.random((300, 3)) < 0.5),
        random_batch(schema, 200, 3, 0),
        Conjunctions.of(columns[:, :1], np.zeros((300, 1), int)),
        us.Marginal.of(schema, ["3", "39", "20"]),
        us.Marginal.of(schema, ["7"]),
        us.Marginal.of(schema, []),
        Symmetric(
            (
                us.any_of(us.Literal(1, 1), us.Literal(30, 0)),
                us.parity(us.Literal(38, 1), us.Literal(2, 1)),
            )
        ),
    ]
    for name, source in homes(codes, schema, tmp_path).items():
        for part in parts:
            assert np.array_equal(part.counts(source).dense(), part.counts(truth).dense()), (
                name,
                part.kind,
            )


def test_blocks_of_wide_tables_join_up(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = table(1000, 30)
    monkeypatch.setattr("understudy.counting.tally.BLOCK_CODES", 100 * 30)
    source = open_source(sparse.csc_array(codes), us.Schema.items(30))
    assert len(list(source._blocks(tuple(range(30))))) == 16
    assert np.array_equal(rows_of(source), codes)


def test_rows_that_have_nothing_are_rows_of_a_matrix_and_of_nobody_in_pairs() -> None:
    codes = np.zeros((5, 5), int)
    codes[2, 3] = 1
    assert open_source(sparse.csr_array(codes), BASKET).count([()])[0].values[0] == 5
    pairs = pd.DataFrame({"row": [7, 7, 8], "item": ["salt", "unheard of", "unheard of"]})
    source = open_source(pairs, BASKET)
    assert source.count([()])[0].values[0] == 2, "somebody with unlisted items only is still a row"
    assert sorted(rows_of(source).tolist()) == [[0, 0, 0, 0, 0], [0, 0, 0, 1, 0]]


# ---------------------------------------------------------------------- nobody's cell moves another row


def vectors(frame: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, rows_of(open_source(frame, BASKET)).tolist()))


@settings(deadline=None, max_examples=60)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from(["row", "item"]), st.sampled_from(ODD_CELLS)), max_size=3
    ),
    who=st.integers(0, 3),
)
def test_whatever_one_person_writes_moves_one_row_only(
    cells: list[tuple[str, Any]], who: int
) -> None:
    names = BASKET.names
    pairs: list[list[Any]] = [
        [f"p{i}", names[j]] for i, j in ((0, 0), (0, 1), (1, 4), (2, 2), (3, 0), (3, 3))
    ]
    others = sorted(
        map(
            tuple,
            rows_of(
                open_source(
                    pd.DataFrame([p for p in pairs if p[0] != f"p{who}"], columns=["row", "item"]),
                    BASKET,
                )
            ).tolist(),
        )
    )
    for i, (column, cell) in enumerate(cells):
        mine = [f"p{who}", names[i % 5]]
        mine[0 if column == "row" else 1] = cell
        if column == "item":
            pairs.append(mine)
    left = vectors(pd.DataFrame(pairs, columns=["row", "item"], dtype=object))
    for vector in others:
        assert vector in left
        left.remove(vector)
    assert len(left) == 1


def test_pairs_without_a_row_are_nobodys_and_numbers_name_people_by_value() -> None:
    frame = pd.DataFrame(
        {
            "row": [1, 1.0, None, "", "1", "x", " x "],
            "item": ["tea", "milk", "tea", "tea", "figs", "tea", "salt"],
        },
        dtype=object,
    )
    assert vectors(frame) == [(0, 0, 0, 0, 1), (0, 0, 1, 1, 0), (0, 1, 1, 0, 0)]


BIG = 2**53
NEIGHBOURS = [BIG, BIG + 1, BIG + 2, -BIG, -BIG - 1]
HUGE = [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2]


def people_in(rows: Any) -> int:
    """How many people there are in a table of pairs with these rows."""
    table = {"row": rows, "item": ["figs"] * len(rows)}
    again = pd.DataFrame(table, dtype=object) if isinstance(rows, list) else pa.table(table)
    return len(vectors(again))


@pytest.mark.parametrize(
    ("ids", "kinds"),
    [
        (NEIGHBOURS, [pa.int64(), pa.decimal128(38, 0), pa.decimal256(60, 2)]),
        (HUGE, [pa.uint64(), pa.decimal128(38, 0)]),
        ([2**100, 2**100 + 1, 2**100 - 1, 2**70, -(2**70)], [pa.decimal128(38, 0)]),
        ([0.1, 0.2, 0.1 + 0.2, 0.3, 2.0**60], [pa.float64()]),
        (
            ["9007199254740992", "9007199254740993", "1", "01", "1.0"],
            [pa.string(), pa.large_string(), pa.string_view()],
        ),
    ],
    ids=["around 2^53", "around 2^64", "beyond 2^64", "reals", "text"],
)
def test_no_two_people_are_one_and_nobody_is_two(ids: list[Any], kinds: list[pa.DataType]) -> None:
    twice = [*ids, *reversed(ids)]
    assert people_in(twice) == len(ids)
    for kind in kinds:
        assert people_in(pa.array(twice, kind)) == len(ids), str(kind)
        assert people_in(pa.chunked_array([pa.array(ids, kind), pa.array(ids[::-1], kind)])) == len(
            ids
        )
        # As objects among which one is something else, and as they are: nobody's name depends on
        # another's.
        mixed = pd.DataFrame(
            {
                "row": [*ids, b"?", *ids],
                "item": ["figs"] * len(ids) + ["figs"] + ["tea"] * len(ids),
            },
            dtype=object,
        )
        assert vectors(mixed) == [(0, 0, 1, 0, 1)] * len(ids)


def test_one_number_in_several_types_is_one_person(tmp_path: Path) -> None:
    for value in (1, BIG, BIG + 1, 2**63 - 1):
        arrays = {
            "a": pa.array([value], pa.int64()), "b": pa.array([value], pa.uint64()), "c": pa.array([value], pa.decimal128(38, 0)),
        }  # fmt: skip
        for name, array in arrays.items():
            pq.write_table(pa.table({"row": array, "item": ["figs"]}), tmp_path / f"{name}.parquet")
        assert rows_of(open_source(tmp_path / "*.parquet", BASKET)).tolist() == [[0, 0, 0, 0, 1]], (
            value
        )
        assert people_in([value, np.int64(value), np.uint64(value), decimal.Decimal(value)]) == 1
    assert people_in([1, 1.0, np.float32(1), "1", True]) == 3


def test_numpy_ids_keep_their_last_digit() -> None:
    pairs = np.array([(i, "figs") for i in NEIGHBOURS], [("row", ">i8"), ("item", "U4")])
    assert len(vectors(pairs)) == len(NEIGHBOURS)
    masked = np.ma.MaskedArray(pairs, mask=[(i == 0, False) for i in range(len(pairs))])
    assert len(vectors(masked)) == len(NEIGHBOURS) - 1, "a masked id is nobody's"


def test_pairs_come_in_queries_and_dictionaries_too() -> None:
    table = pa.table({"row": ["a", "b", "a"], "item": ["figs", "tea", "tea"]})
    parts = (table.slice(0, 1), table.slice(1))
    chunks = pa.concat_tables(
        [
            pa.table({name: part[name].dictionary_encode() for name in part.column_names})
            for part in parts
        ]
    )
    for home in (chunks, kept_in_duckdb(table), pl.from_arrow(chunks).lazy()):
        assert vectors(home) == [(0, 0, 1, 0, 0), (0, 0, 1, 0, 1)]


def test_ids_that_are_no_unicode_are_as_different_as_their_letters() -> None:
    ids = ["a\ud800", "a\udfff", "a?", "a\ud800"]
    assert (
        len(vectors(pd.DataFrame({"row": pd.Series(ids, dtype=object), "item": ["figs"] * 4}))) == 3
    )


def test_entries_of_a_matrix_do_not_add_up() -> None:
    matrix = sparse.coo_array(([1, -1, 0, np.nan], ([0, 0, 1, 2], [0, 0, 1, 2])), shape=(3, 5))
    assert rows_of(open_source(matrix, BASKET)).tolist() == [
        [1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
    ]


@pytest.mark.parametrize(
    ("given_table", "words"),
    [
        (np.zeros((3, 4)), "one column for each"),
        (sparse.csr_array((3, 4)), "one column for each"),
        (np.zeros((3, 5), object), "numbers or booleans"),
        (pd.DataFrame({"person": [1], "item": ["tea"]}), "no column 'row'"),
        ("nowhere.parquet", "no file"),
    ],
)
def test_tables_that_are_no_items_are_refused_in_a_sentence(given_table: Any, words: str) -> None:
    with pytest.raises(us.SourceError, match=words):
        open_source(given_table, BASKET)


def test_sparse_matrices_and_bits_need_a_list_of_items() -> None:
    with pytest.raises(us.SourceError, match=r"Schema\.items"):
        open_source(sparse.csr_array(small_table()), SMALL)
    with pytest.raises(us.SourceError, match=r"Schema\.items"):
        ItemSource.from_bits(np.zeros((3, 1), np.uint64), 10, SMALL)
    with pytest.raises(us.SourceError, match="just long enough"):
        ItemSource.from_bits(np.zeros((5, 1), np.uint64), 65, BASKET)


def test_nothing_is_read_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_sources, "_read_matrix", lambda matrix: pytest.fail("it was read"))
    open_source(sparse.csr_array((3, 5)), BASKET)


# ---------------------------------------------------------------------- the schema


@pytest.mark.parametrize(
    "schema",
    [
        us.Schema.items(7),
        us.Schema.items([5, -2, 9], row="user"),
        us.Schema.items(["a", "b"], density=0.25, item="film"),
    ],
)
def test_item_schemas_survive_their_file_form(schema: us.Schema, tmp_path: Path) -> None:
    for name in ("s.json", "s.yaml"):
        schema.save(tmp_path / name)
        assert (
            us.Schema.load(tmp_path / name) == schema
            and us.Schema.load(tmp_path / name).digest == schema.digest
        )
    assert all(
        column == us.Boolean(name=name) for column, name in zip(schema, schema.names, strict=True)
    )


def test_a_domain_may_still_have_a_column_named_items_beside_others() -> None:
    assert us.Schema.from_dict({"items": 5, "price": 3}).pairs is None
    assert us.Schema.from_dict({"items": 5, "row": 3}).pairs is None
    assert us.Schema.from_dict({"items": 5}).pairs is not None


@pytest.mark.parametrize(
    "how",
    [{"items": 0}, {"items": []}, {"items": ["a", "a"]}, {"items": ["a", 1]}, {"items": "abc"}, {"items": True},
     {"items": [2**60]}, {"items": [""]},
     {"items": 5, "density": 2}, {"items": 5, "density": 10**400}, {"items": 5, "density": float("nan")},
     {"items": 5, "density": "x"}, {"items": 5, "row": "item"}, {"items": 10**9}],
)  # fmt: skip
def test_malformed_lists_of_items_are_refused(how: dict[str, Any]) -> None:
    with pytest.raises(us.SchemaError):
        us.Schema.items(**how)


def test_a_million_items_are_cheap_to_name() -> None:
    schema = us.Schema.items(1_000_000)
    assert schema.position("999999") == 999_999 and schema.domain_text == "about 10^301030"
    with pytest.raises(us.SchemaError, match="and 999,960 more"):
        schema.position("x")
    with pytest.raises(us.NotSupported, match="about 10"):
        us.release(
            sparse.csr_array((50, 1_000_000)),
            schema=schema,
            workload="3-conjunctions:10",
            mechanism="mwem",
            epsilon=1,
        )


# ---------------------------------------------------------------------- conjunctions


@settings(deadline=None, max_examples=50)
@given(rows=st.integers(0, 200), seed=st.integers(0, 2**31), k=st.integers(1, 4))
def test_bitmaps_count_what_truth_says(rows: int, seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, SMALL.shape, (rows, 3)).astype(np.int32)
    columns = rng.integers(3, size=(9, k))
    part = Conjunctions.of(
        columns, rng.integers(np.asarray(SMALL.shape)[columns]), rng.random((9, k)) < 0.5
    )
    counted = part.counts(CodedRows(codes, SMALL.shape)).dense()
    assert np.array_equal(counted, part.truth(codes[:, list(part.columns)]).sum(axis=0))
    assert np.array_equal(counted, part.apart().counts(CodedRows(codes, SMALL.shape)).dense())


def test_more_rows_than_a_chunk_are_counted_once() -> None:
    codes = small_table(20_011).astype(np.int32)
    part = random_batch(SMALL, 40, 2, 0)
    assert np.array_equal(
        part.tally(codes[:, list(part.columns)]),
        part.truth(codes[:, list(part.columns)]).sum(axis=0),
    )


def test_equal_arrays_are_equal_batches_that_nobody_can_change() -> None:
    one, other = random_batch(BASKET, 8, 2, 1), random_batch(BASKET, 8, 2, 1)
    assert one == other and hash(one) == hash(other) and one != random_batch(BASKET, 8, 2, 2)
    assert one != Conjunctions.of(one.literals.columns, one.literals.values, False)
    with pytest.raises(ValueError, match="read-only"):
        one.literals.columns[0] = 3


def test_random_conjunctions_are_distinct_and_sensible() -> None:
    # SMALL has sizes 3, 4 and 2: 12 + 6 + 8 pairs of values and 24 triples, fewer than are asked
    # for.
    for schema, k, asked, there in (
        (SMALL, 2, 99, 26),
        (SMALL, 3, 99, 24),
        (BASKET, 3, 99, 10),
        (us.Schema.items(2000), 3, 5000, 5000),
    ):
        part = us.random_conjunctions(schema, asked, k, 3).batches[0]
        queries = [part.query(i) for i in range(part.size)]
        assert len({frozenset(query.literals) for query in queries if query}) == part.size == there
        assert all(query and len({x.column for x in query.literals}) == k for query in queries)
        assert schema.pairs is None or all(
            x.value == 1 for query in queries if query for x in query.literals
        )


def test_what_people_type_for_conjunctions() -> None:
    assert us.Workload.parse("2-conjunctions:5@7", BASKET) == us.random_conjunctions(
        BASKET, 5, 2, 7
    )
    assert us.Workload.parse("2-conjunctions:5", BASKET).spec == "2-conjunctions:5@0"
    for text in ("3-conjunctions", "3-conjunctions:0", "9-conjunctions:5", "3-conjunction:5"):
        with pytest.raises(us.WorkloadError):
            us.Workload.parse(text, BASKET)
    with pytest.raises(us.WorkloadError, match="at most"):
        us.random_conjunctions(us.Schema.items(1000), 10**8)


@pytest.mark.parametrize(
    "wrong",
    [{"literals": 3}, {"literals": 0}, {"literals": True}, {"columns": [9, 0, 1, 2]}, {"values": [1, 1, 1, 2]}, {"values": [1, 1, 1, -1]},
     {"holds": [1, 1, 1, 2]}, {"holds": [1]}, {"columns": [0.5, 1, 1, 1]}, {"columns": []}],
)  # fmt: skip
def test_malformed_files_of_conjunctions_are_refused(wrong: dict[str, Any]) -> None:
    plain = {
        "kind": "conjunctions",
        "literals": 2,
        "columns": [0, 1, 1, 2],
        "values": [1, 1, 1, 0],
        "holds": True,
    }
    assert Conjunctions.from_dict(plain, BASKET).size == 2
    with pytest.raises(us.WorkloadError):
        Conjunctions.from_dict({**plain, **wrong}, BASKET)


@pytest.mark.parametrize(
    "mechanism",
    [
        "arp",
        "gaussian",
        "rap",
        "projection",
        "matrix",
        "mwem",
        "fem",
        "dualquery",
        "independent",
        "generator",
        "querygan",
        "auto",
    ],
)
def test_every_mechanism_serves_conjunctions_or_says_that_it_does_not(mechanism: str) -> None:
    quick = {
        "rap": {"rounds": 1, "steps": 10},
        "projection": {"steps": 10},
        "fem": {"rounds": 4, "samples": 4},
    }
    quick |= {"generator": {"steps": 5}, "querygan": {"rounds": 4, "steps": 3}}
    made = us.release(
        small_table(),
        schema=SMALL,
        workload="2-conjunctions:12@1",
        mechanism=mechanism,
        parameters=quick.get(mechanism),
        epsilon=1,
    )
    assert made.answers()[0].shape == (12,)


# ---------------------------------------------------------------------- a release


@pytest.fixture(scope="module")
def made() -> us.Release:
    codes = table(400, 200)
    codes[:3] = 0
    work = us.random_conjunctions(us.Schema.items(200), 500, 2, 1)
    return us.release(
        sparse.csr_array(codes),
        schema=us.Schema.items(200),
        workload=work,
        mechanism="dualquery",
        epsilon=2,
        rows=300,
        seed=0,
    )


def test_a_release_of_items_is_pairs_and_reads_back_the_same(
    made: us.Release, tmp_path: Path
) -> None:
    assert made.synthetic.column_names == ["row", "item"] and made.codes.shape == (300, 200)
    assert made.to_csr().shape == (300, 200) and made.to_csr().sum() == made.synthetic.num_rows
    again = us.Release.load(made.save(tmp_path / "r"))
    assert np.array_equal(again.codes, made.codes) and again.synthetic.equals(made.synthetic)
    assert unsound(tmp_path / "r") == []
    assert len((tmp_path / "r/report.html").read_text()) < 100_000


def test_a_row_without_items_is_not_lost(made: us.Release, tmp_path: Path) -> None:
    codes = np.zeros_like(made.codes)
    empty = replace(
        made, codes=codes, synthetic=made.schema.decode(codes, np.random.default_rng(0))
    )
    assert us.Release.load(empty.save(tmp_path / "r")).codes.shape == (300, 200)


@pytest.mark.parametrize("rows", [10**12, -1, True, "3", None, 2])
def test_a_forged_number_of_rows_is_a_sentence(made: us.Release, rows: Any, tmp_path: Path) -> None:
    folder = made.save(tmp_path / "r")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["synthetic_rows"] = rows
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(us.BundleError):
        us.Release.load(folder)


def test_wide_tables_get_fewer_rows_by_a_public_rule() -> None:
    from understudy.api.request import MOST_CODES, most_rows

    assert most_rows(us.Schema.items(512_000)) == MOST_CODES // 512_000 == 524
    with pytest.raises(us.ParameterError, match="from 1 to 524"):
        us.release(
            sparse.csr_array((10_000, 512_000)),
            schema=us.Schema.items(512_000),
            workload="3-conjunctions:9",
            epsilon=1,
            rows=525,
        )


def test_mechanisms_that_keep_whole_rows_refuse_wide_tables_before_any_charge() -> None:
    schema, empty = us.Schema.items(5000), sparse.csr_array((100, 5000))
    for mechanism in ("arp", "gaussian", "matrix"):
        with pytest.raises(us.NotSupported, match="dualquery"):
            us.release(
                empty, schema=schema, workload="3-conjunctions:9", mechanism=mechanism, epsilon=1
            )
    made = us.release(empty, schema=schema, workload="3-conjunctions:9", epsilon=1)
    assert made.manifest["mechanism"]["name"] == "dualquery"


def test_items_of_which_nothing_is_learnt_follow_the_public_guess() -> None:
    for density, low, high in (
        (0.0, 0.0, 0.0),
        (0.5, 0.4, 0.6),
        (0.1, 0.05, 0.15),
        (1.0, 1.0, 1.0),
    ):
        schema = us.Schema.items(2000, density=density)
        assert schema.pairs is not None
        instance = Instance.of(
            schema.shape,
            [us.all_of(us.Literal(0, 1), us.Literal(1, 1))],
            one_way=schema.pairs.guess,
        )
        record = Search().solve(instance, 0).record
        assert record[:2].tolist() == [1, 1] and low <= record[2:].mean() <= high


def test_movielens_end_to_end(shared: Path, tmp_path: Path) -> None:
    pairs = shared / "data/movielens-small/ml-latest-small-pairs.parquet"
    if not pairs.exists():
        pytest.skip("MovieLens is not among the comparison data")
    schema = us.Schema.items(9724, row="user")
    schema.save(tmp_path / "movies.json")
    made = us.release(
        pq.read_table(pairs),
        schema=schema,
        workload="3-conjunctions:20000@7",
        mechanism="dualquery",
        epsilon=1,
    )
    assert made.codes.shape == (610, 9724) and made.manifest["rows"]["count"] == 610
    truth = made.workload.batches[0].counts(open_source(pairs, schema)).dense() / 610
    assert np.abs(truth - made.answers()[0]).mean() < 0.01
    words = [
        "release",
        str(pairs),
        "--schema",
        str(tmp_path / "movies.json"),
        "--epsilon",
        "1",
        "--workload",
        "3-conjunctions:2000@7",
    ]
    run = CliRunner().invoke(
        main, [*words, "--out", str(tmp_path / "out"), "--ledger", str(tmp_path / "ledger.jsonl")]
    )
    assert run.exit_code == 0, run.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "out")]).exit_code == 0
    assert (
        CliRunner()
        .invoke(main, ["schema", "check", str(tmp_path / "movies.json"), str(pairs)])
        .exit_code
        == 0
    )
