"""What the project needs: its requirements, their own requirements, and the pins. ``make pins``
checks them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
# Nobody has to install these: one is for people with a licence of their own, the other has wheels
# for some platforms only.
LEFT_OUT = ("gurobi", "fuzz")
# Gigabytes, most of them for graphics cards, that nothing here has a use for; a package may ask for
# them one day.
UNWANTED = re.compile(r"(cuda|nvidia)-|(torch|triton)$")


@dataclass(frozen=True)
class Need:
    """A distribution that the project needs, and for what: ``runtime``, ``build``, extras, groups."""

    name: str
    uses: frozenset[str]


@cache
def declared(root: Path = ROOT) -> dict[str, list[Requirement]]:
    """The requirements in pyproject.toml: ``runtime``, ``build``, and each extra and group."""
    data = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    lists = {"runtime": data["project"]["dependencies"], "build": data["build-system"]["requires"]}
    lists |= data["project"]["optional-dependencies"] | data["dependency-groups"]
    return {use: [Requirement(text) for text in texts] for use, texts in lists.items()}


@cache
def pins(root: Path = ROOT) -> dict[str, tuple[str, str]]:
    """The pins in constraints.txt: a canonical name to the name as written and the version."""
    lines = (
        line.split("==") for line in (root / "constraints.txt").read_text(encoding="utf-8").split()
    )
    return {canonicalize_name(name): (name, version) for name, version in lines}


def closure(asked: Iterable[Requirement]) -> set[str]:
    """The canonical names of these requirements and of all that they need here; what is not
    installed is named and not followed.
    """
    names: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    ahead = [
        requirement
        for requirement in asked
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
    while ahead:
        requirement = ahead.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        names.add(name)
        if (name, extras) not in seen:
            seen.add((name, extras))
            ahead.extend(_needed_by(name, extras))
    return names


def _needed_by(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in _requirements_of(name):
        requirement = Requirement(text)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield requirement


def _requirements_of(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def needs() -> list[Need]:
    """Everything that the runtime and any extra or group needs, by name."""
    uses: dict[str, set[str]] = {}
    for use, requirements in declared().items():
        for name in closure(requirements):
            uses.setdefault(name, set()).add(use)
    return [Need(name, frozenset(used_by)) for name, used_by in sorted(uses.items())]


def version_of(name: str) -> str | None:
    """The installed version, or None; without the suffix that says how it was built, such as +cpu."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def absent() -> list[str]:
    """Requirements of the project itself that are missing here, but for those nobody has to have."""
    asked = {
        canonicalize_name(r.name)
        for use, requirements in declared().items()
        if use not in LEFT_OUT
        for r in requirements
    }
    return sorted(name for name in asked if version_of(name) is None)


def unpinned() -> list[str]:
    """What the project needs and no pin fixes."""
    return [need.name for need in needs() if need.name not in pins()]


def strangers() -> list[str]:
    """Pins of what nothing needs; only known where everything is installed but what nobody has to."""
    if absent():
        return []
    needed = {need.name for need in needs()}
    return [name for name in pins() if name not in needed]


def below_what_is_asked() -> list[str]:
    """Requirements of the project that their own pin does not satisfy."""
    asked = [requirement for requirements in declared().values() for requirement in requirements]
    fixed = [
        (requirement, pins().get(canonicalize_name(requirement.name))) for requirement in asked
    ]
    return [
        str(requirement)
        for requirement, pin in fixed
        if pin is not None and not requirement.specifier.contains(pin[1])
    ]


def drifted(excused: bool = False) -> list[str]:
    """Installed packages that are not the pinned ones.

    Excused, and listed apart, is what cannot be otherwise: something installed beside the project
    forbids the pin.
    """
    ours, drifts = {need.name for need in needs()}, []
    for name in sorted(ours & set(pins())):
        installed, pinned = version_of(name), pins()[name][1]
        if installed not in (None, pinned) and _is_forbidden(name, pinned, ours) == excused:
            drifts.append(f"{name} {installed}, pinned {pinned}")
    return drifts


def _is_forbidden(name: str, version: str, ours: set[str]) -> bool:
    for other in metadata.distributions():
        if canonicalize_name(other.name) in ours | {"understudy"}:
            continue
        for requirement in map(Requirement, other.requires or ()):
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if (
                applies
                and canonicalize_name(requirement.name) == name
                and not requirement.specifier.contains(version)
            ):
                return True
    return False


def unwanted() -> list[str]:
    """Installed packages that make an environment gigabytes larger for nothing."""
    return sorted(
        name
        for name in (canonicalize_name(other.name) for other in metadata.distributions())
        if UNWANTED.match(name)
    )


def pip_check() -> tuple[bool, str]:
    """Whether the installed packages fit each other, and what pip says."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout.strip() or done.stderr.strip()


def main() -> int:
    fits, message = pip_check()
    troubles = [] if fits else [message]
    troubles += [f"{name} is needed and not pinned" for name in unpinned()]
    troubles += [f"{name} is pinned and not needed" for name in strangers()]
    troubles += [f"{text} is not what its pin gives" for text in below_what_is_asked()] + drifted()
    troubles += [
        f"{name} is installed, and is large and of no use here (make clean, if it was there before)"
        for name in unwanted()
    ]
    print(
        "\n".join(troubles)
        if troubles
        else (
            f"{len(needs())} packages are needed, and all are pinned; what is installed fits"
            " together."
        )
    )
    if drifted(excused=True):
        print(
            "Not the pinned ones, because of other packages installed here:"
            f" {'; '.join(drifted(excused=True))}."
        )
    if absent():
        print(
            "Not installed here, so their own requirements were not followed:"
            f" {', '.join(absent())}."
        )
    print("Advisories are not looked up: that needs a connection (pip-audit -r constraints.txt).")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
