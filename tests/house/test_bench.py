"""The bench: its sticks measure rightly, a run that was stopped goes on, listing needs little, a
report says what was found.
"""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import understudy as us
from bench import __main__ as command
from bench import compare, figures, grid, report, results, shapes, sticks, tables
from bench.builds import Build
from bench.clock import clock, in_a_child, peak_gigabytes
from bench.coded import Coded
from bench.grid import Behind, Grid, Line, Panel, Point, Suite, View

ROOT = Path(__file__).resolve().parents[2]
SUITES = grid.suites()
SHARED = tables.BESIDE.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "Makefile",
    *sorted((ROOT / "docs").glob("*.md")),
]


def table(rows: int, seed: int, sizes: tuple[int, ...] = (3, 4, 2, 5)) -> Coded:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, rows) for size in sizes]).astype(np.int32)
    return Coded(codes, {f"c{number}": size for number, size in enumerate(sizes)})


# ---------------------------------------------------------------------- sticks


def share(given: Coded, **cell: int) -> float:
    """By looking at every row."""
    names = list(given.domain)
    return sum(
        all(row[names.index(name)] == code for name, code in cell.items()) for row in given.codes
    ) / len(given)


def test_cells_are_those_of_brute_force() -> None:
    real, made = table(40, 0), table(60, 1)
    work = [("c0", "c1"), ("c3", "c2", "c0")]
    gaps = []
    for columns in work:
        cells = itertools.product(*(range(real.domain[name]) for name in columns))
        named = [dict(zip(columns, cell, strict=True)) for cell in cells]
        gaps.append([abs(share(real, **cell) - share(made, **cell)) for cell in named])
    found = sticks.cells(real, made, work)
    every = [gap for one in gaps for gap in one]
    assert found["queries"] == len(every) == 12 + 30
    assert found["max"] == pytest.approx(max(every)) and found["mean"] == pytest.approx(
        np.mean(every)
    )
    assert found["tv"] == pytest.approx(np.mean([sum(one) / 2 for one in gaps]))
    assert sticks.cells(real, real, work) == {"max": 0, "mean": 0, "tv": 0, "queries": 42}


def test_intervals_and_rectangles_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(3)
    for shape in ((4, 6), (6, 4), (1, 5)):
        gaps = rng.normal(size=shape)
        runs = [range(a, b + 1) for a in range(shape[0]) for b in range(a, shape[0])]
        across = [range(a, b + 1) for a in range(shape[1]) for b in range(a, shape[1])]
        expected = max(
            abs(gaps[np.ix_(rows, columns)].sum()) for rows in runs for columns in across
        )
        assert sticks.rectangle(gaps) == pytest.approx(expected)
        line = gaps[0]
        assert sticks.interval(line) == pytest.approx(
            max(abs(line[columns].sum()) for columns in across)
        )


def test_correlations_and_means_by_group_are_those_of_numpy() -> None:
    real, made = table(500, 5), table(400, 6)
    real.codes[:, 3] = (real.codes[:, 1] + real.codes[:, 3] // 4) % 5
    # c2 has two codes: not a column to rank
    found = sticks.structure(real, made, ["c1", "c2", "c3"])
    off = (
        np.corrcoef(real.codes[:, 1], real.codes[:, 3])[0, 1]
        - np.corrcoef(made.codes[:, 1], made.codes[:, 3])[0, 1]
    )
    assert found["correlation_largest"] == found["correlation_mean"] == pytest.approx(abs(off))
    sizes, gaps = list(real.domain.values()), []
    for number, group in itertools.product((1, 3), range(4)):
        for code in range(sizes[group] if number != group else 0):
            means = [one.codes[one.codes[:, group] == code, number].mean() for one in (real, made)]
            gaps.append(abs(means[0] - means[1]) / (sizes[number] - 1))
    assert found["group_mean_largest"] == pytest.approx(max(gaps)) and found[
        "group_mean_mean"
    ] == pytest.approx(np.mean(gaps))
    assert set(sticks.structure(real, real, ["c1", "c3"]).values()) == {0.0}


def test_a_constant_column_has_no_correlation_and_small_groups_no_mean() -> None:
    real, made = table(1000, 7), table(1000, 8)
    made.codes[:, 1] = 2
    assert sticks.correlation(sticks.pair(made, "c1", "c3")) == 0
    real.codes[:, 0] = 0
    real.codes[:9, 0] = 1  # nine of a thousand rows are not a group
    real.codes[:9, 3], made.codes[:, 3] = 4, 0
    assert sticks.group_means(
        sticks.pair(real, "c0", "c3"), sticks.pair(made, "c0", "c3")
    ).shape == (1,)


def shared(name: str) -> ModuleType:
    if not (SHARED / name).exists():
        pytest.skip(f"{name} is not beside this checkout")
    pytest.importorskip("pandas")
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), SHARED / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def frame(given: Coded) -> Any:
    return pytest.importorskip("pandas").DataFrame(given.codes, columns=list(given.domain))


