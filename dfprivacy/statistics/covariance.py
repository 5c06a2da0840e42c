"""Covariance and correlation of two columns, each from one noisy vector."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.linear import ROUNDED
from dfprivacy.release.estimator import Draw
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
    reader: ClassVar[type[PairEstimator]] = CovarianceEstimator

    def unit(self, *, found: bool = False) -> str:  # noqa: ARG002 nothing is found
        """Return the product of the columns' units."""
        return f"units of {self.x!r} times units of {self.y!r}"


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
    reader: ClassVar[type[PairEstimator]] = CorrelationEstimator

    def unit(self, *, found: bool = False) -> str:  # noqa: ARG002 nothing is found
        """Return what it is, as it has no unit."""
        return "points of correlation, which lies from -1 to 1"
