"""What a release takes, in CPU seconds and bytes, from public numbers alone.

The constants are of one core of a common server, with compiled code in its cache. ``python -m bench
run planning`` sets what this foretells beside what releases then take; a factor of 2 is what it is
held to.
"""

from __future__ import annotations

from understudy.counting.tally import DENSE_CELLS
from understudy.game.players.rows import LAST_SWEEPS, MOST_FITTED, ROWS, SWEEPS_ON
from understudy.mechanisms.base import Outlook
from understudy.queries.workload import Workload
from understudy.schema import Categorical, Column

START_SECONDS, START_BYTES = 1.8, 280_000_000  # imports, loading compiled code, an empty report
READ_A_CELL = 1e-7  # seconds, from a file to a code: gzipped text takes twice as long, Parquet half
COUNT_A_ROW = 1.3e-8  # seconds, one row into one table
DRAW_A_CELL = 3e-7  # seconds, exact noise and what the fit makes of it
JUDGE_A_CELL = 2e-8  # seconds, one cell of a candidate in one round
JUDGE_A_ROW = 7e-9  # seconds, one row of the model into one candidate, in one round
ANSWER_A_CELL = 5e-8  # seconds, released rows and table counted once more for the certificate
SHOW_A_TABLE = 1e-3  # seconds, its measurement written and drawn
WRITE_A_CELL = 1.2e-7  # seconds, from a code to a value in the user's own type and to the file
BYTES_A_COUNT = 60  # exact, noisy, and once for each of its columns in the fit
BYTES_AN_ANSWER = 16  # the released rows' and the table's
BYTES_A_COLUMN = 2_500_000  # a few megabytes of a file at a time: text takes twice, Parquet a tenth
BYTES_A_CODE = 8  # of the released rows, and a copy of them
BYTES_A_NUMBER = 9  # of a released column, with its bit for what is missing
BYTES_AN_OFFSET = 4  # of a released text, beside its letters


def seconds(work: Workload, outlook: Outlook, rows: int, released: int) -> float:
    """CPU time of a release of a table of ``rows`` rows, from file to bundle."""
    schema = work.schema
    reading = rows * (len(schema) * READ_A_CELL + outlook.tables * COUNT_A_ROW)
    judging = outlook.cells * JUDGE_A_CELL + outlook.tables * ROWS * JUDGE_A_ROW
    first = min(released, MOST_FITTED)
    visited = outlook.sweeps * ROWS + LAST_SWEEPS * first + SWEEPS_ON * (released - first)
    fitting = outlook.sweep * visited
    writing = released * len(schema) * WRITE_A_CELL + outlook.tables * SHOW_A_TABLE
    measuring = (
        outlook.noisy_cells * DRAW_A_CELL
        + outlook.rounds * judging
        + _answers(work, rows) * ANSWER_A_CELL
    )
    return START_SECONDS + reading + measuring + fitting + writing


def memory(work: Workload, outlook: Outlook, rows: int, released: int) -> int:
    """The most memory that a release has at one time, in bytes."""
    counts = BYTES_A_COUNT * outlook.cells + BYTES_AN_ANSWER * _answers(work, rows)
    row = sum(BYTES_A_CODE + _bytes_a_value(column) for column in work.schema)
    return START_BYTES + BYTES_A_COLUMN * len(work.schema) + counts + round(released * row)


def _answers(work: Workload, rows: int) -> int:
    """Cells that are held to certify a workload; of a wide table only occupied ones."""
    return sum(batch.size if batch.size <= DENSE_CELLS else min(batch.size, rows) for batch in work)


def _bytes_a_value(column: Column) -> float:
    if not isinstance(column, Categorical):
        return BYTES_A_NUMBER
    return BYTES_AN_OFFSET + sum(len(label) for label in column.labels) / column.size
