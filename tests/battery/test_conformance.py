"""Whatever is found in a folder passes the same suite; and the suite has been seen to fail."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import understudy as us
from support.outside import EvenSums
from understudy.audit.fence import side_doors
from understudy.bundle.verify import Check
from understudy.checks import (
    SMALL,
    check_crossing,
    check_mechanism,
    check_query_class,
    check_source,
    crossings,
    small_table,
    source_kinds,
)
from understudy.counting.tally import Counts
from understudy.game.loop import Model, Played, in_words, play
from understudy.game.players.domain import sum_out
from understudy.game.players.measuring import MeasureAll, one_way
from understudy.mechanisms.base import Brief, Decision, available_mechanisms
from understudy.mechanisms.choose import choose
from understudy.mechanisms.independent import Independent
from understudy.privacy import Choice, Measure, Measurement, ProcessLedger
from understudy.privacy.accounting.accountant import Cost
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.workload import query_classes
from understudy.runtime.watching import NoWatcher
from understudy.sources.memory import MemorySource

PACKAGE = Path(us.__file__).parent


@pytest.mark.parametrize("name", available_mechanisms())
def test_mechanism(name: str) -> None:
    check_mechanism(available_mechanisms()[name])


@pytest.mark.parametrize("name", query_classes())
def test_query_class(name: str) -> None:
    for seed in range(3):
        check_query_class(query_classes()[name], seed)


@pytest.mark.parametrize("name", source_kinds())
def test_source(name: str) -> None:
    check_source(source_kinds()[name], query_classes())


def test_the_folders_hold_what_they_should() -> None:
    assert {"independent", "mwem"} <= set(available_mechanisms())
    assert {"marginal", "symmetric"} <= set(query_classes())
    assert {"MemorySource", "DuckDBSource"} <= set(source_kinds())


# ---------------------------------------------------------------------- the kit has been seen to fail


class Uniform:
    def shares(self, batch: us.Marginal) -> np.ndarray:
        return np.full(batch.size, 1 / batch.size)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.integers(0, size, count) for size in SMALL.shape]).astype(
            np.int32
        )


@dataclass(frozen=True, kw_only=True)
class Ignorant(Independent):
    """Spends, and learns nothing."""

    name: ClassVar[str] = "ignorant"

    def play(self, decision: Any, meter: Any, rng: Any, watcher: Any) -> Played:
        return Played(Uniform(), super().play(decision, meter, rng, watcher).findings)


@dataclass(frozen=True, kw_only=True)
class Stingy(Independent):
    """Leaves half of the budget."""

    name: ClassVar[str] = "stingy"

    def play(self, decision: Any, meter: Any, rng: Any, watcher: Any) -> Played:
        from understudy.game.players.product import Product

        schema = decision.brief.schema
        half = MeasureAll(meter, one_way(schema), rho=meter.left / 2)
        return play(Product(schema, meter.rows), half, rounds=1, watcher=watcher, schema=schema)


@dataclass(frozen=True, kw_only=True)
class Clinging(Independent):
    """Its model looks at the meter again."""

    name: ClassVar[str] = "clinging"

    def play(self, decision: Any, meter: Any, rng: Any, watcher: Any) -> Played:
        class Looks(Uniform):
            def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
                meter.ask(Measure(batches=[Marginal.of(SMALL, ["a"])], rho=Fraction(1, 10**6)))[0]
                return super().rows(count, rng)

        return Played(Looks(), super().play(decision, meter, rng, watcher).findings)


DECIDED = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Fickle(Independent):
    """Decides otherwise each time."""

    name: ClassVar[str] = "fickle"

    def decide(self, brief: Any, means: Any) -> Decision:
        return replace(super().decide(brief, means), how=f"for the {next(DECIDED)}. time")


@dataclass(frozen=True, kw_only=True)
class Silent(Independent):
    """Leaves open what it will do.

    Attributes:
        rounds: ``None`` for what nobody says.
    """

    rounds: int | None = None
    name: ClassVar[str] = "silent"


@dataclass(frozen=True, kw_only=True)
class Telling(Independent):
    """Reserves by the number of rows, also where it is private."""

    name: ClassVar[str] = "telling"

    def decide(self, brief: Any, means: Any) -> Decision:
        return replace(
            super().decide(brief, means), cost=Cost(means.rho * (1 - Fraction(1, means.rows + 1)))
        )


@dataclass(frozen=True, kw_only=True)
class Moody(Independent):
    """Tells another number in the manifest than in the plan."""

    name: ClassVar[str] = "moody"

    def play(self, decision: Any, meter: Any, rng: Any, watcher: Any) -> Played:
        played = super().play(decision, meter, rng, watcher)
        return replace(played, facts={"tables": 99})


@dataclass(frozen=True, kw_only=True)
class Richer(Independent):
    """Decides on more than it was given."""

    name: ClassVar[str] = "richer"

    def decide(self, brief: Any, means: Any) -> Decision:
        return super().decide(brief, replace(means, budget=us.Budget.zcdp(100 * means.budget.rho)))


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Independent):
    """Decides on a workload of its own."""

    name: ClassVar[str] = "elsewhere"

    def decide(self, brief: Any, means: Any) -> Decision:
        return super().decide(replace(brief, workload=us.marginals(SMALL, k=1)), means)


@dataclass(frozen=True, kw_only=True)
class Lending(Independent):
    """Costs less than nothing."""

    name: ClassVar[str] = "lending"

    def decide(self, brief: Any, means: Any) -> Decision:
        return replace(super().decide(brief, means), cost=Cost(-means.rho / 100))


class Thawed(Independent):
    """Not a dataclass of its own is fine; a missing name is not."""

    name: ClassVar[str] = ""


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Ignorant, "learns"),
        (Stingy, "spends"),
        (Clinging, "closed"),
        (Thawed, "documented"),
        (Fickle, "two decisions"),
        (Silent, "must decide rounds"),
        (Telling, "tells a private number of rows"),
        (Moody, "plan and play disagree"),
        (Richer, "means of its own"),
        (Elsewhere, "another brief"),
        (Lending, "below 0"),
    ],
)
def test_a_bad_mechanism_fails(kind: type[us.Mechanism], what: str) -> None:
    with pytest.raises((AssertionError, us.InputError), match=what):
        check_mechanism(kind)


@dataclass(frozen=True, kw_only=True)
class Mistaken(Independent):
    """Its author has made a mistake."""

    name: ClassVar[str] = "mistaken"

    def play(self, decision: Any, meter: Any, rng: Any, watcher: Any) -> Played:
        raise ZeroDivisionError("the author's own")


def test_the_kit_shows_an_author_his_own_error() -> None:
    with pytest.raises(ZeroDivisionError, match="the author's own"):
        check_mechanism(Mistaken)
    with pytest.raises(us.ReleaseFailed) as told:
        us.release(
            small_table(), schema=SMALL, epsilon=1, mechanism=Mistaken(), ledger=ProcessLedger()
        )
    assert "author" not in str(told.value)


class Understated(Marginal):
    kind: ClassVar[str] = "understated"

    def l2_squared(self, neighbours: Neighbours) -> int:
        return 1


def test_a_query_class_that_understates_its_sensitivity_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "understudy.checks.batch_from_dict",
        lambda data, schema: Understated.from_dict(data, schema),
    )
    with pytest.raises(AssertionError, match="L2 squared"):
        check_query_class(Understated)


class Forgetful(MemorySource):
    def count(self, column_sets: Sequence[tuple[int, ...]]) -> list[Counts]:
        return [
            Counts(c.cells, np.maximum(c.values - 1, 0), c.keys) for c in super().count(column_sets)
        ]


def test_a_source_that_miscounts_fails() -> None:
    with pytest.raises(AssertionError, match="wrong counts"):
        check_source(Forgetful, query_classes())


# ---------------------------------------------------------------------- mechanisms x query classes x relations

SMALL_SETTINGS = {
    "rounds": 3,
    "steps": 10,
    "latents": 20,
    "hidden": 16,
    "relaxed_rows": 20,
    "samples": 5,
}
EVERY_CLASS = {**query_classes(), EvenSums.kind: EvenSums}


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if another package were installed that brings EvenSums along."""

    class Entry:
        @staticmethod
        def load() -> type[EvenSums]:
            return EvenSums

    for place in ("understudy.queries.workload", "understudy.privacy.trusted"):
        monkeypatch.setattr(
            f"{place}.entry_points",
            lambda group: [Entry] if group == "understudy.queries" else [],
        )
    query_classes.cache_clear()
    yield
    query_classes.cache_clear()


