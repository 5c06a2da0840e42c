"""Straight lines through two columns: slope, intercept and R squared from one noisy vector."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.release.estimator import Draw, HalfWidths
from dfprivacy.release.terms import BoundsLike
from dfprivacy.statistics.base import argument
from dfprivacy.statistics.covariance import PAIR_BOUNDS, CorrelationEstimator
from dfprivacy.statistics.pairs import (
    Moments,
    PairEstimator,
    PairStatistic,
    Ratio,
    product,
    squared,
)


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
    reader: ClassVar[type[PairEstimator]] = SlopeEstimator

    def unit(self, *, found: bool = False) -> str:  # noqa: ARG002 nothing is found
        """Return the ratio of the columns' units."""
        return f"units of {self.y!r} a unit of {self.x!r}"


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
    reader: ClassVar[type[PairEstimator]] = InterceptEstimator

    def unit(self, *, found: bool = False) -> str:  # noqa: ARG002 nothing is found
        """Return units of the explained column."""
        return f"units of {self.y!r}"


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
    reader: ClassVar[type[PairEstimator]] = RSquaredEstimator

    def unit(self, *, found: bool = False) -> str:  # noqa: ARG002 nothing is found
        """Return what it is, as it has no unit."""
        return "parts of the variance, from 0 to 1"
