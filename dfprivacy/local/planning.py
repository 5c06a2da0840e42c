"""From what an analyst knows to a protocol."""

from __future__ import annotations

import math
from fractions import Fraction

from dfprivacy.accounting.loss import loss_of
from dfprivacy.errors import InvalidBoundsError, InvalidProtocolError
from dfprivacy.exact import describe, exact_number
from dfprivacy.local.coarse import TRUSTED_DEVIATION, deviation
from dfprivacy.local.gaussian import GaussianPlan
from dfprivacy.local.protocol import Protocol
from dfprivacy.local.response import RandomisedResponse, checked_epsilon
from dfprivacy.local.users import MOST_USERS
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.terms import EPSILON

HALVES = (Fraction(1, 2), Fraction(1, 2))
MOST_LEVELS = 48
SIGMAS = (2.0**-10, 2.0**20)
"""Where sigma lies unless it is said."""


def gaussian_mean(
    *,
    users: int,
    epsilon: float = EPSILON,
    sigma: float | None = None,
    sigma_bounds: tuple[float, float] | None = None,
    limit: float | None = None,
    rounds: int = 2,
    campaign: str | None = None,
    named: bool = False,
    beta: float = 0.01,
) -> Protocol:
    """Plan the mean of a Gaussian in the local model (Joseph, Kulkarni, Mao and Wu 2019).

    Each user sends one report, which is epsilon-differentially private for replacing the user's
    value by any other one, before it leaves its owner. Public: the number of users.

    Parameters
    ----------
    users : int
        How many there are, up to 2**33.
    epsilon : float
        What a report costs its owner, from 1/1024 to 64.
    sigma : float or None
        The standard deviation in units of the value, where it is known; it must be known well.
    sigma_bounds : pair of floats
        Between which sigma lies where it is not known; 2**-10 and 2**20 unless said.
    limit : float
        The mean lies between -limit and limit, and values are clipped there; rounded up to a power
        of two. Unless said, as far out as the number of users reaches, at most 2**23 sigma (with
        sigma unknown: 2**20).
    rounds : int
        2, or 1 at a larger error where owners can't wait for what others have reported.
    campaign : str or None
        The survey's public name, which decides on groups; a new random one unless given.
    named : bool
        Whether users go by name (text) instead of an index from 0 to users - 1.
    beta : float
        How often the coarse step may fail where groups are large enough for it.

    Returns
    -------
    Protocol
        Its round 1.

    Raises
    ------
    InvalidProtocolError, InvalidBoundsError, InvalidLossError
        When the arguments make no protocol.

    Examples
    --------
    >>> import statistics
    >>> normal = statistics.NormalDist(7.0, 2.0)
    >>> values = [normal.inv_cdf((k + 0.5) / 100_000) for k in range(100_000)]
    >>> protocol = gaussian_mean(users=100_000, epsilon=2, sigma=2.0, limit=1000)
    >>> second = protocol.aggregate(protocol.reports(values)).next_round()
    >>> estimate = second.aggregate(second.reports(values)).estimate()
    >>> abs(estimate - 7) < 1
    True
    """
    loss = loss_of(epsilon)
    checked_epsilon(loss.pure())
    count = user_count(users)
    if rounds not in {1, 2}:
        raise InvalidProtocolError("there are 1 or 2 rounds", hint="pass rounds=2")
    low, high = _levels(sigma, sigma_bounds, limit)
    if high is None:
        law = RandomisedResponse(4, loss.pure())
        high = low + affordable_levels(law, count, beta) - 1
    plan = GaussianPlan(count, rounds, low, high, _known(sigma), float(beta))
    return Protocol(campaign_name(campaign), loss, count, HALVES, plan, bool(named))


def affordable_levels(law: RandomisedResponse, users: int, beta: float) -> int:
    """Return how many levels half of the users can serve, from 8 to 24."""
    fitting = [
        levels
        for levels in range(8, 25)
        if deviation(law, users / 2 / levels, levels, beta) <= TRUSTED_DEVIATION
    ]
    return max(fitting, default=8)


def _levels(
    sigma: float | None, sigma_bounds: tuple[float, float] | None, limit: float | None
) -> tuple[int, int | None]:
    """Return the lowest and the highest level; None where it follows from the number of users."""
    if sigma is not None and sigma_bounds is not None:
        raise InvalidBoundsError(
            "sigma and its bounds were both given", hint="leave one of them out"
        )
    least = largest = sigma
    if sigma is None:
        least, largest = SIGMAS if sigma_bounds is None else sigma_bounds
    low = _exponent(least, "sigma") - 1
    top = _exponent(largest, "sigma")
    if limit is None and sigma is not None:
        return low, None
    high = max(top, low + 1) if limit is None else max(_ceiling(limit), top, low + 1)
    if top <= low or high - low >= MOST_LEVELS:
        raise InvalidBoundsError(
            f"from the least sigma to the limit there are more than {MOST_LEVELS} powers of two",
            hint="narrow the range: sigma_bounds=(1.0, 50.0), limit=1000.0",
        )
    return low, high


def _exponent(value: object, name: str) -> int:
    """Return the least e with value < 2**e, for a positive number."""
    exact = exact_number(value)
    if exact is None or not Fraction(1, 2**400) <= exact <= 2**400:
        raise InvalidBoundsError(
            f"{name} must be a positive, finite number, not {describe(value)}",
            hint=f"pass a number that is public knowledge, e.g. {name}=10.0",
        )
    return math.frexp(float(exact))[1]


def _ceiling(limit: float) -> int:
    """Return the least e with limit <= 2**e."""
    exponent = _exponent(limit, "limit")
    return exponent - 1 if math.ldexp(1.0, exponent - 1) == limit else exponent


def _known(sigma: float | None) -> float | None:
    return None if sigma is None else float(sigma)


def user_count(users: object) -> int:
    """Return the public number of users."""
    exact = exact_number(users)
    if exact is None or exact.denominator != 1 or not 1 <= exact <= MOST_USERS:
        raise InvalidProtocolError(
            f"the number of users is a whole number from 1 to 2**33, not {describe(users)}",
            hint="pass how many users there are: users=100_000",
        )
    return int(exact)


def campaign_name(campaign: object) -> str:
    """Return the name of a campaign; a new random one for None."""
    if campaign is None:
        return f"survey-{system_entropy(8).hex()}"
    if not isinstance(campaign, str) or not campaign or len(campaign) > 200:
        raise InvalidProtocolError(
            "a campaign has a name of 1 to 200 characters", hint='pass campaign="commuting 2026"'
        )
    return campaign
