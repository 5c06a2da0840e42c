"""What a protocol over a column of a frame is charged."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.terms import Terms


def shuffle_charge(column: Hashable, terms: Terms, name: str) -> tuple[Charge, Account | NoAccount]:
    """Return the charge of a protocol by its name, and the account that pays."""
    epsilon: Any = terms.epsilon
    loss, delta = loss_of(epsilon), delta_of(terms.delta)
    account = account_of(terms.ledger, terms.dataset, terms.note)
    question = f"shuffle.{name}({column})"
    charge = Charge(loss, question=question) if delta is None else Charge(loss, delta, question)
    return charge, account
