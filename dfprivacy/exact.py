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


def describe(value: object) -> str:
    """Name a rejected argument: a number by its value, anything else by its type alone."""
    if isinstance(value, bool | int | float | Decimal | Fraction):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:37]}..."
    return f"a {type(value).__name__}"
