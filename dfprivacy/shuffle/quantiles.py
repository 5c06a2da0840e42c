"""A quantile by counting: each round asks every user whether the value lies below a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from dfprivacy.local.plain import is_whole, no_plan
from dfprivacy.noise.entropy import EntropySource
from dfprivacy.shuffle.estimates import ShuffleChoice
from dfprivacy.shuffle.plan import Plan
from dfprivacy.shuffle.queries import Floats, Integers
from dfprivacy.terms import Bounds

if TYPE_CHECKING:
    from dfprivacy.shuffle.protocol import Protocol


@dataclass(frozen=True)
class Quantile(Plan):
    """The value that a part `q` of the users does not exceed, between `lower` and `upper`.

    A noisy binary search (Huang, Liang and Yi 2021, PrivQuant) over 2**height cells; `cell` counts
    from the left, and is doubled with every round.
    """

    kind: ClassVar[str] = "quantile"
    q: float
    lower: float
    upper: float
    height: int
    cell: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        """Refuse what no plan has and no round finds."""
        Bounds(self.lower, self.upper)
        sized = is_whole(self.height, 1, 40) and is_whole(self.asked, 0, self.height)
        if not (sized and is_whole(self.cell, 0, 2**self.asked - 1)):
            raise no_plan()

    @property
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """One count a round, all alike."""
        return ((Fraction(1), 1),) * self.height

    @property
    def point(self) -> float:
        """What users compare with in this round: the middle of what is left."""
        part = (2 * self.cell + 1) / 2.0 ** (self.asked + 1)
        return self.lower + part * (self.upper - self.lower)

    def precision(self, round_: int) -> int:  # noqa: ARG002 one interface
        """Return 1: users are counted."""
        return 1

    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:  # noqa: ARG002 one interface
        """Return 1 for values at or below the point; a missing value lies in the middle."""
        middle = (self.lower + self.upper) / 2
        present = np.where(np.isnan(values), middle, values)
        return (present <= self.point).astype(np.int64)[:, np.newaxis]

    def after(self, totals: Sequence[int], protocol: Protocol) -> Self:
        """Return the plan with the half in which the quantile lies."""
        right = totals[0] < self.q * protocol.users
        return replace(self, cell=2 * self.cell + int(right), asked=self.asked + 1)

    def estimate(self, protocol: Protocol, level: float) -> ShuffleChoice:  # noqa: ARG002 one interface
        """Return the middle of the cell that is left."""
        part = (2 * self.cell + 1) / 2.0 ** (self.height + 1)
        value = self.lower + part * (self.upper - self.lower)
        return ShuffleChoice(value, cost=(protocol.epsilon, protocol.delta))
