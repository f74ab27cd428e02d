"""Room 3, THE ROOM: budget, events, accountant, noise, meter, ledger. Proofs in PROOFS.md.

Nothing outside this folder (but the front door, which opens the table) may import ``sources``.
"""

from understudy.privacy.accounting.budget import Budget
from understudy.privacy.certificate import Certificate
from understudy.privacy.ledger.ledger import FileLedger, ProcessLedger
from understudy.privacy.ledger.table_ledger import TableLedger
from understudy.privacy.logistic import Discriminator
from understudy.privacy.meter import Measurement, Meter
from understudy.privacy.requests import Choice
from understudy.privacy.scores import MarginalScore
from understudy.privacy.verbs.residuals import Residual

__all__ = [
    "Budget",
    "Certificate",
    "Choice",
    "Discriminator",
    "FileLedger",
    "MarginalScore",
    "Measurement",
    "Meter",
    "ProcessLedger",
    "Residual",
    "TableLedger",
]
