"""The rule whose mistakes cost least under noise, found and proved by a solver on the private rows:
RSPM (proofs/argmin, M10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from understudy.counting.tally import Counts
from understudy.errors import NotCertified
from understudy.privacy.labelled import learning, together
from understudy.privacy.learners import Certifier, LearningTask, Points, Rule, Rules
from understudy.privacy.noise.samplers import Noise
from understudy.privacy.perturbation import WEIGHT, NoiseOn, perturbation, solve
from understudy.privacy.requests import (
    check_sums,
    checked_certifier,
    checked_epsilon,
    checked_points,
)
from understudy.privacy.verbs.base import Priced, Public, Verb

# that a solve failed may itself tell something, so a charge stays
REFUSED = (
    "The solver gave no proof that its rule is the best, so nothing is released; what was charged"
    " stays charged. Allow it more work, or use a smaller class."
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Argmin(Verb[Rule]):
    """The rule whose mistakes cost least under noise.

    CONDITIONAL on the certificate, unless the certifier is our own: a wrong proof that all checks
    let pass would void the claim. A solve without a proof raises NotCertified and its charge stays;
    that it failed may itself say something about the rows.

    Attributes:
        task: attributes, label and costs.
        rules: the class.
        epsilon: what it costs.
        certifier: who solves.
        noise_on: the separator set, or features if the class has a width; the latter by default
            where there is one.
        weight: how finely a mistake is divided, so that ties and gaps are cheap.
        gap: by how much, in units of 1/weight of a mistake, a certified rule may miss the best.
        public: further points with whole costs, in the same units, that come from released values.
    """

    task: LearningTask
    rules: Rules
    epsilon: int | Fraction
    certifier: Certifier
    noise_on: NoiseOn | str | None = None
    weight: int = WEIGHT
    gap: int = 0
    public: Points | None = None

    name: ClassVar[str] = "argmin"
    solve: ClassVar = staticmethod(solve)

    def priced(self, public: Public) -> Priced[Rule]:
        asked = learning(self.task, self.rules, public)
        task, rules = asked.task, asked.rules
        epsilon = checked_epsilon(self.epsilon)
        noisy = perturbation(task, rules, epsilon, self.noise_on, self.weight, self.gap)
        by = checked_certifier(self.certifier, rules, public.trusts)
        extra = checked_points(self.public, rules)
        check_sums(public.rows, task, noisy.weight)
        what = f"argmin over {rules.name} of {rules.attributes} attributes, {by.reads}"

        def answer(exact: Sequence[Counts], noise: Noise) -> Rule:
            points = together(asked.labelled(exact).points(task.costs, noisy.weight), extra)
            rule: Rule | None = Argmin.solve(noisy, points, by, noise)
            if rule is None:
                raise NotCertified(REFUSED)
            return rule

        return Priced(events=(noisy.event(what),), reads=asked.reads, answer=answer)
