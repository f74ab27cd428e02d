"""One measurement in a process of its own: what ``bench.clock`` starts, limits and clocks."""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path

import understudy
from bench.clock import clock
from bench.grid import Point, suite


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and with it what it has started
    job = json.loads(Path(sys.argv[1]).read_text())
    came = Path(understudy.__file__)
    if job["sources"] is not None and not came.is_relative_to(job["sources"]):
        sys.exit("the package was not imported from the build that was asked for")
    point = Point(**job["point"])
    # The hard limit is later, so that the first one can be told from a kill by somebody else.
    resource.setrlimit(resource.RLIMIT_CPU, (point.limit, point.limit + 5))
    with clock() as whole:
        lines = suite(job["suite"]).measure_of(point)(point)
    # A measure clocks what it is about; one that does not is clocked as a whole.
    Path(job["found"]).write_text(json.dumps([{**whole.line, **line} for line in lines]))


if __name__ == "__main__":
    main()
