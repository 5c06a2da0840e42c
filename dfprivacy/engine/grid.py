"""The grid as engine expressions: the same integers from polars, DuckDB and the others.

Every expression maps one row to an integer and looks at that row only. NULL and NaN become NULL,
which no sum and no count sees; +inf and -inf become the ends of the grid. NaN is named before it
is compared with anything, because engines disagree on how it compares.
"""

from __future__ import annotations

import inspect
import struct

import narwhals as nw
import polars as pl
from narwhals.dtypes import DType

from dfprivacy.statistics.grid import Grid


def is_number(value: nw.Expr) -> nw.Expr:
    """Tell a number, finite or not, from NaN, by tests that no engine answers beforehand.

    DuckDB knows a Parquet column by the file's minimum and maximum, which leave NaN out. From them
    it concludes that x <= upper, or that x is no NaN, for all rows of a file, NaN included: one
    row more or less could then change what all others add. It looks at each row for isfinite, and
    the inverse of an infinite number is finite, while that of NaN is not.
    """
    return value.is_finite() | (1.0 / value).is_finite()


def presence(column: str, *, floating: bool) -> nw.Expr:
    """Return 1 for a row that holds a value, else NULL."""
    value = nw.col(column)
    present = is_number(value) if floating else ~value.is_null()
    return nw.when(present).then(nw.lit(1, nw.Int64))


def grid_integers(column: str, grid: Grid, numbers: DType, *, floating: bool) -> nw.Expr:
    """Return each row's integer on the grid as Int64 or Float64, NULL where it holds no value."""
    value = nw.col(column).cast(nw.Float64)
    inside = (value >= grid.lower) & (value <= grid.upper)
    above, below = value > grid.upper, value < grid.lower
    if floating:
        inside = value.is_finite() & inside
        above, below = above & is_number(value), below & is_number(value)
    scaled = ((value - grid.origin) * grid.inverse_step).floor()
    if numbers.is_integer():
        scaled = scaled.cast(numbers)
    at_last = nw.when(above).then(nw.lit(grid.last, numbers))
    at_first = nw.when(below).then(nw.lit(grid.first, numbers))
    return nw.when(inside).then(scaled).otherwise(at_first.otherwise(at_last))


def plain_grid_integers(column: str, grid: Grid) -> nw.Expr:
    """Return the same integers of a column where NULL stands for NaN already.

    Only numbers on the grid are scaled: some engines work out what a condition then drops.
    """
    scaled = (_clipped(column, grid.lower, grid.upper) - grid.origin) * grid.inverse_step
    return scaled.floor().cast(nw.Int64)


def _clipped(column: str, lower: float, upper: float) -> nw.Expr:
    value = nw.col(column).cast(nw.Float64)
    low, high = nw.lit(lower, nw.Float64), nw.lit(upper, nw.Float64)
    inside = nw.when(value > upper).then(high).otherwise(value)
    return nw.when(value < lower).then(low).otherwise(inside)


def whole_quotient(dividend: nw.Expr, divisor: int, engine: nw.Implementation) -> nw.Expr:
    """Return the whole number of times that a divisor is in a number from 0 up to 2**62.

    Ibis divides floats, which is off by one at most: the rest tells.
    """
    if not engine.is_ibis():
        return dividend // divisor
    near = (dividend.cast(nw.Float64) / float(divisor)).floor().cast(nw.Int64)
    rest = dividend - near * divisor
    more = nw.when(rest >= divisor).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return near + nw.when(rest < 0).then(nw.lit(-1, nw.Int64)).otherwise(more)


def clipped_value(
    column: str, largest: float, *, floating: bool, engine: nw.Implementation
) -> nw.Expr:
    """Return each row's number, of size at most `largest`; NULL where it holds no value."""
    value = nw.col(column).cast(nw.Float64)
    if engine.is_polars():
        kept = nw.when(~value.is_nan()).then(value) if floating else value
        return kept.clip(-largest, largest)
    if engine.is_ibis():
        return _clipped(column, -largest, largest)
    if engine.is_spark_like():  # its division looks at the sign of what it divides, twice
        number = ~value.is_nan() if floating else ~value.is_null()
        return nw.when(number).then(value.clip(-largest, largest))
    inside = (value >= -largest) & (value <= largest)
    end = nw.when(value > 0).then(nw.lit(largest)).otherwise(nw.lit(-largest))
    if floating:
        inside = value.is_finite() & inside
        end = nw.when(is_number(value)).then(end)
    else:
        end = nw.when(~value.is_null()).then(end)
    return nw.when(inside).then(value).otherwise(end)


def polars_shifted_integers(column: str, grid: Grid, *, floating: bool) -> pl.Expr:
    """Return the same integers plus POLARS_SHIFT, in as few steps a row as polars can take.

    To polars NaN is larger than any number: it goes to the upper end, and is taken out at last.
    """
    value = pl.col(column).cast(pl.Float64)
    clipped = (
        pl.when(value < grid.lower)
        .then(grid.lower)
        .when(value > grid.upper)
        .then(grid.upper)
        .otherwise(value)
    )
    whole = (clipped - grid.origin) // grid.step
    if _READS_BITS:
        shifted: pl.Expr = (whole + _MAGIC).reinterpret(dtype=pl.Int64)
    else:
        shifted = whole.cast(pl.Int64, wrap_numerical=True)
    return pl.when(value.is_not_nan()).then(shifted) if floating else shifted


_MAGIC = 1.5 * 2.0**52  # this plus an integer below 2**51 holds that integer in its low bits
_READS_BITS = "dtype" in inspect.signature(pl.Expr.reinterpret).parameters  # polars 2
POLARS_SHIFT = struct.unpack("<q", struct.pack("<d", _MAGIC))[0] if _READS_BITS else 0
"""The bits of the magic number: cheaper to take from a sum, times the rows, than from each row.

Sums of shifted integers wrap around 2**64, as polars' sums and products do; without the shift they
are below 2**63, so that what is left after it is taken out is exact.
"""
