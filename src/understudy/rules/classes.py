"""Every class of rules, by name."""

from __future__ import annotations

from typing import Any

from understudy.errors import ParameterError, shown
from understudy.rules.base import RuleClass
from understudy.rules.conjunctions import Conjunctions, Disjunctions
from understudy.rules.halfspaces import Halfspaces
from understudy.rules.lists import DecisionLists
from understudy.rules.parities import Parities


def rule_classes() -> dict[str, type[RuleClass]]:
    return {
        kind.name: kind
        for kind in (Conjunctions, Disjunctions, Parities, Halfspaces, DecisionLists)
    }


def rule_class(name: str, **parameters: Any) -> RuleClass:
    """A class of rules by name."""
    classes = rule_classes()
    if not isinstance(name, str) or name not in classes:
        raise ParameterError(
            f"There are no rules called {shown(name)}; there are {', '.join(classes)}."
        )
    try:
        return classes[name](**parameters)
    except TypeError:
        raise ParameterError(
            f"{name} do not have all of the parameters {', '.join(parameters)}."
        ) from None
