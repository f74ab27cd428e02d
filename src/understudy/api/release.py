"""``release()``: the one way in. Checks everything, reserves the budget, lets a mechanism play,
certifies.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.api.session import Booked
from understudy.bundle.answers import Answers
from understudy.bundle.manifest import Manifest, MechanismFacts, RowsFacts
from understudy.bundle.release import Release
from understudy.bundle.saving import Need, check_folder, check_memory, check_room
from understudy.counting.tally import LARGEST_TABLE
from understudy.errors import (
    BudgetRefused,
    LedgerWarning,
    NotSupported,
    ParameterError,
    ReleaseFailed,
    SchemaError,
    SourceError,
    UnderstudyError,
    Unread,
    warn,
)
from understudy.game.fitting.mixture import Mixture
from understudy.game.loop import Model
from understudy.mechanisms.base import Brief, Mechanism, make
from understudy.mechanisms.choose import choose
from understudy.privacy import (
    Budget,
    Certify,
    FileLedger,
    Measurement,
    Meter,
    ProcessLedger,
    ReleaseTotal,
    Residual,
    TableLedger,
)
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.accounting.budget import exact, exact_epsilon
from understudy.privacy.ledger.ledger import EARLY, MADE, Ledger, describe_left
from understudy.privacy.looking import public_rows
from understudy.privacy.noise.samplers import secure_seed
from understudy.queries.base import Neighbours
from understudy.queries.workload import Workload, marginals, query_classes
from understudy.runtime.paths import as_path
from understudy.runtime.progress import watched
from understudy.runtime.watching import Watcher
from understudy.schema import Schema
from understudy.sources import Source, open_source

CERTIFICATE_SHARE = Fraction(1, 20)  # of rho, for the certificate
TOTAL_SHARE = Fraction(1, 50)  # of rho, for the number of rows when it is private
MOST_ROWS = 100_000_000
MOST_CODES = 2**28  # synthetic rows x columns: one gigabyte
FEWEST_MADE = 1000  # rows, when memory runs out for more
OUT_OF_MEMORY = (
    "Memory ran out while the release was made, and what was measured is lost with it; "
    "ask for fewer rows or fewer marginals, or use a larger machine."
)
NO_LEDGER = (
    "This table is in memory and no ledger was given, so nothing remembers what is spent on it:"
    " several releases add up, and nobody counts. Give ledger='people.ledger.jsonl', or a file of"
    " your choice, whenever these people are in the table. This is said once."
)
FEWEST_ROWS_FOR_DEFAULT = 32  # below this, delta = 1/n^2 is above 0.001


def release(
    table: Any,
    *,
    schema: Schema | Mapping[str, Any] | str | Path,
    epsilon: Any,
    delta: Any = None,
    workload: Workload | str | None = None,
    mechanism: str | Mechanism = "auto",
    parameters: Mapping[str, Any] | None = None,
    rows: int | None = None,
    neighbours: str = "replace-one",
    ledger: str | Path | Ledger | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    watcher: Watcher | None = None,
    out: str | Path | None = None,
) -> Release:
    """Make a differentially private stand-in for a sensitive table.

    Args:
        table: a path or glob of CSV or Parquet files, a table of an SQLite file
            (``people.sqlite::patients``), a pandas or polars DataFrame, a polars LazyFrame, a
            DuckDB relation, an Arrow table, a narwhals frame over one of these, a NumPy array; with
            a schema of items also a sparse matrix.
        schema: what is public about the table; a :class:`Schema`, its plain form, or a file.
        epsilon: the privacy promise; smaller is more private.
        delta: the promise's failure mass; 1/n^2 if not given, which needs a public n (replace-one).
        workload: the queries to answer well; all 2-way marginals if not given.
        mechanism: a name from :func:`available_mechanisms`, an instance, or ``auto``.
        parameters: the mechanism's parameters, by name; all have public defaults.
        rows: how many synthetic rows; if not given, as many as the table has, or as 2^28 cells
            allow.
        neighbours: ``replace-one`` (n is public) or ``add-remove-one`` (n is private).
        ledger: the file that keeps what was spent on this table; beside the data if not given. A
            table in memory has none unless you give one, and then nothing adds up what several
            releases spend.
        seed: for the *public* randomness (rounding, values inside bins); noise has no seed.
        progress: show bars on a terminal or in a notebook, lines elsewhere; if not given, the bars
            only.
        watcher: told of progress instead, in public values only.
        out: the folder that you will save to. Nothing is written to it here, but one that cannot
            take the release is refused before anything is charged.

    Returns:
        A :class:`Release`; everything in it may be published.

    Raises:
        InputError: something is wrong with the request; nothing was charged.
        BudgetRefused: the ledger's limit does not allow it; nothing was charged.

    Examples:
        >>> import numpy as np
        >>> table = np.random.default_rng(0).integers(0, 3, size=(500, 2))
        >>> made = release(table, schema={"a": 3, "b": 3}, epsilon=1.0, mechanism="mwem")
        >>> made.synthetic.num_rows, made.certificate.confidence
        (500, 0.95)
    """
    with watched(progress, watcher) as seen:
        return _release(
            table,
            schema,
            epsilon,
            delta,
            workload,
            mechanism,
            parameters,
            rows,
            neighbours,
            ledger,
            seed,
            seen,
            out,
        )


def _release(
    table: Any,
    schema: Schema | Mapping[str, Any] | str | Path,
    epsilon: Any,
    delta: Any,
    workload: Workload | str | None,
    mechanism: str | Mechanism,
    parameters: Mapping[str, Any] | None,
    rows: int | None,
    neighbours: str,
    ledger: str | Path | Ledger | None,
    seed: int | None,
    watcher: Watcher,
    out: str | Path | None,
) -> Release:
    schema = as_schema(schema)
    work = as_workload(workload, schema)
    relation = as_neighbours(neighbours)
    check_whole_number(rows, "rows", 1, most_rows(schema))
    check_whole_number(seed, "seed", 0, 2**63 - 1)
    promised = exact_epsilon(epsilon)
    brief = Brief(schema=schema, workload=work, neighbours=relation)
    chosen, reason = as_mechanism(mechanism, parameters, brief)
    if relation not in chosen.relations:
        raise NotSupported(
            f"{chosen.name} is proved private under {' or '.join(chosen.relations)} only; name"
            " another mechanism or relation."
        )
    chosen.check(brief)
    source = open_source(table, schema)
    book = Booked(ledger_for(ledger, source))
    say_unread(source)
    n = None
    if relation is Neighbours.REPLACE_ONE:
        watcher.stage("counting rows", 1)
        n = public_rows(source)
    budget = Budget.of(epsilon=promised, delta=_delta(delta, n))
    rng = np.random.default_rng(secure_seed() if seed is None else seed)
    for_certificate = budget.rho * CERTIFICATE_SHARE
    chosen, allowed = chosen.settled(brief, budget, budget.rho - for_certificate, n)
    if not (allowed + Cost(for_certificate)).fits(budget):
        raise ParameterError(
            f"The mechanism {chosen.name} asks for more than the promised epsilon and delta allow."
        )

    # Of a private number of rows nothing is known here, nor of what they take.
    need = Need.of(work, rows or min(n or 1, most_rows(schema)), chosen.model_numbers(brief))
    check_memory(need)
    if out is not None:
        check_folder(as_path(out, "the release's folder"))
        check_room(as_path(out, "the release's folder"), need)

    made, failure, meter = None, "", None
    try:
        meter = Meter(
            source,
            neighbours=relation,
            ledger=book,
            play=allowed,
            certify=for_certificate,
            label=f"{chosen.name}, epsilon {float(promised):.6g}",
        )
        # From here on the budget is spent, whatever happens.
        made = _play(meter, brief, chosen, budget, rows, rng, watcher, reason, book.where, seed)
        book.ended(MADE)
    except BaseException as problem:
        if not book.begun:  # refused, and nothing was charged
            if isinstance(problem, BudgetRefused):
                raise _with_what_fits(problem, allowed, budget) from None
            raise
        book.ended(EARLY)
        if not isinstance(problem, Exception):  # interrupted
            problem.add_note(book.in_words("The release", promised, budget.delta))
            raise
        # Our own sentences are safe to repeat; a foreign message might quote a cell.
        failure = (
            str(problem)
            if isinstance(problem, UnderstudyError)
            else "Something unexpected went wrong."
        )
        failure = OUT_OF_MEMORY if isinstance(problem, MemoryError) else failure
    finally:
        if meter is not None:
            meter.close()
    if made is None:
        raise ReleaseFailed(
            f"{failure} The release had begun, so its whole budget counts as spent."
        )
    return made


def _with_what_fits(refusal: BudgetRefused, asked: Cost, budget: Budget) -> BudgetRefused:
    """A refusal that says what would be granted at this release's own delta; a curve counts
    otherwise at every epsilon.
    """
    if not refusal.left or asked.curve is not None or asked.delta or budget.delta is None:
        return refusal
    more = (
        f"At most {describe_left(refusal.left, budget.delta)}, which is this release's, would be"
        " granted."
    )
    return BudgetRefused(f"{refusal} {more}", left=refusal.left)


def _play(
    meter: Meter,
    brief: Brief,
    mechanism: Mechanism,
    budget: Budget,
    rows: int | None,
    rng: np.random.Generator,
    watcher: Watcher,
    why: str,
    ledger: str,
    seed: int | None,
) -> Release:
    """COUNT (if n is private), PLAY, make ROWS, CERTIFY."""
    total: list[Measurement] = []
    if brief.neighbours is Neighbours.ADD_REMOVE_ONE:
        total.append(meter.ask(ReleaseTotal(rho=meter.left * TOTAL_SHARE)))
    played = mechanism.play(brief, meter, rng, watcher)
    watcher.stage("making rows", 1)
    wanted = rows or min(meter.rows, most_rows(brief.schema))
    codes, synthetic, answers = _rows_that_fit(played.model, brief, wanted, rng)
    watcher.step()
    watcher.stage("certifying", 1)
    certificate = meter.ask(
        Certify(parts=list(brief.workload), answers=answers.counts, released_rows=len(codes))
    )
    watcher.step(f"largest error at most {certificate.people:,} people")
    measurements = (*total, *(f for f in played.findings if isinstance(f, (Measurement, Residual))))
    fewer = (
        {}
        if len(codes) == wanted
        else {"fewer_rows": f"memory ran out for {wanted:,} rows, so fewer were made"}
    )
    facts = Manifest.of(
        brief.workload,
        MechanismFacts.of(mechanism, {**played.facts, **fewer}, why),
        neighbours=brief.neighbours,
        rows=RowsFacts(
            count=meter.rows, public=not total, sigma=total[0].sigma if total else Fraction(0)
        ),
        synthetic_rows=len(codes),
        budget=budget,
        events=meter.events,
        measurements=measurements,
        certificate=certificate,
        ledger=ledger,
        seed=seed,
    )
    model = played.model if isinstance(played.model, Mixture) else None
    return Release(brief.schema, brief.workload, codes, synthetic, measurements, facts, model)


def _rows_that_fit(
    model: Model, brief: Brief, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, pa.Table, Answers]:
    """Rows, the same in the user's types, and their answers; fewer rows if memory runs out, because
    the play is paid for.
    """
    while True:
        try:
            codes = model.rows(count, rng)
            return codes, brief.schema.decode(codes, rng), Answers(brief.workload, codes)
        except MemoryError:
            if count <= FEWEST_MADE:
                raise
        count = max(FEWEST_MADE, count // 8)  # out here, where what was made so far is let go


# ---------------------------------------------------------------------- checking the request


def as_schema(given: Schema | Mapping[str, Any] | str | Path) -> Schema:
    if isinstance(given, Schema):
        schema = given
    elif isinstance(given, Mapping):
        schema = Schema.from_dict(given)
    elif isinstance(given, (str, Path)):
        schema = Schema.load(given)
    else:
        raise ParameterError("schema must be a Schema, a mapping, or the path of a schema file.")
    try:
        schema.digest  # noqa: B018 (kept; a schema that cannot be written must be refused before a budget is spent on it)
    except UnicodeEncodeError:
        raise SchemaError(
            "The schema holds text that cannot be written as UTF-8; change that name or category."
        ) from None
    if not schema.reads_back:
        raise SchemaError(
            "The schema has a column whose bins cannot be written to a file; make it with"
            " Schema.from_dict."
        )
    return schema


def as_workload(given: Workload | str | None, schema: Schema) -> Workload:
    if given is None:
        work = marginals(schema, k=min(2, len(schema)))
    elif isinstance(given, str):
        work = Workload.parse(given, schema)
    elif isinstance(given, Workload):
        work = given
    else:
        raise ParameterError(
            "workload must be a Workload, a text such as '3-way:64@7', or the path of a workload"
            " file."
        )
    if work.schema != schema:
        raise ParameterError("The workload is written for another schema than the table's.")
    known = query_classes()
    for part in work:
        if known.get(part.kind) is not type(part):
            raise NotSupported(
                f"Queries of the kind {part.kind} could be asked but not read back from the"
                " release; put their class into queries/ or announce it by an entry point"
                " (docs/queries.md)."
            )
    widest = max(part.size for part in work)
    if widest > LARGEST_TABLE:
        raise NotSupported(
            f"The workload has a marginal of {widest:,} cells, more than can be numbered; ask for"
            " fewer columns."
        )
    return work


def as_neighbours(given: str) -> Neighbours:
    try:
        return Neighbours(given)
    except ValueError:
        said = f"{given[:40]!r}" if isinstance(given, str) else f"of type {type(given).__name__}"
        raise ParameterError(
            f"neighbours is {said}; it must be replace-one or add-remove-one."
        ) from None


def as_mechanism(
    given: str | Mechanism, parameters: Mapping[str, Any] | None, brief: Brief
) -> tuple[Mechanism, str]:
    """(the mechanism as asked for, or the best one for the brief; why)."""
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ParameterError("parameters must be a mapping from names to values.")
    if not isinstance(given, str) or given != "auto":
        return make(given, dict(parameters or {})), "you asked for it"
    if parameters:
        raise ParameterError("Parameters belong to a mechanism; name one instead of auto.")
    return choose(brief)


def ledger_for(given: str | Path | Ledger | None, source: Source) -> Ledger:
    """The ledger as given, or the one beside a table in files; with those that know its files."""
    if isinstance(given, (str, Path)):
        given = FileLedger(as_path(given, "ledger"))
    elif given is not None and not (
        callable(getattr(given, "reserve", None)) and isinstance(getattr(given, "where", None), str)
    ):
        raise ParameterError("ledger is the path of a file, or a ledger.")
    if source.origin is not None:
        return TableLedger(source.origin, source.files, given, say_once)
    if given is None:
        say_once(NO_LEDGER)
        return ProcessLedger()
    return given


def say_once(sentence: str) -> None:
    """A remark about ledgers, once in the life of a process."""
    if sentence not in _said:
        _said.add(sentence)
        warn(sentence, LedgerWarning)


_said: set[str] = set()


def _delta(given: Any, n: int | None) -> Fraction:
    """delta as given, or 1/n^2 when n is public; checked against n only when it is."""
    if n is None:
        if given is None:
            raise ParameterError(
                "delta is required with add-remove-one, because its default 1/n^2 would reveal the"
                " private n."
            )
        return exact(given, "delta")
    if n == 0:
        raise SourceError("The table is empty; there is nothing to release.")
    if given is None:
        return default_delta(n)
    delta = exact(given, "delta")
    if not 0 < delta < Fraction(1, n):
        raise ParameterError(
            f"delta must lie strictly between 0 and 1/n = {1 / n:.3g}; a common choice is 1/n^2."
        )
    return delta


def default_delta(rows: int) -> Fraction:
    """1/n^2, which is a promise only when n is not tiny."""
    if rows < FEWEST_ROWS_FOR_DEFAULT:
        raise ParameterError(
            f"A table of fewer than {FEWEST_ROWS_FOR_DEFAULT} rows needs delta to be given: 1/n^2"
            " would be no promise."
        )
    return Fraction(1, rows**2)


def check_whole_number(value: Any, name: str, low: int, high: int) -> None:
    if value is not None and (
        isinstance(value, bool)
        or not isinstance(value, (int, np.integer))
        or not low <= value <= high
    ):
        raise ParameterError(f"{name} must be a whole number from {low:,} to {high:,}.")


def most_rows(schema: Schema) -> int:
    """The most synthetic rows of a table: a wide one is released with fewer rows than it has.
    Public numbers alone decide.
    """
    return max(1, min(MOST_ROWS, MOST_CODES // len(schema)))


def check_columns(table: Any, schema: Schema) -> None:
    """Raise SourceError unless the table can be opened and has the schema's columns; reads no row."""
    say_unread(open_source(table, schema))


def say_unread(source: Source) -> None:
    """Warn of columns that are ignored; rooms where cells pass do not talk themselves."""
    if source.unread:
        warn(source.unread, Unread)
