"""Locate a Gaussian by base-4 digits: its mean up to two standard deviations, and its spread.

Joseph, Kulkarni, Mao and Wu (2019), "Locally private Gaussian estimation", steps 1 and 1.5. All of
it is a function of reports. Deviations are bounded by Hoeffding's inequality for the very
probabilities that randomised response uses, which is tighter than the paper's closed form. From
there a fit finds the Gaussian that explains all digits best: a finer start, for free.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from dfprivacy.local.randomisers import Counts, Floats, RandomisedResponse

PASSES, SPREADS = 0.52, 0.03
"""Shares of a level's users: of one digit, to go down a level; of two digits, to count as empty."""

TRUSTED_DEVIATION = 0.11
"""With larger deviations the mean can be located wrongly."""

LEAST_PRESENT = 0.05
"""At least so many owners are taken to have a value."""

_CERTAIN = 3.0
"""An absence of owners' values counts from so many standard deviations on."""

_FLAT = 8.0
"""Digits of units this much smaller than sigma are equally common, up to e**-300."""


@dataclass(frozen=True)
class Digits:
    """Estimated shares of the four digits, one row a level, lowest level first.

    `deviation` bounds the error of every share, up to a probability of beta for all together;
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


def deviation(law: RandomisedResponse, users: float, levels: int, beta: float) -> float:
    """Return how far an estimated share may lie off, but for a probability of beta."""
    return math.sqrt(math.log(8 * levels / beta) / 2 / max(users, 1.0)) / law.gap


def digits_of(counts: Counts, low: int, law: RandomisedResponse, beta: float) -> Digits:
    """Return what the reports of the levels from `low` on show."""
    levels = len(counts.reports)
    shares = law.unbiased(counts.sums) / np.maximum(counts.reports, 1)[:, np.newaxis]
    errors = [deviation(law, float(users), levels, beta) for users in counts.reports]
    truth = float(law.truth)
    noise = math.sqrt(truth * (1 - truth)) / law.gap
    return Digits(low, shares, np.array(errors), counts.reports.astype(float), noise)


def located(digits: Digits, sigma: float | None, limit: float) -> Gaussian:
    """Return the Gaussian near the located mean and spread that fits the digits best."""
    present = of_present(digits)
    spread = located_spread(present) if sigma is None else sigma
    factors = np.exp2(np.linspace(-2, 1.5, 15)) if sigma is None else np.ones(1)
    spreads = np.maximum(spread * factors, math.ldexp(1.0, digits.low - 1))
    found = fitted(digits, Gaussian(located_mean(present), spread), spreads=spreads)
    return replace(found, mean=min(max(found.mean, -limit), limit))


def of_present(digits: Digits) -> Digits:
    """Return the digits of owners who have a value, where some seem to have none.

    Those without one show all digits alike. At the highest level nobody else shows a 2: values are
    from -1 to 1 in its unit.
    """
    share, error = float(digits.shares[-1, 2]), float(digits.deviation[-1])
    if share <= error / 2:
        return digits
    flat = min(share, (1 - LEAST_PRESENT) / 4)
    present = 1 - 4 * flat
    shares, deviation = (digits.shares - flat) / present, (digits.deviation + error) / present
    return replace(digits, shares=shares, deviation=deviation)


def located_mean(digits: Digits) -> float:
    """Return a number within two standard deviations of a Gaussian mean, if groups are large.

    Walks from the highest level down, to the half that the digits name, until no digit is the
    clear majority: the mean is near the point between the two neighbours that are the most
    frequent together then. (The paper takes the two most frequent digits: of three, one of them in
    the middle of its users, errors can make an empty digit the second.)
    """
    top = len(digits.shares) - 1
    least, most = -(2**top), 2**top  # in units of 2**low
    for level in range(top, -1, -1):
        shares = digits.shares[level]
        first = int(np.argmax(shares))
        if shares[first] < PASSES + digits.deviation[level]:
            break
        found = _multiples(least, most, level, {first})
        if not found:
            return math.ldexp(least + most, digits.low - 1)
        least, most = found[0] * 2**level, (found[0] + 1) * 2**level
    pair = int(np.argmax(_neighbours(digits.shares[level])))
    found = _multiples(least, most, level, {pair, (pair + 1) % 4})
    middle = math.ldexp(least + most, digits.low - 1)
    return math.ldexp(found[-1], digits.low + level) if found else middle


def _multiples(least: int, most: int, level: int, common: set[int]) -> list[int]:
    """Return the multiples of a level's unit in a range whose digit is one of these."""
    start = -(-least >> level) if least >= 0 else least >> level
    return [each for each in range(start, (most >> level) + 1) if each % 4 in common]


def _neighbours(shares: Floats) -> Floats:
    """Return how frequent each digit and the next one are together."""
    return shares + np.roll(shares, -1, axis=-1)


def located_spread(digits: Digits) -> float:
    """Return a power of two near the standard deviation.

    A level is concentrated when two neighbouring digits hold next to nobody; the answer is the
    lowest level above which all are.
    """
    concentrated = _neighbours(digits.shares).min(axis=1) <= SPREADS + digits.deviation
    scattered = np.flatnonzero(~concentrated)
    level = int(scattered[-1]) if len(scattered) else 0
    return math.ldexp(1.0, digits.low + level)


def fitted(digits: Digits, start: Gaussian, *, spreads: Floats) -> Gaussian:
    """Return the best Gaussian near a start, its spread among those given.

    Weighted least squares over mean and standard deviation between what reports show of the digits
    and what a Gaussian would, with a share of owners without a value, who show all digits alike.
    Four passes of a grid around the best so far, each about five times finer.
    """
    best, reach = start, 2.0 * start.spread
    for _ in range(4):
        means = best.mean + reach * np.linspace(-1, 1, 21)
        found = [_best_mean(digits, means, spread) for spread in spreads.tolist()]
        best = min(found, key=lambda candidate: candidate[0])[1]
        reach /= 5
        spreads = best.spread * (spreads / best.spread) ** 0.25
    length, along = (float(each[0]) for each in _products(
        digits, np.array([best.mean]), best.spread))  # fmt: skip
    present = min(max(along / length, LEAST_PRESENT), 1.0)
    clear = 1 - present > _CERTAIN * digits.noise / math.sqrt(length)
    return replace(best, present=present) if clear else best


def _best_mean(digits: Digits, means: Floats, spread: float) -> tuple[float, Gaussian]:
    """Return what the best mean for a spread leaves unexplained, and its Gaussian."""
    length, along = _products(digits, means, spread)
    present = np.clip(along / length, LEAST_PRESENT, 1.0)
    misfit = present * (present * length - 2 * along)
    index = int(np.argmin(misfit))
    return float(misfit[index]), Gaussian(float(means[index]), spread)


def _products(digits: Digits, means: Floats, spread: float) -> tuple[Floats, Floats]:
    """Return the weighted squares of expected shares, and their products with the shares shown."""
    expected = expected_shares(digits, means, spread) - 0.25
    weighted = expected * digits.reports[:, np.newaxis]
    length = (weighted * expected).sum(axis=(1, 2))
    return np.maximum(length, 1e-300), (weighted * (digits.shares - 0.25)).sum(axis=(1, 2))


def expected_shares(digits: Digits, means: Floats, spread: float) -> Floats:
    """Return the shares of the four digits under Gaussians: by mean, level and digit."""
    units = np.ldexp(1.0, digits.low + np.arange(len(digits.shares))).tolist()
    return np.stack([_shares(means / unit, spread / unit) for unit in units], axis=1)


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