def test_cells_agree_with_the_shared_stick() -> None:
    theirs = shared("workload.py")
    real, made = table(3000, 0), table(2000, 1)
    for k, size, seed in ((2, 64, 0), (3, 2, 7)):
        work = sticks.marginals(real, f"{k}-way:{size}@{seed}")
        assert work == theirs.workload(real.domain, k, size, seed)
        assert sticks.cells(real, made, work) == pytest.approx(
            theirs.errors(frame(real), frame(made), real.domain, work)
        )
    few = table(14, 2)  # two of the six pairs of columns have more cells
    for size in (2, 64):
        expected = theirs.paper_workload(frame(few), few.domain, 2, size, 3)
        assert sticks.marginals(few, f"2-way:{size}@3 that fit") == expected and len(
            expected
        ) == min(size, 4)


def test_structure_agrees_with_the_shared_stick() -> None:
    theirs = shared("structure.py")
    real, made = table(3000, 3, (3, 7, 2, 5, 4)), table(2000, 4, (3, 7, 2, 5, 4))
    made.codes[:, 4] = 1
    for ordered in (list(real.domain), ["c1", "c3"], []):
        expected = theirs.structure(frame(real), frame(made), real.domain, ordered)
        found = sticks.structure(real, made, ordered)
        assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_marginals_with_few_cells_and_with_many_are_measured_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, made = table(300, 9), table(200, 10)
    work = [("c0",), ("c1", "c3"), ("c2", "c0", "c3")]
    dense = sticks.cells(real, made, work)
    monkeypatch.setattr(sticks, "DENSE", 0)
    assert sticks.cells(real, made, work) == pytest.approx(dense)
    pairs = sticks.structure(real, made, [])
    halves = [
        np.abs(sticks.gap(real, made, pair)).sum() / 2
        for pair in itertools.combinations(real.domain, 2)
    ]
    assert pairs["tv_mean"] == pytest.approx(np.mean(halves))


def test_a_workload_that_is_none_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="'3way' is not a workload such as"):
        sticks.marginals(table(5, 0), "3way")


def test_rates_in_groups_are_those_of_brute_force() -> None:
    real, made = table(900, 11), table(800, 12)
    real.codes[:, 2] = real.codes[:, 0] == 2
    off, true, size = [], [], []
    for a, b in itertools.product(range(3), range(4)):
        inside = [(one.codes[:, 0] == a) & (one.codes[:, 1] == b) for one in (real, made)]
        shares = [one.codes[some, 2].mean() for one, some in zip((real, made), inside, strict=True)]
        off.append(abs(shares[0] - shares[1]))
        true.append(shares)
        size.append(inside[0].sum())
    found = sticks.rates(real, made, "c2", ("c0", "c1"))
    assert found["groups"] == 12 and found["rate_largest"] == pytest.approx(max(off))
    assert found["rate_mean"] == pytest.approx(np.mean(off))
    slope = np.polyfit(*np.array(true).T, deg=1, w=np.sqrt(size))[0]
    assert found["rate_kept"] == pytest.approx(slope)
    same = sticks.rates(real, real, "c2", ("c0", "c1"))
    assert same["rate_largest"] == 0 and same["rate_kept"] == pytest.approx(1)


# ---------------------------------------------------------------------- tables


