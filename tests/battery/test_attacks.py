"""The attacks of the audit: they keep quiet about a sound build, and see through a broken one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tools.attacks import ATTACKS, PERSON, judged, tables
from understudy.privacy.noise.samplers import Noise


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_tables_differ_in_one_person_who_stands_out(attack: str) -> None:
    without, with_them = tables(attack)
    assert (without != with_them).any(axis=1).sum() == 1 and tuple(with_them[-1]) == PERSON
    assert not (with_them[:-1, :2] == np.asarray(PERSON[:2])).any(), "nobody else has their values"


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_sound_build_holds(attack: str) -> None:
    found = judged((attack, "gaussian", "1", 40))
    assert found.holds and found.releases == 80 and 0 < found.charged < found.promised < 1
    assert found.roc[0][0] <= found.roc[-1][0] <= 1


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("share", [0, 20])
def test_too_little_noise_is_seen_through(
    attack: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)  # by chance alone one run in twenty would stay below the bound

    def little(self: Noise, size: int, sigma: Fraction) -> np.ndarray:
        return (
            np.zeros(size, np.int64)
            if share == 0
            else np.floor(rng.normal(0, float(sigma) / share, size)).astype(np.int64)
        )

    monkeypatch.setattr(Noise, "gaussian", little)
    found = judged((attack, "gaussian", "1", 40))
    assert not found.holds and found.accuracy > 0.9
