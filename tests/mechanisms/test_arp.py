"""arp, gaussian, auto and plan: public rules, and figures on the comparison data when it is there."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import understudy as us
from bench import sticks, tables
from support.meters import decided
from understudy.cli.main import main
from understudy.game.fitting.rowfit import fit_rows
from understudy.game.players import rows as players
from understudy.game.players.rows import LAST_SWEEPS, MOST_FITTED, ROWS, seconds_a_row
from understudy.mechanisms.arp import (
    CANDIDATE_CELLS,
    Arp,
    closure,
    lost_pairs,
    own_tables,
    single_queries,
)
from understudy.mechanisms.base import Brief, make
from understudy.mechanisms.choose import choose
from understudy.queries.base import Neighbours
from understudy.queries.literals import Literal, at_least
from understudy.queries.ranges import Ranges

WIDE = us.Schema.from_domain(dict.fromkeys("abcdef", 30))


def brief(
    schema: us.Schema,
    workload: str | us.Workload,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
) -> Brief:
    work = us.Workload.parse(workload, schema) if isinstance(workload, str) else workload
    return Brief(schema=schema, workload=work, neighbours=neighbours)


def test_candidates_are_the_workload_and_what_lies_below_it() -> None:
    found = closure(brief(WIDE, us.explicit(WIDE, columns=[("c", "a", "b"), ("a", "d")])))
    # 27,000 cells of three columns are too many
    assert {t.positions for t in found} == {(0, 1), (0, 2), (1, 2), (0, 3)}
    assert all(t.size <= CANDIDATE_CELLS for t in found)
    assert [
        t.positions
        for t in own_tables(brief(WIDE, us.explicit(WIDE, columns=[("c", "a", "b"), ("a",)])))
    ] == [(0, 1, 2)]


def test_queries_over_few_columns_ride_on_a_marginal_and_wide_ones_are_measured_alone() -> None:
    narrow = at_least(1, Literal(0, 1), Literal(1, 2))
    wide = at_least(2, *(Literal(c, 0) for c in range(6)))
    asked = brief(WIDE, us.explicit(WIDE, queries=[narrow, wide]))
    assert [t.positions for t in own_tables(asked)] == [(0, 1)]
    (alone,) = single_queries(asked)
    assert alone.size == 1


def test_the_rule_is_public_and_looks_at_noise_and_size() -> None:
    """Rounds only where at once drowns cells of average size and leaves more noise on each table."""
    many, few = (
        brief(us.Schema.from_domain({f"c{i}": size for i in range(14)}), "2-way")
        for size in (30, 2)
    )
    some = brief(WIDE, "2-way:40@1+3-way:12@1")

    def is_adaptive(arp: Arp, asked: Brief, rho: Fraction, rows: int) -> bool:
        return bool(decided(arp, asked, rho, rows).numbers.get("adaptive"))

    arp, little = Arp(), Fraction(1, 10_000)
    assert is_adaptive(arp, many, little, 50_000)
    assert not is_adaptive(arp, some, little, 50_000)  # 30 rounds would leave as much noise
    assert not is_adaptive(arp, few, little, 50_000)  # binary tables are read together
    assert not is_adaptive(arp, many, Fraction(1, 10), 50_000)
    assert not is_adaptive(Arp(adaptive=False), many, little, 50_000)
    assert not is_adaptive(arp, brief(WIDE, "1-way"), little, 50)
    assert choose(brief(WIDE, "1-way"))[0].name == "independent" and choose(some)[0].name == "arp"


def test_pairs_are_measured_in_bins_where_a_column_is_ordered() -> None:
    domain = {"a": 60, "b": 40, "c": 3}
    ordered, plain = us.Schema.from_domain(domain, ordered=["a"]), us.Schema.from_domain(domain)

    def binned(arp: Arp, schema: us.Schema, workload: str = "2-way") -> object:
        return decided(arp, brief(schema, workload), Fraction(1, 50), 20_000).parameters["bins"]

    assert binned(Arp(), ordered) is True and binned(Arp(), plain) is False
    assert binned(Arp(bins=False), ordered) is False and binned(Arp(bins=True), plain) is True
    assert binned(Arp(), ordered, "3-way") is False and binned(Arp(), ordered, "1-way") is False
    with pytest.raises(us.ParameterError, match="arp needs bins"):
        Arp(bins="yes").check(brief(ordered, "2-way"))  # type: ignore[arg-type]


def test_with_bins_rounds_are_for_fewer_pairs_and_for_tables_of_few_long_columns() -> None:
    """A rule of its own: there the noise of a cell of average size decides, and 0.7 of the rounds'."""
    little = Fraction(1, 10_000)

    def is_adaptive(domain: dict[str, int], ordered: list[str], bins: bool | None = None) -> bool:
        asked = brief(us.Schema.from_domain(domain, ordered=ordered), "2-way")
        return bool(decided(Arp(bins=bins), asked, little, 50_000).parameters["adaptive"])

    nine = dict.fromkeys("abcdefghi", 40)
    assert is_adaptive(nine, list(nine)) and not is_adaptive(nine, [])
    assert not is_adaptive(nine, list(nine), bins=False)
    assert not is_adaptive(dict.fromkeys("abcdefg", 40), list("abcdefg"))
    # half of the pairs are binary, so that the median says nothing of the long columns
    mixed = {f"c{i}": 300 if i < 3 else 2 for i in range(20)}
    assert is_adaptive(mixed, ["c0", "c1", "c2"]) and not is_adaptive(mixed, [])


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_bins_keep_a_trend_that_fine_cells_lose_and_the_largest_cell(
    neighbours: Neighbours,
) -> None:
    rng = np.random.default_rng(3)
    x = np.minimum(rng.gamma(2.0, 12.0, 20_000), 99).astype(int)
    y = np.clip(x // 2 + rng.normal(0, 4, 20_000), 0, 49).astype(int)
    codes = np.column_stack([x, y, rng.integers(0, 4, 20_000)])
    schema = us.Schema.from_domain({"x": 100, "y": 50, "z": 4}, ordered=["x", "y"])
    kept: dict[bool, float] = {}
    for bins in (True, False):
        release = us.release(
            codes,
            schema=schema,
            epsilon=0.5,
            delta="1e-9",
            workload="2-way",
            mechanism="arp",
            parameters={"bins": bins, "high_order": 0},
            neighbours=str(neighbours),
        )
        kept[bins] = float(np.corrcoef(release.codes[:, 0], release.codes[:, 1])[0, 1])
        kinds = {m.batch.kind for m in release.measurements}
        assert ("binned" in kinds) is bins
        assert release.manifest["selections"] == (2 if bins else 0)
        spent, budget = (Fraction(release.manifest[name]["rho"]) for name in ("spent", "budget"))
        assert budget * Fraction(95, 100) < spent <= budget
    truth = float(np.corrcoef(x, y)[0, 1])
    assert truth - kept[True] < (truth - kept[False]) / 2


def test_rounds_in_bins_end_with_whole_tables() -> None:
    """Bins cut through spikes, and then no round in bins sees them."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 60, (4_000, 3))
    schema = us.Schema.from_domain(dict.fromkeys("abc", 60), ordered=["a", "b", "c"])
    release = us.release(
        codes,
        schema=schema,
        epsilon=1,
        workload="2-way",
        mechanism="arp",
        parameters={"adaptive": True, "bins": True, "rounds": 6},
    )
    kinds = [m.batch.kind for m in release.measurements if len(m.batch.columns) == 2]
    assert kinds == ["binned"] * 3 + ["marginal"] * 3


def test_few_rows_leave_more_to_single_columns() -> None:
    """Noise of a round as a share of the rows decides: beyond a bar, fewer rounds and less for
    each; never fewer than five.
    """
    asked, rho = brief(us.Schema.from_domain(dict.fromkeys("abcdef", 40)), "2-way"), Fraction(1, 50)
    paces = [
        decided(Arp(adaptive=True), asked, rho, rows).numbers for rows in (500, 1_500, 2_000, 9_000)
    ]
    firsts = [float(Fraction(pace["first"])) for pace in paces]
    rounds = [int(pace["rounds"]) for pace in paces]
    assert firsts == sorted(firsts, reverse=True) and rounds == sorted(rounds)
    assert rounds[0] == 5 and firsts[0] == pytest.approx(1 - 0.65 * 0.45)
    assert rounds[-1] == 30 and firsts[-1] == pytest.approx(0.35)


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_arp_learns_dependence_and_spends_what_it_may(
    adaptive: bool, neighbours: Neighbours
) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, (20_000, 5))
    table[:, 1] = table[:, 0]
    table[:, 3] = (table[:, 2] + (rng.random(20_000) < 0.1)) % 4
    made = us.release(
        table,
        schema=dict.fromkeys("abcde", 4),
        epsilon=1,
        delta=1e-9,
        workload="3-way",
        mechanism="arp",
        parameters={"adaptive": adaptive, "rounds": 12, "high_order": 0},
        neighbours=str(neighbours),
    )
    assert made.certificate.alpha < 0.03
    assert Fraction(made.manifest["spent"]["rho"]) > Fraction(
        made.manifest["budget"]["rho"]
    ) * Fraction(95, 100)
    assert (made.manifest["selections"] == 12) == adaptive


def test_a_pair_is_measured_by_itself_where_sums_of_wider_tables_say_little_of_it() -> None:
    schema = us.Schema.from_domain({"a": 2, "b": 3, "c": 4, "d": 100})

    def lost(*columns: str) -> set[tuple[int, ...]]:
        asked = brief(schema, us.explicit(schema, columns=[*map(tuple, columns)]))
        return {pair.positions for pair in lost_pairs(own_tables(asked))}

    assert lost("abd") == {(0, 1)}  # a hundred cells a sum; the others have two and three
    assert lost("abd", "abc") == set()  # four cells a sum say enough
    assert lost("abd", "ab") == set() and lost("ab", "cd") == set()  # asked about already
    asked = brief(schema, us.explicit(schema, columns=[("a", "b", "d")]))
    counted = [
        decided(Arp(adaptive=way), asked, Fraction(1, 50), 40_000).numbers["tables"]
        for way in (False, True)
    ]
    assert counted == [2, 4]  # in rounds, pairs are candidates as it is


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_triples_keep_a_strong_pair_that_a_long_column_spreads(neighbours: Neighbours) -> None:
    """Without a measurement of its own, heat holds the pair back by a twentieth of the rows."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (40_000, 7))
    codes[:, 1] = np.where(rng.random(40_000) < 0.05, 1 - codes[:, 0], codes[:, 0])
    codes[:, 6] = rng.integers(0, 100, 40_000)
    domain = {**dict.fromkeys("abcdef", 2), "long": 100}
    schema = us.Schema.from_domain(domain)
    triples = [(x, y, "long") for x, y in combinations("abcdef", 2)]
    release = us.release(
        codes,
        schema=schema,
        epsilon=1,
        delta="1e-9",
        workload=us.explicit(schema, columns=triples),
        mechanism="arp",
        neighbours=str(neighbours),
    )
    assert release.manifest["selections"] == 0
    gap = (release.codes[:, 0] == release.codes[:, 1]).mean() - (codes[:, 0] == codes[:, 1]).mean()
    assert abs(gap) < 0.02
    sigmas = {
        len(m.batch.positions): m.sigma
        for m in release.measurements
        if isinstance(m.batch, us.Marginal) and len(m.batch.positions) > 1
    }
    # a pair gets half of what a wide table gets
    assert float(sigmas[2]) ** 2 == pytest.approx(2 * float(sigmas[3]) ** 2, rel=0.02)
    spent, budget = (Fraction(release.manifest[name]["rho"]) for name in ("spent", "budget"))
    assert spent <= budget


def test_cells_far_below_the_noise_are_left_to_rounds() -> None:
    """Both ways leave the same noise on a table; rounds may choose narrower ones."""
    rho, rows = Fraction(14, 100_000), 50_000
    ways = {}
    for size in (10, 40):
        schema = us.Schema.from_domain(dict.fromkeys("abcdefghij", size))
        triples = list(combinations("abcdefghij", 3))[:64]
        asked = brief(schema, us.explicit(schema, columns=triples))
        ways[size] = decided(Arp(), asked, rho, rows).numbers["adaptive"]
    assert ways == {10: False, 40: True}
    # where rows are private, it could not be known beforehand that nothing will be chosen
    private = brief(schema, us.explicit(schema, columns=triples), Neighbours.ADD_REMOVE_ONE)
    decision = decided(Arp(), private, rho, rows)
    assert decision.numbers["adaptive"] is False and decision.cost.least_variance is not None


def test_pairs_of_few_values_and_little_noise_are_measured_as_residuals() -> None:
    rho = Fraction(1, 100)
    small = us.Schema.from_domain(dict.fromkeys("abcde", 5), ordered=["a"])
    long = us.Schema.from_domain({**dict.fromkeys("abcd", 5), "e": 13})

    def residuals(schema: us.Schema, rows: int, arp: Arp | None = None, **how: Any) -> bool:
        decision = decided(arp or Arp(), brief(schema, "2-way", **how), rho, rows)
        return bool(decision.parameters["residuals"])

    assert residuals(small, 20_000)
    assert not residuals(small, 300)  # noise of the size of a cell
    assert not residuals(long, 20_000)
    # the manifest's parameters lead to the same again
    decision = decided(Arp(), brief(small, "2-way"), rho, 20_000)
    shares = {
        name: Fraction(str(decision.parameters[name]))
        for name in ("first", "selecting", "high_order")
    }
    again = decided(
        Arp(**decision.parameters | shares),
        brief(small, "2-way"),
        rho,
        20_000,
    )
    assert decision.parameters == again.parameters and decision.numbers == again.numbers
    one = us.Schema.from_domain({"a": 1, "b": 1})  # nothing to tell apart, no residual either
    assert not residuals(one, 20_000)
    assert not residuals(small, 20_000, Arp(adaptive=False))
    assert residuals(long, 300, Arp(residuals=True))
    assert not residuals(small, 20_000, Arp(residuals=False))
    with pytest.raises(us.ParameterError, match="leave out adaptive and bins, or residuals"):
        Arp(residuals=True, bins=True).check(brief(small, "2-way"))
    assert not residuals(small, 20_000, neighbours=Neighbours.ADD_REMOVE_ONE)


def test_small_tables_need_no_bins() -> None:
    schema = us.Schema.from_domain({"a": 10, "b": 9, "c": 20}, ordered=["a", "b", "c"])
    asked = brief(schema, "2-way")
    bins = [decided(Arp(), asked, Fraction(1, 50), rows).numbers["bins"] for rows in (20_000, 500)]
    assert bins == [False, True]


def test_ranges_alone_are_served_by_matrix_as_far_as_it_can() -> None:
    schema = us.Schema.from_domain({"age": 90, "pay": 200, "sex": 2}, ordered=["age", "pay"])

    def name(text: str, of: us.Schema = schema) -> str:
        return choose(brief(of, us.Workload.parse(text, of)))[0].name

    assert name("prefixes:age") == name("prefixes:age,pay") == "matrix"
    assert name("1-way") == "independent" and name("2-way+prefixes:age") == "arp"
    wide = us.Schema.from_domain({"a": 5_000, "b": 5_000, "c": 2}, ordered=["a", "b"])
    asked = us.Workload(wide, [Ranges((0, 1), (((0, 9), (0, 9)),))])
    assert choose(brief(wide, asked))[0].name == "arp"  # too many cells to measure whole


@pytest.mark.parametrize(
    "bad", [{"rounds": 0}, {"rounds": True}, {"first": 1.5}, {"selecting": 0}, {"first": "half"}]
)
def test_arp_refuses_bad_parameters(bad: dict[str, object]) -> None:
    with pytest.raises(us.ParameterError, match="arp needs"):
        us.release(
            np.zeros((50, 2), int),
            schema={"a": 2, "b": 2},
            epsilon=1,
            mechanism="arp",
            parameters=bad,
        )


# ---------------------------------------------------------------------- plan


def test_plan_needs_no_data_and_warns() -> None:
    good = us.plan(WIDE, rows=100_000, epsilon=1, workload="2-way")
    assert (
        good.mechanism == "arp"
        and not good.warnings
        and good.noise is not None
        and 0 < good.noise < 0.01
    )
    poor = us.plan(WIDE, rows=200, epsilon=0.05, workload="3-way")
    assert any("mostly noise" in warning for warning in poor.warnings) and any(
        "few" in warning for warning in poor.warnings
    )
    unknown = us.plan(WIDE, rows=1000, epsilon=1, mechanism="independent")
    assert unknown.noise is None and "certificate" in unknown.warnings[0]
    with pytest.raises(us.ParameterError, match="rows must be"):
        us.plan(WIDE, rows=0, epsilon=1)


@pytest.mark.parametrize("mechanism", ["arp", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.2, 2])
def test_plan_foretells_the_noise_of_the_release(epsilon: float, mechanism: str) -> None:
    schema = us.Schema.from_domain(dict.fromkeys("abcdefgh", 14))
    table = np.random.default_rng(0).integers(0, 14, (3000, 8))
    foretold = us.plan(schema, rows=3000, epsilon=epsilon, workload="2-way", mechanism=mechanism)
    made = us.release(table, schema=schema, epsilon=epsilon, workload="2-way", mechanism=mechanism)
    sigma = max(
        float(m.sigma)
        for m in made.measurements
        if isinstance(m.batch, us.Marginal) and len(m.batch.positions) == 2
    )
    assert foretold.noise is not None and foretold.noise == pytest.approx(sigma / 3000, rel=0.02)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_plan_has_the_error_bars_of_the_matrix_mechanism_and_they_beat_equal_shares(
    neighbours: Neighbours,
) -> None:
    how = {"rows": 50_000, "epsilon": 1, "delta": Fraction(1, 50_000**2), "workload": "3-way"}
    how["neighbours"] = str(neighbours)
    planned, plain = (
        us.plan(dict.fromkeys("abcde", 6), mechanism=name, **how) for name in ("matrix", "gaussian")
    )
    assert planned.noise is not None and plain.noise is not None
    assert 0.3 * plain.noise < planned.noise < plain.noise


FITTED = [
    ("arp", "2-way", {"adaptive": False, "high_order": 0}),
    ("arp", "3-way:8@1", {"adaptive": False, "high_order": 0}),
    ("arp", "2-way", {"adaptive": True, "rounds": 12, "high_order": 0}),
    ("gaussian", "3-way:8@1", {}),
    ("matrix", "2-way", {}),
]


@pytest.mark.parametrize(("mechanism", "workload", "parameters"), FITTED)
def test_plan_foretells_how_much_the_rows_are_moved(
    mechanism: str, workload: str, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the estimate of CPU time is made of: visits of a cell by a table, not seconds."""
    visited = []

    def fit(
        rows: np.ndarray,
        shape: Any,
        people: float,
        targets: Any,
        *,
        sweeps: int,
        columns: Any = None,
        **how: Any,
    ) -> int:
        moved = set(range(len(shape)) if columns is None else columns)
        share = [
            (t.positions, t.shape, len(moved & set(t.positions)) / len(t.positions))
            for t in targets
        ]
        visited.append(
            len(rows)
            * sweeps
            * sum(batch * seconds_a_row([us.Marginal(*table)]) for *table, batch in share)
        )
        return fit_rows(rows, shape, people, targets, sweeps=sweeps, columns=columns, **how)

    monkeypatch.setattr(players, "fit_rows", fit)
    schema = us.Schema.from_domain(dict.fromkeys("abcdefgh", 5))
    table = np.random.default_rng(0).integers(0, 5, (3000, 8))
    asked = brief(schema, workload)
    outlook = decided(make(mechanism, parameters), asked, Fraction(1, 10), 3000).outlook
    us.release(
        table,
        schema=schema,
        epsilon=1,
        workload=asked.workload,
        mechanism=mechanism,
        parameters=parameters,
    )
    assert outlook is not None
    foretold = outlook.sweep * (outlook.sweeps * ROWS + LAST_SWEEPS * 3000)
    assert 0.5 < foretold / sum(visited) < 2


def test_rows_that_are_repeated_take_memory_and_hardly_any_time() -> None:
    schema = dict.fromkeys("abcdefgh", 5)
    some, many = (us.plan(schema, rows=rows, epsilon=1) for rows in (MOST_FITTED, 50 * MOST_FITTED))
    assert (
        some.seconds is not None and many.seconds is not None and many.seconds < 20 * some.seconds
    )
    assert some.memory is not None and many.memory is not None
    # a code and a number for each released cell
    assert many.memory - some.memory > 49 * MOST_FITTED * len(schema) * 8


def test_released_text_takes_room_for_its_letters() -> None:
    short, long = (
        us.Schema.from_dict(
            {
                "fields": [
                    {"name": "a", "type": "string", "constraints": {"enum": [w + x for x in "bcd"]}}
                ]
            }
        )
        for w in ("a", "a" * 100)
    )
    lean, fat = (
        us.plan(s, rows=1_000_000, epsilon=1, mechanism="gaussian").memory for s in (short, long)
    )
    assert lean is not None and fat is not None and fat - lean > 60_000_000


def test_in_rounds_plan_expects_errors_where_nothing_is_measured() -> None:
    rounds, at_once = (
        us.plan(
            WIDE,
            rows=50_000,
            epsilon=1,
            workload="2-way",
            mechanism="arp",
            parameters={"adaptive": adaptive},
        )
        for adaptive in (True, False)
    )
    assert (
        rounds.largest_error is not None
        and rounds.noise is not None
        and rounds.largest_error > 3 * rounds.noise + 0.004
    )
    assert at_once.largest_error is not None and at_once.noise is not None
    assert at_once.largest_error == pytest.approx(3 * at_once.noise)


def test_long_columns_get_less_noise_and_all_of_them_together_no_more_than_their_share() -> None:
    schema = us.Schema.from_domain({"a": 2, "b": 100, "c": 2_000, "d": 1_000})
    made = us.release(
        np.zeros((2000, 4), int),
        schema=schema,
        epsilon=1,
        workload=us.explicit(schema, columns=[("a", "b")]),
        mechanism="arp",
    )
    ones = {
        m.batch.positions[0]: Fraction(m.sigma)
        for m in made.measurements
        if isinstance(m.batch, us.Marginal) and len(m.batch.positions) == 1
    }
    assert ones[0] > ones[1] > ones[3]
    # longer than a thousand values earns nothing more
    assert float(ones[2]) == pytest.approx(float(ones[3]), rel=1e-3)
    spent = sum(1 / sigma**2 for sigma in ones.values())  # replace-one: rho = 2 / (2 sigma^2)
    assert spent <= Fraction(made.manifest["budget"]["rho"]) * Fraction(95, 100) * Fraction(12, 100)


def test_plan_on_the_command_line(tmp_path: object) -> None:
    path = tmp_path / "domain.json"  # type: ignore[operator]
    path.write_text(json.dumps({"a": 4, "b": 5, "c": 200}))
    arguments = [
        "plan",
        "--schema",
        str(path),
        "--rows",
        "5000",
        "--epsilon",
        "0.1",
        "--workload",
        "3-way",
    ]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0 and "arp" in shown.output and "largest error" in shown.output
    plain = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)
    assert plain["mechanism"] == "arp" and plain["queries"] == 4000 and plain["rho"] > 0
    assert CliRunner().invoke(main, [*arguments, "--delta", "2"]).exit_code == 2


# ---------------------------------------------------------------------- figures


@pytest.mark.skipif(
    tables.lacks("adult") is not None, reason="the comparison data is not beside this checkout"
)
@pytest.mark.parametrize(("epsilon", "largest", "mean"), [(0.1, 0.06, 8.8e-6), (1, 0.008, 3.5e-6)])
def test_adult_64_three_way(epsilon: float, largest: float, mean: float) -> None:
    """One run each, against getting worse: the bounds lie above what the suite accuracy measures,
    not at what is aimed for, and five times its scatter away from it.
    """
    adult = tables.load("adult")
    work = sticks.marginals(adult, "3-way:64@0")
    made = us.release(
        adult.table,
        schema=adult.schema,
        workload=us.explicit(adult.schema, columns=work),
        epsilon=epsilon,
    )
    errors = sticks.cells(adult, adult.like(made.synthetic), work)
    assert made.manifest["mechanism"]["name"] == "arp"
    assert errors["max"] < largest and errors["mean"] < mean
