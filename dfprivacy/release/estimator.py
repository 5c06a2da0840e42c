"""Read counts, ratios and proportions off noisy vectors: a value, an interval, a standard error.

The three means of Kulesza, Suresh and Wang (2023) and the mean that comes with the variance are
all theta = (u . s) / (v . s) for the noisy vector s and public integer weights u, v; their interval
is Fieller's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import Grid, grid_from_lower
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import bound_sum


@dataclass(frozen=True)
class ClippingBias:
    """A bound on the bias of clipped sums of some groups, in units of the column.

    For the rows below the bounds and those above: the sum of their distances from the bound, and
    that of the squares of these.
    """

    below: Floats
    below_squares: Floats
    above: Floats
    above_squares: Floats


_DOUBT = 0.05  # probability that there are fewer rows than what was clipped is shared among
Ends = tuple[Floats, Floats]
"""The lower and the upper ends of the intervals of some groups."""


class Estimator(ABC):
    """A pure function of a noisy vector and public facts, vectorized over groups."""

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible answer."""
        return -math.inf, math.inf

    @property
    def reads(self) -> tuple[int, ...] | None:
        """The coordinates that it reads, None for all."""
        return None

    @abstractmethod
    def value(self, vector: NoisyVector) -> npt.NDArray[Any]:
        """Return the estimate of each group."""

    @abstractmethod
    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends between which the noise-free answer lies with probability `level`."""

    @abstractmethod
    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise in each estimate."""

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:  # noqa: ARG002 one interface
        """Return the interval of values that are not clipped; the same where none are."""
        return ends

    def add_counts(self, counts: NoisyVector) -> Estimator:  # noqa: ARG002 one interface
        """Return an estimator that may read rows off the counts of what bounds clip."""
        return self


class ForecastableEstimator(Estimator):
    """An estimator whose error is known before there is data.

    One of clipped values has a `grid`.
    """

    def half_widths(self, expected: NoisyVector, level: float) -> Floats:
        """Return how far the ends of intervals lie from estimates off sums that are expected."""
        value, (low, high) = self.value(expected), self.interval(expected, level)
        return np.where(np.isnan(value), np.inf, np.maximum(high - value, value - low))

    @abstractmethod
    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale of the noise on the sums behind an estimate, and its unit in words."""


@dataclass(frozen=True)
class WrappedEstimator(Estimator):
    """An estimator whose interval has room for more than the noise."""

    estimator: Estimator

    @property
    def grid(self) -> Any:
        """The grid of the values, with their bounds; None for a count."""
        return getattr(self.estimator, "grid", None)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible answer."""
        return self.estimator.limits

    def value(self, vector: NoisyVector) -> npt.NDArray[Any]:
        """Return the estimate of each group."""
        return np.asarray(self.estimator.value(vector))

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise in each estimate."""
        return np.asarray(self.estimator.standard_error(vector))


@dataclass(frozen=True)
class BiasedEstimator(WrappedEstimator):
    """An estimator whose interval has room for the rows that limits of a unit leave out."""

    below: float
    above: float

    def interval(self, vector: NoisyVector, level: float) -> Ends:
        """Return the interval of the noise, wider by the bias; means stay within their bounds."""
        low, high = self.estimator.interval(vector, level)
        low, high = low - self.below, high + self.above
        if isinstance(self.estimator, RatioEstimator):
            grid = self.estimator.grid
            return np.maximum(low, grid.lower), np.minimum(high, grid.upper)
        return low, high


@dataclass(frozen=True)
class CountEstimator(ForecastableEstimator):
    """Unbiased count, rounded to the nearest integer; it may be negative, its interval only then.

    A `nonnegative` one shows 0 instead.
    """

    weights: CountWeights
    nonnegative: bool = False

    @property
    def reads(self) -> tuple[int, ...]:
        """The coordinates that it reads."""
        return self.weights.indices

    def value(self, vector: NoisyVector) -> npt.NDArray[np.int64]:
        """Return the count of each group."""
        total, divisor = vector.total(self.weights.indices), self.weights.divisor
        if total.dtype == object:  # integers of any size, rounded half up within an int64
            limit = 2**63 - 1
            exact = [(2 * int(t) + divisor) // (2 * divisor) for t in total]
            value = np.array([min(max(n, -limit), limit) for n in exact], dtype=np.int64)
        else:
            quotient, rest = np.divmod(total, divisor)
            value = np.asarray(quotient + (2 * rest >= divisor), dtype=np.int64)
        return np.maximum(value, 0) if self.nonnegative else value

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the exact law of the noise, and the count in any case."""
        terms = len(self.weights.indices)
        half = vector.noise.quantile(1 - level, terms) / self.weights.divisor
        middle = vector.total(self.weights.indices).astype(np.float64) / self.weights.divisor
        value = self.value(vector).astype(np.float64)
        low, high = np.ceil(middle - half - _EDGE), np.floor(middle + half + _EDGE)
        return np.minimum(np.maximum(low, 0.0), value), np.maximum(np.maximum(high, 0.0), value)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise."""
        terms = len(self.weights.indices)
        error = math.sqrt(terms * vector.noise.variance) / self.weights.divisor
        return np.full(vector.coordinates.shape[1], error)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale in rows."""
        return spread / self.weights.divisor, unit


