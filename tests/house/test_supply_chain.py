"""Licences, pins and the wheel. Advisories cannot be had offline, so nothing here looks for known
vulnerabilities.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import licences, requirements, wheel

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"\| ([\w.-]+) \| (\S+) \| (.+) \| ([\w, ]+) \|")


def listed() -> dict[str, tuple[str, str, str]]:
    """The table in docs/licences.md: name to version, licence and uses."""
    found = [
        LINE.fullmatch(line) for line in licences.PAGE.read_text(encoding="utf-8").splitlines()
    ]
    return {m[1]: (m[2], m[3], m[4]) for m in found if m and m[1] != "package"}


# ---------------------------------------------------------------------- licences


def test_nothing_that_the_package_needs_is_under_the_gpl() -> None:
    runtime = [need.name for need in requirements.needs() if "runtime" in need.uses]
    # what they need themselves is among them
    assert {"numpy", "llvmlite", "markupsafe", "pygments"} <= set(runtime)
    stated = {name: licences.licence_of(name) for name in runtime}
    assert not {
        name: licence for name, licence in stated.items() if licences.is_strong_copyleft(licence)
    }
    assert not {
        name
        for name, licence in stated.items()
        if licence in (licences.NOT_READ, licences.NOT_STATED)
    }


@pytest.mark.parametrize(
    "licence",
    [
        "GPL",
        "GPLv3",
        "GPL-2.0-or-later",
        "GNU General Public License v3 (GPLv3)",
        "AGPL-3.0-only",
        "MIT AND GPL-3.0",
    ],
)
def test_the_gpl_is_noticed(licence: str) -> None:
    assert licences.is_strong_copyleft(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "LGPLv3+",
        "GNU Lesser General Public License v3 (LGPLv3)",
        "MPL-2.0",
        "MIT OR GPL-3.0",
        "Apache 2.0",
    ],
)
def test_others_are_not(licence: str) -> None:
    assert not licences.is_strong_copyleft(licence)


def test_every_pin_is_on_the_page_with_its_version_and_licence() -> None:
    page, pins = listed(), requirements.pins()
    assert {name: page[name][0] for name in page} == dict(pins.values())
    for name, (written, version) in pins.items():
        if requirements.version_of(name) == version:  # another version may state another licence
            assert page[written][1] == licences.licence_of(name).replace("|", "/"), (
                f"{written}: run make licences"
            )
    assert {name for name, row in page.items() if row[1] == licences.NOT_READ} <= {"gurobipy"}
    uses = {need.name: need.uses for need in requirements.needs()}
    assert {name for name in pins if "runtime" in uses.get(name, ())} == {
        name for name, (written, _) in pins.items() if "runtime" in page[written][2].split(", ")
    }


def test_the_page_says_what_is_not_checked() -> None:
    assert "vulnerabilities are not looked up" in licences.PAGE.read_text(encoding="utf-8")


# ---------------------------------------------------------------------- pins


def test_everything_needed_is_pinned_at_a_version_that_is_asked_for() -> None:
    asked = {name for use in requirements.declared().values() for name in requirements.closure(use)}
    assert {"duckdb", "gurobipy", "mypy", "hatchling"} <= asked
    assert (
        requirements.unpinned() == []
        and requirements.strangers() == []
        and requirements.below_what_is_asked() == []
    )


def test_what_is_installed_is_what_is_pinned_and_fits_together() -> None:
    fits, said = requirements.pip_check()
    assert fits, said
    assert requirements.drifted() == []


def test_a_missing_a_low_and_a_drifted_pin_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = requirements.pins()
    # needed by Numba, not by us
    broken = {name: pin for name, pin in real.items() if name != "llvmlite"}
    broken |= {
        "numpy": ("numpy", "1.26.4"),
        "click": ("click", "8.1.0"),
        "left-pad": ("left-pad", "1.0"),
    }
    monkeypatch.setattr(requirements, "pins", lambda: broken)
    monkeypatch.setattr(requirements, "absent", list)
    assert requirements.unpinned() == ["llvmlite"] and "left-pad" in requirements.strangers()
    assert requirements.below_what_is_asked() == ["numpy>=2.0"]
    assert any(
        text.startswith("click ") and text.endswith("pinned 8.1.0")
        for text in requirements.drifted()
    )


def test_extras_of_a_requirement_are_followed_and_other_platforms_are_not() -> None:
    assert "mpmath" in requirements.closure([Requirement("dp-accounting")])
    assert requirements.closure([Requirement("click; sys_platform == 'none'")]) == set()
    assert requirements.closure([Requirement("no-such-package")]) == {"no-such-package"}


@pytest.mark.parametrize(
    "name", ["torch", "triton", "nvidia-cublas", "nvidia_cudnn_cu13", "cuda-toolkit"]
)
def test_a_build_for_graphics_cards_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        canonicalize_name(name) in requirements.unwanted()
        and "numpy" not in requirements.unwanted()
    )
    assert (
        requirements.main() == 1
        and f"{canonicalize_name(name)} is installed, and is large" in capsys.readouterr().out
    )


# ---------------------------------------------------------------------- what is installed for what


def recipe(*words: str) -> str:
    """What make would do, on a machine where nothing is installed."""
    asked = ["make", "--dry-run", "VENV=none", *words]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_demo_installs_the_package_alone_and_shows_it() -> None:
    (installed,) = (line for line in recipe("demo").splitlines() if "pip install" in line)
    assert "PIP_CONSTRAINT=constraints.txt" in installed and installed.endswith(" -e .")
    assert "quiet" not in installed and "-q" not in installed.split()
    tested = recipe("test")
    assert installed in tested and "--group test --group lint" in tested


def test_tools_of_those_who_work_on_it_are_nobodys_extras() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(data["project"]["optional-dependencies"]) == {"pandas", "learn", "solvers", "gurobi"}
    assert (
        {"test", "lint", "fuzz"} <= set(data["dependency-groups"]) <= set(requirements.declared())
    )


STAND_IN = """#!/bin/sh
echo "$*" >> "$SEEN"
env | grep ^PIP_ | sort >> "$SEEN"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_machines_settings_of_pip_do_not_reach_what_ci_installs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("make", "chromium"):
        (tmp_path / "bin" / name).write_text(STAND_IN)
        (tmp_path / "bin" / name).chmod(0o755)
    elsewhere = {
        "PIP_INDEX_URL": "x",
        "PIP_EXTRA_INDEX_URL": "x",
        "PIP_FIND_LINKS": "x",
        "PIP_CONSTRAINT": "x",
        "PIP_CONFIG_FILE": "x",
    }
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {
        "PATH": path,
        "SEEN": str(tmp_path / "seen"),
        "PIP_CERT": "kept.pem",
        **elsewhere,
    }
    subprocess.run(["bash", str(ROOT / ".ci" / "run")], env=environment, check=True)
    settings = ["PIP_CERT=kept.pem", "PIP_CONFIG_FILE=/dev/null"]
    assert (tmp_path / "seen").read_text().splitlines() == [
        "pins",
        *settings,
        "lint",
        *settings,
        "test",
        *settings,
    ]


# ---------------------------------------------------------------------- the wheel


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None,
    reason="hatchling is not installed (pip install --group test)",
)
def test_the_wheel_is_the_same_wherever_and_whenever_it_is_built(tmp_path: Path) -> None:
    here = wheel.copy(ROOT, tmp_path / "here")
    there = wheel.copy(ROOT, tmp_path / "some/where/else")
    for file in there.rglob("*"):
        os.utime(file, (10**9, 10**9))
    first, second = wheel.build(here, tmp_path / "1"), wheel.build(there, tmp_path / "2")
    assert wheel.digest(first) == wheel.digest(second)
    other = wheel.build(here, tmp_path / "3", epoch="1600000000")
    assert wheel.digest(other) != wheel.digest(first)  # so the comparison sees more than names
    names = zipfile.ZipFile(first).namelist()
    assert {
        "understudy/py.typed",
        "understudy/privacy/proofs/measure.md",
        "understudy/bundle/templates/report.html.j2",
    } <= set(names)
    assert all(
        name.startswith(("understudy/", "understudy-")) and "__pycache__" not in name
        for name in names
    )
