"""From zero-concentrated to approximate privacy: an epsilon that is certainly large enough.

Whatever is rho-zCDP is, for every order a > 1 and every delta in (0, 1), (epsilon, delta)-DP with

    epsilon = a rho + ln(1 - 1/a) + (ln(1/delta) - ln(a)) / (a - 1)

(Canonne, Kamath and Steinke 2020, Section 2.3). At a = 1 + sqrt(ln(1/delta) / rho) that is already
less than rho + 2 sqrt(rho ln(1/delta)) of Bun and Steinke (2016, Proposition 1.3). A good order is
searched for with floats; what it gives is computed with 60 digits and rounded up, so that a bad
search could cost accuracy and never privacy. docs/ledger.md has the proof.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

from dfprivacy.noise.tails import arithmetic, quotient

_WIDENING = Fraction(1, 10**39)
_STEPS = 100


def approximate_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon for which rho-zCDP implies (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    rho : Fraction
        From 0 to 2**62.
    delta : Fraction
        Above 0 and below 1.

    Returns
    -------
    Fraction
        Within 10**-9, relatively, of the least value of the formula above.

    Examples
    --------
    >>> from fractions import Fraction
    >>> float(approximate_epsilon(Fraction(1, 2), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    5.22...
    """
    if rho == 0:
        return Fraction(0)
    return max(Fraction(0), epsilon_at_order(rho, delta, _good_order(rho, delta)))


def epsilon_at_order(rho: Fraction, delta: Fraction, above_one: Fraction) -> Fraction:
    """Return the epsilon of the formula at order 1 + `above_one` > 1, rounded up.

    Every operation is within a relative 10**-58 of its exact result. The sum of the sizes of all
    terms, and 1 for what is inside the logarithms, times 10**-39 is far more than they can add to.
    """
    order = 1 + above_one
    with decimal.localcontext(arithmetic()):
        linear, beyond = quotient(order * rho), quotient(above_one)
        terms = (
            linear,
            quotient(above_one / order).ln(),
            -quotient(delta).ln() / beyond,
            -quotient(order).ln() / beyond,
        )
        size = 1 + sum((abs(term) for term in terms), Decimal(0))
        return Fraction(sum(terms, Decimal(0))) + Fraction(size) * _WIDENING


def _good_order(rho: Fraction, delta: Fraction) -> Fraction:
    """Return a - 1 for an order near the best: within a factor of 1024 of Bun and Steinke's."""
    slope, log = float(rho), math.log(delta.denominator) - math.log(delta.numerator)
    middle = 0.5 * (math.log(max(log, 1e-300)) - math.log(slope))
    low, high = max(middle - math.log(1024), -300.0), min(middle + math.log(1024), 300.0)
    for _ in range(_STEPS):
        third = (high - low) / 3
        if _estimate(slope, log, low + third) <= _estimate(slope, log, high - third):
            high -= third
        else:
            low += third
    return Fraction(math.exp((low + high) / 2))


def _estimate(rho: float, log: float, place: float) -> float:
    beyond = math.exp(place)
    inside = place - math.log1p(beyond)
    return (1 + beyond) * rho + inside + (log - math.log1p(beyond)) / beyond
