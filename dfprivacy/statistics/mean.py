"""Answer means by the transformed noise of Kulesza, Suresh and Wang 2023, Algorithm 3.

The other forms of means that papers print are in `dfprivacy.papers`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar

from dfprivacy.measurement.bounds import BoundsLike
from dfprivacy.measurement.grid import grid_from_lower
from dfprivacy.measurement.linear import Linear, OnGrid
from dfprivacy.release.estimator import CountEstimator, ForecastableEstimator, RatioEstimator
from dfprivacy.statistics.base import BOUNDS_DOC, Statistic, argument
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import (
    CLIPPING_DOC,
    LinearStatistic,
)
from dfprivacy.statistics.sum import Sum, SumEstimator


@dataclass(frozen=True)
class Mean(LinearStatistic):
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

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)
    clipping: bool = argument(CLIPPING_DOC, True)  # noqa: FBT003 a default

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
        assert linear.count is not None  # noqa: S101 both coordinates count
        return CountEstimator(linear.count) if other == Count(self.column) else None
