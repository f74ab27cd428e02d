"""Code outside the room that is handed exact values, and how it is let in: a closed list.

A solver gets private points, a class of rules says what it says about them, a task turns cells into
yes and no. Each of them could keep what it sees. So the room takes the types below and no others:
named in full, found under that very name in the module that is loaded, and the same object. A
subclass, another class of the same name or one that lies about where it is from is refused.

What is let in is copied from its fields. A method that somebody hung on the object, or a field that
is changed later, does not come along.

Query classes count the rows themselves. They are those of ``queries/``, which are copied in the same
way, and those that an installed package announces, which are taken as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any, TypeVar

import numpy as np

from understudy.errors import ParameterError
from understudy.queries.base import QueryClass

# a longer list is a larger room: what is on it has to be read as the room itself is
HANDED_EXACT_VALUES = (
    "understudy.queries.attribute.Attribute",
    "understudy.rules.task.Task",
    "understudy.rules.conjunctions.Conjunctions",
    "understudy.rules.conjunctions.Disjunctions",
    "understudy.rules.parities.Parities",
    "understudy.rules.halfspaces.Halfspaces",
    "understudy.rules.lists.DecisionLists",
    "understudy.rules.counting.Lattice",
    "understudy.rules.counting.Walsh",
    "understudy.rules.counting.Juntas",
    "understudy.rules.certifiers.Listing",
    "understudy.rules.certifiers.Counted",
    "understudy.rules.certifiers.Cpsat",
)
QUERIES = "understudy.queries"  # the folder, and the entry points of other packages
# How a field that is a plain value is copied: a subclass of a number sees what it is multiplied with.
PLAIN: dict[type, Callable[[Any], Any]] = {bool: bool, int: int, float: float, str: str.__str__}
Thing = TypeVar("Thing")


def is_listed(kind: type) -> bool:
    """Whether a type is one of the list: by name, and by being what that name leads to."""
    for name in HANDED_EXACT_VALUES:
        module, _, own = name.rpartition(".")
        # Never by comparing types or asking one for its name: both can be made to lie.
        if vars(sys.modules.get(module, object)).get(own) is kind:
            return True
    return False


def is_of(kind: type, rooms: tuple[str, ...]) -> bool:
    """Whether a type is what its own name leads to, in a loaded module of some rooms."""
    name: object = kind.__module__
    if type(name) is not str or not name.startswith(rooms):
        return False
    return vars(sys.modules.get(name, object)).get(kind.__name__) is kind


def let_in_batch(batch: QueryClass, also: tuple[type, ...] = ()) -> QueryClass:
    """A copy of a batch of ours, or a batch of a class that an installed package announces; a
    refusal of any other.
    """
    kind = type(batch)
    if any(kind is one for one in also):
        return batch
    if is_of(kind, (f"{QUERIES}.",)):
        copy: QueryClass = _rebuilt(batch)
        return copy
    if any(entry.load() is kind for entry in entry_points(group=QUERIES)):
        return batch
    raise ParameterError(
        f"The rows are counted by query classes of {QUERIES}, or by those that an installed"
        f" package announces under that name; {kind.__name__} is none of them, so nothing was"
        " looked at."
    )


def _rebuilt(value: Any) -> Any:
    """A batch, or whatever is in one, made anew and so checked anew."""
    kind: Any = type(value)
    if kind is tuple:
        return tuple(map(_rebuilt, value))
    if kind is int or kind is bool or value is None:
        return value
    if isinstance(value, np.ndarray):
        array = np.array(value)
        array.flags.writeable = False
        return array
    if is_of(kind, (f"{QUERIES}.", "understudy.counting.")):
        return kind(*(_rebuilt(getattr(value, one.name)) for one in fields(kind)))
    raise ParameterError("A batch of queries holds something that no query is made of.")


def let_in(thing: Thing, also: tuple[type, ...] = ()) -> Thing:
    """A copy of what may be handed exact values; a refusal, in a sentence, of anything else.

    ``also`` are further types, for tests and the audit only; things of these are taken as they are.
    """
    kind: Any = type(thing)
    if any(kind is one for one in also):
        return thing
    if not is_listed(kind):
        named = ", ".join(name.rpartition(".")[2] for name in HANDED_EXACT_VALUES)
        raise ParameterError(
            "Exact values are handed to the types of a closed list only, not to their subclasses:"
            f" {named}. {kind.__name__} is none of them, so nothing was looked at."
        )
    values = {one.name: getattr(thing, one.name) for one in fields(kind)}
    return kind(**{name: _copied(value, also) for name, value in values.items()})


def _copied(value: Any, also: tuple[type, ...]) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, frozenset)):
        items = [_copied(one, also) for one in value]
        return tuple(items) if isinstance(value, tuple) else frozenset(items)
    for kind, plain in PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    return let_in(value, also)
