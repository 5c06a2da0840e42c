"""From what an analyst knows of vectors to a protocol."""

from __future__ import annotations

from fractions import Fraction

from dfprivacy.accounting.loss import loss_of
from dfprivacy.errors import InvalidBoundsError, InvalidProtocolError
from dfprivacy.exact import describe, exact_number
from dfprivacy.local.planning import campaign_name, user_count
from dfprivacy.local.protocol import Protocol
from dfprivacy.local.response import checked_epsilon
from dfprivacy.local.vectors import VectorPlan

SHARES = (Fraction(1, 4), Fraction(1, 8), Fraction(5, 8))
"""Users who say where the middle is, how far others are from it, and what they hold."""

MOST_DIMENSIONS = 2**15


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
        What a report costs its owner.
    radius : float
        Vectors are at most so long, and coordinates are clipped there.
    resolution : int
        Centre and clipping length are found on a grid of 2**resolution steps, from 4 to 14.
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
    loss, count = loss_of(None, rho), user_count(users)
    checked_epsilon(loss.pure())
    size, steps = _whole(dimensions, 1, MOST_DIMENSIONS), _whole(resolution, 4, 14)
    length = exact_number(radius)
    if length is None or not Fraction(1, 2**300) <= length <= 2**300:
        raise InvalidBoundsError(
            f"the radius must be a positive, finite number, not {describe(radius)}",
            hint="pass the greatest length that a vector can have: radius=100.0",
        )
    name = campaign_name(campaign)
    plan = VectorPlan(name, count, size, float(length), steps)
    return Protocol(name, loss, count, SHARES, plan, bool(named))


def _whole(value: object, least: int, most: int) -> int:
    exact = exact_number(value)
    if exact is None or exact.denominator != 1 or not least <= exact <= most:
        raise InvalidProtocolError(
            f"dimensions go from 1 to 2**15 and resolution from 4 to 14, not {describe(value)}",
            hint="pass whole numbers: dimensions=16, resolution=10",
        )
    return int(exact)
