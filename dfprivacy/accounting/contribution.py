"""What one privacy unit contributes, and the loss that remains for each of its rows.

A mechanism that is private for adding or removing one row is private for a unit of several rows at
a higher cost. Here the cost of the unit is given, and a row gets what is left of it. Proof:
docs/users.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.noise.keys import KeyRule


@dataclass(frozen=True)
class Contribution:
    """One unit contributes at most `rows` rows, or their weight, to each of `groups` groups.

    Where statistics of `parts` files are added up, it does so in each file that it has rows in,
    which are at most so many: docs/partial.md.

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
        privacy, `rows` rows in one group cost rows^2 times what one costs, and groups, whose
        noises are independent, add up: rho / (rows^2 * groups). Several files can have the same
        groups, or each its own; the former costs more: `parts` times the rows in each group.
        """
        rows = self.rows * self.parts
        if isinstance(loss, Epsilon):
            return loss.share(Fraction(1, rows * self.groups))
        return loss.share(Fraction(1, rows**2 * self.groups))

    def key_rule(self, delta: Fraction) -> KeyRule:
        """Return the rule by which groups of secret keys are shown, for a unit's whole delta."""
        return KeyRule(delta / (self.groups * self.parts), self.rows * self.parts)

    def pooled(self) -> Contribution:
        """Return what the unit contributes where all groups are counted together."""
        return Contribution(self.rows * self.groups, 1, self.parts)
