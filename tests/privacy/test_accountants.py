"""Who counts a release: rho, or the accountant of Gaussian noise; in the meter, the manifest and
the ledger.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import understudy as us
from understudy.api.request import Request
from understudy.bundle.verify import verify
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.counting.tally import CodedRows
from understudy.errors import BudgetRefused, BundleError, ParameterError
from understudy.mechanisms.base import available_mechanisms
from understudy.privacy import Accountant, Budget, Certify, FileLedger, Measure, Meter, Select
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, cost_of, total_cost
from understudy.privacy.accounting.budget import gaussian_rho_for, rho_for
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.sources.memory import MemorySource

N = 600
DELTA = Fraction(1, N * N)
GAUSSIAN, RHO = Accountant.GAUSSIAN, Accountant.RHO
AT_ONCE = ("arp", "gaussian", "independent", "matrix", "projection")
QUICK = {"projection": {"steps": 20, "relaxed_rows": 20}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    pd.DataFrame(small_table(), columns=list("abc")).to_csv(path, index=False)
    return path


def make(table: Any, **more: Any) -> us.Release:
    return us.release(table, **{"schema": SMALL, "epsilon": 1, "mechanism": "independent", **more})


def budget_of(data: Path, *words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["budget", str(data), "--json", *words])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def limited(data: Path, accountant: str, epsilon: str = "1") -> None:
    at = ["--limit-epsilon", epsilon, "--limit-delta", str(DELTA), "--accountant", accountant]
    budget_of(data, *at)


# ---------------------------------------------------------------------- costs


def test_a_sum_is_gaussian_if_everything_in_it_is() -> None:
    one = cost_of(ev.DiscreteGaussian(what="x", sigma_squared=Fraction(25), l2_squared=2))
    two = cost_of(
        ev.JointGaussian(
            what="x", sigmas_squared=(Fraction(9), Fraction(16)), l2_in_sigmas=Fraction(1)
        )
    )
    draw = cost_of(ev.ExponentialDraws(what="x", log_weight_shift=Fraction(1), draws=1))
    free = cost_of(ev.DiscreteGaussian(what="n", sigma_squared=Fraction(1, 16), l2_squared=0))
    assert (one.least_variance, two.least_variance) == (25, 9)
    assert (one + two).least_variance == (two + one).least_variance == 9
    assert (one + free).least_variance == (free + one).least_variance == 25
    assert (one + draw).least_variance is (draw + one).least_variance is None
    assert (Cost() + one).is_gaussian(Fraction(25)) and not one.is_gaussian(Fraction(26))
    assert Cost().is_gaussian(Fraction(26)) and not draw.is_gaussian(Fraction(1, 10**9))


@pytest.mark.parametrize("spread", [1, 16])
def test_a_gaussian_limit_is_kept_by_gaussian_noise_alone(spread: int) -> None:
    limit = Budget.of(epsilon=1, delta=DELTA, accountant="gaussian", spread=spread)
    least = limit.least_variance
    assert limit.rho == gaussian_rho_for(Fraction(1), DELTA, spread) > rho_for(Fraction(1), DELTA)
    assert least == Fraction(spread) / (2 * limit.rho)
    assert Cost(limit.rho, least_variance=least).keeps(limit)
    assert not Cost(limit.rho * (1 + Fraction(1, 10**40)), least_variance=least).keeps(limit)
    narrow = Cost(limit.rho, least_variance=least * (1 - Fraction(1, 10**9)))
    # where one count may take all, what moves by a whole number within rho is never narrower (A5);
    # a variance below is of a number that moves nowhere
    assert narrow.keeps(limit) == (spread == 1)
    assert not Cost(limit.rho / 100).keeps(limit)
    allowed = Cost(limit.rho, least_variance=least)
    assert Cost(limit.rho, least_variance=least).within(allowed) and Cost().within(allowed)
    assert not Cost(limit.rho / 100).within(allowed)
    assert not Cost(limit.rho / 100, least_variance=least / 2).within(allowed)


def test_a_reservation_states_no_less_than_what_follows_from_its_rho() -> None:
    event = ev.GaussianReservation(what="x", rho=Fraction(1, 50), least_variance=Fraction(1))
    assert cost_of(event).least_variance == 25 and cost_of(event).rho == Fraction(1, 50)
    assert ev.from_dict(ev.to_dict(event)) == event
    for bad in ({"rho": Fraction(0)}, {"least_variance": Fraction(0)}):
        with pytest.raises(ParameterError):
            cost_of(ev.GaussianReservation(**{**vars(event), **bad}))


def test_bad_accountants_are_refused() -> None:
    for bad in ("zcdp", "", None, 1):
        with pytest.raises(ParameterError, match="rho and gaussian"):
            Budget.of(epsilon=1, delta=1e-9, accountant=bad)  # type: ignore[arg-type]
    for spread in (0, True, 1.5, 10**7):
        with pytest.raises(ParameterError, match="spread"):
            Budget.of(epsilon=1, delta=1e-9, accountant="gaussian", spread=spread)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- the meter


class Untouched(MemorySource):
    def count(self, column_sets: Any) -> Any:
        assert not any(column_sets), "it was looked at"  # the number of rows is public
        return super().count(column_sets)


def test_what_is_not_gaussian_noise_of_such_a_sigma_is_refused_and_nothing_looked_at() -> None:
    play = Cost(Fraction(10), least_variance=Fraction(9))
    source = Untouched(np.asarray(small_table()), SMALL)
    meter = Meter(
        source, neighbours=Neighbours.REPLACE_ONE, play=play, certify=Fraction(1), noise=None
    )
    table = Marginal.of(SMALL, ["a"])
    shares = [np.full(table.size, 1 / table.size)]
    for verb in (
        Select(batches=[table], shares=shares, rho=Fraction(1, 100)),
        Measure(batches=[table], rho=Fraction(1, 8)),  # of sigma 2.8
    ):
        with pytest.raises(BudgetRefused, match="does not draw Gaussian noise alone, of sigma 3 "):
            meter.ask(verb)  # type: ignore[arg-type]
    assert not meter.events and meter.left == 10
    with pytest.raises(us.SourceError):  # of sigma 3.2, which is looked for
        meter.ask(Measure(batches=[table], rho=Fraction(1, 10)))
    assert len(meter.events) == 1


def test_the_certificate_is_held_to_the_same_sigma() -> None:
    source = MemorySource(np.asarray(small_table()), SMALL)
    play, batch = Cost(Fraction(10), least_variance=Fraction(9)), Marginal.of(SMALL, ["a"])
    answers = [batch.counts(CodedRows(small_table(), SMALL.shape))]
    for certify, granted in ((Fraction(1, 10), False), (Fraction(1, 20), True)):
        meter = Meter(
            source, neighbours=Neighbours.REPLACE_ONE, play=play, certify=certify, noise=None
        )
        verb = Certify(batches=[batch], answers=answers, released_rows=N)
        if granted:
            assert meter.ask(verb).sigma >= 3
        else:
            with pytest.raises(BudgetRefused, match="of sigma 3 "):
                meter.ask(verb)


# ---------------------------------------------------------------------- requests and manifests


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("mechanism", AT_ONCE)
def test_what_measures_at_once_is_counted_as_gaussian_and_verifies(
    mechanism: str, neighbours: str, tmp_path: Path
) -> None:
    made = make(
        small_table(),
        mechanism=mechanism,
        parameters=QUICK.get(mechanism),
        neighbours=neighbours,
        delta=str(DELTA),
        ledger=tmp_path / "l",
    )
    budget = made.facts.budget
    assert budget.accountant is GAUSSIAN and budget.rho > 1.05 * rho_for(Fraction(1), DELTA)
    assert 0.95 < (made.facts.spent.epsilon or 0) <= 1
    spent, least = total_cost(made.facts.events), budget.least_variance
    assert least is not None and spent.is_gaussian(least) and spent.rho > 0.97 * budget.rho
    assert FileLedger(tmp_path / "l").read().spent == Cost(budget.rho, least_variance=least)
    made.save(tmp_path / "out")
    assert all(check.holds for check in verify(tmp_path / "out"))


def test_the_noise_is_less_by_what_the_bound_gains() -> None:
    asked = {"schema": SMALL, "epsilon": 1, "mechanism": "gaussian", "delta": DELTA, "rows": N}
    ours, before = us.plan(**asked), us.plan(**asked, accountant="rho")  # type: ignore[arg-type]
    assert (ours.accountant, before.accountant) == ("gaussian", "rho")
    assert ours.noise is not None and before.noise is not None
    assert 0.93 < ours.noise / before.noise < 0.96
    assert ours.noise / before.noise == pytest.approx((before.rho / ours.rho) ** 0.5)


def test_many_counts_are_spread_and_few_ask_for_nothing() -> None:
    few = make(small_table()).facts.budget
    wide = {f"c{i}": 2 for i in range(20)}
    rows = np.random.default_rng(0).integers(0, 2, (N, 20))
    many = make(rows, schema=wide).facts.budget
    assert (few.spread, many.spread) == (1, 16)
    assert many.rho > few.rho


def test_what_selects_is_counted_by_rho() -> None:
    for mechanism in ("mwem", "rap", "dualquery"):
        request = Request.of(schema=SMALL, epsilon=1, mechanism=mechanism)
        assert request.decide(N).means.budget == Budget.of(epsilon=1, delta=DELTA)
    rounds = Request.of(schema=SMALL, epsilon=1, mechanism="arp", parameters={"adaptive": True})
    assert rounds.decide(N).means.budget.accountant is RHO
    asked = Request.of(schema=SMALL, epsilon=1, mechanism="mwem", accountant="gaussian")
    with pytest.raises(ParameterError, match="does not draw Gaussian noise alone"):
        asked.decide(N)


def test_whether_noise_is_gaussian_does_not_tell_a_private_number_of_rows() -> None:
    for name, kind in available_mechanisms().items():
        if kind.can_be_gaussian:
            request = Request.of(
                schema={f"c{i}": 3 for i in range(9)},
                epsilon=1,
                delta="1e-6",
                mechanism=name,
                neighbours="add-remove-one",
            )
            means = request.decide(None).means
            costs = {
                request.mechanism.decide(
                    request.brief, replace(means, rows=rows)
                ).cost  # what is reserved for nobody knows how many
                for rows in (1, 600, 10**6)
            }
            assert len(costs) == 1, name


LIES = {
    "the accountant is gone": lambda m: m["budget"].pop("accountant"),
    "another accountant": lambda m: m["budget"].update(accountant="rho"),
    "one that is none": lambda m: m["budget"].update(accountant="mine"),
    "counts are said to be spread": lambda m: m["budget"].update(spread=16),
    "and very much": lambda m: m["budget"].update(spread=10**6),
    "no spread at all": lambda m: m["budget"].update(spread=0),
    "more rho": lambda m: m["budget"].update(rho=str(Fraction(m["budget"]["rho"]) * 2)),
    "less spent": lambda m: m["spent"].update(epsilon=m["spent"]["epsilon"] * 0.99),
    "a draw among the events": lambda m: m["events"].insert(
        0, {"event": "PureDP", "what": "x", "epsilon": "1/100"}
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies_about_it_does_not_verify(lie: str, tmp_path: Path) -> None:
    make(small_table(), seed=1).save(tmp_path / "out")
    file = tmp_path / "out" / "manifest.json"
    manifest = json.loads(file.read_text())
    assert manifest["budget"]["accountant"] == "gaussian" and "spread" not in manifest["budget"]
    LIES[lie](manifest)
    file.write_text(json.dumps(manifest))
    try:
        claims = [check.claim for check in verify(tmp_path / "out") if not check.holds]
    except BundleError:
        claims = ["it cannot be read"]
    assert any("spent" in claim or "cannot be read" in claim for claim in claims), claims


def test_a_release_by_rho_is_written_as_it_always_was() -> None:
    manifest = make(small_table(), accountant="rho").manifest
    assert list(manifest["budget"]) == ["rho", "epsilon", "delta"]
    assert Fraction(manifest["budget"]["rho"]) == rho_for(Fraction(1), DELTA)


# ---------------------------------------------------------------------- the ledger


@pytest.mark.parametrize("accountant", ["gaussian", "rho"])
def test_one_release_is_granted_under_a_limit_of_its_epsilon_and_shows_as_that(
    data: Path, accountant: str
) -> None:
    limited(data, accountant)
    made = make(str(data))
    assert made.facts.budget.accountant == accountant and made.facts.delta == DELTA
    shown = budget_of(data)
    assert shown["epsilon"] == pytest.approx(1, abs=1e-9) and shown["delta"] == float(DELTA)
    assert shown["left"]["epsilon"] == 0 and shown["accountant"] == accountant
    with pytest.raises(BudgetRefused, match="does not allow this charge"):
        make(str(data), epsilon="0.01")
    assert len(budget_of(data)["charges"]) == 1


def test_without_a_limit_one_release_shows_as_its_epsilon_at_its_delta(data: Path) -> None:
    assert make(str(data)).facts.budget.accountant is GAUSSIAN
    shown = budget_of(data, "--delta", str(DELTA))
    assert shown["epsilon"] == pytest.approx(1, abs=1e-9) and shown["delta"] == float(DELTA)
    assert shown["charges"][0]["gaussian"] and shown["limit"] is None
    # one that is not makes it a sum of rho
    make(str(data), mechanism="mwem", epsilon="0.01")
    total = FileLedger.beside(data).read().spent
    assert total.least_variance is None
    assert budget_of(data, "--delta", str(DELTA))["epsilon"] > 1.05


def test_a_gaussian_limit_holds_several_releases_and_no_more(data: Path) -> None:
    limited(data, "gaussian", "2")
    limit = Budget.of(epsilon=2, delta=DELTA, accountant="gaussian")
    for epsilon in ("1", "0.5", "0.7"):
        make(str(data), epsilon=epsilon)
    left = budget_of(data)["left"]["epsilon"]
    assert 0 < left < 2
    with pytest.raises(BudgetRefused, match=f"At most epsilon {left:.6g} at delta"):
        make(str(data), epsilon=str(left * 1.02))
    make(str(data), epsilon=str(left))
    state = FileLedger.beside(data).read()
    assert 0.98 * limit.rho < state.spent.rho <= limit.rho
    assert state.spent.keeps(limit) and state.limit == limit
    told = state.epsilon_at(DELTA)
    assert told is not None and 1.98 < told <= 2 * (1 + 1e-9)
    by_rho = state.spent.epsilon_at(DELTA)
    assert by_rho is not None and by_rho > 1.01 * told


@pytest.mark.parametrize("more", [{"mechanism": "mwem"}, {"accountant": "rho"}])
def test_a_gaussian_limit_refuses_what_it_cannot_count(data: Path, more: dict[str, str]) -> None:
    limited(data, "gaussian", "5")
    with pytest.raises(BudgetRefused, match="cannot count what is asked for") as caught:
        make(str(data), epsilon="0.1", **more)
    assert "--accountant rho" in str(caught.value) and "At most" not in str(caught.value)
    assert not budget_of(data)["charges"]


def test_a_limit_by_rho_counts_a_gaussian_release_by_its_rho(data: Path) -> None:
    """An accountant that is named afterwards is no proof."""
    made = make(str(data))
    refused = CliRunner().invoke(
        main, ["budget", str(data), "--limit-epsilon", "1", "--limit-delta", str(DELTA)]
    )
    assert refused.exit_code == 2 and "below what is already spent" in refused.stderr
    limited(data, "rho", "2")
    shown = budget_of(data)
    counted = FileLedger.beside(data).read()
    assert counted.left == rho_for(Fraction(2), DELTA) - made.facts.budget.rho
    assert shown["epsilon"] > 1.03
    make(str(data), epsilon=str(shown["left"]["epsilon"]))
    assert FileLedger.beside(data).read().charges[1].cost.least_variance is None


def test_a_limit_is_read_back_with_its_accountant_and_an_old_one_counts_by_rho(
    tmp_path: Path,
) -> None:
    ledger = FileLedger(tmp_path / "l")
    for limit in (
        Budget.of(epsilon=1, delta=DELTA),
        Budget.of(epsilon=2, delta=DELTA, accountant="gaussian"),
        Budget.zcdp(1),
    ):
        assert ledger.set_limit(limit).limit == limit
    bodies = [json.loads(line)["body"] for line in (tmp_path / "l").read_text().splitlines()]
    assert set(bodies[0]) == {"rho", "epsilon", "delta"} and set(bodies[2]) == {"rho"}
    assert bodies[1]["accountant"] == "gaussian"


def limit_of(words: str) -> Budget:
    """Such as ``gaussian 1``."""
    accountant, epsilon = words.split()
    return Budget.of(epsilon=epsilon, delta=DELTA, accountant=accountant)


def refusal(ledger: FileLedger, limit: Budget) -> str:
    """Why a limit is refused; nothing is written then."""
    before = ledger.path.read_bytes() if ledger.path.exists() else b""
    with pytest.raises(ParameterError) as caught:
        ledger.set_limit(limit)
    assert (ledger.path.read_bytes() if ledger.path.exists() else b"") == before
    return str(caught.value)


FIXED = {  # limits in turn, after a charge under the first; the last is refused
    "gaussian for rho": ("gaussian 1", "rho 1"),
    "gaussian for a larger rho": ("gaussian 1", "rho 1.2"),
    "gaussian for rho, as large as another path may go": ("gaussian 1", "gaussian 1.2", "rho 1.2"),
    "rho for gaussian": ("rho 1", "gaussian 1"),
    "rho for gaussian, in two steps": ("rho 1", "rho 1.2", "gaussian 1"),
    "rho for gaussian, and larger": ("rho 1", "gaussian 0.8", "gaussian 1"),
}


@pytest.mark.parametrize("what", FIXED)
def test_the_limit_at_the_first_charge_fixes_the_accountant(what: str, tmp_path: Path) -> None:
    """Whoever went on by rho on some paths and by Gaussian noise on others would be held to
    neither filter.
    """
    first, *between, last = map(limit_of, FIXED[what])
    ledger, other = FileLedger(tmp_path / "l"), limit_of("rho 2")
    if first.accountant is RHO:
        other = limit_of("gaussian 2")
    for limit in (other, first):  # nothing was seen yet
        ledger.set_limit(limit)
    ledger.add("some release", Fraction(1, 1000), accountant=GAUSSIAN)
    for limit in between:
        assert ledger.set_limit(limit).limit == limit
        ledger.add("another", Fraction(1, 1000), accountant=GAUSSIAN)
    assert "after releases were seen, which is no proof" in refusal(ledger, last)


def test_a_charge_of_nothing_does_not_open_the_choice_of_an_accountant(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l")
    ledger.set_limit(limit_of("gaussian 1"))
    nothing = ev.Reservation(what="release", rho=Fraction(0))
    ledger.reserve("nothing", (nothing,), Neighbours.REPLACE_ONE)
    assert "after releases were seen, which is no proof" in refusal(ledger, limit_of("rho 1"))


def test_within_the_rho_of_the_first_limit_a_gaussian_one_may_follow(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path / "l")
    first, lower = limit_of("rho 1"), limit_of("gaussian 0.9")
    assert limit_of("gaussian 0.99").rho > first.rho > lower.rho
    ledger.set_limit(first)
    ledger.add("some release", Fraction(1, 1000), accountant=GAUSSIAN)
    for limit in (lower, limit_of("rho 0.9"), lower, limit_of("rho 3"), lower):
        assert ledger.set_limit(limit).limit == limit
    assert f"{float(first.rho):.6g}" in refusal(ledger, limit_of("gaussian 0.99"))


def test_a_first_limit_after_releases_counts_by_rho(data: Path) -> None:
    make(str(data))
    ledger = FileLedger.beside(data)
    assert "made under no limit" in refusal(ledger, limit_of("gaussian 3"))
    # as the sum reads without a limit, and as a limit by rho counts it
    assert budget_of(data, "--delta", str(DELTA))["epsilon"] == pytest.approx(1, abs=1e-9)
    assert "below what is already spent (epsilon 1.0" in refusal(ledger, limit_of("rho 1"))
    for words in ("rho 2", "rho 1.5"):
        ledger.set_limit(limit_of(words))
    assert "made under no limit" in refusal(ledger, limit_of("gaussian 1.2"))


def test_other_noise_that_was_added_by_hand_is_counted_by_rho_alone(data: Path) -> None:
    limited(data, "gaussian")
    make(str(data), epsilon="0.1")
    ledger = FileLedger.beside(data)
    assert "--accountant gaussian" in refusal(ledger, limit_of("rho 2"))
    with pytest.raises(BudgetRefused, match="measures everything at once") as caught:
        make(str(data), epsilon="0.1", mechanism="mwem")
    assert "--accountant rho" not in str(caught.value), "that would be refused"
    ledger.add("of other noise", Fraction(1, 1000))
    with pytest.raises(BudgetRefused, match="added by hand, so it grants nothing more"):
        make(str(data), epsilon="0.1")
    assert "other noise" in refusal(ledger, limit_of("gaussian 2"))
    ledger.set_limit(limit_of("rho 2"))
    make(str(data), epsilon="0.1", mechanism="mwem")
    assert len(ledger.read().charges) == 3


def test_a_limit_is_as_it_will_be_read_and_has_no_spread_of_its_own(tmp_path: Path) -> None:
    """A spread that is chosen after releases is chosen by them; a rho that is not its epsilon's
    would be compared, and another one read.
    """
    ledger, sound = FileLedger(tmp_path / "l"), limit_of("gaussian 8")
    for limit in (
        Budget.of(epsilon=8, delta=DELTA, accountant="gaussian", spread=16),
        replace(sound, rho=sound.rho / 100),
        replace(sound, epsilon=None, delta=None),
        replace(limit_of("rho 1"), spread=2),
    ):
        assert "its spread is 1" in refusal(ledger, limit)
    ledger.set_limit(sound)
    ledger.add("some release", Fraction(1, 1000), accountant=GAUSSIAN)
    wide = Budget.of(epsilon=8, delta=DELTA, accountant="gaussian", spread=16)
    assert wide.rho > sound.rho and "its spread is 1" in refusal(ledger, wide)


def test_what_is_larger_than_a_gaussian_limit_is_told_what_would_be_granted(data: Path) -> None:
    limited(data, "gaussian")
    with pytest.raises(BudgetRefused, match="does not allow this charge") as caught:
        make(str(data), epsilon=2)
    words = str(caught.value)
    assert "it costs epsilon 2, on top of epsilon 0" in words and "other noise" not in words
    assert "At most epsilon 1 at delta" in words
    assert make(str(data), epsilon=1).facts.budget.accountant is GAUSSIAN


def test_what_is_more_than_a_limit_reads_as_its_own_epsilon() -> None:
    """One count of it may have a smaller variance than any that the limit holds."""
    limit, larger = limit_of("gaussian 1"), limit_of("gaussian 4")
    assert limit.epsilon_of(larger.rho) == pytest.approx(4, abs=1e-9)
    assert limit.epsilon_of(limit.rho) == pytest.approx(1, abs=1e-9)
    assert limit.epsilon_of(Fraction(0)) == 0


@pytest.mark.parametrize("accountant", ["gaussian", "rho"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.999", "1", "10", "1000"])
def test_of_an_unspent_limit_all_of_it_is_left(accountant: str, epsilon: str) -> None:
    limit = limit_of(f"{accountant} {epsilon}")
    assert limit.most_epsilon(limit.rho, DELTA) == Fraction(epsilon)
    less = limit.most_epsilon(limit.rho * (1 - Fraction(1, 10**6)), DELTA)
    assert less is not None and Fraction(98, 100) < less / Fraction(epsilon) < 1


def test_a_limit_that_is_raised_keeps_its_accountant(data: Path) -> None:
    limited(data, "gaussian")
    for words in (["--accountant", "gaussian"], []):
        shown = budget_of(data, "--limit-epsilon", "2", "--limit-delta", str(DELTA), *words)
        assert shown["accountant"] == "gaussian"


def test_a_charge_that_is_added_is_gaussian_if_somebody_says_so(data: Path) -> None:
    limited(data, "gaussian")
    for words in ([], ["--accountant", "gaussian"]):
        budget_of(data, "--add-rho", "0.001", "--why", "a line that was lost", *words)
    kinds = [type(charge.events[0]) for charge in FileLedger.beside(data).read().charges]
    assert kinds == [ev.Reservation, ev.GaussianReservation]
    with pytest.raises(BudgetRefused):  # one of them cannot be counted
        make(str(data), epsilon="0.01")


def test_two_ledgers_that_count_differently_are_both_kept_to(data: Path, tmp_path: Path) -> None:
    limited(data, "gaussian")
    other = FileLedger(tmp_path / "other.jsonl")
    other.set_limit(Budget.of(epsilon=1, delta=DELTA))
    with pytest.raises(BudgetRefused, match="cannot count what is asked for"):
        make(str(data), ledger=other.path)
    assert not other.read().charges


class Foreign:
    where = "elsewhere"

    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Any) -> int:
        self.events += events
        return 0

    def note(self, text: str, charge: int | None = None) -> None:
        pass


def test_a_ledger_of_somebody_elses_is_charged_by_rho(data: Path) -> None:
    for table in (str(data), small_table()):
        ledger = Foreign()
        make(table, ledger=ledger)
        (event,) = ledger.events
        assert isinstance(event, ev.Reservation) and event.rho == rho_for(Fraction(1), DELTA)
