"""The verbs: all that the meter can be asked. The list is closed."""

from __future__ import annotations

from typing import Any

from understudy.privacy.verbs.argmin import Argmin
from understudy.privacy.verbs.base import Verb
from understudy.privacy.verbs.blocks import ArgminInBlocks
from understudy.privacy.verbs.certify import Certify
from understudy.privacy.verbs.discriminate import Discriminate
from understudy.privacy.verbs.measure import Measure
from understudy.privacy.verbs.mistakes import Mistakes
from understudy.privacy.verbs.resample import Resample
from understudy.privacy.verbs.residuals import Residuals
from understudy.privacy.verbs.select import Select
from understudy.privacy.verbs.select_marginal import SelectMarginal
from understudy.privacy.verbs.soft_argmin import SoftArgmin
from understudy.privacy.verbs.total import ReleaseTotal

# all that a meter can be asked: a verb that is not here is refused
VERBS: tuple[type[Verb[Any]], ...] = (
    ReleaseTotal,
    Measure,
    Residuals,
    Select,
    SelectMarginal,
    Resample,
    Discriminate,
    SoftArgmin,
    Mistakes,
    Argmin,
    ArgminInBlocks,
    Certify,
)

__all__ = [
    "VERBS",
    "Argmin",
    "ArgminInBlocks",
    "Certify",
    "Discriminate",
    "Measure",
    "Mistakes",
    "ReleaseTotal",
    "Resample",
    "Residuals",
    "Select",
    "SelectMarginal",
    "SoftArgmin",
    "Verb",
]
