"""Plan and read the mean of a Gaussian: Joseph, Kulkarni, Mao and Wu (2019), all four protocols.

Half of the users report a base-4 digit of their value at one level each, which locates the mean and
the standard deviation. The other half refines it, in a second round around the result or in the
same round around every point that might be found. docs/how-to/local.md lists differences from the
paper.
"""

from __future__ import annotations

import abc
import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Self

import numpy as np

from dfprivacy.accounting.loss import read_loss
from dfprivacy.errors import InvalidBoundsError, InvalidProtocolError
from dfprivacy.local.protocol import Plan, Protocol
from dfprivacy.local.published import MOST_USERS, campaign_name, is_whole, no_plan, user_count
from dfprivacy.local.randomizers import Counts, Floats, RandomizedResponse, check_epsilon
from dfprivacy.local.rounds import Digit, Distance, Query, Side
from dfprivacy.measurement.exact import number_within
from dfprivacy.release.answers import AnnotatedFloat
from dfprivacy.release.terms import EPSILON, interval_level

HALVES = (Fraction(1, 2), Fraction(1, 2))
MOST_LEVELS = 48
SIGMAS = (2.0**-10, 2.0**20)
"""Range of sigma unless the caller passes one."""

MOST = 500
"""Largest absolute exponent of a level. There are at most 64 levels."""

SLACK = 1.0
"""Spreads: how far the clipping point may be off, half of the located mean's error."""

ENOUGH = 0.9
"""A lattice of five such units either side holds values of a Gaussian of spread 1."""

PASSES, SPREADS = 0.52, 0.03
"""Shares of a level's users: of one digit, to go down a level. Of two digits, to count as empty."""

TRUSTED_DEVIATION = 0.11
"""With larger deviations the mean can be located wrongly."""

LEAST_PRESENT = 0.05
"""Smallest fraction of owners that is assumed to have a value."""

_CERTAIN = 3.0
"""Standard deviations from which on an absence of values counts."""

_FLAT = 8.0
"""Digits of units this much smaller than sigma are equally common, up to e**-300."""

NORMAL = NormalDist()
REACH = 2.0
"""Standard deviations of the mean within which the located mean lies."""


