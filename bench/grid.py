"""What is measured: points of a grid, and suites of grids."""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Plain = str | int | float | bool | None
Line = dict[str, Plain]  # what was measured, by name


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement to make. All that decides it is here, in values that JSON can hold."""

    part: str = ""
    data: str = ""
    workload: str = ""
    mechanism: str = ""
    epsilon: float | None = None
    relation: str = ""
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    build: str = ""  # the name of another source tree that is measured; this one if empty
    # CPU seconds, after which it is stopped; a point stays the same under another limit
    limit: int = 3_600

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def plain(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "data": self.data,
            "workload": self.workload,
            "mechanism": self.mechanism,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "relation": self.relation,
            "seed": self.seed,
            "settings": dict(self.settings),
            "build": self.build,
        }

    @property
    def key(self) -> str:
        """By which a run that was stopped knows what it has."""
        return json.dumps(self.plain, sort_keys=True)

    @property
    def words(self) -> str:
        settings = [
            f"{name} {value}" for name, value in self.settings.items() if value not in ("", None)
        ]
        epsilon = "" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        axes = [self.part, self.data, self.workload, self.mechanism, epsilon, self.relation]
        build = [f"build {self.build}"] if self.build else []
        return ", ".join([*filter(None, axes), *settings, f"seed {self.seed}", *build])

    def matches(self, word: str) -> bool:
        """Whether a person who says this word means this point."""
        values = (self.part, self.data, self.workload, self.mechanism, *self.settings.values())
        return any(word.lower() in str(value).lower() for value in values)


Measure = Callable[[Point], list[Line]]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Data sets x workloads x mechanisms x epsilon x relation x settings x seeds, one measure.

    An axis that a measurement does not have keeps its one empty value, and no option of ``run``
    sets it. Every measurement can be made by several builds. They take turns, seed by seed, so
    that a machine that becomes busy is as busy for all of them.
    """

    measure: Measure
    part: str = ""
    data: Sequence[str] = ("",)
    workload: Sequence[str] = ("",)
    mechanism: Sequence[str] = ("",)
    epsilon: Sequence[float | None] = (None,)
    relation: Sequence[str] = ("",)
    settings: Sequence[Mapping[str, Any]] = ({},)
    seeds: int = 1
    builds: Sequence[str] = ("",)
    limit: int = 3_600

    def points(self) -> Iterable[Point]:
        axes = (
            self.data,
            self.workload,
            self.settings,
            self.relation,
            self.epsilon,
            self.mechanism,
        )
        for data, workload, settings, relation, epsilon, mechanism in itertools.product(*axes):
            for seed, build in itertools.product(range(self.seeds), self.builds):
                yield Point(
                    part=self.part,
                    data=data,
                    workload=workload,
                    mechanism=mechanism,
                    epsilon=epsilon,
                    relation=relation,
                    seed=seed,
                    settings=settings,
                    build=build,
                    limit=self.limit,
                )

    def asked(self, changes: Mapping[str, Any], settings: Mapping[str, Any]) -> Grid:
        """The same grid on other axes; only on those that it has."""
        has = {
            name: value
            for name, value in changes.items()
            if value is not None and getattr(self, name) not in (("",), (None,))
        }
        merged = [
            {**one, **{name: value for name, value in settings.items() if name in one}}
            for one in self.settings
        ]
        different = [one for number, one in enumerate(merged) if one not in merged[:number]]
        return replace(self, **has, settings=different)


@dataclass(frozen=True, kw_only=True)
class View:
    """A table of the report: by what its lines are told apart, and what they show."""

    title: str
    by: Sequence[str]
    shows: Mapping[str, str]  # measured value: how it is formatted
    part: str | None = None
    ratio: str | None = None  # CPU seconds as a multiple of those of the first value of this axis


@dataclass(frozen=True, kw_only=True)
class Behind:
    """A table of those places where ours has a larger error than another, by more than scatter."""

    title: str
    by: Sequence[str]
    errors: Mapping[str, str]  # measured value: how it is formatted
    axis: str = "mechanism"
    ours: str = "auto"
    part: str | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines in a figure: y against x, a colour for each value of one column, a dash for each of
    another.
    """

    x: str
    y: Sequence[str]
    title: str = ""
    colour: str = "mechanism"
    dash: str | None = None
    mark: str | None = None  # a marker for each value of this column
    where: Mapping[str, Any] = field(default_factory=dict)
    xscale: str = "log"
    yscale: str = "log"


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What one file of ``bench/suites`` declares."""

    grids: Sequence[Grid]
    views: Sequence[View | Behind]
    panels: Sequence[Panel] = ()
    across: int = 2  # panels beside each other
    note: str = ""
    name: str = ""
    description: str = ""

    def measure_of(self, point: Point) -> Measure:
        (measure,) = {grid.measure for grid in self.grids if grid.part == point.part}
        return measure


def suites() -> dict[str, Suite]:
    """Every suite, by the name of its file."""
    package = importlib.import_module("bench.suites")
    return {name: suite(name) for _, name, _ in pkgutil.iter_modules(package.__path__)}


def suite(name: str) -> Suite:
    module = importlib.import_module(f"bench.suites.{name}")
    described = (module.__doc__ or "").strip().splitlines()[0]
    whole: Suite = replace(module.SUITE, name=name, description=described)
    return whole
