"""Hold privacy losses as exact numbers: which noise pays for one, and how much of it a row gets."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from dfprivacy.errors import InvalidLossError
from dfprivacy.measurement.exact import decimal_number, describe, exact_number, root_below
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace, KeyRule
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip

SMALLEST = Fraction(1, 2**60)
LARGEST = Fraction(2**60)


@dataclass(frozen=True)
class Epsilon:
    """Pure differential privacy: outputs change by a factor of at most exp(epsilon).

    The value is an exact fraction, so that scales are never rounded and charges only upwards. The
    noise and a ledger's charge are computed from this one number.

    >>> Epsilon(Fraction(1, 2)).noise(l1=8, l2_squared=64)
    DiscreteLaplace(scale=Fraction(16, 1))
    """

    value: Fraction
    measure: ClassVar[Literal["epsilon"]] = "epsilon"

    def share(self, part: Fraction) -> Epsilon:
        """Return `part` of epsilon. Pure losses add up."""
        return Epsilon(self.value * part)

    def noise(self, l1: int, l2_squared: int) -> DiscreteLaplace:  # noqa: ARG002 one interface for both losses
        """Return discrete Laplace noise of scale l1/epsilon on every coordinate."""
        return DiscreteLaplace(Fraction(l1) / self.value)

    def selection(self, sensitivity: int) -> PermuteAndFlip:
        """Return permute-and-flip, which errs less at this epsilon (docs/explanation/selection.md).

        >>> Epsilon(Fraction(1, 2)).selection(sensitivity=1)
        PermuteAndFlip(rate=Fraction(1, 4))
        """
        return PermuteAndFlip.for_epsilon(self.value, sensitivity)

    def pool(self, groups: int) -> Epsilon:  # noqa: ARG002 one interface for both losses
        """Return the loss of one row where the rows of so many groups of a unit count together."""
        return self

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
    measure: ClassVar[Literal["rho"]] = "rho"

    def share(self, part: Fraction) -> Rho:
        """Return `part` of rho. Losses in rho add up."""
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

    def pool(self, groups: int) -> Rho:
        """Return the loss of one row where the rows of so many groups of a unit count together.

        Their noises are independent no more, so that they add up before they are squared.

        >>> unit, rho = Contribution(rows=3, groups=2), Rho(Fraction(1))
        >>> unit.row_loss(rho).pool(2) == unit.pool().row_loss(rho)
        True
        """
        return self.share(Fraction(1, groups))

    def pure(self) -> Fraction:
        """Return sqrt(2 rho), rounded down: a mechanism of that epsilon is rho-zCDP."""
        return root_below(2 * self.value)

    def as_rho(self) -> Rho:
        """Return rho itself."""
        return self


@dataclass(frozen=True)
class Contribution:
    """One unit contributes at most `rows` rows, or their weight, to each of `groups` groups.

    Where statistics of `parts` files are added up, it does so in each file that it has rows in,
    up to that number: docs/how-to/partial.md. So does a row that a join makes `parts` rows
    of.

    >>> Contribution(rows=3, groups=2).row_loss(Epsilon(Fraction(1)))
    Epsilon(value=Fraction(1, 6))
    >>> Contribution(rows=3, groups=2).row_loss(Rho(Fraction(1)))
    Rho(value=Fraction(1, 18))
    >>> Contribution(rows=3, groups=2, parts=5).row_loss(Epsilon(Fraction(1)))
    Epsilon(value=Fraction(1, 30))
    """

    rows: int = 1
    groups: int = 1
    parts: int = 1

    def row_loss(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return the loss for one row in one group that costs a unit `loss`.

        Pure losses of the unit's rows add up: epsilon / (rows * groups). For zero-concentrated
        privacy, `rows` rows in one group cost rows^2 times as much as one, and groups, whose
        noises are independent, add up: rho / (rows^2 * groups). Several files can have the same
        groups, or each its own. The former costs more: `parts` times the rows in each group.
        """
        rows = self.rows * self.parts
        if isinstance(loss, Epsilon):
            return loss.share(Fraction(1, rows * self.groups))
        return loss.share(Fraction(1, rows**2 * self.groups))

    def key_rule(self, delta: Fraction) -> KeyRule:
        """Return the rule by which groups of secret keys are shown, for a unit's whole delta."""
        return KeyRule(delta / (self.groups * self.parts), self.rows * self.parts)

    def pool(self) -> Contribution:
        """Return the contribution if all groups are counted together."""
        return Contribution(self.rows * self.groups, 1, self.parts)


def read_loss(epsilon: object = None, rho: object = None) -> Epsilon | Rho:
    """Return the loss that a caller named by epsilon or by rho. Epsilon is 1.0 when neither is."""
    if epsilon is not None and rho is not None:
        raise InvalidLossError(
            "epsilon and rho were both given",
            hint="name one: epsilon=1.0 for pure privacy, rho=0.5 for zero-concentrated privacy",
        )
    if rho is not None:
        return Rho(positive_number("rho", rho))
    return Epsilon(positive_number("epsilon", 1.0 if epsilon is None else epsilon))


def positive_number(name: str, value: object) -> Fraction:
    """Return `value` as an exact fraction, in [2**-60, 2**60]. A float as the decimal it prints.

    >>> positive_number("epsilon", 0.1)
    Fraction(1, 10)
    """
    exact, decimal = exact_number(value), decimal_number(value)
    if exact is None or decimal is None or not SMALLEST <= exact <= LARGEST:
        raise InvalidLossError(
            f"{name} must be a positive, finite number, not {describe(value)}",
            hint=f"pass a number such as {name}=1.0",
        )
    return min(max(decimal, SMALLEST), LARGEST)  # rounded to a decimal it may be beyond


def read_delta(value: object) -> Fraction | None:
    """Return delta as an exact fraction in (0, 1), or None when none was given."""
    if value is None:
        return None
    exact, decimal = exact_number(value), decimal_number(value)
    if exact is not None and 0 < exact < Fraction(1, 2**1000):
        raise InvalidLossError(
            f"delta must be at least 2**-1000, about 1e-301, and {describe(value)} is less",
            hint="pass a small number such as delta=1e-6",
        )
    if exact is None or decimal is None or not 0 < exact < 1:
        raise InvalidLossError(
            f"delta must be a number between 0 and 1, not {describe(value)}",
            hint="pass a small number such as delta=1e-6",
        )
    return decimal
