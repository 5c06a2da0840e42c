"""Covariance, correlation and the straight line of two columns, each from one noisy vector."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.linear import ROUNDED
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.release.estimator import Draw, HalfWidths
from dfprivacy.release.terms import BoundsLike
from dfprivacy.statistics.base import argument
from dfprivacy.statistics.pairs import (
    Moments,
    PairEstimator,
    PairStatistic,
    Ratio,
    product,
    squared,
)

PAIR_BOUNDS = (
    "What values of the {} column are clipped to, (lower, upper): from what you know about the "
    "subject, never from the data."
)
"""What the bounds of a statistic of two columns mean."""


@dataclass(frozen=True)
class CovarianceEstimator(PairEstimator):
    """The covariance: E[(a - mean)(b - mean)] over 1."""

    least: ClassVar[float] = -0.25
    most: ClassVar[float] = 0.25

    @property
    def unit(self) -> float:
        """The product of both widths."""
        x, y = self.widths
        return x * y

    def ratio(self, held: Moments) -> Ratio:
        """Return the mean product over 1."""
        above = product(held.off_x, held.off_y)
        return Ratio(above, product(held.one, held.one), lambda x, y, _: x * y)

    def _certain(self, draw: Draw, rows: Floats) -> Floats:
        """Return a half-width for any data: weights are the longest where all rows are one corner.

        There a mean's distance from a is 1 at the other end, and 1/2 in the middle of degree 2.
        """
        x, y = (1 if degree == 1 else math.sqrt(1.25) for degree in self.degrees)
        wide, high = (math.sqrt(1 + degree) for degree in self.degrees)  # those of a constant
        spread, far = (draw.spread(share) / self.k for share in (0.9, 0.1))
        left, least = (np.maximum(rows - wide * high * own, 1e-300) for own in (spread, far))
        off = spread * x * y / left + far * x * high / least * (far * y * wide / least)
        return np.minimum(off + ROUNDED / self.k, self.most - self.least)


@dataclass(frozen=True)
class CorrelationEstimator(PairEstimator):
    """The correlation: E[(a - mean)(b - mean)] over both deviations."""

    least: ClassVar[float] = -1.0
    most: ClassVar[float] = 1.0
    spans: ClassVar[tuple[bool, bool]] = (True, True)

    @property
    def unit(self) -> float:
        """One."""
        return 1.0

    def ratio(self, held: Moments) -> Ratio:
        """Return the mean product over half of (h (a - mean)^2 + (b - mean)^2 / h).

        With h = sd(b) / sd(a) the second is the product of the deviations, and does not move with
        h to first order.
        """
        known = (held.var_x > 0) & (held.var_y > 0)
        square = np.divide(held.var_y, held.var_x, out=np.ones_like(held.rows), where=known)
        h = np.sqrt(square)
        below = h * product(squared(held.off_x), held.one)
        below = (below + product(held.one, squared(held.off_y)) / h) / 2

        def drift(x: Floats, y: Floats, theta: Floats) -> Floats:
            return np.asarray(x * y + theta / 2 * (h * x * x + y * y / h))

        return Ratio(product(held.off_x, held.off_y), below, drift)


@dataclass(frozen=True)
class _Pair(PairStatistic):
    """Two columns of which neither explains the other; a row that lacks a value is left out."""

    x: Hashable = argument("A column of numbers.")
    y: Hashable = argument("Another column of numbers.")
    x_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("first"), None)
    y_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("second"), None)


@dataclass(frozen=True)
class Covariance(_Pair):
    """The population covariance of two columns, each value clipped to its bounds.

    From noisy sums of (1-a)(1-b), (1-a)b, a(1-b) and ab, without splitting the loss. A row that
    lacks one of the values is left out.
    """

    kind: ClassVar[str] = "cov"
    aliases: ClassVar[tuple[str, ...]] = ("covariance", "covar_pop", "covar")
    sql_aliases: ClassVar[tuple[str, ...]] = ("covar_pop",)
    sql_names: ClassVar[tuple[str, ...]] = ("covar_pop", "covar_samp")
    title: ClassVar[str] = "the population covariance"
    example: ClassVar[str] = 'df.dp.cov("x", "y", (0, 100), (0, 10), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (1, 1)
    units: ClassVar[str] = "units of {x!r} times units of {y!r}"
    reader: ClassVar[type[PairEstimator]] = CovarianceEstimator


@dataclass(frozen=True)
class Correlation(_Pair):
    """Pearson's correlation of two columns, each value clipped to its bounds; from -1 to 1.

    From noisy sums of nine products of Bernstein polynomials, without splitting the loss. A row
    that lacks one of the values is left out.
    """

    kind: ClassVar[str] = "corr"
    aliases: ClassVar[tuple[str, ...]] = ("correlation", "pearson", "corrcoef")
    sql_names: ClassVar[tuple[str, ...]] = ("corr",)
    title: ClassVar[str] = "the correlation"
    example: ClassVar[str] = 'df.dp.corr("x", "y", (0, 100), (0, 10), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 2)
    units: ClassVar[str] = "points of correlation, which lies from -1 to 1"
    reader: ClassVar[type[PairEstimator]] = CorrelationEstimator


@dataclass(frozen=True)
class SlopeEstimator(PairEstimator):
    """The slope: E[(a - mean)(b - mean)] over E[(a - mean)^2]."""

    spans: ClassVar[tuple[bool, bool]] = (True, False)

    @property
    def unit(self) -> float:
        """The ratio of the widths."""
        x, y = self.widths
        return y / x

    def ratio(self, held: Moments) -> Ratio:
        """Return the mean product over the mean square."""

        def drift(x: Floats, y: Floats, theta: Floats) -> Floats:
            return np.asarray(x * (y + theta * x))

        below = product(squared(held.off_x), held.one)
        return Ratio(product(held.off_x, held.off_y), below, drift)


@dataclass(frozen=True)
class InterceptEstimator(PairEstimator):
    """The line at the a that stands for x = 0, in parts of the bounds of y."""

    spans: ClassVar[tuple[bool, bool]] = (True, False)
    even: ClassVar[float] = 0.5

    @property
    def unit(self) -> float:
        """The width of the explained column."""
        return self.widths[1]

    @property
    def start(self) -> float:
        """The lower bound of the explained column."""
        return self.grids[1].anchor

    def ratio(self, held: Moments) -> Ratio:
        """Return E[w (b - slope (a - zero))] over E[w].

        With w = variance + (zero - mean)(a - mean), residuals have no mean whatever the slope is,
        to first order.
        """
        zero = -self.grids[0].anchor / self.widths[0]
        known = held.var_x > 0
        slope = np.divide(held.covariance, held.var_x, out=np.zeros_like(held.rows), where=known)
        lever = zero - held.mean_x
        nothing = np.zeros_like(held.rows)
        first = held.var_x - lever * held.mean_x
        weight = np.stack([first, lever, nothing])
        along = slope * np.stack([first * zero, lever * zero - first, -lever])
        second = np.stack([nothing, nothing + 1, nothing])
        above = product(weight, second) + product(along, held.one)

        def drift(x: Floats, y: Floats, theta: Floats) -> Floats:  # noqa: ARG001 one signature
            return np.asarray((np.abs(lever) + x) * x * (y + np.abs(slope) * x))

        return Ratio(above, product(weight, held.one), drift)


@dataclass(frozen=True)
class RSquaredEstimator(CorrelationEstimator):
    """The square of the correlation."""

    def value(self, vector: NoisyVector) -> Floats:
        """Return the square of the correlation."""
        return np.asarray(super().value(vector) ** 2)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the squares that the correlation's interval holds."""
        low, high = super().interval(vector, level)
        ends = low**2, high**2
        return np.where(low * high > 0, np.minimum(*ends), 0.0), np.maximum(*ends)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise, at least that at 0."""
        error, off = super().standard_error(vector), np.abs(super().value(vector))
        return np.asarray(np.minimum(np.maximum(2 * off * error, error**2), 1.0))

    def half_widths(self, draw: Draw, rows: Floats) -> HalfWidths:
        """Return all that can be for any data, and the square of what independent values have."""
        ordinary = super().half_widths(draw, rows).ordinary ** 2
        return HalfWidths(np.ones_like(rows), ordinary)


@dataclass(frozen=True)
class _Line(PairStatistic):
    """A line y = intercept + slope x by least squares; a row that lacks a value is left out."""

    y: Hashable = argument("The column of numbers that is explained.")
    x: Hashable = argument("The column of numbers that explains it.")
    y_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("explained"), None)
    x_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("explaining"), None)


@dataclass(frozen=True)
class Slope(_Line):
    """The slope of the line of least squares of y on x, each value clipped to its bounds.

    From noisy sums of six products of Bernstein polynomials, without splitting the loss. A row that
    lacks one of the values is left out. NaN where noise hides that x varies.
    """

    kind: ClassVar[str] = "slope"
    aliases: ClassVar[tuple[str, ...]] = ("regression", "regr_slope", "linregress", "ols")
    sql_aliases: ClassVar[tuple[str, ...]] = ("regr_slope",)
    sql_names: ClassVar[tuple[str, ...]] = ("regr_slope",)
    title: ClassVar[str] = "the slope of y on x"
    example: ClassVar[str] = 'df.dp.slope("y", "x", (0, 10), (0, 100), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 1)
    units: ClassVar[str] = "units of {y!r} a unit of {x!r}"
    reader: ClassVar[type[PairEstimator]] = SlopeEstimator


@dataclass(frozen=True)
class Intercept(_Line):
    """Where the line of least squares of y on x is at x = 0, each value clipped to its bounds.

    From the vector of the slope, with which it shares its noise. NaN where noise hides that x
    varies.
    """

    kind: ClassVar[str] = "intercept"
    aliases: ClassVar[tuple[str, ...]] = ("regr_intercept",)
    sql_aliases: ClassVar[tuple[str, ...]] = ("regr_intercept",)
    sql_names: ClassVar[tuple[str, ...]] = ("regr_intercept",)
    title: ClassVar[str] = "the intercept of y on x"
    example: ClassVar[str] = 'df.dp.intercept("y", "x", (0, 10), (0, 100), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 1)
    units: ClassVar[str] = "units of {y!r}"
    reader: ClassVar[type[PairEstimator]] = InterceptEstimator


@dataclass(frozen=True)
class RSquared(_Line):
    """The part of the variance of y that a line through x explains, from 0 to 1.

    The square of the correlation, from the same vector; slope and intercept come with it.
    """

    kind: ClassVar[str] = "r_squared"
    aliases: ClassVar[tuple[str, ...]] = ("r2", "regr_r2", "rsquared", "r2_score")
    sql_aliases: ClassVar[tuple[str, ...]] = ("regr_r2",)
    sql_names: ClassVar[tuple[str, ...]] = ("regr_r2",)
    title: ClassVar[str] = "R squared of y on x"
    example: ClassVar[str] = 'df.dp.r_squared("y", "x", (0, 10), (0, 100), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 2)
    units: ClassVar[str] = "parts of the variance, from 0 to 1"
    reader: ClassVar[type[PairEstimator]] = RSquaredEstimator
