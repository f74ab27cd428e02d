"""Released rows as CSV, for programs that read nothing better."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from understudy.bundle.manifest import read_manifest
from understudy.bundle.release import check_files, shown_names
from understudy.errors import BundleError, ParameterError
from understudy.schema import Schema

# What a spreadsheet may run when a cell begins with it, wide forms included; quotes before it are
# those of this rule.
RUNS = "^'*[=+\\-@\t\r\n＝＋－＠]"
# large enough to be quick, small enough that memory does not grow with the table
ROWS_AT_ONCE = 65_536


def export_csv(folder: str | Path, file: str | Path, *, raw: bool = False) -> int:
    """Write the rows of a bundle to a new CSV file (UTF-8, commas, a header line), and return how
    many there are.

    Text that begins with ``= + - @``, a tab or a line break, after any single quotes, gets one more
    single quote in front, in the header as well: a spreadsheet would otherwise run it. Taking that
    quote away gives the text back. Numbers and dates stay as they are.

    Args:
        folder: a release; its files must be those of its manifest.
        file: what to write; must not exist.
        raw: leave text as it is, for programs that run nothing.
    """
    place, target = Path(folder), Path(file)
    check_files(place, read_manifest(place))
    names = shown_names(Schema.load(place / "schema.json"))
    if target.exists():
        raise ParameterError(f"The file {str(target)!r} exists; name a new one.")
    try:
        rows = pq.ParquetFile(place / "synthetic.parquet")
        if rows.schema_arrow.names != names or not all(
            _is_plain(kind) for kind in rows.schema_arrow.types
        ):
            raise BundleError(
                f"The rows in {str(place)!r} are not those of its schema; get the bundle again."
            )
        return write_csv(rows.schema_arrow, rows.iter_batches(ROWS_AT_ONCE), target, raw=raw)
    except OSError as problem:
        raise unwritten(target, problem) from None
    except pa.ArrowException:
        raise BundleError(
            f"The rows in {str(place)!r} cannot be read; get the bundle again."
        ) from None


def write_table(table: pa.Table, file: str | Path, *, raw: bool = False) -> int:
    """Write rows to a new file, CSV (as :func:`export_csv` does) or Parquet by its ending, and
    return how many there are.
    """
    target = Path(file)
    if target.suffix.lower() not in (".csv", ".parquet"):
        raise ParameterError(f"The file {str(target)!r} must end in .csv or .parquet.")
    if target.exists():
        raise ParameterError(f"The file {str(target)!r} exists; name a new one.")
    try:
        if target.suffix.lower() == ".csv":
            return write_csv(table.schema, table.to_batches(ROWS_AT_ONCE), target, raw=raw)
        pq.write_table(table, target, compression="zstd")
        return table.num_rows
    except OSError as problem:
        raise unwritten(target, problem) from None


def write_csv(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path, *, raw: bool
) -> int:
    kinds = [pa.string() if _is_text(kind) else kind for kind in schema.types]
    names = schema.names if raw else _harmless(pa.array(schema.names, pa.string())).to_pylist()
    shown, total = pa.schema(list(zip(names, kinds, strict=True))), 0
    stream = target.open("xb")  # out here: what is there already is not ours to remove
    try:
        with stream, pyarrow.csv.CSVWriter(stream, shown) as writer:
            for batch in batches:
                cells = [cell.cast(kind) for cell, kind in zip(batch.columns, kinds, strict=True)]
                writer.write_batch(
                    pa.record_batch(
                        [cell if raw else _harmless(cell) for cell in cells], schema=shown
                    )
                )
                total += len(batch)
    except BaseException:
        target.unlink(missing_ok=True)  # half a table looks like a whole one
        raise
    return total


def unwritten(target: Path, problem: OSError) -> ParameterError:
    return ParameterError(
        f"The rows could not be written to {str(target)!r}"
        f" ({problem.strerror or type(problem).__name__}); name another file."
    )


def _harmless(cells: pa.Array) -> pa.Array:
    """Text with a single quote where the rule asks for one; other kinds as they are."""
    if not pa.types.is_string(cells.type):
        return cells
    return pc.if_else(
        pc.match_substring_regex(cells, RUNS), pc.binary_join_element_wise("'", cells, ""), cells
    )


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(inner) or pa.types.is_large_string(inner)


def _is_plain(kind: pa.DataType) -> bool:
    """The kinds that released rows have; bytes, lists and the like are none of ours."""
    return _is_text(kind) or any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_boolean,
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_date,
            pa.types.is_timestamp,
        )
    )
