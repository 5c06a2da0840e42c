"""Answer sums, and means by the transformed noise of Kulesza, Suresh and Wang 2023, Algorithm 3.

A sum is one noisy coordinate, by group two, which add up to the same for every row; a mean is the
ratio of two. The other forms of means that papers print are in `dfprivacy.papers`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.bounds import Bounds, BoundsLike, read_bounds
from dfprivacy.measurement.grid import Grid, grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import WHOLE, CountWeights, Linear, OnGrid, Source
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import Noise, bound_sum
from dfprivacy.release.estimator import (
    ClippingBias,
    CountEstimator,
    Ends,
    ForecastableEstimator,
    RatioEstimator,
)
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import CLIPPING_DOC, LinearStatistic


@dataclass(frozen=True)
class Bounded(LinearStatistic):
    """A statistic of a column of numbers within bounds, whose sums can bring a count along."""

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)
    clipping: bool = argument(CLIPPING_DOC, True)  # noqa: FBT003 a default

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:
        """Return the estimator of the count of the column, where the sums have one."""
        if other != Count(self.column) or linear.count is None:
            return None
        return CountEstimator(linear.count)


@dataclass(frozen=True)
class Sum(Bounded):
    """The sum of a column, each value clipped to the bounds.

    Unbiased for the clipped values. The noise is that of sensitivity max(abs(lower), abs(upper)),
    by group of hypot(lower, upper) where the bounds have two signs: a count comes with it, off the
    same vector (docs/explanation/partition-of-unity.md). Without bounds, bounds are found privately
    at powers of two.
    """

    kind: ClassVar[str] = "sum"
    aliases: ClassVar[tuple[str, ...]] = ("total",)
    sql_names: ClassVar[tuple[str, ...]] = ("sum",)
    title: ClassVar[str] = "the sum"
    example: ClassVar[str] = 'df.dp.sum("x", (0, 100), epsilon=1)'
    stand_in: ClassVar[Bounds] = Bounds(-1, 1)
    totals: ClassVar[bool] = True

    def linear(self, *, grouped: bool) -> Linear:
        """Return the sum of x; where groups are counted, of its distances from 0 or both bounds."""
        q = OnGrid(self.column, grid_from_zero(self.require_bounds()))
        if not grouped:
            w = q.grid.largest
            return Linear(Source(q.columns, (q,)), ((0, 1),), w, w * w)
        first, last = min(q.grid.first, 0), max(q.grid.last, 0)
        return Linear.unity((q,), ((-first, 1), (last, -1)), last - first)

    def estimator(self, linear: Linear) -> SumEstimator:
        """Return the estimator of the sum from two distances, or from one coordinate."""
        grid = grid_from_zero(self.require_bounds())
        if len(linear.matrix) == 1:
            return SumEstimator((grid.step,), grid)
        (below, _), (last, _) = linear.matrix
        return SumEstimator.of_unity((grid.step * last, -grid.step * below), last + below, grid)

    def unit(self, *, found_bounds: bool = False) -> str:
        """Return units of the column: noise goes by the larger end of bounds that are found."""
        return "the larger end of the bounds found" if found_bounds else super().unit()

    def percent_base(self, rows: int) -> float:
        """Return the largest sum of a number of rows."""
        bounds = read_bounds(self.bounds)
        return rows * (1.0 if bounds is None else max(abs(bounds.lower), abs(bounds.upper)))


_OUTSIDE = 2.0**-40  # the probability that there are more rows than an interval makes room for


@dataclass(frozen=True)
class SumEstimator(ForecastableEstimator):
    """Unbiased sum: the coordinates times their weights, in units of the column."""

    weights: tuple[float, ...]
    grid: Grid
    count: CountWeights | None = None
    """The count of rows in the coordinates, or in `counts` if there are any."""
    counts: NoisyVector | None = field(default=None, compare=False)

    @classmethod
    def of_unity(cls, values: Sequence[float], k: int, grid: Grid) -> SumEstimator:
        """Return the estimator of a sum from coordinates that add up to `k` for each row.

        A row's number is the mean of these `values`, weighted by its coordinates.
        """
        count = CountWeights(tuple(range(len(values))), k)
        return cls(tuple(value / k for value in values), grid, count)

    def add_counts(self, counts: NoisyVector) -> SumEstimator:
        """Return an estimator that reads rows off the counts of what bounds clip."""
        if self.count is not None:
            return self
        indices = tuple(range(len(counts.coordinates)))
        return replace(self, count=CountWeights(indices, WHOLE), counts=counts)

    @property
    def reads(self) -> tuple[int, ...]:
        """The coordinates that it reads."""
        return tuple(index for index, weight in enumerate(self.weights) if weight)

    def value(self, vector: NoisyVector) -> Floats:
        """Return the sum of each group, in units of the column; at most the largest float."""
        largest = max(map(abs, self.weights))
        pairs = zip(self.weights, vector.coordinates, strict=True)
        total = sum(weight / largest * row.astype(np.float64) for weight, row in pairs if weight)
        return _finite(largest, np.asarray(total))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of noise and rounding; one coordinate has the exact law of noise."""
        middle = self.value(vector)
        half = self._half(vector.noise, level) + self._rounding(vector)
        low, high = _finite(1.0, middle - half), _finite(1.0, middle + half)
        if self.grid.lower >= 0:  # no sum is below 0, but the interval holds the answer
            low = np.maximum(low, np.minimum(middle, 0.0))
        if self.grid.upper <= 0:
            high = np.minimum(high, np.maximum(middle, 0.0))
        return low, high

    def _half(self, noise: Noise, level: float) -> float:
        if len(self.reads) == 1:
            return self._length * float(noise.quantile(1 - level))
        return self._length * bound_sum(noise, 1 - level)

    def _rounding(self, vector: NoisyVector) -> Floats | float:
        """Return half a grid step for each row that there may be, nothing where none is counted."""
        if self.count is None:
            return 0.0
        counts, indices = self.counts or vector, self.count.indices
        reach = bound_sum(counts.noise, _OUTSIDE) * math.sqrt(len(indices))
        rows = (counts.total(indices).astype(np.float64) + reach) / self.count.divisor
        return self.grid.step / 2 * np.maximum(rows, 0.0)

    @property
    def _length(self) -> float:
        return math.hypot(*self.weights)

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:  # noqa: ARG002 one interface
        """Return the interval of the sum of values that are not clipped."""
        return ends[0] - moved.below, ends[1] + moved.above

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise, in units of the column."""
        error = np.full(vector.coordinates.shape[1], math.sqrt(vector.noise.variance))
        return _finite(self._length, error)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale in units of the column."""
        return spread * self._length, unit


