"""A request is checked in one place: whoever asks for the same wrong thing hears the same sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from click.testing import CliRunner

import understudy as us
from understudy.api.request import Request, for_certificate, for_play, means_of, reservation
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.errors import InputError
from understudy.learning.learn import learn
from understudy.mechanisms.base import Brief, Decision, Means, available_mechanisms
from understudy.mechanisms.independent import Independent
from understudy.privacy import Budget, FileLedger
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.base import Neighbours

SOUND: dict[str, Any] = {"schema": {"a": 3, "b": 4, "c": 2}, "epsilon": 1}
ADD = {"neighbours": "add-remove-one", "delta": "1e-6"}
# What is wrong with each is known before a table is opened.
BAD: dict[str, dict[str, Any]] = {
    "no schema": {"schema": 3},
    "an empty schema": {"schema": {}},
    "a column of no values": {"schema": {"a": 0}},
    "a schema file that is not there": {"schema": "nowhere.json"},
    "no epsilon": {"epsilon": 0},
    "a huge epsilon": {"epsilon": 10**4},
    "a word for epsilon": {"epsilon": "much"},
    "a comma in epsilon": {"epsilon": "0,5"},
    "a delta of nothing": {"delta": 0},
    "a delta of one": {"delta": 1},
    "a word for delta": {"delta": "tiny"},
    "another relation": {"neighbours": "friends"},
    "no delta where n is private": {"neighbours": "add-remove-one"},
    "a workload of too many columns": {"workload": "9-way"},
    "a workload nobody reads": {"workload": "everything"},
    "another mechanism": {"mechanism": "magic"},
    "parameters of auto": {"parameters": {"rounds": 3}},
    "a parameter it has not": {"mechanism": "mwem", "parameters": {"steps": 3}},
    "a parameter out of range": {"mechanism": "mwem", "parameters": {"rounds": 0}},
    "a parameter of another kind": {"mechanism": "mwem", "parameters": {"rounds": "many"}},
    "a share of more than all": {"mechanism": "arp", "parameters": {"first": 2}},
    "an oracle nobody knows": {"mechanism": "fem", "parameters": {"oracle": "delphi"}},
    "two that exclude each other": {
        "mechanism": "dualquery",
        "parameters": {"rounds": 5, "step": 1},
    },
    "dqrs under another relation": {"mechanism": "dqrs", **ADD},
    "a solver under another relation": {
        "mechanism": "oraclequery", "parameters": {"learner": "rspm"}, **ADD,
    },
    "a domain that is too large": {
        "schema": {"a": 3000, "b": 3000}, "workload": "1-way", "mechanism": "mwem",
    },
    "a table that nobody can number": {
        "schema": {f"c{i}": 10 for i in range(20)}, "workload": "20-way",
    },
}  # fmt: skip
# Wrong for so many rows: a release has to count them first.
FOR_600 = {
    "a delta above 1/n": {"delta": 0.5},
    "a step that takes for ever": {"mechanism": "dualquery", "parameters": {"step": 1e-6}},
    "rounds that cost too much": {
        "mechanism": "dqrs",
        "parameters": {"rounds": 1000, "step": 1, "samples": 50},
    },
    "a promise that prsma cannot keep": {
        "mechanism": "oraclequery",
        "parameters": {"learner": "prsma"},
    },
}
# What a rule is asked for, too.
SHARED = [
    "no schema", "an empty schema", "a column of no values", "a schema file that is not there", "no epsilon",
    "a huge epsilon", "a word for epsilon", "a comma in epsilon",
]  # fmt: skip


class Unopened:
    """A table that nobody may open."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the table was opened")


def sentence(call: Any, *args: Any, **asked: Any) -> str:
    with pytest.raises(InputError) as caught:
        call(*args, **asked)
    return str(caught.value)


def planned(rows: int = 600, **asked: Any) -> us.Plan:
    return us.plan(asked.pop("schema"), rows=rows, **asked)


def said(words: list[str]) -> str:
    """What a command says, on one line."""
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def options(asked: dict[str, Any], place: Path) -> list[str] | None:
    """A request on the command line; None if it cannot be said there."""
    given = dict(asked)
    schema = given.pop("schema")
    if isinstance(schema, dict):
        (place / "schema.json").write_text(json.dumps(schema))
        schema = str(place / "schema.json")
    if not isinstance(schema, str):
        return None
    words = ["--schema", schema]
    for name, value in given.pop("parameters", {}).items():
        words += ["--set", f"{name}={value}"]
    for name, value in given.items():
        words += [f"--{name}", str(value)]
    return words


