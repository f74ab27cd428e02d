"""One release's page in a ledger: whether its budget was reserved, and how it ended."""

from __future__ import annotations

import contextlib
from fractions import Fraction

from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger.ledger import Ledger
from understudy.queries.base import Neighbours


class Booked:
    """A ledger that remembers the one charge made through it, so that its end can be written beside
    it and told.
    """

    def __init__(self, book: Ledger) -> None:
        self._book = book
        self._number: int | None = None
        self.begun = False

    @property
    def where(self) -> str:
        return self._book.where

    def reserve(self, label: str, events: tuple[ev.Event, ...], neighbours: Neighbours) -> int:
        self._number = self._book.reserve(label, events, neighbours)
        self.begun = True
        return self._number

    def note(self, text: str, charge: int | None = None) -> None:
        self._book.note(text, charge)

    def ended(self, how: str) -> None:
        """Write how it ended. The charge is on disk already: a remark that cannot be written
        changes nothing.
        """
        with contextlib.suppress(Exception):
            self._book.note(how, self._number)

    def in_words(self, what: str, epsilon: Fraction, delta: Fraction | None) -> str:
        """What was spent, for somebody who interrupted it: public values only."""
        promise = f"epsilon {float(epsilon):.6g}" + (f", delta {float(delta):.3g}" if delta else "")
        return (
            f"{what} had begun: its whole budget ({promise}) counts as spent (ledger:"
            f" {self.where})."
        )
