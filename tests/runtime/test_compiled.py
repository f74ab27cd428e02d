"""Kernels: compiled on first use, kept where only their user can write, and never a reason to stop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import understudy
from understudy.runtime import compiled
from understudy.runtime.compiled import is_private, kernel, telling

SOURCE = Path(understudy.__file__).parents[1]
NOBODY = 65534  # a user who is not us
RELEASE = """
import numpy as np, understudy as us
table = np.random.default_rng(0).integers(0, 3, size=(500, 2))
made = us.release(table, schema={"a": 3, "b": 3}, epsilon=1, seed=1)
print(made.synthetic.num_rows)
"""


@kernel(inner=True)
def never_from_python(value: int) -> int:
    return value


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A copy of the package that cannot be written, beside a home that cannot either and a folder
    that can.
    """
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        shutil.copytree(
            SOURCE / "understudy",
            root / "site" / "understudy",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        (root / "home").mkdir()
        (root / "tmp").mkdir(mode=0o700)
        folders = [
            root / "home",
            root / "site",
            *(p for p in (root / "site").rglob("*") if p.is_dir()),
        ]
        for folder in folders:
            folder.chmod(0o555)
        yield root
        for folder in folders:
            folder.chmod(0o755)


def without_rights(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python as somebody for whom permissions hold, which they do not for root with all its
    capabilities.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA", "XDG", "PYTEST", "COV"))
    }
    environment = {
        **kept,
        "HOME": str(root / "home"),
        "PYTHONPATH": str(root / "site"),
        "TMPDIR": str(root / "tmp"),
    }
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*drop, sys.executable, *words],
        env=environment,
        cwd=root / "home",
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("temporary", ["a folder", "no folder"])
def test_it_works_from_a_read_only_installation_without_a_home(
    read_only: Path, temporary: str
) -> None:
    if os.name != "posix" or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("nothing here makes permissions hold")
    assert without_rights(read_only, "-c", "open('here', 'w')").returncode, (
        "the home can be written: this would show nothing"
    )
    none = (
        "import tempfile; tempfile.tempdir = '/nonexistent'\n" if temporary == "no folder" else ""
    )
    for words in (
        ["-c", "import understudy"],
        ["-m", "understudy", "--help"],
        ["-c", none + RELEASE],
    ):
        done = without_rights(read_only, *words)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.strip() == "500"
    assert bool(list((read_only / "tmp").rglob("*.nbi"))) == (temporary == "a folder")


def test_looking_around_needs_no_compiler() -> None:
    code = "import sys, understudy.cli.main; sys.exit('numba' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)}
        ).returncode
        == 0
    )


def test_a_folder_is_private_only_if_nobody_else_can_write_or_rename_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "ours"
    folder.mkdir(mode=0o700)
    assert is_private(folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not is_private(link) and not is_private(tmp_path / "missing")
    for mode in (0o770, 0o701, 0o707):
        folder.chmod(mode)
        assert not is_private(folder)
    folder.chmod(0o700)
    tmp_path.chmod(0o777)
    assert not is_private(folder)
    tmp_path.chmod(0o1777)
    assert is_private(folder)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        assert not is_private(folder)
        os.chown(folder, 0, 0)
        os.chown(tmp_path, NOBODY, NOBODY)
        assert not is_private(folder)


def test_what_somebody_else_prepared_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    theirs = home / ".cache" / "understudy" / "kernels"
    theirs.mkdir(parents=True)
    theirs.chmod(0o777)
    temporary.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    chosen = compiled._private_folder.__wrapped__()
    assert chosen is not None and chosen.parent == temporary and is_private(chosen)
    chosen.chmod(0o777)
    assert compiled._private_folder.__wrapped__() is None
    theirs.chmod(0o700)
    assert compiled._private_folder.__wrapped__() == theirs


@pytest.mark.parametrize("trouble", ["damaged", "full"])
def test_a_damaged_cache_or_a_full_disk_only_means_to_compile(trouble: str, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(
        "from understudy.runtime.compiled import kernel\n\n@kernel()\ndef total(x):\n    return x[0] + x[4]"
        " + 6\n"
    )
    full = (
        "import builtins, errno\nfrom numba.core import caching\ndef broken(*a, **k): raise"
        " OSError(errno.ENOSPC, 'full')\n"
    )
    full += "caching.IndexDataCacheFile._save_data = broken\n"
    code = (
        full if trouble == "full" else ""
    ) + "import numpy as np, sums\nprint(sums.total(np.arange(5)))"

    def run() -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}:{tmp_path}",
            "NUMBA_CACHE_DIR": str(tmp_path / "kept"),
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert run() == "10"
    index = list((tmp_path / "kept").rglob("*.nbi"))
    assert index
    if trouble == "damaged":
        index[0].write_bytes(b"not a pickle")
        assert run() == "10"
        assert index[0].read_bytes() != b"not a pickle"  # mended: the next run need not compile
    assert run() == "10"


def test_compiling_is_told_and_what_is_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, bool]] = []

    def twice(values: np.ndarray) -> float:
        return 2 * float(values[0])

    twice.__module__ = "understudy.somewhere"
    fresh = kernel()(twice)
    monkeypatch.setattr(fresh.dispatcher(), "_cache", _Nothing())
    with telling(lambda count, busy: heard.append((count, busy))):
        assert fresh(np.ones(3)) == 2
        told = len(heard)
        assert fresh(np.ones(4)) == 2
    assert told >= 2 and len(heard) == told
    assert heard[0][1] and not heard[-1][1] and heard[-1][0] > heard[0][0]


class _Nothing:
    """A cache that has nothing."""

    cache_path, flush = "", staticmethod(lambda: None)

    def load_overload(self, *args: object) -> None: ...

    def save_overload(self, *args: object) -> None: ...


def test_an_inner_kernel_is_no_function_of_python() -> None:
    with pytest.raises(TypeError, match="only kernels"):
        never_from_python(3)
