"""Certified upper bounds on tails, and the smallest integer at which a tail is small enough.

Decimal arithmetic of 60 significant digits and more, widened by a relative 10**-39 at the end:
what comes out is never below the true probability. The closed forms for sums of discrete Laplace
draws are proved in docs/sampling.md; `gaussian_tails` has the discrete Gaussian.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dfprivacy.errors import InvalidQuestionError

_PRECISION = 60
_WIDENING = Fraction(1, 10**39)
LARGEST_EXPONENT = 11_520
"""exp(-11520) < 10**-5000: tails beyond are reported as 10**-5000."""

_LEAST_TAIL = Fraction(1, 10**5000)


def laplace_tail(scale: Fraction, at_least: int, terms: int) -> Fraction:
    """Return a bound, tight to 10**-38, on P(Z_1 + ... + Z_terms >= at_least)."""
    check_terms(terms)
    if at_least > 0:
        return widened(_laplace_exceedance(scale, at_least, terms))
    return 1 - narrowed(_laplace_exceedance(scale, 1 - at_least, terms))


def laplace_variance(scale: Fraction) -> float:
    """Return 2 a / (1 - a)**2, rounded up."""
    with decimal.localcontext(arithmetic(scale)):
        ratio = exponential(-1 / scale)
        return rounded_up_moment(2 * ratio / (1 - ratio) ** 2)


def _laplace_exceedance(scale: Fraction, at_least: int, terms: int) -> Decimal:
    """Sum over j >= m of the probability of j, for m >= 1; see docs/sampling.md.

    The law of the sum is (1 - a)**(2 n) * a**j * (quadratic * j**2 + linear * j + constant).
    """
    if at_least / scale > LARGEST_EXPONENT:
        return Decimal(0)
    with decimal.localcontext(arithmetic(scale)):
        ratio = exponential(-1 / scale)
        quadratic, linear, constant = _polynomial(ratio * ratio, terms)
        mean = 1 / (1 - ratio)
        first = at_least * mean + ratio * mean**2
        second = at_least**2 * mean + 2 * at_least * ratio * mean**2 + ratio * (1 + ratio) * mean**3
        total = quadratic * second + linear * first + constant * mean
        return exponential(-at_least / scale) * (1 - ratio) ** (2 * terms) * total


def _polynomial(square: Decimal, terms: int) -> tuple[Decimal, Decimal, Decimal]:
    """Return the coefficients of j**2, j and 1, where `square` is a**2."""
    rest = 1 - square
    if terms == 1:
        return Decimal(0), Decimal(0), 1 / rest
    if terms == 2:
        return Decimal(0), 1 / rest**2, (1 + square) / rest**3
    return (
        1 / (2 * rest**3),
        3 * (1 + square) / (2 * rest**4),
        (1 + 4 * square + square * square) / rest**5,
    )


def smallest_exceedance(tail: Callable[[int], Fraction], probability: Fraction) -> int:
    """Return the smallest integer m with tail(m) <= probability, for a falling `tail`.

    Secant steps between an end above and an end below: the logarithm of a tail is smooth. Every
    fourth step halves what is left, whatever the tail is.
    """
    known = [_excess(tail, 0, probability)]
    low, high = _ends(tail, probability, known)
    while high - low > 1:
        guess = _crossing(*known[-2:]) if len(known) % 4 else None
        guess = (low + high) // 2 if guess is None else min(max(guess, low + 1), high - 1)
        known.append(_excess(tail, guess, probability))
        low, high = (low, guess) if known[-1].small else (guess, high)
    return high


@dataclass(frozen=True)
class _Excess:
    """Whether a tail is small enough at an integer, and its logarithm less that of the goal."""

    at: int
    small: bool
    logarithm: float


def _excess(tail: Callable[[int], Fraction], at: int, probability: Fraction) -> _Excess:
    found = tail(at)
    ratio = found / probability
    logarithm = math.log(ratio.numerator) - math.log(ratio.denominator) if ratio else -math.inf
    return _Excess(at, found <= probability, logarithm)


def _ends(
    tail: Callable[[int], Fraction], probability: Fraction, known: list[_Excess]
) -> tuple[int, int]:
    """Return two integers with the crossing between them, and add what was found to `known`."""
    side, step = -1 if known[0].small else 1, 1
    while known[-1].small is known[0].small:
        known.append(_excess(tail, side * step, probability))
        step *= 256
    low, high = sorted((known[-2].at, known[-1].at))
    return low, high


def _crossing(first: _Excess, second: _Excess) -> int | None:
    """Return where the line through two logarithms meets the goal, if it does."""
    fall = second.logarithm - first.logarithm
    if not math.isfinite(fall) or not fall:
        return None
    way = (second.at - first.at) * Fraction(second.logarithm / fall)
    return second.at - math.floor(way) + (0 if second.small else 1)


def check_terms(terms: int) -> None:
    """Refuse anything but one, two or three terms."""
    if terms not in {1, 2, 3}:
        raise InvalidQuestionError(
            f"tails of sums are known for 1, 2 or 3 terms, not {terms!r}", hint="Use terms=1."
        )


def arithmetic(*sizes: Fraction) -> decimal.Context:
    """Return a context that keeps 60 digits though numbers as large as `sizes` cancel."""
    digits = sum(max(0, int(size).bit_length()) * 2 // 3 for size in sizes)
    return decimal.Context(
        prec=_PRECISION + digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=-999_999_999,
        Emax=999_999_999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def quotient(number: Fraction) -> Decimal:
    """Return a fraction as a decimal number of the current context."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def exponential(exponent: Fraction) -> Decimal:
    """Return exp(exponent) for exponent <= 0; less than 10**-9000 becomes 0."""
    if exponent < -2 * LARGEST_EXPONENT:
        return Decimal(0)
    return quotient(exponent).exp()


def widened(probability: Decimal) -> Fraction:
    """Round up by more than all the errors of the computation."""
    bound = Fraction(probability) * (1 + _WIDENING)
    return min(Fraction(1), max(bound, _LEAST_TAIL))


def narrowed(probability: Decimal) -> Fraction:
    """Round down by more than all the errors of the computation."""
    return Fraction(probability) * (1 - _WIDENING)


def rounded_up_moment(moment: Decimal) -> float:
    """Round up by more than the errors of the computation; 10**-5000 covers what underflowed."""
    return rounded_up(Fraction(moment) * (1 + _WIDENING) + _LEAST_TAIL)


def rounded_up(number: Fraction) -> float:
    """Return the smallest float that is not below a number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