def _finite(unit: float, numbers: Floats) -> Floats:
    """Return unit * numbers, the largest float where that overflows."""
    with np.errstate(over="ignore"):
        product = unit * numbers
    largest = np.finfo(np.float64).max
    return np.clip(product, -largest, largest)


@dataclass(frozen=True)
class Mean(Bounded):
    """The mean of a column, each value clipped to the bounds (units of the column).

    The number of rows stays secret. Source: Kulesza, Suresh and Wang 2023, Algorithm 3. Without
    bounds, bounds are found privately at powers of two.
    """

    kind: ClassVar[str] = "mean"
    aliases: ClassVar[tuple[str, ...]] = ("average", "avg")
    sql_aliases: ClassVar[tuple[str, ...]] = ("avg",)
    sql_names: ClassVar[tuple[str, ...]] = ("avg", "mean")
    title: ClassVar[str] = "the mean"
    example: ClassVar[str] = 'df.dp.mean("x", (0, 100), epsilon=1)'

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the sums of q and of K - q, whose ratio is the mean."""
        q = OnGrid(self.column, grid_from_lower(self.require_bounds()))
        return Linear.unity((q,), ((0, 1), (q.grid.last, -1)), q.grid.last)

    def estimator(self, linear: Linear) -> RatioEstimator:  # noqa: ARG002 the grid says all
        """Return the ratio of the two sums."""
        grid = grid_from_lower(self.require_bounds())
        return RatioEstimator((1, 0), (1, 1), 0.0, 1.0, grid.last * grid.step, grid)

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:
        """Return the estimator of the sum of the column, or of its count."""
        if isinstance(other, Sum) and replace(other, clipping=True) == Sum(
            self.column, self.bounds
        ):
            grid = grid_from_lower(self.require_bounds())
            ends = grid.anchor + grid.last * grid.step, grid.anchor
            return SumEstimator.of_unity(ends, grid.last, grid)
        return super().estimator_for(other, linear)
