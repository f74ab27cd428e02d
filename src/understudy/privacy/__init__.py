"""Room 5, THE ROOM: meter, verbs, noise, accounting, ledger. The proofs are in ``proofs/``.

Nothing outside this folder (but ``api/session.py``, which opens the table) may import ``sources``.
"""

from understudy.privacy.accounting.budget import Accountant, Budget
from understudy.privacy.certificate import Certificate
from understudy.privacy.ledger.ledger import FileLedger, ProcessLedger
from understudy.privacy.ledger.table_ledger import TableLedger
from understudy.privacy.logistic import Discriminator
from understudy.privacy.meter import Meter
from understudy.privacy.requests import Choice
from understudy.privacy.scores import MarginalScore
from understudy.privacy.verbs import (
    Argmin,
    ArgminInBlocks,
    Certify,
    Discriminate,
    Measure,
    Mistakes,
    ReleaseTotal,
    Resample,
    Residuals,
    Select,
    SelectMarginal,
    SoftArgmin,
)
from understudy.privacy.verbs.measure import Measurement
from understudy.privacy.verbs.residuals import Residual

__all__ = [
    "Accountant",
    "Argmin",
    "ArgminInBlocks",
    "Budget",
    "Certificate",
    "Certify",
    "Choice",
    "Discriminate",
    "Discriminator",
    "FileLedger",
    "MarginalScore",
    "Measure",
    "Measurement",
    "Meter",
    "Mistakes",
    "ProcessLedger",
    "ReleaseTotal",
    "Resample",
    "Residual",
    "Residuals",
    "Select",
    "SelectMarginal",
    "SoftArgmin",
    "TableLedger",
]