@dataclass(frozen=True)
class GaussianPlan(Plan):
    """One of the four protocols.

    Levels go from `low` to `high`: the mean lies within +-2**high, and 2**low is at most the least
    possible sigma, which is None where it is not known. `beta` is how often the mean may be located
    wrongly. `point`, `spread` and `present`, the share of owners with a value, are estimates.
    """

    kind = "gaussian mean"
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

    def queries(self, round_: int) -> tuple[Query, ...]:
        """Return the queries to the users of a round."""
        digits = Digit(0, self.levels)
        if self.rounds == 1:
            return digits, self._everywhere()
        if round_ == 1:
            return (digits,)
        point = (self.point or 0.0,)  # the estimate of round 1, which round 2 asks around
        if self.sigma is not None:
            return (Side(1, point),)
        reach = SLACK + math.sqrt(math.log(4 * self.users))
        return (Distance(1, point, (2 * (self.spread or 1.0) * reach,)),)

    def _everywhere(self) -> Query:
        """Ask around all that might be found, on lattices so wide that values stay near."""
        reach = math.sqrt(math.log(4 * self.users))
        if self.sigma is not None:
            width, sigma = math.ceil(2 * reach), self.sigma or 1.0
            points = tuple(sigma * index / 5 for index in range(1, 5 * width + 1))
            return Side(1, points, sigma * width)
        width = math.ceil(reach + 6)
        units = [math.ldexp(1.0, level) for level in self.levels]
        points = tuple(index * unit for unit in units for index in range(1, width + 1))
        widths = tuple(width * unit for unit in units for _ in range(width))
        return Distance(1, points, widths, lattice=True)

    def advance(self, protocol: Protocol, counts: tuple[Counts, ...]) -> Self:
        """Return the plan with the mean, spread and missing values that the digits show."""
        located_ = self._locate_group(protocol, counts, self.sigma)
        spread = located_.spread if self.sigma is None else None
        present = located_.present if self._is_trusted(protocol) else 1.0
        return replace(self, point=located_.mean, spread=spread, present=present)

    def _locate_group(
        self, protocol: Protocol, counts: tuple[Counts, ...], sigma: float | None
    ) -> Gaussian:
        law = RandomizedResponse(4, protocol.loss.pure())
        return locate_gaussian(read_digits(counts[0], self.low, law, self.beta), sigma, self.limit)

    def estimate_spread(self, protocol: Protocol, counts: tuple[Counts, ...]) -> float:
        """Return the standard deviation that the digits show."""
        if protocol.round > 1:
            return super().estimate_spread(protocol, counts) if self.spread is None else self.spread
        return self._locate_group(protocol, counts, None).spread

    def _is_trusted(self, protocol: Protocol) -> bool:
        """Check whether groups are large enough to locate the mean, by public numbers alone."""
        law, levels = RandomizedResponse(4, protocol.loss.pure()), len(self.levels)
        group = self.users * float(protocol.shares[0]) / levels
        return deviation(law, group, levels, self.beta) <= TRUSTED_DEVIATION

    def estimate(
        self, protocol: Protocol, counts: tuple[Counts, ...], level: float
    ) -> LocalEstimate:
        """Return the mean, given the reports of the last round."""
        plan = self if self.rounds == 2 else self.advance(protocol, counts)
        query = protocol.queries[-1]
        refine = plan._by_sides if isinstance(query, Side) else plan._by_distances  # noqa: SLF001 its own
        refined = refine(query, protocol, counts[-1])  # type: ignore[arg-type]
        (low, high), loss = refined.interval(interval_level(level)), protocol.loss
        cost = {"epsilon": None, "rho": None, loss.measure: float(loss.value)}
        return LocalEstimate(
            refined.value,
            low=low,
            high=high,
            std_error=refined.standard_error,
            coarse=refined.point,
            spread=plan.spread,
            reports=refined.reports,
            **cost,
            _name=self.kind,
            _level=level,
            _refined=refined,
        )

    def half_width(self, protocol: Protocol, level: float) -> float | None:
        """Return half of the interval around the mean itself. None where reports decide."""
        if self.sigma is None or self.rounds == 1:
            return None
        reports = self.users // 2
        expected = RefinedBySides(
            reports=reports,
            point=0.0,
            limit=self.limit,
            trusted=True,
            beta=0.0,
            present=1.0,
            above=reports // 2,
            sigma=self.sigma or 1.0,
            law=RandomizedResponse(2, protocol.loss.pure()),
        )
        low, high = expected.interval(level)
        return (high - low) / 2

    def _by_sides(self, query: Side, protocol: Protocol, counts: Counts) -> Refined:
        """Read the side of the point nearest to the located mean.

        Around one point the share above tells the mean wherever that point lies: the interval is
        right whether the mean was located well or not. A lattice needs it to be.
        """
        points, group, alone = np.array(query.points), 0, not query.spacing
        if not alone:
            points, group = _nearest(points, query.spacing, self.point or 0.0)
        return RefinedBySides(
            reports=int(counts.reports[group]),
            point=float(points[group]),
            limit=self.limit,
            trusted=alone or self._is_trusted(protocol),
            beta=0.0 if alone else self.beta,
            present=self.present,
            above=int(counts.sums[group, 1]),
            sigma=self.sigma or 1.0,
            law=RandomizedResponse(2, protocol.loss.pure()),
            spacing=query.spacing,
        )

    def _by_distances(self, query: Distance, protocol: Protocol, counts: Counts) -> Refined:
        """Read the average distance: from the located mean, or from the lattice of the spread."""
        point, group = self.point or 0.0, 0
        if query.lattice:
            points_each = len(query.points) // len(self.levels)
            wide = [
                math.ldexp(1.0, level_) >= ENOUGH * (self.spread or 1.0) for level_ in self.levels
            ]
            level = wide.index(True) if True in wide else len(wide) - 1  # the lowest wide enough
            first = level * points_each
            lattice = np.array(query.points[first : first + points_each])
            points, index = _nearest(lattice, query.widths[first], point)
            point, group = float(points[index]), first + index
        total, squares = (float(moment) for moment in counts.sums[group])
        return RefinedByDistances(
            reports=int(counts.reports[group]),
            point=point,
            limit=self.limit,
            trusted=self._is_trusted(protocol),
            beta=self.beta,
            present=self.present,
            total=total,
            squares=squares,
            step=query.widths[group] / query.steps,
        )


