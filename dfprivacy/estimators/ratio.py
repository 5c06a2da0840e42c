"""The mean: a ratio of two noisy sums, with the interval of Fieller.

The three means of Kulesza, Suresh and Wang (2023) and the mean that comes with the variance are
all theta = (u . s) / (v . s) for the noisy vector s and public integer weights u, v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dfprivacy.estimators.estimator import Draw, HalfWidths, half_width_factor, to_floats
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.grid import Grid, grid_from_lower
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.terms import Bounds

Weights = tuple[int, ...]


@dataclass(frozen=True)
class RatioEstimator:
    """The clipped ratio theta = (numerator . s)/(denominator . s), in units of the column.

    An answer is anchor + offset + unit * theta; `least` and `most` bound theta. Where the noisy
    denominator is not positive the answer is the middle: post-processing of public numbers, so
    that no row count needs a case of its own.
    """

    numerator: Weights
    denominator: Weights
    least: float
    most: float
    unit: float
    grid: Grid
    offset: float = 0.0

    def theta(self, vector: NoisyVector) -> Floats:
        """Return the clipped ratio of each group."""
        above, below = _dot(self.numerator, vector), _dot(self.denominator, vector)
        middle = (self.least + self.most) / 2
        ratio = np.divide(above, below, out=np.full_like(above, middle), where=below > 0)
        return np.clip(ratio, self.least, self.most)

    def value(self, vector: NoisyVector) -> Floats:
        """Return the mean of each group, in units of the column."""
        return self._units(self.theta(vector))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return Fieller's interval, half a grid step wider; all of the bounds where it is open."""
        low, high = self.theta_interval(vector, level)
        slack = self.grid.step / 2
        lower, upper = self._units(low) - slack, self._units(high) + slack
        return np.maximum(lower, self.grid.lower), np.minimum(upper, self.grid.upper)

    def theta_interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the theta for which u.s - theta v.s is within its noise (Fieller 1954).

        The noise of u.s - theta v.s has variance noise.variance * |u - theta v|^2, so that the
        set is the solution of a quadratic inequality in theta.
        """
        u, v = np.array(self.numerator, dtype=float), np.array(self.denominator, dtype=float)
        above, below = _dot(self.numerator, vector), _dot(self.denominator, vector)
        factor = half_width_factor(vector.noise, 1 - level)
        spread = (factor * math.sqrt(vector.noise.variance) + 1) ** 2
        a = below * below - spread * float(v @ v)
        half_b = above * below - spread * float(u @ v)
        c = above * above - spread * float(u @ u)
        root = np.sqrt(np.maximum(half_b * half_b - a * c, 0))
        closed = (a > 0) & (below > 0)
        low, high = np.full_like(above, self.least), np.full_like(above, self.most)
        np.divide(half_b - root, a, out=low, where=closed)
        np.divide(half_b + root, a, out=high, where=closed)
        low, high = np.clip(low, self.least, self.most), np.clip(high, self.least, self.most)
        return low, high

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation, at most that of knowing the bounds only."""
        theta, below = self.theta(vector), _dot(self.denominator, vector)
        squared = sum((u - theta * v) ** 2 for u, v in self._pairs())
        noise = np.sqrt(vector.noise.variance * squared)
        widest = (self.most - self.least) / 2
        error = np.divide(noise, below, out=np.full_like(below, widest), where=below > 0)
        return np.minimum(error, widest) * self.unit

    def half_widths(self, draw: Draw, rows: Floats) -> HalfWidths:
        """Return half-widths at the worst place of the data, and in the middle of the bounds."""
        u, v = np.array(self.numerator, float), np.array(self.denominator, float)
        constants = np.array([row[0] for row in draw.linear.matrix], float)
        below, spread = rows * float(v @ constants), draw.spread()
        reach = self.most - self.least
        longest = max(float(np.linalg.norm(u - end * v)) for end in (self.least, self.most))
        certain = np.minimum(spread * longest / below, reach)
        middle = u - (self.least + self.most) / 2 * v
        ordinary = np.minimum(_fieller(middle, v, spread, below), reach / 2)
        slack = self.grid.step / 2
        return HalfWidths(*(self.unit * half + slack for half in (certain, ordinary)))

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale on the numerator, in units of the answer."""
        return spread * self.unit / self.grid.largest, f"{unit}, on the sums"

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.numerator, self.denominator, strict=True))

    def _units(self, theta: Floats) -> Floats:
        value = self.grid.anchor + self.offset + self.unit * theta
        return np.clip(value, self.grid.lower, self.grid.upper)


@dataclass(frozen=True)
class ProportionEstimator:
    """One coordinate of a partition of unity as a part of all: from 0 to 1, times `unit`.

    Parameters
    ----------
    size, place : int
        How many coordinates there are, and which one is the part.
    k : int
        What the coordinates of a row add up to.
    unit : float
        What the whole is in units of the answer.
    """

    size: int
    place: int
    k: int
    unit: float = 1.0

    @property
    def _ratio(self) -> RatioEstimator:
        part = tuple(int(index == self.place) for index in range(self.size))
        grid = grid_from_lower(Bounds(0.0, self.unit))
        return RatioEstimator(part, (1,) * self.size, 0.0, 1.0, self.unit, grid)

    def value(self, vector: NoisyVector) -> Floats:
        """Return the part of each group."""
        return self._ratio.value(vector)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return Fieller's interval."""
        return self._ratio.interval(vector, level)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        return self._ratio.standard_error(vector)

    def half_widths(self, draw: Draw, rows: Floats) -> HalfWidths:
        """Return half-widths at the worst part, and where the part is one half."""
        return self._ratio.half_widths(draw, rows)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale on the sums, in units of the answer."""
        return spread * self.unit / self.k, f"{unit}, on the sums"


def _dot(weights: Weights, vector: NoisyVector) -> Floats:
    total = np.zeros(vector.coordinates.shape[1])
    for weight, row in zip(weights, vector.coordinates, strict=True):
        if weight:
            total += weight * to_floats(row)
    return total


def _fieller(x: Floats, v: Floats, spread: float, below: Floats) -> Floats:
    """Return the larger W with W below = spread * norm(x - W v), or norm(x + W v)."""
    square = spread**2
    a = below**2 - square * float(v @ v)
    half_b = abs(float(x @ v)) * square
    root = np.sqrt(half_b**2 + np.maximum(a, 0) * square * float(x @ x))
    return np.divide(half_b + root, a, out=np.full_like(below, np.inf), where=a > 0)
