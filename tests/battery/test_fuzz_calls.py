"""Fuzz of every public name: a call gives something sound, or refuses in a sentence and charges
nothing.
"""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy import sparse

import understudy as us
from support.bundles import unsound
from support.fuzzing import Heard, complaint, listen
from support.strategies import (
    ASKED,
    BASKET,
    BATCHES,
    CONDITIONS,
    ITEM_SCHEMAS,
    LITERALS,
    NUMBERS,
    ODD,
    PAIRS,
    QUERIES,
    UNLUCKY,
    altered,
    arguments,
    odd_workload_texts,
    workload_data,
)  # fmt: skip
from support.tables import CANARY_NUMBER, CANARY_TEXT
from understudy.api.request import as_schema
from understudy.bundle.drawing import Sample
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows
from understudy.errors import NotCertified
from understudy.queries.base import QueryClass
from understudy.queries.condition import Condition
from understudy.queries.conjunctions import Conjunctions
from understudy.queries.lattice import AllConjunctions
from understudy.queries.symmetric import Symmetric
from understudy.schema.cells import read_objects

Battery = Callable[[str, int, str], None]


def examples(few: int, many: int) -> Any:
    """A quick number of examples, and a long one for the audit."""
    return pytest.mark.parametrize("tries", [few, pytest.param(many, marks=pytest.mark.slow)])


def fuzz(tries: int) -> settings:
    return settings(
        deadline=None,
        max_examples=tries,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def judged(heard: Heard, charged: bool | None = None) -> str:
    """What is wrong with how a call ended; ``charged`` is None for calls that have nothing to
    charge.
    """
    if heard.warned or heard.printed:
        return f"it warned or printed: {heard.warned} {heard.printed[:200]}"
    if isinstance(heard.problem, us.ReleaseFailed):
        return f"a request that cannot be met was charged: {heard.problem}"
    return complaint(heard, heard.problem is None if charged is None else charged)


# ---------------------------------------------------------------------- what is sound


def sound_workload(work: us.Workload) -> None:
    """It survives its plain form, and its counts are those of the rows that satisfy its queries."""
    assert us.Workload.from_dict(json.loads(json.dumps(work.to_dict())), work.schema) == work
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(size, size=40) for size in work.schema.shape]).astype(
        np.int32
    )
    table = CodedRows(codes, work.schema.shape)
    for batch in work.batches[:20]:
        if batch.size <= 5000:
            assert np.array_equal(
                batch.counts(table).dense(), batch.truth(codes[:, list(batch.columns)]).sum(axis=0)
            )
            assert batch.describe(work.schema, 0) and batch.describe(work.schema, batch.size - 1)


def sound_schema(schema: us.Schema) -> None:
    """It survives its file form, and every cell has a code."""
    assert us.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    for column in schema.columns[:3]:
        codes = column.encode(read_objects(["", "x", 1, None, 10**400, CANARY_TEXT]))
        assert codes.min() >= 0 and codes.max() < column.size
        assert len(column.decode(codes, np.random.default_rng(0))) == 6


def sound_bundle(made: us.Release) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert unsound(made.save(Path(folder) / "b")) == []
        assert us.Release.load(Path(folder) / "b").schema == made.schema


# ---------------------------------------------------------------------- workloads as text


@examples(60, 500)
def test_a_sound_workload_file_is_read_and_counted(
    tries: int, tmp_path: Path, battery: Battery
) -> None:
    @fuzz(tries)
    @given(st.data(), ASKED)
    def check(data: st.DataObject, schema: us.Schema) -> None:
        (tmp_path / "w.yaml").write_text(
            yaml.safe_dump(data.draw(workload_data(schema)), allow_unicode=True)
        )
        sound_workload(us.Workload.load(tmp_path / "w.yaml", schema))

    check()
    battery("fuzz", tries, "sound workload files, every one read and counted right")