def quickly(name: str) -> us.Mechanism:
    kind = available_mechanisms()[name]
    return kind(
        **{f.name: SMALL_SETTINGS[f.name] for f in fields(kind) if f.name in SMALL_SETTINGS}
    )


def crossed(mechanism: us.Mechanism, works: Iterable[us.Workload]) -> Counter[bool]:
    """How many requests were refused and served; whatever is neither fails."""
    return Counter(
        check_crossing(mechanism, work, neighbours) for work in works for neighbours in Neighbours
    )


def test_a_query_class_from_outside_passes_the_kit(announced: None) -> None:
    check_query_class(EvenSums)


@pytest.mark.parametrize("name", available_mechanisms())
def test_a_request_ends_in_a_sound_bundle_or_is_refused_before_a_charge(
    name: str, announced: None
) -> None:
    every = list(crossings(EVERY_CLASS))
    covering = [
        work
        for work in every
        if work.spec.startswith(("pairs", "wide marginal", "wide even-sums", EvenSums.kind))
    ]
    assert {batch.kind for work in covering for batch in work} == set(EVERY_CLASS)
    found = crossed(quickly(name), covering)
    assert found[True] >= 4 and found.total() == 2 * len(covering)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", available_mechanisms())
def test_every_crossing_ends_in_a_sound_bundle_or_is_refused_before_a_charge(
    name: str, seed: int, announced: None, battery: Callable[[str, int, str], None]
) -> None:
    found = crossed(quickly(name), crossings(EVERY_CLASS, seed))
    assert found[True] >= 4
    battery(
        "crossings", found.total(), f"{found[True]} sound, {found[False]} refused before a charge"
    )


