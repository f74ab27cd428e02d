"""``understudy mechanisms``: which there are, one line each; and all about one of them."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, fields
from typing import Any

import click

from understudy.cli.console import speaks_plainly
from understudy.cli.options import json_option
from understudy.mechanisms.about import in_one_line, parameters_of, way
from understudy.mechanisms.base import Mechanism, available_mechanisms, mechanism_of
from understudy.mechanisms.choose import RULE

WIDTH = 80  # columns of the narrowest usual terminal
# no mechanism of its own, so it has no summary to take this from
AUTO = "the best of these for schema and workload; default"
# for mechanisms whose privacy needs nothing to be believed of a solver
UNCONDITIONAL = "on nothing beside the proofs"


@click.command()
@click.argument("name", required=False)
@json_option
@speaks_plainly
def mechanisms(name: str | None, as_json: bool) -> None:
    """List the mechanisms, or say all about one of them.

    With NAME: its parameters, their defaults and what they mean.
    """
    if name == "auto":
        print(
            json.dumps({"name": "auto", "summary": RULE})
            if as_json
            else "\n".join(_wrapped(f"auto: {RULE}."))
        )
        return
    if name is not None:
        kind = mechanism_of(name)
        print(json.dumps(_facts(kind)) if as_json else "\n".join(_page(kind)))
        return
    kinds = available_mechanisms()
    if as_json:
        facts = [
            (name, kind.summary, kind.reference, [f.name for f in fields(kind)])
            for name, kind in kinds.items()
        ]
        print(
            json.dumps(
                [
                    dict(zip(("name", "summary", "reference", "parameters"), fact, strict=True))
                    for fact in facts
                ]
            )
        )
        return
    longest = max(map(len, kinds))
    for name, line in {
        "auto": AUTO,
        **{name: in_one_line(kind) for name, kind in kinds.items()},
    }.items():
        print(f"{name:<{longest}}  {line}")
    print("\nFor parameters, defaults and what they mean: understudy mechanisms NAME")


def _facts(kind: type[Mechanism]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "summary": kind.summary,
        "way": way(kind),
        "reference": kind.reference,
        "relations": [str(relation) for relation in kind.relations],
        "conditional_on": kind.conditions or None,
        "parameters": [asdict(parameter) for parameter in parameters_of(kind)],
    }


def _page(kind: type[Mechanism]) -> list[str]:
    traits = {
        "way": way(kind),
        "reference": kind.reference,
        "neighbours": " or ".join(kind.relations),
        "conditional": kind.conditions or UNCONDITIONAL,
    }
    lines = [*_wrapped(f"{kind.name}: {kind.summary}."), ""]
    for name, text in traits.items():
        lines += _wrapped(f"{name:<13}{text}", under=13)
    parameters = parameters_of(kind)
    lines += [
        "",
        (
            "Parameters, as in: understudy release --set NAME=VALUE (Python: parameters=)"
            if parameters
            else "It has no parameters."
        ),
    ]
    for parameter in parameters:
        lines += [
            "",
            f"  {parameter.name}: {parameter.kind}; {parameter.usual}",
            *_wrapped(f"    {parameter.meaning}", under=4),
        ]
    return lines


def _wrapped(line: str, under: int = 0) -> list[str]:
    """At most 80 columns; what continues a line stands under its text."""
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * under, break_on_hyphens=False)
