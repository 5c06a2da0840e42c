"""Name the accounts of data that come in disjoint periods: one account a dataset and period.

A period is of the *data*, not of the release: which month a row is about, whenever it is asked.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping

from dfprivacy.accounting.exact import describe
from dfprivacy.errors import InvalidLedgerError, UnknownAccountError


def _week(text: str) -> None:
    year, week = text.split("-W")
    dt.date.fromisocalendar(int(year), int(week), 1)


_DATE = dt.date.fromisoformat
PERIODS: Mapping[str, tuple[str, str, Callable[[str], object]]] = {
    "year": (r"\d{4}", "2024", lambda text: _DATE(f"{text}-01-01")),
    "month": (r"\d{4}-\d\d", "2024-01", lambda text: _DATE(f"{text}-01")),
    "week": (r"\d{4}-W\d\d", "2024-W05", _week),
    "day": (r"\d{4}-\d\d-\d\d", "2024-01-31", _DATE),
}
"""The lengths of periods: how one is written, an example, and what fails where there is none."""


def is_period(kind: str, text: object) -> bool:
    """Tell whether a text is the one name of a period of this length.

    >>> is_period("month", "2024-01"), is_period("month", "2024-13"), is_period("month", "2024-1")
    (True, False, False)
    """
    form, _, read = PERIODS[kind]
    if not isinstance(text, str) or re.fullmatch(form, text, re.ASCII) is None:
        return False
    try:
        read(text)
    except ValueError:
        return False
    return True


def periods_kind(kind: object) -> str:
    """Return the length of a dataset's periods.

    Raises
    ------
    InvalidLedgerError
        When there is no such length.
    """
    if isinstance(kind, str) and kind in PERIODS:
        return kind
    raise InvalidLedgerError(
        f"the periods of a dataset are its years, months, weeks or days, not {describe(kind)}",
        hint='pass periods="month"',
    )


def account_name(dataset: str, period: object) -> str:
    """Return the name of the account of a dataset's period; of the dataset where there is none.

    >>> account_name("visits", "2024-01"), account_name("visits", None)
    ('visits [2024-01]', 'visits')
    """
    if period is None:
        return dataset
    if not any(is_period(kind, period) for kind in PERIODS):
        given = repr(period[:40]) if isinstance(period, str) else describe(period)
        raise UnknownAccountError(
            f"a period of the data is named as in {examples()}, not {given}",
            hint='pass period="2024-01"',
        )
    return f"{dataset} [{period}]"


def dataset_of(account: str) -> tuple[str, str]:
    """Return the dataset and the period of an account by its name; none where it has no period.

    >>> dataset_of("visits [2024-01]"), dataset_of("visits [old]")
    (('visits', '2024-01'), ('visits [old]', ''))
    """
    dataset, _, period = account.removesuffix("]").rpartition(" [")
    known = account.endswith("]") and any(is_period(kind, period) for kind in PERIODS)
    return (dataset, period) if known and dataset else (account, "")


def examples() -> str:
    """Return how periods are written."""
    return ", ".join(example for _, example, _ in PERIODS.values())
