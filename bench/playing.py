"""One play at a delta that ``release()`` refuses: the papers use 0.001, far above 1/n.

For comparisons only.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from understudy.api.request import CERTIFICATE_SHARE
from understudy.checks import rehearsal
from understudy.game.loop import Played
from understudy.mechanisms.base import Brief, Mechanism
from understudy.privacy import Budget
from understudy.privacy.accounting.accountant import Cost, total_cost
from understudy.queries.workload import Workload
from understudy.runtime.watching import NoWatcher
from understudy.sources import Source


def play_at(
    source: Source, workload: Workload, mechanism: Mechanism, budget: Budget, rows: int, seed: int
) -> tuple[Played, Cost]:
    """How the play ended, and its cost; a certificate's share of rho is left, as in a release."""
    brief = Brief(schema=source.schema, workload=workload, neighbours=mechanism.relations[0])
    aside: Fraction = budget.rho * CERTIFICATE_SHARE
    decision, meter = rehearsal(
        mechanism, brief, source, budget, rho=budget.rho - aside, certify=aside, rows=rows
    )
    played = mechanism.play(decision, meter, np.random.default_rng(seed), NoWatcher())
    facts = {**decision.numbers, **played.facts}
    return replace(played, facts=facts), total_cost(meter.events)
