"""``verify``: read a bundle back and recompute what it claims, without the sensitive table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from understudy.bundle.attached_audit import ATTACHMENT, check_attachment
from understudy.bundle.entries import this_version
from understudy.bundle.manifest import (
    MANIFEST_FILE,
    REPAIRED,
    RowsFacts,
    SchemaFacts,
    WorkloadFacts,
    draws_among,
)
from understudy.bundle.release import Release
from understudy.bundle.report import render_report
from understudy.constraints.rows import counts
from understudy.constraints.rules import Rules
from understudy.counting.tally import CodedRows
from understudy.errors import BundleError, shown
from understudy.game.players.measuring import one_way
from understudy.mechanisms.base import Brief, Means, available_mechanisms, make
from understudy.privacy import Accountant, Measurement, Residual
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.privacy.accounting.budget import Budget
from understudy.privacy.certificate import certificate
from understudy.privacy.noise.wide import tail
from understudy.privacy.verbs.residuals import joint_event
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.runtime.paths import as_path

NOT_KEPT = "discriminator "  # charges whose noisy sums are used up in training begin so
NOTHING = "there is none"  # in the place of a detail, where a check does not apply


@dataclass(frozen=True)
class Check:
    """One claim of a bundle, and whether it holds."""

    claim: str
    holds: bool
    detail: str

    @property
    def applies(self) -> bool:
        """Whether there is anything to check."""
        return self.detail != NOTHING


def _more(files: int) -> str:
    return (
        "1 more file, which no manifest lists"
        if files == 1
        else f"{files} more files, which no manifest lists"
    )


def verify(folder: str | Path) -> list[Check]:
    """Every check of a bundle; the bundle is sound when all hold. Raises BundleError if it cannot
    be opened.
    """
    place = as_path(folder, "the release's folder", BundleError)
    release = Release.load(place)  # file hashes are checked here
    strangers = sorted(
        file.name
        for file in place.iterdir()
        if file.name not in (*release.files, MANIFEST_FILE, ATTACHMENT)
    )
    detail = f"{len(release.files)} files, SHA-256" if not strangers else _more(len(strangers))
    checks = [
        Check("the files are those that the manifest lists, and no others", not strangers, detail)
    ]
    for claim, look in (
        ("the schema and the workload are those that the manifest names", _schema),
        ("the events add up to what the manifest says was spent", _events),
        ("what was spent fits the promised epsilon and delta", _promise),
        ("every released row lies in the schema's domain", _rows),
        ("the rows in the user's types and the coded rows agree", _types),
        ("every row keeps every rule of the schema", _rules),
        ("the stored answers are those of the released rows", lambda r: _answers(r, place)),
        ("the certificate follows from its released parts", _certificate),
        (
            "each measurement has the noise of a charged event, and each charge its measurement",
            _noise,
        ),
        ("the released rows can be a draw from the model", _model),
        ("the report is the one that these files give", lambda r: _report(r, place)),
    ):
        checks.append(_run(claim, look, release))
    if (place / ATTACHMENT).exists():  # a release is whole without one
        claim = (
            "the attached audit is bound to this release, of the version that made it, and found no"
            " breach"
        )
        checks.append(_run(claim, lambda r: check_attachment(place, r.facts), release))
    return checks


def _run(claim: str, look: Callable[[Release], tuple[bool, str]], release: Release) -> Check:
    try:
        holds, detail = look(release)
    except Exception as problem:  # a forged manifest may break any piece of the code that reads it
        return Check(claim, False, f"cannot be checked ({type(problem).__name__})")
    return Check(claim, bool(holds), detail)


def _schema(release: Release) -> tuple[bool, str]:
    same = release.facts.schema == SchemaFacts.of(release.schema)
    counted = release.facts.workload == WorkloadFacts.of(release.workload)
    return same and counted, f"{release.schema.digest[:12]}, {release.workload.size:,} queries"


def _events(release: Release) -> tuple[bool, str]:
    facts = release.facts
    total = total_cost(facts.events)
    epsilon = total.epsilon_at(facts.delta, facts.budget.accountant)
    same = (
        epsilon is not None
        and facts.spent.epsilon == float(epsilon)
        and facts.selections == draws_among(facts.events)
        and (total.rho, total.delta) == (facts.spent.rho, facts.spent.delta)
    )
    return same, f"{len(facts.events)} events, rho {float(total.rho):.6g}"


def _promise(release: Release) -> tuple[bool, str]:
    promised = release.facts.budget
    budget = Budget.of(
        epsilon=promised.epsilon,
        delta=promised.delta,
        accountant=promised.accountant,
        spread=promised.spread,
    )
    total: Cost = total_cost(release.facts.events)
    epsilon = total.epsilon_at(release.facts.delta, promised.accountant)
    shown = f"{float(epsilon):.6g}" if epsilon is not None else "none"
    holds = total.fits(budget) and promised.rho == budget.rho
    condition = release.facts.mechanism.conditional_on
    bound, delta = release.facts.promise
    text = f"epsilon {shown} of {bound:.6g} at delta {delta:.3g}"
    if promised.accountant is Accountant.GAUSSIAN:
        text += ", Gaussian noise alone"
    return holds, text if condition is None else f"{text}, conditional on {condition}"


def _rows(release: Release) -> tuple[bool, str]:
    codes = release.codes
    inside = bool(np.all(codes >= 0) and np.all(codes < np.asarray(release.schema.shape)))
    return inside and len(codes) == release.facts.synthetic_rows, f"{len(codes):,} rows"


def _types(release: Release) -> tuple[bool, str]:
    return release.schema.shows(release.synthetic, release.codes), f"{len(release.schema)} columns"


def _rules(release: Release) -> tuple[bool, str]:
    """By the values in the user's types, not by codes."""
    rules = Rules.of(release.schema)
    if not rules:
        return True, NOTHING
    broken = [one for one in counts(rules, release.codes, release.synthetic) if one.broken]
    if not broken:
        return True, f"{len(rules):,} rules, {len(release.codes):,} rows"
    worst = max(broken, key=lambda one: one.broken)
    return False, f"{worst.broken:,} rows break {shown(worst.rule.name)}"


