"""What the mistakes of a rule cost in all, with discrete Laplace noise (proofs/mistakes, M16)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from understudy.counting.tally import Counts
from understudy.errors import ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.labelled import learning
from understudy.privacy.learners import LearningTask, Rule, Rules
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.requests import checked_epsilon
from understudy.privacy.verbs.base import Priced, Public, Verb


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mistakes(Verb[tuple[int, Fraction]]):
    """(What the mistakes of a rule cost in all, with noise; the scale of the noise.)

    Attributes:
        task: attributes, label and costs.
        rules: the class of the rule.
        rule: a released value.
        epsilon: what it costs.
    """

    task: LearningTask
    rules: Rules
    rule: Rule
    epsilon: int | Fraction

    name: ClassVar[str] = "mistakes"

    def priced(self, public: Public) -> Priced[tuple[int, Fraction]]:
        asked = learning(self.task, self.rules, public)
        rules, costs = asked.rules, asked.task.costs
        epsilon, top = checked_epsilon(self.epsilon), max(costs)
        try:  # plain whole numbers: what a rule is made of is compared with private points
            rule = tuple(operator.index(e) for e in self.rule)
        except TypeError:
            rule = None
        if rule is None or not rules.contains(rule):
            raise ParameterError(f"This is not a rule of these {rules.name}.")
        scale = top / epsilon

        def answer(exact: Sequence[Counts], noise: Noise) -> tuple[int, Fraction]:
            rows = asked.labelled(exact)
            predictions = rules.predict(rule, rows.bits)
            return (
                int(
                    costs[0] * rows.no[predictions].sum()
                    + costs[1] * rows.yes[~predictions].sum()
                    + noise.laplace(1, scale)[0]
                ),
                scale,
            )

        return Priced(
            events=(ev.DiscreteLaplace(what="mistakes of a rule", scale=scale, l1=top),),
            reads=asked.reads,
            answer=answer,
        )