@examples(80, 1000)
def test_an_odd_workload_file_is_read_or_refused_in_a_sentence(
    tries: int, tmp_path: Path, battery: Battery
) -> None:
    outcomes: Counter[str] = Counter()

    @fuzz(tries)
    @given(st.data(), ASKED)
    def check(data: st.DataObject, schema: us.Schema) -> None:
        (tmp_path / "w.yaml").write_text(data.draw(odd_workload_texts(schema)), errors="replace")
        heard = listen(lambda: us.Workload.load(tmp_path / "w.yaml", schema))
        assert judged(heard) == ""
        if heard.problem is None:
            sound_workload(heard.result)
        outcomes[heard.outcome] += 1

    check()
    assert outcomes["WorkloadError"] > tries / 10 and outcomes["released"] > tries / 10, (
        "the damage is all of one strength"
    )
    battery(
        "fuzz",
        tries,
        f"odd workload files, {outcomes['released']} read, the others refused in a sentence",
    )


# ---------------------------------------------------------------------- items


def as_table(form: str, pairs: list[tuple[Any, Any]], names: list[str]) -> Any:
    """Pairs as a table that somebody may have, and a canary among them."""
    rows = [*pairs, (CANARY_NUMBER, CANARY_TEXT)]
    if form == "texts":
        text = [
            [str(cell).encode("utf-8", "replace").decode() for cell in column]
            for column in zip(*rows, strict=True)
        ]
        return pa.table(dict(zip(names, text, strict=True)))
    if form == "numbers":
        return pa.table(
            {name: [hash(str(row[i])) % 9 for row in rows] for i, name in enumerate(names)}
        )
    if form == "sparse":
        return sparse.csr_array(
            np.array([[hash(str(cell)) % 2 for cell in row] * 3 for row in rows])
        )
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


@examples(60, 150)
def test_any_items_and_pairs_give_a_sound_release_or_a_sentence(
    tries: int, battery: Battery
) -> None:
    outcomes: Counter[str] = Counter()

    @fuzz(tries)
    @given(
        ITEM_SCHEMAS,
        PAIRS,
        st.sampled_from(["texts", "numbers", "sparse", "dict"]),
        st.sampled_from(["1-way", "2-conjunctions:4@1"]),
    )
    def check(
        described: dict[str, Any], pairs: list[tuple[Any, Any]], form: str, workload: str
    ) -> None:
        made = listen(lambda: us.Schema.items(**described))
        assert judged(made) == ""
        if made.problem is not None:
            outcomes["no schema"] += 1
            return
        table = as_table(form, pairs, [made.result.pairs.row, made.result.pairs.item])
        with tempfile.TemporaryDirectory() as folder:
            ledger = Path(folder) / "l"
            heard = listen(
                lambda: us.release(
                    table,
                    schema=made.result,
                    epsilon=1,
                    delta="1e-6",
                    workload=workload,
                    mechanism="independent",
                    ledger=ledger,
                    rows=9,
                )
            )
            assert judged(heard, ledger.exists()) == ""
        if heard.problem is None:
            sound_bundle(heard.result)
        outcomes[heard.outcome] += 1

    check()
    # what is drawn differs with the modules that are loaded; so there is one of each kind for sure
    inner = check.hypothesis.inner_test  # type: ignore[attr-defined]
    inner({"items": ["a", "b"]}, [(1, 2)], "sparse", "1-way")  # a matrix of too many items
    inner({"items": ["a", "b"]}, [(1, "a"), (2, "b")], "texts", "1-way")
    inner({"items": []}, [(1, "a")], "texts", "1-way")
    assert outcomes["released"] > tries / 10 and outcomes["no schema"] and outcomes["SourceError"]
    battery(
        "fuzz",
        tries,
        f"tables of items, {outcomes['released']} released, the others refused in a sentence",
    )


# ---------------------------------------------------------------------- every public name


@dataclass(frozen=True)
class Call:
    """One way to use a public name: what to give, what to do with it, and what must hold of what
    comes.
    """

    given: st.SearchStrategy[dict[str, Any]]
    do: Callable[..., Any]
    sound: Callable[[dict[str, Any], Any], None]


