"""A release: rows, answers, certificate and manifest, and the folder that holds them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.bundle.answers import Answers
from understudy.bundle.codes import coded, uncoded
from understudy.bundle.drawing import MOST_DRAWN, Rows, Sample, from_model, from_rows
from understudy.bundle.manifest import (
    MANIFEST_FILE,
    Manifest,
    MeasurementFacts,
    read_manifest,
)
from understudy.bundle.model import MODEL_FILE, load_model, save_model
from understudy.bundle.remarks import Group, Remark, about_small, remarks, small_groups
from understudy.bundle.saving import check_new, try_file, unwritable
from understudy.constraints.repair import tied_as
from understudy.constraints.rows import rows_that_keep
from understudy.constraints.rules import Rules
from understudy.counting.tally import CodedRows
from understudy.errors import (
    BundleError,
    NotSupported,
    ParameterError,
    UnderstudyError,
    WorkloadError,
)
from understudy.game.fitting.mixture import Mixture
from understudy.game.fitting.values import Values, grids_of
from understudy.privacy import Certificate, Measurement, Residual
from understudy.privacy.noise.samplers import secure_seed
from understudy.queries.binned import BinnedMarginal
from understudy.queries.condition import Condition
from understudy.queries.marginal import Marginal
from understudy.queries.workload import Workload, batch_from_dict
from understudy.runtime.paths import as_path
from understudy.schema import Schema

# of every release, the manifest not counted; a model and an audit are there if asked for
FILES = (
    "synthetic.parquet",
    "codes.parquet",
    "answers.parquet",
    "measurements.parquet",
    "schema.json",
    "workload.json",
    "report.html",
)


@dataclass(frozen=True, repr=False)
class Release:
    """A differentially private stand-in for a table. Everything in it may be published.

    Attributes:
        codes: the rows as codes, one column for each of the schema's.
        synthetic: the rows, in the user's own types (an Arrow table; ``.to_pandas()``). Of a table
            of items, pairs (row, item).
        measurements: the noisy counts (and residuals of counts) that the rows were made from.
        facts: what was done: schema hash, mechanism, budget, every event charged, versions.
        model: the distribution that the rows were drawn from, where the mechanism has one
            (``generator``, ``querygan``, ``rap``, ``projection``); :meth:`sample` draws from it.
        details: the noisy counts of single columns on their grids, by which values are drawn.
    """

    schema: Schema
    workload: Workload
    codes: np.ndarray
    synthetic: pa.Table
    measurements: tuple[Measurement | Residual, ...]
    facts: Manifest
    model: Mixture | None = None
    details: tuple[Measurement, ...] = ()

    @property
    def certificate(self) -> Certificate:
        """How far off the answers to the workload can be."""
        return self.facts.certificate

    @property
    def manifest(self) -> dict[str, Any]:
        """The facts in plain values, as ``manifest.json`` has them: a copy, to look things up in."""
        return self.facts.to_dict()

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its bundle, beside the manifest that lists them."""
        return FILES if self.model is None else (*FILES, MODEL_FILE)

    @cached_property
    def values(self) -> Values:
        """How codes become values: by the noisy counts of single columns inside their bins."""
        return Values.measured(self.schema, self.details, self.codes, self.facts.rows.count)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What its values suggest about how the table was read, such as a column that is mostly
        MISSING; costs nothing.
        """
        return remarks(self)

    @cached_property
    def small_groups(self) -> tuple[Group, ...]:
        """Groups of fewer people than its answers may be off by, the largest first; costs nothing."""
        return small_groups(self)

    @property
    def summary(self) -> str:
        """A few sentences for people: what was promised, how good it is, and what to look at."""
        epsilon, delta = self.facts.promise
        lines = [
            (
                f"{len(self.codes):,} rows by {self.facts.mechanism.name}, epsilon"
                f" {epsilon:.4g}, delta {delta:.3g}, {self.facts.neighbours}."
            ),
            str(self.certificate),
            about_small(self.small_groups),
            *map(str, self.remarks),
        ]
        return "\n".join(line for line in lines if line)

    def answers(self, workload: Workload | str | None = None) -> Answers:
        """Answers to a workload (that of the release if none is given) from the released rows.

        The certificate covers the release's own workload; other queries get an answer, not a bound.
        """
        if workload is None:
            workload = self.workload
        if isinstance(workload, str):
            workload = Workload.parse(workload, self.schema)
        if not isinstance(workload, Workload) or workload.schema != self.schema:
            raise WorkloadError(
                "These queries are written for another schema; make them from the release's own"
                " (release.schema)."
            )
        return Answers(workload, self.codes)

    def sample(self, rows: int, *, seed: int | None = None) -> Sample:
        """As many new rows as you like; they cost no privacy.

        They are drawn from the release's model, where its mechanism has one. Else they are rows
        like those released: moved, while their tables stay as they are. The certificate speaks of
        the released rows; :meth:`alpha_of` says what it comes to for these.
        """
        if rows is None:
            raise ParameterError(
                "rows says how many new rows to draw: a whole number of at least 1."
            )
        return self._sampled(None, rows, seed)

    def sample_where(
        self, condition: str, rows: int | None = None, *, seed: int | None = None
    ) -> Sample:
        """New rows for which a condition holds, such as ``age < 30 and sex = 'F'``; they cost no
        privacy.

        They are drawn from the model under the condition, so that a rare one takes no longer;
        without a model, they are picked out of more. How much it holds for, and whether that is
        more than the release can know, is said in the sample.

        Args:
            condition: columns beside values, with and, or, not, in (...) and brackets.
            rows: how many; as many as the condition would find among the released ones, and at
                least one, if not given.
            seed: of the public randomness.
        """
        return self._sampled(Condition.parse(condition, self.schema), rows, seed)

    def alpha_of(self, sample: Sample) -> float:
        """A bound on the largest error of the workload's answers when they are taken from these
        rows, as sure as the certificate.

        It is the certificate's alpha and the largest difference from the released rows' answers,
        which is public. Only for rows that were drawn without a condition is it a small number.
        """
        codes = sample.codes if isinstance(sample, Sample) else None
        if (
            not isinstance(codes, np.ndarray)
            or codes.dtype.kind != "i"
            or codes.ndim != 2
            or codes.shape[1] != len(self.schema)
            or not len(codes)
            or (codes < 0).any()
            or (codes >= self.schema.shape).any()
        ):
            raise ParameterError(
                "These rows are of another schema than the release's; draw them from this release."
            )
        sample_rows = CodedRows(codes.astype(np.int32, copy=False), self.schema.shape)
        gaps = (
            np.abs(
                batch.counts(sample_rows).dense() / len(codes) - own.dense() / len(self.codes)
            ).max(initial=0.0)
            for batch, own in zip(self.workload, self.answers().counts, strict=True)
        )
        return min(1.0, self.certificate.alpha + max(map(float, gaps)))

    def _sampled(self, condition: Condition | None, rows: int | None, seed: int | None) -> Sample:
        for what, value, least, most in (
            ("rows", rows, 1, MOST_DRAWN // len(self.schema)),
            ("seed", seed, 0, 2**63 - 1),
        ):
            if value is not None and (
                isinstance(value, bool)
                or not isinstance(value, (int, np.integer))
                or not least <= value <= most
            ):
                raise ParameterError(f"{what} must be a whole number from {least:,} to {most:,}.")
        rng = np.random.default_rng(secure_seed() if seed is None else seed)

        def count(share: float) -> int:
            return int(rows or max(1, round(share * len(self.codes))))

        drawn = (
            from_rows(self._rows, condition, count, rng)
            if self.model is None
            else from_model(self.model, condition, count, rng)
        )
        doubtful = None if condition is None else self._doubts(condition, drawn.share)
        rules = tied_as(Rules.of(self.schema), self.codes)
        if rules and condition is not None:
            rules = rules.within(condition.boxes)
        kept = rows_that_keep(rules, drawn.codes, rng, self.values)
        drawn = replace(drawn, codes=kept.codes)
        return Sample(table=kept.table, doubtful=doubtful, **vars(drawn))

    @cached_property
    def _rows(self) -> Rows:
        """The released rows, as something to draw from."""
        asked = (
            Marginal(columns, tuple(self.schema.shape[c] for c in columns)).as_grid()
            for batch in self.workload
            for columns in map(tuple, map(sorted, batch.column_sets()))
        )
        measured = (one.batch.as_grid() for one in self.measurements)
        more = (grid for grid in measured if grid is not None and len(grid.positions) > 2)
        tables = tuple(dict.fromkeys((*asked, *more)))
        return Rows(self.schema, self.codes, tables, float(self.certificate.alpha))

    def _doubts(self, condition: Condition, share: float) -> str | None:
        """Why a condition is beyond what the certificate speaks of, if it is."""
        asked = {column for box in condition.boxes for column in box}
        if not any(asked <= set(batch.columns) for batch in self.workload.marginals):
            return (
                "No marginal of the workload holds all columns of the condition: how they go"
                " together is the model's guess."
            )
        if share <= self.certificate.alpha:
            return (
                f"The condition holds for {100 * share:.2g}% of the rows, and answers may"
                f" be off by {self.certificate.bound}: these rows are mostly the model's guess."
            )
        return None

    def to_csr(self) -> Any:
        """The rows of a table of items as a sparse matrix of SciPy's, rows x items; rows without
        items are there too.
        """
        if self.schema.pairs is None:
            raise ParameterError(
                "Only a release of items is a sparse matrix; its rows are in release.synthetic."
            )
        try:
            from scipy.sparse import csr_array
        except ImportError:
            raise NotSupported(
                "A sparse matrix needs SciPy; install it, or use the pairs in release.synthetic."
            ) from None
        return csr_array(self.codes.astype(np.bool_))

    def save(self, folder: str | Path) -> Path:
        """Write the bundle to a new or empty folder, and return it."""
        from understudy.bundle.report import render_report

        place = as_path(folder, "the release's folder")
        prepare_folder(place)
        try:
            self._write(place, render_report(self))
        except OSError as problem:
            raise BundleError(
                f"The release could not be written to {str(place)!r}"
                f" ({problem.strerror or type(problem).__name__})."
            ) from None
        return place

    def _write(self, place: Path, report: str) -> None:
        pq.write_table(self.synthetic, place / "synthetic.parquet", compression="zstd")
        pq.write_table(coded(self.codes, self.schema), place / "codes.parquet", compression="zstd")
        pq.write_table(self.answers().occupied(), place / "answers.parquet", compression="zstd")
        pq.write_table(
            _measured((*self.measurements, *self.details)),
            place / "measurements.parquet",
            compression="zstd",
        )
        self.schema.save(place / "schema.json")
        (place / "workload.json").write_text(
            json.dumps(self.workload.to_dict(), ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (place / "report.html").write_text(report, encoding="utf-8")
        if self.model is not None:
            save_model(self.model, place / MODEL_FILE)
        for name in self.files:
            _sync(place / name)  # a disk may take what it has no room for, and say so only now
        files = {name: _sha256(place / name) for name in self.files}
        saved = replace(self.facts, files=files).to_dict()
        text = json.dumps(saved, indent=1, ensure_ascii=False)
        (place / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
        _sync(place / MANIFEST_FILE)

    def __repr__(self) -> str:
        facts = (
            f"{len(self.codes):,} rows, {len(self.schema)} columns, {self.workload.size:,} queries,"
            f" off by {self.certificate.bound}"
        )
        return f"<Release by {self.facts.mechanism.name}: {facts}>"

    @classmethod
    def load(cls, folder: str | Path) -> Release:
        """Read a bundle back; refuses files that differ from what the manifest says."""
        place = as_path(folder, "the release's folder", BundleError)
        facts = read_manifest(place)
        check_files(place, facts)
        try:
            schema = Schema.load(place / "schema.json")
            workload = Workload.from_dict(
                json.loads((place / "workload.json").read_text(encoding="utf-8")), schema
            )
            stored = pq.read_table(place / "codes.parquet")
            synthetic = pq.read_table(place / "synthetic.parquet")
            codes = uncoded(stored, schema, facts.synthetic_rows)
            if stored.num_rows != synthetic.num_rows or synthetic.column_names != shown_names(
                schema
            ):
                raise ValueError("other columns or rows than the schema's")
            if not stored.equals(coded(codes, schema)):
                raise ValueError("codes of another type")
            measurements, details = _measurements(
                pq.read_table(place / "measurements.parquet"), facts, schema
            )
            has_model = MODEL_FILE in (facts.files or ())
            model = load_model(place / MODEL_FILE, schema) if has_model else None
        except UnderstudyError as problem:
            raise BundleError(
                f"The bundle {str(place)!r} does not fit together: {problem}"
            ) from None
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            pa.ArrowException,
        ):
            raise BundleError(
                f"The bundle {str(place)!r} cannot be read; it is incomplete or was written by"
                " another version."
            ) from None
        return cls(schema, workload, codes, synthetic, measurements, facts, model, details)


def prepare_folder(place: Path) -> None:
    """Make the folder of a bundle, or refuse; done before a budget is spent on what could not be
    saved.
    """
    ours = False
    try:
        ours = not place.exists()
        check_new(place)
        place.mkdir(parents=True, exist_ok=True)
        try_file(place / MANIFEST_FILE)
    except OSError as problem:
        if ours:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise unwritable(place, problem) from None


def check_files(place: Path, manifest: Manifest) -> None:
    """Refuse files that differ from what the manifest says."""
    files = manifest.files or {}
    if set(files) - {MODEL_FILE} != set(FILES):
        raise BundleError(
            f"The manifest in {str(place)!r} does not list the files that a bundle has; get the"
            " bundle again."
        )
    for name, digest in files.items():
        if not (place / name).is_file() or _sha256(place / name) != digest:
            raise BundleError(
                f"The file {name!r} in {str(place)!r} is missing or differs from what the manifest"
                " says; get the bundle again."
            )


def _sync(file: Path) -> None:
    with file.open("r+b") as stream:
        os.fsync(stream.fileno())


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def shown_names(schema: Schema) -> list[str]:
    """The columns of the released rows: the schema's own or, of items, those of pairs."""
    return list(schema.names) if schema.pairs is None else [schema.pairs.row, schema.pairs.item]


