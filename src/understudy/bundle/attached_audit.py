"""An audit of the software, kept beside the files of a release: what it says, and what can be
checked of it.

It is a statement by whoever attached it, not a signature: somebody who rewrites all of it
consistently is not found out. What is noticed is an audit of another version, one made for another
release, and one that was changed by hand.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from understudy.bundle.entries import this_version
from understudy.bundle.manifest import MANIFEST_FILE, Manifest, read_manifest
from understudy.errors import BundleError

ATTACHMENT = "audit.json"  # none of the manifest's files: it comes later
FORMAT = 1  # another number is refused
# in the file itself, so that nobody takes it for more
SAYS = (
    "An audit of the software build, not of this release's rows; a statement by whoever attached"
    " it, not a signature."
)


def statement(
    rows: Sequence[Mapping[str, Any]], *, quick: bool, mechanism: str | None
) -> dict[str, Any]:
    """What an audit found, with everything that it depends on."""
    return {
        "format": FORMAT,
        "says": SAYS,
        "made_by": this_version(),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "source_sha256": source_digest(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "numba")},
        },
        "platform": platform.platform(),
        "quick": quick,
        "mechanism": mechanism,
        "checks": len(rows),
        "breaches": sum(not row["held"] for row in rows),
        "rows": [dict(row) for row in rows],
    }


def source_digest() -> str:
    """One hash of all source files of the installed package: which build it was, beyond its
    version.
    """
    root, total = Path(__file__).resolve().parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        total.update(
            f"{file.relative_to(root).as_posix()}\n".encode()
            + hashlib.sha256(file.read_bytes()).digest()
        )
    return total.hexdigest()


def check_can_attach(place: Path, mechanism: str | None) -> None:
    """Refuse, before a long audit, a folder that is no release of this same version, or by another
    mechanism than the audited one.
    """
    manifest = read_manifest(place)
    made_by, used = manifest.made_by, manifest.mechanism.name
    if mechanism is not None and mechanism != used:
        raise BundleError(
            f"The release in {str(place)!r} was made with {used}; an audit of {mechanism} would say"
            " nothing about it."
        )
    if made_by != this_version():
        raise BundleError(
            f"The release in {str(place)!r} was made by {made_by}; an audit of this build would say"
            " nothing about it."
        )


def attach(place: Path, document: Mapping[str, Any]) -> None:
    """Write a statement into a release folder, bound to its manifest; an earlier one is replaced."""
    bound = {**document, "manifest_sha256": _manifest_digest(place)}
    text = json.dumps({**bound, "sha256": _seal(bound)}, indent=1, ensure_ascii=False)
    try:
        (place / ATTACHMENT).write_text(text + "\n", encoding="utf-8")
    except OSError as problem:
        raise BundleError(
            f"The audit could not be written to {str(place)!r} ({problem.strerror})."
        ) from None


def check_attachment(place: Path, manifest: Manifest) -> tuple[bool, str]:
    """(whether the attached audit holds for this release, one line about it)."""
    made_by, used = manifest.made_by, manifest.mechanism.name
    try:
        document = json.loads((place / ATTACHMENT).read_text(encoding="utf-8"))
        whole = {name: value for name, value in document.items() if name != "sha256"}
        rows = document["rows"]
        broken = [row for row in rows if row["held"] is not True or not _bears_out(row)]
        if document["format"] != FORMAT or document["sha256"] != _seal(whole) or not rows:
            return False, "the attached audit was changed after it was made"
        if (document["checks"], document["breaches"]) != (
            len(rows),
            sum(row["held"] is not True for row in rows),
        ):
            return False, "the attached audit does not say what its own rows say"
        if document["manifest_sha256"] != _manifest_digest(place):
            return False, "the attached audit was made for another release"
        if document["made_by"] != made_by:
            return (
                False,
                (
                    f"the attached audit is of {document['made_by']}, and the release was made by"
                    f" {made_by}"
                ),
            )
        if document["mechanism"] not in (None, used):
            return (
                False,
                (
                    f"the attached audit is of {document['mechanism']}, and the release was made"
                    f" with {used}"
                ),
            )
        outcome = "no breach" if not broken else f"{len(broken)} BREACHES"
        what = " (quick)" if document["quick"] else ""
        what += f" of {document['mechanism']}" if document["mechanism"] else ""
        text = (
            f"audit attached: {len(rows)} checks{what} on version"
            f" {made_by.removeprefix('understudy ')}, {outcome}"
        )
    except (
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OSError,
        ValueError,
        ArithmeticError,
    ):
        return False, "the attached audit cannot be read"
    return not broken, f"{text}; the audit is of the software build, not of this release's rows"


def _bears_out(row: Mapping[str, Any]) -> bool:
    """A row that says it held has found no more than was claimed, but for rounding."""
    return bool(0 <= row["found"] <= row["claimed"] * (1 + 2e-3)) and row["runs"] > 0


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


def _manifest_digest(place: Path) -> str:
    return hashlib.sha256((place / MANIFEST_FILE).read_bytes()).hexdigest()
