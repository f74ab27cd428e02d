"""OracleQuery: all conjunctions of a table's columns, by two players that each only ask an oracle.

Neel, Roth and Wu (2019), Algorithm 1, section 4. The data player is Context-FTPL: in round t it draws records

    x_j = argmax over x of  q_0(x) + ... + q_{t-1}(x) + sum over l of sigma_jl * literal_l(x),    sigma_jl from Laplace,

over a separator set of the dual class, the single literals. The query player answers with a private best response, a conjunction or a
negation that these records answer too low: the paper's (PBR) has a sign error, by which both of its candidates are the worst responses,
and charges 3 epsilon_0 for what costs 4. Here it is one draw of the exponential mechanism over all of them, whose privacy depends on no
oracle. What is chosen from is the class, whatever the workload; the workload is what is answered and certified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from understudy.errors import NotSupported, ParameterError
from understudy.game import QueryPlayer
from understudy.mechanisms.base import Brief
from understudy.mechanisms.leading import Leading
from understudy.players.choosing import WorstSigned
from understudy.players.measuring import one_way
from understudy.players.oracle import Perturbation, laplace
from understudy.privacy import Meter
from understudy.queries.base import QueryClass
from understudy.queries.lattice import MOST_LITERALS, AllConjunctions
from understudy.queries.separator import separator
from understudy.schema import Schema


class Learner(Protocol):
    """A private best response: made once, it then chooses once a round."""

    def __call__(self, meter: Meter, parts: Sequence[QueryClass], *, rho: Fraction) -> QueryPlayer: ...


LEARNERS: Mapping[str, Learner] = {"exponential": WorstSigned}


@dataclass(frozen=True, kw_only=True)
class OracleQuery(Leading):
    """Follow the leader under single literals with Laplace weights of ``scale``, against all conjunctions.

    The literals are "column c takes value v" for all values but the first of each column: of a table of 0 and 1, "column c is 1". Fewer
    would not tell all records apart. The other parameters are those of :class:`Leading`.

    Attributes:
        learner: the private best response; ``exponential`` compares all conjunctions and negations.
    """

    learner: str = "exponential"

    name: ClassVar[str] = "oraclequery"
    summary: ClassVar[str] = "all conjunctions of up to 22 columns, however long; selects the worst of them and measures nothing"
    reference: ClassVar[str] = "Neel, Roth and Wu, FOCS 2019, Algorithm 1, with corrections"
    usual: ClassVar[float] = 0.4  # from invented tables of 10 and 16 correlated columns of 0 and 1

    def check(self, brief: Brief) -> None:
        if not isinstance(self.learner, str) or self.learner not in LEARNERS:
            raise ParameterError(f"oraclequery has no learner {self.learner!r}; there are {', '.join(LEARNERS)}.")
        literals = sum(brief.schema.shape) - len(brief.schema)
        if not 1 <= literals <= MOST_LITERALS:
            raise NotSupported(
                f"oraclequery plays over all conjunctions of 1 to {MOST_LITERALS} literals, one for each value of a column but its first, "
                f"and this table has {literals:,}; use fewer columns or wider bins, or the mechanism 'fem'."
            )
        super().check(brief)

    def candidates(self, brief: Brief) -> Sequence[QueryClass]:
        return [every_conjunction(brief.schema)]

    def query_player(self, meter: Meter, parts: Sequence[QueryClass], rho: Fraction) -> QueryPlayer:
        return LEARNERS[self.learner](meter, parts, rho=rho)

    def perturbation(self, brief: Brief, scale: float) -> Perturbation:
        return laplace(brief.schema, separator(one_way(brief.schema), brief.schema), scale)


def every_conjunction(schema: Schema) -> AllConjunctions:
    """All conjunctions of the literals that tell records apart."""
    return AllConjunctions(tuple(query.literals[0] for query in separator(one_way(schema), schema)))
