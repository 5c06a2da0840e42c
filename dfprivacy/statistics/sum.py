"""The sum: one noisy coordinate in units of the grid."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.grid import Grid, grid_from_zero
from dfprivacy.measurement.linear import CountWeights, Linear, OnGrid, Source
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.release.estimator import Draw, Ends, HalfWidths, Moved, to_floats
from dfprivacy.release.terms import Bounds, BoundsLike, bounds_of
from dfprivacy.statistics.base import BOUNDS_DOC, argument
from dfprivacy.statistics.linear import CLIPPING_DOC, LinearStatistic


@dataclass(frozen=True)
class Sum(LinearStatistic):
    """The sum of a column, each value clipped to the bounds.

    Sensitivity max(abs(lower), abs(upper)); unbiased for the clipped values. By group, the sum
    brings a count with it: free where the bounds have one sign, else for a fifth of the
    sensitivity. Without bounds, bounds are found privately at powers of two.
    """

    kind: ClassVar[str] = "sum"
    aliases: ClassVar[tuple[str, ...]] = ("total",)
    sql_names: ClassVar[tuple[str, ...]] = ("sum",)
    title: ClassVar[str] = "the sum"
    example: ClassVar[str] = 'df.dp.sum("x", (0, 100), epsilon=1)'
    stand_in: ClassVar[Bounds] = Bounds(-1, 1)
    totals: ClassVar[bool] = True

    column: Hashable = argument("The column of numbers.")
    bounds: BoundsLike | None = argument(BOUNDS_DOC, None)
    clipping: bool = argument(CLIPPING_DOC, True)  # noqa: FBT003 a default

    def linear(self, *, grouped: bool) -> Linear:
        """Return the sum of x, and what counts rows where groups have to be counted."""
        bounds = self.required_bounds()
        q = OnGrid(self.column, grid_from_zero(bounds))
        w = q.grid.largest
        if not grouped:
            return Linear(Source(q.columns, (q,)), ((0, 1),), w, w * w)
        if bounds.lower >= 0 or bounds.upper <= 0:
            sign = 1 if bounds.lower >= 0 else -1
            return Linear.unity((q,), ((0, sign), (w, -sign)), w)
        aside = math.ceil(w / 4)
        matrix, l2_squared = ((0, 1), (aside, 0)), w * w + aside * aside
        source = Source(q.columns, (q,))
        return Linear(source, matrix, w + aside, l2_squared, CountWeights((1,), aside))

    def estimator(self, linear: Linear) -> SumEstimator:
        """Return the first coordinate in units of the grid."""
        grid = grid_from_zero(self.required_bounds())
        return SumEstimator(grid.step * linear.matrix[0][1], grid)

    def unit(self, *, found: bool = False) -> str:
        """Return units of the column: noise goes by the larger end of bounds that are found."""
        return "the larger end of the bounds found" if found else super().unit()

    def whole(self, rows: int) -> float:
        """Return the largest sum that so many rows can have."""
        bounds = bounds_of(self.bounds)
        return rows * (1.0 if bounds is None else max(abs(bounds.lower), abs(bounds.upper)))

    @property
    def halve(self) -> tuple[str, ...]:
        """Narrower bounds."""
        return () if self.bounds is None else ("halve both bounds",)


@dataclass(frozen=True)
class SumEstimator:
    """Unbiased sum; `unit` is the step of the grid, negative where the query counts downwards."""

    unit: float
    grid: Grid
    reads: ClassVar[tuple[int, ...]] = (0,)
    """The coordinate that it reads."""

    def value(self, vector: NoisyVector) -> Floats:
        """Return the sum of each group, in units of the column; at most the largest float."""
        return _finite(self.unit, to_floats(vector.coordinates[0]))

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the exact law of the noise."""
        half = float(vector.noise.quantile(1 - level))
        middle = to_floats(vector.coordinates[0])
        ends = _finite(self.unit, middle - half), _finite(self.unit, middle + half)
        return np.minimum(*ends), np.maximum(*ends)

    def widened(self, vector: NoisyVector, ends: Ends, moved: Moved) -> Ends:  # noqa: ARG002 one interface
        """Return the interval of the sum of values that are not clipped."""
        return ends[0] - moved.below, ends[1] + moved.above

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the standard deviation of the noise, in units of the column."""
        error = np.full(vector.coordinates.shape[1], math.sqrt(vector.noise.variance))
        return _finite(abs(self.unit), error)

    def half_widths(self, draw: Draw, rows: Floats) -> HalfWidths:
        """Return the half-width of the exact law, and half a grid step for each row."""
        half = abs(self.unit) * (draw.noise.quantile(1 - draw.level) + rows / 2)
        return HalfWidths(half, half)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:
        """Return the scale in units of the column."""
        return spread * abs(self.unit), unit


def _finite(unit: float, integers: Floats) -> Floats:
    """Return unit * integers, the largest float where that overflows."""
    with np.errstate(over="ignore"):
        product = unit * integers
    largest = np.finfo(np.float64).max
    return np.clip(product, -largest, largest)
