"""What the releases of an account amount to together, as one epsilon and one delta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.accounting.conversion import approximate_epsilon
from dfprivacy.accounting.loss import Epsilon, Rho, delta_of
from dfprivacy.errors import InvalidLossError, MissingDeltaError


@dataclass(frozen=True)
class Composition:
    """Releases about one dataset: each loss with how often it was charged, and all deltas added up.

    >>> Composition(((Epsilon(Fraction(1, 10)), 3), (Rho(Fraction(1, 2)), 1))).rho()
    Fraction(103, 200)
    """

    losses: Sequence[tuple[Epsilon | Rho, int]]
    delta: Fraction = Fraction(0)

    def epsilon(self) -> Fraction | None:
        """Return the sum of the epsilons; None if a release was asked for in rho.

        Pure losses add up (Dwork and Roth 2014, Theorem 3.16).
        """
        total = Fraction(0)
        for loss, times in self.losses:
            if isinstance(loss, Rho):
                return None
            total += loss.value * times
        return total

    def rho(self) -> Fraction:
        """Return the sum of the rhos, epsilon^2/2 for a pure epsilon (Bun and Steinke 2016)."""
        return sum(
            (times * (loss if isinstance(loss, Rho) else loss.as_rho()).value)
            for loss, times in self.losses
        ) + Fraction(0)

    def spare(self, delta: Fraction) -> Fraction:
        """Return what is left of `delta` after the deltas that the releases themselves spent.

        Raises
        ------
        InvalidLossError
            When they spent more.
        """
        if delta < self.delta:
            raise InvalidLossError(
                f"the releases themselves have spent delta {short(self.delta)}",
                hint="pass a larger delta: the total can't have a smaller one",
            )
        return delta - self.delta

    def approximate(self, delta: Fraction) -> Fraction:
        """Return an epsilon for this delta: the smaller of both kinds of composition.

        Raises
        ------
        InvalidLossError
            When the releases spent more than `delta`.
        MissingDeltaError
            When no epsilon covers them at this delta.
        """
        pure, spare = self.epsilon(), self.spare(delta)
        if spare > 0:
            least = approximate_epsilon(self.rho(), spare)
            return least if pure is None else min(least, pure)
        if pure is None:
            raise MissingDeltaError(
                "releases in rho have no epsilon without a delta",
                hint="pass a delta above what the releases spent themselves, e.g. delta=1e-6",
            )
        return pure

    def total(self, delta: object) -> Budget:
        """Return epsilon and delta, as floats that are not below the exact amounts."""
        named = delta_of(delta)
        exact = self.delta if named is None else named
        return upper_budget(self.approximate(exact), exact)


def upper_budget(epsilon: Fraction, delta: Fraction) -> Budget:
    """Return epsilon and delta as floats whose decimals are not below them."""
    return Budget(epsilon=float_above(epsilon), delta=float_above(delta))


def float_above(value: Fraction) -> float:
    """Return the smallest float whose decimal is not below `value`.

    >>> float_above(Fraction(1, 10)), float_above(Fraction(1, 3)) > Fraction(1, 3)
    (0.1, True)
    """
    nearest = float(value)
    return nearest if Fraction(repr(nearest)) >= value else math.nextafter(nearest, math.inf)
