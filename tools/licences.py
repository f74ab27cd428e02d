"""The licences of everything the project needs, as their packages state them: ``make licences``
writes docs/licences.md.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

from tools.requirements import ROOT, needs, pins, version_of

PAGE = ROOT / "docs" / "licences.md"
# the page says so rather than guess
NOT_READ = "not read: not installed where this page was made"
NOT_STATED = "not stated"  # likewise
# licences that would bind whoever uses us
STRONG = re.compile(r"(?<![A-Za-z])A?GPL|Affero|(?<!Lesser )General Public", re.IGNORECASE)
HEAD = """# Licences of what Understudy needs

Written by `make licences` from the metadata of the installed packages, at the versions of `constraints.txt`. *runtime* is what
`pip install understudy` brings; *test*, *lint* and *fuzz* are for those who work on it, *build* makes the wheel, and the other words are
extras. None of it is part of our wheel: each comes from its own authors under its own licence. Listed is what a package states about
itself; libraries that its wheel carries along may have licences of their own (NumPy's and SciPy's hold GCC's runtime libraries, under
GCC's exception).

A test refuses a package of the runtime that can be had under the GPL or AGPL only; the LGPL and the MPL are listed like any other.
`make pins` checks that every package is pinned, that what is installed is what is pinned, and that all fit each other (`pip check`).
**Known vulnerabilities are not looked up**: advisories cannot be had offline. With a connection, run `pip-audit -r constraints.txt`.

| package | version | licence | needed for |
|---|---|---|---|
"""


def licence_of(name: str) -> str:
    """What an installed package says of itself: an expression, else its classifiers, else the first
    line of its licence field.

    Examples:
        >>> licence_of("numpy").startswith("BSD-3-Clause")
        True
    """
    try:
        stated = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return NOT_READ
    kinds = [
        kind.split("::")[-1].strip()
        for kind in stated.get_all("Classifier") or ()
        if kind.startswith("License ::")
    ]
    kinds = [kind for kind in kinds if kind not in ("OSI Approved", "DFSG approved")]
    field = (stated.get("License") or "").strip().splitlines()
    return (
        stated.get("License-Expression")
        or " or ".join(kinds)
        or (field[0] if field else NOT_STATED)
    )


def is_strong_copyleft(licence: str) -> bool:
    """Whether every choice that a licence leaves is the GPL or AGPL, which what we publish under
    Apache-2.0 could not be shipped with.

    Examples:
        >>> [is_strong_copyleft(x) for x in ("GPL-3.0-only", "MIT AND AGPL-3.0", "GNU Affero General Public License v3")]
        [True, True, True]
        >>> [is_strong_copyleft(x) for x in ("LGPL-2.1", "MPL-2.0", "Artistic License or GNU General Public License (GPL)")]
        [False, False, False]
        >>> is_strong_copyleft("GPL-3.0-only WITH GCC-exception-3.1")
        False
    """
    choices = re.split(r"\s+or\s+(?!later)", licence, flags=re.IGNORECASE)
    return all(
        any(
            STRONG.search(batch) and " with " not in batch.lower()
            for batch in re.split(r"\s+and\s+", c, flags=re.I)
        )
        for c in choices
    )


def rows() -> list[tuple[str, str, str, str]]:
    """Name, pinned version, licence and uses of every pinned or needed package, by name."""
    uses = {
        need.name: ", ".join(sorted(need.uses, key=lambda use: (use != "runtime", use)))
        for need in needs()
    }
    lines = []
    for name in sorted(uses.keys() | pins().keys()):
        written, version = pins().get(name, (name, version_of(name) or "not pinned"))
        lines.append(
            (
                written,
                version,
                licence_of(name).replace("|", "/"),
                uses.get(name, "another platform"),
            )
        )
    return lines


def page() -> str:
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows())


def main(target: Path = PAGE) -> int:
    target.write_text(page(), encoding="utf-8")
    print(f"Wrote {len(rows())} packages to {target.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
