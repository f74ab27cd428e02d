"""Where verbs hand exact values to samplers and solvers: for the length of a ``with``, somebody else
may stand there.

A verb's type names each function that takes its exact values: ``Select.draw``, ``Argmin.solve`` and
so on. Anybody who stands in for one sees them. That is why the fence lets nobody but the audit
import this room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from understudy.privacy.verbs import VERBS, Verb


def verbs_with(name: str) -> list[type[Verb[Any]]]:
    """The types of verbs that hand exact values to a function of this name."""
    return [verb for verb in VERBS if isinstance(vars(verb).get(name), staticmethod)]


@contextmanager
def standing_in(**functions: Callable[..., Any]) -> Iterator[None]:
    """Let these functions be called instead of the verbs' own of the same name."""
    places = [(verb, name) for name in functions for verb in verbs_with(name)]
    own = {place: vars(place[0])[place[1]] for place in places}
    try:
        for verb, name in places:
            setattr(verb, name, staticmethod(functions[name]))
        yield
    finally:
        for (verb, name), function in own.items():
            setattr(verb, name, function)
