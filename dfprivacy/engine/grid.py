"""Tell numbers from NaN and clip them, as narwhals expressions for every engine.

Every expression looks at one row only. NULL and NaN become NULL. NaN is named before it
is compared with anything, because engines disagree on how it compares.
"""

from __future__ import annotations

import narwhals as nw


def is_number(value: nw.Expr) -> nw.Expr:
    """Tell a number, finite or not, from NaN, by tests that no engine answers beforehand.

    DuckDB knows a Parquet column by the file's minimum and maximum, which leave NaN out. From them
    it concludes that x <= upper, or that x is no NaN, for all rows of a file, NaN included: one
    row more or less could then change what all others add. It looks at each row for isfinite, and
    the inverse of an infinite number is finite, while that of NaN is not.
    """
    return value.is_finite() | (1.0 / value).is_finite()


def clipped_to(column: str, lower: float, upper: float) -> nw.Expr:
    """Return each row's number, clipped; NULL stays NULL."""
    value = nw.col(column).cast(nw.Float64)
    low, high = nw.lit(lower, nw.Float64), nw.lit(upper, nw.Float64)
    inside = nw.when(value > upper).then(high).otherwise(value)
    return nw.when(value < lower).then(low).otherwise(inside)


def clipped_value(
    column: str, largest: float, *, floating: bool, engine: nw.Implementation
) -> nw.Expr:
    """Return each row's number, of size at most `largest`; NULL where it holds no value."""
    value = nw.col(column).cast(nw.Float64)
    if engine.is_polars():
        kept = nw.when(~value.is_nan()).then(value) if floating else value
        return kept.clip(-largest, largest)
    if engine.is_ibis():
        return clipped_to(column, -largest, largest)
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
