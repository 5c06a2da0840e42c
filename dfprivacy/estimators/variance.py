"""Variance and standard deviation from the noisy Bernstein sums.

With B = (B0, B1, B2) the sums of ((1-a)^2, 2a(1-a), a^2) over a group and N their total, the mean
is (B1/2 + B2)/N and the second moment B2/N. The interval rests on an identity: around the true
mean m and variance v, the weights w = (m^2 - v, -m(1-m) - v, (1-m)^2 - v) give w.B = 0, so that

    v = V + (M - m)^2 - w.Z/N

for the noisy variance V, the noisy mean M and the noise Z. See docs/partition-of-unity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dfprivacy.errors import InvalidBoundsError
from dfprivacy.estimators.estimator import half_width_factor, to_floats
from dfprivacy.estimators.ratio import RatioEstimator
from dfprivacy.mechanisms.additive import NoisyVector
from dfprivacy.statistics.binning import Floats
from dfprivacy.statistics.grid import Grid

_SQUARABLE = 2.0**-500
_MOST = 0.25  # the largest variance on [0, 1]
_UNIFORM = 1 / 12  # what is said of a group whose noisy count is not positive


def mean_of_bernstein(grid: Grid) -> RatioEstimator:
    """Return the estimator of the mean that comes with a variance."""
    unit = grid.last * grid.step
    return RatioEstimator((0, 1, 2), (2, 2, 2), 0.0, 1.0, unit, grid)


@dataclass(frozen=True)
class UnitVariance:
    """Population variance of a = q/K in [0, 1], the grid's own units."""

    grid: Grid

    def value(self, vector: NoisyVector) -> Floats:
        """Return the variance of each group."""
        total, mean, second = self._moments(vector)
        variance = np.where(total > 0, second - mean * mean, _UNIFORM)
        return np.clip(variance, 0, _MOST)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return an interval from the identity above.

        Nine tenths of the error probability go to w.Z, one tenth to the mean; the length of w,
        which depends on the unknown m and v, is bounded over everything near their estimates.
        """
        outside = 1 - level
        total, mean, second = self._moments(vector)
        distance = self._distance_of_mean(vector, 1 - outside / 10, mean)
        factor = half_width_factor(vector.noise, 0.9 * outside)
        safe = np.where(total > 0, total, 1.0)
        spread = (factor * math.sqrt(vector.noise.variance) + 1) / self.grid.last / safe
        middle = second - mean * mean
        reach = math.sqrt(5) * distance + math.sqrt(3) * (spread + distance**2)
        longest = np.minimum(self._length(mean, middle) + reach, 1.0)
        half = longest * spread + 2 / self.grid.last
        low = np.where(total > 0, middle - half, 0.0)
        high = np.where(total > 0, middle + distance**2 + half, _MOST)
        return np.clip(low, 0, _MOST), np.clip(high, 0, _MOST)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        total, mean, second = self._moments(vector)
        noise = math.sqrt(vector.noise.variance) / self.grid.last
        length = self._length(mean, second - mean * mean)
        widest = np.full_like(total, _MOST / 2)
        error = np.divide(noise * length, total, out=widest, where=total > 0)
        return np.minimum(error, _MOST / 2)

    def _moments(self, vector: NoisyVector) -> tuple[Floats, Floats, Floats]:
        b0, b1, b2 = (to_floats(row) / self.grid.last for row in vector.coordinates)
        total = b0 + b1 + b2
        safe = np.where(total > 0, total, 1.0)
        return total, (b1 / 2 + b2) / safe, b2 / safe

    def _distance_of_mean(self, vector: NoisyVector, level: float, mean: Floats) -> Floats:
        low, high = mean_of_bernstein(self.grid).theta_interval(vector, level)
        return np.maximum(np.abs(high - mean), np.abs(mean - low))

    @staticmethod
    def _length(mean: Floats, variance: Floats) -> Floats:
        m, v = np.clip(mean, 0, 1), np.clip(variance, 0, _MOST)
        squared = (m * m - v) ** 2 + (m * (1 - m) + v) ** 2 + ((1 - m) ** 2 - v) ** 2
        return np.sqrt(squared)


@dataclass(frozen=True)
class VarianceEstimator:
    """Population variance, in squared units of the column.

    Raises
    ------
    InvalidBoundsError
        Where the square of the bounds' distance is no normal float.
    """

    grid: Grid

    def __post_init__(self) -> None:
        """Refuse bounds whose variance a float can't hold."""
        if not _SQUARABLE <= _width(self.grid) <= 1 / _SQUARABLE:
            raise InvalidBoundsError(
                "the distance between the bounds is too large or too small to be squared",
                hint="ask for the standard deviation, or rescale the column",
            )

    def value(self, vector: NoisyVector) -> Floats:
        """Return the variance of each group."""
        return UnitVariance(self.grid).value(vector) * _width(self.grid) ** 2

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the variance: see `UnitVariance.interval`."""
        low, high = UnitVariance(self.grid).interval(vector, level)
        return low * _width(self.grid) ** 2, high * _width(self.grid) ** 2

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        return UnitVariance(self.grid).standard_error(vector) * _width(self.grid) ** 2


@dataclass(frozen=True)
class StandardDeviationEstimator:
    """Population standard deviation, in units of the column: the root of the variance."""

    grid: Grid

    def value(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of each group."""
        return np.sqrt(UnitVariance(self.grid).value(vector)) * _width(self.grid)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the roots of the variance's interval."""
        low, high = UnitVariance(self.grid).interval(vector, level)
        return np.sqrt(low) * _width(self.grid), np.sqrt(high) * _width(self.grid)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        root = np.sqrt(UnitVariance(self.grid).value(vector))
        error = UnitVariance(self.grid).standard_error(vector)
        widest = np.sqrt(error)
        first_order = np.divide(error, 2 * root, out=widest, where=root > widest / 2)
        return np.asarray(first_order * _width(self.grid))


def _width(grid: Grid) -> float:
    return grid.last * grid.step
