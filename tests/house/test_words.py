"""What people read: lists and helps that fit a terminal, names that are nearly right, numbers of
few digits.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.mechanisms.about import parameters_of

MECHANISMS = us.available_mechanisms()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), env={"COLUMNS": "80"})


def commands(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, with the words that call it."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


# ---------------------------------------------------------------------- the list of mechanisms


def test_mechanisms_are_one_line_each_at_80_columns_with_their_whole_names() -> None:
    lines = run("mechanisms").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    listed = lines[: lines.index("")]
    assert [line.split()[0] for line in listed] == ["auto", *MECHANISMS]
    assert all(len(line.split()) > 3 and not line.endswith(("…", "...")) for line in listed)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_says_its_parameters_defaults_and_meanings(name: str) -> None:
    kind = MECHANISMS[name]
    page = run("mechanisms", name).stdout
    assert max(map(len, page.splitlines())) <= 80
    flat = " ".join(page.split())
    assert kind.summary in flat and kind.reference in flat and "replace-one" in flat
    assert ("add-remove-one" in flat) == (len(kind.relations) == 2)
    for field, parameter in zip(dataclasses.fields(kind), parameters_of(kind), strict=True):
        assert (
            parameter.name == field.name
            and len(parameter.meaning) > 10
            and parameter.meaning in flat
        )
        assert parameter.default is not None or field.default is None
        assert f"{parameter.name}: {parameter.kind}; {parameter.usual}" in flat
        assert "`" not in parameter.meaning and "None" not in parameter.meaning
    facts = json.loads(run("mechanisms", name, "--json").stdout)
    assert [p["name"] for p in facts["parameters"]] == [f.name for f in dataclasses.fields(kind)]


def test_what_may_be_conditional_is_said_of_the_mechanisms_that_may_be() -> None:
    assert "on nothing beside the proofs" in run("mechanisms", "arp").stdout
    assert "solver's certificate" in " ".join(run("mechanisms", "oraclequery").stdout.split())
    assert "arp for all others" in " ".join(run("mechanisms", "auto").stdout.split())


@pytest.mark.parametrize(("given", "meant"), [("mwme", "mwem"), ("ARP", "arp")])
def test_a_mechanism_that_is_nearly_right_is_asked_about(given: str, meant: str) -> None:
    refused = run("mechanisms", given)
    assert refused.exit_code == 2 and f"did you mean '{meant}'?" in refused.stderr
    with pytest.raises(us.ParameterError, match=f"did you mean '{meant}'"):
        us.plan(SMALL, rows=1000, epsilon=1, mechanism=given)


def test_a_parameter_that_is_nearly_right_is_asked_about() -> None:
    with pytest.raises(us.ParameterError, match="did you mean 'rounds'"):
        us.plan(SMALL, rows=1000, epsilon=1, mechanism="mwem", parameters={"round": 3})
    with pytest.raises(us.ParameterError) as far:
        us.plan(SMALL, rows=1000, epsilon=1, mechanism="mwem", parameters={"zzz": 3})
    assert "did you mean" not in str(far.value)


# ---------------------------------------------------------------------- helps


@pytest.mark.parametrize(
    "words", [(), *(words for words, command in commands() if isinstance(command, click.Group))]
)
def test_no_summary_of_a_command_is_cut_at_80_columns(words: tuple[str, ...]) -> None:
    page = run(*words, "--help").stdout
    listed = page.partition("Commands:\n")[2].splitlines()
    assert listed and not [line for line in listed if line.endswith(("...", "…"))]
    assert all(len(line.split()) > 2 for line in listed)


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_every_help_fits_80_columns(words: tuple[str, ...]) -> None:
    page = run(*words, "--help").stdout
    assert page.startswith("Usage:") and max(map(len, page.splitlines())) <= 80


# ---------------------------------------------------------------------- answers by name


@pytest.fixture(scope="module")
def made() -> us.Release:
    return us.release(
        small_table(), schema=SMALL, epsilon=2, workload="2-way+3-way", mechanism="gaussian", seed=1
    )


def test_answers_come_in_the_order_of_columns_that_was_asked_for(made: us.Release) -> None:
    answers = made.answers()
    table = np.zeros(SMALL.shape)
    np.add.at(table, tuple(made.codes.T), 1 / len(made.codes))
    assert np.allclose(answers["c", "a"], table.sum(axis=1).T) and answers["c", "a"].shape == (2, 3)
    assert np.allclose(answers["a", "c"], table.sum(axis=1))
    assert np.allclose(answers["b", "c", "a"], table.transpose(1, 2, 0))
    assert np.allclose(answers[["c", "a"]], answers["c", "a"])


def test_a_workload_with_its_columns_turned_round_answers_in_either_order(made: us.Release) -> None:
    turned = made.answers(us.explicit(SMALL, columns=[["b", "a"]]))
    assert np.allclose(turned["a", "b"], turned["b", "a"].T) and np.allclose(
        turned["a", "b"], made.answers()["a", "b"]
    )


@pytest.mark.parametrize("names", [("a", "B"), ("a", "bb"), ("bb",)])
def test_answers_of_a_name_that_is_nearly_right(made: us.Release, names: tuple[str, ...]) -> None:
    with pytest.raises(
        us.WorkloadError,
        match=(
            r"There is no column '(B|bb)' in the schema( \(did you mean 'b'\?\))?; its columns are"
            r" a, b, c\.$"
        ),
    ):
        made.answers()[names]
    with pytest.raises(us.SchemaError, match=r"did you mean 'employment'\?"):
        us.explicit(us.Schema.from_domain({"employment": 2, "b": 2}), columns=[["employmnt"]])


@pytest.mark.parametrize("names", [("a", "a"), ("a",), ("a", 3), ("a", ["b"]), 2.5, ()])
def test_answers_that_the_workload_does_not_hold(made: us.Release, names: object) -> None:
    with pytest.raises(us.WorkloadError, match="The workload has no marginal of") as refused:
        made.answers()[names]
    assert re.search(r"rel\.answers\('\d-way'\)|named twice|no column", str(refused.value))