def _nearest(points: Floats, spacing: float, to: float) -> tuple[Floats, int]:
    """Return the point of each lattice that is nearest to a number, and which is the nearest."""
    nearest = points + spacing * np.rint((to - points) / spacing)
    return nearest, int(np.argmin(np.abs(nearest - to)))


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
    """Plan round 1 for the mean of a Gaussian (Joseph, Kulkarni, Mao and Wu 2019).

    Each user sends one report, which is epsilon-differentially private for replacing the user's
    value by any other one, before it leaves its owner. Public: the number of users.

    Parameters
    ----------
    users : int
        How many there are, up to 2**33.
    epsilon : float
        The loss of a report, from 1/1024 to 64.
    sigma : float or None
        The standard deviation in units of the value, where it is known. It must be known well.
    sigma_bounds : pair of floats
        Between which sigma lies where it is not known. 2**-10 and 2**20 unless said.
    limit : float
        The mean lies between -limit and limit, and values are clipped there. Rounded up to a power
        of two. Unless said, as far out as the number of users reaches, at most 2**23 sigma (with
        sigma unknown: 2**20).
    rounds : int
        2, or 1 at a larger error where owners can't wait for reports of others.
    campaign : str or None
        The survey's public name, which decides on groups. A new random one unless given.
    named : bool
        Whether users go by name (text) instead of an index from 0 to users - 1.
    beta : float
        How often the mean may be located wrongly where groups are large enough for it.

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
    loss = read_loss(epsilon)
    check_epsilon(loss.pure())
    count = user_count(users)
    if rounds not in {1, 2}:
        raise InvalidProtocolError("there are 1 or 2 rounds", hint="pass rounds=2")
    smallest_beta, what = Fraction(1, 10**12), "beta must be a probability from 1e-12 to 1"
    chance = float(
        number_within(beta, smallest_beta, 1, InvalidProtocolError, what, hint="pass beta=0.01")
    )
    low, high = _levels(sigma, sigma_bounds, limit)
    if high is None:
        law = RandomizedResponse(4, loss.pure())  # as many levels as half of the users can serve
        errors = {
            levels: deviation(law, count / 2 / levels, levels, chance) for levels in range(8, 25)
        }
        served = [levels for levels, error in errors.items() if error <= TRUSTED_DEVIATION]
        high = low + max(served, default=8) - 1
    known_sigma = None if sigma is None else float(sigma)
    plan = GaussianPlan(count, rounds, low, high, known_sigma, chance)
    return Protocol(campaign_name(campaign), loss, count, HALVES, plan, bool(named))


def _levels(
    sigma: float | None, sigma_bounds: tuple[float, float] | None, limit: float | None
) -> tuple[int, int | None]:
    """Return the lowest and the highest level. None where it follows from the number of users."""
    if sigma is not None and sigma_bounds is not None:
        message = "sigma and its bounds were both given"
        raise InvalidBoundsError(message, hint="leave one of them out")
    bounds = SIGMAS if sigma_bounds is None else sigma_bounds
    smallest, largest = bounds if sigma is None else (sigma, sigma)
    low, top = _exponent(smallest, "sigma") - 1, _exponent(largest, "sigma")
    if limit is None and sigma is not None:
        return low, None
    high = max(top, low + 1)
    if limit is not None:  # the least e with limit <= 2**e
        exponent = _exponent(limit, "limit")
        high = max(high, exponent - (math.ldexp(1.0, exponent - 1) == limit))
    if top <= low or high - low >= MOST_LEVELS:
        raise InvalidBoundsError(
            f"from the least sigma to the limit there are more than {MOST_LEVELS} powers of two",
            hint="narrow the range: sigma_bounds=(1.0, 50.0), limit=1000.0",
        )
    return low, high


def _exponent(value: object, name: str) -> int:
    """Return the least e with value < 2**e, for a positive number."""
    exact = number_within(
        value,
        Fraction(1, 2**400),
        2**400,
        InvalidBoundsError,
        f"{name} must be a positive, finite number",
        hint=f"pass a number that is public knowledge, e.g. {name}=10.0",
    )
    return math.frexp(float(exact))[1]


@dataclass(frozen=True)
class Digits:
    """Estimated shares of the four digits, one row a level, lowest level first.

    `deviation` bounds the error of every share, up to a probability of beta for all together.
    `noise` is the standard deviation of a share times the root of its level's `reports`.
    """

    low: int
    shares: Floats
    deviation: Floats
    reports: Floats
    noise: float


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian, and the share of owners who have a value at all."""

    mean: float
    spread: float
    present: float = 1.0


def deviation(law: RandomizedResponse, users: float, levels: int, beta: float) -> float:
    """Return how far an estimated share may lie off, but for a probability of beta."""
    return math.sqrt(math.log(8 * levels / beta) / 2 / max(users, 1.0)) / law.gap


