"""Run a protocol of the shuffle model: messages of users, and the estimates from their totals."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import read_delta, read_loss
from dfprivacy.errors import (
    InvalidBoundsError,
    InvalidLossError,
    InvalidProtocolError,
    InvalidQuestionError,
    MissingDeltaError,
)
from dfprivacy.local import published
from dfprivacy.local.published import (
    MOST_USERS,
    Published,
    campaign_name,
    is_radius,
    is_whole,
    no_plan,
    user_count,
    vector_radius,
)
from dfprivacy.local.randomizers import Floats, Integers, check_epsilon, rotate, unrotate
from dfprivacy.local.reports import value_matrix
from dfprivacy.measurement.bounds import Bounds, read_bounds
from dfprivacy.measurement.exact import describe, exact_number, whole_number
from dfprivacy.measurement.vectors import pad_size
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.release.answers import AnnotatedFloat
from dfprivacy.release.pipeline import permit
from dfprivacy.release.terms import EPSILON, INTERVAL, interval_level
from dfprivacy.shuffle.sums import Sums, round_by_chance, share_sums, shuffle

LEAST_DELTA = Fraction(1, 2**100)
MEDIANS, CLIPPING, MEAN = Fraction(1, 4), Fraction(1, 8), Fraction(5, 8)
"""Parts of the loss of a mean of vectors."""

_OUTSIDE = 0.01
"""How often a rotated coordinate may exceed its bound."""


class Plan(published.Plan):
    """Base of an analyst's method: its queries in each round, and its estimate."""

    kinds: ClassVar[dict[str, type[Any]]] = {}

    @property
    def width(self) -> int:
        """How many numbers a value has, where it is a vector. 0 for a plain number."""
        return 0

    @property
    @abc.abstractmethod
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """Which part of the loss each sum of a round gets, and how many sums. By round."""

    def precision(self, round_: int) -> int:  # noqa: ARG002 one interface
        """Return the largest integer that a user adds to a sum: 1 where users are counted."""
        return 1

    @abc.abstractmethod
    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:
        """Return each user's integers, one column a sum. NaN is a value that is missing."""

    @abc.abstractmethod
    def estimate(self, protocol: Protocol, level: float) -> Any:
        """Return the answer, after the last round."""


