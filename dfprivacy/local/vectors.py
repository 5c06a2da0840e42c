"""The mean of vectors in the local model: Huang, Liang and Yi (2021), section 5.

Three rounds, each asking other users: medians of the rotated coordinates, the length at which to
clip around them, and the clipped vectors themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dfprivacy.local.asks import Ask, Floats
from dfprivacy.local.haar import HaarTree, quantile_of
from dfprivacy.local.plain import is_whole, no_plan
from dfprivacy.local.plan import Plan
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.rotation import padded, unrotated
from dfprivacy.local.users import MOST_USERS
from dfprivacy.local.vector_asks import RADIUS, Coordinate, Length, Whole

if TYPE_CHECKING:
    from dfprivacy.local.aggregate import Aggregate
    from dfprivacy.local.protocol import Protocol

_ROUNDS = 3


@dataclass(frozen=True)
class VectorMean:
    """A mean of vectors from private reports.

    Attributes
    ----------
    mean : numpy.ndarray
        One number a dimension, in units of the vectors.
    std_error : float
        Standard deviation of each coordinate, over owners and noise, given centre and clipping.
    clip : float
        The distance from the centre at which vectors were clipped.
    reports : int
        How many reports the last round was read from.
    """

    mean: Floats
    std_error: float
    clip: float
    reports: int


@dataclass(frozen=True)
class VectorPlan(Plan):
    """The plan for a mean of vectors whose lengths are at most `radius`."""

    kind: ClassVar[str] = "vector mean"
    campaign: str
    users: int
    dimensions: int
    radius: float
    height: int
    centre: tuple[float, ...] | None = None
    clip: float | None = None
    rounds: int = _ROUNDS

    def __post_init__(self) -> None:
        """Refuse what no plan has and no round finds: it could carry a value past the noise."""
        sized = is_whole(self.dimensions, 1, 2**15) and is_whole(self.height, 1, 14)
        counted = is_whole(self.users, 1, MOST_USERS) and is_whole(self.rounds, _ROUNDS, _ROUNDS)
        if not (sized and counted and self._found_within_radius()):
            raise no_plan()

    def _found_within_radius(self) -> bool:
        """Tell whether lengths are ones that floats can square, and the centre and clip fit."""
        centre = (0.0,) if self.centre is None else self.centre
        clip = self.longest if self.clip is None else self.clip
        if any(type(each) is not float for each in (self.radius, clip, *centre)):
            return False
        reach, size = self.radius, padded(self.dimensions)
        return (
            2.0**-300 <= reach <= 2.0**300
            and (self.centre is None or len(centre) == size)
            and all(-reach <= each <= reach for each in centre)
            and math.ldexp(self.longest, -self.height) <= clip <= self.longest
        )

    @property
    def longest(self) -> float:
        """How far a vector can lie from a centre, but for the corners of a cube."""
        return 2 * self.radius

    @property
    def limit(self) -> float:
        """Coordinates are clipped to -limit and limit at their owner's."""
        return self.radius

    def asks(self, round_: int) -> tuple[Ask, ...]:
        """Return what the users of a round are asked."""
        who = self.campaign, self.dimensions
        centre = self.centre or (0.0,) * padded(self.dimensions)
        if round_ == 1:
            return (Coordinate(0, *who, self.radius, self.height),)
        if round_ == 2:
            return (Length(1, *who, centre, self.longest, self.height),)
        return (Whole(2, *who, centre, self.clip or self.longest),)

    def after(self, protocol: Protocol, aggregate: Aggregate) -> Self:
        """Return the plan with the centre, then with the clipping length."""
        tree, law = HaarTree(self.height), RandomisedResponse(2, protocol.loss.pure())
        counts = aggregate.tallies[0].counts.reshape(-1, tree.groups, 2)
        shares = [tree.shares(each, law) for each in counts]
        if protocol.round == 1:
            parts = np.array([quantile_of(each, 0.5) for each in shares])
            return replace(self, centre=tuple(((2 * parts - 1) * self.radius).tolist()))
        asked = self.users * float(protocol.shares[1])
        beyond = self.tail(protocol) + tree.error(asked, law)
        part = quantile_of(shares[0], 1 - min(beyond, 0.9))
        leaf = 2.0**-self.height
        return replace(self, clip=self.longest * max(part, leaf))

    def tail(self, protocol: Protocol) -> float:
        """Return the share of owners to clip.

        The error of the mean is about 2 C sqrt(d / (2 rho m)) of noise for m reports, and what
        clipping at C takes off; it is least where a share 2 sqrt(d / (2 rho m)) is clipped.
        """
        reports = max(self.users * float(protocol.shares[2]), 1.0)
        rho = float(protocol.loss.value)
        return min(2 * math.sqrt(padded(self.dimensions) / (2 * rho * reports)), 0.9)

    def estimate(self, protocol: Protocol, aggregate: Aggregate, interval: float) -> VectorMean:  # noqa: ARG002 one interface
        """Return the mean, given the reports of the last round."""
        (tally,) = aggregate.tallies
        clip, reports = self.clip or self.longest, int(tally.reports[0])
        total, squares = tally.counts * 1.0
        count, step = max(reports, 1), clip / RADIUS
        variance = np.maximum(squares / count - (total / count) ** 2, 0.0).mean()
        turned = np.array(self.centre or ()) + step * total / count
        mean = unrotated(turned, self.campaign, self.dimensions)
        error = step * math.sqrt(float(variance) / count) if reports else math.inf
        return VectorMean(mean, error, clip, reports)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it."""
        centre = None if self.centre is None else list(self.centre)
        return {"kind": self.kind, **asdict(self), "centre": centre}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the plan that `to_json` has written."""
        own = {name: value for name, value in given.items() if name != "kind"}
        own["centre"] = None if own["centre"] is None else tuple(own["centre"])
        return cls(**own)