def read_digits(counts: Counts, low: int, law: RandomizedResponse, beta: float) -> Digits:
    """Return the digits that the reports of the levels from `low` on show."""
    levels = len(counts.reports)
    shares = law.unbias(counts.sums) / np.maximum(counts.reports, 1)[:, np.newaxis]
    errors = [deviation(law, float(users), levels, beta) for users in counts.reports]
    truth = float(law.truth)
    noise = math.sqrt(truth * (1 - truth)) / law.gap
    return Digits(low, shares, np.array(errors), counts.reports.astype(float), noise)


def locate_gaussian(digits: Digits, sigma: float | None, limit: float) -> Gaussian:
    """Return the Gaussian near the located mean and spread that fits the digits best."""
    present = condition_on_response(digits)
    spread = sigma
    if spread is None:  # near the lowest level above which all but two neighbors are empty
        empty = _neighbors(present.shares).min(axis=1) <= SPREADS + present.deviation
        scattered = np.flatnonzero(~empty)
        level = int(scattered[-1]) if len(scattered) else 0
        spread = math.ldexp(1.0, digits.low + level)
    factors = np.exp2(np.linspace(-2, 1.5, 15)) if sigma is None else np.ones(1)
    spreads = np.maximum(spread * factors, math.ldexp(1.0, digits.low - 1))
    best = fit_gaussian(digits, Gaussian(locate_mean(present), spread), spreads=spreads)
    return replace(best, mean=min(max(best.mean, -limit), limit))


def condition_on_response(digits: Digits) -> Digits:
    """Return the digits of owners who have a value: nobody else shows a 2 at the highest level."""
    share, error = float(digits.shares[-1, 2]), float(digits.deviation[-1])
    if share <= error / 2:
        return digits
    flat = min(share, (1 - LEAST_PRESENT) / 4)
    present = 1 - 4 * flat
    shares, deviation = (digits.shares - flat) / present, (digits.deviation + error) / present
    return replace(digits, shares=shares, deviation=deviation)


def locate_mean(digits: Digits) -> float:
    """Return a number within two standard deviations of a Gaussian mean, if groups are large.

    Walks from the highest level down, to the half that the digits name, until no digit is the
    clear majority: the mean is near the point between the two neighbors that are the most
    frequent together then. (The paper takes the two most frequent digits: of three, one of them in
    the middle of its users, errors can make an empty digit the second.)
    """
    top = len(digits.shares) - 1
    lower, upper = -(2**top), 2**top  # in units of 2**low
    for level in range(top, -1, -1):
        shares = digits.shares[level]
        first = int(np.argmax(shares))
        if shares[first] < PASSES + digits.deviation[level]:
            break
        multiples = _multiples(lower, upper, level, {first})
        if not multiples:
            return math.ldexp(lower + upper, digits.low - 1)
        lower, upper = multiples[0] * 2**level, (multiples[0] + 1) * 2**level
    pair = int(np.argmax(_neighbors(digits.shares[level])))
    multiples = _multiples(lower, upper, level, {pair, (pair + 1) % 4})
    middle = math.ldexp(lower + upper, digits.low - 1)
    return math.ldexp(multiples[-1], digits.low + level) if multiples else middle


def _multiples(lower: int, upper: int, level: int, common: set[int]) -> list[int]:
    """Return the multiples of a level's unit in a range whose digit is one of these."""
    start = -(-lower >> level) if lower >= 0 else lower >> level
    return [multiple for multiple in range(start, (upper >> level) + 1) if multiple % 4 in common]


def _neighbors(shares: Floats) -> Floats:
    """Return how frequent each digit and the next one are together."""
    return shares + np.roll(shares, -1, axis=-1)