def _measured(measurements: Sequence[Measurement | Residual]) -> pa.Table:
    """Noisy counts as (measurement, query, count); what each measurement was is in the manifest."""
    sizes = [len(m.counts) for m in measurements]
    queries = [
        np.arange(len(m.counts)) if isinstance(m, Residual) or m.keys is None else m.keys
        for m in measurements
    ]
    return pa.table(
        {
            "measurement": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            "query": np.concatenate(queries) if sizes else np.zeros(0, np.int64),
            "count": (
                np.concatenate([m.counts for m in measurements]) if sizes else np.zeros(0, np.int64)
            ),
        }
    )


def _measurements(
    table: pa.Table, facts: Manifest, schema: Schema
) -> tuple[tuple[Measurement | Residual, ...], tuple[Measurement, ...]]:
    """The inverse of :func:`_measured`, on bins and on grids; ValueError unless the table holds
    exactly what is described.
    """
    counts, queries, start = table["count"].to_numpy(), table["query"].to_numpy(), 0
    measurements: list[Measurement | Residual] = []
    on_grids = _batches_on_grids(facts.details, schema)
    described = [(batch_from_dict(dict(m.batch), schema), m) for m in facts.measurements]
    for batch, what in (*described, *zip(on_grids, facts.details, strict=True)):
        rows = slice(start, start + (batch.size if what.cells is None else what.cells))
        start = rows.stop
        if what.residual:
            whole = batch.as_table()
            if what.cells is not None or whole is None:
                raise ValueError("only whole marginals have residuals")
            measurements.append(Residual(whole, counts[rows], what.sigma))
        else:
            keys = None if what.cells is None else queries[rows]
            measurements.append(Measurement(batch, counts[rows], what.sigma, keys, what.threshold))
    if (
        not table.equals(_measured(measurements))
        or start != table.num_rows
        or not all(map(_is_sound, measurements))
    ):
        raise ValueError("other counts than those that are described")
    count = len(facts.measurements)
    details = tuple(m for m in measurements[count:] if isinstance(m, Measurement))
    if len(details) < len(facts.details):
        raise ValueError("residuals of a grid")
    return tuple(measurements[:count]), details


def _batches_on_grids(
    described: Sequence[MeasurementFacts], schema: Schema
) -> Sequence[BinnedMarginal]:
    """What was measured on grids: nothing, or what the schema's grids say, in their order."""
    grids = grids_of(schema)
    if not described or grids is None:
        return []
    named = [(what.batch.get("column"), what.batch.get("grid")) for what in described]
    if named != grids.names:
        raise ValueError("other grids than the schema's")
    return grids.batches


def _is_sound(measurement: Measurement | Residual) -> bool:
    """Whole numbers; and above a threshold, different cells of a marginal, in order, each above it."""
    if measurement.counts.dtype != np.int64:
        return False
    if isinstance(measurement, Residual) or measurement.keys is None:
        return True
    keys, least = measurement.keys, measurement.threshold
    if keys.dtype != np.int64:
        return False
    if (
        measurement.batch.as_table() is None
        or not isinstance(least, int)
        or isinstance(least, bool)
        or least < 0
    ):
        return False
    inside = not len(keys) or (keys[0] >= 0 and keys[-1] < measurement.batch.size)
    return bool(inside and np.all(keys[1:] > keys[:-1]) and np.all(measurement.counts > least))