@functools.cache
def with_a_model() -> us.Release:
    return us.release(
        small_table(),
        schema=SMALL,
        epsilon=2,
        delta="1e-6",
        workload="2-way",
        mechanism="projection",
        rows=50,
        parameters={"relaxed_rows": 50, "steps": 50},
    )


@functools.cache
def a_rule() -> us.Learned:
    return us.learn(small_table(), schema=SMALL, label="c = 1", epsilon=9, rules="parities")


def table_with_canaries() -> np.ndarray:
    table = small_table(60).astype(object)
    table[::7, 0], table[1::7, 1] = CANARY_TEXT, CANARY_NUMBER
    return table


def learn(**asked: Any) -> us.Learned:
    """A rule; the ledger must have a charge then, and only then."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "l"
        try:
            made = us.learn(table_with_canaries(), ledger=ledger, **asked)
        except NotCertified:
            return a_rule()  # charged, as it must be
        except us.UnderstudyError:
            assert not ledger.exists()
            raise
        assert ledger.exists()
        return made


def sound_rule(asked: dict[str, Any], made: us.Learned) -> None:
    assert us.Learned.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    said = made.predict({name: small_table()[:, i].tolist() for i, name in enumerate("abc")})
    assert said.dtype == bool and len(said) == 600


def sound_plan(asked: dict[str, Any], made: us.Plan) -> None:
    assert made == us.plan(**asked) and made.rho > 0 and made.queries > 0
    numbers = [made.noise, made.largest_error, made.seconds, made.memory]
    assert all(number is None or (math.isfinite(number) and number >= 0) for number in numbers)


def sound_rows(asked: dict[str, Any], made: pa.Table) -> None:
    schema = as_schema(asked["schema"])
    assert made.num_rows == asked["rows"] and made.column_names == list(schema.names)
    assert schema.shows(made, schema.encode(made))


def sound_sample(asked: dict[str, Any], drawn: Sample) -> None:
    codes = drawn.codes
    assert (
        len(codes) == drawn.table.num_rows == (asked["rows"] or len(codes))
        and codes.min() >= 0
        and np.all(codes < SMALL.shape)
    )
    assert Condition.parse(asked.get("condition", "a >= 0"), SMALL).holds(codes).all()
    assert 0 < drawn.share <= 1 and 0 <= with_a_model().alpha_of(drawn) <= 1


def sound_answers(asked: dict[str, Any], answers: us.Answers) -> None:
    shares = np.asarray(answers)
    assert len(shares) == answers.workload.size and shares.min() >= 0 and shares.max() <= 1


def nothing_there(asked: dict[str, Any], read: Any) -> None:
    """None of the paths holds what is asked for, so whatever was read is made up."""
    raise AssertionError(f"{read!r} was read where there is nothing")


def sound_folder(asked: dict[str, Any], place: Path) -> None:
    assert unsound(place) == [] and np.array_equal(
        us.Release.load(place).codes, with_a_model().codes
    )


def sound_predictions(asked: dict[str, Any], said: np.ndarray) -> None:
    # of the columns that it asks about
    assert said.dtype == np.bool_ and len(said) in {len(asked["table"][name]) for name in "ab"}


def sound_shares(asked: dict[str, Any], shares: Any) -> None:
    found = np.asarray(shares, np.float64)
    assert found.size and np.all((found >= 0) & (found <= 1))


def budget_of(**asked: Any) -> us.Budget:
    return us.Budget.of(**asked)


def sound_budget(asked: dict[str, Any], made: us.Budget) -> None:
    assert made.rho > 0 and 0 < made.delta < 1 and made.epsilon > made.rho


def column(kind: type) -> Callable[..., us.Schema]:
    return lambda **settings: as_schema(us.Schema((kind(**settings),)))


def schema_is_sound(asked: dict[str, Any], made: us.Schema) -> None:
    sound_schema(made)


def workload_is_sound(asked: dict[str, Any], made: us.Workload) -> None:
    sound_workload(made)


def of_queries(make: Callable[..., us.Query]) -> Callable[..., us.Workload]:
    return lambda **asked: us.explicit(
        SMALL, queries=[make(*asked.get("first", ()), *asked["literals"])]
    )


COMMON: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["x", "é", ""]),
    "missing": st.booleans(),
    "other": st.booleans(),
    "missing_values": st.sampled_from([("",), ("?", "—"), ()]),
}
SCHEMA: st.SearchStrategy[Any] = st.sampled_from([SMALL, SMALL.to_dict(), {"a": 3, "b": 4, "c": 2}])
WORK = st.sampled_from(["1-way", "2-way:2@1", "all-conjunctions", None, us.marginals(SMALL, 2)])
EPSILON, DELTA = st.sampled_from([1, "0.5", Fraction(1, 3)]), st.sampled_from(["1e-6", 1e-9])
COUNTS = st.lists(st.integers(-5, 90) | st.floats(-1e12, 1e12) | ODD, min_size=2, max_size=4)
TABLES = st.one_of(
    st.sampled_from(
        [
            (["a"], [30, 20, 10], 1.5),
            (("a", "c"), np.full((3, 2), 9.5), 0),
            (["c"], [1e12, -4], Fraction(10**12)),
        ]
    ),
    st.tuples(st.lists(st.sampled_from("abc"), max_size=2), COUNTS, st.floats(0, 1e12)),
    st.builds(
        us.Measurement,
        BATCHES,
        COUNTS.map(lambda c: np.array(c, object)),
        st.sampled_from([1, Fraction(1, 9), 0.5, "x"]),
    ),
)
PATHS = st.sampled_from(
    [".", "/dev/null/such/folder", "/dev/null", "/", Path("x"), b"x", "\x00", "y" * 5000]
)
WIDTH = st.sampled_from([None, 1, 2])

CALLS: dict[str, Call] = {
    "Boolean": Call(arguments(**COMMON), column(us.Boolean), schema_is_sound),
    "Categorical": Call(
        arguments(
            **COMMON,
            categories=st.lists(st.sampled_from("abé12") | st.just("03"), max_size=4).map(tuple),
            numeric=st.booleans(),
        ),
        column(us.Categorical),
        schema_is_sound,
    ),
    "Number": Call(
        arguments(
            **COMMON,
            edges=st.lists(st.integers(-5, 9) | st.floats(-2, 2**53), min_size=1, max_size=4)
            .map(sorted)
            .map(tuple),
            integer=st.booleans(),
        ),
        column(us.Number),
        schema_is_sound,
    ),
    "Moment": Call(
        arguments(
            **COMMON,
            edges=st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4)
            .map(sorted)
            .map(tuple),
            date=st.booleans(),
            resolution=st.sampled_from(["bins", "year", "day", "second"]),
        ),
        column(us.Moment),
        schema_is_sound,
    ),
    "Schema": Call(
        arguments(columns=st.sampled_from([SMALL.columns, BASKET.columns, UNLUCKY.columns[:2]])),
        lambda columns: as_schema(us.Schema(columns)),
        schema_is_sound,
    ),
    "Schema.from_dict": Call(
        st.builds(
            lambda schema, rng: {"data": altered(schema.to_dict(), rng)},
            ASKED,
            st.randoms(use_true_random=False),
        )
        | arguments(data=SCHEMA),
        lambda data: as_schema(us.Schema.from_dict(data)),
        schema_is_sound,
    ),
    "Schema.from_domain": Call(
        arguments(
            domain=st.dictionaries(
                st.sampled_from(["a", "é", 1, "", "\ud800"]), st.integers(1, 9), max_size=3
            ),
            ordered=st.lists(st.sampled_from(["a", "é", 1, ""]), max_size=2),
        ),
        lambda domain, ordered=(): as_schema(us.Schema.from_domain(domain, ordered)),
        schema_is_sound,
    ),
    "Schema.load": Call(arguments(path=PATHS), us.Schema.load, nothing_there),
    "Literal": Call(
        arguments(column=NUMBERS, value=NUMBERS, holds=st.booleans()),
        lambda **asked: us.explicit(SMALL, queries=[us.all_of(us.Literal(**asked))]),
        workload_is_sound,
    ),
    "Query": Call(
        arguments(
            literals=st.lists(LITERALS, max_size=2).map(tuple),
            table=st.lists(st.integers(0, 1) | st.just(np.int8(1)), max_size=3).map(tuple),
        ),
        lambda **asked: us.explicit(SMALL, queries=[~us.Query(**asked)]),
        workload_is_sound,
    ),
    **{
        make.__name__: Call(
            st.fixed_dictionaries({"literals": st.lists(LITERALS | ODD, max_size=3)}),
            of_queries(make),
            workload_is_sound,
        )
        for make in (us.all_of, us.any_of, us.parity)
    },
    "at_least": Call(
        st.fixed_dictionaries(
            {
                "first": st.tuples(st.integers(0, 3) | NUMBERS),
                "literals": st.lists(LITERALS, max_size=3),
            }
        ),
        of_queries(us.at_least),
        workload_is_sound,
    ),
    "Marginal": Call(
        arguments(
            positions=st.lists(st.integers(-1, 3), max_size=2).map(tuple),
            shape=st.lists(st.sampled_from([2, 3, 4]), max_size=2).map(tuple),
        ),
        lambda **asked: us.Workload(SMALL, (us.Marginal(**asked),)),
        workload_is_sound,
    ),
    "Marginal.of": Call(
        arguments(names=st.lists(st.sampled_from("abcd"), max_size=3)),
        lambda names: us.Workload(SMALL, (us.Marginal.of(SMALL, names),)),
        workload_is_sound,
    ),
    "Workload": Call(
        arguments(schema=st.just(SMALL), batches=st.lists(BATCHES, max_size=3).map(tuple)),
        us.Workload,
        workload_is_sound,
    ),
    "Workload.from_dict": Call(
        st.builds(
            lambda work, rng: {"data": altered(work.to_dict(), rng), "schema": work.schema},
            st.sampled_from(
                [
                    us.Workload.parse("1-way+2-conjunctions:3@1+all-conjunctions", schema)
                    for schema in (SMALL, BASKET, UNLUCKY)
                ]
            ),
            st.randoms(use_true_random=False),
        )
        | arguments(
            data=st.just({"parts": [{"kind": "marginal", "columns": ["a"]}]}), schema=st.just(SMALL)
        ),
        us.Workload.from_dict,
        workload_is_sound,
    ),
    "Workload.load": Call(
        arguments(path=PATHS, schema=st.just(SMALL)), us.Workload.load, nothing_there
    ),
    "Workload.parse": Call(
        arguments(text=WORK, schema=st.just(SMALL)), us.Workload.parse, workload_is_sound
    ),
    "explicit": Call(
        arguments(
            schema=st.just(SMALL),
            columns=st.lists(st.lists(st.sampled_from("abc"), max_size=2), max_size=2),
            queries=st.lists(QUERIES, max_size=2),
        ),
        us.explicit,
        workload_is_sound,
    ),
    "marginals": Call(
        arguments(
            schema=st.just(SMALL),
            k=st.integers(0, 4),
            sample=st.none() | st.integers(1, 4),
            seed=st.integers(0, 9),
        ),
        us.marginals,
        workload_is_sound,
    ),
    "random_conjunctions": Call(
        arguments(
            schema=st.just(SMALL),
            count=st.integers(1, 30),
            k=st.integers(1, 4),
            seed=st.integers(0, 9),
        ),
        us.random_conjunctions,
        workload_is_sound,
    ),
    "all_conjunctions": Call(
        arguments(
            schema=st.just(SMALL), columns=st.none() | st.lists(st.sampled_from("abc"), max_size=3)
        ),
        us.all_conjunctions,
        workload_is_sound,
    ),
    "Budget": Call(arguments(epsilon=EPSILON, delta=DELTA), budget_of, sound_budget),
    "plan": Call(
        arguments(
            schema=SCHEMA,
            rows=st.sampled_from([50, 10**6, np.int64(10**9)]),
            epsilon=EPSILON,
            delta=DELTA | st.none(),
            workload=WORK,
            mechanism=st.sampled_from(["auto", *us.available_mechanisms()]),
            parameters=st.none() | st.just({}),
            neighbours=st.sampled_from(["replace-one", "add-remove-one"]),
        ),
        us.plan,
        sound_plan,
    ),
    "project": Call(
        arguments(
            measurements=st.lists(TABLES, min_size=1, max_size=2),
            schema=SCHEMA,
            rows=st.sampled_from([1, 7, np.int32(3)]),
            people=st.sampled_from([None, 1, 600, 10**12]),
            seed=st.integers(0, 9),
        ),
        us.project,
        sound_rows,
    ),
    "learn": Call(
        arguments(
            schema=SCHEMA,
            label=st.sampled_from(["c = 1", "c", "a >= 1", "a != 2"]),
            epsilon=EPSILON,
            attributes=st.sampled_from([None, ["b >= 2"], ("b = 0", "b = 1")]),
            rules=st.sampled_from(
                ["conjunctions", "disjunctions", "parities", "halfspaces", "decision-lists"]
            ),
            width=WIDTH,
            signed=st.booleans(),
            method=st.sampled_from(["exponential", "exponential", "rspm", "prsma"]),
            delta=st.none() | st.just("0.01"),
            costs=st.sampled_from([(1, 1), [2, 3]]),
            report=st.sampled_from([0, "0.1", 0.5]),
            certifier=st.sampled_from(["auto", "listing", "counting"]),
            noise_on=st.sampled_from([None, "separators", "features"]),
            parameters=st.sampled_from([None, {}, {"bias": 1}, {1: 2}]),
        ),
        learn,
        sound_rule,
    ),
    "Learned": Call(
        arguments(
            table=st.sampled_from(
                [
                    {"a": [0, 1], "b": [1, 9]},
                    {"a": [CANARY_TEXT], "b": [CANARY_NUMBER]},
                    {"a": [0], "b": []},
                    pa.table({"a": [1], "b": [2]}),
                ]
            )
        ),
        lambda table: a_rule().predict(table),
        sound_predictions,
    ),
    "Learned.load": Call(arguments(path=PATHS), us.Learned.load, nothing_there),
    "Release.load": Call(arguments(folder=PATHS), us.Release.load, nothing_there),
    "Release.save": Call(
        arguments(folder=PATHS), lambda folder: with_a_model().save(folder), sound_folder
    ),
    "verify": Call(arguments(folder=PATHS), us.verify, nothing_there),
    "Release": Call(
        arguments(rows=st.sampled_from([1, 20, np.int64(7)]), seed=st.none() | st.integers(0, 9)),
        lambda **asked: with_a_model().sample(**asked),
        sound_sample,
    ),
    "Release.sample_where": Call(
        arguments(
            condition=CONDITIONS,
            rows=st.none() | st.integers(1, 30),
            seed=st.none() | st.integers(0, 9),
        ),
        lambda **asked: with_a_model().sample_where(**asked),
        sound_sample,
    ),
    "Release.alpha_of": Call(
        arguments(
            codes=st.sampled_from(
                [
                    np.zeros((3, 3), np.int32),
                    np.zeros((2, 3)),
                    np.full((1, 3), 9),
                    np.full((1, 3), np.nan),
                    np.zeros((0, 3), int),
                ]
            )
        ),
        lambda codes: with_a_model().alpha_of(
            Sample(pa.table({}), codes, "any row", 1.0, 1.0, "model", None)
        ),
        sound_shares,
    ),
    "Release.answers": Call(
        arguments(workload=WORK | st.just(us.marginals(BASKET, 1))),
        lambda workload: with_a_model().answers(workload),
        sound_answers,
    ),
    "Answers": Call(
        arguments(key=st.sampled_from([0, 2, ("a", "b"), ["a", "b"], ("b", "a"), "a"])),
        lambda key: with_a_model().answers().get(key, np.array([1.0])),
        sound_shares,
    ),
}
ELSEWHERE = {
    "release": "battery/test_fuzz.py, and workloads made by hand below",
    "FileLedger": "privacy/test_ledger.py; a release refuses a path that is none",
    "available_mechanisms": "takes no arguments",
    "Mechanism": "abstract; parameters of each are in battery/test_fuzz.py",
    "Measurement": "given to project above",
    **dict.fromkeys(("Certificate", "Plan"), "only ever made by the package"),
}


def test_every_public_name_is_fuzzed_or_is_no_call() -> None:
    errors = {
        name
        for name in us.__all__
        if isinstance(getattr(us, name), type) and issubclass(getattr(us, name), Exception)
    }
    assert {name.split(".")[0] for name in CALLS} | set(ELSEWHERE) | errors == set(us.__all__)
    assert not set(CALLS) & set(ELSEWHERE)


@examples(25, 200)
@pytest.mark.parametrize("name", CALLS)
def test_any_arguments_of_a_public_name_give_something_sound_or_a_sentence(
    name: str, tries: int, tmp_path: Path, battery: Battery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # an argument may name a file to write
    with_a_model(), a_rule()  # made before anybody listens
    call, outcomes = CALLS[name], Counter[str]()

    @fuzz(tries)
    @given(call.given)
    def check(asked: dict[str, Any]) -> None:
        heard = listen(lambda: call.do(**asked))
        assert judged(heard) == ""
        if heard.problem is None:
            call.sound(asked, heard.result)
        outcomes[heard.outcome] += 1

    check()
    assert outcomes.total() > outcomes["released"], "nothing was refused"
    assert outcomes["released"] or call.do in (
        us.Schema.load,
        us.Workload.load,
        us.Learned.load,
        us.Release.load,
        us.verify,
    ), "all refused"
    battery(
        "fuzz",
        outcomes.total(),
        f"calls of {name}, {outcomes['released']} sound, the others refused in a sentence",
    )


# ---------------------------------------------------------------------- what was found

FOREIGN = [
    us.Marginal((9,), (2,)),
    us.Marginal((1,), (2,)),
    us.Marginal((0, 0), (3, 3)),
    Symmetric((us.all_of(us.Literal(0, 99)),)),
    Conjunctions.of([[7]], [[0]]),
    AllConjunctions((us.Literal(0, 3),)),
]


@pytest.mark.parametrize("batch", FOREIGN, ids=range(len(FOREIGN)))
def test_queries_of_another_schema_are_refused_before_anything_is_charged(
    batch: QueryClass, tmp_path: Path
) -> None:
    with pytest.raises(us.WorkloadError, match="another schema"):
        us.release(
            small_table(60), schema=SMALL, epsilon=1, delta="1e-6", workload=us.Workload(SMALL, (batch,)), mechanism="gaussian",
            ledger=tmp_path / "l",
        )  # fmt: skip
    assert not (tmp_path / "l").exists()


def test_queries_made_of_numbers_from_numpy_can_be_written() -> None:
    literal = us.Literal(np.int64(0), np.uint8(1), np.bool_(True))
    sound_workload(us.explicit(SMALL, queries=[us.Query((literal,), (np.int64(0), np.int64(1)))]))


def test_a_schema_whose_bins_no_file_can_say_costs_nothing(tmp_path: Path) -> None:
    halves = us.Schema((us.Number(name="x", integer=True, edges=(0, 0.5, 2)),))
    with pytest.raises(us.SchemaError, match="rise strictly"):
        us.release(np.zeros((60, 1)), schema=halves, epsilon=1, delta="1e-6", ledger=tmp_path / "l")
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(
    "keys",
    [[0, 99], [-1, 2], [5, 0], [1.5, 2], [0, 0], ["x", "y"], [10, -(2**63), -(2**62), 20], 3],
)
def test_keys_of_a_sparse_table_that_no_cell_has_are_refused_in_a_sentence(keys: Any) -> None:
    batch = us.marginals(SMALL, k=2).batches[0]
    sparse_table = us.Measurement(batch, np.ones(np.size(keys)), Fraction(1), keys, 1)
    with pytest.raises(us.ParameterError, match="keys of a sparse table"):
        us.project([sparse_table], SMALL, rows=10, people=50)