@pytest.mark.parametrize(
    "work", list(crossings({EvenSums.kind: EvenSums})), ids=lambda work: work.spec
)
def test_auto_serves_a_query_class_that_it_has_never_heard_of(
    work: us.Workload, announced: None
) -> None:
    auto, _ = choose(Brief(schema=work.schema, workload=work, neighbours=Neighbours.REPLACE_ONE))
    assert check_crossing(auto, work, Neighbours.REPLACE_ONE)


def test_queries_that_nobody_could_read_back_are_refused_before_a_charge() -> None:
    work, *_ = crossings({EvenSums.kind: EvenSums})
    ledger = ProcessLedger()
    with pytest.raises(us.NotSupported, match="even-sums could be asked but not read back"):
        us.release(
            small_table(),
            schema=SMALL,
            epsilon=1,
            workload=work,
            mechanism="independent",
            ledger=ledger,
        )
    assert not ledger.state.charges


@dataclass(frozen=True, kw_only=True)
class Careless(Independent):
    """Finds out in mid-play that it cannot serve the request."""

    name: ClassVar[str] = "careless"

    def play(self, decision: Any, meter: Any, rng: Any, watcher: Any) -> Played:
        raise us.NotSupported("careless cannot do this.")


def test_a_mechanism_that_refuses_too_late_fails() -> None:
    with pytest.raises(AssertionError, match="its budget is spent, for nothing"):
        check_crossing(Careless(), us.marginals(SMALL, k=2), Neighbours.REPLACE_ONE)


