"""The second raw moment of a column: the mean of the squares, as a statistic of one's own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dfprivacy.statistics import (
    BoundsLike,
    Linear,
    LinearStatistic,
    OnGrid,
    ProportionEstimator,
    argument,
    grid_from_zero,
)


@dataclass(frozen=True)
class SecondMoment(LinearStatistic):
    """The mean of the squared values of a column, each value clipped to the bounds.

    A row with the grid integer q adds (p, W - p), where p = q * q // W and W is the largest size of
    q: both are never negative and add up to W, so that one row moves the sums by W, whatever it
    holds. Their ratio is the mean of the squares in units of W and of the grid.
    """

    kind: ClassVar[str] = "second_moment"
    aliases: ClassVar[tuple[str, ...]] = ("mean_square",)
    title: ClassVar[str] = "the mean of the squares"
    example: ClassVar[str] = 'df.dp.second_moment("x", (-5, 5), epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument("What values are clipped to, (lower, upper).", None)

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the squares and what is left of W: a partition of unity."""
        q = OnGrid(self.column, grid_from_zero(self.require_bounds()))
        w = q.grid.largest
        return Linear.unity((q, q * q // w), ((0, 0, 1), (w, 0, -1)), w)

    def estimator(self, linear: Linear) -> ProportionEstimator:  # noqa: ARG002 the grid says all
        """Return the ratio of the squares to all rows, in squared units of the column."""
        grid = grid_from_zero(self.require_bounds())
        size = grid.largest * grid.step
        return ProportionEstimator(2, 0, grid.largest, size * size)

    def unit(self, *, found_bounds: bool = False) -> str:
        """Return squared units."""
        return f"squared {super().unit(found_bounds=found_bounds)}"