def fit_gaussian(digits: Digits, start: Gaussian, *, spreads: Floats) -> Gaussian:
    """Return the best Gaussian near a start, its spread among those given.

    Weighted least squares over mean and standard deviation between the reported shares of digits
    and those of a Gaussian, with a share of owners without a value, who show all digits alike.
    Four passes of a grid around the best so far, each about five times finer.
    """
    best, reach = start, 2.0 * start.spread
    for _ in range(4):
        means, candidates = best.mean + reach * np.linspace(-1, 1, 21), []
        for spread in spreads.tolist():
            length, along = _products(digits, means, spread)
            present = np.clip(along / length, LEAST_PRESENT, 1.0)
            misfit = present * (present * length - 2 * along)
            index = int(np.argmin(misfit))
            candidates.append((float(misfit[index]), Gaussian(float(means[index]), spread)))
        best = min(candidates, key=lambda candidate: candidate[0])[1]
        reach /= 5
        spreads = best.spread * (spreads / best.spread) ** 0.25
    products = _products(digits, np.array([best.mean]), best.spread)
    square, product = (float(of_mean[0]) for of_mean in products)
    share = min(max(product / square, LEAST_PRESENT), 1.0)
    clear = 1 - share > _CERTAIN * digits.noise / math.sqrt(square)
    return replace(best, present=share) if clear else best


def _products(digits: Digits, means: Floats, spread: float) -> tuple[Floats, Floats]:
    """Return the weighted squares of expected shares, and their products with the shares shown."""
    units = np.ldexp(1.0, digits.low + np.arange(len(digits.shares))).tolist()
    shares = np.stack([_shares(means / unit, spread / unit) for unit in units], axis=1)
    expected = shares - 0.25
    weighted = expected * digits.reports[:, np.newaxis]
    length = (weighted * expected).sum(axis=(1, 2))
    return np.maximum(length, 1e-300), (weighted * (digits.shares - 0.25)).sum(axis=(1, 2))


def _shares(means: Floats, spread: float) -> Floats:
    """Return the shares of floor(x) mod 4, one row a mean."""
    if spread > _FLAT:
        return np.full((len(means), 4), 0.25)
    first = 4 * math.floor((means[0] - 8 * spread) / 4)
    periods = math.ceil((means[-1] + 8 * spread - first) / 4)
    ends = first + np.arange(4 * periods + 1)
    points, values = _normal_table()
    below = np.interp((ends - means[:, np.newaxis]) / spread, points, values)
    shares: Floats = np.diff(below).reshape(len(means), periods, 4).sum(axis=1)
    return shares


@functools.cache
def _normal_table() -> tuple[Floats, Floats]:
    points = np.linspace(-9, 9, 4501)
    return points, np.array([NormalDist().cdf(point) for point in points.tolist()])


@dataclass(frozen=True)
class Refined(abc.ABC):
    """An estimate of a mean, in the survey's units. The mean is known to lie within +-limit.

    `trusted` says whether the protocol, by its public number of users, can rely on the located
    mean. Without it an interval is all of the range. `beta` bounds how often that step fails.
    `present` is the share of owners who have a value.
    """

    reports: int
    point: float
    limit: float
    trusted: bool
    beta: float
    present: float

    @property
    @abc.abstractmethod
    def value(self) -> float:
        """The estimate."""

    @property
    @abc.abstractmethod
    def standard_error(self) -> float:
        """Its standard deviation, over owners and noise, given the located mean."""

    @abc.abstractmethod
    def ends(self, deviations: float) -> tuple[float, float]:
        """Return the ends so many standard deviations of the reports away."""

    def interval(self, level: float) -> tuple[float, float]:
        """Return ends that hold with probability `level`, the value always between them."""
        if not (self.trusted and self.reports):
            return -self.limit, self.limit
        outside = 1 - level
        low, high = self.ends(NORMAL.inv_cdf(1 - max(outside - self.beta, outside / 2) / 2))
        return self._clip(min(low, self.value)), self._clip(max(high, self.value))

    def _clip(self, value: float) -> float:
        """Return a value clipped to the range that is known."""
        return min(max(value, -self.limit), self.limit)