def test_tables_that_are_not_there_are_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tables.VARIABLE, str(tmp_path))
    assert "--data" in (tables.lacks("adult-six") or "") and "adult-raw.csv.gz" in (
        tables.lacks("adult-raw, male") or ""
    )
    assert tables.lacks("invented:10x3@0") is None and tables.lacks("") is None
    (tmp_path / "loans").mkdir()
    (tmp_path / "loans/loans-domain.json").write_text('{"a": 2, "b": 3}')
    (tmp_path / "loans/loans.csv.gz").write_bytes(gzip.compress(b"b,a\n2,0\n1,1\n"))
    assert tables.lacks("loans") is None
    assert tables.load("loans-twice").codes.tolist() == [[0, 2, 0, 2], [1, 1, 1, 1]]


def test_an_invented_table_is_the_same_each_time_and_within_its_domain() -> None:
    one, two = tables.load("invented:300x15@7"), tables.load("invented:300x15@7")
    assert (one.codes == two.codes).all() and (
        one.codes.max(axis=0) < list(one.domain.values())
    ).all()
    assert (one.codes != tables.load("invented:300x15@8").codes).any()
    assert one.like(one.table).codes.tolist() == one.codes.tolist()


def test_which_columns_are_ordered_goes_with_a_table() -> None:
    four = tables.load("invented-four")
    assert four.ordered == ("count", "decile", "quarter") and len(four) == 40_000
    assert four.domain == {"count": 200, "decile": 10, "quarter": 60, "chance": 12}
    assert four.of(["chance", "decile"]).ordered == ("decile",)
    assert four.rows(np.arange(3)).ordered == tables.twice(four).ordered[:3] == four.ordered
    released = four.like(four.table.slice(0, 5))
    assert released.ordered == four.ordered and (released.codes == four.codes[:5]).all()


def test_a_schema_is_told_of_the_order_where_a_build_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []

    def ordered_too(domain: dict[str, int], *, ordered: list[str]) -> str:
        told.append((domain, ordered))
        return "a schema"

    def domain_only(domain: dict[str, int]) -> str:
        told.append((domain, None))
        return "a schema"

    for build in (ordered_too, domain_only):
        monkeypatch.setattr(us.Schema, "from_domain", build)
        assert Coded(np.zeros((1, 2)), {"a": 3, "b": 4}, ("b",)).schema == "a schema"
    assert told == [({"a": 3, "b": 4}, ["b"]), ({"a": 3, "b": 4}, None)]


@pytest.mark.parametrize(
    "name", ["invented-four", "near-functional", "unseen-payroll", "unseen-clinic"]
)
def test_invented_people_depend_on_each_other_and_fit_their_domain(name: str) -> None:
    one = tables.load(name)
    assert (one.codes == tables.load(name).codes).all() and one.codes.min() == 0
    assert (one.codes.max(axis=0) < list(one.domain.values())).all()
    ranks = np.corrcoef([one.columns[column] for column in one.ordered])
    assert 0.8 < np.triu(ranks, 1).max() < 1 and tables.lacks(name) is None


@pytest.mark.parametrize(
    ("kind", "size"), list(itertools.product(shapes.KINDS, ["binary", "few", "mixed", "long"]))
)
def test_a_shape_has_what_its_name_says(kind: str, size: str) -> None:
    name = f"shape:{kind}:900x7:{size}@3"
    one = tables.load(name)
    assert one.codes.shape == (900, 7) and (one.codes == tables.load(name).codes).all()
    assert one.codes.min() >= 0 and (one.codes.max(axis=0) < list(one.domain.values())).all()
    largest = {"binary": 2, "few": 10, "mixed": 100, "long": 5_000}[size]
    assert max(one.domain.values()) <= largest and min(one.domain.values()) >= 2
    assert (one.codes != tables.load(name.replace("@3", "@4")).codes).any()
    assert bool(one.ordered) == (kind not in ("classes", "tree"))


def test_shapes_depend_as_they_say() -> None:
    def gain(name: str, a: str, b: str) -> float:
        """Total variation between a pair and its columns multiplied."""
        shares = sticks.pair(tables.load(name), a, b)
        return float(np.abs(shares - np.outer(shares.sum(1), shares.sum(0))).sum() / 2)

    assert gain("shape:alone:20000x5:few@0", "c0", "c1") < 0.03
    assert gain("shape:functional:20000x5:mixed@0", "c0", "c1") > 0.3
    assert gain("shape:factor:20000x9:mixed@0", "c0", "c8") > 0.1
    near, far = (gain("shape:chain:20000x12:mixed@1", "c0", other) for other in ("c1", "c11"))
    assert near > 2 * far
    for wrong in ("shape:nobody:9x2:few@0", "shape:chain:9x2:@0"):
        with pytest.raises(ValueError, match="is not a shape such as"):
            tables.load(wrong)
    with pytest.raises(ValueError, match="'huge' is not one of"):
        tables.load("shape:chain:9x2:huge@0")


