"""Generator networks: exact slopes, the same run twice, and a network that is shown nothing but
released values.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import understudy as us
from support.bundles import unsound
from support.meters import play_on
from understudy.bundle.manifest import Manifest
from understudy.checks import SMALL, small_table
from understudy.counting.tally import CodedRows
from understudy.game.loop import DataPlayer, Finding, Model, Played
from understudy.game.players.critic import CriticisedGenerator
from understudy.game.players.leader import LeadingGenerator
from understudy.game.players.network import Network, Size, one_thread
from understudy.mechanisms import generator
from understudy.mechanisms.base import Brief, Mechanism, make
from understudy.mechanisms.papers import gan_logistic, querygan
from understudy.privacy import (
    Choice,
    Discriminate,
    Discriminator,
    Measure,
    Measurement,
    Meter,
    ProcessLedger,
    SelectMarginal,
)
from understudy.privacy.logistic import Question
from understudy.queries.base import Neighbours
from understudy.queries.literals import Literal, all_of, any_of
from understudy.queries.marginal import Marginal
from understudy.queries.relaxed import Chances, relaxed
from understudy.queries.workload import explicit, marginals
from understudy.runtime.watching import NoWatcher
from understudy.sources.memory import MemorySource

PACKAGE = Path(us.__file__).parent
SIZE = Size(latents=7, entries=4, hidden=5)
WORK = explicit(
    SMALL,
    columns=[["a", "b"], ["b", "c"]],
    queries=[any_of(Literal(0, 0), Literal(2, 1)), all_of(Literal(0, 1), Literal(1, 2))],
)
LOGISTIC = "gan-logistic-experimental"
PLAYERS = {
    "generator": (generator, "FittedGenerator"),
    "querygan": (querygan, "LeadingGenerator"),
    LOGISTIC: (gan_logistic, "CriticisedGenerator"),
}
QUICK: dict[str, dict[str, Any]] = {
    "generator": {"steps": 20},
    "querygan": {"steps": 3, "rounds": 10},
    LOGISTIC: {"steps": 10, "rounds": 3},
}


def network(seed: int = 0) -> Network:
    return Network(SMALL, SIZE, np.random.default_rng(seed))


def test_a_network_gives_a_distribution_for_every_column_of_every_latent() -> None:
    found = network().chances()
    assert found.rows == SIZE.latents and found.values.dtype == np.float32
    for c in range(len(SMALL)):
        assert np.allclose(found.column(c).sum(axis=0), 1, atol=1e-6) and found.column(c).min() > 0


def test_slopes_of_the_parameters_are_those_of_differences() -> None:
    queries = [relaxed(batch) for batch in WORK]
    wanted = [np.random.default_rng(i).normal(size=batch.size) for i, batch in enumerate(WORK)]
    made = network()

    def value(at: Chances) -> float:
        return float(sum(w @ q.answers(at) for q, w in zip(queries, wanted, strict=True)))

    at = made.chances()
    slopes = np.zeros_like(at.values)
    for query, weights in zip(queries, wanted, strict=True):
        query.pull(at, weights, slopes)
    found, state = made.pull(at, slopes), made.parameters.copy()
    rng = np.random.default_rng(5)
    # a few parameters at a time: a layer with no slopes shows
    places = np.array_split(rng.permutation(state.size), 40)
    assert np.count_nonzero(found) > state.size / 2
    for place in places:
        direction = np.zeros_like(state)
        direction[0, place] = rng.normal(size=len(place))
        ends = []
        for step in (1e-3, -1e-3):
            made.parameters[:] = state + np.float32(step) * direction
            ends.append(value(made.chances()))
        assert (ends[0] - ends[1]) / 2e-3 == pytest.approx(
            float((found * direction).sum()), abs=1e-3, rel=1e-2
        )


def test_steps_of_adam_are_those_of_the_paper() -> None:
    made, rng = network(), np.random.default_rng(4)
    wanted, adam = made.parameters.astype(np.float64), made.adam(0.1)
    mean, square = np.zeros_like(wanted), np.zeros_like(wanted)
    for t in range(1, 9):
        # some below epsilon
        slopes = (rng.normal(size=wanted.shape) * 10.0 ** rng.integers(-9, 3, wanted.shape)).astype(
            np.float32
        )
        adam.step(slopes)
        mean = 0.9 * mean + 0.1 * slopes
        square = 0.999 * square + 0.001 * slopes.astype(np.float64) ** 2
        wanted -= 0.1 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    assert np.allclose(made.parameters, wanted, atol=1e-4)


def test_parameters_that_are_put_back_give_the_same_rows() -> None:
    made = network()
    before, kept = made.chances().values, made.parameters.copy()
    made.adam(0.1).step(
        made.pull(made.chances(), np.random.default_rng(0).random(before.shape).astype(np.float32))
    )
    assert not np.array_equal(made.chances().values, before)
    made.parameters[:] = kept
    assert np.array_equal(made.chances().values, before)


def test_a_network_plays_on_one_thread_of_blas_and_leaves_the_others_as_they_were() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, "blas"):
        before = threads()
        with one_thread():
            assert threads() == [1] * len(before)
        assert threads() == before


# ---------------------------------------------------------------------- nothing but released values


class Tripwired(MemorySource):
    """A table that nobody may look at while a data player thinks."""

    thinking = False

    def count(self, *given: Any, **named: Any) -> Any:
        assert not Tripwired.thinking, "the generator's code looked at the table"
        return super().count(*given, **named)

    def scan(self, *given: Any, **named: Any) -> Any:
        assert not Tripwired.thinking, "the generator's code looked at the table"
        return super().scan(*given, **named)


class Spied:
    """A data player that notes what it was made of and what it was told, and thinks behind the
    tripwire.
    """

    def __init__(
        self, kind: Any, given: Sequence[Any], named: dict[str, Any], log: list[Any]
    ) -> None:
        log.extend([*given, *named.values()])
        self._player: DataPlayer = kind(*given, **named)
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def propose(self) -> Model:
        return self._behind(self._player.propose)

    def learn(self, findings: Sequence[Finding]) -> None:
        self._log.append(list(findings))
        self._behind(self._player.learn, findings)

    def result(self) -> Model:
        return self._behind(self._player.result)

    @staticmethod
    def _behind(verb: Any, *given: Any) -> Any:
        Tripwired.thinking = True
        try:
            return verb(*given)
        finally:
            Tripwired.thinking = False


def played(mechanism: Mechanism, source: MemorySource) -> Played:
    brief = Brief(schema=SMALL, workload=WORK, neighbours=Neighbours.REPLACE_ONE)
    rho = Fraction(1)
    found, meter, _ = play_on(source, mechanism, brief, rho, len(small_table()), seed=3)
    meter.close()
    return found


@pytest.mark.parametrize("name", PLAYERS)
def test_the_player_is_given_public_and_released_values_only(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[Any] = []
    place, kind = PLAYERS[name]
    real = getattr(place, kind)
    monkeypatch.setattr(place, kind, lambda *given, **named: Spied(real, given, named, log))
    found = played(make(name, QUICK[name]), Tripwired(small_table(), SMALL))
    told = [finding for entry in log if isinstance(entry, list) for finding in entry]
    given = [entry for entry in log if not isinstance(entry, list)]
    assert told and all(type(finding) in (Choice, Discriminator, Measurement) for finding in told)
    # what is learnt from is what is released
    assert all(a is b for a, b in zip(told, found.findings, strict=True))
    public = (us.Schema, Network, int, float, str, Fraction, np.random.Generator, Marginal)
    assert all(
        isinstance(x, public)
        for entry in given
        for x in (entry if isinstance(entry, tuple) else [entry])
    )


@pytest.mark.parametrize("name", PLAYERS)
def test_released_values_alone_make_the_same_model(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = played(make(name, QUICK[name]), MemorySource(small_table(), SMALL))
    script = iter(first.findings)

    def told(self: Meter, verb: Any) -> Any:
        if isinstance(verb, Measure):
            return [next(script) for _ in verb.batches]
        if isinstance(verb, SelectMarginal):
            return [0]
        return next(script) if isinstance(verb, Discriminate) else [next(script)]

    monkeypatch.setattr(Meter, "ask", told)
    # another table, the same findings
    again = played(make(name, QUICK[name]), MemorySource(np.zeros((600, 3), np.int32), SMALL))
    for batch in WORK:
        assert np.array_equal(first.model.shares(batch), again.model.shares(batch))


@pytest.mark.parametrize(
    "place",
    [
        "game/players/network.py",
        "game/players/generator.py",
        "game/players/leader.py",
        "game/players/critic.py",
    ],
)
def test_the_generators_files_import_neither_rows_nor_the_meter(place: str) -> None:
    tree = ast.parse((PACKAGE / place).read_text(encoding="utf-8"))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(
        module.startswith(("understudy.sources", "understudy.privacy."))
        for module in modules
        if module
    )
    assert not names & {"Meter", "Source", "sources", "meter"}
    assert not [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.strip("_") == "meter"
    ]


# ---------------------------------------------------------------------- refusals


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("generator", {"rounds": 0}, "rounds to be a whole number from 1"),
    ("generator", {"steps": True}, "steps"),
    ("generator", {"latents": 0}, "latents to be a whole number from 1"),
    ("generator", {"hidden": 2.5}, "hidden"),
    ("generator", {"rate": 0}, "learning rate above 0"),
    ("generator", {"first": 1}, "first strictly between 0 and 1"),
    ("querygan", {"rounds": 1}, "rounds to be a whole number from 2"),
    ("querygan", {"leader": "leaderless"}, "regularised, follow or perturbed, not 'leaderless'"),
    ("querygan", {"last": 0}, "last to be above 0"),
    ("querygan", {"rate": float("nan")}, "rate to be a number"),
    (
        "generator",
        {"latents": 100_000, "hidden": 100_000, "entries": 100_000},
        "more than .* numbers",
    ),
    (LOGISTIC, {"rounds": 0}, "rounds to be a whole number from 1"),
    (LOGISTIC, {"ridge": 0}, "ridge to be above 0"),
    (LOGISTIC, {"sigma": 0}, "sigma to be above 0"),
    (LOGISTIC, {"sigma": float("nan")}, "sigma to be a number"),
    (LOGISTIC, {"sigma": True}, "sigma to be a number"),
    (LOGISTIC, {"sigma": 0.5}, "cost more than there is"),
    (LOGISTIC, {"sigma": 1e14}, "sigma, a whole number or a Fraction from 1/64"),
    (LOGISTIC, {"push": float("nan")}, "push to be a number"),
    (LOGISTIC, {"push": 1001}, "push to be above 0 and at most 1000"),
    (LOGISTIC, {"last": 1.5}, "last to be above 0 and at most 1"),
    (LOGISTIC, {"rounds": 1000, "latents": 50_000}, "cannot keep 1,000 generators"),
]


@pytest.mark.parametrize(("name", "parameters", "words"), REFUSED)
def test_refusals_come_before_any_charge(name: str, parameters: dict[str, Any], words: str) -> None:
    ledger = ProcessLedger()
    with pytest.raises(us.InputError, match=words):
        wide = us.Schema.from_domain({"a": 3, "b": 4, "c": 100})
        us.release(
            small_table(),
            schema=wide,
            epsilon=1,
            mechanism=name,
            parameters=parameters,
            ledger=ledger,
        )
    assert not ledger.state.charges


@pytest.mark.parametrize("name", PLAYERS)
def test_released_with_queries_saved_and_verified(name: str, tmp_path: Path) -> None:
    made = us.release(
        small_table(),
        schema=SMALL,
        workload=WORK,
        epsilon=5,
        mechanism=name,
        parameters=QUICK[name],
        seed=1,
    )
    made.save(tmp_path / "bundle")
    assert unsound(tmp_path / "bundle") == []
    assert made.certificate.alpha < 0.5 and made.manifest["mechanism"]["played"]["rounds"] > 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("leader", ["regularised", "follow", "perturbed"])
def test_every_leader_goes_toward_what_was_chosen(leader: str, sign: int) -> None:
    player = LeadingGenerator(
        SMALL, network(), leader=leader, rate=0.01, steps=20, last=1, rng=np.random.default_rng(0)
    )
    before = player.propose().shares(WORK.batches[0])[3]
    player.learn([Choice(WORK.batches[0], 3, sign)])
    assert sign * (player.propose().shares(WORK.batches[0])[3] - before) > 0.05


def test_the_mixture_is_uniform_over_the_last_generators() -> None:
    player = LeadingGenerator(
        SMALL,
        network(),
        leader="follow",
        rate=0.01,
        steps=5,
        last=0.5,
        rng=np.random.default_rng(0),
    )
    shares = []
    for _ in range(3):
        shares.append(player.propose().shares(WORK.batches[0]))
        player.learn([Choice(WORK.batches[0], 3)])
    mixed = player.result().shares(WORK.batches[0])
    assert np.allclose(mixed, (shares[2] + player.propose().shares(WORK.batches[0])) / 2, atol=1e-6)


def test_a_workload_without_marginals_has_nothing_to_discriminate_by() -> None:
    ledger = ProcessLedger()
    work = explicit(SMALL, columns=[], queries=[any_of(Literal(0, 0), Literal(2, 1))])
    with pytest.raises(us.NotSupported, match="there are 0 here"):
        us.release(
            small_table(), schema=SMALL, workload=work, epsilon=1, mechanism=LOGISTIC, ledger=ledger
        )
    assert not ledger.state.charges


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((4000, 4200), "there are 16,800,000 here"), ((1000, 1000), "more than 134,217,728 weights")],
)
def test_more_cells_than_discriminators_can_look_at_are_refused_before_any_charge(
    sizes: tuple[int, int], words: str
) -> None:
    ledger, wide = ProcessLedger(), us.Schema.from_domain({"a": sizes[0], "b": sizes[1]})
    parameters = {"rounds": 1000, "latents": 1}
    with pytest.raises(us.NotSupported, match=words):
        us.release(
            small_table()[:, :2],
            schema=wide,
            workload="2-way",
            epsilon=1,
            mechanism=LOGISTIC,
            parameters=parameters,
            ledger=ledger,
        )
    assert not ledger.state.charges


@pytest.mark.parametrize("name", [name for name in PLAYERS if "experimental" in name])
def test_what_is_experimental_says_so_wherever_it_is_seen(name: str) -> None:
    made = us.release(
        small_table(), schema=SMALL, epsilon=1, mechanism=name, parameters=QUICK[name]
    )
    kind = us.available_mechanisms()[name]
    assert "EXPERIMENTAL" in kind.summary and "experimental" in kind.reference
    told = made.manifest["mechanism"]
    assert (
        "experimental" in told["name"]
        and "experimental" in told["reference"]
        and told["played"]["status"] == "experimental"
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_the_generator_follows_a_whole_discriminator(sign: int) -> None:
    """With no noise, rows that are all in one cell of a column or never there, and the generator
    that starts out even.
    """
    rows, batch = np.zeros((1000, 3), np.int32), Marginal.of(SMALL, ["b"])
    rows[:, 1] = 0 if sign > 0 else 1 + np.arange(1000) % (batch.size - 1)
    player = CriticisedGenerator(
        SMALL, network(), (batch,), ridge=1.0, push=1.0, rate=0.01, steps=20, last=1.0
    )
    before = player.propose()
    asked = Question.checked(
        (batch,),
        before.rows(1000, np.random.default_rng(1)),
        SMALL.shape,
        rows=1000,
        weight=1,
        ridge=500,
        sigma=1,
    )
    found = Discriminator(
        (batch,),
        asked.answered(CodedRows(rows, SMALL.shape), np.zeros(batch.size, np.int64)),
        asked.terms,
    )
    player.learn([found])
    assert sign * found.theta[0] > 0 and np.all(sign * found.theta[1:] < 0)
    assert sign * (player.propose().shares(batch)[0] - before.shares(batch)[0]) > 0.05


class Impatient(NoWatcher):
    def step(self, note: str = "") -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", PLAYERS)
def test_interrupted_training_counts_as_spent_and_the_ledger_says_so(name: str) -> None:
    settings: dict[str, Any] = {
        "schema": SMALL,
        "workload": WORK,
        "epsilon": 1,
        "mechanism": name,
        "parameters": QUICK[name],
    }
    whole, cut = ProcessLedger(), ProcessLedger()
    us.release(small_table(), **settings, ledger=whole)
    with pytest.raises(KeyboardInterrupt):
        us.release(small_table(), **settings, ledger=cut, watcher=Impatient())
    assert cut.state.spent == whole.state.spent and "ended early" in cut.state.notes[0]


def test_a_generator_learns_dependence_that_independent_columns_miss() -> None:
    work = marginals(SMALL, k=2)
    error = {}
    for name in ("generator", "independent"):
        made = us.release(
            small_table(), schema=SMALL, workload=work, epsilon=20, mechanism=name, seed=0
        )
        error[name] = made.certificate.noisy_largest_error
    assert error["generator"] < error["independent"] / 2


# ---------------------------------------------------------------------- discriminators that are not kept


def test_a_bundle_may_lack_only_the_measurements_that_its_mechanism_does_not_keep(
    tmp_path: Path,
) -> None:
    work = marginals(SMALL, k=2)
    made = us.release(
        small_table(),
        schema=SMALL,
        workload=work,
        epsilon=1,
        mechanism=LOGISTIC,
        parameters={"rounds": 3, "steps": 2},
    )
    assert unsound(made.save(tmp_path / "sound")) == []
    forged = us.release(small_table(), schema=SMALL, workload=work, epsilon=1, mechanism="gaussian")
    for one, change in (
        (made, {"l2_squared": 2}),
        (made, {"what": "certify"}),
        (forged, {"what": "discriminator over 3 marginals"}),
        (forged, {"what": "certify"}),
    ):
        manifest = one.manifest
        next(e for e in manifest["events"] if e["event"] == "DiscreteGaussian").update(change)
        bundle = replace(one, facts=Manifest.from_dict(manifest)).save(
            tmp_path / str(len(list(tmp_path.iterdir())))
        )
        failed = [check.claim for check in us.verify(bundle) if not check.holds]
        assert any("each charge its measurement" in claim for claim in failed), change
