"""The manifest: what was done to make a release, as a value with one writer and one reader.

``manifest.json`` is what :meth:`Manifest.to_dict` gives; :meth:`Manifest.from_dict` reads it back
and refuses whatever is not of its type, is missing, or is in no manifest. That what it says is true
is for ``verify`` to find out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, final

from understudy.bundle.entries import (
    SCALARS,
    Entries,
    Malformed,
    Scalar,
    plain,
    this_second,
    this_version,
    versions_of,
)
from understudy.constraints.rules import Rules
from understudy.errors import BundleError
from understudy.game.fitting.values import grids_of
from understudy.mechanisms.base import Decision, Mechanism
from understudy.privacy import Budget, Certificate, Measurement, Residual
from understudy.privacy.accounting import events as ev
from understudy.privacy.accounting.accountant import total_cost
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload
from understudy.schema import Schema

FORMAT = 1  # another number is refused
MANIFEST_FILE = "manifest.json"  # written last: a folder without it is no release
REPAIRED = "repaired_rows"  # among what was played: rows that a mechanism made against a rule
PACKAGES = ("numpy", "numba", "pyarrow", "duckdb")  # that a release depends on


@final
@dataclass(frozen=True, kw_only=True)
class SchemaFacts:
    """Which schema it was, which has a file of its own."""

    sha256: str
    columns: int
    domain_size: str  # in digits; of a very wide table, about how many there are
    rules: tuple[str, ...] = ()  # as they are written there

    @classmethod
    def of(cls, schema: Schema) -> SchemaFacts:
        return cls(
            sha256=schema.digest,
            columns=len(schema),
            domain_size=schema.domain_text.replace(",", ""),
            rules=tuple(rule.text for rule in Rules.of(schema)),
        )


@final
@dataclass(frozen=True, kw_only=True)
class WorkloadFacts:
    """Which workload it was, which has a file of its own."""

    spec: str
    batches: int
    queries: int

    @classmethod
    def of(cls, workload: Workload) -> WorkloadFacts:
        return cls(spec=workload.spec, batches=len(workload), queries=workload.size)


@final
@dataclass(frozen=True, kw_only=True)
class MechanismFacts:
    """Who made the rows, and what its public rules came to."""

    name: str
    parameters: Mapping[str, Scalar]
    reference: str
    conditional_on: str | None
    played: Mapping[str, Scalar]
    why: str

    @classmethod
    def of(
        cls, mechanism: Mechanism, decision: Decision, played: Mapping[str, Any], why: str
    ) -> MechanismFacts:
        """Of a mechanism that played by this decision."""
        return cls(
            name=mechanism.name,
            parameters=_named(decision.parameters),
            reference=mechanism.reference,
            conditional_on=decision.condition,
            played=_named({**decision.numbers, **played}),
            why=why,
        )


def _named(values: Mapping[str, Any]) -> dict[str, Scalar]:
    return {
        name: value if isinstance(value, SCALARS) else str(value) for name, value in values.items()
    }


@final
@dataclass(frozen=True, kw_only=True)
class RowsFacts:
    """How many rows the sensitive table has: public, or released with noise of sigma."""

    count: int
    public: bool
    sigma: Fraction


@final
@dataclass(frozen=True, kw_only=True)
class Spent:
    """What all events come to; ``epsilon`` is read at the promised delta."""

    rho: Fraction
    delta: Fraction
    epsilon: float | None


@final
@dataclass(frozen=True, kw_only=True)
class MeasurementFacts:
    """What a measurement was; its noisy counts have a file of their own.

    Attributes:
        batch: its queries, as their class writes them.
        sigma: of its noise.
        residual: whether it is one of residuals.
        threshold: of a wide marginal, above which counts were kept; None if all were.
        cells: how many were, if there is a threshold.
    """

    batch: Mapping[str, Any] = field(metadata={"key": "part"})
    sigma: Fraction
    residual: bool = False
    threshold: int | None = None
    cells: int | None = field(default=None, metadata={"key": "kept"})

    @classmethod
    def of(cls, measurement: Measurement | Residual, schema: Schema) -> MeasurementFacts:
        batch, sigma = measurement.batch.to_dict(schema), measurement.sigma
        if isinstance(measurement, Residual):
            return cls(batch=batch, sigma=sigma, residual=True)
        if measurement.keys is None:
            return cls(batch=batch, sigma=sigma)
        return cls(
            batch=batch, sigma=sigma, threshold=measurement.threshold, cells=len(measurement.counts)
        )


@final
@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What was done to make a release. All of it is public or noisy.

    Attributes:
        made_by: name and version of the software.
        made_at: when, in UTC.
        rows: of the sensitive table; ``synthetic_rows`` are those of the release.
        budget: what was promised.
        events: every charge, in its order; ``spent`` is what they come to.
        measurements: what was measured and kept, in the order of its file.
        details: what was measured of single columns on their grids, behind these in the file.
        selections: draws of exponential mechanisms among the events.
        ledger: where the charge is written, in words.
        seed: of the public randomness; None if none was given.
        files: each file of the bundle with its SHA-256; None until it is saved.
    """

    made_by: str
    made_at: str
    schema: SchemaFacts
    workload: WorkloadFacts
    mechanism: MechanismFacts
    neighbours: Neighbours
    rows: RowsFacts
    synthetic_rows: int
    budget: Budget
    spent: Spent
    events: tuple[ev.Event, ...]
    measurements: tuple[MeasurementFacts, ...]
    selections: int
    versions: Mapping[str, str]
    certificate: Certificate
    ledger: str
    seed: int | None
    files: Mapping[str, str] | None = None
    details: tuple[MeasurementFacts, ...] = ()

    @classmethod
    def of(
        cls,
        workload: Workload,
        mechanism: MechanismFacts,
        *,
        neighbours: Neighbours,
        rows: RowsFacts,
        synthetic_rows: int,
        budget: Budget,
        events: Sequence[ev.Event],
        measurements: Sequence[Measurement | Residual],
        certificate: Certificate,
        ledger: str,
        seed: int | None,
        details: Sequence[Measurement] = (),
    ) -> Manifest:
        """Of a release that has just been made by this version."""
        assert budget.delta is not None
        spent = total_cost(events)
        epsilon = spent.epsilon_at(budget.delta, budget.accountant)
        return cls(
            made_by=this_version(),
            made_at=this_second(),
            schema=SchemaFacts.of(workload.schema),
            workload=WorkloadFacts.of(workload),
            mechanism=mechanism,
            neighbours=neighbours,
            rows=rows,
            synthetic_rows=synthetic_rows,
            budget=budget,
            spent=Spent(
                rho=spent.rho,
                delta=spent.delta,
                epsilon=None if epsilon is None else float(epsilon),
            ),
            events=tuple(events),
            measurements=tuple(MeasurementFacts.of(m, workload.schema) for m in measurements),
            selections=draws_among(events),
            versions=versions_of(*PACKAGES),
            certificate=certificate,
            ledger=ledger,
            seed=None if seed is None else int(seed),
            details=_on_grids(details, workload.schema),
        )

    @property
    def delta(self) -> Fraction:
        """The promised one, at which what was spent is read."""
        assert self.budget.delta is not None
        return self.budget.delta

    @property
    def promise(self) -> tuple[float, float]:
        """The promised (epsilon, delta), for people."""
        assert self.budget.epsilon is not None
        return float(self.budget.epsilon), float(self.delta)

    # ------------------------------------------------------------------ the one writer

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the file; rationals become "p/q"."""
        return {"format": FORMAT, **plain(self)}

    # ------------------------------------------------------------------ the one reader

    @classmethod
    def from_dict(cls, data: Any, *, called: str = "This manifest") -> Manifest:
        """The inverse of :meth:`to_dict`; raises BundleError, in a sentence about what is
        ``called`` so, on anything else.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise BundleError(f"{called} is not of a format that this version reads.")
        try:
            return _manifest(Entries(data, ""))
        except Malformed as problem:
            raise BundleError(
                f"{called} cannot be read: {problem}. The bundle is incomplete, was changed, or was"
                " written by another version; get it again."
            ) from None


