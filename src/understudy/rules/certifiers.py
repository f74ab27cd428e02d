"""Oracles that run on private rows: they return a rule with a proof that none is better by more
than a stated gap, or nothing.

A certifier is called by the privacy room only. Which rule it returns among equals, and how it finds
it, is of no consequence; that its proof is true is what the privacy of ``Argmin`` rests on
(privacy/proofs/argmin, M10). So a proof is checked as far as our own arithmetic reaches: what the rule is
worth is computed again in whole numbers, the bound has to meet it, the rule has to be in the class,
and neither a search around it nor, in a small class, a look at every rule may find a better one.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.errors import NotSupported, ParameterError, shown
from understudy.oracles import child
from understudy.oracles.outside import Worker
from understudy.privacy.learners import (
    MOST_LISTED,
    Certifier,
    Points,
    Rules,
    Solved,
    Tilted,
    is_small,
)
from understudy.privacy.trusted import let_in
from understudy.rules.base import RuleClass
from understudy.rules.conjunctions import Conjunctions, Disjunctions
from understudy.rules.counting import counting_of
from understudy.rules.parities import Parities

FOREVER = 1e6  # seconds, twelve days: a limit of work ends a solve, never a clock
MOST_LIFTED = 22
# What is run instead of the solver's child process; replaced in tests only. It is handed private
# points, so nobody names it in a certifier.
COMMAND: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Listing(Certifier):
    """Looks at every rule: for small classes. Never fails, so nothing has to be believed."""

    name: ClassVar[str] = "listing"
    condition: ClassVar[str | None] = None

    def check(self, rules: Rules) -> None:
        if not is_small(rules):
            raise NotSupported(
                f"Only classes of up to {MOST_LISTED:,} rules can be listed; use the certifier"
                " cpsat."
            )

    def solve(self, problem: Tilted) -> Solved | None:
        worth, rule = min((problem.value(rule), rule) for rule in problem.rules.rules())
        return Solved(rule, worth)


@dataclass(frozen=True)
class Counted(Certifier):
    """Counts what every rule costs, separators and noise included: conjunctions, disjunctions and
    parities of up to 22 lifted coordinates.

    In the lifted space literals and constants are attributes like others, so the class is the one
    without negations over them.
    """

    name: ClassVar[str] = "counting"
    condition: ClassVar[str | None] = None

    def check(self, rules: Rules) -> None:
        if not _can_count(rules):
            raise NotSupported(
                "The certifier counting is for conjunctions, disjunctions and parities without a"
                f" width, of at most {MOST_LIFTED} literals, negations included; use the certifier"
                " cpsat."
            )

    def solve(self, problem: Tilted) -> Solved | None:
        rules = _whole_class(problem)
        counting = counting_of(dataclasses.replace(rules, attributes=rules.lifted, signed=False))
        costs = counting.costs(Points(problem.lifted.astype(np.uint8), problem.cost))
        best = int(np.argmin(costs))
        return Solved(counting.rule(best), int(costs[best]))


@dataclass(frozen=True)
class Cpsat(Certifier):
    """OR-tools' CP-SAT in a fresh child process each time, on whole numbers throughout.

    Attributes:
        work: the limit, in CP-SAT's deterministic time; one to three seconds of one core each.
    """

    work: float = 60.0

    name: ClassVar[str] = "cpsat"
    condition: ClassVar[str | None] = "solver certificate (CP-SAT)"

    def __post_init__(self) -> None:
        if (
            isinstance(self.work, bool)
            or not isinstance(self.work, (int, float))
            or not 0 < self.work < math.inf
        ):
            raise ParameterError("The certifier cpsat needs a positive limit of work.")

    def check(self, rules: Rules) -> None:
        if importlib.util.find_spec("ortools") is None:
            raise NotSupported(
                "The certifier cpsat needs OR-tools: pip install 'understudy[solvers]'."
            )

    def solve(self, problem: Tilted) -> Solved | None:
        rules = _whole_class(problem)
        program = rules.program(problem.lifted, problem.cost, problem.bonus)
        worker = Worker(COMMAND)
        try:
            answer = worker.ask(
                FOREVER,
                solver="cpsat",
                work=self.work,
                seed=0,
                hint=np.zeros(0, np.int64),
                **program.arrays(),
            )
        finally:
            worker.close()
        return _read(rules, program.constant, len(program.gain), answer)


def _read(
    rules: RuleClass, constant: int, variables: int, answer: dict[str, np.ndarray] | None
) -> Solved | None:
    if (
        answer is None
        or str(answer.get("status")) != child.OPTIMAL
        or not {"x", "bound"} <= set(answer)
    ):
        return None
    x, bound = np.asarray(answer["x"]), float(answer["bound"])
    if x.shape != (variables,) or not np.isfinite(x).all() or not math.isfinite(bound):
        return None
    # The solver's bound is a whole number that its last float operations may have moved by an ulp,
    # either way.
    return Solved(rules.rule_from(x), -math.floor(bound + 0.25) - constant)


def _whole_class(problem: Tilted) -> RuleClass:
    """The class of a problem with all that solvers need of it."""
    assert isinstance(problem.rules, RuleClass)
    return problem.rules


def _can_count(rules: Rules) -> bool:
    return (
        isinstance(rules, (Conjunctions, Disjunctions, Parities))
        and rules.width is None
        and rules.lifted <= MOST_LIFTED
    )


CERTIFIERS: dict[str, type[Certifier]] = {kind.name: kind for kind in (Listing, Counted, Cpsat)}


def certifier_of(choice: str | Certifier, rules: RuleClass) -> Certifier:
    """A certifier by name with its usual limit, or as given; ``auto`` is one of our own where a
    class allows it, which cannot fail. One that may not see private points is refused here, before
    anything is charged.
    """
    if isinstance(choice, Certifier):
        return let_in(choice)
    if choice == "auto":
        return Listing() if is_small(rules) else Counted() if _can_count(rules) else Cpsat()
    if not isinstance(choice, str) or choice not in CERTIFIERS:
        raise ParameterError(
            f"There is no certifier {shown(choice)}; there are auto, {', '.join(CERTIFIERS)}."
        )
    return CERTIFIERS[choice]()
