"""Room 11: the bundle anybody can open, trust and check: rows, answers, certificate, manifest,
report.
"""

from understudy.bundle.answers import Answers
from understudy.bundle.release import Release
from understudy.bundle.verify import Check, verify

__all__ = ["Answers", "Check", "Release", "verify"]
