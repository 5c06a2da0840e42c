"""Check that a column's declared dtype allows a question, and read its numbers row by row.

Every expression looks at one row only. NULL and NaN become NULL. NaN is named before it is
compared with anything, because engines disagree on how it compares.
"""

from __future__ import annotations

from collections.abc import Hashable

import narwhals as nw
from narwhals.dtypes import DType

from dfprivacy.errors import InvalidBoundsError, InvalidQuestionError, UnsupportedDtypeError
from dfprivacy.measurement.linear import Above, OnGrid

_EXACT_INTEGERS = 2**53  # beyond, an integer column and its float twin could differ


def check_term_column(label: Hashable, dtype: DType, leaf: object) -> None:
    """Refuse a column that a term can't be made of, by its declared dtype alone."""
    if not isinstance(leaf, OnGrid | Above):
        return
    check_number_column(label, dtype)
    if isinstance(leaf, Above):  # a step beyond a bound perhaps, which is looked at itself
        ends: tuple[float, ...] = (leaf.threshold / 2,)
    else:
        ends = (leaf.grid.lower, leaf.grid.upper)
    if dtype.is_integer() and max(map(abs, ends)) > _EXACT_INTEGERS:
        raise InvalidBoundsError(
            f"bounds of the integer column {label!r} must lie within -2**53 and 2**53",
            hint="pass tighter bounds, or convert the column to float",
        )


def check_number_column(label: Hashable, dtype: DType) -> None:
    """Refuse a column that holds no numbers, by its declared dtype alone."""
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise no_numbers(label, dtype)


def no_numbers(label: object, declared: object) -> UnsupportedDtypeError:
    """Return the error for a column whose declared type holds no numbers."""
    return UnsupportedDtypeError(
        f"column {label!r} is declared {declared}, which holds no numbers",
        hint="convert it to an integer, float, decimal or boolean column first",
    )


def no_value_of(label: object, declared: object, constant: object) -> InvalidQuestionError:
    """Return the error for a constant that a column of this declared type can't hold."""
    return InvalidQuestionError(
        f"column {label!r} is declared {declared}, and {constant!r} is no value of it",
        hint="name a constant of the column's own type: value='JFK', value=3",
    )


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


def clipped_value(column: str, largest: float, dtype: DType, engine: nw.Implementation) -> nw.Expr:
    """Return each row's number, of size at most `largest`; NULL where it holds no value."""
    value, floating = nw.col(column).cast(nw.Float64), dtype.is_float()
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
