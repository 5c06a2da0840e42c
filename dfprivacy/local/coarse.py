"""From base-4 digits to a coarse mean and a coarse standard deviation.

Joseph, Kulkarni, Mao and Wu (2019), "Locally private Gaussian estimation", steps 1 and 1.5. All of
it is a function of reports. Deviations are bounded by Hoeffding's inequality for the very
probabilities that randomised response uses, which is tighter than the paper's closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.tally import Tally

Floats = npt.NDArray[np.float64]

PASSES, SPREADS = 0.52, 0.03
"""Shares of a level's users: of one digit, to go down a level; of two digits, to count as empty."""

TRUSTED_DEVIATION = 0.11
"""With larger deviations the coarse step can go wrong."""

LEAST_PRESENT = 0.05
"""At least so many owners are taken to have a value."""


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


def deviation(law: RandomisedResponse, users: float, levels: int, beta: float) -> float:
    """Return how far an estimated share may lie off, but for a probability of beta."""
    gap = float(law.truth - law.other)
    return math.sqrt(math.log(8 * levels / beta) / 2 / max(users, 1.0)) / gap


def digits_of(tally: Tally, low: int, law: RandomisedResponse, beta: float) -> Digits:
    """Return what the reports of the levels from `low` on show."""
    levels = len(tally.reports)
    some = np.maximum(tally.reports, 1)
    shares = law.unbiased(tally.counts) / some[:, np.newaxis]
    errors = [deviation(law, float(users), levels, beta) for users in tally.reports]
    truth, gap = float(law.truth), float(law.truth - law.other)
    noise = math.sqrt(truth * (1 - truth)) / gap
    return Digits(low, shares, np.array(errors), tally.reports.astype(float), noise)


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


def coarse_mean(digits: Digits) -> float:
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
            return _between(digits, level, least, most)
        found = [c for c in _multiples(least, most, level) if c % 4 == first]
        if not found:
            return _middle(digits.low, least, most)
        least, most = found[0] * 2**level, (found[0] + 1) * 2**level
    return _between(digits, 0, least, most)


def _between(digits: Digits, level: int, least: int, most: int) -> float:
    """Return the largest multiple of the level's unit whose digit is one of the commonest pair."""
    first = int(np.argmax(_neighbours(digits.shares[level])))
    common = {first, (first + 1) % 4}
    found = [c for c in _multiples(least, most, level) if c % 4 in common]
    if not found:
        return _middle(digits.low, least, most)
    return math.ldexp(found[-1], digits.low + level)


def _neighbours(shares: Floats) -> Floats:
    """Return how frequent each digit and the next one are together."""
    return shares + np.roll(shares, -1, axis=-1)


def _multiples(least: int, most: int, level: int) -> Sequence[int]:
    return range(-(-least >> level) if least >= 0 else least >> level, (most >> level) + 1)


def _middle(low: int, least: int, most: int) -> float:
    return math.ldexp(least + most, low - 1)


def coarse_spread(digits: Digits) -> float:
    """Return a power of two near the standard deviation.

    A level is concentrated when two neighbouring digits hold next to nobody; the answer is the
    lowest level above which all are.
    """
    concentrated = _neighbours(digits.shares).min(axis=1) <= SPREADS + digits.deviation
    scattered = np.flatnonzero(~concentrated)
    level = int(scattered[-1]) if len(scattered) else 0
    return math.ldexp(1.0, digits.low + level)