@pytest.mark.skipif(
    tables.lacks("diabetes") is not None, reason="the comparison data is not beside this checkout"
)
def test_diabetes_is_read_through_its_schema_and_read_back() -> None:
    one = tables.load("diabetes")
    assert one.codes.shape == (101_766, 45) and one.schema.shape == tuple(one.domain.values())
    assert "num_medications" in one.ordered and not {"age", "race"} & set(one.ordered)
    few = one.schema.decode(one.codes[:200], np.random.default_rng(0))
    assert (one.like(few).codes == one.codes[:200]).all()


@pytest.mark.skipif(
    tables.lacks("adult") is not None, reason="the comparison data is not beside this checkout"
)
def test_adult_has_six_ordered_columns_and_four_fifths_of_it_are_always_the_same() -> None:
    whole, some = tables.load("adult"), tables.load("adult-4/5")
    assert len(whole.ordered) == 6 and set(whole.ordered) <= whole.domain.keys()
    assert len(some) == 39_073 and some.ordered == whole.ordered
    assert (some.codes == tables.load("adult-4/5").codes).all()


# ---------------------------------------------------------------------- grids


def test_every_suite_is_listed_and_says_what_it_measures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main(["list"])
    said = capsys.readouterr().out
    moved = (
        "accuracy dualquery learning matrix noise oraclequery oracles planning querygan rap rivals"
        " scaling sources wide"
    )
    assert (
        set(moved.split())
        <= SUITES.keys()
        == {file.stem for file in (ROOT / "bench/suites").glob("[a-z]*.py")}
    )
    for name, suite in SUITES.items():
        assert re.search(rf"^{name} +\d+ measurements  {re.escape(suite.description)}$", said, re.M)
        assert len(suite.description) > 30 and suite.description.endswith(".") and suite.views


@pytest.mark.parametrize("name", SUITES)
def test_points_of_a_suite_are_different_and_each_has_one_measure(name: str) -> None:
    points = [point for one in SUITES[name].grids for point in one.points()]
    assert points and len({point.key for point in points}) == len(points)
    for point in points:
        assert callable(SUITES[name].measure_of(point))
        assert Point(**json.loads(point.key)) == Point(**point.plain) and point.words


def test_options_of_run_change_the_axes_that_a_grid_has_and_no_others() -> None:
    one = Grid(
        measure=lambda _: [],
        data=["adult"],
        epsilon=[0.1, 1.0],
        settings=[{"rows": 1}, {"rows": 2, "k": 3}],
    )
    changed = one.asked(
        {"epsilon": [2.0], "mechanism": ["arp"], "seeds": 2, "limit": None}, {"rows": 7, "other": 1}
    )
    assert (
        changed.epsilon == [2.0]
        and changed.mechanism == ("",)
        and changed.seeds == 2
        and changed.limit == one.limit
    )
    assert changed.settings == [{"rows": 7}, {"rows": 7, "k": 3}]
    assert len(list(changed.points())) == 4


def test_builds_take_turns_seed_by_seed(tmp_path: Path) -> None:
    asked = command.arguments(
        ["run", "modes", "--only", "kdd99", "auto", "--seeds", "2", "--against", f"before={ROOT}"]
    )
    (other,) = asked.against
    assert other.sources == ROOT / "src" == Build.of(f"x={ROOT / 'src'}").sources
    found = command.points(SUITES["modes"], asked)
    turns = [(0, ""), (0, other.label), (1, ""), (1, other.label)]
    assert [(point.seed, point.build) for point in found] == turns
    assert other.label.startswith("before") and f"build {other.label}" in found[1].words
    for wrong in ("before", f"before={tmp_path}"):
        with pytest.raises(SystemExit):
            command.arguments(["run", "modes", "--against", wrong])


