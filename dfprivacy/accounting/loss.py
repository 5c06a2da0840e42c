"""Privacy losses as exact numbers: what a release may cost, and the noise that pays for it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dfprivacy.errors import InvalidLossError
from dfprivacy.exact import decimal_number, describe, exact_number, root_below
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace, Noise
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip, Selection

SMALLEST = Fraction(1, 2**60)
LARGEST = Fraction(2**60)


class Loss(Protocol):
    """A privacy loss that can be shared out and turned into noise."""

    def share(self, part: Fraction) -> Loss:
        """Return `part` of this loss; the shares of one release add up to the whole."""

    def noise(self, l1: int, l2_squared: int) -> Noise:
        """Return the noise that pays for integer sums of these sensitivities."""

    def selection(self, sensitivity: int) -> Selection:
        """Return the best selection from integer losses of this sensitivity that it pays for."""

    def pure(self) -> Fraction:
        """Return the epsilon of a pure mechanism that costs no more than this loss."""


@dataclass(frozen=True)
class Epsilon:
    """Pure differential privacy: outputs change by a factor of at most exp(epsilon).

    The value is an exact fraction, so that scales are never rounded and charges only upwards. The
    noise and a ledger's charge are computed from this one number.

    >>> Epsilon(Fraction(1, 2)).noise(l1=8, l2_squared=64)
    DiscreteLaplace(scale=Fraction(16, 1))
    """

    value: Fraction

    def share(self, part: Fraction) -> Epsilon:
        """Return `part` of epsilon; pure losses add up."""
        return Epsilon(self.value * part)

    def noise(self, l1: int, l2_squared: int) -> DiscreteLaplace:  # noqa: ARG002 one interface for both losses
        """Return discrete Laplace noise of scale l1/epsilon on every coordinate."""
        return DiscreteLaplace(Fraction(l1) / self.value)

    def selection(self, sensitivity: int) -> PermuteAndFlip:
        """Return permute-and-flip: at this epsilon its choices are the better (docs/selection.md).

        >>> Epsilon(Fraction(1, 2)).selection(sensitivity=1)
        PermuteAndFlip(rate=Fraction(1, 4))
        """
        return PermuteAndFlip.for_epsilon(self.value, sensitivity)

    def pure(self) -> Fraction:
        """Return epsilon itself."""
        return self.value

    def as_rho(self) -> Rho:
        """Return the rho that a pure loss implies, epsilon^2/2 (Bun and Steinke 2016, Prop. 1.4).

        >>> Epsilon(Fraction(1, 2)).as_rho()
        Rho(value=Fraction(1, 8))
        """
        return Rho(self.value**2 / 2)


@dataclass(frozen=True)
class Rho:
    """Zero-concentrated differential privacy (Bun and Steinke 2016).

    >>> Rho(Fraction(1, 2)).noise(l1=8, l2_squared=64)
    DiscreteGaussian(sigma_squared=Fraction(64, 1))
    """

    value: Fraction

    def share(self, part: Fraction) -> Rho:
        """Return `part` of rho; zCDP losses add up."""
        return Rho(self.value * part)

    def noise(self, l1: int, l2_squared: int) -> DiscreteGaussian:  # noqa: ARG002 one interface for both losses
        """Return discrete Gaussian noise of variance l2_squared/(2 rho) on every coordinate."""
        return DiscreteGaussian(Fraction(l2_squared) / (2 * self.value))

    def selection(self, sensitivity: int) -> ExponentialMechanism:
        """Return the exponential mechanism: rho buys it twice the rate of permute-and-flip.

        >>> Rho(Fraction(1, 2)).selection(sensitivity=1)
        ExponentialMechanism(rate=Fraction(1, 1))
        """
        return ExponentialMechanism.for_rho(self.value, sensitivity)

    def pure(self) -> Fraction:
        """Return sqrt(2 rho), rounded down: what is so purely private is rho-zCDP."""
        return root_below(2 * self.value)


def loss_of(epsilon: object = None, rho: object = None) -> Epsilon | Rho:
    """Return the loss that a caller named by epsilon or by rho; epsilon is 1.0 when neither is.

    Raises
    ------
    InvalidLossError
        When both are given, or the one given is not a real number in [2**-60, 2**60].
    """
    if epsilon is not None and rho is not None:
        raise InvalidLossError(
            "epsilon and rho were both given",
            hint="name one: epsilon=1.0 for pure privacy, rho=0.5 for zero-concentrated privacy",
        )
    if rho is not None:
        return Rho(positive_number("rho", rho))
    return Epsilon(positive_number("epsilon", 1.0 if epsilon is None else epsilon))


def positive_number(name: str, value: object) -> Fraction:
    """Return `value` as an exact fraction, in [2**-60, 2**60]; a float as the decimal it prints.

    >>> positive_number("epsilon", 0.1)
    Fraction(1, 10)
    """
    exact, decimal = exact_number(value), decimal_number(value)
    if exact is None or decimal is None or not SMALLEST <= exact <= LARGEST:
        raise InvalidLossError(
            f"{name} must be a positive, finite number, not {describe(value)}",
            hint=f"pass a number such as {name}=1.0",
        )
    return decimal


def delta_of(value: object) -> Fraction | None:
    """Return delta as an exact fraction in (0, 1), or None when none was given."""
    if value is None:
        return None
    exact, decimal = exact_number(value), decimal_number(value)
    if exact is None or decimal is None or not Fraction(1, 2**1000) <= exact < 1:
        raise InvalidLossError(
            f"delta must be a number between 0 and 1, not {describe(value)}",
            hint="pass a small number such as delta=1e-6",
        )
    return decimal
