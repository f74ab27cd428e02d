"""``understudy export``: the rows of a release as CSV."""

from __future__ import annotations

import json

import click

from understudy.bundle.export import export_csv
from understudy.cli.console import check_there, out, speaks_plainly
from understudy.cli.options import json_option


@click.command()
@click.argument("folder")
@click.option("--csv", "file", required=True, help="A new file for the rows.")
@click.option("--raw", is_flag=True, help="Leave text that a spreadsheet would run as it is.")
@json_option
@speaks_plainly
def export(folder: str, file: str, raw: bool, as_json: bool) -> None:
    """Write the rows of a release folder as CSV.

    Text in FOLDER that a spreadsheet would run gets a single quote in front.
    """
    check_there(folder)
    rows = export_csv(folder, file, raw=raw)
    if as_json:
        print(json.dumps({"file": file, "rows": rows, "raw": raw}))
        return
    out.print(f"Wrote {rows:,} rows to {file}.", markup=False, soft_wrap=True)
