"""Texts such as ``3-way:64@7``: k columns each, so many random ones, by a public seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import WorkloadError
from understudy.schema.domain import Domain


@dataclass(frozen=True)
class Sample:
    """The numbers of such a text; ``count`` is None where it says none."""

    k: int
    count: int | None
    seed: int


def read_sample(text: str, word: str) -> Sample | None:
    """The numbers of ``k-word``, ``k-word:count`` or ``k-word:count@seed``; None for other texts.

    Examples:
        >>> read_sample("3-way:64@7", "way"), read_sample("3-ways", "way")
        (Sample(k=3, count=64, seed=7), None)
    """
    match = re.fullmatch(rf"([0-9]{{1,9}})-{word}(?::([0-9]{{1,9}})(?:@([0-9]{{1,10}}))?)?", text)
    if match is None:
        return None
    k, count, seed = match.groups()
    return Sample(int(k), None if count is None else int(count), int(seed or 0))


def check_sample(what: str, schema: Domain, k: Any, count: Any, seed: Any) -> Sample:
    """The same numbers, or a refusal."""
    if not _is_whole(k) or not 1 <= k <= len(schema):
        raise WorkloadError(f"k-way {what} of this table need k from 1 to {len(schema)}.")
    if count is not None and (not _is_whole(count) or count < 1):
        raise WorkloadError(f"A sample of {what} needs a whole number of at least 1.")
    if not _is_whole(seed) or not 0 <= seed < 2**32:
        raise WorkloadError(
            f"The seed of a sample of {what} is a whole number from 0 to 4,294,967,295."
        )
    return Sample(int(k), None if count is None else int(count), int(seed))


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
