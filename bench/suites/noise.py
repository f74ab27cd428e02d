"""Exact discrete Gaussians: ours and OpenDP's, CPU seconds per million values."""

from __future__ import annotations

from fractions import Fraction

from bench.clock import clock
from bench.grid import Grid, Line, Point, Suite, View
from understudy.privacy.noise.samplers import Noise, round_sigma_up

# fewer of OpenDP's, each of which takes longer
VALUES = {"understudy": 1_000_000, "OpenDP": 50_000}


def measure(point: Point) -> list[Line]:
    count, sigma = VALUES[point.mechanism], round_sigma_up(Fraction(point["sigma"]))
    if point.mechanism == "understudy":
        noise = Noise()
        noise.gaussian(10, sigma)  # compile (or load the cache) before the clock starts
        with clock() as spent:
            noise.gaussian(count, sigma)
    else:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        domain, distance = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
        theirs, zeros = dp.m.make_gaussian(domain, distance, scale=float(sigma)), [0] * count
        with clock() as spent:
            theirs(zeros)
    return [{"cpu": spent.cpu * 1e6 / count, "peak": spent.peak, "values": count}]


SIGMAS = ("1/2", "3", "84.3", "1000", "100000")  # from less than a count to more than most tables
SUITE = Suite(
    grids=[
        Grid(
            measure=measure, mechanism=list(VALUES), settings=[{"sigma": sigma} for sigma in SIGMAS]
        )
    ],
    views=[
        View(
            title="exact discrete Gaussian, CPU seconds per million values",
            by=("sigma", "mechanism"),
            shows={"cpu": ".2f"},
            ratio="mechanism",
        )
    ],
)
