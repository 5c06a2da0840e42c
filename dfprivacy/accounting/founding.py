"""What a ledger is made with, and keeps for good."""

from __future__ import annotations

from dataclasses import dataclass

from dfprivacy.accounting.charge import Units
from dfprivacy.errors import InvalidLedgerError
from dfprivacy.exact import describe


@dataclass(frozen=True)
class Founding:
    """The budget of each dataset, and whether releases are remembered."""

    total: Units
    remember: bool

    def __str__(self) -> str:
        """Name it in a message."""
        return f"{self.total}, remember={self.remember}" if self.remember else str(self.total)

    def arguments(self) -> str:
        """Return it as the arguments of a call."""
        budget = self.total.budget().arguments()
        return f"{budget}, remember=True" if self.remember else budget


def remember_flag(remember: object) -> bool | None:
    """Return whether a caller wants releases remembered; None if that was left open.

    Raises
    ------
    InvalidLedgerError
        Unless it is True, False or None.
    """
    if remember is None or isinstance(remember, bool):
        return remember
    raise InvalidLedgerError(
        f"remember must be True or False, not {describe(remember)}", hint="pass remember=True"
    )
