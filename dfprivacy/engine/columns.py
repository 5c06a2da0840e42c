"""What a declared dtype allows: which columns can be aggregated, grouped, and how."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import narwhals as nw
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.grid import is_number
from dfprivacy.engine.units import UNIT
from dfprivacy.errors import InvalidBoundsError, UnsupportedDtypeError
from dfprivacy.measurement.linear import Above, OnGrid
from dfprivacy.measurement.sums import key_name

_EXACT_INTEGERS = 2**53  # beyond, an integer column and its float twin could differ
_TEXT_LIKE = (nw.Categorical, nw.Enum)
_KEY_DTYPES = (nw.String, nw.Boolean, nw.Date, nw.Datetime, nw.Duration, nw.Time, nw.Binary)


def check_term_column(label: Hashable, dtype: DType, leaf: object) -> None:
    """Refuse a column that a term can't be made of, by its declared dtype alone."""
    if not isinstance(leaf, OnGrid | Above):
        return
    check_number_column(label, dtype)
    ends = (leaf.threshold,) if isinstance(leaf, Above) else (leaf.grid.lower, leaf.grid.upper)
    if dtype.is_integer() and max(map(abs, ends)) > _EXACT_INTEGERS:
        raise InvalidBoundsError(
            f"bounds of the integer column {label!r} must lie within -2**53 and 2**53",
            hint="pass tighter bounds, or convert the column to float",
        )


def check_number_column(label: Hashable, dtype: DType) -> None:
    """Refuse a column that holds no numbers, by its declared dtype alone."""
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {dtype}, which holds no numbers",
            hint="convert it to an integer, float, decimal or boolean column first",
        )


def key_expressions(adopted: Adopted, labels: Sequence[Hashable]) -> list[nw.Expr]:
    """Return group keys under `key_name`; with a unit also the marks of keys, and `UNIT` last."""
    schema, engine = adopted.lazy.collect_schema(), adopted.lazy.implementation
    keys = [
        key_expression(name, label, schema[name], engine).alias(key_name(index))
        for index, (label, name) in enumerate(zip(labels, adopted.keys, strict=True))
    ]
    if adopted.unit is None:
        return keys
    unit = adopted.unit
    own = key_expression(unit.name, unit.label, schema[unit.name], engine).alias(UNIT)
    return [*keys, *map(nw.col, unit.marks), own]


def key_expression(name: str, label: Hashable, dtype: DType, engine: nw.Implementation) -> nw.Expr:
    """Return a key column in the form it is grouped by.

    NULL and NaN are one group; -0.0 is 0.0; categories become their text. Keys that are equal
    must look equal too, or one row could choose how a group of others is shown: therefore no
    intervals of DuckDB, where 30 days equal a month. Nor its UHUGEINT, the largest of which come
    out of it as negative numbers, in another order than its own.
    """
    key = nw.col(name)
    if dtype.is_float():  # not key + 0.0, of which polars leaves -0.0 as it is
        unsigned = nw.when(key == 0.0).then(nw.lit(0.0)).otherwise(key).cast(dtype)
        if engine.is_ibis():  # NaN has become NULL when the table was adopted
            return unsigned
        return nw.when(is_number(key)).then(unsigned)
    if dtype == nw.Duration and engine.is_duckdb():
        raise UnsupportedDtypeError(
            f"column {label!r} is declared an interval, which can't be grouped by in DuckDB",
            hint="group by a number, e.g. epoch(column)",
        )
    if dtype == nw.UInt128 and engine.is_duckdb():
        raise UnsupportedDtypeError(
            f"column {label!r} is declared UHUGEINT, which can't be grouped by in DuckDB",
            hint="group by its text: CAST(column AS VARCHAR)",
        )
    if dtype in _TEXT_LIKE:
        return key.cast(nw.String)
    if dtype.is_integer() or dtype.is_decimal() or dtype in _KEY_DTYPES:
        return key
    raise UnsupportedDtypeError(
        f"column {label!r} is declared {dtype}, which can't be grouped by",
        hint="group by text, numbers, booleans, dates or times",
    )
