"""The report: one self-contained page of released values, with plots. Nothing in it is exact."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
from markupsafe import Markup

from understudy.bundle.manifest import REPAIRED
from understudy.bundle.measured import Tables, noisy_tables, released_shares
from understudy.bundle.remarks import about_joining, about_small, joins_first
from understudy.constraints.rows import counts
from understudy.constraints.rules import Rules
from understudy.counting.tally import CodedRows
from understudy.game.fitting.reconstruction import Estimate
from understudy.game.fitting.values import grids_of
from understudy.privacy import Measurement
from understudy.privacy.accounting.accountant import cost_of
from understudy.privacy.certificate import round_up
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal
from understudy.schema import Column, Schema
from understudy.schema.cells import read_cells
from understudy.schema.columns import Binned, Moment

if TYPE_CHECKING:
    from understudy.bundle.release import Release

MOST_COLUMNS = 60  # plots, which a browser still scrolls through
# the neighbours in a reader's words
RELATIONS = {
    Neighbours.REPLACE_ONE: "for one person replaced by another",
    Neighbours.ADD_REMOVE_ONE: "for one person more or fewer",
}
MOST_BARS = 60  # a wider column is drawn in groups of neighbouring values
MOST_PAIRS = 8  # heat maps on a page: enough to see whether pairs are kept
MOST_LABELS = 16  # along a side of a heat map
LONGEST_LABEL = 20  # there, in characters
LETTER = 6.0  # room for one, in units of the drawing; digits and capitals are wider than most
MOST_POINTS = 1500  # of the scatter plot: more of them cover each other
MOST_SAMPLED = 8  # rows
MOST_ITEMS = 20  # of such a row
# Characters that reorder or hide the text around them; a name that holds one must not change how a
# figure beside it reads.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


@dataclass(frozen=True)
class Bar:
    """One value of a column: its released share and, if it was measured, the noisy one with its
    sigma.
    """

    label: str
    released: float
    measured: float | None
    sigma: float


@dataclass(frozen=True)
class Plot:
    title: str
    bars: list[Bar]
    top: float
    measured: bool
    words: tuple[str, ...] = ()  # the column's own title and description

    @property
    def longest_label(self) -> int:
        return max(len(bar.label) for bar in self.bars)


@dataclass(frozen=True)
class Pair:
    """A 2-way table: released shares, and the noisy measurement beside it where there is one."""

    across: str
    down: str
    across_labels: list[str]
    down_labels: list[str]
    released: list[list[float]]
    measured: list[list[float]] | None
    sigma: float
    top: float

    @property
    def left(self) -> float:
        """How much room the labels of its rows need; none where there are too many to write."""
        return _room(self.down_labels)

    @property
    def foot(self) -> float:
        return _room(self.across_labels)


@dataclass(frozen=True)
class Scatter:
    """Released against measured shares of all measured tables of two or more columns."""

    points: list[tuple[float, float, str]]
    top: float
    sigma: float
    shown: int
    total: int


def render_report(release: Release) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("understudy.bundle", "templates"), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_visible,
    )  # fmt: skip
    environment.filters["percent"] = _percent
    environment.filters["brief"] = _brief
    epsilon, delta = release.facts.promise
    measured = noisy_tables(release)
    pairs, left_out = _pairs(release, measured)
    return environment.get_template("report.html.j2").render(
        manifest=release.facts,
        words=_words(release.schema),
        certificate=release.certificate,
        alpha_percent=round_up(Decimal(release.certificate.alpha) * 100),
        relation=RELATIONS[release.facts.neighbours],
        epsilon=epsilon,
        delta=delta,
        rho=float(release.facts.budget.rho),
        spending=_spending(release),
        columns=_columns(release, measured),
        insides=_insides(release),
        pairs=pairs,
        pairs_left_out=left_out,
        scatter=_scatter(release, measured),
        width=len(release.schema),
        most_labels=MOST_LABELS,
        longest_label=LONGEST_LABEL,
        small=about_small(release.small_groups),
        remarks=release.remarks,
        strays=_strays(release),
        joining=about_joining(joins_first(release.schema)),
        rules=_rules(release),
        repaired=release.facts.mechanism.played.get(REPAIRED, 0),
        possible_records=release.schema.domain_text,
        **_sample(release),
    )


def _sample(release: Release) -> dict[str, Any]:
    """A few rows; of items, those that each row has."""
    if release.schema.pairs is None:
        cells = [
            [_cell(value) for value in row.values()]
            for row in release.synthetic.slice(0, MOST_SAMPLED).to_pylist()
        ]
        return {"sample_names": release.schema.names, "sample": cells}
    rows = []
    for i, codes in enumerate(release.codes[:MOST_SAMPLED]):
        items = np.flatnonzero(codes)
        named = [release.schema.names[item] for item in items[:MOST_ITEMS]]
        more = [f"and {len(items) - MOST_ITEMS:,} more"] if len(items) > MOST_ITEMS else []
        rows.append([str(i), ", ".join([*named, *more]) or "–"])
    return {"sample_names": [release.schema.pairs.row, "items"], "sample": rows}


def _visible(value: Any) -> Any:
    """Whatever the page shows, with characters that act on their surroundings written out; markup
    of the page's own is left alone.

    Examples:
        >>> _visible("a\\u202eb\\nc")
        'a⟨U+202E⟩b⟨U+000A⟩c'
    """
    if isinstance(value, Markup):
        return value
    return UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", str(value))


def _room(labels: list[str]) -> float:
    return (
        8 + LETTER * min(max(map(len, labels)), LONGEST_LABEL) if len(labels) <= MOST_LABELS else 6
    )


def _labels(column: Column) -> list[str]:
    return [_label(column, code) for code in range(column.size)]


def _label(column: Column, code: int) -> str:
    """What a code is called in a plot: bins of whole years, months or days are called by these."""
    if not isinstance(column, Moment) or code >= column.values or " to " not in column.label(code):
        return column.label(code)
    low, high = (
        np.datetime64(int(edge), "D" if column.date else "s")
        for edge in column.edges[code : code + 2]
    )
    for unit in ("M8[Y]", "M8[M]", "M8[D]"):
        first, end = low.astype(unit), high.astype(unit)
        if first == low and end == high:
            return str(first) if first + 1 == end else f"{first} to {end - 1}"
    return column.label(code)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share >= 0.0995 else f"{100 * share:.2f}%"


def _brief(value: Any) -> str:
    """A parameter for people: four digits of a number; the manifest has them all."""
    if value is None or isinstance(value, bool):
        return "not given" if value is None else str(value).lower()
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:.4g}"
        if isinstance(value, float)
        else str(value)
    )


def _strays(release: Release) -> list[tuple[str, str, str, str]]:
    """What became of cells that do not fit, column by column: (name, empty ones, others that are no
    value, values beyond the bounds).
    """
    if release.schema.pairs is not None:
        return []
    lines = []
    for column in islice(release.schema, MOST_COLUMNS):
        empty, unread = (
            _counted_as(column, code) for code in (column.missing_code, column.other_code)
        )
        lines.append(
            (
                column.name,
                empty,
                unread,
                "the first or last bin" if isinstance(column, Binned) else "–",
            )
        )
    return lines


def _counted_as(column: Column, code: int) -> str:
    return column.label(code) if code >= column.values else f"{column.label(code)}, its first value"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _spending(release: Release) -> list[dict[str, Any]]:
    """What the budget went to, by kind of step."""
    spent: dict[str, list[float]] = defaultdict(list)
    budget = release.facts.budget
    for event in release.facts.events:
        spent[event.what.split(" ")[0]].append(float(cost_of(event).in_rho(budget) or 0))
    total = float(budget.rho)
    words = {
        "measure": "measuring with noise",
        "select": "choosing what is wrong",
        "resample": "choosing what is wrong, or keeping a choice",
        "certify": "the certificate",
    }
    hues = {
        "measure": "var(--released)",
        "select": "var(--measured)",
        "resample": "var(--measured)",
        "certify": "var(--good)",
    }
    rows: list[dict[str, Any]] = [
        {
            "name": words.get(verb, verb),
            "steps": len(costs),
            "share": sum(costs) / total,
            "hue": hues.get(verb, "#9b6fd6"),
        }
        for verb, costs in spent.items()
    ]
    unspent = max(0.0, 1 - sum(row["share"] for row in rows))
    return [
        *rows,
        {"name": "left over by rounding", "steps": 0, "share": unspent, "hue": "var(--line)"},
    ]


def _words(described: Schema | Column) -> tuple[str, ...]:
    """A title and a description where there are any, each in one line."""
    return tuple(
        " ".join(text.split()) for text in (described.title, described.description) if text.strip()
    )


def _rules(release: Release) -> list[tuple[str, str, int, int]]:
    """(rule as written, in words, rows that it touches, rows that break it) of every rule."""
    rules = Rules.of(release.schema)
    if not rules:
        return []
    return [
        (one.rule.text, one.rule.words, one.touched, one.broken)
        for one in counts(rules, release.codes, release.synthetic)
    ]


def _columns(release: Release, measured: Tables) -> list[Plot]:
    if release.schema.pairs is not None:
        return [_common_items(release, measured)]
    plots, rows = [], release.facts.rows.count
    for position, column in islice(enumerate(release.schema), MOST_COLUMNS):
        measurement = measured.get((position,))
        shares = released_shares(release, Marginal.of(release.schema, [column.name]))
        noisy = measurement.counts / rows if measurement is not None else None
        group = -(-column.size // MOST_BARS)
        sigma = float(measurement.sigma) / rows * group**0.5 if measurement is not None else 0.0
        bars = []
        for start in range(0, column.size, group):
            stop = min(start + group, column.size)
            label = (
                _label(column, start)
                if stop == start + 1
                else f"{_label(column, start)} … {_label(column, stop - 1)}"
            )
            bars.append(
                Bar(
                    label,
                    float(shares[start:stop].sum()),
                    float(noisy[start:stop].sum()) if noisy is not None else None,
                    sigma,
                )
            )
        top = max(max(b.released, (b.measured or 0) + 2 * b.sigma) for b in bars)
        plots.append(
            Plot(column.name, bars, max(top, 1e-9), measurement is not None, _words(column))
        )
    return plots


def _insides(release: Release) -> list[Plot]:
    """Released values of the columns that were counted inside their bins, in runs of the grid."""
    grids = grids_of(release.schema) if release.details else None
    plots = []
    for place, detail in islice(grids.columns.items() if grids is not None else (), MOST_COLUMNS):
        column, shown = detail.fine, release.synthetic.column(place)
        codes = column.encode(read_cells(shown))
        cells = np.bincount(codes, minlength=column.size)[: column.values] / len(codes)
        group = -(-column.values // MOST_BARS)
        bars = []
        for start in range(0, column.values, group):
            stop = min(start + group, column.values)
            label = f"{_edge(column.edge_text(start))} to {_edge(column.edge_text(stop))}"
            bars.append(Bar(label, float(cells[start:stop].sum()), None, 0.0))
        top = max(max(bar.released for bar in bars), 1e-9)
        plots.append(Plot(f"{column.name}, inside its bins", bars, top, True))
    return plots


def _edge(text: str) -> str:
    """An edge of a grid for a reader: of a date and time, midnight goes without saying."""
    return text.removesuffix("T00:00:00").replace("T", " ")


def _common_items(release: Release, measured: Tables) -> Plot:
    """The items that most released rows have, in one plot."""
    shares, rows = release.codes.mean(axis=0), release.facts.rows.count
    bars = []
    for item in np.argsort(-shares, kind="stable")[:MOST_COLUMNS].tolist():
        measurement = measured.get((item,))
        noisy, sigma = (
            (float(measurement.counts[1]) / rows, float(measurement.sigma) / rows)
            if measurement is not None
            else (None, 0.0)
        )
        bars.append(Bar(release.schema.names[item], float(shares[item]), noisy, sigma))
    top = max(max(b.released, (b.measured or 0) + 2 * b.sigma) for b in bars)
    return Plot(
        f"The {len(bars)} most common items", bars, max(top, 1e-9), bars[0].measured is not None
    )


def _pairs(release: Release, measured: Tables) -> tuple[list[Pair], int]:
    """Measured 2-way tables first; without any, some pairs of the workload, released values only."""
    rows = release.facts.rows.count
    whole = [batch for m in measured.values() if (batch := m.batch.as_table()) is not None]
    chosen = [batch for batch in whole if len(batch.positions) == 2]
    if not chosen:
        chosen = [batch for batch in release.workload.marginals if len(batch.positions) == 2]
    small = [batch for batch in chosen if batch.size <= 900]
    pairs = []
    for batch in small[:MOST_PAIRS]:
        measurement = measured.get(batch.positions)
        down, across = (release.schema.columns[p] for p in batch.positions)
        table = released_shares(release, batch).reshape(batch.shape)
        noisy = (
            (measurement.counts / rows).reshape(batch.shape) if measurement is not None else None
        )
        top = float(max(table.max(), noisy.max() if noisy is not None else 0, 1e-9))
        pairs.append(
            Pair(
                across.name, down.name, _labels(across), _labels(down), table.tolist(), noisy.tolist() if noisy is not None else None,
                float(measurement.sigma) / rows if measurement is not None else 0.0, top,
            )
        )  # fmt: skip
    return pairs, len(chosen) - len(pairs)


def _scatter(release: Release, measured: Tables) -> Scatter | None:
    """The largest cells of every measured table of two or more columns."""
    rows = release.facts.rows.count
    noisy: list[Measurement | Estimate] = [
        m for m in release.measurements if isinstance(m, Measurement)
    ]
    noisy += [m for m in measured.values() if isinstance(m, Estimate)]
    tables = [m for m in noisy if m.batch.as_grid() is not None and len(m.batch.columns) >= 2][
        :MOST_POINTS
    ]
    if not tables:
        return None
    points, total = [], 0
    for measurement in tables:
        batch = measurement.batch
        measured_shares = measurement.counts / rows
        keys = measurement.keys if isinstance(measurement, Measurement) else None
        # cells below a threshold are not shown
        cells = np.arange(batch.size) if keys is None else keys
        shares = batch.counts(CodedRows(release.codes, release.schema.shape)).at(cells) / len(
            release.codes
        )
        total += batch.size
        for at in np.argsort(-np.maximum(shares, measured_shares), kind="stable")[
            : MOST_POINTS // len(tables)
        ]:
            points.append(
                (
                    float(measured_shares[at]),
                    float(shares[at]),
                    batch.describe(release.schema, int(cells[at])),
                )
            )
    if not points:
        return None
    top = max(max(x, y) for x, y, _ in points)
    sigma = max(float(m.sigma) for m in tables) / rows
    return Scatter(points, max(top, 1e-9), sigma, len(points), total)
