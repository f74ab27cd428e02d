"""``understudy schema``: work with schema files."""

from __future__ import annotations

import json

import click
from rich.markup import escape
from rich.table import Table

from understudy.api.release import check_columns
from understudy.cli.console import out, speaks_plainly
from understudy.cli.options import json_option
from understudy.constraints.rules import Rules
from understudy.constraints.search import check_rules
from understudy.queries.workload import marginals
from understudy.schema import Schema
from understudy.schema.items import ItemColumns
from understudy.schema.schema import words_of


@click.group()
def schema() -> None:
    """Work with schema files."""


@schema.command()
@click.argument("path")
@click.argument("data", required=False)
@json_option
@speaks_plainly
def check(path: str, data: str | None, as_json: bool) -> None:
    """Check a schema file, and that a table has its columns.

    PATH is the schema; DATA, if given, is the table. No row is read.
    """
    described = Schema.load(path)
    rules = Rules.of(described)
    check_rules(rules)
    if data is not None:
        check_columns(data, described)
    if described.pairs is not None:
        _show_items(described, described.pairs, data is not None, as_json)
        return
    pairs = marginals(described, k=min(2, len(described)))
    if as_json:
        columns = [
            {
                "name": c.name,
                **words_of(c),
                "kind": c.kind,
                "codes": c.size,
                "missing": c.missing,
                "other": c.other,
            }
            for c in described
        ]
        print(
            json.dumps(
                {
                    **words_of(described),
                    "columns": columns,
                    "domain_size": str(described.domain_size),
                    "rules": [
                        {"name": rule.name, "rule": rule.text, "means": rule.words}
                        for rule in rules
                    ],
                    "sha256": described.digest,
                }
            )
        )
        return
    _show_columns(described)
    _show_rules(rules)
    out.print(
        f"{len(described)} columns, {described.domain_size:,} possible records, {pairs.size:,}"
        " cells in all 2-way marginals.",
        markup=False,
    )
    if any(not column.missing and not column.other for column in described):
        out.print(
            "Declare missing: true or other: true for a column where such cells occur.",
            markup=False,
        )
    out.print(
        "The schema is fine" + (", and the table has its columns." if data is not None else "."),
        style="green",
        markup=False,
    )


def _show_columns(described: Schema) -> None:
    """One table, which also says where cells go that are no value of their column."""
    _show_words(described)
    titled = any(column.title for column in described)
    table = Table(box=None)
    for heading in (
        "column",
        *(["title"] if titled else []),
        "kind",
        "codes",
        "first",
        "last",
        "missing",
        "other",
    ):
        table.add_column(heading, no_wrap=heading == "kind", overflow="fold")
    for column in described:
        labels = (
            escape(column.label(code))
            for code in (0, column.values - 1, column.missing_code, column.other_code)
        )
        title = [escape(column.title)] if titled else []
        table.add_row(escape(column.name), *title, column.kind, f"{column.size:,}", *labels)
    out.print(table)
    out.print(
        "The last two columns: what missing cells, and cells of no value, count as.", markup=False
    )


def _show_rules(rules: Rules) -> None:
    if not rules:
        return
    out.print(
        "Every released row keeps these rules, and some row can keep all of them:", markup=False
    )
    for rule in rules:
        out.print(f"  {rule.words}", markup=False, highlight=False, soft_wrap=True)


def _show_words(described: Schema) -> None:
    for words in words_of(described).values():
        out.print(" ".join(words.split()), markup=False, highlight=False)


def _show_items(described: Schema, items: ItemColumns, checked: bool, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "items": len(items),
                    "row": items.row,
                    "item": items.item,
                    "density": items.density,
                    "sha256": described.digest,
                }
            )
        )
        return
    _show_words(described)
    out.print(
        f"{len(items):,} items, in pairs ({items.row}, {items.item}). A pair whose item is not"
        " listed is ignored.",
        markup=False,
    )
    out.print(
        "The schema is fine" + (", and the table has these columns." if checked else "."),
        style="green",
        markup=False,
    )
