"""``understudy audit`` and what it attaches to a release: shown by ``verify``, and noticed when it
was tampered with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.audit.rows import Row
from understudy.bundle.attached_audit import ATTACHMENT, attach, statement
from understudy.bundle.verify import Check
from understudy.checks import SMALL, small_table
from understudy.cli import audit as command
from understudy.cli.main import main
from understudy.privacy.trusted import HANDED_EXACT_VALUES
from understudy.privacy.verbs import VERBS

ROW = Row(
    kind="law", subject="measure", relation="replace-one", pair="every neighbour", unit="of the charge",
    claimed=1.0, observed=0.98, runs=12, holds=True,
)  # fmt: skip
BROKEN = Row(
    kind="replay", subject="mwem", relation="replace-one", pair="6 random pairs", unit="of the charge",
    claimed=1.0, observed=2.0, runs=6, holds=False, detail="not the same steps: [bold]measure[/bold] is asked for something else",
)  # fmt: skip


def found(monkeypatch: pytest.MonkeyPatch, *rows: Row) -> None:
    """Let an audit come to these rows."""
    monkeypatch.setattr(command, "run", lambda *settings: iter(enumerate(rows)))


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return us.release(
        small_table(), schema=SMALL, workload="1-way", epsilon=1, mechanism="independent"
    ).save(tmp_path / "bundle")


def test_an_audit_of_one_mechanism_runs_in_processes_of_its_own_and_holds() -> None:
    result = run("--mechanism", "independent", "--quick", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (
        said["held"]
        and said["checks"] == 3
        and said["breaches"] == 0
        and said["mechanism"] == "independent"
        and said["quick"]
    )
    assert {(row["kind"], row["relation"]) for row in said["rows"]} == {
        ("replay", "replace-one"), ("replay", "add-remove-one"), ("statistical", "replace-one"),
    }  # fmt: skip
    assert said["made_by"] == f"understudy {us.__version__}" and len(said["source_sha256"]) == 64


def test_a_breach_is_shown_and_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, ROW, BROKEN)
    result = run("--quick")
    assert result.exit_code == 1
    flat = " ".join(result.output.split())
    # words of a check are not markup
    assert "1 of 2 checks found a breach: mwem" in flat and "BREACH" in flat and "[bold]" in flat
    result = run("--quick", "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)["held"] is False


def test_no_breach_is_exit_code_0_and_one_line_says_what_that_is_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, ROW)
    result = run("--quick")
    assert (
        result.exit_code == 0
        and "All 1 checks held. That is evidence about this software, not a proof" in result.stdout
    )


def test_an_audit_prints_what_the_meter_can_be_asked_and_who_sees_exact_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, ROW)
    said = json.loads(run("--quick", "--json").stdout)
    assert said["verbs"] == [f"{verb.__module__}.{verb.__qualname__}" for verb in VERBS]
    assert "understudy.privacy.verbs.measure.Measure" in said["verbs"] and len(VERBS) == 12
    assert said["handed_exact_values"] == list(HANDED_EXACT_VALUES)
    assert "understudy.queries.marginal.Marginal" in said["query_classes"]
    flat = " ".join(run("--quick").stdout.split())
    assert "can be asked 12 things: ReleaseTotal, Measure," in flat
    assert "are handed exact values: Attribute, Task, Conjunctions," in flat
    assert "query classes:" in flat


def test_a_mechanism_that_does_not_exist_is_a_sentence() -> None:
    result = run("--mechanism", "magic")
    assert result.exit_code == 2 and "There is no mechanism 'magic'" in result.output


def test_a_folder_that_is_no_release_or_of_another_version_or_mechanism_is_refused_before_the_audit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run", lambda *settings: pytest.fail("the audit was run"))
    assert "no readable manifest" in run("--attach", tmp_path).output
    assert (
        "was made with independent; an audit of mwem would say nothing"
        in run("--mechanism", "mwem", "--attach", folder).output
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "made_by": "understudy 99"}))
    result = run("--attach", folder)
    assert (
        result.exit_code == 1
        and "understudy 99" in result.output
        and not (folder / ATTACHMENT).exists()
    )


# ---------------------------------------------------------------------- attached


def attached(folder: Path) -> Check:
    *others, last = us.verify(folder)
    assert len(others) == 12 and all(check.holds for check in others)
    return last


def test_verify_shows_an_attached_audit_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(us.verify(folder)) == 12  # a release is whole without one
    found(monkeypatch, ROW, ROW)
    assert run("--attach", folder).exit_code == 0
    check = attached(folder)
    assert (
        check.holds
        and check.detail
        == f"audit attached: 2 checks on version {us.__version__}, no breach; the audit is of the"
        " software build, not of this release's rows"
    )
    assert run("--quick", "--attach", folder).exit_code == 0  # replaces it
    assert "2 checks (quick) on" in attached(folder).detail
    assert "audit attached" in " ".join(
        CliRunner().invoke(main, ["verify", str(folder)]).output.split()
    )
    us.Release.load(folder)


def test_an_attached_breach_makes_verify_fail(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, ROW, BROKEN)
    assert run("--attach", folder).exit_code == 1
    check = attached(folder)
    assert not check.holds and "1 BREACHES" in check.detail


def change(folder: Path, how: Callable[[dict[str, Any]], object], *, sealed: bool = False) -> None:
    said = json.loads((folder / ATTACHMENT).read_text())
    how(said)
    if sealed:  # by somebody who knows how
        whole = {name: value for name, value in said.items() if name != "sha256"}
        said["sha256"] = hashlib.sha256(
            json.dumps(whole, sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()
    (folder / ATTACHMENT).write_text(json.dumps(said))


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a verdict": (lambda a: a["rows"][1].update(held=True), "changed after"),
    "the date": (lambda a: a.update(made_at="2020-01-01T00:00:00+00:00"), "changed after"),
    "no rows": (lambda a: a.update(rows=[]), "changed after"),
    "no seal": (lambda a: a.pop("sha256"), "cannot be read"),
    "not an audit": (lambda a: a.clear(), "cannot be read"),
}
SEALED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a verdict, but not the count": (
        lambda a: a["rows"][1].update(held=True),
        "does not say what its own rows say",
    ),
    "verdict and count, but not the figures": (
        lambda a: (a["rows"][1].update(held=True), a.update(breaches=0)),
        "BREACHES",
    ),
    "another release": (lambda a: a.update(manifest_sha256="0" * 64), "made for another release"),
    "another version": (lambda a: a.update(made_by="understudy 99"), "is of understudy 99"),
    "rows that are none": (lambda a: a.update(rows=[7]), "cannot be read"),
    "a claim beyond any number": (lambda a: a["rows"][0].update(claimed=10**400), "cannot be read"),
}


@pytest.mark.parametrize(
    ("how", "said", "sealed"),
    [*((*t, False) for t in TAMPERED.values()), *((*t, True) for t in SEALED.values())],
)
def test_an_audit_that_was_tampered_with_is_noticed(
    folder: Path, how: Any, said: str, sealed: bool
) -> None:
    attach(folder, statement([ROW.to_dict(), BROKEN.to_dict()], quick=False, mechanism=None))
    change(folder, how, sealed=sealed)
    check = attached(folder)
    assert not check.holds and said in check.detail, check


def test_an_audit_moved_to_another_release_is_noticed(folder: Path, tmp_path: Path) -> None:
    attach(folder, statement([ROW.to_dict()], quick=False, mechanism=None))
    other = us.release(
        small_table(), schema=SMALL, workload="1-way", epsilon=2, mechanism="independent"
    ).save(tmp_path / "other")
    (other / ATTACHMENT).write_bytes((folder / ATTACHMENT).read_bytes())
    assert "made for another release" in attached(other).detail


def test_an_audit_of_one_mechanism_says_nothing_about_a_release_by_another(folder: Path) -> None:
    attach(folder, statement([ROW.to_dict()], quick=False, mechanism="mwem"))
    assert (
        attached(folder).detail
        == "the attached audit is of mwem, and the release was made with independent"
    )
    assert not attached(folder).holds
    attach(folder, statement([ROW.to_dict()], quick=False, mechanism="independent"))
    assert attached(folder).holds and "1 checks of independent on" in attached(folder).detail


def test_an_interrupted_audit_does_not_speak_of_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    result = run("--quick")
    assert (
        result.exit_code == 130
        and "Interrupted." in result.output
        and "budget" not in result.output
    )
