"""Generator networks: exact slopes, the same run twice, and a network that is shown nothing but released values."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.checks import SMALL, small_table
from understudy.game import DataPlayer, Finding, Model, NoWatcher, Played
from understudy.mechanisms import gan_gradients, gan_logistic, generator, querygan
from understudy.mechanisms.base import Brief, Mechanism, make
from understudy.players.critic import LEVELS, CriticisedGenerator
from understudy.players.leader import LeadingGenerator
from understudy.players.network import Network, Size
from understudy.privacy import Budget, Choice, Discriminator, Measurement, Meter, ProcessLedger, Tilt, Tilted
from understudy.privacy.logistic import Question
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.queries.relaxed import Chances
from understudy.queries.symmetric import Literal, all_of, any_of
from understudy.queries.workload import explicit, marginals
from understudy.sources.memory import MemorySource
from understudy.tally import CodedRows

PACKAGE = Path(us.__file__).parent
SIZE = Size(latents=7, entries=4, hidden=5)
WORK = explicit(
    SMALL, columns=[["a", "b"], ["b", "c"]], queries=[any_of(Literal(0, 0), Literal(2, 1)), all_of(Literal(0, 1), Literal(1, 2))]
)
GRADIENTS, LOGISTIC = "gan-gradients-experimental", "gan-logistic-experimental"
PLAYERS = {
    "generator": (generator, "FittedGenerator"),
    "querygan": (querygan, "LeadingGenerator"),
    GRADIENTS: (gan_gradients, "CriticisedGenerator"),
    LOGISTIC: (gan_logistic, "CriticisedGenerator"),
}
QUICK: dict[str, dict[str, Any]] = {
    "generator": {"steps": 20},
    "querygan": {"steps": 3, "rounds": 10},
    GRADIENTS: {"steps": 10, "rounds": 6},
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
    queries = [part.relaxed() for part in WORK]
    wanted = [np.random.default_rng(i).normal(size=part.size) for i, part in enumerate(WORK)]
    made = network()

    def value(at: Chances) -> float:
        return float(sum(w @ q.answers(at) for q, w in zip(queries, wanted, strict=True)))

    at = made.chances()
    slopes = np.zeros_like(at.values)
    for query, weights in zip(queries, wanted, strict=True):
        query.pull(at, weights, slopes)
    made.pull(at, slopes)
    state, found = made.state(), [parameter.grad.clone() for parameter in made.parameters]
    rng = np.random.default_rng(5)
    for index, gradient in enumerate(found):
        direction = rng.normal(size=tuple(gradient.shape)).astype(np.float32)
        ends = []
        for step in (1e-3, -1e-3):
            moved = [kept.clone() for kept in state]
            moved[index] += step * gradient.new_tensor(direction)
            made.restore(moved)
            ends.append(value(made.chances()))
        expected = float((gradient.numpy() * direction).sum())
        assert (ends[0] - ends[1]) / 2e-3 == pytest.approx(expected, abs=1e-3, rel=1e-2)


def test_a_kept_state_comes_back() -> None:
    made = network()
    before, state = made.chances().values, made.state()
    made.pull(made.chances(), np.random.default_rng(0).random(before.shape).astype(np.float32))
    made.adam(0.1).step()
    assert not np.array_equal(made.chances().values, before)
    made.restore(state)
    assert np.array_equal(made.chances().values, before)


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
    """A data player that notes what it was made of and what it was told, and thinks behind the tripwire."""

    def __init__(self, kind: Any, given: Sequence[Any], named: dict[str, Any], log: list[Any]) -> None:
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
    mechanism, allowed = mechanism.settled(brief, Budget.zcdp(rho), rho, len(small_table()))
    meter = Meter(source, neighbours=brief.neighbours, ledger=ProcessLedger(), play=allowed, certify=rho, label="taint")
    try:
        return mechanism.play(brief, meter, np.random.default_rng(3), NoWatcher())
    finally:
        meter.close()


@pytest.mark.parametrize("name", PLAYERS)
def test_the_player_is_given_public_and_released_values_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    place, kind = PLAYERS[name]
    real = getattr(place, kind)
    monkeypatch.setattr(place, kind, lambda *given, **named: Spied(real, given, named, log))
    found = played(make(name, QUICK[name]), Tripwired(small_table(), SMALL))
    told = [finding for entry in log if isinstance(entry, list) for finding in entry]
    given = [entry for entry in log if not isinstance(entry, list)]
    assert told and all(type(finding) in (Choice, Discriminator, Measurement, Tilted) for finding in told)
    assert all(a is b for a, b in zip(told, found.findings, strict=True))  # what is learnt from is what is released
    public = (us.Schema, Network, int, float, str, Fraction, np.random.Generator, Marginal)
    assert all(isinstance(x, public) for entry in given for x in (entry if isinstance(entry, tuple) else [entry]))


@pytest.mark.parametrize("name", PLAYERS)
def test_released_values_alone_make_the_same_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = played(make(name, QUICK[name]), MemorySource(small_table(), SMALL))
    script = iter(first.findings)
    monkeypatch.setattr(Meter, "measure", lambda *_, **__: next(script))
    monkeypatch.setattr(Meter, "measure_all", lambda self, parts, **__: [next(script) for _ in parts])
    monkeypatch.setattr(Meter, "select", lambda *_, **__: [next(script)])
    monkeypatch.setattr(Meter, "select_marginal", lambda *_, **__: [0])
    monkeypatch.setattr(Meter, "measure_tilted", lambda *_, **__: next(script))
    monkeypatch.setattr(Meter, "discriminate", lambda *_, **__: next(script))
    again = played(make(name, QUICK[name]), MemorySource(np.zeros((600, 3), np.int32), SMALL))  # another table, the same findings
    for part in WORK:
        assert np.array_equal(first.model.shares(part), again.model.shares(part))


@pytest.mark.parametrize("place", ["players/network.py", "players/generator.py", "players/leader.py", "players/critic.py"])
def test_the_generators_files_import_neither_rows_nor_the_meter(place: str) -> None:
    tree = ast.parse((PACKAGE / place).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(module.startswith(("understudy.sources", "understudy.privacy.")) for module in modules if module)
    assert not names & {"Meter", "Source", "sources", "meter"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.strip("_") == "meter"]


# ---------------------------------------------------------------------- torch is an extra


def test_nothing_imports_torch_until_a_network_is_made() -> None:
    code = "import sys, understudy as us; us.available_mechanisms(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", PLAYERS)
def test_without_torch_a_sentence_says_what_to_install_and_nothing_is_charged(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, ledger = importlib.util.find_spec, ProcessLedger()
    monkeypatch.setattr(importlib.util, "find_spec", lambda module, *rest: None if module == "torch" else real(module, *rest))
    with pytest.raises(us.NotSupported, match=r"pip install 'understudy\[gan\]'"):
        us.release(small_table(), schema=SMALL, epsilon=1, mechanism=name, ledger=ledger)
    assert not ledger.state.charges


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
    ("generator", {"latents": 100_000, "hidden": 100_000, "entries": 100_000}, "more than .* numbers"),
    (GRADIENTS, {"rounds": 0}, "rounds to be a whole number from 1"),
    (GRADIENTS, {"ascents": 2.0}, "ascents to be a whole number"),
    (GRADIENTS, {"ridge": 0}, "ridge to be above 0"),
    (GRADIENTS, {"push": float("nan")}, "push to be a number"),
    (GRADIENTS, {"last": 1.5}, "last to be above 0 and at most 1"),
    (GRADIENTS, {"rounds": 10_000, "latents": 10_000}, "cannot keep 10,000 generators"),
    (GRADIENTS, {"rounds": 10_000, "ascents": 1000, "latents": 1}, "more than 134,217,728 slopes"),
    (LOGISTIC, {"rounds": 0}, "rounds to be a whole number from 1"),
    (LOGISTIC, {"ridge": 0}, "ridge to be above 0"),
    (LOGISTIC, {"sigma": 0}, "sigma to be above 0"),
    (LOGISTIC, {"sigma": float("nan")}, "sigma to be a number"),
    (LOGISTIC, {"sigma": True}, "sigma to be a number"),
    (LOGISTIC, {"sigma": 0.5}, "cost more than there is"),
    (LOGISTIC, {"sigma": 1e14}, "sigma, a whole number or a Fraction from 1/64"),
    (LOGISTIC, {"push": float("nan")}, "push to be a number"),
    (LOGISTIC, {"rounds": 1000, "latents": 50_000}, "cannot keep 1,000 generators"),
]


@pytest.mark.parametrize(("name", "parameters", "words"), REFUSED)
def test_refusals_come_before_any_charge(name: str, parameters: dict[str, Any], words: str) -> None:
    ledger = ProcessLedger()
    with pytest.raises(us.InputError, match=words):
        wide = us.Schema.from_domain({"a": 3, "b": 4, "c": 100})
        us.release(small_table(), schema=wide, epsilon=1, mechanism=name, parameters=parameters, ledger=ledger)
    assert not ledger.state.charges


@pytest.mark.parametrize("name", PLAYERS)
def test_released_with_queries_saved_and_verified(name: str, tmp_path: Path) -> None:
    made = us.release(small_table(), schema=SMALL, workload=WORK, epsilon=5, mechanism=name, parameters=QUICK[name], seed=1)
    made.save(tmp_path / "bundle")
    assert all(check.holds for check in us.verify(tmp_path / "bundle"))
    assert made.certificate.alpha < 0.5 and made.manifest["mechanism"]["played"]["rounds"] > 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("leader", ["regularised", "follow", "perturbed"])
def test_every_leader_goes_toward_what_was_chosen(leader: str, sign: int) -> None:
    player = LeadingGenerator(SMALL, network(), leader=leader, rate=0.01, steps=20, last=1, rng=np.random.default_rng(0))
    before = player.propose().shares(WORK.parts[0])[3]
    player.learn([Choice(WORK.parts[0], 3, sign)])
    assert sign * (player.propose().shares(WORK.parts[0])[3] - before) > 0.05


def test_the_mixture_is_uniform_over_the_last_generators() -> None:
    player = LeadingGenerator(SMALL, network(), leader="follow", rate=0.01, steps=5, last=0.5, rng=np.random.default_rng(0))
    shares = []
    for _ in range(3):
        shares.append(player.propose().shares(WORK.parts[0]))
        player.learn([Choice(WORK.parts[0], 3)])
    mixed = player.result().shares(WORK.parts[0])
    assert np.allclose(mixed, (shares[2] + player.propose().shares(WORK.parts[0])) / 2, atol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_discriminator_learns_which_cells_are_real_and_the_generator_follows(sign: int) -> None:
    """With exact slopes of a table where one cell is as frequent as it is rare with the generator, or the other way round."""
    rows, part = np.zeros((1000, 3), np.int32), Marginal.of(SMALL, ["b"])
    rows[:, 1] = 2 if sign > 0 else np.arange(1000) % 2
    settings = {"rows": 1000, "ascents": 2, "ridge": 1.0, "push": 1.0, "rate": 0.01, "steps": 20, "last": 1.0}
    player = CriticisedGenerator(SMALL, network(), (part,), rng=np.random.default_rng(0), **settings)  # type: ignore[arg-type]
    before = player.propose().shares(part)[2]
    for trained in (False, True):
        asked = player.propose()
        tilt = Tilt((part,), asked.weights[0], LEVELS)
        player.learn([Tilted(tilt, CodedRows(rows, SMALL.shape).scan(tilt), Fraction(1))])
        assert sign * player.propose().weights[0][2] > 0
        assert (player.propose().shares(part)[2] != before) == trained
    assert sign * (player.propose().shares(part)[2] - before) > 0.05


@pytest.mark.parametrize("name", [GRADIENTS, LOGISTIC])
def test_a_workload_without_marginals_has_nothing_to_discriminate_by(name: str) -> None:
    ledger, work = ProcessLedger(), explicit(SMALL, columns=[], queries=[any_of(Literal(0, 0), Literal(2, 1))])
    with pytest.raises(us.NotSupported, match="there are 0 here"):
        us.release(small_table(), schema=SMALL, workload=work, epsilon=1, mechanism=name, ledger=ledger)
    assert not ledger.state.charges


@pytest.mark.parametrize("name", [name for name in PLAYERS if "experimental" in name])
def test_what_is_experimental_says_so_wherever_it_is_seen(name: str) -> None:
    made = us.release(small_table(), schema=SMALL, epsilon=1, mechanism=name, parameters=QUICK[name])
    kind = us.available_mechanisms()[name]
    assert "EXPERIMENTAL" in kind.summary and "experimental" in kind.reference
    told = made.manifest["mechanism"]
    assert "experimental" in told["name"] and "experimental" in told["reference"] and told["played"]["status"] == "experimental"


def test_the_generator_follows_a_whole_discriminator() -> None:
    """With no noise, rows that are all in one cell of a column, and the generator that starts out even."""
    rows, part = np.zeros((1000, 3), np.int32), Marginal.of(SMALL, ["b"])
    settings = {"rows": 1000, "ascents": 1, "ridge": 1.0, "push": 1.0, "rate": 0.01, "steps": 20, "last": 1.0}
    player = CriticisedGenerator(SMALL, network(), (part,), rng=np.random.default_rng(0), **settings)  # type: ignore[arg-type]
    before = player.propose()
    asked = Question.checked((part,), before.rows(1000, np.random.default_rng(1)), SMALL.shape, rows=1000, weight=1, ridge=500, sigma=1)
    theta = asked.answered(CodedRows(rows, SMALL.shape), np.zeros(part.size, np.int64))
    player.learn([Discriminator((part,), theta, asked.terms)])
    assert player.propose().weights[0].argmax() == 0 and np.all(player.propose().weights[0][1:] < 0)
    assert player.propose().shares(part)[0] - before.shares(part)[0] > 0.05


class Impatient(NoWatcher):
    def step(self, note: str = "") -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", PLAYERS)
def test_interrupted_training_counts_as_spent_and_the_ledger_says_so(name: str) -> None:
    settings: dict[str, Any] = {"schema": SMALL, "workload": WORK, "epsilon": 1, "mechanism": name, "parameters": QUICK[name]}
    whole, cut = ProcessLedger(), ProcessLedger()
    us.release(small_table(), **settings, ledger=whole)
    with pytest.raises(KeyboardInterrupt):
        us.release(small_table(), **settings, ledger=cut, watcher=Impatient())
    assert cut.state.spent == whole.state.spent and "ended early" in cut.state.notes[0]


def test_a_generator_learns_dependence_that_independent_columns_miss() -> None:
    work = marginals(SMALL, k=2)
    error = {}
    for name in ("generator", "independent"):
        made = us.release(small_table(), schema=SMALL, workload=work, epsilon=20, mechanism=name, seed=0)
        error[name] = made.certificate.noisy_largest_error
    assert error["generator"] < error["independent"] / 2


# ---------------------------------------------------------------------- slopes that are not kept


def test_a_bundle_may_lack_only_the_measurements_that_its_mechanism_does_not_keep(tmp_path: Path) -> None:
    work = marginals(SMALL, k=2)
    made = us.release(
        small_table(), schema=SMALL, workload=work, epsilon=1, mechanism="gan-gradients-experimental", parameters={"rounds": 3, "steps": 2}
    )
    assert all(check.holds for check in us.verify(made.save(tmp_path / "sound")))
    forged = us.release(small_table(), schema=SMALL, workload=work, epsilon=1, mechanism="gaussian")
    for manifest, change in (
        (made.manifest, {"l2_squared": 2}),
        (made.manifest, {"what": "certify"}),
        (forged.manifest, {"what": "tilt over 3 marginals"}),
        (forged.manifest, {"what": "certify"}),
    ):
        events = [dict(event) for event in manifest["events"]]
        place = 0 if "l2_squared" in change or manifest is forged.manifest else 1
        events[place] |= change
        one = made if manifest is made.manifest else forged
        bundle = replace(one, manifest={**manifest, "events": events}).save(tmp_path / str(len(list(tmp_path.iterdir()))))
        failed = [check.claim for check in us.verify(bundle) if not check.holds]
        assert any("each charge its measurement" in claim for claim in failed), change
