"""The integer grid: how a value becomes an integer, the same one in every engine.

A value x is clipped to [lower, upper] and becomes floor((x - origin) / step), where step is a
power of two and origin lies half a step below the anchor: x is rounded to the nearest
anchor + q * step. Subtraction rounds the same way everywhere and multiplication by a power of two
is exact, so that q has the same bits in numpy, polars and DuckDB; and every operation is monotone,
so that q lies in [first, last] whatever x is.

An even grid has a public number of steps instead, the same for every column: its inverse step is no
power of two, and the product with it is rounded once, the same way everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dfprivacy.errors import InvalidBoundsError
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.release.terms import Bounds

BITS = 30
ROW_LIMIT = 2**33  # BITS + 33 = 63: below it an int64 sum of grid integers can't wrap
EVEN = 2.0**BITS - 2  # steps of an even grid: one more, by rounding, stays below 2**BITS
_LEAST_EXPONENT = -1022  # 2**1022 is the largest inverse step that is a normal float


@dataclass(frozen=True)
class Grid:
    """Integers for values in [lower, upper], in steps of 2**exponent units of the column.

    With `even`, the distance of the bounds has `EVEN` steps.
    """

    lower: float
    upper: float
    anchor: float
    exponent: int
    even: bool = False

    @property
    def step(self) -> float:
        """The distance between neighbouring grid points."""
        return 1 / self.inverse_step if self.even else math.ldexp(1.0, self.exponent)

    @property
    def inverse_step(self) -> float:
        """The factor from units of the column to grid integers."""
        if self.even:
            return min(EVEN / (self.upper - self.lower), math.ldexp(1.0, -_LEAST_EXPONENT))
        return math.ldexp(1.0, -self.exponent)

    @property
    def origin(self) -> float:
        """The value below which everything would round to a negative integer."""
        return self.anchor - self.step / 2

    @property
    def first(self) -> int:
        """The integer of `lower`, and of everything below."""
        return self.integer(self.lower)

    @property
    def last(self) -> int:
        """The integer of `upper`, and of everything above."""
        return self.integer(self.upper)

    @property
    def largest(self) -> int:
        """The largest absolute integer on the grid."""
        return max(abs(self.first), abs(self.last))

    def integer(self, value: float) -> int:
        """Return the integer of one value: the law that the engines follow."""
        clipped = min(max(value, self.lower), self.upper)
        return math.floor((clipped - self.origin) * self.inverse_step)

    def integers(self, values: Floats) -> Integers:
        """Return the integer of each value by the law of `integer`; no value may be NaN.

        >>> Grid(0.0, 3.0, 0.0, exponent=0).integers(np.array([-9.0, 1.4, 1.5, np.inf])).tolist()
        [0, 1, 2, 3]
        """
        return self.wholes(values, np.empty(np.shape(values))).astype(np.int64)

    def wholes(self, values: Floats, out: Floats) -> Floats:
        """Write the integers to `out` as floats, which hold them exactly, and return it."""
        np.clip(values, self.lower, self.upper, out=out)
        out -= self.origin
        out *= self.inverse_step
        return np.floor(out, out=out)


def grid_from_lower(bounds: Bounds) -> Grid:
    """Return the grid that counts from `lower`: integers 0 to at most 2**30."""
    return Grid(bounds.lower, bounds.upper, bounds.lower, _exponent(bounds.width))


def even_grid(bounds: Bounds) -> Grid:
    """Return the grid that counts from `lower` in nearly 2**30 steps."""
    return Grid(bounds.lower, bounds.upper, bounds.lower, _exponent(bounds.width), even=True)


def grid_from_zero(bounds: Bounds) -> Grid:
    """Return the grid that counts from 0: integers of absolute value at most 2**30."""
    size = max(abs(bounds.lower), abs(bounds.upper))
    grid = Grid(bounds.lower, bounds.upper, 0.0, _exponent(size))
    if grid.largest == 0:
        raise InvalidBoundsError("bounds around zero are too small for a sum")
    return grid


def _exponent(size: float) -> int:
    mantissa, exponent = math.frexp(size)
    ceiling = exponent - 1 if mantissa == 0.5 else exponent
    return max(ceiling - BITS, _LEAST_EXPONENT)
