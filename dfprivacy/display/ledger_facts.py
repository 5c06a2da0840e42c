"""What a page about a ledger shows: questions, terms and charges. No rows, no answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Amount:
    """A privacy loss in the measure of its ledger, and a delta."""

    loss: float
    delta: float


@dataclass(frozen=True)
class AccountFacts:
    """A dataset: what it has spent, what it has left, and what its releases amount to.

    `total` and `tight` are epsilons at the delta that the page quotes; None where there is none.
    """

    dataset: str
    charges: int
    spent: Amount
    left: Amount
    total: float | None
    tight: float | None
    remembered: int


@dataclass(frozen=True)
class ChargeFacts:
    """One charge, as the history has it; `cost` is in the measure of the ledger."""

    time: datetime
    dataset: str
    question: str
    asked: str
    amount: float
    cost: float
    delta: float
    note: str


@dataclass(frozen=True)
class LedgerFacts:
    """A whole ledger at one moment. `charges` come oldest first; `tells_tight` says why not."""

    name: str
    made: datetime
    measure: str
    budget: Amount
    remembers: bool
    promise: tuple[float, float]
    quoted_delta: float
    tells_tight: str
    accounts: tuple[AccountFacts, ...]
    charges: tuple[ChargeFacts, ...]
