"""A rule with few mistakes: the exponential mechanism over a class that can be counted
(proofs/soft_argmin, M11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from understudy.counting.tally import Counts
from understudy.privacy.accounting import events as ev
from understudy.privacy.labelled import learning
from understudy.privacy.learners import Counting, LearningTask, Rule
from understudy.privacy.looking import guarded
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.noise.softmin import draw_least
from understudy.privacy.requests import checked_epsilon
from understudy.privacy.trusted import let_in
from understudy.privacy.verbs.base import Priced, Public, Verb


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SoftArgmin(Verb[Rule]):
    """The exponential mechanism on what each rule's mistakes cost.

    Attributes:
        task: attributes, label and costs.
        counting: the rules of a class, and what each of them costs.
        epsilon: what it costs.
    """

    task: LearningTask
    counting: Counting
    epsilon: int | Fraction

    name: ClassVar[str] = "soft_argmin"
    draw_least: ClassVar = staticmethod(draw_least)

    def priced(self, public: Public) -> Priced[Rule]:
        counting = let_in(self.counting, public.trusts)
        asked = learning(self.task, counting.rules, public)
        epsilon = checked_epsilon(self.epsilon)
        costs, top = asked.task.costs, max(asked.task.costs)
        kappa = epsilon / (2 * top)

        def answer(exact: Sequence[Counts], noise: Noise) -> Rule:
            rows = asked.labelled(exact)
            return counting.rule(
                guarded(
                    lambda: SoftArgmin.draw_least(noise, counting.costs(rows.points(costs)), kappa)
                )
            )

        what = f"soft argmin over {counting.size:,} {asked.rules.name}"
        return Priced(
            events=(ev.ExponentialDraws(what=what, log_weight_shift=epsilon / 2, draws=1),),
            reads=asked.reads,
            answer=answer,
        )
