"""Means within bounds as printed by Kulesza, Suresh and Wang 2023, Algorithms 1 and 2.

`mean` is their Algorithm 3. Proofs: docs/explanation/partition-of-unity.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dfprivacy.measurement.bounds import BoundsLike
from dfprivacy.measurement.grid import grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import CountWeights, Linear, OnGrid, Source
from dfprivacy.release.estimator import RatioEstimator
from dfprivacy.statistics.base import argument
from dfprivacy.statistics.linear import LinearStatistic


@dataclass(frozen=True)
class _PrintedMean(LinearStatistic):
    """A mean within given bounds that counts no clipped rows."""

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument("What values are clipped to, (lower, upper).", None)

    finds_bounds = False

    def check(self) -> None:
        """Require bounds."""
        self.require_bounds()


@dataclass(frozen=True)
class ShiftedMean(_PrintedMean):
    """The mean as a noisy sum around the middle of the bounds, over a noisy count.

    Source: Kulesza, Suresh and Wang 2023, Algorithm 2. `mean` is more accurate.
    """

    kind: ClassVar[str] = "shifted_mean"
    title: ClassVar[str] = "the mean by a shifted sum"
    example: ClassVar[str] = 'df.dp.shifted_mean("x", (0, 100), epsilon=1)'

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the sum of 2q - K, and K times the rows."""
        q = OnGrid(self.column, grid_from_lower(self.require_bounds()))
        k = q.grid.last
        source, weights = Source(q.columns, (q,)), CountWeights((1,), k)
        return Linear(source, ((-k, 2), (k, 0)), 2 * k, 2 * k * k, weights)

    def estimator(self, linear: Linear) -> RatioEstimator:  # noqa: ARG002 the grid says all
        """Return the ratio of the two sums, from -1 to 1."""
        grid = grid_from_lower(self.require_bounds())
        half = grid.last * grid.step / 2
        return RatioEstimator((1, 0), (0, 1), -1.0, 1.0, half, grid, offset=half)


@dataclass(frozen=True)
class IndependentMean(_PrintedMean):
    """The mean as a noisy sum over a noisy count.

    Source: Kulesza, Suresh and Wang 2023, Algorithm 1. `mean` is more accurate.
    """

    kind: ClassVar[str] = "independent_mean"
    title: ClassVar[str] = "the mean by independent noise"
    example: ClassVar[str] = 'df.dp.independent_mean("x", (0, 100), epsilon=1)'

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the sum of x, and the largest size of x times the rows."""
        q = OnGrid(self.column, grid_from_zero(self.require_bounds()))
        w = q.grid.largest
        source, weights = Source(q.columns, (q,)), CountWeights((1,), w)
        return Linear(source, ((0, 1), (w, 0)), 2 * w, 2 * w * w, weights)

    def estimator(self, linear: Linear) -> RatioEstimator:  # noqa: ARG002 the grid says all
        """Return the ratio of the two sums, between the bounds."""
        grid = grid_from_zero(self.require_bounds())
        ends = grid.first / grid.largest, grid.last / grid.largest
        return RatioEstimator((1, 0), (0, 1), *ends, grid.largest * grid.step, grid)
