"""The (epsilon, delta) of a whole protocol, shared among the sums that it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.errors import InvalidLossError
from dfprivacy.local.exponential import exponential_above
from dfprivacy.shuffle.polya import DISTANCE

_SAFETY = Fraction(10**9 - 1, 10**9)
"""Covers the rounding of floats in the conversion from zCDP."""


@dataclass(frozen=True)
class Share:
    """What one sum may spend: pure epsilon for its noise, 2**-security for its shuffling."""

    epsilon: Fraction
    security: int


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the rho that implies (epsilon, delta) (Bun and Steinke 2016, Proposition 1.3).

    rho + 2 sqrt(rho log(1 / delta)) <= epsilon, rounded down.

    >>> from fractions import Fraction
    >>> round(float(rho_within(Fraction(1), Fraction(1, 10**6))), 4)
    0.0175
    """
    log = math.log(1 / delta)
    root = math.sqrt(log + float(epsilon)) - math.sqrt(log)
    return Fraction(root * root) * _SAFETY


def shared(
    epsilon: Fraction, delta: Fraction, users: int, weights: Sequence[tuple[Fraction, int]]
) -> list[Share]:
    """Return the share of each sum, by round: a weight, and how many sums have it.

    Each sum is pure discrete Laplace noise, so that `epsilon` can be shared out as it is, or by
    way of zCDP for half of delta: a pure loss of e is e**2 / 2-zCDP, and these add up. What gives
    the sums of the largest weight the least noise is taken. The rest of delta pays for shuffling:
    if each transcript is within 2**-security of one that shows its noisy sum alone, the whole is
    within t, their sum, and what is (epsilon, delta') becomes (epsilon, delta' + (1 + e**epsilon)
    t). The sampler's distance from its law counts the same way, twice a user and sum.
    """
    parts = sum((weight * queries for weight, queries in weights), Fraction(0))
    sums = sum(queries for _, queries in weights)
    rho = rho_within(epsilon, delta / 2)
    pure, heaviest = epsilon / parts, max(weight for weight, _ in weights)
    by_zcdp = _root(2 * rho * heaviest / parts) > pure * heaviest
    left = delta / 2 if by_zcdp else delta
    sampling = 2 * users * sums * DISTANCE
    each = (left / (1 + exponential_above(epsilon)) - sampling) / sums
    if each <= 0:
        raise InvalidLossError(
            "delta is too small beside epsilon: it does not pay for the draws of so many users",
            hint="pass a larger delta or a smaller epsilon, e.g. epsilon=1, delta=1e-6",
        )
    security = max(1, math.ceil(-math.log2(each) + 1e-9))
    return [
        Share(_root(2 * rho * weight / parts) if by_zcdp else pure * weight, security)
        for weight, _ in weights
    ]


def _root(value: Fraction) -> Fraction:
    return Fraction(math.sqrt(value)) * _SAFETY
