"""Classes of libraries that need not be installed: nothing can be of a class whose library was
never imported.
"""

from __future__ import annotations

import sys
from typing import Any


def imported(module: str, *names: str) -> tuple[Any, ...]:
    """The named classes of a module, none if nobody imported it; for ``isinstance``, which the text
    of a name never replaces.
    """
    attributes = (getattr(sys.modules.get(module), name, None) for name in names)
    return tuple(kind for kind in attributes if isinstance(kind, type))