@pytest.mark.parametrize("what", BAD)
def test_what_a_release_refuses_a_plan_and_both_commands_refuse_in_the_same_words(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {**SOUND, **BAD[what]}
    refused = sentence(us.release, Unopened(), **asked)
    assert sentence(planned, **asked) == refused
    if what in SHARED:
        own = {name: asked[name] for name in ("schema", "epsilon")}
        assert sentence(learn, Unopened(), label="c", **own) == refused
    words = options(asked, tmp_path)
    if words is not None:
        (tmp_path / "t.csv").write_text("a,b,c\n0,0,0\n")
        by_release = said(["release", "t.csv", *words, "--out", "out"])
        by_plan = said(["plan", "--rows", "600", *words])
        assert by_release == by_plan
        if isinstance(asked["schema"], dict) and asked["schema"]:
            assert " ".join(refused.split()) in by_plan or what == "a column of no values"


@pytest.mark.parametrize("what", FOR_600)
def test_what_a_release_refuses_once_rows_are_counted_a_plan_for_as_many_refuses_too(
    what: str, tmp_path: Path
) -> None:
    asked = {**SOUND, **FOR_600[what]}
    refused = sentence(us.release, small_table(), **asked)
    assert sentence(planned, **asked) == refused
    words = options(asked, tmp_path)
    assert words is not None
    pd.DataFrame(small_table(), columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    by_release = said(["release", str(tmp_path / "t.csv"), *words, "--out", str(tmp_path / "out")])
    # the rows were counted, which is told as it happens
    assert by_release.endswith(said(["plan", "--rows", "600", *words]))
    assert not list(tmp_path.glob("*.ledger.jsonl")), "nothing was charged"


ONLY_A_RELEASE: dict[str, dict[str, Any]] = {
    "no rows": {"rows": 0},
    "a part of a row": {"rows": 2.5},
    "more rows than cells allow": {"rows": 10**9},
    "a seed below 0": {"seed": -1},
    "a word for a seed": {"seed": "x"},
    "a ledger that is none": {"ledger": 5},
    "a folder that is none": {"out": 5},
}


@pytest.mark.parametrize("what", ONLY_A_RELEASE)
def test_what_only_a_release_is_asked_for_is_refused_before_the_table_is_opened(what: str) -> None:
    assert sentence(us.release, Unopened(), **SOUND, **ONLY_A_RELEASE[what])
    assert sentence(Request.of, **SOUND, **ONLY_A_RELEASE[what])


def test_a_ledger_that_is_none_is_refused_to_a_learner_in_the_same_words() -> None:
    asked = {**SOUND, "ledger": 5}
    refused = sentence(us.release, Unopened(), **asked)
    assert sentence(learn, Unopened(), label="c", **asked) == refused


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", list(available_mechanisms()))
def test_a_plan_says_what_a_mechanism_will_do(name: str, neighbours: Neighbours) -> None:
    if neighbours not in available_mechanisms()[name].relations:
        pytest.skip("not proved private for these")
    asked = {**SOUND, "delta": "1e-6", "mechanism": name, "neighbours": str(neighbours)}
    made = planned(**asked)
    assert made.how and None not in made.parameters.values()
    assert json.loads(json.dumps(dict(made.parameters))) == made.parameters


def test_what_is_reserved_for_a_private_number_of_rows_is_all_of_the_promise() -> None:
    """The number is bought from it, and what it costs is known before; the play has the rest."""
    budget, rho = Budget.zcdp(1), Fraction(9, 10)
    request = Request.of(
        schema=SMALL, epsilon=1, neighbours="add-remove-one", delta="1e-6", mechanism="mwem"
    )
    means = means_of(Neighbours.ADD_REMOVE_ONE, budget, rho, None)
    assert 0.97 * rho < means.rho < 0.99 * rho and means.rows_sigma > 0
    decision = request.mechanism.decide(request.brief, means)
    assert decision.cost == Cost(means.rho) and reservation(decision, rho) == Cost(rho)
    asked = {"epsilon": 1, "neighbours": "add-remove-one", "delta": "1e-6", "accountant": "rho"}
    made = us.release(small_table(), schema=SMALL, seed=1, **asked)  # type: ignore[arg-type]
    planned_sigma = request.decide(600).means.rows_sigma
    assert Fraction(made.manifest["rows"]["sigma"]) == planned_sigma


# ---------------------------------------------------------------------- mechanisms of somebody else


class Equal(Means):
    """Says that it is whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def richer(means: Means) -> Budget:
    return Budget.of(epsilon=50, delta=means.budget.delta)


def with_another_budget(decision: Decision) -> Decision:
    """Nothing of its own for the play, so that only the certificate's share grows."""
    means = decision.means
    large = replace(means, budget=richer(means), rho=richer(means).rho - Fraction(1, 10**6))
    return replace(decision, means=large, cost=Cost())


def with_more_of_it(decision: Decision) -> Decision:
    means = replace(decision.means, rho=2 * decision.means.rho)
    return replace(decision, means=means, cost=Cost(means.rho))


def with_other_rows(decision: Decision) -> Decision:
    return replace(decision, means=replace(decision.means, rows=decision.means.rows + 1))


def with_another_brief(decision: Decision) -> Decision:
    first = us.marginals(decision.brief.schema, k=1)
    return replace(decision, brief=replace(decision.brief, workload=first))


def as_another_kind(decision: Decision) -> Decision:
    class Own(Decision):
        pass

    return Own(**vars(decision))


def below_0(decision: Decision) -> Decision:
    certify = for_certificate(decision.means.budget)
    return replace(decision, cost=Cost(Fraction(1, 10**9) - certify))


def with_a_bound_below_0(decision: Decision) -> Decision:
    return replace(decision, cost=Cost(6 * decision.means.rho, curve_rho=-5 * decision.means.rho))


WAYWARD: dict[Callable[[Decision], Decision], str] = {
    with_another_budget: "other means than it was given",
    with_more_of_it: "other means than it was given",
    with_other_rows: "other means than it was given",
    with_another_brief: "another brief",
    as_another_kind: "returns a Decision",
    below_0: "below 0",
    with_a_bound_below_0: "below 0",
}


def wayward(change: Callable[[Decision], Decision], when: str = "always") -> Independent:
    """A mechanism that changes its decisions: always, or only with the number of rows known."""

    @dataclass(frozen=True, kw_only=True)
    class Wayward(Independent):
        """Decides on something else than it was asked."""

        name: ClassVar[str] = "wayward"
        can_be_gaussian: ClassVar[bool] = False

        def decide(self, brief: Brief, means: Means) -> Decision:
            decision = super().decide(brief, means)
            return change(decision) if when == "always" or means.rows > 1 else decision

    return Wayward()


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("change", WAYWARD)
def test_a_decision_on_anything_but_the_request_is_refused_before_a_charge(
    change: Callable[[Decision], Decision], neighbours: Neighbours, tmp_path: Path
) -> None:
    """What is reserved follows from the means: larger ones made the play's part negative, and the
    ledger was charged next to nothing for an exact certificate.
    """
    asked = {**SOUND, "delta": "1e-6", "neighbours": str(neighbours), "mechanism": wayward(change)}
    refused = sentence(us.release, small_table(), ledger=tmp_path / "l", **asked)
    assert WAYWARD[change] in refused and "wayward" in refused
    assert sentence(planned, **asked) == refused
    assert not (tmp_path / "l").exists(), "nothing was charged"


@pytest.mark.parametrize("change", WAYWARD)
def test_a_decision_with_the_released_number_is_held_to_the_same(
    change: Callable[[Decision], Decision], tmp_path: Path
) -> None:
    asked = {**SOUND, **ADD, "mechanism": wayward(change, "later")}
    with pytest.raises(us.ReleaseFailed, match=WAYWARD[change]):
        us.release(small_table(), ledger=tmp_path / "l", **asked)
    spent = FileLedger(tmp_path / "l").read().spent
    assert spent == Cost(Budget.of(epsilon=1, delta="1e-6").rho), "as for any other release"


def test_means_that_claim_to_be_the_requests_are_not_carried_on() -> None:
    def disguised(decision: Decision) -> Decision:
        means = decision.means
        return replace(
            decision, means=Equal(budget=richer(means), rho=richer(means).rho, rows=means.rows)
        )

    decision = Request.of(**SOUND, delta="1e-6", mechanism=wayward(disguised)).decide(600)
    budget = Budget.of(epsilon=1, delta="1e-6")
    assert type(decision.means) is Means
    assert decision.means.budget == budget and decision.means.rho == for_play(budget)