def test_only_takes_the_points_that_have_every_word() -> None:
    asked = command.arguments(
        ["run", "accuracy", "--only", "adult", "2-WAY", "--epsilon", "1", "--seeds", "1"]
    )
    found = command.points(SUITES["accuracy"], asked)
    assert {(point.data, point.workload, point.epsilon) for point in found} == {
        ("adult", "2-way", 1.0)
    } and len(found) == 2


def test_listing_and_help_need_nothing_beyond_the_package() -> None:
    blocked = [
        "pandas",
        "scipy",
        "matplotlib",
        "opendp",
        "ortools",
        "gurobipy",
        "sklearn",
        "polars",
        "narwhals",
        "pytest",
        "dpmm",
    ]
    script = f"""
import runpy, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
runpy.run_module("bench", run_name="__main__")
"""
    for words in (["list"], ["--help"], ["run", "--help"], ["report", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0 and "blocked" not in done.stderr, done.stderr[-500:]
        assert ("planning" if words == ["list"] else "usage: python -m bench") in done.stdout


# ---------------------------------------------------------------------- runs


class Stop(Exception):
    """Somebody stops a run."""


POINTS = [
    Point(data="invented", epsilon=float(epsilon), seed=seed)
    for epsilon in (1, 2)
    for seed in range(3)
]


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    asked: list[str] = []

    def measure(point: Point) -> list[Line]:
        if len(asked) == 4 and "stopped" not in asked:
            asked.append("stopped")
            raise Stop
        asked.append(point.key)
        return [{"max": point.seed / 10, "cpu": 1.0}]

    with pytest.raises(Stop):
        results.go_on(
            results.Session(tmp_path, "tried", "one"), POINTS, measure, say=lambda _: None
        )
    assert len(results.read(tmp_path, "tried")) == 4
    assert (
        results.go_on(
            results.Session(tmp_path, "tried", "one"), POINTS, measure, say=lambda _: None
        )
        == 2
    )
    asked.remove("stopped")
    assert asked == [point.key for point in POINTS]  # each once
    assert (
        results.go_on(
            results.Session(tmp_path, "tried", "one"), POINTS, measure, say=lambda _: None
        )
        == 0
    )
    assert (
        results.go_on(
            results.Session(tmp_path, "tried", "another"), POINTS, measure, say=lambda _: None
        )
        == 6
    )
    assert (
        results.go_on(
            results.Session(tmp_path, "tried", "one"),
            POINTS,
            measure,
            again=True,
            say=lambda _: None,
        )
        == 6
    )
    rows = results.read(tmp_path, "tried")
    # of those measured twice, the last
    assert len(rows) == 18 and len(report.of_run(rows, "one")) == 6


def test_a_failure_is_kept_and_measured_again_when_asked_to(tmp_path: Path) -> None:
    def measure(point: Point) -> list[Line]:
        return [
            {"failure": "no result within 3 CPU s", "cpu": 3.0} if point.seed == 1 else {"cpu": 1.0}
        ]

    def go_on(retry: bool) -> int:
        return results.go_on(
            results.Session(tmp_path, "tried", "one"),
            POINTS,
            measure,
            retry=retry,
            say=lambda _: None,
        )

    assert [go_on(False), go_on(False), go_on(True)] == [6, 0, 2]


def test_a_row_says_what_it_took_and_on_what_it_was_taken(tmp_path: Path) -> None:
    session = results.Session(tmp_path, "tried", "one")
    session.add(
        Point(data="invented", settings={"sizes": [2, 3]}),
        [{"max": 1, "cpu": 0.5, "peak": 0.1, "wall": 0.6}],
    )
    session.add(Point(data="invented", settings={"other": "x"}), [{"max": 0.5, "cpu": 0.5}])
    (file,) = (tmp_path / "tried").glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    facts = {
        "processor",
        "cores",
        "memory_gb",
        "system",
        "python",
        "versions",
        "commit",
        "load",
        "when",
        "run",
        "suite",
        "key",
    }
    assert facts | {"cpu", "peak", "wall", "epsilon", "seed"} <= rows[0].keys()
    assert (
        rows[0]["sizes"] == "[2, 3]"
        and rows[1]["sizes"] is None
        and [row["max"] for row in rows] == [1.0, 0.5]
    )
    assert json.loads(rows[0]["versions"]).keys() >= {"understudy", "numpy"}
    assert not list((tmp_path / "tried").glob("*.part"))


def test_one_measurement_in_a_process_of_its_own(tmp_path: Path) -> None:
    asked = command.arguments(["run", "noise", "--only", "understudy", "84.3"])
    (point,) = command.points(SUITES["noise"], asked)
    (line,) = in_a_child("noise", point, tmp_path)
    assert "failure" not in line, line
    assert 0 < float(line["cpu"] or 0) < 600 and 0.02 < float(line["peak"] or 0) < 8


def test_a_measurement_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (line,) = in_a_child("noise", Point(mechanism="nobody", settings={"sigma": "3"}), tmp_path)
    assert str(line["failure"]).startswith("stopped with status 1:") and "nobody" in str(
        line["failure"]
    )


def test_a_measurement_by_another_build_imports_that_one(tmp_path: Path) -> None:
    asked = command.arguments(["run", "noise", "--only", "understudy", "84.3"])
    (point,) = command.points(SUITES["noise"], asked)
    other = tmp_path / "src" / "understudy"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('this is the other build')")
    (line,) = in_a_child("noise", point, tmp_path, other.parent)
    assert "this is the other build" in str(line["failure"])
    (line,) = in_a_child("noise", point, tmp_path, tmp_path)  # the package is not there
    assert "not imported from the build" in str(line["failure"])


def test_a_run_from_the_command_leaves_out_what_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tables.VARIABLE, "")
    command.main(["run", "matrix", "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "left out: adult: " in said and "0 measured" in said
    with pytest.raises(SystemExit, match="There are no results of matrix; make some with"):
        command.main(["report", "matrix", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="There is no suite 'nobody'"):
        command.main(["run", "nobody"])
    with pytest.raises(SystemExit, match="No measurement of matrix is like that"):
        command.main(["run", "matrix", "--only", "nothing"])


def test_the_clock_counts_work_and_not_sleep() -> None:
    with clock() as spent:
        sum(number * number for number in range(300_000))
    assert spent.cpu > 0 and spent.peak == pytest.approx(peak_gigabytes(), rel=0.5)
    assert peak_gigabytes("Name:\tx\nVmHWM:\t 1048576 kB\nVmRSS:\t 12 kB\n") == 1.0


# ---------------------------------------------------------------------- reports

CANNED = Suite(
    name="canned",
    description="Canned.",
    grids=[],
    views=[
        View(title="errors", by=("epsilon", "mechanism"), shows={"max": ".3f"}, ratio="mechanism")
    ],
    panels=[Panel(x="cpu", y=("max",), title="largest error", mark="epsilon")],
    note="What is canned keeps.",
)


def canned(out: Path) -> list[results.Row]:
    """Two mechanisms, two epsilons, two seeds; one of them fails at one epsilon."""
    session = results.Session(out, "canned", "one")
    for epsilon, name, seed in itertools.product((0.5, 1.0), ("arp", "[fem]"), (0, 1)):
        point = Point(mechanism=name, epsilon=epsilon, seed=seed)
        failed = name == "[fem]" and epsilon == 0.5
        cpu = 3.0 if name == "arp" else 12.0
        session.add(
            point,
            [
                (
                    {"cpu": cpu, "failure": "no result within 12 CPU s"}
                    if failed
                    else {"cpu": cpu, "max": 0.1 + seed / 50}
                )
            ],
        )
    return report.of_run(results.read(out, "canned"))


def test_a_report_has_means_failures_and_ratios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = canned(tmp_path)
    heads, cells = report.lines(CANNED.views[0], rows)
    assert heads == ["epsilon", "mechanism", "runs", "largest", "CPU s", "x CPU"]
    assert cells[0] == ["0.5", "arp", "2", "0.110", "3.0", "1.00"]
    assert cells[1] == ["0.5", "[fem]", "0 of 2", "no result within 12 CPU s", "12.0", ""]
    assert cells[3] == ["1", "[fem]", "2", "0.110", "12.0", "4.00"]
    report.show(CANNED, rows, markdown=True)
    said = capsys.readouterr().out
    assert (
        "| 1 | [fem] | 2 | 0.110 | 12.0 | 4.00 |" in said
        and "What is canned keeps." in said
        and "Run one, " in said
    )
    report.show(CANNED, rows)
    assert "[fem]" in capsys.readouterr().out


def test_a_report_of_two_builds_has_ratios_with_their_scatter(tmp_path: Path) -> None:
    session = results.Session(tmp_path, "canned", "one")
    for seed, (build, scale) in itertools.product(range(3), (("", 1), ("before 1", 2))):
        point = Point(mechanism="arp", epsilon=1.0, seed=seed, build=build)
        session.add(point, [{"cpu": 4.0 / scale, "max": scale * (0.1 + seed / 50)}])
    rows = report.of_run(results.read(tmp_path, "canned"))
    heads, cells = report.lines(CANNED.views[0], rows)
    assert heads == ["epsilon", "mechanism", "build", "runs", "largest", "CPU s"]
    assert cells[0] == ["1", "arp", "this", "3", "0.120", "4.0"]
    assert cells[1] == ["1", "arp", "before 1", "3", "0.240", "2.0"]
    # each mean is known to 0.02 / 0.12 / sqrt(3)
    assert cells[2] == ["1", "arp", "this / before 1", "", "0.50 ±0.07", "2.00 ±0.00"]
    assert compare.ratio([1.0], [2.0, 3.0]) == "0.40"
    assert compare.ratio([], [1.0]) == compare.ratio([1.0], [0.0]) == ""


def behind(**errors: list[float]) -> list[list[str]]:
    view = Behind(title="behind", by=("epsilon",), errors={"max": ".2f"})
    rows = [
        {"epsilon": 1.0, "mechanism": name, "max": error}
        for name, several in errors.items()
        for error in several
    ]
    return compare.behind(view, rows)[1]


def test_those_ahead_are_listed_only_beyond_scatter() -> None:
    assert behind(auto=[1.0, 1.1, 1.2], matrix=[1.0, 1.1, 1.0]) == []
    (line,) = behind(auto=[1.4, 1.5, 1.6], matrix=[1.0, 1.1, 1.0], gaussian=[1.4, 1.6, 1.5])
    assert line[:6] == ["1", "max", "1.50", "matrix", "1.03", "1.45"]
    # Of what was measured once, a sixth is chance: two standard errors of a difference are 0.47.
    assert behind(auto=[1.4], matrix=[1.0]) == [] and len(behind(auto=[1.5], matrix=[1.0])) == 1
    # Here both scatter far more than the others do.
    steady = {f"steady {i}": [2.0, 2.0, 2.0] for i in range(20)}
    assert behind(auto=[1.0, 1.5, 2.0], matrix=[0.8, 1.2, 1.6], **steady) == []
    assert behind(auto=[2.0], nobody=[0.0]) == behind(matrix=[1.0]) == []


def test_a_figure_is_drawn_and_is_the_same_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = canned(tmp_path)
    drawn = [figures.draw(CANNED, rows, tmp_path / folder).read_bytes() for folder in "ab"]
    assert (
        drawn[0] == drawn[1]
        and b"largest error" in drawn[0].replace(b"<!-- ", b"")
        and len(drawn[0]) > 5_000
    )


# ---------------------------------------------------------------------- what pages say


def test_the_commands_that_pages_name_exist() -> None:
    seen = 0
    sources = sorted((ROOT / "src").rglob("*.py"))
    for page in [*PAGES, *sources]:
        text = page.read_text("utf-8").replace("$$suite", "SUITE")
        assert not re.search(r"-m bench\.[a-z]", text), page.name
        for words in re.findall(r"-m bench ((?:list|run|report)[^`\n#);|]*)", text):
            asked = command.arguments(
                [word.strip("'\"") for word in re.findall(r"'[^']*'|[^\s]+", words.rstrip(",. "))]
            )
            names = asked.suite if isinstance(asked.suite, list) else [asked.suite]
            assert {name for name in names if name not in (None, "SUITE")} <= SUITES.keys(), (
                page.name,
                words,
            )
            if asked.command == "run" and asked.suite != "SUITE":
                assert command.points(SUITES[asked.suite], asked), (page.name, words)
            seen += 1
    assert seen > 10
    (named,) = re.findall(r"^SUITES := (.*)", (ROOT / "Makefile").read_text(), re.M)
    assert set(named.split()) <= SUITES.keys()
