"""``understudy demo``: a fictional table and its release, to look around in."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.api import demo as demo_population
from understudy.bundle.release import prepare_folder
from understudy.cli.console import out, speaks_plainly
from understudy.cli.options import json_option, mechanism_option
from understudy.cli.release import release_to


@click.command()
@click.option(
    "--out",
    "folder",
    default="understudy-demo",
    show_default=True,
    help="A new folder for the fictional table and its release.",
)
@click.option("--epsilon", default="1", show_default=True, help="The privacy promise.")
@mechanism_option
@json_option
@speaks_plainly
def demo(folder: str, epsilon: str, mechanism: str, as_json: bool) -> None:
    """Release a stand-in for 20,000 fictional people."""
    place = Path(folder)
    prepare_folder(place)
    table, described = demo_population.write(place / "sensitive")
    if not as_json:
        out.print(
            f"Wrote {demo_population.PEOPLE:,} fictional people to {table} and what is public about"
            f" them to {described}.",
            markup=False,
        )
    release_to(
        place / "release",
        as_json,
        str(table),
        schema=str(described),
        epsilon=epsilon,
        mechanism=mechanism,
    )
