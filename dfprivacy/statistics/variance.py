"""Read variance and standard deviation off noisy Bernstein sums.

With B = (B0, B1, B2) the sums of ((1-a)^2, 2a(1-a), a^2) over a group and N their total, the mean
is (B1/2 + B2)/N and the second moment B2/N. The interval rests on an identity: around the true
mean m and variance v, the weights w = (m^2 - v, -m(1-m) - v, (1-m)^2 - v) give w.B = 0, so that

    v = V + (M - m)^2 - w.Z/N

for the noisy variance V, the noisy mean M and the noise Z. See
docs/explanation/partition-of-unity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dfprivacy.errors import InvalidBoundsError
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.grid import Grid, grid_from_lower
from dfprivacy.measurement.linear import Linear, OnGrid
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import bound_sum
from dfprivacy.release.estimator import (
    ClippingBias,
    Ends,
    Estimator,
    ForecastableEstimator,
    RatioEstimator,
)
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.mean import Bounded, Mean, Sum, SumEstimator
from dfprivacy.statistics.part import Circumstances


@dataclass(frozen=True)
class _Spread(Bounded):
    """Statistics of the Bernstein sums of a column, which carry its mean and count."""

    @property
    def _grid(self) -> Grid:
        return grid_from_lower(self.require_bounds())

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the Bernstein basis of degree 2 on the grid: a row's coordinates add up to K."""
        q = OnGrid(self.column, self._grid)
        k = q.grid.last
        return Linear.unity((q, q * q // k), ((k, -2, 1), (0, 2, -2), (0, 0, 1)), k)

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:
        """Return the mean or the sum within the same bounds, or the count of the column."""
        about, grid = (self.column, self.bounds), self._grid
        if isinstance(other, Mean) and replace(other, clipping=True) == Mean(*about):
            return mean_of_bernstein(grid)
        if isinstance(other, Sum) and replace(other, clipping=True) == Sum(*about):
            return sum_of_bernstein(grid)
        return super().estimator_for(other, linear)


@dataclass(frozen=True)
class Variance(_Spread):
    """The population variance of a column, each value clipped to the bounds.

    From noisy sums of the Bernstein basis, into which all of the loss goes
    (docs/explanation/partition-of-unity.md). Without bounds, bounds are found privately at powers
    of two.
    """

    kind: ClassVar[str] = "var"
    aliases: ClassVar[tuple[str, ...]] = ("variance",)
    sql_names: ClassVar[tuple[str, ...]] = ("var_pop", "var_samp", "variance")
    title: ClassVar[str] = "the population variance"
    example: ClassVar[str] = 'df.dp.var("x", (0, 100), epsilon=1)'

    def estimator(self, linear: Linear) -> VarianceEstimator:  # noqa: ARG002 the grid says all
        """Return the variance of the Bernstein sums."""
        return VarianceEstimator(self._grid)

    def unit(self, *, found_bounds: bool = False) -> str:
        """Return squared units."""
        return f"squared {super().unit(found_bounds=found_bounds)}"

    def percent_base(self, rows: int) -> float | None:
        """Return the square of the distance between the bounds."""
        width = super().percent_base(rows)
        return None if width is None else width * width


@dataclass(frozen=True)
class StandardDeviation(_Spread):
    """The population standard deviation of a column: the root of `var`."""

    kind: ClassVar[str] = "std"
    aliases: ClassVar[tuple[str, ...]] = ("stddev",)
    sql_aliases: ClassVar[tuple[str, ...]] = ("stddev",)
    sql_names: ClassVar[tuple[str, ...]] = ("stddev_pop", "stddev_samp", "stddev")
    title: ClassVar[str] = "the population standard deviation"
    example: ClassVar[str] = 'df.dp.std("x", (0, 100), epsilon=1)'

    def estimator(self, linear: Linear) -> StandardDeviationEstimator:  # noqa: ARG002 the grid says all
        """Return the root of the variance of the Bernstein sums."""
        return StandardDeviationEstimator(self._grid)

    def add_remarks(self, circumstances: Circumstances) -> tuple[str, ...]:  # noqa: ARG002 it always holds
        """Half-widths are for the worst place of the deviation."""
        return ("the error is largest where the true deviation is near 0",)


def mean_of_bernstein(grid: Grid) -> RatioEstimator:
    """Return the estimator of the mean that comes with a variance."""
    unit = grid.last * grid.step
    return RatioEstimator((0, 1, 2), (2, 2, 2), 0.0, 1.0, unit, grid)


def sum_of_bernstein(grid: Grid) -> SumEstimator:
    """Return the estimator of the sum that comes with a variance."""
    half = grid.last * grid.step / 2
    values = grid.anchor, grid.anchor + half, grid.anchor + 2 * half
    return SumEstimator.of_unity(values, grid.last, grid)


_SQUARABLE = 2.0**-500
_MOST = 0.25  # the largest variance on [0, 1]
EVEN = 1 / 12
"""The variance of values that are spread evenly over [0, 1]; also what is said of a group whose
noisy count is not positive."""


@dataclass(frozen=True)
class UnitVariance(Estimator):
    """Population variance of a = q/K in [0, 1], the grid's own units."""

    grid: Grid

    @property
    def width(self) -> float:
        """The distance a = 1 in units of the column."""
        return self.grid.last * self.grid.step

    def value(self, vector: NoisyVector) -> Floats:
        """Return the variance of each group."""
        total, mean, second = self._moments(vector)
        variance = np.where(total > 0, second - mean * mean, EVEN)
        return np.clip(variance, 0, _MOST)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return an interval from the identity above.

        Nine tenths of the error probability go to w.Z, one tenth to the mean; the length of w,
        which depends on the unknown m and v, is bounded over everything near their estimates.
        """
        outside = 1 - level
        total, mean, second = self._moments(vector)
        lowest, highest = mean_of_bernstein(self.grid).theta_interval(vector, 1 - outside / 10)
        distance = np.maximum(np.abs(highest - mean), np.abs(mean - lowest))
        safe = np.where(total > 0, total, 1.0)
        spread = bound_sum(vector.noise, 0.9 * outside) / self.grid.last / safe
        middle = second - mean * mean
        reach = math.sqrt(5) * distance + math.sqrt(3) * (spread + distance**2)
        longest = np.minimum(self._length(mean, middle) + reach, 1.0)
        half = longest * spread + 2 / self.grid.last
        low = np.where(total > 0, middle - half, 0.0)
        high = np.where(total > 0, middle + distance**2 + half, _MOST)
        return np.clip(low, 0, _MOST), np.clip(high, 0, _MOST)

    def find_added_variance(self, vector: NoisyVector, moved: ClippingBias) -> Floats:
        """Return by how much rows beyond the bounds raise the variance at most, in squared units.

        A row that lies a distance d beyond the bound U raises the sum of squares around the mean m
        by 2 d (U - m) + d^2; clipping never raises a variance (docs/explanation/intervals.md).
        """
        total, mean, _ = self._moments(vector)
        m = np.clip(mean, 0, 1) * self.width
        above = 2 * (self.width - m) * moved.above + moved.above_squares
        below = 2 * m * moved.below + moved.below_squares
        return np.asarray((above + below) / np.maximum(total, 1.0))

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        total, mean, second = self._moments(vector)
        noise = math.sqrt(vector.noise.variance) / self.grid.last
        length = self._length(mean, second - mean * mean)
        widest = np.full_like(total, _MOST / 2)
        error = np.divide(noise * length, total, out=widest, where=total > 0)
        return np.minimum(error, _MOST / 2)

    def _moments(self, vector: NoisyVector) -> tuple[Floats, Floats, Floats]:
        b0, b1, b2 = (row.astype(np.float64) / self.grid.last for row in vector.coordinates)
        total = b0 + b1 + b2
        safe = np.where(total > 0, total, 1.0)
        return total, (b1 / 2 + b2) / safe, b2 / safe

    @staticmethod
    def _length(mean: Floats, variance: Floats) -> Floats:
        m, v = np.clip(mean, 0, 1), np.clip(variance, 0, _MOST)
        squared = (m * m - v) ** 2 + (m * (1 - m) + v) ** 2 + ((1 - m) ** 2 - v) ** 2
        return np.sqrt(squared)


@dataclass(frozen=True)
class VarianceEstimator(UnitVariance, ForecastableEstimator):
    """Population variance, in squared units of the column."""

    def __post_init__(self) -> None:
        """Refuse bounds whose variance a float can't hold."""
        if not _SQUARABLE <= self.width <= 1 / _SQUARABLE:
            raise InvalidBoundsError(
                "the distance between the bounds is too large or too small to be squared",
                hint="ask for the standard deviation, or rescale the column",
            )

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible answer."""
        return 0.0, float(self._answer(np.array([_MOST]))[0])

    def value(self, vector: NoisyVector) -> Floats:
        """Return the variance of each group."""
        return self._answer(super().value(vector))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the variance: see `UnitVariance.interval`."""
        low, high = super().interval(vector, level)
        return self._answer(low), self._answer(high)

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval of the variance of values that are not clipped."""
        return ends[0], ends[1] + self.find_added_variance(vector, moved)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        return super().standard_error(vector) * self.width**2

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale on the sum of squares, in squared units of the column."""
        return spread * self.grid.step * self.width, f"{unit}, on the sums"

    def _answer(self, variance: Floats) -> Floats:
        """Return the answer for a variance on [0, 1]."""
        return variance * self.width**2


@dataclass(frozen=True)
class StandardDeviationEstimator(VarianceEstimator):
    """Population standard deviation, in units of the column: the root of the variance."""

    def __post_init__(self) -> None:
        """Take any bounds: nothing is squared."""

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval of the deviation of values that are not clipped."""
        return ends[0], np.sqrt(ends[1] ** 2 + self.find_added_variance(vector, moved))

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        unit = UnitVariance(self.grid)
        root, error = np.sqrt(unit.value(vector)), unit.standard_error(vector)
        widest = np.sqrt(error)
        first_order = np.divide(error, 2 * root, out=widest, where=root > widest / 2)
        return np.asarray(first_order * self.width)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale on the sum of squares, in squared units of the column."""
        return super().scale(spread, f"squared {unit}")

    def _answer(self, variance: Floats) -> Floats:
        """Return the answer for a variance on [0, 1]."""
        return np.asarray(np.sqrt(variance) * self.width)
