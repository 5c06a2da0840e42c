"""Plan and read the mean of vectors in the local model: Huang, Liang and Yi (2021), section 5.

Three rounds, each asking other users: medians of the rotated coordinates, the length at which to
clip around them, and the clipped vectors themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from dfprivacy.accounting.loss import read_loss
from dfprivacy.errors import InvalidProtocolError
from dfprivacy.local.protocol import Plan, Protocol
from dfprivacy.local.published import (
    MOST_USERS,
    campaign_name,
    is_radius,
    is_whole,
    no_plan,
    user_count,
    vector_radius,
)
from dfprivacy.local.randomizers import (
    Counts,
    Floats,
    HaarTree,
    RandomizedResponse,
    check_epsilon,
    find_quantile,
    unrotate,
)
from dfprivacy.local.rounds import RADIUS, Coordinate, Length, Query, Whole
from dfprivacy.measurement.exact import whole_number
from dfprivacy.measurement.vectors import pad_size

_ROUNDS = 3
_HINT = "pass whole numbers: dimensions=16, resolution=10"

SHARES = (Fraction(1, 4), Fraction(1, 8), Fraction(5, 8))
"""Users who say where the middle is, how far others are from it, and their vectors."""


@dataclass(frozen=True)
class VectorMean:
    """A mean of vectors from private reports.

    `mean` has one number a dimension, in units of the vectors. `std_error` is the standard
    deviation of each, over owners and noise, given the center and the distance `clip` from it at
    which vectors were clipped. The last round was read from so many `reports`.
    """

    mean: Floats
    std_error: float
    clip: float
    reports: int


@dataclass(frozen=True)
class VectorPlan(Plan):
    """The plan for a mean of vectors whose lengths are at most `radius`."""

    kind = "vector mean"
    campaign: str
    users: int
    dimensions: int
    radius: float
    height: int
    center: tuple[float, ...] | None = None
    clip: float | None = None
    rounds: int = _ROUNDS

    def __post_init__(self) -> None:
        """Refuse a state that no plan leads to: it could carry a value past the noise."""
        campaign_name(self.campaign)
        center = (0.0,) if self.center is None else self.center
        clip = self.longest if self.clip is None else self.clip
        if not (
            is_whole(self.dimensions, 1, 2**15)
            and is_whole(self.height, 1, 14)
            and is_whole(self.users, 1, MOST_USERS)
            and is_whole(self.rounds, _ROUNDS, _ROUNDS)
            and is_radius(self.radius)
            and all(type(coordinate) is float for coordinate in (clip, *center))
            and (self.center is None or len(center) == pad_size(self.dimensions))
            and all(-self.radius <= coordinate <= self.radius for coordinate in center)
            and math.ldexp(self.longest, -self.height) <= clip <= self.longest
        ):
            raise no_plan()

    @property
    def longest(self) -> float:
        """How far a vector can lie from a center, but for the corners of a cube."""
        return 2 * self.radius

    @property
    def limit(self) -> float:
        """Coordinates are clipped to -limit and limit at their owner's."""
        return self.radius

    def queries(self, round_: int) -> tuple[Query, ...]:
        """Return the queries to the users of a round."""
        who = self.campaign, self.dimensions
        center = self.center or (0.0,) * pad_size(self.dimensions)
        if round_ == 1:
            return (Coordinate(0, *who, self.radius, self.height),)
        if round_ == 2:
            return (Length(1, *who, center, self.longest, self.height),)
        return (Whole(2, *who, center, self.clip or self.longest),)

    def advance(self, protocol: Protocol, counts: tuple[Counts, ...]) -> Self:
        """Return the plan with the center, then with the clipping length."""
        tree, law = HaarTree(self.height), RandomizedResponse(2, protocol.loss.pure())
        sums = counts[0].sums
        by_tree = sums.reshape(sums.size // (2 * tree.groups), tree.groups, 2)
        shares = [tree.shares(reports, law) for reports in by_tree]
        if protocol.round == 1:
            parts = np.array([find_quantile(share, 0.5) for share in shares])
            return replace(self, center=tuple(((2 * parts - 1) * self.radius).tolist()))
        askers, reports = (self.users * float(share) for share in protocol.shares[1:])
        noise = pad_size(self.dimensions) / (2 * float(protocol.loss.value) * max(reports, 1.0))
        fraction_outside = min(2 * math.sqrt(noise), 0.9)  # noise and clipping balance there
        fraction_outside += tree.error(askers, law)
        part = find_quantile(shares[0], 1 - min(fraction_outside, 0.9))
        leaf = 2.0**-self.height
        return replace(self, clip=self.longest * max(part, leaf))

    def estimate(self, protocol: Protocol, counts: tuple[Counts, ...], level: float) -> VectorMean:  # noqa: ARG002 one interface
        """Return the mean, given the reports of the last round."""
        clip, reports = self.clip or self.longest, int(counts[0].reports[0])
        total, squares = counts[0].sums * 1.0
        count, step = max(reports, 1), clip / RADIUS
        variance = np.maximum(squares / count - (total / count) ** 2, 0.0).mean()
        turned = np.array(self.center or ()) + step * total / count
        mean = unrotate(turned, self.campaign, self.dimensions)
        error = step * math.sqrt(float(variance) / count) if reports else math.inf
        return VectorMean(mean, error, clip, reports)


def mean_vector(
    *,
    users: int,
    dimensions: int,
    rho: float,
    radius: float,
    resolution: int = 10,
    campaign: str | None = None,
    named: bool = False,
) -> Protocol:
    """Plan the mean of vectors in the local model (Huang, Liang and Yi 2021, section 5).

    Three rounds over different users. Each user sends one report, rho-zCDP for replacing the
    user's vector by any other one, before it leaves its owner. Public: the number of users.

    Parameters
    ----------
    users, dimensions : int
        How many vectors there are, and how many numbers each has (up to 2**15).
    rho : float
        The loss of a report.
    radius : float
        Vectors are at most so long, and coordinates are clipped there.
    resolution : int
        Center and clipping length are found on a grid of 2**resolution steps, from 4 to 14.
    campaign, named
        As in `gaussian_mean`.

    Raises
    ------
    InvalidProtocolError, InvalidBoundsError, InvalidLossError
        When the arguments make no protocol.

    Examples
    --------
    >>> import dfprivacy as dfp, numpy as np
    >>> protocol = mean_vector(users=100_000, dimensions=2, rho=2, radius=100)
    >>> angles = np.arange(100_000)
    >>> vectors = np.stack([10 + np.cos(angles), np.sin(angles) - 20], axis=1)
    >>> found = dfp.local.simulate(protocol, vectors)
    >>> bool(np.abs(found.mean - [10, -20]).max() < 10)
    True
    """
    loss, count = read_loss(None, rho), user_count(users)
    check_epsilon(loss.pure())
    refused = InvalidProtocolError, "dimensions go from 1 to 2**15 and resolution from 4 to 14"
    size = whole_number(dimensions, 1, 2**15, *refused, hint=_HINT)
    steps = whole_number(resolution, 4, 14, *refused, hint=_HINT)
    length = vector_radius(radius)
    name = campaign_name(campaign)
    plan = VectorPlan(name, count, size, length, steps)
    return Protocol(name, loss, count, SHARES, plan, bool(named))
