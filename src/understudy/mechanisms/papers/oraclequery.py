"""OracleQuery: all conjunctions of a table's columns, by two players that each only ask an oracle.

Neel, Roth and Wu (2019), Algorithm 1, section 4. The data player is Context-FTPL: in round t it
draws records

    x_j = argmax over x of  q_0(x) + ... + q_{t-1}(x) + sum over l of sigma_jl * literal_l(x),    sigma_jl from Laplace,

over a separator set of the dual class, the single literals. The query player answers with a private
best response, a conjunction or a negation that these records answer too low. What is chosen from is
the class, whatever the workload; the workload is what is answered and certified. The best response
is a learner's:

    exponential   one draw of the exponential mechanism over all conjunctions and negations; no oracle touches private rows
    rspm          the paper's: two optima under noise on the private rows, and a choice between them (``PrivateBestResponse``)
    prsma         the paper's robust one; its plan says that no table is large enough, and it refuses

The paper's best response has a sign error, by which both candidates are the worst responses, and
charges 3 epsilon_0 for what costs 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from understudy.errors import NotSupported, ParameterError
from understudy.game.loop import QueryPlayer
from understudy.game.players.choosing import PrivateBestResponse
from understudy.game.players.measuring import one_way
from understudy.game.players.oracle import Perturbation, laplace
from understudy.mechanisms.base import Brief, Decision, Means
from understudy.mechanisms.papers.leading import Leading
from understudy.privacy import Meter
from understudy.privacy.learners import Certifier
from understudy.queries.base import Neighbours, QueryClass
from understudy.queries.lattice import MOST_LITERALS, AllConjunctions
from understudy.queries.separator import separator
from understudy.rules import prsma
from understudy.rules.certifiers import CERTIFIERS, Cpsat, certifier_of
from understudy.rules.conjunctions import Conjunctions
from understudy.schema import Schema

LEARNERS = ("exponential", "rspm", "prsma")  # the usual one first; the others are the paper's


@dataclass(frozen=True, kw_only=True)
class OracleQuery(Leading):
    """Follow the leader under single literals with Laplace weights of ``scale``, against all
    conjunctions.

    The literals are "column c takes value v" for all values but the first of each column: of a
    table of 0 and 1, "column c is 1". Fewer would not tell all records apart.

    Attributes:
        learner: who picks the worst query: exponential, rspm (solves on the private rows) or prsma
            (toy sizes).
        width: for rspm, at most so many literals in a response; ``None`` for any number.
        certifier: for rspm, who proves that a response is the best: counting (our own, for any
            number of literals), cpsat, or auto.
    """

    learner: str = "exponential"
    width: int | None = None
    certifier: str | Certifier = "auto"

    name: ClassVar[str] = "oraclequery"
    summary: ClassVar[str] = (
        "all conjunctions of up to 22 columns, however long; selects the worst of them and measures"
        " nothing"
    )
    in_short: ClassVar[str] = "all conjunctions of up to 22 columns"
    reference: ClassVar[str] = "Neel, Roth and Wu, FOCS 2019, Algorithm 1, with corrections"
    conditions: ClassVar[str] = (
        "with learner=rspm and certifier=cpsat or a width, on a solver's certificate"
    )
    usual: ClassVar[float] = 0.4  # from invented tables of 10 and 16 correlated columns of 0 and 1

    @property
    def _condition(self) -> str | None:
        # up to 22 literals are counted by our own code
        if self.learner != "rspm" or (self.certifier == "auto" and self.width is None):
            return None
        if isinstance(self.certifier, Certifier):
            return self.certifier.condition
        return CERTIFIERS.get(self.certifier, Cpsat).condition

    def check(self, brief: Brief) -> None:
        if self.learner not in LEARNERS:
            raise ParameterError(
                f"oraclequery has no learner {self.learner!r}; there are {', '.join(LEARNERS)}."
            )
        literals = sum(brief.schema.shape) - len(brief.schema)
        if not 1 <= literals <= MOST_LITERALS:
            raise NotSupported(
                f"oraclequery plays over all conjunctions of 1 to {MOST_LITERALS} literals, one for"
                f" each value of a column but its first, and this table has {literals:,}; use fewer"
                " columns or wider bins, or the mechanism 'fem'."
            )
        if self.learner != "exponential" and brief.neighbours is not Neighbours.REPLACE_ONE:
            raise NotSupported(
                f"The learner {self.learner} is proved private under replace-one only; use the"
                " learner exponential."
            )
        if self.learner == "rspm":
            rules = Conjunctions(attributes=literals, signed=False, width=self.width)
            certifier_of(self.certifier, rules).check(rules)
        elif self.width is not None:
            raise ParameterError("width belongs to the learner rspm.")
        super().check(brief)

    def decide(self, brief: Brief, means: Means) -> Decision:
        budget = means.budget
        if self.learner == "prsma" and budget.epsilon is not None and budget.delta is not None:
            # Even one response that spends the whole promise: what a play needs is far more.
            needs = prsma.plan(means.rows, budget.epsilon, budget.delta)
            raise NotSupported(
                f"With this promise prsma makes {needs.solves:,} solves on {needs.blocks:,} blocks"
                f" of {needs.block_rows:,} rows for one response, and a play has dozens; use the"
                " learner exponential, which is as robust and needs none."
            )
        literals = sum(brief.schema.shape) - len(brief.schema)
        widest = {"width": literals if self.width is None else self.width}
        decision = super().decide(brief, means)
        return replace(
            decision,
            numbers={**decision.numbers, **widest},
            parameters={**decision.parameters, **widest},
            condition=self._condition,
        )

    def candidates(self, brief: Brief) -> Sequence[QueryClass]:
        return [every_conjunction(brief.schema)]

    def query_player(
        self, meter: Meter, batches: Sequence[QueryClass], rho: Fraction
    ) -> QueryPlayer:
        if self.learner == "rspm":
            return PrivateBestResponse(
                meter, batches, rho=rho, width=self.width, certifier=self.certifier
            )
        return super().query_player(meter, batches, rho)

    def usual_rounds(self, rho: Fraction, rows: int, batches: Sequence[QueryClass]) -> int:
        """A quarter of them with rspm: on invented tables of 12 columns more was hardly better (40
        rounds .073, 80 .070, 160 .070).
        """
        usual = super().usual_rounds(rho, rows, batches)
        return max(8, usual // 4) if self.learner == "rspm" else usual

    def perturbation(self, brief: Brief, scale: float) -> Perturbation:
        return laplace(brief.schema, separator(one_way(brief.schema), brief.schema), scale)


def every_conjunction(schema: Schema) -> AllConjunctions:
    """All conjunctions of the literals that tell records apart."""
    return AllConjunctions(tuple(query.literals[0] for query in separator(one_way(schema), schema)))
