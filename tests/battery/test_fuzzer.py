"""The fuzzer: its targets read their own seeds, a planted fault is told from a refusal, and the
search finds one.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import understudy as us
from tools import fuzz
from tools.fuzz_targets import TARGETS, Target, complaint, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    return folder


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_of_a_target_is_read_to_its_end(name: str, prepared: Path) -> None:
    """A seed that is refused would leave the search outside the door."""
    seeds = TARGETS[name].seeds(prepared)
    assert seeds
    for seed in seeds:
        TARGETS[name].run(seed, prepared)


def test_the_seed_of_an_attached_audit_holds(prepared: Path) -> None:
    (seed,) = TARGETS["attached audit"].seeds(prepared)
    assert TARGETS["attached audit"].run(seed, prepared)[0] is True  # type: ignore[index]


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"{}", b"[[[", b"null"])
def test_garbage_is_refused_or_read_by_every_target(data: bytes, prepared: Path) -> None:
    assert [
        (name, said)
        for name, target in TARGETS.items()
        if (said := complaint(partial(target.run, data, prepared)))
    ] == []


def raises(problem: Exception) -> Callable[[], None]:
    def call() -> None:
        raise problem

    return call


def test_a_foreign_exception_and_a_bad_refusal_are_told_from_a_refusal() -> None:
    assert (
        complaint(raises(us.SchemaError("The schema has no columns.")))
        == ""
        == complaint(lambda: None)
    )
    assert complaint(raises(KeyError("x"))).startswith(
        "not one of our errors: KeyError at test_fuzzer.py:"
    )
    assert complaint(raises(us.SchemaError("bad\nschema, and more."))).startswith(
        "a refusal that is no sentence: SchemaError"
    )


def test_what_a_child_leaves_behind_is_counted(tmp_path: Path) -> None:
    (tmp_path / "findings.jsonl").write_text(json.dumps({"what": "w", "input": "b'x'"}) + "\n")
    (tmp_path / "ended-timeout-abc").write_bytes(b"slow")
    (tmp_path / "ended-slow-unit-abc").write_bytes(b"only slow")
    said = (
        "#7\tNEW    cov: 12 ft: 13\n#9\tDONE   cov: 15 ft: 16\nstat::number_of_executed_units: 9\n"
    )
    found = fuzz.read("csv", 70, said, tmp_path)
    assert (found.inputs, found.covered) == (9, 15)
    assert found.findings == (("w", "b'x'"), ("ended by timeout", "b'slow'"))
    (tmp_path / "empty").mkdir()
    assert "exit code 3" in fuzz.read("csv", 3, "it broke", tmp_path / "empty").findings[0][0]
    assert fuzz.part([found])["misses"] == 2 and fuzz.part([found])["cases"] == 9


def test_without_atheris_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--json", str(tmp_path / "f.json")])
    assert fuzz.main() == 2 and "pip install --group fuzz" in capsys.readouterr().out
    assert json.loads((tmp_path / "f.json").read_text()) == {
        "cases": 0,
        "misses": 0,
        "said": fuzz.MISSING,
        "rows": [],
    }


PLANTED = """
import sys
from tools import fuzz_child, fuzz_targets
def run(data, folder):
    if data[:1] == b"<" and data[1:2] == b"!":
        raise KeyError("planted")
fuzz_targets.TARGETS["question"] = fuzz_targets.Target(run, lambda folder: [b"x"])
fuzz_child.main()
"""


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed (pip install --group fuzz)",
)
def test_a_planted_fault_is_found_in_seconds(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.setitem(
        TARGETS, "question", Target(lambda data, folder: None, lambda folder: [b"x"], words=("<!",))
    )
    found = fuzz.fuzz("question", 2, prepared, child="planted")
    assert [what.partition(" at ")[0] for what, _ in found.findings] == [
        "not one of our errors: KeyError"
    ]
    assert found.inputs > 100 and found.findings[0][1].startswith("b'<!")
