"""e**epsilon, enclosed by rational numbers."""

from __future__ import annotations

import decimal
from fractions import Fraction

_DIGITS = 90
_SLACK = Fraction(1, 10**60)
"""Covers the rounding of the exponent, below 64, and of the correctly rounded exponential."""


def exponential_below(exponent: Fraction) -> Fraction:
    """Return a rational number at most e**exponent and within 10**-60 of it, relatively.

    >>> from fractions import Fraction
    >>> round(float(exponential_below(Fraction(1))), 6)
    2.718282
    """
    return _exponential(exponent) * (1 - _SLACK)


def exponential_above(exponent: Fraction) -> Fraction:
    """Return a rational number at least e**exponent and within 10**-60 of it, relatively."""
    return _exponential(exponent) * (1 + _SLACK)


def _exponential(exponent: Fraction) -> Fraction:
    context = decimal.Context(
        prec=_DIGITS, rounding=decimal.ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=[]
    )
    numerator, denominator = decimal.Decimal(exponent.numerator), exponent.denominator
    return Fraction(context.exp(context.divide(numerator, decimal.Decimal(denominator))))
