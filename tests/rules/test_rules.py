"""Classes of rules: what they say, what tells them apart, their integer programs, and counting them
all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from understudy.errors import NotSupported, ParameterError
from understudy.oracles import child
from understudy.privacy.learners import Points, Rule, Tilted, certified, is_small
from understudy.rules.base import RuleClass
from understudy.rules.certifiers import Counted, Cpsat, Listing
from understudy.rules.classes import rule_class
from understudy.rules.conjunctions import Conjunctions, Disjunctions
from understudy.rules.counting import counting_of, patterns, small_class
from understudy.rules.halfspaces import Halfspaces
from understudy.rules.lists import DecisionLists
from understudy.rules.parities import Parities

KINDS: list[type[RuleClass]] = [Conjunctions, Disjunctions, Parities, Halfspaces, DecisionLists]


def classes(attributes: int, widths: tuple[int | None, ...]) -> Iterator[RuleClass]:
    for kind, signed, width in itertools.product(KINDS, (False, True), widths):
        extra = {"bias": 2} if kind is Halfspaces else {}
        yield kind(attributes=attributes, signed=signed, width=width, **extra)


def cube(d: int) -> np.ndarray:
    return np.asarray(list(itertools.product((0, 1), repeat=d)), np.uint8)


def lifted_cube(of: RuleClass) -> np.ndarray:
    """Every point of the lifted space that a rule is defined on; whole weights for halfspaces."""
    values = (-1, 0, 1) if isinstance(of, Halfspaces) else (0, 1)
    return np.asarray(list(itertools.product(values, repeat=of.lifted)), np.int8)


@pytest.mark.parametrize("of", list(classes(2, (None, 1, 2))), ids=str)
def test_separators_tell_any_two_rules_apart_that_differ_anywhere(of: RuleClass) -> None:
    everywhere, marks = lifted_cube(of), of.separators()
    seen: dict[bytes, bytes] = {}
    for rule in of.rules():
        said = of.values(rule, everywhere).tobytes()
        # the same on the separators: the same everywhere
        assert seen.setdefault(of.values(rule, marks).tobytes(), said) == said
        found = of.rule_of(of.values(rule, marks))
        assert of.values(found, everywhere).tobytes() == said
    assert len(seen) == len(set(seen.values()))


@pytest.mark.parametrize("of", list(classes(3, (None,))), ids=str)
def test_the_only_form_of_a_rule_depends_on_what_it_says_alone(of: RuleClass) -> None:
    marks, forms = of.separators(), dict[bytes, Rule]()
    for rule in of.rules():
        said = of.values(rule, marks)
        assert forms.setdefault(said.tobytes(), of.rule_of(said)) == of.rule_of(said)


def test_no_separator_fewer_would_do_for_conjunctions() -> None:
    of = Conjunctions(attributes=2)
    for left_out in range(of.lifted):
        marks = np.delete(of.separators(), left_out, axis=0)
        assert len({of.values(rule, marks).tobytes() for rule in of.rules()}) < sum(
            1 for _ in of.rules()
        )


@pytest.mark.parametrize("of", [*classes(2, (1, 2)), *classes(3, (2,))], ids=str)
def test_of_two_rules_each_has_a_feature_that_the_other_lacks(of: RuleClass) -> None:
    features = {rule: of.features_of(rule) for rule in of.rules()}
    for found in features.values():
        assert len(found) == len(set(found)) == of.slots and all(
            0 <= f < of.features for f in found
        )
    for one, other in itertools.permutations(features.values(), 2):
        assert set(one) - set(other)


@pytest.mark.parametrize("of", list(classes(3, (None,))), ids=str)
def test_dual_separators_tell_any_two_points_apart(of: RuleClass) -> None:
    points = cube(of.attributes)
    said = np.stack([of.predict(rule, points) for rule in of.dual_separators()], axis=1)
    assert len(np.unique(said, axis=0)) == len(points)
    assert all(of.contains(rule) for rule in of.dual_separators())


@pytest.mark.parametrize("of", list(classes(2, (None, 1))), ids=str)
def test_a_class_contains_its_rules_and_nothing_else(of: RuleClass) -> None:
    rules = list(of.rules())
    assert len(set(rules)) == len(rules) and all(of.contains(rule) for rule in rules)
    longest = max(len(rule) for rule in rules) + 1
    numbers = range(max(max(rule, default=0) for rule in rules) + 2)
    candidates = (
        c for size in range(min(longest, 4) + 1) for c in itertools.product(numbers, repeat=size)
    )
    assert {c for c in candidates if c and of.contains(c)} <= set(rules)
    for rule in rules:
        nearby = [other for other in of.nearby(rule) if of.contains(other)]
        assert set(nearby) <= set(rules) and (nearby or len(rules) == 1)


@pytest.mark.parametrize("of", list(classes(3, (None, 2))), ids=str)
def test_counting_lists_every_function_once_at_its_cost(of: RuleClass) -> None:
    points = Points(cube(3), np.random.default_rng(0).integers(-50, 50, 8))
    counting = counting_of(of)
    costs, seen = counting.costs(points), set()
    assert len(costs) == counting.size and costs.dtype == np.int64
    for i, cost in enumerate(costs):
        said = of.predict(counting.rule(i), points.bits)
        assert points.cost[said].sum() == cost
        seen.add(said.tobytes())
    assert len(seen) == counting.size
    assert seen == {of.predict(rule, points.bits).tobytes() for rule in of.rules()}


def test_counting_a_wide_class_agrees_with_looking_at_rows() -> None:
    rng = np.random.default_rng(1)
    points = Points(
        np.unique(rng.integers(0, 2, (400, 12), np.uint8), axis=0), np.zeros(0, np.int64)
    )
    points = Points(points.bits, rng.integers(-9, 9, len(points.bits)))
    for of in (
        Conjunctions(attributes=12, width=3),
        Halfspaces(attributes=12, width=3),
        DecisionLists(attributes=12, width=2),
        Parities(attributes=12),
    ):
        counting = counting_of(of)
        costs = counting.costs(points)
        for i in rng.integers(0, counting.size, 50).tolist():
            assert points.cost[of.predict(counting.rule(i), points.bits)].sum() == costs[i]


def test_classes_that_are_too_many_are_refused_in_a_sentence() -> None:
    for of in (
        Conjunctions(attributes=30),
        Parities(attributes=30),
        Halfspaces(attributes=40, width=6),
        DecisionLists(attributes=10),
    ):
        with pytest.raises(NotSupported, match=r"smaller width|fewer attributes"):
            counting_of(of)


def test_bad_classes_are_refused_in_a_sentence() -> None:
    for parameters in (
        {"attributes": 0},
        {"attributes": 3, "width": 0},
        {"attributes": 3, "signed": 2},
        {"attributes": True},
        {"attributes": 3, "depth": 1},
    ):
        with pytest.raises(ParameterError):
            rule_class("conjunctions", **parameters)
    with pytest.raises(ParameterError, match="there are conjunctions"):
        rule_class("trees", attributes=2)
    with pytest.raises(ParameterError, match="bias"):
        rule_class("halfspaces", attributes=2, bias=-1)
    with pytest.raises(ParameterError, match="width"):
        _ = Conjunctions(attributes=2).slots


# ---------------------------------------------------------------------- integer programs


def tilted(of: RuleClass, seed: int, *, features: bool) -> Tilted:
    rng = np.random.default_rng(seed)
    lifted, cost = of.lift(cube(of.attributes)), rng.integers(-30, 30, 2**of.attributes)
    if features:
        return Tilted(of, lifted, cost, rng.geometric(0.1, of.features).astype(np.int64))
    marks = of.separators()
    return Tilted(
        of,
        np.concatenate([lifted, marks]),
        np.concatenate([cost, rng.integers(-20, 20, len(marks))]),
    )


def solved_here(problem: Tilted) -> tuple[Rule, int]:
    """CP-SAT on the program, in this process: (rule, least cost)."""
    program = problem.rules.program(problem.lifted, problem.cost, problem.bonus)
    settings = {
        "work": np.float64(60),
        "wall": np.float64(600),
        "seed": np.int64(0),
        "hint": np.zeros(0, np.int64),
    }
    answer = child.solve_cpsat({**program.arrays(), **settings})
    assert answer["status"] == child.OPTIMAL
    return problem.rules.rule_from(answer["x"]), -round(answer["bound"]) - program.constant


@pytest.mark.parametrize("of", [*classes(2, (None, 1)), *classes(3, (2, None))], ids=str)
def test_the_integer_program_has_the_optimum_of_the_class(of: RuleClass) -> None:
    pytest.importorskip("ortools")
    for seed, features in itertools.product(range(3), (False, True)):
        if features and of.width is None:
            continue
        problem = tilted(of, seed, features=features)
        rule, least = solved_here(problem)
        best = Listing().solve(problem)
        assert best is not None and of.contains(rule) and problem.value(rule) == least == best.bound


def test_the_real_solver_in_its_own_process_certifies() -> None:
    pytest.importorskip("ortools")
    of = Conjunctions(attributes=3)
    problem = tilted(of, 0, features=False)
    solved, listed = Cpsat().solve(problem), Listing().solve(problem)
    assert (
        solved is not None
        and listed is not None
        and solved.bound == listed.bound
        and certified(problem, solved, 0)
    )


@pytest.mark.parametrize(
    "of",
    [c for c in classes(3, (None,)) if isinstance(c, (Conjunctions, Disjunctions, Parities))],
    ids=str,
)
def test_counting_certifies_what_listing_finds(of: RuleClass) -> None:
    for seed in range(20):
        problem = tilted(of, seed, features=False)
        counted, listed = Counted().solve(problem), Listing().solve(problem)
        assert (
            counted is not None
            and listed is not None
            and counted.bound == listed.bound
            and certified(problem, counted, 0)
        )


def test_counting_certifies_wide_classes_and_refuses_what_it_cannot_count() -> None:
    rng = np.random.default_rng(0)
    of = Parities(attributes=17)
    bits = rng.integers(0, 2, (300, 17), np.uint8)
    problem = Tilted(
        of, np.concatenate([of.lift(bits), of.separators()]), rng.integers(-50, 50, 300 + of.lifted)
    )
    assert certified(problem, Counted().solve(problem), 0)
    for refused in (
        Parities(attributes=30),
        Conjunctions(attributes=12),
        Conjunctions(attributes=5, width=2),
        Halfspaces(attributes=3),
    ):
        with pytest.raises(NotSupported, match="cpsat"):
            Counted().check(refused)


def test_listing_is_for_small_classes() -> None:
    assert is_small(Conjunctions(attributes=6)) and not is_small(Conjunctions(attributes=7))
    with pytest.raises(NotSupported, match="listed"):
        Listing().check(Conjunctions(attributes=7))


def test_patterns_depend_on_all_their_attributes() -> None:
    tables, rules = patterns(small_class(Halfspaces(attributes=9), 2), 2)
    assert len(tables) == len(rules) == len({t.tobytes() for t in tables})
    for table in tables.reshape(-1, 2, 2):
        assert (table[0] != table[1]).any() and (table[:, 0] != table[:, 1]).any()
