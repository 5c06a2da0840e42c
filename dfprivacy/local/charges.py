"""What a protocol over a column of a frame is charged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import loss_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.terms import Terms


def protocol_charge(
    question: str, terms: Terms, delta: Fraction | None = None
) -> tuple[Charge, Account | NoAccount]:
    """Return the charge of a protocol by its name and column, and the account that pays."""
    epsilon: Any = terms.epsilon
    charge = Charge(loss_of(epsilon), delta or Fraction(0), question)
    return charge, account_of(terms.ledger, terms.dataset, terms.note)