def _on_grids(details: Sequence[Measurement], schema: Schema) -> tuple[MeasurementFacts, ...]:
    grids = grids_of(schema)
    names = [] if grids is None or not details else grids.names
    return tuple(
        MeasurementFacts(batch={"column": column, "grid": table}, sigma=measurement.sigma)
        for (column, table), measurement in zip(names, details, strict=True)
    )


def draws_among(events: Sequence[ev.Event]) -> int:
    """How often an exponential mechanism was drawn from."""
    return sum(event.draws for event in events if isinstance(event, ev.ExponentialDraws))


def read_manifest(place: Path) -> Manifest:
    """What the folder of a release says of itself; raises BundleError if it cannot be read."""
    try:
        data = json.loads((place / MANIFEST_FILE).read_text(encoding="utf-8"))
    except OSError:
        raise BundleError(
            f"{str(place)!r} is not a release folder: it has no readable manifest.json."
        ) from None
    except (ValueError, RecursionError):
        raise BundleError(f"The manifest in {str(place)!r} is not valid JSON.") from None
    return Manifest.from_dict(data, called=f"The manifest in {str(place)!r}")


# ---------------------------------------------------------------------- reading


def _manifest(entries: Entries) -> Manifest:
    entries.whole("format")
    manifest = Manifest(
        made_by=entries.text("made_by"),
        made_at=entries.text("made_at"),
        schema=entries.inside("schema", _schema),
        workload=entries.inside("workload", _workload),
        mechanism=entries.inside("mechanism", _mechanism),
        neighbours=entries.neighbours("neighbours"),
        rows=entries.inside("rows", _rows),
        synthetic_rows=entries.whole("synthetic_rows"),
        budget=entries.inside("budget", _budget),
        spent=entries.inside("spent", _spent),
        events=entries.events("events"),
        measurements=tuple(
            Entries(one, "measurements").read(_measurement) for one in entries.many("measurements")
        ),
        selections=entries.whole("selections"),
        versions=entries.texts("versions"),
        certificate=entries.inside("certificate", _certificate),
        ledger=entries.text("ledger"),
        seed=entries.optional("seed", int, "a whole number"),
        files=entries.texts("files") if "files" in entries else None,
        details=tuple(Entries(one, "details").read(_measurement) for one in entries.many("details"))
        if "details" in entries
        else (),
    )
    entries.end()
    return manifest


