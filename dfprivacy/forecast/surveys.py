"""Explanations of protocols of the local and the shuffle model, by number of users."""

from __future__ import annotations

from collections.abc import Callable

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.spending import Account, NoAccount
from dfprivacy.errors import InvalidProtocolError
from dfprivacy.forecast.explaining import plain_explanation
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import SIZES, Forecast, HalfWidths

REPLACED = "one row, replaced by another: the number of rows is public"


def explain_survey(
    charge: Charge, forecast: Forecast, level: float, account: Account | NoAccount
) -> Explanation:
    """Return the explanation of a protocol over a column."""
    draws = [(charge.loss, charge.question)]
    return plain_explanation(charge, (forecast,), draws, level, account, protects=REPLACED)


def by_users(half_width: Callable[[int], float | None]) -> HalfWidths:
    """Return half-widths by number of users; None for so many that no protocol serves them."""
    return tuple(_planned(half_width, users) for users in SIZES)


def _planned(half_width: Callable[[int], float | None], users: int) -> float | None:
    try:
        return half_width(users)
    except InvalidProtocolError:
        return None
