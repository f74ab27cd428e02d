"""Finding what a folder holds, so that adding one thing is adding one file."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def classes_in(room: ModuleType, base: type[T]) -> list[type[T]]:
    """Every class in a package's modules that can be made and is of a kind, each once."""
    classes: dict[type[T], None] = {}
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        for _, thing in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(thing, base) and not inspect.isabstract(thing):
                classes[thing] = None
    return list(classes)
