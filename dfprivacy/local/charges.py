"""What a protocol over a column of a frame is charged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import loss_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.errors import InvalidLossError, InvalidQuestionError
from dfprivacy.terms import Terms


def protocol_charge(
    question: str, terms: Terms, delta: Fraction | None = None
) -> tuple[Charge, Account | NoAccount]:
    """Return the charge of a protocol by its name and column, and the account that pays.

    Raises
    ------
    InvalidQuestionError
        When the terms name a privacy unit: every row is a user of its own here.
    InvalidLossError
        When the terms name rho: a frame's protocols cost epsilon.
    """
    if terms.unit is not None:
        raise InvalidQuestionError(
            "a protocol takes every row for a user, and the terms name another unit",
            hint="make one row of each unit first, or leave unit out",
        )
    if terms.rho is not None:
        raise InvalidLossError(
            "a protocol over a column costs epsilon, and the terms name rho",
            hint="name it in the call: epsilon=1.0",
        )
    epsilon: Any = terms.epsilon
    charge = Charge(loss_of(epsilon), delta or Fraction(0), question)
    return charge, account_of(terms.ledger, terms.dataset, terms.note)
