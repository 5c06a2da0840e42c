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

from dfprivacy.estimators.estimator import Floats, half_width_factor, to_floats
from dfprivacy.estimators.ratio import RatioEstimator
from dfprivacy.mechanisms.additive import NoisyVector
from dfprivacy.statistics.grid import Grid

_MOST = 0.25  # the largest variance on [0, 1]
_UNIFORM = 1 / 12  # what is said of a group whose noisy count is not positive


def mean_of_bernstein(grid: Grid) -> RatioEstimator:
    """Return the estimator of the mean that comes with a variance."""
    unit = grid.last * grid.step
    return RatioEstimator((0, 1, 2), (2, 2, 2), 0.0, 1.0, unit, grid)


@dataclass(frozen=True)
class VarianceEstimator:
    """Population variance, in squared units of the column."""

    grid: Grid

    def value(self, vector: NoisyVector) -> Floats:
        """Return the variance of each group."""
        total, mean, second = self._moments(vector)
        variance = np.where(total > 0, second - mean * mean, _UNIFORM)
        return np.clip(variance, 0, _MOST) * self._unit() ** 2

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return an interval from the identity above.

        Nine tenths of the error probability go to w.Z, one tenth to the mean; the length of w,
        which depends on the unknown m and v, is bounded over everything near their estimates.
        """
        outside = 1 - level
        total, mean, second = self._moments(vector)
        safe = np.where(total > 0, total, 1.0)
        distance = self._distance_of_mean(vector, 1 - outside / 10, mean)
        factor = half_width_factor(vector.noise, 0.9 * outside)
        spread = (factor * math.sqrt(vector.noise.variance) + 1) / self.grid.last / safe
        middle = second - mean * mean
        length = self._length(mean, middle)
        reach = math.sqrt(5) * distance + math.sqrt(3) * (spread + distance**2)
        half = np.minimum(length + reach, 1.0) * spread + 2 / self.grid.last
        low = np.where(total > 0, middle - half, 0.0)
        high = np.where(total > 0, middle + distance**2 + half, _MOST)
        scale = self._unit() ** 2
        return np.clip(low, 0, _MOST) * scale, np.clip(high, 0, _MOST) * scale

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        total, mean, second = self._moments(vector)
        noise = math.sqrt(vector.noise.variance) / self.grid.last
        length = self._length(mean, second - mean * mean)
        widest = np.full_like(total, _MOST / 2)
        error = np.divide(noise * length, total, out=widest, where=total > 0)
        return np.minimum(error, _MOST / 2) * self._unit() ** 2

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

    def _unit(self) -> float:
        return self.grid.last * self.grid.step


@dataclass(frozen=True)
class StandardDeviationEstimator:
    """Population standard deviation, in units of the column: the root of the variance."""

    variance: VarianceEstimator

    def value(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of each group."""
        return np.sqrt(self.variance.value(vector))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the roots of the variance's interval."""
        low, high = self.variance.interval(vector, level)
        return np.sqrt(low), np.sqrt(high)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        root = self.value(vector)
        widest = np.sqrt(self.variance.standard_error(vector))
        error = self.variance.standard_error(vector)
        return np.divide(error, 2 * root, out=widest, where=root > widest / 2)
