"""Beyond the tables of a workload: parities that no small table shows, and a label."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import understudy as us
from support.bundles import unsound
from understudy.cli.main import main
from understudy.game.players.high_order import WorstParities
from understudy.queries.base import Neighbours

ROWS, BITS = 30_000, 9
SCHEMA = us.Schema.from_domain({**{f"x{i}": 2 for i in range(BITS)}, "y": 2})


def exclusive_or(k: int) -> np.ndarray:
    rng = np.random.default_rng(k)
    bits = rng.integers(0, 2, (ROWS, BITS))
    y = (bits[:, :k].sum(axis=1) + (rng.random(ROWS) < 0.05)) % 2
    return np.column_stack([bits, y])


def kept(codes: np.ndarray, k: int) -> float:
    """How often the label is the exclusive or, less how often it is not."""
    return 1 - 2 * float(((codes[:, :k].sum(axis=1) + codes[:, -1]) % 2).mean())


def made(k: int, **options: Any) -> us.Release:
    asked: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1, "delta": "1e-9", "seed": 1, **options}
    return us.release(exclusive_or(k), **asked)


@pytest.mark.parametrize("k", [3, 5])
def test_an_exclusive_or_is_in_the_rows_and_only_gaussian_noise_was_drawn(k: int) -> None:
    release = made(k)
    assert kept(release.codes, k) > 0.5  # 0.9 in truth
    assert release.manifest["selections"] == 0
    assert release.manifest["budget"]["accountant"] == "gaussian"
    assert kept(made(k, mechanism="arp", parameters={"high_order": 0}).codes, k) < 0.2


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_label_is_in_the_manifest_with_what_it_got(neighbours: Neighbours) -> None:
    release = made(4, label="y", neighbours=str(neighbours))
    facts = release.manifest["mechanism"]
    assert kept(release.codes, 4) > 0.6
    assert facts["name"] == "arp" and facts["parameters"]["label"] == "y"
    assert "x0, x1, x2, x3, y" in facts["played"]["beyond"].split("; ")
    assert all("y" in found.split(", ") for found in facts["played"]["beyond"].split("; "))
    spent, budget = (Fraction(release.manifest[name]["rho"]) for name in ("spent", "budget"))
    assert budget * Fraction(95, 100) < spent <= budget
    assert "y" in us.plan(SCHEMA, rows=ROWS, epsilon=1, label="y").parameters.values()


def test_triples_of_a_label_are_selected_where_they_are_asked_for() -> None:
    more = {"label": "y", "triples": Fraction(1, 5), "high_order": 0}
    release = made(2, mechanism="arp", parameters=more)
    assert "x0, x1, y" in release.manifest["mechanism"]["played"]["beyond"].split("; ")
    assert kept(release.codes, 2) > 0.5
    assert release.manifest["selections"] == 6


def test_every_parity_that_may_be_chosen_has_a_table_that_can_be_counted() -> None:
    """Eight columns of 300 values have more cells than can be numbered; selection comes after the
    charge.
    """
    columns = 9
    schema = us.Schema.from_domain({f"c{i}": 300 for i in range(columns)})
    model: Any = SimpleNamespace(
        columns=[np.full(300, 1 / 300)] * columns, codes=np.zeros((100, columns), np.int32)
    )
    share, meter = Fraction(1), SimpleNamespace(rows=100)
    player = WorstParities(meter, schema, select=share, measure=share, draws=2)  # type: ignore[arg-type]
    parities = player._of(model)
    assert parities.most >= 6
    for index in range(parities.size):
        assert parities.cells(index).size <= 2**8


def test_a_release_with_a_label_verifies_and_its_report_names_it(tmp_path: Any) -> None:
    made(3, label="y").save(tmp_path / "release")
    assert not unsound(tmp_path / "release")
    assert "steered by the label" in (tmp_path / "release" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "z"}, "There is no column 'z'"),
        ({"label": 3}, "label is the name of a column"),
        ({"label": "y", "mechanism": "mwem"}, "mwem has no use for one"),
        ({"label": "y", "workload": "1-way"}, "single columns only"),
        ({"label": "y", "mechanism": "arp", "parameters": {"label": "x0"}}, "which differ"),
        ({"mechanism": "arp", "parameters": {"triples": Fraction(1, 9)}}, "those of a label"),
        ({"mechanism": "arp", "parameters": {"high_order": Fraction(3, 4)}}, "from 0 to 2/5"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(us.InputError, match=says):
        us.plan(SCHEMA, rows=ROWS, epsilon=1, **options)


def test_the_command_takes_a_label(tmp_path: Any) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"a": 2, "b": 3, "c": 2}')
    told = ["plan", "--schema", str(schema), "--rows", "5000", "--epsilon", "1", "--label", "c"]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 0 and "parities of many columns" in " ".join(done.output.split())
