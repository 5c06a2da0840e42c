"""The mean of vectors in the shuffle model: Huang, Liang and Yi (2021), section 5.

Medians of the rotated coordinates by counting, all coordinates side by side; the length at which
to clip around them, by counting; and a sum for each coordinate of what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from dfprivacy.local.plain import is_whole, no_plan
from dfprivacy.local.rotation import padded, rotated, unrotated
from dfprivacy.noise.entropy import EntropySource
from dfprivacy.shuffle.estimates import ShuffledVector
from dfprivacy.shuffle.plan import Plan
from dfprivacy.shuffle.queries import Floats, Integers, rounded

if TYPE_CHECKING:
    from dfprivacy.shuffle.protocol import Protocol

MEDIANS, CLIPPING, MEAN = Fraction(1, 4), Fraction(1, 8), Fraction(5, 8)
"""Parts of the loss."""

_OUTSIDE = 0.01
"""How often a rotated coordinate may exceed its bound."""


@dataclass(frozen=True)
class Vectors(Plan):
    """The mean of vectors of at most length `radius`.

    `cells` counts, for each rotated coordinate and, in the end, for the length, from the left of
    the range, and is doubled with every round.
    """

    kind: ClassVar[str] = "vectors"
    campaign: str
    dimensions: int
    radius: float
    height: int
    steps: int
    cells: tuple[int, ...] = ()
    length: int = 0
    totals: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no plan has and no round finds."""
        sized = is_whole(self.dimensions, 1, 2**10) and is_whole(self.height, 1, 20)
        if not (sized and is_whole(self.steps, 1, 2**30) and self._found_within_radius()):
            raise no_plan()

    def _found_within_radius(self) -> bool:
        """Tell whether the radius is one that floats can square, and cells are among its own."""
        return (
            type(self.radius) is float
            and 2.0**-300 <= self.radius <= 2.0**300
            and len(self.cells) in {0, self.size}
            and all(is_whole(each, 0, 2**self.height - 1) for each in (*self.cells, self.length))
        )

    @property
    def width(self) -> int:
        """How many numbers a value has."""
        return self.dimensions

    @property
    def size(self) -> int:
        """How many coordinates there are after rotation."""
        return padded(self.dimensions)

    @property
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """Medians take `height` rounds, clipping as many, the mean one."""
        medians = (MEDIANS / self.height / self.size, self.size)
        return (
            *((medians,) * self.height),
            *(((CLIPPING / self.height, 1),) * self.height),
            (MEAN / self.size, self.size),
        )

    def precision(self, round_: int) -> int:
        """Return 1 while users are counted, then the steps of the grid."""
        return self.steps if round_ > 2 * self.height else 1

    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:
        """Return bits about each coordinate or the length, or the clipped coordinates."""
        kept = np.clip(np.nan_to_num(values), -self.radius, self.radius)
        turned = rotated(kept, self.campaign)
        if round_ <= self.height:
            points = self._points(round_ - 1)
            return np.asarray(turned <= points, dtype=np.int64)
        away = turned - self.centre
        away[np.isnan(values).any(axis=1)] = 0.0
        lengths = np.linalg.norm(away, axis=1, keepdims=True)
        if round_ <= 2 * self.height:
            point = (2 * self.length + 1) / 2.0 ** (round_ - self.height) * self.radius
            return np.asarray(lengths <= point, dtype=np.int64)
        away *= self.clip / np.maximum(lengths, self.clip)
        return rounded((away / self.bound + 1) / 2, self.steps, entropy)

    def _points(self, asked: int) -> Floats:
        cells = np.array(self.cells or (0,) * self.size)
        return ((2 * cells + 1) / 2.0**asked - 1) * self.radius

    @property
    def centre(self) -> Floats:
        """The medians that were found."""
        return self._points(self.height)

    @property
    def clip(self) -> float:
        """The length that was found, at least one cell."""
        return (2 * self.length + 1) / 2.0**self.height * self.radius

    @property
    def bound(self) -> float:
        """The bound of a rotated coordinate: clipped vectors in random directions stay within."""
        spread = math.sqrt(2 * math.log(4 * self.size / _OUTSIDE) / self.size)
        return self.clip * min(1.0, spread)

    def after(self, totals: Sequence[int], protocol: Protocol) -> Self:
        """Return the plan with what a round has shown."""
        if protocol.round <= self.height:
            old = self.cells or (0,) * self.size
            right = [total < protocol.users / 2 for total in totals]
            return replace(
                self, cells=tuple(2 * c + int(r) for c, r in zip(old, right, strict=True))
            )
        if protocol.round <= 2 * self.height:
            right_half = totals[0] < protocol.users - self.tail(protocol)
            return replace(self, length=2 * self.length + int(right_half))
        return replace(self, totals=tuple(totals))

    def tail(self, protocol: Protocol) -> float:
        """Return how many users to clip: as many as noise per unit of length has on all axes."""
        noise = protocol.sums_of(protocol.rounds).noise
        per_unit = math.sqrt(self.size * noise.variance) / self.steps
        spread = 2 * self.bound / self.clip
        slack = math.sqrt(protocol.sums_of(protocol.round).noise.variance)
        return min(per_unit * spread + slack, 0.9 * protocol.users)

    def estimate(self, protocol: Protocol, level: float) -> ShuffledVector:  # noqa: ARG002 one interface
        """Return the mean."""
        bound = self.bound
        step = 2 * bound / self.steps / protocol.users
        shifted = np.array(self.totals, dtype=np.float64) * step - bound
        mean = unrotated(self.centre + shifted, self.campaign, self.dimensions)
        sums = protocol.sums_of(protocol.rounds)
        variance = sums.noise.variance + protocol.users / 4
        return ShuffledVector(
            mean, step * math.sqrt(variance), self.clip, float(protocol.epsilon),
            float(protocol.delta),
        )  # fmt: skip
