"""The mean of a Gaussian: Joseph, Kulkarni, Mao and Wu (2019), all four protocols.

Half of the users report a base-4 digit of their value at one level each; that finds the mean up to
two standard deviations, and the standard deviation up to a small factor (`coarse`). The other half
refines it: in a second round around what was found, or in the same round around every point that
might be found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dfprivacy.local.asks import Ask, Digit, Distance, Side
from dfprivacy.local.coarse import (
    TRUSTED_DEVIATION,
    Digits,
    coarse_mean,
    coarse_spread,
    deviation,
    digits_of,
    of_present,
)
from dfprivacy.local.estimate import LocalEstimate
from dfprivacy.local.fine import finding
from dfprivacy.local.fit import Gaussian, fitted
from dfprivacy.local.plain import is_whole, no_plan
from dfprivacy.local.plan import Plan
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.users import MOST_USERS

if TYPE_CHECKING:
    from dfprivacy.local.aggregate import Aggregate
    from dfprivacy.local.protocol import Protocol

MOST = 500
"""Levels lie between -500 and 500, and there are at most 64 of them."""

SLACK = 1.0
"""So many spreads the point to clip around may be off: half of what the coarse step may be."""


@dataclass(frozen=True)
class GaussianPlan(Plan):
    """One of the four protocols.

    Attributes
    ----------
    users : int
        The public number of users.
    rounds : int
        1 or 2.
    low, high : int
        Levels: the mean lies within +-2**high; 2**low is at most the least possible sigma.
    sigma : float or None
        The standard deviation where it is known.
    beta : float
        How often the coarse step may fail.
    point, spread : float or None
        What round 1 of 2 has found.
    present : float
        The share of owners who have a value, where round 1 shows that some have none.
    """

    kind: ClassVar[str] = "gaussian mean"
    users: int
    rounds: int
    low: int
    high: int
    sigma: float | None = None
    beta: float = 0.01
    point: float | None = None
    spread: float | None = None
    present: float = 1.0

    def __post_init__(self) -> None:
        """Refuse other numbers of rounds, as users of a part are asked once, and endless levels."""
        counted = is_whole(self.users, 1, MOST_USERS) and is_whole(self.rounds, 1, 2)
        levels = is_whole(self.low, 1 - MOST, MOST - 65) and is_whole(self.high, -MOST, MOST)
        if not (counted and levels and self.low < self.high < self.low + 64):
            raise no_plan()

    @property
    def limit(self) -> float:
        """Values are clipped to -limit and limit at their owner's."""
        return math.ldexp(1.0, self.high)

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the digits, lowest first."""
        return tuple(range(self.low, self.high + 1))

    def asks(self, round_: int) -> tuple[Ask, ...]:
        """Return what the users of a round are asked."""
        digits = Digit(0, self.levels)
        if self.rounds == 1:
            return digits, self._sides() if self.sigma is not None else self._distances()
        return (digits,) if round_ == 1 else (self._around(),)

    def _around(self) -> Ask:
        """Ask around what round 1 has found."""
        point = self.point or 0.0
        if self.sigma is not None:
            return Side(1, (point,))
        reach = SLACK + math.sqrt(math.log(4 * self.users))
        return Distance(1, (point,), (2 * (self.spread or 1.0) * reach,))

    def _sides(self) -> Side:
        """Ask for sides of lattices a fifth of sigma apart, wide enough that values stay near."""
        sigma = self.sigma or 1.0
        width = math.ceil(2 * math.sqrt(math.log(4 * self.users)))
        return Side(1, tuple(sigma * index / 5 for index in range(1, 5 * width + 1)), sigma * width)

    def _distances(self) -> Distance:
        """Ask for distances from lattices for every spread that might be found."""
        width = math.ceil(math.sqrt(math.log(4 * self.users)) + 6)
        units = [math.ldexp(1.0, level) for level in self.levels]
        points = tuple(index * unit for unit in units for index in range(1, width + 1))
        widths = tuple(width * unit for unit in units for _ in range(width))
        return Distance(1, points, widths, lattice=True)

    def after(self, protocol: Protocol, aggregate: Aggregate) -> Self:
        """Return the plan with what the digits show of mean, spread and missing values."""
        found = self._found(self._digits(protocol, aggregate), self.sigma)
        spread = found.spread if self.sigma is None else None
        present = found.present if self.trusted(protocol) else 1.0
        return replace(self, point=found.mean, spread=spread, present=present)

    def _found(self, digits: Digits, sigma: float | None) -> Gaussian:
        """Return the Gaussian near the coarse step that fits the digits best."""
        present = of_present(digits)
        spread = coarse_spread(present) if sigma is None else sigma
        factors = np.exp2(np.linspace(-2, 1.5, 15)) if sigma is None else np.ones(1)
        spreads = np.maximum(spread * factors, math.ldexp(1.0, self.low - 1))
        found = fitted(digits, Gaussian(coarse_mean(present), spread), spreads=spreads)
        return replace(found, mean=min(max(found.mean, -self.limit), self.limit))

    def spread_of(self, protocol: Protocol, aggregate: Aggregate) -> float:
        """Return the standard deviation that the digits show."""
        if protocol.round > 1:
            return super().spread_of(protocol, aggregate) if self.spread is None else self.spread
        return self._found(self._digits(protocol, aggregate), None).spread

    def _digits(self, protocol: Protocol, aggregate: Aggregate) -> Digits:
        return digits_of(aggregate.tallies[0], self.low, self._law(protocol), self.beta)

    @staticmethod
    def _law(protocol: Protocol) -> RandomisedResponse:
        return RandomisedResponse(4, protocol.loss.pure())

    def trusted(self, protocol: Protocol) -> bool:
        """Tell whether groups are large enough for the coarse step, by public numbers alone."""
        levels = len(self.levels)
        group = self.users * float(protocol.shares[0]) / levels
        return deviation(self._law(protocol), group, levels, self.beta) <= TRUSTED_DEVIATION

    def estimate(self, protocol: Protocol, aggregate: Aggregate, interval: float) -> LocalEstimate:
        """Return the mean, given the reports of the last round."""
        known = self if self.rounds == 2 else self.after(protocol, aggregate)
        found = finding(known, protocol, aggregate.tallies[-1], trusted=self.trusted(protocol))
        return LocalEstimate("gaussian mean", found, protocol.loss, interval, known.spread)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the plan that `to_json` has written."""
        return cls(**{name: value for name, value in given.items() if name != "kind"})
