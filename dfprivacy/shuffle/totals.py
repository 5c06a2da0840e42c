"""One sum over all users, and the mean: Balle, Bell, Gascon and Nissim (2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from dfprivacy.local.plain import is_whole, no_plan
from dfprivacy.local.users import MOST_USERS
from dfprivacy.noise.entropy import EntropySource
from dfprivacy.shuffle.estimates import ShuffleEstimate
from dfprivacy.shuffle.plan import Plan
from dfprivacy.shuffle.queries import Floats, Integers, half_width, rounded
from dfprivacy.terms import Bounds

if TYPE_CHECKING:
    from dfprivacy.shuffle.protocol import Protocol


@dataclass(frozen=True)
class Total(Plan):
    """The sum of values clipped to [lower, upper], over `divisor`; missing ones count `absent`.

    Values lie on a grid of `steps` steps, sqrt(users) of them unless said: the noise of all is
    then about as large as what rounding adds.
    """

    kind: ClassVar[str] = "total"
    lower: float
    upper: float
    absent: float
    steps: int
    divisor: int
    found: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no plan has."""
        Bounds(self.lower, self.upper)
        if not (is_whole(self.steps, 1, 2**30) and is_whole(self.divisor, 1, MOST_USERS)):
            raise no_plan()

    @property
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """One sum, in one round."""
        return ((Fraction(1), 1),)

    def precision(self, round_: int) -> int:  # noqa: ARG002 one interface
        """Return the number of steps."""
        return self.steps

    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:  # noqa: ARG002 one interface
        """Return each value on the grid, rounded up or down at random."""
        present = np.where(np.isnan(values), self.absent, values)
        clipped = np.clip(present, self.lower, self.upper)
        parts = (clipped - self.lower) / (self.upper - self.lower)
        return rounded(parts[:, np.newaxis], self.steps, entropy)

    def after(self, totals: Sequence[int], protocol: Protocol) -> Self:  # noqa: ARG002 one interface
        """Return the plan with its noisy total."""
        return replace(self, found=totals[0])

    def estimate(self, protocol: Protocol, level: float) -> ShuffleEstimate:
        """Return the total, or the mean."""
        step = self.step
        start = self.lower * protocol.users / self.divisor
        sums = protocol.sums_of(1)
        variance = sums.noise.variance + protocol.users / 4
        return ShuffleEstimate(
            start + step * (self.found or 0),
            half=self.half_width(protocol, level),
            std_error=step * math.sqrt(variance),
            cost=(protocol.epsilon, protocol.delta),
        )

    @property
    def step(self) -> float:
        """What one step of the grid is worth in the answer."""
        return (self.upper - self.lower) / self.steps / self.divisor

    def half_width(self, protocol: Protocol, level: float) -> float:
        """Return half the width of the interval: a public number, known before any message."""
        return self.step * half_width(protocol.sums_of(1), 1 - level, rounding=True)