@dataclass(frozen=True)
class Protocol(Published):
    """One round of a protocol in the shuffle model. Frozen, and JSON both ways.

    Privacy: the analyzer's view of all rounds, the shuffled messages of all users, is
    (epsilon, delta)-differentially private for replacing one user's value by any other one, as
    long as the shuffler is trusted and all users follow the protocol. Users who leave out their
    noise take their share of it away. Messages alone, unshuffled, hide nothing. Public: this
    protocol, the number of users.

    All `users` answer every round. `epsilon` and `delta` are the cost of all rounds together.
    `plan` is the analyst's method and its estimates so far, `round` which round this is, from 1.
    One more than `rounds` when all is done.

    >>> import dfprivacy as dfp
    >>> protocol = dfp.shuffle.total(users=1000, bounds=(0, 10), epsilon=1, delta=1e-6)
    >>> messages = dfp.shuffle.shuffle(protocol.messages([4.0] * 1000))
    >>> 3500 < protocol.analyze(messages).estimate() < 4500
    True
    """

    FORMAT = "dfprivacy shuffle 1"
    users: int
    epsilon: Fraction
    delta: Fraction
    plan: Plan
    round: int = 1

    def __post_init__(self) -> None:
        """Refuse users and rounds that there are not: a round would be paid as another one."""
        if not is_whole(self.users, 1, MOST_USERS) or not is_whole(self.round, 1, self.rounds + 1):
            raise InvalidProtocolError(
                f"there is no round {describe(self.round)} of {self.rounds}, or no such users",
                hint="take the next round from protocol.analyze(shuffled)",
            )

    def check_limits(self) -> Self:
        """Refuse a loss beyond reach, and sums that are too large or have too few users."""
        check_epsilon(self.epsilon)
        for round_ in range(1, self.rounds + 1):
            self.list_sums(round_).check_limits()
        return self

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.plan.weights)

    @property
    def finished(self) -> bool:
        """True if all rounds are done."""
        return self.round > self.rounds

    def list_sums(self, round_: int) -> Sums:
        """Return the sums of a round, with the share of epsilon and delta that each may spend."""
        weights = self.plan.weights
        share = share_sums(self.epsilon, self.delta, self.users, weights)[round_ - 1]
        return Sums(self.users, weights[round_ - 1][1], self.plan.precision(round_), share)

    @permit("the users' own messages")
    def messages(self, values: Any, *, entropy: EntropySource = system_entropy) -> pa.Table:
        """Return the messages of some users: the randomizer, at each of them.

        `values` has one number a user (vectors: one row a user). NULL and NaN are missing. The
        table has the columns query and word. Hand it to the shuffler: unshuffled it protects
        nobody.
        """
        self._open()
        floats = value_matrix(values, self.plan.width)
        integers = self.plan.encode(floats, self.round, entropy)
        return self.list_sums(self.round).randomize(integers, entropy)

    def analyze(self, messages: pa.Table) -> Protocol:
        """Return the protocol of the next round: the analyzer, with the messages of all users."""
        self._open()
        totals = self.list_sums(self.round).analyze(messages)
        return replace(self, plan=self.plan.advance(self, totals), round=self.round + 1)

    def estimate(self, *, interval: float = 0.95) -> Any:
        """Return the answer, when all rounds are done."""
        if not self.finished:
            raise InvalidProtocolError(
                f"round {self.round} of {self.rounds} has not been analyzed",
                hint="collect its messages: protocol = protocol.analyze(shuffled)",
            )
        return self.plan.estimate(self, interval_level(interval))

    def _open(self) -> None:
        if self.finished:
            raise InvalidProtocolError(
                "all rounds are done", hint="read the answer: protocol.estimate()"
            )

    def terms(self) -> dict[str, Any]:
        """Return the published terms besides the round and the plan."""
        return {"users": self.users, "epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return the protocol of a JSON object, checked as a new one is."""
        plan = Plan.from_json(fields["plan"])
        cost = Fraction(fields["epsilon"]), Fraction(fields["delta"])
        return cls(fields["users"], *cost, plan, fields["round"]).check_limits()


def simulate(
    protocol: Protocol,
    values: Any,
    *,
    interval: float = INTERVAL,
    entropy: EntropySource = system_entropy,
) -> Any:
    """Run all rounds of a protocol over a column of values: randomizers, shuffler, analyzer."""
    while not protocol.finished:
        messages = protocol.messages(values, entropy=entropy)
        protocol = protocol.analyze(shuffle(messages, entropy=entropy))
    return protocol.estimate(interval=interval)


class ShuffleChoice(AnnotatedFloat):
    """A quantile found by noisy counts: a float that knows its cost, and has no interval."""

    epsilon: float
    delta: float

    def __repr__(self) -> str:
        return f"{float(self):.6g}, epsilon={self.epsilon:.6g}, delta={self.delta:.6g}"


class ShuffleEstimate(ShuffleChoice):
    """A total or mean from shuffled messages: a float that knows its interval and its cost.

    Between `low` and `high` lies the answer without noise and rounding, at the level asked for.
    `std_error` is their standard deviation, `epsilon` and `delta` the cost of the whole protocol.
    """

    low: float
    high: float
    std_error: float

    def __repr__(self) -> str:
        number, cost = super().__repr__().split(",", 1)
        return f"{number} [{self.low:.6g}, {self.high:.6g}],{cost}"


@dataclass(frozen=True)
class Total(Plan):
    """The sum of values clipped to [lower, upper], over `divisor`. Missing ones count `absent`.

    Values lie on a grid of `steps` steps, sqrt(users) of them unless said: the noise of all is
    then about as large as the error of rounding.
    """

    kind = "total"
    lower: float
    upper: float
    absent: float
    steps: int
    divisor: int
    noisy_total: int | None = None

    def __post_init__(self) -> None:
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
        return round_by_chance(parts[:, np.newaxis], self.steps, entropy)

    def advance(self, protocol: Protocol, totals: Sequence[int]) -> Self:  # noqa: ARG002 one interface
        """Return the plan with its noisy total."""
        return replace(self, noisy_total=totals[0])

    def estimate(self, protocol: Protocol, level: float) -> ShuffleEstimate:
        """Return the total, or the mean."""
        value = self.lower * protocol.users / self.divisor + self.step * (self.noisy_total or 0)
        half = self.half_width(protocol, level)
        variance = protocol.list_sums(1).noise.variance + protocol.users / 4
        return ShuffleEstimate(
            value,
            low=value - half,
            high=value + half,
            std_error=self.step * math.sqrt(variance),
            **_cost(protocol),
        )

    @property
    def step(self) -> float:
        """The value of one step of the grid, in units of the answer."""
        return (self.upper - self.lower) / self.steps / self.divisor

    def half_width(self, protocol: Protocol, level: float) -> float:
        """Return half the width of the interval: a public number, known before any message."""
        return self.step * protocol.list_sums(1).half_width(1 - level)


@dataclass(frozen=True)
class Quantile(Plan):
    """The value that a part `q` of the users does not exceed, between `lower` and `upper`.

    A noisy binary search (Huang, Liang and Yi 2021, PrivQuant) over 2**height cells. `cell` counts
    from the left, and is doubled with every round.
    """

    kind = "quantile"
    q: float
    lower: float
    upper: float
    height: int
    cell: int = 0
    rounds_done: int = 0

    def __post_init__(self) -> None:
        Bounds(self.lower, self.upper)
        sized = is_whole(self.height, 1, 40) and is_whole(self.rounds_done, 0, self.height)
        if not (sized and is_whole(self.cell, 0, 2**self.rounds_done - 1)):
            raise no_plan()

    @property
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """One count a round, all alike."""
        return ((Fraction(1), 1),) * self.height

    @property
    def point(self) -> float:
        """The middle of the remaining cells, with which users compare in this round."""
        part = (2 * self.cell + 1) / 2.0 ** (self.rounds_done + 1)
        return self.lower + part * (self.upper - self.lower)

    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:  # noqa: ARG002 one interface
        """Return 1 for values at or below the point. A missing value lies in the middle."""
        middle = (self.lower + self.upper) / 2
        present = np.where(np.isnan(values), middle, values)
        return (present <= self.point).astype(np.int64)[:, np.newaxis]

    def advance(self, protocol: Protocol, totals: Sequence[int]) -> Self:
        """Return the plan with the half in which the quantile lies."""
        right = totals[0] < self.q * protocol.users
        return replace(self, cell=2 * self.cell + int(right), rounds_done=self.rounds_done + 1)

    def estimate(self, protocol: Protocol, level: float) -> ShuffleChoice:  # noqa: ARG002 one interface
        """Return the middle of the cell that is left."""
        return ShuffleChoice(self.point, **_cost(protocol))


@dataclass(frozen=True)
class ShuffledVector:
    """A mean of vectors from shuffled messages.

    `mean` has one number a dimension, `std_error` is the standard deviation of noise and rounding
    in each, `clip` the distance from the center at which vectors were clipped. `epsilon` and
    `delta` are the cost of the whole protocol.
    """

    mean: Floats
    std_error: float
    clip: float
    epsilon: float
    delta: float

    @property
    def error(self) -> float:
        """Expected Euclidean length of the noise."""
        return float(self.std_error * np.sqrt(len(self.mean)))


@dataclass(frozen=True)
class Vectors(Plan):
    """The mean of vectors of at most length `radius`.

    `cells` counts, for each rotated coordinate and, in the end, for the length, from the left of
    the range, and is doubled with every round.
    """

    kind = "vectors"
    campaign: str
    dimensions: int
    radius: float
    height: int
    steps: int
    cells: tuple[int, ...] = ()
    length: int = 0
    totals: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a state that no plan and no round leads to: cells lie within the radius."""
        if not (
            is_whole(self.dimensions, 1, 2**10)
            and is_whole(self.height, 1, 20)
            and is_whole(self.steps, 1, 2**30)
            and is_radius(self.radius)
            and len(self.cells) in {0, self.size}
            and all(is_whole(cell, 0, 2**self.height - 1) for cell in (*self.cells, self.length))
        ):
            raise no_plan()

    @property
    def width(self) -> int:
        """How many numbers a value has."""
        return self.dimensions

    @property
    def size(self) -> int:
        """How many coordinates there are after rotation."""
        return pad_size(self.dimensions)

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
        turned = rotate(np.clip(values, -self.radius, self.radius), self.campaign)
        if round_ <= self.height:
            points = self._points(round_ - 1)
            return np.asarray(turned <= points, dtype=np.int64)
        away = turned - self.center
        away[np.isnan(values).any(axis=1)] = 0.0
        lengths = np.linalg.norm(away, axis=1, keepdims=True)
        if round_ <= 2 * self.height:
            point = (2 * self.length + 1) / 2.0 ** (round_ - self.height) * self.radius
            return np.asarray(lengths <= point, dtype=np.int64)
        away *= self.clip / np.maximum(lengths, self.clip)
        return round_by_chance((away / self.bound + 1) / 2, self.steps, entropy)

    def _points(self, rounds: int) -> Floats:
        cells = np.array(self.cells or (0,) * self.size)
        return ((2 * cells + 1) / 2.0**rounds - 1) * self.radius

    @property
    def center(self) -> Floats:
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

    def advance(self, protocol: Protocol, totals: Sequence[int]) -> Self:
        """Return the plan after a round."""
        if protocol.round <= self.height:
            old, half = self.cells or (0,) * self.size, protocol.users / 2
            halves = zip(old, totals, strict=True)
            return replace(self, cells=tuple(2 * c + int(total < half) for c, total in halves))
        if protocol.round <= 2 * self.height:
            noise, slack = (
                protocol.list_sums(r).noise.variance for r in (protocol.rounds, protocol.round)
            )
            per_unit = math.sqrt(self.size * noise) / self.steps
            spread = 2 * self.bound / self.clip
            clipped = min(per_unit * spread + math.sqrt(slack), 0.9 * protocol.users)
            right_half = totals[0] < protocol.users - clipped
            return replace(self, length=2 * self.length + int(right_half))
        return replace(self, totals=tuple(totals))

    def estimate(self, protocol: Protocol, level: float) -> ShuffledVector:  # noqa: ARG002 one interface
        """Return the mean."""
        bound = self.bound
        step = 2 * bound / self.steps / protocol.users
        shifted = np.array(self.totals, dtype=np.float64) * step - bound
        mean = unrotate(self.center + shifted, self.campaign, self.dimensions)
        sums = protocol.list_sums(protocol.rounds)
        variance = sums.noise.variance + protocol.users / 4
        return ShuffledVector(mean, step * math.sqrt(variance), self.clip, **_cost(protocol))


def _cost(protocol: Protocol) -> dict[str, float]:
    """Return the cost of the whole protocol."""
    return {"epsilon": float(protocol.epsilon), "delta": float(protocol.delta)}


def total(
    *,
    users: int,
    bounds: tuple[float, float],
    delta: float,
    epsilon: float = EPSILON,
    steps: int | None = None,
) -> Protocol:
    """Plan a sum in the shuffle model (Balle, Bell, Gascon and Nissim 2020).

    One round. Privacy: see `Protocol`. (epsilon, delta) for replacing one user's value.

    Parameters
    ----------
    users : int
        How many there are, at least 19.
    bounds : pair of floats
        Values are clipped there. A missing value counts as 0, or as the nearer bound.
    epsilon, delta : float
        The cost of the protocol. Delta pays for shuffling.
    steps : int or None
        Of the grid between the bounds. The root of `users` unless said.

    Raises
    ------
    InvalidProtocolError, InvalidBoundsError, InvalidLossError
        When the arguments make no protocol.
    """
    limits, count = _bounds(bounds), user_count(users)
    absent = min(max(0.0, limits.lower), limits.upper)
    plan = Total(limits.lower, limits.upper, absent, _steps(count, steps), 1)
    return _protocol(count, epsilon, delta, plan)


def mean(
    *,
    users: int,
    bounds: tuple[float, float],
    delta: float,
    epsilon: float = EPSILON,
    steps: int | None = None,
) -> Protocol:
    """Plan a mean in the shuffle model: the sum over the public number of users. See `total`.

    A missing value counts as the middle of the bounds.
    """
    limits, count = _bounds(bounds), user_count(users)
    absent = limits.lower + limits.width / 2
    plan = Total(limits.lower, limits.upper, absent, _steps(count, steps), count)
    return _protocol(count, epsilon, delta, plan)


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

    `resolution` rounds. The answer is exact to 2**-resolution of the bounds, from 1 to 40. All
    rounds together cost epsilon and delta. A missing value counts as the middle of the bounds.
    """
    part = exact_number(q)
    if part is None or not 0 <= part <= 1:
        raise InvalidQuestionError(
            f"a quantile lies between 0 and 1, not at {describe(q)}", hint="pass q=0.5"
        )
    limits = _bounds(bounds)
    plan = Quantile(float(part), limits.lower, limits.upper, _positive_integer(resolution, 40))
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

    Vectors are at most `radius` long. Takes 2 resolution + 1 rounds. All together cost epsilon and
    delta. `campaign` names the public rotation.
    """
    count, length, name = user_count(users), vector_radius(radius), campaign_name(campaign)
    size, height = _positive_integer(dimensions, 2**10), _positive_integer(resolution, 20)
    plan = Vectors(name, size, length, height, _steps(count, None))
    return _protocol(users, epsilon, delta, plan)


def _protocol(users: object, epsilon: object, delta: object, plan: Plan) -> Protocol:
    count, loss, rest = user_count(users), read_loss(epsilon), read_delta(delta)
    if rest is None:
        raise MissingDeltaError("shuffling needs a delta", hint="pass delta=1e-6")
    if rest < LEAST_DELTA:
        raise InvalidLossError(
            "delta must be at least 2**-100 here: the noise of users is drawn to that precision",
            hint="pass delta=1e-9",
        )
    return Protocol(count, loss.pure(), rest, plan).check_limits()


def _bounds(bounds: object) -> Bounds:
    limits = read_bounds(bounds)
    if limits is None:
        raise InvalidBoundsError("bounds are missing", hint="pass bounds=(0, 100)")
    return limits


def _steps(users: int, steps: int | None) -> int:
    return math.isqrt(users - 1) + 1 if steps is None else _positive_integer(steps, 2**30)


def _positive_integer(value: object, largest: int) -> int:
    what = f"a whole number from 1 to {largest} is needed"
    hint = "leave it out, or pass e.g. resolution=10"
    return whole_number(value, 1, largest, InvalidProtocolError, what, hint=hint)
