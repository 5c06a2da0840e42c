"""Read numbers that a caller passes as exact fractions; refuse anything else by its type."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction

from dfprivacy.errors import DPError, InvalidQuestionError


def exact_number(value: object) -> Fraction | None:
    """Return a real, finite number as a fraction; None for anything else (booleans too)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else None
    return Fraction(float(value)) if math.isfinite(value) else None


def read_once(value: object) -> object:
    """Return a number of another class as one of Python's own; anything else as it is.

    A number of a class that a caller has written could be another one each time it is asked: a
    small one for a ledger, and a large one for the noise.
    """
    if isinstance(value, bool) or type(value) in _PLAIN:
        return value
    if isinstance(value, numbers.Rational):
        fraction = Fraction(int(value.numerator), int(value.denominator))
        return fraction.numerator if fraction.denominator == 1 else fraction
    if isinstance(value, Decimal):
        return Decimal(value)
    return float(value) if isinstance(value, numbers.Real) else value


_PLAIN = frozenset((int, float, Fraction, Decimal))


def decimal_number(value: object) -> Fraction | None:
    """Return a real, finite number as a fraction; a float as the decimal that Python prints.

    The float 0.1 lies above 1/10 by 6e-18. What a caller means by 0.1, and what adds up to 1 in ten
    calls, is 1/10.

    >>> decimal_number(0.1), exact_number(0.1) > Fraction(1, 10)
    (Fraction(1, 10), True)
    """
    exact = exact_number(value)
    if exact is None or isinstance(value, numbers.Rational | Decimal):
        return exact
    return Fraction(repr(float(value)))  # type: ignore[arg-type]  # a real number


def describe(value: object) -> str:
    """Name a rejected argument: a number by its value, anything else by its type alone."""
    if isinstance(value, int | Fraction) and abs(Fraction(value)) >= 2**1024:
        return "a number of more than 300 digits"
    if isinstance(value, bool | int | float | Decimal | Fraction):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:37]}..."
    return "None" if value is None else f"a {type(value).__name__}"


def number_within(
    value: object,
    smallest: Fraction | int,
    largest: int,
    refusal: type[DPError],
    what: str,
    *,
    hint: str,
) -> Fraction:
    """Return an argument exactly; the refusal of one out of a range says `what` it must be."""
    exact = exact_number(value)
    if exact is None or not smallest <= exact <= largest:
        raise refusal(f"{what}, not {describe(value)}", hint=hint)
    return exact


def whole_number(
    value: object, smallest: int, largest: int, refusal: type[DPError], what: str, *, hint: str
) -> int:
    """Return an argument as a whole number; any other one is refused as by `number_within`."""
    exact = exact_number(value)
    if exact is None or exact.denominator != 1:
        raise refusal(f"{what}, not {describe(value)}", hint=hint)
    return int(number_within(value, smallest, largest, refusal, what, hint=hint))


_ROOT_BITS = 320


def root_below(value: Fraction) -> Fraction:
    """Return the square root, rounded down to a multiple of 2**-320."""
    return Fraction(math.isqrt(int(value * 4**_ROOT_BITS)), 2**_ROOT_BITS)


_LARGEST_DENOMINATOR = 10**6


def quantile_fraction(q: object) -> Fraction:
    """Return a quantile as an exact fraction of a denominator up to a million.

    >>> quantile_fraction(0.95)
    Fraction(19, 20)
    """
    exact = decimal_number(q)
    if exact is None or not 0 <= exact <= 1:
        raise InvalidQuestionError(
            f"a quantile must be a number from 0 to 1, not {describe(q)}",
            hint="pass 0.5 for the median, 0.9 for the value that one row in ten exceeds, several "
            "to quantiles",
        )
    return exact.limit_denominator(_LARGEST_DENOMINATOR)


_LARGEST_POWER = 64


def center_power(p: object) -> float:
    """Return the power of a center as a float.

    >>> center_power(2)
    2.0
    """
    exact = exact_number(p)
    if exact is None or not 1 < exact <= _LARGEST_POWER or float(exact) == 1:
        raise InvalidQuestionError(
            f"the p of a center must be a number above 1, up to 64, not {describe(p)}",
            hint="pass p=2 for the mean, p=1.5 for a center that outliers move less; "
            "ask for the median where p would be 1",
        )
    return float(exact)