def test_a_release_that_does_not_verify_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "understudy.checks.verify", lambda folder: [Check("every row is sound", False, "planted")]
    )
    with pytest.raises(
        AssertionError, match=r"its own verify rejects it: every row is sound \(planted\)"
    ):
        check_crossing(Independent(), us.marginals(SMALL, k=2), Neighbours.REPLACE_ONE)


# ---------------------------------------------------------------------- the fence


def test_nobody_goes_around_the_meter(tmp_path: Path) -> None:
    assert side_doors(PACKAGE) == []
    shutil.copytree(PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    deep = tmp_path / "copy" / "mechanisms" / "mwem.py"
    deep.write_text(f"{deep.read_text()}\nimport understudy.sources.memory\n")
    assert [door.split(":")[0] for door in side_doors(tmp_path / "copy")] == [
        "mechanisms/mwem.py"
    ], "all of it was read"


SIDE_DOORS = {
    "players/peek.py": "from understudy.sources import open_source",
    "mechanisms/peek.py": "import understudy.sources.memory as m",
    "game/loop.py": "from understudy import sources",
    "bundle/peek.py": "from ..sources import base",
    "cli/peek.py": "import importlib\nimportlib.import_module('understudy.sources.duckdb')",
    "synthesis/peek.py": "def f(meter):\n    return meter._exact",
    "players/look.py": "def f(meter):\n    return meter._look([])",
    "privacy/seeded.py": "import numpy as np\nrng = np.random.default_rng(0)",
    "privacy/seeded2.py": "import random",
    "privacy/talks.py": "print('exact')",
    "sources/logs.py": "import logging",
    "bundle/pickles.py": "import pickle",
    "bundle/archive.py": "import numpy as np\nx = np.load('x.npy')",
    "bundle/archive2.py": "import numpy\nx = numpy.load('x.npy', allow_pickle=True)",
    "bundle/archive3.py": "import numpy as np\nnp.save('x.npy', [], allow_pickle=bool(1))",
    "bundle/frames.py": "import pandas as pd\nx = pd.read_pickle('x')",
    "schema/runs.py": "import yaml\nx = yaml.unsafe_load('x')",
    "players/pool.py": "import concurrent.futures as f\nx = f.ProcessPoolExecutor()",
    "players/pool2.py": "from concurrent.futures import ProcessPoolExecutor",
    "schema/cells.py": "import logging",
    "schema/columns.py": "print('unreadable')",
    "counting/tally.py": "import sys\nsys.stderr.write('exact')",
    "queries/talks.py": "import warnings",
    "players/door.py": "from understudy.api.session import open_source",
    "api/plan.py": "from understudy.privacy import Meter\ndef f(source):\n    return Meter(source)",
    "learning/meter.py": "from understudy.privacy import meter\nm = meter.Meter(None)",
    "players/again.py": "from understudy.privacy.meter import public_rows",
    "bundle/chain.py": "import understudy\nx = understudy.sources",
    "mechanisms/sly.py": "def f(m):\n    return getattr(m, '_exact')",
    "mechanisms/loud.py": "from understudy.privacy import noise\nn = noise.Noise()",
    "api/release.py": "def f(part, source):\n    return part.counts(source)",
    "mechanisms/heir.py": "from understudy.privacy import Meter\nclass M(Meter):\n    pass",
    "mechanisms/own.py": "class M:\n    def peek(self):\n        return self._exact",
    "mechanisms/stands.py": "from understudy.audit.hooks import standing_in",
    "players/stands.py": "import understudy\nx = understudy.audit",
    "synthesis/stands.py": "from understudy import audit",
    "bundle/stands.py": "import importlib\nimportlib.import_module('understudy.audit.watching')",
    "audit/opens.py": "from understudy.sources import open_source",
    "mechanisms/trusts.py": "def f(source, mine):\n    return make(source, trusts=[mine])",
    "mechanisms/noise.py": "from understudy.privacy.noise.samplers import Noise\nn = Noise()",
}


@pytest.mark.parametrize("place", SIDE_DOORS)
def test_the_fence_notices_a_side_door(place: str, tmp_path: Path) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(SIDE_DOORS[place])
    (found,) = {line.split(":")[0] for line in side_doors(tmp_path)}
    assert found == place


def test_the_fence_knows_a_new_source_by_its_folder(tmp_path: Path) -> None:
    for room in ("sources", "game", "audit"):
        (tmp_path / room).mkdir()
    (tmp_path / "sources/new.py").write_text("class Drawer(Cabinet):\n    pass\n")
    (tmp_path / "sources/base.py").write_text("class Cabinet(CellSource):\n    pass\n")
    (tmp_path / "sources/files.py").write_text("class CellSource(Source):\n    pass\n")
    for place in ("game/peek.py", "audit/pairs.py"):
        (tmp_path / place).write_text("from understudy.checks import Drawer")
    assert [door.split(":")[0] for door in side_doors(tmp_path)] == ["game/peek.py"]
    (tmp_path / "sources/files.py").write_text("class CellSource:\n    pass\n")
    assert side_doors(tmp_path) == [], "a class that is no source"


def test_the_room_may_open_its_own_door(tmp_path: Path) -> None:
    for room in ("privacy", "game"):
        (tmp_path / room).mkdir()
    for place, doors in (
        ("privacy/meter.py", set()),
        ("game/loop.py", {"game/loop.py"}),
    ):  # nobody else may
        (tmp_path / place).write_text("from understudy.sources import Source")
        assert {door.split(":")[0] for door in side_doors(tmp_path)} == doors


# ---------------------------------------------------------------------- the loop


class Scripted:
    def __init__(self) -> None:
        self.log: list[str] = []

    def propose(self) -> Model:
        self.log.append("propose")
        return Uniform()

    def learn(self, findings: Any) -> None:
        self.log.append("learn")

    def result(self) -> Model:
        self.log.append("result")
        return Uniform()

    def point(self, model: Model) -> list[Any]:
        self.log.append("point")
        return FOUND if self.log.count("point") < 3 else []


class Listening(NoWatcher):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def step(self, note: str = "") -> None:
        self.notes.append(note)


PAIR = Marginal.of(SMALL, ["a", "b"])
FOUND = [Measurement(PAIR, np.zeros(12, np.int64), Fraction(1)), Choice(PAIR, 5, -1)]


def test_the_loop_proposes_points_learns_and_stops_when_nothing_is_found() -> None:
    both, watcher = Scripted(), Listening()
    played = play(both, both, rounds=10, watcher=watcher, schema=SMALL)
    assert both.log == ["propose", "point", "learn"] * 2 + ["propose", "point", "result"]
    assert played.findings == (*FOUND, *FOUND)
    assert watcher.notes == ["chosen: not a = 1 and b = 1, and 1 more"] * 2
    assert in_words(FOUND[:1], SMALL) == "measured: a, b"


def test_public_names_are_these() -> None:
    assert sorted(us.__all__) == us.__all__
    assert all(hasattr(us, name) for name in us.__all__) and len(us.__all__) <= 45
    assert small_table().shape == (600, 3)


def test_summing_out_axes_agrees_with_numpy() -> None:
    weights = np.random.default_rng(0).random((2, 3, 1, 4, 2))
    for bits in range(32):
        kept = {axis for axis in range(5) if bits >> axis & 1}
        expected = weights.sum(axis=tuple(axis for axis in range(5) if axis not in kept))
        assert np.allclose(sum_out(weights, kept), expected)
