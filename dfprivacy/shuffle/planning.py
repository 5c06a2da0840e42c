"""From what an analyst knows to a protocol of the shuffle model."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.errors import (
    InvalidBoundsError,
    InvalidLossError,
    InvalidProtocolError,
    InvalidQuestionError,
    MissingDeltaError,
)
from dfprivacy.exact import describe, exact_number
from dfprivacy.local.planning import campaign_name, user_count
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.shuffle.messages import shuffle
from dfprivacy.shuffle.protocol import Protocol
from dfprivacy.shuffle.quantiles import Quantile
from dfprivacy.shuffle.totals import Total
from dfprivacy.shuffle.vectors import Vectors
from dfprivacy.terms import EPSILON, INTERVAL, Bounds, bounds_of

LEAST_DELTA = Fraction(1, 2**100)


def total(
    *,
    users: int,
    bounds: tuple[float, float],
    delta: float,
    epsilon: float = EPSILON,
    steps: int | None = None,
) -> Protocol:
    """Plan a sum in the shuffle model (Balle, Bell, Gascon and Nissim 2020).

    One round. Privacy: see `Protocol`; (epsilon, delta) for replacing one user's value.

    Parameters
    ----------
    users : int
        How many there are, at least 19.
    bounds : pair of floats
        Values are clipped there. A missing value counts as 0, or as the nearer bound.
    epsilon, delta : float
        What the protocol costs; delta pays for shuffling.
    steps : int or None
        Of the grid between the bounds; the root of `users` unless said.

    Raises
    ------
    InvalidProtocolError, InvalidBoundsError, InvalidLossError
        When the arguments make no protocol.
    """
    own = _bounds(bounds)
    absent = min(max(0.0, own.lower), own.upper)
    return _protocol(users, epsilon, delta, Total(*_grid(own, absent, users, steps), 1))


def mean(
    *,
    users: int,
    bounds: tuple[float, float],
    delta: float,
    epsilon: float = EPSILON,
    steps: int | None = None,
) -> Protocol:
    """Plan a mean in the shuffle model: the sum over the public number of users; see `total`.

    A missing value counts as the middle of the bounds.
    """
    own, count = _bounds(bounds), user_count(users)
    absent = own.lower + own.width / 2
    return _protocol(users, epsilon, delta, Total(*_grid(own, absent, users, steps), count))


def quantile(
    *,
    users: int,
    q: float,
    bounds: tuple[float, float],
    delta: float,
    epsilon: float = EPSILON,
    resolution: int = 12,
) -> Protocol:
    """Plan a quantile in the shuffle model, by counting users below a point in each round.

    `resolution` rounds; the answer is exact to 2**-resolution of the bounds, from 1 to 40. All
    rounds together cost epsilon and delta. A missing value counts as the middle of the bounds.

    Raises
    ------
    InvalidProtocolError, InvalidBoundsError, InvalidLossError, InvalidQuestionError
        When the arguments make no protocol.
    """
    part = exact_number(q)
    if part is None or not 0 <= part <= 1:
        raise InvalidQuestionError(
            f"a quantile lies between 0 and 1, not at {describe(q)}", hint="pass q=0.5"
        )
    own = _bounds(bounds)
    plan = Quantile(float(part), own.lower, own.upper, _whole(resolution, 40))
    return _protocol(users, epsilon, delta, plan)


def mean_vector(
    *,
    users: int,
    dimensions: int,
    radius: float,
    delta: float,
    epsilon: float = EPSILON,
    resolution: int = 10,
    campaign: str | None = None,
) -> Protocol:
    """Plan a mean of vectors in the shuffle model (Huang, Liang and Yi 2021, section 5).

    Vectors are at most `radius` long. Takes 2 resolution + 1 rounds; all together cost epsilon and
    delta. `campaign` names the public rotation.

    Raises
    ------
    InvalidProtocolError, InvalidBoundsError, InvalidLossError
        When the arguments make no protocol.
    """
    length, count = exact_number(radius), user_count(users)
    if length is None or not Fraction(1, 2**300) <= length <= 2**300:
        raise InvalidBoundsError(
            f"the radius must be a positive, finite number, not {describe(radius)}",
            hint="pass the greatest length that a vector can have: radius=100.0",
        )
    plan = Vectors(
        campaign_name(campaign), _whole(dimensions, 2**10), float(length), _whole(resolution, 20),
        _root(count),
    )  # fmt: skip
    return _protocol(users, epsilon, delta, plan)


def simulate(
    protocol: Protocol,
    values: Any,
    *,
    interval: float = INTERVAL,
    entropy: EntropySource = system_entropy,
) -> Any:
    """Run all rounds of a protocol over a column of values: randomisers, shuffler, analyser."""
    while not protocol.finished:
        messages = protocol.messages(values, entropy=entropy)
        protocol = protocol.analyse(shuffle(messages, entropy=entropy))
    return protocol.estimate(interval=interval)


def _protocol(users: object, epsilon: object, delta: object, plan: Any) -> Protocol:
    count, loss, rest = user_count(users), loss_of(epsilon), delta_of(delta)
    if rest is None:
        raise MissingDeltaError("shuffling needs a delta", hint="pass delta=1e-6")
    if rest < LEAST_DELTA:
        raise InvalidLossError(
            "delta must be at least 2**-100 here: the noise of users is drawn to that precision",
            hint="pass delta=1e-9",
        )
    return Protocol(count, loss.pure(), rest, plan).checked()


def _bounds(bounds: object) -> Bounds:
    own = bounds_of(bounds)
    if own is None:
        raise InvalidBoundsError("bounds are missing", hint="pass bounds=(0, 100)")
    return own


def _grid(
    own: Bounds, absent: float, users: object, steps: int | None
) -> tuple[float, float, float, int]:
    count = user_count(users)
    chosen = _root(count) if steps is None else _whole(steps, 2**30)
    return own.lower, own.upper, absent, chosen


def _root(users: int) -> int:
    return math.isqrt(users - 1) + 1


def _whole(value: object, most: int) -> int:
    exact = exact_number(value)
    if exact is None or exact.denominator != 1 or not 1 <= exact <= most:
        raise InvalidProtocolError(
            f"a whole number from 1 to {most} is needed, not {describe(value)}",
            hint="leave it out, or pass e.g. resolution=10",
        )
    return int(exact)