@dataclass(frozen=True)
class RefinedBySides(Refined):
    """How many owners lie above a point: with sigma known, that tells the mean.

    The share above is Phi((mean - point) / sigma). Reports count `above` of them. With a lattice,
    values more than half a `spacing` off the point count for another point.
    """

    above: int
    sigma: float
    law: RandomizedResponse
    spacing: float = 0.0

    @property
    def value(self) -> float:
        """The point, shifted by the normal quantile of the share above, by 2 sigma at most."""
        return self._clip(self.point + self.sigma * self._quantile)

    @property
    def _quantile(self) -> float:
        if not self.reports:
            return 0.0
        edge = NORMAL.cdf(REACH)
        return NORMAL.inv_cdf(min(max(self._share(self.above / self.reports), 1 - edge), edge))

    def _share(self, reported: float) -> float:
        """Return the share of owners above that makes for a share of reports."""
        share = (reported - float(self.law.lie)) / self.law.gap
        return 0.5 + (share - 0.5) / self.present

    @property
    def standard_error(self) -> float:
        """First-order: the error of the share over the normal density at its quantile."""
        if not self.reports:
            return math.inf
        part = self.above / self.reports
        error = math.sqrt(max(part * (1 - part), 1 / self.reports) / self.reports)
        slope = NORMAL.pdf(self._quantile) * (self.law.gap * self.present)
        return self.sigma * error / slope

    def ends(self, deviations: float) -> tuple[float, float]:
        """Invert the score interval of the share of reports, with continuity correction."""
        low, high = (self._end(part) for part in wilson(self.above, self.reports, deviations))
        return low, high

    def _end(self, reported: float) -> float:
        share = self._share(reported)
        reach = self.spacing / 2 if self.spacing else 2 * self.limit
        if not 0 < share < 1:
            return self.point + math.copysign(reach, share - 0.5)
        return self.point + min(max(self.sigma * NORMAL.inv_cdf(share), -reach), reach)


@dataclass(frozen=True)
class RefinedByDistances(Refined):
    """The average of noisy distances from a point, in steps of a grid."""

    total: float
    squares: float
    step: float

    @property
    def value(self) -> float:
        """The point plus the average distance."""
        return self._clip(self._middle)

    @property
    def _middle(self) -> float:
        average = self.total / self.reports / self.present if self.reports else 0.0
        return self.point + average * self.step

    @property
    def standard_error(self) -> float:
        """From the sample variance of the reports, which holds values and noise."""
        if self.reports < 2:
            return math.inf
        variance = max(self.squares / self.reports - (self.total / self.reports) ** 2, 0.0)
        return self.step * math.sqrt(variance / (self.reports - 1)) / self.present

    def ends(self, deviations: float) -> tuple[float, float]:
        """Return so many standard errors around the average, and half a step of the grid."""
        reach = deviations * self.standard_error + self.step / 2
        return self._middle - reach, self._middle + reach


def wilson(hits: int, total: int, deviations: float) -> tuple[float, float]:
    """Return the score interval of a proportion, with continuity correction (Newcombe 1998)."""
    share, z = hits / total, deviations
    scale, center = 2 * (total + z * z), 2 * total * share + z * z

    def reach(sign: int) -> float:
        part = 4 * share * (total * (1 - share) + sign)
        return z * math.sqrt(max(0.0, z * z - sign * 2 - 1 / total + part))

    low = 0.0 if hits == 0 else max(0.0, (center - 1 - reach(1)) / scale)
    return low, 1.0 if hits == total else min(1.0, (center + 1 + reach(-1)) / scale)


class LocalEstimate(AnnotatedFloat):
    """A mean estimated from private reports: a float with an interval.

    Unlike the intervals of `.dp`, this one covers the sampling of owners as well: the mean is that
    of the distribution that values are drawn from, assumed Gaussian.

    `low` and `high` are the ends of the interval at the level asked for, `std_error` is the
    standard deviation over owners and noise, given the located mean: `coarse`, the point around
    which the last `reports` were read. `spread` is the standard deviation that round 1 has found,
    where sigma was not known. `epsilon` or `rho` is the loss of a report, as it was asked
    for.

    >>> import dfprivacy as dfp, statistics
    >>> normal = statistics.NormalDist(3.0, 1.0)
    >>> values = [normal.inv_cdf((k + 0.5) / 50_000) for k in range(50_000)]
    >>> estimate = dfp.local.simulate(dfp.local.gaussian_mean(
    ...     users=50_000, epsilon=2, sigma=1.0, limit=64), values)
    >>> estimate.low < estimate < estimate.high and estimate.epsilon == 2
    True
    """

    low: float
    high: float
    std_error: float
    coarse: float
    spread: float | None
    reports: int
    epsilon: float | None
    rho: float | None
    _name: str
    _level: float
    _refined: Refined

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends between which the mean lies with probability `level`.

        Where the public number of users is too small to locate the mean, it is the whole range in
        which the mean was declared to lie.
        """
        return self._refined.interval(self._level if level is None else interval_level(level))

    def __repr__(self) -> str:
        cost = f"rho={self.rho:.6g}" if self.epsilon is None else f"epsilon={self.epsilon:.6g}"
        ends = f"[{self.low:.6g}, {self.high:.6g}] at {100 * self._level:.6g}%"
        return f"{self._name} {float(self):.6g} {ends}, {cost} for each owner"
