"""``understudy budget``: what was spent on a dataset, its limit, and what is left."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from understudy.cli.console import out, remark, speaks_plainly
from understudy.cli.options import json_option
from understudy.errors import ParameterError
from understudy.privacy import Accountant, Budget, FileLedger, TableLedger
from understudy.privacy.accounting.accountant import Cost
from understudy.privacy.accounting.budget import as_accountant, exact
from understudy.privacy.ledger.ledger import EARLY, Statement, describe_budget, describe_left, shown


@click.command()
@click.argument("path")
@click.option(
    "--limit-epsilon", help="Set the most that may ever be spent, as epsilon (with --limit-delta)."
)
@click.option("--limit-delta", help="The delta of the limit.")
@click.option(
    "--accountant",
    help=(
        "By whom the limit counts, or the added charge: rho (every mechanism) or gaussian (Gaussian"
        " noise alone, which needs less of it). If not given, a limit counts as the one before it,"
        " and all else by rho."
    ),
)
@click.option(
    "--delta",
    help=(
        "Say what is left for a release at this delta, or what was spent where there is no limit;"
        " the limit's, or 1e-9, if not given."
    ),
)
@click.option(
    "--add-rho",
    help=(
        "Write down a charge that the ledger lacks, with --why: it can add to what is spent, never"
        " take from it."
    ),
)
@click.option("--why", help="What the added charge was for.")
@click.option(
    "--new-table",
    is_flag=True,
    help="Say that PATH is another table than the one its inode was known for.",
)
@json_option
@speaks_plainly
def budget(
    path: str,
    limit_epsilon: str | None,
    limit_delta: str | None,
    accountant: str | None,
    delta: str | None,
    add_rho: str | None,
    why: str | None,
    new_table: bool,
    as_json: bool,
) -> None:
    """Show what was spent on a dataset. PATH is a ledger, or the data whose ledgers are wanted."""
    if (
        not path.endswith(".jsonl")
        and not os.path.exists(path)
        and not any(c in path for c in "*?[")
    ):
        raise ParameterError(f"There is no file {path!r}; give a data file, a glob, or a ledger.")
    table = None if path.endswith(".jsonl") else TableLedger.at(path, remark)
    ledger = table or FileLedger(path)
    if new_table:
        if table is None:
            raise ParameterError("--new-table is said of a data file, not of a ledger.")
        table.set_apart()
    if (limit_epsilon is None) != (limit_delta is None):
        raise ParameterError("A limit needs both --limit-epsilon and --limit-delta.")
    if limit_epsilon is not None:
        # who raises a limit has not asked for another accountant
        by = accountant or ledger.accountant() or Accountant.RHO
        ledger.set_limit(Budget.of(epsilon=limit_epsilon, delta=limit_delta, accountant=by))
    if (add_rho is None) != (not why):
        raise ParameterError("A charge is added with both --add-rho and --why.")
    if add_rho is not None and why:
        ledger.add(
            why, exact(add_rho, "rho"), accountant=as_accountant(accountant or Accountant.RHO)
        )
    ledgers = [FileLedger(path)] if table is None else table.ledgers()
    # A table that was just said to be another one need not have a ledger.
    states = [
        (Statement() if new_table and not os.path.exists(one.path) else one.read(), one)
        for one in ledgers
    ]
    asked = None if delta is None else Budget.of(epsilon=1, delta=delta).delta
    if as_json:
        first, *others = [_facts(*one, asked) for one in states]
        print(json.dumps({**first, "others": others}))
        return
    for state, one in states:
        if len(states) > 1:
            out.print(f"Ledger {shown(str(one.path))}:", markup=False, soft_wrap=True)
        _show(state, asked)
    if _share_a_charge([state for state, _ in states]):
        out.print(
            "A release of several files is charged to each of their ledgers: the same line in two"
            " ledgers is one release.",
            markup=False,
        )


def _share_a_charge(states: Sequence[Statement]) -> bool:
    """Whether two ledgers hold what may be one charge; each has a clock time of its own."""
    seen = [{(charge.label, charge.events) for charge in state.charges} for state in states]
    return any(one & other for i, one in enumerate(seen) for other in seen[:i])


def _facts(state: Statement, ledger: FileLedger, asked: Fraction | None) -> dict[str, Any]:
    delta, total, limit = _reading(state, asked)
    charges = [
        {
            "time": c.time,
            "label": c.label,
            "rho": float(c.cost.rho),
            "curve": c.cost.curve is not None,
            "gaussian": c.cost.least_variance is not None,
            "ended": c.ended,
        }
        for c in state.charges
    ]
    facts = {
        "ledger": str(ledger.path),
        "neighbours": state.neighbours,
        "limit": limit,
        "accountant": str(state.accountant),
        "charges": charges,
    }
    shown = float(total) if total is not None else None
    left = None
    if state.limit is not None and state.left is not None:
        left = {
            "epsilon": float(state.limit.most_epsilon(state.left, asked or delta) or 0),
            "delta": float(asked or delta),
        }
    return {
        **facts,
        "rho": float(state.spent.rho),
        "epsilon": shown,
        "delta": float(delta),
        "left": left,
        "notes": state.notes,
    }


def _reading(
    state: Statement, asked: Fraction | None
) -> tuple[Fraction, Fraction | None, str | None]:
    """(the delta to read a ledger at, its epsilon there, its limit in words)."""
    usual = Fraction(1, 10**9) if asked is None or state.limit else asked
    delta = state.limit.delta if state.limit and state.limit.delta else usual
    total = state.epsilon_at(delta)
    limit = describe_budget(state.limit) if state.limit else None
    return delta, total, limit


def _show(state: Statement, asked: Fraction | None) -> None:
    delta, total, limit = _reading(state, asked)
    table = Table(box=None)
    for heading in ("when", "what", "rho", "how it ended"):
        table.add_column(heading)
    for charge in state.charges:
        ended = (
            "begun and not finished"
            if charge.ended is None
            else "ended early"
            if charge.ended == EARLY
            else charge.ended
        )
        table.add_row(_when(charge.time), escape(charge.label), _rho(charge.cost), escape(ended))
    out.print(table if state.charges else "Nothing was spent yet.")
    if any(charge.ended is None for charge in state.charges):
        out.print(
            "What has begun and not finished is still running, or was killed; it counts in full"
            " either way.",
            markup=False,
        )
    epsilon = f"epsilon {float(total):.6g}" if total is not None else "no finite epsilon"
    if total is None and state.spent.delta >= delta:
        epsilon = (
            f"no epsilon: charges of delta {float(state.spent.delta):.3g} in all were made (a"
            " larger --limit-delta would count them),"
        )
    out.print(
        f"Spent in all: {epsilon} at delta {float(delta):.3g} (rho {_rho(state.spent)},"
        f" {state.neighbours or 'no charges yet'}).",
        markup=False,
    )
    if state.charges:
        out.print(
            "A release names its epsilon at its own delta; here all are read at this one, and a"
            " smaller delta makes epsilon larger."
        )
    out.print(
        (
            f"Limit: {limit}."
            if limit
            else "Limit: none; set one with --limit-epsilon and --limit-delta."
        ),
        markup=False,
    )
    if state.limit is not None and state.left is not None:
        left = describe_left(state.limit, state.left, asked or delta)
        out.print(
            f"Left: about {left}; a release at a larger delta gets less (see --delta).",
            markup=False,
        )
    for note in state.notes:
        out.print(f"Note: {note}.", markup=False)


def _rho(cost: Cost) -> str:
    return f"{float(cost.rho):.6g}" + (" and a curve" if cost.curve is not None else "")


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # a clock that was far off
        return f"{seconds:.0f} s after 1970"
