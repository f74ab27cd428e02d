"""What the released values suggest about how the table was read: cells that went missing, bounds
that cut, misspelt categories.

Everything here is computed from what was released anyway, so it costs nothing. The thresholds are
public constants, and a remark is made only where the noise that is known, or the certificate,
leaves no doubt that its threshold is passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.bundle.measured import SIGMAS, Single, Tables, noisy_tables, single_columns
from understudy.counting.tally import CodedRows
from understudy.privacy.certificate import round_up
from understudy.queries.marginal import Marginal
from understudy.schema import Boolean, Categorical, Moment, Number, Schema
from understudy.schema.columns import FALSE_TEXTS, TRUE_TEXTS, Binned, Column

if TYPE_CHECKING:
    from understudy.bundle.release import Release

MUCH_MISSING = 0.1  # a share of all rows, of MISSING or OTHER
MUCH_OTHER = 0.05  # less, since a schema is meant to list all categories
PILE_ABOVE = 0.05  # in the last bin; in the first one zeros are common, and only more is remarkable
PILE_BELOW = 0.2  # in the first bin
STEEP = 3.0  # times as dense as the bin beside it
NEARLY_ALL, SURELY = 0.995, 0.97  # of one value: as released, and whatever the noise
# likewise, of a first value that cells join which are not read: only a question
ASKED, ASKED_SURELY = 0.95, 0.85
RARE = 0.1  # of an even share: a category that is no more common than this, and may be absent
FEWEST_ITEMS = 0.05  # a person, on average
MOST_NAMED = 3  # groups or categories in one sentence, which stays one line
MOST_JOINING = 8  # columns in one sentence
MOST_SEARCHED = 50  # marginals of the workload, in which a small group is looked for


@dataclass(frozen=True)
class Remark:
    """One thing to look at, from released values.

    Attributes:
        column: the column's name.
        about: ``missing``, ``other``, ``first bin``, ``last bin``, ``one value``, ``never seen`` or
            ``no items``.
        share: of all rows, as released with noise, held to at least 0 and at most 1.
        sentence: what was seen.
        advice: what to do next.
    """

    column: str
    about: str
    share: float
    sentence: str
    advice: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", min(1.0, max(0.0, self.share)))

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}"


@dataclass(frozen=True)
class Group:
    """People who have something in common, and about how many they are."""

    words: str
    people: int


def remarks(release: Release) -> tuple[Remark, ...]:
    """Everything to look at, column by column."""
    measured = noisy_tables(release)
    if release.schema.pairs is not None:
        return tuple(_about_items(release, measured))
    bins, singles = not _is_coded(release.schema), single_columns(release, measured)
    return tuple(
        remark
        for single in singles
        for remark in _about(release.schema.columns[single.position], single, bins)
    )


def _is_coded(schema: Schema) -> bool:
    """Whether the table holds codes from 0 only, whose order says nothing: then a first or last one
    that is common is no surprise.
    """
    return all(
        isinstance(column, Number) and column.edges == tuple(range(column.values + 1))
        for column in schema
    )


def joins_first(schema: Schema) -> dict[str, str]:
    """Columns that declare neither missing nor other, and the first value, which cells without a
    value join; codes are left alone.
    """
    if schema.pairs is not None or _is_coded(schema):
        return {}
    return {column.name: column.label(0) for column in schema if _is_bare(column)}


def about_joining(joined: dict[str, str]) -> str:
    """One sentence that names them; nothing when there are none."""
    if not joined:
        return ""
    names, labels = list(joined)[:MOST_JOINING], list(joined.values())[:MOST_JOINING]
    more = f" and {len(joined) - MOST_JOINING:,} more" if len(joined) > MOST_JOINING else ""
    return (
        f"{', '.join(names)}{more}: cells that are missing or not listed count as the first value"
        f" ({', '.join(labels)})."
    )


def _is_bare(column: Column) -> bool:
    return not column.missing and not column.other


# ---------------------------------------------------------------------- one column


def _about(column: Column, single: Single, bins: bool) -> list[Remark]:
    notes = [
        *_strays(column, single),
        *(_ends(column, single) if bins and isinstance(column, Binned) else ()),
    ]
    notes = (
        notes
        or list(_one_value(column, single))
        or (list(_nearly_the_first(column, single)) if bins else [])
    )
    if isinstance(column, Categorical) and not any(remark.about == "one value" for remark in notes):
        notes += _never_seen(column, single)
    return notes


def _strays(column: Column, single: Single) -> Iterator[Remark]:
    """Many cells in MISSING or OTHER."""
    declared = (
        ("missing", column.missing, column.missing_code, MUCH_MISSING),
        ("other", column.other, column.other_code, MUCH_OTHER),
    )
    for about, present, code, much in declared:
        share = float(single.shares[code])
        if not present or share - single.off() < much:
            continue
        label = about.upper()
        if about == "missing" and column.other:
            advice = (
                "Such cells are empty or in missingValues; is a value listed there that is none?"
            )
        else:
            also = ", and so do empty ones" if about == "other" and not column.missing else ""
            advice = f"{reading(column)} Other cells count as {label}{also}."
        yield Remark(column.name, about, share, f"{column.name}: {percent(share)} {label}.", advice)


def _ends(column: Binned, single: Single) -> Iterator[Remark]:
    """A first or last bin that is much denser than the one beside it: values beyond the bound count
    there.
    """
    if column.values < 3:
        return
    bare = _is_bare(column)
    natural = isinstance(column, Number) and column.edges[0] == 0  # few things are below zero
    for about, code, beside, much in (
        ("first bin", 0, 1, PILE_BELOW),
        ("last bin", column.values - 1, column.values - 2, PILE_ABOVE),
    ):
        if not _piled(column, single, code, beside, much) or (code == 0 and natural and not bare):
            continue
        share = float(single.shares[code])
        if code:
            advice = "Values above the maximum count there; is it too low?"
        elif bare:
            advice = (
                "Cells that are empty or unreadable count there, and so do values below the"
                f" minimum. {reading(column)} Declare missing: true to tell them apart."
            )
        else:
            advice = "Values below the minimum count there; is it too high?"
        yield Remark(
            column.name,
            about,
            share,
            f"{column.name}: the {about} ({column.label(code)}) holds {percent(share)}.",
            advice,
        )


def _piled(column: Binned, single: Single, code: int, beside: int, much: float) -> bool:
    share, other = float(single.shares[code]), max(0.0, float(single.shares[beside]))
    wide = (column.edges[code + 1] - column.edges[code]) / (
        column.edges[beside + 1] - column.edges[beside]
    )
    excess, off = share - STEEP * wide * other, single.off() * (1 + (STEEP * wide) ** 2) ** 0.5
    return share - single.off() >= much and excess >= off


def _one_value(column: Column, single: Single) -> Iterator[Remark]:
    if column.size < 2:
        return
    code = int(np.argmax(single.shares))
    share = float(single.shares[code])
    if share < NEARLY_ALL or share - single.off() < SURELY:
        return
    if code == 0 and _is_bare(column):
        advice = _joining(column)
    else:
        advice = (
            "Are its bins too wide, or its bounds those of another column?"
            if isinstance(column, Binned)
            else reading(column)
        )
    yield Remark(
        column.name,
        "one value",
        share,
        f"{column.name}: one value ({column.label(code)}) holds {percent(share)}.",
        advice,
    )


def _nearly_the_first(column: Column, single: Single) -> Iterator[Remark]:
    """A question, which may be wrong: it is asked where cells that are not read leave no other
    trace.
    """
    share = float(single.shares[0])
    if (
        column.size < 2
        or not _is_bare(column)
        or share < ASKED
        or share - single.off() < ASKED_SURELY
    ):
        return
    sentence = f"{column.name}: is nearly everybody {column.label(0)} ({percent(share)})?"
    yield Remark(column.name, "one value", share, sentence, _joining(column))


def _joining(column: Column) -> str:
    return (
        f"Cells that are empty or not read count as it. {reading(column)} Declare missing: true to"
        " tell them apart."
    )


def _never_seen(column: Categorical, single: Single) -> Iterator[Remark]:
    """Categories without a sign of anybody, where as many cells may have been read as something
    else.
    """
    even = RARE / column.values
    if single.shares[column.other_code] - single.off() < even:
        return  # misspelt cells would be there
    shares = single.shares[: column.values]
    absent = [
        code
        for code in np.flatnonzero((shares <= single.off()) & (shares + single.off() <= even))
        if code != column.other_code
    ]
    if not absent:
        return
    most = float(max(0.0, shares[absent].max()) + single.off())
    named = ", ".join(repr(column.label(int(code))) for code in absent[:MOST_NAMED])
    more = f" and {len(absent) - MOST_NAMED} more" if len(absent) > MOST_NAMED else ""
    each = " each" if len(absent) > 1 else ""
    sentence = (
        f"{column.name}: no sign of {named}{more} (at most {round_up(100 * most, 2)}% of all"
        f" rows{each})."
    )
    yield Remark(
        column.name,
        "never seen",
        0.0,
        sentence,
        "Misspelt? A category is matched letter by letter.",
    )


def _about_items(release: Release, measured: Tables) -> Iterator[Remark]:
    """Of items, whether anybody has any."""
    assert release.schema.pairs is not None
    tables = [table for positions, table in measured.items() if len(positions) == 1]
    if not tables:
        return
    rows = release.certificate.rows
    off = SIGMAS * sum(float(table.sigma) ** 2 for table in tables) ** 0.5
    total = sum(float(table.counts[1]) for table in tables)
    if total + off < FEWEST_ITEMS * rows:
        name = release.schema.pairs.item
        sentence = f"{name}: people have {max(0.0, total / rows):.2f} items on average."
        yield Remark(
            name,
            "no items",
            0.0,
            sentence,
            "Are items spelt as in the schema? A pair whose item is not listed is ignored.",
        )


def reading(column: Column) -> str:
    """A question that helps to find out why cells were not read, by the kind of column."""
    if isinstance(column, Moment):
        return (
            f"Are its dates ISO? {'2024-03-31' if column.date else '2024-03-31T14:05'} is read,"
            " 31/03/2024 is not."
        )
    if isinstance(column, Number):
        return (
            "Are its numbers plain? 1234.5 is read; a decimal comma, a currency or percent sign and"
            " 1,234 are not."
        )
    if isinstance(column, Boolean):
        return (
            f"Which words does it hold? {', '.join(TRUE_TEXTS)} and {', '.join(FALSE_TEXTS)} are"
            " read, in any case."
        )
    return "Are all its categories listed, and spelt as in the cells? Case matters."


def percent(share: float) -> str:
    """A share for people, at most all: whole percents, and a tenth near the ends.

    Examples:
        >>> percent(0.667), percent(0.998), percent(0.9997), percent(1.02)
        ('67%', '99.8%', '100%', '100%')
    """
    clipped = min(1.0, max(0.0, share))
    return (
        f"{100 * clipped:.0f}%"
        if 0.1 <= clipped <= 0.99 or clipped >= 0.9995
        else f"{100 * clipped:.1f}%"
    )


# ---------------------------------------------------------------------- groups that a bound drowns


def small_groups(release: Release) -> tuple[Group, ...]:
    """Released groups of fewer people than answers may be off by, the largest first: single values,
    or else cells of the workload.
    """
    if release.certificate.alpha >= 1 or release.schema.pairs is not None:
        return ()
    asked = sorted({position for batch in release.workload for position in batch.columns})
    groups = _below(
        release, [Marginal((position,), (release.schema.shape[position],)) for position in asked]
    )
    if not groups:
        wider = sorted(
            (batch for batch in release.workload.marginals if len(batch.positions) > 1),
            key=lambda batch: batch.size,
        )
        groups = _below(release, wider[:MOST_SEARCHED])
    return tuple(sorted(groups, key=lambda group: (-group.people, group.words)))


def _below(release: Release, batches: Sequence[Marginal]) -> list[Group]:
    groups, each = [], release.certificate.rows / len(release.codes)
    counted = CodedRows(release.codes, release.schema.shape).count(
        [batch.positions for batch in batches]
    )
    for batch, counts in zip(batches, counted, strict=True):
        for at in np.flatnonzero(
            (counts.values > 0) & (counts.values * each < release.certificate.people)
        ):
            cell = int(at if counts.keys is None else counts.keys[at])
            groups.append(
                Group(
                    batch.describe(release.schema, cell),
                    max(1, round(float(counts.values[at]) * each)),
                )
            )
    return groups


def about_small(groups: tuple[Group, ...]) -> str:
    """One sentence that names some of them; nothing when there are none."""
    if not groups:
        return ""
    shown = (
        (group.words, f"{group.people:,} {'person' if group.people == 1 else 'people'}")
        for group in groups[:MOST_NAMED]
    )
    named = ", ".join(f"{words} (about {size})" for words, size in shown)
    more = len(groups) - MOST_NAMED
    also = f" and {more:,} more group{'s' if more > 1 else ''}" if more > 0 else ""
    return f"Smaller than that bound, so that answers may be mostly noise: {named}{also}."
