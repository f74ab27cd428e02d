"""What tests ask of a saved release."""

from __future__ import annotations

from pathlib import Path

import understudy as us

FEWEST = 12  # checks that a verification makes of any bundle


def unsound(folder: Path) -> list[str]:
    """The claims of a bundle that do not hold. One that is not checked is no sound one."""
    checks = us.verify(folder)
    assert len({check.claim for check in checks}) >= FEWEST, "a verification that checks nothing"
    return [f"{check.claim}: {check.detail}" for check in checks if not check.holds]
