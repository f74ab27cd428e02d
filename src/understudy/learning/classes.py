"""Every class of rules, by name."""

from __future__ import annotations

from understudy.learning.base import RuleClass
from understudy.learning.conjunctions import Conjunctions, Disjunctions
from understudy.learning.halfspaces import Halfspaces
from understudy.learning.lists import DecisionLists
from understudy.learning.parities import Parities


def rule_classes() -> dict[str, type[RuleClass]]:
    return {kind.name: kind for kind in (Conjunctions, Disjunctions, Parities, Halfspaces, DecisionLists)}