def _answers(release: Release, place: Path) -> tuple[bool, str]:
    stored = pq.read_table(place / "answers.parquet")
    return (
        stored.equals(release.answers().occupied()),
        f"{release.workload.size:,} queries, {stored.num_rows:,} of them not zero",
    )


def _certificate(release: Release) -> tuple[bool, str]:
    c = release.certificate
    event = release.facts.events[-1]
    if not (
        isinstance(event, ev.DiscreteGaussian) and event.what == "certify" and event.l2_squared == 1
    ):
        return False, "its charge is not the last event"
    sigma = Fraction(
        math.isqrt(event.sigma_squared.numerator), math.isqrt(event.sigma_squared.denominator)
    )
    if sigma**2 != event.sigma_squared or c.noisy_largest_error < -6 * sigma:
        return False, "no such noise could have been drawn"
    rows = release.facts.rows
    if not _rows_are_as_released(release, rows):
        return False, "the number of rows it uses is not the one that was released"
    again = certificate(
        c.noisy_largest_error,
        sigma,
        rows.count,
        rows.sigma,
        release.workload.size,
    )
    return again == c, f"{c.bound}, {c.confidence:.0%} sure"


def _report(release: Release, place: Path) -> tuple[bool, str]:
    made_by = release.facts.made_by
    if made_by != this_version():
        return False, f"it was made by {made_by}; verify with that version to compare it"
    return (place / "report.html").read_text(encoding="utf-8") == render_report(
        release
    ), "rendered again"


def _rows_are_as_released(release: Release, rows: RowsFacts) -> bool:
    """A public n has no noise; a private one is the first measurement, and carries its sigma."""
    if release.facts.neighbours is Neighbours.REPLACE_ONE:
        return rows.public and rows.sigma == 0
    total = release.measurements[0]
    same = (
        not rows.public and rows.sigma == total.sigma and rows.count == max(1, int(total.counts[0]))
    )
    return same and total.batch == Marginal((), ())


def _adds_up(release: Release, measurement: Measurement) -> bool:
    """Whether a measured table can be one of so many rows. Of one above a threshold only the number
    of cells tells anything.
    """
    rows, rows_sigma = release.facts.rows.count, float(release.facts.rows.sigma)
    if measurement.threshold is not None:
        empty = measurement.batch.size * tail(measurement.sigma, measurement.threshold)
        return len(measurement.counts) <= rows + 8 * rows_sigma + empty + 8 * empty**0.5 + 8
    off = abs(int(measurement.counts.sum()) - rows)
    return off <= 8 * (rows_sigma + float(measurement.sigma) * measurement.batch.size**0.5) + 1


