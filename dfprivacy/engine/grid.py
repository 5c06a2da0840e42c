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


def grid_integers(column: str, grid: Grid, *, floating: bool) -> nw.Expr:
    """Return each row's integer on the grid, NULL where it holds no value."""
    value = nw.col(column).cast(nw.Float64)
    inside = (value >= grid.lower) & (value <= grid.upper)
    above, below = value > grid.upper, value < grid.lower
    if floating:
        inside = value.is_finite() & inside
        above, below = above & is_number(value), below & is_number(value)
    scaled = ((value - grid.origin) * grid.inverse_step).floor().cast(nw.Int64)
    at_last = nw.when(above).then(nw.lit(grid.last, nw.Int64))
    at_first = nw.when(below).then(nw.lit(grid.first, nw.Int64))
    return nw.when(inside).then(scaled).otherwise(at_first.otherwise(at_last))


def clipped_value(
    column: str, largest: float, *, floating: bool, engine: nw.Implementation
) -> nw.Expr:
    """Return each row's number, of size at most `largest`; NULL where it holds no value."""
    value = nw.col(column).cast(nw.Float64)
    if engine.is_polars():
        kept = nw.when(~value.is_nan()).then(value) if floating else value
        return kept.clip(-largest, largest)
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


def polars_grid_integers(column: str, grid: Grid, *, floating: bool) -> pl.Expr:
    """Return the same integers in polars' own terms, in half the time of its checked cast."""
    value = pl.col(column).cast(pl.Float64)
    if floating:
        value = value.fill_nan(None)
    clipped = (
        pl.when(value < grid.lower)
        .then(grid.lower)
        .when(value > grid.upper)
        .then(grid.upper)
        .otherwise(value)
    )
    return _polars_int64(((clipped - grid.origin) * grid.inverse_step).floor())


_MAGIC = 1.5 * 2.0**52  # this plus an integer below 2**51 holds that integer in its low bits
_MAGIC_BITS = struct.unpack("<q", struct.pack("<d", _MAGIC))[0]
_READS_BITS = "dtype" in inspect.signature(pl.Expr.reinterpret).parameters  # polars 2


def _polars_int64(whole: pl.Expr) -> pl.Expr:
    """Return whole floats below 2**51 as integers; nothing can wrap or be lost."""
    if _READS_BITS:
        bits: pl.Expr = (whole + _MAGIC).reinterpret(dtype=pl.Int64)
        return bits.sub(_MAGIC_BITS)
    return whole.cast(pl.Int64, wrap_numerical=True)
