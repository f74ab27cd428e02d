"""``auto``: which mechanism serves a request best, from public facts only."""

from __future__ import annotations

from understudy.mechanisms.base import Brief, Mechanism
from understudy.mechanisms.independent import Independent
from understudy.mechanisms.mwem import Mwem


def choose(brief: Brief) -> tuple[Mechanism, str]:
    """(a mechanism, why): depends on the schema and the workload, never on rows."""
    mwem = Mwem()
    if brief.schema.domain_size <= mwem.most_cells:
        return mwem, f"the domain has {brief.schema.domain_size:,} records, few enough to keep a weight for each"
    return Independent(), f"the domain has {brief.schema.domain_size:,} records, too many to keep a weight for each"