def _noise(release: Release) -> tuple[bool, str]:
    charged = [e for e in release.facts.events if isinstance(e, ev.DiscreteGaussian)]
    if [e.what for e in charged].count("certify") != 1 or charged[-1].what != "certify":
        return False, "a release is certified once, at its end"
    not_kept = [e.l2_squared for e in charged if e.what.startswith(NOT_KEPT)]
    if not_kept and (name := _not_installed(release)):
        return (
            False,
            (
                f"charges without a measurement cannot be checked, as the mechanism {name} is not"
                " installed here"
            ),
        )
    if not_kept and not_kept != _not_kept(release):
        return False, "charges without a measurement are not those that the mechanism makes"
    measured = [e for e in charged[:-1] if not e.what.startswith(NOT_KEPT)]
    gaussians: list[Any] = [(e.sigma_squared, e.l2_squared) for e in measured]
    neighbours = release.facts.neighbours
    for measurement in (*release.measurements, *release.details):
        if isinstance(measurement, Residual):
            continue
        wanted = (measurement.sigma**2, measurement.batch.l2_squared(neighbours))
        if wanted not in gaussians:
            return False, "a measurement has no matching charge"
        gaussians.remove(wanted)
        if measurement.batch.as_grid() is not None and not _adds_up(release, measurement):
            return False, "a measured table does not add up to the number of rows"
    if not _residuals_are_as_charged(release, neighbours):
        return False, "the residuals are not those that were charged"
    if not gaussians:
        return True, f"{len(release.measurements) + len(release.details)} measurements"
    name = _not_installed(release)
    return False, "a charged measurement is missing" + (
        f", and the mechanism {name} is not installed here" if name else ""
    )


def _model(release: Release) -> tuple[bool, str]:
    """Answers of rows and model differ by no more than drawing does, but with a chance of 1e-9
    (Hoeffding over all queries).
    """
    if release.model is None:
        return True, NOTHING
    model, rows = release.model, CodedRows(release.codes, release.schema.shape)
    asked = [batch for batch in release.workload if model.answers(batch)]
    # The model need not know every class of queries; of what it cannot answer it still has the
    # columns.
    asked += one_way(release.schema) if len(asked) < len(release.workload) else []
    reach = math.sqrt(math.log(2e9 * sum(batch.size for batch in asked)) / (2 * len(release.codes)))
    repairs = release.facts.mechanism.played.get(REPAIRED, 0) if release.schema.rules else 0
    # a repaired row is no draw, and counts in at most one answer too many or too few
    reach += repairs / len(release.codes) if type(repairs) is int else 0.0
    gap = max(
        float(
            np.abs(batch.counts(rows).dense() / len(release.codes) - model.shares(batch)).max(
                initial=0
            )
        )
        for batch in asked
    )
    return gap <= reach, f"{release.model.chances.rows:,} relaxed rows, answers differ by {gap:.2g}"


def _not_installed(release: Release) -> str:
    """The name of the mechanism of the manifest, as a message quotes it, if nothing here goes by
    it.
    """
    name = release.facts.mechanism.name
    return "" if name in available_mechanisms() else shown(name)


def _not_kept(release: Release) -> list[int]:
    """The squared sensitivities of what the mechanism of the manifest measures and does not keep."""
    mechanism, facts = release.facts.mechanism, release.facts
    brief = Brief(schema=release.schema, workload=release.workload, neighbours=facts.neighbours)
    # its parameters are decided already; with all of the promise there is enough for them
    means = Means(budget=facts.budget, rho=facts.budget.rho, rows=facts.rows.count)
    # an exact parameter is written as p/q
    parameters = {
        name: ev.written(value)
        if isinstance(value, str) and ev.RATIONAL.fullmatch(value)
        else value
        for name, value in mechanism.parameters.items()
    }
    return list(make(mechanism.name, parameters).decide(brief, means).sums_not_kept)


def _residuals_are_as_charged(release: Release, neighbours: Neighbours) -> bool:
    """Residuals come in the order of their charges; the joint price is worked out again, and each
    adds up to noise alone.
    """
    residuals = [m for m in release.measurements if isinstance(m, Residual)]
    for event in release.facts.events:
        if isinstance(event, ev.JointGaussian):
            these = residuals[: len(event.sigmas_squared)]
            residuals = residuals[len(event.sigmas_squared) :]
            if (
                not these
                or joint_event([r.batch for r in these], [r.sigma for r in these], neighbours)
                != event
            ):
                return False
            if any(
                r.batch.positions
                and abs(int(r.counts.sum())) > 8 * float(r.sigma) * r.batch.size**0.5 + 1
                for r in these
            ):
                return False
    return not residuals
