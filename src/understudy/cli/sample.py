"""``understudy sample``: more rows from a release."""

from __future__ import annotations

import json
from pathlib import Path

import click

from understudy.bundle.export import write_table
from understudy.bundle.release import Release
from understudy.cli.console import check_there, err, out, speaks_plainly
from understudy.cli.options import json_option
from understudy.errors import ParameterError
from understudy.privacy.certificate import round_up


@click.command()
@click.argument("folder")
@click.option(
    "--rows",
    type=int,
    help="How many; with --where, as many as the release would have if not given.",
)
@click.option(
    "--where",
    metavar="CONDITION",
    help="Only rows such as \"age < 30 and sex = 'F'\"; and, or, not, in (...), brackets.",
)
@click.option("--out", "file", required=True, help="A new file that ends in .csv or .parquet.")
@click.option(
    "--raw", is_flag=True, help="Leave text in a CSV as it is, for programs that run nothing."
)
@click.option("--seed", type=int, help="Seed of the draw, which is public.")
@json_option
@speaks_plainly
def sample(
    folder: str,
    rows: int | None,
    where: str | None,
    file: str,
    raw: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Draw more rows from a release folder.

    This costs no privacy and needs no sensitive table. Rows come from the model that FOLDER holds;
    without one, they are like the released rows.
    """
    if rows is None and where is None:
        raise ParameterError("Say how many rows to draw, with --rows, or which, with --where.")
    check_there(folder)
    released = Release.load(folder)
    result = (
        released.sample(rows or 0, seed=seed)
        if where is None
        else released.sample_where(where, rows, seed=seed)
    )
    written = write_table(result.table, Path(file), raw=raw)
    alpha = released.alpha_of(result) if where is None else None
    if as_json:
        facts = {
            "file": file,
            "rows": written,
            "means": result.means,
            "share": result.share,
            "carriers": result.carriers,
            "kind": result.kind,
        }
        print(json.dumps({**facts, "alpha": alpha, "doubtful": result.doubtful}))
        return
    if alpha is not None:
        sure = f"{released.certificate.confidence:.0%}"
        sentence = (
            "Answers to the release's workload from them are off by at most"
            f" {round_up(100 * alpha)}% of all rows, {sure} sure."
        )
        copies = " They are copies of released rows." if result.kind == "copies" else ""
        out.print(f"{written:,} rows in {file}.{copies} {sentence}", markup=False, soft_wrap=True)
        return
    out.print(f"{written:,} rows in {file}, where {result.means}.", markup=False, soft_wrap=True)
    model = released.model
    rest_on = (
        f"{result.carriers:,.0f} released rows"
        if model is None
        else f"about {result.carriers:,.0f} of the {model.chances.rows:,} distributions that it mixes"
    )
    whose = "released rows" if model is None else "rows that the model stands for"
    out.print(
        f"About {100 * result.share:.3g}% of all {whose} are such. They rest on {rest_on}.",
        markup=False,
    )
    if result.doubtful:
        err.print(result.doubtful, style="yellow", markup=False, soft_wrap=True)
