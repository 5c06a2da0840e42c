"""Define the cost of a release and the budget of a dataset in exact integer units.

A unit of epsilon or rho is 10**-24, a unit of delta is 10**-36. Charges are rounded up and cost at
least one unit, totals are rounded down, so that a ledger never counts too little. A budget may be
exceeded by 2**-40 of it, so that equal parts of it fit although floats and units round them. Data
that come in disjoint periods have one account a dataset and period.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dfprivacy.accounting.loss import Epsilon, Rho, positive_number, read_loss
from dfprivacy.errors import InvalidLossError, UnknownAccountError, boundary
from dfprivacy.measurement.exact import decimal_number, describe

Measure = Literal["epsilon", "rho"]

PER_ONE = 10**24  # units of epsilon or rho
PER_ONE_DELTA = 10**36  # units of delta
LEAST_TOTAL, LEAST_DELTA = PER_ONE // 10**9, PER_ONE_DELTA // 10**18
MOST_UNITS = 2**62 * LEAST_TOTAL
EXCESS_BITS = 40  # a budget may be exceeded by 2**-40 of it, in all


@boundary
@dataclass(frozen=True)
class Budget:
    """An amount of privacy loss, as floats: epsilon or rho, and delta.

    A float never lies above the exact amount: to ask for what remains always fits.

    >>> Budget(epsilon=0.5, delta=1e-6)
    Budget(epsilon=0.5, delta=1e-06)
    """

    epsilon: float | None = None
    rho: float | None = None
    delta: float = 0.0

    def __repr__(self) -> str:
        return f"Budget({self.arguments()})"

    def arguments(self) -> str:
        """Return the amounts as the arguments of a call."""
        loss = f"epsilon={self.epsilon!r}" if self.rho is None else f"rho={self.rho!r}"
        return f"{loss}, delta={self.delta!r}" if self.delta else loss

    def text(self) -> str:
        """Return the amounts in words: epsilon 0.5, delta 1e-6."""
        measure, loss = ("epsilon", self.epsilon) if self.rho is None else ("rho", self.rho)
        return amount_text(measure, loss or 0.0, self.delta)


@dataclass(frozen=True)
class Units:
    """An amount of privacy loss in whole units."""

    measure: Measure
    loss: int
    delta: int

    def __add__(self, other: Units) -> Units:
        return Units(self.measure, self.loss + other.loss, self.delta + other.delta)

    def less(self, other: Units) -> Units:
        """Return the rest of this amount after `other`, of the same measure."""
        return Units(self.measure, self.loss - other.loss, self.delta - other.delta)

    def minimum(self, other: Units) -> Units:
        """Return the largest amount that fits into this one and another one of the same measure."""
        return Units(self.measure, min(self.loss, other.loss), min(self.delta, other.delta))

    def covers(self, other: Units) -> bool:
        """Return whether `other`, of the same measure, fits into this amount."""
        return other.loss <= self.loss and other.delta <= self.delta

    def with_excess(self) -> Units:
        """Return the most that may be spent of this budget: 2**-40 of it more, rounded down.

        The excess is a part of the budget and not of a charge, so that it does not add up.
        """
        excess = Units(self.measure, self.loss >> EXCESS_BITS, self.delta >> EXCESS_BITS)
        return self + excess

    def positive(self) -> Units:
        """Return the amount, zero where it is negative."""
        return Units(self.measure, max(self.loss, 0), max(self.delta, 0))

    def budget(self) -> Budget:
        """Return the amount as floats that are not above it."""
        loss = float_below(Fraction(self.loss, PER_ONE))
        delta = float_below(Fraction(self.delta, PER_ONE_DELTA))
        if self.measure == "epsilon":
            return Budget(epsilon=loss, delta=delta)
        return Budget(rho=loss, delta=delta)

    def __str__(self) -> str:
        loss, delta = Fraction(self.loss, PER_ONE), Fraction(self.delta, PER_ONE_DELTA)
        return amount_text(self.measure, loss, delta)


def float_below(value: Fraction) -> float:
    """Return the largest float whose decimal is not above `value`.

    >>> float_below(Fraction(1, 10)), float_below(Fraction(2, 3)) < Fraction(2, 3)
    (0.1, True)
    >>> -float_below(-Fraction(1, 3)) > Fraction(1, 3)
    True
    """
    nearest = float(value)
    return nearest if Fraction(repr(nearest)) <= value else math.nextafter(nearest, -math.inf)


def short(value: Fraction | float) -> str:
    """Return a number with up to 12 digits: 1e-6, not 1e-06.

    >>> short(Fraction(1, 10**6)), short(Fraction(3, 4))
    ('1e-6', '0.75')
    """
    return f"{float(value):.12g}".replace("e-0", "e-").replace("e+0", "e")


def amount_text(measure: str, loss: Fraction | float, delta: Fraction | float) -> str:
    """Return a loss and a delta in words, without a delta of 0.

    >>> amount_text("epsilon", 0.5, 1e-6)
    'epsilon 0.5, delta 1e-6'
    """
    return f"{measure} {short(loss)}{f', delta {short(delta)}' if delta else ''}"


@dataclass(frozen=True)
class Charge:
    """The cost of one release and the questions it answers. Never a function of the data.

    >>> Charge(Epsilon(Fraction(1, 10)), question="count()").units("epsilon")
    Units(measure='epsilon', loss=100000000000000000000000, delta=0)
    >>> Charge(Epsilon(Fraction(1, 10)), question="count()").units("rho")
    Units(measure='rho', loss=5000000000000000000000, delta=0)
    """

    loss: Epsilon | Rho
    delta: Fraction = Fraction(0)
    question: str = ""

    def text(self) -> str:
        """Return the cost in words."""
        return amount_text(self.loss.measure, self.loss.value, self.delta)

    def units(self, measure: Measure) -> Units:
        """Return the cost in the units of a ledger, rounded up.

        A pure epsilon costs epsilon^2/2 of a ledger that counts rho. With a delta, that is
        approximate zCDP with the same delta (Bun and Steinke 2016, Section 8).
        """
        loss = self.loss.as_rho() if measure == "rho" else self.loss
        if measure != "rho" and isinstance(loss, Rho):
            raise InvalidLossError(
                "the release is asked for in rho, and the ledger counts epsilon",
                hint="ask with epsilon=0.5, or keep a ledger in rho: "
                "Ledger(path, rho=0.5, delta=1e-6)",
            )
        delta = math.ceil(self.delta * PER_ONE_DELTA)
        return Units(measure, math.ceil(loss.value * PER_ONE), delta)


def name_total(epsilon: object, rho: object, delta: object) -> Units | None:
    """Return a total as a caller names it, rounded down to whole units. None for none at all."""
    if epsilon is None and rho is None:
        if delta is not None:
            raise InvalidLossError(
                "a budget was given a delta and nothing else",
                hint="name epsilon or rho too, e.g. epsilon=10, delta=1e-6",
            )
        return None
    loss = read_loss(epsilon, rho)
    measure = loss.measure
    units = math.floor(positive_number(measure, loss.value) * PER_ONE)
    if not LEAST_TOTAL <= units <= MOST_UNITS:
        raise InvalidLossError(
            f"a ledger counts {measure} from 1e-9 to 4e9, not {short(loss.value)}",
            hint=f"pass a budget such as {measure}=10",
        )
    exact = Fraction(0) if delta is None else decimal_number(delta)
    if exact is None or not 0 <= exact < 1:
        raise InvalidLossError(
            f"the delta of a budget must be a number from 0 to below 1, not {describe(delta)}",
            hint="pass a small number such as delta=1e-6, or none if it is never spent",
        )
    if 0 < exact < Fraction(LEAST_DELTA, PER_ONE_DELTA):
        raise InvalidLossError(
            f"the delta of a budget is at least 1e-18, and {describe(delta)} is less",
            hint="pass delta=1e-18 or more, or none if it is never spent",
        )
    return Units(measure, units, math.floor(exact * PER_ONE_DELTA))


_DATE = dt.date.fromisoformat
PERIODS: Mapping[str, tuple[str, str, Callable[[str], object]]] = {
    "year": (r"\d{4}", "2024", lambda text: _DATE(f"{text}-01-01")),
    "month": (r"\d{4}-\d\d", "2024-01", lambda text: _DATE(f"{text}-01")),
    "week": (r"\d{4}-W\d\d", "2024-W05", lambda text: _DATE(f"{text}-1")),
    "day": (r"\d{4}-\d\d-\d\d", "2024-01-31", _DATE),
}
"""Lengths of periods: pattern of a name, example, and a parser that fails for no period."""


def is_period(kind: str, text: object) -> bool:
    """Check whether a text is the only name of a period of this length.

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


def account_name(dataset: str, period: object) -> str:
    """Return the name of the account of a dataset's period. Of the dataset where there is none.

    >>> account_name("visits", "2024-01"), account_name("visits", None)
    ('visits [2024-01]', 'visits')
    """
    if period is None:
        return dataset
    if not any(is_period(kind, period) for kind in PERIODS):
        description = repr(period[:40]) if isinstance(period, str) else describe(period)
        examples = ", ".join(example for _, example, _ in PERIODS.values())
        raise UnknownAccountError(
            f"a period of the data is named as in {examples}, not {description}",
            hint='pass period="2024-01"',
        )
    return f"{dataset} [{period}]"


def find_dataset(account: str) -> tuple[str, str]:
    """Return the dataset and the period of an account by its name. None where it has no period.

    >>> find_dataset("visits [2024-01]"), find_dataset("visits [old]")
    (('visits', '2024-01'), ('visits [old]', ''))
    """
    dataset, _, period = account.removesuffix("]").rpartition(" [")
    has_period = account.endswith("]") and any(is_period(kind, period) for kind in PERIODS)
    return (dataset, period) if has_period and dataset else (account, "")
