"""PRSMA's plan: what learning over blocks of rows takes, said before anything is read.

Neel, Roth and Wu (2019), with the corrected number of blocks and constants of
privacy/proofs/blocks, M12. It
stays private when solves fail as an adversary would have them fail, and pays for that with so many
solves and so few rows each that it is of use at toy sizes only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from understudy.errors import NotSupported, ParameterError
from understudy.privacy.accounting.budget import exact_delta, exact_epsilon
from understudy.privacy.learners import Certifier
from understudy.privacy.verbs.blocks import BlockPlan, plan_blocks

# a process of its own for each solve takes most of a second
MOST_SOLVES, MOST_OUTSIDE_SOLVES = 200_000, 2_000
FEWEST_BLOCK_ROWS = 10  # with fewer, the best rule of a block says nothing about the table


def plan(n: int, epsilon: Any, delta: Any) -> BlockPlan:
    """How many solves, blocks and rows a block PRSMA takes for this promise.

    Examples:
        >>> made = plan(50_000, 1, 1e-6)
        >>> made.blocks, made.solves > 10**9, made.block_rows
        (206, True, 242)
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ParameterError("n is a number of rows, at least 1.")
    return plan_blocks(n, exact_epsilon(epsilon), exact_delta(delta))


def checked_plan(rows: int, epsilon: Fraction, delta: Fraction, certifier: Certifier) -> BlockPlan:
    """A plan that can be carried out; raises, in a sentence, otherwise."""
    block_plan = plan(rows, epsilon, delta)
    if block_plan.block_rows < FEWEST_BLOCK_ROWS:
        raise NotSupported(
            f"prsma cuts {rows:,} rows into {block_plan.blocks:,} blocks of"
            f" {block_plan.block_rows:,}, too few to learn from; it would need"
            f" {FEWEST_BLOCK_ROWS * block_plan.blocks:,} rows. Use the method exponential, which"
            " needs no blocks."
        )
    most = MOST_SOLVES if certifier.condition is None else MOST_OUTSIDE_SOLVES
    if block_plan.solves > most:
        raise NotSupported(
            f"prsma would make {block_plan.solves:,} solves ({block_plan.runs:,} in each of"
            f" {block_plan.blocks:,} blocks) for this epsilon and delta, and at most {most:,} are"
            f" made with the certifier {certifier.name}. Use the method exponential, which needs"
            " none, or a much larger delta."
        )
    return block_plan
