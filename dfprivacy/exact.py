"""Numbers that a caller passes, as exact fractions; anything else is refused by its type."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction


def exact_number(value: object) -> Fraction | None:
    """Return a real, finite number as a fraction; None for anything else (booleans too)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else None
    return Fraction(float(value)) if math.isfinite(value) else None


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
    return f"a {type(value).__name__}"


_ROOT_BITS = 320


def root_below(value: Fraction) -> Fraction:
    """Return the square root, rounded down to a multiple of 2**-320."""
    return Fraction(math.isqrt(int(value * 4**_ROOT_BITS)), 2**_ROOT_BITS)
