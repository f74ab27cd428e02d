"""Exact discrete Gaussians: ours and OpenDP's in the same run, CPU seconds per million values.

python -m bench.noise
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import opendp.prelude as dp
from rich.console import Console
from rich.table import Table

from understudy.privacy.noise import Noise, round_sigma_up

OURS, THEIRS = 1_000_000, 50_000


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    dp.enable_features("contrib")
    noise = Noise()
    noise.gaussian(10, Fraction(3))  # compile (or load the cache) before the clock starts
    table = Table("sigma", "ours, s per million", "OpenDP, s per million", "ratio", title="exact discrete Gaussian, CPU")
    for asked in ("1/2", "3", "84.3", "1000", "100000"):
        sigma = round_sigma_up(Fraction(asked))
        theirs = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float), scale=float(sigma))
        zeros = [0] * THEIRS
        fast = cpu(lambda sigma=sigma: noise.gaussian(OURS, sigma)) * 1e6 / OURS
        slow = cpu(lambda theirs=theirs, zeros=zeros: theirs(zeros)) * 1e6 / THEIRS
        table.add_row(asked, f"{fast:.2f}", f"{slow:.1f}", f"{slow / fast:.0f}x")
    Console().print(table)


if __name__ == "__main__":
    main()
