"""What this machine has left, for refusing a request that clearly cannot be met. Facts about the
machine, never about a table.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

MEMORY_INFO = Path("/proc/meminfo")  # Linux's own places, here and below
OWN_GROUPS = Path("/proc/self/cgroup")
OWN_SIZE = Path("/proc/self/statm")
GROUPS = Path("/sys/fs/cgroup")
# Where each version of control groups says how much a group may use and how much it does, and what
# stands before the names of its caches, which are let go when memory is short.
GROUP_FILES = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)


def memory_left() -> int | None:
    """Bytes that this process could still get: the machine's, its control groups' and its own
    limit. None where nothing says so.
    """
    limits = [left for left in (_of_machine(), _of_process(), *_of_groups()) if left is not None]
    return max(0, min(limits)) if limits else None


def _of_machine() -> int | None:
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", _text(MEMORY_INFO), re.MULTILINE))
    return (
        1024 * (int(fields["MemAvailable"]) + int(fields.get("SwapFree", 0)))
        if "MemAvailable" in fields
        else None
    )


def _of_process() -> int | None:
    """What a limit on the address space leaves (``ulimit -v``)."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            return most - int(_text(OWN_SIZE).split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_groups() -> Iterator[int | None]:
    """What each control group above this process leaves; in a container the innermost is mounted at
    the top.
    """
    for line in _text(OWN_GROUPS).splitlines():
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if kinds in ("", "memory"):
            top = GROUPS / kinds
            inner = top / path.lstrip("/")
            for folder in dict.fromkeys((top, inner, *inner.parents)):
                if folder.is_relative_to(top):
                    yield from (_of_group(folder, *files) for files in GROUP_FILES)


def _of_group(folder: Path, most: str, used: str, before: str) -> int | None:
    with contextlib.suppress(ValueError):  # "max", or nothing at all
        cached = re.findall(
            rf"^{before}(?:in)?active_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE
        )
        return int(_text(folder / most)) - int(_text(folder / used)) + sum(map(int, cached))
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