_EDGE = 1e-9  # a true count at the very end of an interval stays inside despite float division


Weights = tuple[int, ...]


@dataclass(frozen=True)
class RatioEstimator(ForecastableEstimator):
    """The clipped ratio theta = (numerator . s)/(denominator . s), in units of the column.

    An answer is anchor + offset + unit * theta; `least` and `most` bound theta. Where the noisy
    denominator is not positive the answer is the middle: post-processing of public numbers, so
    that no row count needs a case of its own.
    """

    numerator: Weights
    denominator: Weights
    minimum: float
    maximum: float
    unit: float
    grid: Grid
    offset: float = 0.0

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible answer."""
        return self.grid.lower, self.grid.upper

    def theta(self, vector: NoisyVector) -> Floats:
        """Return the clipped ratio of each group."""
        above, below = _dot(self.numerator, vector), _dot(self.denominator, vector)
        middle = (self.minimum + self.maximum) / 2
        ratio = np.divide(above, below, out=np.full_like(above, middle), where=below > 0)
        return np.clip(ratio, self.minimum, self.maximum)

    def value(self, vector: NoisyVector) -> Floats:
        """Return the mean of each group, in units of the column."""
        return self._units(self.theta(vector))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return Fieller's interval, half a grid step wider; all of the bounds where it is open."""
        low, high = self.theta_interval(vector, level)
        slack = self.grid.step / 2
        lower, upper = self._units(low) - slack, self._units(high) + slack
        return np.maximum(lower, self.grid.lower), np.minimum(upper, self.grid.upper)

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval of the mean of values that are not clipped."""
        doubt = bound_sum(vector.noise, _DOUBT) * math.hypot(*self.denominator)
        weight = self.denominator[0] * self.grid.last
        rows = np.maximum((_dot(self.denominator, vector) - doubt) / weight, 1.0)
        return ends[0] - moved.below / rows, ends[1] + moved.above / rows

    def theta_interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the theta for which u.s - theta v.s is within its noise (Fieller 1954).

        The noise of u.s - theta v.s has variance noise.variance * |u - theta v|^2, so that the
        set is the solution of a quadratic inequality in theta.
        """
        u, v = np.array(self.numerator, dtype=float), np.array(self.denominator, dtype=float)
        above, below = _dot(self.numerator, vector), _dot(self.denominator, vector)
        spread = bound_sum(vector.noise, 1 - level) ** 2
        a = below * below - spread * float(v @ v)
        half_b = above * below - spread * float(u @ v)
        c = above * above - spread * float(u @ u)
        root = np.sqrt(np.maximum(half_b * half_b - a * c, 0))
        closed = (a > 0) & (below > 0)
        low, high = np.full_like(above, self.minimum), np.full_like(above, self.maximum)
        np.divide(half_b - root, a, out=low, where=closed)
        np.divide(half_b + root, a, out=high, where=closed)
        low, high = (
            np.clip(low, self.minimum, self.maximum),
            np.clip(high, self.minimum, self.maximum),
        )
        return low, high

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation, at most that of knowing the bounds only."""
        theta, below = self.theta(vector), _dot(self.denominator, vector)
        squared = sum(
            (u - theta * v) ** 2 for u, v in zip(self.numerator, self.denominator, strict=True)
        )
        noise = np.sqrt(vector.noise.variance * squared)
        widest = (self.maximum - self.minimum) / 2
        error = np.divide(noise, below, out=np.full_like(below, widest), where=below > 0)
        return np.minimum(error, widest) * self.unit

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale on the numerator, in units of the answer."""
        return spread * self.unit / self.grid.largest, f"{unit}, on the sums"

    def _units(self, theta: Floats) -> Floats:
        value = self.grid.anchor + self.offset + self.unit * theta
        return np.clip(value, self.grid.lower, self.grid.upper)


@dataclass(frozen=True)
class ProportionEstimator(ForecastableEstimator):
    """The coordinate at `index` of `size` ones that add up to `k` a row, as a part of all."""

    size: int
    index: int
    k: int
    unit: float = 1.0

    @cached_property
    def _ratio(self) -> RatioEstimator:
        part = tuple(int(index == self.index) for index in range(self.size))
        grid = grid_from_lower(Bounds(0.0, self.unit))
        return RatioEstimator(part, (1,) * self.size, 0.0, 1.0, self.unit, grid)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible answer."""
        return 0.0, self.unit

    def value(self, vector: NoisyVector) -> Floats:
        """Return the part of each group."""
        return self._ratio.value(vector)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return Fieller's interval."""
        return self._ratio.interval(vector, level)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        return self._ratio.standard_error(vector)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale on the sums, in units of the answer."""
        return spread * self.unit / self.k, f"{unit}, on the sums"


def _dot(weights: Weights, vector: NoisyVector) -> Floats:
    total = np.zeros(vector.coordinates.shape[1])
    for weight, row in zip(weights, vector.coordinates, strict=True):
        if weight:
            total += weight * row.astype(np.float64)
    return total
