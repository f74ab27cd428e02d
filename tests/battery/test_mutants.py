"""The planted mutants still fit the code, and the run that tries them can tell caught from missed."""

from __future__ import annotations

from pathlib import Path

import pytest

import understudy as us
from battery.mutants import MUTANTS, Mutant
from tools.mutants import changed, copy_of_the_package, run

PACKAGE = Path(us.__file__).parent
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_mutant_fits_the_code_and_its_tests_exist(mutant: Mutant) -> None:
    text = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    # a mutant that cannot be imported proves nothing
    compile(changed(mutant, text), mutant.file, "exec")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8")


def test_there_are_enough_of_them_and_no_two_are_the_same() -> None:
    assert len(MUTANTS) >= 20 and len({mutant.changes for mutant in MUTANTS}) == len(
        {mutant.what for mutant in MUTANTS}
    ) == len(MUTANTS)


def test_a_run_tells_caught_from_missed_and_mends_what_it_broke() -> None:
    place_of = "queries/condition.py"
    broken = Mutant(
        "no row is ever meant",
        place_of,
        (("mask |= np", "mask &= np"),),
        ("tests/queries/test_condition.py",),
    )
    same = Mutant("nothing", place_of, (("mask |= np", "mask  |= np"),), broken.tests)
    unknown = Mutant(
        "no such test",
        place_of,
        broken.changes,
        ("tests/queries/test_condition.py::test_of_nothing",),
    )
    with copy_of_the_package() as place:
        file = place / "src" / "understudy" / place_of
        before = file.read_bytes()
        assert run(broken, place).caught_by is not None
        assert run(same, place).caught_by is None
        assert run(unknown, place).caught_by is None, "a run that tests nothing catches nothing"
        assert file.read_bytes() == before
