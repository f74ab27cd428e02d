"""Environments of their own for other people's systems, from pinned requirements."""

from __future__ import annotations

import subprocess
import sys

from bench.results import ROOT


def interpreter(home: str | None) -> str:
    """The Python of an environment, made anew when its requirements changed; ours for None."""
    if home is None:
        return sys.executable
    wanted = ROOT / "bench" / f"rivals-requirements-{home}.txt"
    place = ROOT / ".venv-rivals" / home
    stamp, python = place / "installed.txt", place / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"Installing {wanted.name} into {place.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        stamp.write_text(wanted.read_text())
    return str(python)