def _schema(entries: Entries) -> SchemaFacts:
    return SchemaFacts(
        sha256=entries.text("sha256"),
        columns=entries.whole("columns"),
        domain_size=entries.text("domain_size"),
        rules=tuple(entries.many("rules")) if "rules" in entries else (),
    )


def _workload(entries: Entries) -> WorkloadFacts:
    return WorkloadFacts(
        spec=entries.text("spec"),
        batches=entries.whole("batches"),
        queries=entries.whole("queries"),
    )


def _mechanism(entries: Entries) -> MechanismFacts:
    return MechanismFacts(
        name=entries.text("name"),
        parameters=entries.scalars("parameters"),
        reference=entries.text("reference"),
        conditional_on=entries.optional("conditional_on", str, "text"),
        played=entries.scalars("played"),
        why=entries.text("why"),
    )


def _rows(entries: Entries) -> RowsFacts:
    return RowsFacts(
        count=entries.whole("count"),
        public=entries.one("public", bool, "true or false"),
        sigma=entries.rational("sigma"),
    )


def _budget(entries: Entries) -> Budget:
    amounts = entries.rational("rho"), entries.rational("epsilon"), entries.rational("delta")
    if "accountant" not in entries:  # as it was before there were two
        return Budget(*amounts)
    accountant = entries.accountant("accountant")
    return Budget(*amounts, accountant, entries.whole("spread") if "spread" in entries else 1)


def _spent(entries: Entries) -> Spent:
    return Spent(
        rho=entries.rational("rho"),
        delta=entries.rational("delta"),
        epsilon=entries.optional("epsilon", float, "a number"),
    )


def _measurement(entries: Entries) -> MeasurementFacts:
    batch, sigma = entries.one("part", dict, "an object"), entries.rational("sigma")
    if "residual" in entries:
        if not entries.one("residual", bool, "true"):
            raise Malformed(f"its entry {entries.name_of('residual')} is not true")
        return MeasurementFacts(batch=batch, sigma=sigma, residual=True)
    if "threshold" not in entries:
        return MeasurementFacts(batch=batch, sigma=sigma)
    return MeasurementFacts(
        batch=batch, sigma=sigma, threshold=entries.whole("threshold"), cells=entries.whole("kept")
    )


def _certificate(entries: Entries) -> Certificate:
    return Certificate(
        alpha=entries.number("alpha", 0, 1),
        confidence=entries.number("confidence", 0, 1),
        noisy_largest_error=entries.whole("noisy_largest_error"),
        sigma=entries.number("sigma", 0),
        rows=entries.whole("rows"),
        rows_sigma=entries.number("rows_sigma", 0),
        queries=entries.whole("queries"),
    )
